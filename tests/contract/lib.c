// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Buffers, connections, completions: what the cases are written with. */
#include "contract.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t ct_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void ct_sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, (ms % 1000) * 1000000l };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

void ct_wait_start(struct ct_wait *w)
{
	w->start = ct_now_ns();
	w->deadline = w->start + ct_deadline_s * 1000000000ull;
	w->spins = 0;
}

bool ct_wait_step(struct ct_wait *w)
{
	uint64_t now;

	if (++w->spins & 7)
		return true;
	sched_yield();
	if (w->spins & 63)
		return true;
	now = ct_now_ns();
	/* Whoever waits for more than some milliseconds need not be quick: leave the CPU alone. */
	if (now - w->start > 5000000) {
		struct timespec ts = { 0, 50000 };

		nanosleep(&ts, NULL);
	}
	return now < w->deadline && !ct_stop;
}

/* ---- patterns ------------------------------------------------------------------------------- */

static inline uint64_t pat_word(uint64_t seed, size_t w)
{
	uint64_t x = (seed ^ (w * 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	return x ^ (x >> 29);
}

uint8_t pat_byte(uint64_t seed, size_t i)
{
	return pat_word(seed, i / 8) >> (i % 8 * 8);
}

void pat_fill(void *dst, size_t len, uint64_t seed, size_t from)
{
	uint8_t *p = dst;

	for (; len && from % 8; len--)
		*p++ = pat_byte(seed, from++);
	for (; len >= 8; len -= 8, from += 8, p += 8) {
		uint64_t w = pat_word(seed, from / 8);

		memcpy(p, &w, 8);
	}
	for (; len; len--)
		*p++ = pat_byte(seed, from++);
}

ssize_t pat_diff(const void *src, size_t len, uint64_t seed, size_t from)
{
	const uint8_t *p = src;
	size_t i = 0;

	for (; i < len && (from + i) % 8; i++)
		if (p[i] != pat_byte(seed, from + i))
			return i;
	for (; len - i >= 8; i += 8) {
		uint64_t w = pat_word(seed, (from + i) / 8), v;

		memcpy(&v, p + i, 8);
		if (v != w)
			break;
	}
	for (; i < len; i++)
		if (p[i] != pat_byte(seed, from + i))
			return i;
	return -1;
}

void pat_check_at(const char *file, int line, const void *p, size_t len, uint64_t seed,
		  size_t from, const char *what)
{
	ssize_t d = pat_diff(p, len, seed, from);
	size_t bad = 0, i;
	uint8_t seen;

	if (d < 0)
		return;
	seen = ((const volatile uint8_t *)p)[d];
	for (i = d; i < len; i++)
		bad += ((const uint8_t *)p)[i] != pat_byte(seed, from + i);
	ct_fail_at(file, line,
		   "%s: byte %zd of %zu wrong: expected 0x%02x, saw 0x%02x%s; %zu bytes wrong "
		   "when counted", what, d, len, pat_byte(seed, from + d), seen,
		   seen == pat_byte(seed, from + d) ? " (right a moment later)" :
		   seen == POISON ? " (never written)" : "", bad);
}

void poison(void *p, size_t len)
{
	memset(p, POISON, len);
}

void filled_check_at(const char *file, int line, const void *p, size_t len, uint8_t value,
		     const char *what)
{
	const uint8_t *b = p;
	size_t i;

	if (!len || (b[0] == value && !memcmp(b, b + 1, len - 1)))
		return;
	for (i = 0; i < len; i++)
		if (b[i] != value)
			ct_fail_at(file, line, "%s: byte %zu of %zu was written: expected 0x%02x, "
				   "saw 0x%02x", what, i, len, value, b[i]);
}

void poison_check_at(const char *file, int line, const void *p, size_t len, const char *what)
{
	filled_check_at(file, line, p, len, POISON, what);
}

/* ---- buffers -------------------------------------------------------------------------------- */

static void buf_free(void *arg)
{
	struct buf *b = arg;

	buf_dereg(b);
	munmap(b->map, b->map_len);
	free(b);
}

struct buf *buf_new_skew(struct dev *dev, size_t len, unsigned int access, size_t skew)
{
	struct buf *b = calloc(1, sizeof(*b));
	size_t page = sysconf(_SC_PAGESIZE);

	CHECK(b, "out of memory");
	b->dev = dev;
	b->len = len;
	b->map_len = (len + skew + 2 * GUARD + page - 1) / page * page;
	b->map = mmap(NULL, b->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(b->map != MAP_FAILED, "mmap of %zu bytes: %s", b->map_len, strerror(errno));
	poison(b->map, b->map_len);
	b->p = b->map + GUARD + skew;
	ct_track(buf_free, b);
	b->mr = ibv_reg_mr(dev->pd, b->p, len, access);
	CHECK(b->mr, "reg_mr of %zu bytes, access 0x%x: %s", len, access, strerror(errno));
	return b;
}

struct buf *buf_new(struct dev *dev, size_t len, unsigned int access)
{
	return buf_new_skew(dev, len, access, 0);
}

void buf_dereg(struct buf *b)
{
	int r;

	if (!b->mr)
		return;
	r = ibv_dereg_mr(b->mr);
	b->mr = NULL;
	if (r)
		ct_fail("dereg_mr: %s", strerror(r));
}

void buf_guards_at(const char *file, int line, const struct buf *b)
{
	const uint8_t *end = b->p + b->len;

	poison_check_at(file, line, b->map, b->p - b->map, "guard before the buffer");
	poison_check_at(file, line, end, b->map + b->map_len - end, "guard after the buffer");
}

void sgl_build(struct sgl *s, struct buf *b, size_t off, size_t total, int n)
{
	size_t left = total, at = off;
	int i;

	if ((size_t)n > total)
		n = total;
	CHECK(n <= SGL_MAX, "too many pieces: %d", n);
	memset(s, 0, sizeof(*s));
	s->b = b;
	s->n = n;
	s->total = total;
	s->start = off;
	for (i = 0; i < n; i++) {
		size_t spare = left - (n - i), len;

		/* Every piece has at least a byte; the odd ones out are small. */
		if (i == n - 1)
			len = left;
		else if (rnd(3) == 0)
			len = 1 + rnd(min_t(size_t, spare, 7) + 1);
		else
			len = 1 + rnd(min_t(size_t, spare, 2 * left / (n - i)) + 1);
		len = min_t(size_t, len, 1 + spare);
		at += 1 + rnd(13);
		s->off[i] = at;
		s->len[i] = len;
		s->sge[i] = buf_sge(b, at, len);
		at += len;
		left -= len;
	}
	s->span = sgl_room(total, n);
	CHECK(off + s->span <= b->len, "buffer too small: %zu + %zu > %zu", off, s->span, b->len);
	poison(b->p + off, s->span);
}

void sgl_fill(struct sgl *s, uint64_t seed)
{
	size_t from = 0;
	int i;

	for (i = 0; i < s->n; i++) {
		pat_fill(s->b->p + s->off[i], s->len[i], seed, from);
		from += s->len[i];
	}
}

void sgl_check_at(const char *file, int line, struct sgl *s, uint64_t seed, size_t len)
{
	size_t from = 0;
	int i;

	for (i = 0; i < s->n; i++) {
		size_t n = min_t(size_t, s->len[i], len - from);
		const uint8_t *p = s->b->p + s->off[i];

		if (i)
			poison_check_at(file, line, s->b->p + s->off[i - 1] + s->len[i - 1],
					s->off[i] - s->off[i - 1] - s->len[i - 1],
					"gap between the pieces");
		pat_check_at(file, line, p, n, seed, from, "piece of a scattered message");
		poison_check_at(file, line, p + n, s->len[i] - n, "behind the end of the message");
		from += n;
	}
	if (!s->n)
		return;
	i = s->n - 1;
	poison_check_at(file, line, s->b->p + s->start, s->off[0] - s->start, "before the pieces");
	poison_check_at(file, line, s->b->p + s->off[i] + s->len[i],
			s->start + s->span - s->off[i] - s->len[i], "after the pieces");
}

/* ---- small objects -------------------------------------------------------------------------- */

void *ct_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	CHECK(p, "out of memory");
	ct_track(free, p);
	return p;
}

static void pd_free(void *pd)
{
	int r = ibv_dealloc_pd(pd);

	if (r)
		ct_fail("dealloc_pd: %s", strerror(r));
}

struct ibv_pd *ct_pd(struct dev *d)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->ctx);

	CHECK(pd, "alloc_pd: %s", strerror(errno));
	ct_track(pd_free, pd);
	return pd;
}

