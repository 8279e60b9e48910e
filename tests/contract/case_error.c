// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receiver not ready, errors at their place, silence after death, refused posts: C6 and C7. */
#include "contract.h"

/* ---- receiver not ready --------------------------------------------------------------------- */

static void rnr_finite(int rnr_retry, int receives, bool imm)
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct buf *a, *b;
	uint64_t pat = rnd64();
	struct ibv_sge s;
	int i, id = 0, bad;

	ct_doing("rnr_retry %d, %d receives, %s", rnr_retry, receives, imm ? "WRITE_IMM" : "SEND");
	o.rnr_retry = rnr_retry;
	o.min_rnr = 14; /* 1.28 ms */
	c = conn_new(&o);
	a = buf_new(&ct_dev[0], 8 * KIB, ACC_ALL);
	b = buf_new(&ct_dev[1], 8 * KIB, ACC_ALL);
	pat_fill(a->p, a->len, pat, 0);
	s = buf_sge(a, 0, 1 + rnd(a->len));
	for (i = 0; i < receives; i++) {
		struct ibv_sge r = buf_sge(b, 0, b->len);

		post_recv(c->qp[1], i, &r, 1);
	}
	for (i = 0; i < receives + 1; i++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, id++, &s, 1, IBV_SEND_SIGNALED);

		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		wr = wr_make(imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, id++, &s, 1,
			     IBV_SEND_SIGNALED);
		if (imm)
			wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
	}
	bad = id - 1;
	for (i = 0; i < 5; i++) {
		struct ibv_send_wr wr = wr_make(i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, id++, &s,
						1, i & 2 ? IBV_SEND_SIGNALED : 0);

		if (!(i & 1))
			wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
	}
	for (i = 0; i < receives; i++)
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
	for (i = 0; i < bad; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], bad, IBV_WC_RNR_RETRY_EXC_ERR);
	for (i = bad + 1; i < id; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
	cq_silent(c->scq[0], 50);
	cq_silent(c->rcq[1], 0);
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_ERR, "state of the requester");
	CHECK_EQ(qp_state(c->qp[1]), IBV_QPS_RTS, "state of the responder, which did no wrong");
	conn_restart(c);
	conn_prove(c);
}

CASE(rnr_finite, "finite rnr_retry ends at the right WR, the rest is flushed")
{
	rnr_finite(2, 0, false);
	rnr_finite(3, 4, false);
	rnr_finite(1, 1, true);
	rnr_finite(6, 2, false);
}

CASE(rnr_zero, "rnr_retry 0: the first refusal is the last")
{
	rnr_finite(0, 0, false);
	rnr_finite(0, 3, true);
}

CASE(rnr_infinite, "rnr_retry 7 waits for seconds until a receive is posted")
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
	};
	struct conn_opt o = conn_defaults();
	struct conn *c;
	size_t len = 20 * KIB;
	struct buf *a, *b, *r;
	uint64_t pat = rnd64();
	int i;

	o.timeout = 14; /* 67 ms: must not count while the peer is not ready */
	o.retry_cnt = 1;
	c = conn_new(&o);
	a = buf_new(&ct_dev[0], 4 * len, ACC_ALL);
	b = buf_new(&ct_dev[1], 4 * len, ACC_ALL);
	r = buf_new(&ct_dev[1], 4 * len, ACC_ALL);
	pat_fill(a->p, a->len, pat, 0);
	for (i = 0; i < 4; i++) {
		struct ibv_sge s = buf_sge(a, i * len, len);
		struct ibv_send_wr wr = wr_make(ops[i], i, &s, 1, IBV_SEND_SIGNALED);

		if (ops[i] == IBV_WR_RDMA_WRITE_WITH_IMM)
			wr_remote(&wr, b, i * len);
		post_send(c->qp[0], &wr);
	}
	ct_doing("nobody receives for seconds");
	cq_silent(c->scq[0], ct_quick ? 1500 : 4000);
	for (i = 0; i < 4; i++) {
		struct ibv_sge s = buf_sge(r, i * len, len);
		struct ibv_wc wc;

		ct_doing("receive %d, after a while", i);
		cq_silent(c->rcq[1], 200);
		cq_silent(c->scq[0], 0);
		post_recv(c->qp[1], i, &s, 1);
		wc = cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
		wc_recv_fields(&wc, ops[i], len, 0);
		pat_check((ops[i] == IBV_WR_RDMA_WRITE_WITH_IMM ? b->p : r->p) + i * len, len, pat,
			  i * len, "message that had to wait");
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		poison_check(r->p + (i + 1) * len, (3 - i) * len, "receives not posted yet");
	}
	cq_silent(c->rcq[1], 50);
	cq_silent(c->scq[0], 0);
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_RTS, "state of the requester");
}

CASE(rnr_in_time, "finite rnr_retry, receives posted before it runs out")
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	int i;

	o.rnr_retry = 6;
	o.min_rnr = 30; /* 328 ms */
	c = conn_new(&o);
	for (i = 0; i < ROUNDS(6, 2); i++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);

		/* Each message has its own count: six waits in all would be too many for one. */
		post_send(c->qp[0], &wr);
		ct_sleep_ms(200 + rnd(300));
		post_recv(c->qp[1], i, NULL, 0);
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
}

CASE(rnr_exactly_one, "each receive takes one message, in order; none is used twice")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 5000;
	struct buf *a = buf_new(&ct_dev[0], 3 * len, ACC_ALL);
	struct buf *r = buf_new(&ct_dev[1], 3 * len, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(30, 8); round++) {
		uint64_t pat = rnd64();
		struct ibv_sge rs = buf_sge(r, 0, len);
		size_t n[3];

		ct_doing("round %d", round);
		poison(r->p, r->len);
		pat_fill(a->p, a->len, pat, 0);
		post_recv(c->qp[1], 10, &rs, 1);
		for (i = 0; i < 3; i++) {
			struct ibv_sge s;
			struct ibv_send_wr wr;

			n[i] = rnd(len + 1);
			s = buf_sge(a, i * len, n[i]);
			wr = wr_make(IBV_WR_SEND, i, &s, 1, IBV_SEND_SIGNALED);
			post_send(c->qp[0], &wr);
		}
		cq_expect(c->rcq[1], c->qp[1], 10, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 0, IBV_WC_SUCCESS);
		cq_silent(c->rcq[1], 10);
		cq_silent(c->scq[0], 0);
		poison_check(r->p + len, 2 * len, "memory of receives not posted");
		for (i = 1; i < 3; i++) {
			rs = buf_sge(r, i * len, len);
			post_recv(c->qp[1], 10 + i, &rs, 1);
		}
		for (i = 1; i < 3; i++) {
			cq_expect(c->rcq[1], c->qp[1], 10 + i, IBV_WC_SUCCESS);
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		}
		for (i = 0; i < 3; i++) {
			pat_check(r->p + i * len, n[i], pat, i * len, "message");
			poison_check(r->p + i * len + n[i], len - n[i], "behind the message");
		}
	}
}

CASE(rnr_mixed, "READs and atomics around a SEND that waits: those behind it wait too")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(&ct_dev[0], 64, ACC_ALL), *b = buf_new(&ct_dev[1], 64, ACC_ALL);
	uint64_t v = 41, got;
	int round;

	for (round = 0; round < ROUNDS(20, 5); round++) {
		struct ibv_sge s[3] = { buf_sge(a, 0, 8), buf_sge(a, 8, 8), buf_sge(a, 16, 8) };
		struct ibv_send_wr wr;

		ct_doing("round %d", round);
		poison(a->p, 64);
		memcpy(b->p, &v, 8);
		wr = wr_make(IBV_WR_RDMA_READ, 0, &s[0], 1, IBV_SEND_SIGNALED);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		wr = wr_make(IBV_WR_SEND, 1, NULL, 0, IBV_SEND_SIGNALED);
		post_send(c->qp[0], &wr);
		wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, &s[1], 1, IBV_SEND_SIGNALED);
		wr_fadd(&wr, b, 0, 1);
		post_send(c->qp[0], &wr);
		wr = wr_make(IBV_WR_RDMA_READ, 3, &s[2], 1, IBV_SEND_SIGNALED);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		cq_expect(c->scq[0], c->qp[0], 0, IBV_WC_SUCCESS);
		cq_silent(c->scq[0], 30);
		memcpy(&got, b->p, 8);
		CHECK_EQ(got, v, "word while the SEND before the atomic waits");
		post_recv(c->qp[1], 9, NULL, 0);
		cq_expect(c->rcq[1], c->qp[1], 9, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_SUCCESS);
		memcpy(&got, a->p + 8, 8);
		CHECK_EQ(got, v, "result of the atomic");
		memcpy(&got, a->p + 16, 8);
		CHECK_EQ(got, v + 1, "READ behind the atomic");
	}
}

