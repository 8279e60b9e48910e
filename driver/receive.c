// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receiving. A super-packet is walked packet by packet: decode, find the QP,
 * verify the ICRC, ask the core what to do, copy or keep the bytes, commit.
 * Answers and new bursts go out once per batch and QP.
 *
 * Order of things for one request packet, all under resp.lock:
 *   check -> bytes placed (or kept) -> commit -> run what the executed point
 *   reaches -> completion. A packet is marked only after its bytes are safe, a
 *   message completes only after all its packets are marked, and a duplicate
 *   is recognised by the mark: C1, C2, C3 by lock order (see qp.h). What comes
 *   behind a NAK is marked and thrown away: nothing of it completes.
 *
 * Anything remote can do here is counted and dropped; nothing prints.
 */
#include <linux/udp.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/inet_ecn.h>
#include <net/udp.h>
#include <rdma/ib_addr.h>

#include "compat.h"
#include "copy.h"
#include "hello.h"
#include "icrc.h"
#include "receive.h"

enum { SPRAY_BOUNCE = 16 << 10 };	/* bytes; longer than any packet we accept */

/* Packets that straddle fragments are made contiguous here; softirq only. */
static DEFINE_PER_CPU(u8 *, spray_bounce);

int spray_rx_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu(spray_bounce, cpu) = kmalloc_node(SPRAY_BOUNCE, GFP_KERNEL,
							  cpu_to_node(cpu));
		if (!per_cpu(spray_bounce, cpu)) {
			spray_rx_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void spray_rx_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		kfree(per_cpu(spray_bounce, cpu));
		per_cpu(spray_bounce, cpu) = NULL;
	}
}

/* --- held packets --- */

static u32 spray_hold_charge(u32 len)
{
	return sizeof(struct spray_held) + len + 64;	/* slab and tree overhead */
}

/* Keep a packet until its turn. Return: false if there is no room. */
static bool spray_hold_add(struct spray_qp *qp, struct spray_hold *h, const struct tp_pkt *pkt,
			   const u8 *data, u32 len, u32 op)
{
	u32 charge = spray_hold_charge(len);
	bool pool = h->bytes + charge > SPRAY_HOLD_OWN;
	struct spray_held *held;

	if (pool && atomic_long_add_return(charge, &qp->dev->held) > SPRAY_HOLD_DEVICE) {
		atomic_long_sub(charge, &qp->dev->held);
		spray_qp_count(qp, drop_hold_quota);
		return false;
	}
	held = kmalloc(struct_size(held, data, len), GFP_ATOMIC | __GFP_NOWARN);
	if (!held)
		goto no_memory;
	held->pkt = *pkt;
	held->op = op;
	held->len = len;
	held->pooled = pool;
	memcpy(held->data, data, len);
	if (xa_err(xa_store(&h->pkts, pkt->psn, held, GFP_ATOMIC | __GFP_NOWARN)))
		goto no_memory;
	h->n++;
	if (!pool)
		h->bytes += charge;
	spray_qp_count(qp, rx_held);
	return true;
no_memory:
	kfree(held);
	if (pool)
		atomic_long_sub(charge, &qp->dev->held);
	spray_qp_count(qp, drop_no_memory);
	return false;
}

static struct spray_held *spray_hold_find(struct spray_hold *h, u32 psn)
{
	return h->n ? xa_load(&h->pkts, psn) : NULL;
}

static void spray_hold_del(struct spray_qp *qp, struct spray_hold *h, struct spray_held *held)
{
	u32 charge = spray_hold_charge(held->len);

	xa_erase(&h->pkts, held->pkt.psn);
	h->n--;
	if (held->pooled)
		atomic_long_sub(charge, &qp->dev->held);
	else
		h->bytes -= charge;
	kfree(held);
}

void spray_hold_drop(struct spray_qp *qp, struct spray_hold *h)
{
	struct spray_held *held;
	unsigned long psn;

	xa_for_each(&h->pkts, psn, held)
		spray_hold_del(qp, h, held);
	xa_destroy(&h->pkts);
}

/* --- requests: placing --- */

/* Bytes of a WRITE. Return: 0 or -EFAULT. */
static int spray_place_write(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data, u32 len)
{
	u64 va = p->va;
	u32 span = len;
	struct spray_mr *mr;

	if (!p->dma_len)
		return 0;
	if (!(READ_ONCE(qp->attr.qp_access_flags) & IB_ACCESS_REMOTE_WRITE))
		return -EFAULT;
	/* The first packet answers for the whole message, the last for where it must have begun. */
	if (p->last) {
		va -= p->dma_len - len;
		span = p->dma_len;
	} else if (p->first) {
		span = p->dma_len;
	}
	mr = spray_mr_get(qp->dev, qp->ib.pd, qp->ib.qp_num, p->rkey, IB_ACCESS_REMOTE_WRITE, va,
			  span);
	if (!mr)
		return -EFAULT;
	spray_copy_in(mr, p->va, data, len, p->last);
	spray_mr_put(mr);
	return 0;
}

