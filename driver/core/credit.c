// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receiver credits: see credit.h. A QP stands in the queue while it has less
 * outstanding than its share. Who was active is known per epoch: long enough
 * for everybody to have had a turn, so a QP that stops sending is not counted
 * for long, and counting costs a comparison per packet.
 */
#include "credit.h"

enum {
	GRANT		= 4,		/* packets */
	EPOCH_TURNS	= 4,		/* times what all need for a turn */
	EPOCH_MIN_NS	= 200000,
};

static u64 time_of(const struct tp_pacer *p, u64 bytes)
{
	return div_u64(bytes * 1000000, p->rate);
}

void tp_pacer_init(struct tp_pacer *p, u32 payload, u32 rate, u32 budget, u64 now)
{
	*p = (struct tp_pacer) {
		.packet = tp_credit_cost(payload),
		.rate = max_t(u32, rate, 1),
		.at_ns = now,
		.epoch = 2,
		.epoch_ns = now,
	};
	p->budget = budget * p->packet;
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

static void roll_epoch(struct tp_pacer *p, u64 now)
{
	if (now < p->epoch_ns)
		return;
	p->active = p->seen;
	p->seen = 0;
	p->epoch++;
	p->epoch_ns = now + max_t(u64, EPOCH_MIN_NS,
				  EPOCH_TURNS * time_of(p, (u64)active(p) * share(p)));
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

void tp_credit_got(struct tp_pacer *p, struct tp_credit *c, u32 len, bool rtx, u64 now)
{
	roll_epoch(p, now);
	if (c->epoch != p->epoch) {
		if (p->epoch - c->epoch > 1)	/* what it may send unasked takes its time, too */
			p->at_ns = max(p->at_ns, now) + time_of(p, max_t(s32, c->limit - c->got, 0));
		c->epoch = p->epoch;
		p->seen++;
	}
	c->got += tp_credit_cost(len);
	if (!c->queued && (s32)(c->limit - c->got) < (s32)share(p))
		enqueue(p, c, rtx);
}

u64 tp_pacer_deadline(const struct tp_pacer *p)
{
	return p->first ? p->at_ns : ~0ULL;
}

struct tp_credit *tp_pacer_grant(struct tp_pacer *p, u64 now)
{
	struct tp_credit *c = p->first;
	u32 bytes;

	if (!c || now < p->at_ns)
		return NULL;
	tp_credit_leave(p, c);
	bytes = GRANT * p->packet;
	c->limit += bytes;
	p->at_ns = max(p->at_ns, now - min_t(u64, now, time_of(p, bytes))) + time_of(p, bytes);
	if ((s32)(c->limit - c->got) < (s32)share(p))
		enqueue(p, c, false);
	return c;
}
