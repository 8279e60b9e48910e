/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receiver credits: the receiver says how much each QP may send, so that many
 * senders share its link instead of overflowing the port in front of it.
 *
 * Bytes are counted from the start of the connection, by both ends alike: of
 * each packet, once, its payload and TP_CREDIT_PACKET for the rest. The limit is
 * cumulative and stands in every answer, so a lost grant costs nothing but time:
 * a sender without credit asks by its probe timer. What is sent again needs no
 * credit. A QP begins with TP_UNSCHEDULED packets. From then on it has what the
 * pacer gives: one per device, as fast as its link is, in turn, QPs that repair
 * losses first (once an epoch). A pacer that is asked late makes good for it, up
 * to what the budget takes on the link.
 *
 * How much a QP may have outstanding is its share of what keeps the link busy:
 * budget / active QPs. So few have what a round trip needs, and many together
 * have no more.
 */
#ifndef TP_CREDIT_H
#define TP_CREDIT_H

#include "env.h"

enum {
	TP_CREDIT_PACKET	= 128,	/* bytes, for each packet besides its payload */
	TP_CREDIT_UNIT		= 256,	/* bytes, of the limit on the wire */
	TP_UNSCHEDULED		= 16,	/* packets */
	TP_SHARE_LEAST		= 8,	/* packets */
	TP_BUDGET_MAX		= 65536, /* packets */
};

/**
 * struct tp_credit - what one QP may send to us
 * @next, @prev: in the pacer's queue, if @queued
 * @got: bytes received
 * @limit: bytes granted; @limit - @got are outstanding
 * @unasked: of these, bytes that the pacer has no time reserved for
 * @epoch: of the pacer, when something came last; 0: nothing did
 * @preferred: epoch in which it came first for a repair
 */
struct tp_credit {
	struct tp_credit *next, *prev;
	u32 got;
	u32 limit;
	u32 unasked;
	u32 epoch, preferred;
	bool queued;
};

/**
 * struct tp_pacer - gives credit to the QPs of a device; the caller serialises
 * @first, @last: QPs that want credit, in their turn
 * @packet: bytes that a full packet counts
 * @budget: bytes that may be outstanding in all
 * @rate: bytes per ms to give
 * @at_ns: nothing is given before
 * @begin_ns: until then the link has what QPs send as they begin; little is given
 * @epoch, @epoch_ns: number of the current one; its end
 * @active, @seen: QPs that sent in the last epoch, in this one
 */
struct tp_pacer {
	struct tp_credit *first, *last;
	u32 packet;
	u32 budget;
	u32 rate;
	u32 epoch;
	u32 active, seen;
	u64 at_ns, begin_ns;
	u64 epoch_ns;
};

/**
 * tp_pacer_init() - a device's pacer
 * @payload: of a full packet, bytes
 * @rate: bytes per ms to give in all
 * @budget: packets that may be outstanding in all, what a round trip needs; at most TP_BUDGET_MAX
 */
void tp_pacer_init(struct tp_pacer *p, u32 payload, u32 rate, u32 budget, u64 now);

/* The link has changed; arguments as above. */
void tp_pacer_set(struct tp_pacer *p, u32 payload, u32 rate, u32 budget);

/* A QP's credit, at its first PSN. */
void tp_credit_init(struct tp_credit *c, u32 payload);

/**
 * tp_credit_got() - new packets came
 * @bytes: sum of their tp_credit_cost()
 * @rtx: one of them had been sent before
 */
void tp_credit_got(struct tp_pacer *p, struct tp_credit *c, u32 bytes, bool rtx, u64 now);

/* The QP goes away, or leaves RTR and RTS; nothing if it is not queued. */
void tp_credit_leave(struct tp_pacer *p, struct tp_credit *c);

/* Time of the next grant, ns; ~0: nobody wants one. */
u64 tp_pacer_deadline(const struct tp_pacer *p);

/* The QP whose turn it is was given credit: tell it. Return: NULL if it is not time, or nobody's turn. */
struct tp_credit *tp_pacer_grant(struct tp_pacer *p, u64 now);

/* Bytes that a packet counts. */
static inline u32 tp_credit_cost(u32 len)
{
	return len + TP_CREDIT_PACKET;
}

/* The limit at the first PSN, of which both ends know: @payload of a full packet, bytes. */
static inline u32 tp_credit_first(u32 payload)
{
	return TP_UNSCHEDULED * tp_credit_cost(payload);
}

#endif
