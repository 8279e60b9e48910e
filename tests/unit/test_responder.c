// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * responder.c: what may be placed early and what waits, one case per rule;
 * then random messages in random order against a naive model of the contract.
 * The sending side (tx.c) is played by the few lines below.
 */
#include "unit.h"
#include "responder.h"

/* ---- stand-ins for tx.c ---- */

static struct tp_ack last_tx_ack;
static u32 tx_acks;

void tp_tx_init(struct tp_tx *t, enum tp_space space, u32 dqpn, struct tp_op *ops, u32 nops,
		u32 psn, u32 payload, struct tp_paths *paths, u32 seed, u64 now)
{
	(void)payload, (void)paths, (void)seed;
	*t = (struct tp_tx) {
		.space = space, .dqpn = dqpn, .ops = ops, .op_mask = nops - 1,
		.una = psn, .exec = psn, .nxt = psn, .last_progress_ns = now,
	};
}

bool tp_tx_ack(struct tp_tx *t, u64 now, const struct tp_ack *a)
{
	(void)now;
	last_tx_ack = *a;
	tx_acks++;
	assert_false(tp_before(a->cum_psn, t->una));
	if (tp_diff(a->exec_psn, t->exec) <= 0)
		return false;
	t->exec = a->exec_psn;
	t->una = a->cum_psn;
	return true;
}

void tp_tx_wake(struct tp_tx *t, u64 now)
{
	t->last_progress_ns = now;
}

/* Everything posted goes out. */
static void send_all(struct tp_tx *t)
{
	for (; t->started != t->tail; t->started++) {
		struct tp_op *op = &t->ops[t->started & t->op_mask];

		op->first_psn = t->nxt;
		t->nxt += op->npkts;
	}
}

static struct tp_ack upto(u32 psn)
{
	return (struct tp_ack) { .space = TP_RESPONSE, .value = 31, .exec_psn = psn, .cum_psn = psn };
}

/* ---- builders ---- */

enum { PSN0 = 0xfffffe, PL = 100, MAX_RD = 4, NOPS = 4 };

static struct tp_op ops[NOPS];

static struct tp_resp fresh(void)
{
	struct tp_resp_attr at = { .psn = PSN0, .max_dest_rd = MAX_RD, .rnr_timer = 14 };
	struct tp_resp r;

	tp_resp_init(&r, &at);
	return r;
}

static struct tp_resp fresh_with_tx(void)
{
	struct tp_resp r = fresh();

	tp_resp_start_tx(&r, 77, 500, ops, NOPS, PL, NULL, 1, 0);
	return r;
}

/* Packet @i of @n, of message @msn, at @psn packets from the start. */
static struct tp_pkt pkt(u8 kind, u32 psn, u32 msn, u32 i, u32 n)
{
	return (struct tp_pkt) {
		.kind = kind, .first = i == 0, .last = i == n - 1,
		.psn = (PSN0 + psn) & 0xffffff, .msn = msn & 0xffff,
		.va = (kind == TP_SEND ? 0 : 0x10000) + i * PL, .dma_len = n * PL,
	};
}

static struct tp_pkt read_pkt(u32 psn, u32 msn, u32 length)
{
	struct tp_pkt p = pkt(TP_READ, psn, msn, 0, 1);

	p.dma_len = length;
	return p;
}

/* A correct one of those that a response answers. */
static struct tp_pkt answered_pkt(u8 kind, u32 psn, u32 msn)
{
	struct tp_pkt p = pkt(kind, psn, msn, 0, 1);

	p.dma_len = 8;
	if (kind == TP_RDMA_FLUSH)
		p.imm = TP_FETH_GLOBAL;
	return p;
}

/* As the shell does with a packet that needs nothing. */
static enum tp_take feed(struct tp_resp *r, struct tp_pkt p, u32 len)
{
	enum tp_take t = tp_resp_check(r, &p, len);

	if (t == TP_TAKE_PLACE || t == TP_TAKE_HOLD)
		tp_resp_commit(r, &p);
	return t;
}

static void expect(struct tp_resp *r, enum tp_take t, struct tp_pkt p, u32 len)
{
	assert_int_equal(tp_resp_check(r, &p, len), t);
}

/* A packet that must fail at its turn, whether that is now or later. */
static void expect_wrong(struct tp_pkt p, u32 len)
{
	struct tp_resp r = fresh();

	assert_int_equal(tp_resp_check(&r, &p, len),
			 p.psn == r.rx.exec ? TP_TAKE_TURN : TP_TAKE_HOLD);
	assert_int_equal(p.kind, TP_NONE);
	assert_false(tp_resp_turn(&r, &p));
}

static struct tp_ack answer(struct tp_resp *r, s32 credits)
{
	struct tp_ack a;

	assert_true(tp_resp_take_ack(r, credits, &a));
	return a;
}

/* ---- check: places in the window ---- */

TEST(check__single_at_its_turn)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 1);

	assert_int_equal(tp_resp_check(&r, &p, PL), TP_TAKE_TURN);
	assert_int_equal(p.psn, PSN0);
	assert_true(tp_resp_turn(&r, &p));
	assert_false(tp_resp_ready(&r));
	tp_resp_executed(&r, &p, false);	/* straight from the wire, never committed */
	assert_int_equal(r.rx.exec, PSN0 + 1);
	assert_int_equal(r.rx.cum, PSN0 + 1);
	assert_int_equal(r.msn, 1);
	assert_int_equal(r.rqmsn, 0);
	expect(&r, TP_TAKE_DUP, pkt(TP_WRITE, 0, 0, 0, 1), PL);
}

TEST(check__extends_numbers)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_SEND, 4, 0x10001, 0, 2);

	r.msn = 0xfffe;
	r.rqmsn = 0x2ffff;
	p.rqmsn = 2;
	assert_int_equal(tp_resp_check(&r, &p, PL), TP_TAKE_PLACE);
	assert_int_equal(p.psn, PSN0 + 4);
	assert_int_equal(p.msn, 0x10001);
	assert_int_equal(p.rqmsn, 0x30002);
}

TEST(check__duplicate_is_answered)
{
	struct tp_resp r = fresh();
	struct tp_ack a;

	feed(&r, pkt(TP_WRITE, 1, 0, 1, 3), PL);
	answer(&r, -1);
	expect(&r, TP_TAKE_DUP, pkt(TP_WRITE, 1, 0, 1, 3), PL);
	a = answer(&r, -1);
	assert_true(a.dup);
	expect(&r, TP_TAKE_DUP, pkt(TP_WRITE, -1, 0, 0, 1), PL);
	a = answer(&r, -1);
	assert_true(a.dup);
	assert_false(tp_resp_take_ack(&r, -1, &a));
}

