// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The data path: work requests into rings, completions out of a ring.
 *
 * A post fills slots under the queue's lock and publishes them with one store.
 * The doorbell comes after the lock is dropped; it names the QP and no entry, so
 * doorbells of several threads may come in any order or be one too many.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "spray.h"

enum { DOORBELL_TRIES = 1000 };

/* The same command by the door that all others use. It costs more, and asks nobody who opened the file. */
static int ask_by_ioctl(struct ibv_context *ibctx, const struct ib_uverbs_cmd_hdr *hdr, void *resp)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, 3);

	fill_attr_const_in(cmd, UVERBS_ATTR_WRITE_CMD, hdr->command);
	fill_attr_in(cmd, UVERBS_ATTR_CORE_IN, hdr + 1, hdr->in_words * 4 - sizeof(*hdr));
	fill_attr_out(cmd, UVERBS_ATTR_CORE_OUT, resp, hdr->out_words * 4);
	return execute_ioctl(ibctx, cmd);
}

static int ask_by_write(struct ibv_context *ibctx, const struct ib_uverbs_cmd_hdr *hdr)
{
	size_t size = hdr->in_words * 4;

	return write(ibctx->cmd_fd, hdr, size) == (ssize_t)size ? 0 : errno;
}

/*
 * What was published can't be taken back, so a kernel short of memory is asked
 * again before the caller is told that nothing was posted. The kernel refuses write()
 * to processes that changed their credentials since they opened the device, to
 * children (a daemon's, say) and to those that were given the file.
 */
static int ask_kernel(struct ibv_context *ibctx, const struct ib_uverbs_cmd_hdr *hdr, void *resp)
{
	struct spray_context *ctx = to_spray_context(ibctx);
	int tries, err = 0;

	for (tries = 0; tries < DOORBELL_TRIES; tries++) {
		bool by_ioctl = __atomic_load_n(&ctx->by_ioctl, __ATOMIC_RELAXED);

		err = by_ioctl ? ask_by_ioctl(ibctx, hdr, resp) : ask_by_write(ibctx, hdr);
		if (err == EACCES && !by_ioctl) {
			__atomic_store_n(&ctx->by_ioctl, true, __ATOMIC_RELAXED);
			continue;
		}
		if (err != ENOMEM && err != EINTR)
			break;
		sched_yield();
	}
	return err;
}

/* POST_SEND without work requests: the kernel looks at both rings of the QP. */
int spray_ring_doorbell(struct ibv_qp *ibqp)
{
	struct ib_uverbs_post_send_resp resp;
	struct ibv_post_send cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_SEND,
			.in_words = sizeof(cmd) / 4,
			.out_words = sizeof(resp) / 4,
		},
		.response = (uintptr_t)&resp,
		.qp_handle = ibqp->handle,
		.wqe_size = sizeof(struct ib_uverbs_send_wr),
	};

	return ask_kernel(ibqp->context, &cmd.hdr, &resp);
}

/* The same for a shared receive queue. */
static int ring_srq_doorbell(struct ibv_srq *ibsrq)
{
	struct ib_uverbs_post_srq_recv_resp resp;
	struct ibv_post_srq_recv cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_SRQ_RECV,
			.in_words = sizeof(cmd) / 4,
			.out_words = sizeof(resp) / 4,
		},
		.response = (uintptr_t)&resp,
		.srq_handle = ibsrq->handle,
		.wqe_size = sizeof(struct ib_uverbs_recv_wr),
	};

	return ask_kernel(ibsrq->context, &cmd.hdr, &resp);
}

enum {
	ON_RC		= 1 << 0,
	ON_UD		= 1 << 1,
	CAN_INLINE	= 1 << 2,	/* the operation reads local memory */
	TO_REMOTE	= 1 << 3,	/* wr.rdma says where */
	IS_ATOMIC	= 1 << 4,	/* wr.atomic says where and what */
	HAS_IMM		= 1 << 5,
	HAS_KEY		= 1 << 6,	/* wr.invalidate_rkey */
	IS_LOCAL	= 1 << 7,	/* works on a key: no data */
	IF_ATOMIC_WRITE	= 1 << 8,	/* if the kernel has it */
};

struct send_op {
	uint8_t op;	/* enum spray_op */
	uint16_t traits;	/* 0: no such operation */
};

