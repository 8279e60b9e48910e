// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Every opcode, size and shape of a message, one at a time; completion events. */
#include "contract.h"

#include <fcntl.h>
#include <poll.h>

#define BIG (1 * MIB)

struct rig {
	struct conn *c;
	struct buf *a, *b; /* requester's, responder's */
	uint64_t id;
};

static void rig_new(struct rig *r, const struct conn_opt *o, size_t max, int sges)
{
	size_t len = sgl_room(max, sges) + 256;

	r->c = conn_new(o);
	r->a = buf_new_skew(r->c->o.dev[0], len, ACC_ALL, 1);
	r->b = buf_new_skew(r->c->o.dev[1], len, ACC_ALL, 5);
	r->id = 1000;
}

/*
 * One message of `len` bytes in `ns` pieces at the requester and, where the responder has a list
 * too (SEND), `nr` there. Everything around the message must stay as it was.
 */
static void op_once(struct rig *r, enum ibv_wr_opcode op, size_t len, int ns, int nr,
		    unsigned int flags)
{
	struct conn *c = r->c;
	uint32_t imm = rnd64();
	uint64_t pat = rnd64(), sid = r->id++, rid = r->id++;
	size_t at = 64 + rnd(64);
	bool with_recv = op != IBV_WR_RDMA_WRITE && op != IBV_WR_RDMA_READ;
	struct ibv_send_wr wr;
	struct sgl s, d;
	struct ibv_wc wc;

	ct_doing("%s of %zu bytes, %d pieces to %d%s", op_name(op), len, ns, nr,
		 flags & IBV_SEND_INLINE ? ", inline" : "");
	sgl_build(&s, r->a, 0, len, ns);
	wr = wr_make(op, sid, s.sge, s.n, IBV_SEND_SIGNALED | flags);
	wr.imm_data = imm;
	switch (op) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		sgl_fill(&s, pat);
		/* The receive is at times larger than the message. */
		sgl_build(&d, r->b, 0, len + (rnd(2) ? rnd(8) : 0), nr);
		post_recv(c->qp[1], rid, d.sge, d.n);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		post_recv(c->qp[1], rid, NULL, 0);
		/* fall through */
	case IBV_WR_RDMA_WRITE:
		sgl_fill(&s, pat);
		poison(r->b->p, len + 256);
		wr_remote(&wr, r->b, at);
		break;
	case IBV_WR_RDMA_READ:
		poison(r->b->p, len + 256);
		pat_fill(r->b->p + at, len, pat, 0);
		wr_remote(&wr, r->b, at);
		break;
	default:
		ct_fail("opcode %d not for here", op);
	}
	post_send(c->qp[0], &wr);
	if (flags & IBV_SEND_INLINE) {
		/* The data were taken by post_send: spoil them at once. */
		int i;

		for (i = 0; i < s.n; i++)
			memset(r->a->p + s.off[i], 0x5c, s.len[i]);
	}
	if (with_recv) {
		wc = cq_expect(c->rcq[1], c->qp[1], rid, IBV_WC_SUCCESS);
		if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
			pat_check(r->b->p + at, len, pat, 0, "WRITE_IMM at its receive");
		else
			sgl_check(&d, pat, len);
		wc_recv_fields(&wc, op, len, imm);
	}
	wc = cq_expect(c->scq[0], c->qp[0], sid, IBV_WC_SUCCESS);
	wc_send_fields(&wc, op, len);
	switch (op) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
		pat_check(r->b->p + at, len, pat, 0, "WRITE at its completion");
		poison_check(r->b->p, at, "before the target of the WRITE");
		poison_check(r->b->p + at + len, 256 - at, "after the target of the WRITE");
		break;
	case IBV_WR_RDMA_READ:
		sgl_check(&s, pat, len);
		pat_check(r->b->p + at, len, pat, 0, "source of the READ");
		break;
	default:
		break;
	}
}

static void rig_end(struct rig *r)
{
	cq_silent(r->c->scq[0], 0);
	cq_silent(r->c->rcq[1], 0);
	buf_guards(r->a);
	buf_guards(r->b);
}

static const enum ibv_wr_opcode data_ops[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
};

