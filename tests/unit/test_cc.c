// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * cc.c: each row of its table; then flows through one bottleneck: how full it
 * is, how long the queue, how fair the shares, with loss, marks, short buffers.
 */
#include "unit.h"
#include "cc.h"

enum {
	PKT	= 1000,
	MAXP	= 1024,
	MAX	= MAXP * PKT,
	MIN	= 16 * PKT,
	TARGET	= 3000,
	BASE	= 1000,		/* us */
	T0	= 0xfffff000,	/* time wraps 4 ms later */
};

static struct tp_cc fresh(void)
{
	struct tp_cc c;

	tp_cc_init(&c, PKT, MAXP);
	return c;
}

/* Past slow start, in a round trip of its own, among ends as noisy as the largest target is for. */
static struct tp_cc steady(u32 cwnd, u32 avg)
{
	struct tp_cc c = fresh();

	c.slow_start = false;
	c.cwnd = cwnd;
	c.avg_delay_us = avg;
	c.dev_us = TARGET;
	c.epoch_us = T0;
	return c;
}

/* All paths equally long. */
static struct tp_cc_way far(u32 us)
{
	return (struct tp_cc_way){ .base_us = us, .mean_us = us };
}

static void ack(struct tp_cc *c, u32 bytes, u32 queue, bool ce, u32 now)
{
	tp_cc_ack(c, bytes, queue, far(BASE), ce, true, now);
}

/* ---- start ---- */

TEST(init__window)
{
	struct tp_cc c = fresh();

	assert_int_equal(c.cwnd, MIN);
	assert_int_equal(c.min, MIN);
	assert_int_equal(c.max, MAX);
	tp_cc_init(&c, PKT, 32);
	assert_int_equal(c.max, 32 * PKT);
	tp_cc_init(&c, PKT, 1);
	assert_int_equal(c.cwnd, MIN);
	assert_int_equal(c.max, MIN);
}

TEST(start__doubles)
{
	struct tp_cc c = fresh();
	u32 i;

	for (i = 0; i < MIN / PKT; i++)
		ack(&c, PKT, 10, false, T0);
	assert_int_equal(c.cwnd, 2 * MIN);
	ack(&c, 2 * MAX, 10, false, T0);
	assert_int_equal(c.cwnd, MAX);
}

TEST(start__ends_with_delay)
{
	struct tp_cc c = fresh();
	u32 i;

	for (i = 0; i < 3; i++)
		ack(&c, PKT, TARGET / 2, false, T0);	/* smoothed, this is little yet */
	assert_true(c.slow_start);
	for (i = 0; i < 20; i++)
		ack(&c, PKT, TARGET / 2, false, T0);
	assert_false(c.slow_start);
}

TEST(start__ends_with_a_mark)
{
	struct tp_cc c = fresh();

	ack(&c, PKT, 10, true, T0);
	assert_false(c.slow_start);
	assert_int_equal(c.cwnd, MIN);
}

/* ---- increase ---- */

TEST(ack__proportional)
{
	struct tp_cc c = steady(100 * PKT, 0);

	ack(&c, 100 * PKT, 0, false, T0);		/* a window's worth: max / 32 */
	assert_int_equal(c.cwnd, 132 * PKT);
	c = steady(100 * PKT, 0);
	ack(&c, 100 * PKT, TARGET / 4, false, T0);
	assert_int_equal(c.cwnd, 124 * PKT);
	c = steady(100 * PKT, 0);
	ack(&c, 50 * PKT, TARGET / 2, false, T0);
	assert_int_equal(c.cwnd, 108 * PKT);
}

/* Small acknowledgements add up to the same. */
TEST(ack__nothing_is_lost_in_rounding)
{
	struct tp_cc c = steady(1000 * PKT, 0);
	u32 i;

	for (i = 0; i < 1000 * PKT / 50; i++)
		tp_cc_ack(&c, 50, TARGET - TARGET / 64, far(TARGET), false, true, T0);	/* half a packet per RTT */
	assert_in_range(c.cwnd, 1000 * PKT + 450, 1000 * PKT + 500);
}

TEST(ack__fair_at_target)
{
	struct tp_cc c = steady(100 * PKT, TARGET);

	ack(&c, 100 * PKT, TARGET, false, T0);
	assert_int_equal(c.cwnd, 101 * PKT);
	c = steady(100 * PKT, TARGET);
	ack(&c, 100 * PKT, 2 * TARGET - 1, false, T0);
	assert_int_equal(c.cwnd, 101 * PKT);
}

