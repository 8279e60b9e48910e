// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: creation, the IB state machine, destruction. What a state means
 * to the data path is said to each half under its own lock by one function per
 * transition; nobody else sets live, flushing or drain.
 */
#include <linux/vmalloc.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "icrc.h"
#include "qp.h"

/* All QPs of all devices; QPNs are handed out cyclically over the whole space. */
static DEFINE_XARRAY_FLAGS(spray_qps, XA_FLAGS_LOCK_BH | XA_FLAGS_ALLOC);
static u32 spray_qpn_next;

enum { SPRAY_QPN_FIRST = 16, SPRAY_QPN_LAST = 0xfffffe };

struct spray_qp *spray_qp_get(struct spray_net *sn, u32 qpn)
{
	struct spray_qp *qp;

	xa_lock_bh(&spray_qps);
	qp = xa_load(&spray_qps, qpn);
	if (qp && (qp->dev->sn != sn || !refcount_inc_not_zero(&qp->ref)))
		qp = NULL;
	xa_unlock_bh(&spray_qps);
	spray_jitter();
	return qp;
}

void spray_qp_put(struct spray_qp *qp)
{
	if (refcount_dec_and_test(&qp->ref))
		complete(&qp->gone);
}

void spray_timer_arm(struct spray_timer *t, u64 at)
{
	if (at >= t->armed)	/* a pending timer that fires early looks again */
		return;
	t->armed = at;
	hrtimer_start(&t->t, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

void spray_qp_kick(struct spray_qp *qp)
{
	spray_req_pump(qp);
	/* Asleep is set before the posted index is looked at: see spray_rq_ask(). */
	if (!READ_ONCE(qp->resp.rq.asleep)) {
		spray_qp_settle(qp);
		return;
	}
	spin_lock_bh(&qp->resp.lock);
	if (qp->resp.flushing)
		spray_flush_rq(qp);
	else if (qp->resp.live && qp->resp.core.syndrome == TP_SYN_RNR)
		__spray_resp_receive_posted(qp);
	spin_unlock_bh(&qp->resp.lock);
	spray_qp_settle(qp);
}

/* --- queues --- */

static int spray_wq_init(struct spray_wq *wq, u32 wr, u32 sge, u32 fixed, u32 max_inline)
{
	spin_lock_init(&wq->lock);
	if (!wr)
		return 0;
	wq->entries = roundup_pow_of_two(wr);
	wq->mask = wq->entries - 1;
	wq->max_sge = sge;
	wq->max_inline = max_inline;
	wq->slot = ALIGN(fixed + max_t(u32, sge * sizeof(struct spray_sge), max_inline),
			 SPRAY_RING_ALIGN);
	wq->slots = kvcalloc(wq->entries, wq->slot, GFP_KERNEL_ACCOUNT);
	return wq->slots ? 0 : -ENOMEM;
}

static int spray_qp_queues(struct spray_qp *qp, struct ib_qp_init_attr *init)
{
	struct ib_qp_cap *cap = &init->cap;
	int err;

	if (init->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
		err = spray_srq_sit(to_ssrq(init->srq), &qp->resp.seat, &qp->task);
		if (err)
			return err;
	}
	if (cap->max_send_wr > SPRAY_MAX_QP_WR || cap->max_recv_wr > SPRAY_MAX_QP_WR ||
	    cap->max_send_sge > SPRAY_MAX_SGE || cap->max_recv_sge > SPRAY_MAX_SGE ||
	    cap->max_inline_data > SPRAY_MAX_INLINE)
		return -EINVAL;
	cap->max_send_sge = max_t(u32, cap->max_send_sge, 1);
	cap->max_inline_data = max_t(u32, cap->max_inline_data, SPRAY_MIN_INLINE);
	if (!init->srq)
		cap->max_recv_sge = max_t(u32, cap->max_recv_sge, 1);
	err = spray_wq_init(&qp->req.sq, cap->max_send_wr, cap->max_send_sge,
			    sizeof(struct spray_sqe), cap->max_inline_data);
	if (!err)
		err = spray_wq_init(&qp->resp.rq, cap->max_recv_wr, cap->max_recv_sge,
				    sizeof(struct spray_rqe), 0);
	if (err)
		return err;
	qp->req.ops = kvcalloc(max_t(u32, qp->req.sq.entries, 1), sizeof(struct tp_op),
			       GFP_KERNEL_ACCOUNT);
	if (!qp->req.ops)
		return -ENOMEM;
	cap->max_send_wr = qp->req.sq.entries;
	cap->max_recv_wr = qp->resp.rq.entries;
	return 0;
}

static void spray_qp_free(struct spray_qp *qp)
{
	if (qp->mmap)
		rdma_user_mmap_entry_remove(&qp->mmap->entry);
	kvfree(qp->req.sq.slots);
	kvfree(qp->resp.rq.slots);
	kvfree(qp->req.ops);
	kfree(qp->req.core.tx.sent);
	kvfree(qp->resp.ops);
	kfree(qp->resp.core.tx.sent);
	spray_srq_rise(&qp->resp.seat);
	/* Kernels before 7.x let netlink ask for a QP until it is freed: see restrack.c. */
	mutex_lock(&qp->mutex);
	spray_peer_put(qp->peer);
	qp->peer = NULL;
	mutex_unlock(&qp->mutex);
}

/* The mapping: control page, SQ, RQ. */
static int spray_qp_map(struct spray_qp *qp, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = &rdma_udata_to_drv_context(udata, struct spray_ucontext, ib)->ib;
	struct spray_create_qp_resp resp = {};
	struct spray_wq *sq = &qp->req.sq, *rq = &qp->resp.rq;
	struct spray_mmap *map;
	u64 offset;
	void *mem;

	resp.sq_offset = SPRAY_QP_RINGS_OFFSET;
	resp.sq_entries = sq->entries;
	resp.sq_slot = sq->slot;
	resp.rq_offset = resp.sq_offset + sq->entries * sq->slot;
	resp.rq_entries = rq->entries;
	resp.rq_slot = rq->slot;
	resp.max_inline = sq->max_inline;
	resp.mmap_size = PAGE_ALIGN(resp.rq_offset + rq->entries * rq->slot);
	mem = vmalloc_user(resp.mmap_size);
	if (!mem)
		return -ENOMEM;
	map = spray_mmap_new(uctx, mem, resp.mmap_size, &offset);
	if (IS_ERR(map))
		return PTR_ERR(map);
	qp->mmap = map;
	qp->ctl = mem;
	sq->ring = mem + resp.sq_offset;
	rq->ring = mem + resp.rq_offset;
	WRITE_ONCE(qp->ctl->sq_need_doorbell, 1);
	resp.mmap_offset = offset;
	return spray_udata_respond(udata, &resp, sizeof(resp));
}

/* --- what a state means to the halves --- */

/* Both cores as after RESET: nothing in flight, indices at zero, ready to flush. */
static void spray_halves_reset(struct spray_qp *qp)
{
	struct tp_req_attr ra = { .payload = SPRAY_RING_ALIGN };
	struct tp_resp_attr pa = {};
	u64 now = ktime_get_ns();

	spin_lock_bh(&qp->req.lock);
	qp->epoch++;
	qp->req.live = false;
	spray_grant_end(qp, TP_RESPONSE);
	qp->req.flushing = false;
	qp->req.drain = false;
	qp->req.payload = SPRAY_RING_ALIGN;	/* what is only flushed needs some value */
	if (qp->ud)
		spray_forget_ud_sq(qp);
	kfree(qp->req.core.tx.sent);
	tp_req_init(&qp->req.core, &ra, qp->req.ops, max_t(u32, qp->req.sq.entries, 1), NULL, 1,
		    now);
	qp->req.published = (struct spray_published) {};
	qp->req.sq.avail = 0;
	qp->req.sq.cons = 0;
	qp->req.cur.op = ~0U;
	if (qp->ctl) {
		WRITE_ONCE(qp->ctl->sq_cons, 0);
		WRITE_ONCE(qp->ctl->sq_prod, 0);
	}
	spray_hold_drop(qp, &qp->req.hold);
	spin_unlock_bh(&qp->req.lock);
	spray_jitter();

	spin_lock_bh(&qp->resp.lock);
	qp->resp.epoch = qp->epoch;
	qp->resp.live = false;
	spray_grant_end(qp, TP_REQUEST);
	qp->resp.flushing = false;
	qp->resp.failed = false;
	qp->resp.comm_est = false;
	qp->resp.nak = 0;
	qp->resp.event = 0;
	qp->resp.last_wqe = false;
	if (qp->resp.seat.srq)
		spray_srq_leave(&qp->resp.seat, true);
	kfree(qp->resp.core.tx.sent);
	tp_resp_init(&qp->resp.core, &pa);
	qp->resp.published = (struct spray_published) {};
	qp->resp.rq.avail = 0;
	qp->resp.rq.cons = 0;
	spray_rq_wake(qp);
	if (qp->ctl) {
		WRITE_ONCE(qp->ctl->rq_cons, 0);
		WRITE_ONCE(qp->ctl->rq_prod, 0);
	}
	spray_hold_drop(qp, &qp->resp.hold);
	spin_unlock_bh(&qp->resp.lock);
}

/* Memory that only a connected QP needs. */
static int spray_qp_connect_mem(struct spray_qp *qp, u32 dest_rd)
{
	u32 n = roundup_pow_of_two(max_t(u32, dest_rd, 1));

	if (!dest_rd)
		return 0;
	kvfree(qp->resp.ops);
	qp->resp.ops = kvcalloc(n, sizeof(struct tp_op), GFP_KERNEL_ACCOUNT);
	return qp->resp.ops ? 0 : -ENOMEM;
}

static u32 spray_seed(struct spray_qp *qp, bool rx, u32 sqpn, u32 psn, u32 dqpn)
{
	struct spray_peer *p = qp->peer;
	const void *own = p->v6 ? (void *)&p->saddr6 : (void *)&p->saddr4;
	const void *far = p->v6 ? (void *)&p->daddr6 : (void *)&p->daddr4;

	return spray_icrc_seed(rx ? far : own, rx ? own : far, p->v6 ? 16 : 4, sqpn, psn, dqpn);
}

static u32 spray_qp_max_pkts(const struct spray_qp *qp)
{
	u32 wire = qp->payload + TP_DATA_OVERHEAD + 4 + TP_ATOMIC_LEN;
	u32 n = (65535 - sizeof(struct ipv6hdr) - sizeof(struct udphdr)) / wire;

	return clamp_t(u32, n, 1, min_t(u32, TP_BURST_MAX, READ_ONCE(qp->dev->ndev->gso_max_segs)));
}

/* INIT -> RTR: the responder starts. @av: as given by the consumer, with its GID. */
static int spray_to_rtr(struct spray_qp *qp, const struct rdma_ah_attr *av)
{
	const struct ib_qp_attr *at = &qp->attr;
	struct tp_resp_attr pa = {
		.psn = at->rq_psn,
		.max_dest_rd = at->max_dest_rd_atomic,
		.rnr_timer = at->min_rnr_timer,
	};
	struct spray_peer *peer;
	int err;

	peer = spray_peer_get(qp->dev, av, GFP_KERNEL);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	swap(qp->peer, peer);
	spray_peer_put(peer);
	err = spray_qp_connect_mem(qp, at->max_dest_rd_atomic);
	if (err)
		return err;
	local_bh_disable();
	qp->payload = spray_peer_payload(qp->peer);
	local_bh_enable();
	qp->max_pkts = spray_qp_max_pkts(qp);
	qp->seed_req_rx = spray_seed(qp, true, at->dest_qp_num, at->rq_psn, qp->ib.qp_num);
	qp->seed_rsp_tx = spray_seed(qp, false, qp->ib.qp_num, at->rq_psn, at->dest_qp_num);

	spin_lock_bh(&qp->resp.lock);
	tp_resp_init(&qp->resp.core, &pa);
	spray_grant_begin(qp, TP_REQUEST);
	/* Responses are numbered from the requester's first PSN: the one that is known by now. */
	if (at->max_dest_rd_atomic) {
		tp_resp_start_tx(&qp->resp.core, at->dest_qp_num, at->rq_psn, qp->resp.ops,
				 roundup_pow_of_two(at->max_dest_rd_atomic), qp->payload,
				 &qp->peer->paths, get_random_u32(), ktime_get_ns());
		if (READ_ONCE(qp->peer->grants))
			tp_tx_use_credit(&qp->resp.core.tx);
	}
	qp->resp.live = true;
	spin_unlock_bh(&qp->resp.lock);
	return 0;
}

static struct tp_req_attr spray_req_attr(const struct spray_qp *qp)
{
	const struct ib_qp_attr *at = &qp->attr;

	return (struct tp_req_attr) {
		.dqpn = at->dest_qp_num,
		.psn = at->sq_psn & 0xffffff,
		.rsp_psn = at->sq_psn & 0xffffff,
		.payload = qp->payload,
		.max_rd = min_t(u32, at->max_rd_atomic, TP_RD_MAX),
		.retry_cnt = at->retry_cnt,
		.rnr_retry = at->rnr_retry,
		.timeout_ns = at->timeout ? 4096ULL << at->timeout : 0,
	};
}

/* RTR -> RTS: the requester starts. */
static void spray_to_rts(struct spray_qp *qp)
{
	const struct ib_qp_attr *at = &qp->attr;
	struct tp_req_attr ra = spray_req_attr(qp);
	u64 now = ktime_get_ns();

	qp->seed_req_tx = spray_seed(qp, false, qp->ib.qp_num, at->sq_psn, at->dest_qp_num);
	qp->seed_rsp_rx = spray_seed(qp, true, at->dest_qp_num, at->sq_psn, qp->ib.qp_num);
	spin_lock_bh(&qp->req.lock);
	if (qp->req.flushing) {		/* a bad request came since the state was looked at: dead already */
		spin_unlock_bh(&qp->req.lock);
		return;
	}
	tp_req_init(&qp->req.core, &ra, qp->req.ops, max_t(u32, qp->req.sq.entries, 1),
		    &qp->peer->paths, get_random_u32(), now);
	if (READ_ONCE(qp->peer->grants))
		tp_tx_use_credit(&qp->req.core.tx);
	spray_grant_begin(qp, TP_RESPONSE);
	qp->req.live = true;
	spin_unlock_bh(&qp->req.lock);
}

void spray_req_set_err(struct spray_qp *qp)
{
	lockdep_assert_held(&qp->req.lock);
	qp->req.live = false;
	spray_grant_end(qp, TP_RESPONSE);
	qp->req.drain = false;		/* what is flushed was not drained: no event */
	qp->req.flushing = true;
	WRITE_ONCE(qp->state, IB_QPS_ERR);
}

/*
 * Anything -> ERR: all posted and all to be posted comes out flushed, once. A
 * fault is of one life of the QP: if RESET has ended that (@epoch), it is over.
 */
static void spray_req_to_err(struct spray_qp *qp, u32 epoch)
{
	spin_lock_bh(&qp->req.lock);
	if (qp->epoch != epoch) {
		spin_unlock_bh(&qp->req.lock);
		return;
	}
	spray_req_set_err(qp);
	if (qp->ud) {
		spray_flush_ud_sq(qp);
	} else {
		tp_req_flush(&qp->req.core);
		__spray_req_pump(qp);
	}
	spray_hold_drop(qp, &qp->req.hold);
	spin_unlock_bh(&qp->req.lock);
}

static void spray_resp_to_err(struct spray_qp *qp, u32 epoch)
{
	spin_lock_bh(&qp->resp.lock);
	if (qp->resp.epoch != epoch) {
		spin_unlock_bh(&qp->resp.lock);
		return;
	}
	/* Once a life, when its last receive from the SRQ is complete: below, before anybody is told. */
	qp->resp.last_wqe |= qp->ib.srq && !qp->resp.flushing;
	qp->resp.live = false;
	spray_grant_end(qp, TP_REQUEST);
	qp->resp.flushing = true;
	WRITE_ONCE(qp->state, IB_QPS_ERR);
	spray_hold_drop(qp, &qp->resp.hold);
	spray_rq_leave(qp);
	spray_flush_rq(qp);
	spin_unlock_bh(&qp->resp.lock);
}

static void spray_qp_event(struct spray_qp *qp, enum ib_event_type type)
{
	struct ib_event ev = { .device = qp->ib.device, .element.qp = &qp->ib, .event = type };

	if (qp->ib.event_handler)
		qp->ib.event_handler(&ev, qp->ib.qp_context);
}

/* SQD, and the last message is out: an event that has not been raised yet? */
static bool spray_drained(const struct spray_qp *qp)
{
	const struct tp_tx *tx = &qp->req.core.tx;

	return qp->req.drain && !qp->req.drained_told && tx->head == tx->tail;
}

static void spray_qp_to_err(struct spray_qp *qp, u32 epoch)
{
	spray_req_to_err(qp, epoch);
	spray_jitter();
	spray_resp_to_err(qp, epoch);
}

/*
 * RESET takes the halves one after the other, and this may run in between: each
 * half's fault is of that half's life.
 */
void spray_qp_settle(struct spray_qp *qp)
{
	bool req_down, resp_down, failed, tell;
	u32 req_epoch, resp_epoch;

	/* Flags that this very thread did not set are somebody else's to settle. */
	if (!READ_ONCE(qp->req.flushing) && !READ_ONCE(qp->req.drain) &&
	    !READ_ONCE(qp->resp.failed) && !READ_ONCE(qp->resp.event) &&
	    !READ_ONCE(qp->resp.last_wqe))
		return;
	spin_lock_bh(&qp->req.lock);
	req_epoch = qp->epoch;
	req_down = qp->req.flushing;
	tell = spray_drained(qp);
	spin_unlock_bh(&qp->req.lock);

	spin_lock_bh(&qp->resp.lock);
	resp_epoch = qp->resp.epoch;
	resp_down = qp->resp.flushing;
	failed = qp->resp.failed;
	tell |= qp->resp.event;
	spin_unlock_bh(&qp->resp.lock);

	spray_jitter();
	if (req_down && !resp_down)
		spray_qp_to_err(qp, req_epoch);
	else if (failed && !(req_down && resp_down))
		spray_qp_to_err(qp, resp_epoch);
	tell |= READ_ONCE(qp->resp.last_wqe);
	/* Never from here: this may be the consumer's own verbs call. */
	if (tell)
		tasklet_schedule(&qp->task);
}

static void spray_qp_tell(struct spray_qp *qp)
{
	bool drained, last;
	u8 event = 0;

	spin_lock_bh(&qp->req.lock);
	drained = spray_drained(qp);
	qp->req.drained_told |= drained;
	spin_unlock_bh(&qp->req.lock);
	spin_lock_bh(&qp->resp.lock);
	swap(event, qp->resp.event);
	last = qp->resp.last_wqe;
	qp->resp.last_wqe = false;
	spin_unlock_bh(&qp->resp.lock);
	if (drained && qp->attr.en_sqd_async_notify)
		spray_qp_event(qp, IB_EVENT_SQ_DRAINED);
	if (event)
		spray_qp_event(qp, event);
	if (last)
		spray_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/* --- modify --- */

static void spray_qp_store(struct spray_qp *qp, const struct ib_qp_attr *a, int mask)
{
	struct ib_qp_attr *s = &qp->attr;

	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		s->en_sqd_async_notify = a->en_sqd_async_notify;
	if (mask & IB_QP_ACCESS_FLAGS)
		s->qp_access_flags = a->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		s->pkey_index = a->pkey_index;
	if (mask & IB_QP_PORT)
		s->port_num = a->port_num;
	if (mask & IB_QP_QKEY)
		s->qkey = a->qkey;
	if (mask & IB_QP_AV) {
		s->ah_attr = a->ah_attr;
		s->ah_attr.grh.sgid_attr = NULL;	/* no reference kept: the peer has it all */
	}
	if (mask & IB_QP_PATH_MTU)
		s->path_mtu = a->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		s->timeout = a->timeout;
	if (mask & IB_QP_RETRY_CNT)
		s->retry_cnt = a->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		s->rnr_retry = a->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		s->rq_psn = a->rq_psn & 0xffffff;
	if (mask & IB_QP_SQ_PSN)
		s->sq_psn = a->sq_psn & 0xffffff;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		s->max_rd_atomic = a->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		s->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		s->min_rnr_timer = a->min_rnr_timer;
	if (mask & IB_QP_DEST_QPN)
		s->dest_qp_num = a->dest_qp_num;
}

static int spray_qp_check(struct spray_qp *qp, enum ib_qp_state from, const struct ib_qp_attr *a,
			  int mask)
{
	if ((mask & IB_QP_PORT) && a->port_num != 1)
		return -EINVAL;
	if ((mask & IB_QP_PKEY_INDEX) && a->pkey_index != 0)
		return -EINVAL;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > SPRAY_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > SPRAY_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_TIMEOUT) && a->timeout > 31)
		return -EINVAL;
	if ((mask & IB_QP_RETRY_CNT) && a->retry_cnt > 7)
		return -EINVAL;
	if ((mask & IB_QP_RNR_RETRY) && a->rnr_retry > 7)
		return -EINVAL;
	if ((mask & IB_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31)
		return -EINVAL;
	if ((mask & IB_QP_DEST_QPN) && a->dest_qp_num > 0xffffff)
		return -EINVAL;
	if ((mask & IB_QP_PATH_MTU) && (a->path_mtu < IB_MTU_256 || a->path_mtu > IB_MTU_4096))
		return -EINVAL;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE))
		return -EINVAL;
	/* A live connection keeps its peer and the number of READs it may have open. */
	if (!qp->ud && from == IB_QPS_SQD && (mask & (IB_QP_AV | IB_QP_MAX_DEST_RD_ATOMIC)))
		return -EOPNOTSUPP;
	return 0;
}

