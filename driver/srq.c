// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues. srq.h says what a QP takes and when, uapi/spray-abi.h
 * how a user's ring is read. Everything here runs under the queue's lock, and
 * nobody waits under it: QPs are woken by their tasklets, the consumer by ours.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "srq.h"

enum {
	SPRAY_SRQ_MOVE_MAX	= 64,	/* entries copied with interrupts off */
	SPRAY_SRQ_MOVE_TRIES	= 16,	/* to get there */
};

/*
 * Receives that could be taken now; lock held. A user's index is believed as far
 * as the ring goes, and what was believed once stays: grants build on it.
 */
static u32 spray_srq_posted(struct spray_srq *srq)
{
	if (srq->m.ctl)
		srq->prod += min(smp_load_acquire(&srq->m.ctl->prod) - srq->prod,
				 srq->m.entries - (srq->prod - srq->cons));
	return srq->prod - srq->cons + srq->n_returned;
}

/* What is posted goes to those who wait, from the head of the line; lock held. */
static void spray_srq_grant(struct spray_srq *srq, u32 posted)
{
	struct spray_srq_seat *seat;

	list_for_each_entry(seat, &srq->waiters, link) {
		if (srq->granted >= posted)
			return;
		if (seat->granted)
			continue;
		seat->granted = true;
		srq->granted++;
		tasklet_schedule(seat->wake);
	}
}

static void spray_srq_out_of_line(struct spray_srq *srq, struct spray_srq_seat *seat)
{
	if (!seat->waiting)
		return;
	list_del(&seat->link);
	seat->waiting = false;
	srq->granted -= seat->granted;
	seat->granted = false;
	if (srq->m.ctl && list_empty(&srq->waiters))
		WRITE_ONCE(srq->m.ctl->need_doorbell, 0);
}

/* @posted: what is left. Only a queue that is armed looks, and it is armed for one event. */
static void spray_srq_check_limit(struct spray_srq *srq, u32 posted)
{
	if (posted >= srq->limit)
		return;
	srq->limit = 0;
	srq->limit_due = true;
	tasklet_schedule(&srq->task);
}

/* The oldest receive becomes this QP's; lock held, there is one. */
static void spray_srq_bind(struct spray_srq *srq, struct spray_srq_seat *seat)
{
	seat->bound = true;
	if (srq->n_returned) {
		kfree(seat->entry);
		seat->entry = list_first_entry(&srq->returned, struct spray_srq_entry, link);
		list_del(&seat->entry->link);
		srq->n_returned--;
		return;
	}
	spray_rqe_copy(spray_entry_rqe(seat->entry),
		       srq->m.slots + (size_t)(srq->cons & srq->m.mask) * srq->slot, srq->max_sge);
	srq->cons++;
	if (srq->m.ctl)
		smp_store_release(&srq->m.ctl->cons, srq->cons);
}

struct spray_rqe *spray_srq_take(struct spray_srq_seat *seat)
{
	struct spray_srq *srq = seat->srq;
	unsigned long flags;
	u32 posted;