TEST(check__outside)
{
	struct tp_resp r = fresh();
	struct tp_ack a;

	expect(&r, TP_TAKE_OUTSIDE, pkt(TP_WRITE, TP_WINDOW, 0, 0, 2), PL);
	expect(&r, TP_TAKE_HOLD, pkt(TP_WRITE, TP_WINDOW - 1, 0, 0, 1), PL);
	assert_false(tp_resp_take_ack(&r, -1, &a));
}

TEST(check__no_request)
{
	static const u8 kinds[] = {
		TP_NONE, TP_READ_DATA, TP_ATOMIC_DATA, TP_ACK, TP_SACK, TP_NACK, TP_PROBE,
		TP_ENDPOINT, TP_UD,
	};
	struct tp_resp r = fresh();
	u32 i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		expect(&r, TP_TAKE_BAD, pkt(kinds[i], 0, 0, 0, 1), PL);
}

/* ---- check: what waits ---- */

TEST(check__c2_tail_waits)
{
	static const u8 kinds[] = { TP_WRITE, TP_SEND };
	u32 k;

	for (k = 0; k < 2; k++) {
		struct tp_resp r = fresh();

		assert_int_equal(feed(&r, pkt(kinds[k], 2, 0, 2, 3), PL), TP_TAKE_HOLD);
		assert_int_equal(feed(&r, pkt(kinds[k], 1, 0, 1, 3), PL), TP_TAKE_PLACE);
		assert_false(tp_resp_ready(&r));
		assert_int_equal(feed(&r, pkt(kinds[k], 0, 0, 0, 3), PL), TP_TAKE_PLACE);
		assert_true(tp_resp_ready(&r));
	}
}

/* Placed at the executed point, all but the last: only the last is a turn. */
TEST(check__in_order_message)
{
	struct tp_resp r = fresh();

	assert_int_equal(feed(&r, pkt(TP_WRITE, 0, 0, 0, 2), PL), TP_TAKE_PLACE);
	assert_true(tp_resp_ready(&r));
	tp_resp_executed(&r, NULL, false);
	assert_int_equal(r.msn, 0);
	expect(&r, TP_TAKE_TURN, pkt(TP_WRITE, 1, 0, 1, 2), PL);
}

/* The tail of a later message waits even for the middle of an earlier one. */
TEST(check__c2_tail_waits_for_earlier_message)
{
	struct tp_resp r = fresh();

	feed(&r, pkt(TP_WRITE, 0, 0, 0, 3), PL);
	tp_resp_executed(&r, NULL, false);
	assert_int_equal(feed(&r, pkt(TP_WRITE, 3, 1, 0, 1), PL), TP_TAKE_HOLD);
	assert_false(tp_resp_ready(&r));
}

TEST(check__c5_read_and_atomic_wait)
{
	static const u8 kinds[] = { TP_READ, TP_CAS, TP_FAA, TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	u32 k;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct tp_resp r = fresh();
		u32 len = kinds[k] == TP_ATOMIC_WRITE ? 8 : 0;

		expect(&r, TP_TAKE_HOLD, answered_pkt(kinds[k], 1, 0), len);
		expect(&r, TP_TAKE_TURN, answered_pkt(kinds[k], 0, 0), len);
	}
}

/* A word is written at its turn by all of one packet, or not at all. */
TEST(check__c6_atomic_write_of_another_length)
{
	struct tp_pkt p = answered_pkt(TP_ATOMIC_WRITE, 1, 0);
	u32 len;

	for (len = 0; len < 20; len++)
		if (len != 8)
			expect_wrong(p, len);
	p.dma_len = 9;
	expect_wrong(p, 8);
	p.dma_len = 16;			/* the first half of more */
	p.last = false;
	expect_wrong(p, 8);
	p = answered_pkt(TP_ATOMIC_WRITE, 1, 0);
	p.first = false;
	expect_wrong(p, 8);
	p = answered_pkt(TP_ATOMIC_WRITE, 1, 1);	/* numbers count as for all others */
	expect_wrong((p.msn = 5, p), 8);
}

/* A FLUSH must ask for something that there is; of what range is asked at its turn. */
TEST(check__c6_flush_of_nothing)
{
	struct tp_pkt p = answered_pkt(TP_RDMA_FLUSH, 1, 0);
	u32 i;

	for (i = 0; i < 64; i++) {
		struct tp_resp r = fresh();

		p.imm = i;
		if (tp_feth_valid(i))
			expect(&r, TP_TAKE_HOLD, p, 0);
		else
			expect_wrong(p, 0);
	}
	p.imm = TP_FETH_GLOBAL;
	p.first = false;
	expect_wrong(p, 0);
}

/* What came before a FLUSH has been placed when its turn comes, however it arrived. */
TEST(flush__after_all_before_it)
{
	struct tp_resp r = fresh();
	struct tp_pkt flush = answered_pkt(TP_RDMA_FLUSH, 3, 1);
	struct tp_pkt tail = pkt(TP_WRITE, 2, 0, 2, 3);

	assert_int_equal(feed(&r, flush, 0), TP_TAKE_HOLD);
	assert_int_equal(feed(&r, tail, PL), TP_TAKE_HOLD);
	assert_int_equal(feed(&r, pkt(TP_WRITE, 0, 0, 0, 3), PL), TP_TAKE_PLACE);
	tp_resp_executed(&r, NULL, false);
	assert_false(tp_resp_ready(&r));		/* the middle is missing: nothing moves */
	assert_int_equal(feed(&r, pkt(TP_WRITE, 1, 0, 1, 3), PL), TP_TAKE_PLACE);
	tp_resp_executed(&r, NULL, false);
	flush.psn = PSN0 + 3;
	assert_false(tp_resp_turn(&r, &flush));		/* the tail comes first */
	tp_resp_executed(&r, &tail, false);
	assert_true(tp_resp_turn(&r, &flush));
}

/* C1: what has run does not run again, nor does what waits. */
TEST(atomic_write__duplicates)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = answered_pkt(TP_ATOMIC_WRITE, 0, 0);
	struct tp_pkt later = answered_pkt(TP_ATOMIC_WRITE, 2, 2);
	struct tp_op *o;

	expect(&r, TP_TAKE_TURN, p, 8);
	assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	tp_resp_executed(&r, &p, false);
	expect(&r, TP_TAKE_DUP, p, 8);
	assert_int_equal(feed(&r, later, 8), TP_TAKE_HOLD);
	expect(&r, TP_TAKE_DUP, later, 8);
	assert_int_equal(r.rd_no, 1);
	assert_int_equal(answer(&r, -1).exec_msn, 1);
}

