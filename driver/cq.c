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
#ifdef SPRAY_HAVE_FLUSH
static_assert((int)SPRAY_WC_FLUSH == IB_WC_FLUSH);
#endif
#ifdef SPRAY_HAVE_ATOMIC_WRITE
static_assert((int)SPRAY_WC_ATOMIC_WRITE == IB_WC_ATOMIC_WRITE);
#endif
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
	if (!spray_cq_wanted(READ_ONCE(cq->m.ctl->armed), solicited))
		return false;
	spray_jitter();
	return xchg(&cq->m.ctl->armed, SPRAY_ARM_NONE) != SPRAY_ARM_NONE;
}

static bool spray_cq_append(struct spray_cq *cq, struct spray_cqe *c, struct ib_qp *qp)
{
	u32 slot = cq->prod & cq->m.mask;

	lockdep_assert_held(&cq->lock);
	/* Acquire: the user is done with the slot. Nonsense in cons reads as full, or overwrites. */
	if (cq->prod - smp_load_acquire(&cq->m.ctl->cons) > cq->m.mask) {
		WRITE_ONCE(cq->m.ctl->overflow, 1);
		return false;
	}
	c->timestamp = ktime_get_ns();
	cq->m.ring[slot] = *c;
	if (cq->m.qps)
		cq->m.qps[slot] = qp;
	cq->prod++;
	spray_jitter();
	smp_store_release(&cq->m.ctl->prod, cq->prod);
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
	cons = cq->m.ctl->cons;
	for (i = 0; i < n && cons != cq->prod; i++, cons++) {
		u32 slot = cons & cq->m.mask;

		spray_cq_to_wc(&cq->m.ring[slot], cq->m.qps[slot], &wc[i]);
	}
	cq->m.ctl->cons = cons;
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
	if (any || READ_ONCE(cq->m.ctl->armed) == SPRAY_ARM_NONE)
		WRITE_ONCE(cq->m.ctl->armed, any ? SPRAY_ARM_ANY : SPRAY_ARM_SOLICITED);
	missed = READ_ONCE(cq->m.ctl->cons) != cq->prod;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed && (flags & IB_CQ_REPORT_MISSED_EVENTS) ? 1 : 0;
}

/* Walk from the newest entry to the oldest, moving up what stays. */
void spray_cq_clean(struct spray_cq *cq, struct ib_qp *qp)
{
	unsigned long flags;
	u32 from, to;

	if (!cq->m.qps)
		return;
	spin_lock_irqsave(&cq->lock, flags);
	to = cq->prod;
	for (from = cq->prod; from != cq->m.ctl->cons; from--) {
		u32 src = (from - 1) & cq->m.mask;
		u32 dst = (to - 1) & cq->m.mask;

		if (cq->m.qps[src] == qp)
			continue;
		cq->m.ring[dst] = cq->m.ring[src];
		cq->m.qps[dst] = cq->m.qps[src];
		to--;
	}
	cq->m.ctl->cons = to;
	spin_unlock_irqrestore(&cq->lock, flags);
}

/* --- create, destroy --- */

static_assert(sizeof(struct spray_create_cq_resp) == sizeof(struct spray_resize_cq_resp));

/* The answers of create and resize are alike. */
static int spray_cq_map(struct spray_cq_mem *m, size_t size, struct ib_udata *udata)
{
	struct spray_create_cq_resp resp = { .mmap_size = size, .entries = m->mask + 1 };
	struct spray_ucontext *uctx = rdma_udata_to_drv_context(udata, struct spray_ucontext, ib);
	u64 offset;
	int err;

	m->mmap = spray_mmap_new(&uctx->ib, m->ctl, size, &offset);
	if (IS_ERR(m->mmap)) {
		err = PTR_ERR(m->mmap);
		m->mmap = NULL;
		m->ctl = NULL;
		return err;
	}
	resp.mmap_offset = offset;
	return spray_udata_respond(udata, &resp, sizeof(resp));
}

/* A mapping in the making may hold the memory a little longer than the queue. */
static void spray_cq_mem_free(struct spray_cq_mem *m)
{
	if (m->mmap)
		rdma_user_mmap_entry_remove(&m->mmap->entry);
	else
		vfree(m->ctl);
	kvfree(m->qps);
}

