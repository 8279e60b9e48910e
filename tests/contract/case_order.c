// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Order and visibility: contract lines C1 to C5, C8 and C9. */
#include "contract.h"

#include "stream.h"

/* ---- C1, C3, C4: long random streams -------------------------------------------------------- */

static void streams(struct conn_opt *o, struct stream_cfg *cfg, bool both)
{
	struct conn *c;
	struct stream *s[2] = { NULL, NULL };
	int i;

	o->rq = max_t(uint32_t, o->rq, cfg->recvs);
	o->sq = max_t(uint32_t, o->sq, cfg->depth);
	c = conn_new(o);
	for (i = 0; i <= both; i++)
		s[i] = stream_new(c, i, cfg);
	stream_run(s, 1 + both);
	conn_prove(c);
}

static const struct stream_cfg mixed = {
	.ops = 3000, .quick_ops = 500, .depth = 64, .recvs = 64, .max = 16 * KIB,
	.mix = { [ST_SEND] = 5, [ST_SEND_IMM] = 2, [ST_WRITE] = 6, [ST_WRITE_IMM] = 2,
		 [ST_READ] = 4, [ST_FADD] = 2, [ST_CAS] = 1 },
	.credits = true,
};

CASE(stream_mixed, "random stream of every opcode, depth 64, everything checked at its completion")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	streams(&o, &cfg, false);
}

CASE(stream_both_ways, "two such streams against each other on one connection")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	cfg.ops = 2000;
	cfg.quick_ops = 300;
	cfg.depth = 32;
	streams(&o, &cfg, true);
}

CASE(stream_deep, "depth 128, small messages")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	cfg.ops = 6000;
	cfg.quick_ops = 800;
	cfg.depth = cfg.recvs = 128;
	cfg.max = 3000;
	streams(&o, &cfg, false);
}

CASE(stream_depth_1, "depth 1 to 4")
{
	struct conn_opt o = conn_defaults();
	int depth;

	for (depth = 1; depth <= 4; depth++) {
		struct stream_cfg cfg = mixed;

		cfg.ops = 200;
		cfg.quick_ops = 50;
		cfg.depth = depth;
		streams(&o, &cfg, false);
	}
}

CASE(stream_large, "messages up to 256 KiB")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	cfg.ops = 400;
	cfg.quick_ops = 60;
	cfg.depth = cfg.recvs = 16;
	cfg.max = 256 * KIB;
	streams(&o, &cfg, false);
}

CASE(stream_send, "SENDs only")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	memset(cfg.mix, 0, sizeof(cfg.mix));
	cfg.mix[ST_SEND] = 3;
	cfg.mix[ST_SEND_IMM] = 1;
	streams(&o, &cfg, false);
}

CASE(stream_write, "WRITEs and WRITE_WITH_IMMs only")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	memset(cfg.mix, 0, sizeof(cfg.mix));
	cfg.mix[ST_WRITE] = 5;
	cfg.mix[ST_WRITE_IMM] = 1;
	streams(&o, &cfg, false);
}

CASE(stream_read_atomic, "READs and atomics only, with max_rd_atomic 1 and the largest")
{
	int rd[2] = { 1, min_t(int, ct_dev[0].attr.max_qp_init_rd_atom,
			       ct_dev[1].attr.max_qp_rd_atom) };
	int i;

	for (i = 0; i < 2; i++) {
		struct conn_opt o = conn_defaults();
		struct stream_cfg cfg = mixed;

		ct_diag("max_rd_atomic %d", rd[i]);
		o.rd_atomic = o.dest_rd_atomic = rd[i];
		memset(cfg.mix, 0, sizeof(cfg.mix));
		cfg.mix[ST_READ] = 3;
		cfg.mix[ST_FADD] = 2;
		cfg.mix[ST_CAS] = 2;
		cfg.mix[ST_WRITE] = 1;
		cfg.ops = 1200;
		cfg.quick_ops = 200;
		streams(&o, &cfg, false);
	}
}

CASE(stream_few_receives, "more messages than receives: receiver-not-ready again and again")
{
	struct conn_opt o = conn_defaults();
	struct stream_cfg cfg = mixed;

	cfg.recvs = 3;
	cfg.credits = false;
	cfg.ops = 800;
	cfg.quick_ops = 150;
	o.min_rnr = 6; /* 0.06 ms */
	streams(&o, &cfg, false);
}

CASE(stream_psn_wrap, "PSNs that wrap, both ways, every opcode")
{
	static const uint32_t psn[] = { 0xfffff0, 0xffffff, 0, 0x7ffff0, 0xfffe00 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(psn); i++) {
		struct conn_opt o = conn_defaults();
		struct stream_cfg cfg = mixed;

		ct_diag("sq_psn 0x%06x", psn[i]);
		o.psn[0] = psn[i];
		o.psn[1] = psn[(i + 1) % ARRAY_SIZE(psn)];
		if (i == 0)
			o.psn[1] = psn[0];
		cfg.ops = 300;
		cfg.quick_ops = 100;
		cfg.depth = 32;
		streams(&o, &cfg, true);
	}
}

