// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The edge between consumers and a QP: work requests in, completions out.
 *
 * A user's ring is a message. Its entry is copied once into our own slot of the
 * same index; what is checked and used from then on is the copy. An index that
 * claims more than the ring holds is cut to what the ring holds: a program can
 * confuse itself only. Kernel posters write the slot directly.
 */
#include "compat.h"
#include "copy.h"
#include "qp.h"

/* --- in: from user rings --- */

/* Entries that were published and not yet taken, as many as fit. @prod: acquired. */
static u32 spray_wq_new(const struct spray_wq *wq, u32 prod)
{
	return min(prod - wq->avail, wq->entries - (wq->avail - wq->cons));
}

/*
 * The next entry of the ring into our slot: its fixed part, then as much behind
 * it as our copy of that part says.
 */
static void spray_sq_copy(struct spray_wq *sq)
{
	size_t at = (size_t)(sq->avail & sq->mask) * sq->slot, more;
	struct spray_sqe *sqe = sq->slots + at;

	memcpy(sqe, sq->ring + at, sizeof(*sqe));
	if (sqe->flags & SPRAY_SQE_INLINE)
		more = min(sqe->inline_len, sq->max_inline);
	else
		more = min_t(u32, sqe->num_sge, sq->max_sge) * sizeof(struct spray_sge);
	memcpy(sqe + 1, sq->ring + at + sizeof(*sqe), more);
	sq->avail++;
}

static void spray_rq_copy(struct spray_wq *rq)
{
	size_t at = (size_t)(rq->avail & rq->mask) * rq->slot;

	spray_rqe_copy(rq->slots + at, rq->ring + at, rq->max_sge);
	rq->avail++;
}

u32 spray_sq_pull(struct spray_qp *qp)
{
	struct spray_wq *sq = &qp->req.sq;
	u32 n;

	lockdep_assert_held(&qp->req.lock);
	if (!qp->ctl)
		return smp_load_acquire(&sq->avail);
	for (n = spray_wq_new(sq, smp_load_acquire(&qp->ctl->sq_prod)); n; n--)
		spray_sq_copy(sq);
	return sq->avail;
}

static u32 spray_rq_pull(struct spray_qp *qp)
{
	struct spray_wq *rq = &qp->resp.rq;
	u32 n;

	lockdep_assert_held(&qp->resp.lock);
	if (!qp->ctl)
		return smp_load_acquire(&rq->avail);
	for (n = spray_wq_new(rq, smp_load_acquire(&qp->ctl->rq_prod)); n; n--)
		spray_rq_copy(rq);
	return rq->avail;
}

struct spray_rqe *spray_rq_get(struct spray_qp *qp, u32 idx)
{
	struct spray_wq *rq = &qp->resp.rq;

	if (qp->resp.seat.srq)
		return idx == qp->resp.core.rqmsn ? spray_srq_take(&qp->resp.seat) : NULL;
	if (tp_diff(idx, rq->avail) >= 0 || !qp->ctl) {
		if (tp_diff(idx, spray_rq_pull(qp)) >= 0)
			return NULL;
	}
	return spray_wq_slot(rq, idx);
}

/* From now on posters ring; one that did not see that is seen here. Return: the index. */
static u32 spray_rq_ask(struct spray_qp *qp)
{
	WRITE_ONCE(qp->resp.rq.asleep, 1);
	if (qp->ctl)
		WRITE_ONCE(qp->ctl->rq_need_doorbell, 1);
	spray_jitter();
	/* Pairs with the poster: index, full barrier, word. Here: word, full barrier, index. */
	smp_mb();
	return spray_rq_pull(qp);
}

bool spray_rq_sleep(struct spray_qp *qp)
{
	if (qp->resp.seat.srq) {
		WRITE_ONCE(qp->resp.rq.asleep, 1);
		return spray_srq_wait(&qp->resp.seat);
	}
	return tp_diff(qp->resp.core.rqmsn, spray_rq_ask(qp)) >= 0;
}

void spray_rq_wake(struct spray_qp *qp)
{
	WRITE_ONCE(qp->resp.rq.asleep, 0);
	if (qp->ctl)
		WRITE_ONCE(qp->ctl->rq_need_doorbell, 0);
}

void spray_rq_leave(struct spray_qp *qp)
{
	lockdep_assert_held(&qp->resp.lock);
	if (qp->resp.seat.srq)
		spray_srq_leave(&qp->resp.seat, false);
}

