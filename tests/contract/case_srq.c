// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Shared receive queues. Receivers are QPs of the second device. */
#include "contract.h"

#include "internal.h"

enum { SLOT = 24 << 10, HALF = 16 << 20, PIECES = 4, WAITERS = 8 };

/* n connections whose second ends share an SRQ and a receive CQ. */
struct shared {
	struct ibv_srq *srq;
	struct ibv_cq *rcq;
	struct conn *c[WAITERS];
	int n;
};

static struct conn *shared_conn(struct shared *s, struct conn_opt o)
{
	o.srq[1] = s->srq;
	o.rcq[1] = s->rcq;
	o.psn[0] = rnd(1 << 24);
	o.psn[1] = rnd(1 << 24);
	return s->c[s->n++] = conn_new(&o);
}

static void need_srq(void)
{
	if (!ct_dev[1].attr.max_srq)
		ct_skip("%s has no shared receive queues", ct_dev[1].name);
}

static struct shared *shared_new(const struct conn_opt *o, int n, uint32_t wr)
{
	struct shared *s = ct_alloc(sizeof(*s));

	need_srq();
	s->srq = ct_srq(ct_dev[1].pd, wr, 4);
	s->rcq = ct_cq(&ct_dev[1], 1024, NULL);
	while (n--)
		shared_conn(s, *o);
	return s;
}

static void post_slot(struct ibv_srq *srq, struct buf *b, int slot)
{
	struct ibv_sge sge = buf_sge(b, (size_t)slot * SLOT, SLOT);

	post_srq(srq, slot, &sge, 1);
}

static struct ibv_srq_attr srq_attr(struct ibv_srq *srq)
{
	struct ibv_srq_attr a;
	int r = ibv_query_srq(srq, &a);

	if (r)
		ct_fail("query_srq: %s", strerror(r));
	return a;
}

static void send_small(struct conn *c, uint64_t id)
{
	struct ibv_send_wr wr = wr_make(IBV_WR_SEND, id, NULL, 0, IBV_SEND_SIGNALED);

	post_send(c->qp[0], &wr);
}

/* ---- what is refused ------------------------------------------------------------------------ */

CASE(srq_limits, "SRQ: sizes up to the limits, posts beyond them, who may not be destroyed")
{
	struct dev *d = &ct_dev[1];
	struct ibv_srq_init_attr over[] = {
		{ .attr = { .max_wr = d->attr.max_srq_wr + 1u, .max_sge = 1 } },
		{ .attr = { .max_wr = 1, .max_sge = d->attr.max_srq_sge + 1u } },
	};
	struct ibv_recv_wr *bad, wr = {};
	struct ibv_sge sge[2] = {};
	struct conn_opt o = conn_defaults();
	struct ibv_srq_attr a;
	struct ibv_srq *srq;
	struct conn *c;
	unsigned int i;
	int r;

	need_srq();
	srq = ct_srq(d->pd, d->attr.max_srq_wr, d->attr.max_srq_sge);
	a = srq_attr(srq);
	CHECK(a.max_wr >= (uint32_t)d->attr.max_srq_wr, "max_wr %u", a.max_wr);
	CHECK(a.max_sge >= (uint32_t)d->attr.max_srq_sge, "max_sge %u", a.max_sge);
	ct_destroy_srq(srq);
	for (i = 0; i < ARRAY_SIZE(over); i++) {
		srq = ibv_create_srq(d->pd, &over[i]);
		CHECK(!srq && errno == EINVAL, "SRQ %u beyond the limits: %s", i,
		      srq ? "made" : strerror(errno));
	}
	srq = ct_srq(d->pd, 16, 1);
	a = srq_attr(srq);
	for (i = 0; i < a.max_wr; i++)
		post_srq(srq, i, NULL, 0);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM, "post to a full SRQ");
	CHECK(bad == &wr, "bad_wr");
	a.srq_limit = a.max_wr + 1;
	CHECK_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL, "limit above the size");
	if (!(d->attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)) {
		r = ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR);
		CHECK(r == EOPNOTSUPP || r == ENOSYS || r == EINVAL, "resize: %s", strerror(r));
	}
	o.srq[1] = srq;
	c = conn_new(&o);
	CHECK_EQ(ibv_post_recv(c->qp[1], &wr, &bad), EINVAL, "post_recv to a QP on an SRQ");
	CHECK_EQ(ibv_destroy_srq(srq), EBUSY, "destroy of an SRQ in use");
	send_small(c, 1);
	cq_expect(c->rcq[1], c->qp[1], 0, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	wr.sg_list = sge;
	wr.num_sge = 2;
	if (a.max_sge == 1)
		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL, "too many SGEs");
}

