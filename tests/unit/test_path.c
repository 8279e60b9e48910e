// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * path.c: EVs, choice, withdrawal and return, delays; then packets over four
 * spines of a fabric that hashes unevenly.
 */
#include "unit.h"
#include "path.h"

enum {
	MS	= 1000,
	S	= 1000000,
	T0	= 0xffff0000,	/* time wraps 65 ms later */
	PICKS	= 64000,
};

static struct tp_paths group(u32 n)
{
	struct tp_paths g;

	tp_paths_init(&g, n, 42);
	return g;
}

/* How often each path is picked. */
static void pick_many(struct tp_paths *g, u8 avoid, u32 now, u32 *hits)
{
	u32 rng = 1, i;

	memset(hits, 0, TP_PATHS * sizeof(*hits));
	for (i = 0; i < PICKS; i++) {
		u8 ev = tp_path_pick(g, &rng, avoid, now);

		assert_in_range(ev, 0, g->n - 1);
		hits[ev]++;
	}
}

static void ack_all(struct tp_paths *g, u32 rtt, u32 now)
{
	u32 i;

	for (i = 0; i < g->n; i++)
		tp_path_acked(g, (u8)i, rtt, false, now);
}

static void lose(struct tp_paths *g, u8 ev, u32 times, u32 now)
{
	while (times--)
		tp_path_lost(g, ev, now);
}

static u32 count(const struct tp_paths *g, u8 state)
{
	u32 i, n = 0;

	for (i = 0; i < g->n; i++)
		n += g->p[i].state == state;
	return n;
}

/* ---- init ---- */

TEST(init__entropy)
{
	u64 seed;
	u32 i, j;

	for (seed = 0; seed < 500; seed++) {
		struct tp_paths g;

		tp_paths_init(&g, TP_PATHS, seed);
		for (i = 0; i < TP_PATHS; i++) {
			assert_in_range(g.p[i].entropy & 0xffff, 49152, 65535);
			assert_int_equal(g.p[i].state, TP_PATH_GOOD);
			for (j = 0; j < i; j++)
				assert_int_not_equal((u16)g.p[i].entropy, (u16)g.p[j].entropy);
		}
	}
}

TEST(init__seed)
{
	static struct tp_paths a, b, c;

	tp_paths_init(&a, 64, 7);
	tp_paths_init(&b, 64, 7);
	tp_paths_init(&c, 64, 8);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_not_equal(&a, &c, sizeof(a));
	assert_int_not_equal(a.p[0].entropy >> 16, a.p[1].entropy >> 16);
}

TEST(init__limits)
{
	struct tp_paths g;

	tp_paths_init(&g, 0, 1);
	assert_int_equal(g.n, 1);
	tp_paths_init(&g, 1000, 1);
	assert_int_equal(g.n, TP_PATHS);
	tp_paths_init(&g, 17, 1);
	assert_int_equal(g.n, 17);
}

/* ---- pick ---- */

TEST(pick__even_without_feedback)
{
	static const u32 sizes[] = { 1, 2, 3, 4, 16, 64 };
	u32 hits[TP_PATHS], i, k;

	for (k = 0; k < ARRAY_SIZE(sizes); k++) {
		struct tp_paths g = group(sizes[k]);
		u32 mean = PICKS / g.n;

		pick_many(&g, TP_NO_PATH, T0, hits);
		for (i = 0; i < g.n; i++)
			assert_in_range(hits[i], mean * 85 / 100, mean * 115 / 100);
	}
}

TEST(pick__even_with_like_delays)
{
	struct tp_paths g = group(16);
	u32 hits[TP_PATHS], i;

	ack_all(&g, 1000, T0);
	for (i = 0; i < 16; i++)
		tp_path_acked(&g, (u8)i, 1000 + 6 * i, false, T0);	/* noise */
	pick_many(&g, TP_NO_PATH, T0, hits);
	for (i = 0; i < 16; i++)
		assert_in_range(hits[i], 3400, 4600);
}

/* QPs go their own ways, and zero is a state like any other. */
TEST(pick__differs_by_rng)
{
	struct tp_paths g = group(64);
	u32 a = 1, b = 2, z = 0, same = 0, i;

	for (i = 0; i < 1000; i++)
		same += tp_path_pick(&g, &a, TP_NO_PATH, 0) == tp_path_pick(&g, &b, TP_NO_PATH, 0);
	assert_in_range(same, 0, 60);
	tp_path_pick(&g, &z, TP_NO_PATH, 0);
	assert_int_not_equal(z, 0);
}

/* The delayed one is used only when both draws fall on it. */
TEST(pick__less_delay)
{
	struct tp_paths g = group(8);
	u32 hits[TP_PATHS];

	ack_all(&g, 1000, T0);
	tp_path_acked(&g, 3, 9000, false, T0);
	assert_int_equal(tp_path_queue_us(&g, 3), 4000);
	pick_many(&g, TP_NO_PATH, T0, hits);
	assert_in_range(hits[3], 1, PICKS / 64 * 3 / 2);
}

