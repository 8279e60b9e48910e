/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Index rings as seen by a process: all of the arithmetic and all of the
 * barriers of the provider are here. What the words mean and which barrier
 * pairs with which is said in spray-abi.h.
 *
 * Indices run freely through 32 bits; only differences and the low bits are
 * ever looked at, so wrapping needs no code. Each side keeps a private copy of
 * the index it writes and never reads back the shared one.
 *
 * Nothing here locks. A ring has one lock for its user side, held by the caller.
 */
#ifndef SPRAY_RING_H
#define SPRAY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spray-abi.h"

static inline uint32_t spray_load_acquire(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void spray_store_release(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* Orders an earlier store before a later load: the one thing acquire and release do not. */
static inline void spray_full_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* A ring of work requests: the process produces, the kernel consumes. */
struct spray_wr_ring {
	uint8_t *slots;
	uint32_t mask;		/* slots - 1 */
	uint32_t slot_size;	/* bytes */
	uint32_t depth;		/* most that may be outstanding, <= slots */
	uint32_t head;		/* next index to fill; *prod lags behind until published */
	uint32_t *prod;		/* shared, ours */
	const uint32_t *cons;	/* shared, the kernel's */
	const uint32_t *need_doorbell;	/* receives: shared, the kernel's */
};

/* The slot to fill next, or NULL while all are in use. It is not the kernel's before it is published. */
static inline void *spray_wr_slot(const struct spray_wr_ring *r)
{
	if (r->head - spray_load_acquire(r->cons) >= r->depth)
		return NULL;
	return r->slots + (size_t)(r->head & r->mask) * r->slot_size;
}

/* Hand over every slot below head. */
static inline void spray_wr_publish(struct spray_wr_ring *r)
{
	spray_store_release(r->prod, r->head);
}

/* After publishing: the sleeping-receiver pair of spray-abi.h. */
static inline bool spray_wr_receiver_sleeps(const struct spray_wr_ring *r)
{
	spray_full_barrier();
	return __atomic_load_n(r->need_doorbell, __ATOMIC_RELAXED);
}

/* After a RESET: the kernel has set its index to 0 and does not look at the ring. */
static inline void spray_wr_rewind(struct spray_wr_ring *r)
{
	r->head = 0;
	spray_wr_publish(r);
}

/* A completion ring: the kernel produces, the process consumes. */
struct spray_cq_ring {
	struct spray_cq_ctl *ctl;
	struct spray_cqe *entries;
	uint32_t mask;		/* entries - 1 */
	uint32_t cons;		/* what ctl->cons says */
};

static inline struct spray_cqe *spray_cq_entry(const struct spray_cq_ring *r, uint32_t index)
{
	return &r->entries[index & r->mask];
}

/* How many entries can be read from cons on. */
static inline uint32_t spray_cq_pending(const struct spray_cq_ring *r)
{
	return spray_load_acquire(&r->ctl->prod) - r->cons;
}

/* Give back n entries that were read. */
static inline void spray_cq_advance(struct spray_cq_ring *r, uint32_t n)
{
	if (!n)
		return;
	r->cons += n;
	spray_store_release(&r->ctl->cons, r->cons);
}

/*
 * To the ring of another size that the kernel writes already. It reckons with the
 * entries that waited, [cons, prod) of the old one: their slots are free. Some may
 * have been polled since the kernel looked, so cons is told anew.
 */
static inline void spray_cq_move(struct spray_cq_ring *to, const struct spray_cq_ring *from)
{
	uint32_t prod = from->cons + spray_cq_pending(from);
	uint32_t i;

	for (i = from->cons; i != prod; i++)
		*spray_cq_entry(to, i) = *spray_cq_entry(from, i);
	to->cons = from->cons;
	spray_store_release(&to->ctl->cons, to->cons);
}

/*
 * Remove the entries of a QP that is gone (destroyed or reset); the rest keeps
 * its order. Survivors move up towards prod, newest first, then cons jumps over
 * what became free:
 *
 *	cons            prod            cons'       prod
 *	 a1 X b1 X a2 b2 |       ->      a1 b1 a2 b2 |
 *
 * The kernel may append all the while. It writes only at its prod and above,
 * below cons + size. Every slot that is read or written here lies in
 * [cons, prod) for the prod loaded first, and cons does not move until the
 * release store at the end: the two never meet in a slot, even in a full ring,
 * and no slot is handed back before the last access to it. What is appended
 * meanwhile is found behind prod, untouched. It cannot belong to the dead QP,
 * because the kernel had returned from the call that killed it before prod was
 * loaded, and a QPN is not handed out again until the whole space was used.
 *
 * The first @stay entries are left in, whosever they are.
 *
 * armed is left alone: removal is not a completion, and an event that was
 * asked for is still owed for the next one.
 */
static inline void spray_cq_remove_qp(struct spray_cq_ring *r, uint32_t qpn, uint32_t stay)
{
	uint32_t prod = r->cons + spray_cq_pending(r);
	uint32_t removed = 0;
	uint32_t i;

	for (i = prod; i != r->cons; i--) {
		const struct spray_cqe *cqe = spray_cq_entry(r, i - 1);

		if (cqe->qpn == qpn && i - 1 - r->cons >= stay)
			removed++;
		else if (removed)
			*spray_cq_entry(r, i - 1 + removed) = *cqe;
	}
	spray_cq_advance(r, removed);
}

/*
 * Ask for an event. A request for any completion that is still pending is the
 * stronger one and stays. The caller of ibv_req_notify_cq() polls once more.
 */
static inline void spray_cq_arm(struct spray_cq_ring *r, bool solicited_only)
{
	uint32_t none = SPRAY_ARM_NONE;

	if (solicited_only)
		__atomic_compare_exchange_n(&r->ctl->armed, &none, SPRAY_ARM_SOLICITED, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&r->ctl->armed, SPRAY_ARM_ANY, __ATOMIC_RELAXED);
	spray_full_barrier();
}

#endif