TEST(check__c9_ordered_waits_for_its_message)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 2, 1, 1, 3);

	expect(&r, TP_TAKE_PLACE, p, PL);
	p.ordered = true;
	expect(&r, TP_TAKE_HOLD, p, PL);
	assert_int_equal(p.kind, TP_WRITE);
	r.msn = 1;			/* its message is next: in any order from now on */
	expect(&r, TP_TAKE_PLACE, p, PL);
	p.last = true;			/* but the tail */
	expect(&r, TP_TAKE_HOLD, p, PL - 1);
}

TEST(check__c9_ordered_at_executed_point)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 3);

	p.ordered = true;
	expect(&r, TP_TAKE_PLACE, p, PL);
}

/* ---- check: what no correct peer sends (C6) ---- */

TEST(check__c6_message_number)
{
	expect_wrong(pkt(TP_WRITE, 0, 1, 0, 2), PL);
	expect_wrong(pkt(TP_WRITE, 0, 0xffff, 0, 2), PL);
	expect_wrong(pkt(TP_WRITE, 5, 6, 0, 2), PL);
	expect_wrong(pkt(TP_READ, 5, 6, 0, 1), 0);
	expect_wrong(pkt(TP_WRITE, 5, 0xffff, 0, 2), PL);
}

TEST(check__c6_message_number_limit)
{
	struct tp_resp r = fresh();

	expect(&r, TP_TAKE_PLACE, pkt(TP_WRITE, 5, 5, 0, 2), PL);
	expect(&r, TP_TAKE_PLACE, pkt(TP_WRITE, 5, 0, 1, 9), PL);
}

TEST(check__c6_receive_number)
{
	struct tp_pkt p = pkt(TP_SEND, 5, 0, 0, 2);
	struct tp_resp r = fresh();

	p.rqmsn = 5;
	expect(&r, TP_TAKE_PLACE, p, PL);
	p.rqmsn = 6;
	expect_wrong(p, PL);
	p.rqmsn = 0xffff;
	expect_wrong(p, PL);
	p = pkt(TP_WRITE, 5, 0, 1, 2);
	p.rqmsn = 6;			/* no receive: no matter */
	expect(&r, TP_TAKE_HOLD, p, PL);
	assert_int_equal(tp_resp_check(&r, &p, PL), TP_TAKE_HOLD);
	assert_int_equal(p.kind, TP_WRITE);
	p = pkt(TP_WRITE, 5, 0, 1, 2);
	p.rqmsn = 6;
	p.has_imm = true;
	expect_wrong(p, PL);
}

static struct tp_pkt shaped(u8 kind, bool first, bool last, u64 va, u32 dma_len)
{
	struct tp_pkt p = pkt(kind, 3, 1, 0, 1);

	p.first = first;
	p.last = last;
	p.va = va;
	p.dma_len = dma_len;
	return p;
}

TEST(check__c6_shape_of_send)
{
	struct tp_resp r = fresh();
	struct tp_pkt p;

	expect(&r, TP_TAKE_PLACE, shaped(TP_SEND, true, false, 0, 200), 199);
	expect_wrong(shaped(TP_SEND, true, false, 0, 200), 200);	/* all of it, not last */
	expect_wrong(shaped(TP_SEND, true, false, 0, 200), 0);
	expect_wrong(shaped(TP_SEND, true, false, 1, 200), 100);	/* first, not at 0 */
	expect_wrong(shaped(TP_SEND, false, false, 0, 200), 100);	/* at 0, not first */
	expect_wrong(shaped(TP_SEND, false, true, 100, 200), 99);	/* last, short */
	expect_wrong(shaped(TP_SEND, false, true, 100, 200), 101);	/* too long */
	expect_wrong(shaped(TP_SEND, false, true, 201, 200), 0);
	expect_wrong(shaped(TP_SEND, false, true, 200, 200), 0);	/* empty tail */
	expect_wrong(shaped(TP_SEND, false, false, ~0ULL, 200), 101);
	expect_wrong(shaped(TP_SEND, true, true, 0, 200), 199);
	expect_wrong(shaped(TP_SEND, true, true, 0, 0), 1);
	p = shaped(TP_SEND, true, true, 0, 0);				/* empty message */
	assert_int_equal(tp_resp_check(&r, &p, 0), TP_TAKE_HOLD);
	assert_int_equal(p.kind, TP_SEND);
}

TEST(check__c6_shape_of_write)
{
	struct tp_resp r = fresh();
	struct tp_pkt p;

	expect(&r, TP_TAKE_PLACE, shaped(TP_WRITE, true, false, 5, 200), 199);
	expect(&r, TP_TAKE_PLACE, shaped(TP_WRITE, false, false, 5, 200), 199);
	expect_wrong(shaped(TP_WRITE, true, false, 5, 200), 200);
	expect_wrong(shaped(TP_WRITE, false, false, 5, 200), 200);
	expect_wrong(shaped(TP_WRITE, false, false, 5, 200), 0);
	expect_wrong(shaped(TP_WRITE, false, true, 5, 200), 200);
	expect_wrong(shaped(TP_WRITE, false, true, 5, 200), 0);
	expect_wrong(shaped(TP_WRITE, true, true, 5, 200), 199);
	expect_wrong(shaped(TP_WRITE, true, true, 5, 200), 201);
	expect_wrong(shaped(TP_WRITE, true, false, ~0ULL - 50, 200), 100);	/* wraps */
	expect_wrong(shaped(TP_WRITE, false, true, ~0ULL - 50, 200), 100);
	p = shaped(TP_WRITE, true, true, 5, 0);
	assert_int_equal(tp_resp_check(&r, &p, 0), TP_TAKE_HOLD);
	assert_int_equal(p.kind, TP_WRITE);
	p = shaped(TP_READ, true, true, 5, 100);
	assert_int_equal(tp_resp_check(&r, &p, 0), TP_TAKE_HOLD);
	assert_int_equal(p.kind, TP_READ);
}

/* ---- turn ---- */