TEST(pick__old_delay_is_forgotten)
{
	struct tp_paths g = group(8);
	u32 hits[TP_PATHS];

	ack_all(&g, 1000, T0);
	tp_path_acked(&g, 3, 9000, false, T0);
	pick_many(&g, TP_NO_PATH, T0 + 60 * MS, hits);		/* counts an eighth: 500 us */
	assert_in_range(hits[3], 1, PICKS / 64 * 3 / 2);
	pick_many(&g, TP_NO_PATH, T0 + 140 * MS, hits);		/* counts 31 us: noise */
	assert_in_range(hits[3], PICKS / 8 * 85 / 100, PICKS / 8 * 115 / 100);
	pick_many(&g, TP_NO_PATH, T0 + 100 * S, hits);
	assert_in_range(hits[3], PICKS / 8 * 85 / 100, PICKS / 8 * 115 / 100);
}

TEST(pick__never_bad_or_denied)
{
	struct tp_paths g = group(64);
	u32 hits[TP_PATHS], i;

	for (i = 0; i < 60; i++)
		g.p[i].state = i % 2 ? TP_PATH_BAD : TP_PATH_DENIED;
	pick_many(&g, TP_NO_PATH, T0, hits);
	for (i = 0; i < 64; i++)
		assert_true(i < 60 ? !hits[i] : hits[i] > PICKS / 100);
}

TEST(pick__avoid)
{
	struct tp_paths g = group(4);
	u32 hits[TP_PATHS], i;

	pick_many(&g, 2, T0, hits);
	for (i = 0; i < 4; i++)
		assert_true(i == 2 ? !hits[i] : hits[i] > PICKS / 5);
}

TEST(pick__avoid_without_choice)
{
	struct tp_paths g = group(3);
	u32 hits[TP_PATHS];

	g.p[0].state = TP_PATH_DENIED;
	g.p[2].state = TP_PATH_DENIED;
	pick_many(&g, 1, T0, hits);
	assert_int_equal(hits[1], PICKS);
	g = group(1);
	pick_many(&g, 0, T0, hits);
	assert_int_equal(hits[0], PICKS);
}

TEST(pick__everything_denied)
{
	struct tp_paths g = group(2);
	u32 hits[TP_PATHS];

	g.p[0].state = g.p[1].state = TP_PATH_DENIED;
	pick_many(&g, TP_NO_PATH, T0, hits);
	assert_int_equal(hits[0] + hits[1], PICKS);
}

/* Lossy ones that could not be withdrawn are still second choice. */
TEST(pick__suspect_second)
{
	struct tp_paths g = group(4);
	u32 hits[TP_PATHS];

	lose(&g, 1, 2, T0);
	assert_int_equal(g.p[1].state, TP_PATH_GOOD);
	pick_many(&g, TP_NO_PATH, T0, hits);
	assert_in_range(hits[1], 1, PICKS / 16 * 3 / 2);
	tp_path_acked(&g, 1, 0, false, T0);
	pick_many(&g, TP_NO_PATH, T0, hits);
	assert_in_range(hits[1], PICKS / 5, PICKS / 3);
}

/* ---- marks ---- */

TEST(skip__for_a_round_trip)
{
	struct tp_paths g = group(4);
	u32 hits[TP_PATHS];

	ack_all(&g, 1000, T0);
	tp_path_acked(&g, 2, 1000, true, T0);
	assert_int_equal(g.p[2].state, TP_PATH_SKIP);
	pick_many(&g, TP_NO_PATH, T0, hits);
	assert_int_equal(hits[2], 0);
	pick_many(&g, TP_NO_PATH, T0 + 999, hits);
	assert_int_equal(hits[2], 0);
	pick_many(&g, TP_NO_PATH, T0 + 1000, hits);
	assert_true(hits[2] > PICKS / 5);
}

TEST(skip__bounds)
{
	struct tp_paths g = group(4);

	tp_path_acked(&g, 0, 5, true, T0);
	assert_int_equal(g.p[0].until_us, T0 + 100);
	tp_path_acked(&g, 1, 900 * MS, true, T0);
	assert_int_equal(g.p[1].until_us, T0 + 100 * MS);
}

/* 36 minutes later the end of a SKIP must not look as if it lay ahead. */
TEST(skip__ends_however_long_ago)
{
	struct tp_paths g = group(4);
	u32 hits[TP_PATHS];

	tp_path_acked(&g, 2, 1000, true, T0);
	pick_many(&g, TP_NO_PATH, T0 + 0x80000100, hits);
	assert_true(hits[2] > PICKS / 5);
}

TEST(skip__all_marked)
{
	struct tp_paths g = group(8);
	u32 hits[TP_PATHS], i;

	for (i = 0; i < 8; i++)
		tp_path_acked(&g, (u8)i, 1000, true, T0);
	g.p[7].state = TP_PATH_DENIED;
	pick_many(&g, TP_NO_PATH, T0, hits);
	for (i = 0; i < 7; i++)
		assert_true(hits[i] > PICKS / 20);
	assert_int_equal(hits[7], 0);
}

