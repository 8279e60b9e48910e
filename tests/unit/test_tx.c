// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * tx.c, tx_path.c, tx_ack.c: shape of bursts, what acks do, the four rules of
 * loss, timers; then random operations, after each of which all sums must agree.
 */
#include "unit.h"
#include "tx.h"

#define US	1000ULL
#define MS	1000000ULL

enum { OPS = 64, PAY = 1000, HDR = TP_BTH_LEN + TP_METH_LEN + TP_RETH_LEN, FULL = HDR + PAY + 4 };

static struct tp_tx t;
static struct tp_op ops[OPS];
static struct tp_sent sent[TP_WINDOW];
static struct tp_paths paths;
static u64 now;
static u32 base_psn;

/* The window of cc.c is of no interest here but where a test says so. */
static void start_at(u32 psn, u32 nevs)
{
	now = 100 * MS;
	base_psn = psn;
	memset(ops, 0xa5, sizeof(ops));
	memset(sent, 0xa5, sizeof(sent));
	tp_paths_init(&paths, nevs, 7);
	tp_tx_init(&t, TP_REQUEST, 0x123456, ops, OPS, psn, PAY, &paths, 3, now);
	tp_tx_use_records(&t, sent, TP_WINDOW);
	t.cc.cwnd = 10000 * FULL;
}

static void start(u32 nevs)
{
	start_at(0xfffffe, nevs);
}

static struct tp_op *post(u8 kind, u32 len)
{
	struct tp_op *op = tp_tx_op(&t, t.tail++);

	*op = (struct tp_op) { .kind = kind, .payload = PAY, .length = len, .rkey = 77,
			       .raddr = 0x1000 };
	op->wire_len = kind == TP_READ || kind == TP_CAS || kind == TP_NONE ? 0 : len;
	return op;
}

/* One burst of at most @max packets. Return: how many; the packets in out[]. */
static struct tp_out out[TP_BURST_MAX];
static struct tp_burst last;

static u32 burst(u32 max)
{
	u32 n = 0;

	if (!tp_tx_burst(&t, now, max, t.tail, &last))
		return 0;
	while (tp_tx_next(&t, now, &last, &out[n]))
		n++;
	assert_int_equal(n, last.n);
	assert_true(n > 0);
	return n;
}

static void send_all(u32 max)
{
	while (burst(max))
		now += US;
}

static struct tp_ack ack_of(u32 exec, u32 cum)
{
	return (struct tp_ack) {
		.space = TP_REQUEST, .mpr = TP_MPR,
		.exec_psn = (base_psn + exec) & 0xffffff, .cum_psn = (base_psn + cum) & 0xffffff,
	};
}

static bool ack(u32 exec, u32 cum)
{
	struct tp_ack a = ack_of(exec, cum);

	return tp_tx_ack(&t, now, &a);
}

/* Bits are PSNs relative to the first. */
static void sack_bit(struct tp_ack *a, u32 cum, u32 psn)
{
	u32 bit = psn - cum;

	a->bits[bit / 64] |= 1ULL << (bit % 64);
	if (a->nwords < bit / 64 + 1)
		a->nwords = (u8)(bit / 64 + 1);
}

static bool sack(u32 exec, u32 cum, u32 from, u32 to)
{
	struct tp_ack a = ack_of(exec, cum);

	for (; from < to; from++)
		sack_bit(&a, cum, from);
	return tp_tx_ack(&t, now, &a);
}

static struct tp_sent *rec(u32 psn)
{
	return &sent[(base_psn + psn) % TP_WINDOW];
}

static bool is_lost(u32 psn)
{
	return rec(psn)->flags & TP_SENT_LOST;
}

/* --- bursts --- */

TEST(init__24_bit_psn)
{
	start(4);
	assert_int_equal(t.nxt, 0xfffffe);
	assert_int_equal(t.una, t.nxt);
	assert_int_equal(t.wnd_end, t.nxt + TP_WINDOW);
	assert_true(tp_tx_deadline(&t) == ~0ULL);
	assert_int_equal(burst(32), 0);
}

/* A queue that only flushes has no paths; sizes are 16 bits wide in what is remembered. */
TEST(init__no_paths_and_large_payload)
{
	tp_tx_init(&t, TP_REQUEST, 1, ops, OPS, 5, 0x10000, NULL, 3, 0);
	assert_int_equal(t.payload_hint, 0xffff);
	assert_int_equal(t.srtt_us, 0);
	assert_true(tp_tx_deadline(&t) == ~0ULL);
}

TEST(next__fields_of_a_message)
{
	struct tp_op *op;
	u32 i;

	start(4);
	op = post(TP_WRITE, 2 * PAY + 7);
	op->has_imm = true;
	op->imm = 42;
	op->solicited = true;
	op->ordered = true;
	op->rqmsn = 9;
	assert_int_equal(burst(32), 3);
	for (i = 0; i < 3; i++) {
		const struct tp_pkt *p = &out[i].pkt;

		assert_int_equal(p->kind, TP_WRITE);
		assert_int_equal(p->space, TP_REQUEST);
		assert_int_equal(p->dqpn, 0x123456);
		assert_int_equal(p->psn, 0xfffffe + i);
		assert_int_equal(p->msn, 0);
		assert_int_equal(p->rqmsn, 9);
		assert_int_equal(p->dma_len, 2 * PAY + 7);
		assert_int_equal(p->va, 0x1000 + PAY * i);
		assert_int_equal(p->rkey, 77);
		assert_int_equal(p->first, i == 0);
		assert_int_equal(p->last, i == 2);
		assert_int_equal(p->has_imm, i == 2);
		assert_int_equal(p->solicited, i == 2);
		assert_int_equal(p->ack_req, i == 2);
		assert_true(p->ordered);
		assert_false(p->rtx);
		assert_int_equal(out[i].op, 0);
		assert_int_equal(out[i].offset, PAY * i);
		assert_int_equal(out[i].len, i == 2 ? 7 : PAY);
		assert_int_equal(p->pad, i == 2 ? 1 : 0);
	}
	assert_int_equal(out[2].pkt.imm, 42);
	assert_int_equal(t.next_msn, 1);
	assert_int_equal(t.inflight, 2 * FULL + HDR + TP_IMM_LEN + 8 + 4);
	assert_int_equal(last.entropy, paths.p[last.ev].entropy);
}

TEST(next__key_to_invalidate_in_the_last_packet)
{
	start(4);
	post(TP_SEND, 2 * PAY)->has_inv = true;
	assert_int_equal(burst(32), 1);
	assert_false(out[0].pkt.has_inv);
	assert_int_equal(burst(32), 1);		/* longer by the key */
	assert_true(out[0].pkt.has_inv);
}

/* What is remembered of a packet's size saturates, and is taken back as it was added. */
TEST(next__packet_larger_than_its_record)
{
	start(4);
	post(TP_WRITE, 70000)->payload = 70000;
	assert_int_equal(burst(32), 1);
	assert_int_equal(out[0].len, 70000);
	assert_int_equal(rec(0)->bytes, 0xffff);
	assert_int_equal(t.inflight, 0xffff);
	ack(1, 1);
	assert_int_equal(t.inflight, 0);
}

/* A burst begun before another has nothing more to give once that one went on. */
TEST(next__burst_that_was_overtaken)
{
	struct tp_burst early;

	start(4);
	post(TP_WRITE, 10 * PAY);
	assert_true(tp_tx_burst(&t, now, 2, t.tail, &early));
	assert_int_equal(burst(2), 2);
	assert_false(tp_tx_next(&t, now, &early, &out[0]));
	assert_int_equal(early.n, 0);
	assert_int_equal(t.nxt, base_psn + 2);
}

TEST(next__offset_where_there_is_no_address)
{
	start(4);
	post(TP_SEND, 2 * PAY);
	assert_int_equal(burst(32), 2);
	assert_int_equal(out[1].pkt.va, PAY);
	assert_int_equal(out[1].pkt.rkey, 0);
	t.space = TP_RESPONSE;
	post(TP_READ_DATA, 2 * PAY);
	assert_int_equal(burst(32), 2);
	assert_int_equal(out[0].pkt.va, 0);
	assert_int_equal(out[1].pkt.va, PAY);
	assert_int_equal(out[1].pkt.rkey, 0);
	assert_int_equal(out[1].pkt.space, TP_RESPONSE);
}

TEST(next__requests_without_payload)
{
	struct tp_op *op;

	start(4);
	post(TP_READ, 5 * PAY);
	op = post(TP_CAS, 8);
	op->swap_add = 5;
	op->compare = 6;
	post(TP_WRITE, 0);
	assert_int_equal(burst(32), 1);		/* the ATOMIC's header is longer */
	assert_true(out[0].pkt.first && out[0].pkt.last);
	assert_int_equal(out[0].len, 0);
	assert_int_equal(out[0].pkt.dma_len, 5 * PAY);
	assert_int_equal(out[0].pkt.rkey, 77);
	assert_int_equal(out[0].pkt.va, 0x1000);
	assert_int_equal(burst(32), 2);		/* the WRITE is shorter: the last */
	assert_int_equal(out[0].pkt.swap_add, 5);
	assert_int_equal(out[0].pkt.compare, 6);
	assert_int_equal(out[1].len, 0);
	assert_true(out[1].pkt.last);
	assert_int_equal(out[1].pkt.msn, 2);
}

TEST(next__a_burst_spans_messages_of_one_length)
{
	u32 i;

	start(4);
	for (i = 0; i < 5; i++)
		post(TP_WRITE, 100);
	assert_int_equal(burst(32), 5);
	for (i = 0; i < 5; i++) {
		assert_int_equal(out[i].op, i);
		assert_int_equal(out[i].pkt.msn, i);
		assert_int_equal(out[i].pkt.psn, 0xfffffe + i);
		assert_int_equal(out[i].pkt.ack_req, i == 4);
	}
	assert_int_equal(last.op, 4);
	assert_int_equal(last.seg_len, HDR + 100 + 4);
}

TEST(next__stops_before_a_longer_packet)
{
	start(4);
	post(TP_WRITE, 100);
	post(TP_WRITE, 101);	/* 3 bytes of padding */
	assert_int_equal(burst(32), 1);
	assert_int_equal(t.started, 1);
	assert_int_equal(t.next_msn, 1);
	assert_int_equal(t.nxt, 0xfffffe + 1);
	assert_int_equal(burst(32), 1);
	assert_int_equal(out[0].pkt.msn, 1);
}

TEST(next__stops_after_a_shorter_packet)
{
	start(4);
	post(TP_WRITE, PAY + 1);
	post(TP_WRITE, 1);
	assert_int_equal(burst(32), 2);
	assert_int_equal(out[1].len, 1);
	assert_int_equal(burst(32), 1);
}

