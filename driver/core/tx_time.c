// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Time in a packet space: when to ask, whom, and when nobody is there.
 *
 * A probe that follows a packet on its EV settles that packet's fate: paths are
 * first in, first out, so if the probe is answered and the packet is not
 * reported, it was lost (rule 1). So probes may be sent as soon as an answer is
 * late, whatever made it late; a needless one costs a small packet.
 *
 * Timers are built for clocks that jump (a guest that was not scheduled):
 * silence counts only once two probes stayed unanswered.
 */
#include "tx_int.h"

enum {				/* us, unless said */
	TP_PTO_MIN	= 1000,
	TP_PTO_FLIGHT	= 25,		/* after an answer that leaves packets in flight */
	TP_PTO_INIT	= 50000,	/* nothing known of the paths */
	TP_RTO_MIN	= 30000,
	TP_RTO_INIT	= 100000,
	TP_WAIT_MAX	= 500000,	/* with back-off */
	TP_JUMP		= 100000,	/* timers are not that late, unless the clock jumped */
	TP_PATH_PROBE	= TP_PROBE_ID + 1, /* bit in the id of probes that test a path */
};

/* --- timers --- */

/**
 * tp_tx_rto_us() - current retransmission timeout before back-off
 * @t: packet space
 * Return: us
 */
u32 tp_tx_rto_us(const struct tp_tx *t)
{
	u32 us = t->srtt_us ? t->srtt_us + 4 * t->rttvar_us : TP_RTO_INIT;

	return clamp_t(u32, max_t(u32, us, 2 * t->slow_us), TP_RTO_MIN, TP_WAIT_MAX);
}

static u32 tp_tx_pto_us(const struct tp_tx *t)
{
	u32 us = max_t(u32, 2 * t->srtt_us, t->srtt_us + 4 * t->rttvar_us);

	return clamp_t(u32, us ? us : TP_PTO_INIT, TP_PTO_MIN, TP_WAIT_MAX);
}

/*
 * The same after an answer that leaves packets in flight: time counts from the last sending. While
 * sending goes on, traffic brings the evidence. (What is sent after silence gets the longer wait: a
 * timer for each lone packet costs.)
 */
static u32 tp_tx_pto_flight_us(const struct tp_tx *t, u64 now)
{
	u32 least = max_t(u32, READ_ONCE(t->paths->base_us), TP_PTO_FLIGHT);
	u32 us = t->srtt_us + max_t(u32, t->srtt_us / 4, 2 * t->rttvar_us);

	if (!t->probe_backoff)
		us -= min_t(u32, tp_us(now - t->last_sent_ns), us);
	return clamp_t(u32, us, least, TP_WAIT_MAX);
}

/* @us doubled @backoff times, in ns */
static u64 tp_tx_backed_off(u32 us, u8 backoff)
{
	return 1000ULL * min_t(u64, (u64)us << min_t(u8, backoff, 20), TP_WAIT_MAX);
}

static void tp_tx_arm_probe(struct tp_tx *t, u64 now)
{
	u8 backoff = t->probe_backoff ? t->probe_backoff - 1 : 0;	/* one may be lost */
	bool flight = t->srtt_us && !tp_tx_all_received(t);
	u32 us = flight ? tp_tx_pto_flight_us(t, now) : tp_tx_pto_us(t);

	if (now > t->probe_at_ns + TP_JUMP * 1000ULL)
		t->vain = 0;
	t->probe_at_ns = max_t(u64, now + tp_tx_backed_off(us, backoff), t->quiet_until_ns);
}

static void tp_tx_arm_rto(struct tp_tx *t, u64 now)
{
	t->rto_at_ns = now + tp_tx_backed_off(tp_tx_rto_us(t), t->rto_backoff);
}

/**
 * tp_tx_arm() - start the probe timer and the RTO anew
 * @t: packet space
 * @now: ns
 */
void tp_tx_arm(struct tp_tx *t, u64 now)
{
	tp_tx_arm_probe(t, now);
	tp_tx_arm_rto(t, now);
}

/**
 * tp_tx_wake() - no silence before now counts
 * @t: packet space
 * @now: ns
 */
void tp_tx_wake(struct tp_tx *t, u64 now)
{
	t->last_progress_ns = now;
	t->rto_backoff = 0;
	t->probe_backoff = 0;
	t->silent = 0;
	t->vain = 0;
	t->rounds = 0;
	tp_tx_arm(t, now);
}

/**
 * tp_tx_deadline() - time of the next thing to do
 * @t: packet space
 * Return: ns; ~0 if every message was retired.
 */
u64 tp_tx_deadline(const struct tp_tx *t)
{
	u64 at = t->probe_at_ns;

	if (t->head == t->tail)
		return ~0ULL;
	if (!tp_tx_all_received(t))
		at = min(at, t->rto_at_ns);
	if (t->rack_at_ns)
		at = min(at, t->rack_at_ns);
	if (t->retry_at_ns)
		at = min(at, t->retry_at_ns);
	return at;
}

/* --- probes --- */

