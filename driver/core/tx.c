// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The sending side of one packet space. tx.h has the picture and the rules.
 *
 * Every packet in flight has an 8-byte record: when it was sent, on which EV.
 * An ack turns records into news: for each EV heard, the latest-sent packet
 * that arrived. From that follow, in this order: paths learn (RTT, marks),
 * losses are found (rule 1 now, rule 2 by a timer), the window moves.
 *
 * Time of sending is a "stamp", microseconds, strictly increasing from burst
 * to burst, so (stamp, PSN) is the order in which packets left. A packet that
 * was sent twice tells nothing certain: it gives no RTT sample.
 *
 * Reordering inside a path (rare, but emulators and bonded links do it) shows
 * in resends that prove needless: acknowledged faster than any path can answer,
 * or reported as duplicates. Each such round trip doubles the time that rules 1
 * and 2 wait on top, from 250 us on; each 32 resends that were needed halve it.
 *
 * Path of a burst. An answer over some EV says that its path has just served
 * something, so the next burst takes the same EV again: every path is fed as
 * fast as it serves, and what is in flight there stays the same. To even out
 * the queues, an EV with queueing delay q is given up with probability
 * (q - avg) / q, avg being that of the paths heard lately; in one round trip
 * that brings a path that has q / avg too much back to its share. What was
 * given up, lost or never used goes where tp_path_pick() says. However unevenly
 * a fabric hashes EVs onto its paths, all are filled alike.
 *
 * Rule 2 and rule 4 are built for clocks that jump (a guest that was not
 * scheduled): a timer that fires late first lets waiting acks be read, and
 * nothing times out before two probes stayed unanswered.
 */
#include "tx.h"

