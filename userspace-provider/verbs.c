// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Making, changing and destroying CQs, SRQs and QPs: each is a command to the kernel
 * and the mapping of the rings that the kernel made.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "spray-cmd.h"
#include "spray.h"

/* NULL and errno on failure. */
static void *map_rings(struct ibv_context *ibctx, uint64_t offset, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ibctx->cmd_fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

static struct spray_cq_ring cq_ring(void *map, uint32_t entries)
{
	return (struct spray_cq_ring) {
		.ctl = map,
		.entries = (void *)((uint8_t *)map + SPRAY_CQ_ENTRIES_OFFSET),
		.mask = entries - 1,
	};
}

/* The kernel's half exists. 0 or an errno, then it is gone again. */
static int finish_cq(struct spray_cq *cq, const struct spray_create_cq_resp *resp,
		     bool single_threaded)
{
	int ret;

	cq->map_size = resp->mmap_size;
	cq->map = map_rings(cq->vcq.cq.context, resp->mmap_offset, cq->map_size);
	if (!cq->map) {
		ret = errno;
		ibv_cmd_destroy_cq(&cq->vcq.cq);
		return ret;
	}
	cq->ring = cq_ring(cq->map, resp->entries);
	spray_lock_init(&cq->lock, single_threaded);
	spray_lock_init(&cq->arm_lock, single_threaded);
	return 0;
}

struct ibv_cq *spray_create_cq(struct ibv_context *ibctx, int cqe, struct ibv_comp_channel *channel,
			       int comp_vector)
{
	struct spray_create_cq_cmd_resp resp = {};
	struct spray_cq *cq;
	int ret;

	cq = spray_object_alloc(NULL, sizeof(*cq), SPRAY_RESOURCE_CQ);
	if (!cq)
		return NULL;
	ret = ibv_cmd_create_cq(ibctx, cqe, channel, comp_vector, &cq->vcq.cq, NULL, 0,
				&resp.ibv_resp, sizeof(resp));
	if (!ret)
		ret = finish_cq(cq, &resp.drv_payload, false);
	if (!ret)
		return &cq->vcq.cq;
	spray_object_free(cq);
	errno = ret;
	return NULL;
}

/* 0, or the errno that says why not. */
static int check_cq_attr(const struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;

	if ((attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    (attr->wc_flags & ~known) ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	     (attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !to_spray_pd(attr->parent_domain)->protection))
		return EINVAL;
	return 0;
}

struct ibv_cq_ex *spray_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr)
{
	struct spray_create_cq_ex_cmd_resp resp = {};
	struct ibv_cq_init_attr_ex kernel = *attr;
	struct ibv_create_cq_ex cmd = {};
	struct ibv_pd *domain = NULL;
	struct spray_cq *cq;
	bool single;
	int ret;

	errno = check_cq_attr(attr);
	if (errno)
		return NULL;
	/* A parent domain is nothing that the kernel knows of. */
	kernel.comp_mask &= ~IBV_CQ_INIT_ATTR_MASK_PD;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		domain = attr->parent_domain;
	single = (domain && spray_single_threaded(domain)) ||
		 ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
		  (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED));
	cq = spray_object_alloc(domain, sizeof(*cq), SPRAY_RESOURCE_CQ);
	if (!cq)
		return NULL;
#if IBVERBS_PABI_VERSION >= 65
	ret = ibv_cmd_create_cq_ex(ibctx, &kernel, NULL, &cq->vcq, &cmd, sizeof(cmd), &resp.ibv_resp,
				   sizeof(resp), 0);
#else
	ret = ibv_cmd_create_cq_ex(ibctx, &kernel, &cq->vcq, &cmd, sizeof(cmd), &resp.ibv_resp,
				   sizeof(resp), 0);
#endif
	if (!ret)
		ret = finish_cq(cq, &resp.drv_payload, single);
	if (ret) {
		spray_object_free(cq);
		errno = ret;
		return NULL;
	}
	spray_set_poll_ops(cq, attr->wc_flags);
	return &cq->vcq.cq_ex;
}

/*
 * Once the kernel has changed over there is no way back: without a mapping what comes is lost. That
 * is what an overflow means, too: pollers get what waits in the old ring, then the error for ever.
 */
static int change_ring(struct spray_cq *cq, const struct spray_resize_cq_resp *resp)
{
	void *map = map_rings(cq->vcq.cq.context, resp->mmap_offset, resp->mmap_size);
	struct spray_cq_ring ring;

	if (!map) {
		cq->ring.ctl->overflow = 1;
		return errno;
	}
	ring = cq_ring(map, resp->entries);
	spray_cq_move(&ring, &cq->ring);
	munmap(cq->map, cq->map_size);
	cq->map = map;
	cq->map_size = resp->mmap_size;
	cq->ring = ring;
	return 0;
}