static int spray_place_send(struct spray_qp *qp, struct spray_rqe *rqe, const struct tp_pkt *p,
			    const u8 *data, u32 len)
{
	return spray_scatter(qp->dev, spray_recv_pd(qp), spray_rqe_sge(rqe), rqe->num_sge,
			     (u32)p->va, data, len, p->last);
}

/* Place a packet ahead of its turn, if it can be. */
static bool spray_place_early(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data, u32 len)
{
	struct spray_rqe *rqe;

	if (p->kind == TP_WRITE)
		return !spray_place_write(qp, p, data, len);
	rqe = spray_rq_get(qp, p->rqmsn);
	if (!rqe || spray_sge_total(spray_rqe_sge(rqe), rqe->num_sge) < p->dma_len)
		return false;
	return !spray_place_send(qp, rqe, p, data, len);
}

/* --- requests: running at the executed point --- */

enum spray_run {
	SPRAY_RAN,
	SPRAY_RAN_RECV,		/* and consumed a receive */
	SPRAY_RUN_RNR,
	SPRAY_RUN_FAILED,
};

void spray_resp_fail(struct spray_qp *qp, enum tp_nak nak, u8 event, bool now)
{
	struct spray_resp *r = &qp->resp;

	lockdep_assert_held(&r->lock);
	if (r->failed)
		return;
	if (!r->nak) {
		r->nak_event = event;
		r->nak_at = ktime_get_ns();
		r->nak = nak + 1;
		tp_resp_unblock(&r->core);	/* it did not fail for want of a receive */
		smp_wmb();
		/* Who sees an error completion must find the QP in ERR. */
		WRITE_ONCE(qp->state, IB_QPS_ERR);
		spray_rq_leave(qp);
	}
	/* Everything before completes normally: first let what is owed arrive (C6). */
	if (!now && tp_resp_owes(&r->core))
		return;
	r->core.has_tx = false;		/* what could not be delivered is owed no longer */
	tp_resp_nak(&r->core, r->nak - 1);
	r->event = r->nak_event;
	r->failed = true;
}

static enum spray_run spray_fail(struct spray_qp *qp, enum tp_nak nak)
{
	spray_resp_fail(qp, nak,
			nak == TP_NAK_REM_ACCESS ? IB_EVENT_QP_ACCESS_ERR : IB_EVENT_QP_REQ_ERR,
			false);
	return SPRAY_RUN_FAILED;
}

/* A receive that can't take its message ends with an error of its own. */
static enum spray_run spray_fail_recv(struct spray_qp *qp, enum ib_wc_status st, enum tp_nak nak)
{
	struct spray_cqe c = { .status = st, .opcode = SPRAY_WC_RECV };

	spray_resp_fail(qp, nak, IB_EVENT_QP_FATAL, false);
	spray_complete_recv(qp, &c, true);
	return SPRAY_RUN_FAILED;
}

static void spray_recv_done(struct spray_qp *qp, const struct tp_pkt *p)
{
	struct spray_cqe c = {
		.byte_len = p->dma_len,
		.opcode = p->kind == TP_WRITE ? SPRAY_WC_RECV_IMM : SPRAY_WC_RECV,
		.src_qpn = qp->attr.dest_qp_num,
	};

	if (p->has_imm) {
		c.flags |= SPRAY_WC_WITH_IMM;
		c.ex = (__force u32)cpu_to_be32(p->imm);
	} else if (p->has_inv) {
		c.flags |= SPRAY_WC_WITH_INV;
		c.ex = p->imm;
	}
	spray_complete_recv(qp, &c, p->solicited);
}

static enum spray_run spray_run_send(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data,
				     u32 len)
{
	struct spray_rqe *rqe = spray_rq_get(qp, qp->resp.core.rqmsn);
	int err;

	if (!rqe)
		return SPRAY_RUN_RNR;
	if (spray_sge_total(spray_rqe_sge(rqe), rqe->num_sge) < p->dma_len)
		return spray_fail_recv(qp, IB_WC_LOC_LEN_ERR, TP_NAK_INV_REQ);
	err = spray_place_send(qp, rqe, p, data, len);
	if (err)
		return spray_fail_recv(qp, IB_WC_LOC_PROT_ERR, TP_NAK_REM_OP);
	if (!p->last)
		return SPRAY_RAN;
	/* The key is dead before its owner learns that the message is here. */
	if (p->has_inv && spray_mr_invalidate(qp->dev, qp->ib.pd, qp->ib.qp_num, p->imm))
		return spray_fail_recv(qp, IB_WC_MW_BIND_ERR, TP_NAK_REM_ACCESS);
	spray_recv_done(qp, p);
	return SPRAY_RAN_RECV;
}

