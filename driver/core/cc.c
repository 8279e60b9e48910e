// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Congestion window after NSCC (Network Signal based Congestion Control):
 * queueing delay says how far to go, a mark only that something is wrong.
 *
 *   delay   queueing delay of the packets acknowledged; avg: smoothed, gain 1/8
 *   target  max(base RTT, min(time that 64 packets need at the present rate +
 *           4 x mean deviation of delay, TARGET_US)): our own bursts are no
 *           congestion, nor are ends that answer late by some ms (under an
 *           emulator, on busy virtual CPUs); where both are small, neither may
 *           the target be larger than switches have queues. Where a packet takes
 *           long, TARGET_US is too few of them for several paths, and some run
 *           dry: there it is the time of 32 packets, up to TARGET_SLOW_US (at a
 *           window per mean RTT of the paths, which may be unequally long; among
 *           short ones the mean is not exact enough for the first rule)
 *
 *                     no mark                              mark
 *   delay < target    cwnd += max / 32 x (target - delay)  hold (the EV moves, path.c)
 *                                      / target  per RTT
 *   delay >= target   cwnd += a packet per RTT             cut
 *   delay >= 2 target cut                                  cut
 *
 *   cut: once per RTT,  cwnd x= max(1 - 0.8 (avg - target) / avg, 0.5)
 *
 * The first increase is the same for every flow whatever its window, so windows
 * become equal. Where nothing marks, the rule for 2 target is the one that
 * holds the queue.
 *
 * Start: from the least window it doubles per RTT while avg < target / 4 and
 * nothing was marked and no burst was lost. A larger first window would save a
 * lone flow a round trip or two; where many start at once it is what overflows.
 *
 * Loss is not congestion by itself: paths lose packets at random, and a window
 * that halves for it is what ruins RDMA on a lossy link. Per round trip
 *   more than cwnd / 16 lost	no growth: a shallow queue overflows a little
 *   more than cwnd / 8 lost	quick adapt: cwnd = bytes that arrived in the last RTT;
 *				then growth by 1, 2, 4 ... packets per RTT, or a
 *				shallow queue would overflow by a third again at once
 *   everything (RTO)		cwnd = least, and start anew
 * Quick adapt costs nothing where it is wrong: what arrived in an RTT is what
 * the path carried.
 */
#include "cc.h"

enum {
	TARGET_US	= 3000,		/* at most, unless the way is longer; and while nothing is known */
	TARGET_SLOW_US	= 12000,	/* the same where a packet takes long */
	TARGET_PACKETS	= 64,
	SLOW_PACKETS	= 32,
	NOISE		= 4,
	MIN_PACKETS	= 16,		/* one for each of 16 paths; the first window, too */
	WARM_PACKETS	= 64,
	GROWTH		= 32,		/* of the largest window per RTT, at most */
	AVG_GAIN	= 8,
	DEV_GAIN	= 16,
	CALM_MAX	= 10,
};

/**
 * tp_cc_init() - window for a new packet space
 * @c: filled
 * @packet_bytes: bytes of a full packet, headers included
 * @max_packets: window that is never exceeded
 */
void tp_cc_init(struct tp_cc *c, u32 packet_bytes, u32 max_packets)
{
	memset(c, 0, sizeof(*c));
	c->packet = packet_bytes;
	c->min = packet_bytes * MIN_PACKETS;
	c->max = packet_bytes * max_t(u32, max_packets, MIN_PACKETS);
	c->cwnd = c->min;
	c->slow_start = true;
	c->calm = CALM_MAX;
}

/* What a packet sent now will need, us. */
static u32 round_us(const struct tp_cc *c, u32 base_us)
{
	return (base_us ? base_us : TARGET_US) + c->avg_delay_us;
}

/* Time that @n packets need at a window per round trip, us. */
static u32 packets_us(const struct tp_cc *c, u32 way_us, u32 n)
{
	return (u32)div_u64((u64)round_us(c, way_us) * n * c->packet, c->cwnd);
}

/* Queueing delay to aim at: see the head of the file. */
static u32 target_us(const struct tp_cc *c, struct tp_cc_way way)
{
	u32 own, most;

	if (!way.base_us)
		return TARGET_US;
	own = packets_us(c, way.base_us, TARGET_PACKETS);
	most = clamp_t(u32, packets_us(c, way.mean_us, SLOW_PACKETS), TARGET_US, TARGET_SLOW_US);
	return max_t(u32, way.base_us, min_t(u32, own + NOISE * c->dev_us, most));
}