TEST(next__same_length_on_the_wire_is_enough)
{
	start(4);
	post(TP_WRITE, 99);
	post(TP_WRITE, 98);
	assert_int_equal(burst(32), 2);
}

TEST(burst__what_may_not_start_does_not)
{
	struct tp_burst b;
	struct tp_out o;

	start(4);
	post(TP_WRITE, 2 * PAY);
	post(TP_WRITE, PAY);
	assert_false(tp_tx_burst(&t, now, 32, 0, &b));
	assert_true(tp_tx_burst(&t, now, 32, 1, &b));
	assert_true(tp_tx_next(&t, now, &b, &o));
	assert_false(o.pkt.ack_req);
	assert_true(tp_tx_next(&t, now, &b, &o));
	assert_true(o.pkt.ack_req);	/* nothing more may leave */
	assert_false(tp_tx_next(&t, now, &b, &o));
	assert_false(tp_tx_burst(&t, now, 32, 1, &b));
}

TEST(burst__goes_on_with_a_message_that_may_not_start_anew)
{
	struct tp_burst b;

	start(4);
	post(TP_WRITE, 5 * PAY);
	assert_int_equal(burst(2), 2);
	assert_true(tp_tx_burst(&t, now, 32, 1, &b));
	assert_int_equal(burst(32), 3);
}

TEST(burst__local_work_has_no_packet)
{
	start(4);
	post(TP_NONE, 0);
	post(TP_WRITE, 2 * PAY);
	post(TP_NONE, 0);
	post(TP_WRITE, 5);
	post(TP_NONE, 0);
	assert_int_equal(burst(1), 1);
	assert_int_equal(out[0].op, 1);
	assert_int_equal(t.started, 2);
	assert_int_equal(burst(32), 2);
	assert_int_equal(out[0].op, 1);
	assert_int_equal(out[1].op, 3);
	assert_int_equal(out[1].pkt.msn, 1);
	assert_true(out[1].pkt.ack_req);
	assert_int_equal(burst(32), 0);
	assert_int_equal(t.started, 5);
	assert_int_equal(ops[2].npkts, 0);
	assert_int_equal(tp_tx_find(&t, base_psn), 1);
	assert_int_equal(tp_tx_find(&t, base_psn + 1), 1);
	assert_int_equal(tp_tx_find(&t, base_psn + 2), 3);
}

TEST(burst__callers_limit)
{
	start(4);
	post(TP_WRITE, 100 * PAY);
	assert_int_equal(burst(7), 7);
	assert_int_equal(burst(1), 1);
	assert_int_equal(burst(1000), TP_BURST_MAX);
}

/* A sixteenth where the paths are slow, a quarter where they are fast. */
TEST(burst__is_a_share_of_the_window)
{
	start(4);
	post(TP_WRITE, 200 * PAY);
	t.cc.cwnd = 480 * FULL;
	t.srtt_us = 100000;
	assert_in_range(burst(32), 29, 30);
	t.cc.cwnd = 64 * FULL;
	assert_in_range(burst(32), 3, 4);
	t.srtt_us = 100;
	assert_in_range(burst(32), 15, 16);
	t.cc.cwnd = 3 * FULL;
	t.inflight = 0;
	assert_int_equal(burst(32), 1);
}

TEST(burst__congestion_window)
{
	u32 n = 0;

	start(4);
	t.cc.cwnd = 32 * (PAY + TP_DATA_OVERHEAD);
	t.cc.slow_start = false;
	post(TP_WRITE, 100 * PAY);
	while (burst(2))
		n += last.n;
	assert_int_equal(n, 32);
	assert_true(t.limited);
	assert_true(out[last.n - 1].pkt.ack_req);
	t.limited = false;		/* let the window stay as it is */
	ack(0, 1);			/* room for one: not for a burst of two */
	assert_int_equal(burst(2), 0);
	t.limited = false;
	ack(0, 2);
	assert_int_equal(burst(2), 2);
	assert_int_equal(burst(2), 0);
	assert_true(ack(0, 34));
	t.cc.cwnd = 1;
	assert_int_equal(burst(32), 1);	/* nothing in flight: one may go */
	assert_int_equal(burst(32), 0);
}

TEST(burst__receive_window)
{
	u32 n = 0;

	start(64);
	post(TP_WRITE, 3000 * PAY);
	while (burst(32))
		n += last.n;
	assert_int_equal(n, TP_WINDOW);
	assert_true(out[last.n - 1].pkt.ack_req);
	assert_false(t.limited);
	assert_true(ack(0, 600));
	assert_int_equal(burst(32), 0);		/* received is not executed */
	assert_true(ack(3, 600));
	assert_int_equal(burst(32), 3);
}

TEST(burst__right_edge_never_moves_left)
{
	struct tp_ack a;

	start(64);
	post(TP_WRITE, 3000 * PAY);
	burst(32);
	a = ack_of(10, 10);
	a.mpr = 1;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.wnd_end, base_psn + TP_WINDOW);
	send_all(32);
	assert_int_equal(t.nxt, base_psn + TP_WINDOW);
	a = ack_of(1000, 1000);
	a.mpr = 0;		/* not said: as before */
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.wnd_end, base_psn + 1128);
	a = ack_of(1001, 1001);
	a.mpr = 255;		/* more than we have records for */
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.wnd_end, base_psn + 1001 + TP_WINDOW);
}

TEST(burst__stamps_increase)
{
	u32 prev, i;

	start(4);
	post(TP_WRITE, 50 * PAY);
	burst(1);
	prev = last.stamp;
	assert_int_equal(prev, (u32)(now / US));
	for (i = 0; i < 20; i++) {
		if (i == 10)
			now -= 50 * US;		/* a clock that jumps back */
		burst(1);
		assert_int_equal(last.stamp, prev + 1);
		prev = last.stamp;
	}
	now += 500 * US;
	burst(1);
	assert_int_equal(last.stamp, (u32)(now / US));
}

TEST(burst__hold_new)
{
	start(1);
	post(TP_WRITE, 10 * PAY);
	burst(1);
	burst(1);
	t.hold_new = true;
	assert_int_equal(burst(1), 0);
	sack(0, 0, 1, 2);
	assert_int_equal(burst(1), 1);
	assert_true(last.rtx);
	assert_int_equal(burst(1), 0);
}

/* --- records --- */

static void start_without_records(void)
{
	start(4);
	assert_ptr_equal(tp_tx_use_records(&t, NULL, 0), sent);
}

/* 1. Nothing leaves without a record; who has none to give is asked again. */
TEST(records__none)
{
	start_without_records();
	assert_int_equal(tp_tx_records(&t), 0);
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 0);	/* nothing wants to leave */
	post(TP_WRITE, 3 * PAY);
	assert_int_equal(burst(32), 0);
	assert_int_equal(t.nxt, base_psn);
	assert_int_equal(tp_tx_records(&t), TP_RECORDS_LEAST);
	assert_true(tp_tx_deadline(&t) <= now + MS);
	now += 2 * MS;
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), TP_RECORDS_LEAST);
	assert_true(tp_tx_deadline(&t) > now && tp_tx_deadline(&t) <= now + MS);
	assert_true(!tp_tx_use_records(&t, sent, TP_RECORDS_LEAST));
	assert_int_equal(burst(32), 3);
	assert_int_equal(tp_tx_records(&t), 0);
}

/* 2. Twice as many, whenever that is what stops; what is in flight is still known. */
TEST(records__grow_with_what_is_in_flight)
{
	static struct tp_sent ring[2][TP_WINDOW];
	struct tp_sent *had;
	u32 n, i, psn = 0;

	start_without_records();
	post(TP_WRITE, 2 * TP_WINDOW * PAY);
	send_all(32);
	for (n = TP_RECORDS_LEAST, i = 0; n <= TP_WINDOW; n *= 2, i ^= 1) {
		assert_int_equal(tp_tx_records(&t), n);
		had = tp_tx_use_records(&t, ring[i], n);
		assert_ptr_equal(had, psn ? ring[i ^ 1] : NULL);
		memset(ring[i ^ 1], 0x5a, sizeof(ring[0]));
		send_all(32);
		assert_int_equal(t.nxt - base_psn, n);
		for (; psn < n; psn++)
			assert_int_equal(ring[i][(base_psn + psn) % n].flags & ~TP_SENT_HEAD, 0);
	}
	assert_int_equal(tp_tx_records(&t), 0);	/* the window is what stops now */
	assert_true(sack(0, 0, 100, 101));
	assert_true(t.sent[(base_psn + 100) % TP_WINDOW].flags & TP_SENT_RECEIVED);
	assert_int_equal(t.inflight, (TP_WINDOW - 1 - t.lost) * FULL);
}

/* 3. Not for what the windows hold back, nor for what is not there. */
TEST(records__only_if_they_are_what_stops)
{
	struct tp_ack a;

	start_without_records();
	post(TP_WRITE, TP_RECORDS_LEAST * PAY);
	assert_int_equal(burst(32), 0);
	tp_tx_use_records(&t, sent, TP_RECORDS_LEAST);
	send_all(32);
	assert_int_equal(t.nxt - base_psn, TP_RECORDS_LEAST);
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 0);
	post(TP_WRITE, PAY);
	t.hold_new = true;
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 0);
	t.hold_new = false;
	t.retry_at_ns = now + MS;
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 0);
	now += MS;
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 2 * TP_RECORDS_LEAST);
	/* refused: an ack makes room as well */
	a = ack_of(1, 1);
	assert_true(tp_tx_ack(&t, now, &a));
	assert_int_equal(burst(32), 1);
	assert_int_equal(tp_tx_records(&t), 0);
}

/* 4. They go when nothing is in flight, but for the least; the last one received is still known. */
TEST(records__go_when_idle)
{
	static struct tp_sent ring[TP_WINDOW], least[TP_RECORDS_LEAST];

	start(4);
	tp_tx_use_records(&t, ring, TP_WINDOW);
	post(TP_WRITE, 40 * PAY);
	send_all(32);
	assert_true(ack(39, 39));
	assert_int_equal(tp_tx_records(&t), 0);
	assert_true(ack(40, 40));
	assert_int_equal(tp_tx_records(&t), TP_RECORDS_LEAST);
	assert_ptr_equal(tp_tx_use_records(&t, least, TP_RECORDS_LEAST), ring);
	assert_int_equal(tp_tx_records(&t), 0);
	assert_true(least[(base_psn + 39) % TP_RECORDS_LEAST].flags & TP_SENT_RECEIVED);
	post(TP_WRITE, 5 * PAY);
	assert_int_equal(burst(32), 5);
	assert_true(ack(45, 45));
}

