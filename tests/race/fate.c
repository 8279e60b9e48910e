// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How lives of links begin and end. */
#include "race.h"

/* --- beginning --- */

static int cmp_box(const void *a, const void *b)
{
	const struct cqbox *x = *(struct cqbox *const *)a, *y = *(struct cqbox *const *)b;

	return x < y ? -1 : x > y;
}

/* All CQs of @n ends, each once, in order of address. */
static int lock_boxes(struct end **e, int n, struct cqbox **b)
{
	int k = 0, i;

	for (i = 0; i < n; i++) {
		b[k++] = e[i]->scq;
		b[k++] = e[i]->rcq;
	}
	qsort(b, k, sizeof(*b), cmp_box);
	for (i = 1, n = 1; i < k; i++)
		if (b[i] != b[n - 1])
			b[n++] = b[i];
	for (i = 0; i < n; i++)
		pthread_rwlock_wrlock(&b[i]->lock);
	return n;
}

static void unlock_boxes(struct cqbox **b, int n)
{
	while (n--)
		pthread_rwlock_unlock(&b[n]->lock);
}

static const unsigned int section_access[S_NUM] = {
	[S_SEND] = 0,
	[S_RECV] = ACC_LOCAL,
	[S_TARGET] = ACC_LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND,
	[S_SOURCE] = IBV_ACCESS_REMOTE_READ,
	[S_RESULT] = ACC_LOCAL,
	[S_WORD] = ACC_ALL,
};

static bool prepare_memory(struct end *e)
{
	static const uint32_t slots[S_NUM] = { SQ, RQ, TARGETS, 4, SQ, 1 };
	int s;

	for (s = 0; s < S_NUM; s++) {
		size_t len = s == S_WORD ? 4096 : (size_t)slots[s] * slot_size;

		if (!e->sec[s])
			e->sec[s] = buf_new(&ct_dev[e->d], len, section_access[s]);
		if (!e->sec[s]->mr)
			e->sec[s]->mr = ibv_reg_mr(ct_dev[e->d].pd, e->sec[s]->p, len,
						   section_access[s]);
		if (!e->sec[s]->mr) {
			race_fail(P_LIVE, "reg_mr: %s", strerror(errno));
			return false;
		}
		buf_guards(e->sec[s]);
		e->lkey[s] = e->sec[s]->mr->lkey;
		e->rkey[s] = e->sec[s]->mr->rkey;
		poison(e->sec[s]->p, len);
	}
	pat_fill(e->sec[S_SOURCE]->p, e->sec[S_SOURCE]->len, source_seed(e->link), 0);
	memset(e->sec[S_WORD]->p, 0, 16);
	return true;
}

static void clear_books(struct end *e)
{
	int i;

	e->sq_head = e->sq_tail = rnd(1000);
	e->rq_head = e->rq_next = 0;
	e->last_seq = e->first_bad = ~0u;
	e->faa = e->cas = 0;
	e->marks = 0;
	e->dirty = false;
	for (i = 0; i < RQ; i++)
		e->recv[i].state = R_IDLE;
	memset(e->out.w, 0, sizeof(e->out.w));
	memset(e->out.m, 0, sizeof(e->out.m));
	e->out.msgs = 0;
	e->out.dirty = false;
}

static void make_qp(struct end *e)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->scq->cq,
		.recv_cq = e->rcq->cq,
		.cap = { .max_send_wr = SQ + 2, .max_recv_wr = RQ + 1, .max_send_sge = 3,
			 .max_recv_sge = 1, .max_inline_data = INLINE_MAX },
		.qp_type = IBV_QPT_RC,
	};

	if (e->qp || !e->scq->cq || !e->rcq->cq)
		return;
	e->qp = ibv_create_qp(ct_dev[e->d].pd, &a);
	if (!e->qp)
		race_fail(P_LIVE, "create_qp: %s", strerror(errno));
}

