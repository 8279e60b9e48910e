/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues: one ring of receives that several QPs draw from.
 *
 * A QP takes an entry for one message at a time, the next that needs a receive,
 * when the first packet of it wants to be placed. The entry is copied out, so
 * its slot is free again at once and entries may complete in any order. Data of
 * later SENDs are held meanwhile: a QP with a hole in front must not eat up what
 * the others wait for. So a QP keeps at most one entry from the rest (C8).
 *
 * QPs that find none wait in a line. Whatever is posted is granted to the line
 * from its head, one entry each; who is not in line gets what is left over. A
 * grant is woken once, and passes on if its QP goes away: no waiter is passed
 * over, none is forgotten.
 */
#ifndef SPRAY_SRQ_H
#define SPRAY_SRQ_H

#include <linux/interrupt.h>
#include <linux/mutex.h>
#include <linux/list.h>

#include "../uapi/spray-abi.h"
#include "dev.h"

/**
 * struct spray_srq_mem - what a resize replaces
 * @slots: struct spray_rqe with elements behind it. The user's ring, or memory of ours.
 * @mask: entries - 1
 * @entries: a power of two
 * @ctl: shared page of user queues, NULL for kernel queues
 * @mmap: user queues: owns the memory of @ctl and @slots
 */
struct spray_srq_mem {
	void *slots;
	u32 mask;
	u32 entries;
	struct spray_srq_ctl *ctl;
	struct spray_mmap *mmap;
};

/**
 * struct spray_srq - a shared receive queue
 * @resize: one at a time; outside @lock
 * @lock: all below; irqsave, a leaf: taken inside a QP's resp.lock
 * @m: the ring
 * @slot: bytes of one of its slots
 * @max_sge: elements that an entry may have
 * @prod: entries posted, as far as known
 * @cons: entries taken out of the ring
 * @returned: struct spray_srq_entry that QPs gave back; taken before all others
 * @n_returned: how many
 * @waiters: struct spray_srq_seat, in the order of their coming
 * @granted: how many of them have an entry reserved
 * @limit: fewer entries than this raise the event, once; 0: not armed
 * @limit_due: the task has to raise it
 */
struct spray_srq {
	struct ib_srq ib;
	struct mutex resize;
	spinlock_t lock;
	struct spray_srq_mem m;
	u32 slot;
	u32 max_sge;
	u32 prod;
	u32 cons;
	struct list_head returned;
	u32 n_returned;
	struct list_head waiters;
	u32 granted;
	u32 limit;
	bool limit_due;
	struct tasklet_struct task;
};

/* A receive outside the ring: bound to a QP, or given back. */
struct spray_srq_entry {
	struct list_head link;
	u64 slot[];		/* struct spray_rqe and its elements */
};

/**
 * struct spray_srq_seat - what a QP is to its shared receive queue
 * @srq: NULL: the QP has a receive queue of its own
 * @link, @waiting, @granted: its place in the line; under the queue's lock
 * @wake: scheduled when an entry is granted
 * @entry: room for the receive that is bound; this and the rest under resp.lock
 * @spare: the next @entry, should a RESET give that one back
 * @bound: @entry holds a receive
 */
struct spray_srq_seat {
	struct spray_srq *srq;
	struct list_head link;
	bool waiting;
	bool granted;
	struct tasklet_struct *wake;
	struct spray_srq_entry *entry;
	struct spray_srq_entry *spare;
	bool bound;
};

static inline struct spray_srq *to_ssrq(struct ib_srq *ib)
{
	return container_of(ib, struct spray_srq, ib);
}

static inline struct spray_sge *spray_rqe_sge(struct spray_rqe *rqe)
{
	return (struct spray_sge *)(rqe + 1);
}

static inline void spray_fill_sges(struct spray_sge *to, const struct ib_sge *from, int n)
{
	int i;

	for (i = 0; i < n; i++)
		to[i] = (struct spray_sge) {
			.addr = from[i].addr,
			.length = from[i].length,
			.lkey = from[i].lkey,
		};
}

static inline struct spray_rqe *spray_entry_rqe(struct spray_srq_entry *e)
{
	return (struct spray_rqe *)e->slot;
}

/* A kernel consumer's work request into a slot. */
static inline void spray_rqe_fill(struct spray_rqe *rqe, const struct ib_recv_wr *wr)
{
	rqe->wr_id = wr->wr_id;
	rqe->num_sge = wr->num_sge;
	spray_fill_sges(spray_rqe_sge(rqe), wr->sg_list, wr->num_sge);
}

/* An entry of a user's ring: its fixed part, then as much behind it as our copy of that says. */
static inline void spray_rqe_copy(struct spray_rqe *to, const void *from, u32 max_sge)
{
	memcpy(to, from, sizeof(*to));
	if (to->num_sge > max_sge)
		to->num_sge = max_sge;	/* a user's nonsense reads as its maximum */
	memcpy(to + 1, from + sizeof(*to), to->num_sge * sizeof(struct spray_sge));
}

/**
 * spray_srq_sit() - a QP in the making will use @srq
 * @wake: its tasklet
 * Return: 0 or -ENOMEM; spray_srq_rise() in either case.
 */
int spray_srq_sit(struct spray_srq *srq, struct spray_srq_seat *seat, struct tasklet_struct *wake);
/* The QP is gone: it waits no more and holds no receive. */
void spray_srq_rise(struct spray_srq_seat *seat);

/* Before a RESET, sleeps: the receive that is bound may be given back. Return: 0 or -ENOMEM. */
int spray_srq_prepare_reset(struct spray_srq_seat *seat);

/* --- resp.lock of the QP held --- */

/**
 * spray_srq_take() - bind a receive, unless one is bound already
 * Raises the limit event when it is due.
 * Return: the receive, or NULL if there is none for this QP.
 */
struct spray_rqe *spray_srq_take(struct spray_srq_seat *seat);

/**
 * spray_srq_wait() - get in line, and have user posters ring
 * @seat: is woken when it is granted an entry; it leaves the line by taking that
 * Return: false if an entry is there already.
 */
bool spray_srq_wait(struct spray_srq_seat *seat);

/**
 * spray_srq_leave() - out of the line: this QP will take nothing more
 * @give_back: back into the queue with a receive that is bound
 */
void spray_srq_leave(struct spray_srq_seat *seat, bool give_back);

/* --- verbs --- */
int spray_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata);
int spray_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata);
int spray_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr);
int spray_destroy_srq(struct ib_srq *ib, struct ib_udata *udata);
int spray_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad);

#endif