/* Attributes that may change while the QP lives. */
static void spray_qp_live_attr(struct spray_qp *qp)
{
	struct tp_req_attr ra = spray_req_attr(qp);

	spin_lock_bh(&qp->req.lock);
	if (qp->req.live)
		tp_req_modify(&qp->req.core, &ra);
	spin_unlock_bh(&qp->req.lock);
	spin_lock_bh(&qp->resp.lock);
	qp->resp.core.rnr_timer = qp->attr.min_rnr_timer;
	spin_unlock_bh(&qp->resp.lock);
}

static void spray_qp_to_reset(struct spray_qp *qp)
{
	spray_halves_reset(qp);
	spray_cq_clean(spray_send_cq(qp), &qp->ib);
	spray_cq_clean(spray_recv_cq(qp), &qp->ib);
}

static void spray_qp_sqd(struct spray_qp *qp, bool on)
{
	spin_lock_bh(&qp->req.lock);
	qp->req.drain = on;
	qp->req.drained_told = !on;
	spin_unlock_bh(&qp->req.lock);
}

/* RC: carry out a change of state; qp->attr holds the new attributes. */
static int spray_qp_enter(struct spray_qp *qp, enum ib_qp_state from, enum ib_qp_state to,
			  const struct rdma_ah_attr *av)
{
	int err = 0;

	switch (to) {
	case IB_QPS_RESET:
		err = spray_srq_prepare_reset(&qp->resp.seat);
		if (!err)
			spray_qp_to_reset(qp);
		break;
	case IB_QPS_RTR:
		if (from == IB_QPS_INIT && !qp->ud)
			err = spray_to_rtr(qp, av);
		break;
	case IB_QPS_RTS:
		if (from == IB_QPS_RTR && !qp->ud)
			spray_to_rts(qp);
		else if (from == IB_QPS_SQD)
			spray_qp_sqd(qp, false);
		break;
	case IB_QPS_SQD:
		spray_qp_sqd(qp, true);
		break;
	case IB_QPS_ERR:
		/* Under the mutex there is no RESET meanwhile. */
		spray_qp_to_err(qp, qp->epoch);
		break;
	default:
		break;
	}
	return err;
}