TEST(skip__clean_ack_after_its_end)
{
	struct tp_paths g = group(4);

	tp_path_acked(&g, 0, 1000, true, T0);
	tp_path_acked(&g, 0, 1000, false, T0 + 500);
	assert_int_equal(g.p[0].state, TP_PATH_SKIP);
	tp_path_acked(&g, 0, 1000, false, T0 + 1000);
	assert_int_equal(g.p[0].state, TP_PATH_GOOD);
}

/* ---- losses ---- */

TEST(lost__two_without_an_ack)
{
	struct tp_paths g = group(8);

	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	assert_int_equal(g.bad, 0);
	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_BAD);
	assert_int_equal(g.bad, 1);
}

TEST(lost__ack_in_between)
{
	struct tp_paths g = group(8);
	u32 i;

	for (i = 0; i < 10; i++) {
		lose(&g, 3, 1, T0);
		tp_path_acked(&g, 3, i % 2 ? 1000 : 0, false, T0);
	}
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	lose(&g, 3, 1, T0);
	tp_path_acked(&g, 3, 1000, true, T0);		/* marked, but it came through */
	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_SKIP);
	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_BAD);
}

/* Whatever is lost, MIN_ACTIVE stay; and those that were spared go once others are back. */
TEST(lost__everything)
{
	struct tp_paths g = group(64);
	u32 hits[TP_PATHS], i, used = 0;

	for (i = 0; i < 64; i++)
		lose(&g, (u8)i, 5, T0);
	assert_int_equal(count(&g, TP_PATH_BAD), 64 - TP_PATHS_MIN_ACTIVE);
	assert_int_equal(g.bad, 64 - TP_PATHS_MIN_ACTIVE);
	pick_many(&g, TP_NO_PATH, T0, hits);
	for (i = 0; i < 64; i++)
		used += hits[i] != 0;
	assert_int_equal(used, TP_PATHS_MIN_ACTIVE);
	tp_path_revived(&g, g.p[0].entropy, T0);
	assert_int_equal(g.p[0].state, TP_PATH_GOOD);
	lose(&g, 63, 1, T0);
	assert_int_equal(g.p[63].state, TP_PATH_BAD);
}

TEST(lost__few_paths)
{
	u32 n, i;

	for (n = 1; n <= TP_PATHS_MIN_ACTIVE; n++) {
		struct tp_paths g = group(n);

		for (i = 0; i < n; i++)
			lose(&g, (u8)i, 9, T0);
		assert_int_equal(g.bad, 0);
	}
}

TEST(lost__denied_counts_as_unusable)
{
	struct tp_paths g = group(6);

	g.p[0].state = TP_PATH_DENIED;
	lose(&g, 0, 5, T0);
	assert_int_equal(g.p[0].state, TP_PATH_DENIED);
	lose(&g, 1, 2, T0);
	assert_int_equal(g.p[1].state, TP_PATH_BAD);
	lose(&g, 2, 2, T0);
	assert_int_equal(g.p[2].state, TP_PATH_GOOD);
}

/* What was sent before the path died may still be answered. */
TEST(lost__late_ack_does_not_revive)
{
	struct tp_paths g = group(8);

	lose(&g, 3, 2, T0);
	tp_path_acked(&g, 3, 1000, false, T0);
	tp_path_acked(&g, 3, 1000, true, T0);
	assert_int_equal(g.p[3].state, TP_PATH_BAD);
	assert_int_equal(g.p[3].until_us, T0 + 100 * MS);
}

/* ---- probes ---- */

TEST(probe__back_off)
{
	static const u32 waits[] = { 100, 200, 400, 800, 1600, 3200, 6400, 8000, 8000, 8000 };
	struct tp_paths g = group(8);
	u32 now = T0, i;

	assert_int_equal(tp_path_probe_due(&g, now), TP_NO_PATH);
	lose(&g, 3, 2, now);
	for (i = 0; i < ARRAY_SIZE(waits); i++) {
		assert_int_equal(tp_path_probe_due(&g, now), TP_NO_PATH);
		now += waits[i] * MS;
		assert_int_equal(tp_path_probe_due(&g, now - 1), TP_NO_PATH);
		assert_int_equal(tp_path_probe_due(&g, now), 3);
	}
}

TEST(probe__one_after_the_other)
{
	struct tp_paths g = group(8);

	lose(&g, 3, 2, T0);
	lose(&g, 5, 2, T0);
	assert_int_equal(tp_path_probe_due(&g, T0 + S), 3);
	assert_int_equal(tp_path_probe_due(&g, T0 + S), 5);
	assert_int_equal(tp_path_probe_due(&g, T0 + S), TP_NO_PATH);
}

TEST(probe__due_however_long_ago)
{
	struct tp_paths g = group(8);

	lose(&g, 3, 2, T0);
	assert_int_equal(tp_path_probe_due(&g, T0 + 0x80000000 + S), 3);
}