/* --- in: from kernel consumers --- */

static const u8 spray_wr_op[] = {
	[IB_WR_SEND]			= SPRAY_OP_SEND + 1,
	[IB_WR_SEND_WITH_IMM]		= SPRAY_OP_SEND_IMM + 1,
	[IB_WR_RDMA_WRITE]		= SPRAY_OP_WRITE + 1,
	[IB_WR_RDMA_WRITE_WITH_IMM]	= SPRAY_OP_WRITE_IMM + 1,
	[IB_WR_RDMA_READ]		= SPRAY_OP_READ + 1,
	[IB_WR_ATOMIC_CMP_AND_SWP]	= SPRAY_OP_CAS + 1,
	[IB_WR_ATOMIC_FETCH_AND_ADD]	= SPRAY_OP_FAA + 1,
	[IB_WR_SEND_WITH_INV]		= SPRAY_OP_SEND_INV + 1,
	[IB_WR_LOCAL_INV]		= SPRAY_OP_LOCAL_INV + 1,
	[IB_WR_REG_MR]			= SPRAY_OP_REG_MR + 1,
#ifdef SPRAY_HAVE_ATOMIC_WRITE
	[IB_WR_ATOMIC_WRITE]		= SPRAY_OP_ATOMIC_WRITE + 1,
#endif
	/* IB_WR_FLUSH: no kernel work request has where to say what is to be flushed. */
};

static int spray_fill_inline(struct spray_sqe *sqe, const struct ib_send_wr *wr, u32 max)
{
	u8 *to = (u8 *)(sqe + 1);
	u32 n = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > max - n)
			return -EINVAL;
		memcpy(to + n, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		n += wr->sg_list[i].length;
	}
	sqe->inline_len = n;
	return 0;
}

static void spray_fill_op(struct spray_qp *qp, struct spray_sqe *sqe, const struct ib_send_wr *wr)
{
	if (qp->ud) {
		struct spray_ah *ah = container_of(ud_wr(wr)->ah, struct spray_ah, ib);

		/* Released when the entry is sent or flushed. */
		refcount_inc(&ah->peer->ref);
		sqe->raddr = (uintptr_t)ah->peer;
		sqe->remote_qpn = ud_wr(wr)->remote_qpn;
		sqe->rkey = ud_wr(wr)->remote_qkey;
	} else if (sqe->op == SPRAY_OP_CAS || sqe->op == SPRAY_OP_FAA) {
		sqe->raddr = atomic_wr(wr)->remote_addr;
		sqe->rkey = atomic_wr(wr)->rkey;
		sqe->compare = atomic_wr(wr)->compare_add;
		sqe->swap_add = sqe->op == SPRAY_OP_CAS ? atomic_wr(wr)->swap :
							  atomic_wr(wr)->compare_add;
	} else if (sqe->op == SPRAY_OP_LOCAL_INV) {
		sqe->rkey = wr->ex.invalidate_rkey;
	} else if (sqe->op == SPRAY_OP_REG_MR) {
		sqe->rkey = reg_wr(wr)->key;
		sqe->compare = reg_wr(wr)->access;
		sqe->raddr = reg_wr(wr)->mr->iova;
		sqe->swap_add = reg_wr(wr)->mr->length;
	} else if ((sqe->op >= SPRAY_OP_WRITE && sqe->op <= SPRAY_OP_READ) ||
		   sqe->op == SPRAY_OP_ATOMIC_WRITE) {
		sqe->raddr = rdma_wr(wr)->remote_addr;
		sqe->rkey = rdma_wr(wr)->rkey;
	}
}