/* ---- order and data ------------------------------------------------------------------------- */

static enum ibv_wr_opcode any_recv_op(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};

	return ops[rnd(ARRAY_SIZE(ops))];
}

struct srq_msg {
	enum ibv_wr_opcode op;
	uint32_t len;
	uint64_t pat;
};

/* Message number k of connection q, from its own slot of the source. */
static struct srq_msg post_msg(struct conn *c, struct buf *src, struct buf *direct, int q, int k)
{
	struct srq_msg m = { any_recv_op(), rnd(8) ? rnd(SLOT + 1) : 0, rnd64() };
	size_t at = (size_t)(q * 16 + k % 16) * SLOT;
	struct ibv_sge s = buf_sge(src, at, m.len);
	struct ibv_send_wr wr = wr_make(m.op, k, &s, m.len ? 1 : 0, IBV_SEND_SIGNALED);

	pat_fill(src->p + at, m.len, m.pat, 0);
	if (m.op == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr_remote(&wr, direct, at);
	wr.imm_data = q << 24 | k;
	post_send(c->qp[0], &wr);
	return m;
}

static void check_msg(const struct ibv_wc *wc, const struct srq_msg *m, struct buf *dst,
		      struct buf *direct, int q, int k)
{
	const uint8_t *p = m->op == IBV_WR_RDMA_WRITE_WITH_IMM ?
			   direct->p + (size_t)(q * 16 + k % 16) * SLOT :
			   dst->p + wc->wr_id * SLOT;

	wc_recv_fields(wc, m->op, m->len, q << 24 | k);
	pat_check(p, m->len, m->pat, 0, "message from an SRQ");
}

static int resize_srq(struct ibv_srq *srq, uint32_t wr)
{
	struct ibv_srq_attr a = { .max_wr = wr };
	int r = ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR);

	if (!r)
		CHECK(srq_attr(srq).max_wr >= wr, "SRQ of %u after resize to %u",
		      srq_attr(srq).max_wr, wr);
	return r;
}

/* Down, if what is posted fits, and up again, so that @receives always have room. */
static void resize_about(struct ibv_srq *srq, uint32_t receives)
{
	int r = resize_srq(srq, rnd_in(1, receives));

	CHECK(!r || r == EINVAL, "resize down: %s", strerror(r));
	CHECK_EQ(resize_srq(srq, rnd_in(receives, 4 * receives)), 0, "resize up");
}

/*
 * Every connection keeps up to 16 messages open; there are fewer receives than that, so QPs wait
 * for each other's. Per QP completions come in the order of messages; a receive serves one message.
 */
