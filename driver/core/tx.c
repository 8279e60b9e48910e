// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The sending side of one packet space. tx.h has the picture and the rules;
 * this file builds bursts, tx_path.c says where and how much, tx_time.c keeps
 * time and asks, tx_ack.c learns from answers.
 *
 * Every packet in flight has an 8-byte record: when it was sent, on which EV.
 * Time of sending is a "stamp", microseconds, strictly increasing from burst
 * to burst, so (stamp, PSN) is the order in which packets left.
 *
 * A burst is cut by what comes first: the window, the caller's limit, the end
 * of what may start, a packet that is longer than the first, or one after a
 * shorter one. Packets are recorded as they are handed out.
 */
#include "tx_int.h"

enum {
	TP_STAMP_AHEAD	= 10000,	/* us */
	TP_LOCAL_RETRY	= 1000,		/* us, after a refusal of the local stack */
	TP_ESCORTS	= 3,
	TP_ROUNDS_MAX	= 16,
};

/* Bursts at one moment run ahead of the clock by 1 us each; further ahead it was a wrap ago. */
u32 tp_tx_stamp(struct tp_tx *t, u32 now_us)
{
	if (t->una == t->nxt && tp_diff(t->last_stamp, now_us) > TP_STAMP_AHEAD)
		t->last_stamp = now_us - 1;
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
 * @psn: first PSN, 24 bits
 * @payload: typical bytes of payload per packet
 * @paths: of the destination; NULL for a queue that is not connected and only flushes
 * @seed: of the path choice
 * @now: ns
 */
void tp_tx_init(struct tp_tx *t, enum tp_space space, u32 dqpn, struct tp_op *ops, u32 nops,
		u32 psn, u32 payload, struct tp_paths *paths, u32 seed, u64 now)
{
	u32 base = paths ? READ_ONCE(paths->base_us) : 0;

	memset(t, 0, sizeof(*t));
	t->space = space;
	t->mpr = TP_MPR;
	t->dqpn = dqpn;
	t->ops = ops;
	t->op_mask = nops - 1;
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
	t->last_stamp = tp_us(now) - 1;
	t->rack_stamp = t->last_stamp;
	t->blamed_stamp = t->last_stamp;
	tp_cc_init(&t->cc, tp_tx_pkt_bytes(t), TP_WINDOW);
	tp_tx_wake(t, now);
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

/**
 * tp_tx_use_credit() - the peer grants credit
 * @t: packet space; what it sent so far is counted
 */
void tp_tx_use_credit(struct tp_tx *t)
{
	t->credited = true;
	t->credit_limit = tp_credit_first(t->payload_hint);
}

/**
 * tp_tx_use_records() - another ring
 * @t: packet space
 * @sent: the ring, or NULL
 * @n: its size: 0 or a power of two, no less than what is in flight
 * Return: the one that was there; NULL if none.
 */
struct tp_sent *tp_tx_use_records(struct tp_tx *t, struct tp_sent *sent, u32 n)
{
	struct tp_tx old = { .sent = t->sent, .records = t->records };
	u32 psn;

	t->sent = sent;
	t->records = (u16)n;
	if (n)
		memset(sent, 0, n * sizeof(*sent));
	/* The one before the oldest, too: it may have been of the same burst, see tp_tx_silent(). */
	if (n && old.records)
		for (psn = t->una - 1; psn != t->nxt; psn++)
			*tp_tx_rec(t, psn) = *tp_tx_rec(&old, psn);
	if (t->more)
		t->retry_at_ns = 0;
	t->more = false;
	return old.sent;
}

static bool tp_tx_no_credit(const struct tp_tx *t)
{
	return t->credited && !tp_before(t->credit_used, t->credit_limit);
}

/* Is there a new packet that the peer's window and credit let go, and a record for it? */
static bool tp_tx_may_send_new(struct tp_tx *t, u32 may_start)
{
	if (t->nxt == t->wnd_end || tp_tx_no_credit(t) || !tp_tx_has_new(t, may_start))
		return false;
	t->more = t->nxt - t->una >= t->records;
	return !t->more;
}

/* Nothing new may leave: count it if that is for want of credit, until something does. */
static void tp_tx_note_starved(struct tp_tx *t, u32 may_start)
{
	if (t->starved || t->hold_new || !tp_tx_no_credit(t) || !tp_tx_has_new(t, may_start))
		return;
	t->starved = true;
	t->c_starved++;
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
	t->more = false;
	if (now < t->retry_at_ns)
		return false;
	t->retry_at_ns = 0;
	rtx = tp_tx_first_lost(t, &psn);
	if (!rtx && (t->hold_new || !tp_tx_may_send_new(t, may_start))) {
		if (t->more && !t->records)	/* no ack will come to try again */
			t->retry_at_ns = now + TP_LOCAL_RETRY * 1000ULL;
		tp_tx_note_starved(t, may_start);
		return false;
	}
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

	if (b->psn != t->nxt || !tp_tx_may_send_new(t, b->may_start))
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

/*
 * Nothing follows this packet, sent again, by which a second loss would be seen: a probe does.
 * Not for ever, where probes pass and packets don't.
 */
static void tp_tx_escort(struct tp_tx *t, const struct tp_burst *b)
{
	if (t->lost || tp_tx_may_send_new(t, b->may_start))
		return;
	t->probe_wanted |= t->rounds <= TP_ESCORTS;
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
		if (b->psn == t->una)
			t->rounds += t->rounds < TP_ROUNDS_MAX;
		tp_tx_escort(t, b);
		return;
	}
	if (o->op == t->started) {
		t->started++;
		t->next_msn++;
	}
	t->nxt++;
	t->starved = false;
	t->credit_used += tp_credit_cost(o->len);
	t->c_sent++;
}

/* Does the sender have to wait now, for any reason? Then it wants an answer. */
static bool tp_tx_stalls(struct tp_tx *t, const struct tp_burst *b)
{
	if (t->inflight + tp_tx_pkt_bytes(t) > t->cc.cwnd)
		return true;
	if (t->lost)
		return false;
	return t->hold_new || !tp_tx_may_send_new(t, b->may_start);
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

/* A packet is to be sent again. */
void tp_tx_lose(struct tp_tx *t, u32 psn)
{
	struct tp_sent *r = tp_tx_rec(t, psn);

	r->flags |= TP_SENT_LOST;
	t->inflight -= r->bytes;
	t->lost++;
	if (tp_before(psn, t->lost_from))
		t->lost_from = psn;
}

/* The path of a lost packet is told, once per burst. @silent: nothing was heard of it since. */
void tp_tx_blame(struct tp_tx *t, const struct tp_sent *r, bool silent, u32 now_us)
{
	if (r->stamp == t->blamed_stamp)
		return;
	t->blamed_stamp = r->stamp;
	tp_path_lost(t->paths, r->ev, now_us);
	if (silent)
		tp_path_silent(t->paths, r->ev, now_us);
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
 * tp_tx_unreadable() - the bytes of the burst's latest packet can't be read (any more)
 * @t: packet space
 * @b: the burst
 * The peer had its reasons to let the memory go before this moment, so the
 * answer to any later probe reports the packet. Until then nothing is resent.
 * Return: true: the peer needs it, or it was never sent.
 */
bool tp_tx_unreadable(struct tp_tx *t, const struct tp_burst *b)
{
	u32 psn = b->psn - 1;

	if (!b->rtx)
		return true;
	if (t->doubt != TP_DOUBT_NONE && t->doubt_psn == psn) {
		if (t->doubt == TP_DOUBT_ANSWERED)
			return true;
	} else {
		t->doubt = TP_DOUBT_ASKED;
		t->doubt_psn = psn;
		t->doubt_id = (t->probe_id + 1) & TP_PROBE_ID;
		t->probe_wanted = true;
	}
	tp_tx_dropped(t, b, psn);
	if (!t->probe_wanted)	/* asked: its answer ends the wait */
		t->retry_at_ns = max(t->retry_at_ns, t->probe_at_ns);
	return false;
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
