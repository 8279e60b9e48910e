// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * window.c: both edges, both wraps, what the answer says; then random
 * operations against an array that remembers everything.
 */
#include "unit.h"
#include "window.h"

/* 24 bits wrap, 32 bits wrap, halves of both, neither. */
static const u32 starts[] = {
	0, 1, 63, 64, 1000, 0x7fffff, 0x800000, 0xffffff, 0x1000000 - TP_WINDOW,
	0x7fffffff, 0x80000000, 0xffffffff, 0u - TP_WINDOW, 0u - TP_WINDOW / 2,
};

static struct tp_rx at(u32 psn)
{
	struct tp_rx rx;

	tp_rx_init(&rx, psn);
	return rx;
}

static enum tp_verdict check(const struct tp_rx *rx, u32 psn)
{
	enum tp_verdict v;
	u32 back;

	v = tp_rx_check(rx, psn & 0xffffff, &back);
	assert_int_equal(back, psn);
	return v;
}

static void receive(struct tp_rx *rx, u32 psn)
{
	assert_int_equal(check(rx, psn), TP_NEW);
	tp_rx_commit(rx, psn);
}

static void run_all(struct tp_rx *rx)
{
	while (tp_rx_ready(rx))
		tp_rx_executed(rx);
}

static struct tp_ack answer(struct tp_rx *rx)
{
	struct tp_ack a;

	assert_true(tp_rx_take_ack(rx, TP_REQUEST, &a));
	assert_false(rx->ack_wanted);
	return a;
}

#define FOR_STARTS(rx, s)							\
	for (u32 i_ = 0, s; i_ < ARRAY_SIZE(starts); i_++)			\
		for (struct tp_rx rx = at(s = starts[i_]), *once_ = &rx; once_; once_ = NULL)

/* ---- edges ---- */

TEST(check__new_window)
{
	FOR_STARTS(rx, s) {
		assert_int_equal(check(&rx, s - 1), TP_DUP);
		assert_int_equal(check(&rx, s), TP_NEW);
		assert_int_equal(check(&rx, s + 1), TP_NEW);
		assert_int_equal(check(&rx, s + TP_WINDOW - 1), TP_NEW);
		assert_int_equal(check(&rx, s + TP_WINDOW), TP_OUTSIDE);
		assert_int_equal(check(&rx, s + TP_WINDOW + 1), TP_OUTSIDE);
		assert_false(tp_rx_ready(&rx));
		assert_false(tp_rx_hole(&rx));
	}
}

TEST(check__far_away)
{
	FOR_STARTS(rx, s) {
		assert_int_equal(check(&rx, s - 0x800000), TP_DUP);
		assert_int_equal(check(&rx, s + 0x7fffff), TP_OUTSIDE);
	}
}

TEST(check__received)
{
	FOR_STARTS(rx, s) {
		receive(&rx, s + 5);
		assert_int_equal(check(&rx, s + 5), TP_DUP);
		assert_int_equal(check(&rx, s + 4), TP_NEW);
		assert_int_equal(check(&rx, s + 6), TP_NEW);
		assert_int_equal(check(&rx, s + 5 + TP_WINDOW), TP_OUTSIDE);
	}
}

TEST(check__changes_nothing)
{
	FOR_STARTS(rx, s) {
		struct tp_rx before;

		receive(&rx, s + 1);
		before = rx;
		check(&rx, s);
		check(&rx, s + 1);
		check(&rx, s - 1);
		check(&rx, s + TP_WINDOW);
		assert_memory_equal(&rx, &before, sizeof(rx));
	}
}

TEST(commit__in_order)
{
	FOR_STARTS(rx, s) {
		receive(&rx, s);
		assert_int_equal(rx.cum, s + 1);
		assert_int_equal(rx.hi, s + 1);
		assert_int_equal(rx.exec, s);
		assert_true(tp_rx_ready(&rx));
		assert_false(tp_rx_hole(&rx));
	}
}

TEST(commit__last_of_window_first)
{
	FOR_STARTS(rx, s) {
		receive(&rx, s + TP_WINDOW - 1);
		assert_int_equal(rx.cum, s);
		assert_int_equal(rx.hi, s + TP_WINDOW);
		assert_false(tp_rx_ready(&rx));
		assert_true(tp_rx_hole(&rx));
	}
}