static const struct send_op send_ops[] = {
	[IBV_WR_SEND] = { SPRAY_OP_SEND, ON_RC | ON_UD | CAN_INLINE },
	[IBV_WR_SEND_WITH_IMM] = { SPRAY_OP_SEND_IMM, ON_RC | ON_UD | CAN_INLINE | HAS_IMM },
	[IBV_WR_RDMA_WRITE] = { SPRAY_OP_WRITE, ON_RC | CAN_INLINE | TO_REMOTE },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { SPRAY_OP_WRITE_IMM, ON_RC | CAN_INLINE | TO_REMOTE | HAS_IMM },
	[IBV_WR_RDMA_READ] = { SPRAY_OP_READ, ON_RC | TO_REMOTE },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { SPRAY_OP_CAS, ON_RC | IS_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { SPRAY_OP_FAA, ON_RC | IS_ATOMIC },
	[IBV_WR_SEND_WITH_INV] = { SPRAY_OP_SEND_INV, ON_RC | CAN_INLINE | HAS_KEY },
	[IBV_WR_LOCAL_INV] = { SPRAY_OP_LOCAL_INV, ON_RC | IS_LOCAL },
	[IBV_WR_BIND_MW] = { SPRAY_OP_BIND_MW, ON_RC | IS_LOCAL },
#ifdef SPRAY_HAVE_wr_atomic_write
	[IBV_WR_ATOMIC_WRITE] = { SPRAY_OP_ATOMIC_WRITE, ON_RC | CAN_INLINE | TO_REMOTE | IF_ATOMIC_WRITE },
#endif
	/* A FLUSH can be posted by ibv_wr_flush() only: a work request has not where to say what. */
};

/* NULL if the QP cannot do that. */
static const struct send_op *find_op(const struct ibv_qp *ibqp, const struct ibv_send_wr *wr)
{
	uint16_t need = ibqp->qp_type == IBV_QPT_UD ? ON_UD : ON_RC;
	unsigned int opcode = wr->opcode;
	const struct send_op *op;

	if (wr->send_flags & IBV_SEND_INLINE)
		need |= CAN_INLINE;
	if (opcode >= sizeof(send_ops) / sizeof(send_ops[0]))
		return NULL;
	op = &send_ops[opcode];
	if (op->traits & IF_ATOMIC_WRITE &&
	    !(to_spray_context(ibqp->context)->caps & SPRAY_CAP_ATOMIC_WRITE))
		return NULL;
	return (op->traits & need) == need ? op : NULL;
}

static void set_remote(struct spray_sqe *sqe, const struct ibv_send_wr *wr)
{
	sqe->raddr = wr->wr.rdma.remote_addr;
	sqe->rkey = wr->wr.rdma.rkey;
}

static void set_atomic(struct spray_sqe *sqe, const struct ibv_send_wr *wr)
{
	sqe->raddr = wr->wr.atomic.remote_addr;
	sqe->rkey = wr->wr.atomic.rkey;
	if (sqe->op == SPRAY_OP_CAS) {
		sqe->compare = wr->wr.atomic.compare_add;
		sqe->swap_add = wr->wr.atomic.swap;
	} else {
		sqe->swap_add = wr->wr.atomic.compare_add;
	}
}

void spray_set_bind(struct spray_sqe *sqe, uint32_t key, const struct ibv_mw_bind_info *info)
{
	sqe->rkey = key;
	sqe->remote_qpn = info->mr ? info->mr->lkey : 0;
	sqe->raddr = info->addr;
	sqe->swap_add = info->length;
	sqe->compare = info->mw_access_flags;
}

static void set_local(struct spray_sqe *sqe, const struct ibv_send_wr *wr)
{
	sqe->num_sge = 0;
	if (sqe->op == SPRAY_OP_LOCAL_INV)
		sqe->rkey = wr->invalidate_rkey;
	else
		spray_set_bind(sqe, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
}

static int set_datagram(struct spray_sqe *sqe, const struct ibv_send_wr *wr)
{
	if (!wr->wr.ud.ah)
		return EINVAL;
	sqe->raddr = to_spray_ah(wr->wr.ud.ah)->ah_num;
	sqe->rkey = wr->wr.ud.remote_qkey;
	sqe->remote_qpn = wr->wr.ud.remote_qpn;
	return 0;
}

uint8_t spray_sqe_flags(const struct spray_qp *qp, unsigned int wr_flags)
{
	uint8_t flags = 0;

	if (qp->sig_all || wr_flags & IBV_SEND_SIGNALED)
		flags |= SPRAY_SQE_SIGNALED;
	if (wr_flags & IBV_SEND_SOLICITED)
		flags |= SPRAY_SQE_SOLICITED;
	if (wr_flags & IBV_SEND_FENCE)
		flags |= SPRAY_SQE_FENCE;
	if (wr_flags & IBV_SEND_INLINE)
		flags |= SPRAY_SQE_INLINE;
	return flags;
}

void spray_copy_sges(struct spray_sge *to, const struct ibv_sge *from, int num)
{
	int i;

	for (i = 0; i < num; i++)
		to[i] = (struct spray_sge) {
			.addr = from[i].addr,
			.length = from[i].length,
			.lkey = from[i].lkey,
		};
}

/* One more piece of inline data behind those that are there. */
int spray_add_inline(struct spray_sqe *sqe, uint32_t max, const void *data, size_t len)
{
	if (len > max - sqe->inline_len)
		return EINVAL;
	memcpy((uint8_t *)(sqe + 1) + sqe->inline_len, data, len);
	sqe->inline_len += len;
	return 0;
}

static int copy_inline(struct spray_sqe *sqe, const struct ibv_send_wr *wr, uint32_t max)
{
	int i, err = 0;

	for (i = 0; i < wr->num_sge && !err; i++)
		err = spray_add_inline(sqe, max, (const void *)(uintptr_t)wr->sg_list[i].addr,
				       wr->sg_list[i].length);
	return err;
}

/* On failure the slot holds rubbish, which is fine: it was not published. */
static int fill_sqe(const struct spray_qp *qp, struct spray_sqe *sqe, const struct ibv_send_wr *wr)
{
	const struct ibv_qp *ibqp = &qp->vqp.qp;
	const struct send_op *op = find_op(ibqp, wr);

	if (!op || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	*sqe = (struct spray_sqe) {
		.wr_id = wr->wr_id,
		.op = op->op,
		.flags = spray_sqe_flags(qp, wr->send_flags),
		.num_sge = wr->num_sge,
	};
	if (op->traits & IS_LOCAL) {
		set_local(sqe, wr);
		return 0;
	}
	if (op->traits & HAS_IMM)
		sqe->imm = (uint32_t)wr->imm_data;
	if (op->traits & HAS_KEY)
		sqe->imm = wr->invalidate_rkey;
	if (op->traits & TO_REMOTE)
		set_remote(sqe, wr);
	else if (op->traits & IS_ATOMIC)
		set_atomic(sqe, wr);
	else if (ibqp->qp_type == IBV_QPT_UD && set_datagram(sqe, wr))
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE)
		return copy_inline(sqe, wr, qp->max_inline);
	spray_copy_sges((struct spray_sge *)(sqe + 1), wr->sg_list, wr->num_sge);
	return 0;
}

static int post_one_send(struct spray_qp *qp, const struct ibv_send_wr *wr)
{
	struct spray_sqe *sqe;
	int err;

	if (!qp->sq.open)
		return EINVAL;
	sqe = spray_wr_slot(&qp->sq.ring);
	if (!sqe)
		return ENOMEM;
	err = fill_sqe(qp, sqe, wr);
	if (!err)
		qp->sq.ring.head++;
	return err;
}

/* Fills and publishes what it can. *bad is the first request that was refused. */
static int fill_sq(struct spray_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	spray_lock(&qp->sq.lock);
	for (; wr; wr = wr->next) {
		err = post_one_send(qp, wr);
		if (err)
			break;
	}
	spray_wr_publish(&qp->sq.ring);
	spray_unlock(&qp->sq.lock);
	*bad = wr;
	return err;
}

int spray_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr *bad;
	int err, db = 0;

	err = fill_sq(to_spray_qp(ibqp), wr, &bad);
	if (bad != wr)
		db = spray_ring_doorbell(ibqp);
	/* A kernel that does not answer (the device is gone) executes none of it. */
	if (db)
		bad = wr;
	if (bad)
		*bad_wr = bad;
	return db ? db : err;
}

/* A window of type 1: a work request that the caller did not write. Its key changes by the bind. */
int spray_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = bind->bind_info,
		},
	}, *bad;
	int ret;

	/* A parent domain has the handle of its PD, and is as good. */
	if (bind->bind_info.length &&
	    (!bind->bind_info.mr || bind->bind_info.mr->pd->handle != mw->pd->handle))
		return EPERM;
	ret = spray_post_send(ibqp, &wr, &bad);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}