static void srq_traffic(int qps, uint32_t receives, int msgs, bool resize)
{
	struct conn_opt o = conn_defaults();
	struct shared *s = shared_new(&o, qps, receives);
	struct buf *src = buf_new(&ct_dev[0], (size_t)qps * 16 * SLOT, ACC_ALL);
	struct buf *direct = buf_new(&ct_dev[1], (size_t)qps * 16 * SLOT, ACC_ALL);
	struct buf *dst = buf_new(&ct_dev[1], (size_t)receives * SLOT, ACC_ALL);
	struct srq_msg *sent = ct_alloc(sizeof(*sent) * qps * 16);
	int next[WAITERS] = {}, seen[WAITERS] = {}, acked[WAITERS] = {}, left = qps * msgs, q;
	bool *posted = ct_alloc(receives);
	struct ct_wait w;
	uint32_t i;

	for (i = 0; i < receives; i++) {
		post_slot(s->srq, dst, i);
		posted[i] = true;
	}
	ct_wait_start(&w);
	while (left || memcmp(acked, next, sizeof(next))) {
		struct ibv_wc wc;

		for (q = 0; q < qps; q++) {
			while (next[q] < msgs && next[q] - min_t(int, seen[q], acked[q]) < 16) {
				sent[q * 16 + next[q] % 16] =
					post_msg(s->c[q], src, direct, q, next[q]);
				next[q]++;
			}
			while (cq_poll(s->c[q]->scq[0], &wc)) {
				CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a send");
				CHECK_EQ(wc.wr_id, acked[q], "order of send completions");
				acked[q]++;
			}
		}
		if (!cq_poll(s->rcq, &wc)) {
			CHECK(ct_wait_step(&w), "%d messages did not come", left);
			continue;
		}
		ct_wait_start(&w);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a receive");
		for (q = 0; q < qps && s->c[q]->qp[1]->qp_num != wc.qp_num; q++)
			;
		CHECK(q < qps, "completion of a strange QP 0x%x", wc.qp_num);
		CHECK(wc.wr_id < receives && posted[wc.wr_id], "receive %llu was not posted",
		      (unsigned long long)wc.wr_id);
		posted[wc.wr_id] = false;
		ct_doing("message %d of QP %d", seen[q], q);
		check_msg(&wc, &sent[q * 16 + seen[q] % 16], dst, direct, q, seen[q]);
		seen[q]++;
		left--;
		if (resize && !rnd(8))
			resize_about(s->srq, receives);
		post_slot(s->srq, dst, wc.wr_id);
		posted[wc.wr_id] = true;
	}
	cq_silent(s->rcq, 20);
	buf_guards(dst);
}

CASE(srq_order, "SRQ with one QP: receives are used in the order of their posting")
{
	struct conn_opt o = conn_defaults();
	struct shared *s = shared_new(&o, 1, 64);
	struct buf *src = buf_new(&ct_dev[0], 16 * SLOT, ACC_ALL);
	struct buf *direct = buf_new(&ct_dev[1], 16 * SLOT, ACC_ALL);
	struct buf *dst = buf_new(&ct_dev[1], 16 * SLOT, ACC_ALL);
	struct srq_msg sent[16];
	int round, k;

	for (round = 0; round < ROUNDS(20, 5); round++) {
		/* Some before the messages, some while they come, some after. */
		int early = rnd(17);

		for (k = 0; k < early; k++)
			post_slot(s->srq, dst, k);
		for (k = 0; k < 16; k++)
			sent[k] = post_msg(s->c[0], src, direct, 0, k);
		if (rnd(2))
			ct_sleep_ms(rnd(10));
		for (k = early; k < 16; k++)
			post_slot(s->srq, dst, k);
		for (k = 0; k < 16; k++) {
			struct ibv_wc wc = cq_expect(s->rcq, s->c[0]->qp[1], k, IBV_WC_SUCCESS);

			check_msg(&wc, &sent[k], dst, direct, 0, k);
			cq_expect(s->c[0]->scq[0], s->c[0]->qp[0], k, IBV_WC_SUCCESS);
		}
	}
	cq_silent(s->rcq, 20);
}

CASE(srq_many, "8 QPs on one SRQ with fewer receives than messages: each QP's order, every byte")
{
	srq_traffic(8, 256, ROUNDS(200, 40), false);
	srq_traffic(8, 12, ROUNDS(200, 40), false);
	srq_traffic(4, 1, ROUNDS(60, 15), false);
}