static enum spray_run spray_run_write(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data,
				      u32 len)
{
	bool recv = p->last && p->has_imm;

	if (recv && !spray_rq_get(qp, qp->resp.core.rqmsn))
		return SPRAY_RUN_RNR;
	if (spray_place_write(qp, p, data, len))
		return spray_fail(qp, TP_NAK_REM_ACCESS);
	if (!recv)
		return SPRAY_RAN;
	spray_recv_done(qp, p);
	return SPRAY_RAN_RECV;
}

/* The region that a request names, if the QP and it allow @access to @len bytes. Return: referenced, or NULL. */
static struct spray_mr *spray_remote_mr(struct spray_qp *qp, const struct tp_pkt *p, int access,
					u32 len)
{
	if (access & ~READ_ONCE(qp->attr.qp_access_flags))
		return NULL;
	return spray_mr_get(qp->dev, qp->ib.pd, qp->ib.qp_num, p->rkey, access, p->va, len);
}

/* A request that is answered becomes a response. Return: it, or NULL: the peer has too many open. */
static struct tp_op *spray_respond(struct spray_qp *qp, const struct tp_pkt *p)
{
	struct tp_op *op;

	return tp_resp_read(&qp->resp.core, p, spray_hello_payload(qp->peer, qp->payload),
			    ktime_get_ns(), &op) ? op : NULL;
}

static enum spray_run spray_run_read(struct spray_qp *qp, const struct tp_pkt *p)
{
	if (p->dma_len) {
		struct spray_mr *mr = spray_remote_mr(qp, p, IB_ACCESS_REMOTE_READ, p->dma_len);

		if (!mr)
			return spray_fail(qp, TP_NAK_REM_ACCESS);
		spray_mr_put(mr);
	}
	return spray_respond(qp, p) ? SPRAY_RAN : spray_fail(qp, TP_NAK_INV_REQ);
}

/*
 * All that the peer sent before is placed by now, in whatever order it came (C2, C5): what is left is
 * to have it there for everybody, devices too, before the answer is. Nothing here is persistent, and
 * no region says so: who asks for that is refused.
 */
static enum spray_run spray_run_flush(struct spray_qp *qp, const struct tp_pkt *p)
{
	int access = 0;
	struct spray_mr *mr;

	if (p->imm & TP_FETH_GLOBAL)
		access |= IB_ACCESS_FLUSH_GLOBAL;
	if (p->imm & TP_FETH_PERSISTENT)
		access |= IB_ACCESS_FLUSH_PERSISTENT;
	mr = spray_remote_mr(qp, p, access, p->imm & TP_FETH_MR ? 0 : p->dma_len);
	if (!mr)
		return spray_fail(qp, TP_NAK_REM_ACCESS);
	spray_mr_put(mr);
	wmb();
	return spray_respond(qp, p) ? SPRAY_RAN : spray_fail(qp, TP_NAK_INV_REQ);
}

/* One word, aligned: the slot of its answer first, as what is done can't be taken back. */
static enum spray_run spray_run_word(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data)
{
	int access = p->kind == TP_ATOMIC_WRITE ? IB_ACCESS_REMOTE_WRITE : IB_ACCESS_REMOTE_ATOMIC;
	struct spray_mr *mr;
	struct tp_op *op;
	u32 n = 8;
	u64 *at;

	if (p->va & 7)
		return spray_fail(qp, TP_NAK_INV_REQ);
	mr = spray_remote_mr(qp, p, access, 8);
	if (!mr)
		return spray_fail(qp, TP_NAK_REM_ACCESS);
	op = spray_respond(qp, p);
	if (!op) {
		spray_mr_put(mr);
		return spray_fail(qp, TP_NAK_INV_REQ);
	}
	at = spray_mr_ptr(mr, p->va, &n);
	if (p->kind == TP_ATOMIC_WRITE)
		spray_copy_in(mr, p->va, data, 8, true);
	else if (p->kind == TP_CAS)
		op->swap_add = cmpxchg64(at, p->compare, p->swap_add);
	else
		op->swap_add = atomic64_fetch_add(p->swap_add, (atomic64_t *)at);
	spray_mr_put(mr);
	return SPRAY_RAN;
}

/* The packet at the executed point. */
static enum spray_run spray_run(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data, u32 len)
{
	if (!tp_resp_turn(&qp->resp.core, p))
		return spray_fail(qp, TP_NAK_INV_REQ);
	switch (p->kind) {
	case TP_SEND:
		return spray_run_send(qp, p, data, len);
	case TP_WRITE:
		return spray_run_write(qp, p, data, len);
	case TP_READ:
		return spray_run_read(qp, p);
	case TP_RDMA_FLUSH:
		return spray_run_flush(qp, p);
	default:
		return spray_run_word(qp, p, data);
	}
}

/* No receive at the executed point. Return: true if one came meanwhile: try again. */
static bool spray_blocked(struct spray_qp *qp)
{
	if (!spray_rq_sleep(qp)) {
		spray_rq_wake(qp);
		return true;
	}
	if (qp->resp.core.syndrome == TP_SYN_RNR)
		return false;	/* told already; probes are answered anyway */
	tp_resp_rnr(&qp->resp.core);
	qp->resp.core.rx.ack_wanted = true;
	return false;
}

