// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The extended forms of posting and polling: ibv_wr_*() fills the slots of the
 * send queue in place, ibv_start_poll() and friends read the entries of the
 * completion queue in place. Each holds its queue's lock from start to end.
 */
#include <errno.h>
#include <time.h>

#include "spray.h"

/* --- posting --- */

static struct spray_qp *to_qp(struct ibv_qp_ex *qx)
{
	return to_spray_qp(&qx->qp_base);
}

/* The first error counts: the caller hears of it from ibv_wr_complete(). */
static void wr_fail(struct spray_qp *qp, int err)
{
	if (!qp->wr_err)
		qp->wr_err = err;
}

/*
 * The next slot, filled but for data and what the operation names. After an
 * error, or in a full queue, what is written goes to a spare slot and nowhere.
 */
static struct spray_sqe *wr_begin(struct ibv_qp_ex *qx, enum spray_op op)
{
	struct spray_qp *qp = to_qp(qx);
	struct spray_sqe *sqe = NULL;

	if (!qp->sq.open)
		wr_fail(qp, EINVAL);
	if (!qp->wr_err) {
		sqe = spray_wr_slot(&qp->sq.ring);
		if (sqe)
			qp->sq.ring.head++;
		else
			wr_fail(qp, ENOMEM);
	}
	qp->wr_cur = sqe ? sqe : qp->wr_spare;
	*qp->wr_cur = (struct spray_sqe) {
		.wr_id = qx->wr_id,
		.op = op,
		.flags = spray_sqe_flags(qp, qx->wr_flags & ~IBV_SEND_INLINE),
	};
	return qp->wr_cur;
}

static void wr_remote(struct ibv_qp_ex *qx, enum spray_op op, uint32_t rkey, uint64_t addr)
{
	struct spray_sqe *sqe = wr_begin(qx, op);

	sqe->rkey = rkey;
	sqe->raddr = addr;
}

static void wr_cmp_swp(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr, uint64_t compare,
		       uint64_t swap)
{
	wr_remote(qx, SPRAY_OP_CAS, rkey, addr);
	to_qp(qx)->wr_cur->compare = compare;
	to_qp(qx)->wr_cur->swap_add = swap;
}

static void wr_fetch_add(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr, uint64_t add)
{
	wr_remote(qx, SPRAY_OP_FAA, rkey, addr);
	to_qp(qx)->wr_cur->swap_add = add;
}

static void wr_read(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr)
{
	wr_remote(qx, SPRAY_OP_READ, rkey, addr);
}

static void wr_write(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr)
{
	wr_remote(qx, SPRAY_OP_WRITE, rkey, addr);
}

static void wr_write_imm(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr, __be32 imm)
{
	wr_remote(qx, SPRAY_OP_WRITE_IMM, rkey, addr);
	to_qp(qx)->wr_cur->imm = (uint32_t)imm;
}