/* 5. What was sent before is sent again, however few there are. */
TEST(records__resends_need_no_new_one)
{
	start_without_records();
	post(TP_WRITE, (TP_RECORDS_LEAST + 5) * PAY);
	assert_int_equal(burst(32), 0);
	tp_tx_use_records(&t, sent, TP_RECORDS_LEAST);
	assert_int_equal(burst(32), TP_RECORDS_LEAST);
	tp_tx_dropped(&t, &last, base_psn + 30);
	now += 2 * MS;
	assert_int_equal(burst(32), 2);
	assert_true(last.rtx);
	assert_int_equal(burst(32), 0);
	assert_int_equal(tp_tx_records(&t), 2 * TP_RECORDS_LEAST);
}

TEST(find__in_a_ring_that_wraps)
{
	u32 i;

	start_at(0xfffffff0 & 0xffffff, 4);
	t.head = t.started = t.tail = 0xfffffff0;
	for (i = 0; i < 40; i++)
		post(TP_WRITE, (1 + i % 3) * PAY);
	send_all(32);
	for (i = 0; i < 80; i++) {
		const struct tp_op *op = tp_tx_op(&t, tp_tx_find(&t, base_psn + i));

		if (base_psn + i == t.nxt)
			break;
		assert_in_range(base_psn + i, op->first_psn, op->first_psn + op->npkts - 1);
	}
	assert_int_equal(i, 79);
}

/* --- acks --- */

/* An ack that must be ignored as a whole. */
static void refused(const struct tp_ack *a)
{
	struct tp_tx before = t;
	static struct tp_sent recs[TP_WINDOW];

	memcpy(recs, sent, sizeof(recs));
	assert_false(tp_tx_ack_valid(&t, a));
	assert_false(tp_tx_ack(&t, now, a));
	assert_memory_equal(&before, &t, sizeof(t));
	assert_memory_equal(recs, sent, sizeof(recs));
}

TEST(ack__impossible_points_are_refused)
{
	struct tp_ack a;

	start(4);
	post(TP_WRITE, 70 * PAY);
	send_all(10);
	a = ack_of(0, 71);
	refused(&a);
	a = ack_of(2, 1);
	refused(&a);
	a = ack_of(71, 71);
	refused(&a);
	a = ack_of(1, 1);
	a.space = TP_RESPONSE;
	refused(&a);
	a = ack_of(1, 1);
	sack_bit(&a, 1, 70);
	refused(&a);
	a = ack_of(1, 1);
	sack_bit(&a, 1, 200);
	refused(&a);
	a = ack_of(1, 1);
	a.nwords = 1;
	a.bits[0] = 1;
	refused(&a);
	a = ack_of(70, 70);
	sack_bit(&a, 70, 71);
	refused(&a);
	a = ack_of(1, 1);
	a.nwords = TP_SACK_WORDS + 1;
	refused(&a);
	a = ack_of(0x700000, 0x700000);
	refused(&a);
	a = ack_of(1, 1);
	sack_bit(&a, 1, 69);
	assert_true(tp_tx_ack_valid(&t, &a));
	assert_true(tp_tx_ack(&t, now, &a));
	assert_true(ack(70, 70));
	assert_int_equal(t.inflight, 0);
}

TEST(ack__received_and_executed)
{
	start(4);
	post(TP_WRITE, 10 * PAY);
	send_all(10);
	now += 5 * MS;
	assert_true(ack(0, 4));
	assert_int_equal(t.una, base_psn + 4);
	assert_int_equal(t.exec, base_psn);
	assert_int_equal(t.inflight, 6 * FULL);
	assert_true(t.last_progress_ns == now);
	assert_false(tp_tx_op_executed(&t, &ops[0]));
	now += MS;
	assert_false(ack(0, 4));
	assert_true(t.last_progress_ns != now);
	assert_true(ack(4, 4));
	assert_true(sack(4, 4, 6, 8));
	assert_int_equal(t.una, base_psn + 4);
	assert_int_equal(t.lost, 2);		/* rule 1: all of it left in one burst */
	assert_int_equal(t.inflight, 2 * FULL);
	assert_false(sack(4, 4, 6, 8));
	assert_true(ack(4, 6));
	assert_int_equal(t.una, base_psn + 8);	/* those reported before count */
	assert_true(ack(10, 10));
	assert_true(tp_tx_op_executed(&t, &ops[0]));
	assert_int_equal(t.inflight, 0);
}

TEST(ack__stale_changes_nothing)
{
	start(4);
	post(TP_WRITE, 10 * PAY);
	send_all(10);
	ack(6, 8);
	assert_false(ack(2, 3));
	assert_false(ack(0, 0));
	assert_int_equal(t.una, base_psn + 8);
	assert_int_equal(t.exec, base_psn + 6);
	assert_false(sack(1, 2, 4, 6));
	assert_int_equal(t.wnd_end, base_psn + 6 + TP_WINDOW);
	assert_true(sack(1, 2, 8, 9));		/* old points, and yet news */
	assert_int_equal(t.una, base_psn + 9);
}

TEST(ack__one_rtt_sample_per_path)
{
	u8 ev;

	start(1);
	post(TP_WRITE, 10 * PAY);
	burst(3);
	ev = last.ev;
	now += 300 * US;
	burst(3);
	now += 200 * US;
	ack(6, 6);
	assert_int_equal(paths.p[ev].rtt_us, 200);	/* of the latest */
	assert_int_equal(paths.p[ev].base_us, 200);
	assert_int_equal(t.srtt_us, 200);
	assert_int_equal(t.rttvar_us, 100);
	assert_int_equal(t.slow_us, 200);
}

TEST(ack__a_mark_is_its_paths)
{
	struct tp_ack a;
	u8 ev;

	start(8);
	post(TP_WRITE, 10 * PAY);
	burst(1);
	ev = last.ev;
	now += 300 * US;
	a = ack_of(1, 1);
	a.ce = true;
	a.entropy = paths.p[(ev + 1) % 8].entropy;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(paths.p[ev].state, TP_PATH_GOOD);
	t.nagain = 0;
	burst(1);
	a = ack_of(2, 2);
	a.ce = true;
	a.entropy = last.entropy;
	now += 300 * US;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(paths.p[last.ev].state, TP_PATH_SKIP);
}

TEST(ack__window_grows_only_when_it_limited)
{
	u32 cwnd, i;

	start(4);
	t.cc.cwnd = 80 * FULL;		/* up to 64 packets it grows in any case */
	post(TP_WRITE, 2000 * PAY);
	burst(1);
	cwnd = t.cc.cwnd;
	now += 100 * US;
	ack(1, 1);
	assert_int_equal(t.cc.cwnd, cwnd);
	for (i = 0; i < 3; i++) {
		send_all(32);
		now += 100 * US;
		ack(t.nxt - base_psn, t.nxt - base_psn);
	}
	assert_true(t.cc.cwnd > cwnd);
}

/* --- rule 1 --- */

TEST(lost__overtaken_on_its_path)
{
	start(1);
	post(TP_WRITE, 6 * PAY);
	burst(3);
	now += US;
	burst(3);
	assert_true(sack(0, 0, 1, 2));
	assert_true(is_lost(0));
	assert_false(is_lost(2));
	assert_false(is_lost(3));
	assert_true(sack(0, 0, 4, 5));
	assert_true(is_lost(2));
	assert_true(is_lost(3));
	assert_false(is_lost(5));
	assert_int_equal(t.c_lost_ev, 3);
	assert_int_equal(t.lost, 3);
	assert_int_equal(t.inflight, FULL);
}

/* Two bursts on different EVs. */
static void two_paths(u32 each)
{
	static u64 seed = 1;		/* another pair each time */
	u8 first;

	do {
		start(8);
		t.rng = (u32)rnd64(&seed);
		post(TP_WRITE, 60 * PAY);
		burst(each);
		first = last.ev;
		now += 10 * US;
		burst(each);
	} while (last.ev == first);
}

TEST(lost__never_by_another_path_alone)
{
	two_paths(4);
	assert_true(sack(0, 0, 4, 8));
	assert_int_equal(t.lost, 0);
	assert_true(ack(8, 8));
	assert_int_equal(t.c_rtx, 0);
}

TEST(lost__path_is_blamed_once_per_burst)
{
	u8 ev;
	u32 i;

	two_paths(4);
	ev = last.ev;
	sack(0, 0, 7, 8);
	assert_int_equal(t.lost, 3);
	assert_int_equal(paths.p[ev].losses, 1);
	for (i = 0; i < 8; i++)
		assert_int_equal(paths.p[i].losses, i == ev);
}

/* --- rule 2 --- */

TEST(lost__nothing_sent_in_time_arrives)
{
	u32 due;

	two_paths(4);
	now += 500 * US;
	sack(0, 0, 4, 8);			/* first path silent; nothing known of it */
	due = rec(0)->stamp + tp_path_patience_us(&paths, rec(0)->ev);
	assert_true(t.rack_at_ns > now);
	assert_int_equal(t.rack_at_ns / US, due);
	assert_true(tp_tx_deadline(&t) <= t.rack_at_ns);
	while ((u32)(now / US) + 1000 < due) {
		now += MS;
		burst(1);
		now += 200 * US;
		sack(0, 0, 4, t.nxt - base_psn);
		assert_int_equal(t.lost, 0);	/* however much arrives */
	}
	now = (due + 1) * US;
	burst(1);
	now += 200 * US;
	if (last.ev == rec(0)->ev)
		return;		/* rule 1, then */
	sack(0, 0, 4, t.nxt - base_psn);
	assert_int_equal(t.lost, 4);
	assert_int_equal(t.c_lost_rack, 4);
}

/* The clock in us passes 0: a stamp like any other. */
TEST(lost__sent_at_stamp_0)
{
	start(4);
	paths.p[0].rtt_us = paths.p[1].rtt_us = paths.p[2].rtt_us = paths.p[3].rtt_us = 1000;
	post(TP_WRITE, 3 * PAY);
	now = (1ULL << 32) * US;
	t.last_stamp = (u32)-1;
	assert_int_equal(burst(1), 1);
	assert_int_equal(rec(0)->stamp, 0);
	rec(0)->ev = 0;
	now += 1249 * US;
	assert_int_equal(burst(1), 1);
	rec(1)->ev = 1;
	now += MS;
	sack(0, 0, 1, 2);
	assert_false(is_lost(0));		/* patience: 1 ms and a quarter */
	assert_true(t.rack_at_ns > now);
	assert_int_equal(burst(1), 1);
	rec(2)->ev = 2;
	sack(0, 0, 2, 3);
	assert_true(is_lost(0));
}