TEST(turn__numbers)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 1), q;

	r.rqmsn = 3;
	p.psn = PSN0;
	assert_true(tp_resp_turn(&r, &p));
	q = p; q.psn++;
	assert_false(tp_resp_turn(&r, &q));
	q = p; q.msn = 1;
	assert_false(tp_resp_turn(&r, &q));
	q = p; q.kind = TP_READ_DATA;
	assert_false(tp_resp_turn(&r, &q));
	q = p; q.has_imm = true;
	assert_false(tp_resp_turn(&r, &q));
	q.rqmsn = 3;
	assert_true(tp_resp_turn(&r, &q));
	q.kind = TP_SEND;
	q.has_imm = false;
	assert_true(tp_resp_turn(&r, &q));
	q.rqmsn = 4;
	assert_false(tp_resp_turn(&r, &q));
}

/* A message number that was possible when the packet came can still be wrong at its turn. */
TEST(turn__c6_gap_in_messages)
{
	struct tp_resp r = fresh();
	struct tp_pkt later = pkt(TP_WRITE, 2, 2, 0, 1), p;

	assert_int_equal(tp_resp_check(&r, &later, PL), TP_TAKE_HOLD);
	tp_resp_commit(&r, &later);
	p = pkt(TP_WRITE, 0, 0, 0, 2);
	feed(&r, p, PL);
	tp_resp_executed(&r, NULL, false);
	p = pkt(TP_WRITE, 1, 0, 1, 2);
	assert_int_equal(tp_resp_check(&r, &p, PL), TP_TAKE_TURN);
	tp_resp_executed(&r, &p, false);
	assert_true(tp_resp_ready(&r));
	assert_false(tp_resp_turn(&r, &later));
}

TEST(executed__counters)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 2);

	tp_resp_executed(&r, &p, false);	/* held, not the last */
	assert_int_equal(r.msn, 0);
	p = pkt(TP_SEND, 1, 0, 0, 1);
	tp_resp_executed(&r, &p, true);
	assert_int_equal(r.msn, 1);
	assert_int_equal(r.rqmsn, 1);
	assert_int_equal(r.rx.exec, PSN0 + 2);
}

/* ---- RNR and NAK ---- */

TEST(rnr__answers_until_unblocked)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_SEND, 0, 0, 0, 1);
	struct tp_ack a;

	tp_resp_commit(&r, (p.psn = PSN0, &p));
	tp_resp_rnr(&r);
	a = answer(&r, 5);
	assert_int_equal(a.syndrome, TP_SYN_RNR);
	assert_int_equal(a.value, 14);
	assert_int_equal(a.exec_psn, PSN0);
	assert_int_equal(a.cum_psn, PSN0 + 1);
	assert_true(tp_resp_ready(&r));		/* what is held is kept */
	assert_int_equal(feed(&r, pkt(TP_WRITE, 2, 1, 1, 3), PL), TP_TAKE_PLACE);
	assert_int_equal(answer(&r, 5).syndrome, TP_SYN_RNR);
	tp_resp_unblock(&r);
	tp_resp_executed(&r, &p, true);
	a = answer(&r, 5);
	assert_int_equal(a.syndrome, TP_SYN_ACK);
	assert_int_equal(a.exec_msn, 1);
}

TEST(rnr__wishes_to_answer)
{
	struct tp_resp r = fresh();

	tp_resp_rnr(&r);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_RNR);
}

TEST(nak__wishes_to_answer)
{
	struct tp_resp r = fresh();

	tp_resp_nak(&r, TP_NAK_INV_REQ);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_NAK);
}

TEST(nak__ends_everything)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 1);
	struct tp_ack a;

	feed(&r, pkt(TP_WRITE, 1, 1, 0, 2), PL);
	p.psn = PSN0;
	tp_resp_commit(&r, &p);
	tp_resp_nak(&r, TP_NAK_REM_ACCESS);
	assert_false(tp_resp_ready(&r));
	a = answer(&r, -1);
	assert_int_equal(a.syndrome, TP_SYN_NAK);
	assert_int_equal(a.value, TP_NAK_REM_ACCESS);
	assert_int_equal(a.exec_psn, PSN0);
	/* C1: nothing more is taken, each packet gets the NAK again */
	expect(&r, TP_TAKE_OUTSIDE, pkt(TP_WRITE, 2, 1, 1, 4), PL);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_NAK);
	expect(&r, TP_TAKE_DUP, pkt(TP_WRITE, 1, 1, 0, 2), PL);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_NAK);
}

TEST(nak__first_one_stays)
{
	struct tp_resp r = fresh();

	tp_resp_rnr(&r);
	tp_resp_nak(&r, TP_NAK_INV_REQ);
	tp_resp_nak(&r, TP_NAK_REM_OP);
	tp_resp_rnr(&r);
	tp_resp_unblock(&r);
	assert_int_equal(answer(&r, -1).value, TP_NAK_INV_REQ);
	assert_int_equal(r.syndrome, TP_SYN_NAK);
}

/* ---- READ and ATOMIC ---- */

TEST(read__becomes_a_message)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_op *o;

	p.rkey = 7;
	assert_true(tp_resp_read(&r, &p, PL, 9, &o));
	assert_ptr_equal(o, &ops[0]);
	assert_int_equal(o->kind, TP_READ_DATA);
	assert_int_equal(o->payload, PL);
	assert_int_equal(o->length, 250);
	assert_int_equal(o->wire_len, 250);
	assert_int_equal(o->npkts, 3);
	assert_int_equal(o->msn, 0);
	assert_int_equal(o->rqmsn, 0);
	assert_int_equal(o->raddr, 0x10000);
	assert_int_equal(o->rkey, 7);
	assert_int_equal(r.tx.tail, 1);
	assert_int_equal(r.tx.last_progress_ns, 9);
	assert_true(tp_resp_owes(&r));
	assert_true(tp_resp_read(&r, &p, PL, 10, &o));
	assert_int_equal(o->msn, 1);
	assert_int_equal(o->rqmsn, 1);
	assert_int_equal(r.rd_no, 2);
	assert_int_equal(r.tx.last_progress_ns, 9);	/* silence goes on */
}

