// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What answers teach the sender of a packet space.
 *
 * An ack becomes news: for each EV heard, the latest-sent packet that arrived.
 * From that follow, in this order: paths learn (RTT, marks), losses are found
 * (rules 1 and 2 of tx.h), the window moves. An ack whose points are impossible
 * is ignored as a whole; a stale one has no news.
 *
 * A packet that was sent twice tells nothing certain: it gives no RTT sample.
 *
 * Reordering inside a path (rare, but emulators and bonded links do it) shows
 * in resends that prove needless: acknowledged faster than any path can answer,
 * or reported as duplicates. Each such round trip doubles the time that rules 1
 * and 2 wait on top, from a quarter of an RTT on (250 us at most); each 32
 * resends that were needed halve it.
 */
#include "tx_int.h"

enum {
	REO_WAIT_US	= 125,		/* or an eighth of an RTT, but not less than */
	REO_LEAST_US	= 8,		/* this; doubled once per step */
	REO_MAX		= 8,		/* steps: 32 ms */
	REO_DUP		= 5,		/* steps that duplicates alone justify: networks make some, too */
	REO_DECAY	= 32,		/* packets */
	PATIENCE_MAX_US	= 1000000,	/* paths that differ by more than this are no paths */
	SLOW_STEP_US	= 100000,	/* half of the longest RTT is forgotten in half a second */
};

/* What one ack tells: per EV the latest-sent packet that newly arrived. */
struct tp_news {
	u32 now_us;
	u32 bytes;
	bool any;		/* something newly arrived */
	u64 evs;		/* EVs heard */
	u64 fresh;		/* of these, stamp is good for an RTT sample */
	u32 stamp[TP_PATHS];
	u32 psn[TP_PATHS];
};

/* One pass over the packets in flight. */
struct tp_scan {
	const struct tp_news *news;
	u32 stamp;		/* burst that @patience_us is of */
	u32 patience_us;
	u32 bytes;		/* found lost */
	bool again;		/* something overtaken is not lost yet, but will be */
	u32 due_us;		/* once something sent at this time or later is received */
};

/* Bits from @n on must be clear, and so must bit 0 (the cumulative point is not received). */
static bool tp_ack_bits_valid(const struct tp_ack *a, u32 n)
{
	u32 i;

	if (a->nwords > TP_SACK_WORDS)
		return false;
	if (a->nwords && (a->bits[0] & 1))
		return false;
	for (i = 0; i < a->nwords; i++) {
		u32 first = i * 64;
		u64 beyond = n <= first ? ~0ULL : n - first >= 64 ? 0 : ~0ULL << (n - first);

		if (a->bits[i] & beyond)
			return false;
	}
	return true;
}

/* Points of an ack, extended. They can be stale, never impossible. */
static bool tp_tx_ack_points(const struct tp_tx *t, const struct tp_ack *a, u32 *exec, u32 *cum)
{
	*exec = tp_extend24(a->exec_psn, t->una);
	*cum = tp_extend24(a->cum_psn, t->una);
	if (a->space != t->space || tp_before(t->nxt, *cum) || tp_before(*cum, *exec))
		return false;
	return tp_ack_bits_valid(a, t->nxt - *cum);
}

/**
 * tp_tx_ack_valid() - are the points of this ack possible?
 * @t: packet space
 * @a: what came
 * Return: false: ignore all of it.
 */
bool tp_tx_ack_valid(const struct tp_tx *t, const struct tp_ack *a)
{
	u32 exec, cum;

	return tp_tx_ack_points(t, a, &exec, &cum);
}

/* A packet that left at (stamp, psn) on @ev arrived. */
static void tp_news_note(struct tp_tx *t, struct tp_news *n, u8 ev, u32 stamp, u32 psn, bool fresh)
{
	u64 bit = 1ULL << (ev % TP_PATHS);

	if (tp_sent_before(t->rack_stamp, t->rack_psn, stamp, psn)) {
		t->rack_stamp = stamp;
		t->rack_psn = psn;
	}
	if ((n->evs & bit) && tp_sent_before(stamp, psn, n->stamp[ev], n->psn[ev]))
		return;
	n->evs |= bit;
	n->fresh = fresh ? n->fresh | bit : n->fresh & ~bit;
	n->stamp[ev] = stamp;
	n->psn[ev] = psn;
}

/* Something that was sent again, or was to be, had arrived in the first place. */
static void tp_tx_needless(struct tp_tx *t, u8 most, u32 now_us)
{
	t->c_needless++;
	t->reo_good = 0;
	if (t->reo >= most || (t->reo && now_us - t->reo_us < t->srtt_us))
		return;
	t->reo++;
	t->reo_us = now_us;
}