static void sizes_of(enum ibv_wr_opcode op)
{
	static const size_t fixed[] = {
		0,    1,    2,	  3,	4,     5,     7,     8,	    9,	  13,	15,
		16,   17,   31,	  32,	33,    63,    64,    65,    127,  129,	255,
		256,  257,  511,  513,	1023,  1024,  1025,  2047,  2048, 2049, 4095,
		4096, 4097, 8191, 8193, 16384, 65535, 65536, 65537,
	};
	size_t mtu = mtu_bytes(ct_dev[0].mtu), n, m;
	struct conn_opt o = conn_defaults();
	struct rig r;
	unsigned int i;

	rig_new(&r, &o, BIG, 1);
	for (i = 0; i < ARRAY_SIZE(fixed); i++)
		op_once(&r, op, fixed[i], 1, 1, 0);
	for (m = mtu; m <= 4 * mtu; m += mtu)
		for (n = m - 1; n <= m + 1; n++)
			op_once(&r, op, n, 1, 1, 0);
	/* What fits into a packet may follow from the route instead of the MTU of the verbs. */
	for (n = 1360; n <= 1500; n += ct_quick ? 1 + rnd(12) : 1 + rnd(2))
		op_once(&r, op, n, 1, 1, 0);
	for (n = 8850; n <= 9000; n += 1 + rnd(ct_quick ? 60 : 12))
		op_once(&r, op, n, 1, 1, 0);
	for (i = 0; i < (unsigned int)ROUNDS(60, 12); i++)
		op_once(&r, op, rnd(rnd(4) ? 10000 : 80000), 1, 1, 0);
	op_once(&r, op, BIG - 1, 1, 1, 0);
	op_once(&r, op, BIG, 1, 1, 0);
	rig_end(&r);
}

CASE(sizes_send, "SEND of every size up to 1 MiB")
{
	sizes_of(IBV_WR_SEND);
}

CASE(sizes_send_imm, "SEND_WITH_IMM of every size up to 1 MiB")
{
	sizes_of(IBV_WR_SEND_WITH_IMM);
}

CASE(sizes_write, "WRITE of every size up to 1 MiB")
{
	sizes_of(IBV_WR_RDMA_WRITE);
}

CASE(sizes_write_imm, "WRITE_WITH_IMM of every size up to 1 MiB")
{
	sizes_of(IBV_WR_RDMA_WRITE_WITH_IMM);
}

CASE(sizes_read, "READ of every size up to 1 MiB")
{
	sizes_of(IBV_WR_RDMA_READ);
}

CASE(path_mtus, "every path MTU up to the active one")
{
	enum ibv_mtu m;

	for (m = IBV_MTU_256; m <= ct_dev[0].mtu; m++) {
		struct conn_opt o = conn_defaults();
		size_t b = mtu_bytes(m), n;
		struct rig r;
		unsigned int i;

		o.mtu = m;
		rig_new(&r, &o, 20 * b, 1);
		for (i = 0; i < ARRAY_SIZE(data_ops); i++) {
			for (n = b - 1; n <= b + 1; n++)
				op_once(&r, data_ops[i], n, 1, 1, 0);
			for (n = 3 * b - 1; n <= 3 * b + 1; n++)
				op_once(&r, data_ops[i], n, 1, 1, 0);
			op_once(&r, data_ops[i], 17 * b + 3, 1, 1, 0);
		}
		rig_end(&r);
	}
}

CASE(several_sges, "1 to max_sge pieces at odd places on both sides")
{
	static const size_t totals[] = { 1, 40, 700, 1024, 5000, 70001 };
	int max = min_t(int, SGL_MAX, min_t(int, ct_dev[0].attr.max_sge, ct_dev[1].attr.max_sge));
	struct conn_opt o = conn_defaults();
	struct rig r;
	unsigned int i, k;
	int n;

	o.send_sge = o.recv_sge = max;
	o.inline_data = 0;
	rig_new(&r, &o, 70001 + 8, max);
	for (n = 1; n <= max; n++) {
		for (i = 0; i < ARRAY_SIZE(data_ops); i++) {
			for (k = 0; k < ARRAY_SIZE(totals); k++) {
				if (ct_quick && rnd(4))
					continue;
				op_once(&r, data_ops[i], totals[k], n, 1 + rnd(max), 0);
			}
			op_once(&r, data_ops[i], rnd(6000), n, n, 0);
		}
	}
	rig_end(&r);
}