TEST(read__packets)
{
	static const u32 cases[][2] = {
		{ 0, 1 }, { 1, 1 }, { PL, 1 }, { PL + 1, 2 }, { 2 * PL, 2 }, { 0xffffffff, 42949673 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tp_resp r = fresh_with_tx();
		struct tp_pkt p = read_pkt(0, 0, cases[i][0]);
		struct tp_op *o;

		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
		assert_int_equal(o->npkts, cases[i][1]);
	}
}

TEST(read__atomic)
{
	static const u8 kinds[] = { TP_CAS, TP_FAA };
	u32 i;

	for (i = 0; i < 2; i++) {
		struct tp_resp r = fresh_with_tx();
		struct tp_pkt p = read_pkt(0, 0, 8);
		struct tp_op *o;

		p.kind = kinds[i];
		p.swap_add = 11;
		p.compare = 12;
		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
		assert_int_equal(o->kind, TP_ATOMIC_DATA);
		assert_int_equal(o->wire_len, 8);
		assert_int_equal(o->npkts, 1);
		assert_int_equal(o->swap_add, 11);
		assert_int_equal(o->compare, 12);
	}
}

/* They are answered by READ data without a byte, whatever length they bear. */
TEST(read__atomic_write_and_flush)
{
	static const u8 kinds[] = { TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	u32 i;

	for (i = 0; i < 2; i++) {
		struct tp_resp r = fresh_with_tx();
		struct tp_pkt p = read_pkt(0, 0, i ? 0xffffffff : 8);
		struct tp_op *o;
		u32 n;

		p.kind = kinds[i];
		for (n = 0; n < MAX_RD; n++) {
			assert_true(tp_resp_read(&r, &p, PL, 0, &o));
			assert_int_equal(o->kind, TP_READ_DATA);
			assert_int_equal(o->length, 0);
			assert_int_equal(o->wire_len, 0);
			assert_int_equal(o->npkts, 1);
			assert_int_equal(o->rqmsn, n);
		}
		assert_true(tp_resp_owes(&r));
		assert_false(tp_resp_read(&r, &p, PL, 0, &o));	/* they take a slot each */
		send_all(&r.tx);
		p.rqmsn = 1;					/* and tell what has arrived */
		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
		assert_int_equal(r.tx.head, 1);
	}
}

TEST(read__refused)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = read_pkt(0, 0, 8);
	struct tp_op *o;

	assert_false(tp_resp_read(&r, &p, PL, 0, &o));	/* no response space */
	r = fresh_with_tx();
	r.max_dest_rd = 0;
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));
	r = fresh_with_tx();
	p.kind = TP_WRITE;
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));
}

/* A READ says how many are complete; their responses have arrived, and only what was sent can have. */
TEST(read__implies_arrival)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_op *o;
	u32 i;

	tx_acks = 0;
	for (i = 0; i < MAX_RD; i++)
		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(tx_acks, 0);
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));	/* more than may be open */
	p.rqmsn = 1;
	ops[0].first_psn = r.tx.nxt - 50;		/* of an earlier life */
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));	/* the first was not even sent */
	assert_int_equal(r.rd_no, MAX_RD);
	assert_int_equal(tx_acks, 0);
	send_all(&r.tx);
	r.tx.nxt = 502;					/* nor all of it */
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));
	r.tx.nxt = 512;
	assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(last_tx_ack.space, TP_RESPONSE);
	assert_int_equal(last_tx_ack.syndrome, TP_SYN_ACK);
	assert_int_equal(last_tx_ack.exec_psn, 503);
	assert_int_equal(r.tx.head, 1);
	assert_int_equal(r.tx.tail, MAX_RD + 1);
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));	/* the same news again is none */
	/* received further than that already: the point does not go back */
	send_all(&r.tx);
	r.tx.una = 510;
	p.rqmsn = 2;
	assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(last_tx_ack.exec_psn, 506);
	assert_int_equal(last_tx_ack.cum_psn, 510);
}

/* Also where there is room in the slots: what has arrived needs no memory any more. */
TEST(read__implies_arrival_with_room)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_op *o;

	tp_resp_read(&r, &p, PL, 0, &o);
	send_all(&r.tx);
	p.rqmsn = 1;
	assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(r.tx.head, 1);
}

/* A number that says nothing new, or claims what was never asked for. */
TEST(read__implies_nothing)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_ack a = upto(512);
	struct tp_op *o;
	u32 i;

	for (i = 0; i < MAX_RD; i++)
		tp_resp_read(&r, &p, PL, 0, &o);
	send_all(&r.tx);
	tp_resp_ack(&r, 0, &a);
	tx_acks = 0;
	for (i = 0; i < MAX_RD - 1; i++)
		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(tx_acks, 0);
	p.rqmsn = r.rd_no + 1;
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));
	p.rqmsn = 0x8000;
	assert_false(tp_resp_read(&r, &p, PL, 0, &o));
	p.rqmsn = 0xffff;				/* long ago */
	assert_true(tp_resp_read(&r, &p, PL, 0, &o));
	assert_int_equal(tx_acks, 0);
}

/* The number has 16 bits on the wire. */
TEST(read__implied_number_wraps)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 8);
	struct tp_op *o;
	u32 i;

	for (i = 0; i < 0x10004; i++) {
		p.rqmsn = i & 0xffff;
		assert_true(tp_resp_read(&r, &p, PL, 0, &o));
		assert_int_equal(r.tx.head, i);
		send_all(&r.tx);
	}
}

TEST(ack__retires_executed)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_ack a = upto(502);
	struct tp_op *o;

	tp_resp_read(&r, &p, PL, 0, &o);
	tp_resp_read(&r, &p, PL, 0, &o);
	send_all(&r.tx);
	assert_true(tp_resp_ack(&r, 0, &a));
	assert_int_equal(r.tx.head, 0);
	a = upto(503);
	assert_true(tp_resp_ack(&r, 0, &a));
	assert_int_equal(r.tx.head, 1);
	assert_false(tp_resp_ack(&r, 0, &a));
	a = upto(506);
	assert_true(tp_resp_ack(&r, 0, &a));
	assert_int_equal(r.tx.head, 2);
	assert_false(tp_resp_owes(&r));
}

/* One that has no PSN yet can't have arrived, whatever its record holds. */
TEST(ack__keeps_what_was_not_sent)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_ack a = upto(503);
	struct tp_op *o;

	tp_resp_read(&r, &p, PL, 0, &o);
	send_all(&r.tx);
	tp_resp_read(&r, &p, PL, 0, &o);
	tp_resp_ack(&r, 0, &a);
	assert_int_equal(r.tx.head, 1);
	assert_true(tp_resp_owes(&r));
}

TEST(ack__without_response_space)
{
	struct tp_resp r = fresh();
	struct tp_ack a = upto(1);

	tx_acks = 0;
	assert_false(tp_resp_ack(&r, 0, &a));
	assert_int_equal(tx_acks, 0);
}