static void need_srq_resize(void)
{
	need_srq();
	if (!(ct_dev[1].attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		ct_skip("%s does not resize SRQs", ct_dev[1].name);
}

CASE(srq_resize, "SRQ resize: what is refused, what waits keeps its order, who waits is still woken")
{
	struct dev *d = &ct_dev[1];
	struct conn_opt o = conn_defaults();
	struct ibv_srq_attr a = { .max_wr = 4, .srq_limit = 5 };
	struct ibv_recv_wr *bad, wr = {};
	struct ibv_srq *srq;
	struct shared *s;
	uint32_t i;

	need_srq_resize();
	srq = ct_srq(d->pd, 8, 1);
	CHECK_EQ(resize_srq(srq, 0), EINVAL, "resize to 0");
	CHECK_EQ(resize_srq(srq, d->attr.max_srq_wr + 1u), EINVAL, "resize beyond max_srq_wr");
	CHECK_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL,
		 "a limit above the new size");
	CHECK_EQ(srq_attr(srq).max_wr, 8, "size after what was refused");
	a = (struct ibv_srq_attr) { .srq_limit = 7 };
	for (i = 0; i < 8; i++)
		post_srq(srq, i, NULL, 0);
	CHECK_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), 0, "limit");
	CHECK_EQ(srq_attr(srq).srq_limit, 7, "limit told");
	CHECK_EQ(resize_srq(srq, 4), EINVAL, "resize to less than the limit, and than what waits");
	ct_destroy_srq(srq);
	srq = ct_srq(d->pd, 8, 1);
	CHECK_EQ(resize_srq(srq, d->attr.max_srq_wr), 0, "resize to max_srq_wr");
	for (i = 0; i < (uint32_t)d->attr.max_srq_wr; i++)
		post_srq(srq, i, NULL, 0);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM, "post to a full SRQ");
	CHECK_EQ(resize_srq(srq, 16), EINVAL, "resize to less than what waits");
	ct_destroy_srq(srq);

	o.min_rnr = 0;	/* 655 ms */
	s = shared_new(&o, 1, 16);
	for (i = 0; i < 16; i++)
		post_srq(s->srq, i, NULL, 0);
	CHECK_EQ(resize_srq(s->srq, 64), 0, "resize of a full SRQ");
	for (i = 16; i < 64; i++)
		post_srq(s->srq, i, NULL, 0);
	for (i = 0; i < 56; i++) {
		send_small(s->c[0], i);
		cq_expect(s->rcq, s->c[0]->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(s->c[0]->scq[0], s->c[0]->qp[0], i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(resize_srq(s->srq, 8), 0, "resize to what waits");
	for (; i < 64; i++) {
		send_small(s->c[0], i);
		cq_expect(s->rcq, s->c[0]->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(s->c[0]->scq[0], s->c[0]->qp[0], i, IBV_WC_SUCCESS);
	}
	for (i = 0; i < 4; i++) {
		uint64_t start;

		send_small(s->c[0], i);
		cq_silent(s->rcq, 50);
		CHECK_EQ(resize_srq(s->srq, 4u << i), 0, "resize while a QP waits");
		start = ct_now_ns();
		post_srq(s->srq, i, NULL, 0);
		cq_expect(s->rcq, s->c[0]->qp[1], i, IBV_WC_SUCCESS);
		CHECK(ct_now_ns() - start < 500000000, "it had to ask again");
		cq_expect(s->c[0]->scq[0], s->c[0]->qp[0], i, IBV_WC_SUCCESS);
	}
}

CASE(srq_resize_traffic, "SRQ resize under traffic of 8 QPs: each QP's order, every byte")
{
	need_srq_resize();
	srq_traffic(8, 256, ROUNDS(200, 40), true);
	srq_traffic(8, 12, ROUNDS(200, 40), true);
	srq_traffic(4, 1, ROUNDS(60, 15), true);
}

CASE(srq_pd, "SRQ: keys of its receives are those of its own protection domain")
{
	struct conn_opt o = conn_defaults();
	struct ibv_pd *pd = ct_pd(&ct_dev[1]);
	struct buf *src = buf_new(&ct_dev[0], SLOT, ACC_ALL);
	struct buf *dst = buf_new(&ct_dev[1], SLOT, ACC_ALL);
	struct ibv_sge s = buf_sge(src, 0, 5000), r = buf_sge(dst, 0, SLOT);
	struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 1, &s, 1, IBV_SEND_SIGNALED);
	uint64_t pat = rnd64();
	struct ibv_mr *mr;
	struct conn *c;

	need_srq();
	o.srq[1] = ct_srq(pd, 4, 1);
	c = conn_new(&o);
	mr = ibv_reg_mr(pd, dst->p, SLOT, ACC_LOCAL);
	CHECK(mr, "reg_mr: %s", strerror(errno));
	r.lkey = mr->lkey;
	pat_fill(src->p, 5000, pat, 0);
	post_srq(o.srq[1], 7, &r, 1);
	post_send(c->qp[0], &wr);
	cq_expect(c->rcq[1], c->qp[1], 7, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	pat_check(dst->p, 5000, pat, 0, "through a key of the SRQ's domain");
	poison(dst->p, SLOT);
	r.lkey = dst->mr->lkey;	/* of the QP's */
	post_srq(o.srq[1], 8, &r, 1);
	post_send(c->qp[0], &wr);
	cq_expect(c->rcq[1], c->qp[1], 8, IBV_WC_LOC_PROT_ERR);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_REM_OP_ERR);
	poison_check(dst->p, SLOT, "memory of another domain");
	ibv_dereg_mr(mr);
}

/* ---- an empty SRQ --------------------------------------------------------------------------- */

/*
 * All QPs wait on an empty SRQ. Their requesters ask again after 655 ms only, so what comes sooner
 * was woken by the post.
 */
CASE(srq_rnr, "8 QPs wait on an empty SRQ: each receive wakes one of them, all come to their turn")
{
	struct conn_opt o = conn_defaults();
	int round, i, late = 0, woken = 0;
	struct shared *s;

	o.min_rnr = 0;	/* 655 ms */
	s = shared_new(&o, WAITERS, 64);
	for (round = 0; round < ROUNDS(6, 2); round++) {
		int done[WAITERS] = {}, used[WAITERS] = {};

		for (i = 0; i < WAITERS; i++)
			send_small(s->c[i], round);
		cq_silent(s->rcq, 100);
		for (i = 0; i < WAITERS; i++) {
			uint64_t start = ct_now_ns();
			struct ibv_wc wc;
			int q;

			if (i == WAITERS / 2) {	/* the second half at once */
				int k;

				for (k = i; k < WAITERS; k++)
					post_srq(s->srq, round * 100 + k, NULL, 0);
			} else if (i < WAITERS / 2) {
				post_srq(s->srq, round * 100 + i, NULL, 0);
			}
			cq_wait(s->rcq, &wc);
			late += ct_now_ns() - start > 200000000;
			woken++;
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
			wc.wr_id -= round * 100;
			CHECK(wc.wr_id < WAITERS && !used[wc.wr_id]++, "receive %llu twice",
			      (unsigned long long)wc.wr_id);
			for (q = 0; q < WAITERS && s->c[q]->qp[1]->qp_num != wc.qp_num; q++)
				;
			CHECK(q < WAITERS && !done[q]++, "QP 0x%x twice", wc.qp_num);
			if (i < WAITERS / 2 - 1)
				cq_silent(s->rcq, 1);
		}
		for (i = 0; i < WAITERS; i++)
			cq_expect(s->c[i]->scq[0], s->c[i]->qp[0], round, IBV_WC_SUCCESS);
		cq_silent(s->rcq, 10);
	}
	CHECK(late * 4 <= woken, "%d of %d waited for the peer to ask again", late, woken);
}

CASE(srq_rnr_leave, "a QP that waits on an empty SRQ and goes takes nobody's receive with it")
{
	struct conn_opt o = conn_defaults();
	struct shared *s;
	int how;

	o.min_rnr = 0;
	s = shared_new(&o, 2, 8);
	for (how = 0; how < 3; how++) {
		uint64_t start;

		ct_doing("the first of two that wait goes by %s",
			 how == 0 ? "ERR" : how == 1 ? "RESET" : "destroy_qp");
		send_small(s->c[0], 1);
		cq_silent(s->rcq, 100);
		send_small(s->c[1], 2);
		cq_silent(s->rcq, 100);
		if (how == 0)
			conn_to_err(s->c[0], 1);
		else if (how == 1)
			conn_to_reset(s->c[0], 1);
		else
			conn_destroy_qp(s->c[0], 1);
		start = ct_now_ns();
		post_srq(s->srq, how, NULL, 0);
		cq_expect(s->rcq, s->c[1]->qp[1], how, IBV_WC_SUCCESS);
		CHECK(ct_now_ns() - start < 500000000, "it had to ask again");
		cq_expect(s->c[1]->scq[0], s->c[1]->qp[0], 2, IBV_WC_SUCCESS);
		if (how == 2)
			break;
		conn_restart(s->c[0]);
	}
	cq_silent(s->rcq, 20);
}

/* ---- the limit ------------------------------------------------------------------------------ */

static void arm(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr a = { .srq_limit = limit };
	int r = ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);

	if (r)
		ct_fail("modify_srq, limit %u: %s", limit, strerror(r));
}

CASE(srq_limit, "SRQ limit: one event when fewer receives are left, armed anew by modify_srq")
{
	struct dev *d = &ct_dev[1];
	struct conn_opt o = conn_defaults();
	struct shared *s;
	int i, id = 0, round;

	if (ct_no_events)
		ct_skip("no events");
	s = shared_new(&o, 2, 16);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++)
			post_srq(s->srq, id, NULL, 0);
		arm(s->srq, 4);
		CHECK_EQ(srq_attr(s->srq).srq_limit, 4, "limit told");
		for (i = 8; i > 4; i--) {
			send_small(s->c[i & 1], i);
			cq_expect(s->rcq, s->c[i & 1]->qp[1], id, IBV_WC_SUCCESS);
			cq_expect(s->c[i & 1]->scq[0], NULL, i, IBV_WC_SUCCESS);
		}
		CHECK(!srq_limit_event(d, s->srq, 50), "event with 4 left of at least 4");
		for (; i > 2; i--) {
			send_small(s->c[i & 1], i);
			cq_expect(s->rcq, s->c[i & 1]->qp[1], id, IBV_WC_SUCCESS);
			cq_expect(s->c[i & 1]->scq[0], NULL, i, IBV_WC_SUCCESS);
		}
		CHECK(srq_limit_event(d, s->srq, 5000), "no event with fewer than 4 left");
		CHECK(!srq_limit_event(d, s->srq, 50), "a second event");
		CHECK_EQ(srq_attr(s->srq).srq_limit, 0, "limit after the event");
		/* Below already: the event is due at once. */
		arm(s->srq, 3);
		CHECK(srq_limit_event(d, s->srq, 5000), "no event when armed below the limit");
		for (; i > 0; i--) {
			send_small(s->c[0], i);
			cq_expect(s->rcq, s->c[0]->qp[1], id, IBV_WC_SUCCESS);
			cq_expect(s->c[0]->scq[0], NULL, i, IBV_WC_SUCCESS);
		}
		CHECK(!srq_limit_event(d, s->srq, 50), "event of an SRQ that is not armed");
	}
	for (i = 0; i < 4; i++)
		post_srq(s->srq, id, NULL, 0);
	arm(s->srq, 4);
	arm(s->srq, 0);
	send_small(s->c[0], 1);
	cq_expect(s->rcq, s->c[0]->qp[1], id, IBV_WC_SUCCESS);
	CHECK(!srq_limit_event(d, s->srq, 50), "event of an SRQ that was disarmed");
}

