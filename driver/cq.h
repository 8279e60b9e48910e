/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues: one native entry (struct spray_cqe) for user and kernel
 * queues; kernel poll_cq translates. The lock is a leaf, irqsave: post, poll
 * and arm may come from any context. Completion handlers run from the CQ's
 * tasklet: one at a time, never inside a verbs call, with no lock held
 * (Documentation/infiniband/core_locking.rst).
 */
#ifndef SPRAY_CQ_H
#define SPRAY_CQ_H

#include <linux/interrupt.h>

#include "../uapi/spray-abi.h"
#include "dev.h"

enum spray_cq_event {
	SPRAY_CQ_COMP_DUE,	/* call the completion handler */
	SPRAY_CQ_OVERFLOW,	/* an entry had to be dropped; stays set */
	SPRAY_CQ_OVERFLOW_TOLD,	/* IB_EVENT_CQ_ERR was raised */
};

/**
 * struct spray_cq_mem - what a resize replaces
 * @ctl: control words. Kernel queues use the same memory, unshared, as their own user.
 * @ring: entries, behind @ctl
 * @mask: entries - 1
 * @qps: kernel queues: QP of each slot. NULL for user queues.
 * @mmap: user queues: owns the memory of @ctl
 */
struct spray_cq_mem {
	struct spray_cq_ctl *ctl;
	struct spray_cqe *ring;
	u32 mask;
	struct ib_qp **qps;
	struct spray_mmap *mmap;
};

/**
 * struct spray_cq - a completion queue
 * @lock: @prod, entries, and what a resize replaces; for kernel queues also @ctl
 * @m: its memory
 * @prod: our own copy, ctl->prod is never read back
 * @events: what the task has to tell, enum spray_cq_event
 */
struct spray_cq {
	struct ib_cq ib;
	spinlock_t lock;
	struct spray_cq_mem m;
	u32 prod;
	unsigned long events;
	struct tasklet_struct task;
};

static inline struct spray_cq *to_scq(struct ib_cq *ib)
{
	return container_of(ib, struct spray_cq, ib);
}

/**
 * spray_cq_post() - append a completion and raise the event that was asked for
 * @c: entry (timestamp is set here)
 * @qp: for kernel consumers
 * @solicited: a solicited event was asked for by the sender, or this is an error
 * Any context. A full queue drops the entry, marks the overflow and raises
 * IB_EVENT_CQ_ERR once.
 */
void spray_cq_post(struct spray_cq *cq, struct spray_cqe *c, struct ib_qp *qp, bool solicited);

/* Take out what a kernel consumer has not polled of @qp (RESET, destroy). No-op for user queues. */
void spray_cq_clean(struct spray_cq *cq, struct ib_qp *qp);

/* resize_cq, resize_user_cq: compat.h maps them to this. */
int spray_resize_cq_any(struct ib_cq *ib, unsigned int cqe, struct ib_udata *udata);
int spray_poll_cq(struct ib_cq *ib, int n, struct ib_wc *wc);
int spray_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags);
int spray_destroy_cq(struct ib_cq *ib, struct ib_udata *udata);
/* create_cq changes its last argument between kernels: compat.h maps it to this. */
int spray_create_cq_any(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			struct ib_udata *udata);

#endif