static void roll_round(struct tp_cc *c, u32 base_us, u32 now_us)
{
	if (now_us - c->epoch_us < round_us(c, base_us))
		return;
	c->acked_prev = c->acked;
	c->acked = 0;
	c->lost = 0;
	c->epoch_us = now_us;
	if (c->calm < CALM_MAX)
		c->calm++;
}

static void average(struct tp_cc *c, u32 queue_us)
{
	u32 off = queue_us > c->avg_delay_us ? queue_us - c->avg_delay_us :
					       c->avg_delay_us - queue_us;

	c->dev_us = c->dev_us - c->dev_us / DEV_GAIN + off / DEV_GAIN;
	if (queue_us > c->avg_delay_us)
		c->avg_delay_us += (queue_us - c->avg_delay_us) / AVG_GAIN;
	else
		c->avg_delay_us -= (c->avg_delay_us - queue_us) / AVG_GAIN;
}

/* A cut shows its effect a round trip later; until then there is no second one. */
static bool may_cut(const struct tp_cc *c, u32 base_us, u32 now_us)
{
	return !c->cut_valid || now_us - c->last_cut_us >= round_us(c, base_us);
}

static void set_cut(struct tp_cc *c, u32 cwnd, u32 now_us)
{
	c->cwnd = clamp_t(u32, cwnd, c->min, c->cwnd);
	c->inc = 0;
	c->slow_start = false;
	c->cut_valid = true;
	c->last_cut_us = now_us;
}

static void cut(struct tp_cc *c, struct tp_cc_way way, u32 now_us)
{
	u32 avg = c->avg_delay_us;
	u32 target = target_us(c, way);
	u32 less;

	if (avg <= target || !may_cut(c, way.base_us, now_us))
		return;
	less = (u32)div_u64((u64)c->cwnd * 4 * (avg - target), avg) / 5;
	set_cut(c, c->cwnd - min_t(u32, less, c->cwnd / 2), now_us);
}

/* @per_rtt: increase if a whole window is acknowledged, bytes */
static void grow(struct tp_cc *c, u32 bytes, u32 per_rtt)
{
	u32 step;

	c->inc += (u64)bytes * per_rtt;
	step = (u32)min_t(u64, div_u64(c->inc, c->cwnd), c->max - c->cwnd);
	c->inc -= (u64)step * c->cwnd;
	c->cwnd += step;
	if (c->cwnd == c->max)
		c->inc = 0;
}

/* The most to grow per RTT. */
static u32 growth(const struct tp_cc *c)
{
	return (u32)min_t(u64, c->max / GROWTH, (u64)c->packet << c->calm);
}

static void increase(struct tp_cc *c, u32 bytes, u32 queue_us, struct tp_cc_way way)
{
	u32 target = target_us(c, way);

	if (c->avg_delay_us >= target / 4)
		c->slow_start = false;
	if (c->slow_start)
		c->cwnd += min_t(u32, bytes, c->max - c->cwnd);
	else if (queue_us < target)
		grow(c, bytes, (u32)div_u64((u64)growth(c) * (target - queue_us), target));
	else
		grow(c, bytes, c->packet);
}

/* At the start, answers without a sign of congestion are enough, whatever limits sending. */
static bool may_warm_up(const struct tp_cc *c)
{
	return c->slow_start && c->cwnd < WARM_PACKETS * c->packet;
}

static bool is_lossy(const struct tp_cc *c)
{
	return c->lost > c->cwnd / 16;
}

void tp_cc_ack(struct tp_cc *c, u32 bytes, u32 queue_us, struct tp_cc_way way, bool ce,
	       bool limited, u32 now_us)
{
	u32 target = target_us(c, way);

	roll_round(c, way.base_us, now_us);
	c->acked += bytes;
	average(c, queue_us);
	if (ce)
		c->slow_start = false;
	if (queue_us >= (ce ? target : 2 * target))
		cut(c, way, now_us);
	else if (!ce && (limited || may_warm_up(c)) && !is_lossy(c))
		increase(c, bytes, queue_us, way);
}

void tp_cc_lost(struct tp_cc *c, u32 bytes, bool rto, u32 base_us, u32 now_us)
{
	roll_round(c, base_us, now_us);
	c->lost += bytes;
	if (rto) {
		set_cut(c, c->min, now_us);
		c->slow_start = true;
		return;
	}
	if (c->lost > c->cwnd / 8 && may_cut(c, base_us, now_us)) {
		set_cut(c, max_t(u32, c->acked, c->acked_prev), now_us);
		c->calm = 0;
	}
}