static void connect_qps(struct link *l)
{
	struct conn c = { .o = conn_defaults() };
	int i;

	for (i = 0; i < 2; i++) {
		c.qp[i] = l->end[i].qp;
		c.o.dev[i] = &ct_dev[l->end[i].d];
	}
	c.o.timeout = rnd_in(17, 19);
	c.o.rd_atomic = rnd_in(1, 16);
	c.o.dest_rd_atomic = 16;
	c.o.min_rnr = rnd_in(1, 14);
	conn_up(&c);	/* leaves by ct_fail_at() */
}

/* Of a request about the window; anything but success while undisturbed is a failure. */
static bool ctrl_ends(struct end *e, const char *what)
{
	uint64_t until = ct_now_ns() + WAIT_S * 1000000000ull;
	bool done, ok;

	do {
		nap_us(100);
		pthread_mutex_lock(&e->acct);
		done = e->ctrl_done;
		ok = e->ctrl == IBV_WC_SUCCESS;
		pthread_mutex_unlock(&e->acct);
	} while (!done && !ct_stop && ct_now_ns() < until);
	if (!done && !ct_stop)
		race_fail(P_COMP, "%s does not complete", what);
	else if (!ok && !load(e->link->disturbed))
		race_fail(P_LIVE, "%s ends with \"%s\"", what, ibv_wc_status_str(e->ctrl));
	return done && ok;
}

/* The peer's WRITEs go through a window of type 2 in every other life, where there are any. */
static void open_window(struct end *e)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	if (!(ct_dev[e->d].attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) || rnd(2))
		return;
	e->mw = ibv_alloc_mw(ct_dev[e->d].pd, IBV_MW_TYPE_2);
	if (!e->mw) {
		race_fail(P_LIVE, "alloc_mw: %s", strerror(errno));
		return;
	}
	wr.bind_mw.mw = e->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(e->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = e->sec[S_TARGET]->mr,
		.addr = (uintptr_t)e->sec[S_TARGET]->p,
		.length = e->sec[S_TARGET]->len,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	if (post_ctrl(e, &wr) || !ctrl_ends(e, "BIND_MW")) {
		race_fail(P_LIVE, "window is not bound");
		return;
	}
	e->mw->rkey = wr.bind_mw.rkey;
	e->rkey[S_TARGET] = e->mw->rkey;
}

static void close_window(struct end *e)
{
	int err = e->mw ? ibv_dealloc_mw(e->mw) : 0;

	if (err)
		race_fail(P_LIVE, "dealloc_mw: %s", strerror(err));
	e->mw = NULL;
}

void link_begin(struct link *l)
{
	bool up = true;
	struct end *e[2] = { &l->end[0], &l->end[1] };
	struct cqbox *b[4];
	int n, i;

	race_doing("beginning of life %u of link %d", l->life + 1, l->number);
	for (i = 0; i < 2; i++)
		pthread_mutex_lock(&e[i]->post);
	n = lock_boxes(e, 2, b);
	l->life++;
	for (i = 0; i < 2; i++) {
		if (l->own_cq && !e[i]->scq->cq)
			box_open(e[i]->scq, 256);
		pthread_mutex_lock(&e[i]->acct);
		pthread_mutex_lock(&e[i]->out.lock);
		pthread_mutex_lock(&peer_of(e[i])->out.lock);
		clear_books(e[i]);
		up &= prepare_memory(e[i]);
		pthread_mutex_unlock(&peer_of(e[i])->out.lock);
		pthread_mutex_unlock(&e[i]->out.lock);
		pthread_mutex_unlock(&e[i]->acct);
		make_qp(e[i]);
		e[i]->qpn = e[i]->qp ? e[i]->qp->qp_num : 0;
	}
	up &= e[0]->qp && e[1]->qp;
	if (up) {
		connect_qps(l);
		store(l->dereg, false);
		store(l->disturbed, false);
	}
	unlock_boxes(b, n);
	if (up && pollers) {
		open_window(e[0]);
		open_window(e[1]);
	}
	e[0]->open = e[1]->open = up;
	for (i = 0; i < 2; i++)
		pthread_mutex_unlock(&e[i]->post);
}