/* ---- C6: errors have a place ---------------------------------------------------------------- */

enum bad_what {
	RKEY,	     /* a key of nothing */
	DEREG,	     /* a key that was good a moment ago */
	BEYOND,	     /* one byte behind the end */
	BEFORE,	     /* one byte before the start */
	PERM,	     /* the region does not allow it */
	OTHER_PD,    /* a region of another protection domain */
	QP_FLAGS,    /* the QP does not allow it */
	UNALIGNED,   /* atomic */
	LKEY,	     /* local key of nothing */
	LDEREG,	     /* local key that was good */
	LBEYOND,     /* local piece behind its end */
	LPERM,	     /* READ or atomic into memory without LOCAL_WRITE */
	RECV_SMALL,  /* the receive is a byte too small */
	RECV_LKEY,   /* the receive has a key of nothing */
	RECV_DEREG,  /* the receive's region is gone */
	RECV_PERM,   /* the receive's region has no LOCAL_WRITE */
};

struct bad {
	enum ibv_wr_opcode op;
	size_t len;
	enum bad_what what;
	enum ibv_wc_status status, or_status;
	enum ibv_event_type event, or_event; /* at the responder; COMM_EST: none */
	enum ibv_wc_status recv;	     /* of the receive it takes; SUCCESS: takes none */
};

#define BEFORE_N 12
#define AFTER_N 12
#define SLOT (8 * KIB)

struct place {
	struct conn *c;
	struct buf *src, *local, *remote, *recv, *word;
	uint64_t pat[BEFORE_N + AFTER_N + 1];
	size_t len[BEFORE_N + AFTER_N + 1];
	enum ibv_wr_opcode op[BEFORE_N + AFTER_N + 1];
	int fadds, recvs;
	bool sends_only;
};

static void place_post(struct place *p, int i)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_RDMA_WRITE,
	};
	enum ibv_wr_opcode op = p->sends_only ? IBV_WR_SEND : ops[rnd(ARRAY_SIZE(ops))];
	struct ibv_send_wr wr;
	struct ibv_sge s;

	p->op[i] = op;
	p->pat[i] = rnd64();
	p->len[i] = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 1 + rnd(rnd(2) ? 300 : SLOT - 64);
	if (op == IBV_WR_RDMA_READ || op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		s = buf_sge(p->local, i * SLOT, p->len[i]);
	else
		s = buf_sge(p->src, i * SLOT, p->len[i]);
	/* What fails or is flushed completes even when it was not asked to. */
	wr = wr_make(op, i, &s, 1, i > BEFORE_N && rnd(2) ? 0 : IBV_SEND_SIGNALED);
	switch (op) {
	case IBV_WR_RDMA_READ:
		poison(p->local->p + i * SLOT, SLOT);
		pat_fill(p->remote->p + i * SLOT, p->len[i], p->pat[i], 0);
		wr_remote(&wr, p->remote, i * SLOT);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr_fadd(&wr, p->word, 0, 1);
		break;
	case IBV_WR_RDMA_WRITE:
		wr_remote(&wr, p->remote, i * SLOT);
		/* fall through */
	default:
		pat_fill(p->src->p + i * SLOT, p->len[i], p->pat[i], 0);
		break;
	}
	post_send(p->c->qp[0], &wr);
}

static void place_check(struct place *p, int i)
{
	uint64_t got;

	switch (p->op[i]) {
	case IBV_WR_RDMA_WRITE:
		pat_check(p->remote->p + i * SLOT, p->len[i], p->pat[i], 0,
			  "WRITE before the bad WR");
		break;
	case IBV_WR_RDMA_READ:
		pat_check(p->local->p + i * SLOT, p->len[i], p->pat[i], 0,
			  "READ before the bad WR");
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		memcpy(&got, p->local->p + i * SLOT, 8);
		CHECK_EQ(got, p->fadds, "atomic before the bad WR");
		p->fadds++;
		break;
	default:
		break;
	}
}