TEST(lost__waits_for_what_the_slowest_path_needs)
{
	u8 ev;

	two_paths(1);
	ev = rec(0)->ev;
	tp_path_acked(&paths, ev, 1000, false, (u32)(now / US));
	t.slow_us = 40000;
	t.slow_at_us = (u32)(now / US);
	now += 20 * MS;
	burst(1);
	now += MS;
	sack(0, 0, 1, 2);
	assert_true(t.rack_at_ns >= (rec(0)->stamp + 50000) * US);
}

/* The RTT of a host that slept is no measure: a second is the most that a loss waits for. */
TEST(lost__patience_has_an_end)
{
	u8 ev;

	two_paths(1);
	ev = rec(0)->ev;
	paths.p[ev].rtt_us = 35000000;
	paths.p[ev].var_us = 17000000;
	t.slow_us = 35000000;
	now += MS;
	sack(0, 0, 1, 2);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.rack_at_ns / US, rec(0)->stamp + 1000000);
	now = t.rack_at_ns + MS;
	do {				/* its own path would settle it by rule 1 */
		now += US;
		assert_int_equal(burst(1), 1);
	} while (last.ev == ev);
	now += MS;
	sack(0, 0, 1, t.nxt - base_psn);
	assert_true(is_lost(0));
}

TEST(lost__a_clock_alone_loses_nothing)
{
	two_paths(4);
	now += 500 * US;
	sack(0, 0, 4, 8);
	now = t.rack_at_ns + 3000 * MS;
	tp_tx_timeout(&t, now);
	assert_int_equal(t.lost, 0);
	assert_true(t.probe_wanted);
	assert_true(ack(8, 8));
	assert_int_equal(t.lost, 0);
}

TEST(lost__probe_when_nothing_else_is_sent)
{
	struct tp_pkt p;
	struct tp_ack a;
	u8 ev;

	two_paths(4);
	now += 500 * US;
	sack(0, 0, 4, 8);
	now = t.rack_at_ns;
	t.probe_at_ns = ~0ULL;			/* rule 3 has no part in this */
	tp_tx_timeout(&t, now);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	assert_int_equal(p.kind, TP_PROBE);
	assert_true(p.first && p.last);
	assert_int_equal(p.dqpn, 0x123456);
	assert_int_equal(p.probe_id, t.probe_id);
	assert_false(tp_tx_probe(&t, now, &p, &ev));
	a = ack_of(0, 0);
	sack_bit(&a, 0, 4);
	a.probe = true;
	a.probe_id = (u16)(p.probe_id - 1);
	now += 300 * US;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.lost, 0);		/* not the probe's answer */
	a.probe_id = p.probe_id;
	assert_true(tp_tx_ack(&t, now, &a));
	assert_int_equal(t.lost, 4);
	assert_int_equal(t.probes_open, 0);
}

/* Nothing heard of a path since: withdrawn. Part of the burst arrived: it lives. */
TEST(lost__silent_path_is_withdrawn)
{
	u8 ev;

	two_paths(4);
	now += 500 * US;
	ev = rec(0)->ev;
	sack(0, 0, 4, 8);
	t.rack_stamp = rec(0)->stamp + 100 * 1000;
	sack(0, 0, 4, 8);
	assert_int_equal(t.lost, 4);
	assert_int_equal(paths.p[ev].state, TP_PATH_BAD);

	two_paths(4);
	now += 500 * US;
	ev = rec(0)->ev;
	ack(0, 2);
	t.rack_stamp = rec(0)->stamp + 100 * 1000;
	sack(0, 2, 4, 8);
	assert_int_equal(t.lost, 2);
	assert_int_equal(paths.p[ev].state, TP_PATH_GOOD);
}

TEST(lost__no_probe_if_something_was_sent_since)
{
	two_paths(4);
	now += 500 * US;
	sack(0, 0, 4, 8);
	now = t.rack_at_ns + 2 * US;
	burst(1);
	t.probe_at_ns = ~0ULL;
	tp_tx_timeout(&t, now);
	assert_false(t.probe_wanted);
	assert_true(t.rack_at_ns == 0);
}

/* An ack over a slow path that says less must not stop the watch over what others overtook. */
TEST(lost__watch_goes_on_whatever_arrives)
{
	two_paths(4);
	now += 500 * US;
	sack(0, 0, 4, 8);
	assert_true(t.rack_at_ns);
	sack(0, 0, 1, 2);
	assert_true(is_lost(0));		/* rule 1 */
	assert_true(t.rack_at_ns);		/* 2 and 3 are still to come */
	ack(8, 8);
	assert_true(t.rack_at_ns == 0);
}

/* A resend leaves after all that is in flight, whatever their PSNs. */
TEST(lost__a_resend_overtakes_everything)
{
	do {
		two_paths(4);
		now += 500 * US;
		sack(0, 0, 1, 2);
		assert_int_equal(t.lost, 1);
		burst(1);
		assert_true(last.rtx);
	} while (last.ev == rec(4)->ev);	/* its own path: rule 1 */
	now += 900 * US;
	ack(4, 4);
	assert_int_equal(t.lost, 0);
	assert_true(t.rack_at_ns);		/* 4 ... 7 are overdue now */
	ack(8, 8);
	assert_true(t.rack_at_ns == 0);
}

/* Stamps wrap after 71 minutes; what was received before a long silence is not "later". */
TEST(lost__silence_longer_than_half_the_clock)
{
	u32 i;

	for (i = 0; i < 20; i++) {
		start(64);
		t.rng = i + 1;
		post(TP_WRITE, 4 * PAY);
		burst(1);
		now += MS;
		ack(1, 1);
		now += (1ULL << 31) * US + 5000 * MS;
		t.nagain = 0;
		burst(1);
		assert_int_equal(last.stamp, (u32)(now / US));
		now += 10 * US;
		burst(1);
		if (rec(1)->ev == rec(2)->ev)
			continue;
		now += 100 * US;
		assert_true(sack(1, 1, 2, 3));
		assert_int_equal(t.lost, 0);
	}
}

TEST(lost__the_slowest_rtt_is_forgotten)
{
	start(1);
	post(TP_WRITE, 10 * PAY);
	burst(1);
	now += 90 * MS;
	t.slow_at_us = (u32)(now / US);
	ack(1, 1);
	assert_int_equal(t.slow_us, 90000);
	burst(1);
	now += 99 * MS;
	ack(2, 2);
	assert_int_equal(t.slow_us, 99000);
	burst(1);
	now += 2 * MS;
	ack(3, 3);
	assert_int_equal(t.slow_us, 99000 - 99000 / 8);
}

/* --- probes, RTO --- */

TEST(timeout__tail_probe_backs_off)
{
	struct tp_pkt p;
	u64 gap, prev;
	u32 i;
	u8 ev;

	start(4);
	post(TP_WRITE, 3 * PAY);
	now += MS;
	burst(32);
	ack(0, 3);			/* received, not executed: persist */
	t.srtt_us = 3000;
	t.rttvar_us = 100;
	tp_tx_wake(&t, now);
	prev = now;
	gap = 6 * MS;
	for (i = 0; i < 12; i++) {
		assert_true(tp_tx_deadline(&t) == prev + gap);
		tp_tx_timeout(&t, now = tp_tx_deadline(&t) - 1);
		assert_false(tp_tx_probe(&t, now, &p, &ev));
		tp_tx_timeout(&t, ++now);
		assert_true(tp_tx_probe(&t, now, &p, &ev));
		prev = now;
		gap = i ? min(2 * gap, 500 * MS) : gap;	/* one may be lost */
	}
	assert_int_equal(t.c_rto, 0);
	assert_int_equal(t.c_probes, 12);
	ack(1, 3);			/* progress */
	assert_true(tp_tx_deadline(&t) == now + 6 * MS);
	ack(3, 3);
	t.head = 1;
	assert_true(tp_tx_deadline(&t) == ~0ULL);
}

TEST(timeout__answers_to_probes_keep_a_blocked_queue_alive)
{
	struct tp_ack a;
	struct tp_pkt p;
	u8 ev;

	start(4);
	post(TP_WRITE, 3 * PAY);
	burst(32);
	ack(0, 3);
	now = tp_tx_deadline(&t);
	tp_tx_timeout(&t, now);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	now += MS;
	a = ack_of(0, 3);
	a.probe = true;
	a.probe_id = p.probe_id;
	tp_tx_ack(&t, now, &a);
	assert_true(t.last_progress_ns == now);
	assert_int_equal(t.silent, 0);
	assert_int_equal(t.probe_backoff, 1);	/* no progress: back-off goes on */
}

TEST(timeout__answers_do_not_hide_packets_that_never_arrive)
{
	struct tp_ack a = { .space = TP_REQUEST };
	u64 began;

	start(4);
	post(TP_WRITE, 3 * PAY);
	burst(32);
	began = t.last_progress_ns;
	now += 5 * MS;
	a = ack_of(0, 0);
	a.probe = true;
	tp_tx_ack(&t, now, &a);
	assert_true(t.last_progress_ns == began);
}

TEST(timeout__rto_only_after_two_silent_probes)
{
	struct tp_pkt p;
	u32 probes = 0;
	u8 ev;

	start(4);
	post(TP_WRITE, 40 * PAY);
	send_all(10);
	now += 10000 * MS;			/* we were not scheduled */
	while (!t.c_rto) {
		tp_tx_timeout(&t, now);
		if (t.c_rto)
			break;
		assert_true(tp_tx_deadline(&t) > now);
		assert_int_equal(t.lost, 0);
		probes += tp_tx_probe(&t, now, &p, &ev);
		now = tp_tx_deadline(&t);
	}
	assert_int_equal(probes, 2);
	assert_int_equal(t.lost, 40);
	assert_int_equal(t.inflight, 0);
	assert_int_equal(t.cc.cwnd, t.cc.min);
	assert_true(tp_tx_deadline(&t) > now);
}

/* --- credit --- */

static void credit(u32 bytes)
{
	struct tp_ack a = ack_of(0, 0);

	a.credited = true;
	a.credit = bytes / TP_CREDIT_UNIT & 0xffffff;
	tp_tx_ack(&t, now, &a);
}

TEST(credit__ends_what_is_sent)
{
	u32 cost = tp_credit_cost(PAY), sent_before;

	start(4);
	tp_tx_use_credit(&t);
	post(TP_WRITE, 60 * PAY);
	send_all(10);
	assert_int_equal(t.c_sent, TP_UNSCHEDULED);
	assert_false(burst(1));
	credit(18 * cost);			/* rounded down: not all of the 18th, but it may begin */
	assert_int_equal(burst(10), 2);
	credit(10 * cost);			/* old */
	assert_false(burst(1));
	assert_int_equal(t.credit_limit, 18 * cost / TP_CREDIT_UNIT * TP_CREDIT_UNIT);
	sent_before = (u32)t.c_sent;
	now = t.probe_at_ns;			/* and nobody waits without a timer */
	tp_tx_timeout(&t, now);
	assert_true(t.probe_wanted);
	assert_int_equal(t.c_sent, sent_before);
}