/* C6: a NAK waits until the responses before it have arrived, then goes out by itself. */
TEST(nak__c6_waits_for_responses)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_ack a = upto(503);
	struct tp_op *o;

	p.psn = PSN0;
	tp_resp_read(&r, &p, PL, 0, &o);
	tp_resp_executed(&r, &p, false);
	send_all(&r.tx);
	tp_resp_nak(&r, TP_NAK_REM_ACCESS);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_ACK);
	tp_resp_ack(&r, 0, &a);
	a = answer(&r, -1);
	assert_int_equal(a.syndrome, TP_SYN_NAK);
	assert_int_equal(a.exec_psn, PSN0 + 1);
	assert_int_equal(a.exec_msn, 1);
}

/* C6: meanwhile the peer's patience must not end: all that it has in flight is received, nothing is run. */
TEST(nak__c6_what_comes_meanwhile_is_received)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250), bad = pkt(TP_WRITE, 1, 1, 0, 1);
	struct tp_ack a;
	struct tp_op *o;

	p.psn = PSN0;
	tp_resp_read(&r, &p, PL, 0, &o);
	tp_resp_executed(&r, &p, false);
	send_all(&r.tx);
	assert_int_equal(tp_resp_check(&r, &bad, PL), TP_TAKE_TURN);
	tp_resp_nak(&r, TP_NAK_REM_ACCESS);
	tp_resp_ignore(&r, &bad);
	expect(&r, TP_TAKE_OUTSIDE, pkt(TP_WRITE, 2, 2, 0, 3), PL);
	expect(&r, TP_TAKE_OUTSIDE, pkt(TP_WRITE, 4, 2, 2, 3), PL);
	a = answer(&r, -1);
	assert_int_equal(a.syndrome, TP_SYN_ACK);
	assert_int_equal(a.exec_psn, PSN0 + 1);
	assert_int_equal(a.cum_psn, PSN0 + 3);
	assert_int_equal(a.bits[0], 2);
	expect(&r, TP_TAKE_DUP, pkt(TP_WRITE, 4, 2, 2, 3), PL);
	a = upto(503);
	tp_resp_ack(&r, 0, &a);
	a = answer(&r, -1);
	assert_int_equal(a.syndrome, TP_SYN_NAK);
	assert_int_equal(a.exec_psn, PSN0 + 1);
}

/* RNR waits for nobody; no response that arrives makes an answer of its own. */
TEST(rnr__with_responses_owed)
{
	struct tp_resp r = fresh_with_tx();
	struct tp_pkt p = read_pkt(0, 0, 250);
	struct tp_ack a = upto(503), b;
	struct tp_op *o;

	tp_resp_read(&r, &p, PL, 0, &o);
	send_all(&r.tx);
	tp_resp_rnr(&r);
	assert_int_equal(answer(&r, -1).syndrome, TP_SYN_RNR);
	tp_resp_ack(&r, 0, &a);
	assert_false(tp_resp_take_ack(&r, -1, &b));
}

/* ---- answers ---- */

TEST(take_ack__credits)
{
	/* IBTA: AETH credit codes */
	static const s32 table[] = {
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};
	struct tp_resp r = fresh();
	u32 i;

#define CODE(n) (r.rx.ack_wanted = true, answer(&r, n).value)
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(CODE(table[i]), i);
		if (i)
			assert_int_equal(CODE(table[i] - 1), i - 1);
	}
	assert_int_equal(CODE(32769), 30);
	assert_int_equal(CODE(0x7fffffff), 30);
	assert_int_equal(CODE(-1), 31);
}

TEST(take_ack__executed_messages)
{
	struct tp_resp r = fresh();
	struct tp_pkt p = pkt(TP_WRITE, 0, 0, 0, 1);
	struct tp_ack a;

	p.psn = PSN0;
	tp_resp_executed(&r, &p, false);
	a = answer(&r, -1);
	assert_int_equal(a.space, TP_REQUEST);
	assert_int_equal(a.exec_msn, 1);
	assert_int_equal(a.exec_psn, PSN0 + 1);
	assert_int_equal(a.nwords, 0);
}

/* ---- model: random messages in random order ---- */

/*
 * A peer with MSGS messages in hand sends packets at random out of the window,
 * some twice. The shell below does what the header tells it to. The model
 * knows, per packet, whether it was placed, and per byte of "remote memory"
 * which message wrote it last.
 */
enum {
	AREA = 256,		/* bytes of remote memory; WRITEs overlap all the time */
	CELL = 4,		/* bytes per packet */
	RING = 2 * TP_WINDOW,
	REACH = 200,		/* how far ahead of the executed point packets are sent */
	MODEL_RD = 8,
};

struct sim_pkt {
	struct tp_pkt p;	/* as on the wire */
	u32 len;
	u32 msg;		/* full number */
	bool sent_once, placed;
};

struct sim {
	struct tp_resp r;
	u64 seed, step;
	u32 psn0;
	struct sim_pkt pk[RING];
	u32 nxt;		/* full PSN of the next packet to make */
	u32 msg, recv, rd;	/* next numbers to make */
	u32 area_msg[AREA];	/* message that will write the byte last, of those made */
	u32 area[AREA];		/* message that wrote it last, of those placed */
	struct tp_pkt held[RING];
	bool is_held[RING];
	u32 posted;		/* receives posted */
	bool blocked;
	struct tp_op ops[MODEL_RD];
	u32 executed;		/* next PSN to execute */
	u32 done_msg, done_recv, done_rd;
};

static struct sim_pkt *sim_at(struct sim *s, u32 psn)
{
	return &s->pk[psn % RING];
}

/* C9: ordered if any of its bytes is written by a message that is not executed. */
static bool sim_overlaps(const struct sim *s, u32 va, u32 len)
{
	u32 i;

	for (i = va; i < va + len; i++)
		if (s->area_msg[i] + 1 && tp_diff(s->area_msg[i], s->done_msg) >= 0)
			return true;
	return false;
}

static void sim_add(struct sim *s, struct tp_pkt p, u32 len)
{
	struct sim_pkt *k = sim_at(s, s->nxt);

	p.psn = s->nxt++ & 0xffffff;
	p.msn = s->msg & 0xffff;
	p.rqmsn = (tp_kind_answered(p.kind) ? s->done_rd : s->recv) & 0xffff;
	*k = (struct sim_pkt) { .p = p, .len = len, .msg = s->msg };
}

