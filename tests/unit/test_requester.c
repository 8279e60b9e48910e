// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * requester.c: who may start when, what completes when and with what, order of
 * overlapping WRITEs against a model that compares all pairs, RNR, retries,
 * responses that fit and such that don't.
 */
#include "unit.h"
#include "requester.h"
#include "responder.h"

#define US	1000ULL
#define MS	1000000ULL

enum { OPS = 256, PAY = 1000, PSN = 0xfffffe, RSP = 0xfffff0, NONE_DONE = 99 };

static struct tp_req q;
static struct tp_op ops[OPS];
static struct tp_sent sent[TP_WINDOW];
static struct tp_paths paths;
static struct tp_pkt probe;	/* the last one sent */
static u64 now;

static const struct tp_req_attr attr = {
	.dqpn = 5, .psn = PSN, .rsp_psn = RSP, .payload = PAY, .max_rd = 4, .retry_cnt = 3,
	.rnr_retry = 2, .timeout_ns = 1000 * MS,
};

static void start_with(const struct tp_req_attr *at)
{
	now = 50 * MS;
	memset(ops, 0x5a, sizeof(ops));
	memset(sent, 0x5a, sizeof(sent));
	memset(&probe, 0, sizeof(probe));
	tp_paths_init(&paths, 64, 11);
	tp_req_init(&q, at, ops, OPS, &paths, 5, now);
	tp_tx_use_records(&q.tx, sent, TP_WINDOW);
	q.tx.cc.cwnd = 100000000;
}

static void start(void)
{
	start_with(&attr);
}

static struct tp_op *post_op(u8 kind, u32 len)
{
	struct tp_op *op = tp_tx_op(&q.tx, q.tx.tail);

	*op = (struct tp_op) { .kind = kind, .payload = PAY, .length = len, .rkey = 1,
			       .raddr = 1 << 20 };
	tp_req_post(&q, now);
	return op;
}

static u32 post(u8 kind, u32 len)
{
	post_op(kind, len);
	return q.tx.tail - 1;
}

static u32 post_write(u64 raddr, u32 len)
{
	post_op(TP_WRITE, len)->raddr = raddr;
	return q.tx.tail - 1;
}

/* Send all that may be sent. Return: packets; the last one in @out. */
static struct tp_out out;

static u32 send_all(void)
{
	struct tp_burst b;
	u32 n = 0;

	while (tp_req_burst(&q, now, 32, &b)) {
		struct tp_out o;

		while (tp_tx_next(&q.tx, now, &b, &o)) {
			out = o;
			n++;
		}
		now += US;
	}
	return n;
}

static struct tp_ack ack_of(u32 exec, u32 cum)
{
	return (struct tp_ack) {
		.space = TP_REQUEST, .mpr = TP_MPR, .exec_psn = (PSN + exec) & 0xffffff,
		.cum_psn = (PSN + cum) & 0xffffff,
	};
}

static bool ack(u32 exec)
{
	struct tp_ack a = ack_of(exec, exec);

	return tp_req_ack(&q, now, &a);
}

static bool nak(u32 exec, u8 syndrome, u8 value)
{
	struct tp_ack a = ack_of(exec, exec);

	a.syndrome = syndrome;
	a.value = value;
	return tp_req_ack(&q, now, &a);
}

/* Next completion. Return: its status, NONE_DONE if there is none; checks the order. */
static u32 done(u32 op)
{
	enum tp_status st;
	u32 got;

	if (!tp_req_next_done(&q, &got, &st))
		return NONE_DONE;
	assert_int_equal(got, op);
	return st;
}

/* --- order of completion --- */

TEST(next_done__in_order_when_executed)
{
	u32 i;

	start();
	for (i = 0; i < 5; i++)
		post(TP_SEND, 100);
	assert_int_equal(done(0), NONE_DONE);
	assert_int_equal(send_all(), 5);
	assert_int_equal(done(0), NONE_DONE);
	assert_true(ack(2));
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_OK);
	assert_int_equal(done(2), NONE_DONE);
	{
		struct tp_ack a = ack_of(2, 5);

		assert_true(tp_req_ack(&q, now, &a));
	}
	assert_int_equal(done(2), NONE_DONE);	/* received is not executed */
	ack(5);
	for (i = 2; i < 5; i++)
		assert_int_equal(done(i), TP_OK);
	assert_int_equal(done(5), NONE_DONE);
	assert_int_equal(q.exec_msn, 5);
	assert_true(tp_req_deadline(&q) == ~0ULL);
}

TEST(next_done__a_message_of_several_packets)
{
	start();
	post(TP_WRITE, 3 * PAY);
	send_all();
	ack(2);
	assert_int_equal(done(0), NONE_DONE);
	ack(3);
	assert_int_equal(done(0), TP_OK);
}

TEST(next_done__read_needs_both)
{
	start();
	post(TP_READ, 100);
	post(TP_WRITE, 10);
	post(TP_READ, 100);
	send_all();
	ack(2);
	assert_int_equal(done(0), NONE_DONE);
	tp_req_rd_done(&q, 2);		/* the data of the third, but not its turn */
	assert_int_equal(q.rd_head, 0);
	tp_req_rd_done(&q, 0);
	assert_int_equal(q.rd_head, 2);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_OK);
	assert_int_equal(done(2), NONE_DONE);	/* not known to be executed */
	ack(3);
	assert_int_equal(done(2), TP_OK);
}

TEST(next_done__local_work)
{
	start();
	post(TP_NONE, 0);
	assert_int_equal(done(0), TP_OK);	/* nothing before it */
	post(TP_WRITE, 10);
	post(TP_NONE, 0);
	assert_int_equal(done(1), NONE_DONE);
	send_all();
	assert_int_equal(done(1), NONE_DONE);
	ack(1);
	assert_int_equal(done(1), TP_OK);
	assert_int_equal(done(2), TP_OK);
	post(TP_NONE, 0);
	post(TP_WRITE, 10);
	assert_int_equal(done(3), TP_OK);
	assert_int_equal(send_all(), 1);
	assert_int_equal(out.op, 4);
	assert_int_equal(out.pkt.msn, 1);
	ack(2);
	assert_int_equal(done(4), TP_OK);
	assert_int_equal(q.exec_msn, 2);
}

/* --- local work that must be done at its turn --- */

static u32 post_local(bool after_all)
{
	struct tp_op *op = post_op(TP_NONE, 0);

	op->undone = true;
	op->after_all = after_all;
	return q.tx.tail - 1;
}

static bool local_turn(u32 op)
{
	u32 i;

	return tp_req_local_turn(&q, &i) && i == op;
}