TEST(revived__starts_afresh)
{
	struct tp_paths g = group(8);
	u32 i;

	lose(&g, 3, 2, T0);
	for (i = 0; i < 5; i++)
		tp_path_probe_due(&g, T0 + (i + 1) * 10 * S);
	tp_path_revived(&g, g.p[3].entropy ^ 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_BAD);
	tp_path_revived(&g, (u16)g.p[3].entropy, T0);	/* IPv4 echoes the UDP port only */
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	assert_int_equal(g.bad, 0);
	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	lose(&g, 3, 1, T0);
	assert_int_equal(tp_path_probe_due(&g, T0 + 100 * MS), 3);
	assert_int_equal(tp_path_probe_due(&g, T0 + 299 * MS), TP_NO_PATH);
	assert_int_equal(tp_path_probe_due(&g, T0 + 300 * MS), 3);
}

TEST(revived__good_one_is_cleared)
{
	struct tp_paths g = group(8);

	lose(&g, 3, 1, T0);
	tp_path_revived(&g, g.p[3].entropy, T0);
	lose(&g, 3, 1, T0);
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	g.p[3].state = TP_PATH_DENIED;
	tp_path_revived(&g, g.p[3].entropy, T0);
	assert_int_equal(g.p[3].state, TP_PATH_DENIED);
}

/* The peer was gone and is back: one answer, and all paths are tried at once. */
TEST(revived__common_outage)
{
	struct tp_paths g = group(64);
	u32 now = T0, i;
	u8 ev, n = 0;

	for (i = 0; i < 20000; i++, now += MS) {
		if (i % 20 == 0 && i < 20 * 64)
			lose(&g, (u8)(i / 20), 2, now);
		while (tp_path_probe_due(&g, now) != TP_NO_PATH)
			;
	}
	for (ev = TP_NO_PATH; ev == TP_NO_PATH; now += MS)
		ev = tp_path_probe_due(&g, now);
	tp_path_revived(&g, g.p[ev].entropy, T0);
	while ((ev = tp_path_probe_due(&g, now)) != TP_NO_PATH) {
		n++;
		tp_path_revived(&g, g.p[ev].entropy, T0);
	}
	assert_int_equal(n, 64 - TP_PATHS_MIN_ACTIVE - 1);
	assert_int_equal(g.bad, 0);
	assert_true(count(&g, TP_PATH_GOOD) == 64);
}

/* A few dead ones among many are each other's business. */
TEST(revived__single_outage)
{
	struct tp_paths g = group(64);

	lose(&g, 3, 2, T0);
	lose(&g, 5, 2, T0);
	tp_path_probe_due(&g, T0 + 100 * MS);
	tp_path_probe_due(&g, T0 + 100 * MS);
	tp_path_revived(&g, g.p[3].entropy, T0);
	assert_int_equal(tp_path_probe_due(&g, T0 + 110 * MS), TP_NO_PATH);
}

/* ---- delays ---- */

TEST(rtt__smoothing)
{
	struct tp_paths g = group(8);

	tp_path_acked(&g, 1, 0, false, T0);
	assert_int_equal(g.p[1].rtt_us, 0);
	assert_int_equal(g.base_us, 0);
	tp_path_acked(&g, 1, 1000, false, T0);
	assert_int_equal(g.p[1].rtt_us, 1000);
	assert_int_equal(g.p[1].var_us, 250);
	assert_int_equal(g.p[1].base_us, 1000);
	tp_path_acked(&g, 1, 2000, false, T0);
	assert_int_equal(g.p[1].rtt_us, 1500);
	assert_int_equal(g.p[1].var_us, 250 - 62 + 250);
	assert_int_equal(g.p[1].base_us, 1000);
	assert_int_equal(tp_path_queue_us(&g, 1), 500);
	tp_path_acked(&g, 1, 800, false, T0);
	assert_int_equal(g.p[1].rtt_us, 1150);
	assert_int_equal(g.p[1].var_us, 438 - 109 + 175);
	assert_int_equal(g.p[1].base_us, 800);
	tp_path_acked(&g, 2, 900, false, T0);
	assert_int_equal(g.base_us, 800);
	tp_path_acked(&g, 2, 700, false, T0);
	assert_int_equal(g.base_us, 700);
	assert_int_equal(tp_path_queue_us(&g, 3), 0);
}

/* @us of samples of @rtt, one per ms. */
static u32 samples(struct tp_paths *g, u8 ev, u32 rtt, u32 us, u32 now)
{
	u32 end = now + us;

	for (; now != end; now += MS)
		tp_path_acked(g, ev, rtt, false, now);
	return now;
}

TEST(base__first_sample)
{
	struct tp_paths g = group(8);

	tp_path_acked(&g, 1, 1000, false, 5);
	assert_int_equal(g.p[1].base_us, 1000);
	assert_int_equal(g.base_us, 1000);
	assert_int_equal(g.mean_us, 1000);
}