/* ---- QPs that die --------------------------------------------------------------------------- */

/*
 * A long message begins to land in receive 0: PIECES times HALF bytes, over each other, so that it
 * still lands when what follows is done.
 */
static void half_received(struct shared *s, struct buf *src, struct buf *dst)
{
	struct ibv_sge sge[PIECES], r[PIECES];
	struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 1, sge, PIECES, IBV_SEND_SIGNALED);
	struct ct_wait w;
	int i;

	for (i = 0; i < PIECES; i++) {
		sge[i] = buf_sge(src, 0, HALF);
		r[i] = buf_sge(dst, 0, HALF);
	}
	poison(dst->p, HALF);
	post_srq(s->srq, 0, r, PIECES);
	for (i = 1; i < 4; i++)
		post_srq(s->srq, i, NULL, 0);
	post_send(s->c[0]->qp[0], &wr);
	ct_wait_start(&w);
	while (READ_ONCE(dst->p[0]) == POISON && READ_ONCE(dst->p[64]) == POISON)
		CHECK(ct_wait_step(&w), "nothing came");
}

/* The other QP uses what is left, in this order. */
static void rest_used(struct shared *s, int from)
{
	int i;

	for (i = from; i < 4; i++) {
		send_small(s->c[1], i);
		cq_expect(s->rcq, s->c[1]->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(s->c[1]->scq[0], s->c[1]->qp[0], i, IBV_WC_SUCCESS);
	}
	send_small(s->c[1], 9);
	cq_silent(s->rcq, 50);
	post_srq(s->srq, 9, NULL, 0);
	cq_expect(s->rcq, s->c[1]->qp[1], 9, IBV_WC_SUCCESS);
	cq_expect(s->c[1]->scq[0], s->c[1]->qp[0], 9, IBV_WC_SUCCESS);
}

static struct shared *half_setup(struct buf **src, struct buf **dst)
{
	struct conn_opt o = conn_defaults();
	struct shared *s = shared_new(&o, 2, 8);

	*src = buf_new(&ct_dev[0], HALF, ACC_ALL);
	*dst = buf_new(&ct_dev[1], HALF, ACC_ALL);
	pat_fill((*src)->p, HALF, rnd64(), 0);
	/* No byte of the pattern at the two places that are watched looks like no byte at all. */
	(*src)->p[0] = (*src)->p[64] = 1;
	return s;
}

CASE(srq_err_half, "ERR with a message half received: its receive is flushed, the others stay")
{
	struct buf *src, *dst;
	struct shared *s = half_setup(&src, &dst);
	int round;

	for (round = 0; round < ROUNDS(4, 2); round++) {
		uint8_t *copy = ct_alloc(HALF);
		struct ibv_wc wc;

		half_received(s, src, dst);
		conn_to_err(s->c[0], 1);
		memcpy(copy, dst->p, HALF);
		cq_wait(s->rcq, &wc);
		CHECK_EQ(wc.wr_id, 0, "the receive that was in use");
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR, "its status");
		CHECK_EQ(wc.qp_num, s->c[0]->qp[1]->qp_num, "its QP");
		event_expect(&ct_dev[1], s->c[0]->qp[1], IBV_EVENT_QP_LAST_WQE_REACHED);
		cq_silent(s->rcq, 20);
		rest_used(s, 1);
		CHECK(!memcmp(copy, dst->p, HALF), "memory was written after modify_qp returned");
		conn_to_reset(s->c[0], 0);
		conn_restart(s->c[0]);
	}
}