static int post_one_recv(struct spray_wq *rq, const struct ibv_recv_wr *wr)
{
	struct spray_rqe *rqe;

	if (!rq->open || wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	rqe = spray_wr_slot(&rq->ring);
	if (!rqe)
		return ENOMEM;
	*rqe = (struct spray_rqe) { .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	spray_copy_sges((struct spray_sge *)(rqe + 1), wr->sg_list, wr->num_sge);
	rq->ring.head++;
	return 0;
}

/* @ring_bell: the kernel waits for a receive, and one was posted. */
static int fill_rq(struct spray_wq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		   bool *ring_bell)
{
	struct ibv_recv_wr *first = wr;
	int err = 0;

	spray_lock(&rq->lock);
	for (; wr; wr = wr->next) {
		err = post_one_recv(rq, wr);
		if (err)
			break;
	}
	spray_wr_publish(&rq->ring);
	/* Under the lock: a resize takes the word away. */
	*ring_bell = wr != first && spray_wr_receiver_sleeps(&rq->ring);
	spray_unlock(&rq->lock);
	*bad = wr;
	return err;
}

int spray_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct spray_qp *qp = to_spray_qp(ibqp);
	struct ibv_recv_wr *bad;
	bool ring_bell;
	int err, db = 0;

	err = fill_rq(&qp->rq, wr, &bad, &ring_bell);
	if (ring_bell)
		db = spray_ring_doorbell(ibqp);
	if (db)
		bad = wr;
	if (bad)
		*bad_wr = bad;
	return db ? db : err;
}

int spray_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct spray_srq *srq = to_spray_srq(ibsrq);
	struct ibv_recv_wr *bad;
	bool ring_bell;
	int err, db = 0;

	err = fill_rq(&srq->rq, wr, &bad, &ring_bell);
	if (ring_bell)
		db = ring_srq_doorbell(ibsrq);
	if (db)
		bad = wr;
	if (bad)
		*bad_wr = bad;
	return db ? db : err;
}