TEST(credit__not_for_what_is_sent_again)
{
	struct tp_ack a;
	u32 i;

	start(1);
	tp_tx_use_credit(&t);
	post(TP_WRITE, 60 * PAY);
	send_all(4);
	now += 300 * US;
	a = ack_of(0, 0);
	for (i = 4; i < 16; i++)
		sack_bit(&a, 0, i);
	a.credited = true;
	a.credit = t.credit_limit / TP_CREDIT_UNIT;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.lost, 4);
	assert_int_equal(burst(10), 4);
	assert_true(last.rtx);
	assert_false(burst(1));
}

/* A peer that begins late to grant says where its count stands: it need not be near ours. */
TEST(credit__begins_late)
{
	start(4);
	t.credit_used = 3000000000U;
	post(TP_WRITE, 60 * PAY);
	credit(2999990016U);
	assert_int_equal(t.credit_limit, 2999990016U);
	assert_false(burst(1));
	credit(3000000000U + 2 * tp_credit_cost(PAY));
	assert_in_range(burst(10), 2, 3);
}

TEST(credit__numbers_wrap)
{
	start(4);
	tp_tx_use_credit(&t);
	t.credit_used = 0xfffffff0;
	t.credit_limit = 0xfffffff0;
	post(TP_WRITE, 60 * PAY);
	assert_false(burst(1));
	credit(8 * tp_credit_cost(PAY));
	assert_true(burst(10) >= 8);
}

/* HELLO was lost: the first answer says it. What was sent before counts. */
TEST(credit__begins_by_an_answer)
{
	start(4);
	post(TP_WRITE, 60 * PAY);
	assert_int_equal(burst(10), 10);
	credit(tp_credit_first(PAY));
	send_all(10);
	assert_int_equal(t.c_sent, TP_UNSCHEDULED);
	credit(20 * tp_credit_cost(PAY));
	send_all(10);
	assert_int_equal(t.c_sent, 20);
	credit(40 * tp_credit_cost(PAY));
	send_all(10);
	assert_int_equal(t.c_sent, 40);
}

/* HELLO was wrong, or of an earlier life of the peer. */
TEST(credit__ends_by_an_answer)
{
	start(4);
	tp_tx_use_credit(&t);
	post(TP_WRITE, 60 * PAY);
	send_all(10);
	assert_int_equal(t.c_sent, TP_UNSCHEDULED);
	assert_int_equal(t.c_starved, 1);
	ack(0, 0);
	send_all(10);
	assert_int_equal(t.c_sent, 60);
}

/* Waiting is counted once until something new leaves; not what waits for other things. */
TEST(credit__waits_are_counted)
{
	start(4);
	tp_tx_use_credit(&t);
	post(TP_WRITE, TP_UNSCHEDULED * PAY);
	send_all(10);
	assert_int_equal(t.c_starved, 0);	/* nothing waits */
	post(TP_WRITE, 60 * PAY);
	t.hold_new = true;
	assert_false(burst(1));
	assert_int_equal(t.c_starved, 0);
	t.hold_new = false;
	assert_false(burst(1));
	assert_false(burst(1));
	assert_int_equal(t.c_starved, 1);
	credit(20 * tp_credit_cost(PAY));
	send_all(10);
	assert_int_equal(t.c_sent, 20);
	assert_int_equal(t.c_starved, 2);
}

/*
 * The last grant is lost, and all before it is received: nobody has anything to say, so the sender must
 * ask, and an answer tells. The receiver's side: what it counted, and a limit that it thinks is known.
 */
TEST(credit__last_grant_is_lost)
{
	u32 cost = tp_credit_cost(PAY), i;
	struct tp_credit c;
	struct tp_pacer p;
	struct tp_pkt pkt;
	struct tp_ack a;
	u8 ev;

	start(4);
	tp_pacer_init(&p, PAY, 1000000, 8, now);
	tp_credit_init(&c, PAY);
	tp_tx_use_credit(&t);
	post(TP_WRITE, 60 * PAY);
	send_all(10);
	tp_credit_got(&p, &c, TP_UNSCHEDULED * cost, false, now);
	a = ack_of(TP_UNSCHEDULED, TP_UNSCHEDULED);
	a.credited = true;
	a.credit = c.limit / TP_CREDIT_UNIT;
	tp_tx_ack(&t, now, &a);
	assert_false(burst(1));
	while (tp_pacer_deadline(&p) != ~0ULL)		/* lost, all of them */
		assert_ptr_equal(tp_pacer_grant(&p, now = max(now, tp_pacer_deadline(&p))), &c);
	assert_true(t.una == t.nxt);
	for (i = 0; i < 3; i++) {			/* so are the first questions */
		assert_true(tp_tx_deadline(&t) <= now + 1000 * MS);
		now = max(now, tp_tx_deadline(&t));
		tp_tx_timeout(&t, now);
		assert_false(burst(1));
		assert_true(tp_tx_probe(&t, now, &pkt, &ev));
	}
	a.probe = true;
	a.probe_id = pkt.probe_id;
	a.credit = c.limit / TP_CREDIT_UNIT;
	tp_tx_ack(&t, now, &a);
	send_all(10);
	assert_int_equal(t.c_sent, TP_UNSCHEDULED + 8);
	assert_true(tp_tx_deadline(&t) <= now + 1000 * MS);
}

/* --- whom probes follow --- */

static u16 asked[8];
static u8 asked_ev[8];

/* All probes due now. */
static u32 probes(void)
{
	struct tp_pkt p;
	u32 n = 0;
	u8 ev;

	while (tp_tx_probe(&t, now, &p, &ev)) {
		assert_true(n < ARRAY_SIZE(asked));
		asked[n] = p.probe_id;
		asked_ev[n++] = ev;
	}
	return n;
}

static void probe_answered(u32 exec, u32 cum, u16 id)
{
	struct tp_ack a = ack_of(exec, cum);

	a.probe = true;
	a.probe_id = id;
	tp_tx_ack(&t, now, &a);
}

static void probe_time(void)
{
	now = t.probe_at_ns;
	t.rto_at_ns = now + 1000 * MS;
	tp_tx_timeout(&t, now);
}

TEST(probe__follows_what_is_missing)
{
	two_paths(4);
	t.probe_at_ns = now + MS;
	probe_time();
	assert_int_equal(probes(), 2);
	assert_int_equal(asked_ev[0], rec(0)->ev);
	assert_int_equal(asked_ev[1], rec(4)->ev);
	now += 300 * US;
	probe_answered(0, 0, asked[0] | 0x8000);	/* the test of a path is none of these */
	probe_answered(0, 0, (u16)(asked[0] - 4));	/* too old */
	assert_int_equal(t.lost, 0);
	probe_answered(0, 0, asked[0]);
	assert_int_equal(t.lost, 4);
	assert_true(is_lost(3));
	assert_false(is_lost(4));
	probe_answered(0, 0, asked[0]);			/* again */
	assert_int_equal(t.lost, 4);
	probe_answered(0, 0, asked[1]);
	assert_int_equal(t.lost, 8);
	assert_int_equal(t.c_lost_ev, 8);
}

TEST(probe__not_for_what_was_received)
{
	two_paths(4);
	sack(0, 0, 4, 8);
	probe_time();
	assert_int_equal(probes(), 1);
	assert_int_equal(asked_ev[0], rec(0)->ev);
}

TEST(probe__at_most_four_at_once)
{
	u32 i;

	start(64);
	post(TP_WRITE, 60 * PAY);
	for (i = 0; i < 12; i++)
		burst(1);
	probe_time();
	assert_int_equal(probes(), 4);
	for (i = 0; i < 4; i++)
		probe_answered(0, 0, asked[i]);
	assert_true(t.lost >= 4);
}

/* The path that it followed may be dead, and so may be that of a burst that waits for rule 2. */
TEST(probe__elsewhere_if_nobody_answers)
{
	two_paths(4);
	probe_time();
	probes();
	probe_time();
	assert_int_equal(probes(), 3);		/* one anywhere, and again where something is missing */
	assert_int_equal(asked_ev[1], rec(0)->ev);
	assert_int_equal(asked_ev[2], rec(4)->ev);
	two_paths(4);
	sack(0, 0, 4, 8);
	t.probe_at_ns = ~0ULL;
	now = t.rack_at_ns;
	tp_tx_timeout(&t, now);
	assert_true(t.asked);
	assert_int_equal(probes(), 1);
	assert_false(t.asked);
}

/* Sent again, and nothing follows: a probe does, but not for ever. */
TEST(probe__escorts_what_is_sent_again_last)
{
	u32 i;

	start(1);
	post(TP_WRITE, 2 * PAY);
	burst(2);
	now += 300 * US;
	sack(0, 0, 1, 2);
	assert_true(is_lost(0));
	for (i = 0; i < 3; i++) {
		assert_int_equal(burst(1), 1);
		assert_int_equal(probes(), 1);
		assert_int_equal(asked_ev[0], rec(0)->ev);
		now += 300 * US;
		probe_answered(0, 0, asked[0]);
		assert_true(is_lost(0));
	}
	assert_int_equal(burst(1), 1);
	assert_int_equal(probes(), 0);
	for (; i < 12; i++) {
		probe_time();
		assert_int_equal(probes(), 1);
		now += 300 * US;
		probe_answered(0, 0, asked[0]);
		burst(1);
	}
	assert_true(t.probe_at_ns > now + 50 * MS);	/* that path takes probes, but no packets */
	ack(2, 2);
	assert_int_equal(t.rounds, 0);
}

TEST(probe__no_escort_if_more_follows)
{
	start(1);
	post(TP_WRITE, 9 * PAY);
	burst(2);
	now += 300 * US;
	sack(0, 0, 1, 2);
	assert_int_equal(burst(1), 1);
	assert_int_equal(probes(), 0);
	assert_int_equal(t.rounds, 1);
	ack(2, 2);
	assert_int_equal(t.rounds, 0);
}

/* Probes pass, packets don't, and there is more to send all the time: the waits between resends still double. */
TEST(probe__back_off_while_more_follows)
{
	u64 first = 0, wait = 0;
	u32 i;

	start(1);
	post(TP_WRITE, 900 * PAY);
	while (burst(16))
		;
	for (i = 0; i < 12; i++) {
		u64 began = now;

		probe_time();
		wait = now - began;
		if (i == 2)
			first = wait;
		while (probes() > 0)
			probe_answered(0, 0, asked[0]);
		while (burst(16))
			;
	}
	assert_true(wait > 50 * first);
}