TEST(base__of_unequal_paths)
{
	struct tp_paths g = group(8);

	assert_int_equal(g.mean_us, 0);
	tp_path_acked(&g, 1, 1000, false, 5);
	tp_path_acked(&g, 4, 9000, false, 6);
	tp_path_acked(&g, 6, 5000, false, 7);
	assert_int_equal(g.base_us, 1000);
	assert_int_equal(g.mean_us, 5000);	/* of those that were heard */
}

/* A window begins with the base, and is judged by its least. */
TEST(base__window)
{
	struct tp_paths g = group(8);
	u32 now = samples(&g, 1, 1000, MS, T0);

	now = samples(&g, 1, 4000, 10 * S - MS, now);
	assert_int_equal(now, T0 + 10 * S);
	assert_int_equal(g.p[1].base_us, 1000);
	now = samples(&g, 1, 4000, 5 * S, now);
	now = samples(&g, 1, 1800, MS, now);
	now = samples(&g, 1, 4000, 5 * S - MS, now);
	assert_int_equal(g.p[1].base_us, 1000);
	samples(&g, 1, 4000, MS, now);
	assert_int_equal(g.p[1].base_us, 1100);
}

TEST(base__standing_queue_creeps)
{
	struct tp_paths g = group(8);
	u32 now = samples(&g, 1, 1000, 20 * MS, T0);

	now = samples(&g, 1, 4000, 9 * S, now);
	assert_int_equal(g.p[1].base_us, 1000);
	now = samples(&g, 1, 4000, 2 * S, now);		/* the window still had 1000 in it */
	assert_int_equal(g.p[1].base_us, 1000);
	now = samples(&g, 1, 4000, 10 * S, now);
	assert_int_equal(g.p[1].base_us, 1375);
	assert_int_equal(g.base_us, 1375);
	tp_path_acked(&g, 1, 1100, false, now);		/* a pause of the flow */
	assert_int_equal(g.p[1].base_us, 1100);
}

TEST(base__another_route)
{
	struct tp_paths g = group(8);
	u32 now = samples(&g, 1, 1000, 20 * MS, T0);

	samples(&g, 1, 20000, 21 * S, now);
	assert_int_equal(g.p[1].base_us, 20000);
	assert_int_equal(tp_path_queue_us(&g, 1), 0);
}

TEST(base__after_idle)
{
	struct tp_paths g = group(8);

	tp_path_acked(&g, 1, 1000, false, T0);
	tp_path_acked(&g, 1, 3000, false, T0 + 1 * S);
	assert_int_equal(g.p[1].base_us, 1000);
	tp_path_acked(&g, 1, 3000, false, T0 + 2 * S + 1);
	assert_int_equal(g.p[1].base_us, 3000);
	assert_int_equal(g.base_us, 3000);
}

/* What all paths have in common is the own host's queue, not distance. */
TEST(base__behind_our_own_queue)
{
	struct tp_paths g = group(8);

	tp_path_acked(&g, 1, 1000, false, T0);
	tp_path_common(&g, 400, T0);
	tp_path_acked(&g, 2, 1500, false, T0 + MS);
	assert_int_equal(g.p[2].base_us, 1100);
	assert_int_equal(tp_path_queue_us(&g, 2), 400);
	tp_path_common(&g, 2000, T0 + MS);
	tp_path_acked(&g, 3, 1500, false, T0 + MS);
	assert_int_equal(g.p[3].base_us, 1);		/* never 0, which is "unknown" */
	tp_path_acked(&g, 4, 1500, false, T0 + 21 * MS);	/* that was long ago */
	assert_int_equal(g.p[4].base_us, 1500);
	tp_path_common(&g, 400, T0 + 2 * S);
	tp_path_acked(&g, 2, 1700, false, T0 + 2 * S);	/* not used for long */
	assert_int_equal(g.p[2].base_us, 1300);
}

TEST(patience__known)
{
	struct tp_paths g = group(8);

	tp_path_acked(&g, 1, 1000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 1), 1000 + 4 * 250 + 250);
	tp_path_acked(&g, 2, 8000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 2), 8000 + 4 * 2000 + 2000);
	tp_path_acked(&g, 3, 40, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 3), 40 + 4 * 10 + 100);
}

TEST(patience__unknown)
{
	struct tp_paths g = group(8);

	assert_int_equal(tp_path_patience_us(&g, 0), 20 * MS);
	tp_path_acked(&g, 1, 1000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 0), 20 * MS);
	tp_path_acked(&g, 2, 8000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 0), 2 * 18 * MS);
}

/* Once a few are known, the others are hardly slower by orders of magnitude. */
TEST(patience__unknown_among_known)
{
	struct tp_paths g = group(8);
	u8 i;

	for (i = 1; i <= 3; i++)
		tp_path_acked(&g, i, 1000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 0), 20 * MS);
	tp_path_acked(&g, 4, 1000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 0), 2 * 2250);
	g = group(2);
	tp_path_acked(&g, 1, 1000, false, T0);
	assert_int_equal(tp_path_patience_us(&g, 0), 20 * MS);
}

/* ---- silence ---- */