unsigned int spray_wc_flags(const struct spray_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & SPRAY_WC_GRH)
		flags |= IBV_WC_GRH;
	if (cqe->flags & SPRAY_WC_WITH_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & SPRAY_WC_WITH_INV)
		flags |= IBV_WC_WITH_INV;
	return flags;
}

/* The opcodes are the same numbers. Of a failed completion wr_id, qp_num and status count. */
static void cqe_to_wc(const struct spray_cqe *cqe, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc) {
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cqe->opcode,
		.vendor_err = cqe->vendor_err,
		.byte_len = cqe->byte_len,
		.imm_data = cqe->ex,	/* or invalidated_rkey, the same bits */
		.qp_num = cqe->qpn,
		.src_qp = cqe->src_qpn,
		.pkey_index = cqe->pkey_index,
		.sl = cqe->sl,
		.wc_flags = spray_wc_flags(cqe),
	};
}

/* An empty ring that lost entries is an error for ever: waiting for them would be in vain. */
int spray_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct spray_cq *cq = to_spray_cq(ibcq);
	struct spray_cq_ring *ring = &cq->ring;
	bool lost;
	int n, i;

	if (num_entries < 0)
		return -EINVAL;
	spray_lock(&cq->lock);
	lost = spray_load_acquire(&ring->ctl->overflow);	/* before prod: what came before the loss is polled */
	n = spray_cq_pending(ring);
	if (n > num_entries)
		n = num_entries;
	for (i = 0; i < n; i++)
		cqe_to_wc(spray_cq_entry(ring, ring->cons + i), &wc[i]);
	spray_cq_advance(ring, n);
	spray_unlock(&cq->lock);
	return n || !lost ? n : -EOVERFLOW;
}

int spray_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct spray_cq *cq = to_spray_cq(ibcq);

	/* Not an old ring that a resize has left. Whoever is between start_poll and end_poll may arm, too. */
	spray_lock(&cq->arm_lock);
	spray_cq_arm(&cq->ring, solicited_only);
	spray_unlock(&cq->arm_lock);
	return 0;
}