TEST(local__nothing_behind_starts_before_it_is_done)
{
	u32 i;

	start();
	assert_false(tp_req_local_turn(&q, &i));	/* empty */
	post(TP_WRITE, 10);
	post_local(false);
	post(TP_WRITE, 10);
	assert_false(tp_req_local_turn(&q, &i));	/* one is before it */
	assert_int_equal(send_all(), 1);
	assert_true(local_turn(1));
	assert_int_equal(send_all(), 0);
	tp_req_local_done(&q, 1);
	assert_false(tp_req_local_turn(&q, &i));
	assert_int_equal(send_all(), 1);		/* while the first is in flight */
	assert_int_equal(out.op, 2);
	assert_int_equal(out.pkt.msn, 1);
	assert_int_equal(done(0), NONE_DONE);
	ack(1);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_OK);
	assert_int_equal(done(2), NONE_DONE);
	ack(2);
	assert_int_equal(done(2), TP_OK);
}

TEST(local__does_not_complete_undone)
{
	start();
	post_local(false);
	assert_int_equal(done(0), NONE_DONE);
	tp_req_local_done(&q, 0);
	assert_int_equal(done(0), TP_OK);
}

TEST(local__after_all)
{
	u32 i;

	start();
	post(TP_WRITE, 10);
	post_local(true);
	post(TP_WRITE, 10);
	assert_int_equal(send_all(), 1);
	assert_false(tp_req_local_turn(&q, &i));
	ack(1);
	assert_false(tp_req_local_turn(&q, &i));	/* executed, not complete */
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), NONE_DONE);
	assert_true(local_turn(1));
	tp_req_local_done(&q, 1);
	assert_int_equal(done(1), TP_OK);
	assert_int_equal(send_all(), 1);
}

TEST(local__fence_waits_for_reads)
{
	u32 i;

	start();
	post(TP_READ, 10);
	tp_tx_op(&q.tx, post_local(false))->fence = true;
	send_all();
	assert_false(tp_req_local_turn(&q, &i));
	tp_req_rd_done(&q, 0);
	assert_true(local_turn(1));
}

TEST(local__fails)
{
	u32 i;

	start();
	post(TP_WRITE, 10);
	post_local(false);
	post(TP_WRITE, 10);
	send_all();
	assert_true(local_turn(1));
	tp_req_local_error(&q, 1, TP_LOC_QP_OP);
	assert_false(tp_req_local_turn(&q, &i));
	assert_int_equal(send_all(), 0);
	ack(1);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_QP_OP);
	assert_int_equal(done(2), TP_FLUSH);
}

TEST(local__not_after_the_end)
{
	u32 i;

	start();
	post(TP_WRITE, 10);
	post_local(false);
	send_all();
	tp_req_local_error(&q, 0, TP_LOC_PROT);
	assert_false(tp_req_local_turn(&q, &i));	/* halted */
	start();
	post_local(false);
	tp_req_flush(&q);
	assert_false(tp_req_local_turn(&q, &i));
	assert_int_equal(done(0), TP_FLUSH);
}

TEST(post__numbers)
{
	u32 want_rq[] = { 0, 1, 1, 0, 2, 0 }, i;	/* READ, ATOMIC: how many are complete */
	struct tp_burst b;

	start();
	post(TP_SEND, 5);
	post(TP_WRITE, 5);
	post_op(TP_WRITE, 5)->has_imm = true;
	post(TP_READ, 5);
	post(TP_SEND, 5);
	post(TP_FAA, 8);
	for (i = 0; i < 6; i++) {
		struct tp_out o;

		assert_true(tp_req_burst(&q, now, 1, &b));
		assert_true(tp_tx_next(&q.tx, now, &b, &o));
		assert_int_equal(o.pkt.rqmsn, want_rq[i]);
		assert_int_equal(o.pkt.msn, i);
		assert_int_equal(o.pkt.ack_req, i == 5);
		assert_false(tp_tx_next(&q.tx, now, &b, &o));
	}
}

/* The request tells how far the responses have come. */
TEST(post__read_tells_what_is_complete)
{
	start();
	post(TP_READ, 5);
	post(TP_CAS, 8);
	send_all();
	assert_int_equal(out.pkt.rqmsn, 0);
	ack(2);
	tp_req_rd_done(&q, 1);
	post(TP_READ, 5);
	send_all();
	assert_int_equal(out.pkt.rqmsn, 0);	/* the first is open */
	tp_req_rd_done(&q, 0);
	post(TP_SEND, 5);
	send_all();
	assert_int_equal(out.pkt.rqmsn, 0);	/* of a SEND: its receive */
	post(TP_FAA, 8);
	send_all();
	assert_int_equal(out.pkt.rqmsn, 2);
}

TEST(post__after_silence_is_a_new_beginning)
{
	start();
	post(TP_WRITE, 5);
	send_all();
	ack(1);
	done(0);
	now += 100000 * MS;
	post(TP_WRITE, 5);
	assert_true(q.tx.last_progress_ns == now);
	assert_true(tp_req_deadline(&q) > now);
}

/* --- fence, depth --- */

TEST(start__fence_waits_for_reads)
{
	start();
	post(TP_READ, 100);
	post_op(TP_WRITE, 10)->fence = true;
	post(TP_WRITE, 10);
	assert_int_equal(send_all(), 1);
	assert_true(out.pkt.ack_req);
	ack(1);
	assert_int_equal(send_all(), 0);
	tp_req_rd_done(&q, 0);
	assert_int_equal(send_all(), 2);
}

TEST(start__fence_of_a_read_waits_for_atomics)
{
	start();
	post(TP_CAS, 8);
	post_op(TP_READ, 10)->fence = true;
	assert_int_equal(send_all(), 1);
	tp_req_rd_done(&q, 0);
	assert_int_equal(send_all(), 1);
}

TEST(start__fence_alone_waits_for_nothing)
{
	start();
	post(TP_WRITE, 10);
	post_op(TP_WRITE, 10)->fence = true;
	assert_int_equal(send_all(), 2);
}