static struct tp_paths group_heard(u32 n, u32 at)
{
	struct tp_paths g = group(n);
	u32 i;

	for (i = 0; i < n; i++)
		tp_path_acked(&g, (u8)i, 100, false, at);
	return g;
}

TEST(silent__asked_at_once)
{
	struct tp_paths g = group_heard(8, T0);
	u32 i, at = T0;

	tp_path_silent(&g, 3, T0);
	assert_int_equal(g.p[3].state, TP_PATH_BAD);
	assert_int_equal(g.bad, 1);
	for (i = 0; i < 4; i++, at += 200) {
		assert_int_equal(g.failed, 0);	/* it may have been chance */
		assert_int_equal(tp_path_probe_due(&g, at), 3);
		assert_int_equal(tp_path_probe_due(&g, at + 199), TP_NO_PATH);
	}
	assert_int_equal(g.failed, 1);
	assert_int_equal(tp_path_probe_due(&g, at), 3);
	assert_int_equal(tp_path_probe_due(&g, at + 200 * MS - 1), TP_NO_PATH);
	assert_int_equal(tp_path_probe_due(&g, at + 200 * MS), 3);
	tp_path_revived(&g, g.p[3].entropy, T0);
	assert_int_equal(g.bad, 0);
}

/* A path that answers was not dead, and counts as none that failed. */
TEST(silent__by_chance)
{
	struct tp_paths g = group_heard(8, T0);

	tp_path_silent(&g, 3, T0);
	assert_int_equal(tp_path_probe_due(&g, T0), 3);
	tp_path_revived(&g, g.p[3].entropy, T0);
	assert_int_equal(g.p[3].state, TP_PATH_GOOD);
	assert_int_equal(g.failed, 0);
	assert_int_equal(tp_path_probe_due(&g, T0 + 1 * S), TP_NO_PATH);
}

TEST(silent__not_below_the_minimum)
{
	struct tp_paths g = group_heard(5, T0);

	tp_path_silent(&g, 0, T0);
	tp_path_silent(&g, 1, T0);
	assert_int_equal(g.bad, 1);
	assert_int_equal(g.p[1].state, TP_PATH_GOOD);
}

/* What died may be shared: once the first probe stays unanswered, others have to answer, too. */
TEST(silent__others_not_heard_since)
{
	struct tp_paths g = group_heard(16, T0);
	u32 i;

	for (i = 0; i < 12; i++)
		tp_path_acked(&g, (u8)i, 100, false, T0 + 100 * MS);
	g.trust_us = T0 + 100 * MS;
	tp_path_silent(&g, 3, T0 + 100 * MS);
	assert_int_equal(tp_path_probe_due(&g, T0 + 100 * MS), 3);
	assert_int_equal(g.bad, 1);
	assert_int_equal(tp_path_probe_due(&g, T0 + 100 * MS + 200), 3);
	assert_int_equal(g.bad, 5);
	for (i = 12; i < 16; i++)
		assert_int_equal(tp_path_probe_due(&g, T0 + 100 * MS + 200), i);
	/* not again before long, and never more than half */
	tp_path_silent(&g, 0, T0 + 100 * MS + 300);
	g.p[1].seen_us = T0;
	tp_path_probe_due(&g, T0 + 100 * MS + 300);
	tp_path_probe_due(&g, T0 + 100 * MS + 600);
	assert_int_equal(g.p[1].state, TP_PATH_GOOD);
}

/* ---- trust ---- */

enum { T1 = 1000 * S };	/* not about to wrap: a moment that was never set would seem ahead */

/* Paths 0 to @n - 1 heard at @now, in traffic that is not young. */
static struct tp_paths group_some_heard(u32 n, u32 now)
{
	struct tp_paths g = group(TP_PATHS);
	u32 i;

	for (i = 0; i < n; i++)
		tp_path_acked(&g, (u8)i, 100, false, now);
	for (i = 5; i; i--)
		tp_path_common(&g, 0, now - i * MS + MS);
	return g;
}

/* Nothing is sent where nothing is known, but asked; whoever answers has its chance, for a while. */
TEST(trust__asked_before_use)
{
	struct tp_paths g = group_some_heard(2, T1);
	u32 hits[TP_PATHS], rng = 1, i, n = 0;
	u8 ev;

	for (i = 0; i < 10000; i++)
		assert_in_range(tp_path_pick(&g, &rng, TP_NO_PATH, T1), 0, 1);
	assert_int_equal(count(&g, TP_PATH_BAD), TP_PATHS - TP_PATHS_MIN_ACTIVE);
	assert_int_equal(tp_paths_dead(&g), 0);
	assert_int_equal(g.failed, 0);
	while ((ev = tp_path_probe_due(&g, T1)) != TP_NO_PATH) {
		n++;
		tp_path_revived(&g, g.p[ev].entropy, T1 + 100);
	}
	assert_int_equal(n, TP_PATHS - TP_PATHS_MIN_ACTIVE);
	assert_int_equal(count(&g, TP_PATH_GOOD), TP_PATHS);
	pick_many(&g, TP_NO_PATH, T1 + 100, hits);
	for (i = 0, n = 0; i < TP_PATHS; i++)
		n += hits[i] > PICKS / TP_PATHS / 2;
	assert_in_range(n, TP_PATHS - TP_PATHS_MIN_ACTIVE + 2, TP_PATHS);
	assert_in_range(g.bad, 0, 2);		/* not asked before */
	/* an answer to a probe is worth as much as any */
	tp_path_acked(&g, 0, 100, false, T1 + S);
	tp_path_acked(&g, 1, 100, false, T1 + S);
	for (i = 0; i < 1000; i++)
		tp_path_pick(&g, &rng, TP_NO_PATH, T1 + S + 99);
	assert_in_range(g.bad, 0, 2);
	for (i = 0; i < 10000; i++)
		assert_in_range(tp_path_pick(&g, &rng, TP_NO_PATH, T1 + S + 100), 0, 1);
	assert_int_equal(g.bad, TP_PATHS - TP_PATHS_MIN_ACTIVE);
}