CASE(message_numbers_wrap, "more than 2^16 messages: the counters of messages on the wire wrap")
{
	enum { TOTAL = 66000, DEPTH = 256 };
	struct conn_opt o = conn_defaults();
	struct conn *c;
	struct buf *b;
	int sent = 0, done = 0, posted = 0, got = 0;
	struct ct_wait w;

	if (ct_quick)
		ct_skip("takes long: not with -q");
	o.sq = o.rq = DEPTH;
	c = conn_new(&o);
	b = buf_new(&ct_dev[1], 64, ACC_ALL);
	ct_wait_start(&w);
	while (done < TOTAL || got < TOTAL) {
		struct ibv_wc wc[32];
		int n, i;

		while (posted < TOTAL && posted - got < DEPTH)
			post_recv(c->qp[1], posted++, NULL, 0);
		while (sent < posted && sent - done < DEPTH) {
			/* Two kinds that take a receive, so that both counters move on. */
			struct ibv_send_wr wr = wr_make(sent & 1 ? IBV_WR_SEND_WITH_IMM :
							IBV_WR_RDMA_WRITE_WITH_IMM, sent, NULL, 0,
							sent % 16 == 15 || sent == TOTAL - 1 ?
							IBV_SEND_SIGNALED : 0);

			wr.imm_data = sent;
			if (!(sent & 1))
				wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
			sent++;
		}
		n = ibv_poll_cq(c->rcq[1], 32, wc);
		for (i = 0; i < n; i++, got++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS, "status of a receive");
			CHECK_EQ(wc[i].wr_id, got, "wr_id of the receive");
			CHECK_EQ(wc[i].imm_data, got, "immediate data");
		}
		if (n)
			ct_wait_start(&w);
		n = ibv_poll_cq(c->scq[0], 32, wc);
		for (i = 0; i < n; i++) {
			done = min_t(int, done + 16, TOTAL);
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS, "status of a send");
			CHECK_EQ(wc[i].wr_id, done - 1, "wr_id of the send");
		}
		if (n)
			ct_wait_start(&w);
		CHECK(ct_wait_step(&w), "stuck: %d done, %d received", done, got);
	}
	conn_prove(c);
}

/* ---- C2: polling on memory ------------------------------------------------------------------ */

/* Waits until a byte is not what it was; spins hard at first, so as to see it at once. */
static void spin_byte(const uint8_t *p, uint8_t was)
{
	struct ct_wait w;
	int i;

	ct_wait_start(&w);
	for (;;) {
		for (i = 0; i < 200; i++)
			if (__atomic_load_n(p, __ATOMIC_ACQUIRE) != was)
				return;
		CHECK(ct_wait_step(&w), "the byte polled on does not turn within %u s",
		      ct_deadline_s);
	}
}

CASE(last_byte_poll, "the last byte of a WRITE turns after all its others")
{
	static const size_t some[] = { 2, 3, 7, 8, 9, 15, 16, 17, 100, 1023, 1024, 1025, 1500,
				       2048, 4096, 4097, 9001, 20000, 65536, 100001, 262144 };
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new_skew(&ct_dev[0], 300 * KIB, ACC_ALL, 0);
	struct buf *b = buf_new_skew(&ct_dev[1], 300 * KIB, ACC_ALL, 0);
	int i, rounds = ROUNDS(400, 80);

	for (i = 0; i < rounds; i++) {
		size_t len = i < (int)ARRAY_SIZE(some) ? some[i] : 2 + rnd(rnd(3) ? 6000 : 60000);
		size_t at = 64 + rnd(64);
		uint64_t pat = rnd64();
		uint8_t was = ~pat_byte(pat, len - 1);
		struct ibv_sge s = buf_sge(a, at & 7, len);
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1, IBV_SEND_SIGNALED);

		ct_doing("WRITE of %zu bytes to offset %zu", len, at);
		pat_fill(a->p + (at & 7), len, pat, 0);
		poison(b->p, at + len + 64);
		/* No byte may look as if it had arrived: the opposite of each but poison. */
		b->p[at + len - 1] = was;
		wr_remote(&wr, b, at);
		post_send(c->qp[0], &wr);
		spin_byte(b->p + at + len - 1, was);
		pat_check(b->p + at, len, pat, 0, "WRITE when its last byte turned");
		poison_check(b->p, at, "before the WRITE");
		poison_check(b->p + at + len, 64, "after the WRITE");
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		pat_check(b->p + at, len, pat, 0, "WRITE at its completion");
	}
	buf_guards(b);
}

