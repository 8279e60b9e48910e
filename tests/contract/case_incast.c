// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Many senders, one receiver, all the time: everything arrives, whole, and each QP gets its share of
 * what the receiver takes. How fair that is is nothing that RC promises; rdma_spray does where receivers
 * grant credit. So these cases run only when they are named.
 */
#include "contract.h"

enum { SENDERS = 32, SLOTS = 4, SIZE = 32 * KIB, FAIR = 950 /* per mille */ };

struct sender {
	struct conn *c;
	struct buf *src, *dst;
	uint32_t posted, sent, arrived;	/* messages */
};

struct incast {
	enum ibv_wr_opcode op;
	int poster;			/* end that posts: data go from 0 to 1 */
	struct ibv_cq *cq[2];
	struct sender s[SENDERS];
	uint32_t total;
};

static uint64_t pattern(const struct incast *x, const struct sender *s, uint32_t n)
{
	return (uint64_t)(s - x->s) << 32 | n;
}

static void post(struct incast *x, struct sender *s)
{
	size_t at = s->posted % SLOTS * SIZE;
	struct ibv_sge sge = buf_sge(x->poster ? s->dst : s->src, at, SIZE);
	struct ibv_send_wr wr = wr_make(x->op, s->posted, &sge, 1, IBV_SEND_SIGNALED);

	pat_fill(s->src->p + at, SIZE, pattern(x, s, s->posted), 0);
	poison(s->dst->p + at, SIZE);
	if (x->op != IBV_WR_SEND)
		wr_remote(&wr, x->poster ? s->src : s->dst, at);
	wr.imm_data = s->posted;
	if (!x->poster) {
		struct ibv_sge into = buf_sge(s->dst, at, SIZE);

		post_recv(s->c->qp[1], s->posted, &into, x->op == IBV_WR_SEND);
	}
	post_send(s->c->qp[x->poster], &wr);
	s->posted++;
}

static void arrived(struct incast *x, struct sender *s, const struct ibv_wc *wc)
{
	CHECK_EQ(wc->wr_id, s->arrived, "messages of a QP in order");
	pat_check(s->dst->p + s->arrived % SLOTS * SIZE, SIZE, pattern(x, s, s->arrived), 0, "message");
	s->arrived++;
	x->total++;
}

/* What is complete at one end. */
static bool take(struct incast *x, int end)
{
	struct sender *s = x->s;
	struct ibv_wc wc;
	int i;

	if (!cq_poll(x->cq[end], &wc))
		return false;
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	for (i = 0; i < SENDERS && s->c->qp[end]->qp_num != wc.qp_num; i++)
		s++;
	CHECK(i < SENDERS, "completion of QP %u", wc.qp_num);
	if (end == x->poster)
		s->sent++;
	if (end == 1)
		arrived(x, s, &wc);
	return true;
}

/* Jain's index of what arrived, per mille. */
static unsigned int fairness(const struct incast *x)
{
	uint64_t sum = 0, squares = 0, least = ~0ull, most = 0;
	int i;

	for (i = 0; i < SENDERS; i++) {
		uint64_t n = x->s[i].arrived;

		sum += n;
		squares += n * n;
		least = min_t(uint64_t, least, n);
		most = max_t(uint64_t, most, n);
	}
	ct_diag("%d QPs, %llu KiB: %llu to %llu KiB each, Jain's index %.3f", SENDERS,
		(unsigned long long)(sum * SIZE / KIB), (unsigned long long)(least * SIZE / KIB),
		(unsigned long long)(most * SIZE / KIB),
		(double)(sum * sum) / (double)(SENDERS * squares));
	return 1000 * sum * sum / (SENDERS * squares);
}

static void incast(enum ibv_wr_opcode op)
{
	struct incast *x = ct_alloc(sizeof(*x));
	uint32_t until = SENDERS * ROUNDS(64, 24), seen = 0;
	struct conn_opt o = conn_defaults();
	unsigned int fair = 0;
	struct ct_wait w;
	bool open = true;
	int i;

	x->op = op;
	x->poster = op == IBV_WR_RDMA_READ;
	for (i = 0; i < 2; i++)
		o.scq[i] = o.rcq[i] = x->cq[i] = ct_cq(&ct_dev[i], 2 * SENDERS * SLOTS, NULL);
	o.sq = o.rq = SLOTS;
	for (i = 0; i < SENDERS; i++) {
		x->s[i].c = conn_new(&o);
		x->s[i].src = buf_new(&ct_dev[0], SLOTS * SIZE, ACC_ALL);
		x->s[i].dst = buf_new(&ct_dev[1], SLOTS * SIZE, ACC_ALL);
	}
	ct_wait_start(&w);
	while (open) {
		open = false;
		for (i = 0; i < SENDERS; i++) {
			struct sender *s = &x->s[i];

			while (x->total < until && s->posted - s->arrived < SLOTS &&
			       s->posted - s->sent < SLOTS)
				post(x, s);
			open |= s->posted != s->sent || s->posted != s->arrived;
		}
		while (take(x, 0) || take(x, 1))
			;
		if (!fair && x->total >= until)
			fair = fairness(x);
		if (x->total != seen)
			ct_wait_start(&w);
		seen = x->total;
		CHECK(ct_wait_step(&w), "%u messages of %u arrived", x->total, until);
	}
	for (i = 0; i < SENDERS; i++) {
		buf_guards(x->s[i].src);
		buf_guards(x->s[i].dst);
		CHECK_EQ(qp_state(x->s[i].c->qp[0]), IBV_QPS_RTS, "state of a sender");
		CHECK_EQ(qp_state(x->s[i].c->qp[1]), IBV_QPS_RTS, "state of the receiver");
	}
	CHECK(fair >= FAIR, "Jain's index %u per mille", fair);
}

CASE_F(incast_write, CF_NAMED, "32 QPs WRITE (with immediate) to one receiver: equal shares")
{
	incast(IBV_WR_RDMA_WRITE_WITH_IMM);
}

CASE_F(incast_send, CF_NAMED, "32 QPs SEND to one receiver: equal shares")
{
	incast(IBV_WR_SEND);
}

CASE_F(incast_read, CF_NAMED, "32 QPs READ into one receiver: equal shares")
{
	incast(IBV_WR_RDMA_READ);
}