TEST(commit__fills_hole)
{
	FOR_STARTS(rx, s) {
		receive(&rx, s + 2);
		receive(&rx, s + 1);
		assert_int_equal(rx.cum, s);
		receive(&rx, s);
		assert_int_equal(rx.cum, s + 3);
		assert_int_equal(rx.hi, s + 3);
	}
}

TEST(commit__whole_window_backwards)
{
	FOR_STARTS(rx, s) {
		u32 i;

		for (i = TP_WINDOW; i-- > 0;)
			receive(&rx, s + i);
		assert_int_equal(rx.cum, s + TP_WINDOW);
		assert_int_equal(check(&rx, s + TP_WINDOW), TP_OUTSIDE);
		assert_int_equal(check(&rx, s), TP_DUP);
		run_all(&rx);
		assert_int_equal(rx.exec, s + TP_WINDOW);
		for (i = 0; i < TP_WINDOW_WORDS; i++)
			assert_int_equal(rx.bits[i], 0);
	}
}

/* Executing one packet opens the window by one, at the same bit. */
TEST(executed__opens_right_edge)
{
	FOR_STARTS(rx, s) {
		receive(&rx, s);
		assert_int_equal(check(&rx, s + TP_WINDOW), TP_OUTSIDE);
		answer(&rx);
		tp_rx_executed(&rx);
		assert_int_equal(check(&rx, s), TP_DUP);
		assert_int_equal(check(&rx, s + TP_WINDOW), TP_NEW);
		assert_int_equal(check(&rx, s + TP_WINDOW + 1), TP_OUTSIDE);
		assert_false(tp_rx_ready(&rx));
		assert_true(rx.ack_wanted);
	}
}

TEST(executed__full_window_then_one)
{
	FOR_STARTS(rx, s) {
		u32 i;

		for (i = 0; i < TP_WINDOW; i++)
			receive(&rx, s + i);
		tp_rx_executed(&rx);
		receive(&rx, s + TP_WINDOW);
		assert_int_equal(rx.cum, s + TP_WINDOW + 1);
		run_all(&rx);
		assert_int_equal(rx.exec, s + TP_WINDOW + 1);
	}
}

/* ---- answers ---- */

TEST(take_ack__nothing_waits)
{
	struct tp_rx rx = at(7);
	struct tp_ack a;

	assert_false(tp_rx_take_ack(&rx, TP_REQUEST, &a));
	tp_rx_seen(&rx, 3, true);
	assert_false(tp_rx_take_ack(&rx, TP_REQUEST, &a));
	receive(&rx, 7);
	answer(&rx);
	assert_false(tp_rx_take_ack(&rx, TP_REQUEST, &a));
}

TEST(take_ack__plain)
{
	FOR_STARTS(rx, s) {
		struct tp_ack a;

		tp_rx_seen(&rx, 0x1234, false);
		receive(&rx, s);
		run_all(&rx);
		a = answer(&rx);
		assert_int_equal(a.exec_psn, s + 1);
		assert_int_equal(a.cum_psn, s + 1);
		assert_int_equal(a.nwords, 0);
		assert_int_equal(a.entropy, 0);
		assert_int_equal(a.mpr, TP_MPR);
		assert_int_equal(a.syndrome, TP_SYN_ACK);
		assert_false(a.probe || a.ce || a.dup);
	}
}

TEST(take_ack__received_not_executed)
{
	FOR_STARTS(rx, s) {
		struct tp_ack a;

		tp_rx_seen(&rx, 0x1234, false);
		receive(&rx, s);
		a = answer(&rx);
		assert_int_equal(a.exec_psn, s);
		assert_int_equal(a.cum_psn, s + 1);
		assert_int_equal(a.nwords, 1);
		assert_int_equal(a.bits[0], 0);
		assert_int_equal(a.entropy, 0x1234);
	}
}

TEST(take_ack__space)
{
	struct tp_rx rx = at(0);
	struct tp_ack a;

	receive(&rx, 0);
	assert_true(tp_rx_take_ack(&rx, TP_RESPONSE, &a));
	assert_int_equal(a.space, TP_RESPONSE);
}