/* UD and GSI have no connection: both halves are in service from RTR and RTS on. */
static void spray_ud_enter(struct spray_qp *qp, enum ib_qp_state to)
{
	spin_lock_bh(&qp->resp.lock);
	qp->qkey = qp->attr.qkey;
	qp->resp.live = to == IB_QPS_RTR || to == IB_QPS_RTS || to == IB_QPS_SQD;
	spin_unlock_bh(&qp->resp.lock);
	spin_lock_bh(&qp->req.lock);
	if (to == IB_QPS_RTS && !qp->req.live)
		qp->ud_psn = qp->attr.sq_psn;
	qp->req.live = to == IB_QPS_RTS || to == IB_QPS_SQD;
	spin_unlock_bh(&qp->req.lock);
}

int spray_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct spray_qp *qp = to_sqp(ib);
	enum ib_qp_state from, to;
	struct ib_qp_attr old;
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	mutex_lock(&qp->mutex);
	from = READ_ONCE(qp->state);
	if ((mask & IB_QP_CUR_STATE) && from == IB_QPS_RTS && attr->cur_qp_state == IB_QPS_SQD)
		from = IB_QPS_SQD;
	to = mask & IB_QP_STATE ? attr->qp_state : from;
	err = ib_modify_qp_is_ok(from, to, ib->qp_type, mask) ? spray_qp_check(qp, from, attr, mask) :
								 -EINVAL;
	if (err)
		goto out;
	old = qp->attr;
	spray_qp_store(qp, attr, mask);
	if (mask & IB_QP_STATE)
		err = spray_qp_enter(qp, from, to, &attr->ah_attr);
	if (err) {
		qp->attr = old;
		goto out;
	}
	if (qp->ud)
		spray_ud_enter(qp, to);
	else if (to == IB_QPS_RTR || to == IB_QPS_RTS || to == IB_QPS_SQD)
		spray_qp_live_attr(qp);
	spray_jitter();
	WRITE_ONCE(qp->state, to);
	/*
	 * A fault found meanwhile must not be painted over. Who finds one sets
	 * its flag and then the state: either it is seen here, or the finder's
	 * write comes after ours.
	 */
	smp_mb();
	if (to != IB_QPS_RESET && (READ_ONCE(qp->req.flushing) || READ_ONCE(qp->resp.flushing) ||
				   READ_ONCE(qp->resp.nak)))
		WRITE_ONCE(qp->state, IB_QPS_ERR);
	local_bh_disable();
	spray_qp_kick(qp);
	local_bh_enable();