/* ATOMIC_WRITE and FLUSH: fenced and fence, take a place among the READs, carry what they must. */
TEST(start__atomic_write_and_flush_are_reads)
{
	static const u8 kinds[] = { TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	u32 i, n;

	for (i = 0; i < 2; i++) {
		start();
		/* 1. a fence waits for them */
		post(kinds[i], 8);
		post_op(TP_WRITE, 10)->fence = true;
		assert_int_equal(send_all(), 1);
		assert_int_equal(out.len, kinds[i] == TP_ATOMIC_WRITE ? 8 : 0);
		assert_true(out.pkt.first && out.pkt.last);
		assert_int_equal(out.pkt.dma_len, 8);
		assert_int_equal(out.pkt.va, 1 << 20);
		assert_int_equal(out.pkt.rkey, 1);
		assert_int_equal(out.pkt.rqmsn, 0);
		/* 2. acknowledged is not complete: the response is */
		ack(1);
		assert_int_equal(done(0), NONE_DONE);
		assert_int_equal(send_all(), 0);
		tp_req_rd_done(&q, 0);
		assert_int_equal(done(0), TP_OK);
		assert_int_equal(send_all(), 1);
		ack(2);
		assert_int_equal(done(1), TP_OK);
		/* 3. fenced, they wait; 4. they tell how many are complete */
		post(TP_READ, 10);
		post_op(kinds[i], 8)->fence = true;
		assert_int_equal(send_all(), 1);
		tp_req_rd_done(&q, 2);
		assert_int_equal(send_all(), 1);
		assert_int_equal(out.pkt.kind, kinds[i]);
		assert_int_equal(out.pkt.rqmsn, 2);
		/* 5. no more at a time than the peer keeps */
		for (n = 0; n < 5; n++)
			post(n & 1 ? TP_READ : kinds[i], 8);
		assert_int_equal(send_all(), 3);
		tp_req_rd_done(&q, 3);
		assert_int_equal(send_all(), 1);
	}
}

/* What a FLUSH asks for goes out as it was posted, also when sent again. */
TEST(start__flush_tells_what)
{
	start();
	post_op(TP_RDMA_FLUSH, 0)->imm = TP_FETH_GLOBAL | TP_FETH_MR;
	assert_int_equal(send_all(), 1);
	assert_int_equal(out.pkt.imm, TP_FETH_GLOBAL | TP_FETH_MR);
	assert_false(out.pkt.has_imm);
	assert_int_equal(tp_wire_hdr_len(&out.pkt), 36);
}

TEST(start__no_flushes_at_all)
{
	static const u8 kinds[] = { TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	struct tp_req_attr at = attr;
	u32 i;

	at.max_rd = 0;
	for (i = 0; i < 2; i++) {
		start_with(&at);
		post(kinds[i], 8);
		assert_int_equal(send_all(), 0);
		assert_int_equal(done(0), TP_LOC_QP_OP);
	}
}

TEST(start__depth_of_reads)
{
	u32 i;

	start();
	for (i = 0; i < 7; i++)
		post(i & 1 ? TP_FAA : TP_READ, 8);
	post(TP_WRITE, 10);
	assert_int_equal(send_all(), 4);
	ack(4);
	assert_int_equal(send_all(), 0);
	tp_req_rd_done(&q, 1);		/* not the oldest */
	assert_int_equal(send_all(), 0);
	tp_req_rd_done(&q, 0);
	assert_int_equal(send_all(), 2);
	tp_req_rd_done(&q, 2);
	assert_int_equal(send_all(), 2);	/* the last READ and the WRITE */
}

TEST(start__more_reads_than_anyone_can_keep)
{
	struct tp_req_attr at = attr;

	at.max_rd = 100000;
	start_with(&at);
	assert_int_equal(q.max_rd, TP_RD_MAX);
}

TEST(start__no_reads_at_all)
{
	struct tp_req_attr at = attr;

	at.max_rd = 0;
	start_with(&at);
	post(TP_WRITE, 10);
	post(TP_READ, 10);
	post(TP_WRITE, 10);
	assert_int_equal(send_all(), 1);
	assert_int_equal(done(0), NONE_DONE);
	ack(1);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_QP_OP);
	assert_int_equal(done(2), TP_FLUSH);
	assert_int_equal(q.dead, TP_LOC_QP_OP);
}

/* --- C9 --- */

TEST(ordered__edges)
{
	u32 a;

	start();
	post_write(1000, 100);
	post_write(1100, 100);		/* touches, does not overlap */
	post_write(900, 100);
	post_write(1050, 0);
	post_write(5000, 10);		/* outside of all */
	send_all();
	for (a = 0; a < 5; a++)
		assert_false(ops[a].ordered);
	post_write(1199, 1);
	post_write(899, 1);
	post_write(899, 2);
	post_write(950, 10);
	post_write(1000, 0);
	post_write(0, 100000);
	send_all();
	assert_true(ops[5].ordered);
	assert_false(ops[6].ordered);
	assert_true(ops[7].ordered);
	assert_true(ops[8].ordered);
	assert_false(ops[9].ordered);
	assert_true(ops[10].ordered);
}

TEST(ordered__whatever_the_key_only_writes_only_open_ones)
{
	start();
	post_op(TP_WRITE, 100)->rkey = 1;
	post_op(TP_WRITE, 100)->rkey = 2;
	send_all();
	assert_true(ops[1].ordered);
	ack(2);
	post(TP_WRITE, 100);
	send_all();
	assert_false(ops[2].ordered);
	ack(3);
	post(TP_SEND, 100);
	post(TP_READ, 100);
	post(TP_WRITE, 100);
	post(TP_SEND, 100);
	send_all();
	assert_false(ops[5].ordered);
	assert_false(ops[6].ordered);
	{
		struct tp_ack a = ack_of(3, 7);	/* received, not executed */

		tp_req_ack(&q, now, &a);
	}
	post(TP_WRITE, 100);
	send_all();
	assert_true(ops[7].ordered);
}

/* ATOMIC_WRITE is a WRITE to those behind it and after those before it; a FLUSH is none. */
TEST(ordered__atomic_write_counts)
{
	start();
	post_op(TP_ATOMIC_WRITE, 8)->raddr = 1000;
	post_op(TP_RDMA_FLUSH, 100)->raddr = 2000;
	post_write(992, 8);
	post_write(1008, 8);
	post_write(1004, 100);
	post_write(2000, 100);
	post_op(TP_ATOMIC_WRITE, 8)->raddr = 2096;
	send_all();
	assert_false(ops[2].ordered);
	assert_false(ops[3].ordered);
	assert_true(ops[4].ordered);
	assert_false(ops[5].ordered);
	assert_true(ops[6].ordered);
	ack(7);
	post_write(1000, 8);		/* all of them are over */
	post_write(2090, 8);
	send_all();
	assert_false(ops[7].ordered);
	assert_false(ops[8].ordered);
}

TEST(ordered__beyond_what_is_looked_at)
{
	u32 i;

	start();
	post_write(0, 10);
	for (i = 0; i < TP_OVERLAP_SCAN - 1; i++)
		post_write(1000 + 10 * i, 10);
	post_write(500, 10);		/* the oldest is just looked at */
	send_all();
	assert_false(ops[TP_OVERLAP_SCAN].ordered);
	post_write(600, 10);		/* now it is not */
	post_write(100000, 10);		/* outside the hull: no need to look */
	send_all();
	assert_true(ops[TP_OVERLAP_SCAN + 1].ordered);
	assert_false(ops[TP_OVERLAP_SCAN + 2].ordered);
}

TEST(ordered__top_of_the_address_space)
{
	start();
	post_write(~0ULL - 99, 100);
	post_write(~0ULL - 9, 10);
	post_write(0, 10);
	send_all();
	assert_true(ops[1].ordered);
	assert_false(ops[2].ordered);
}

/* One that wraps is the peer's to refuse: here it counts up to the top. */
TEST(ordered__over_the_top_of_the_address_space)
{
	start();
	post_write(~0ULL - 9, 100);
	post_write(~0ULL - 4, 2);
	post_write(1000, 10);
	send_all();
	assert_true(ops[1].ordered);
	assert_false(ops[2].ordered);
	assert_true(q.wr_hi == ~0ULL);
}

/* Random WRITEs, executed in order at random: ordered if and only if an open one overlaps. */
TEST(ordered__model)
{
	u32 round, i, j;

	for (round = 0; round < 50; round++) {
		u64 s = round + 1;
		u32 exec = 0;

		start();
		for (i = 0; i < 200; i++) {
			const struct tp_op *op;
			bool want = false;

			post_write(rnd(&s, 2000), rnd(&s, 30));
			send_all();
			op = &ops[i];
			for (j = exec; j < i; j++)
				want |= op->length && ops[j].length &&
					op->raddr < ops[j].raddr + ops[j].length &&
					ops[j].raddr < op->raddr + op->length;
			CHECK_AT(round * 1000 + i, op->ordered, want);
			if (!rnd(&s, 3) || i - exec > TP_OVERLAP_SCAN - 2) {
				exec += rnd(&s, i + 1 - exec) + 1;
				ack(exec);
			}
		}
		CHECK_AT(round, q.wr_open <= 200, 1);
		ack(200);
		CHECK_AT(round, q.wr_open, 0);
	}
}

/* --- local faults --- */

TEST(local_error__at_post_time)
{
	start();
	post(TP_WRITE, 10);
	tp_tx_op(&q.tx, post(TP_WRITE, 10))->error = TP_LOC_LEN;
	post(TP_WRITE, 10);
	assert_int_equal(send_all(), 1);
	assert_int_equal(done(0), NONE_DONE);
	ack(1);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_LEN);
	assert_int_equal(done(2), TP_FLUSH);
	assert_int_equal(done(3), NONE_DONE);
	assert_int_equal(q.dead, TP_LOC_LEN);
	assert_int_equal(send_all(), 0);
}