/* The largest inline_data that create_qp takes with so many SGEs. */
static uint32_t max_inline(uint32_t sges)
{
	uint32_t lo = 0, hi = 4096;

	while (lo < hi) {
		uint32_t mid = (lo + hi + 1) / 2;
		struct ibv_cq *cq = ibv_create_cq(ct_dev[0].ctx, 16, NULL, NULL, 0);
		struct ibv_qp_init_attr a = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = sges,
				 .max_recv_sge = 1, .max_inline_data = mid },
			.qp_type = IBV_QPT_RC,
		};
		struct ibv_qp *qp;

		CHECK(cq, "create_cq: %s", strerror(errno));
		qp = ibv_create_qp(ct_dev[0].pd, &a);
		if (qp) {
			lo = max_t(uint32_t, mid, min_t(uint32_t, a.cap.max_inline_data, 4096));
			ibv_destroy_qp(qp);
		} else {
			hi = mid - 1;
		}
		ibv_destroy_cq(cq);
	}
	return lo;
}

CASE(inline_data, "inline of 0 to max_inline_data bytes in 1 to max_sge pieces")
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	int sges = min_t(int, SGL_MAX, ct_dev[0].attr.max_sge);
	struct conn_opt o = conn_defaults();
	uint32_t max, n;
	struct rig r;
	unsigned int i;

	max = max_inline(sges);
	ct_diag("max_inline_data %u with %d SGEs", max, sges);
	CHECK(max > 0, "no inline data at all");
	o.inline_data = max;
	o.send_sge = sges;
	rig_new(&r, &o, max + 8, sges);
	max = r.c->cap[0].max_inline_data;
	for (n = 0; n <= max; n += ct_quick && n > 16 && n + 16 < max ? 1 + rnd(16) : 1)
		for (i = 0; i < ARRAY_SIZE(ops); i++) {
			if (i >= 2 && rnd(4) && n < max)
				continue;
			op_once(&r, ops[i], n, n == max ? sges : 1 + (int)rnd(sges), 1,
				IBV_SEND_INLINE);
		}
	rig_end(&r);
}

CASE(inline_no_mr, "inline data need no memory region, and may live on the stack")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *b = buf_new(c->o.dev[1], 4096, ACC_ALL);
	int i;

	for (i = 0; i < 50; i++) {
		uint8_t data[64];
		uint64_t pat = rnd64();
		size_t n = 1 + rnd(sizeof(data));
		struct ibv_sge s = { .addr = (uintptr_t)data, .length = n, .lkey = 0xdeadbeef };
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
						IBV_SEND_SIGNALED | IBV_SEND_INLINE);

		pat_fill(data, n, pat, 0);
		wr_remote(&wr, b, 100);
		post_send(c->qp[0], &wr);
		memset(data, 0, sizeof(data));
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		pat_check(b->p + 100, n, pat, 0, "inline WRITE");
		poison_check(b->p, 100, "before");
		poison_check(b->p + 100 + n, 100, "after");
		poison(b->p, 4096);
	}
}

