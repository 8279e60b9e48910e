/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The objects of the provider and who may touch what.
 *
 * Locks: one spinlock for each send queue, receive queue and completion queue; those whose
 * user has promised to come with one thread at a time do without.
 * None is ever taken inside another and none is held across a system call, but
 * for those that resize a completion or shared receive queue: who polls or posts
 * then waits for the new ring.
 * A QP's mutex is outermost and held across modify_qp.
 * Everything that is not marked with a lock is constant once the object exists.
 */
#ifndef SPRAY_H
#define SPRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/driver.h>

#include "ring.h"

struct spray_device {
	struct verbs_device vdev;
};

/* Of the kernel's enum ib_uverbs_device_cap_flags: the headers of some libraries have no names for these. */
#define SPRAY_CAP_FLUSH_GLOBAL	(1ULL << 38)
#define SPRAY_CAP_ATOMIC_WRITE	(1ULL << 40)

struct spray_context {
	struct verbs_context vctx;
	uint64_t caps;			/* of the kernel's device */
	bool by_ioctl;			/* write() is refused; atomic, and never false again */
};

struct spray_td {
	struct ibv_td ibtd;
	int users;			/* parent domains; atomic */
};

/* A protection domain or, with @protection, a parent domain on one. */
struct spray_pd {
	struct ibv_pd ibpd;
	int users;			/* parent domains on it, or objects in a parent domain; atomic */
	struct spray_pd *protection;
	struct spray_td *td;		/* parent domain: NULL if it is for any thread */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/* What a parent domain's allocator is told that memory is for: low half of its resource type. */
enum spray_resource {
	SPRAY_RESOURCE_CQ	= 1,
	SPRAY_RESOURCE_SRQ	= 2,
	SPRAY_RESOURCE_QP	= 3,
};

/* A spinlock, unless its object is for one thread at a time (thread domain, single-threaded CQ). */
struct spray_lock {
	pthread_spinlock_t spin;
	bool needless;
};

static inline void spray_lock_init(struct spray_lock *l, bool needless)
{
	pthread_spin_init(&l->spin, PTHREAD_PROCESS_PRIVATE);
	l->needless = needless;
}

static inline void spray_lock(struct spray_lock *l)
{
	if (!l->needless)
		pthread_spin_lock(&l->spin);
}

static inline void spray_unlock(struct spray_lock *l)
{
	if (!l->needless)
		pthread_spin_unlock(&l->spin);
}

static inline void spray_lock_destroy(struct spray_lock *l)
{
	pthread_spin_destroy(&l->spin);
}

struct spray_ah {
	struct ibv_ah ibah;
	uint32_t ah_num;
};

struct spray_cq {
	struct verbs_cq vcq;
	struct spray_lock lock;
	struct spray_lock arm_lock;	/* innermost; the ring is exchanged with both */
	struct spray_cq_ring ring;	/* lock; of it ctl: or arm_lock */
	void *map;			/* lock */
	size_t map_size;		/* lock; bytes */
	uint32_t polled;		/* lock; between start_poll and end_poll: entries shown, the current one too; else 0 */
};

/* A send or receive queue. */
struct spray_wq {
	struct spray_lock lock;
	bool open;			/* lock; the QP's state permits posting */
	struct spray_wr_ring ring;	/* lock */
	uint32_t max_sge;
};

struct spray_srq {
	struct verbs_srq vsrq;
	struct spray_wq rq;
	struct spray_srq_ctl *ctl;	/* start of the mapping */
	size_t map_size;		/* bytes */
};

struct spray_qp {
	struct verbs_qp vqp;
	pthread_mutex_t modify;		/* the kernel's change of state and what follows it here */
	struct spray_wq sq;
	struct spray_wq rq;
	struct spray_qp_ctl *ctl;	/* start of the mapping */
	size_t map_size;		/* bytes */
	uint32_t max_inline;		/* bytes */
	bool sig_all;
	/* between ibv_wr_start() and its end, sq.lock: */
	uint32_t wr_head;		/* ring.head at the start */
	int wr_err;			/* first error */
	struct spray_sqe *wr_cur;
	void *wr_spare;			/* a slot that nobody reads */
};

static inline struct spray_device *to_spray_device(struct verbs_device *vdev)
{
	return container_of(vdev, struct spray_device, vdev);
}

static inline struct spray_context *to_spray_context(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct spray_context, vctx.context);
}

static inline struct spray_pd *to_spray_pd(const struct ibv_pd *ibpd)
{
	return container_of(ibpd, struct spray_pd, ibpd);
}

static inline struct spray_ah *to_spray_ah(struct ibv_ah *ibah)
{
	return container_of(ibah, struct spray_ah, ibah);
}

static inline struct spray_cq *to_spray_cq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct spray_cq, vcq.cq);
}

static inline struct spray_srq *to_spray_srq(struct ibv_srq *ibsrq)
{
	return container_of(ibsrq, struct spray_srq, vsrq.srq);
}

static inline struct spray_qp *to_spray_qp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct spray_qp, vqp.qp);
}

/* domain.c */
struct ibv_pd *spray_alloc_pd(struct ibv_context *ibctx);
int spray_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_pd *spray_import_pd(struct ibv_context *ibctx, uint32_t handle);
void spray_unimport_pd(struct ibv_pd *ibpd);
struct ibv_td *spray_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr);
int spray_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *spray_alloc_parent_domain(struct ibv_context *ibctx,
					 struct ibv_parent_domain_init_attr *attr);
bool spray_single_threaded(const struct ibv_pd *ibpd);
/* Zeroed memory of an object made in @ibpd (or NULL), until spray_object_free(). NULL: none. */
void *spray_object_alloc(struct ibv_pd *ibpd, size_t size, enum spray_resource what);
void spray_object_free(void *p);

/* verbs.c */
struct ibv_cq *spray_create_cq(struct ibv_context *ibctx, int cqe, struct ibv_comp_channel *channel,
			       int comp_vector);
int spray_resize_cq(struct ibv_cq *ibcq, int cqe);
int spray_destroy_cq(struct ibv_cq *ibcq);
struct ibv_srq *spray_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr);
int spray_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int attr_mask);
int spray_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int spray_destroy_srq(struct ibv_srq *ibsrq);
struct ibv_qp *spray_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr);
struct ibv_qp *spray_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_cq_ex *spray_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr);
int spray_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask);
int spray_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		   struct ibv_qp_init_attr *init_attr);
int spray_destroy_qp(struct ibv_qp *ibqp);

/* extended.c */
bool spray_has_wr_ops(struct ibv_context *ibctx, enum ibv_qp_type type, uint64_t ops);
void spray_set_wr_ops(struct spray_qp *qp);
void spray_set_poll_ops(struct spray_cq *cq, uint64_t wc_flags);
int spray_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values);

/* queue.c */
int spray_ring_doorbell(struct ibv_qp *ibqp);
uint8_t spray_sqe_flags(const struct spray_qp *qp, unsigned int wr_flags);
int spray_add_inline(struct spray_sqe *sqe, uint32_t max, const void *data, size_t len);
void spray_copy_sges(struct spray_sge *to, const struct ibv_sge *from, int num);
void spray_set_bind(struct spray_sqe *sqe, uint32_t key, const struct ibv_mw_bind_info *info);
unsigned int spray_wc_flags(const struct spray_cqe *cqe);
int spray_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int spray_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int spray_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int spray_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int spray_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
int spray_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);

#endif