enum {				/* us, unless said */
	TP_PTO_MIN	= 2000,
	TP_PTO_INIT	= 50000,	/* nothing known of the paths */
	TP_RTO_MIN	= 30000,
	TP_RTO_INIT	= 100000,
	TP_WAIT_MAX	= 500000,	/* with back-off */
	TP_LOCAL_RETRY	= 1000,		/* after a refusal of the local stack */
	TP_REO_WAIT	= 125,		/* doubled once per step */
	TP_REO_MAX	= 8,		/* steps: 32 ms */
	TP_REO_DUP	= 5,		/* steps that duplicates alone justify: networks make some, too */
	TP_REO_DECAY	= 32,		/* packets */
	TP_SILENT_RTO	= 2,		/* probes */
	TP_LOSSY	= 50000,	/* after a retransmission */
	TP_QUEUE_NOISE	= 100,
	TP_SLOW_STEP	= 100000,	/* half of it in half a second */
	TP_BURST_SHARE	= 16,		/* a burst is this part of the window */
	TP_PATH_PROBE	= TP_PROBE_ID + 1, /* bit in the id of probes that test a path */
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

static struct tp_sent *tp_tx_rec(const struct tp_tx *t, u32 psn)
{
	return &t->sent[psn & (TP_WINDOW - 1)];
}

static u32 tp_tx_pkt_bytes(const struct tp_tx *t)
{
	return t->payload_hint + TP_DATA_OVERHEAD;
}

/* Did (stamp, PSN) a leave before b? */
static bool tp_sent_before(u32 stamp_a, u32 psn_a, u32 stamp_b, u32 psn_b)
{
	if (stamp_a != stamp_b)
		return tp_before(stamp_a, stamp_b);
	return tp_before(psn_a, psn_b);
}

/* Did all that matters arrive? What will never be sent again does not. */
static bool tp_tx_all_received(const struct tp_tx *t)
{
	return t->una == t->nxt || (t->halted && !tp_before(t->una, t->halt_psn));
}

static u32 tp_tx_stamp(struct tp_tx *t, u32 now_us)
{
	t->last_stamp = tp_before(t->last_stamp, now_us) ? now_us : t->last_stamp + 1;
	return t->last_stamp;
}

/**
 * tp_tx_init() - start a packet space
 * @t: filled
 * @space: TP_REQUEST or TP_RESPONSE
 * @dqpn: the peer's QPN
 * @ops: the message ring
 * @nops: its size, a power of two
 * @sent: TP_WINDOW records
 * @psn: first PSN, 24 bits
 * @payload: typical bytes of payload per packet
 * @paths: of the destination; NULL for a queue that is not connected and only flushes
 * @seed: of the path choice
 * @now: ns
 */
void tp_tx_init(struct tp_tx *t, enum tp_space space, u32 dqpn, struct tp_op *ops, u32 nops,
		struct tp_sent *sent, u32 psn, u32 payload, struct tp_paths *paths, u32 seed,
		u64 now)
{
	u32 base = paths ? READ_ONCE(paths->base_us) : 0;

	memset(t, 0, sizeof(*t));
	t->space = space;
	t->mpr = TP_MPR;
	t->dqpn = dqpn;
	t->ops = ops;
	t->op_mask = nops - 1;
	t->sent = sent;
	t->paths = paths;
	t->payload_hint = (u16)min_t(u32, payload, 0xffff);
	t->una = psn;
	t->exec = psn;
	t->nxt = psn;
	t->lost_from = psn;
	t->look_end = psn;
	t->wnd_end = psn + TP_WINDOW;
	t->srtt_us = base;
	t->rttvar_us = base / 2;
	t->rng = seed | 1;
	t->last_stamp = tp_us(now);
	t->rack_stamp = t->last_stamp;
	t->blamed_stamp = t->last_stamp;
	tp_cc_init(&t->cc, tp_tx_pkt_bytes(t), TP_WINDOW);
	tp_tx_wake(t, now);
}

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

/* @us doubled @backoff times, in ns */
static u64 tp_tx_backed_off(u32 us, u8 backoff)
{
	return 1000ULL * min_t(u64, (u64)us << min_t(u8, backoff, 20), TP_WAIT_MAX);
}

static void tp_tx_arm_probe(struct tp_tx *t, u64 now)
{
	t->probe_at_ns = max_t(u64, now + tp_tx_backed_off(tp_tx_pto_us(t), t->probe_backoff),
			       t->quiet_until_ns);
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

/* --- sending --- */

/**
 * tp_tx_find() - the message a packet belongs to
 * @t: packet space
 * @psn: in flight
 * Return: its index in the ring.
 */
u32 tp_tx_find(const struct tp_tx *t, u32 psn)
{
	u32 lo = 0, hi = t->started - t->head;

	while (hi - lo > 1) {
		u32 mid = lo + (hi - lo) / 2;

		if (tp_before(psn, tp_tx_op(t, t->head + mid)->first_psn))
			hi = mid;
		else
			lo = mid;
	}
	return t->head + lo;
}

/* Is the message before the first unstarted one only partly sent? */
static bool tp_tx_partial(const struct tp_tx *t)
{
	const struct tp_op *op = tp_tx_op(t, t->started - 1);

	return t->started != t->head && tp_before(t->nxt, op->first_psn + op->npkts);
}

/* Anything new that may leave? Passes over local work, which has no packets. */
static bool tp_tx_has_new(struct tp_tx *t, u32 may_start)
{
	if (t->halted)
		return false;
	if (tp_tx_partial(t))
		return true;
	for (; t->started != may_start; t->started++) {
		struct tp_op *op = tp_tx_op(t, t->started);

		if (op->kind != TP_NONE)
			return true;
		op->first_psn = t->nxt;
		op->npkts = 0;
	}
	return false;
}

static bool tp_tx_sendable(const struct tp_tx *t, u32 psn)
{
	return !t->halted || tp_before(psn, t->halt_psn);
}

/* First packet that waits to be sent again. */
static bool tp_tx_first_lost(struct tp_tx *t, u32 *psn)
{
	if (!t->lost)
		return false;
	if (tp_before(t->lost_from, t->una))
		t->lost_from = t->una;
	while (t->lost_from != t->nxt && !(tp_tx_rec(t, t->lost_from)->flags & TP_SENT_LOST))
		t->lost_from++;
	*psn = t->lost_from;
	return t->lost_from != t->nxt && tp_tx_sendable(t, t->lost_from);
}

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

	if (t->cc.cwnd <= third || !t->c_rtx || now_us - t->last_rtx_us > TP_LOSSY)
		return t->cc.cwnd;
	bdp = tp_tx_bdp(t);
	return min(t->cc.cwnd, max(third, 2 * bdp));
}

/* Packets that the congestion window allows now: a whole burst, or none. */
static u32 tp_tx_room(struct tp_tx *t, u32 max_pkts, u32 now_us)
{
	u32 pkt = tp_tx_pkt_bytes(t), cwnd = tp_tx_cwnd(t, now_us);
	u32 want = clamp_t(u32, cwnd / (TP_BURST_SHARE * pkt), 1, TP_BURST_MAX);

	want = min(want, max_pkts);
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
	if (q <= avg + TP_QUEUE_NOISE)
		return true;
	return ((u64)tp_tx_random(t) * q) >> 32 < avg;
}

/* A burst was heard: another may take its place on its EV. */
static void tp_tx_use_again(struct tp_tx *t, u8 ev)
{
	if (t->nagain == TP_DELAYS)
		memmove(t->again, t->again + 1, --t->nagain);
	t->again[t->nagain++] = ev;
}

/* For new data: an EV that serves, or another one. */
static u8 tp_tx_path(struct tp_tx *t, u32 now_us)
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
static u8 tp_tx_rtx_path(struct tp_tx *t, u8 avoid, u32 now_us)
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

/**
 * tp_tx_burst() - begin a burst
 * @t: packet space
 * @now: ns
 * @max_pkts: caller's limit
 * @may_start: messages with index before this may start
 * @b: filled
 * Return: false if nothing can be sent now.
 */
bool tp_tx_burst(struct tp_tx *t, u64 now, u32 max_pkts, u32 may_start, struct tp_burst *b)
{
	u32 now_us = tp_us(now);
	u32 room, psn;
	bool rtx;

	t->limited = false;
	if (now < t->retry_at_ns)
		return false;
	t->retry_at_ns = 0;
	rtx = tp_tx_first_lost(t, &psn);
	if (!rtx && (t->hold_new || t->nxt == t->wnd_end || !tp_tx_has_new(t, may_start)))
		return false;
	room = tp_tx_room(t, max_pkts, now_us);
	if (!room)
		return false;

	memset(b, 0, sizeof(*b));
	b->rtx = rtx;
	b->may_start = may_start;
	if (rtx) {
		b->ev = tp_tx_rtx_path(t, tp_tx_rec(t, psn)->ev, now_us);
		b->psn = psn;
		b->end = psn + min_t(u32, room, t->nxt - psn);
	} else {
		b->ev = tp_tx_path(t, now_us);
		b->psn = t->nxt;
		b->end = t->nxt + min_t(u32, room, t->wnd_end - t->nxt);
	}
	b->entropy = READ_ONCE(t->paths->p[b->ev].entropy);
	b->stamp = tp_tx_stamp(t, now_us);
	return true;
}

/* The message of a packet to be sent again. */
static bool tp_tx_locate_lost(struct tp_tx *t, const struct tp_burst *b, u32 *i)
{
	if (!(tp_tx_rec(t, b->psn)->flags & TP_SENT_LOST) || !tp_tx_sendable(t, b->psn))
		return false;
	*i = tp_tx_find(t, b->psn);
	return true;
}

/* The message of the next new packet. Numbers it, but does not start it yet. */
static bool tp_tx_locate_new(struct tp_tx *t, const struct tp_burst *b, u32 *i)
{
	struct tp_op *op;

	if (b->psn != t->nxt || t->nxt == t->wnd_end || !tp_tx_has_new(t, b->may_start))
		return false;
	if (tp_tx_partial(t)) {
		*i = t->started - 1;
		return true;
	}
	*i = t->started;
	op = tp_tx_op(t, *i);
	op->payload = max_t(u32, op->payload, 1);
	op->npkts = op->wire_len ? (op->wire_len - 1) / op->payload + 1 : 1;
	op->first_psn = t->nxt;
	op->msn = t->next_msn;
	return true;
}

/* Headers and place of packet @psn of message @i. */
static void tp_tx_fill(const struct tp_tx *t, u32 i, u32 psn, bool rtx, struct tp_out *o)
{
	const struct tp_op *op = tp_tx_op(t, i);
	u32 nr = psn - op->first_psn;
	struct tp_pkt *p = &o->pkt;

	memset(o, 0, sizeof(*o));
	o->op = i;
	o->offset = nr * op->payload;
	o->len = min_t(u32, op->payload, op->wire_len - o->offset);
	p->kind = op->kind;
	p->space = t->space;
	p->first = nr == 0;
	p->last = nr == op->npkts - 1;
	p->has_imm = p->last && op->has_imm;
	p->has_inv = p->last && op->has_inv;
	p->solicited = p->last && op->solicited;
	p->rtx = rtx;
	p->ordered = op->ordered;
	p->pad = -o->len & 3;
	p->dqpn = t->dqpn;
	p->psn = psn;
	p->msn = op->msn;
	p->rqmsn = op->rqmsn;
	p->dma_len = op->length;
	p->imm = op->imm;
	p->va = o->offset;
	if (op->kind != TP_SEND && t->space == TP_REQUEST) {
		p->va += op->raddr;
		p->rkey = op->rkey;
	}
	p->swap_add = op->swap_add;
	p->compare = op->compare;
}

/* Note a packet as sent, in its record and in all cursors. */
static void tp_tx_record(struct tp_tx *t, const struct tp_burst *b, const struct tp_out *o,
			 u32 size, u64 now)
{
	struct tp_sent *r = tp_tx_rec(t, b->psn);

	if (t->una == t->nxt) {		/* the first in flight after silence */
		tp_tx_wake(t, now);
		t->rack_stamp = b->stamp - 1;
		t->blamed_stamp = b->stamp - 1;
	}
	r->stamp = b->stamp;
	r->ev = b->ev;
	r->bytes = (u16)min_t(u32, size, 0xffff);
	r->flags = b->rtx ? TP_SENT_RTX : b->n ? 0 : TP_SENT_HEAD;
	t->inflight += r->bytes;
	t->last_sent_ns = now;
	if (b->rtx) {
		t->lost--;
		t->c_rtx++;
		t->last_rtx_us = tp_us(now);
		return;
	}
	if (o->op == t->started) {
		t->started++;
		t->next_msn++;
	}
	t->nxt++;
	t->c_sent++;
}

/* Does the sender have to wait now, for any reason? Then it wants an answer. */
static bool tp_tx_stalls(struct tp_tx *t, const struct tp_burst *b)
{
	if (t->inflight + tp_tx_pkt_bytes(t) > t->cc.cwnd)
		return true;
	if (t->lost)
		return false;
	return t->hold_new || t->nxt == t->wnd_end || !tp_tx_has_new(t, b->may_start);
}

/**
 * tp_tx_next() - next packet of a burst
 * @t: packet space
 * @now: ns
 * @b: the burst
 * @o: filled
 * Return: false when the burst is complete.
 */
bool tp_tx_next(struct tp_tx *t, u64 now, struct tp_burst *b, struct tp_out *o)
{
	u32 i, size;

	if (b->shut || b->psn == b->end)
		return false;
	if (!(b->rtx ? tp_tx_locate_lost(t, b, &i) : tp_tx_locate_new(t, b, &i)))
		return false;
	tp_tx_fill(t, i, b->psn, b->rtx, o);
	size = tp_wire_hdr_len(&o->pkt) + o->len + o->pkt.pad + TP_ICRC_LEN;
	if (b->n && size > b->seg_len)
		return false;
	if (!b->n)
		b->seg_len = size;
	b->shut = size < b->seg_len;
	tp_tx_record(t, b, o, size, now);
	b->op = i;
	b->psn++;
	b->n++;
	o->pkt.ack_req = tp_tx_stalls(t, b);
	return true;
}

static void tp_tx_lose(struct tp_tx *t, u32 psn)
{
	struct tp_sent *r = tp_tx_rec(t, psn);

	r->flags |= TP_SENT_LOST;
	t->inflight -= r->bytes;
	t->lost++;
	if (tp_before(psn, t->lost_from))
		t->lost_from = psn;
}

/**
 * tp_tx_dropped() - the local stack refused the end of a burst
 * @t: packet space
 * @b: the burst
 * @first_psn: first packet that did not leave
 */
void tp_tx_dropped(struct tp_tx *t, const struct tp_burst *b, u32 first_psn)
{
	u32 psn;

	if (b->psn - first_psn > b->n)
		return;
	for (psn = first_psn; psn != b->psn; psn++)
		if (!(tp_tx_rec(t, psn)->flags & (TP_SENT_RECEIVED | TP_SENT_LOST)))
			tp_tx_lose(t, psn);
	t->retry_at_ns = t->last_sent_ns + TP_LOCAL_RETRY * 1000ULL;
}

/**
 * tp_tx_halt() - send nothing at or after a PSN any more
 * @t: packet space
 * @psn: not beyond the next new one
 */
void tp_tx_halt(struct tp_tx *t, u32 psn)
{
	if (!t->halted || tp_before(psn, t->halt_psn))
		t->halt_psn = psn;
	t->halted = true;
}

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
	u32 now_us = tp_us(now);