/* --- single steps --- */

static int to_state(struct end *e, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = { .qp_state = s };

	return ibv_modify_qp(e->qp, &a, IBV_QP_STATE);
}

static void close_end(struct end *e)
{
	pthread_mutex_lock(&e->post);
	e->open = false;
	pthread_mutex_unlock(&e->post);
}

/* Posters and pollers know nothing of it. */
static void destroy_qp(struct end *e)
{
	struct cqbox *b[2];
	struct ibv_qp *qp = e->qp;
	int err, n;

	close_end(e);
	err = PERSIST(ibv_destroy_qp(qp));
	if (err)
		race_fail(P_LIVE, "destroy_qp: %s", strerror(err));
	n = lock_boxes(&e, 1, b);
	e->qp = NULL;
	e->qpn = 0;
	unlock_boxes(b, n);
}

/*
 * From now on nothing may be written to these sections. Whoever holds a polled
 * completion has looked at the memory before it is filled, or never will.
 */
static void silence(struct end *e, unsigned int sections, const char *after)
{
	struct dir *in = &peer_of(e)->out;
	struct cqbox *b[2];
	int n, s;

	n = lock_boxes(&e, 1, b);
	pthread_mutex_lock(&e->acct);
	pthread_mutex_lock(&in->lock);
	e->dirty = in->dirty = true;
	for (s = 0; s < S_NUM; s++)
		if (sections & 1u << s)
			memset(e->sec[s]->p, FILL, e->sec[s]->len);
	pthread_mutex_unlock(&in->lock);
	pthread_mutex_unlock(&e->acct);
	unlock_boxes(b, n);

	nap_us(rnd(4) ? rnd(3000) : rnd(40000));
	for (s = 0; s < S_NUM; s++) {
		if (!(sections & 1u << s))
			continue;
		race_count(P_SILENCE);
		if (!filled(e->sec[s]->p, e->sec[s]->len, FILL))
			race_fail(P_SILENCE, "link %d end %d: section %d was written after %s",
				  e->link->number, e->idx, s, after);
	}
}

#define INBOUND (1u << S_RECV | 1u << S_TARGET | 1u << S_RESULT | 1u << S_WORD)

/* --- fates --- */

static void *err_thread(void *arg)
{
	struct end *e = arg;

	if (e->qp)
		to_state(e, IBV_QPS_ERR);
	return NULL;
}

static void *reset_thread(void *arg)
{
	to_state(arg, IBV_QPS_RESET);
	return NULL;
}

static void *query_thread(void *arg)
{
	struct end *e = arg;
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;
	int i;

	for (i = 0; i < 20; i++)
		ibv_query_qp(e->qp, &a, IBV_QP_STATE, &ia);
	return NULL;
}

/* @fn in another thread while @s is done here. */
static void both(struct end *e, enum ibv_qp_state s, void *(*fn)(void *), struct end *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, fn, arg))
		return;
	if (rnd(2))
		nap_us(rnd(200));
	to_state(e, s);
	pthread_join(t, NULL);
}

static void fate_err(struct end *e)
{
	int err = to_state(e, IBV_QPS_ERR);

	if (err)
		race_fail(P_LIVE, "modify to ERR: %s", strerror(err));
	silence(e, INBOUND, "modify to ERR");
}

static void fate_reset(struct end *e)
{
	int err = to_state(e, IBV_QPS_RESET);

	if (err)
		race_fail(P_LIVE, "modify to RESET: %s", strerror(err));
	silence(e, INBOUND, "modify to RESET");
}

static void fate_destroy(struct end *e)
{
	destroy_qp(e);
	silence(e, INBOUND, "destroy");
}

static void fate_err_twice(struct end *e)
{
	both(e, IBV_QPS_ERR, err_thread, e);
	silence(e, INBOUND, "two modifies to ERR");
}