TEST(local_error__in_the_middle_of_a_message)
{
	struct tp_burst b;
	struct tp_out o;

	start();
	post(TP_WRITE, 10);
	post(TP_WRITE, 5 * PAY);
	post(TP_WRITE, 10);
	send_all();
	start();
	post(TP_READ, 10);
	post(TP_WRITE, 5 * PAY);
	post(TP_WRITE, 10);
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_true(tp_req_burst(&q, now, 2, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	tp_req_local_error(&q, o.op, TP_LOC_PROT);
	tp_tx_dropped(&q.tx, &b, o.pkt.psn);
	now += 2 * MS;
	assert_int_equal(send_all(), 0);
	ack(2);
	assert_int_equal(done(0), NONE_DONE);	/* the READ still waits for its data */
	assert_true(tp_req_deadline(&q) != ~0ULL);
	tp_req_rd_done(&q, 0);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_PROT);
	assert_int_equal(done(2), TP_FLUSH);
}

TEST(local_error__before_it_starts)
{
	struct tp_burst b;
	struct tp_out o;

	start();
	post(TP_WRITE, 10);
	post(TP_WRITE, 10);
	post(TP_WRITE, 10);
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_int_equal(q.prepared, 2);
	tp_req_local_error(&q, 1 & q.tx.op_mask, TP_LOC_PROT);
	tp_req_local_error(&q, 1, TP_LOC_LEN);		/* the first reason stays */
	tp_req_local_error(&q, 77, TP_LOC_LEN);		/* nobody */
	assert_int_equal(send_all(), 0);
	ack(1);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_PROT);
}

/* What is lost of earlier messages is still sent again. */
TEST(local_error__earlier_ones_are_resent)
{
	start();
	post(TP_WRITE, 3 * PAY);
	post(TP_WRITE, 3 * PAY);
	send_all();
	tp_req_local_error(&q, 1, TP_LOC_PROT);
	q.tx.silent = 2;
	q.tx.probe_at_ns = ~0ULL;
	tp_req_timeout(&q, q.tx.rto_at_ns);
	assert_int_equal(q.tx.lost, 6);
	now = q.tx.rto_at_ns;
	q.tx.cc.cwnd = 1000000;
	assert_int_equal(send_all(), 3);
}

/* --- NAK --- */

/* The responder could not read what an executed READ asked for: that READ fails. */
TEST(nak__of_a_read_that_was_executed)
{
	start();
	post(TP_WRITE, PAY);
	post(TP_READ, 10);
	post(TP_WRITE, 10);
	send_all();
	assert_true(nak(3, TP_SYN_NAK, TP_NAK_REM_OP));
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_REM_OP);
	assert_int_equal(done(2), TP_FLUSH);
	assert_int_equal(done(3), NONE_DONE);
}

/* A READ that was not sent yet can't be what a NAK is about. */
TEST(nak__not_of_a_read_behind)
{
	start();
	q.tx.cc.cwnd = 2 * PAY;
	post(TP_SEND, 60 * PAY);
	post(TP_READ, 10);
	send_all();
	assert_true(nak(0, TP_SYN_NAK, TP_NAK_REM_OP));
	assert_int_equal(done(0), TP_REM_OP);
	assert_int_equal(done(1), TP_FLUSH);
	assert_int_equal(done(2), NONE_DONE);
}

TEST(nak__fails_its_message_and_those_behind)
{
	static const u32 status[] = { 0, TP_REM_INV_REQ, TP_REM_ACCESS, TP_REM_OP, TP_REM_OP };
	u8 value;

	for (value = 1; value < 5; value++) {
		start();
		post(TP_WRITE, 2 * PAY);
		post(TP_READ, 10);
		post(TP_WRITE, 3 * PAY);
		post(TP_WRITE, 10);
		send_all();
		tp_req_rd_done(&q, 1);		/* else it would be about the READ: below */
		assert_true(nak(4, TP_SYN_NAK, value));	/* second packet of the WRITE */
		assert_int_equal(send_all(), 0);
		assert_int_equal(done(0), TP_OK);
		assert_int_equal(done(1), TP_OK);
		assert_int_equal(done(2), status[value]);
		assert_int_equal(done(3), TP_FLUSH);
		assert_int_equal(done(4), NONE_DONE);
		assert_int_equal(q.dead, status[value]);
		post(TP_WRITE, 5);
		assert_int_equal(done(4), TP_FLUSH);
		assert_int_equal(send_all(), 0);
	}
}

TEST(nak__of_what_is_not_in_flight)
{
	start();
	post(TP_WRITE, 10);
	post(TP_WRITE, 10);
	send_all();
	assert_false(nak(3, TP_SYN_NAK, TP_NAK_REM_ACCESS));
	ack(2);
	nak(2, TP_SYN_NAK, TP_NAK_REM_ACCESS);	/* nothing there */
	nak(1, TP_SYN_NAK, TP_NAK_REM_ACCESS);	/* stale */
	nak(2, TP_SYN_RNR, 1);
	assert_false(q.rnr_wait);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_OK);
	post(TP_WRITE, 10);
	send_all();
	nak(2, TP_SYN_NAK, TP_NAK_PSN_SEQ);
	assert_false(q.tx.halted);
	nak(1, TP_SYN_NAK, TP_NAK_REM_ACCESS);
	assert_false(q.tx.halted);
	ack(3);
	assert_int_equal(done(2), TP_OK);
}

