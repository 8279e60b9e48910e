// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where the next burst goes, and how much it may carry.
 *
 * An answer over some EV says that its path has just served something, so the
 * next burst takes the same EV again: every path is fed as fast as it serves,
 * and what is in flight there stays the same. To even out the queues, an EV
 * with queueing delay q is given up with probability (q - avg) / q, avg being
 * that of the paths heard lately; in one round trip that brings a path that
 * has q / avg too much back to its share. What was given up, lost or never used
 * goes where tp_path_pick() says. However unevenly a fabric hashes EVs onto its
 * paths, all are filled alike.
 *
 * Each burst earns its EV back once: when its first packet is received.
 */
#include "tx_int.h"

enum {
	BURST_SHARE	= 16,		/* a burst is at least this part of the window, */
	BURST_SHARE_MAX	= 4,		/* and at most this one; in between */
	BURST_US	= 500,		/* what the window sends in this time, */
	BURST_LEAST	= 4,		/* and not less than this many packets */
	NOISE_US	= 100,		/* queues that differ by less are equal */
};

static u32 tp_tx_mean_queue_us(const struct tp_tx *t)
{
	u32 i, sum = 0;

	for (i = 0; i < TP_DELAYS; i++)
		sum += t->q_us[i];
	return sum / TP_DELAYS;
}

/* What the paths would hold at the present rate if nothing queued, bytes. */
static u32 tp_tx_bdp(const struct tp_tx *t)
{
	u32 round = READ_ONCE(t->paths->base_us) + t->cc.avg_delay_us;
	u32 queue = min(t->srtt_us, tp_tx_mean_queue_us(t));

	return round ? (u32)div_u64((u64)t->cc.acked_prev * (t->srtt_us - queue), round) : 0;
}

/*
 * The congestion window, except that while packets get lost, no queue of ours
 * may hold more than a third of the receive window: the rest of it is what
 * goes on being sent while a lost packet is found and resent.
 */
static u32 tp_tx_cwnd(const struct tp_tx *t, u32 now_us)
{
	u32 third = tp_tx_pkt_bytes(t) * (TP_WINDOW / 3), bdp;

	if (t->cc.cwnd <= third || !t->c_rtx || now_us - t->last_rtx_us > TP_LOSSY_US)
		return t->cc.cwnd;
	bdp = tp_tx_bdp(t);
	return min(t->cc.cwnd, max(third, 2 * bdp));
}

/*
 * Size of a burst, as TCP sizes its super-packets: crossing the stack costs as
 * much as a dozen packets, so the faster the paths, the more goes at once; on
 * slow ones a long burst would only sit in one queue while others run dry.
 */
static u32 tp_tx_burst_size(const struct tp_tx *t, u32 window)
{
	u32 timed = t->srtt_us ? (u32)div_u64((u64)window * BURST_US, t->srtt_us) : 0;

	timed = min(max(timed, (u32)BURST_LEAST), window / BURST_SHARE_MAX);
	return clamp_t(u32, max(timed, window / BURST_SHARE), 1, TP_BURST_MAX);
}

/* Packets that the congestion window allows now: a whole burst, or none. */
u32 tp_tx_room(struct tp_tx *t, u32 max_pkts, u32 now_us)
{
	u32 pkt = tp_tx_pkt_bytes(t), cwnd = tp_tx_cwnd(t, now_us);
	u32 want = min(tp_tx_burst_size(t, cwnd / pkt), max_pkts);

	t->limited = t->inflight && t->inflight + want * pkt > cwnd;
	return t->limited ? 0 : want;
}

static u32 tp_tx_random(struct tp_tx *t)
{
	t->rng = t->rng * 1664525 + 1013904223;
	return t->rng;
}

/* May this EV, just heard, be used again? Evens out the queues: see the head of the file. */
static bool tp_tx_stays(struct tp_tx *t, u8 ev)
{
	u32 q = tp_path_queue_us(t->paths, ev), avg = tp_tx_mean_queue_us(t);

	if (READ_ONCE(t->paths->p[ev].state) != TP_PATH_GOOD)
		return false;
	if (q <= avg + NOISE_US)
		return true;
	return ((u64)tp_tx_random(t) * q) >> 32 < avg;
}

/* A burst was heard: another may take its place on its EV. */
void tp_tx_use_again(struct tp_tx *t, u8 ev)
{
	if (t->nagain == TP_DELAYS)
		memmove(t->again, t->again + 1, --t->nagain);
	t->again[t->nagain++] = ev;
}

/* For new data: an EV that serves, or another one. */
u8 tp_tx_path(struct tp_tx *t, u32 now_us)
{
	if (t->nagain) {
		u8 ev = t->again[0];

		memmove(t->again, t->again + 1, --t->nagain);
		if (tp_tx_stays(t, ev))
			return ev;
	}
	return tp_path_pick(t->paths, &t->rng, TP_NO_PATH, now_us);
}

/*
 * For a retransmission: where the next new burst will follow, so that, should
 * it be lost again, rule 1 finds out within a round trip.
 */
u8 tp_tx_rtx_path(struct tp_tx *t, u8 avoid, u32 now_us)
{
	u8 ev;

	if (t->nagain && t->again[0] != avoid &&
	    READ_ONCE(t->paths->p[t->again[0]].state) == TP_PATH_GOOD)
		return t->again[0];
	ev = tp_path_pick(t->paths, &t->rng, avoid, now_us);
	if (!t->nagain)
		tp_tx_use_again(t, ev);
	return ev;
}