static void cq_free(void *cq)
{
	int r = ibv_destroy_cq(cq);

	if (r)
		ct_fail("destroy_cq: %s", strerror(r));
}

struct ibv_cq *ct_cq(struct dev *d, int cqe, struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq;

	cqe = min_t(int, cqe, d->attr.max_cqe);
	cq = ibv_create_cq(d->ctx, cqe, NULL, ch, 0);
	CHECK(cq, "create_cq of %d: %s", cqe, strerror(errno));
	ct_track(cq_free, cq);
	CHECK(cq->cqe >= cqe, "CQ of %d entries, asked for %d", cq->cqe, cqe);
	return cq;
}

void ct_destroy_cq(struct ibv_cq *cq)
{
	ct_untrack(cq);
	cq_free(cq);
}

static void srq_free(void *srq)
{
	struct dev *d = ((struct ibv_srq *)srq)->context == ct_dev[0].ctx ? &ct_dev[0] : &ct_dev[1];
	int r;

	/* destroy_srq waits until the events of the SRQ are acknowledged. */
	events_drain(d);
	r = ibv_destroy_srq(srq);
	if (r)
		ct_fail("destroy_srq: %s", strerror(r));
}

struct ibv_srq *ct_srq(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *srq;

	srq = ibv_create_srq(pd, &a);
	CHECK(srq, "create_srq of %u, %u SGEs: %s", wr, sge, strerror(errno));
	ct_track(srq_free, srq);
	CHECK(a.attr.max_wr >= wr && a.attr.max_sge >= sge, "create_srq gives %u, %u SGEs; "
	      "asked for %u, %u", a.attr.max_wr, a.attr.max_sge, wr, sge);
	return srq;
}