CASE(last_byte_pipeline, "the same with many WRITEs in flight: each tail after all before it")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t slot = 12 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 32 * slot, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], 32 * slot, ACC_ALL);
	int round, i, j;

	for (round = 0; round < ROUNDS(60, 10); round++) {
		size_t len[32];
		uint64_t pat[32];

		poison(b->p, b->len);
		for (i = 0; i < 32; i++) {
			len[i] = 1 + rnd(slot - 32);
			pat[i] = rnd64();
			pat_fill(a->p + i * slot, len[i], pat[i], 0);
			b->p[i * slot + len[i] - 1] = ~pat_byte(pat[i], len[i] - 1);
		}
		for (i = 0; i < 32; i++) {
			struct ibv_sge s = buf_sge(a, i * slot, len[i]);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
							IBV_SEND_SIGNALED);

			wr_remote(&wr, b, i * slot);
			post_send(c->qp[0], &wr);
		}
		for (i = 0; i < 32; i++) {
			/* Skip ahead at times, so that several are checked by one tail. */
			if (i < 31 && rnd(3) == 0)
				continue;
			ct_doing("round %d, tail of WRITE %d", round, i);
			spin_byte(b->p + i * slot + len[i] - 1, ~pat_byte(pat[i], len[i] - 1));
			for (j = 0; j <= i; j++)
				pat_check(b->p + j * slot, len[j], pat[j], 0,
					  "WRITE not later than the one whose tail turned");
		}
		for (i = 0; i < 32; i++)
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		for (i = 0; i < 32; i++) {
			pat_check(b->p + i * slot, len[i], pat[i], 0, "WRITE at the end");
			poison_check(b->p + i * slot + len[i], slot - len[i], "between WRITEs");
		}
	}
	buf_guards(b);
}

/* WRITE data, WRITE flag; the flag counts up, nothing waits for completions. */
static void flags(size_t width, bool inl, int writes)
{
	enum { N = 16 };
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t slot = 24 * KIB;
	struct buf *a = buf_new(&ct_dev[0], N * slot, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], N * slot, ACC_ALL);
	struct buf *fa = buf_new(&ct_dev[0], N * 8, ACC_ALL);
	struct buf *fb = buf_new(&ct_dev[1], 64, ACC_ALL);
	int total = ROUNDS(1200, 200), posted = 0, seen = 0, done = 0, i;
	struct { size_t len; uint64_t pat; } round[N];
	struct ct_wait w;

	memset(fb->p, 0, fb->len);
	ct_wait_start(&w);
	while (seen < total) {
		uint64_t flag = 0;
		struct ibv_wc wc;

		while (posted < total && posted - seen < N && posted - done < N) {
			int k = posted % N;
			size_t off = 0, len = 1 + rnd(rnd(3) ? 5000 : slot - 64);
			uint64_t value = posted + 1;
			struct ibv_send_wr wr;
			struct ibv_sge s;

			round[k].len = len;
			round[k].pat = rnd64();
			pat_fill(a->p + k * slot, len, round[k].pat, 0);
			poison(b->p + k * slot, slot);
			for (i = 0; i < writes; i++) {
				size_t n = i == writes - 1 ? len - off : rnd(len - off + 1);

				s = buf_sge(a, k * slot + off, n);
				wr = wr_make(IBV_WR_RDMA_WRITE, 0, &s, 1, 0);
				wr_remote(&wr, b, k * slot + off);
				post_send(c->qp[0], &wr);
				off += n;
			}
			memcpy(fa->p + 8 * k, &value, 8);
			s = buf_sge(fa, 8 * k, width);
			wr = wr_make(IBV_WR_RDMA_WRITE, posted, &s, 1,
				     IBV_SEND_SIGNALED | (inl ? IBV_SEND_INLINE : 0));
			wr_remote(&wr, fb, 8);
			post_send(c->qp[0], &wr);
			posted++;
		}
		switch (width) {
		case 1:
			flag = __atomic_load_n(fb->p + 8, __ATOMIC_ACQUIRE);
			break;
		case 2:
			flag = __atomic_load_n((uint16_t *)(fb->p + 8), __ATOMIC_ACQUIRE);
			break;
		case 4:
			flag = __atomic_load_n((uint32_t *)(fb->p + 8), __ATOMIC_ACQUIRE);
			break;
		case 8:
			flag = __atomic_load_n((uint64_t *)(fb->p + 8), __ATOMIC_ACQUIRE);
			break;
		}
		/* Widen the counter: at most N rounds are out. */
		if (width < 8) {
			uint64_t mask = (1ull << (8 * width)) - 1;

			flag = seen + ((flag - seen) & mask);
		}
		ct_doing("%zu byte flag, %d WRITEs, %d seen, flag now %llu", width, writes, seen,
			 (unsigned long long)flag);
		CHECK(flag <= (uint64_t)posted && flag >= (uint64_t)seen,
		      "flag out of order: %llu, seen %d, posted %d", (unsigned long long)flag, seen,
		      posted);
		if (flag > (uint64_t)seen)
			ct_wait_start(&w);
		while ((uint64_t)seen < flag) {
			int k = seen % N;

			pat_check(b->p + k * slot, round[k].len, round[k].pat, 0,
				  "data when their flag turned");
			poison_check(b->p + k * slot + round[k].len, slot - round[k].len,
				     "behind the data");
			seen++;
		}
		while (cq_poll(c->scq[0], &wc)) {
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)done,
			      "completion: expected %d, saw %llu with \"%s\"", done,
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			done++;
		}
		CHECK(ct_wait_step(&w), "flag stuck at %llu of %d", (unsigned long long)flag,
		      posted);
	}
	while (done < total)
		cq_expect(c->scq[0], c->qp[0], done++, IBV_WC_SUCCESS);
	buf_guards(b);
	buf_guards(fb);
}