int spray_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct spray_resize_cq_cmd_resp resp = {};
	struct spray_cq *cq = to_spray_cq(ibcq);
	struct ibv_resize_cq cmd = {};
	int ret;

	if (cqe < 1)
		return EINVAL;
	spray_lock(&cq->lock);
	spray_lock(&cq->arm_lock);
	ret = EIO;
	if (!spray_load_acquire(&cq->ring.ctl->overflow))
		ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (!ret)
		ret = change_ring(cq, &resp.drv_payload);
	spray_unlock(&cq->arm_lock);
	spray_unlock(&cq->lock);
	return ret;
}

int spray_destroy_cq(struct ibv_cq *ibcq)
{
	struct spray_cq *cq = to_spray_cq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;
	munmap(cq->map, cq->map_size);
	spray_lock_destroy(&cq->arm_lock);
	spray_lock_destroy(&cq->lock);
	spray_object_free(cq);
	return 0;
}

static void init_wq(struct spray_wq *wq, struct spray_wr_ring ring, uint32_t max_sge,
		    bool single_threaded)
{
	spray_lock_init(&wq->lock, single_threaded);
	wq->open = false;
	wq->ring = ring;
	wq->max_sge = max_sge;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct spray_wr_ring srq_ring(struct spray_srq_ctl *ctl, uint32_t entries, uint32_t slot)
{
	return (struct spray_wr_ring) {
		.slots = (uint8_t *)ctl + SPRAY_SRQ_RING_OFFSET,
		.mask = entries - 1,
		.slot_size = slot,
		.depth = entries,
		.prod = &ctl->prod,
		.cons = &ctl->cons,
		.need_doorbell = &ctl->need_doorbell,
	};
}

struct ibv_srq *spray_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr)
{
	struct spray_create_srq_cmd_resp resp = {};
	struct ibv_create_srq cmd = {};
	struct spray_srq *srq;
	int ret;

	srq = spray_object_alloc(ibpd, sizeof(*srq), SPRAY_RESOURCE_SRQ);
	if (!srq)
		return NULL;
	ret = ibv_cmd_create_srq(ibpd, &srq->vsrq.srq, attr, &cmd, sizeof(cmd), &resp.ibv_resp,
				 sizeof(resp));
	if (ret)
		goto err_free;
	srq->map_size = resp.drv_payload.mmap_size;
	srq->ctl = map_rings(ibpd->context, resp.drv_payload.mmap_offset, srq->map_size);
	if (!srq->ctl) {
		ret = errno;
		goto err_destroy;
	}
	init_wq(&srq->rq, srq_ring(srq->ctl, resp.drv_payload.entries, resp.drv_payload.slot),
		attr->attr.max_sge, spray_single_threaded(ibpd));
	srq->rq.ring.depth = min_u32(attr->attr.max_wr, resp.drv_payload.entries);
	srq->rq.open = true;
	return &srq->vsrq.srq;

err_destroy:
	ibv_cmd_destroy_srq(&srq->vsrq.srq);
err_free:
	spray_object_free(srq);
	errno = ret;
	return NULL;
}

/* As change_ring(): without a mapping nothing can be posted any more. */
static int change_srq_ring(struct spray_srq *srq, const struct spray_resize_srq_resp *resp)
{
	struct spray_srq_ctl *map = map_rings(srq->vsrq.srq.context, resp->mmap_offset,
					      resp->mmap_size);
	struct spray_wr_ring *ring = &srq->rq.ring;
	uint32_t head = ring->head;

	if (!map) {
		srq->rq.open = false;
		return errno;
	}
	munmap(srq->ctl, srq->map_size);
	srq->ctl = map;
	srq->map_size = resp->mmap_size;
	*ring = srq_ring(map, resp->entries, ring->slot_size);
	ring->head = head;
	return 0;
}

int spray_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct spray_srq *srq = to_spray_srq(ibsrq);
	struct spray_resize_srq_resp resp = {};
	struct spray_modify_srq_cmd cmd = {};
	int ret;

	cmd.drv_payload.resp_addr = (uintptr_t)&resp;
	if (!(attr_mask & IBV_SRQ_MAX_WR))
		return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd.ibv_cmd, sizeof(cmd));
	spray_lock(&srq->rq.lock);
	ret = srq->rq.open ? 0 : EIO;
	if (!ret)
		ret = ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd.ibv_cmd, sizeof(cmd));
	if (!ret)
		ret = change_srq_ring(srq, &resp);
	spray_unlock(&srq->rq.lock);
	return ret;
}