static bool takes_recv(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void bad_once(const struct bad *bad)
{
	static const char *const what[] = {
		"bad rkey", "deregistered rkey", "one byte beyond", "one byte before",
		"permission of the region", "region of another PD", "access flags of the QP",
		"unaligned", "bad lkey", "deregistered lkey", "local piece beyond its region",
		"no LOCAL_WRITE", "receive too small", "receive with bad lkey",
		"receive with deregistered lkey", "receive without LOCAL_WRITE",
	};
	unsigned int need = bad->op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ :
			    bad->op == IBV_WR_RDMA_WRITE ||
			    bad->op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_ACCESS_REMOTE_WRITE :
							IBV_ACCESS_REMOTE_ATOMIC;
	struct conn_opt o = conn_defaults();
	int i, n = BEFORE_N + AFTER_N + 1, recvs = 0, got = 0, bad_recv = -1, total_recvs;
	struct buf *target, *bsrc;
	bool remote_bad = bad->what < LKEY || bad->what >= RECV_SMALL;
	bool fetches = bad->op >= IBV_WR_RDMA_READ; /* or an atomic */
	int mark = ct_mark();
	struct place p = { 0 };
	struct ibv_send_wr wr;
	struct ibv_sge s;
	struct conn *c;
	struct ibv_wc wc;
	uint64_t now;

	ct_doing("%s of %zu bytes, %s", op_name(bad->op), bad->len, what[bad->what]);
	if (bad->what == QP_FLAGS) {
		o.access[1] = ACC_ALL & ~need;
		p.sends_only = true;
	}
	p.c = c = conn_new(&o);
	p.src = buf_new(&ct_dev[0], n * SLOT, ACC_ALL);
	p.local = buf_new(&ct_dev[0], n * SLOT, ACC_ALL);
	p.remote = buf_new(&ct_dev[1], n * SLOT, ACC_ALL);
	p.recv = buf_new(&ct_dev[1], (n + 4) * SLOT, ACC_ALL);
	p.word = buf_new(&ct_dev[1], 8, ACC_ALL);
	target = buf_new(&ct_dev[1], bad->len + 32, bad->what == PERM ? ACC_ALL & ~need : ACC_ALL);
	bsrc = buf_new(&ct_dev[0], bad->len + 32, bad->what == LPERM ? 0 : ACC_ALL);
	memset(p.word->p, 0, 8);
	/* What must not be seen anywhere. */
	memset(fetches ? target->p : bsrc->p, 0x3c, bad->len + 32);

	for (i = 0; i < 3; i++)
		post_recv(c->qp[0], 500 + i, NULL, 0);
	for (i = 0; i < BEFORE_N; i++)
		place_post(&p, i);

	/* The bad one. */
	if (bad->op == IBV_WR_ATOMIC_CMP_AND_SWP || bad->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		s = buf_sge(bsrc, 8, 8);
	else
		s = buf_sge(bsrc, 0, bad->len);
	wr = wr_make(bad->op, BEFORE_N, &s, 1, rnd(2) ? IBV_SEND_SIGNALED : 0);
	if (bad->op == IBV_WR_ATOMIC_CMP_AND_SWP || bad->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr_cas(&wr, target, 8, 0x3c3c3c3c3c3c3c3cull, 1);
		if (bad->what == BEYOND)
			wr.wr.atomic.remote_addr = buf_va(target, target->len);
		if (bad->what == BEFORE)
			wr.wr.atomic.remote_addr = buf_va(target, 0) - 8;
		if (bad->what == UNALIGNED)
			wr.wr.atomic.remote_addr += 1 + rnd(7);
		if (bad->what == RKEY)
			wr.wr.atomic.rkey = 0xdead0000 + rnd(65536);
	} else if (bad->op != IBV_WR_SEND && bad->op != IBV_WR_SEND_WITH_IMM) {
		wr_remote(&wr, target, 16);
		if (bad->what == BEYOND)
			wr.wr.rdma.remote_addr = buf_va(target, 33);
		if (bad->what == BEFORE)
			wr.wr.rdma.remote_addr = buf_va(target, 0) - 1;
		if (bad->what == RKEY)
			wr.wr.rdma.rkey = 0xdead0000 + rnd(65536);
	}
	if (bad->what == OTHER_PD) {
		struct ibv_mr *mr;

		buf_dereg(target);
		target->mr = mr = ibv_reg_mr(ct_pd(&ct_dev[1]), target->p, target->len, ACC_ALL);
		CHECK(mr, "reg_mr: %s", strerror(errno));
		/* The PD was made last and goes first: take the region along. */
		if (bad->op >= IBV_WR_ATOMIC_CMP_AND_SWP)
			wr.wr.atomic.rkey = mr->rkey;
		else
			wr.wr.rdma.rkey = mr->rkey;
	}
	if (bad->what == LKEY)
		s.lkey = 0xdead0000 + rnd(65536);
	if (bad->what == LBEYOND)
		s.addr = buf_va(bsrc, bsrc->len - s.length + 1);
	if (bad->what == DEREG)
		buf_dereg(target);
	if (bad->what == LDEREG)
		buf_dereg(bsrc);
	p.op[BEFORE_N] = bad->op;
	for (i = 0; i < BEFORE_N + AFTER_N + 1; i++) {
		/* Nothing that waits for a receive may be posted before receives are there: RNR. */
		if (i == BEFORE_N)
			post_send(c->qp[0], &wr);
		else if (i > BEFORE_N)
			place_post(&p, i);
	}

	/* Receives, only now, so that messages of both kinds wait for them at first. */
	for (i = 0; i <= BEFORE_N; i++)
		recvs += takes_recv(p.op[i]);
	bad_recv = takes_recv(bad->op) ? recvs - 1 : -1;
	total_recvs = recvs + AFTER_N + 3;
	for (i = 0; i < total_recvs; i++) {
		struct ibv_sge r = buf_sge(p.recv, i * SLOT, SLOT);

		if (i == bad_recv && bad->what == RECV_SMALL)
			r.length = bad->len - 1;
		if (i == bad_recv && bad->what == RECV_LKEY)
			r.lkey = 0xdead0000 + rnd(65536);
		if (i == bad_recv && (bad->what == RECV_DEREG || bad->what == RECV_PERM)) {
			struct buf *x =
				buf_new(&ct_dev[1], SLOT, bad->what == RECV_PERM ? 0 : ACC_ALL);

			r = buf_sge(x, 0, SLOT);
			if (bad->what == RECV_DEREG)
				buf_dereg(x);
		}
		if (i >= (int)(n + 4))
			break;
		post_recv(c->qp[1], 100 + i, &r, 1);
	}
	total_recvs = i;

	/* The requester's completions. */
	for (i = 0; i < BEFORE_N; i++) {
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		place_check(&p, i);
	}
	cq_wait(c->scq[0], &wc);
	CHECK_EQ(wc.wr_id, BEFORE_N, "wr_id of the completion after the good ones");
	CHECK(wc.status == bad->status || wc.status == bad->or_status,
	      "the bad WR: expected \"%s\", saw \"%s\"", ibv_wc_status_str(bad->status),
	      ibv_wc_status_str(wc.status));
	for (i = BEFORE_N + 1; i < n; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_ERR, "state of the requester");
	for (i = 0; i < 3; i++)
		cq_expect(c->rcq[0], c->qp[0], 500 + i, IBV_WC_WR_FLUSH_ERR);

	/* The responder's. */
	for (i = 0; i < BEFORE_N; i++) {
		if (!takes_recv(p.op[i]))
			continue;
		cq_expect(c->rcq[1], c->qp[1], 100 + got, IBV_WC_SUCCESS);
		pat_check(p.recv->p + got * SLOT, p.len[i], p.pat[i], 0, "SEND before the bad WR");
		poison_check(p.recv->p + got * SLOT + p.len[i], SLOT - p.len[i], "behind the SEND");
		got++;
	}
	if (remote_bad) {
		CHECK_EQ(qp_state(c->qp[1]), IBV_QPS_ERR, "state of the responder");
		if (bad->event != IBV_EVENT_COMM_EST)
			event_expect2(&ct_dev[1], c->qp[1], bad->event, bad->or_event);
	} else {
		CHECK_EQ(qp_state(c->qp[1]), IBV_QPS_RTS, "state of the responder");
		cq_silent(c->rcq[1], 20);
		conn_to_err(c, 1);
	}
	if (bad->recv != IBV_WC_SUCCESS)
		cq_expect(c->rcq[1], c->qp[1], 100 + got++, bad->recv);
	else if (bad->op == IBV_WR_RDMA_WRITE_WITH_IMM && remote_bad) {
		/* Its receive: used or only flushed, but not good. */
		cq_wait(c->rcq[1], &wc);
		CHECK_EQ(wc.wr_id, 100 + got, "wr_id of the receive of the bad WR");
		CHECK(wc.status != IBV_WC_SUCCESS, "the receive of the bad WR succeeds");
		got++;
	}
	for (i = got; i < total_recvs; i++)
		cq_expect(c->rcq[1], c->qp[1], 100 + i, IBV_WC_WR_FLUSH_ERR);

	/* What was behind it did not happen. */
	for (i = BEFORE_N + 1; i < n; i++) {
		if (p.op[i] == IBV_WR_RDMA_WRITE)
			poison_check(p.remote->p + i * SLOT + p.len[i] - 1, SLOT - p.len[i] + 1,
				     "tail of a flushed WRITE");
		if (p.op[i] == IBV_WR_RDMA_READ || p.op[i] == IBV_WR_ATOMIC_FETCH_AND_ADD)
			poison_check(p.local->p + i * SLOT, SLOT,
				     "memory of a flushed READ or atomic");
	}
	memcpy(&now, p.word->p, 8);
	CHECK_EQ(now, p.fadds, "atomics executed");
	/*
	 * Data of messages behind it may have been placed before it was found to be bad, but never
	 * their tails. What was not to be sent is not there at all.
	 */
	if (bad->what == LBEYOND && takes_recv(bad->op))
		got++;
	for (i = BEFORE_N + 1; remote_bad && i < n; i++) {
		if (!takes_recv(p.op[i]))
			continue;
		poison_check(p.recv->p + got * SLOT + p.len[i] - 1, SLOT - p.len[i] + 1,
			     "tail of a flushed SEND");
		got++;
	}
	poison_check(p.recv->p + got * SLOT, p.recv->len - got * SLOT, "flushed receives");
	if (!fetches && bad->what == BEYOND) {
		/* What lies inside may be written before the rest is refused; the tail never. */
		poison_check(target->p, 32, "before a WRITE that runs over the end");
	} else if (!fetches && bad->what == BEFORE) {
		poison_check(target->p + bad->len - 2, target->len - bad->len + 2,
			     "from the tail of a WRITE that starts too early");
	} else if (!fetches && bad->what == LBEYOND) {
		poison_check(target->p + 16 + bad->len - 1, 16, "from the tail of a WRITE that was "
			     "sent in part");
	} else {
		filled_check(target->p, target->len, fetches ? 0x3c : POISON,
			     "target of the bad WR");
	}
	filled_check(bsrc->p, bsrc->len, fetches ? POISON : 0x3c, "local memory of the bad WR");
	buf_guards(target);
	buf_guards(bsrc);
	buf_guards(p.remote);
	buf_guards(p.local);
	buf_guards(p.recv);
	buf_guards(p.word);

	/* Posts in ERR are taken and flushed. */
	wr = wr_make(IBV_WR_SEND, 900, NULL, 0, 0);
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 900, IBV_WC_WR_FLUSH_ERR);
	post_recv(c->qp[1], 901, NULL, 0);
	cq_expect(c->rcq[1], c->qp[1], 901, IBV_WC_WR_FLUSH_ERR);
	cq_silent(c->scq[0], 20);
	cq_silent(c->rcq[0], 0);
	cq_silent(c->scq[1], 0);
	cq_silent(c->rcq[1], 0);

	c->o.access[1] = ACC_ALL;
	conn_restart(c);
	conn_prove(c);
	if (bad->what == OTHER_PD)
		buf_dereg(target);
	events_drain(&ct_dev[1]);
	ct_release(mark);
}

#define ACCESS IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, \
	IBV_EVENT_QP_ACCESS_ERR, IBV_WC_SUCCESS
/* IB lists an operation that the QP does not allow as an invalid request; some say access. */
#define NOT_ALLOWED IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR, \
	IBV_EVENT_QP_ACCESS_ERR, IBV_WC_SUCCESS
#define INVALID IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, \
	IBV_EVENT_QP_REQ_ERR, IBV_WC_SUCCESS
#define LOCAL IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR, IBV_EVENT_COMM_EST, \
	IBV_EVENT_COMM_EST, IBV_WC_SUCCESS
/* Reported by the receive's completion: no event needed. */
#define TOO_LONG IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_COMM_EST, \
	IBV_EVENT_COMM_EST, IBV_WC_LOC_LEN_ERR
#define RECV_PROT IBV_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR, IBV_EVENT_COMM_EST, \
	IBV_EVENT_COMM_EST, IBV_WC_LOC_PROT_ERR

static void bad_all(const struct bad *t, int n)
{
	int i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < ROUNDS(3, 1); k++)
			bad_once(&t[i]);
}