static void tp_tx_fill_probe(struct tp_tx *t, u16 id, struct tp_pkt *p)
{
	memset(p, 0, sizeof(*p));
	p->kind = TP_PROBE;
	p->first = true;
	p->last = true;
	p->space = t->space;
	p->dqpn = t->dqpn;
	p->psn = t->nxt;
	p->ack_req = true;
	p->probe_id = id;
	t->c_probes++;
}

/* An EV that something missing is on, which no probe of this round went to, or TP_NO_PATH. */
static u8 tp_tx_missing(const struct tp_tx *t)
{
	u32 psn;

	for (psn = t->una; psn != t->nxt; psn++) {
		const struct tp_sent *r = tp_tx_rec(t, psn);

		if (!(r->flags & (TP_SENT_RECEIVED | TP_SENT_LOST)) &&
		    !(t->asked & 1ULL << (r->ev % TP_PATHS)))
			return r->ev;
	}
	return TP_NO_PATH;
}

/*
 * Where the next probe of this round goes; TP_NO_PATH: anywhere. The last one ends the round. If
 * nobody answered the last, the first of a round goes anywhere: the paths that it followed may be dead.
 */
static u8 tp_tx_ask(struct tp_tx *t)
{
	bool anywhere = !t->asks && t->silent >= TP_SILENT;
	u8 ev = anywhere ? TP_NO_PATH : tp_tx_missing(t);

	if (ev != TP_NO_PATH)
		t->asked |= 1ULL << (ev % TP_PATHS);
	t->probe_wanted = ++t->asks < TP_PROBES && tp_tx_missing(t) != TP_NO_PATH;
	if (!t->probe_wanted) {
		t->asked = 0;
		t->asks = 0;
	}
	return ev;
}

/**
 * tp_tx_probe() - ask the peer for what it has
 * @t: packet space
 * @now: ns
 * @p: filled
 * @ev: path to send it on
 * Return: false if no probe is due.
 */
bool tp_tx_probe(struct tp_tx *t, u64 now, struct tp_pkt *p, u8 *ev)
{
	u32 now_us = tp_us(now), i;

	if (!t->probe_wanted)
		return false;
	*ev = tp_tx_ask(t);
	if (*ev == TP_NO_PATH)
		*ev = tp_path_pick(t->paths, &t->rng, TP_NO_PATH, now_us);
	t->probe_id = (t->probe_id + 1) & TP_PROBE_ID;
	i = t->probe_id % TP_PROBES;
	t->probes_open |= 1 << i;
	t->probe_ev[i] = *ev;
	t->probe_stamp[i] = tp_tx_stamp(t, now_us);
	tp_tx_fill_probe(t, t->probe_id, p);
	return true;
}

/**
 * tp_tx_path_probe() - test a withdrawn path while there is traffic
 * @t: packet space
 * @now: ns
 * @p: filled
 * @ev: path to send it on
 * Return: false if none is due.
 */
bool tp_tx_path_probe(struct tp_tx *t, u64 now, struct tp_pkt *p, u8 *ev)
{
	if (t->head == t->tail)
		return false;
	*ev = tp_path_probe_due(t->paths, tp_us(now));
	if (*ev == TP_NO_PATH)
		return false;
	tp_tx_fill_probe(t, t->probe_id | TP_PATH_PROBE, p);
	return true;
}

/* --- time --- */

/* Rule 4: nothing was heard of anything in flight, not even of probes. */
static void tp_tx_rto(struct tp_tx *t, u64 now)
{
	u32 now_us = tp_us(now), bytes = 0, psn;

	for (psn = t->una; psn != t->nxt; psn++) {
		struct tp_sent *r = tp_tx_rec(t, psn);

		if (r->flags & (TP_SENT_RECEIVED | TP_SENT_LOST))
			continue;
		bytes += r->bytes;
		tp_tx_lose(t, psn);
		tp_tx_blame(t, r, false, now_us);
	}
	tp_cc_lost(&t->cc, bytes, true, READ_ONCE(t->paths->base_us), now_us);
	t->rack_at_ns = 0;
	t->c_rto++;
	t->rto_backoff += t->rto_backoff < 16;
	tp_tx_arm_rto(t, now);
}

/**
 * tp_tx_timeout() - the deadline passed
 * @t: packet space
 * @now: ns
 */
void tp_tx_timeout(struct tp_tx *t, u64 now)
{
	bool rto = !tp_tx_all_received(t) && now >= t->rto_at_ns;

	if (t->head == t->tail)
		return;
	if (now >= t->retry_at_ns)
		t->retry_at_ns = 0;
	if (t->rack_at_ns && now >= t->rack_at_ns) {
		if (tp_diff(tp_us(t->rack_at_ns), t->last_stamp) > 0) {
			t->probe_wanted = true;
			t->asked = ~0ULL;	/* what is missing may be so for its path's sake */
		}
		t->rack_at_ns = 0;
	}
	if (rto && t->silent >= TP_SILENT) {
		tp_tx_rto(t, now);
		rto = false;
	}
	if (now >= t->probe_at_ns) {
		t->probe_wanted = true;
		t->silent += t->silent <= TP_SILENT;
		t->vain += t->vain < TP_VAIN;
		t->probe_backoff += t->probe_backoff < 16;
		tp_tx_arm_probe(t, now);
	}
	if (rto)
		t->rto_at_ns = t->probe_at_ns;	/* not before the probes had their time */
}
