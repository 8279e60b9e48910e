// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What is posted, what comes of it, and the books between the two. */
#include "race.h"

enum { CHAIN = 3, PIECES = 3 };

enum id_kind { ID_SEND = 1, ID_RECV, ID_MARK_SEND, ID_MARK_RECV, ID_CTRL };

static uint64_t id_make(enum id_kind kind, const struct end *e, uint32_t seq)
{
	return (uint64_t)kind << 60 | (uint64_t)e->link->number << 52 | (uint64_t)e->idx << 51 |
	       (uint64_t)(e->link->life & 0x7ffff) << 32 | seq;
}

/* --- receives --- */

void post_recvs(struct end *e)
{
	uint32_t n = 1 + rnd(4);

	while (n--) {
		uint32_t seq = e->rq_head, s = seq % RQ;
		struct recv *r = &e->recv[s];
		struct ibv_sge sge = { (uintptr_t)slot_of(e, S_RECV, s), slot_size,
				       e->lkey[S_RECV] };
		struct ibv_recv_wr wr = { .wr_id = id_make(ID_RECV, e, seq), .sg_list = &sge,
					  .num_sge = 1 }, *bad;
		int err;

		pthread_mutex_lock(&e->acct);
		if (r->state != R_IDLE) {
			pthread_mutex_unlock(&e->acct);
			return;
		}
		if (!e->dirty) {
			race_count(P_ONCE);
			if (!load(e->link->disturbed) &&
			    !filled(slot_of(e, S_RECV, s), slot_size, POISON))
				race_fail(P_ONCE, "receive slot %u changed after its completion",
					  s);
		}
		r->state = R_POSTED;
		r->seq = seq;
		pthread_mutex_unlock(&e->acct);

		err = ibv_post_recv(e->qp, &wr, &bad);
		if (err) {
			pthread_mutex_lock(&e->acct);
			r->state = R_IDLE;
			pthread_mutex_unlock(&e->acct);
			if (!load(e->link->disturbed))
				race_fail(P_LIVE, "post_recv: %s", strerror(err));
			return;
		}
		e->rq_head++;
	}
}

/* --- sends --- */

static enum ibv_wr_opcode pick_op(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	return ops[rnd(ARRAY_SIZE(ops))];
}

static uint32_t pick_len(void)
{
	switch (rnd(8)) {
	case 0:
		return 1 + rnd(8);
	case 1:
		return 1 + rnd(INLINE_MAX);
	case 2:
		return 1 + rnd(slot_size);
	default:
		return 1 + rnd(min_t(uint32_t, 3500, slot_size));
	}
}

/* The last byte differs from whatever memory may hold before. */
static uint64_t pick_seed(uint32_t len)
{
	uint64_t seed;
	uint8_t last;

	do {
		seed = rnd64();
		last = len ? pat_byte(seed, len - 1) : 0;
	} while (last == POISON || last == FILL || last == USED);
	return seed;
}