CASE(error_rkey, "bad rkey in the middle of a stream, every opcode")
{
	static const struct bad t[] = {
		{ IBV_WR_RDMA_WRITE, 100, RKEY, ACCESS },
		{ IBV_WR_RDMA_WRITE, 20000, RKEY, ACCESS },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 5000, RKEY, ACCESS },
		{ IBV_WR_RDMA_READ, 1, RKEY, ACCESS },
		{ IBV_WR_RDMA_READ, 20000, RKEY, ACCESS },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, RKEY, ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, RKEY, ACCESS },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_dereg, "the rkey of a region that was just deregistered")
{
	static const struct bad t[] = {
		{ IBV_WR_RDMA_WRITE, 3000, DEREG, ACCESS },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 300, DEREG, ACCESS },
		{ IBV_WR_RDMA_READ, 3000, DEREG, ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, DEREG, ACCESS },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_bounds, "one byte beyond the end or before the start of a region")
{
	static const struct bad t[] = {
		{ IBV_WR_RDMA_WRITE, 1, BEYOND, ACCESS },
		{ IBV_WR_RDMA_WRITE, 100, BEFORE, ACCESS },
		{ IBV_WR_RDMA_WRITE, 7000, BEYOND, ACCESS },
		{ IBV_WR_RDMA_WRITE, 7000, BEFORE, ACCESS },
		{ IBV_WR_RDMA_WRITE, 100000, BEYOND, ACCESS },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 5000, BEYOND, ACCESS },
		{ IBV_WR_RDMA_READ, 100, BEYOND, ACCESS },
		{ IBV_WR_RDMA_READ, 7000, BEYOND, ACCESS },
		{ IBV_WR_RDMA_READ, 7000, BEFORE, ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, BEYOND, ACCESS },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, BEFORE, ACCESS },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_permission, "a region or a QP without REMOTE_WRITE, REMOTE_READ or REMOTE_ATOMIC")
{
	static const struct bad t[] = {
		{ IBV_WR_RDMA_WRITE, 100, PERM, ACCESS },
		{ IBV_WR_RDMA_WRITE, 9000, PERM, ACCESS },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 9000, PERM, ACCESS },
		{ IBV_WR_RDMA_READ, 9000, PERM, ACCESS },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, PERM, ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, PERM, ACCESS },
		{ IBV_WR_RDMA_WRITE, 9000, QP_FLAGS, NOT_ALLOWED },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 90, QP_FLAGS, NOT_ALLOWED },
		{ IBV_WR_RDMA_READ, 9000, QP_FLAGS, NOT_ALLOWED },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, QP_FLAGS, NOT_ALLOWED },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_behind_a_long_read, "a bad rkey behind a READ that takes longer than the retries of the peer")
{
	struct conn_opt o = conn_defaults();
	size_t len = ROUNDS(64, 32) * 1024 * KIB;
	struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL), *b = buf_new(&ct_dev[1], len, ACC_ALL);
	struct ibv_sge all = buf_sge(a, 0, len), few = buf_sge(a, 0, 8);
	struct ibv_send_wr read = wr_make(IBV_WR_RDMA_READ, 1, &all, 1, IBV_SEND_SIGNALED),
			   bad = wr_make(IBV_WR_RDMA_WRITE, 2, &few, 1, IBV_SEND_SIGNALED);
	uint64_t pat = rnd64();
	struct conn *c;

	o.timeout = 8; /* 1 ms: nothing next to the READ */
	o.retry_cnt = 1;
	c = conn_new(&o);
	pat_fill(b->p, len, pat, 0);
	wr_remote(&read, b, 0);
	wr_remote(&bad, b, 0);
	bad.wr.rdma.rkey ^= 1 << 20;
	post_send(c->qp[0], &read);
	post_send(c->qp[0], &bad);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	pat_check(a->p, len, pat, 0, "READ before the error");
	cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_REM_ACCESS_ERR);
}