/* Just the words needed: bit i is cumulative + i. */
TEST(take_ack__words)
{
	static const u32 ahead[] = { 1, 2, 62, 63, 64, 65, 127, 128, 200, TP_WINDOW - 1 };

	FOR_STARTS(rx0, s) {
		u32 i, w;

		for (i = 0; i < ARRAY_SIZE(ahead); i++) {
			struct tp_rx rx = rx0;
			struct tp_ack a;

			receive(&rx, s + ahead[i]);
			a = answer(&rx);
			assert_int_equal(a.cum_psn, s);
			assert_int_equal(a.nwords, ahead[i] / 64 + 1);
			for (w = 0; w < TP_SACK_WORDS; w++)
				assert_int_equal(a.bits[w], w == ahead[i] / 64 ?
						 BIT_ULL(ahead[i] % 64) : 0);
		}
	}
}

/* Bits of what is received but not executed lie beyond the end in the ring: not told. */
TEST(take_ack__words_stop_at_highest)
{
	FOR_STARTS(rx, s) {
		struct tp_ack a;
		u32 i;

		for (i = 0; i < TP_WINDOW - 2; i++)
			receive(&rx, s + i);
		receive(&rx, s + TP_WINDOW - 1);
		a = answer(&rx);
		assert_int_equal(a.cum_psn, s + TP_WINDOW - 2);
		assert_int_equal(a.nwords, 1);
		assert_int_equal(a.bits[0], 2);
		receive(&rx, s + TP_WINDOW - 2);
		a = answer(&rx);
		assert_int_equal(a.cum_psn, s + TP_WINDOW);
		assert_int_equal(a.nwords, 1);
		assert_int_equal(a.bits[0], 0);
	}
}

TEST(take_ack__each_reason_for_a_sack)
{
	u32 i;

	for (i = 0; i < 3; i++) {
		struct tp_rx rx = at(100);
		struct tp_ack a;

		receive(&rx, 100);
		run_all(&rx);
		tp_rx_seen(&rx, 0x77, i == 0);
		if (i == 1)
			tp_rx_probed(&rx, 0x4711);
		rx.dup = i == 2;
		a = answer(&rx);
		assert_int_equal(a.ce, i == 0);
		assert_int_equal(a.probe, i == 1);
		assert_int_equal(a.probe_id, i == 1 ? 0x4711 : 0);
		assert_int_equal(a.dup, i == 2);
		assert_int_equal(a.entropy, 0x77);
		assert_int_equal(a.nwords, 1);
		/* and it is said once */
		rx.ack_wanted = true;
		a = answer(&rx);
		assert_false(a.ce || a.probe || a.dup || a.probe_id);
		assert_int_equal(a.nwords, 0);
	}
}

TEST(take_ack__probe_needs_no_packet)
{
	struct tp_rx rx = at(5);
	struct tp_ack a;

	tp_rx_probed(&rx, 9);
	a = answer(&rx);
	assert_true(a.probe);
	assert_int_equal(a.probe_id, 9);
	assert_int_equal(a.exec_psn, 5);
}

/* A mark, and whose it was, is not forgotten by a later packet without one; nor is a probe's path. */
TEST(seen__mark_stays)
{
	struct tp_rx rx = at(0);

	tp_rx_seen(&rx, 3, false);
	tp_rx_seen(&rx, 1, true);
	tp_rx_seen(&rx, 2, false);
	assert_true(rx.ce);
	assert_int_equal(rx.entropy, 1);

	rx = at(0);
	tp_rx_seen(&rx, 4, false);
	tp_rx_probed(&rx, 9);
	tp_rx_seen(&rx, 5, false);
	assert_int_equal(rx.entropy, 4);
}

/* ---- model ---- */

enum { SPAN = 4 * TP_WINDOW };

/* Everything ever received, by distance from the first PSN; slides with the window. */
struct model {
	u32 base;	/* PSN of got[0] */
	u32 exec;	/* distances from base */
	bool got[SPAN];
};