static bool is_msg(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_write(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A target slot for a WRITE; out.lock held. -1: none is free. */
static int take_target(struct end *e, struct wr *w, uint32_t pos)
{
	struct end *p = peer_of(e);
	uint32_t first = rnd(TARGETS), i;

	for (i = 0; i < TARGETS; i++) {
		uint32_t n = (first + i) % TARGETS;
		struct write *t = &e->out.w[n];

		if (t->busy)
			continue;
		if (!e->out.dirty) {
			race_count(P_ONCE);
			if (!filled(slot_of(p, S_TARGET, n), slot_size, POISON))
				race_fail(P_ONCE, "target slot %u changed after its WRITE was seen",
					  n);
		}
		t->off = w->len < slot_size ? rnd(min_t(uint32_t, 16, slot_size - w->len)) : 0;
		t->len = w->len;
		t->seed = w->seed;
		t->pos = pos;
		t->busy = true;
		return n;
	}
	return -1;
}

static bool take_places(struct end *e, struct wr *w, uint32_t pos)
{
	struct msg *m = &e->out.m[e->out.msgs % MSGS];
	bool ok = true;

	pthread_mutex_lock(&e->out.lock);
	if (is_msg(w->op) && m->busy)
		ok = false;
	if (ok && is_write(w->op)) {
		w->target = take_target(e, w, pos);
		ok = w->target >= 0;
	}
	if (ok && is_msg(w->op)) {
		*m = (struct msg){
			.busy = true,
			.send = !is_write(w->op),
			.imm = is_imm(w->op),
			.pos = pos,
			.len = w->len,
			.imm_data = (uint32_t)w->seed,
			.seed = w->seed,
		};
		e->out.msgs++;
	}
	pthread_mutex_unlock(&e->out.lock);
	return ok;
}

/* The newest request was refused. */
static void give_back(struct end *e)
{
	struct wr *w = &e->wr[(e->sq_head - 1) % SQ];

	pthread_mutex_lock(&e->acct);
	pthread_mutex_lock(&e->out.lock);
	if (is_msg(w->op))
		e->out.m[--e->out.msgs % MSGS].busy = false;
	if (is_write(w->op))
		e->out.w[w->target].busy = false;
	pthread_mutex_unlock(&e->out.lock);
	if (w->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		e->faa--;
	else if (w->op == IBV_WR_ATOMIC_CMP_AND_SWP)
		e->cas--;
	e->sq_head--;
	pthread_mutex_unlock(&e->acct);
}

/* One contiguous range in up to PIECES elements. */
static int split(struct ibv_sge *sge, uint8_t *p, uint32_t len, uint32_t lkey)
{
	int n = 0;

	while (len) {
		uint32_t part = n == PIECES - 1 || rnd(3) ? len : 1 + rnd(len);

		sge[n++] = (struct ibv_sge){ (uintptr_t)p, part, lkey };
		p += part;
		len -= part;
	}
	return n;
}

static void fill_remote(struct end *e, const struct wr *w, struct ibv_send_wr *wr)
{
	struct end *p = peer_of(e);

	if (is_write(w->op)) {
		wr->wr.rdma.remote_addr = buf_va(p->sec[S_TARGET], (size_t)w->target * slot_size +
								   e->out.w[w->target].off);
		wr->wr.rdma.rkey = p->rkey[S_TARGET];
	} else if (w->op == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr = buf_va(p->sec[S_SOURCE], w->off);
		wr->wr.rdma.rkey = p->rkey[S_SOURCE];
	} else if (is_atomic(w->op)) {
		bool cas = w->op == IBV_WR_ATOMIC_CMP_AND_SWP;

		wr->wr.atomic.remote_addr = buf_va(p->sec[S_WORD], cas ? 8 : 0);
		wr->wr.atomic.rkey = p->rkey[S_WORD];
		wr->wr.atomic.compare_add = cas ? w->expect : 1;
		wr->wr.atomic.swap = w->expect + 1;
	}
}

/* The next request into the books, into memory and into @wr. */
static bool make_wr(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge, uint8_t *inl,
		    bool last)
{
	uint32_t pos = e->sq_head, s = pos % SQ;
	struct wr *w = &e->wr[s];
	uint8_t *from = slot_of(e, S_SEND, s);

	pthread_mutex_lock(&e->acct);
	if (pos - e->sq_tail >= SQ) {
		pthread_mutex_unlock(&e->acct);
		return false;
	}
	*w = (struct wr){ .op = last ? IBV_WR_RDMA_WRITE : pick_op(), .target = -1 };
	w->signaled = last || rnd(3) || pos % 8 == 7;
	w->len = is_atomic(w->op) ? 8 : w->op == IBV_WR_SEND && !rnd(32) ? 0 : pick_len();
	w->seed = pick_seed(w->len);
	if (w->op == IBV_WR_RDMA_READ)
		w->off = rnd(4 * slot_size - w->len);
	if (!take_places(e, w, pos)) {
		pthread_mutex_unlock(&e->acct);
		return false;
	}
	if (is_atomic(w->op))
		w->expect = w->op == IBV_WR_ATOMIC_CMP_AND_SWP ? e->cas++ : e->faa++;
	e->sq_head++;
	if ((is_atomic(w->op) || w->op == IBV_WR_RDMA_READ) && !e->dirty &&
	    !load(e->link->disturbed)) {
		race_count(P_ONCE);
		if (!filled(slot_of(e, S_RESULT, s), slot_size, POISON))
			race_fail(P_ONCE, "result slot %u changed after its completion", s);
	}
	pthread_mutex_unlock(&e->acct);

	*wr = (struct ibv_send_wr){ .wr_id = id_make(ID_SEND, e, pos), .sg_list = sge,
				    .opcode = w->op };
	if (w->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (!rnd(4))
		wr->send_flags |= IBV_SEND_SOLICITED;
	if (!rnd(8))
		wr->send_flags |= IBV_SEND_FENCE;
	if (is_imm(w->op))
		wr->imm_data = (uint32_t)w->seed;
	fill_remote(e, w, wr);
	if (is_atomic(w->op) || w->op == IBV_WR_RDMA_READ) {
		wr->num_sge = split(sge, slot_of(e, S_RESULT, s), w->len, e->lkey[S_RESULT]);
		return true;
	}
	if (w->len <= INLINE_MAX && rnd(2)) {
		wr->send_flags |= IBV_SEND_INLINE;
		from = inl;
	}
	pat_fill(from, w->len, w->seed, 0);
	wr->num_sge = split(sge, from, w->len, e->lkey[S_SEND]);
	return true;
}

void post_sends(struct end *e, bool last)
{
	struct ibv_send_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN][PIECES];
	uint8_t inl[CHAIN][INLINE_MAX];
	int n = last ? 1 : 1 + rnd(CHAIN), i, err;

	for (i = 0; i < n; i++) {
		if (!make_wr(e, &wr[i], sge[i], inl[i], last))
			break;
		if (i)
			wr[i - 1].next = &wr[i];
	}
	n = i;
	if (!n)
		return;
	err = ibv_post_send(e->qp, wr, &bad);
	memset(inl, FILL, sizeof(inl));
	if (!err)
		return;
	for (i = n - (bad - wr); i > 0; i--)
		give_back(e);
	if (!load(e->link->disturbed))
		race_fail(P_LIVE, "post_send: %s", strerror(err));
}

int post_marks(struct end *e, int have)
{
	struct ibv_send_wr swr = { .wr_id = id_make(ID_MARK_SEND, e, 0), .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED }, *sbad;
	struct ibv_recv_wr rwr = { .wr_id = id_make(ID_MARK_RECV, e, 0) }, *rbad;

	if (!(have & 1) && !ibv_post_send(e->qp, &swr, &sbad))
		have |= 1;
	if (!(have & 2) && !ibv_post_recv(e->qp, &rwr, &rbad))
		have |= 2;
	return have;
}

int post_ctrl(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	pthread_mutex_lock(&e->acct);
	e->ctrl_done = false;
	pthread_mutex_unlock(&e->acct);
	wr->wr_id = id_make(ID_CTRL, e, 0);
	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(e->qp, wr, &bad);
}

/* --- what arrived --- */

/* A WRITE that must be visible: checked and given back. out.lock held. */
static void check_write(struct end *e, uint32_t n, enum prop why, const char *when)
{
	struct write *t = &e->out.w[n];
	uint8_t *p = slot_of(peer_of(e), S_TARGET, n);

	t->busy = false;
	if (e->out.dirty)
		return;
	race_count(why);
	if (pat_diff(p + t->off, t->len, t->seed, 0) >= 0) {
		race_fail(why, "WRITE %u of %u bytes is not in place at %s (byte %zd)", t->pos,
			  t->len, when, pat_diff(p + t->off, t->len, t->seed, 0));
		return;
	}
	if (!filled(p, t->off, POISON) ||
	    !filled(p + t->off + t->len, slot_size - t->off - t->len, POISON))
		race_fail(P_ONCE, "WRITE %u of %u bytes wrote beside its range", t->pos, t->len);
	poison(p + t->off, t->len);
}

/* All WRITEs up to number @pos. */
static void check_writes(struct end *e, uint32_t pos, enum prop why, const char *when)
{
	uint32_t i;

	for (i = 0; i < TARGETS; i++)
		if (e->out.w[i].busy && (int32_t)(e->out.w[i].pos - pos) <= 0)
			check_write(e, i, why, when);
}

/* The newest WRITE whose last byte has changed: it and all before are there. */
void watch_dir(struct end *e)
{
	struct end *p = peer_of(e);
	int newest = -1, i;

	pthread_mutex_lock(&e->out.lock);
	for (i = 0; i < TARGETS && !e->out.dirty; i++) {
		struct write *t = &e->out.w[i];

		if (!t->busy || READ_ONCE(slot_of(p, S_TARGET, i)[t->off + t->len - 1]) == POISON)
			continue;
		if (newest < 0 || (int32_t)(t->pos - e->out.w[newest].pos) > 0)
			newest = i;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (newest >= 0)
		check_writes(e, e->out.w[newest].pos, P_TAIL, "its last byte or a later one");
	pthread_mutex_unlock(&e->out.lock);
}

static void check_recv_data(struct end *e, uint32_t seq, const struct ibv_wc *wc)
{
	struct end *p = peer_of(e);
	struct msg *m = &p->out.m[seq % MSGS];
	uint8_t *at = slot_of(e, S_RECV, seq % RQ);
	enum ibv_wc_opcode op;

	pthread_mutex_lock(&p->out.lock);
	op = m->send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
	race_count(P_DATA);
	if (!m->busy)
		race_fail(P_COMP, "receive %u completes, but no such message was sent", seq);
	else if (wc->opcode != op || wc->byte_len != m->len ||
		 !(wc->wc_flags & IBV_WC_WITH_IMM) != !m->imm ||
		 (m->imm && wc->imm_data != m->imm_data))
		race_fail(P_COMP, "receive %u: opcode %d, %u bytes, flags %x, immediate %x; sent "
			  "was %d, %u, %x", seq, wc->opcode, wc->byte_len, wc->wc_flags,
			  wc->imm_data, op, m->len, m->imm_data);
	else if (m->send && !e->dirty && pat_diff(at, m->len, m->seed, 0) >= 0)
		race_fail(P_DATA, "receive %u: byte %zd of %u is not there", seq,
			  pat_diff(at, m->len, m->seed, 0), m->len);
	else if (m->send && !e->dirty && !filled(at + m->len, slot_size - m->len, POISON))
		race_fail(P_ONCE, "receive %u: bytes behind the message were written", seq);
	else
		check_writes(p, m->pos, P_DATA, "the completion of a later message");
	m->busy = false;
	if (!e->dirty)
		poison(at, m->send ? m->len : 0);
	pthread_mutex_unlock(&p->out.lock);
}

/* --- completions --- */

static void check_status(struct end *e, const struct ibv_wc *wc, const char *what, uint32_t seq)
{
	struct link *l = e->link;
	bool ok;

	switch (wc->status) {
	case IBV_WC_SUCCESS:
		return;
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
		ok = true;
		break;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
		ok = load(l->dereg);
		break;
	default:
		ok = false;
	}
	if (!ok || !load(l->disturbed))
		race_fail(P_COMP, "%s %u ends with \"%s\", link %sdisturbed%s", what, seq,
			  ibv_wc_status_str(wc->status), load(l->disturbed) ? "" : "un",
			  load(l->dereg) ? " by dereg" : "");
}

static void recv_completion(struct cqbox *b, struct end *e, uint32_t seq,
			    const struct ibv_wc *wc)
{
	struct recv *r = &e->recv[seq % RQ];
	bool mine;

	pthread_mutex_lock(&e->acct);
	mine = r->state == R_POSTED && r->seq == seq;
	if (mine)
		r->state = R_CHECKED;
	if (b->evt && mine && seq != e->rq_next)
		race_fail(P_COMP, "receive %u completes before %u", seq, e->rq_next);
	e->rq_next = seq + 1;
	pthread_mutex_unlock(&e->acct);
	race_count(P_COMP);
	if (!mine) {
		race_fail(P_COMP, "receive %u completes, but is not outstanding", seq);
		return;
	}
	check_status(e, wc, "receive", seq);
	if (wc->status == IBV_WC_SUCCESS)
		check_recv_data(e, seq, wc);
	pthread_mutex_lock(&e->acct);
	r->state = R_IDLE;
	pthread_mutex_unlock(&e->acct);
}

/* A request that was executed; acct held. */
static void finish_wr(struct end *e, uint32_t seq)
{
	struct wr *w = &e->wr[seq % SQ];
	uint8_t *res = slot_of(e, S_RESULT, seq % SQ);
	uint64_t got;

	w->done = true;
	if (is_write(w->op)) {
		pthread_mutex_lock(&e->out.lock);
		if (e->out.w[w->target].busy && e->out.w[w->target].pos == seq)
			check_write(e, w->target, P_DATA, "its own completion");
		pthread_mutex_unlock(&e->out.lock);
	}
	if (w->op == IBV_WR_RDMA_READ && !e->dirty) {
		race_count(P_READ);
		if (pat_diff(res, w->len, source_seed(e->link), w->off) >= 0)
			race_fail(P_READ, "READ %u of %u bytes: byte %zd is 0x%02x", seq, w->len,
				  pat_diff(res, w->len, source_seed(e->link), w->off),
				  res[pat_diff(res, w->len, source_seed(e->link), w->off)]);
		poison(res, w->len);
	} else if (is_atomic(w->op) && !e->dirty) {
		memcpy(&got, res, 8);
		race_count(P_ATOMIC);
		if (got != w->expect)
			race_fail(P_ATOMIC, "%s %u returns %llu, expected %llu", op_name(w->op),
				  seq, (unsigned long long)got, (unsigned long long)w->expect);
		poison(res, 8);
	} else if (!is_atomic(w->op) && w->op != IBV_WR_RDMA_READ) {
		memset(slot_of(e, S_SEND, seq % SQ), USED, w->len);
	}
}

static void send_books(struct cqbox *b, struct end *e, uint32_t seq, const struct ibv_wc *wc)
{
	struct wr *w = &e->wr[seq % SQ];
	uint32_t q;

	if (seq - e->sq_tail >= e->sq_head - e->sq_tail || w->done) {
		race_fail(P_COMP, "send %u ends with \"%s\", but is not outstanding (%u to %u)",
			  seq, ibv_wc_status_str(wc->status), e->sq_tail, e->sq_head);
		return;
	}
	if (b->evt && e->last_seq != ~0u && (int32_t)(seq - e->last_seq) <= 0)
		race_fail(P_COMP, "send %u completes after %u", seq, e->last_seq);
	e->last_seq = seq;
	if (wc->status != IBV_WC_SUCCESS) {
		w->done = true;
		if ((int32_t)(seq - e->first_bad) < 0 || e->first_bad == ~0u)
			e->first_bad = seq;
		return;
	}
	if (!w->signaled)
		race_fail(P_COMP, "send %u completes, but asked for no completion", seq);
	if (wc->opcode != wc_opcode_of(w->op))
		race_fail(P_COMP, "send %u is a %s, its completion has opcode %d", seq,
			  op_name(w->op), wc->opcode);
	for (q = e->sq_tail; q != seq; q++)
		if (!e->wr[q % SQ].signaled && !e->wr[q % SQ].done)
			finish_wr(e, q);
	finish_wr(e, seq);
}

static void send_completion(struct cqbox *b, struct end *e, uint32_t seq,
			    const struct ibv_wc *wc)
{
	check_status(e, wc, "send", seq);
	race_count(P_COMP);
	pthread_mutex_lock(&e->acct);
	send_books(b, e, seq, wc);
	while (e->sq_tail != e->sq_head && e->wr[e->sq_tail % SQ].done)
		e->sq_tail++;
	pthread_mutex_unlock(&e->acct);
}

void take_completion(struct cqbox *b, const struct ibv_wc *wc)
{
	uint32_t l = wc->wr_id >> 52 & 0xff, idx = wc->wr_id >> 51 & 1;
	uint32_t life = wc->wr_id >> 32 & 0x7ffff, seq = (uint32_t)wc->wr_id;
	enum id_kind kind = wc->wr_id >> 60;
	struct end *e;

	if (l >= (uint32_t)n_links || kind < ID_SEND || kind > ID_CTRL) {
		race_fail(P_COMP, "a completion of nothing: wr_id %llx, QP %x",
			  (unsigned long long)wc->wr_id, wc->qp_num);
		return;
	}
	e = &links[l]->end[idx];
	race_doing("completion of %s %u, link %u end %u life %u",
		   kind == ID_RECV ? "receive" : "send", seq, l, idx, life);
	if (life != (e->link->life & 0x7ffff) || wc->qp_num != e->qpn ||
	    (b != e->scq && b != e->rcq)) {
		race_fail(P_COMP, "a completion of life %u in life %u, QP %x, wr_id %llx, %s", life,
			  e->link->life, wc->qp_num, (unsigned long long)wc->wr_id,
			  ibv_wc_status_str(wc->status));
		return;
	}
	switch (kind) {
	case ID_SEND:
		send_completion(b, e, seq, wc);
		break;
	case ID_RECV:
		recv_completion(b, e, seq, wc);
		break;
	case ID_CTRL:
		pthread_mutex_lock(&e->acct);
		e->ctrl = wc->status;
		e->ctrl_done = true;
		pthread_mutex_unlock(&e->acct);
		break;
	default:
		pthread_mutex_lock(&e->acct);
		e->marks++;
		pthread_mutex_unlock(&e->acct);
	}
}

/* Both marks came back and nobody holds a completion: all that was posted has ended. */
void check_drained(struct end *e)
{
	uint32_t q, i;

	pthread_mutex_lock(&e->acct);
	for (q = e->sq_tail; q != e->sq_head; q++) {
		struct wr *w = &e->wr[q % SQ];

		race_count(P_COMP);
		if (w->done)
			continue;
		if (w->signaled)
			race_fail(P_COMP, "%s %u was neither completed nor flushed",
				  op_name(w->op), q);
		else if (e->first_bad != ~0u && (int32_t)(q - e->first_bad) > 0)
			race_fail(P_COMP, "%s %u, unsignalled, was not flushed though %u failed",
				  op_name(w->op), q, e->first_bad);
	}
	for (i = 0; i < RQ; i++)
		if (e->recv[i].state != R_IDLE)
			race_fail(P_COMP, "receive %u was neither completed nor flushed",
				  e->recv[i].seq);
	pthread_mutex_unlock(&e->acct);
}