CASE(error_other_pd, "the rkey of a region of another protection domain")
{
	static const struct bad t[] = {
		{ IBV_WR_RDMA_WRITE, 5000, OTHER_PD, ACCESS },
		{ IBV_WR_RDMA_READ, 50, OTHER_PD, ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, OTHER_PD, ACCESS },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_unaligned, "unaligned atomics")
{
	static const struct bad t[] = {
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, UNALIGNED, INVALID },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, UNALIGNED, INVALID },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_local, "local keys, bounds and permission: LOC_PROT_ERR at its place")
{
	static const struct bad t[] = {
		{ IBV_WR_SEND, 100, LKEY, LOCAL },
		{ IBV_WR_RDMA_WRITE, 9000, LKEY, LOCAL },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 9000, LKEY, LOCAL },
		{ IBV_WR_SEND, 100, LDEREG, LOCAL },
		{ IBV_WR_RDMA_WRITE, 9000, LDEREG, LOCAL },
		{ IBV_WR_SEND, 7000, LBEYOND, LOCAL },
		{ IBV_WR_RDMA_WRITE, 9000, LBEYOND, LOCAL },
		{ IBV_WR_RDMA_READ, 9000, LKEY, LOCAL },
		{ IBV_WR_RDMA_READ, 9000, LBEYOND, LOCAL },
		{ IBV_WR_RDMA_READ, 9000, LPERM, LOCAL },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, LKEY, LOCAL },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, LPERM, LOCAL },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_receive_small, "a message larger than its receive")
{
	static const struct bad t[] = {
		{ IBV_WR_SEND, 1, RECV_SMALL, TOO_LONG },
		{ IBV_WR_SEND, 100, RECV_SMALL, TOO_LONG },
		{ IBV_WR_SEND, 7000, RECV_SMALL, TOO_LONG },
		{ IBV_WR_SEND_WITH_IMM, 4097, RECV_SMALL, TOO_LONG },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		struct conn_opt o = conn_defaults();
		struct buf *a = buf_new(&ct_dev[0], SLOT, ACC_ALL);
		struct buf *b = buf_new(&ct_dev[1], SLOT, ACC_ALL);
		struct conn *c = conn_new(&o);
		struct ibv_sge s = buf_sge(a, 0, t[i].len), r = buf_sge(b, 0, t[i].len - 1);
		struct ibv_send_wr wr = wr_make(t[i].op, 1, &s, 1, IBV_SEND_SIGNALED);

		ct_doing("%zu bytes into %zu", t[i].len, t[i].len - 1);
		pat_fill(a->p, a->len, 1, 0);
		post_recv(c->qp[1], 1, &r, 1);
		post_recv(c->qp[1], 2, NULL, 0);
		post_send(c->qp[0], &wr);
		cq_expect(c->scq[0], c->qp[0], 1, t[i].status);
		cq_expect(c->rcq[1], c->qp[1], 1, t[i].recv);
		cq_expect(c->rcq[1], c->qp[1], 2, IBV_WC_WR_FLUSH_ERR);
		poison_check(b->p + t[i].len - 1, SLOT - t[i].len + 1, "behind the receive");
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(error_receive_key, "a receive whose memory may not be written: LOC_PROT_ERR and REM_OP_ERR")
{
	static const enum bad_what t[] = { RECV_LKEY, RECV_DEREG, RECV_PERM };
	unsigned int i;
	int k;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		struct conn_opt o = conn_defaults();
		struct buf *a = buf_new(&ct_dev[0], SLOT, ACC_ALL);
		struct buf *b = buf_new(&ct_dev[1], 3 * SLOT, ACC_ALL);
		struct buf *x = buf_new(&ct_dev[1], SLOT, t[i] == RECV_PERM ? 0 : ACC_ALL);
		struct conn *c = conn_new(&o);
		struct ibv_sge s = buf_sge(a, 0, SLOT - 9);

		ct_doing("receive of kind %u", i);
		pat_fill(a->p, a->len, 1, 0);
		for (k = 0; k < 3; k++) {
			struct ibv_sge r = buf_sge(k == 1 ? x : b, k == 1 ? 0 : k * SLOT, SLOT);

			if (k == 1 && t[i] == RECV_LKEY)
				r.lkey = 0xdeadbeef;
			post_recv(c->qp[1], k, &r, 1);
		}
		if (t[i] == RECV_DEREG)
			buf_dereg(x);
		for (k = 0; k < 4; k++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, k, &s, 1, IBV_SEND_SIGNALED);

			post_send(c->qp[0], &wr);
		}
		cq_expect(c->scq[0], c->qp[0], 0, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_REM_OP_ERR);
		cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_WR_FLUSH_ERR);
		cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_WR_FLUSH_ERR);
		cq_expect(c->rcq[1], c->qp[1], 0, IBV_WC_SUCCESS);
		cq_expect(c->rcq[1], c->qp[1], 1, IBV_WC_LOC_PROT_ERR);
		cq_expect(c->rcq[1], c->qp[1], 2, IBV_WC_WR_FLUSH_ERR);
		pat_check(b->p, SLOT - 9, 1, 0, "SEND before");
		poison_check(b->p + SLOT, SLOT, "memory of no receive");
		poison_check(b->p + 3 * SLOT - 10, 10, "tail of a SEND that was flushed");
		poison_check(x->p, x->len, "memory that may not be written");
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(error_receive_stream, "receives too small or with a bad key, in the middle of a stream")
{
	static const struct bad t[] = {
		{ IBV_WR_SEND, 100, RECV_SMALL, TOO_LONG },
		{ IBV_WR_SEND_WITH_IMM, 7000, RECV_SMALL, TOO_LONG },
		{ IBV_WR_SEND, 100, RECV_LKEY, RECV_PROT },
		{ IBV_WR_SEND, 7000, RECV_DEREG, RECV_PROT },
		{ IBV_WR_SEND_WITH_IMM, 7000, RECV_PERM, RECV_PROT },
	};

	bad_all(t, ARRAY_SIZE(t));
}

CASE(error_no_read_slots,
     "a READ to a responder with max_dest_rd_atomic 0, and by one with max_rd_atomic 0")
{
	struct conn_opt o = conn_defaults();
	struct buf *a = buf_new(&ct_dev[0], 64, ACC_ALL), *b = buf_new(&ct_dev[1], 64, ACC_ALL);
	struct ibv_sge s = buf_sge(a, 0, 64);
	struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, 1, &s, 1, IBV_SEND_SIGNALED), *bad;
	struct conn *c;
	struct ibv_wc wc;

	ct_doing("max_dest_rd_atomic 0");
	o.dest_rd_atomic = 0;
	c = conn_new(&o);
	wr_remote(&wr, b, 0);
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_REM_INV_REQ_ERR);

	ct_doing("max_rd_atomic 0");
	o = conn_defaults();
	o.rd_atomic = 0;
	c = conn_new(&o);
	if (!ibv_post_send(c->qp[0], &wr, &bad)) {
		/* Whatever it is, it must end, and not well. */
		cq_wait(c->scq[0], &wc);
		CHECK(wc.status != IBV_WC_SUCCESS, "a READ without room for READs succeeds");
	}
	conn_restart(c);
	conn_prove(c);
}

CASE(error_reads_above_the_peers_depth,
     "max_rd_atomic above the peer's max_dest_rd_atomic: all well, or refused; no READ hangs")
{
	struct conn_opt o = conn_defaults();
	size_t len = 6000;
	struct buf *b = buf_new(&ct_dev[1], len, ACC_ALL), *a[8];
	struct conn *c;
	int round, i;

	o.dest_rd_atomic = 1;
	o.rd_atomic = 4;
	c = conn_new(&o);
	pat_fill(b->p, len, 9, 0);
	for (i = 0; i < 8; i++)
		a[i] = buf_new(&ct_dev[0], len, ACC_ALL);
	for (round = 0; round < ROUNDS(10, 3); round++) {
		bool good = true;
		struct ibv_wc wc;

		for (i = 0; i < 8; i++) {
			struct ibv_sge s = buf_sge(a[i], 0, len);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, i, &s, 1,
							IBV_SEND_SIGNALED);

			memset(a[i]->p, 0, len);
			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		for (i = 0; i < 8; i++) {
			cq_wait(c->scq[0], &wc);
			CHECK_EQ(wc.wr_id, i, "wr_id");
			ct_doing("round %d, READ %d: status %d", round, i, wc.status);
			if (wc.status == IBV_WC_SUCCESS) {
				CHECK(good, "a good READ after a bad one");
				pat_check(a[i]->p, len, 9, 0, "READ data");
			} else if (good) {
				CHECK_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR, "refusal");
				good = false;
			} else {
				CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR, "status behind a refusal");
			}
		}
		conn_restart(c);
	}
	conn_prove(c);
}

/* ---- C7: silence after death ---------------------------------------------------------------- */

/*
 * Completions 0 .. n-1 in order: good ones, then at most one with an error of its own, then flushed
 * ones. Returns how many were good; the first other status goes to *first.
 */
static int prefix(struct conn *c, int n, enum ibv_wc_status *first)
{
	int good = 0, i;
	struct ibv_wc wc;

	*first = IBV_WC_SUCCESS;
	for (i = 0; i < n; i++) {
		cq_wait(c->scq[0], &wc);
		CHECK_EQ(wc.wr_id, i, "wr_id");
		CHECK_EQ(wc.qp_num, c->qp[0]->qp_num, "qp_num");
		if (wc.status == IBV_WC_SUCCESS) {
			CHECK(good == i, "WR %d succeeds behind one that did not", i);
			good++;
		} else if (i == good) {
			*first = wc.status;
		} else {
			CHECK(wc.status == IBV_WC_WR_FLUSH_ERR, "WR %d behind the end: \"%s\"", i,
			      ibv_wc_status_str(wc.status));
		}
	}
	cq_silent(c->scq[0], 20);
	return good;
}