/* A long way makes for a large target. */
TEST(ack__target_of_a_long_path)
{
	struct tp_cc c = steady(100 * PKT, 0);

	tp_cc_ack(&c, 100 * PKT, 10000, far(20000), false, true, T0);
	assert_int_equal(c.cwnd, 116 * PKT);
}

/* Where nothing is noisy, the target is what our own bursts need, or the way. */
TEST(ack__target_of_a_fast_path)
{
	struct tp_cc c = steady(400 * PKT, 30);

	c.dev_us = 0;
	tp_cc_ack(&c, PKT, 30, far(14), false, true, T0);	/* twice the 14 us of the way */
	assert_in_range(c.cwnd, 200 * PKT, 399 * PKT);
	c = steady(400 * PKT, 30);
	c.dev_us = 10;					/* target 40 us and more */
	tp_cc_ack(&c, PKT, 30, far(14), false, true, T0);
	assert_true(c.cwnd >= 400 * PKT);
	c = steady(20 * PKT, 30);
	c.dev_us = 0;					/* 64 packets need 3 round trips of 44 us */
	tp_cc_ack(&c, PKT, 30, far(14), true, true, T0);
	assert_int_equal(c.cwnd, 20 * PKT);
}

/* Where a packet takes long, 3 ms are too few for several paths: the time of 32, but not more than 12 ms. */
TEST(ack__target_of_a_slow_path)
{
	struct tp_cc c = steady(64 * PKT, 7000);

	ack(&c, PKT, 7900, true, T0);			/* 64 packets need 8 ms, 32 need 4 */
	assert_in_range(c.cwnd, 40 * PKT, 46 * PKT);
	c = steady(32 * PKT, 7000);
	ack(&c, PKT, 7900, true, T0);			/* 32 packets need 8 ms */
	assert_int_equal(c.cwnd, 32 * PKT);
	c = steady(32 * PKT, 24000);
	ack(&c, PKT, 24000, true, T0);			/* 25 ms, the most is 12 */
	assert_in_range(c.cwnd, 19 * PKT, 20 * PKT);
}

/* The window is sent per mean round trip, the paths' and not the shortest one's. */
TEST(ack__target_of_unequal_paths)
{
	struct tp_cc_way way = { .base_us = BASE, .mean_us = BASE };
	struct tp_cc c = steady(64 * PKT, 4000);

	tp_cc_ack(&c, PKT, 5000, way, true, true, T0);	/* 64 packets need 5 ms: the target is 3 */
	assert_true(c.cwnd < 60 * PKT);
	c = steady(64 * PKT, 4000);
	way.mean_us = 6000;				/* 64 packets need 10 ms: the target is 5 */
	tp_cc_ack(&c, PKT, 5000, way, true, true, T0);
	assert_int_equal(c.cwnd, 64 * PKT);
}

TEST(ack__deviation)
{
	struct tp_cc c = steady(100 * PKT, 1000);

	c.dev_us = 160;
	ack(&c, PKT, 1320, false, T0);
	assert_int_equal(c.dev_us, 160 - 10 + 20);
	ack(&c, PKT, 1000, false, T0);
	assert_int_equal(c.dev_us, 170 - 10 + 2);	/* the average is at 1040 */
}

TEST(ack__not_limited_no_growth)
{
	struct tp_cc c = fresh();
	u32 i;

	for (i = 0; i < 100; i++)		/* but for the first 64 packets of it */
		tp_cc_ack(&c, PKT, 0, far(BASE), false, false, T0);
	assert_int_equal(c.cwnd, 64 * PKT);
	c = steady(100 * PKT, 0);
	tp_cc_ack(&c, 100 * PKT, 0, far(BASE), false, false, T0);
	assert_int_equal(c.cwnd, 100 * PKT);
	c = steady(100 * PKT, 3 * TARGET);
	tp_cc_ack(&c, 100 * PKT, 3 * TARGET, far(BASE), false, false, T0);
	assert_in_range(c.cwnd, 1, 99 * PKT);		/* but the queue is ours */
}

TEST(ack__never_above_max)
{
	struct tp_cc c = steady(MAX - 10, 0);

	ack(&c, MAX, 0, false, T0);
	assert_int_equal(c.cwnd, MAX);
	assert_int_equal(c.inc, 0);
	ack(&c, MAX, 0, false, T0);
	assert_int_equal(c.cwnd, MAX);
}