void ct_destroy_srq(struct ibv_srq *srq)
{
	ct_untrack(srq);
	srq_free(srq);
}

static void channel_free(void *ch)
{
	int r = ibv_destroy_comp_channel(ch);

	if (r)
		ct_fail("destroy_comp_channel: %s", strerror(r));
}

struct ibv_comp_channel *ct_channel(struct dev *d)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(d->ctx);

	CHECK(ch, "create_comp_channel: %s", strerror(errno));
	ct_track(channel_free, ch);
	return ch;
}

/* ---- connections ---------------------------------------------------------------------------- */

struct conn_opt conn_defaults(void)
{
	int rd = min_t(int, min_t(int, ct_dev[0].attr.max_qp_rd_atom,
				  ct_dev[1].attr.max_qp_rd_atom),
		       min_t(int, ct_dev[0].attr.max_qp_init_rd_atom,
			     ct_dev[1].attr.max_qp_init_rd_atom));
	struct conn_opt o = {
		.dev = { &ct_dev[0], &ct_dev[1] },
		.sq = 64,
		.rq = 64,
		.send_sge = 4,
		.recv_sge = 4,
		.inline_data = 64,
		.rd_atomic = min_t(int, rd, 8),
		.dest_rd_atomic = min_t(int, rd, 8),
		.psn = { rnd(1 << 24), rnd(1 << 24) },
		.timeout = 17, /* 0.54 s: the fabrics are hostile, the emulators slow */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr = 12, /* 0.64 ms */
		.access = { ACC_ALL, ACC_ALL },
		.mtu = ct_dev[0].mtu,
	};