CASE(flush_blocked, "modify to ERR: everything posted before and after is flushed exactly once")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	int i, round;

	for (round = 0; round < ROUNDS(10, 3); round++) {
		ct_doing("round %d", round);
		for (i = 0; i < 20; i++)
			post_recv(c->qp[0], 100 + i, NULL, 0);
		/* Nothing of this can complete: no receives over there. */
		for (i = 0; i < 30; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, NULL, 0,
							rnd(2) ? IBV_SEND_SIGNALED : 0);

			post_send(c->qp[0], &wr);
		}
		if (round & 1)
			ct_sleep_ms(20);
		conn_to_err(c, 0);
		CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_ERR, "state");
		for (i = 30; i < 40; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, NULL, 0, 0);

			post_send(c->qp[0], &wr);
			post_recv(c->qp[0], 90 + i, NULL, 0);
		}
		for (i = 0; i < 40; i++)
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
		for (i = 0; i < 30; i++)
			cq_expect(c->rcq[0], c->qp[0], 100 + i, IBV_WC_WR_FLUSH_ERR);
		cq_silent(c->scq[0], 20);
		cq_silent(c->rcq[0], 0);
		/* One at a time too. */
		for (i = 0; i < 5; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, NULL, 0, 0);

			post_send(c->qp[0], &wr);
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
		}
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(flush_in_flight, "modify to ERR of the requester while all its opcodes are under way")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 32 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 32 * len, ACC_ALL),
		   *b = buf_new(&ct_dev[1], len, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(20, 6); round++) {
		enum ibv_wc_status first;
		int good, reads[32] = { 0 };

		poison(a->p, a->len);
		for (i = 0; i < 32; i++) {
			struct ibv_sge s = buf_sge(a, i * len, len);
			struct ibv_send_wr wr;

			reads[i] = rnd(2);
			wr = wr_make(reads[i] ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, &s, 1,
				     IBV_SEND_SIGNALED);
			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		ct_sleep_ms(rnd(12));
		conn_to_err(c, 0);
		/* From here on no READ may land any more. */
		poison(a->p, a->len);
		good = prefix(c, 32, &first);
		ct_doing("round %d: %d of 32 were complete", round, good);
		CHECK(good == 32 || first == IBV_WC_WR_FLUSH_ERR,
		      "first one that is not good: \"%s\"", ibv_wc_status_str(first));
		ct_sleep_ms(50);
		poison_check(a->p, a->len, "local memory after the QP went to ERR");
		conn_restart(c);
		conn_prove(c);
	}
}

/* The responder's side dies by one of several means while WRITEs, SENDs and READs come in. */
enum death { TO_ERR, TO_RESET, DESTROY, DEREG_MR };

static void responder_dies(enum death how)
{
	size_t len = 24 * KIB;
	int round, i, cut = 0;

	for (round = 0; round < ROUNDS(16, 4); round++) {
		int good, sends = 0, mark = ct_mark();
		struct conn_opt o = conn_defaults();
		struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL);
		struct buf *b = buf_new(&ct_dev[1], 48 * len, ACC_ALL);
		struct conn *c;
		enum ibv_wc_status first;
		uint8_t *copy = ct_alloc(48 * len);

		ct_doing("round %d", round);
		o.timeout = 13; /* 34 ms: so that the end comes soon */
		o.retry_cnt = how == DEREG_MR ? 7 : 4;
		c = conn_new(&o);
		pat_fill(a->p, len, round, 0);
		for (i = 0; i < 48; i++) {
			struct ibv_sge s = buf_sge(a, 0, len), r = buf_sge(b, i * len, len);
			bool send = how != DEREG_MR && rnd(3) == 0;
			struct ibv_send_wr wr = wr_make(send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, i,
							&s, 1, IBV_SEND_SIGNALED);

			if (send) {
				post_recv(c->qp[1], i, &r, 1);
				sends++;
			} else {
				wr_remote(&wr, b, i * len);
			}
			post_send(c->qp[0], &wr);
		}
		if (round % 4)
			ct_sleep_ms(rnd(15));
		switch (how) {
		case TO_ERR:
			conn_to_err(c, 1);
			break;
		case TO_RESET:
			conn_to_reset(c, 1);
			break;
		case DESTROY:
			conn_destroy_qp(c, 1);
			break;
		case DEREG_MR:
			buf_dereg(b);
			break;
		}
		memcpy(copy, b->p, 48 * len);
		good = prefix(c, 48, &first);
		ct_doing("round %d: %d of 48 were complete, then \"%s\"", round, good,
			 ibv_wc_status_str(first));
		if (good < 48) {
			cut++;
			CHECK_EQ(first,
				 how == DEREG_MR ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR,
				 "status of the WR at the end");
		}
		ct_sleep_ms(30);
		for (i = 0; i < (int)(48 * len); i++)
			if (copy[i] != b->p[i])
				ct_fail("byte %d changed after the call had returned", i);
		for (i = 0; i < good; i++)
			pat_check(b->p + i * len, len, round, 0, "WR that was completed");
		buf_guards(b);
		if (how == TO_ERR) {
			struct ibv_wc wc;
			bool flushed = false;

			for (i = 0; i < sends; i++) {
				cq_wait(c->rcq[1], &wc);
				CHECK(wc.status == IBV_WC_SUCCESS ||
					      wc.status == IBV_WC_WR_FLUSH_ERR,
				      "receive: \"%s\"", ibv_wc_status_str(wc.status));
				CHECK(!flushed || wc.status != IBV_WC_SUCCESS,
				      "a good receive behind a flushed one");
				flushed |= wc.status != IBV_WC_SUCCESS;
			}
			cq_silent(c->rcq[1], 0);
		}
		if (how == TO_RESET || how == DESTROY)
			cq_silent(c->rcq[1], 0);
		if (how != DESTROY) {
			conn_restart(c);
			conn_prove(c);
		}
		ct_release(mark);
	}
	ct_diag("cut in the middle in %d of %d rounds", cut, round);
}

CASE(responder_err, "responder to ERR while data come in: its memory is left alone from then on")
{
	responder_dies(TO_ERR);
}

CASE(responder_reset, "the same with RESET: and no completion of the old life is left")
{
	responder_dies(TO_RESET);
}

CASE(responder_destroy, "the same with destroy_qp")
{
	responder_dies(DESTROY);
}

CASE(responder_dereg, "dereg_mr while WRITEs come in: memory untouched after it returned")
{
	responder_dies(DEREG_MR);
}

CASE(requester_destroy, "destroy_qp and RESET of the requester with READs under way")
{
	size_t len = 32 * KIB;
	int round, i;

	for (round = 0; round < ROUNDS(16, 4); round++) {
		struct conn_opt o = conn_defaults();
		struct conn *c = conn_new(&o);
		struct buf *a = buf_new(&ct_dev[0], 16 * len, ACC_ALL);
		struct buf *b = buf_new(&ct_dev[1], len, ACC_ALL);

		ct_doing("round %d", round);
		pat_fill(b->p, len, 1, 0);
		for (i = 0; i < 16; i++) {
			struct ibv_sge s = buf_sge(a, i * len, len);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, i, &s, 1,
							IBV_SEND_SIGNALED);

			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		if (round % 4)
			ct_sleep_ms(rnd(10));
		if (round & 1)
			conn_destroy_qp(c, 0);
		else
			conn_to_reset(c, 0);
		poison(a->p, a->len);
		ct_sleep_ms(60);
		poison_check(a->p, a->len, "target of the READs after the QP is gone");
		cq_silent(c->scq[0], 0);
		if (!(round & 1)) {
			conn_restart(c);
			conn_prove(c);
		}
	}
}

