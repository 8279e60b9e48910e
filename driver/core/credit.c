// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receiver credits: see credit.h. A QP stands in the queue while it has less
 * outstanding than its share. Who was active is known per epoch: long enough
 * for everybody to have had a turn, so a QP that stops sending is not counted
 * for long, and counting costs a comparison per call.
 *
 * What a QP may send unasked is on nobody's schedule, and the pacer makes room
 * for it. At the begin of a QP that is all it may send, in advance: where many
 * begin together, that is what fills the queue. Meanwhile little is granted, but
 * not nothing: where QPs begin all the time, the others still go on. Of a QP that
 * paused with credit left it is what arrives, not what might: many that send a
 * little now and then take no more of the link than they use.
 *
 * Peers are not trusted: one that sends in spite of its limit, or calls
 * everything a repair, gets its turn like others and no more.
 */
#include "credit.h"

enum {
	GRANT		= 4,		/* packets */
	EPOCH_TURNS	= 4,		/* times what all need for a turn */
	EPOCH_MIN_NS	= 200000,
	EPOCH_FIRST	= 2,
	BEGIN_SLOWER	= 8,		/* times, while what QPs send as they begin is on its way */
};

static u64 time_of(const struct tp_pacer *p, u64 bytes)
{
	return div_u64(bytes * 1000000, p->rate);
}

void tp_pacer_set(struct tp_pacer *p, u32 payload, u32 rate, u32 budget)
{
	p->packet = tp_credit_cost(payload);
	p->rate = max_t(u32, rate, 1);
	p->budget = min_t(u32, budget, TP_BUDGET_MAX) * p->packet;
}

void tp_pacer_init(struct tp_pacer *p, u32 payload, u32 rate, u32 budget, u64 now)
{
	*p = (struct tp_pacer) {
		.at_ns = now,
		.epoch = EPOCH_FIRST,
		.epoch_ns = now,
	};
	tp_pacer_set(p, payload, rate, budget);
}

void tp_credit_init(struct tp_credit *c, u32 payload)
{
	*c = (struct tp_credit) { .limit = tp_credit_first(payload) };
}

static u32 active(const struct tp_pacer *p)
{
	return max_t(u32, max(p->active, p->seen), 1);
}

static u32 share(const struct tp_pacer *p)
{
	return max_t(u32, p->budget / active(p), TP_SHARE_LEAST * p->packet);
}

static u64 epoch_length(const struct tp_pacer *p)
{
	return max_t(u64, EPOCH_MIN_NS, EPOCH_TURNS * time_of(p, (u64)active(p) * share(p)));
}

/* If nobody sent for as long as an epoch, all paused: then the epoch before is not the one that was. */
static void roll_epoch(struct tp_pacer *p, u64 now)
{
	bool paused;

	if (now < p->epoch_ns)
		return;
	paused = now - p->epoch_ns >= epoch_length(p);
	p->active = paused ? 0 : p->seen;
	p->seen = 0;
	p->epoch += paused ? 2 : 1;
	if (p->epoch < EPOCH_FIRST)	/* wrapped: 0 says that a QP has not begun */
		p->epoch = EPOCH_FIRST;
	p->epoch_ns = now + epoch_length(p);
}

static void enqueue(struct tp_pacer *p, struct tp_credit *c, bool first)
{
	struct tp_credit *prev = first ? NULL : p->last, *next = first ? p->first : NULL;

	c->queued = true;
	c->prev = prev;
	c->next = next;
	*(prev ? &prev->next : &p->first) = c;
	*(next ? &next->prev : &p->last) = c;
}

void tp_credit_leave(struct tp_pacer *p, struct tp_credit *c)
{
	if (!c->queued)
		return;
	*(c->prev ? &c->prev->next : &p->first) = c->next;
	*(c->next ? &c->next->prev : &p->last) = c->prev;
	c->queued = false;
}

/* The link has so much to carry. Packets come in batches and timers fire late: that is made good for. */
static void take_time(struct tp_pacer *p, u64 bytes, u64 now)
{
	u64 late = time_of(p, max_t(u32, p->budget, GRANT * p->packet));

	p->at_ns = max(p->at_ns, now - min(now, late)) + time_of(p, bytes);
}

static s32 outstanding(const struct tp_credit *c)
{
	return (s32)(c->limit - c->got);
}

static void note_active(struct tp_pacer *p, struct tp_credit *c, u64 now)
{
	roll_epoch(p, now);
	if (c->epoch == p->epoch)
		return;
	if (!c->epoch) {
		p->at_ns = max(p->at_ns, now);
		p->begin_ns = max(p->begin_ns, now) + time_of(p, c->limit);
	} else if (p->epoch - c->epoch > 1) {
		c->unasked = max_t(s32, outstanding(c), 0);
	}
	c->epoch = p->epoch;
	p->seen++;
}

/* What was sent unasked took its time on the link. */
static void take_unasked(struct tp_pacer *p, struct tp_credit *c, u32 bytes, u64 now)
{
	bytes = min(bytes, c->unasked);
	c->unasked -= bytes;
	if (bytes)
		take_time(p, bytes, now);
}

void tp_credit_got(struct tp_pacer *p, struct tp_credit *c, u32 bytes, bool rtx, u64 now)
{
	s32 debt = TP_SHARE_LEAST * p->packet;
	bool first;

	note_active(p, c, now);
	take_unasked(p, c, bytes, now);
	c->got += bytes;
	if (outstanding(c) < -debt)	/* it does not heed us, or did not know: no more is held against it */
		c->limit = c->got - debt;
	if (c->queued || outstanding(c) >= (s32)share(p))
		return;
	first = rtx && c->preferred != p->epoch;
	if (first)
		c->preferred = p->epoch;
	enqueue(p, c, first);
}

u64 tp_pacer_deadline(const struct tp_pacer *p)
{
	return p->first ? p->at_ns : ~0ULL;
}

struct tp_credit *tp_pacer_grant(struct tp_pacer *p, u64 now)
{
	struct tp_credit *c = p->first;
	u32 bytes = GRANT * p->packet, slower = now < p->begin_ns ? BEGIN_SLOWER : 1;

	if (!c || now < p->at_ns)
		return NULL;
	tp_credit_leave(p, c);
	c->limit += bytes;
	take_time(p, (u64)bytes * slower, now);
	if (outstanding(c) < (s32)share(p))
		enqueue(p, c, false);
	return c;
}