TEST(nak__the_local_reason_comes_first)
{
	start();
	post(TP_WRITE, 2 * PAY);
	send_all();
	tp_req_local_error(&q, 0, TP_LOC_PROT);
	nak(0, TP_SYN_NAK, TP_NAK_REM_OP);
	assert_int_equal(done(0), TP_LOC_PROT);
}

/* --- RNR --- */

TEST(rnr__timer_codes)
{
	static const u32 us10[] = { 65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576,
		32768, 49152 };
	u32 i;

	for (i = 0; i < 32; i++)
		assert_true(tp_rnr_timer_ns((u8)i) == us10[i] * 10000ULL);
	assert_true(tp_rnr_timer_ns(32 + 5) == tp_rnr_timer_ns(5));
}

/* Those aside that only test a path. */
static bool get_probe(void)
{
	u8 ev;

	while (tp_req_probe(&q, now, &probe, &ev))
		if (probe.probe_id <= TP_PROBE_ID)
			return true;
	return false;
}

/* At the deadline, or the next, there must be a probe. */
static void next_probe(void)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		now = tp_req_deadline(&q);
		tp_req_timeout(&q, now);
		if (get_probe())
			break;
	}
	assert_true(i < 2);
	assert_false(get_probe());
}

static void answer(u32 exec, u32 cum, u8 syndrome, u8 value)
{
	struct tp_ack a = ack_of(exec, cum);

	a.syndrome = syndrome;
	a.value = value;
	a.probe = true;
	a.probe_id = probe.probe_id;
	now += 50 * US;
	tp_req_ack(&q, now, &a);
}

TEST(rnr__waits_and_probes)
{
	u64 at;

	start();
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	send_all();
	assert_true(nak(0, TP_SYN_RNR, 20));
	at = now;
	assert_true(q.rnr_wait);
	assert_int_equal(q.rnr_left, 1);
	post(TP_SEND, 10);
	assert_int_equal(send_all(), 0);		/* nothing new */
	assert_true(tp_req_deadline(&q) == at + tp_rnr_timer_ns(20));
	now += MS;
	nak(0, TP_SYN_RNR, 20);				/* the same blockade */
	assert_int_equal(q.rnr_left, 1);
	assert_true(tp_req_deadline(&q) == at + tp_rnr_timer_ns(20));
	next_probe();
	assert_true(now == at + tp_rnr_timer_ns(20));
	answer(0, 0, TP_SYN_RNR, 14);			/* the first two were lost */
	assert_int_equal(q.rnr_left, 0);
	assert_true(q.rnr_until_ns == now + tp_rnr_timer_ns(14));
	answer(0, 0, TP_SYN_RNR, 14);			/* duplicate */
	assert_int_equal(q.rnr_left, 0);
	assert_false(q.tx.halted);
	ack(1);						/* progress */
	assert_false(q.rnr_wait);
	assert_int_equal(q.rnr_left, 2);
	assert_int_equal(done(0), TP_OK);
	assert_true(send_all() >= 1);
}

TEST(rnr__stops_in_the_middle_of_a_message)
{
	struct tp_burst b;
	struct tp_out o;

	start();
	post(TP_SEND, 10);
	post(TP_WRITE, 9 * PAY);
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	nak(0, TP_SYN_RNR, 20);
	assert_int_equal(send_all(), 0);
	ack(1);
	assert_int_equal(send_all(), 8);
}

TEST(rnr__exhausted)
{
	u32 i;

	start();
	post(TP_READ, 10);
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	send_all();
	ack(1);
	nak(1, TP_SYN_RNR, 1);
	for (i = 0; i < 2; i++) {
		assert_false(q.tx.halted);
		next_probe();
		answer(1, 3, TP_SYN_RNR, 1);
	}
	assert_true(q.tx.halted);
	assert_int_equal(done(0), NONE_DONE);
	tp_req_rd_done(&q, 0);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_RNR_EXC);
	assert_int_equal(done(2), TP_FLUSH);
}

/* A message that failed here is blocked there, too, by what was sent of it: nobody waits for that. */
TEST(rnr__of_a_message_that_failed_here)
{
	struct tp_burst b;
	struct tp_out o;

	start();
	post(TP_READ, 10);
	post(TP_SEND, 5 * PAY);
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_true(tp_req_burst(&q, now, 2, &b));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	tp_req_local_error(&q, o.op, TP_LOC_PROT);
	ack(1);
	nak(1, TP_SYN_RNR, 1);
	assert_false(q.rnr_wait);
	assert_int_equal(q.rnr_left, 2);
	tp_req_rd_done(&q, 0);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_LOC_PROT);
}

TEST(rnr__none_allowed)
{
	struct tp_req_attr at = attr;

	at.rnr_retry = 0;
	start_with(&at);
	post(TP_SEND, 10);
	send_all();
	nak(0, TP_SYN_RNR, 1);
	assert_int_equal(done(0), TP_RNR_EXC);
}

TEST(rnr__for_ever)
{
	struct tp_req_attr at = attr;
	u32 i;

	at.rnr_retry = 7;
	at.timeout_ns = MS;
	start_with(&at);
	post(TP_SEND, 10);
	send_all();
	nak(0, TP_SYN_RNR, 0);
	for (i = 0; i < 100; i++) {
		next_probe();
		answer(0, 1, TP_SYN_RNR, 0);
		assert_false(q.tx.halted);
		assert_int_equal(q.dead, TP_OK);
	}
	ack(1);
	assert_int_equal(done(0), TP_OK);
}

TEST(rnr__a_probe_for_lost_packets_is_not_a_retry)
{
	start();
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	send_all();
	nak(0, TP_SYN_RNR, 20);
	q.tx.probe_wanted = true;	/* rule 2 */
	assert_true(get_probe());
	answer(0, 0, TP_SYN_RNR, 20);
	assert_int_equal(q.rnr_left, 1);
	next_probe();
	answer(0, 0, TP_SYN_RNR, 20);
	assert_int_equal(q.rnr_left, 0);
}

/* The peer has a receive now, but the packet at its executed point is lost. */
TEST(rnr__ready_again_without_progress)
{
	start();
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	send_all();
	nak(0, TP_SYN_RNR, 14);
	answer(0, 0, TP_SYN_ACK, 31);		/* probe 0: sent before, if ever */
	assert_true(q.rnr_wait);
	next_probe();
	answer(0, 0, TP_SYN_ACK, 31);
	assert_false(q.rnr_wait);
}

TEST(rnr__progress_and_again_not_ready)
{
	start();
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	post(TP_SEND, 10);
	send_all();
	nak(0, TP_SYN_RNR, 14);
	nak(1, TP_SYN_RNR, 14);
	assert_true(q.rnr_wait);
	assert_int_equal(q.rnr_left, 1);
	ack(1);				/* older than that, or lost its way */
	assert_true(q.rnr_wait);
	nak(0, TP_SYN_RNR, 14);		/* stale */
	assert_int_equal(q.rnr_left, 1);
}