static void cqes_removed(bool destroy)
{
	struct conn_opt o = conn_defaults();
	struct ibv_cq *cq[2] = { ct_cq(&ct_dev[0], 512, NULL), ct_cq(&ct_dev[1], 512, NULL) };
	struct buf *b = buf_new(&ct_dev[1], 64, ACC_ALL);
	struct conn *gone, *stays;
	int i, end, round;

	for (end = 0; end < 2; end++)
		o.scq[end] = o.rcq[end] = cq[end];
	stays = conn_new(&o);
	for (round = 0; round < ROUNDS(6, 2); round++) {
		ct_doing("round %d", round);
		gone = conn_new(&o);
		for (i = 0; i < 20; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);

			post_recv(gone->qp[1], 100 + i, NULL, 0);
			post_recv(stays->qp[1], 200 + i, NULL, 0);
			post_send(gone->qp[0], &wr);
			wr.wr_id = 300 + i;
			post_send(stays->qp[0], &wr);
		}
		/* A WRITE tells when all before it is executed, without a look at the CQ. */
		for (i = 0; i < 2; i++) {
			struct conn *c = i ? gone : stays;
			uint32_t one = 1;
			struct ibv_sge s = { .addr = (uintptr_t)&one, .length = 4 };
			struct ibv_send_wr wr =
				wr_make(IBV_WR_RDMA_WRITE, 400, &s, 1, IBV_SEND_INLINE);
			struct ct_wait w;

			memset(b->p, 0, 8);
			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
			ct_wait_start(&w);
			while (!READ_ONCE(*(uint32_t *)b->p))
				CHECK(ct_wait_step(&w), "the WRITE does not arrive");
		}
		ct_sleep_ms(300); /* the acknowledgements */
		for (end = 0; end < 2; end++) {
			if (destroy)
				conn_destroy_qp(gone, end);
			else
				conn_to_reset(gone, end);
		}
		for (i = 0; i < 20; i++) {
			cq_expect(cq[1], stays->qp[1], 200 + i, IBV_WC_SUCCESS);
			cq_expect(cq[0], stays->qp[0], 300 + i, IBV_WC_SUCCESS);
		}
		cq_silent(cq[0], 50);
		cq_silent(cq[1], 0);
		if (!destroy) {
			conn_restart(gone);
			conn_prove(gone);
		}
		conn_prove(stays);
	}
}

CASE(destroy_removes_cqes, "destroy_qp takes that QP's entries out of the CQ, and only those")
{
	cqes_removed(true);
}

CASE(reset_removes_cqes, "RESET takes that QP's entries out of the CQ, and only those")
{
	cqes_removed(false);
}

CASE(reset_restart, "RESET of both ends under traffic, again and again; the new life is clean")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 12 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 16 * len, ACC_ALL),
		   *b = buf_new(&ct_dev[1], len, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(30, 8); round++) {
		ct_doing("round %d", round);
		for (i = 0; i < 48; i++) {
			struct ibv_sge s = buf_sge(a, i % 16 * len, len);
			struct ibv_send_wr wr =
				wr_make(i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i, &s, 1,
					IBV_SEND_SIGNALED);

			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		if (round & 1)
			ct_sleep_ms(rnd(8));
		conn_restart(c);
		conn_prove(c);
		cq_silent(c->scq[0], 0);
		cq_silent(c->rcq[1], 0);
	}
}

CASE(local_dereg_in_flight, "dereg_mr of the source while WRITEs from it are under way")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 64 * KIB;
	struct buf *b = buf_new(&ct_dev[1], len, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(10, 3); round++) {
		struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL);
		enum ibv_wc_status first;
		int good;

		pat_fill(a->p, len, 5, 0);
		for (i = 0; i < 32; i++) {
			struct ibv_sge s = buf_sge(a, 0, len);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
							IBV_SEND_SIGNALED);

			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		ct_sleep_ms(rnd(5));
		buf_dereg(a);
		good = prefix(c, 32, &first);
		ct_doing("round %d: %d of 32 were good", round, good);
		if (good < 32)
			CHECK_EQ(first, IBV_WC_LOC_PROT_ERR, "status of the WR at the end");
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(read_source_dereg, "the source of a READ is deregistered as soon as the READ has completed")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 48 * KIB;
	struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL);
	int round;

	for (round = 0; round < ROUNDS(200, 60); round++) {
		struct buf *b = buf_new(&ct_dev[1], len, ACC_ALL);
		struct ibv_sge s = buf_sge(a, 0, len);
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, round, &s, 1, IBV_SEND_SIGNALED);

		ct_doing("round %d", round);
		pat_fill(b->p, len, round, 0);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		cq_expect(c->scq[0], c->qp[0], round, IBV_WC_SUCCESS);
		/* answers may be lost: the peer may still want to send some of it again */
		buf_dereg(b);
		pat_check(a->p, len, round, 0, "READ data");
	}
	conn_prove(c);
}

CASE(churn, "connections made and torn down under traffic, from both ends")
{
	size_t len = 8 * KIB;
	struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL), *b = buf_new(&ct_dev[1], len, ACC_ALL);
	int round, i, end;

	for (round = 0; round < ROUNDS(60, 12); round++) {
		struct conn_opt o = conn_defaults();
		struct conn *c = conn_new(&o);

		ct_doing("round %d", round);
		for (end = 0; end < 2; end++)
			for (i = 0; i < 32; i++) {
				struct ibv_sge s = buf_sge(end ? b : a, 0, len);
				struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
								IBV_SEND_SIGNALED);

				wr_remote(&wr, end ? a : b, 0);
				if (rnd(4) == 0)
					wr.opcode = IBV_WR_RDMA_READ;
				post_send(c->qp[end], &wr);
			}
		end = rnd(2);
		if (rnd(2))
			ct_sleep_ms(rnd(4));
		conn_destroy_qp(c, end);
		if (rnd(2))
			ct_sleep_ms(rnd(4));
		conn_destroy_qp(c, !end);
		cq_silent(c->scq[0], 0);
		cq_silent(c->scq[1], 0);
	}
}

/* ---- nobody answers ------------------------------------------------------------------------- */