static void spray_unblock(struct spray_qp *qp)
{
	if (qp->resp.core.syndrome != TP_SYN_RNR)
		return;
	tp_resp_unblock(&qp->resp.core);
	spray_rq_wake(qp);
}

/* Everything that the executed point can reach. */
static void spray_resp_advance(struct spray_qp *qp)
{
	struct spray_resp *r = &qp->resp;

	while (!r->nak && tp_resp_ready(&r->core)) {
		struct spray_held *held = spray_hold_find(&r->hold, r->core.rx.exec);
		enum spray_run res;

		if (!held) {
			spray_unblock(qp);
			tp_resp_executed(&r->core, NULL, false);
			continue;
		}
		res = spray_run(qp, &held->pkt, held->data, held->len);
		if (res == SPRAY_RUN_RNR && spray_blocked(qp))
			continue;
		if (res == SPRAY_RUN_RNR || res == SPRAY_RUN_FAILED)
			return;
		spray_unblock(qp);
		tp_resp_executed(&r->core, &held->pkt, res == SPRAY_RAN_RECV);
		spray_hold_del(qp, &r->hold, held);
	}
}

static s32 spray_credits(struct spray_qp *qp)
{
	struct spray_wq *rq = &qp->resp.rq;

	return rq->entries ? (s32)(rq->avail - rq->cons) : -1;
}

/* The answer that is due for a space, if any; its half's lock held. */
static void spray_answer(struct spray_qp *qp, enum tp_space space)
{
	bool requests = space == TP_REQUEST;
	struct tp_ack a;

	if (!(requests ? tp_resp_take_ack(&qp->resp.core, spray_credits(qp), &a) :
			 tp_req_take_ack(&qp->req.core, &a)))
		return;
	if (qp->dev->pacer.budget)
		spray_grant_tell(qp, space, requests ? qp->resp.live : qp->req.live, &a);
	spray_send_ack(qp, &a);
}

void spray_answer_unasked(struct spray_qp *qp, enum tp_space space)
{
	bool requests = space == TP_REQUEST;
	spinlock_t *lock = requests ? &qp->resp.lock : &qp->req.lock;

	spin_lock(lock);
	if (requests ? qp->resp.live : qp->req.live) {
		*(requests ? &qp->resp.core.rx.ack_wanted : &qp->req.core.rx.ack_wanted) = true;
		spray_answer(qp, space);
	}
	spin_unlock(lock);
}

void __spray_resp_progress(struct spray_qp *qp)
{
	lockdep_assert_held(&qp->resp.lock);
	if (qp->resp.live && !qp->resp.failed) {
		spray_resp_advance(qp);
		__spray_resp_pump(qp);
	}
	spray_answer(qp, TP_REQUEST);
}

/*
 * A receive may have come. What waited for it and could not be kept comes again, and must not be
 * refused once more before it does.
 */
void __spray_resp_receive_posted(struct spray_qp *qp)
{
	struct tp_resp *r = &qp->resp.core;

	if (!tp_resp_ready(r) && !spray_rq_sleep(qp)) {
		spray_unblock(qp);
		r->rx.ack_wanted = true;
	}
	__spray_resp_progress(qp);
}

/* --- requests: arrival --- */

/* TURN: run it where it stands. Return: it is placed or kept. */
static bool spray_turn(struct spray_qp *qp, const struct tp_pkt *p, const u8 *data, u32 len)
{
	struct spray_resp *r = &qp->resp;
	enum spray_run res;

	do {
		res = spray_run(qp, p, data, len);
	} while (res == SPRAY_RUN_RNR && spray_blocked(qp));

	if (res == SPRAY_RUN_FAILED) {
		tp_resp_ignore(&r->core, p);
		return false;
	}
	if (res == SPRAY_RUN_RNR) {
		if (!spray_hold_add(qp, &r->hold, p, data, len, 0))
			return false;
		tp_resp_commit(&r->core, p);
		return true;
	}
	spray_unblock(qp);
	tp_resp_commit(&r->core, p);
	tp_resp_executed(&r->core, p, res == SPRAY_RAN_RECV);
	return true;
}

/* Placed ahead of its turn, or kept. Return: it is safe. */
static bool spray_early(struct spray_qp *qp, struct tp_pkt *p, const u8 *data, u32 len, bool place)
{
	struct spray_resp *r = &qp->resp;

	if (p->psn != r->core.rx.cum)
		spray_qp_count(qp, rx_out_of_order);
	/* What can't be placed early waits and fails, if it still must, at its turn. */
	if (place && spray_place_early(qp, p, data, len))
		return true;
	return spray_hold_add(qp, &r->hold, p, data, len, 0);
}