TEST(probe__time_counts_from_sending)
{
	start(4);
	post(TP_WRITE, 9 * PAY);
	burst(1);
	now += MS;
	burst(2);
	t.srtt_us = 3000;
	t.rttvar_us = 100;
	now += MS;
	ack(1, 1);
	assert_int_equal(t.probe_at_ns / US, rec(1)->stamp + t.srtt_us + t.srtt_us / 4);
	t.srtt_us = 3000;
	t.rttvar_us = 100;
	now += 9 * MS;
	ack(2, 2);
	assert_true(paths.base_us);
	assert_true(t.probe_at_ns == now + paths.base_us * US);	/* overdue, but answers come in */
}

TEST(timeout__rto_is_doubled_and_reset)
{
	u64 at;
	u32 i;

	start(4);
	post(TP_WRITE, 4 * PAY);
	burst(32);
	for (i = 0; i < 4; i++) {
		t.silent = 2;
		at = t.rto_at_ns;
		t.probe_at_ns = ~0ULL;
		tp_tx_timeout(&t, at);
		now = at;
		assert_int_equal(t.c_rto, i + 1);
		assert_true(t.rto_at_ns == at + min(100 * MS << (i + 1), 500 * MS));
		while (burst(32))
			;
	}
	ack(1, 1);
	assert_int_equal(t.rto_backoff, 0);
	assert_true(t.rto_at_ns <= now + 100 * MS);
}

TEST(timeout__rto_limits)
{
	start(4);
	assert_int_equal(tp_tx_rto_us(&t), 100000);
	t.srtt_us = 100;
	t.rttvar_us = 10;
	assert_int_equal(tp_tx_rto_us(&t), 30000);
	t.srtt_us = 50000;
	assert_int_equal(tp_tx_rto_us(&t), 50040);
	t.slow_us = 40000;
	assert_int_equal(tp_tx_rto_us(&t), 80000);
	t.slow_us = 4000000;
	assert_int_equal(tp_tx_rto_us(&t), 500000);
}

TEST(deadline__is_the_first_of_all)
{
	start(4);
	post(TP_WRITE, 4 * PAY);
	burst(2);
	t.probe_at_ns = now + 9 * MS;
	t.rto_at_ns = now + 8 * MS;
	assert_true(tp_tx_deadline(&t) == now + 8 * MS);
	t.rack_at_ns = now + 7 * MS;
	assert_true(tp_tx_deadline(&t) == now + 7 * MS);
	t.retry_at_ns = now + 6 * MS;
	assert_true(tp_tx_deadline(&t) == now + 6 * MS);
	t.probe_at_ns = now + 5 * MS;
	assert_true(tp_tx_deadline(&t) == now + 5 * MS);
}

TEST(timeout__answers_start_the_wait_anew)
{
	struct tp_ack a;
	struct tp_pkt p;
	u32 i;
	u8 ev;

	start(4);
	post(TP_WRITE, 3 * PAY);
	burst(32);
	for (i = 0; i < 6; i++) {
		now = t.probe_at_ns;
		tp_tx_timeout(&t, now);
		assert_true(tp_tx_probe(&t, now, &p, &ev));
		t.silent = 0;			/* no RTO here */
	}
	a = ack_of(0, 0);
	a.probe = true;
	a.probe_id = p.probe_id;
	now += 2 * MS;
	t.rto_backoff = 3;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.lost, 3);		/* nothing after them but the probe */
	assert_int_equal(t.probe_backoff, 2);
	assert_int_equal(t.rto_backoff, 0);
	assert_in_range(t.probe_at_ns, now + 8 * MS, now + 201 * MS);
	assert_true(t.rto_at_ns == now + tp_tx_rto_us(&t) * US || t.rto_at_ns == now + 100 * MS);
}

TEST(timeout__quiet)
{
	start(4);
	post(TP_WRITE, 4 * PAY);
	burst(32);
	t.quiet_until_ns = now + 700 * MS;
	tp_tx_arm(&t, now);
	assert_true(t.probe_at_ns == now + 700 * MS);
}

/* --- retransmission --- */

TEST(rtx__runs_of_lost_packets_first)
{
	start(2);
	post(TP_WRITE, 60 * PAY);
	while (t.nxt != base_psn + 20) {
		burst(5);
		now += US;
	}
	/* everything but 3, 4, 5 and 9 arrived, and more on every path */
	{
		struct tp_ack a = ack_of(0, 3);
		u32 i;

		for (i = 6; i < 20; i++)
			if (i != 9)
				sack_bit(&a, 3, i);
		now += MS;
		tp_tx_ack(&t, now, &a);
	}
	assert_int_equal(t.lost, 4);
	assert_int_equal(burst(32), 3);
	assert_true(last.rtx);
	assert_int_equal(out[0].pkt.psn, base_psn + 3);
	assert_true(out[0].pkt.rtx);
	assert_int_equal(out[0].offset, 3 * PAY);
	assert_int_equal(rec(3)->flags, TP_SENT_RTX);
	assert_int_equal(rec(3)->stamp, last.stamp);
	assert_int_equal(burst(32), 1);
	assert_int_equal(out[0].pkt.psn, base_psn + 9);
	assert_int_equal(t.lost, 0);
	burst(32);
	assert_false(last.rtx);
	assert_int_equal(t.c_rtx, 4);
}

TEST(rtx__takes_another_path)
{
	u32 i;
	u8 ev;

	for (i = 0; i < 50; i++) {
		start(2);
		t.rng = i + 1;
		post(TP_WRITE, 60 * PAY);
		burst(2);
		ev = last.ev;
		sack(0, 0, 1, 2);
		assert_int_equal(burst(32), 1);
		assert_true(last.rtx);
		assert_int_not_equal(last.ev, ev);
		burst(1);
		assert_false(last.rtx);
		assert_int_equal(last.ev, rec(0)->ev);	/* new data follow it */
	}
}

TEST(rtx__not_where_it_was_lost_even_if_that_serves)
{
	u8 ev;

	start(2);
	post(TP_WRITE, 60 * PAY);
	burst(2);
	ev = last.ev;
	sack(0, 0, 1, 2);
	t.nagain = 1;
	t.again[0] = ev;
	burst(1);
	assert_true(last.rtx);
	assert_int_not_equal(last.ev, ev);
	assert_int_equal(t.nagain, 1);		/* takes nobody's place */
}

TEST(rtx__is_bounded_by_the_congestion_window)
{
	u32 n = 0;

	start(4);
	post(TP_WRITE, 200 * PAY);
	send_all(32);
	t.silent = 2;
	t.probe_at_ns = ~0ULL;
	tp_tx_timeout(&t, t.rto_at_ns);
	assert_int_equal(t.lost, 200);
	while (burst(32)) {
		assert_true(last.rtx);
		n += last.n;
	}
	assert_int_equal(n, t.cc.min / (PAY + TP_DATA_OVERHEAD));
	assert_true(t.limited);
}

TEST(rtx__across_messages)
{
	u32 i;

	start(1);
	for (i = 0; i < 6; i++)
		post(TP_WRITE, 2 * PAY);
	post(TP_NONE, 0);
	post(TP_WRITE, PAY);
	post(TP_WRITE, PAY);
	send_all(32);
	sack(0, 1, 13, 14);
	assert_int_equal(t.lost, 12);
	assert_int_equal(burst(32), 12);
	for (i = 0; i < 12; i++) {
		assert_int_equal(out[i].pkt.psn, base_psn + 1 + i);
		assert_int_equal(out[i].op, i == 11 ? 7 : (i + 1) / 2);
		assert_int_equal(out[i].offset, i == 11 ? 0 : (i + 1) % 2 * PAY);
	}
}

TEST(rtx__gives_no_rtt_sample)
{
	start(2);
	post(TP_WRITE, 3 * PAY);
	burst(3);
	now += 300 * US;
	sack(0, 0, 1, 3);
	now += 400 * US;
	burst(1);
	assert_true(last.rtx);
	now += 9 * MS;
	ack(3, 3);
	assert_int_equal(paths.p[last.ev].rtt_us, 0);
	assert_int_equal(t.srtt_us, 300);
}

TEST(needless__widens_the_wait)
{
	u32 reo;

	start(1);
	post(TP_WRITE, 60 * PAY);
	burst(4);
	now += 1000 * US;
	ack(1, 1);
	sack(1, 1, 2, 3);
	assert_true(is_lost(1));
	burst(1);
	assert_true(last.rtx);
	now += 100 * US;		/* faster than the least RTT: it was the first copy */
	ack(4, 4);
	assert_int_equal(t.c_needless, 1);
	assert_int_equal(t.reo, 1);

	burst(4);			/* now rule 1 waits: rtt + 250 us */
	now += 50 * US;
	sack(4, 4, 6, 8);
	assert_int_equal(t.lost, 0);
	assert_true(t.rack_at_ns);
	now = t.rack_at_ns + MS;
	burst(1);
	now += 1000 * US;
	sack(4, 4, 6, 9);
	assert_int_equal(t.lost, 2);

	reo = t.reo;
	ack(4, 6);			/* marked, not resent yet: needless as well */
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.c_needless, 3);
	assert_int_equal(t.reo, reo + 1);	/* one step per round trip */
}

/* Overtaken on its path, in a fabric that reorders: lost after RTT + RTT / 8 << reo, no sooner. */
TEST(needless__how_long_the_wait_is)
{
	u32 reo;

	for (reo = 1; reo <= 3; reo++) {
		start(1);
		t.reo = (u8)reo;
		post(TP_WRITE, 9 * PAY);
		burst(2);			/* 0 is overtaken by 1 */
		now += 400 * US;
		sack(0, 0, 1, 2);
		assert_int_equal(paths.p[0].rtt_us, 400);
		assert_int_equal(t.lost, 0);
		assert_int_equal(t.rack_at_ns / US, rec(0)->stamp + 400 + (50 << reo));
		now = t.rack_at_ns - US;
		burst(1);
		now += 400 * US;
		sack(0, 0, 1, 3);
		assert_int_equal(t.lost, 0);
		now = (rec(0)->stamp + 400 + (50 << reo)) * US;
		burst(1);
		now += 400 * US;
		sack(0, 0, 1, 4);
		assert_int_equal(t.lost, 1);
		assert_int_equal(t.c_lost_rack, 1);
	}
}

/* Which copy arrived is unknown, so nothing follows for the path of the second. */
TEST(needless__is_no_evidence)
{
	two_paths(4);
	now += 500 * US;
	sack(0, 0, 1, 2);
	t.nagain = 1;
	t.again[0] = rec(4)->ev;
	burst(1);
	assert_true(last.rtx);
	assert_int_equal(last.ev, rec(4)->ev);
	now += 100 * US;
	ack(4, 4);
	assert_int_equal(t.c_needless, 1);
	assert_int_equal(rec(4)->flags & TP_SENT_OVERTAKEN, 0);
	assert_int_equal(t.lost, 0);
}