	return o;
}

static void conn_free(void *arg)
{
	struct conn *c = arg;
	int i;

	for (i = 0; i < 2; i++)
		if (c->qp[i])
			conn_destroy_qp(c, i);
	free(c);
}

void conn_destroy_qp(struct conn *c, int end)
{
	struct ibv_qp *qp = c->qp[end];
	int r;

	/* destroy_qp waits until the events of the QP are acknowledged. */
	events_drain(c->o.dev[end]);
	c->qp[end] = NULL;
	r = ibv_destroy_qp(qp);
	if (r)
		ct_fail("destroy_qp: %s", strerror(r));
}

static struct ibv_qp *create_qp_ex(struct dev *d, struct ibv_qp_init_attr *a, uint64_t ops)
{
	struct ibv_qp_init_attr_ex x = {
		.qp_context = a->qp_context,
		.send_cq = a->send_cq,
		.recv_cq = a->recv_cq,
		.srq = a->srq,
		.cap = a->cap,
		.qp_type = a->qp_type,
		.sq_sig_all = a->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(d->ctx, &x);

	a->cap = x.cap;
	return qp;
}

struct conn *conn_create(const struct conn_opt *o)
{
	struct conn *c = calloc(1, sizeof(*c));
	int i;

	CHECK(c, "out of memory");
	c->o = *o;
	for (i = 0; i < 2; i++) {
		int cqe = o->cqe ? o->cqe : o->sq + o->rq + 64;

		c->scq[i] = o->scq[i] ? o->scq[i] : ct_cq(o->dev[i], cqe, o->ch[i]);
		if (o->rcq[i])
			c->rcq[i] = o->rcq[i];
		else if (o->one_cq)
			c->rcq[i] = c->scq[i];
		else
			c->rcq[i] = ct_cq(o->dev[i], cqe, o->ch[i]);
	}
	ct_track(conn_free, c);
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = c->scq[i],
			.recv_cq = c->rcq[i],
			.srq = o->srq[i],
			.cap = {
				.max_send_wr = o->sq,
				.max_recv_wr = o->srq[i] ? 0 : o->rq,
				.max_send_sge = o->send_sge,
				.max_recv_sge = o->srq[i] ? 0 : o->recv_sge,
				.max_inline_data = o->inline_data,
			},
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = o->sig_all,
			.qp_context = c,
		};

		c->qp[i] = o->send_ops ? create_qp_ex(o->dev[i], &a, o->send_ops) :
					 ibv_create_qp(o->dev[i]->pd, &a);
		CHECK(c->qp[i], "create_qp sq %u rq %u sge %u/%u inline %u: %s", o->sq, o->rq,
		      o->send_sge, o->recv_sge, o->inline_data, strerror(errno));
		c->cap[i] = a.cap;
		CHECK(a.cap.max_send_wr >= o->sq && a.cap.max_send_sge >= o->send_sge &&
		      (o->srq[i] || (a.cap.max_recv_wr >= o->rq &&
				     a.cap.max_recv_sge >= o->recv_sge)) &&
		      a.cap.max_inline_data >= o->inline_data,
		      "create_qp gives less than asked: sq %u rq %u sge %u/%u inline %u",
		      a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge,
		      a.cap.max_recv_sge, a.cap.max_inline_data);
	}
	return c;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, const char *what)
{
	int r = ibv_modify_qp(qp, a, mask);

	if (r)
		ct_fail("modify_qp to %s: %s", what, strerror(r));
}

void conn_to_init(struct conn *c, int end)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = 1,
		.qp_access_flags = c->o.access[end],
	};

	modify(c->qp[end], &a,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

void conn_to_rtr(struct conn *c, int end)
{
	struct dev *d = c->o.dev[end], *peer = c->o.dev[!end];
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->o.mtu,
		.dest_qp_num = c->qp[!end]->qp_num,
		.rq_psn = c->o.psn[!end],
		.max_dest_rd_atomic = c->o.dest_rd_atomic,
		.min_rnr_timer = c->o.min_rnr,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = peer->gid,
				.sgid_index = d->gid_index,
				.hop_limit = 64,
			},
		},
	};

	modify(c->qp[end], &a,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, "RTR");
}