TEST(rnr__lost_packets_are_resent_meanwhile)
{
	struct tp_ack a;
	u32 i;

	start();
	for (i = 0; i < 40; i++)
		post(TP_SEND, 10);
	send_all();
	a = ack_of(0, 0);
	a.syndrome = TP_SYN_RNR;
	a.value = 20;
	a.nwords = 1;
	a.bits[0] = ~0ULL >> 24 & ~1ULL;	/* all but the first: its burst tells */
	tp_req_ack(&q, now, &a);
	assert_true(q.rnr_wait);
	assert_int_equal(q.tx.lost, 1);
	post(TP_SEND, 10);
	assert_int_equal(send_all(), 1);
	assert_true(out.pkt.rtx);
}

/* --- no progress --- */

/* Run timers, unanswered, until something completes. Return: when. */
static u64 until_dead(u64 limit)
{
	u64 end = now + limit;

	while (!q.dead && now < end) {
		assert_true(tp_req_deadline(&q) > now);
		now = tp_req_deadline(&q);
		tp_req_timeout(&q, now);
		send_all();
		get_probe();
	}
	return now;
}

TEST(retry__exceeded)
{
	u64 began, end;

	start();
	post(TP_WRITE, 10);
	post(TP_WRITE, 10);
	post(TP_WRITE, 10);
	send_all();
	ack(1);
	began = now;
	end = until_dead(100000 * MS);
	assert_in_range(end - began, 4 * 1000 * MS, 4 * 1000 * MS + 2 * US);
	assert_int_equal(done(0), TP_OK);
	assert_int_equal(done(1), TP_RETRY_EXC);
	assert_int_equal(done(2), TP_FLUSH);
	assert_true(tp_req_deadline(&q) == ~0ULL);
}

TEST(retry__short_timeouts_still_wait_for_the_path)
{
	struct tp_req_attr at = attr;
	u64 began, end;

	at.timeout_ns = 4096;
	at.retry_cnt = 0;
	start_with(&at);
	post(TP_WRITE, 10);
	send_all();
	began = now;
	end = until_dead(100000 * MS);
	assert_in_range(end - began, 4 * 100 * MS - 2 * US, 4 * 100 * MS + 2 * US);
}

/* As long as rule 2 can't know that the oldest packet was lost, nothing was tried in vain. */
TEST(retry__not_before_a_loss_can_be_known)
{
	struct tp_req_attr at = attr;
	u64 began, end;

	at.timeout_ns = 4096;
	at.retry_cnt = 0;
	start_with(&at);
	post(TP_WRITE, 10);
	send_all();
	paths.p[sent[PSN % TP_WINDOW].ev].rtt_us = 720000;	/* a host that slept took its sleep for that */
	began = now;
	end = until_dead(100000 * MS);
	assert_in_range(end - began, 900 * MS, 1001 * MS);
}

TEST(retry__for_ever)
{
	struct tp_req_attr at = attr;

	at.timeout_ns = 0;
	start_with(&at);
	post(TP_WRITE, 10);
	send_all();
	until_dead(1000000 * MS);
	assert_int_equal(q.dead, TP_OK);
}

TEST(retry__a_clock_that_jumps_is_no_silence)
{
	start();
	post(TP_WRITE, 10);
	send_all();
	now += 100000 * MS;
	tp_req_timeout(&q, now);
	assert_int_equal(q.dead, TP_OK);
	assert_true(get_probe());
	now += MS;
	assert_true(ack(1));
	assert_int_equal(done(0), TP_OK);
}

/* Nor if probes were answered, or are, without anything new: the wait starts anew. */
TEST(retry__a_clock_that_jumps_among_answers)
{
	u32 i, how, asked;

	for (how = 0; how < 2; how++) {
		start();
		post(TP_WRITE, 10);
		send_all();
		for (i = 0; i < 100 && q.tx.vain < TP_VAIN; i++) {
			now = tp_req_deadline(&q);
			tp_req_timeout(&q, now);
			while (get_probe())
				answer(0, 0, TP_SYN_ACK, 31);
			send_all();
		}
		now += 100000 * MS;
		if (how)
			answer(0, 0, TP_SYN_ACK, 31);
		for (i = 0, asked = 0; i < 100 && !q.dead; i++) {
			now = max(now, tp_req_deadline(&q));
			tp_req_timeout(&q, now);
			send_all();
			asked += get_probe();
		}
		assert_int_equal(q.dead, TP_RETRY_EXC);
		assert_in_range(asked, 2, 10);
	}
}

TEST(retry__a_peer_that_answers_lives)
{
	u32 i;

	start();
	post(TP_READ, 10);
	send_all();
	ack(1);
	for (i = 0; i < 100; i++) {
		next_probe();
		answer(1, 1, TP_SYN_ACK, 31);
	}
	assert_int_equal(q.dead, TP_OK);
	tp_req_rd_done(&q, 0);
	assert_int_equal(done(0), TP_OK);
}

/* Probes pass, our packets don't (too long for the path, say): that is an error in the end. */
TEST(retry__answers_without_receipt_count)
{
	u32 i;

	start();
	post(TP_WRITE, 10);
	send_all();
	for (i = 0; i < 10000 && !q.dead; i++) {
		now = tp_req_deadline(&q);
		tp_req_timeout(&q, now);
		send_all();
		if (get_probe())
			answer(0, 0, TP_SYN_ACK, 31);
	}
	assert_int_equal(q.dead, TP_RETRY_EXC);
	assert_int_equal(done(0), TP_RETRY_EXC);
}

TEST(retry__rnr_wait_is_excluded)
{
	struct tp_req_attr at = attr;

	at.timeout_ns = 20 * MS;
	at.retry_cnt = 0;
	start_with(&at);
	post(TP_SEND, 10);
	send_all();
	q.tx.srtt_us = 100;
	nak(0, TP_SYN_RNR, 0);		/* 655 ms; 4 RTO: 120 ms */
	assert_in_range(until_dead(100000 * MS), q.rnr_until_ns + 110 * MS, q.rnr_until_ns + 130 * MS);
}

TEST(modify__live)
{
	struct tp_req_attr at = attr;

	start();
	at.rnr_retry = 5;
	at.retry_cnt = 1;
	at.timeout_ns = 9;
	at.max_rd = 1;
	tp_req_modify(&q, &at);
	assert_int_equal(q.rnr_left, 5);
	assert_int_equal(q.rnr_retry, 5);
	assert_int_equal(q.retry_cnt, 1);
	assert_int_equal(q.max_rd, 1);
	assert_true(q.timeout_ns == 9);
}

TEST(flush__everything)
{
	start();
	post(TP_WRITE, 10);
	post(TP_NONE, 0);
	post(TP_READ, 10);
	send_all();
	tp_req_flush(&q);
	assert_false(ack(1));
	assert_int_equal(done(0), TP_FLUSH);
	assert_int_equal(done(1), TP_FLUSH);
	assert_int_equal(done(2), TP_FLUSH);
	assert_int_equal(done(3), NONE_DONE);
	assert_false(get_probe());
	assert_int_equal(send_all(), 0);
	assert_true(tp_req_deadline(&q) == ~0ULL);
	tp_req_timeout(&q, now);
}