/* Who was heard long ago is asked again. */
TEST(trust__ends)
{
	struct tp_paths g = group_some_heard(TP_PATHS, T1 - S);
	u32 rng = 1, i;

	tp_path_acked(&g, 3, 100, false, T1 - 1);
	tp_path_acked(&g, 5, 100, false, T1 - 1);
	for (i = 0; i < 1000; i++)
		tp_path_pick(&g, &rng, TP_NO_PATH, T1 - 1);
	assert_int_equal(g.bad, 0);
	for (i = 0; i < 1000; i++) {
		u8 ev = tp_path_pick(&g, &rng, TP_NO_PATH, T1);

		assert_true(ev == 3 || ev == 5);
	}
}

/* For answers nothing is asked: nobody might be there to probe. */
TEST(trust__not_for_answers)
{
	struct tp_paths g = group_some_heard(2, T1);
	u32 hits[TP_PATHS] = { 0 }, rng = 1, i;

	for (i = 0; i < PICKS; i++)
		hits[tp_path_pick_for_answer(&g, &rng, T1)]++;
	assert_int_equal(g.bad, 0);
	for (i = 0; i < TP_PATHS; i++)
		assert_true(hits[i]);
}

/* Without others that are trusted, what is not known has to do. */
TEST(trust__needs_others)
{
	struct tp_paths g = group_some_heard(1, T1);
	u32 hits[TP_PATHS], i;

	pick_many(&g, TP_NO_PATH, T1, hits);
	assert_int_equal(g.bad, 0);
	for (i = 0; i < TP_PATHS; i++)
		assert_true(hits[i]);
}

/* The first while after silence is too short to ask. */
TEST(trust__young)
{
	struct tp_paths g = group_some_heard(8, T1);
	u32 hits[TP_PATHS], rng = 1, i;

	tp_path_common(&g, 0, T1 + 1 * S);
	for (i = 0; i < 8; i++)
		tp_path_acked(&g, (u8)i, 100, false, T1 + 1 * S);
	pick_many(&g, TP_NO_PATH, T1 + 1 * S + 3000, hits);
	assert_int_equal(g.bad, 0);
	for (i = 0; i < TP_PATHS; i++)
		assert_true(hits[i]);
	tp_path_common(&g, 0, T1 + 1 * S + 3000);
	tp_path_acked(&g, 0, 100, false, T1 + 1 * S + 3000);
	tp_path_acked(&g, 1, 100, false, T1 + 1 * S + 3000);
	assert_true(tp_path_pick(&g, &rng, TP_NO_PATH, T1 + 1 * S + 3199) < TP_PATHS);
	assert_int_equal(g.bad, 0);
	for (i = 0; i < 200; i++)
		tp_path_pick(&g, &rng, TP_NO_PATH, T1 + 1 * S + 3200);
	assert_true(g.bad > 0);
}

/* A path that was asked and did not answer counts once, as any that failed. */
TEST(trust__dead)
{
	struct tp_paths g = group_some_heard(8, T1);
	u32 rng = 1, i, at = T1;

	for (i = 0; i < 1000 && !g.bad; i++)
		tp_path_pick(&g, &rng, TP_NO_PATH, T1);
	for (i = 1; i < TP_PATHS && g.bad > 1; i++)
		tp_path_revived(&g, g.p[i].entropy, T1);
	for (i = 0; i < 4; i++, at += 200) {
		assert_int_equal(g.failed, 0);
		while (tp_path_probe_due(&g, at) != TP_NO_PATH)
			;
	}
	assert_true(g.failed > 0);
	assert_int_equal(tp_paths_dead(&g), g.failed);
}

/* ---- four spines ---- */

/*
 * 64 EVs fall on the spines as 20, 18, 15, 11; each spine serves a packet in
 * @service us; a packet is sent every @gap us. What a path's feedback says of a
 * spine must even that out.
 */
enum { SPINES = 4, WIRE_US = 300, FLIGHT = 4096 };