void conn_to_rts(struct conn *c, int end)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.timeout = c->o.timeout,
		.retry_cnt = c->o.retry_cnt,
		.rnr_retry = c->o.rnr_retry,
		.sq_psn = c->o.psn[end],
		.max_rd_atomic = c->o.rd_atomic,
	};

	modify(c->qp[end], &a,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC, "RTS");
}

void conn_up(struct conn *c)
{
	int i;

	for (i = 0; i < 2; i++)
		conn_to_init(c, i);
	for (i = 0; i < 2; i++)
		conn_to_rtr(c, i);
	for (i = 0; i < 2; i++)
		conn_to_rts(c, i);
}

void conn_to_err(struct conn *c, int end)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	modify(c->qp[end], &a, IBV_QP_STATE, "ERR");
}

void conn_to_reset(struct conn *c, int end)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	modify(c->qp[end], &a, IBV_QP_STATE, "RESET");
}

struct conn *conn_new(const struct conn_opt *o)
{
	struct conn *c = conn_create(o);

	conn_up(c);
	return c;
}

void conn_restart(struct conn *c)
{
	int i;

	for (i = 0; i < 2; i++)
		conn_to_reset(c, i);
	for (i = 0; i < 2; i++)
		c->o.psn[i] = rnd(1 << 24);
	conn_up(c);
}

void conn_prove(struct conn *c)
{
	size_t len = 3 * mtu_bytes(c->o.mtu) + 5;
	struct buf *b[2];
	int end;

	for (end = 0; end < 2; end++)
		b[end] = buf_new_skew(c->o.dev[end], 4 * len, ACC_ALL, 3);
	for (end = 0; end < 2; end++) {
		uint64_t seed = rnd64();
		struct ibv_sge s = buf_sge(b[end], 0, len), r = buf_sge(b[!end], len, len);
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, 1, &s, 1, IBV_SEND_SIGNALED);
		struct ibv_wc wc;

		ct_doing("proof that the connection works, from end %d", end);
		poison(b[!end]->p, b[!end]->len);
		pat_fill(b[end]->p, len, seed, 0);
		post_recv(c->qp[!end], 3, &r, 1);
		wr_remote(&wr, b[!end], 2 * len);
		post_send(c->qp[end], &wr);
		wr = wr_make(IBV_WR_SEND, 2, &s, 1, IBV_SEND_SIGNALED);
		post_send(c->qp[end], &wr);
		wc = cq_expect(c->rcq[!end], c->qp[!end], 3, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, len, "byte_len of the receive");
		pat_check(b[!end]->p + len, len, seed, 0, "SEND");
		pat_check(b[!end]->p + 2 * len, len, seed, 0, "WRITE before the SEND");
		cq_expect(c->scq[end], c->qp[end], 1, IBV_WC_SUCCESS);
		cq_expect(c->scq[end], c->qp[end], 2, IBV_WC_SUCCESS);
		poison_check(b[!end]->p, len, "untouched part");
		poison_check(b[!end]->p + 3 * len, len, "untouched part");
		buf_guards(b[!end]);
		poison(b[end]->p, b[end]->len);
	}
	ct_doing("%s", "");
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;
	int r = ibv_query_qp(qp, &a, IBV_QP_STATE, &ia);

	if (r)
		ct_fail("query_qp: %s", strerror(r));
	return a.qp_state;
}

/* ---- work requests -------------------------------------------------------------------------- */

struct ibv_send_wr wr_make(enum ibv_wr_opcode op, uint64_t id, struct ibv_sge *sge, int n,
			   unsigned int flags)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.sg_list = sge,
		.num_sge = n,
		.opcode = op,
		.send_flags = flags,
	};
}