/* A duplicate was seen by the peer: ours, if we resent anything lately. */
static void tp_tx_duplicate(struct tp_tx *t, u32 now_us)
{
	t->c_dup++;
	if (t->c_rtx && now_us - t->last_rtx_us < 2 * t->slow_us)
		tp_tx_needless(t, REO_DUP, now_us);
}

static void tp_tx_needed(struct tp_tx *t)
{
	if (t->reo && ++t->reo_good >= REO_DECAY) {
		t->reo--;
		t->reo_good = 0;
	}
}

/*
 * New packets leave in the order of their PSNs: whatever the receipt of one
 * overtakes has a lower PSN. Probes and retransmissions overtake all in flight.
 */
static void tp_tx_look_until(struct tp_tx *t, u32 psn)
{
	if (tp_before(t->look_end, psn))
		t->look_end = psn;
}

/* An answer faster than any path's is to the first copy. Stamps may run ahead of the clock. */
static bool tp_tx_too_soon(const struct tp_tx *t, const struct tp_sent *r, u32 now_us)
{
	u32 base = READ_ONCE(t->paths->base_us);

	return tp_diff(now_us, r->stamp) < (s32)(base - base / 4);
}

/* Packet @psn was received. */
static void tp_tx_got(struct tp_tx *t, u32 psn, struct tp_news *n)
{
	struct tp_sent *r = tp_tx_rec(t, psn);
	bool rtx = r->flags & TP_SENT_RTX;
	bool lost = r->flags & TP_SENT_LOST;

	if (r->flags & TP_SENT_RECEIVED)
		return;
	r->flags |= TP_SENT_RECEIVED;
	r->flags &= ~TP_SENT_LOST;
	n->any = true;
	n->bytes += r->bytes;
	if (r->flags & TP_SENT_HEAD)
		tp_tx_use_again(t, r->ev);
	if (lost)
		t->lost--;
	else
		t->inflight -= r->bytes;
	if (lost || (rtx && tp_tx_too_soon(t, r, n->now_us))) {
		tp_tx_needless(t, REO_MAX, n->now_us);
		if (rtx)
			return;		/* which copy it was is unknown */
	} else if (rtx) {
		tp_tx_needed(t);
	}
	tp_tx_look_until(t, rtx ? t->nxt : psn);
	tp_news_note(t, n, r->ev, r->stamp, psn, !rtx);
}

static void tp_tx_take_received(struct tp_tx *t, const struct tp_ack *a, u32 cum, struct tp_news *n)
{
	u32 psn, i;

	for (psn = t->una; tp_before(psn, cum); psn++)
		tp_tx_got(t, psn, n);
	for (i = 0; i < a->nwords; i++) {
		u64 word;

		for (word = a->bits[i]; word; word &= word - 1) {
			psn = cum + 64 * i + __ffs64(word);
			if (!tp_before(psn, t->una))
				tp_tx_got(t, psn, n);
		}
	}
	while (t->una != t->nxt && (tp_tx_rec(t, t->una)->flags & TP_SENT_RECEIVED))
		t->una++;
	if (tp_before(t->doubt_psn, t->una))
		t->doubt = TP_DOUBT_NONE;
	tp_tx_look_until(t, t->una);
}

/*
 * A cumulative limit, in units; one that is less is an old one. A peer that grants names it in every
 * answer: whatever HELLO said, or failed to say, nobody waits for what never comes.
 * Return: is there more than before?
 */
static bool tp_tx_take_credit(struct tp_tx *t, const struct tp_ack *a)
{
	bool begins = a->credited && !t->credited;
	u32 limit = a->credit * TP_CREDIT_UNIT;

	t->credited = a->credited;
	if (!a->credited || (!begins && !tp_before(t->credit_limit, limit)))
		return false;
	t->credit_limit = limit;
	return true;
}

static bool tp_tx_take_executed(struct tp_tx *t, const struct tp_ack *a, u32 exec)
{
	bool news = tp_before(t->exec, exec);
	u32 end;

	if (a->mpr)
		t->mpr = min_t(u8, a->mpr, TP_MPR);
	if (tp_before(exec, t->exec))
		return false;
	t->exec = exec;
	end = exec + t->mpr * 128;
	if (tp_before(t->wnd_end, end))
		t->wnd_end = end;
	return news;
}