/* One work request into the slot of index sq->avail; sq->lock held. */
static int spray_post_one(struct spray_qp *qp, const struct ib_send_wr *wr)
{
	struct spray_wq *sq = &qp->req.sq;
	struct spray_sqe *sqe = spray_wq_slot(sq, sq->avail);
	u32 op = wr->opcode < ARRAY_SIZE(spray_wr_op) ? spray_wr_op[wr->opcode] : 0;

	if (sq->avail - smp_load_acquire(&sq->cons) >= sq->entries)
		return -ENOMEM;
	if (!op || wr->num_sge > sq->max_sge || (qp->ud && op - 1 > SPRAY_OP_SEND_IMM))
		return -EINVAL;
	memset(sqe, 0, sizeof(*sqe));
	sqe->wr_id = wr->wr_id;
	sqe->op = op - 1;
	sqe->num_sge = wr->num_sge;
	sqe->imm = (__force u32)wr->ex.imm_data;
	if (wr->send_flags & IB_SEND_SIGNALED)
		sqe->flags |= SPRAY_SQE_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		sqe->flags |= SPRAY_SQE_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		sqe->flags |= SPRAY_SQE_FENCE;
	if (wr->send_flags & IB_SEND_INLINE) {
		sqe->flags |= SPRAY_SQE_INLINE;
		if (spray_fill_inline(sqe, wr, sq->max_inline))
			return -EINVAL;
	} else {
		spray_fill_sges(spray_sqe_sge(sqe), wr->sg_list, wr->num_sge);
	}
	spray_fill_op(qp, sqe, wr);
	smp_store_release(&sq->avail, sq->avail + 1);
	return 0;
}

/* Run the pump here if softirqs may run here, else from the tasklet. */
static void spray_kick_any(struct spray_qp *qp)
{
	if (irqs_disabled() || in_hardirq()) {
		tasklet_schedule(&qp->task);
		return;
	}
	local_bh_disable();
	spray_qp_kick(qp);
	local_bh_enable();
}

int spray_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct spray_qp *qp = to_sqp(ib);
	enum ib_qp_state state = READ_ONCE(qp->state);
	unsigned long flags;
	int err = 0;

	if (qp->ctl) {	/* a user's doorbell: the ring says the rest */
		if (wr) {
			*bad = wr;
			return -EINVAL;
		}
		spray_kick_any(qp);
		return 0;
	}
	if (state != IB_QPS_RTS && state != IB_QPS_SQD && state != IB_QPS_ERR &&
	    state != IB_QPS_SQE) {
		*bad = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->req.sq.lock, flags);
	for (; wr; wr = wr->next) {
		err = spray_post_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&qp->req.sq.lock, flags);
	spray_kick_any(qp);
	return err;
}

static int spray_post_recv_one(struct spray_qp *qp, const struct ib_recv_wr *wr)
{
	struct spray_wq *rq = &qp->resp.rq;
	struct spray_rqe *rqe = spray_wq_slot(rq, rq->avail);

	if (rq->avail - smp_load_acquire(&rq->cons) >= rq->entries)
		return -ENOMEM;
	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	spray_rqe_fill(rqe, wr);
	smp_store_release(&rq->avail, rq->avail + 1);
	return 0;
}

int spray_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct spray_qp *qp = to_sqp(ib);
	unsigned long flags;
	int err = 0;

	if (qp->ctl || ib->srq || READ_ONCE(qp->state) == IB_QPS_RESET) {
		*bad = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->resp.rq.lock, flags);
	for (; wr; wr = wr->next) {
		err = spray_post_recv_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&qp->resp.rq.lock, flags);
	spray_jitter();
	smp_mb();	/* pairs with spray_rq_ask() */
	if (READ_ONCE(qp->resp.rq.asleep))
		spray_kick_any(qp);
	return err;
}

/* --- out --- */

enum ib_wc_status spray_wc_status(u8 st)
{
	static const u8 map[] = {
		[TP_OK]		 = IB_WC_SUCCESS,
		[TP_LOC_LEN]	 = IB_WC_LOC_LEN_ERR,
		[TP_LOC_PROT]	 = IB_WC_LOC_PROT_ERR,
		[TP_LOC_QP_OP]	 = IB_WC_LOC_QP_OP_ERR,
		[TP_REM_INV_REQ] = IB_WC_REM_INV_REQ_ERR,
		[TP_REM_ACCESS]	 = IB_WC_REM_ACCESS_ERR,
		[TP_REM_OP]	 = IB_WC_REM_OP_ERR,
		[TP_RETRY_EXC]	 = IB_WC_RETRY_EXC_ERR,
		[TP_RNR_EXC]	 = IB_WC_RNR_RETRY_EXC_ERR,
		[TP_LOC_KEY]	 = IB_WC_MW_BIND_ERR,
		[TP_FLUSH]	 = IB_WC_WR_FLUSH_ERR,
	};

	return st < ARRAY_SIZE(map) ? map[st] : IB_WC_GENERAL_ERR;
}