void wr_remote(struct ibv_send_wr *wr, const struct buf *b, size_t off)
{
	wr->wr.rdma.remote_addr = buf_va(b, off);
	wr->wr.rdma.rkey = b->mr->rkey;
}

void wr_fadd(struct ibv_send_wr *wr, const struct buf *b, size_t off, uint64_t add)
{
	wr->wr.atomic.remote_addr = buf_va(b, off);
	wr->wr.atomic.rkey = b->mr->rkey;
	wr->wr.atomic.compare_add = add;
}

void wr_cas(struct ibv_send_wr *wr, const struct buf *b, size_t off, uint64_t cmp, uint64_t swap)
{
	wr_fadd(wr, b, off, cmp);
	wr->wr.atomic.swap = swap;
}

void post_send_at(const char *file, int line, struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int r = ibv_post_send(qp, wr, &bad);

	if (r)
		ct_fail_at(file, line, "post_send of %s, wr_id %llu: %s", op_name(wr->opcode),
			   (unsigned long long)wr->wr_id, strerror(r));
}

void post_recv_at(const char *file, int line, struct ibv_qp *qp, uint64_t id,
		  struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad = NULL;
	int r = ibv_post_recv(qp, &wr, &bad);

	if (r)
		ct_fail_at(file, line, "post_recv, wr_id %llu: %s", (unsigned long long)id,
			   strerror(r));
}

void post_srq_at(const char *file, int line, struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge,
		 int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad = NULL;
	int r = ibv_post_srq_recv(srq, &wr, &bad);

	if (r)
		ct_fail_at(file, line, "post_srq_recv, wr_id %llu: %s", (unsigned long long)id,
			   strerror(r));
}

/* ---- completions ---------------------------------------------------------------------------- */

bool cq_poll_at(const char *file, int line, struct ibv_cq *cq, struct ibv_wc *wc)
{
	int r;

	memset(wc, 0xee, sizeof(*wc));
	r = ibv_poll_cq(cq, 1, wc);
	if (r < 0)
		ct_fail_at(file, line, "poll_cq returned %d", r);
	if (r > 1)
		ct_fail_at(file, line, "poll_cq returned %d of 1", r);
	return r;
}

void cq_wait_at(const char *file, int line, struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ct_wait w;

	ct_wait_start(&w);
	while (!cq_poll_at(file, line, cq, wc))
		if (!ct_wait_step(&w))
			ct_fail_at(file, line, "no completion within %u s", ct_deadline_s);
}

