// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "unit.h"
#include "credit.h"

enum {
	PAY	= 4096 - TP_CREDIT_PACKET,
	PKT	= 4096,
	RATE	= 4096000,		/* a packet per us */
	BUDGET	= 64,
};

#define US	1000ULL
#define T0	(5000 * US)

static struct tp_pacer pacer;
static struct tp_credit qp[64];

static void start(void)
{
	u32 i;

	tp_pacer_init(&pacer, PAY, RATE, BUDGET, T0);
	for (i = 0; i < ARRAY_SIZE(qp); i++)
		tp_credit_init(&qp[i], PAY);
}

static void got(u32 i, u32 packets, u64 now)
{
	while (packets--)
		tp_credit_got(&pacer, &qp[i], PKT, false, now);
}

static u32 outstanding(u32 i)
{
	return (qp[i].limit - qp[i].got) / PKT;
}

/* As if all QPs up to @n had begun long ago. */
static void begun(u32 n)
{
	u32 i;

	start();
	for (i = 0; i < n; i++)
		qp[i].epoch = pacer.epoch;
	pacer.seen = n;
	pacer.at_ns = T0;
}

TEST(init__unscheduled)
{
	start();
	assert_int_equal(qp[0].limit, TP_UNSCHEDULED * PKT);
	assert_true(tp_pacer_deadline(&pacer) == ~0ULL);
	assert_true(!tp_pacer_grant(&pacer, T0));
}

/* One alone gets the whole budget, as fast as the link is. */
TEST(grant__alone)
{
	u64 now = T0, at = 0;
	u32 n;

	begun(1);
	got(0, 1, now);
	for (n = 0; tp_pacer_deadline(&pacer) != ~0ULL; n++) {
		assert_true(n < 100);
		if (n)
			assert_true(tp_pacer_deadline(&pacer) == at + 4 * US);
		now = tp_pacer_deadline(&pacer);
		at = now;
		assert_true(!tp_pacer_grant(&pacer, now - 1));
		assert_ptr_equal(tp_pacer_grant(&pacer, now), &qp[0]);
	}
	assert_in_range(outstanding(0), BUDGET, BUDGET + 3);
	got(0, 4, now);
	assert_ptr_equal(tp_pacer_grant(&pacer, now + 4 * US), &qp[0]);
}

/* Of all grants until @end: packets. */
static u32 granted_until(u64 end)
{
	u32 n = 0;

	while (tp_pacer_deadline(&pacer) < end) {
		u64 at = tp_pacer_deadline(&pacer);
		struct tp_credit *c = tp_pacer_grant(&pacer, at);

		assert_non_null(c);
		tp_credit_got(&pacer, c, 4 * PKT, false, at);	/* and it is used at once */
		n += 4;
	}
	return n;
}

/* What is sent unasked at the begin is on its way: little is granted meanwhile, but not nothing. */
TEST(begin__takes_its_time)
{
	u32 i;

	start();
	for (i = 0; i < 8; i++)
		got(i, 10, T0);
	assert_in_range(granted_until(T0 + 128 * US), 16, 24);
	assert_in_range(granted_until(T0 + 256 * US), 90, 132);
}

/* QPs begin all the time: the others go on. */
TEST(begin__stops_nobody)
{
	u64 now;
	u32 n = 0;

	start();
	qp[0].epoch = pacer.epoch;
	got(0, 10, T0);
	for (now = T0; now < T0 + 6000 * US; now += 10 * US) {	/* each 16 us' worth */
		tp_credit_init(&qp[1], PAY);
		tp_credit_leave(&pacer, &qp[1]);
		got(1, 1, now);
		tp_credit_leave(&pacer, &qp[1]);
		n += granted_until(now + 10 * US);
	}
	assert_in_range(n, 6000 / 8 - 32, 6000 / 8 + 32);
}

/* Many that pause and then send a little take what they send, not what they might. */
TEST(pause__takes_what_is_sent)
{
	u32 i, n = 0, sent = 0;
	u64 now = T0;

	begun(32);
	for (i = 0; i < 32; i++)
		qp[i].limit += 30 * PKT;
	for (n = 0; now < T0 + 50000 * US; now += 10 * US) {
		got(31, 1, now);
		sent++;
		if (now - T0 >= 100 * US * i) {	/* each one now and then: longer than two epochs between */
			got(i % 31, 1, now);
			sent++;
			i += 7;
		}
		n += granted_until(now + 10 * US);
	}
	assert_true(n > (50000 - sent) / 2);
}