static void spray_rx_data(struct spray_qp *qp, struct tp_pkt *p, const u8 *data, u32 len)
{
	struct spray_resp *r = &qp->resp;
	enum tp_take take = tp_resp_check(&r->core, p, len);

	switch (take) {
	case TP_TAKE_TURN:
		if (!spray_turn(qp, p, data, len))
			return;
		break;
	case TP_TAKE_PLACE:
	case TP_TAKE_HOLD:
		if (spray_early(qp, p, data, len, take == TP_TAKE_PLACE))
			tp_resp_commit(&r->core, p);
		else if (p->psn != r->core.rx.exec || !spray_turn(qp, p, data, len))
			return;
		break;
	case TP_TAKE_DUP:
		spray_qp_count(qp, rx_duplicates);
		return;
	case TP_TAKE_OUTSIDE:
		spray_qp_count(qp, drop_outside_window);
		return;
	default:
		spray_qp_count(qp, drop_malformed);
		return;
	}
	spray_grant_count(&r->credit, len, p->rtx);
	spray_resp_advance(qp);
}

/*
 * A packet or a probe is here. The core remembers one probe and one EV; each probe gets an answer of
 * its own, which names its EV, not that of a packet that was marked, and no mark but its own.
 */
static void spray_rx_note(struct spray_rx *rx, struct spray_qp *qp, struct tp_rx *window,
			  const struct tp_pkt *p)
{
	if (p->kind == TP_PROBE ? window->probe || window->ce : window->probe && rx->ce) {
		window->ack_wanted = true;
		spray_answer(qp, p->space);
	}
	tp_rx_seen(window, rx->entropy, rx->ce);
	if (p->kind == TP_PROBE) {
		spray_qp_count(qp, rx_probes);
		tp_rx_probed(window, p->probe_id);
	}
}

/* A packet of the request space, or a probe of it. resp.lock held. */
static void spray_rx_request(struct spray_rx *rx, struct spray_qp *qp, struct tp_pkt *p,
			     const u8 *data, u32 len)
{
	struct spray_resp *r = &qp->resp;

	if (r->live && r->nak && !r->failed) {
		spray_rx_note(rx, qp, &r->core.rx, p);
		if (p->kind != TP_PROBE)
			tp_resp_ignore(&r->core, p);
		return;
	}
	if (!r->live || r->nak) {
		/* After a fatal fault every packet is answered with the final NAK, until RESET. */
		if (r->core.syndrome == TP_SYN_NAK)
			r->core.rx.ack_wanted = true;
		else if (!r->nak)
			spray_qp_count(qp, drop_qp_state);
		return;
	}
	if (!r->comm_est) {
		r->comm_est = true;
		/* Before RTS: the half is live a moment before the state says RTR. */
		if (READ_ONCE(qp->state) == IB_QPS_RTR || READ_ONCE(qp->state) == IB_QPS_INIT)
			r->event = IB_EVENT_COMM_EST;
	}
	spray_rx_note(rx, qp, &r->core.rx, p);
	if (p->kind != TP_PROBE)
		spray_rx_data(qp, p, data, len);
}

/* --- responses --- */

static int spray_place_response(struct spray_qp *qp, u32 op, const struct tp_pkt *p,
				const u8 *data, u32 len)
{
	struct spray_sqe *sqe = spray_wq_slot(&qp->req.sq, op);
	u64 value;

	if (p->kind == TP_ATOMIC_DATA) {
		value = tp_get64(data);
		return spray_scatter(qp->dev, qp->ib.pd, spray_sqe_sge(sqe), sqe->num_sge, 0,
				     (u8 *)&value, sizeof(value), true);
	}
	return spray_scatter(qp->dev, qp->ib.pd, spray_sqe_sge(sqe), sqe->num_sge, (u32)p->va,
			     data, len, p->last);
}

/* The response packet at the executed point. Return: false on a local protection error. */
static bool spray_run_response(struct spray_qp *qp, u32 op, const struct tp_pkt *p, const u8 *data,
			       u32 len)
{
	if (spray_place_response(qp, op, p, data, len)) {
		tp_req_local_error(&qp->req.core, op, TP_LOC_PROT);
		return false;
	}
	if (p->last)
		tp_req_rd_done(&qp->req.core, op);
	return true;
}

static void spray_response_advance(struct spray_qp *qp)
{
	struct spray_req *r = &qp->req;

	while (tp_req_response_ready(&r->core)) {
		struct spray_held *held = spray_hold_find(&r->hold, r->core.rx.exec);

		if (held && !tp_req_response_still(&r->core, &held->pkt, held->len, held->op)) {
			spray_qp_count(qp, drop_bad_response);
			spray_hold_del(qp, &r->hold, held);
		} else if (held) {
			if (!spray_run_response(qp, held->op, &held->pkt, held->data, held->len))
				return;
			spray_hold_del(qp, &r->hold, held);
		}
		tp_req_response_executed(&r->core);
	}
}