struct ibv_wc cq_expect_at(const char *file, int line, struct ibv_cq *cq, struct ibv_qp *qp,
			   uint64_t id, enum ibv_wc_status status)
{
	struct ct_wait w;
	struct ibv_wc wc;

	ct_wait_start(&w);
	while (!cq_poll_at(file, line, cq, &wc))
		if (!ct_wait_step(&w))
			ct_fail_at(file, line, "no completion within %u s: expected wr_id %llu "
				   "with %s", ct_deadline_s, (unsigned long long)id,
				   ibv_wc_status_str(status));
	if (wc.wr_id != id || wc.status != status)
		ct_fail_at(file, line,
			   "completion: expected wr_id %llu with \"%s\", saw wr_id %llu "
			   "with \"%s\"",
			   (unsigned long long)id, ibv_wc_status_str(status),
			   (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	if (qp && wc.qp_num != qp->qp_num)
		ct_fail_at(file, line, "completion of wr_id %llu: expected qp_num 0x%x, saw 0x%x",
			   (unsigned long long)id, qp->qp_num, wc.qp_num);
	return wc;
}

void cq_silent_at(const char *file, int line, struct ibv_cq *cq, unsigned int ms)
{
	uint64_t end = ct_now_ns() + ms * 1000000ull;
	struct ibv_wc wc;

	do {
		if (cq_poll_at(file, line, cq, &wc))
			ct_fail_at(file, line,
				   "one completion too many: wr_id %llu, %s, qp_num 0x%x",
				   (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
				   wc.qp_num);
		if (ms)
			ct_sleep_ms(1);
	} while (ct_now_ns() < end);
}

const char *op_name(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
		return "WRITE";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE_IMM";
	case IBV_WR_SEND:
		return "SEND";
	case IBV_WR_SEND_WITH_IMM:
		return "SEND_IMM";
	case IBV_WR_RDMA_READ:
		return "READ";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "CMP_AND_SWP";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "FETCH_AND_ADD";
	default:
		return "other opcode";
	}
}

enum ibv_wc_opcode wc_opcode_of(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

void wc_send_fields(const struct ibv_wc *wc, enum ibv_wr_opcode op, size_t len)
{
	CHECK_EQ(wc->opcode, wc_opcode_of(op), "opcode of the send completion");
	if (op == IBV_WR_RDMA_READ)
		CHECK_EQ(wc->byte_len, len, "byte_len of the READ's completion");
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK_EQ(wc->byte_len, 8, "byte_len of the atomic's completion");
}

void wc_recv_fields(const struct ibv_wc *wc, enum ibv_wr_opcode op, size_t len, uint32_t imm)
{
	bool with_imm = op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;

	CHECK_EQ(wc->opcode,
		 op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		 "opcode of the receive completion");
	CHECK_EQ(wc->byte_len, len, "byte_len of the receive completion");
	CHECK_EQ(wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV),
		 with_imm ? IBV_WC_WITH_IMM : 0, "wc_flags of the receive completion");
	if (with_imm)
		CHECK_EQ(wc->imm_data, imm, "immediate data");
}

/* ---- events --------------------------------------------------------------------------------- */

static bool event_next(struct dev *d, int ms, struct ibv_async_event *ev)
{
	struct pollfd p = { .fd = d->ctx->async_fd, .events = POLLIN };

	if (poll(&p, 1, ms) <= 0)
		return false;
	return !ibv_get_async_event(d->ctx, ev);
}

bool event_take(struct dev *d, struct ibv_async_event *ev)
{
	return event_next(d, 0, ev);
}

static bool event_of_qp(const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

void event_expect_at(const char *file, int line, struct dev *d, struct ibv_qp *qp,
		     enum ibv_event_type type, enum ibv_event_type or_type)
{
	uint64_t end = ct_now_ns() + 5000000000ull;
	struct ibv_async_event ev;
	char others[256] = "";

	if (ct_no_events)
		return;
	while (ct_now_ns() < end) {
		bool hit;

		if (!event_next(d, 100, &ev))
			continue;
		hit = event_of_qp(&ev) && ev.element.qp == qp &&
		      (ev.event_type == type || ev.event_type == or_type);
		if (!hit)
			snprintf(others + strlen(others), sizeof(others) - strlen(others),
				 " \"%s\"", ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
		if (hit)
			return;
	}
	ct_fail_at(file, line, "no event \"%s\" for QP 0x%x within 5 s; saw%s",
		   ibv_event_type_str(type), qp->qp_num, others[0] ? others : " none");
}

bool srq_limit_event(struct dev *d, struct ibv_srq *srq, int ms)
{
	uint64_t end = ct_now_ns() + ms * 1000000ull;
	struct ibv_async_event ev;

	do {
		bool hit;

		if (!event_next(d, 10, &ev))
			continue;
		hit = ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && ev.element.srq == srq;
		ibv_ack_async_event(&ev);
		if (hit)
			return true;
	} while (ct_now_ns() < end);
	return false;
}

int events_drain(struct dev *d)
{
	struct ibv_async_event ev;
	int fatal = 0;

	while (event_next(d, 0, &ev)) {
		fatal += ev.event_type == IBV_EVENT_QP_FATAL ||
			 ev.event_type == IBV_EVENT_QP_REQ_ERR ||
			 ev.event_type == IBV_EVENT_QP_ACCESS_ERR;
		ibv_ack_async_event(&ev);
	}
	return fatal;
}