/* A pause that all share is a pause too: what they have kept and send at once takes its time. */
TEST(pause__of_all)
{
	u64 now = T0 + 10000 * US;
	u32 i;

	begun(32);
	for (i = 0; i < 32; i++)
		qp[i].limit = qp[i].got + 11 * PKT;
	for (i = 0; i < 32; i++)
		got(i, 8, now);
	assert_true(!tp_pacer_grant(&pacer, now));
	assert_in_range(pacer.at_ns, now + 190 * US, now + 256 * US);
}

/* A timer that fires late costs nothing, up to what the budget takes on the link. */
TEST(grant__late)
{
	u32 n;

	begun(1);
	pacer.budget = 1000 * PKT;
	got(0, 1, T0);
	assert_ptr_equal(tp_pacer_grant(&pacer, T0), &qp[0]);
	for (n = 0; tp_pacer_grant(&pacer, T0 + 100 * US); n++)
		;
	assert_in_range(n, 24, 25);

	begun(1);
	pacer.budget = BUDGET * PKT;
	got(0, 12, T0);
	for (n = 0; tp_pacer_grant(&pacer, T0 + 100000 * US); n++)
		got(0, 4, T0);
	assert_in_range(n, BUDGET / 4, BUDGET / 4 + 1);
}

/* Sent in spite of the limit: that is not held against it for ever, nor does any number wrap. */
TEST(got__beyond_the_limit)
{
	u64 now = T0;
	u32 i;

	begun(1);
	for (i = 0; i < 3000000; i += 1000) {		/* three times around */
		got(0, 1000, now);
		assert_int_equal(qp[0].got - qp[0].limit, TP_SHARE_LEAST * PKT);
		assert_true(qp[0].queued);
	}
	now += 10000 * US;
	for (i = 0; i < 3; i++)
		assert_ptr_equal(tp_pacer_grant(&pacer, now), &qp[0]);
	assert_int_equal(qp[0].limit - qp[0].got, 4 * PKT);
}

TEST(set__another_link)
{
	begun(1);
	tp_pacer_set(&pacer, 2 * PKT - TP_CREDIT_PACKET, 4 * RATE, BUDGET);
	got(0, 12, T0);
	assert_ptr_equal(tp_pacer_grant(&pacer, T0), &qp[0]);
	assert_int_equal(outstanding(0), 4 + 8);
	assert_true(tp_pacer_deadline(&pacer) == T0 + 2 * US);
	tp_pacer_set(&pacer, PAY, 0, ~0U);
	assert_int_equal(pacer.rate, 1);
	assert_int_equal(pacer.budget, TP_BUDGET_MAX * PKT);
}

/* Everybody in turn, whoever sends more often. */
TEST(grant__in_turn)
{
	u32 given[8] = {}, i;
	u64 now = T0;

	begun(8);
	for (i = 0; i < 8; i++)
		got(i, 12, now);
	for (i = 0; i < 800; i++) {
		struct tp_credit *c;

		now = tp_pacer_deadline(&pacer);
		c = tp_pacer_grant(&pacer, now);
		assert_non_null(c);
		given[c - qp]++;
		got((u32)(c - qp), 4, now);
	}
	for (i = 0; i < 8; i++)
		assert_in_range(given[i], 99, 101);
}

TEST(grant__who_repairs_comes_first)
{
	u64 now = T0;

	begun(3);
	got(0, 15, now);
	got(1, 15, now);
	tp_credit_got(&pacer, &qp[2], PKT, true, now);
	now = tp_pacer_deadline(&pacer);
	assert_ptr_equal(tp_pacer_grant(&pacer, now), &qp[2]);
	assert_ptr_equal(tp_pacer_grant(&pacer, now + 4 * US), &qp[0]);
}

/* Once an epoch: who calls everything a repair does not starve the others. */
TEST(grant__who_repairs_always)
{
	u32 given[2] = {}, i;
	u64 now = T0;

	begun(2);
	pacer.budget = 8 * PKT;		/* a grant satisfies, so each stands in line anew */
	got(0, 15, now);
	got(1, 15, now);
	for (i = 0; i < 1000; i++) {
		struct tp_credit *c = tp_pacer_grant(&pacer, now = tp_pacer_deadline(&pacer));

		given[c - qp]++;
		tp_credit_got(&pacer, &qp[0], c == &qp[0] ? 4 * PKT : 0, true, now);
		tp_credit_got(&pacer, &qp[1], c == &qp[1] ? 4 * PKT : 0, false, now);
	}
	assert_in_range(given[1], 400, 600);
}