out:
	mutex_unlock(&qp->mutex);
	return err;
}

int spray_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init)
{
	struct spray_qp *qp = to_sqp(ib);

	mutex_lock(&qp->mutex);
	*attr = qp->attr;
	attr->qp_state = READ_ONCE(qp->state);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mig_state = IB_MIG_MIGRATED;
	attr->cap.max_send_wr = qp->req.sq.entries;
	attr->cap.max_recv_wr = qp->resp.rq.entries;
	attr->cap.max_send_sge = max_t(u32, qp->req.sq.max_sge, 1);
	attr->cap.max_recv_sge = ib->srq ? 0 : max_t(u32, qp->resp.rq.max_sge, 1);
	attr->cap.max_inline_data = qp->req.sq.max_inline;
	spin_lock_bh(&qp->req.lock);
	attr->sq_draining = qp->req.drain && qp->req.core.tx.head != qp->req.core.tx.tail;
	spin_unlock_bh(&qp->req.lock);
	mutex_unlock(&qp->mutex);

	init->event_handler = ib->event_handler;
	init->qp_context = ib->qp_context;
	init->send_cq = ib->send_cq;
	init->recv_cq = ib->recv_cq;
	init->srq = ib->srq;
	init->cap = attr->cap;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ib->qp_type;
	init->port_num = qp->attr.port_num;
	return 0;
}