int spray_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}

int spray_destroy_srq(struct ibv_srq *ibsrq)
{
	struct spray_srq *srq = to_spray_srq(ibsrq);
	int ret;

	ret = ibv_cmd_destroy_srq(ibsrq);
	if (ret)
		return ret;
	munmap(srq->ctl, srq->map_size);
	spray_lock_destroy(&srq->rq.lock);
	spray_object_free(srq);
	return 0;
}

/* cap holds by now what the kernel granted: a queue takes that many and not the rounded-up ring. */
static void init_rings(struct spray_qp *qp, const struct spray_create_qp_resp *resp,
		       const struct ibv_qp_cap *cap, bool single)
{
	uint8_t *map = (uint8_t *)qp->ctl;

	init_wq(&qp->sq, (struct spray_wr_ring) {
		.slots = map + resp->sq_offset,
		.mask = resp->sq_entries - 1,
		.slot_size = resp->sq_slot,
		.depth = min_u32(cap->max_send_wr, resp->sq_entries),
		.prod = &qp->ctl->sq_prod,
		.cons = &qp->ctl->sq_cons,
	}, cap->max_send_sge, single);
	init_wq(&qp->rq, (struct spray_wr_ring) {
		.slots = map + resp->rq_offset,
		.mask = resp->rq_entries - 1,
		.slot_size = resp->rq_slot,
		.depth = min_u32(cap->max_recv_wr, resp->rq_entries),
		.prod = &qp->ctl->rq_prod,
		.cons = &qp->ctl->rq_cons,
		.need_doorbell = &qp->ctl->rq_need_doorbell,
	}, cap->max_recv_sge, single);
	qp->max_inline = resp->max_inline;
}

/* As finish_cq(). */
static int finish_qp(struct spray_qp *qp, const struct spray_create_qp_resp *resp,
		     const struct ibv_qp_cap *cap, bool sig_all, const struct ibv_pd *ibpd)
{
	int ret;

	qp->map_size = resp->mmap_size;
	qp->ctl = map_rings(qp->vqp.qp.context, resp->mmap_offset, qp->map_size);
	if (!qp->ctl) {
		ret = errno;
		ibv_cmd_destroy_qp(&qp->vqp.qp);
		return ret;
	}
	init_rings(qp, resp, cap, spray_single_threaded(ibpd));
	pthread_mutex_init(&qp->modify, NULL);
	qp->sig_all = sig_all;
	return 0;
}

static bool qp_type_known(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UD;
}

static struct ibv_qp *qp_failed(struct spray_qp *qp, int err)
{
	spray_object_free(qp);
	errno = err;
	return NULL;
}

struct ibv_qp *spray_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr)
{
	struct spray_create_qp_cmd_resp resp = {};
	struct ibv_create_qp cmd = {};
	struct spray_qp *qp;
	int ret;

	if (!qp_type_known(attr->qp_type))
		return qp_failed(NULL, EOPNOTSUPP);
	qp = spray_object_alloc(ibpd, sizeof(*qp), SPRAY_RESOURCE_QP);
	if (!qp)
		return NULL;
	ret = ibv_cmd_create_qp(ibpd, &qp->vqp.qp, attr, &cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp));
	if (!ret)
		ret = finish_qp(qp, &resp.drv_payload, &attr->cap, attr->sq_sig_all, ibpd);
	return ret ? qp_failed(qp, ret) : &qp->vqp.qp;
}

/* 0, or the errno that says why not. To ask for no creation flag is to ask for nothing. */
static int check_qp_attr(struct ibv_context *ibctx, const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS;

	if (!qp_type_known(attr->qp_type) || (attr->comp_mask & ~known))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    !spray_has_wr_ops(ibctx, attr->qp_type, attr->send_ops_flags))
		return EOPNOTSUPP;
	return attr->comp_mask & IBV_QP_INIT_ATTR_PD ? 0 : EINVAL;
}

/* What the setters write beyond a queue's end. A queue of no entries has no slots, either. */
static size_t spare_size(const struct spray_qp *qp)
{
	size_t sges = qp->sq.max_sge * sizeof(struct spray_sge);

	return sizeof(struct spray_sqe) + (sges > qp->max_inline ? sges : qp->max_inline);
}