static void nobody(enum ibv_wr_opcode op, int how)
{
	struct conn_opt o = conn_defaults();
	struct buf *a = buf_new(&ct_dev[0], 8 * KIB, ACC_ALL),
		   *b = buf_new(&ct_dev[1], 8 * KIB, ACC_ALL);
	struct ibv_sge s = buf_sge(a, 0, op >= IBV_WR_ATOMIC_CMP_AND_SWP ? 8 : a->len);
	struct conn *c;
	uint64_t start;
	double took;
	int i;

	o.timeout = 12; /* 16.8 ms */
	o.retry_cnt = 2;
	c = conn_create(&o);
	ct_doing("%s to a QP %s", op_name(op),
		 how == 0 ? "destroyed" : how == 1 ? "in INIT" : how == 2 ? "in RESET" : "in ERR");
	if (how == 1) {
		conn_to_init(c, 0);
		conn_to_rtr(c, 0);
		conn_to_rts(c, 0);
		conn_to_init(c, 1);
	} else {
		conn_up(c);
		if (how == 0)
			conn_destroy_qp(c, 1);
		else if (how == 2)
			conn_to_reset(c, 1);
		else
			conn_to_err(c, 1);
	}
	start = ct_now_ns();
	for (i = 0; i < 6; i++) {
		struct ibv_send_wr wr = wr_make(op, i, &s, 1, i & 1 ? IBV_SEND_SIGNALED : 0);

		if (op >= IBV_WR_ATOMIC_CMP_AND_SWP)
			wr_fadd(&wr, b, 0, 1);
		else
			wr_remote(&wr, b, 0);
		if (op == IBV_WR_SEND)
			memset(&wr.wr, 0, sizeof(wr.wr));
		post_send(c->qp[0], &wr);
	}
	cq_expect(c->scq[0], c->qp[0], 0, IBV_WC_RETRY_EXC_ERR);
	took = (ct_now_ns() - start) / 1e9;
	for (i = 1; i < 6; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
	cq_silent(c->scq[0], 20);
	/* (retry_cnt + 1) x timeout is 50 ms; IB allows 4 x that, slow paths some more. */
	CHECK(took < 20, "the retries took %.1f s", took);
	CHECK(took > 0.03, "the retries took only %.4f s", took);
	poison_check(b->p, b->len, "memory of the peer");
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_ERR, "state");
	if (how) {
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(retry_destroyed, "peer QP destroyed: RETRY_EXC_ERR in good time, the rest flushed")
{
	nobody(IBV_WR_RDMA_WRITE, 0);
	nobody(IBV_WR_SEND, 0);
	nobody(IBV_WR_RDMA_READ, 0);
	nobody(IBV_WR_ATOMIC_FETCH_AND_ADD, 0);
}

CASE(retry_not_ready, "peer QP in INIT, RESET or ERR: RETRY_EXC_ERR too")
{
	nobody(IBV_WR_RDMA_WRITE, 1);
	nobody(IBV_WR_SEND, 2);
	nobody(IBV_WR_RDMA_WRITE, 3);
}

/* ---- posts that are refused ----------------------------------------------------------------- */

CASE(sq_full, "more WRs than the queue takes: ENOMEM, bad_wr the first refused, N completions")
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct ibv_send_wr *wr, *bad = NULL;
	uint32_t cap, i;
	int r;

	o.sq = 16;
	o.rq = 4096;
	o.rq = min_t(uint32_t, o.rq, ct_dev[1].attr.max_qp_wr);
	o.cqe = 2 * o.rq;
	c = conn_new(&o);
	cap = c->cap[0].max_send_wr;
	CHECK(cap <= o.rq, "16 WRs asked, %u got", cap);
	wr = ct_alloc((cap + 3) * sizeof(*wr));
	for (i = 0; i < cap + 3; i++) {
		wr[i] = wr_make(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);
		wr[i].next = i + 1 < cap + 3 ? &wr[i + 1] : NULL;
	}
	/* No receives: nothing completes while we post. */
	r = ibv_post_send(c->qp[0], wr, &bad);
	CHECK_EQ(r, ENOMEM, "return of post_send");
	CHECK(bad == &wr[cap], "bad_wr: expected WR %u, saw %td", cap, bad - wr);
	r = ibv_post_send(c->qp[0], &wr[cap + 2], &bad);
	CHECK_EQ(r, ENOMEM, "return of post_send to the full queue");
	CHECK(bad == &wr[cap + 2], "bad_wr of the full queue");
	cq_silent(c->scq[0], 20);
	for (i = 0; i < cap; i++)
		post_recv(c->qp[1], i, NULL, 0);
	for (i = 0; i < cap; i++) {
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
	cq_silent(c->scq[0], 50);
	cq_silent(c->rcq[1], 0);
	conn_prove(c);
}

CASE(rq_full, "more receives than the queue takes")
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct ibv_recv_wr *wr, *bad = NULL;
	uint32_t cap, i;
	int r;

	o.rq = 16;
	o.cqe = 4096;
	c = conn_create(&o);
	conn_to_init(c, 1);
	cap = c->cap[1].max_recv_wr;
	wr = ct_alloc((cap + 3) * sizeof(*wr));
	for (i = 0; i < cap + 3; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = i,
					      .next = i + 1 < cap + 3 ? &wr[i + 1] : NULL };
	r = ibv_post_recv(c->qp[1], wr, &bad);
	CHECK_EQ(r, ENOMEM, "return of post_recv");
	CHECK(bad == &wr[cap], "bad_wr: expected receive %u, saw %td", cap, bad - wr);
	conn_to_init(c, 0);
	for (i = 0; i < 2; i++)
		conn_to_rtr(c, i);
	for (i = 0; i < 2; i++)
		conn_to_rts(c, i);
	for (i = 0; i < cap; i++) {
		struct ibv_send_wr s = wr_make(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);

		post_send(c->qp[0], &s);
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
	}
	conn_prove(c);
}

CASE(post_bad_sges, "too many SGEs, too much inline: refused, the QP goes on")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(&ct_dev[0], 64 * KIB, ACC_ALL);
	struct ibv_sge s[SGL_MAX + 2];
	struct ibv_send_wr wr, *bads;
	struct ibv_recv_wr rw = { .wr_id = 7 }, *badr;
	uint32_t n, i;

	for (i = 0; i < ARRAY_SIZE(s); i++)
		s[i] = buf_sge(a, i, 1);
	n = c->cap[0].max_send_sge + 1;
	if (n <= ARRAY_SIZE(s)) {
		wr = wr_make(IBV_WR_SEND, 1, s, n, IBV_SEND_SIGNALED);
		bads = NULL;
		CHECK(ibv_post_send(c->qp[0], &wr, &bads) > 0, "%u SGEs taken", n);
		CHECK(bads == &wr, "bad_wr");
	}
	n = c->cap[0].max_recv_sge + 1;
	if (n <= ARRAY_SIZE(s)) {
		rw.sg_list = s;
		rw.num_sge = n;
		badr = NULL;
		CHECK(ibv_post_recv(c->qp[0], &rw, &badr) > 0, "%u SGEs of a receive taken", n);
		CHECK(badr == &rw, "bad_wr");
	}
	s[0] = buf_sge(a, 0, c->cap[0].max_inline_data + 1);
	wr = wr_make(IBV_WR_SEND, 2, s, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	bads = NULL;
	CHECK(ibv_post_send(c->qp[0], &wr, &bads) > 0, "%u bytes of inline taken", s[0].length);
	CHECK(bads == &wr, "bad_wr");
	/* Good ones before a bad one in a chain are posted. */
	{
		struct ibv_send_wr two[2];

		post_recv(c->qp[1], 3, NULL, 0);
		two[0] = wr_make(IBV_WR_SEND, 3, NULL, 0, IBV_SEND_SIGNALED);
		two[1] = wr;
		two[0].next = &two[1];
		bads = NULL;
		CHECK(ibv_post_send(c->qp[0], two, &bads) > 0, "a chain with a bad WR taken");
		CHECK(bads == &two[1], "bad_wr");
		cq_expect(c->rcq[1], c->qp[1], 3, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_SUCCESS);
	}
	cq_silent(c->scq[0], 20);
	conn_prove(c);
}

CASE(post_wrong_state, "sends in RESET, INIT and RTR and receives in RESET are refused")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_create(&o);
	struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 1, NULL, 0, IBV_SEND_SIGNALED), *bads = NULL;
	struct ibv_recv_wr rw = { .wr_id = 1 }, *badr = NULL;

	CHECK(ibv_post_send(c->qp[0], &wr, &bads) > 0, "send taken in RESET");
	CHECK(bads == &wr, "bad_wr");
	CHECK(ibv_post_recv(c->qp[0], &rw, &badr) > 0, "receive taken in RESET");
	CHECK(badr == &rw, "bad_wr");
	conn_to_init(c, 0);
	conn_to_init(c, 1);
	bads = NULL;
	CHECK(ibv_post_send(c->qp[0], &wr, &bads) > 0, "send taken in INIT");
	CHECK(bads == &wr, "bad_wr");
	post_recv(c->qp[1], 5, NULL, 0);
	conn_to_rtr(c, 0);
	conn_to_rtr(c, 1);
	bads = NULL;
	CHECK(ibv_post_send(c->qp[0], &wr, &bads) > 0, "send taken in RTR");
	CHECK(bads == &wr, "bad_wr");
	conn_to_rts(c, 0);
	/* A responder in RTR receives; and it has seen nothing of what was refused. */
	wr.wr_id = 9;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 9, IBV_WC_SUCCESS);
	cq_expect(c->rcq[1], c->qp[1], 5, IBV_WC_SUCCESS);
	conn_to_rts(c, 1);
	cq_silent(c->scq[0], 20);
	cq_silent(c->rcq[1], 0);
	conn_prove(c);
}