struct fabric {
	struct tp_paths g;
	u32 busy_until[SPINES];		/* offset from the start */
	u32 sent[SPINES];
	u32 dropped;
	struct { u32 at, rtt; u8 ev; } flight[FLIGHT];	/* rtt 0: a probe */
	u32 in, out;
};

static u32 spine_of(u8 ev)
{
	return ev < 20 ? 0 : ev < 38 ? 1 : ev < 53 ? 2 : 3;
}

static int by_time(const void *a, const void *b)
{
	const u32 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void fabric_acks(struct fabric *f, u32 t)
{
	u32 n = f->in, i;

	qsort(f->flight, n, sizeof(f->flight[0]), by_time);
	for (i = 0; i < n && f->flight[i].at <= t; i++) {
		u32 at = f->flight[i].at, rtt = f->flight[i].rtt;
		u8 ev = f->flight[i].ev;

		if (rtt)
			tp_path_acked(&f->g, ev, rtt, false, at);
		else
			tp_path_revived(&f->g, f->g.p[ev].entropy, at);
		tp_path_common(&f->g, 0, at);
	}
	memmove(f->flight, f->flight + i, (n - i) * sizeof(f->flight[0]));
	f->in = n - i;
}

static void fabric_probes(struct fabric *f, u32 t)
{
	u8 ev;

	while (f->in < FLIGHT && (ev = tp_path_probe_due(&f->g, t)) != TP_NO_PATH) {
		f->flight[f->in].at = max(f->busy_until[spine_of(ev)], t) + WIRE_US;
		f->flight[f->in].rtt = 0;
		f->flight[f->in++].ev = ev;
	}
}

static void fabric_run(struct fabric *f, u32 service, u32 gap, u32 packets)
{
	u32 rng = 1, t = 0, i;

	memset(f, 0, sizeof(*f));
	f->g = group(64);
	for (i = 0; i < packets; i++, t += gap) {
		u8 ev = tp_path_pick(&f->g, &rng, TP_NO_PATH, t);
		u32 s = spine_of(ev);
		u32 leave = max(f->busy_until[s], t) + service;

		f->sent[s]++;
		fabric_probes(f, t);
		if (i % 20 == 0)
			fabric_acks(f, t);
		if (leave - t > 20 * MS || f->in == FLIGHT) {
			f->dropped++;
			continue;
		}
		f->busy_until[s] = leave;
		f->flight[f->in].at = leave + WIRE_US;
		f->flight[f->in].rtt = leave + WIRE_US - t;
		f->flight[f->in++].ev = ev;
	}
}

/* 96 % of what all four can carry; blind hashing would overload the first by a fifth. */
TEST(model__uneven_hash)
{
	struct fabric *f = malloc(sizeof(*f));
	u32 s;

	assert_non_null(f);
	fabric_run(f, 100, 26, 40000);
	for (s = 0; s < SPINES; s++)
		assert_in_range(f->sent[s], 40000 * 24 / 100, 40000 * 26 / 100);
	assert_int_equal(f->dropped, 0);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(init__entropy),
		RUN(init__seed),
		RUN(init__limits),
		RUN(pick__even_without_feedback),
		RUN(pick__even_with_like_delays),
		RUN(pick__differs_by_rng),
		RUN(pick__less_delay),
		RUN(pick__old_delay_is_forgotten),
		RUN(pick__never_bad_or_denied),
		RUN(pick__avoid),
		RUN(pick__avoid_without_choice),
		RUN(pick__everything_denied),
		RUN(pick__suspect_second),
		RUN(skip__for_a_round_trip),
		RUN(skip__bounds),
		RUN(skip__ends_however_long_ago),
		RUN(skip__all_marked),
		RUN(skip__clean_ack_after_its_end),
		RUN(lost__two_without_an_ack),
		RUN(lost__ack_in_between),
		RUN(lost__everything),
		RUN(lost__few_paths),
		RUN(lost__denied_counts_as_unusable),
		RUN(lost__late_ack_does_not_revive),
		RUN(probe__back_off),
		RUN(probe__one_after_the_other),
		RUN(probe__due_however_long_ago),
		RUN(revived__starts_afresh),
		RUN(revived__good_one_is_cleared),
		RUN(revived__common_outage),
		RUN(revived__single_outage),
		RUN(rtt__smoothing),
		RUN(base__first_sample),
		RUN(base__of_unequal_paths),
		RUN(base__window),
		RUN(base__standing_queue_creeps),
		RUN(base__another_route),
		RUN(base__after_idle),
		RUN(base__behind_our_own_queue),
		RUN(patience__known),
		RUN(patience__unknown),
		RUN(patience__unknown_among_known),
		RUN(silent__asked_at_once),
		RUN(silent__by_chance),
		RUN(silent__not_below_the_minimum),
		RUN(silent__others_not_heard_since),
		RUN(trust__asked_before_use),
		RUN(trust__ends),
		RUN(trust__not_for_answers),
		RUN(trust__needs_others),
		RUN(trust__young),
		RUN(trust__dead),
		RUN(model__uneven_hash),
	};

	return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