CASE(atomic_values, "CMP_AND_SWP and FETCH_AND_ADD: values, results, neighbours")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(c->o.dev[0], 4096, ACC_ALL);
	struct buf *b = buf_new(c->o.dev[1], 4096, ACC_ALL);
	int i;

	for (i = 0; i < ROUNDS(300, 60); i++) {
		size_t at = 64 + 8 * rnd(100), res = 64 + 8 * rnd(100);
		uint64_t old = rnd(3) ? rnd64() : ~0ull, arg = rnd64(), swap = rnd64(), got, now;
		bool cas = rnd(2), hit = rnd(2);
		struct ibv_sge s;
		struct ibv_send_wr wr;
		struct ibv_wc wc;

		ct_doing("%s, round %d", cas ? "CMP_AND_SWP" : "FETCH_AND_ADD", i);
		poison(a->p, a->len);
		poison(b->p, b->len);
		memcpy(b->p + at, &old, 8);
		s = buf_sge(a, res, 8);
		wr = wr_make(cas ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, i, &s,
			     1, IBV_SEND_SIGNALED);
		if (cas)
			wr_cas(&wr, b, at, hit ? old : arg, swap);
		else
			wr_fadd(&wr, b, at, arg);
		post_send(c->qp[0], &wr);
		wc = cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		wc_send_fields(&wc, wr.opcode, 8);
		memcpy(&got, a->p + res, 8);
		memcpy(&now, b->p + at, 8);
		CHECK_EQ(got, old, "value before the atomic");
		if (cas)
			CHECK_EQ(now, hit || arg == old ? swap : old, "value after CMP_AND_SWP");
		else
			CHECK_EQ(now, old + arg, "value after FETCH_AND_ADD");
		poison_check(a->p, res, "before the result");
		poison_check(a->p + res + 8, a->len - res - 8, "after the result");
		poison_check(b->p, at, "before the target");
		poison_check(b->p + at + 8, b->len - at - 8, "after the target");
	}
	buf_guards(a);
	buf_guards(b);
}

CASE(atomic_split_result, "the result of an atomic in two pieces, at odd addresses")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(c->o.dev[0], 4096, ACC_ALL);
	struct buf *b = buf_new(c->o.dev[1], 4096, ACC_ALL);
	uint64_t old = 0x0123456789abcdefull, got, now;
	struct ibv_sge s[2] = { buf_sge(a, 101, 3), buf_sge(a, 203, 5) };
	struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, s, 2, IBV_SEND_SIGNALED);

	memcpy(b->p, &old, 8);
	wr_fadd(&wr, b, 0, 7);
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	memcpy(&got, a->p + 101, 3);
	memcpy((uint8_t *)&got + 3, a->p + 203, 5);
	memcpy(&now, b->p, 8);
	CHECK_EQ(got, old, "value before the atomic");
	CHECK_EQ(now, old + 7, "value after the atomic");
	poison_check(a->p + 104, 99, "between the pieces");
}

CASE(zero_length, "messages of no bytes, also without SGEs and with keys of nothing")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *b = buf_new(c->o.dev[1], 64, ACC_ALL);
	int i;

	for (i = 0; i < 40; i++) {
		enum ibv_wr_opcode op = data_ops[i % ARRAY_SIZE(data_ops)];
		struct ibv_send_wr wr = wr_make(op, i, NULL, 0, IBV_SEND_SIGNALED);
		struct ibv_wc wc;

		ct_doing("empty %s", op_name(op));
		wr.imm_data = i;
		if (op == IBV_WR_RDMA_READ || op == IBV_WR_RDMA_WRITE ||
		    op == IBV_WR_RDMA_WRITE_WITH_IMM) {
			/* IB: no key is checked when no byte moves. */
			wr.wr.rdma.remote_addr = i & 1 ? buf_va(b, 0) : 0;
			wr.wr.rdma.rkey = i & 1 ? b->mr->rkey : 0;
		}
		if (op != IBV_WR_RDMA_READ && op != IBV_WR_RDMA_WRITE)
			post_recv(c->qp[1], i, NULL, 0);
		post_send(c->qp[0], &wr);
		if (op != IBV_WR_RDMA_READ && op != IBV_WR_RDMA_WRITE) {
			wc = cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
			wc_recv_fields(&wc, op, 0, i);
		}
		wc = cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		wc_send_fields(&wc, op, 0);
	}
	poison_check(b->p, b->len, "memory of the responder");
	conn_prove(c);
}