/* A packet of the response space. req.lock held. */
static void spray_rx_response(struct spray_rx *rx, struct spray_qp *qp, struct tp_pkt *p,
			      const u8 *data, u32 len)
{
	struct spray_req *r = &qp->req;
	u32 op;

	if (!r->live) {
		spray_qp_count(qp, drop_qp_state);
		return;
	}
	spray_rx_note(rx, qp, &r->core.rx, p);
	if (p->kind == TP_PROBE)
		return;
	switch (tp_req_response(&r->core, p, len, &op)) {
	case TP_TAKE_TURN:
		if (!spray_run_response(qp, op, p, data, len))
			return;
		tp_req_response_commit(&r->core, p);
		tp_req_response_executed(&r->core);
		spray_grant_count(&r->credit, len, p->rtx);
		break;
	case TP_TAKE_PLACE:
		if (p->psn != r->core.rx.cum)
			spray_qp_count(qp, rx_out_of_order);
		if (spray_place_response(qp, op, p, data, len)) {
			tp_req_local_error(&r->core, op, TP_LOC_PROT);
			return;
		}
		tp_req_response_commit(&r->core, p);
		spray_grant_count(&r->credit, len, p->rtx);
		break;
	case TP_TAKE_HOLD:
		spray_qp_count(qp, rx_out_of_order);
		if (!spray_hold_add(qp, &r->hold, p, data, len, op))
			return;
		tp_req_response_commit(&r->core, p);
		spray_grant_count(&r->credit, len, p->rtx);
		break;
	case TP_TAKE_DUP:
		spray_qp_count(qp, rx_duplicates);
		break;
	case TP_TAKE_OUTSIDE:
		spray_qp_count(qp, drop_outside_window);
		break;
	default:
		spray_qp_count(qp, drop_bad_response);
	}
	spray_response_advance(qp);
}

/* --- acknowledgements --- */

static void spray_rx_request_ack(struct spray_qp *qp, const struct tp_ack *a)
{
	if (!tp_req_ack(&qp->req.core, ktime_get_ns(), a))
		spray_qp_count(qp, drop_stale_ack);
}

static void spray_rx_response_ack(struct spray_qp *qp, const struct tp_ack *a)
{
	struct spray_resp *r = &qp->resp;

	if (!r->core.has_tx)
		return;
	if (!tp_resp_ack(&r->core, ktime_get_ns(), a))
		spray_qp_count(qp, drop_stale_ack);
	if (r->nak && !tp_resp_owes(&r->core))
		spray_resp_fail(qp, r->nak - 1, r->nak_event, false);
}

static void spray_rx_ack(struct spray_qp *qp, const u8 *pkt, u32 len)
{
	struct tp_ack a;

	if (tp_wire_decode_ack(&a, pkt, len) < 0) {
		spray_qp_count(qp, drop_malformed);
		return;
	}
	spray_qp_count(qp, rx_acks);
	if (a.syndrome == TP_SYN_RNR)
		spray_qp_count(qp, rx_rnr_naks);
	else if (a.syndrome == TP_SYN_NAK)
		spray_qp_count(qp, rx_naks);
	if (a.space == TP_REQUEST)
		spray_rx_request_ack(qp, &a);
	else
		spray_rx_response_ack(qp, &a);
}

/* --- one packet --- */

static bool spray_rx_from_peer(struct spray_rx *rx, const struct spray_peer *p)
{
	if (!p || p->v6 != rx->v6)
		return false;
	if (p->v6)
		return ipv6_addr_equal(&ipv6_hdr(rx->skb)->saddr, &p->daddr6);
	return ip_hdr(rx->skb)->saddr == p->daddr4;
}

/* Is it the peer's, whole, and meant for this life of the QP? The half's lock held. */
static bool spray_rx_genuine(struct spray_rx *rx, struct spray_qp *qp, u32 seed, const u8 *pkt,
			     u32 len)
{
	__le32 icrc;

	if (!spray_rx_from_peer(rx, qp->peer)) {
		spray_qp_count(qp, drop_address);
		return false;
	}
	if (!qp->dev->icrc)
		return true;
	icrc = spray_icrc_rc(seed, rx->sport, pkt, len);
	if (!memcmp(&icrc, pkt + len, sizeof(icrc)))
		return true;
	spray_qp_count(qp, drop_icrc);
	return false;
}

static void spray_rx_numbered(struct spray_rx *rx, struct spray_qp *qp, const u8 *pkt, u32 len)
{
	struct tp_pkt p;
	int hdr = tp_wire_decode(&p, pkt, len);

	if (hdr < 0 || p.kind == TP_UD)
		spray_qp_count(qp, drop_malformed);
	else if (p.space == TP_REQUEST)
		spray_rx_request(rx, qp, &p, pkt + hdr, len - hdr - p.pad);
	else
		spray_rx_response(rx, qp, &p, pkt + hdr, len - hdr - p.pad);
}