TEST(needless__is_forgotten)
{
	u32 i;

	start(1);
	t.reo = 1;
	t.reo_us = (u32)(now / US);
	paths.base_us = 10;
	post(TP_WRITE, 500 * PAY);
	for (i = 0; i < 32; i++) {
		u32 nr = t.nxt - base_psn;

		assert_int_equal(t.reo, 1);
		burst(1);
		t.silent = 2;
		t.probe_at_ns = ~0ULL;
		tp_tx_timeout(&t, t.rto_at_ns);
		burst(1);
		assert_true(last.rtx);
		now += 5 * MS;
		ack(nr + 1, nr + 1);
	}
	assert_int_equal(t.reo, 0);
}

TEST(needless__duplicates_count_after_a_resend_only)
{
	struct tp_ack a;

	start(1);
	post(TP_WRITE, 60 * PAY);
	burst(4);
	now += MS;
	a = ack_of(1, 1);
	a.dup = true;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.c_dup, 1);
	assert_int_equal(t.reo, 0);
	sack(1, 1, 2, 4);
	burst(1);
	now += 1500 * US;
	a = ack_of(4, 4);
	a.dup = true;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(t.c_dup, 2);
	assert_int_equal(t.reo, 1);
}

/* --- the local stack, faults --- */

TEST(dropped__is_sent_again_after_a_moment)
{
	u32 cwnd;
	u8 ev;

	start(4);
	post(TP_WRITE, 8 * PAY);
	cwnd = t.cc.cwnd;
	burst(5);
	ev = last.ev;
	tp_tx_dropped(&t, &last, base_psn + 2);
	assert_int_equal(t.lost, 3);
	assert_int_equal(t.inflight, 2 * FULL);
	assert_false(is_lost(1));
	assert_true(is_lost(2));
	assert_int_equal(t.cc.cwnd, cwnd);
	assert_int_equal(paths.p[ev].losses, 0);
	assert_int_equal(burst(32), 0);		/* a loop that sends all ends */
	assert_true(tp_tx_deadline(&t) == now + MS);
	now += MS;
	tp_tx_timeout(&t, now);
	assert_int_equal(burst(32), 3);
	assert_int_equal(out[0].pkt.psn, base_psn + 2);
	tp_tx_dropped(&t, &last, base_psn + 99);	/* nonsense */
	assert_int_equal(t.lost, 0);
}

/* Answer to the latest probe: received up to @cum. */
static void answer_probe(u32 cum, u16 id)
{
	struct tp_ack a = ack_of(cum, cum);

	a.probe = true;
	a.probe_id = id;
	tp_tx_ack(&t, now, &a);
}

static void resend_unreadable(u32 psn)
{
	assert_int_equal(burst(1), 1);
	assert_true(last.rtx);
	assert_int_equal(last.psn - 1, base_psn + psn);
	assert_false(tp_tx_unreadable(&t, &last));
	assert_true(is_lost(psn));
	assert_int_equal(burst(1), 0);		/* a loop that sends all ends */
}

static void lose_first(void)
{
	start(4);
	post(TP_WRITE, 8 * PAY);
	burst(8);
	tp_tx_dropped(&t, &last, base_psn);
	now += MS;
}

TEST(unreadable__never_sent)
{
	start(4);
	post(TP_WRITE, 8 * PAY);
	burst(1);
	assert_true(tp_tx_unreadable(&t, &last));
}

TEST(unreadable__arrived_after_all)
{
	struct tp_pkt p;
	u8 ev;

	lose_first();
	resend_unreadable(0);
	now += MS;
	resend_unreadable(0);			/* not asked yet: no verdict */
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(0, (u16)(p.probe_id - 1));	/* of an earlier one */
	now += MS;
	resend_unreadable(0);
	assert_true(t.retry_at_ns >= t.probe_at_ns);	/* the answer, or the next probe */
	answer_probe(8, p.probe_id);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.doubt, 0);
	assert_int_equal(burst(1), 0);
}

TEST(unreadable__needed)
{
	struct tp_pkt p;
	u8 ev;

	lose_first();
	resend_unreadable(0);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(0, p.probe_id);
	assert_int_equal(burst(1), 1);		/* at once */
	assert_true(tp_tx_unreadable(&t, &last));
}

/* Each packet has its own question. */
TEST(unreadable__another_one)
{
	struct tp_pkt p;
	u8 ev;

	lose_first();
	resend_unreadable(0);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(2, p.probe_id);
	now += MS;
	resend_unreadable(2);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(2, p.probe_id);
	assert_int_equal(burst(1), 1);
	assert_true(tp_tx_unreadable(&t, &last));
}

/* Its verdict says nothing about one that is lost later but comes first. */
TEST(unreadable__an_earlier_one)
{
	struct tp_burst first;
	struct tp_pkt p;
	u8 ev;

	start(4);
	post(TP_WRITE, 8 * PAY);
	burst(8);
	first = last;
	tp_tx_dropped(&t, &first, base_psn + 2);
	now += MS;
	resend_unreadable(2);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(0, p.probe_id);
	tp_tx_dropped(&t, &first, base_psn);
	now += MS;
	resend_unreadable(0);
}

/* Another probe under way was sent too early to know. */
TEST(unreadable__asked_for_another_reason)
{
	struct tp_pkt p;
	u8 ev;

	lose_first();
	t.probe_wanted = true;
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	t.doubt_psn = base_psn;			/* whatever is left of earlier doubts */
	resend_unreadable(0);
	answer_probe(0, p.probe_id);
	now += MS;
	resend_unreadable(0);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(0, p.probe_id);
	assert_int_equal(burst(1), 1);
	assert_true(tp_tx_unreadable(&t, &last));
}

/* A lost probe is followed by the next one, which settles it as well. */
TEST(unreadable__question_is_lost)
{
	struct tp_pkt p;
	u8 ev;

	lose_first();
	resend_unreadable(0);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	now += MS;
	resend_unreadable(0);
	now = t.probe_at_ns;
	tp_tx_timeout(&t, now);
	assert_true(tp_tx_probe(&t, now, &p, &ev));
	answer_probe(0, p.probe_id);
	assert_int_equal(burst(1), 1);
	assert_true(tp_tx_unreadable(&t, &last));
}

TEST(halt__ends_all_sending_there)
{
	start(1);
	post(TP_WRITE, 4 * PAY);
	post(TP_WRITE, 4 * PAY);
	burst(6);
	tp_tx_halt(&t, base_psn + 4);
	tp_tx_halt(&t, base_psn + 5);		/* never moves right */
	assert_int_equal(burst(32), 0);
	sack(0, 1, 5, 6);
	assert_int_equal(t.lost, 4);
	assert_int_equal(burst(32), 3);
	assert_int_equal(out[2].pkt.psn, base_psn + 3);
	assert_int_equal(burst(32), 0);
	ack(0, 4);
	now += MS;
	assert_true(tp_tx_deadline(&t) == t.probe_at_ns);	/* nothing is missing that matters */
	t.silent = 2;
	tp_tx_timeout(&t, t.probe_at_ns);
	assert_int_equal(t.c_rto, 0);
}

TEST(halt__an_earlier_fault_counts)
{
	start(1);
	post(TP_WRITE, 8 * PAY);
	burst(6);
	tp_tx_halt(&t, base_psn + 4);
	tp_tx_halt(&t, base_psn + 2);
	sack(0, 1, 5, 6);
	assert_int_equal(burst(32), 1);
	assert_int_equal(out[0].pkt.psn, base_psn + 1);
}

/* --- paths --- */

TEST(path__serves_again)
{
	u32 i;

	start(64);
	post(TP_WRITE, 600 * PAY);
	for (i = 0; i < 20; i++) {
		u8 ev;

		burst(4);
		ev = last.ev;
		now += 100 * US;
		ack(t.nxt - base_psn, t.nxt - base_psn);
		assert_int_equal(t.nagain, 1);	/* once per burst, not per packet */
		burst(4);
		assert_int_equal(last.ev, ev);
		ack(t.nxt - base_psn, t.nxt - base_psn);
	}
}

TEST(path__oldest_first)
{
	u8 ev[3];
	u32 i;

	start(64);
	post(TP_WRITE, 600 * PAY);
	for (i = 0; i < 3; i++) {
		burst(2);
		ev[i] = last.ev;
		now += 10 * US;
	}
	now += 100 * US;
	sack(0, 0, 4, 6);
	ack(2, 2);
	ack(6, 6);
	burst(1);
	assert_int_equal(last.ev, ev[2]);
	burst(1);
	assert_int_equal(last.ev, ev[0]);
	burst(1);
	assert_int_equal(last.ev, ev[1]);
}

TEST(path__a_long_queue_is_left_as_often_as_it_is_too_long)
{
	u32 i, stayed = 0;

	start(64);
	post(TP_WRITE, 1020 * PAY);
	paths.p[0].base_us = 100;
	paths.p[0].rtt_us = 4100;		/* queue 4 ms */
	for (i = 0; i < TP_DELAYS; i++)
		t.q_us[i] = 1000;		/* average 1 ms */
	for (i = 0; i < 1000; i++) {
		t.nagain = 1;
		t.again[0] = 0;
		burst(1);
		stayed += last.ev == 0;
	}
	assert_in_range(stayed, 200, 300);	/* a quarter */
	for (i = 0; i < 20; i++) {
		paths.p[1].state = TP_PATH_BAD;
		t.nagain = 1;
		t.again[0] = 1;
		assert_int_equal(burst(1), 1);
		assert_int_not_equal(last.ev, 1);
	}
}

TEST(path__probe_of_a_withdrawn_one)
{
	struct tp_ack a;
	struct tp_pkt p;
	u8 ev;

	start(8);
	assert_false(tp_tx_path_probe(&t, now, &p, &ev));
	paths.p[5].state = TP_PATH_BAD;
	paths.p[5].until_us = (u32)(now / US) - 1;
	paths.bad = 1;
	assert_false(tp_tx_path_probe(&t, now, &p, &ev));	/* no traffic */
	post(TP_WRITE, 60 * PAY);
	burst(4);
	assert_true(tp_tx_path_probe(&t, now, &p, &ev));
	assert_int_equal(ev, 5);
	assert_false(tp_tx_path_probe(&t, now, &p, &ev));
	now += MS;
	a = ack_of(0, 0);
	a.probe = true;
	a.probe_id = p.probe_id;
	a.entropy = paths.p[5].entropy;
	tp_tx_ack(&t, now, &a);
	assert_int_equal(paths.p[5].state, TP_PATH_GOOD);
	assert_int_equal(t.lost, 0);		/* tells nothing of packets */
}