/* --- create, destroy --- */

/*
 * The pump of posters with interrupts off, and whoever raises events: runs in
 * softirq, on the CPU that asked, outside every verbs call.
 */
static void spray_qp_task(struct tasklet_struct *t)
{
	struct spray_qp *qp = from_tasklet(qp, t, task);

	spray_qp_kick(qp);
	spray_qp_tell(qp);
}

static int spray_qp_number(struct spray_qp *qp)
{
	u32 qpn;
	int err;

	if (qp->ib.qp_type == IB_QPT_GSI) {
		qp->ib.qp_num = TP_GSI_QPN;
		spin_lock_bh(&qp->dev->sn->devs_lock);
		err = qp->dev->gsi ? -EBUSY : 0;
		if (!err)
			qp->dev->gsi = qp;
		spin_unlock_bh(&qp->dev->sn->devs_lock);
		return err;
	}
	err = xa_alloc_cyclic_bh(&spray_qps, &qpn, qp, XA_LIMIT(SPRAY_QPN_FIRST, SPRAY_QPN_LAST),
				 &spray_qpn_next, GFP_KERNEL);
	if (err < 0)
		return err;
	qp->ib.qp_num = qpn;
	return 0;
}

static void spray_qp_unnumber(struct spray_qp *qp)
{
	if (qp->ib.qp_type == IB_QPT_GSI) {
		spin_lock_bh(&qp->dev->sn->devs_lock);
		qp->dev->gsi = NULL;
		spin_unlock_bh(&qp->dev->sn->devs_lock);
	} else {
		xa_erase_bh(&spray_qps, qp->ib.qp_num);
	}
}