CASE(flag_8, "WRITE data, WRITE 8 byte flag: data there when the flag turns")
{
	flags(8, false, 1);
}

CASE(flag_1, "WRITE data, WRITE 1 byte flag")
{
	flags(1, false, 1);
}

CASE(flag_2_4, "WRITE data, WRITE flags of 2 and of 4 bytes")
{
	flags(2, false, 1);
	flags(4, false, 1);
}

CASE(flag_inline, "3 WRITEs of data, inline 8 byte flag")
{
	flags(8, true, 3);
}

CASE(flag_after_idle, "flag idiom, one round at a time: nothing else is in flight")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t max = 64 * KIB;
	struct buf *a = buf_new(&ct_dev[0], max, ACC_ALL), *b = buf_new(&ct_dev[1], max, ACC_ALL);
	struct buf *f = buf_new(&ct_dev[1], 64, ACC_ALL);
	int i;

	memset(f->p, 0, 64);
	for (i = 1; i <= ROUNDS(500, 80); i++) {
		size_t len = 1 + rnd(rnd(3) ? 4000 : max);
		uint64_t pat = rnd64(), v = i;
		struct ibv_sge s[2] = { buf_sge(a, 0, len),
					{ .addr = (uintptr_t)&v, .length = 8 } };
		struct ibv_send_wr wr[2] = {
			wr_make(IBV_WR_RDMA_WRITE, i, &s[0], 1, 0),
			wr_make(IBV_WR_RDMA_WRITE, i, &s[1], 1,
				IBV_SEND_SIGNALED | IBV_SEND_INLINE),
		};
		struct ct_wait w;

		ct_doing("round %d, %zu bytes", i, len);
		pat_fill(a->p, len, pat, 0);
		poison(b->p, max);
		wr_remote(&wr[0], b, 0);
		wr_remote(&wr[1], f, 0);
		wr[0].next = &wr[1];
		post_send(c->qp[0], &wr[0]);
		ct_wait_start(&w);
		while (__atomic_load_n((uint64_t *)f->p, __ATOMIC_ACQUIRE) != v)
			CHECK(ct_wait_step(&w), "the flag does not turn");
		pat_check(b->p, len, pat, 0, "data when the flag turned");
		poison_check(b->p + len, max - len, "behind the data");
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
}

CASE(send_after_write, "WRITEs are visible when the SEND or immediate after them is received")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t slot = 40 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 4 * slot, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], 4 * slot, ACC_ALL);
	struct buf *r = buf_new(&ct_dev[1], slot, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(300, 60); round++) {
		size_t len[4], sl = rnd(2000);
		uint64_t pat = rnd64();
		struct ibv_sge s, rs = buf_sge(r, 0, slot);
		struct ibv_send_wr wr;
		bool imm = rnd(2);

		ct_doing("round %d, ends with %s", round, imm ? "WRITE_IMM" : "SEND");
		poison(b->p, b->len);
		poison(r->p, r->len);
		pat_fill(a->p, a->len, pat, 0);
		post_recv(c->qp[1], round, &rs, 1);
		for (i = 0; i < 4; i++) {
			len[i] = rnd(rnd(3) ? 4000 : slot);
			s = buf_sge(a, i * slot, len[i]);
			wr = wr_make(imm && i == 3 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
				     i, &s, 1, imm && i == 3 ? IBV_SEND_SIGNALED : 0);
			wr.imm_data = round;
			wr_remote(&wr, b, i * slot);
			post_send(c->qp[0], &wr);
		}
		if (!imm) {
			s = buf_sge(a, 0, sl);
			wr = wr_make(IBV_WR_SEND, 3, &s, 1, IBV_SEND_SIGNALED);
			post_send(c->qp[0], &wr);
		}
		cq_expect(c->rcq[1], c->qp[1], round, IBV_WC_SUCCESS);
		for (i = 0; i < 4; i++) {
			pat_check(b->p + i * slot, len[i], pat, i * slot, "WRITE before the SEND");
			poison_check(b->p + i * slot + len[i], slot - len[i], "behind the WRITE");
		}
		if (!imm)
			pat_check(r->p, sl, pat, 0, "SEND");
		cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_SUCCESS);
	}
}