	if (!t->probe_wanted)
		return false;
	t->probe_wanted = false;
	t->probe_open = true;
	t->probe_id = (t->probe_id + 1) & TP_PROBE_ID;
	t->probe_ev = tp_path_pick(t->paths, &t->rng, TP_NO_PATH, now_us);
	t->probe_stamp = tp_tx_stamp(t, now_us);
	*ev = t->probe_ev;
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

/* --- acknowledgements --- */

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
		tp_tx_needless(t, TP_REO_DUP, now_us);
}

static void tp_tx_needed(struct tp_tx *t)
{
	if (t->reo && ++t->reo_good >= TP_REO_DECAY) {
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
	if (lost || (rtx && n->now_us - r->stamp < READ_ONCE(t->paths->base_us))) {
		tp_tx_needless(t, TP_REO_MAX, n->now_us);
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
	tp_tx_look_until(t, t->una);
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

/* The answer to the last probe counts as a packet that was received. */
static bool tp_tx_take_probe(struct tp_tx *t, u64 now, const struct tp_ack *a, struct tp_news *n)
{
	if (!a->probe)
		return false;
	if (a->entropy)
		tp_path_revived(t->paths, a->entropy);
	if (tp_tx_all_received(t))
		t->last_progress_ns = now;	/* the peer lives, and only its own side makes us wait */
	if (!t->probe_open || a->probe_id != t->probe_id)
		return false;
	t->probe_open = false;
	t->silent = 0;
	t->rto_backoff = 0;
	if (!tp_tx_all_received(t))	/* what is resent now may be lost again, but not by silence */
		t->probe_backoff = min_t(u8, t->probe_backoff, TP_SILENT_RTO);
	tp_tx_arm(t, now);
	tp_tx_look_until(t, t->nxt);
	tp_news_note(t, n, t->probe_ev, t->probe_stamp, t->nxt, true);
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
	t->rttvar_us = t->rttvar_us - t->rttvar_us / 4 + err / 4;
	t->srtt_us = t->srtt_us - t->srtt_us / 8 + us / 8;
}

/* The longest RTT seen is forgotten slowly: acks may come back over any path. */
static void tp_tx_forget_slow(struct tp_tx *t, u32 now_us)
{
	if (now_us - t->slow_at_us < TP_SLOW_STEP)
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
		bool ce = a->ce && READ_ONCE(t->paths->p[ev].entropy) == a->entropy;
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

/* Median of the latest queueing delays, us. */
static u32 tp_tx_queue_us(const struct tp_tx *t)
{
	u16 v[TP_DELAYS];
	u32 i, j;

	for (i = 0; i < TP_DELAYS; i++) {
		u16 x = t->q_us[i];

		for (j = i; j && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
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
	return t->reo ? TP_REO_WAIT << t->reo : 0;
}

/* So much later must something be sent, whatever its path, to arrive after a packet of this EV. */
static u32 tp_tx_patience_us(const struct tp_tx *t, u8 ev)
{
	return max_t(u32, tp_path_patience_us(t->paths, ev), t->slow_us + t->slow_us / 4);
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

static void tp_tx_blame(struct tp_tx *t, const struct tp_sent *r, u32 now_us)
{
	if (r->stamp == t->blamed_stamp)
		return;
	t->blamed_stamp = r->stamp;
	tp_path_lost(t->paths, r->ev, now_us);
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
		tp_tx_blame(t, r, now_us);
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
 * Return: true if anything new was received, executed or found lost.
 */
bool tp_tx_ack(struct tp_tx *t, u64 now, const struct tp_ack *a)
{
	struct tp_news n;
	struct tp_scan s = { .news = &n };
	u32 exec, cum;
	bool moved;

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
	tp_tx_take_probe(t, now, a, &n);
	tp_tx_feed_paths(t, a, &n);
	tp_tx_find_lost(t, &s, now);
	if (n.bytes)
		tp_cc_ack(&t->cc, n.bytes, tp_tx_queue_us(t), READ_ONCE(t->paths->base_us), a->ce,
			  t->limited, n.now_us);
	if (n.any || moved)
		tp_tx_wake(t, now);
	return n.any || moved || s.bytes;
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
		tp_tx_blame(t, r, now_us);
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
		t->probe_wanted |= tp_diff(tp_us(t->rack_at_ns), t->last_stamp) > 0;
		t->rack_at_ns = 0;
	}
	if (rto && t->silent >= TP_SILENT_RTO) {
		tp_tx_rto(t, now);
		rto = false;
	}
	if (now >= t->probe_at_ns) {
		t->probe_wanted = true;
		t->silent += t->silent < TP_SILENT_RTO;
		t->probe_backoff += t->probe_backoff < 16;
		tp_tx_arm_probe(t, now);
	}
	if (rto)
		t->rto_at_ns = t->probe_at_ns;	/* not before the probes had their time */
}
