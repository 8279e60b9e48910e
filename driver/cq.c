// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues.
 *
 * Kernel and user queues are one thing: a ring of struct spray_cqe behind two
 * control words. The user maps it, or (kernel queues) spray_poll_cq() plays the
 * user under the queue's lock. What a user writes, cons and armed, can hide
 * completions or raise needless events for that user, and nothing else.
 *
 * Posting and arming (uapi/spray-abi.h has the same from the other side):
 *
 *	kernel				user
 *	store prod (release)		store armed
 *	full barrier			full barrier
 *	load armed, maybe exchange	load prod (polls once more)
 *
 * One of the two sees the other: no completion is slept through. The
 * exchange makes one event of one arming, also if the user arms meanwhile.
 *
 * Handlers run from the tasklet. Two events that fall together while it has not
 * run yet are one call: whoever armed in between has not been called yet, and
 * will be, after both completions are visible.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/uverbs_ioctl.h>

#include "cq.h"

static_assert((int)SPRAY_WC_SEND == IB_WC_SEND);
static_assert((int)SPRAY_WC_WRITE == IB_WC_RDMA_WRITE);
static_assert((int)SPRAY_WC_READ == IB_WC_RDMA_READ);
static_assert((int)SPRAY_WC_CAS == IB_WC_COMP_SWAP);
static_assert((int)SPRAY_WC_FAA == IB_WC_FETCH_ADD);
static_assert((int)SPRAY_WC_RECV == IB_WC_RECV);
static_assert((int)SPRAY_WC_RECV_IMM == IB_WC_RECV_RDMA_WITH_IMM);

/* --- producer --- */

static bool spray_cq_wanted(u32 armed, bool solicited)
{
	return armed != SPRAY_ARM_NONE && (armed != SPRAY_ARM_SOLICITED || solicited);
}

/* The queue got an entry: is this what the user sleeps for? */
static bool spray_cq_disarm(struct spray_cq *cq, bool solicited)
{
	smp_mb(); /* prod before armed; pairs with the user's barrier between armed and prod */
	if (!spray_cq_wanted(READ_ONCE(cq->ctl->armed), solicited))
		return false;
	return xchg(&cq->ctl->armed, SPRAY_ARM_NONE) != SPRAY_ARM_NONE;
}

static bool spray_cq_append(struct spray_cq *cq, struct spray_cqe *c, struct ib_qp *qp)
{
	u32 slot = cq->prod & cq->mask;

	lockdep_assert_held(&cq->lock);
	/* Acquire: the user is done with the slot. Nonsense in cons reads as full, or overwrites. */
	if (cq->prod - smp_load_acquire(&cq->ctl->cons) > cq->mask) {
		WRITE_ONCE(cq->ctl->overflow, 1);
		return false;
	}
	c->timestamp = ktime_get_ns();
	cq->ring[slot] = *c;
	if (cq->qps)
		cq->qps[slot] = qp;
	cq->prod++;
	smp_store_release(&cq->ctl->prod, cq->prod);
	return true;
}