/* ---- C4, C5 --------------------------------------------------------------------------------- */

CASE(read_after_write, "a READ behind a WRITE sees it, in a pipeline")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t slot = 20 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 16 * slot, ACC_ALL);
	struct buf *l = buf_new(&ct_dev[0], 16 * slot, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], 16 * slot, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(60, 12); round++) {
		uint64_t pat = rnd64();
		size_t len[16];

		poison(b->p, b->len);
		poison(l->p, l->len);
		pat_fill(a->p, a->len, pat, 0);
		for (i = 0; i < 16; i++) {
			struct ibv_sge s, d;
			struct ibv_send_wr wr[2];

			len[i] = 1 + rnd(rnd(2) ? 3000 : slot);
			s = buf_sge(a, i * slot, len[i]);
			d = buf_sge(l, i * slot, len[i]);
			wr[0] = wr_make(IBV_WR_RDMA_WRITE, 2 * i, &s, 1, IBV_SEND_SIGNALED);
			wr[1] = wr_make(IBV_WR_RDMA_READ, 2 * i + 1, &d, 1, IBV_SEND_SIGNALED);
			wr_remote(&wr[0], b, i * slot);
			wr_remote(&wr[1], b, i * slot);
			post_send(c->qp[0], &wr[0]);
			post_send(c->qp[0], &wr[1]);
		}
		for (i = 0; i < 16; i++) {
			ct_doing("round %d, pair %d, %zu bytes", round, i, len[i]);
			cq_expect(c->scq[0], c->qp[0], 2 * i, IBV_WC_SUCCESS);
			pat_check(b->p + i * slot, len[i], pat, i * slot, "WRITE");
			cq_expect(c->scq[0], c->qp[0], 2 * i + 1, IBV_WC_SUCCESS);
			pat_check(l->p + i * slot, len[i], pat, i * slot, "READ behind the WRITE");
			poison_check(l->p + i * slot + len[i], slot - len[i], "behind the READ");
		}
	}
	buf_guards(l);
	buf_guards(b);
}

CASE(fence, "READs, then a fenced WRITE onto what they read: they return what was there before")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t part = 16 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 8 * part, ACC_ALL);
	struct buf *l = buf_new(&ct_dev[0], 8 * part, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], 8 * part, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(100, 20); round++) {
		uint64_t old = rnd64(), new = rnd64(), counter = rnd64(), got;
		struct ibv_send_wr wr;
		struct ibv_sge s;
		bool atomic = round & 1;

		ct_doing("round %d", round);
		pat_fill(b->p, b->len, old, 0);
		memcpy(b->p, &counter, 8);
		pat_fill(a->p, a->len, new, 0);
		poison(l->p, l->len);
		for (i = 0; i < 8; i++) {
			s = buf_sge(l, i * part, i == 0 && atomic ? 8 : part);
			wr = wr_make(IBV_WR_RDMA_READ, i, &s, 1, IBV_SEND_SIGNALED);
			wr_remote(&wr, b, i * part);
			if (i == 0 && atomic) {
				wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
				wr_fadd(&wr, b, 0, 1);
			}
			post_send(c->qp[0], &wr);
		}
		s = buf_sge(a, 0, b->len);
		wr = wr_make(IBV_WR_RDMA_WRITE, 8, &s, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		for (i = 0; i < 8; i++) {
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
			if (i)
				pat_check(l->p + i * part, part, old, i * part,
					  "READ before the fenced WRITE");
		}
		memcpy(&got, l->p, 8);
		CHECK_EQ(got, counter, "atomic or READ before the fenced WRITE");
		cq_expect(c->scq[0], c->qp[0], 8, IBV_WC_SUCCESS);
		pat_check(b->p, b->len, new, 0, "fenced WRITE");
	}
}