static void model_slide(struct model *m)
{
	if (m->exec < 2 * TP_WINDOW)
		return;
	memmove(m->got, m->got + TP_WINDOW, SPAN - TP_WINDOW);
	memset(m->got + SPAN - TP_WINDOW, 0, TP_WINDOW);
	m->base += TP_WINDOW;
	m->exec -= TP_WINDOW;
}

static u32 model_cum(const struct model *m)
{
	u32 i = m->exec;

	while (m->got[i])
		i++;
	return i;
}

static enum tp_verdict model_check(const struct model *m, s32 ahead)
{
	if (ahead < 0)
		return TP_DUP;
	if (ahead >= TP_WINDOW)
		return TP_OUTSIDE;
	return m->got[m->exec + (u32)ahead] ? TP_DUP : TP_NEW;
}

static void compare_answer(u64 step, const struct model *m, const struct tp_ack *a)
{
	u32 cum = model_cum(m), hi = cum, i;

	for (i = m->exec; i < m->exec + TP_WINDOW; i++)
		if (m->got[i])
			hi = max(hi, i + 1);
	CHECK_AT(step, a->exec_psn, m->base + m->exec);
	CHECK_AT(step, a->cum_psn, m->base + cum);
	if (a->nwords == 0) {
		CHECK_AT(step, hi, m->exec);
		return;
	}
	CHECK_AT(step, a->nwords, max_t(u32, 1, (hi - cum + 63) / 64));
	for (i = 0; i < 64u * a->nwords; i++)
		CHECK_AT(step, a->bits[i / 64] >> i % 64 & 1,
			 cum + i < m->exec + TP_WINDOW && m->got[cum + i]);
}

/* Mostly near the executed point, at times far out, behind or beyond. */
static s32 some_distance(u64 *seed)
{
	switch (rnd(seed, 8)) {
	case 0:
		return (s32)rnd(seed, TP_WINDOW + 20) - 10;
	case 1:
		return (s32)rnd(seed, 300) - 150;
	default:
		return (s32)rnd(seed, 24);
	}
}

static void model_run(u32 first, u64 seed, u64 steps)
{
	static struct model m;
	struct tp_rx rx = at(first);
	struct tp_ack a;
	u64 step;

	memset(&m, 0, sizeof(m));
	m.base = first - TP_WINDOW;	/* room for old PSNs */
	m.exec = TP_WINDOW;
	for (step = 0; step < steps; step++) {
		s32 ahead = some_distance(&seed);
		u32 psn = m.base + m.exec + (u32)ahead, back;
		enum tp_verdict v = tp_rx_check(&rx, psn & 0xffffff, &back);

		CHECK_AT(step, back, psn);
		CHECK_AT(step, v, model_check(&m, ahead));
		if (v == TP_NEW) {
			tp_rx_commit(&rx, psn);
			m.got[m.exec + (u32)ahead] = true;
		}
		while (tp_rx_ready(&rx) && rnd(&seed, 4)) {
			CHECK_AT(step, m.got[m.exec], true);
			tp_rx_executed(&rx);
			m.exec++;
			model_slide(&m);
		}
		CHECK_AT(step, tp_rx_ready(&rx), m.got[m.exec]);
		if (!rnd(&seed, 64) && tp_rx_take_ack(&rx, TP_REQUEST, &a))
			compare_answer(step, &m, &a);
	}
	assert_true(tp_diff(rx.exec, first) > 1000);
}

TEST(model__random_operations)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		model_run(starts[i], 1000 + i, ROUNDS(1000000) / ARRAY_SIZE(starts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(check__new_window),
		RUN(check__far_away),
		RUN(check__received),
		RUN(check__changes_nothing),
		RUN(commit__in_order),
		RUN(commit__last_of_window_first),
		RUN(commit__fills_hole),
		RUN(commit__whole_window_backwards),
		RUN(executed__opens_right_edge),
		RUN(executed__full_window_then_one),
		RUN(take_ack__nothing_waits),
		RUN(take_ack__plain),
		RUN(take_ack__received_not_executed),
		RUN(take_ack__space),
		RUN(take_ack__words),
		RUN(take_ack__words_stop_at_highest),
		RUN(take_ack__each_reason_for_a_sack),
		RUN(take_ack__probe_needs_no_packet),
		RUN(seen__mark_stays),
		RUN(model__random_operations),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