	if (seat->bound)
		return spray_entry_rqe(seat->entry);
	spin_lock_irqsave(&srq->lock, flags);
	posted = spray_srq_posted(srq);
	spray_srq_grant(srq, posted);
	/* What is reserved for others is not ours. */
	if (seat->granted || posted > srq->granted) {
		spray_srq_bind(srq, seat);
		spray_srq_out_of_line(srq, seat);
		spray_srq_check_limit(srq, posted - 1);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return seat->bound ? spray_entry_rqe(seat->entry) : NULL;
}

bool spray_srq_wait(struct spray_srq_seat *seat)
{
	struct spray_srq *srq = seat->srq;
	unsigned long flags;
	bool granted;

	spin_lock_irqsave(&srq->lock, flags);
	if (!seat->waiting) {
		list_add_tail(&seat->link, &srq->waiters);
		seat->waiting = true;
	}
	if (srq->m.ctl)
		WRITE_ONCE(srq->m.ctl->need_doorbell, 1);
	/* Pairs with a user who posts: index, full barrier, word. Here: word, full barrier, index. */
	smp_mb();
	spray_srq_grant(srq, spray_srq_posted(srq));
	granted = seat->granted;
	spin_unlock_irqrestore(&srq->lock, flags);
	return !granted;
}

void spray_srq_leave(struct spray_srq_seat *seat, bool give_back)
{
	struct spray_srq *srq = seat->srq;
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	spray_srq_out_of_line(srq, seat);
	if (give_back && seat->bound) {
		list_add(&seat->entry->link, &srq->returned);
		srq->n_returned++;
		seat->entry = seat->spare;
		seat->spare = NULL;
		seat->bound = false;
	}
	spray_srq_grant(srq, spray_srq_posted(srq));
	spin_unlock_irqrestore(&srq->lock, flags);
}

/* --- the QP's side of life --- */

static struct spray_srq_entry *spray_srq_entry_new(const struct spray_srq *srq)
{
	return kzalloc(sizeof(struct spray_srq_entry) + srq->slot, GFP_KERNEL);
}

int spray_srq_prepare_reset(struct spray_srq_seat *seat)
{
	if (!seat->srq || seat->spare)
		return 0;
	seat->spare = spray_srq_entry_new(seat->srq);
	return seat->spare ? 0 : -ENOMEM;
}

int spray_srq_sit(struct spray_srq *srq, struct spray_srq_seat *seat, struct tasklet_struct *wake)
{
	seat->srq = srq;
	seat->wake = wake;
	seat->entry = spray_srq_entry_new(srq);
	return seat->entry ? spray_srq_prepare_reset(seat) : -ENOMEM;
}

void spray_srq_rise(struct spray_srq_seat *seat)
{
	kfree(seat->entry);
	kfree(seat->spare);
}

/* --- posting --- */

static int spray_srq_post_one(struct spray_srq *srq, const struct ib_recv_wr *wr)
{
	if (srq->prod - srq->cons >= srq->m.entries)
		return -ENOMEM;
	if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
		return -EINVAL;
	spray_rqe_fill(srq->m.slots + (size_t)(srq->prod & srq->m.mask) * srq->slot, wr);
	srq->prod++;
	return 0;
}

/* A user's ring says itself what is in it: the call without requests is its doorbell. */
int spray_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad)
{
	struct spray_srq *srq = to_ssrq(ib);
	bool soft = !irqs_disabled() && !in_hardirq();
	unsigned long flags;
	int err = 0;

	if (srq->m.ctl && wr) {
		*bad = wr;
		return -EINVAL;
	}
	if (soft)
		local_bh_disable();	/* tasklets run at its end, not when ksoftirqd gets its turn */
	spin_lock_irqsave(&srq->lock, flags);
	for (; wr; wr = wr->next) {
		err = spray_srq_post_one(srq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	spray_srq_grant(srq, spray_srq_posted(srq));
	spin_unlock_irqrestore(&srq->lock, flags);
	if (soft)
		local_bh_enable();
	return err;
}

/* --- create, modify, destroy --- */

static void spray_srq_task(struct tasklet_struct *t)
{
	struct spray_srq *srq = from_tasklet(srq, t, task);
	struct ib_event ev = {
		.device = srq->ib.device,
		.element.srq = &srq->ib,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};
	bool due;

	spin_lock_irq(&srq->lock);
	due = srq->limit_due;
	srq->limit_due = false;
	spin_unlock_irq(&srq->lock);
	if (due && srq->ib.event_handler)
		srq->ib.event_handler(&ev, srq->ib.srq_context);
}

static void spray_srq_mem_free(struct spray_srq_mem *m)
{
	if (m->mmap)
		rdma_user_mmap_entry_remove(&m->mmap->entry);
	else
		kvfree(m->slots);
}

/* The answers of create and resize begin alike. */
static int spray_srq_map(struct spray_srq_mem *m, u32 slot, struct ib_udata *udata,
			 struct spray_create_srq_resp *resp)
{
	struct spray_ucontext *uctx = rdma_udata_to_drv_context(udata, struct spray_ucontext, ib);
	struct spray_mmap *map;
	void *mem;
	u64 offset;

	*resp = (struct spray_create_srq_resp) { .entries = m->entries, .slot = slot };
	resp->mmap_size = PAGE_ALIGN(SPRAY_SRQ_RING_OFFSET + m->entries * slot);
	mem = vmalloc_user(resp->mmap_size);
	if (!mem)
		return -ENOMEM;
	map = spray_mmap_new(&uctx->ib, mem, resp->mmap_size, &offset);
	if (IS_ERR(map))
		return PTR_ERR(map);
	m->mmap = map;
	m->ctl = mem;
	m->slots = mem + SPRAY_SRQ_RING_OFFSET;
	resp->mmap_offset = offset;
	return 0;
}

/* Room for @wr entries or more. @resp is for a user to be told. */
static int spray_srq_mem_new(struct spray_srq_mem *m, u32 wr, u32 slot, struct ib_udata *udata,
			     struct spray_create_srq_resp *resp)
{
	if (!wr || wr > SPRAY_MAX_SRQ_WR)
		return -EINVAL;
	m->entries = roundup_pow_of_two(wr);
	m->mask = m->entries - 1;
	if (udata)
		return spray_srq_map(m, slot, udata, resp);
	m->slots = kvcalloc(m->entries, slot, GFP_KERNEL_ACCOUNT);
	return m->slots ? 0 : -ENOMEM;
}

static void spray_srq_free(struct spray_srq *srq)
{
	struct spray_srq_entry *e, *next;

	list_for_each_entry_safe(e, next, &srq->returned, link)
		kfree(e);
	spray_srq_mem_free(&srq->m);
}

int spray_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct ib_srq_attr *attr = &init->attr;
	struct spray_srq *srq = to_ssrq(ib);
	struct spray_create_srq_resp resp;
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (attr->max_sge > SPRAY_MAX_SGE)
		return -EINVAL;
	err = spray_take(to_sdev(ib->device), SPRAY_OBJ_SRQ);
	if (err)
		return err;
	attr->max_sge = max_t(u32, attr->max_sge, 1);
	mutex_init(&srq->resize);
	spin_lock_init(&srq->lock);
	INIT_LIST_HEAD(&srq->returned);
	INIT_LIST_HEAD(&srq->waiters);
	tasklet_setup(&srq->task, spray_srq_task);
	srq->max_sge = attr->max_sge;
	srq->slot = ALIGN(sizeof(struct spray_rqe) + srq->max_sge * sizeof(struct spray_sge),
			  SPRAY_RING_ALIGN);
	err = spray_srq_mem_new(&srq->m, attr->max_wr, srq->slot, udata, &resp);
	if (!err && udata)
		err = spray_udata_respond(udata, &resp, sizeof(resp));
	if (err) {
		spray_srq_free(srq);
		spray_give(to_sdev(ib->device), SPRAY_OBJ_SRQ);
	}
	attr->max_wr = srq->m.entries;
	return err;
}

static void spray_srq_copy_slots(const struct spray_srq *srq, struct spray_srq_mem *to, u32 from,
				 u32 end)
{
	for (; from != end; from++)
		memcpy(to->slots + (size_t)(from & to->mask) * srq->slot,
		       srq->m.slots + (size_t)(from & srq->m.mask) * srq->slot, srq->slot);
}

/*
 * From here on receives come from the new memory; lock held. Those that wait keep
 * their indices. They are in it but for those from @from on.
 */
static void spray_srq_move(struct spray_srq *srq, struct spray_srq_mem *to, u32 from)
{
	spray_srq_copy_slots(srq, to, from, srq->prod);
	if (to->ctl) {
		to->ctl->cons = srq->cons;
		to->ctl->need_doorbell = !list_empty(&srq->waiters);
		to->ctl->prod = srq->prod;
	}
	swap(srq->m, *to);
}

/*
 * Copy and move. As many may wait as the largest queue has, so most are copied
 * without the lock. A user's index may jump at any time, and does not decide how
 * long interrupts are off.
 * @keep: the limit that is armed stays, and may not be above the new size
 */
static int spray_srq_copy_move(struct spray_srq *srq, struct spray_srq_mem *to, bool keep)
{
	u32 from, prod, posted, tries = 0;
	int err = 0;

	spin_lock_irq(&srq->lock);
	for (from = srq->cons; ; from = prod) {
		posted = spray_srq_posted(srq);
		prod = srq->prod;
		/* Of those that were copied some may be gone, or all, and more. */
		if ((s32)(srq->cons - from) > 0)
			from = srq->cons;
		if (posted > to->entries || (keep && to->entries < srq->limit))
			err = -EINVAL;
		else if (prod - from > SPRAY_SRQ_MOVE_MAX && ++tries > SPRAY_SRQ_MOVE_TRIES)
			err = -EBUSY;
		if (err || prod - from <= SPRAY_SRQ_MOVE_MAX)
			break;
		spin_unlock_irq(&srq->lock);
		spray_srq_copy_slots(srq, to, from, prod);
		spin_lock_irq(&srq->lock);
	}
	if (!err)
		spray_srq_move(srq, to, from);
	spin_unlock_irq(&srq->lock);
	return err;
}

/* A user's address for the answer: MODIFY_SRQ has none in the protocol of uverbs. */
static int spray_srq_respond(struct ib_udata *udata, const struct spray_create_srq_resp *made)
{
	struct spray_resize_srq_resp resp = {
		.mmap_offset = made->mmap_offset,
		.mmap_size = made->mmap_size,
		.entries = made->entries,
	};
	struct spray_modify_srq_req req;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	if (ib_copy_from_udata(&req, udata, sizeof(req)))
		return -EFAULT;
	return copy_to_user(u64_to_user_ptr(req.resp_addr), &resp, sizeof(resp)) ? -EFAULT : 0;
}

/* All that may fail comes before the move. The provider keeps posters out meanwhile. @keep: as above */
static int spray_srq_resize(struct spray_srq *srq, u32 wr, bool keep, struct ib_udata *udata)
{
	struct spray_create_srq_resp resp;
	struct spray_srq_mem m = {};
	int err;

	lockdep_assert_held(&srq->resize);
	err = spray_srq_mem_new(&m, wr, srq->slot, udata, &resp);
	if (!err && udata)
		err = spray_srq_respond(udata, &resp);
	if (!err)
		err = spray_srq_copy_move(srq, &m, keep);
	spray_srq_mem_free(&m);		/* the old one, or the one in vain */
	return err;
}

/* A limit above what is posted is reached at once: an event that is due is not slept through. */
int spray_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata)
{
	struct spray_srq *srq = to_ssrq(ib);
	u32 entries;
	int err = 0;

	if (mask & ~(IB_SRQ_LIMIT | IB_SRQ_MAX_WR))
		return -EOPNOTSUPP;
	mutex_lock(&srq->resize);
	entries = mask & IB_SRQ_MAX_WR ? attr->max_wr : srq->m.entries;
	if ((mask & IB_SRQ_LIMIT) && attr->srq_limit > entries)
		err = -EINVAL;
	else if (mask & IB_SRQ_MAX_WR)
		err = spray_srq_resize(srq, attr->max_wr, !(mask & IB_SRQ_LIMIT), udata);
	if (!err && (mask & IB_SRQ_LIMIT)) {
		spin_lock_irq(&srq->lock);
		srq->limit = attr->srq_limit;
		spray_srq_check_limit(srq, spray_srq_posted(srq));
		spin_unlock_irq(&srq->lock);
	}
	mutex_unlock(&srq->resize);
	return err;
}

int spray_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	struct spray_srq *srq = to_ssrq(ib);

	attr->max_wr = READ_ONCE(srq->m.entries);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

/*
 * ib_core counts users: no QP refers to the queue, so nobody schedules the task
 * any more; tasklet_kill() waits for the last call of the handler.
 */
int spray_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	struct spray_srq *srq = to_ssrq(ib);

	tasklet_kill(&srq->task);
	spray_srq_free(srq);
	spray_give(to_sdev(ib->device), SPRAY_OBJ_SRQ);
	return 0;
}