/* ---- decrease ---- */

TEST(ack__mark_below_target_holds)
{
	struct tp_cc c = steady(100 * PKT, 2 * TARGET);

	ack(&c, 100 * PKT, TARGET - 1, true, T0);
	assert_int_equal(c.cwnd, 100 * PKT);
}

TEST(ack__mark_at_target_cuts)
{
	struct tp_cc c = steady(100 * PKT, 4000);

	c.inc = 99 * PKT;
	ack(&c, PKT, 4000, true, T0);
	assert_int_equal(c.cwnd, 80 * PKT);		/* 1 - 0.8 x (4000 - 3000) / 4000 */
	assert_int_equal(c.inc, 0);
}

TEST(ack__twice_target_cuts)
{
	struct tp_cc c = steady(100 * PKT, 6000);

	ack(&c, PKT, 6000, false, T0);
	assert_int_equal(c.cwnd, 60 * PKT);
	c = steady(100 * PKT, 6000);
	ack(&c, PKT, 5999, false, T0);
	assert_true(c.cwnd >= 100 * PKT);
}

TEST(ack__cut_by_half_at_most)
{
	struct tp_cc c = steady(100 * PKT, 60000);

	ack(&c, PKT, 60000, false, T0);
	assert_int_equal(c.cwnd, 50 * PKT);
}

TEST(ack__cut_not_below_min)
{
	struct tp_cc c = steady(17 * PKT, 60000);

	ack(&c, PKT, 60000, true, T0);
	assert_int_equal(c.cwnd, MIN);
}

/* One late answer is no queue. */
TEST(ack__single_delay_does_not_cut)
{
	struct tp_cc c = steady(100 * PKT, 100);

	ack(&c, PKT, 20000, false, T0);
	assert_int_equal(c.cwnd, 100 * PKT);
}

TEST(ack__one_cut_per_round_trip)
{
	struct tp_cc c = steady(200 * PKT, 6000);

	ack(&c, PKT, 6000, false, T0);
	ack(&c, PKT, 6000, false, T0 + BASE);
	ack(&c, PKT, 6000, false, T0 + BASE + 5999);
	assert_int_equal(c.cwnd, 120 * PKT);
	ack(&c, PKT, 6000, false, T0 + BASE + 6000);
	assert_int_equal(c.cwnd, 72 * PKT);
}

TEST(ack__average)
{
	struct tp_cc c = steady(100 * PKT, 800);

	ack(&c, PKT, 1600, false, T0);
	assert_int_equal(c.avg_delay_us, 900);
	ack(&c, PKT, 100, false, T0);
	assert_int_equal(c.avg_delay_us, 800);
}

/* ---- losses ---- */

TEST(lost__single_does_not_cut)
{
	struct tp_cc c = fresh();

	tp_cc_lost(&c, PKT, false, BASE, T0);
	assert_int_equal(c.cwnd, MIN);
	ack(&c, PKT, 10, false, T0);
	assert_int_equal(c.cwnd, MIN + PKT);		/* nor does it end the start */
}

TEST(lost__many_stop_growth_for_a_round)
{
	struct tp_cc c = steady(160 * PKT, 0);

	tp_cc_lost(&c, 10 * PKT, false, BASE, T0);
	ack(&c, 16 * PKT, 0, false, T0);
	assert_int_equal(c.cwnd, 160 * PKT + 3200);
	c = steady(160 * PKT, 0);
	tp_cc_lost(&c, 10 * PKT + 1, false, BASE, T0);
	ack(&c, 16 * PKT, 0, false, T0 + BASE - 1);
	assert_int_equal(c.cwnd, 160 * PKT);
	ack(&c, 16 * PKT, 0, false, T0 + BASE);
	assert_int_equal(c.cwnd, 160 * PKT + 3200);
}

TEST(lost__burst_adapts)
{
	struct tp_cc c = steady(100 * PKT, 0);

	ack(&c, 40 * PKT, 0, true, T0);
	ack(&c, 10 * PKT, 0, true, T0 + BASE);		/* the next round */
	tp_cc_lost(&c, 10 * PKT, false, BASE, T0 + BASE);
	tp_cc_lost(&c, 2500, false, BASE, T0 + BASE);
	assert_int_equal(c.cwnd, 100 * PKT);		/* an eighth, no more */
	tp_cc_lost(&c, 1, false, BASE, T0 + BASE);
	assert_int_equal(c.cwnd, 40 * PKT);
	tp_cc_lost(&c, 30 * PKT, false, BASE, T0 + BASE + 10);
	assert_int_equal(c.cwnd, 40 * PKT);		/* once per round trip */
}