struct ibv_qp *spray_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr)
{
	bool ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct spray_create_qp_ex_cmd_resp resp = {};
	struct ibv_create_qp_ex cmd = {};
	struct spray_qp *qp;
	int ret;

	ret = check_qp_attr(ibctx, attr);
	if (ret)
		return qp_failed(NULL, ret);
	qp = spray_object_alloc(attr->pd, sizeof(*qp), SPRAY_RESOURCE_QP);
	if (!qp)
		return NULL;
	ret = ibv_cmd_create_qp_ex2(ibctx, &qp->vqp, attr, &cmd, sizeof(cmd), &resp.ibv_resp,
				    sizeof(resp));
	if (!ret)
		ret = finish_qp(qp, &resp.drv_payload, &attr->cap, attr->sq_sig_all, attr->pd);
	if (ret)
		return qp_failed(qp, ret);
	if (ops) {
		qp->wr_spare = calloc(1, spare_size(qp));
		if (!qp->wr_spare) {
			spray_destroy_qp(&qp->vqp.qp);
			errno = ENOMEM;
			return NULL;
		}
		spray_set_wr_ops(qp);
	}
	return &qp->vqp.qp;
}

static void set_open(struct spray_wq *wq, bool open)
{
	spray_lock(&wq->lock);
	wq->open = open;
	spray_unlock(&wq->lock);
}

/* Who may post: receives from INIT on, sends from RTS on, both in ERR, where the kernel flushes them. */
static void follow_state(struct spray_qp *qp, enum ibv_qp_state state)
{
	set_open(&qp->rq, !qp->vqp.qp.srq && state >= IBV_QPS_INIT && state <= IBV_QPS_ERR);
	set_open(&qp->sq, state >= IBV_QPS_RTS && state <= IBV_QPS_ERR);
}

static void rewind_wq(struct spray_wq *wq)
{
	spray_lock(&wq->lock);
	spray_wr_rewind(&wq->ring);
	spray_unlock(&wq->lock);
}

/* Without a lock (one thread) somebody may be at an entry: up to there all stay, that the cursor remains right. */
static void remove_cqes(struct ibv_cq *ibcq, uint32_t qpn)
{
	struct spray_cq *cq = to_spray_cq(ibcq);

	spray_lock(&cq->lock);
	spray_cq_remove_qp(&cq->ring, qpn, cq->polled);
	spray_unlock(&cq->lock);
}

/* The kernel has said that it completes nothing more of this QP (or of its life before RESET). */
static void remove_all_cqes(struct ibv_qp *ibqp)
{
	remove_cqes(ibqp->send_cq, ibqp->qp_num);
	if (ibqp->recv_cq != ibqp->send_cq)
		remove_cqes(ibqp->recv_cq, ibqp->qp_num);
}

/*
 * A RESET closes both queues before the kernel is asked, so that no thread
 * posts by an old index between the kernel's going back to 0 and ours.
 */
static int reset_qp(struct spray_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;
	struct ibv_modify_qp cmd = {};
	int ret;

	follow_state(qp, IBV_QPS_RESET);
	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (ret) {
		follow_state(qp, ibqp->state);
		return ret;
	}
	rewind_wq(&qp->sq);
	rewind_wq(&qp->rq);
	remove_all_cqes(ibqp);
	return 0;
}

static int change_qp(struct spray_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_modify_qp cmd = {};
	int ret;

	if ((attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		return reset_qp(qp, attr, attr_mask);
	ret = ibv_cmd_modify_qp(&qp->vqp.qp, attr, attr_mask, &cmd, sizeof(cmd));
	if (!ret && (attr_mask & IBV_QP_STATE))
		follow_state(qp, attr->qp_state);
	return ret;
}

/* One at a time: a change to ERR must not open the queues before a RESET has rewound them. */
int spray_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct spray_qp *qp = to_spray_qp(ibqp);
	int ret;

	pthread_mutex_lock(&qp->modify);
	ret = change_qp(qp, attr, attr_mask);
	pthread_mutex_unlock(&qp->modify);
	return ret;
}

int spray_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		   struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd = {};

	return ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
}

int spray_destroy_qp(struct ibv_qp *ibqp)
{
	struct spray_qp *qp = to_spray_qp(ibqp);
	int ret;

	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret)
		return ret;
	remove_all_cqes(ibqp);
	munmap(qp->ctl, qp->map_size);
	spray_lock_destroy(&qp->sq.lock);
	spray_lock_destroy(&qp->rq.lock);
	pthread_mutex_destroy(&qp->modify);
	free(qp->wr_spare);
	spray_object_free(qp);
	return 0;
}