TEST(flush__the_first_reason_stays)
{
	start();
	post(TP_WRITE, 10);
	q.dead = TP_RETRY_EXC;
	tp_req_flush(&q);
	assert_int_equal(q.dead, TP_RETRY_EXC);
	assert_int_equal(done(0), TP_FLUSH);
}

/* --- responses --- */

static struct tp_pkt response(u32 psn, u8 kind, u32 nr, u32 va, bool is_last, u32 dma_len)
{
	return (struct tp_pkt) {
		.kind = kind, .space = TP_RESPONSE, .psn = (RSP + psn) & 0xffffff, .rqmsn = nr & 0xffff,
		.va = va, .first = va == 0, .last = is_last, .dma_len = dma_len,
	};
}

static int take(struct tp_pkt p, u32 len, u32 *op)
{
	return tp_req_response(&q, &p, len, op);
}

/* A READ of 2 packets and a bit, a CAS, a READ of nothing; one more that is not sent. */
static void open_reads(void)
{
	start();
	post(TP_WRITE, 10);
	post(TP_READ, 2 * PAY + 5);
	post(TP_CAS, 8);
	post(TP_READ, 0);
	send_all();
}

TEST(response__fits)
{
	struct tp_pkt p;
	u32 op = 77;

	open_reads();
	p = response(1, TP_READ_DATA, 0, PAY, false, 2 * PAY + 5);
	assert_int_equal(tp_req_response(&q, &p, PAY, &op), TP_TAKE_PLACE);
	assert_int_equal(p.psn, RSP + 1);
	assert_int_equal(op, 1);
	tp_req_response_commit(&q, &p);
	assert_false(tp_req_response_ready(&q));
	assert_int_equal(take(response(1, TP_READ_DATA, 0, PAY, false, 2 * PAY + 5), PAY, &op), TP_TAKE_DUP);
	assert_int_equal(take(response(2, TP_READ_DATA, 0, 2 * PAY, true, 2 * PAY + 5), 5, &op), TP_TAKE_HOLD);
	assert_int_equal(take(response(3, TP_ATOMIC_DATA, 1, 0, true, 8), 8, &op), TP_TAKE_HOLD);
	assert_int_equal(op, 2);
	p = response(4, TP_READ_DATA, 2, 0, true, 0);
	assert_int_equal(tp_req_response(&q, &p, 0, &op), TP_TAKE_HOLD);
	assert_int_equal(op, 3);
	tp_req_response_commit(&q, &p);
	p = response(0, TP_READ_DATA, 0, 0, false, 2 * PAY + 5);
	assert_int_equal(tp_req_response(&q, &p, PAY, &op), TP_TAKE_PLACE);
	tp_req_response_commit(&q, &p);
	assert_true(tp_req_response_ready(&q));
	tp_req_response_executed(&q);
	tp_req_response_executed(&q);
	assert_false(tp_req_response_ready(&q));
	p = response(2, TP_READ_DATA, 0, 2 * PAY, true, 2 * PAY + 5);
	assert_int_equal(tp_req_response(&q, &p, 5, &op), TP_TAKE_TURN);
	tp_req_response_executed(&q);		/* without commit: straight from the wire */
	assert_int_equal(q.rx.exec, RSP + 3);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, false, 2 * PAY + 5), PAY, &op), TP_TAKE_DUP);
	assert_int_equal(take(response(TP_WINDOW + 3, TP_READ_DATA, 0, 0, false, 1), 1, &op), TP_TAKE_OUTSIDE);
}

TEST(response__does_not_fit)
{
	const u32 len = 2 * PAY + 5;
	struct tp_pkt p;
	u32 op;

	open_reads();
	/* no such READ, the wrong kind */
	assert_int_equal(take(response(0, TP_READ_DATA, 3, 0, false, len), PAY, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0xffff, 0, false, len), PAY, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 1, 0, true, 8), 8, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_ATOMIC_DATA, 0, 0, true, 8), 8, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_WRITE, 0, 0, false, len), PAY, &op), TP_TAKE_BAD);
	p = response(0, TP_READ_DATA, 0, 0, false, len);
	p.space = TP_REQUEST;
	assert_int_equal(take(p, PAY, &op), TP_TAKE_BAD);
	/* lengths and places */
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, false, len + 1), PAY, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, len + 1, true, len), 0, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, len, true, len), 0, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, len - 4, true, len), 5, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, len - 4, false, len), 5, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, len - 5, false, len), 5, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, PAY, true, len), PAY, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, false, len), 0, &op), TP_TAKE_BAD);
	p = response(0, TP_READ_DATA, 0, PAY, false, len);
	p.first = true;
	assert_int_equal(take(p, PAY, &op), TP_TAKE_BAD);
	p = response(0, TP_READ_DATA, 0, 0, false, len);
	p.first = false;
	assert_int_equal(take(p, PAY, &op), TP_TAKE_BAD);
	p = response(0, TP_READ_DATA, 0, 0, false, len);
	p.va = 1ULL << 32;
	assert_int_equal(take(p, PAY, &op), TP_TAKE_BAD);
	/* ATOMIC */
	assert_int_equal(take(response(0, TP_ATOMIC_DATA, 1, 0, true, 8), 7, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_ATOMIC_DATA, 1, 0, false, 8), 8, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_ATOMIC_DATA, 1, 4, true, 8), 8, &op), TP_TAKE_BAD);
	/* READ of nothing */
	assert_int_equal(take(response(0, TP_READ_DATA, 2, 0, false, 0), 0, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 2, 0, true, 0), 1, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 2, 0, true, 0), 0, &op), TP_TAKE_TURN);
	/* nothing is placed for the dead */
	tp_req_flush(&q);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, false, len), PAY, &op), TP_TAKE_BAD);
}

/* READ data without a byte, and nothing else, answer an ATOMIC_WRITE or FLUSH, whatever its length. */
TEST(response__of_an_atomic_write_or_flush)
{
	static const u8 kinds[] = { TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	u32 i, op;

	for (i = 0; i < 2; i++) {
		struct tp_pkt p;

		start();
		post(kinds[i], 8);
		post(TP_CAS, 8);
		send_all();
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 8), 8, &op), TP_TAKE_BAD);
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 8), 0, &op), TP_TAKE_BAD);
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 0), 8, &op), TP_TAKE_BAD);
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, false, 0), 0, &op), TP_TAKE_BAD);
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 4, true, 0), 0, &op), TP_TAKE_BAD);
		assert_int_equal(take(response(0, TP_ATOMIC_DATA, 0, 0, true, 8), 8, &op), TP_TAKE_BAD);
		/* nor an ATOMIC by what is meant for them */
		assert_int_equal(take(response(0, TP_READ_DATA, 1, 0, true, 0), 0, &op), TP_TAKE_BAD);
		p = response(0, TP_READ_DATA, 0, 0, true, 0);
		assert_int_equal(tp_req_response(&q, &p, 0, &op), TP_TAKE_TURN);
		assert_int_equal(op, 0);
		tp_req_rd_done(&q, op);
		tp_req_response_executed(&q);
		ack(1);
		assert_int_equal(done(0), TP_OK);
		assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 0), 0, &op), TP_TAKE_DUP);
		assert_int_equal(take(response(1, TP_READ_DATA, 0, 0, true, 0), 0, &op), TP_TAKE_BAD);
	}
}