void spray_cq_post(struct spray_cq *cq, struct spray_cqe *c, struct ib_qp *qp, bool solicited)
{
	unsigned long flags;
	bool due = false;

	spin_lock_irqsave(&cq->lock, flags);
	if (!spray_cq_append(cq, c, qp)) {
		due = !test_and_set_bit(SPRAY_CQ_OVERFLOW, &cq->events);
	} else if (spray_cq_disarm(cq, solicited)) {
		set_bit(SPRAY_CQ_COMP_DUE, &cq->events);
		due = true;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (due)
		tasklet_schedule(&cq->task);
}

static void spray_cq_task(struct tasklet_struct *t)
{
	struct spray_cq *cq = from_tasklet(cq, t, task);
	struct ib_event ev = {
		.device = cq->ib.device,
		.element.cq = &cq->ib,
		.event = IB_EVENT_CQ_ERR,
	};

	if (test_bit(SPRAY_CQ_OVERFLOW, &cq->events) &&
	    !test_and_set_bit(SPRAY_CQ_OVERFLOW_TOLD, &cq->events) && cq->ib.event_handler)
		cq->ib.event_handler(&ev, cq->ib.cq_context);
	if (test_and_clear_bit(SPRAY_CQ_COMP_DUE, &cq->events) && cq->ib.comp_handler)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/* --- consumer of kernel queues --- */

static void spray_cq_to_wc(const struct spray_cqe *c, struct ib_qp *qp, struct ib_wc *wc)
{
	*wc = (struct ib_wc) {
		.wr_id = c->wr_id,
		.status = c->status,
		.opcode = c->opcode == SPRAY_WC_REG_MR ? IB_WC_REG_MR : c->opcode,
		.vendor_err = c->vendor_err,
		.byte_len = c->byte_len,
		.qp = qp,
		.src_qp = c->src_qpn,
		.pkey_index = c->pkey_index,
		.sl = c->sl,
		.port_num = 1,
	};
	if (c->flags & SPRAY_WC_WITH_IMM) {
		wc->ex.imm_data = (__force __be32)c->ex;
		wc->wc_flags |= IB_WC_WITH_IMM;
	}
	if (c->flags & SPRAY_WC_WITH_INV) {
		wc->ex.invalidate_rkey = c->ex;
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
	}
	if (c->flags & SPRAY_WC_VLAN) {
		wc->vlan_id = c->vlan_id;
		wc->wc_flags |= IB_WC_WITH_VLAN;
	}
	if (c->flags & SPRAY_WC_GRH) {
		wc->network_hdr_type = c->flags & SPRAY_WC_IPV6 ? RDMA_NETWORK_IPV6 :
								  RDMA_NETWORK_IPV4;
		wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
	}
}

int spray_poll_cq(struct ib_cq *ib, int n, struct ib_wc *wc)
{
	struct spray_cq *cq = to_scq(ib);
	unsigned long flags;
	u32 cons;
	int i;

	spin_lock_irqsave(&cq->lock, flags);
	cons = cq->ctl->cons;
	for (i = 0; i < n && cons != cq->prod; i++, cons++) {
		u32 slot = cons & cq->mask;

		spray_cq_to_wc(&cq->ring[slot], cq->qps[slot], &wc[i]);
	}
	cq->ctl->cons = cons;
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

int spray_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags)
{
	bool any = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_NEXT_COMP;
	struct spray_cq *cq = to_scq(ib);
	unsigned long irq;
	bool missed;

	spin_lock_irqsave(&cq->lock, irq);
	/* Asking for less does not take back what was asked for. */
	if (any || READ_ONCE(cq->ctl->armed) == SPRAY_ARM_NONE)
		WRITE_ONCE(cq->ctl->armed, any ? SPRAY_ARM_ANY : SPRAY_ARM_SOLICITED);
	missed = READ_ONCE(cq->ctl->cons) != cq->prod;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed && (flags & IB_CQ_REPORT_MISSED_EVENTS) ? 1 : 0;
}

/* Walk from the newest entry to the oldest, moving up what stays. */
void spray_cq_clean(struct spray_cq *cq, struct ib_qp *qp)
{
	unsigned long flags;
	u32 from, to;

	if (!cq->qps)
		return;
	spin_lock_irqsave(&cq->lock, flags);
	to = cq->prod;
	for (from = cq->prod; from != cq->ctl->cons; from--) {
		u32 src = (from - 1) & cq->mask;
		u32 dst = (to - 1) & cq->mask;

		if (cq->qps[src] == qp)
			continue;
		cq->ring[dst] = cq->ring[src];
		cq->qps[dst] = cq->qps[src];
		to--;
	}
	cq->ctl->cons = to;
	spin_unlock_irqrestore(&cq->lock, flags);
}

/* --- create, destroy --- */

static int spray_cq_map(struct spray_cq *cq, size_t size, u32 entries, struct ib_udata *udata)
{
	struct spray_create_cq_resp resp = { .mmap_size = size, .entries = entries };
	struct spray_ucontext *uctx = rdma_udata_to_drv_context(udata, struct spray_ucontext, ib);
	u64 offset;
	int err;

	cq->mmap = spray_mmap_new(&uctx->ib, cq->ctl, size, &offset);
	if (IS_ERR(cq->mmap)) {
		err = PTR_ERR(cq->mmap);
		cq->mmap = NULL;
		cq->ctl = NULL;
		return err;
	}
	resp.mmap_offset = offset;
	return spray_udata_respond(udata, &resp, sizeof(resp));
}

/* A mapping in the making may hold the memory a little longer than the queue. */
static void spray_cq_free(struct spray_cq *cq)
{
	if (cq->mmap)
		rdma_user_mmap_entry_remove(&cq->mmap->entry);
	else
		vfree(cq->ctl);
	kvfree(cq->qps);
}

int spray_create_cq_any(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			struct ib_udata *udata)
{
	struct spray_cq *cq = to_scq(ib);
	u32 entries;
	size_t size;
	int err = 0;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > SPRAY_MAX_CQE)
		return -EINVAL;
	entries = roundup_pow_of_two(attr->cqe);
	size = PAGE_ALIGN(SPRAY_CQ_ENTRIES_OFFSET + entries * sizeof(struct spray_cqe));
	spin_lock_init(&cq->lock);
	tasklet_setup(&cq->task, spray_cq_task);
	cq->mask = entries - 1;
	cq->ctl = vmalloc_user(size);
	if (!cq->ctl)
		return -ENOMEM;
	cq->ring = (void *)cq->ctl + SPRAY_CQ_ENTRIES_OFFSET;
	if (udata) {
		err = spray_cq_map(cq, size, entries, udata);
	} else {
		cq->qps = kvcalloc(entries, sizeof(*cq->qps), GFP_KERNEL);
		err = cq->qps ? 0 : -ENOMEM;
	}
	if (err) {
		spray_cq_free(cq);
		return err;
	}
	ib->cqe = entries;
	return 0;
}

/*
 * ib_core counts users: no QP refers to the queue, and a QP is destroyed only
 * when nothing of it runs any more. So nobody posts or schedules the task now;
 * tasklet_kill() waits for one that was scheduled, and with it for the last
 * handler call. Only then the memory goes.
 */
int spray_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct spray_cq *cq = to_scq(ib);

	tasklet_kill(&cq->task);
	spray_cq_free(cq);
	return 0;
}