TEST(lost__adapts_to_this_round_if_better)
{
	struct tp_cc c = steady(100 * PKT, 0);

	ack(&c, 70 * PKT, 0, true, T0);
	tp_cc_lost(&c, 26 * PKT, false, BASE, T0);
	assert_int_equal(c.cwnd, 70 * PKT);
}

TEST(lost__adapting_never_grows)
{
	struct tp_cc c = steady(100 * PKT, 0);

	ack(&c, 500 * PKT, 0, true, T0);
	tp_cc_lost(&c, 26 * PKT, false, BASE, T0);
	assert_int_equal(c.cwnd, 100 * PKT);
}

TEST(lost__rounds_are_apart)
{
	struct tp_cc c = steady(100 * PKT, 0);

	tp_cc_lost(&c, 10 * PKT, false, BASE, T0);
	tp_cc_lost(&c, 10 * PKT, false, BASE, T0 + BASE);
	assert_int_equal(c.cwnd, 100 * PKT);
}

/* 1, 2, 4 ... packets in the round trips after a burst. */
TEST(lost__grows_gently_afterwards)
{
	struct tp_cc c = steady(100 * PKT, 0);
	u32 i, cwnd = 60 * PKT, now = T0;

	ack(&c, cwnd, 0, true, now);
	tp_cc_lost(&c, 40 * PKT, false, BASE, now);
	assert_int_equal(c.cwnd, cwnd);
	for (i = 1; i < 9; i++) {
		now += BASE;
		ack(&c, cwnd, 0, false, now);
		cwnd += min(2u << (i - 1), 32u) * PKT;
		assert_int_equal(c.cwnd, cwnd);
	}
}

TEST(lost__rto)
{
	struct tp_cc c = steady(100 * PKT, 0);

	tp_cc_lost(&c, 100 * PKT, true, BASE, T0);
	assert_int_equal(c.cwnd, MIN);
	ack(&c, MIN, 0, false, T0 + 5 * BASE);
	assert_int_equal(c.cwnd, 2 * MIN);		/* anew */
}

/* ---- nothing overflows ---- */

TEST(model__random_calls)
{
	u64 seed = 5;
	u32 i, now = T0;

	for (TRIES(i, 1000)) {
		struct tp_cc c;
		u32 j;

		tp_cc_init(&c, 1 + rnd(&seed, 65535), rnd(&seed, 32640));
		for (j = 0; j < 500; j++, now += rnd(&seed, 2000)) {
			u32 bytes = rnd(&seed, 8) ? rnd(&seed, 65536) : rnd(&seed, c.max);
			u32 queue = rnd(&seed, 4) ? rnd(&seed, 5000) : (u32)rnd64(&seed);
			u32 base = rnd(&seed, 8) ? rnd(&seed, 3000) : (u32)rnd64(&seed);

			if (rnd(&seed, 8))
				tp_cc_ack(&c, bytes, queue, far(base), !rnd(&seed, 9), rnd(&seed, 4),
					  now);
			else
				tp_cc_lost(&c, bytes, !rnd(&seed, 9), base, now);
			CHECK_AT(j, c.cwnd >= c.min && c.cwnd <= c.max, true);
		}
	}
}

/* ---- one bottleneck ---- */

enum { FLOWS = 32, RING = 1 << 16 };

struct link_cfg {
	u32 flows;
	u32 rate;		/* bytes per us */
	u32 base;		/* us */
	u32 buffer;		/* packets */
	u32 mark_us;		/* CE above that much queue, 0 = never */
	u32 loss_ppm;
	u32 stagger;		/* us between starts */
	u32 run, warm;		/* us; figures are of [warm, run) */
};

/* Times are ns where not said otherwise. */
struct link {
	struct link_cfg c;
	/* state */
	struct tp_cc cc[FLOWS];
	u32 inflight[FLOWS], wait[FLOWS], wait_queue[FLOWS];
	bool wait_ce[FLOWS];
	struct { u64 at; u32 queue_us; u8 flow; bool lost, ce; } ring[RING];
	u32 in, out;
	u64 busy;
	u64 seed;
	/* figures */
	u64 bytes[FLOWS], sent, lost;
	u32 max_queue_us;
	u64 sum_queue_us;
};