static void sim_write_or_send(struct sim *s, u8 kind)
{
	u32 n = 1 + rnd(&s->seed, 12), i;
	u32 len = n * CELL - rnd(&s->seed, CELL);
	u32 va = kind == TP_WRITE ? rnd(&s->seed, AREA - len) : 0;
	bool imm = !rnd(&s->seed, 3);
	bool ordered = kind == TP_WRITE && sim_overlaps(s, va, len);

	for (i = 0; i < n; i++) {
		bool last = i == n - 1;
		u32 plen = last ? len - i * CELL : CELL;
		struct tp_pkt p = {
			.kind = kind, .first = !i, .last = last, .has_imm = imm && last,
			.ordered = ordered, .va = va + i * CELL, .dma_len = len,
		};

		sim_add(s, p, plen);
	}
	for (i = va; kind == TP_WRITE && i < va + len; i++)
		s->area_msg[i] = s->msg;
	s->recv += kind == TP_SEND || imm;
	s->msg++;
}

/* READ, ATOMIC, ATOMIC_WRITE or FLUSH */
static void sim_answered(struct sim *s)
{
	static const u8 kinds[] = { TP_READ, TP_CAS, TP_ATOMIC_WRITE, TP_RDMA_FLUSH };
	struct tp_pkt p = { .first = true, .last = true, .va = 8, .dma_len = 8 };
	u32 i;

	p.kind = kinds[rnd(&s->seed, ARRAY_SIZE(kinds))];
	if (p.kind == TP_RDMA_FLUSH)
		p.imm = TP_FETH_GLOBAL;
	if (p.kind == TP_ATOMIC_WRITE)
		p.va = 8 * rnd(&s->seed, AREA / 8);
	sim_add(s, p, p.kind == TP_ATOMIC_WRITE ? 8 : 0);
	for (i = 0; p.kind == TP_ATOMIC_WRITE && i < 8; i++)
		s->area_msg[p.va + i] = s->msg;
	s->msg++;
	s->rd++;
}

static void sim_make(struct sim *s)
{
	switch (rnd(&s->seed, 8)) {
	case 0:
	case 1:
		if (tp_diff(s->rd, s->done_rd) < MODEL_RD)
			sim_answered(s);
		return;
	case 2:
	case 3:
		sim_write_or_send(s, TP_SEND);
		return;
	default:
		sim_write_or_send(s, TP_WRITE);
	}
}

/* Every byte before this packet is in place? */
static bool sim_all_placed_before(struct sim *s, u32 psn)
{
	u32 i;

	for (i = s->executed; i != psn; i++)
		if (!sim_at(s, i)->placed)
			return false;
	return true;
}

static void sim_place(struct sim *s, u32 psn)
{
	struct sim_pkt *k = sim_at(s, psn);
	u32 i;

	CHECK_AT(s->step, k->placed, false);				/* C1 */
	if (k->p.last)
		CHECK_AT(s->step, sim_all_placed_before(s, psn), true);	/* C2, C5 */
	if (k->p.ordered)						/* C9 */
		CHECK_AT(s->step, k->msg, s->done_msg);
	k->placed = true;
	for (i = 0; (k->p.kind == TP_WRITE || k->p.kind == TP_ATOMIC_WRITE) && i < k->len; i++)
		s->area[k->p.va + i] = k->msg;
}

static void sim_hold(struct sim *s, const struct tp_pkt *p)
{
	CHECK_AT(s->step, s->is_held[p->psn % RING], false);
	s->held[p->psn % RING] = *p;
	s->is_held[p->psn % RING] = true;
}

static void sim_read(struct sim *s, const struct tp_pkt *p)
{
	struct tp_op *o;

	assert_true(tp_resp_read(&s->r, p, PL, 0, &o));
	CHECK_AT(s->step, o->rqmsn, s->done_rd);
	send_all(&s->r.tx);
	s->done_rd++;
}

/* The packet at the executed point. False: blocked. */
static bool sim_run(struct sim *s, const struct tp_pkt *p)
{
	const struct sim_pkt *k = sim_at(s, s->executed);
	bool consumes = p->last && (p->kind == TP_SEND || p->has_imm);

	assert_true(tp_resp_turn(&s->r, p));
	CHECK_AT(s->step, p->psn, s->executed);				/* C3, C4: in order */
	CHECK_AT(s->step, p->msn, k->msg);
	CHECK_AT(s->step, p->msn, s->done_msg);
	if (p->kind == TP_SEND || consumes) {
		CHECK_AT(s->step, p->rqmsn, s->done_recv);
		if (s->posted == s->done_recv)
			return false;
	}
	sim_place(s, s->executed);
	if (tp_kind_answered(p->kind))
		sim_read(s, p);
	tp_resp_executed(&s->r, p, consumes);
	s->executed++;
	s->done_recv += consumes;
	s->done_msg += p->last;
	return true;
}

static void sim_advance(struct sim *s)
{
	while (!s->blocked && tp_resp_ready(&s->r)) {
		u32 i = s->executed % RING;

		if (!s->is_held[i]) {
			CHECK_AT(s->step, sim_at(s, s->executed)->placed, true);
			tp_resp_executed(&s->r, NULL, false);
			s->executed++;
			continue;
		}
		if (!sim_run(s, &s->held[i])) {
			s->blocked = true;
			tp_resp_rnr(&s->r);
			return;
		}
		s->is_held[i] = false;
	}
}

static void sim_deliver(struct sim *s, u32 psn)
{
	struct sim_pkt *k = sim_at(s, psn);
	struct tp_pkt p = k->p;

	switch (tp_resp_check(&s->r, &p, k->len)) {
	case TP_TAKE_PLACE:
		CHECK_AT(s->step, p.psn, psn);
		if (p.kind == TP_SEND && tp_diff(p.rqmsn, s->posted) >= 0)
			sim_hold(s, &p);
		else
			sim_place(s, psn);
		tp_resp_commit(&s->r, &p);
		break;
	case TP_TAKE_HOLD:
		CHECK_AT(s->step, p.last || p.ordered, true);		/* nothing waits in vain */
		sim_hold(s, &p);
		tp_resp_commit(&s->r, &p);
		break;
	case TP_TAKE_TURN:
		if (sim_run(s, &p))
			break;
		sim_hold(s, &p);
		tp_resp_commit(&s->r, &p);
		break;
	default:
		CHECK_AT(s->step, k->sent_once, true);
	}
	k->sent_once = true;
	sim_advance(s);
}

static void sim_post(struct sim *s)
{
	s->posted += 1 + rnd(&s->seed, 4);
	if (!s->blocked)
		return;
	s->blocked = false;
	tp_resp_unblock(&s->r);
	sim_advance(s);
}