/* Room for @cqe entries or more, and the user told where it is. */
static int spray_cq_mem_new(struct spray_cq_mem *m, u32 cqe, struct ib_udata *udata)
{
	u32 entries;
	size_t size;
	int err;

	if (!cqe || cqe > SPRAY_MAX_CQE)
		return -EINVAL;
	entries = roundup_pow_of_two(cqe);
	size = PAGE_ALIGN(SPRAY_CQ_ENTRIES_OFFSET + entries * sizeof(struct spray_cqe));
	m->mask = entries - 1;
	m->ctl = vmalloc_user(size);
	if (!m->ctl)
		return -ENOMEM;
	m->ring = (void *)m->ctl + SPRAY_CQ_ENTRIES_OFFSET;
	if (udata) {
		err = spray_cq_map(m, size, udata);
	} else {
		m->qps = kvcalloc(entries, sizeof(*m->qps), GFP_KERNEL_ACCOUNT);
		err = m->qps ? 0 : -ENOMEM;
	}
	if (err)
		spray_cq_mem_free(m);
	return err;
}

int spray_create_cq_any(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			struct ib_udata *udata)
{
	struct spray_cq *cq = to_scq(ib);
	int err;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	err = spray_take(to_sdev(ib->device), SPRAY_OBJ_CQ);
	if (err)
		return err;
	spin_lock_init(&cq->lock);
	tasklet_setup(&cq->task, spray_cq_task);
	err = spray_cq_mem_new(&cq->m, attr->cqe, udata);
	if (err)
		spray_give(to_sdev(ib->device), SPRAY_OBJ_CQ);
	else
		ib->cqe = cq->m.mask + 1;
	return err;
}

/*
 * From here on entries go to the new memory; lock held. Those that wait keep
 * their indices, and their slots are left free for them: kernel queues copy them
 * here, a user does it from the old memory, as many as there may be. So does the
 * rest of the control words: a user that asked for an event still gets it, a
 * queue that lost an entry stays in error. Return: false if more waits than fits.
 */
static bool spray_cq_move(struct spray_cq *cq, struct spray_cq_mem *to)
{
	struct spray_cq_mem *from = &cq->m;
	/* Nonsense in cons reads as full. */
	u32 n = min(cq->prod - smp_load_acquire(&from->ctl->cons), from->mask + 1);
	u32 i;

	if (n > to->mask + 1)
		return false;
	for (i = cq->prod - n; to->qps && i != cq->prod; i++) {
		to->ring[i & to->mask] = from->ring[i & from->mask];
		to->qps[i & to->mask] = from->qps[i & from->mask];
	}
	to->ctl->cons = cq->prod - n;
	to->ctl->armed = READ_ONCE(from->ctl->armed);
	to->ctl->overflow = test_bit(SPRAY_CQ_OVERFLOW, &cq->events);
	/* Release: a user may have mapped the new memory already. */
	smp_store_release(&to->ctl->prod, cq->prod);
	swap(cq->m, *to);
	return true;
}

/* All that may fail comes before the move. The provider keeps pollers out meanwhile. */
int spray_resize_cq_any(struct ib_cq *ib, unsigned int cqe, struct ib_udata *udata)
{
	struct spray_cq *cq = to_scq(ib);
	struct spray_cq_mem m = {};
	bool moved;
	int err;

	err = spray_cq_mem_new(&m, cqe, udata);
	if (err)
		return err;
	spin_lock_irq(&cq->lock);
	moved = spray_cq_move(cq, &m);
	ib->cqe = cq->m.mask + 1;
	spin_unlock_irq(&cq->lock);
	spray_cq_mem_free(&m);	/* the old one, or the one in vain */
	return moved ? 0 : -EINVAL;
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
	struct spray_cq_mem m = {};

	tasklet_kill(&cq->task);
	/* Kernels before 7.x let netlink ask for a queue until it is freed: see restrack.c. */
	spin_lock_irq(&cq->lock);
	swap(cq->m, m);
	spin_unlock_irq(&cq->lock);
	spray_cq_mem_free(&m);
	spray_give(to_sdev(ib->device), SPRAY_OBJ_CQ);
	return 0;
}