CASE(fence_send, "a fenced SEND of what a READ just fetched")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 12 * KIB;
	struct buf *l = buf_new(&ct_dev[0], len, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], len, ACC_ALL), *r = buf_new(&ct_dev[1], len, ACC_ALL);
	int round;

	for (round = 0; round < ROUNDS(200, 40); round++) {
		uint64_t pat = rnd64();
		size_t n = 1 + rnd(len);
		struct ibv_sge s = buf_sge(l, 0, n), rs = buf_sge(r, 0, len);
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, 1, &s, 1, 0);

		ct_doing("round %d, %zu bytes", round, n);
		pat_fill(b->p, n, pat, 0);
		poison(l->p, len);
		poison(r->p, len);
		post_recv(c->qp[1], 7, &rs, 1);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		wr = wr_make(IBV_WR_SEND, 2, &s, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		post_send(c->qp[0], &wr);
		cq_expect(c->rcq[1], c->qp[1], 7, IBV_WC_SUCCESS);
		pat_check(r->p, n, pat, 0, "SEND of what the READ fetched");
		cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_SUCCESS);
	}
}

static void atomics_exact(int qps, int per_qp, int rd_atomic)
{
	struct buf *a = buf_new(&ct_dev[0], qps * 64 * 8, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[1], 64, ACC_ALL);
	struct conn *c[8];
	struct { int sent, done; } s[8];
	int total = qps * per_qp, all = 0, i;
	uint8_t *hit = ct_alloc(total);
	uint64_t value, last[8];
	struct ct_wait w;

	CHECK(qps <= 8, "too many QPs");
	memset(s, 0, sizeof(s));
	memset(b->p, 0, b->len);
	for (i = 0; i < qps; i++) {
		struct conn_opt o = conn_defaults();

		o.rd_atomic = o.dest_rd_atomic = rd_atomic;
		c[i] = conn_new(&o);
		last[i] = 0;
	}
	ct_wait_start(&w);
	while (all < total) {
		for (i = 0; i < qps; i++) {
			struct ibv_wc wc;

			while (s[i].sent < per_qp && s[i].sent - s[i].done < 48) {
				struct ibv_sge g = buf_sge(a, (i * 64 + s[i].sent % 64) * 8, 8);
				struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD,
								s[i].sent, &g, 1,
								IBV_SEND_SIGNALED);

				wr_fadd(&wr, b, 8, 1);
				post_send(c[i]->qp[0], &wr);
				s[i].sent++;
			}
			while (cq_poll(c[i]->scq[0], &wc)) {
				CHECK(wc.status == IBV_WC_SUCCESS, "%s",
				      ibv_wc_status_str(wc.status));
				CHECK_EQ(wc.wr_id, s[i].done, "wr_id");
				memcpy(&value, a->p + (i * 64 + s[i].done % 64) * 8, 8);
				poison(a->p + (i * 64 + s[i].done % 64) * 8, 8);
				CHECK(value < (uint64_t)total, "result %llu of %d",
				      (unsigned long long)value, total);
				CHECK(!hit[value], "result %llu twice", (unsigned long long)value);
				CHECK(!s[i].done || value > last[i],
				      "results of one QP: %llu after %llu",
				      (unsigned long long)value, (unsigned long long)last[i]);
				if (qps == 1)
					CHECK_EQ(value, s[i].done, "result");
				last[i] = value;
				hit[value] = 1;
				s[i].done++;
				all++;
				ct_wait_start(&w);
			}
		}
		CHECK(ct_wait_step(&w), "stuck after %d of %d", all, total);
	}
	memcpy(&value, b->p + 8, 8);
	CHECK_EQ(value, total, "counter at the end");
	memcpy(&value, b->p, 8);
	CHECK_EQ(value, 0, "word before the counter");
	memcpy(&value, b->p + 16, 8);
	CHECK_EQ(value, 0, "word after the counter");
	buf_guards(a);
}

CASE(atomics_exact, "thousands of FETCH_AND_ADDs in a pipeline: each exactly once, in order")
{
	atomics_exact(1, ROUNDS(4000, 600), conn_defaults().rd_atomic);
}

CASE(atomics_exact_rd1, "the same with max_rd_atomic 1")
{
	atomics_exact(1, ROUNDS(1000, 200), 1);
}

CASE(atomics_exact_max, "the same with the largest max_rd_atomic")
{
	atomics_exact(1, ROUNDS(4000, 600), min_t(int, ct_dev[0].attr.max_qp_init_rd_atom,
						  ct_dev[1].attr.max_qp_rd_atom));
}

CASE(atomics_exact_qps, "six QPs onto one counter")
{
	atomics_exact(6, ROUNDS(1000, 150), conn_defaults().rd_atomic);
}