CASE(unsignalled, "signalled among unsignalled: only those complete, in order")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(c->o.dev[0], 64 * KIB, ACC_ALL);
	struct buf *b = buf_new(c->o.dev[1], 64 * KIB, ACC_ALL);
	uint64_t pat = rnd64();
	int round, i;

	pat_fill(a->p, a->len, pat, 0);
	for (round = 0; round < ROUNDS(40, 8); round++) {
		bool signalled[32];

		poison(b->p, b->len);
		for (i = 0; i < 32; i++) {
			struct ibv_sge s = buf_sge(a, i * 2048, 2048);
			struct ibv_send_wr wr;

			signalled[i] = i == 31 || rnd(3) == 0;
			wr = wr_make(IBV_WR_RDMA_WRITE, round * 32 + i, &s, 1,
				     signalled[i] ? IBV_SEND_SIGNALED : 0);
			wr_remote(&wr, b, i * 2048);
			post_send(c->qp[0], &wr);
		}
		for (i = 0; i < 32; i++) {
			if (!signalled[i])
				continue;
			cq_expect(c->scq[0], c->qp[0], round * 32 + i, IBV_WC_SUCCESS);
			pat_check(b->p, (i + 1) * 2048, pat, 0, "WRITEs up to the completed one");
		}
		cq_silent(c->scq[0], 0);
	}
}

CASE(sig_all, "sq_sig_all: every WR completes whatever its flags")
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct buf *b;
	int i;

	o.sig_all = true;
	c = conn_new(&o);
	b = buf_new(c->o.dev[1], 4096, ACC_ALL);
	for (i = 0; i < 60; i++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, NULL, 0,
						rnd(2) ? IBV_SEND_SIGNALED : 0);

		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
	}
	for (i = 0; i < 60; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	cq_silent(c->scq[0], 20);
}

CASE(wr_chain, "WRs and receives posted as linked lists")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(c->o.dev[0], 32 * KIB, ACC_ALL);
	struct buf *b = buf_new(c->o.dev[1], 32 * KIB, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(30, 6); round++) {
		struct ibv_recv_wr rw[32], *badr;
		struct ibv_send_wr sw[32], *bads;
		struct ibv_sge ss[32], rs[32];
		uint64_t pat = rnd64();

		poison(b->p, b->len);
		pat_fill(a->p, a->len, pat, 0);
		for (i = 0; i < 32; i++) {
			rs[i] = buf_sge(b, i * 1024, 1024);
			rw[i] = (struct ibv_recv_wr){ .wr_id = i, .sg_list = &rs[i], .num_sge = 1,
						      .next = i < 31 ? &rw[i + 1] : NULL };
			ss[i] = buf_sge(a, i * 1024, 1024);
			sw[i] = wr_make(IBV_WR_SEND, i, &ss[i], 1, IBV_SEND_SIGNALED);
			sw[i].next = i < 31 ? &sw[i + 1] : NULL;
		}
		CHECK(!ibv_post_recv(c->qp[1], rw, &badr), "post_recv of a chain");
		CHECK(!ibv_post_send(c->qp[0], sw, &bads), "post_send of a chain");
		/* The lists are the caller's again. */
		memset(rw, 0xee, sizeof(rw));
		memset(sw, 0xee, sizeof(sw));
		memset(ss, 0xee, sizeof(ss));
		memset(rs, 0xee, sizeof(rs));
		for (i = 0; i < 32; i++) {
			cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
			pat_check(b->p, (i + 1) * 1024, pat, 0, "receives up to this one");
		}
		for (i = 0; i < 32; i++)
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
}

CASE(poll_batches, "poll_cq of many entries at a time, one CQ for everything of an end")
{
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct buf *a, *b;
	int sent = 0, seen_s = 0, seen_r = 0, posted = 0, total = ROUNDS(2000, 300);
	struct ct_wait w;

	o.one_cq = true;
	c = conn_new(&o);
	a = buf_new(c->o.dev[0], 4096, ACC_ALL);
	b = buf_new(c->o.dev[1], 4096, ACC_ALL);
	ct_wait_start(&w);
	while (seen_s < total || seen_r < total) {
		struct ibv_sge s = buf_sge(a, 0, 32), r = buf_sge(b, 0, 64);
		struct ibv_wc wc[24];
		int end, n, i;

		while (posted < total && posted - seen_r < 60)
			post_recv(c->qp[1], posted++, &r, 1);
		while (sent < posted && sent - seen_s < 60) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, sent++, &s, 1,
							IBV_SEND_SIGNALED);

			post_send(c->qp[0], &wr);
		}
		for (end = 0; end < 2; end++) {
			n = ibv_poll_cq(c->scq[end], 1 + rnd(24), wc);
			CHECK(n >= 0, "poll_cq: %d", n);
			for (i = 0; i < n; i++) {
				int *next = end ? &seen_r : &seen_s;

				CHECK_EQ(wc[i].status, IBV_WC_SUCCESS, "status");
				CHECK_EQ(wc[i].opcode, end ? IBV_WC_RECV : IBV_WC_SEND, "opcode");
				CHECK_EQ(wc[i].wr_id, *next, "wr_id");
				CHECK_EQ(wc[i].qp_num, c->qp[end]->qp_num, "qp_num");
				++*next;
				w.deadline = ct_now_ns() + ct_deadline_s * 1000000000ull;
			}
		}
		CHECK(ct_wait_step(&w), "stuck: %d sent, %d received of %d", seen_s, seen_r, total);
	}
}