/* While packets get lost, a queue may take up a third of the window. */
TEST(path__lossy_flows_leave_room)
{
	u32 pkt = PAY + TP_DATA_OVERHEAD, n;

	start(4);
	post(TP_WRITE, 2000 * PAY);
	t.c_rtx = 1;
	t.last_rtx_us = (u32)(now / US);
	send_all(32);
	n = t.nxt - base_psn;
	assert_in_range(n, TP_WINDOW / 3 - TP_BURST_MAX, TP_WINDOW / 3 + 16);
	t.cc.acked_prev = 500 * pkt;		/* per ms, no queue, 1.2 ms: twice what fits */
	paths.base_us = 1000;
	t.srtt_us = 1200;
	send_all(32);
	assert_int_equal(t.nxt - base_psn, TP_WINDOW);
}

TEST(path__losses_long_ago_take_nothing)
{
	start(4);
	post(TP_WRITE, 2000 * PAY);
	t.c_rtx = 1;
	t.last_rtx_us = (u32)(now / US) - 60000;
	send_all(32);
	assert_int_equal(t.nxt - base_psn, TP_WINDOW);
}

/* --- the same, at random --- */

static void check_sums(u32 step)
{
	u32 psn, lost = 0, bytes = 0;

	for (psn = t.una; psn != t.nxt; psn++) {
		const struct tp_sent *r = &sent[psn % TP_WINDOW];

		if (r->flags & TP_SENT_LOST)
			lost++;
		else if (!(r->flags & TP_SENT_RECEIVED))
			bytes += r->bytes;
		CHECK_AT(step, (r->flags & TP_SENT_LOST) && (r->flags & TP_SENT_RECEIVED), 0);
		CHECK_AT(step, (r->flags & TP_SENT_LOST) && tp_before(psn, t.lost_from), 0);
	}
	CHECK_AT(step, t.lost, lost);
	CHECK_AT(step, t.inflight, bytes);
	CHECK_AT(step, tp_diff(t.una, t.exec) >= 0, 1);
	CHECK_AT(step, tp_diff(t.nxt, t.una) >= 0, 1);
	CHECK_AT(step, tp_diff(t.wnd_end, t.nxt) >= 0, 1);
	CHECK_AT(step, t.wnd_end - t.exec <= TP_WINDOW, 1);
	CHECK_AT(step, t.una == t.nxt || !(sent[t.una % TP_WINDOW].flags & TP_SENT_RECEIVED), 1);
	CHECK_AT(step, (tp_tx_deadline(&t) == ~0ULL), t.head == t.tail);
	CHECK_AT(step, t.nagain <= TP_DELAYS, 1);
}

static void random_ack(u64 *s)
{
	struct tp_ack a = { .space = TP_REQUEST, .mpr = (u8)rnd(s, 9), .dup = !rnd(s, 8) };
	u32 span = t.nxt - t.exec, bits;

	a.exec_psn = t.exec + rnd(s, span + 1);
	a.cum_psn = a.exec_psn + rnd(s, t.nxt - a.exec_psn + 1);
	if (!rnd(s, 10)) {		/* nonsense of all sorts */
		a.exec_psn += rnd(s, 40) - 20;
		a.cum_psn += rnd(s, 40) - 20;
	}
	a.exec_psn &= 0xffffff;
	a.cum_psn &= 0xffffff;
	a.probe = !rnd(s, 5);
	a.probe_id = t.probe_id;
	a.entropy = paths.p[rnd(s, paths.n)].entropy;
	a.ce = !rnd(s, 20);
	for (bits = rnd(s, 3) ? rnd(s, 40) : 0; bits; bits--) {
		u32 d = 1 + rnd(s, span + 2);

		if (d < TP_SACK_WORDS * 64) {
			a.bits[d / 64] |= 1ULL << (d % 64);
			a.nwords = (u8)max_t(u32, a.nwords, d / 64 + 1);
		}
	}
	tp_tx_ack(&t, now, &a);
	while (t.head != t.started && tp_tx_op_executed(&t, tp_tx_op(&t, t.head)))
		t.head++;
}

static void random_step(u64 *s, u32 step)
{
	struct tp_pkt p;
	u8 ev;

	now += rnd(s, 3) ? rnd(s, 300) * US : 0;
	switch (rnd(s, 8)) {
	case 0:
		if (t.tail - t.head < OPS)
			post(rnd(s, 8) ? TP_WRITE : TP_NONE, rnd(s, 4) ? rnd(s, 20 * PAY) : rnd(s, 3));
		break;
	case 1:
	case 2:
	case 3:
		if (burst(1 + rnd(s, 40)) && !rnd(s, 20))
			tp_tx_dropped(&t, &last, last.psn - rnd(s, last.n + 1));
		break;
	case 4:
		now = rnd(s, 3) || t.head == t.tail ? now + rnd(s, 5) * MS : tp_tx_deadline(&t);
		tp_tx_timeout(&t, now);
		break;
	case 5:
		tp_tx_probe(&t, now, &p, &ev);
		tp_tx_path_probe(&t, now, &p, &ev);
		break;
	default:
		random_ack(s);
	}
	check_sums(step);
}

TEST(random__sums_agree)
{
	static const u32 psns[] = { 0, 0xffff00, 0x7fff00, 0xffffff };
	u32 i, step;

	for (i = 0; i < ROUNDS(40); i++) {
		u64 s = i + 1;

		start_at(psns[i % ARRAY_SIZE(psns)], 1 + i % 64);
		t.cc.cwnd = 20 * FULL;
		for (step = 0; step < 5000; step++)
			random_step(&s, i * 10000 + step);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(init__24_bit_psn),
		RUN(init__no_paths_and_large_payload),
		RUN(next__fields_of_a_message),
		RUN(next__key_to_invalidate_in_the_last_packet),
		RUN(next__packet_larger_than_its_record),
		RUN(next__burst_that_was_overtaken),
		RUN(next__offset_where_there_is_no_address),
		RUN(next__requests_without_payload),
		RUN(next__a_burst_spans_messages_of_one_length),
		RUN(next__stops_before_a_longer_packet),
		RUN(next__stops_after_a_shorter_packet),
		RUN(next__same_length_on_the_wire_is_enough),
		RUN(burst__what_may_not_start_does_not),
		RUN(burst__goes_on_with_a_message_that_may_not_start_anew),
		RUN(burst__local_work_has_no_packet),
		RUN(burst__callers_limit),
		RUN(burst__is_a_share_of_the_window),
		RUN(burst__congestion_window),
		RUN(burst__receive_window),
		RUN(burst__right_edge_never_moves_left),
		RUN(burst__stamps_increase),
		RUN(burst__hold_new),
		RUN(records__none),
		RUN(records__grow_with_what_is_in_flight),
		RUN(records__only_if_they_are_what_stops),
		RUN(records__go_when_idle),
		RUN(records__resends_need_no_new_one),
		RUN(find__in_a_ring_that_wraps),
		RUN(ack__impossible_points_are_refused),
		RUN(ack__received_and_executed),
		RUN(ack__stale_changes_nothing),
		RUN(ack__one_rtt_sample_per_path),
		RUN(ack__a_mark_is_its_paths),
		RUN(ack__window_grows_only_when_it_limited),
		RUN(lost__overtaken_on_its_path),
		RUN(lost__never_by_another_path_alone),
		RUN(lost__path_is_blamed_once_per_burst),
		RUN(lost__nothing_sent_in_time_arrives),
		RUN(lost__sent_at_stamp_0),
		RUN(lost__waits_for_what_the_slowest_path_needs),
		RUN(lost__patience_has_an_end),
		RUN(lost__a_clock_alone_loses_nothing),
		RUN(lost__probe_when_nothing_else_is_sent),
		RUN(lost__silent_path_is_withdrawn),
		RUN(lost__no_probe_if_something_was_sent_since),
		RUN(lost__watch_goes_on_whatever_arrives),
		RUN(lost__a_resend_overtakes_everything),
		RUN(lost__silence_longer_than_half_the_clock),
		RUN(lost__the_slowest_rtt_is_forgotten),
		RUN(timeout__tail_probe_backs_off),
		RUN(timeout__answers_to_probes_keep_a_blocked_queue_alive),
		RUN(timeout__answers_do_not_hide_packets_that_never_arrive),
		RUN(timeout__rto_only_after_two_silent_probes),
		RUN(credit__ends_what_is_sent),
		RUN(credit__not_for_what_is_sent_again),
		RUN(credit__numbers_wrap),
		RUN(credit__begins_late),
		RUN(credit__begins_by_an_answer),
		RUN(credit__ends_by_an_answer),
		RUN(credit__waits_are_counted),
		RUN(credit__last_grant_is_lost),
		RUN(probe__follows_what_is_missing),
		RUN(probe__not_for_what_was_received),
		RUN(probe__at_most_four_at_once),
		RUN(probe__elsewhere_if_nobody_answers),
		RUN(probe__escorts_what_is_sent_again_last),
		RUN(probe__no_escort_if_more_follows),
		RUN(probe__back_off_while_more_follows),
		RUN(probe__time_counts_from_sending),
		RUN(timeout__rto_is_doubled_and_reset),
		RUN(timeout__rto_limits),
		RUN(deadline__is_the_first_of_all),
		RUN(timeout__answers_start_the_wait_anew),
		RUN(timeout__quiet),
		RUN(rtx__runs_of_lost_packets_first),
		RUN(rtx__takes_another_path),
		RUN(rtx__not_where_it_was_lost_even_if_that_serves),
		RUN(rtx__is_bounded_by_the_congestion_window),
		RUN(rtx__across_messages),
		RUN(rtx__gives_no_rtt_sample),
		RUN(needless__widens_the_wait),
		RUN(needless__how_long_the_wait_is),
		RUN(needless__is_no_evidence),
		RUN(needless__is_forgotten),
		RUN(needless__duplicates_count_after_a_resend_only),
		RUN(dropped__is_sent_again_after_a_moment),
		RUN(unreadable__never_sent),
		RUN(unreadable__arrived_after_all),
		RUN(unreadable__needed),
		RUN(unreadable__another_one),
		RUN(unreadable__an_earlier_one),
		RUN(unreadable__asked_for_another_reason),
		RUN(unreadable__question_is_lost),
		RUN(halt__ends_all_sending_there),
		RUN(halt__an_earlier_fault_counts),
		RUN(path__serves_again),
		RUN(path__oldest_first),
		RUN(path__a_long_queue_is_left_as_often_as_it_is_too_long),
		RUN(path__probe_of_a_withdrawn_one),
		RUN(path__lossy_flows_leave_room),
		RUN(path__losses_long_ago_take_nothing),
		RUN(random__sums_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