CASE(srq_reset_half, "RESET with a message half received: its receive is back in the SRQ")
{
	struct buf *src, *dst;
	struct shared *s = half_setup(&src, &dst);
	int round;

	for (round = 0; round < ROUNDS(4, 2); round++) {
		half_received(s, src, dst);
		conn_to_reset(s->c[0], 1);
		cq_silent(s->rcq, 20);
		rest_used(s, 0);
		conn_restart(s->c[0]);
	}
}

CASE(srq_destroy_half, "destroy_qp with a message half received: the same")
{
	struct buf *src, *dst;
	struct shared *s = half_setup(&src, &dst);

	half_received(s, src, dst);
	conn_destroy_qp(s->c[0], 1);
	cq_silent(s->rcq, 20);
	rest_used(s, 0);
}

static bool last_wqe(struct dev *d, struct ibv_qp *qp, int ms)
{
	uint64_t end = ct_now_ns() + ms * 1000000ull;

	do {
		struct ibv_async_event ev;

		ct_sleep_ms(5);
		while (event_take(d, &ev)) {
			bool hit = ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
				   ev.element.qp == qp;

			ibv_ack_async_event(&ev);
			if (hit)
				return true;
		}
	} while (ct_now_ns() < end);
	return false;
}

CASE(srq_last_wqe, "a QP on an SRQ in ERR: LAST_WQE_REACHED, once a life")
{
	struct conn_opt o = conn_defaults();
	struct dev *d = &ct_dev[1];
	struct shared *s;
	int i;

	if (ct_no_events)
		ct_skip("no events");
	s = shared_new(&o, 2, 8);
	for (i = 0; i < 2; i++) {
		ct_doing("by modify_qp");
		conn_to_err(s->c[0], 1);
		CHECK(last_wqe(d, s->c[0]->qp[1], 5000), "no event");
		conn_to_err(s->c[0], 1);
		CHECK(!last_wqe(d, s->c[0]->qp[1], 50), "a second event");
		conn_restart(s->c[0]);
		CHECK(!last_wqe(d, s->c[0]->qp[1], 20), "an event of the next life");
	}
	for (i = 0; i < 2; i++) {
		struct ibv_sge sge = buf_sge(buf_new(&ct_dev[0], SLOT, ACC_ALL), 0, SLOT);
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 1, &sge, 1, IBV_SEND_SIGNALED);

		ct_doing("by a receive that is too small");
		post_srq(s->srq, 5, NULL, 0);
		post_srq(s->srq, 6, NULL, 0);
		post_send(s->c[0]->qp[0], &wr);
		cq_expect(s->rcq, s->c[0]->qp[1], 5, IBV_WC_LOC_LEN_ERR);
		CHECK(last_wqe(d, s->c[0]->qp[1], 5000), "no event");
		CHECK(!last_wqe(d, s->c[0]->qp[1], 50), "a second event");
		cq_expect(s->c[0]->scq[0], s->c[0]->qp[0], 1, IBV_WC_REM_INV_REQ_ERR);
		cq_silent(s->rcq, 10);
		send_small(s->c[1], 2);
		cq_expect(s->rcq, s->c[1]->qp[1], 6, IBV_WC_SUCCESS);
		cq_expect(s->c[1]->scq[0], s->c[1]->qp[0], 2, IBV_WC_SUCCESS);
		conn_restart(s->c[0]);
	}
}