static const u8 spray_send_wc[SPRAY_OP_NUM] = {
	[SPRAY_OP_SEND]		= SPRAY_WC_SEND,
	[SPRAY_OP_SEND_IMM]	= SPRAY_WC_SEND,
	[SPRAY_OP_WRITE]	= SPRAY_WC_WRITE,
	[SPRAY_OP_WRITE_IMM]	= SPRAY_WC_WRITE,
	[SPRAY_OP_READ]		= SPRAY_WC_READ,
	[SPRAY_OP_CAS]		= SPRAY_WC_CAS,
	[SPRAY_OP_FAA]		= SPRAY_WC_FAA,
	[SPRAY_OP_SEND_INV]	= SPRAY_WC_SEND,
	[SPRAY_OP_LOCAL_INV]	= SPRAY_WC_LOCAL_INV,
	[SPRAY_OP_BIND_MW]	= SPRAY_WC_BIND_MW,
	[SPRAY_OP_REG_MR]	= SPRAY_WC_REG_MR,
	[SPRAY_OP_ATOMIC_WRITE]	= SPRAY_WC_ATOMIC_WRITE,
	[SPRAY_OP_FLUSH]	= SPRAY_WC_FLUSH,
};

void spray_complete_send(struct spray_qp *qp, u32 idx, enum ib_wc_status st)
{
	struct spray_wq *sq = &qp->req.sq;
	struct spray_sqe *sqe = spray_wq_slot(sq, idx);
	struct spray_cqe c = {
		.wr_id = sqe->wr_id,
		.qpn = qp->ib.qp_num,
		.status = st,
		.opcode = spray_send_wc[sqe->op < SPRAY_OP_NUM ? sqe->op : SPRAY_OP_SEND],
	};
	bool tell = st || qp->sq_sig_all || (sqe->flags & SPRAY_SQE_SIGNALED);

	lockdep_assert_held(&qp->req.lock);
	if (c.opcode == SPRAY_WC_READ)
		c.byte_len = spray_sge_total(spray_sqe_sge(sqe), sqe->num_sge);
	else if (c.opcode == SPRAY_WC_CAS || c.opcode == SPRAY_WC_FAA)
		c.byte_len = 8;
	/* The slot was read; it is free before the completion is seen (release in spray_cq_post()). */
	smp_store_release(&sq->cons, idx + 1);
	if (qp->ctl)
		smp_store_release(&qp->ctl->sq_cons, idx + 1);
	if (tell)
		spray_cq_post(spray_send_cq(qp), &c, &qp->ib, st != IB_WC_SUCCESS);
}

void spray_complete_recv(struct spray_qp *qp, struct spray_cqe *c, bool solicited)
{
	struct spray_srq_seat *seat = &qp->resp.seat;
	struct spray_wq *rq = &qp->resp.rq;

	lockdep_assert_held(&qp->resp.lock);
	c->qpn = qp->ib.qp_num;
	if (seat->srq) {
		c->wr_id = spray_entry_rqe(seat->entry)->wr_id;
		seat->bound = false;
	} else {
		c->wr_id = ((struct spray_rqe *)spray_wq_slot(rq, rq->cons))->wr_id;
		smp_store_release(&rq->cons, rq->cons + 1);
		if (qp->ctl)
			smp_store_release(&qp->ctl->rq_cons, rq->cons);
	}
	spray_cq_post(spray_recv_cq(qp), c, &qp->ib, solicited || c->status);
}

static void spray_flush_recv(struct spray_qp *qp)
{
	struct spray_cqe c = { .status = IB_WC_WR_FLUSH_ERR, .opcode = SPRAY_WC_RECV };

	spray_complete_recv(qp, &c, true);
}

/* What is in an SRQ stays there: only the receive that this QP has taken is its to flush. */
void spray_flush_rq(struct spray_qp *qp)
{
	struct spray_wq *rq = &qp->resp.rq;
	u32 end;

	lockdep_assert_held(&qp->resp.lock);
	if (qp->resp.seat.srq) {
		if (qp->resp.seat.bound)
			spray_flush_recv(qp);
		return;
	}
	/* One look at the index: what a hostile ring claims later is for its next doorbell. */
	end = spray_rq_ask(qp);
	while (rq->cons != end)
		spray_flush_recv(qp);
}