static void sim_answer(struct sim *s)
{
	struct tp_ack a, b;

	if (!tp_resp_take_ack(&s->r, -1, &a))
		return;
	CHECK_AT(s->step, a.exec_psn, s->executed);
	CHECK_AT(s->step, a.exec_msn, s->done_msg);
	CHECK_AT(s->step, a.syndrome, s->blocked ? TP_SYN_RNR : TP_SYN_ACK);
	if (rnd(&s->seed, 2))
		return;		/* the responses' acknowledgement got lost */
	b = upto(s->r.tx.nxt);
	tp_resp_ack(&s->r, 0, &b);
}

static void sim_step(struct sim *s)
{
	u32 psn;

	while (tp_diff(s->nxt, s->executed) < REACH) {
		u32 before = s->nxt;

		sim_make(s);
		if (s->nxt == before)
			break;
	}
	/* near the executed point mostly, at times an old one */
	psn = s->executed + rnd(&s->seed, rnd(&s->seed, 4) ? 16 : REACH);
	if (!rnd(&s->seed, 8))
		psn -= min_t(u32, 20, s->executed - s->psn0);
	if (tp_diff(psn, s->nxt) < 0)
		sim_deliver(s, psn);
	if (!rnd(&s->seed, 6))
		sim_post(s);
	if (!rnd(&s->seed, 8))
		sim_answer(s);
}

static void sim_check_area(const struct sim *s)
{
	u32 i;

	for (i = 0; i < AREA; i++)
		CHECK_AT(s->step, s->area[i], s->area_msg[i]);		/* C9 */
}

/* Deliver what is left, in order. */
static void sim_drain(struct sim *s)
{
	while (s->executed != s->nxt) {
		sim_deliver(s, s->executed);
		sim_post(s);
	}
	CHECK_AT(s->step, s->r.msn, s->msg);
	CHECK_AT(s->step, s->r.rqmsn, s->recv);
	CHECK_AT(s->step, s->r.rd_no, s->rd);
	sim_check_area(s);
}

static void sim_run_seed(u64 seed, u32 psn, u32 msn, u32 steps)
{
	struct tp_resp_attr at = { .psn = psn, .max_dest_rd = MODEL_RD, .rnr_timer = 1 };
	struct sim *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->seed = seed;
	s->psn0 = s->nxt = s->executed = psn;
	s->msg = s->done_msg = msn;
	s->recv = s->posted = s->done_recv = msn * 3;
	memset(s->area_msg, 0xff, sizeof(s->area_msg));
	memset(s->area, 0xff, sizeof(s->area));
	tp_resp_init(&s->r, &at);
	s->r.msn = msn;
	s->r.rqmsn = msn * 3;
	tp_resp_start_tx(&s->r, 1, 1, s->ops, MODEL_RD, PL, NULL, 1, 0);
	for (s->step = 0; s->step < steps; s->step++) {
		sim_step(s);
		if (s->step % (steps / 8) == 0)
			sim_drain(s);
	}
	sim_drain(s);
	assert_true(s->done_rd > 1000 && s->done_recv > 1000);
	free(s);
}

TEST(model__random_messages)
{
	sim_run_seed(1, 0, 0, 200000);
	sim_run_seed(2, 0xfff000, 0xff00, 200000);
	sim_run_seed(3, 0xfffff000, 0x7f00, 200000);
	sim_run_seed(4, 0x7fffff00, 0xfffffe00, 200000);
}

/* Whatever comes, PLACE is only said of a packet that may be placed. */
TEST(model__random_packets)
{
	u64 seed = 99;
	u32 i;

	for (i = 0; i < 300000; i++) {
		struct tp_resp r = fresh();
		u32 ahead = rnd(&seed, 40), len = rnd(&seed, 300);
		struct tp_pkt p = {
			.kind = (u8)rnd(&seed, TP_KINDS), .first = rnd(&seed, 2), .last = rnd(&seed, 2),
			.has_imm = rnd(&seed, 2), .ordered = rnd(&seed, 2),
			.psn = (PSN0 - 20 + ahead) & 0xffffff, .msn = rnd(&seed, 30), .rqmsn = rnd(&seed, 4),
			.va = rnd(&seed, 2) ? rnd64(&seed) : rnd(&seed, 300), .dma_len = rnd(&seed, 300),
		};

		if (tp_resp_check(&r, &p, len) != TP_TAKE_PLACE)
			continue;
		assert_true(ahead >= 20 && !p.last && len && len < p.dma_len);
		assert_true(p.kind == TP_WRITE || p.kind == TP_SEND);
		assert_true(p.kind == TP_WRITE || p.va + len < p.dma_len);
		assert_true(!p.ordered || p.msn == 0);
		assert_true(p.msn <= ahead - 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(check__single_at_its_turn),
		RUN(check__extends_numbers),
		RUN(check__duplicate_is_answered),
		RUN(check__outside),
		RUN(check__no_request),
		RUN(check__c2_tail_waits),
		RUN(check__in_order_message),
		RUN(check__c2_tail_waits_for_earlier_message),
		RUN(check__c5_read_and_atomic_wait),
		RUN(check__c6_atomic_write_of_another_length),
		RUN(check__c6_flush_of_nothing),
		RUN(flush__after_all_before_it),
		RUN(atomic_write__duplicates),
		RUN(check__c9_ordered_waits_for_its_message),
		RUN(check__c9_ordered_at_executed_point),
		RUN(check__c6_message_number),
		RUN(check__c6_message_number_limit),
		RUN(check__c6_receive_number),
		RUN(check__c6_shape_of_send),
		RUN(check__c6_shape_of_write),
		RUN(turn__numbers),
		RUN(turn__c6_gap_in_messages),
		RUN(executed__counters),
		RUN(rnr__answers_until_unblocked),
		RUN(rnr__wishes_to_answer),
		RUN(nak__wishes_to_answer),
		RUN(nak__ends_everything),
		RUN(nak__first_one_stays),
		RUN(read__becomes_a_message),
		RUN(read__packets),
		RUN(read__atomic),
		RUN(read__atomic_write_and_flush),
		RUN(read__refused),
		RUN(read__implies_arrival),
		RUN(read__implies_arrival_with_room),
		RUN(read__implies_nothing),
		RUN(read__implied_number_wraps),
		RUN(ack__retires_executed),
		RUN(ack__keeps_what_was_not_sent),
		RUN(ack__without_response_space),
		RUN(nak__c6_waits_for_responses),
		RUN(nak__c6_what_comes_meanwhile_is_received),
		RUN(rnr__with_responses_owed),
		RUN(take_ack__credits),
		RUN(take_ack__executed_messages),
		RUN(model__random_messages),
		RUN(model__random_packets),
	};

	return cmocka_run_group_tests_name("responder", tests, NULL, NULL);
}