CASE(cas_chain, "a chain of CMP_AND_SWPs in a pipeline, each needs the one before it")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(&ct_dev[0], 64 * 8, ACC_ALL), *b = buf_new(&ct_dev[1], 8, ACC_ALL);
	int total = ROUNDS(3000, 500), sent = 0, done = 0;
	uint64_t *want = ct_alloc(total * sizeof(*want)), cur = 5, now;

	memcpy(b->p, &cur, 8);
	while (done < total) {
		uint64_t got;

		while (sent < total && sent - done < 60) {
			struct ibv_sge s = buf_sge(a, sent % 64 * 8, 8);
			struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_CMP_AND_SWP, sent, &s, 1,
							IBV_SEND_SIGNALED);
			bool miss = rnd(4) == 0;

			wr_cas(&wr, b, 0, miss ? cur + 1 : cur, cur * 3 + sent);
			want[sent] = cur;
			if (!miss)
				cur = cur * 3 + sent;
			post_send(c->qp[0], &wr);
			sent++;
		}
		cq_expect(c->scq[0], c->qp[0], done, IBV_WC_SUCCESS);
		memcpy(&got, a->p + done % 64 * 8, 8);
		CHECK_EQ(got, want[done], "result of CMP_AND_SWP");
		poison(a->p + done % 64 * 8, 8);
		done++;
	}
	memcpy(&now, b->p, 8);
	CHECK_EQ(now, cur, "value at the end");
}

/* ---- C9: last writer wins ------------------------------------------------------------------- */

CASE(overlap_same, "one buffer written over and over: the last WRITE before the immediate wins")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t max = 64 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 16 * max, ACC_ALL),
		   *b = buf_new(&ct_dev[1], max, ACC_ALL);
	int round, i;

	for (round = 0; round < ROUNDS(60, 12); round++) {
		size_t len = 1 + rnd(round & 1 ? 6000 : max);
		int n = 2 + rnd(14);
		uint64_t pat[16];

		ct_doing("round %d: %d WRITEs of %zu bytes", round, n, len);
		poison(b->p, max);
		post_recv(c->qp[1], round, NULL, 0);
		for (i = 0; i < n; i++) {
			struct ibv_sge s = buf_sge(a, i * max, len);
			bool last = i == n - 1;
			struct ibv_send_wr wr = wr_make(last ? IBV_WR_RDMA_WRITE_WITH_IMM :
							       IBV_WR_RDMA_WRITE, i, &s, 1,
							last ? IBV_SEND_SIGNALED : 0);

			pat[i] = rnd64();
			pat_fill(a->p + i * max, len, pat[i], 0);
			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		cq_expect(c->rcq[1], c->qp[1], round, IBV_WC_SUCCESS);
		pat_check(b->p, len, pat[n - 1], 0, "the last WRITE, at its immediate");
		cq_expect(c->scq[0], c->qp[0], n - 1, IBV_WC_SUCCESS);
		if (round % 8 == 0)
			ct_sleep_ms(20);
		pat_check(b->p, len, pat[n - 1], 0, "the last WRITE, a while later");
		poison_check(b->p + len, max - len, "behind the WRITEs");
	}
	buf_guards(b);
}

CASE(overlap_random, "random WRITEs over each other in flight: memory as if run one by one")
{
	enum { SPACE = 48 * KIB, N = 48 };
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t max = 16 * KIB;
	struct buf *a = buf_new(&ct_dev[0], N * max, ACC_ALL),
		   *b = buf_new(&ct_dev[1], SPACE, ACC_ALL);
	uint8_t *model = ct_alloc(SPACE);
	int round, i;

	for (round = 0; round < ROUNDS(80, 15); round++) {
		size_t range = rnd(3) ? SPACE : 64 + rnd(9000);

		poison(b->p, SPACE);
		poison(model, SPACE);
		for (i = 0; i < N; i++) {
			size_t len = rnd(4) ? 1 + rnd(5000) : 1 + rnd(max);
			struct ibv_send_wr wr;
			struct ibv_sge s;
			uint64_t pat = rnd64();
			size_t at;

			len = min_t(size_t, len, range);
			at = rnd(range - len + 1);
			pat_fill(a->p + i * max, len, pat, 0);
			s = buf_sge(a, i * max, len);
			wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
				     i == N - 1 ? IBV_SEND_SIGNALED : 0);
			wr_remote(&wr, b, at);
			post_send(c->qp[0], &wr);
			memcpy(model + at, a->p + i * max, len);
		}
		ct_doing("round %d, within %zu bytes", round, range);
		cq_expect(c->scq[0], c->qp[0], N - 1, IBV_WC_SUCCESS);
		for (i = 0; i < SPACE; i++)
			if (b->p[i] != model[i])
				ct_fail("byte %d: expected 0x%02x, saw 0x%02x", i, model[i],
					b->p[i]);
	}
	buf_guards(b);
}