static void fate_err_reset(struct end *e)
{
	both(e, IBV_QPS_ERR, reset_thread, e);
	silence(e, INBOUND, "modifies to ERR and RESET");
}

static void fate_both_ends(struct end *e)
{
	both(e, IBV_QPS_ERR, err_thread, peer_of(e));
	silence(e, INBOUND, "both ends' modify to ERR");
}

static void fate_err_query(struct end *e)
{
	both(e, IBV_QPS_ERR, query_thread, e);
	silence(e, INBOUND, "modify to ERR during queries");
}

/* Out of force by a request of the window's owner, or with the window itself. */
static void invalidate_window(struct end *e)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = e->mw->rkey };

	if (rnd(2)) {
		close_window(e);
		silence(e, 1u << S_TARGET, "dealloc_mw");
		return;
	}
	/* The QP may be dead by now. */
	if (!post_ctrl(e, &wr) && ctrl_ends(e, "LOCAL_INV"))
		silence(e, 1u << S_TARGET, "LOCAL_INV");
}

/* The MR goes on, but with other memory. Return: false if the device can't. */
static bool move_mr(struct end *e, enum section s)
{
	struct buf *b = e->sec[s];
	int err;

	if (!e->other || e->other->len < b->len)
		e->other = buf_new(&ct_dev[e->d], (SQ + RQ) * (size_t)slot_size, ACC_LOCAL);
	err = ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->other->p, b->len, 0);
	if (err && errno == EOPNOTSUPP)
		return false;
	if (err)
		race_fail(P_LIVE, "rereg_mr: %d, %s", err, strerror(errno));
	silence(e, 1u << s, "rereg_mr");
	buf_dereg(b);
	return true;
}

/* Memory goes while the QP lives. What its owner does with it then must not be seen by the peer. */
static void fate_dereg(struct end *e)
{
	static const enum section some[] = { S_SEND, S_RECV, S_TARGET, S_SOURCE, S_RESULT, S_WORD };
	enum section s = some[rnd(ARRAY_SIZE(some))];

	store(e->link->dereg, true);
	race_doing("dereg of section %d, link %d end %d", s, e->link->number, e->idx);
	if (s == S_TARGET && e->mw) {
		invalidate_window(e);
		fate_err(e);
		return;
	}
	if (s != S_SEND && s != S_SOURCE && !rnd(3) && move_mr(e, s)) {
		fate_err(e);
		return;
	}
	buf_dereg(e->sec[s]);
	if (s == S_SEND || s == S_SOURCE) {
		memset(e->sec[s]->p, FILL, e->sec[s]->len);
		nap_us(rnd(10000));
	} else {
		silence(e, 1u << s, "dereg_mr");
	}
	fate_err(e);
}

static const struct fate {
	const char *name;
	void (*fn)(struct end *e);
	bool resets;	/* what was posted need not complete */
} fates[] = {
	{ "err", fate_err, false },
	{ "reset", fate_reset, true },
	{ "destroy", fate_destroy, true },
	{ "dereg", fate_dereg, false },
	{ "errerr", fate_err_twice, false },
	{ "errreset", fate_err_reset, true },
	{ "ends", fate_both_ends, false },
	{ "query", fate_err_query, false },
};

static bool off[ARRAY_SIZE(fates)];
static unsigned long done[ARRAY_SIZE(fates)], drains, pauses;

/* Only the fates of a list "a,b,c". */
bool fate_only(const char *list)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fates); i++) {
		const char *p = strstr(list, fates[i].name);
		size_t n = strlen(fates[i].name);

		while (p && !((p == list || p[-1] == ',') && (!p[n] || p[n] == ',')))
			p = strstr(p + 1, fates[i].name);
		off[i] = !p;
		any |= !!p;
	}
	return any;
}

void fate_report(void)
{
	char text[256] = "";
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fates); i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s %lu",
			 fates[i].name, done[i]);
	ct_diag("ends of lives:%s; drained after ERR %lu, paused %lu", text, drains, pauses);
}