static void spray_qp_init(struct spray_qp *qp)
{
	mutex_init(&qp->mutex);
	init_completion(&qp->gone);
	refcount_set(&qp->ref, 1);
	spin_lock_init(&qp->req.lock);
	spin_lock_init(&qp->resp.lock);
	xa_init_flags(&qp->resp.hold.pkts, XA_FLAGS_LOCK_BH);
	xa_init_flags(&qp->req.hold.pkts, XA_FLAGS_LOCK_BH);
	spray_hrtimer_setup(&qp->req.timer.t, spray_req_timer, CLOCK_MONOTONIC,
			    HRTIMER_MODE_ABS_SOFT);
	spray_hrtimer_setup(&qp->resp.timer.t, spray_resp_timer, CLOCK_MONOTONIC,
			    HRTIMER_MODE_ABS_SOFT);
	qp->req.timer.armed = ~0ULL;
	qp->resp.timer.armed = ~0ULL;
	tasklet_setup(&qp->task, spray_qp_task);
	qp->ack_rng = get_random_u32() | 1;
	qp->state = IB_QPS_RESET;
}

int spray_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct spray_qp *qp = to_sqp(ib);
	int err;

	if (init->qp_type != IB_QPT_RC && init->qp_type != IB_QPT_UD &&
	    init->qp_type != IB_QPT_GSI)
		return -EOPNOTSUPP;
	if (init->create_flags)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	err = spray_take(to_sdev(ib->device), SPRAY_OBJ_QP);
	if (err)
		return err;
	qp->dev = to_sdev(ib->device);
	qp->ud = init->qp_type != IB_QPT_RC;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->attr.port_num = 1;
	spray_qp_init(qp);
	err = spray_qp_queues(qp, init);
	if (!err && udata)
		err = spray_qp_map(qp, udata);
	if (err)
		goto fail;
	spray_halves_reset(qp);
	err = spray_qp_number(qp);
	if (err)
		goto fail;
	return 0;
fail:
	spray_qp_free(qp);
	spray_give(qp->dev, SPRAY_OBJ_QP);
	return err;
}

int spray_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct spray_qp *qp = to_sqp(ib);

	spray_qp_unnumber(qp);
	mutex_lock(&qp->mutex);
	/* Out of service: timers and tasklet that run from here on find nothing to do or to arm. */
	spray_halves_reset(qp);
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	mutex_unlock(&qp->mutex);
	spray_qp_put(qp);
	wait_for_completion(&qp->gone);
	spray_jitter();
	/* Timers first: one that runs just now may still schedule the tasklet, none is armed any more. */
	hrtimer_cancel(&qp->req.timer.t);
	hrtimer_cancel(&qp->resp.timer.t);
	tasklet_kill(&qp->task);
	spray_cq_clean(spray_send_cq(qp), ib);
	spray_cq_clean(spray_recv_cq(qp), ib);
	spray_qp_free(qp);
	spray_give(qp->dev, SPRAY_OBJ_QP);
	return 0;
}