TEST(response__of_a_read_that_is_not_sent)
{
	struct tp_burst b;
	struct tp_out o;
	u32 op;

	start();
	post(TP_READ, 10);
	post(TP_READ, 10);
	assert_true(tp_req_burst(&q, now, 1, &b));
	assert_int_equal(q.rd_tail, 2);		/* prepared */
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 10), 10, &op), TP_TAKE_BAD);
	assert_true(tp_tx_next(&q.tx, now, &b, &o));
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 10), 10, &op), TP_TAKE_TURN);
	assert_int_equal(take(response(1, TP_READ_DATA, 1, 0, true, 10), 10, &op), TP_TAKE_BAD);
}

/* One that shares the slot of an open one, one that is complete. */
TEST(response__of_another_time)
{
	u32 op;

	start();
	post(TP_READ, 10);
	send_all();
	assert_int_equal(take(response(0, TP_READ_DATA, TP_RD_MAX, 0, true, 10), 10, &op), TP_TAKE_BAD);
	assert_int_equal(take(response(0, TP_READ_DATA, 0, 0, true, 10), 10, &op), TP_TAKE_TURN);
	tp_req_rd_done(&q, 0);
	tp_req_response_executed(&q);
	assert_int_equal(take(response(1, TP_READ_DATA, 0, 0, true, 10), 10, &op), TP_TAKE_BAD);
}

/* Ordinals are 16 bits on the wire. */
TEST(response__number_wraps)
{
	u32 i, psn = 0, op;

	start();
	for (i = 0; i < 70000; i++) {
		struct tp_pkt p;

		post(TP_READ, 4);
		send_all();
		p = response(i, TP_READ_DATA, i, 0, true, 4);
		assert_int_equal(tp_req_response(&q, &p, 4, &op), TP_TAKE_TURN);
		assert_int_equal(op, i);
		tp_req_rd_done(&q, op);
		tp_req_response_executed(&q);
		ack(++psn);
		assert_int_equal(done(i), TP_OK);
	}
}

TEST(response__answer)
{
	struct tp_ack a;
	u32 op;
	struct tp_pkt p;

	open_reads();
	assert_false(tp_req_take_ack(&q, &a));
	p = response(1, TP_READ_DATA, 0, PAY, false, 2 * PAY + 5);
	tp_req_response(&q, &p, PAY, &op);
	tp_req_response_commit(&q, &p);
	assert_true(tp_req_take_ack(&q, &a));
	assert_int_equal(a.space, TP_RESPONSE);
	assert_int_equal(a.dqpn, 5);
	assert_int_equal(a.syndrome, TP_SYN_ACK);
	assert_int_equal(a.value, 31);
	assert_int_equal(a.cum_psn & 0xffffff, RSP);
	assert_int_equal(a.bits[0], 2);
	assert_false(tp_req_take_ack(&q, &a));
	assert_int_equal(take(response(1, TP_READ_DATA, 0, PAY, false, 2 * PAY + 5), PAY, &op), TP_TAKE_DUP);
	assert_true(tp_req_take_ack(&q, &a));
	assert_true(a.dup);
	tp_rx_probed(&q.rx, 99);
	assert_true(tp_req_take_ack(&q, &a));
	assert_true(a.probe);
	assert_int_equal(a.probe_id, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(next_done__in_order_when_executed),
		RUN(next_done__a_message_of_several_packets),
		RUN(next_done__read_needs_both),
		RUN(next_done__local_work),
		RUN(local__nothing_behind_starts_before_it_is_done),
		RUN(local__does_not_complete_undone),
		RUN(local__after_all),
		RUN(local__fence_waits_for_reads),
		RUN(local__fails),
		RUN(local__not_after_the_end),
		RUN(post__numbers),
		RUN(post__read_tells_what_is_complete),
		RUN(post__after_silence_is_a_new_beginning),
		RUN(start__fence_waits_for_reads),
		RUN(start__fence_of_a_read_waits_for_atomics),
		RUN(start__fence_alone_waits_for_nothing),
		RUN(start__atomic_write_and_flush_are_reads),
		RUN(start__flush_tells_what),
		RUN(start__no_flushes_at_all),
		RUN(start__depth_of_reads),
		RUN(start__more_reads_than_anyone_can_keep),
		RUN(start__no_reads_at_all),
		RUN(ordered__edges),
		RUN(ordered__whatever_the_key_only_writes_only_open_ones),
		RUN(ordered__atomic_write_counts),
		RUN(ordered__beyond_what_is_looked_at),
		RUN(ordered__top_of_the_address_space),
		RUN(ordered__over_the_top_of_the_address_space),
		RUN(ordered__model),
		RUN(local_error__at_post_time),
		RUN(local_error__in_the_middle_of_a_message),
		RUN(local_error__before_it_starts),
		RUN(local_error__earlier_ones_are_resent),
		RUN(nak__of_a_read_that_was_executed),
		RUN(nak__not_of_a_read_behind),
		RUN(nak__fails_its_message_and_those_behind),
		RUN(nak__of_what_is_not_in_flight),
		RUN(nak__the_local_reason_comes_first),
		RUN(rnr__timer_codes),
		RUN(rnr__waits_and_probes),
		RUN(rnr__stops_in_the_middle_of_a_message),
		RUN(rnr__exhausted),
		RUN(rnr__of_a_message_that_failed_here),
		RUN(rnr__none_allowed),
		RUN(rnr__for_ever),
		RUN(rnr__a_probe_for_lost_packets_is_not_a_retry),
		RUN(rnr__ready_again_without_progress),
		RUN(rnr__progress_and_again_not_ready),
		RUN(rnr__lost_packets_are_resent_meanwhile),
		RUN(retry__exceeded),
		RUN(retry__short_timeouts_still_wait_for_the_path),
		RUN(retry__not_before_a_loss_can_be_known),
		RUN(retry__for_ever),
		RUN(retry__a_clock_that_jumps_is_no_silence),
		RUN(retry__a_clock_that_jumps_among_answers),
		RUN(retry__a_peer_that_answers_lives),
		RUN(retry__answers_without_receipt_count),
		RUN(retry__rnr_wait_is_excluded),
		RUN(modify__live),
		RUN(flush__everything),
		RUN(flush__the_first_reason_stays),
		RUN(response__fits),
		RUN(response__does_not_fit),
		RUN(response__of_an_atomic_write_or_flush),
		RUN(response__of_a_read_that_is_not_sent),
		RUN(response__of_another_time),
		RUN(response__number_wraps),
		RUN(response__answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