static void wr_send(struct ibv_qp_ex *qx)
{
	wr_begin(qx, SPRAY_OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qx, __be32 imm)
{
	wr_begin(qx, SPRAY_OP_SEND_IMM)->imm = (uint32_t)imm;
}

static void wr_send_inv(struct ibv_qp_ex *qx, uint32_t key)
{
	wr_begin(qx, SPRAY_OP_SEND_INV)->imm = key;
}

static void wr_local_inv(struct ibv_qp_ex *qx, uint32_t key)
{
	wr_begin(qx, SPRAY_OP_LOCAL_INV)->rkey = key;
}

static void wr_bind_mw(struct ibv_qp_ex *qx, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	(void)mw;
	spray_set_bind(wr_begin(qx, SPRAY_OP_BIND_MW), rkey, info);
}

static void wr_set_ud_addr(struct ibv_qp_ex *qx, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct spray_sqe *sqe = to_qp(qx)->wr_cur;

	sqe->raddr = to_spray_ah(ah)->ah_num;
	sqe->remote_qpn = qpn;
	sqe->rkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *qx, size_t n, const struct ibv_sge *list)
{
	struct spray_qp *qp = to_qp(qx);

	if (n > qp->sq.max_sge) {
		wr_fail(qp, EINVAL);
		return;
	}
	qp->wr_cur->num_sge = n;
	spray_copy_sges((struct spray_sge *)(qp->wr_cur + 1), list, n);
}

static void wr_set_sge(struct ibv_qp_ex *qx, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(qx, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qx, size_t n, const struct ibv_data_buf *list)
{
	struct spray_qp *qp = to_qp(qx);
	struct spray_sqe *sqe = qp->wr_cur;
	size_t i;

	if (sqe->op == SPRAY_OP_READ || sqe->op == SPRAY_OP_CAS || sqe->op == SPRAY_OP_FAA ||
	    sqe->op == SPRAY_OP_FLUSH)
		wr_fail(qp, EINVAL);
	sqe->inline_len = 0;
	for (i = 0; i < n; i++)
		if (spray_add_inline(sqe, qp->max_inline, list[i].addr, list[i].length)) {
			wr_fail(qp, EINVAL);
			return;
		}
	sqe->flags |= SPRAY_SQE_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *qx, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(qx, 1, &buf);
}

#ifdef SPRAY_HAVE_wr_atomic_write
/* The word is taken at once: every queue has room for it (SPRAY_MIN_INLINE). */
static void wr_atomic_write(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr, const void *word)
{
	wr_remote(qx, SPRAY_OP_ATOMIC_WRITE, rkey, addr);
	wr_set_inline_data(qx, (void *)word, 8);
}
#endif

#ifdef SPRAY_HAVE_wr_flush
static void wr_flush(struct ibv_qp_ex *qx, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		     uint8_t level)
{
	const uint8_t types = SPRAY_FLUSH_GLOBAL | SPRAY_FLUSH_PERSISTENT;
	struct spray_qp *qp = to_qp(qx);

	wr_remote(qx, SPRAY_OP_FLUSH, rkey, addr);
	if (!(type & types) || (type & ~types) || level > IBV_FLUSH_MR)
		wr_fail(qp, EINVAL);
	qp->wr_cur->swap_add = len;
	qp->wr_cur->compare = type | (level == IBV_FLUSH_MR ? SPRAY_FLUSH_MR : 0);
}
#endif

static void wr_start(struct ibv_qp_ex *qx)
{
	struct spray_qp *qp = to_qp(qx);

	spray_lock(&qp->sq.lock);
	qp->wr_head = qp->sq.ring.head;
	qp->wr_err = 0;
}

/* All or nothing. */
static int wr_complete(struct ibv_qp_ex *qx)
{
	struct spray_qp *qp = to_qp(qx);
	int err = qp->wr_err;
	bool any = qp->sq.ring.head != qp->wr_head;

	if (err)
		qp->sq.ring.head = qp->wr_head;
	else
		spray_wr_publish(&qp->sq.ring);
	spray_unlock(&qp->sq.lock);
	return err || !any ? err : spray_ring_doorbell(&qx->qp_base);
}

static void wr_abort(struct ibv_qp_ex *qx)
{
	struct spray_qp *qp = to_qp(qx);

	qp->sq.ring.head = qp->wr_head;
	spray_unlock(&qp->sq.lock);
}

static const uint64_t ud_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
static const uint64_t rc_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
	IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
	IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;

/* Those that not every kernel has. */
static uint64_t wr_ops_by_caps(uint64_t caps)
{
	uint64_t ops = 0;

	(void)caps;
#ifdef SPRAY_HAVE_wr_atomic_write
	if (caps & SPRAY_CAP_ATOMIC_WRITE)
		ops |= IBV_QP_EX_WITH_ATOMIC_WRITE;
#endif
#ifdef SPRAY_HAVE_wr_flush
	if (caps & SPRAY_CAP_FLUSH_GLOBAL)
		ops |= IBV_QP_EX_WITH_FLUSH;
#endif
	return ops;
}

/* May a QP of that type be posted to by these operations (IBV_QP_EX_WITH_*)? */
bool spray_has_wr_ops(struct ibv_context *ibctx, enum ibv_qp_type type, uint64_t ops)
{
	if (type == IBV_QPT_UD)
		return !(ops & ~ud_ops);
	return !(ops & ~(rc_ops | wr_ops_by_caps(to_spray_context(ibctx)->caps)));
}

void spray_set_wr_ops(struct spray_qp *qp)
{
	struct ibv_qp_ex *qx = &qp->vqp.qp_ex;

	qp->vqp.comp_mask |= VERBS_QP_EX;
	qx->wr_start = wr_start;
	qx->wr_complete = wr_complete;
	qx->wr_abort = wr_abort;
	qx->wr_set_sge = wr_set_sge;
	qx->wr_set_sge_list = wr_set_sge_list;
	qx->wr_set_inline_data = wr_set_inline_data;
	qx->wr_set_inline_data_list = wr_set_inline_data_list;
	qx->wr_send = wr_send;
	qx->wr_send_imm = wr_send_imm;
	if (qx->qp_base.qp_type == IBV_QPT_UD) {
		qx->wr_set_ud_addr = wr_set_ud_addr;
		return;
	}
	qx->wr_send_inv = wr_send_inv;
	qx->wr_rdma_write = wr_write;
	qx->wr_rdma_write_imm = wr_write_imm;
	qx->wr_rdma_read = wr_read;
	qx->wr_atomic_cmp_swp = wr_cmp_swp;
	qx->wr_atomic_fetch_add = wr_fetch_add;
	qx->wr_local_inv = wr_local_inv;
	qx->wr_bind_mw = wr_bind_mw;
#ifdef SPRAY_HAVE_wr_atomic_write
	qx->wr_atomic_write = wr_atomic_write;
#endif
#ifdef SPRAY_HAVE_wr_flush
	qx->wr_flush = wr_flush;
#endif
}

/* --- polling --- */

static struct spray_cq *to_cq(struct ibv_cq_ex *cx)
{
	return to_spray_cq(ibv_cq_ex_to_cq(cx));
}

static const struct spray_cqe *cur_cqe(struct ibv_cq_ex *cx)
{
	const struct spray_cq *cq = to_cq(cx);

	return spray_cq_entry(&cq->ring, cq->ring.cons + cq->polled - 1);
}

/* The next entry becomes the current one, if there is one. */
static int show_next(struct ibv_cq_ex *cx)
{
	struct spray_cq *cq = to_cq(cx);
	const struct spray_cqe *cqe;

	if (cq->polled == spray_cq_pending(&cq->ring))
		return ENOENT;
	cq->polled++;
	cqe = cur_cqe(cx);
	cx->wr_id = cqe->wr_id;
	cx->status = cqe->status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *cx, struct ibv_poll_cq_attr *attr)
{
	struct spray_cq *cq = to_cq(cx);
	bool lost;
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	spray_lock(&cq->lock);
	lost = spray_load_acquire(&cq->ring.ctl->overflow);	/* as in spray_poll_cq() */
	ret = show_next(cx);
	if (ret)
		spray_unlock(&cq->lock);
	return ret && lost ? EOVERFLOW : ret;
}

static int next_poll(struct ibv_cq_ex *cx)
{
	return show_next(cx);		/* if there is none, the caller's is still the current one */
}

static void end_poll(struct ibv_cq_ex *cx)
{
	struct spray_cq *cq = to_cq(cx);

	spray_cq_advance(&cq->ring, cq->polled);
	cq->polled = 0;
	spray_unlock(&cq->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cx)
{
	return (__be32)cur_cqe(cx)->ex;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->src_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cx)
{
	return spray_wc_flags(cur_cqe(cx));
}

static uint32_t read_slid(struct ibv_cq_ex *cx)
{
	(void)cx;
	return 0;		/* Ethernet has none */
}

static uint8_t read_sl(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cx)
{
	(void)cx;
	return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cx)
{
	return cur_cqe(cx)->timestamp;
}

void spray_set_poll_ops(struct spray_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *cx = &cq->vcq.cq_ex;

	cx->start_poll = start_poll;
	cx->next_poll = next_poll;
	cx->end_poll = end_poll;
	cx->read_opcode = read_opcode;
	cx->read_vendor_err = read_vendor_err;
	cx->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cx->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cx->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cx->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cx->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cx->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cx->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cx->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cx->read_completion_ts = read_completion_ts;
}

/* The clock of completion timestamps: CLOCK_MONOTONIC, in ns. */
int spray_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values)
{
	uint32_t known = values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK;

	(void)ibctx;
	if (known && clock_gettime(CLOCK_MONOTONIC, &values->raw_clock))
		return errno;
	values->comp_mask = known;
	return 0;
}