/*
 * QPs come and go while others work: no receive is lost, so at the end all are there. A flushed one
 * is posted again.
 */
CASE(srq_churn, "QPs on an SRQ that are killed under traffic, in all ways: no receive is lost")
{
	enum { N = 4, RECVS = 6 };
	struct conn_opt o = conn_defaults();
	struct shared *s = shared_new(&o, N, RECVS);
	struct buf *src = buf_new(&ct_dev[0], SLOT, ACC_ALL);
	struct buf *dst = buf_new(&ct_dev[1], RECVS * SLOT, ACC_ALL);
	struct ibv_sge sge = buf_sge(src, 0, SLOT);
	int round, i, used = 0, flushed = 0, open[N] = {};
	bool there[RECVS] = {};
	struct ibv_wc wc;

	for (i = 0; i < RECVS; i++)
		post_slot(s->srq, dst, i);
	for (round = 0; round < ROUNDS(120, 30); round++) {
		int q = rnd(N), k;

		for (i = 0; i < N; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 0, &sge, 1, IBV_SEND_SIGNALED);

			for (k = rnd(4); k && open[i] < 32; k--, open[i]++)
				post_send(s->c[i]->qp[0], &wr);
		}
		for (k = rnd(40); k; k--) {
			if (!cq_poll(s->rcq, &wc))
				continue;
			used += wc.status == IBV_WC_SUCCESS;
			post_slot(s->srq, dst, wc.wr_id);
		}
		if (rnd(2)) {
			/* A RESET would take unpolled completions away, and with them their numbers. */
			conn_to_err(s->c[q], 1);
			while (cq_poll(s->rcq, &wc)) {
				flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
				post_slot(s->srq, dst, wc.wr_id);
			}
		} else {
			ct_sleep_ms(rnd(3));
		}
		for (i = 0; i < N; i++) {
			while (cq_poll(s->c[i]->scq[0], &wc))
				open[i]--;
			if (qp_state(s->c[i]->qp[1]) == IBV_QPS_ERR) {
				conn_to_err(s->c[i], 0);
				while (cq_poll(s->rcq, &wc))
					post_slot(s->srq, dst, wc.wr_id);
				conn_restart(s->c[i]);
				open[i] = 0;
			}
		}
	}
	ct_diag("%d messages, %d flushed", used, flushed);
	for (i = 0; i < N; i++) {
		conn_to_err(s->c[i], 1);
		conn_to_err(s->c[i], 0);
	}
	while (cq_poll(s->rcq, &wc))
		post_slot(s->srq, dst, wc.wr_id);
	for (i = 0; i < N; i++)
		conn_restart(s->c[i]);
	for (i = 0; i < RECVS; i++) {
		send_small(s->c[i % N], 77);
		cq_wait(s->rcq, &wc);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
		CHECK(wc.wr_id < RECVS && !there[wc.wr_id], "receive %llu twice",
		      (unsigned long long)wc.wr_id);
		there[wc.wr_id] = true;
	}
	cq_silent(s->rcq, 20);
}