/* ---- completion events ---------------------------------------------------------------------- */

static void arm(struct ibv_cq *cq, int solicited)
{
	int r = ibv_req_notify_cq(cq, solicited);

	CHECK(!r, "req_notify_cq: %s", strerror(r));
}

static bool channel_ready(struct ibv_comp_channel *ch, int ms)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void channel_take(struct ibv_comp_channel *ch, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *ctx;

	if (!channel_ready(ch, ct_deadline_s * 1000)) {
		struct ibv_wc wc;

		if (!cq_poll(want, &wc))
			ct_fail("no completion event within %u s, nor an entry in the CQ",
				ct_deadline_s);
		ct_fail("no completion event within %u s, but an entry in the CQ: wr_id %llu, %s, "
			"opcode %d", ct_deadline_s, (unsigned long long)wc.wr_id,
			ibv_wc_status_str(wc.status), wc.opcode);
	}
	CHECK(!ibv_get_cq_event(ch, &cq, &ctx), "get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	CHECK(cq == want, "event of another CQ");
}

static void send_one(struct conn *c, uint64_t id, unsigned int flags)
{
	struct ibv_send_wr wr = wr_make(IBV_WR_SEND, id, NULL, 0, IBV_SEND_SIGNALED | flags);

	post_send(c->qp[0], &wr);
}

CASE(event_any, "notification of any completion: one event for each arming, none lost")
{
	struct conn_opt o = conn_defaults();
	struct ibv_comp_channel *ch = ct_channel(&ct_dev[1]);
	struct conn *c;
	int i;

	o.rcq[1] = ct_cq(&ct_dev[1], 128, ch);
	c = conn_new(&o);
	for (i = 0; i < ROUNDS(400, 60); i++) {
		ct_doing("round %d", i);
		arm(c->rcq[1], 0);
		post_recv(c->qp[1], i, NULL, 0);
		send_one(c, i, 0);
		channel_take(ch, c->rcq[1]);
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		/* Not armed: no event. */
		if (i % 20 == 0) {
			post_recv(c->qp[1], i, NULL, 0);
			send_one(c, i, 0);
			cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
			CHECK(!channel_ready(ch, 20), "an event without arming");
		}
	}
}

CASE(event_solicited, "notification of solicited completions only")
{
	static const struct {
		enum ibv_wr_opcode op;
		unsigned int flags;
		bool event;
	} t[] = {
		{ IBV_WR_SEND, 0, false },
		{ IBV_WR_SEND, IBV_SEND_SOLICITED, true },
		{ IBV_WR_SEND_WITH_IMM, 0, false },
		{ IBV_WR_SEND_WITH_IMM, IBV_SEND_SOLICITED, true },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED, true },
	};
	struct conn_opt o = conn_defaults();
	struct ibv_comp_channel *ch = ct_channel(&ct_dev[1]);
	size_t len = 2 * mtu_bytes(ct_dev[0].mtu) + 9;
	struct conn *c;
	struct buf *a, *b;
	int round;
	unsigned int i;

	o.rcq[1] = ct_cq(&ct_dev[1], 128, ch);
	c = conn_new(&o);
	a = buf_new(&ct_dev[0], len, ACC_ALL);
	b = buf_new(&ct_dev[1], len, ACC_ALL);
	for (round = 0; round < ROUNDS(12, 3); round++) {
		for (i = 0; i < ARRAY_SIZE(t); i++) {
			struct ibv_sge s = buf_sge(a, 0, round & 1 ? len : 8),
				       r = buf_sge(b, 0, len);
			struct ibv_send_wr wr = wr_make(t[i].op, i, &s, 1,
							IBV_SEND_SIGNALED | t[i].flags);

			ct_doing("round %d, %s%s solicited", round, op_name(t[i].op),
				 t[i].event ? "" : " not");
			wr_remote(&wr, b, 0);
			wr.imm_data = 1;
			if (t[i].op != IBV_WR_RDMA_WRITE_WITH_IMM) {
				wr.wr.rdma.remote_addr = 0;
				wr.wr.rdma.rkey = 0;
			}
			arm(c->rcq[1], 1);
			post_recv(c->qp[1], i, &r, 1);
			post_send(c->qp[0], &wr);
			if (t[i].event) {
				channel_take(ch, c->rcq[1]);
				cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
			} else {
				cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
				CHECK(!channel_ready(ch, 30), "event for an unsolicited message");
			}
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		}
	}
	ct_doing("%s", "any completion with an error is a solicited one");
	arm(c->rcq[1], 1);
	post_recv(c->qp[1], 77, NULL, 0);
	CHECK(!channel_ready(ch, 30), "event for a receive that nobody used");
	conn_to_err(c, 1);
	channel_take(ch, c->rcq[1]);
	cq_expect(c->rcq[1], c->qp[1], 77, IBV_WC_WR_FLUSH_ERR);
}