/*
 * A packet of a connection. Who sent it in which role decides whose it is: a
 * requester sends requests and acknowledges responses, and our responder takes
 * that; the rest is for our requester. Peer and seeds are set before a half
 * goes live and change only when both are out of service, so they hold still
 * under its lock. The final NAK is repeated for as long as the peer is known.
 *
 * Return: the half to be served, SPRAY_TOUCH_*.
 */
static u32 spray_rx_rc(struct spray_rx *rx, struct spray_qp *qp, const u8 *pkt, u32 len)
{
	enum tp_kind kind = tp_wire_kind(pkt);
	bool ack = kind == TP_ACK || kind == TP_SACK;
	bool to_resp = (tp_wire_space(pkt) == TP_REQUEST) != ack;
	spinlock_t *lock = to_resp ? &qp->resp.lock : &qp->req.lock;
	bool up;

	spray_qp_count(qp, rx_packets);
	spray_qp_count_n(qp, rx_bytes, len);
	if (!rx->seg)
		spray_qp_count(qp, rx_bursts);
	if (rx->ce)
		spray_qp_count(qp, rx_ecn_marked);
	len -= TP_ICRC_LEN;
	spray_jitter();		/* held by a reference alone */
	spin_lock(lock);
	if (to_resp)
		up = qp->resp.live || qp->resp.core.syndrome == TP_SYN_NAK;
	else
		up = qp->req.live;
	if (!up)
		spray_qp_count(qp, drop_qp_state);
	else if (!spray_rx_genuine(rx, qp, to_resp ? qp->seed_req_rx : qp->seed_rsp_rx, pkt, len))
		up = false;
	else if (!ack)
		spray_rx_numbered(rx, qp, pkt, len);
	else if (!to_resp || qp->resp.live)
		spray_rx_ack(qp, pkt, len);
	spin_unlock(lock);
	if (!up)
		return 0;
	return to_resp ? SPRAY_TOUCH_RESP : SPRAY_TOUCH_REQ;
}

/* --- batches --- */

void spray_rx_begin(struct spray_rx *rx, struct spray_net *sn)
{
	rx->sn = sn;
	rx->n = 0;
	rx->bursts = 0;
}

static void spray_rx_serve(struct spray_qp *qp, u32 half)
{
	if (half & SPRAY_TOUCH_RESP) {
		spin_lock(&qp->resp.lock);
		__spray_resp_progress(qp);
		spin_unlock(&qp->resp.lock);
	}
	if (half & SPRAY_TOUCH_REQ) {
		spin_lock(&qp->req.lock);
		if (qp->req.live)
			spray_answer(qp, TP_RESPONSE);
		__spray_req_pump(qp);
		spin_unlock(&qp->req.lock);
	}
	spray_qp_settle(qp);
}

void spray_rx_end(struct spray_rx *rx)
{
	u32 i;

	for (i = 0; i < rx->n; i++) {
		if (rx->touched[i].half)
			spray_rx_serve(rx->touched[i].qp, rx->touched[i].half);
		spray_jitter();
		spray_qp_put(rx->touched[i].qp);
	}
	rx->n = 0;
	rx->bursts = 0;
}

/* Index in touched[] of the QP with this number, or -1. */
static int spray_rx_touch(struct spray_rx *rx, u32 qpn)
{
	struct spray_qp *qp;
	u32 i;

	for (i = 0; i < rx->n; i++)
		if (rx->touched[i].qp->ib.qp_num == qpn)
			return i;
	qp = spray_qp_get(rx->sn, qpn);
	if (!qp)
		return -1;
	if (rx->n == SPRAY_TOUCH_MAX)
		spray_rx_end(rx);
	rx->touched[rx->n].qp = qp;
	rx->touched[rx->n].half = 0;
	return rx->n++;
}

/* The net_device, or a VLAN on it: ib_core lists the addresses of both in our GID table. */
static bool spray_dev_is(const struct spray_dev *dev, const struct net_device *ndev)
{
	return ndev && (ndev == dev->ndev || rdma_vlan_dev_real_dev(ndev) == dev->ndev);
}

/* Is the packet's destination an address of this device? */
static bool spray_dev_owns(const struct spray_dev *dev, struct sk_buff *skb, bool v6)
{
	struct net *net = dev->sn->net;

	if (v6) {
		const struct in6_addr *daddr = &ipv6_hdr(skb)->daddr;

		return ipv6_chk_addr(net, daddr, dev->ndev, 1) ||
		       (!(ipv6_addr_type(daddr) & IPV6_ADDR_LINKLOCAL) &&
			spray_dev_is(dev, ipv6_dev_find(net, daddr, NULL)));
	}
	return spray_dev_is(dev, __ip_dev_find(net, ip_hdr(skb)->daddr, false));
}

struct spray_dev *spray_rx_dev(struct spray_rx *rx)
{
	struct net_device *in = dev_get_by_index_rcu(rx->sn->net, rx->skb->skb_iif);
	struct spray_dev *dev, *found = NULL;