enum { ACK_EVERY = 8 };		/* packets */

static void link_send(struct link *l, u32 flow, u64 t)
{
	u64 queue = l->busy > t ? l->busy - t : 0;
	u32 queue_us = (u32)(queue / 1000);
	bool full = queue * l->c.rate > l->c.buffer * 1000ULL * PKT;
	bool lost = full || rnd(&l->seed, 1000000) < l->c.loss_ppm;
	u32 i = l->in++ % RING;

	assert_true(l->in - l->out < RING);
	if (!full)
		l->busy = t + queue + PKT * 1000 / l->c.rate;
	l->ring[i].at = (full ? t + queue : l->busy) + l->c.base * 1000ULL;
	l->ring[i].queue_us = queue_us;
	l->ring[i].flow = (u8)flow;
	l->ring[i].lost = lost;
	l->ring[i].ce = l->c.mark_us && queue > l->c.mark_us * 1000ULL;
	l->inflight[flow] += PKT;
	if (t >= l->c.warm * 1000ULL) {
		l->sent++;
		l->lost += lost;
		l->max_queue_us = max(l->max_queue_us, queue_us);
		l->sum_queue_us += queue_us;
	}
}

static void link_fill(struct link *l, u32 flow, u64 t)
{
	while (l->inflight[flow] + PKT <= l->cc[flow].cwnd)
		link_send(l, flow, t);
}

static void link_answer(struct link *l)
{
	u32 i = l->out++ % RING, f = l->ring[i].flow;
	u64 t = l->ring[i].at;
	u32 us = (u32)(t / 1000);

	l->inflight[f] -= PKT;
	if (l->ring[i].lost) {
		tp_cc_lost(&l->cc[f], PKT, false, l->c.base, us);
	} else {
		l->bytes[f] += t >= l->c.warm * 1000ULL ? PKT : 0;
		l->wait[f] += PKT;
		l->wait_queue[f] = l->ring[i].queue_us;
		l->wait_ce[f] |= l->ring[i].ce;
	}
	if (l->wait[f] >= ACK_EVERY * PKT || l->inflight[f] < PKT) {
		tp_cc_ack(&l->cc[f], l->wait[f], l->wait_queue[f], far(l->c.base), l->wait_ce[f],
			  true, us);
		l->wait[f] = 0;
		l->wait_ce[f] = false;
	}
	link_fill(l, f, t);
}

/* Return: what was carried, per mille of what could be. */
static u32 link_run(struct link *l)
{
	u32 started = 0, i;
	u64 t = 0, sum = 0;

	l->seed = 3;
	while (t < l->c.run * 1000ULL) {
		while (started < l->c.flows && t >= 1000ULL * started * l->c.stagger) {
			tp_cc_init(&l->cc[started], PKT, MAXP);
			link_fill(l, started++, t);
		}
		t = l->ring[l->out % RING].at;
		link_answer(l);
	}
	for (i = 0; i < l->c.flows; i++)
		sum += l->bytes[i];
	return (u32)(sum * 1000 / ((u64)l->c.rate * (l->c.run - l->c.warm)));
}

/* The least of the flows, in per cent of the most. */
static u32 link_fairness(const struct link *l)
{
	u64 lo = ~0ULL, hi = 1;
	u32 i;

	for (i = 0; i < l->c.flows; i++) {
		lo = min(lo, l->bytes[i]);
		hi = max(hi, l->bytes[i]);
	}
	return (u32)(lo * 100 / hi);
}

static struct link *new_link(struct link_cfg c)
{
	struct link *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->c = c;
	return l;
}

static void done(const char *name, struct link *l, u32 share)
{
	u64 sent = max_t(u64, l->sent, 1);

	print_message("%s: share %u pm, fairness %u %%, queue mean %u max %u us, lost %u ppm\n", name,
		      share, link_fairness(l), (u32)(l->sum_queue_us / sent), l->max_queue_us,
		      (u32)(l->lost * 1000000 / sent));
	free(l);
}