CASE(overlap_two_keys, "WRITEs over each other through two memory regions of the same addresses")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 20 * KIB;
	struct buf *a = buf_new(&ct_dev[0], 8 * len, ACC_ALL),
		   *b = buf_new(&ct_dev[1], len, ACC_ALL);
	struct ibv_mr *mr = ibv_reg_mr(ct_dev[1].pd, b->p, len, ACC_ALL);
	int round, i;

	CHECK(mr, "second reg_mr of the same memory: %s", strerror(errno));
	for (round = 0; round < ROUNDS(50, 10); round++) {
		uint64_t pat = 0;

		for (i = 0; i < 8; i++) {
			struct ibv_sge s = buf_sge(a, i * len, len);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
							i == 7 ? IBV_SEND_SIGNALED : 0);

			pat = rnd64();
			pat_fill(a->p + i * len, len, pat, 0);
			wr_remote(&wr, b, 0);
			if (i & 1)
				wr.wr.rdma.rkey = mr->rkey;
			post_send(c->qp[0], &wr);
		}
		cq_expect(c->scq[0], c->qp[0], 7, IBV_WC_SUCCESS);
		pat_check(b->p, len, pat, 0, "the last WRITE");
	}
	ibv_dereg_mr(mr);
}

CASE(write_then_atomic, "WRITE, FETCH_AND_ADD, WRITE, READ of one word in a pipeline")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	struct buf *a = buf_new(&ct_dev[0], 64 * 8, ACC_ALL), *b = buf_new(&ct_dev[1], 64, ACC_ALL);
	int round;

	for (round = 0; round < ROUNDS(400, 80); round++) {
		uint64_t v = rnd64(), add = rnd64(), got[2];
		struct ibv_sge s = buf_sge(a, 0, 8);
		struct ibv_send_wr wr;

		ct_doing("round %d", round);
		memcpy(a->p, &v, 8);
		wr = wr_make(IBV_WR_RDMA_WRITE, 1, &s, 1, 0);
		wr_remote(&wr, b, 8);
		post_send(c->qp[0], &wr);
		s = buf_sge(a, 8, 8);
		wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, &s, 1, 0);
		wr_fadd(&wr, b, 8, add);
		post_send(c->qp[0], &wr);
		s = buf_sge(a, 16, 8);
		wr = wr_make(IBV_WR_RDMA_READ, 3, &s, 1, IBV_SEND_SIGNALED);
		wr_remote(&wr, b, 8);
		post_send(c->qp[0], &wr);
		cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_SUCCESS);
		memcpy(got, a->p + 8, 16);
		CHECK_EQ(got[0], v, "atomic behind the WRITE");
		CHECK_EQ(got[1], v + add, "READ behind the atomic");
	}
}

/* ---- C8 ------------------------------------------------------------------------------------- */

CASE(blocked_qp, "a QP without receives does not stop another to the same peer")
{
	struct conn_opt o = conn_defaults();
	struct conn *stuck = conn_new(&o), *c = conn_new(&o);
	size_t len = 8 * KIB;
	struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL), *b = buf_new(&ct_dev[1], len, ACC_ALL);
	struct buf *r = buf_new(&ct_dev[1], 32 * len, ACC_ALL);
	uint64_t pat = rnd64();
	struct ibv_sge s;
	int i;

	pat_fill(a->p, len, pat, 0);
	s = buf_sge(a, 0, len);
	for (i = 0; i < 32; i++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, &s, 1, IBV_SEND_SIGNALED);

		post_send(stuck->qp[0], &wr);
	}
	for (i = 0; i < ROUNDS(100, 30); i++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1, IBV_SEND_SIGNALED);

		ct_doing("WRITE %d beside the blocked QP", i);
		poison(b->p, len);
		wr_remote(&wr, b, 0);
		post_send(c->qp[0], &wr);
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		pat_check(b->p, len, pat, 0, "WRITE");
	}
	/* The other direction of the blocked one is free too, and READs over it once unblocked. */
	ct_doing("the blocked QP, backwards");
	s = buf_sge(b, 0, len);
	{
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, 99, &s, 1, IBV_SEND_SIGNALED);

		poison(b->p, len);
		wr_remote(&wr, a, 0);
		post_send(stuck->qp[1], &wr);
		cq_expect(stuck->scq[1], stuck->qp[1], 99, IBV_WC_SUCCESS);
		pat_check(b->p, len, pat, 0, "READ");
	}
	ct_doing("the blocked QP, with receives");
	for (i = 0; i < 32; i++) {
		struct ibv_sge rs = buf_sge(r, i * len, len);

		post_recv(stuck->qp[1], i, &rs, 1);
	}
	for (i = 0; i < 32; i++) {
		cq_expect(stuck->rcq[1], stuck->qp[1], i, IBV_WC_SUCCESS);
		pat_check(r->p + i * len, len, pat, 0, "SEND");
		cq_expect(stuck->scq[0], stuck->qp[0], i, IBV_WC_SUCCESS);
	}
}