/* The answer to a probe counts as a packet that was received. */
static bool tp_tx_take_probe(struct tp_tx *t, u64 now, const struct tp_ack *a, struct tp_news *n)
{
	u32 i = a->probe_id % TP_PROBES;

	if (!a->probe)
		return false;
	if (a->entropy)
		tp_path_revived(t->paths, a->entropy, n->now_us);
	if (tp_tx_all_received(t)) {		/* the peer lives, and only its own side makes us wait */
		t->last_progress_ns = now;
		t->vain = 0;
	}
	if (a->probe_id > TP_PROBE_ID || !(t->probes_open & 1 << i) ||
	    ((t->probe_id - a->probe_id) & TP_PROBE_ID) >= TP_PROBES)
		return false;
	t->probes_open &= ~(1 << i);
	if (t->doubt == TP_DOUBT_ASKED &&
	    ((a->probe_id - t->doubt_id) & TP_PROBE_ID) <= TP_PROBE_ID / 2) {
		t->doubt = TP_DOUBT_ANSWERED;
		t->retry_at_ns = 0;
	}
	t->silent = 0;
	t->rto_backoff = 0;
	if (!tp_tx_all_received(t))	/* what is resent now may be lost again, but not by silence */
		t->probe_backoff = min_t(u8, t->probe_backoff, max_t(u8, TP_SILENT, t->rounds));
	tp_tx_arm(t, now);
	tp_tx_look_until(t, t->nxt);
	tp_news_note(t, n, t->probe_ev[i], t->probe_stamp[i], t->nxt, true);
	return true;
}

static void tp_tx_rtt(struct tp_tx *t, u32 us)
{
	u32 err = us > t->srtt_us ? us - t->srtt_us : t->srtt_us - us;

	if (!t->srtt_us) {
		t->srtt_us = us;
		t->rttvar_us = us / 2;
		return;
	}
	if (us < t->srtt_us)	/* a queue that is gone is no reason to wait longer */
		err = min(err, t->rttvar_us / 2);
	t->rttvar_us = t->rttvar_us - t->rttvar_us / 4 + err / 4;
	t->srtt_us = t->srtt_us - t->srtt_us / 8 + us / 8;
}

/* The longest RTT seen is forgotten slowly: acks may come back over any path. */
static void tp_tx_forget_slow(struct tp_tx *t, u32 now_us)
{
	if (now_us - t->slow_at_us < SLOW_STEP_US)
		return;
	t->slow_at_us = now_us;
	t->slow_us -= t->slow_us / 8;
}

/* Each path that was heard learns, once. */
static void tp_tx_feed_paths(struct tp_tx *t, const struct tp_ack *a, const struct tp_news *n)
{
	u64 left;

	tp_tx_forget_slow(t, n->now_us);
	for (left = n->evs; left; left &= left - 1) {
		u8 ev = (u8)__ffs64(left);
		bool ce = a->ce && tp_path_is(&t->paths->p[ev], a->entropy);
		s32 rtt = tp_diff(n->now_us, n->stamp[ev]);
		u32 us = n->fresh & (left & -left) ? (u32)max_t(s32, rtt, 1) : 0;

		tp_path_acked(t->paths, ev, us, ce, n->now_us);
		if (us)
			tp_tx_rtt(t, us);
		t->slow_us = max(t->slow_us, us);
		t->q_us[t->q_pos++ % TP_DELAYS] =
			(u16)min_t(u32, tp_path_queue_us(t->paths, ev), 0xffff);
	}
}