/* Four spines of 80 Mbit/s: 40 bytes per us. */
TEST(link__one_flow)
{
	struct link *l = new_link((struct link_cfg){ .flows = 1, .rate = 40, .base = BASE,
						     .buffer = 4000, .warm = 50000, .run = 3000000 });
	u32 share = link_run(l);

	assert_true(share > 980);
	assert_true(l->max_queue_us < 4 * TARGET);
	done("one flow", l, share);
}

/* 10 Gbit/s, 100 us: full within 10 ms. */
TEST(link__quick_start)
{
	struct link *l = new_link((struct link_cfg){ .flows = 1, .rate = 1250, .base = 300,
						     .buffer = 4000, .warm = 0, .run = 10000 });
	u32 share = link_run(l);

	assert_true(share > 850);
	done("quick start", l, share);
}

TEST(link__fairness)
{
	struct link *l = new_link((struct link_cfg){ .flows = 4, .rate = 40, .base = BASE,
						     .buffer = 4000, .stagger = 500000,
						     .warm = 5000000, .run = 15000000 });
	u32 share = link_run(l);

	assert_true(share > 980);
	assert_true(link_fairness(l) > 80);
	done("fairness", l, share);
}

TEST(link__incast)
{
	struct link *l = new_link((struct link_cfg){ .flows = 32, .rate = 1250, .base = 50,
						     .buffer = 10000, .warm = 200000, .run = 1000000 });
	u32 share = link_run(l);

	assert_true(share > 980);
	assert_true(link_fairness(l) > 70);
	done("incast", l, share);
}

TEST(link__random_loss)
{
	static const u32 ppm[] = { 1000, 10000, 50000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ppm); i++) {
		struct link *l = new_link((struct link_cfg){ .flows = 1, .rate = 40, .base = BASE,
			.buffer = 4000, .loss_ppm = ppm[i], .warm = 50000, .run = 3000000 });
		u32 share = link_run(l);

		assert_true(share > 970 - ppm[i] / 1000);
		done("random loss", l, share);
	}
}

TEST(link__marks)
{
	struct link *l = new_link((struct link_cfg){ .flows = 2, .rate = 40, .base = BASE,
						     .buffer = 4000, .mark_us = 2000,
						     .warm = 500000, .run = 5000000 });
	u32 share = link_run(l);

	assert_true(share > 950);
	assert_true(l->max_queue_us < 2 * TARGET);
	done("marks", l, share);
}

/* A buffer of 0.75 ms shows no delay worth the name: loss is the only sign. */
TEST(link__short_buffer)
{
	struct link *l = new_link((struct link_cfg){ .flows = 1, .rate = 40, .base = BASE,
						     .buffer = 30, .warm = 500000, .run = 5000000 });
	u32 share = link_run(l);

	assert_true(share > 950);
	assert_true(l->lost * 100 < l->sent * 12);
	done("short buffer", l, share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(init__window),
		RUN(start__doubles),
		RUN(start__ends_with_delay),
		RUN(start__ends_with_a_mark),
		RUN(ack__proportional),
		RUN(ack__nothing_is_lost_in_rounding),
		RUN(ack__fair_at_target),
		RUN(ack__target_of_a_long_path),
		RUN(ack__target_of_a_fast_path),
		RUN(ack__target_of_a_slow_path),
		RUN(ack__target_of_unequal_paths),
		RUN(ack__deviation),
		RUN(ack__not_limited_no_growth),
		RUN(ack__never_above_max),
		RUN(ack__mark_below_target_holds),
		RUN(ack__mark_at_target_cuts),
		RUN(ack__twice_target_cuts),
		RUN(ack__cut_by_half_at_most),
		RUN(ack__cut_not_below_min),
		RUN(ack__single_delay_does_not_cut),
		RUN(ack__one_cut_per_round_trip),
		RUN(ack__average),
		RUN(lost__single_does_not_cut),
		RUN(lost__many_stop_growth_for_a_round),
		RUN(lost__burst_adapts),
		RUN(lost__adapts_to_this_round_if_better),
		RUN(lost__adapting_never_grows),
		RUN(lost__rounds_are_apart),
		RUN(lost__grows_gently_afterwards),
		RUN(lost__rto),
		RUN(model__random_calls),
		RUN_LONG(link__one_flow),
		RUN(link__quick_start),
		RUN_LONG(link__fairness),
		RUN_LONG(link__incast),
		RUN_LONG(link__random_loss),
		RUN_LONG(link__marks),
		RUN(link__short_buffer),
	};

	return cmocka_run_group_tests_name("cc", tests, NULL, NULL);
}