	lockdep_assert_held(&rx->sn->devs_lock);
	list_for_each_entry(dev, &rx->sn->devs, link) {
		if (spray_dev_is(dev, in))
			return dev;
		if (spray_dev_owns(dev, rx->skb, rx->v6))
			found = dev;
	}
	return found;
}

static void spray_rx_gsi(struct spray_rx *rx, const u8 *pkt, u32 len)
{
	struct spray_qp *gsi = NULL;
	struct spray_dev *dev;

	spin_lock_bh(&rx->sn->devs_lock);
	dev = spray_rx_dev(rx);
	if (dev)
		gsi = dev->gsi;
	if (gsi && !refcount_inc_not_zero(&gsi->ref))
		gsi = NULL;
	spin_unlock_bh(&rx->sn->devs_lock);
	if (!gsi)
		return;
	spray_ud_receive(rx, gsi, pkt, len);
	spray_qp_put(gsi);
}

/* No QP, no device to blame: counted where the packet came in, if that is one of ours. */
static void spray_rx_count_stray(struct spray_rx *rx, bool is_short)
{
	struct spray_dev *dev;

	spin_lock_bh(&rx->sn->devs_lock);
	dev = spray_rx_dev(rx);
	if (dev && is_short)
		spray_count(dev, drop_short);
	else if (dev)
		spray_count(dev, drop_no_qp);
	spin_unlock_bh(&rx->sn->devs_lock);
}

static void spray_rx_packet(struct spray_rx *rx, const u8 *pkt, u32 len)
{
	struct spray_qp *qp;
	u32 qpn;
	int i;

	if (len < TP_BTH_LEN + TP_ICRC_LEN || len & 3) {
		spray_rx_count_stray(rx, true);
		return;
	}
	qpn = tp_wire_dqpn(pkt);
	if (qpn == TP_GSI_QPN) {
		spray_rx_gsi(rx, pkt, len);
		return;
	}
	if (qpn == TP_ENDPOINT_QPN) {
		spray_hello_receive(rx, pkt, len);
		return;
	}
	i = spray_rx_touch(rx, qpn);
	if (i < 0) {
		spray_rx_count_stray(rx, false);
		return;
	}
	qp = rx->touched[i].qp;
	if (qp->ud)
		spray_ud_receive(rx, qp, pkt, len);
	else
		rx->touched[i].half |= spray_rx_rc(rx, qp, pkt, len);
}

/* --- bursts --- */

/* Bytes [off, off + len) of the skb as one piece. */
static const u8 *spray_rx_piece(struct sk_buff *skb, u32 off, u32 len)
{
	u32 head = skb_headlen(skb), i;
	u8 *bounce;

	if (off + len <= head)
		return skb->data + off;
	if (off >= head && !skb_has_frag_list(skb)) {
		u32 at = head;

		for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
			const skb_frag_t *f = &skb_shinfo(skb)->frags[i];
			u32 size = skb_frag_size(f);

			if (off < at + size) {
				if (off + len <= at + size)
					return (u8 *)skb_frag_address(f) + (off - at);
				break;
			}
			at += size;
		}
	}
	bounce = this_cpu_read(spray_bounce);
	if (len > SPRAY_BOUNCE || skb_copy_bits(skb, off, bounce, len))
		return NULL;
	return bounce;
}

static void spray_rx_headers(struct spray_rx *rx, struct sk_buff *skb)
{
	rx->skb = skb;
	rx->sport = ntohs(udp_hdr(skb)->source);
	rx->v6 = ip_hdr(skb)->version == 6;
	if (rx->v6) {
		rx->ce = INET_ECN_is_ce(ipv6_get_dsfield(ipv6_hdr(skb)));
		rx->entropy = ntohl(ip6_flowlabel(ipv6_hdr(skb))) << 16 | rx->sport;
	} else {
		rx->ce = INET_ECN_is_ce(ip_hdr(skb)->tos);
		rx->entropy = rx->sport;
	}
}

void spray_rx_burst(struct spray_rx *rx, struct sk_buff *skb)
{
	u32 size = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len;
	u32 off;

	if (udp_lib_checksum_complete(skb)) {
		struct spray_dev *dev;

		rx->skb = skb;
		rx->v6 = ip_hdr(skb)->version == 6;
		spin_lock_bh(&rx->sn->devs_lock);
		dev = spray_rx_dev(rx);
		if (dev)
			spray_count(dev, drop_checksum);
		spin_unlock_bh(&rx->sn->devs_lock);
		kfree_skb(skb);
		return;
	}
	spray_rx_headers(rx, skb);
	rx->seg = 0;
	for (off = 0; off < skb->len; off += size, rx->seg++) {
		u32 len = min(size, skb->len - off);
		const u8 *pkt = spray_rx_piece(skb, off, len);

		if (pkt)
			spray_rx_packet(rx, pkt, len);
	}
	consume_skb(skb);
	if (++rx->bursts >= SPRAY_RX_BATCH)
		spray_rx_end(rx);
}