/* Median of the latest queueing delays, us; what they have in common is told to the paths. */
static u32 tp_tx_queue_us(const struct tp_tx *t, u32 now_us)
{
	u16 v[TP_DELAYS];
	u32 i, j;

	for (i = 0; i < TP_DELAYS; i++) {
		u16 x = t->q_us[i];

		for (j = i; j && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
	tp_path_common(t->paths, v[0], now_us);
	return v[TP_DELAYS / 2];
}

/* --- losses --- */

/* Did this ack report a later packet of the same EV? */
static bool tp_news_overtakes(const struct tp_news *n, const struct tp_sent *r, u32 psn)
{
	return (n->evs & 1ULL << (r->ev % TP_PATHS)) &&
	       tp_sent_before(r->stamp, psn, n->stamp[r->ev], n->psn[r->ev]);
}

static u32 tp_tx_reo_wait_us(const struct tp_tx *t)
{
	return t->reo ? clamp_t(u32, t->srtt_us / 8, REO_LEAST_US, REO_WAIT_US) << t->reo : 0;
}

/*
 * So much later must something be sent, whatever its path, to arrive after a packet of this EV.
 * Limited: a host that slept has seen RTTs as long as its sleep, perhaps over a path that then
 * died and will never tell a better one; a loss there must not wait for several such sleeps.
 */
static u32 tp_tx_patience_us(const struct tp_tx *t, u8 ev)
{
	u32 us = max_t(u32, tp_path_patience_us(t->paths, ev), t->slow_us + t->slow_us / 4);

	return min_t(u32, us, PATIENCE_MAX_US);
}

/**
 * tp_tx_loss_known_us() - how long the loss of the oldest packet in flight may stay unknown
 * @t: packet space
 * Return: the patience that rule 2 has with its path, us.
 */
u32 tp_tx_loss_known_us(const struct tp_tx *t)
{
	return t->una == t->nxt ? 0 : tp_tx_patience_us(t, tp_tx_rec(t, t->una)->ev);
}

/* Something sent at that time or later must be received before @r counts as lost, us. */
static u32 tp_tx_due_us(struct tp_tx *t, struct tp_scan *s, const struct tp_sent *r)
{
	u32 rtt = READ_ONCE(t->paths->p[r->ev].rtt_us);

	if (s->stamp != r->stamp || !s->patience_us) {
		s->stamp = r->stamp;
		s->patience_us = tp_tx_patience_us(t, r->ev);
	}
	if (r->flags & TP_SENT_OVERTAKEN)
		return r->stamp + tp_tx_reo_wait_us(t) + min(rtt, s->patience_us);
	return r->stamp + tp_tx_reo_wait_us(t) + s->patience_us;
}

/* Is this packet, not known received, lost? */
static bool tp_tx_judge(struct tp_tx *t, struct tp_scan *s, struct tp_sent *r, u32 psn)
{
	u32 due;

	if (!tp_sent_before(r->stamp, psn, t->rack_stamp, t->rack_psn))
		return false;
	if (tp_news_overtakes(s->news, r, psn))
		r->flags |= TP_SENT_OVERTAKEN;
	if (!t->reo && (r->flags & TP_SENT_OVERTAKEN)) {
		t->c_lost_ev++;
		return true;
	}
	due = tp_tx_due_us(t, s, r);
	if (!tp_before(t->rack_stamp, due)) {
		t->c_lost_rack++;
		return true;
	}
	if (!s->again || tp_before(due, s->due_us))
		s->due_us = due;
	s->again = true;
	return false;
}

/* Was nothing heard of this lost packet's path since it left, not even of its own burst? */
static bool tp_tx_silent(const struct tp_tx *t, const struct tp_sent *r, u32 psn)
{
	const struct tp_sent *before = tp_tx_rec(t, psn - 1);

	if (r->flags & TP_SENT_OVERTAKEN)
		return false;
	return before->stamp != r->stamp || !(before->flags & TP_SENT_RECEIVED);
}

/* Rules 1 and 2. */
static void tp_tx_find_lost(struct tp_tx *t, struct tp_scan *s, u64 now)
{
	u32 now_us = s->news->now_us, psn;

	for (psn = t->una; tp_before(psn, t->look_end); psn++) {
		struct tp_sent *r = tp_tx_rec(t, psn);

		if ((r->flags & (TP_SENT_RECEIVED | TP_SENT_LOST)) || !tp_tx_judge(t, s, r, psn))
			continue;
		s->bytes += r->bytes;
		tp_tx_lose(t, psn);
		tp_tx_blame(t, r, tp_tx_silent(t, r, psn), now_us);
	}
	if (s->bytes)
		tp_cc_lost(&t->cc, s->bytes, false, READ_ONCE(t->paths->base_us), now_us);
	/* Traffic may bring the evidence; if nothing is sent by then, a probe must. */
	t->rack_at_ns = 0;
	if (s->again && tp_before(t->last_stamp, s->due_us))
		t->rack_at_ns = now + 1000ULL * (u32)max_t(s32, tp_diff(s->due_us, now_us), 1);
}

/**
 * tp_tx_ack() - news from the peer about this space
 * @t: packet space
 * @now: ns
 * @a: PSNs as on the wire
 * Return: true if anything new was received, executed, granted or found lost.
 */
bool tp_tx_ack(struct tp_tx *t, u64 now, const struct tp_ack *a)
{
	struct tp_news n;
	struct tp_scan s = { .news = &n };
	struct tp_cc_way way;
	u32 exec, cum;
	bool moved, granted;

	if (!tp_tx_ack_points(t, a, &exec, &cum))
		return false;
	n.now_us = tp_us(now);
	n.bytes = 0;
	n.any = false;
	n.evs = 0;
	n.fresh = 0;
	if (a->dup)
		tp_tx_duplicate(t, n.now_us);
	tp_tx_take_received(t, a, cum, &n);
	moved = tp_tx_take_executed(t, a, exec);
	granted = tp_tx_take_credit(t, a);
	tp_tx_take_probe(t, now, a, &n);
	tp_tx_feed_paths(t, a, &n);
	tp_tx_find_lost(t, &s, now);
	way.base_us = READ_ONCE(t->paths->base_us);
	way.mean_us = READ_ONCE(t->paths->mean_us);
	if (n.bytes)
		tp_cc_ack(&t->cc, n.bytes, tp_tx_queue_us(t, n.now_us), way, a->ce, t->limited,
			  n.now_us);
	if (n.any || moved)
		tp_tx_wake(t, now);
	return n.any || moved || granted || s.bytes;
}
