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
		tp_credit_got(&pacer, &qp[i], PAY, false, now);
}

static u32 outstanding(u32 i)
{
	return (qp[i].limit - qp[i].got) / PKT;
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

	start();
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

/* What may be sent unasked is on its way: nothing is granted meanwhile. */
TEST(grant__unscheduled_takes_its_time)
{
	start();
	got(0, 1, T0);
	assert_in_range(tp_pacer_deadline(&pacer), T0 + 15 * US, T0 + 16 * US);
	got(1, 1, T0);
	assert_in_range(tp_pacer_deadline(&pacer), T0 + 31 * US, T0 + 32 * US);
}

/* Everybody in turn, whoever sends more often. */
TEST(grant__in_turn)
{
	u32 given[8] = {}, i;
	u64 now = T0;

	start();
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

	start();
	got(0, 15, now);
	got(1, 15, now);
	tp_credit_got(&pacer, &qp[2], PAY, true, now);
	now = tp_pacer_deadline(&pacer);
	assert_ptr_equal(tp_pacer_grant(&pacer, now), &qp[2]);
	assert_ptr_equal(tp_pacer_grant(&pacer, now + 4 * US), &qp[0]);
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
		RUN(grant__unscheduled_takes_its_time),
		RUN(grant__in_turn),
		RUN(grant__who_repairs_comes_first),
		RUN(grant__shares),
		RUN(epoch__who_stopped),
		RUN(leave__from_anywhere),
		RUN(got__wraps),
	};

	return cmocka_run_group_tests_name("credit", tests, NULL, NULL);
}