/* Many together have no more than their least share each. */
TEST(grant__shares)
{
	u32 i, n = 0;
	u64 now = T0;

	start();
	for (i = 0; i < 64; i++)
		got(i, 1, now);
	assert_true(tp_pacer_deadline(&pacer) == ~0ULL || outstanding(0) >= TP_SHARE_LEAST);
	for (i = 0; i < 64; i++)
		got(i, 12, now);
	for (; tp_pacer_deadline(&pacer) != ~0ULL; n++) {
		assert_true(n < 1000);
		now = tp_pacer_deadline(&pacer);
		tp_pacer_grant(&pacer, now);
	}
	for (i = 0; i < 64; i++)
		assert_in_range(outstanding(i), TP_SHARE_LEAST, TP_SHARE_LEAST + 4);
}

/* After 2^32 epochs nobody is a beginner again, whose first window has not arrived. */
TEST(epoch__wraps)
{
	u64 now = T0;
	u32 i;

	begun(8);
	pacer.epoch = 0xfffffffe;
	for (i = 0; i < 8; i++) {
		qp[i].epoch = pacer.epoch;
		qp[i].got = 3000000000U;
		qp[i].limit = qp[i].got + 16 * PKT;
	}
	for (; pacer.epoch > 4 || pacer.epoch < 3; now += 10 * US) {
		assert_true(now < T0 + 10000 * US);
		for (i = 0; i < 8; i++)
			got(i, 1, now);
		assert_true(pacer.begin_ns <= now);
	}
}

/* Who stopped is no longer counted after a while. */
TEST(epoch__who_stopped)
{
	u64 now = T0;
	u32 i;

	start();
	for (i = 0; i < 64; i++)
		got(i, 1, now);
	assert_int_equal(max(pacer.active, pacer.seen), 64);
	for (i = 0; i < 3; i++) {
		now = max(now, pacer.epoch_ns);
		got(0, 1, now);
	}
	assert_int_equal(max(pacer.active, pacer.seen), 1);
}

TEST(leave__from_anywhere)
{
	u32 i, n = 0;
	u64 now = T0 + 10000 * US;

	start();
	for (i = 0; i < 5; i++)
		got(i, 12, T0);
	tp_credit_leave(&pacer, &qp[0]);
	tp_credit_leave(&pacer, &qp[2]);
	tp_credit_leave(&pacer, &qp[4]);
	tp_credit_leave(&pacer, &qp[4]);
	for (i = 0; i < 100 && tp_pacer_deadline(&pacer) != ~0ULL; i++) {
		struct tp_credit *c = tp_pacer_grant(&pacer, now += 4 * US);

		assert_true(c == &qp[1] || c == &qp[3]);
		n++;
	}
	assert_true(n >= 2);
	assert_true(!pacer.first);
	assert_true(!pacer.last);
}

/* Numbers wrap after 4 GiB. */
TEST(got__wraps)
{
	u64 now = T0;
	u32 i;

	start();
	qp[0].got = 0xffffff00;
	qp[0].limit = 0xffffff00 + 16 * PKT;
	for (i = 0; i < 10; i++) {
		got(0, 4, now);
		if (tp_pacer_deadline(&pacer) != ~0ULL) {
			now = max(now, tp_pacer_deadline(&pacer));
			tp_pacer_grant(&pacer, now);
		}
	}
	assert_in_range(outstanding(0), 12, BUDGET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(init__unscheduled),
		RUN(grant__alone),
		RUN(begin__takes_its_time),
		RUN(begin__stops_nobody),
		RUN(pause__takes_what_is_sent),
		RUN(pause__of_all),
		RUN(grant__late),
		RUN(got__beyond_the_limit),
		RUN(set__another_link),
		RUN(grant__in_turn),
		RUN(grant__who_repairs_comes_first),
		RUN(grant__who_repairs_always),
		RUN(grant__shares),
		RUN(epoch__who_stopped),
		RUN(epoch__wraps),
		RUN(leave__from_anywhere),
		RUN(got__wraps),
	};

	return cmocka_run_group_tests_name("credit", tests, NULL, NULL);
}