CASE(event_solicited_upgrade, "arming for any after arming for solicited ones counts as any")
{
	struct conn_opt o = conn_defaults();
	struct ibv_comp_channel *ch = ct_channel(&ct_dev[1]);
	struct conn *c;

	o.rcq[1] = ct_cq(&ct_dev[1], 128, ch);
	c = conn_new(&o);
	arm(c->rcq[1], 1);
	arm(c->rcq[1], 0);
	post_recv(c->qp[1], 1, NULL, 0);
	send_one(c, 1, 0);
	channel_take(ch, c->rcq[1]);
	cq_expect(c->rcq[1], c->qp[1], 1, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	/* and the weaker one does not take the stronger one back */
	arm(c->rcq[1], 0);
	arm(c->rcq[1], 1);
	post_recv(c->qp[1], 2, NULL, 0);
	send_one(c, 2, 0);
	channel_take(ch, c->rcq[1]);
	cq_expect(c->rcq[1], c->qp[1], 2, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_SUCCESS);
}

CASE(event_no_lost_wakeup,
     "arm, poll once more, sleep: the pattern of every server, at random times")
{
	struct conn_opt o = conn_defaults();
	struct ibv_comp_channel *ch[2] = { ct_channel(&ct_dev[0]), ct_channel(&ct_dev[1]) };
	int total = ROUNDS(3000, 400), sent = 0, done = 0, got = 0, posted = 0;
	struct conn *c;

	o.scq[0] = ct_cq(&ct_dev[0], 256, ch[0]);
	o.rcq[1] = ct_cq(&ct_dev[1], 256, ch[1]);
	c = conn_new(&o);
	while (got < total || done < total) {
		struct ibv_wc wc;
		int burst = 1 + rnd(8), end;

		ct_doing("%d sent, %d received", sent, got);
		while (burst-- && sent < total && sent - done < 60) {
			if (posted < total && posted - got < 60)
				post_recv(c->qp[1], posted++, NULL, 0);
			if (sent < posted)
				send_one(c, sent++, 0);
		}
		for (end = 0; end < 2; end++) {
			struct ibv_cq *cq = end ? c->rcq[1] : c->scq[0];
			int *next = end ? &got : &done;

			if (*next == sent)
				continue;
			/* Arm, then poll: only an empty CQ is slept on. */
			arm(cq, 0);
			if (!cq_poll(cq, &wc)) {
				channel_take(ch[end], cq);
				if (!cq_poll(cq, &wc))
					continue; /* an event of what was polled before it */
			}
			do {
				CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
				CHECK_EQ(wc.wr_id, *next, "wr_id");
				++*next;
			} while (rnd(8) && cq_poll(cq, &wc));
		}
	}
}