static unsigned int pick_fate(void)
{
	unsigned int i;

	do
		i = rnd(ARRAY_SIZE(fates));
	while (off[i]);
	return i;
}

/* RTS -> SQD -> RTS and a change of an attribute: nothing may be lost. */
static void pause_end(struct end *e)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = rnd_in(1, 14) };
	int err;

	__atomic_fetch_add(&pauses, 1, __ATOMIC_RELAXED);
	err = to_state(e, IBV_QPS_SQD);
	nap_us(rnd(2000));
	err = err ? err : to_state(e, IBV_QPS_RTS);
	err = err ? err : ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
	if (err && !load(e->link->disturbed))
		race_fail(P_LIVE, "SQD and back: %s", strerror(err));
}

/* The QP is in ERR and was never reset: marks behind all that was posted come back flushed. */
static void drain(struct end *e)
{
	uint64_t until = ct_now_ns() + WAIT_S * 1000000000ull;
	struct cqbox *b[2];
	unsigned int marks;
	int have = 0, n;

	__atomic_fetch_add(&drains, 1, __ATOMIC_RELAXED);
	do {
		have = post_marks(e, have);
		nap_us(200);
		pthread_mutex_lock(&e->acct);
		marks = e->marks;
		pthread_mutex_unlock(&e->acct);
		if (ct_stop)
			return;
	} while (marks < 2 && ct_now_ns() < until);
	if (marks < 2) {
		race_fail(P_COMP, "link %d end %d: posted in ERR %x, flushed %u of 2",
			  e->link->number, e->idx, have, marks);
		return;
	}
	n = lock_boxes(&e, 1, b);
	check_drained(e);
	unlock_boxes(b, n);
}

/* No completion may come any more, and none is on its way in a poller's hands. */
static void bury(struct end *e, bool was_reset)
{
	struct cqbox *b[2];
	int err, n;

	race_doing("burying link %d end %d", e->link->number, e->idx);
	close_end(e);
	if (e->qp && !was_reset)
		drain(e);
	close_window(e);
	if (e->qp && rnd(2)) {
		err = to_state(e, IBV_QPS_RESET);
		if (err)
			race_fail(P_LIVE, "modify to RESET: %s", strerror(err));
	} else if (e->qp) {
		destroy_qp(e);
	}
	n = lock_boxes(&e, 1, b);
	e->qpn = 0;	/* as if no completion could be of this QP */
	if (!e->qp && e->link->own_cq && e->scq->cq) {
		err = PERSIST(ibv_destroy_cq(e->scq->cq));
		if (err)
			race_fail(P_LIVE, "destroy_cq: %s", strerror(err));
		e->scq->cq = NULL;
	}
	unlock_boxes(b, n);
}

static bool suffer(struct end *e)
{
	unsigned int f = pick_fate();

	race_doing("%s of link %d end %d life %u", fates[f].name, e->link->number, e->idx,
		   e->link->life);
	fates[f].fn(e);
	__atomic_fetch_add(&done[f], 1, __ATOMIC_RELAXED);
	return fates[f].resets;
}

/* busy held. */
void link_fate(struct link *l)
{
	int first = rnd(2), i;
	bool reset[2];

	if (!l->end[0].open || !l->end[1].open)	/* it could not begin: the device is gone */
		return;
	if (!rnd(3)) {
		race_doing("pause of link %d", l->number);
		pause_end(&l->end[first]);
		return;
	}
	store(l->disturbed, true);
	for (i = 0; i < 2 && !ct_stop; i++) {
		struct end *e = &l->end[first ^ i];

		reset[first ^ i] = suffer(e);
		if (!rnd(3))
			nap_us(rnd(5000));
	}
	for (i = 0; i < 2 && !ct_stop; i++)
		bury(&l->end[i], reset[i]);
	if (!ct_stop)
		link_begin(l);
}
