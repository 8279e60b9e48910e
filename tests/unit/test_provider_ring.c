// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The provider's queues against a kernel made of a memfd and some stubs: the
 * memfd stands for the uverbs file (mmap gives the rings, each doorbell moves
 * the file position on), the ibv_cmd_* below for the commands. The tests play
 * the kernel's side of the rings themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "spray-cmd.h"
#include "spray.h"

enum {
	SQ_ENTRIES = 8,
	RQ_ENTRIES = 4,
	CQ_ENTRIES = 16,
	MAX_SGE = 4,
	MAX_INLINE = 100,
	SQ_SLOT = 192,		/* 56 + 100, rounded up */
	RQ_SLOT = 128,
	MAP_SIZE = 8192,
	DOORBELLS_AT = 1 << 20,	/* file position, beyond all mappings */
};

/* ---- the kernel ---- */

static int next_map;
static int fail_modify;
static bool fail_map;		/* the mapping of a resize */
static int posted_meanwhile;	/* completions that come while a resize is under way */
static enum ibv_qp_state kernel_state;

int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		      int comp_vector, struct ibv_cq *cq, struct ibv_create_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_create_cq_resp *resp, size_t resp_size)
{
	struct spray_create_cq_cmd_resp *r = (void *)resp;

	(void)channel, (void)comp_vector, (void)cmd, (void)cmd_size;
	assert_int_equal(resp_size, sizeof(*r));
	cq->context = context;
	cq->cqe = cqe;
	r->drv_payload = (struct spray_create_cq_resp) {
		.mmap_offset = (uint64_t)next_map++ * MAP_SIZE,
		.mmap_size = MAP_SIZE,
		.entries = CQ_ENTRIES,
	};
	return 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size,
			 uint32_t cmd_flags)
{
	struct spray_create_cq_ex_cmd_resp *r = (void *)resp;
	struct spray_create_cq_cmd_resp plain;
	int ret;

	(void)cmd, (void)cmd_size, (void)cmd_flags;
	assert_int_equal(resp_size, sizeof(*r));
	ret = ibv_cmd_create_cq(context, attr->cqe, NULL, 0, &cq->cq, NULL, 0, &plain.ibv_resp,
				sizeof(plain));
	r->drv_payload = plain.drv_payload;
	return ret;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	return 0;
}

/* As the kernel: control words go on, slots of what waits are left free, new entries come behind. */
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size)
{
	struct spray_resize_cq_cmd_resp *r = (void *)resp;
	struct spray_cq_ctl *old = to_spray_cq(cq)->ring.ctl, *new;
	struct spray_cqe *entries;
	int i;

	(void)cmd, (void)cmd_size;
	assert_int_equal(resp_size, sizeof(*r));
	assert_int_not_equal(pthread_spin_trylock(&to_spray_cq(cq)->lock.spin), 0);
	if (old->prod - old->cons > (uint32_t)cqe)
		return EINVAL;
	r->drv_payload = (struct spray_resize_cq_resp) {
		.mmap_offset = fail_map ? DOORBELLS_AT / 2 + 1 : (uint64_t)next_map++ * MAP_SIZE,
		.mmap_size = MAP_SIZE,
		.entries = cqe,
	};
	cq->cqe = cqe;
	if (fail_map)
		return 0;
	new = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, cq->context->cmd_fd,
		   r->drv_payload.mmap_offset);
	new->cons = old->cons;
	new->armed = old->armed;
	entries = (void *)((uint8_t *)new + SPRAY_CQ_ENTRIES_OFFSET);
	for (i = 0; i < posted_meanwhile; i++)
		entries[(old->prod + i) % cqe] = (struct spray_cqe) { .wr_id = 1000 + i };
	new->prod = old->prod + posted_meanwhile;
	munmap(new, MAP_SIZE);
	return 0;
}

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size,
		       struct ib_uverbs_create_srq_resp *resp, size_t resp_size)
{
	struct spray_create_srq_cmd_resp *r = (void *)resp;

	(void)attr, (void)cmd, (void)cmd_size;
	assert_int_equal(resp_size, sizeof(*r));
	srq->context = pd->context;
	r->drv_payload = (struct spray_create_srq_resp) {
		.mmap_offset = (uint64_t)next_map++ * MAP_SIZE,
		.mmap_size = MAP_SIZE,
		.entries = RQ_ENTRIES,
		.slot = RQ_SLOT,
	};
	return 0;
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask,
		       struct ibv_modify_srq *cmd, size_t cmd_size)
{
	struct spray_modify_srq_cmd *c = (void *)cmd;
	struct spray_resize_srq_resp *r = (void *)(uintptr_t)c->drv_payload.resp_addr;
	struct spray_srq_ctl *old = to_spray_srq(srq)->ctl, *new;

	assert_int_equal(cmd_size, sizeof(*c));
	if (!(attr_mask & IBV_SRQ_MAX_WR))
		return 0;
	assert_int_not_equal(pthread_spin_trylock(&to_spray_srq(srq)->rq.lock.spin), 0);
	if (old->prod - old->cons > attr->max_wr)
		return EINVAL;
	*r = (struct spray_resize_srq_resp) {
		.mmap_offset = fail_map ? DOORBELLS_AT / 2 + 1 : (uint64_t)next_map++ * MAP_SIZE,
		.mmap_size = MAP_SIZE,
		.entries = attr->max_wr,
	};
	if (fail_map)
		return 0;
	new = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, srq->context->cmd_fd,
		   r->mmap_offset);
	new->prod = old->prod;
	new->cons = old->cons;
	new->need_doorbell = old->need_doorbell;
	munmap(new, MAP_SIZE);
	return 0;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	(void)cmd, (void)cmd_size, (void)resp, (void)resp_size;
	pd->context = context;
	pd->handle = 77;
	return 0;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, struct ibv_query_srq *cmd,
		      size_t cmd_size)
{
	(void)srq, (void)attr, (void)cmd, (void)cmd_size;
	return EOPNOTSUPP;
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return 0;
}

int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
		      struct ibv_create_qp *cmd, size_t cmd_size,
		      struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	struct spray_create_qp_cmd_resp *r = (void *)resp;

	(void)cmd, (void)cmd_size;
	assert_int_equal(resp_size, sizeof(*r));
	qp->context = pd->context;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	qp->qp_num = 100 + next_map;
	r->drv_payload = (struct spray_create_qp_resp) {
		.mmap_offset = (uint64_t)next_map++ * MAP_SIZE,
		.mmap_size = MAP_SIZE,
		.sq_offset = SPRAY_QP_RINGS_OFFSET,
		.sq_entries = SQ_ENTRIES,
		.sq_slot = attr->cap.max_send_wr ? SQ_SLOT : 0,
		.rq_offset = SPRAY_QP_RINGS_OFFSET + SQ_ENTRIES * SQ_SLOT,
		.rq_entries = RQ_ENTRIES,
		.rq_slot = RQ_SLOT,
		.max_inline = MAX_INLINE,
	};
	return 0;
}

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp,
			  struct ibv_qp_init_attr_ex *attr, struct ibv_create_qp_ex *cmd,
			  size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size)
{
	struct spray_create_qp_ex_cmd_resp *r = (void *)resp;
	struct ibv_qp_init_attr basic = { .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
					  .qp_type = attr->qp_type, .cap = attr->cap };
	struct spray_create_qp_cmd_resp plain;
	int ret;

	(void)context, (void)cmd, (void)cmd_size;
	assert_int_equal(resp_size, sizeof(*r));
	ret = ibv_cmd_create_qp(attr->pd, &qp->qp, &basic, NULL, 0, &plain.ibv_resp, sizeof(plain));
	r->drv_payload = plain.drv_payload;
	return ret;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size)
{
	struct spray_qp *sqp = to_spray_qp(qp);

	(void)attr_mask, (void)cmd, (void)cmd_size;
	if (fail_modify)
		return fail_modify;
	kernel_state = attr->qp_state;
	if (kernel_state == IBV_QPS_RESET)
		sqp->ctl->sq_cons = sqp->ctl->rq_cons = 0;
	return 0;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		     struct ibv_qp_init_attr *init_attr, struct ibv_query_qp *cmd, size_t cmd_size)
{
	(void)qp, (void)attr, (void)attr_mask, (void)init_attr, (void)cmd, (void)cmd_size;
	return EOPNOTSUPP;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	(void)qp;
	return 0;
}

static bool refuse_write;	/* to who opened the file with other credentials */
static int ioctl_doorbells, ioctl_fails;

/* In the C library's place. */
ssize_t write(int fd, const void *buf, size_t size)
{
	if (!refuse_write)
		return syscall(SYS_write, fd, buf, size);
	errno = EACCES;
	return -1;
}

int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd)
{
	const struct ib_uverbs_attr *a = cmd->hdr.attrs;

	(void)context;
	if (ioctl_fails)
		return ioctl_fails;
	assert_int_equal(cmd->hdr.object_id, UVERBS_OBJECT_DEVICE);
	assert_int_equal(cmd->hdr.method_id, UVERBS_METHOD_INVOKE_WRITE);
	assert_int_equal(a[0].attr_id, UVERBS_ATTR_WRITE_CMD);
	assert_true(a[0].data == IB_USER_VERBS_CMD_POST_SEND || a[0].data == IB_USER_VERBS_CMD_POST_SRQ_RECV);
	assert_int_equal(a[1].attr_id, UVERBS_ATTR_CORE_IN);
	assert_int_equal(a[1].len, sizeof(struct ib_uverbs_post_send));
	assert_int_equal(a[2].attr_id, UVERBS_ATTR_CORE_OUT);
	assert_int_equal(a[2].len, sizeof(struct ib_uverbs_post_send_resp));
	ioctl_doorbells++;
	return 0;
}

static void kernel_complete(struct ibv_cq *ibcq, uint32_t qpn, uint64_t wr_id)
{
	struct spray_cq_ring *r = &to_spray_cq(ibcq)->ring;
	uint32_t prod = r->ctl->prod;

	assert_true(prod - spray_load_acquire(&r->ctl->cons) < CQ_ENTRIES);
	r->entries[prod % CQ_ENTRIES] = (struct spray_cqe) { .wr_id = wr_id, .qpn = qpn };
	spray_store_release(&r->ctl->prod, prod + 1);
}

/* ---- the process ---- */

struct world {
	union {
		struct spray_context ctx;
		struct verbs_context vctx;
	};
	struct spray_pd pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct spray_ah spray_ah;
};

static int doorbells(const struct world *w)
{
	off_t pos = lseek(w->vctx.context.cmd_fd, 0, SEEK_CUR) - DOORBELLS_AT;

	assert_int_equal(pos % sizeof(struct ibv_post_send), 0);
	return pos / sizeof(struct ibv_post_send);
}

/* As libibverbs does: the state is noted once the provider has succeeded. */
static int modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int ret = spray_modify_qp(qp, &attr, IBV_QP_STATE);

	if (!ret)
		qp->state = state;
	return ret;
}

static void to_rts(struct ibv_qp *qp)
{
	assert_int_equal(modify(qp, IBV_QPS_INIT), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTR), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTS), 0);
}

static struct ibv_qp *make_qp(struct world *w, enum ibv_qp_type type, bool sig_all)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = w->send_cq,
		.recv_cq = w->recv_cq,
		.qp_type = type,
		.sq_sig_all = sig_all,
		.cap = {
			.max_send_wr = SQ_ENTRIES,
			.max_recv_wr = RQ_ENTRIES - 1,	/* less than the ring holds */
			.max_send_sge = MAX_SGE,
			.max_recv_sge = MAX_SGE,
		},
	};

	return spray_create_qp(&w->pd.ibpd, &attr);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fd = memfd_create("uverbs", 0);

	next_map = 0;
	fail_modify = 0;
	fail_map = false;
	posted_meanwhile = 0;
	refuse_write = false;
	ioctl_doorbells = ioctl_fails = 0;
	assert_int_equal(ftruncate(fd, DOORBELLS_AT), 0);
	assert_int_equal(lseek(fd, DOORBELLS_AT, SEEK_SET), DOORBELLS_AT);
	w->vctx.context.cmd_fd = fd;
	w->pd.ibpd.context = &w->vctx.context;
	w->send_cq = spray_create_cq(&w->vctx.context, CQ_ENTRIES, NULL, 0);
	w->recv_cq = spray_create_cq(&w->vctx.context, CQ_ENTRIES, NULL, 0);
	w->qp = make_qp(w, IBV_QPT_RC, false);
	w->spray_ah.ah_num = 77;
	w->ah = &w->spray_ah.ibah;
	assert_non_null(w->qp);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(spray_destroy_qp(w->qp), 0);
	assert_int_equal(spray_destroy_cq(w->send_cq), 0);
	assert_int_equal(spray_destroy_cq(w->recv_cq), 0);
	close(w->vctx.context.cmd_fd);
	free(w);
	return 0;
}

static int post_op(struct ibv_qp *qp, enum ibv_wr_opcode op, unsigned int flags)
{
	static char byte[MAX_INLINE + 1];
	struct ibv_sge sge = { .addr = (uintptr_t)byte, .length = 1, .lkey = 9 };
	struct ibv_send_wr *bad, wr = { .opcode = op, .send_flags = flags, .sg_list = &sge, .num_sge = 1 };

	return spray_post_send(qp, &wr, &bad);
}

static int post_n_recvs(struct ibv_qp *qp, int n, int *posted)
{
	struct ibv_recv_wr wr[8] = {}, *bad = NULL;
	int i, ret;

	for (i = 0; i < n; i++) {
		wr[i].wr_id = i;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	ret = spray_post_recv(qp, wr, &bad);
	*posted = ret ? bad - wr : n;
	return ret;
}

/* Move all indices of the QP's and the CQ's rings to a place of choice, as if so much had passed through. */
static void start_at(struct ibv_qp *qp, struct ibv_cq *cq, uint32_t index)
{
	struct spray_cq_ring *c = &to_spray_cq(cq)->ring;
	struct spray_qp *q = to_spray_qp(qp);

	q->sq.ring.head = q->rq.ring.head = index;
	q->ctl->sq_prod = q->ctl->sq_cons = q->ctl->rq_prod = q->ctl->rq_cons = index;
	c->cons = c->ctl->cons = c->ctl->prod = index;
}

static const struct spray_sqe *sqe_at(struct ibv_qp *qp, uint32_t index)
{
	return (void *)(to_spray_qp(qp)->sq.ring.slots + index % SQ_ENTRIES * SQ_SLOT);
}

/* ---- posting ---- */

static void post_send__each_state(void **state)
{
	struct world *w = *state;

	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), EINVAL);
	modify(w->qp, IBV_QPS_INIT);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), EINVAL);
	modify(w->qp, IBV_QPS_RTR);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), EINVAL);
	assert_int_equal(doorbells(w), 0);
	modify(w->qp, IBV_QPS_RTS);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	modify(w->qp, IBV_QPS_ERR);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(doorbells(w), 2);
	modify(w->qp, IBV_QPS_RESET);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), EINVAL);
}

static void post_send__full_ring_names_first_refused(void **state)
{
	struct world *w = *state;
	struct spray_qp *qp = to_spray_qp(w->qp);
	struct ibv_send_wr wr[SQ_ENTRIES + 2] = {}, *bad = NULL;
	int i;

	to_rts(w->qp);
	start_at(w->qp, w->send_cq, UINT32_MAX - 2);
	for (i = 0; i < SQ_ENTRIES + 2; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < SQ_ENTRIES + 1 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(spray_post_send(w->qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[SQ_ENTRIES]);
	assert_int_equal(qp->ctl->sq_prod, UINT32_MAX - 2 + SQ_ENTRIES);
	assert_int_equal(doorbells(w), 1);
	for (i = 0; i < SQ_ENTRIES; i++)
		assert_int_equal(sqe_at(w->qp, UINT32_MAX - 2 + i)->wr_id, i);

	assert_int_equal(spray_post_send(w->qp, bad, &bad), ENOMEM);
	assert_int_equal(doorbells(w), 1);
	qp->ctl->sq_cons += 2;
	assert_int_equal(spray_post_send(w->qp, bad, &bad), 0);
	assert_int_equal(qp->ctl->sq_prod, UINT32_MAX - 2 + SQ_ENTRIES + 2);
}

static void post_send__bad_request_keeps_the_good_before_it(void **state)
{
	struct world *w = *state;
	struct ibv_send_wr wr[3] = {}, *bad = NULL;

	to_rts(w->qp);
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	wr[0].opcode = wr[2].opcode = IBV_WR_SEND;
	wr[1].opcode = IBV_WR_TSO;
	assert_int_equal(spray_post_send(w->qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(to_spray_qp(w->qp)->ctl->sq_prod, 1);
	assert_int_equal(doorbells(w), 1);
}

static void post_send__which_operation_where(void **state)
{
	static const enum ibv_wr_opcode unknown[] = {
		IBV_WR_TSO, IBV_WR_DRIVER1, 1000,
	};
	struct world *w = *state;
	struct ibv_qp *ud = make_qp(w, IBV_QPT_UD, false);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	unsigned int i;

	to_rts(w->qp);
	to_rts(ud);
	for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_int_equal(post_op(w->qp, unknown[i], 0), EINVAL);
	for (i = IBV_WR_RDMA_WRITE; i <= IBV_WR_ATOMIC_FETCH_AND_ADD; i++)
		assert_int_equal(post_op(w->qp, i, 0), 0);
	to_spray_qp(w->qp)->ctl->sq_cons = to_spray_qp(w->qp)->ctl->sq_prod;
	assert_int_equal(post_op(w->qp, IBV_WR_SEND_WITH_INV, 0), 0);
	assert_int_equal(post_op(w->qp, IBV_WR_LOCAL_INV, 0), 0);
	assert_int_equal(post_op(ud, IBV_WR_SEND_WITH_INV, 0), EINVAL);
	assert_int_equal(post_op(ud, IBV_WR_LOCAL_INV, 0), EINVAL);
	assert_int_equal(post_op(ud, IBV_WR_BIND_MW, 0), EINVAL);
	assert_int_equal(post_op(ud, IBV_WR_RDMA_WRITE, 0), EINVAL);
	assert_int_equal(post_op(ud, IBV_WR_RDMA_READ, 0), EINVAL);
	assert_int_equal(post_op(ud, IBV_WR_ATOMIC_FETCH_AND_ADD, 0), EINVAL);
	assert_int_equal(spray_post_send(ud, &wr, &bad), EINVAL);	/* no address handle */
	assert_int_equal(to_spray_qp(ud)->ctl->sq_prod, 0);
	spray_destroy_qp(ud);
}

static void post_send__fields_rc(void **state)
{
	struct world *w = *state;
	struct ibv_sge sge[2] = { { 0x1000, 10, 1 }, { 0x2000, 20, 2 } };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 0x1122334455667788,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE,
		.sg_list = sge, .num_sge = 2,
		.imm_data = 0x01020304,
		.wr.rdma = { .remote_addr = 0xabcdef0123456789, .rkey = 0x4242 },
	};
	const struct spray_sqe *s = sqe_at(w->qp, 0);
	const struct spray_sge *g = (const void *)(s + 1);

	to_rts(w->qp);
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	assert_int_equal(s->wr_id, wr.wr_id);
	assert_int_equal(s->op, SPRAY_OP_WRITE_IMM);
	assert_int_equal(s->flags, SPRAY_SQE_SIGNALED | SPRAY_SQE_SOLICITED | SPRAY_SQE_FENCE);
	assert_int_equal(s->num_sge, 2);
	assert_int_equal(s->imm, 0x01020304);
	assert_int_equal(s->raddr, wr.wr.rdma.remote_addr);
	assert_int_equal(s->rkey, 0x4242);
	assert_int_equal(g[1].addr, 0x2000);
	assert_int_equal(g[1].length, 20);
	assert_int_equal(g[1].lkey, 2);

	wr = (struct ibv_send_wr) {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 8, .compare_add = 11, .swap = 22, .rkey = 33 },
	};
	s = sqe_at(w->qp, 1);
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	assert_int_equal(s->op, SPRAY_OP_CAS);
	assert_int_equal(s->flags, 0);
	assert_int_equal(s->compare, 11);
	assert_int_equal(s->swap_add, 22);
	assert_int_equal(s->raddr, 8);
	assert_int_equal(s->rkey, 33);

	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	s = sqe_at(w->qp, 2);
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	assert_int_equal(s->op, SPRAY_OP_FAA);
	assert_int_equal(s->swap_add, 11);
	assert_int_equal(s->compare, 0);
}

static void post_send__fields_ud(void **state)
{
	struct world *w = *state;
	struct ibv_qp *ud = make_qp(w, IBV_QPT_UD, true);
	const struct spray_sqe *s = sqe_at(ud, 0);
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = w->ah, .remote_qpn = 5, .remote_qkey = 6 },
	};

	to_rts(ud);
	assert_int_equal(spray_post_send(ud, &wr, &bad), 0);
	assert_int_equal(s->raddr, 77);
	assert_int_equal(s->remote_qpn, 5);
	assert_int_equal(s->rkey, 6);
	assert_int_equal(s->flags, SPRAY_SQE_SIGNALED);
	spray_destroy_qp(ud);
}

static void post_send__inline(void **state)
{
	struct world *w = *state;
	char data[MAX_INLINE + 1];
	struct ibv_sge sge[2] = {
		{ (uintptr_t)data, 40, 0 },
		{ (uintptr_t)data + 40, MAX_INLINE - 40, 0 },
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 2,
	};
	const struct spray_sqe *s = sqe_at(w->qp, 0);
	int i;

	for (i = 0; i < MAX_INLINE + 1; i++)
		data[i] = i;
	to_rts(w->qp);
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	assert_int_equal(s->flags, SPRAY_SQE_INLINE);
	assert_int_equal(s->inline_len, MAX_INLINE);
	assert_memory_equal(s + 1, data, MAX_INLINE);

	sge[1].length++;
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), EINVAL);
	sge[1].length = UINT32_MAX - 10;	/* a sum would wrap */
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	assert_int_equal(sqe_at(w->qp, 1)->inline_len, 0);

	assert_int_equal(post_op(w->qp, IBV_WR_RDMA_READ, IBV_SEND_INLINE), EINVAL);
	assert_int_equal(post_op(w->qp, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_INLINE), EINVAL);
}

static void post_send__too_many_sges(void **state)
{
	struct world *w = *state;
	struct ibv_sge sge[MAX_SGE + 1] = {};
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = MAX_SGE };

	to_rts(w->qp);
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), 0);
	wr.num_sge++;
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(spray_post_send(w->qp, &wr, &bad), EINVAL);
}

static void post_recv__depth_is_what_was_granted(void **state)
{
	struct world *w = *state;
	struct spray_qp *qp = to_spray_qp(w->qp);
	int posted;

	assert_int_equal(post_n_recvs(w->qp, 1, &posted), EINVAL);	/* RESET */
	assert_int_equal(posted, 0);
	modify(w->qp, IBV_QPS_INIT);
	start_at(w->qp, w->recv_cq, UINT32_MAX);
	assert_int_equal(post_n_recvs(w->qp, RQ_ENTRIES, &posted), ENOMEM);
	assert_int_equal(posted, RQ_ENTRIES - 1);
	assert_int_equal(qp->ctl->rq_prod, RQ_ENTRIES - 2);
	assert_int_equal(doorbells(w), 0);
}

static void post_recv__wakes_a_sleeping_receiver(void **state)
{
	struct world *w = *state;
	struct spray_qp *qp = to_spray_qp(w->qp);
	int posted;

	to_rts(w->qp);
	assert_int_equal(post_n_recvs(w->qp, 1, &posted), 0);
	assert_int_equal(doorbells(w), 0);
	qp->ctl->rq_need_doorbell = 1;
	assert_int_equal(post_n_recvs(w->qp, 1, &posted), 0);
	assert_int_equal(doorbells(w), 1);
	assert_int_equal(post_n_recvs(w->qp, 2, &posted), ENOMEM);	/* one of two */
	assert_int_equal(doorbells(w), 2);
	assert_int_equal(post_n_recvs(w->qp, 1, &posted), ENOMEM);
	assert_int_equal(doorbells(w), 2);
}

/* ---- completions ---- */

static void poll_cq__translates_across_the_wrap(void **state)
{
	struct world *w = *state;
	struct spray_cq_ring *r = &to_spray_cq(w->send_cq)->ring;
	struct ibv_wc wc[CQ_ENTRIES];
	int i;

	start_at(w->qp, w->send_cq, UINT32_MAX - 4);
	assert_int_equal(spray_poll_cq(w->send_cq, 1, wc), 0);
	for (i = 0; i < CQ_ENTRIES; i++)
		kernel_complete(w->send_cq, 1000 + i, i);
	r->entries[(UINT32_MAX - 4) % CQ_ENTRIES] = (struct spray_cqe) {
		.wr_id = 0, .qpn = 1000, .src_qpn = 3, .byte_len = 4, .ex = 5, .vendor_err = 6,
		.pkey_index = 7, .status = IBV_WC_RNR_RETRY_EXC_ERR, .opcode = SPRAY_WC_RECV_IMM,
		.flags = SPRAY_WC_GRH | SPRAY_WC_WITH_IMM | SPRAY_WC_SOLICITED | SPRAY_WC_IPV6, .sl = 8,
	};
	assert_int_equal(spray_poll_cq(w->send_cq, 3, wc), 3);
	assert_int_equal(wc[0].qp_num, 1000);
	assert_int_equal(wc[0].src_qp, 3);
	assert_int_equal(wc[0].byte_len, 4);
	assert_int_equal(wc[0].imm_data, 5);
	assert_int_equal(wc[0].vendor_err, 6);
	assert_int_equal(wc[0].pkey_index, 7);
	assert_int_equal(wc[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc[0].wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc[0].sl, 8);
	assert_int_equal(r->ctl->cons, UINT32_MAX - 1);
	assert_int_equal(spray_poll_cq(w->send_cq, CQ_ENTRIES, wc + 3), CQ_ENTRIES - 3);
	for (i = 0; i < CQ_ENTRIES; i++)
		assert_int_equal(wc[i].wr_id, i);
	assert_int_equal(spray_poll_cq(w->send_cq, 1, wc), 0);
}

static void poll_cq__lost_entries_are_an_error_after_the_last(void **state)
{
	struct world *w = *state;
	struct ibv_wc wc;

	kernel_complete(w->send_cq, 1, 1);
	to_spray_cq(w->send_cq)->ring.ctl->overflow = 1;
	assert_int_equal(spray_poll_cq(w->send_cq, 1, &wc), 1);
	assert_true(spray_poll_cq(w->send_cq, 1, &wc) < 0);
}

static void req_notify_cq__stronger_request_stays(void **state)
{
	struct world *w = *state;
	struct spray_cq_ctl *ctl = to_spray_cq(w->send_cq)->ring.ctl;

	spray_req_notify_cq(w->send_cq, 1);
	assert_int_equal(ctl->armed, SPRAY_ARM_SOLICITED);
	spray_req_notify_cq(w->send_cq, 0);
	assert_int_equal(ctl->armed, SPRAY_ARM_ANY);
	spray_req_notify_cq(w->send_cq, 1);
	assert_int_equal(ctl->armed, SPRAY_ARM_ANY);
}

static void remove_qp__random_against_a_list(void **state)
{
	struct world *w = *state;
	struct spray_cq_ring *r = &to_spray_cq(w->send_cq)->ring;
	unsigned int seed = 1;
	struct ibv_wc wc;
	int round, i, n, kept;

	for (round = 0; round < 20000; round++) {
		uint64_t expect[CQ_ENTRIES];

		start_at(w->qp, w->send_cq, UINT32_MAX - rand_r(&seed) % 40);
		n = rand_r(&seed) % (CQ_ENTRIES + 1);
		kept = 0;
		for (i = 0; i < n; i++) {
			uint32_t qpn = rand_r(&seed) % 3;

			kernel_complete(w->send_cq, qpn, i);
			if (qpn != 1)
				expect[kept++] = i;
		}
		spray_cq_remove_qp(r, 1, 0);
		assert_int_equal(r->ctl->prod - r->ctl->cons, kept);
		for (i = 0; i < kept; i++) {
			assert_int_equal(spray_poll_cq(w->send_cq, 1, &wc), 1);
			assert_int_equal(wc.wr_id, expect[i]);
		}
	}
}

static void modify_qp__reset_rewinds_and_removes(void **state)
{
	struct world *w = *state;
	struct spray_qp *qp = to_spray_qp(w->qp);
	uint32_t qpn = w->qp->qp_num;
	struct ibv_wc wc[4];
	int posted;

	to_rts(w->qp);
	post_op(w->qp, IBV_WR_SEND, 0);
	post_n_recvs(w->qp, 3, &posted);
	qp->ctl->sq_cons = 1;
	kernel_complete(w->send_cq, qpn, 1);
	kernel_complete(w->send_cq, 5, 2);
	kernel_complete(w->recv_cq, 6, 3);
	kernel_complete(w->recv_cq, qpn, 4);

	fail_modify = EIO;
	assert_int_equal(modify(w->qp, IBV_QPS_RESET), EIO);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);	/* still RTS */
	assert_int_equal(qp->ctl->sq_prod, 2);
	fail_modify = 0;

	assert_int_equal(modify(w->qp, IBV_QPS_RESET), 0);
	assert_int_equal(qp->ctl->sq_prod, 0);
	assert_int_equal(qp->ctl->rq_prod, 0);
	assert_int_equal(spray_poll_cq(w->send_cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(spray_poll_cq(w->recv_cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	to_rts(w->qp);
	assert_int_equal(post_n_recvs(w->qp, 3, &posted), 0);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(qp->ctl->sq_prod, 1);
}

static void destroy_qp__removes(void **state)
{
	struct world *w = *state;
	struct ibv_qp *other = make_qp(w, IBV_QPT_RC, false);
	struct ibv_wc wc[4];

	kernel_complete(w->send_cq, other->qp_num, 1);
	kernel_complete(w->send_cq, w->qp->qp_num, 2);
	kernel_complete(w->recv_cq, other->qp_num, 3);
	assert_int_equal(spray_destroy_qp(other), 0);
	assert_int_equal(spray_poll_cq(w->send_cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(spray_poll_cq(w->recv_cq, 4, wc), 0);
}

/* ---- all at once ---- */

enum { THREADS = 2, POSTS = 20000, VICTIM = 0xdead };

struct race {
	struct world *w;
	uint64_t got[THREADS];	/* next wr_id of each poster */
	uint32_t done;		/* posters' completions polled */
	uint32_t ghosts;	/* completions of the victim put since it was told to die */
	uint32_t victim_dead;	/* set by the kernel: nothing more from it */
	uint32_t kill;		/* asked for by the killer */
};

static void *poster(void *arg)
{
	static int counter;
	struct race *race = arg;
	uint64_t me = __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED) % THREADS;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	uint64_t i;

	for (i = 0; i < POSTS;) {
		wr.wr_id = me << 32 | i;
		if (spray_post_send(race->w->qp, &wr, &bad))
			sched_yield();
		else
			i++;
	}
	return NULL;
}

static bool all_done(struct race *race)
{
	return __atomic_load_n(&race->done, __ATOMIC_ACQUIRE) == THREADS * POSTS;
}

static bool cq_has_room(struct spray_cq_ring *r)
{
	return r->ctl->prod - spray_load_acquire(&r->ctl->cons) < CQ_ENTRIES;
}

/* Completes what is posted, in order, with completions of a dying QP in between. */
static void *kernel(void *arg)
{
	struct race *race = arg;
	struct spray_qp *qp = to_spray_qp(race->w->qp);
	struct spray_cq_ring *r = &to_spray_cq(race->w->send_cq)->ring;
	uint32_t cons = 0, n = 0;

	while (!all_done(race)) {
		if (!cq_has_room(r)) {
			sched_yield();
		} else if (__atomic_load_n(&race->kill, __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&race->kill, 0, __ATOMIC_RELAXED);
			__atomic_store_n(&race->victim_dead, 1, __ATOMIC_RELEASE);
		} else if (n++ % 3 == 0 && !__atomic_load_n(&race->victim_dead, __ATOMIC_ACQUIRE)) {
			kernel_complete(race->w->send_cq, VICTIM, 0);
		} else if (spray_load_acquire(&qp->ctl->sq_prod) != cons) {
			uint64_t wr_id = sqe_at(race->w->qp, cons)->wr_id;

			spray_store_release(&qp->ctl->sq_cons, ++cons);
			kernel_complete(race->w->send_cq, race->w->qp->qp_num, wr_id);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void *poller(void *arg)
{
	struct race *race = arg;
	struct ibv_wc wc[3];
	int i, n;

	while (!all_done(race)) {
		n = spray_poll_cq(race->w->send_cq, 3, wc);
		for (i = 0; i < n; i++) {
			if (wc[i].qp_num == VICTIM)
				continue;
			/* one poller: order is seen as it was */
			if (wc[i].wr_id == ((wc[i].wr_id >> 32) << 32 | race->got[wc[i].wr_id >> 32]))
				race->got[wc[i].wr_id >> 32]++;
			__atomic_fetch_add(&race->done, 1, __ATOMIC_RELEASE);
		}
		if (n <= 0)
			sched_yield();
	}
	return NULL;
}

/* Kills the victim over and over: after removal, no completion of it may be left. */
static void *killer(void *arg)
{
	struct race *race = arg;
	struct spray_cq *cq = to_spray_cq(race->w->send_cq);
	uint32_t i, prod;

	while (!all_done(race)) {
		__atomic_store_n(&race->kill, 1, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&race->victim_dead, __ATOMIC_ACQUIRE) && !all_done(race))
			sched_yield();
		spray_lock(&cq->lock);
		spray_cq_remove_qp(&cq->ring, VICTIM, 0);
		prod = spray_load_acquire(&cq->ring.ctl->prod);
		for (i = cq->ring.cons; i != prod; i++)
			race->ghosts += spray_cq_entry(&cq->ring, i)->qpn == VICTIM;
		spray_unlock(&cq->lock);
		__atomic_store_n(&race->victim_dead, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void threads__posting_polling_and_removing(void **state)
{
	struct race race = { .w = *state };
	pthread_t t[THREADS + 3];
	int i;

	to_rts(race.w->qp);
	pthread_create(&t[0], NULL, kernel, &race);
	pthread_create(&t[1], NULL, poller, &race);
	pthread_create(&t[2], NULL, killer, &race);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[3 + i], NULL, poster, &race);
	for (i = 0; i < THREADS + 3; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(race.got[i], POSTS);
	assert_int_equal(race.ghosts, 0);
}

/* ---- shared receive queues, resize ---- */

static void post_srq_recv__as_a_receive_queue_with_a_word_of_its_own(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RQ_ENTRIES - 1, .max_sge = MAX_SGE } };
	struct world *w = *state;
	struct ibv_srq *ibsrq = spray_create_srq(&w->pd.ibpd, &attr);
	struct spray_srq *srq = to_spray_srq(ibsrq);
	struct ibv_sge sge[MAX_SGE + 1] = { { 0x1000, 10, 1 }, { 0x2000, 20, 2 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .sg_list = sge, .num_sge = 2 };
	const struct spray_rqe *rqe = (void *)(srq->rq.ring.slots + (UINT32_MAX % RQ_ENTRIES) * RQ_SLOT);

	srq->rq.ring.head = srq->ctl->prod = srq->ctl->cons = UINT32_MAX;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(srq->ctl->prod, 0);
	assert_int_equal(doorbells(w), 0);
	assert_int_equal(rqe->wr_id, 5);
	assert_int_equal(rqe->num_sge, 2);
	assert_int_equal(((const struct spray_sge *)(rqe + 1))[1].addr, 0x2000);
	srq->ctl->need_doorbell = 1;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(doorbells(w), 1);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(doorbells(w), 2);
	srq->ctl->cons++;
	wr.num_sge = MAX_SGE + 1;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), EINVAL);
	wr.num_sge = MAX_SGE;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(spray_destroy_srq(ibsrq), 0);
}

/* Up and down, around the wrap of the indices. */
static void resize_srq__posting_goes_on_where_it_was(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RQ_ENTRIES, .max_sge = 1 } };
	struct world *w = *state;
	struct ibv_srq *ibsrq = spray_create_srq(&w->pd.ibpd, &attr);
	struct spray_srq *srq = to_spray_srq(ibsrq);
	struct ibv_recv_wr *bad, wr = { .wr_id = 5 };
	const struct spray_rqe *rqe;
	int i;

	srq->rq.ring.head = srq->ctl->prod = srq->ctl->cons = UINT32_MAX - 1;
	for (i = 0; i < RQ_ENTRIES; i++)
		assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	attr.attr.max_wr = 8;
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_MAX_WR), 0);
	wr.wr_id = 6;
	srq->ctl->need_doorbell = 1;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(doorbells(w), 1);
	rqe = (void *)(srq->rq.ring.slots + (RQ_ENTRIES - 2) % 8 * RQ_SLOT);
	assert_int_equal(rqe->wr_id, 6);
	assert_int_equal(srq->ctl->prod, RQ_ENTRIES - 1);
	for (i = RQ_ENTRIES + 1; i < 8; i++)
		assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	rqe = (void *)(srq->rq.ring.slots + 5 * RQ_SLOT);	/* the last: index 5 of eight, 1 of four */
	assert_int_equal(rqe->wr_id, 6);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	attr.attr.max_wr = 4;
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_MAX_WR), EINVAL);
	srq->ctl->cons += 5;
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	srq->ctl->cons++;
	/* no mapping: nobody would see what is posted */
	fail_map = true;
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_MAX_WR), EINVAL);
	fail_map = false;
	assert_int_equal(spray_post_srq_recv(ibsrq, &wr, &bad), EINVAL);
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_MAX_WR), EIO);
	assert_int_equal(spray_modify_srq(ibsrq, &attr.attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(spray_destroy_srq(ibsrq), 0);
}

static void post_recv__refused_on_an_srq(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct world *w = *state;
	struct ibv_srq *srq = spray_create_srq(&w->pd.ibpd, &attr);
	int posted;

	w->qp->srq = srq;
	to_rts(w->qp);
	assert_int_equal(post_n_recvs(w->qp, 1, &posted), EINVAL);
	spray_destroy_srq(srq);
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_int_equal(spray_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
}

/* Bigger and smaller, around the wrap of the indices, with completions that come meanwhile. */
static void resize_cq__keeps_what_waits_in_order(void **state)
{
	static const int sizes[] = { 64, 8, 16, 8 };
	struct world *w = *state;
	struct ibv_wc wc;
	unsigned int i;

	start_at(w->qp, w->send_cq, UINT32_MAX - 3);
	for (i = 0; i < 5; i++)
		kernel_complete(w->send_cq, 1, i);
	posted_meanwhile = 1;
	for (i = 0; i < 4; i++) {
		assert_int_equal(spray_resize_cq(w->send_cq, sizes[i]), 0);
		expect_wc(w->send_cq, i);	/* leaves 5 */
	}
	expect_wc(w->send_cq, 4);
	for (i = 0; i < 4; i++)
		expect_wc(w->send_cq, 1000);
	assert_int_equal(spray_poll_cq(w->send_cq, 1, &wc), 0);
}

static void resize_cq__refused_changes_nothing(void **state)
{
	struct world *w = *state;
	unsigned int i;

	assert_int_equal(spray_resize_cq(w->send_cq, 0), EINVAL);
	for (i = 0; i < 5; i++)
		kernel_complete(w->send_cq, 1, i);
	assert_int_equal(spray_resize_cq(w->send_cq, 4), EINVAL);
	for (i = 0; i < 5; i++)
		expect_wc(w->send_cq, i);
}

static void resize_cq__no_mapping_is_an_error_for_ever(void **state)
{
	struct world *w = *state;
	struct ibv_wc wc;

	kernel_complete(w->send_cq, 1, 7);
	fail_map = true;
	assert_int_equal(spray_resize_cq(w->send_cq, 32), EINVAL);
	expect_wc(w->send_cq, 7);
	assert_int_equal(spray_poll_cq(w->send_cq, 1, &wc), -EOVERFLOW);
	fail_map = false;
	assert_int_equal(spray_resize_cq(w->send_cq, 32), EIO);
}

/* ---- extended forms ---- */

static struct ibv_qp *make_qp_ex(struct world *w, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = w->send_cq,
		.recv_cq = w->recv_cq,
		.qp_type = type,
		.cap = { .max_send_wr = SQ_ENTRIES, .max_recv_wr = 1, .max_send_sge = MAX_SGE,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &w->pd.ibpd,
		.send_ops_flags = ops,
	};

	return spray_create_qp_ex(&w->vctx.context, &attr);
}

static void wr_ops_by_type(void **state)
{
	struct world *w = *state;

	assert_null(make_qp_ex(w, IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(make_qp_ex(w, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* What the kernel's device has not is not there: nor is it posted by other ways. */
static void wr_ops_by_caps(void **state)
{
	static const struct {
		uint64_t caps, ops;
		bool have;
	} cases[] = {
#ifdef SPRAY_HAVE_wr_atomic_write
		{ 0, IBV_QP_EX_WITH_ATOMIC_WRITE, false },
		{ SPRAY_CAP_FLUSH_GLOBAL, IBV_QP_EX_WITH_ATOMIC_WRITE, false },
		{ SPRAY_CAP_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_SEND, true },
#endif
#ifdef SPRAY_HAVE_wr_flush
		{ 0, IBV_QP_EX_WITH_FLUSH, false },
		{ SPRAY_CAP_ATOMIC_WRITE, IBV_QP_EX_WITH_FLUSH, false },
		{ SPRAY_CAP_FLUSH_GLOBAL, IBV_QP_EX_WITH_FLUSH, true },
#endif
		{ ~0ULL, IBV_QP_EX_WITH_TSO, false },
	};
	struct world *w = *state;
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_qp *qp;

		w->ctx.caps = cases[i].caps;
		qp = make_qp_ex(w, IBV_QPT_RC, cases[i].ops);
		if (!qp)
			assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(qp != NULL, cases[i].have);
		if (qp)
			spray_destroy_qp(qp);
		w->ctx.caps = ~0ULL;
		assert_null(make_qp_ex(w, IBV_QPT_UD, cases[i].ops & ~(uint64_t)IBV_QP_EX_WITH_SEND));
	}
	to_rts(w->qp);
#ifdef SPRAY_HAVE_wr_atomic_write
	w->ctx.caps = SPRAY_CAP_FLUSH_GLOBAL;
	assert_int_equal(post_op(w->qp, IBV_WR_ATOMIC_WRITE, 0), EINVAL);
	w->ctx.caps = SPRAY_CAP_ATOMIC_WRITE;
	assert_int_equal(post_op(w->qp, IBV_WR_ATOMIC_WRITE, 0), 0);
	assert_int_equal(sqe_at(w->qp, 0)->op, SPRAY_OP_ATOMIC_WRITE);
	assert_int_equal(post_op(w->qp, IBV_WR_ATOMIC_WRITE, IBV_SEND_INLINE), 0);
#endif
	w->ctx.caps = ~0ULL;
	assert_int_equal(post_op(w->qp, 14, 0), EINVAL);	/* IBV_WR_FLUSH */
}

#ifdef SPRAY_HAVE_wr_flush
static void wr_flush_and_atomic_write(void **state)
{
	static const uint8_t bad[][2] = { { 0, 0 }, { 4, 0 }, { 0x11, 0 }, { 1, 2 }, { 1, 255 } };
	struct world *w = *state;
	const struct spray_sqe *sqe;
	struct ibv_qp_ex *qx;
	struct ibv_qp *qp;
	uint64_t word = 0x1122334455667788;
	unsigned int i;

	w->ctx.caps = ~0ULL;
	qp = make_qp_ex(w, IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE);
	qx = &to_spray_qp(qp)->vqp.qp_ex;
	to_rts(qp);
	qx->wr_start(qx);
	qx->wr_id = 5;
	qx->wr_flags = IBV_SEND_FENCE;
	qx->wr_flush(qx, 9, 0x3000, (size_t)1 << 40, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	qx->wr_flush(qx, 9, 0x3000, 7, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	qx->wr_atomic_write(qx, 10, 0x4000, &word);
	word = 0;				/* it was taken */
	assert_int_equal(qx->wr_complete(qx), 0);
	sqe = sqe_at(qp, 0);
	assert_int_equal(sqe->wr_id, 5);
	assert_int_equal(sqe->op, SPRAY_OP_FLUSH);
	assert_int_equal(sqe->flags, SPRAY_SQE_FENCE);
	assert_int_equal(sqe->num_sge, 0);
	assert_int_equal(sqe->raddr, 0x3000);
	assert_int_equal(sqe->rkey, 9);
	assert_int_equal(sqe->swap_add, (size_t)1 << 40);	/* for the kernel to refuse */
	assert_int_equal(sqe->compare, SPRAY_FLUSH_GLOBAL);
	assert_int_equal(sqe_at(qp, 1)->compare,
			 SPRAY_FLUSH_GLOBAL | SPRAY_FLUSH_PERSISTENT | SPRAY_FLUSH_MR);
	sqe = sqe_at(qp, 2);
	assert_int_equal(sqe->op, SPRAY_OP_ATOMIC_WRITE);
	assert_int_equal(sqe->flags, SPRAY_SQE_FENCE | SPRAY_SQE_INLINE);
	assert_int_equal(sqe->inline_len, 8);
	assert_int_equal(sqe->raddr, 0x4000);
	assert_int_equal(sqe->rkey, 10);
	assert_int_equal(*(const uint64_t *)(sqe + 1), 0x1122334455667788);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		qx->wr_start(qx);
		qx->wr_flush(qx, 9, 0x3000, 7, bad[i][0], bad[i][1]);
		assert_int_equal(qx->wr_complete(qx), EINVAL);
	}
	qx->wr_start(qx);
	qx->wr_flush(qx, 9, 0x3000, 7, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	qx->wr_set_inline_data(qx, &word, 8);
	assert_int_equal(qx->wr_complete(qx), EINVAL);
	assert_int_equal(to_spray_qp(qp)->ctl->sq_prod, 3);
	assert_int_equal(spray_destroy_qp(qp), 0);
}
#endif

static void wr_fills_in_place(void **state)
{
	struct world *w = *state;
	struct ibv_qp *qp = make_qp_ex(w, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND);
	struct ibv_sge list[2] = { { .addr = 10, .length = 20, .lkey = 30 }, { .length = 5 } };
	struct ibv_qp_ex *qx = &to_spray_qp(qp)->vqp.qp_ex;
	const struct spray_sqe *sqe;
	int rang;

	to_rts(qp);
	start_at(qp, w->send_cq, 0xfffffffe);
	rang = doorbells(w);
	qx->wr_start(qx);
	qx->wr_id = 1;
	qx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	qx->wr_rdma_write_imm(qx, 7, 0x1000, 0x12345678);
	qx->wr_set_sge_list(qx, 2, list);
	qx->wr_id = 2;
	qx->wr_flags = IBV_SEND_INLINE;		/* what says so is ibv_wr_set_inline_data() */
	qx->wr_send(qx);
	qx->wr_set_inline_data(qx, "abc", 3);
	qx->wr_atomic_cmp_swp(qx, 8, 0x2000, 3, 4);
	qx->wr_set_sge(qx, 1, 2, 8);
	assert_int_equal(to_spray_qp(qp)->ctl->sq_prod, 0xfffffffe);
	assert_int_equal(qx->wr_complete(qx), 0);
	assert_int_equal(doorbells(w), rang + 1);
	assert_int_equal(to_spray_qp(qp)->ctl->sq_prod, 1);
	sqe = sqe_at(qp, 0xfffffffe);
	assert_int_equal(sqe->wr_id, 1);
	assert_int_equal(sqe->op, SPRAY_OP_WRITE_IMM);
	assert_int_equal(sqe->flags, SPRAY_SQE_SIGNALED | SPRAY_SQE_FENCE);
	assert_int_equal(sqe->imm, 0x12345678);
	assert_int_equal(sqe->rkey, 7);
	assert_int_equal(sqe->raddr, 0x1000);
	assert_int_equal(sqe->num_sge, 2);
	assert_int_equal(((struct spray_sge *)(sqe + 1))[0].lkey, 30);
	assert_int_equal(((struct spray_sge *)(sqe + 1))[1].length, 5);
	sqe = sqe_at(qp, 0xffffffff);
	assert_int_equal(sqe->op, SPRAY_OP_SEND);
	assert_int_equal(sqe->flags, SPRAY_SQE_INLINE);
	assert_int_equal(sqe->inline_len, 3);
	assert_memory_equal(sqe + 1, "abc", 3);
	sqe = sqe_at(qp, 0);
	assert_int_equal(sqe->op, SPRAY_OP_CAS);
	assert_int_equal(sqe->compare, 3);
	assert_int_equal(sqe->swap_add, 4);
	assert_int_equal(spray_destroy_qp(qp), 0);
}

/* All of a batch or none. */
static void wr_batch_fails_whole(void **state)
{
	struct world *w = *state;
	struct ibv_qp *qp = make_qp_ex(w, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_sge list[MAX_SGE + 1] = {};
	struct ibv_qp_ex *qx = &to_spray_qp(qp)->vqp.qp_ex;
	static char big[MAX_INLINE + 1];
	int rang = doorbells(w), i;

	qx->wr_start(qx);
	qx->wr_send(qx);
	assert_int_equal(qx->wr_complete(qx), EINVAL);	/* not RTS */
	to_rts(qp);
	qx->wr_start(qx);
	for (i = 0; i < SQ_ENTRIES + 1; i++) {
		qx->wr_send(qx);
		qx->wr_set_sge(qx, 1, 2, 3);
	}
	assert_int_equal(qx->wr_complete(qx), ENOMEM);
	qx->wr_start(qx);
	qx->wr_send(qx);
	qx->wr_set_sge_list(qx, MAX_SGE + 1, list);
	assert_int_equal(qx->wr_complete(qx), EINVAL);
	qx->wr_start(qx);
	qx->wr_send(qx);
	qx->wr_set_inline_data(qx, big, sizeof(big));
	qx->wr_send(qx);
	assert_int_equal(qx->wr_complete(qx), EINVAL);
	qx->wr_start(qx);
	qx->wr_rdma_read(qx, 1, 2);
	qx->wr_set_inline_data(qx, big, 1);
	assert_int_equal(qx->wr_complete(qx), EINVAL);
	qx->wr_start(qx);
	qx->wr_send(qx);
	qx->wr_abort(qx);
	qx->wr_start(qx);
	assert_int_equal(qx->wr_complete(qx), 0);	/* empty: nothing rings */
	assert_int_equal(to_spray_qp(qp)->ctl->sq_prod, 0);
	assert_int_equal(doorbells(w), rang);
	qx->wr_start(qx);
	for (i = 0; i < SQ_ENTRIES; i++)
		qx->wr_send(qx);
	assert_int_equal(qx->wr_complete(qx), 0);
	assert_int_equal(to_spray_qp(qp)->ctl->sq_prod, SQ_ENTRIES);
	assert_int_equal(spray_destroy_qp(qp), 0);
}

static void poll_in_place(void **state)
{
	struct world *w = *state;
	struct ibv_cq_init_attr_ex attr = { .cqe = CQ_ENTRIES, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *cx = spray_create_cq_ex(&w->vctx.context, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(cx);
	struct ibv_poll_cq_attr none = {};
	struct spray_cq *scq = to_spray_cq(cq);
	int i;

	assert_null(cx->read_completion_ts);		/* was not asked for */
	scq->ring.cons = scq->ring.ctl->cons = scq->ring.ctl->prod = 0xfffffffe;
	assert_int_equal(cx->start_poll(cx, &none), ENOENT);
	assert_int_equal(pthread_spin_trylock(&scq->lock.spin), 0);
	pthread_spin_unlock(&scq->lock.spin);
	for (i = 0; i < 4; i++)
		kernel_complete(cq, 50 + i, 10 + i);
	assert_int_equal(cx->start_poll(cx, &none), 0);
	assert_int_equal(cx->wr_id, 10);
	assert_int_equal(cx->next_poll(cx), 0);
	assert_int_equal(cx->wr_id, 11);
	assert_int_equal(cx->read_qp_num(cx), 51);
	assert_int_equal(spray_req_notify_cq(cq, 0), 0);	/* meanwhile */
	assert_int_equal(scq->ring.ctl->armed, SPRAY_ARM_ANY);
	assert_int_equal(scq->ring.ctl->cons, 0xfffffffe);	/* given back at the end */
	cx->end_poll(cx);
	assert_int_equal(scq->ring.ctl->cons, 0);
	assert_int_equal(cx->start_poll(cx, &none), 0);
	assert_int_equal(cx->wr_id, 12);
	assert_int_equal(cx->next_poll(cx), 0);
	assert_int_equal(cx->next_poll(cx), ENOENT);
	assert_int_equal(cx->wr_id, 13);
	cx->end_poll(cx);
	assert_int_equal(cx->start_poll(cx, &none), ENOENT);
	scq->ring.ctl->overflow = 1;
	assert_int_equal(cx->start_poll(cx, &none), EOVERFLOW);
	assert_int_equal(spray_destroy_cq(cq), 0);
	attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
	assert_null(spray_create_cq_ex(&w->vctx.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* One thread takes no lock: its QP may go while it looks at a completion of it. */
static void poll_in_place__a_qp_goes_meanwhile(void **state)
{
	struct world *w = *state;
	struct ibv_cq_init_attr_ex attr = { .cqe = CQ_ENTRIES, .wc_flags = IBV_WC_EX_WITH_QP_NUM,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cx = spray_create_cq_ex(&w->vctx.context, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(cx), *was = w->send_cq;
	struct ibv_poll_cq_attr none = {};
	struct ibv_qp *qp;
	int at, i;

	for (at = 0; at < 4; at++) {
		w->send_cq = cq;
		qp = make_qp(w, IBV_QPT_RC, false);
		w->send_cq = was;
		for (i = 0; i < 6; i++)		/* even: the QP's, odd: another's */
			kernel_complete(cq, i & 1 ? 5 : qp->qp_num, i);
		assert_int_equal(cx->start_poll(cx, &none), 0);
		for (i = 0; i < at; i++)
			assert_int_equal(cx->next_poll(cx), 0);
		assert_int_equal(cx->wr_id, at);
		assert_int_equal(spray_destroy_qp(qp), 0);
		assert_int_equal(cx->read_qp_num(cx) == 5, at & 1);	/* still the current one */
		for (i = at + 1; i < 6; i++)
			if (i & 1) {
				assert_int_equal(cx->next_poll(cx), 0);
				assert_int_equal(cx->wr_id, i);
			}
		assert_int_equal(cx->next_poll(cx), ENOENT);
		cx->end_poll(cx);
		assert_int_equal(cx->start_poll(cx, &none), ENOENT);
		assert_int_equal(to_spray_cq(cq)->ring.ctl->cons, to_spray_cq(cq)->ring.ctl->prod);
	}
	assert_int_equal(spray_destroy_cq(cq), 0);
}

/* A setter behind the queue's end writes somewhere, also if the queue has no slot. */
static void wr_without_a_send_queue(void **state)
{
	struct world *w = *state;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = w->send_cq,
		.recv_cq = w->recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_sge = MAX_SGE },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &w->pd.ibpd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = spray_create_qp_ex(&w->vctx.context, &attr);
	struct spray_qp *sqp = to_spray_qp(qp);

	assert_true(malloc_usable_size(sqp->wr_spare) >=
		    sizeof(struct spray_sqe) + MAX_SGE * sizeof(struct spray_sge));
	assert_true(malloc_usable_size(sqp->wr_spare) >= sizeof(struct spray_sqe) + MAX_INLINE);
	assert_int_equal(spray_destroy_qp(qp), 0);
}

static void doorbell__by_another_door_where_write_is_refused(void **state)
{
	struct world *w = *state;
	int rang;

	to_rts(w->qp);
	rang = doorbells(w);
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(doorbells(w), rang + 1);
	refuse_write = true;
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(ioctl_doorbells, 1);
	refuse_write = false;				/* not asked again */
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(ioctl_doorbells, 2);
	assert_int_equal(doorbells(w), rang + 1);
	ioctl_fails = EACCES;				/* the end of it */
	assert_int_equal(post_op(w->qp, IBV_WR_SEND, 0), EACCES);
}

/* ---- parent and thread domains ---- */

static struct {
	int allocs, frees;
	bool fail, pass;
	void *last;
} own;

static void *own_alloc(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type)
{
	assert_ptr_equal(pd_context, &own);
	assert_int_equal(pd->handle, 77);
	assert_int_equal(resource_type >> 32, SPRAY_DRIVER_ID);
	if (own.fail)
		return NULL;
	if (own.pass)
		return IBV_ALLOCATOR_USE_DEFAULT;
	own.allocs++;
	assert_int_equal(posix_memalign(&own.last, alignment, size), 0);
	memset(own.last, 0xee, size);
	return own.last;
}

static void own_free(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type)
{
	assert_ptr_equal(pd_context, &own);
	assert_non_null(pd);
	assert_int_equal(resource_type >> 32, SPRAY_DRIVER_ID);
	own.frees++;
	free(ptr);
}

/* A QP, an SRQ and a CQ of @domain, made and destroyed. Return: how many could be made. */
static int objects_of(struct world *w, struct ibv_pd *domain)
{
	struct ibv_qp_init_attr qa = { .send_cq = w->send_cq, .recv_cq = w->recv_cq,
				       .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex ca = { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					  .parent_domain = domain };
	struct ibv_qp *qp = spray_create_qp(domain, &qa);
	struct ibv_srq *srq = spray_create_srq(domain, &sa);
	struct ibv_cq_ex *cx = spray_create_cq_ex(&w->vctx.context, &ca);
	int n = !!qp + !!srq + !!cx;

	if (qp)
		assert_int_equal(spray_destroy_qp(qp), 0);
	if (srq)
		assert_int_equal(spray_destroy_srq(srq), 0);
	if (cx)
		assert_int_equal(spray_destroy_cq(ibv_cq_ex_to_cq(cx)), 0);
	return n;
}

static void parent_domain__brings_its_allocator(void **state)
{
	struct world *w = *state;
	struct ibv_pd *pd = spray_alloc_pd(&w->vctx.context), *parent;
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .alloc = own_alloc, .free = own_free,
						    .pd_context = &own };

	attr.comp_mask = 1 << 2;
	assert_null(spray_alloc_parent_domain(&w->vctx.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	parent = spray_alloc_parent_domain(&w->vctx.context, &attr);
	assert_non_null(parent);
	assert_int_equal(spray_dealloc_pd(pd), EBUSY);
	assert_int_equal(objects_of(w, parent), 3);
	assert_int_equal(own.allocs, 3);
	assert_int_equal(own.frees, 3);
	own.pass = true;
	assert_int_equal(objects_of(w, parent), 3);
	own.fail = true;
	assert_int_equal(objects_of(w, parent), 0);
	assert_int_equal(own.allocs, 3);
	assert_int_equal(own.frees, 3);
	attr.pd = parent;		/* no parent of parents */
	assert_null(spray_alloc_parent_domain(&w->vctx.context, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(spray_dealloc_pd(parent), 0);
	assert_int_equal(objects_of(w, pd), 2);		/* the CQ wants a parent domain */
	assert_int_equal(spray_dealloc_pd(pd), 0);
}

static void thread_domain__takes_no_lock(void **state)
{
	struct world *w = *state;
	struct ibv_td_init_attr none = {};
	struct ibv_td *td = spray_alloc_td(&w->vctx.context, &none);
	struct ibv_pd *pd = spray_alloc_pd(&w->vctx.context), *parent;
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
	struct ibv_qp_init_attr qa = {
		.send_cq = w->send_cq, .recv_cq = w->recv_cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = 1, .max_recv_sge = 1 },
	};
	struct spray_qp *qp;
	int posted;

	parent = spray_alloc_parent_domain(&w->vctx.context, &attr);
	assert_non_null(parent);
	assert_int_equal(spray_dealloc_td(td), EBUSY);
	qp = to_spray_qp(spray_create_qp(parent, &qa));
	assert_int_equal(modify(&qp->vqp.qp, IBV_QPS_INIT), 0);
	assert_int_equal(pthread_spin_trylock(&qp->rq.lock.spin), 0);	/* who took it would wait */
	assert_int_equal(post_n_recvs(&qp->vqp.qp, 1, &posted), 0);
	pthread_spin_unlock(&qp->rq.lock.spin);
	assert_int_equal(spray_destroy_qp(&qp->vqp.qp), 0);
	assert_int_equal(spray_dealloc_pd(parent), 0);
	assert_int_equal(spray_dealloc_td(td), 0);
	assert_int_equal(spray_dealloc_pd(pd), 0);
	none.comp_mask = 1;
	assert_null(spray_alloc_td(&w->vctx.context, &none));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wr_ops_by_type),
		TEST(wr_ops_by_caps),
#ifdef SPRAY_HAVE_wr_flush
		TEST(wr_flush_and_atomic_write),
#endif
		TEST(wr_fills_in_place),
		TEST(wr_batch_fails_whole),
		TEST(poll_in_place),
		TEST(poll_in_place__a_qp_goes_meanwhile),
		TEST(wr_without_a_send_queue),
		TEST(doorbell__by_another_door_where_write_is_refused),
		TEST(post_send__each_state),
		TEST(post_send__full_ring_names_first_refused),
		TEST(post_send__bad_request_keeps_the_good_before_it),
		TEST(post_send__which_operation_where),
		TEST(post_send__fields_rc),
		TEST(post_send__fields_ud),
		TEST(post_send__inline),
		TEST(post_send__too_many_sges),
		TEST(post_recv__depth_is_what_was_granted),
		TEST(post_recv__wakes_a_sleeping_receiver),
		TEST(post_recv__refused_on_an_srq),
		TEST(post_srq_recv__as_a_receive_queue_with_a_word_of_its_own),
		TEST(resize_srq__posting_goes_on_where_it_was),
		TEST(parent_domain__brings_its_allocator),
		TEST(thread_domain__takes_no_lock),
		TEST(resize_cq__keeps_what_waits_in_order),
		TEST(resize_cq__refused_changes_nothing),
		TEST(resize_cq__no_mapping_is_an_error_for_ever),
		TEST(poll_cq__translates_across_the_wrap),
		TEST(poll_cq__lost_entries_are_an_error_after_the_last),
		TEST(req_notify_cq__stronger_request_stays),
		TEST(remove_qp__random_against_a_list),
		TEST(modify_qp__reset_rewinds_and_removes),
		TEST(destroy_qp__removes),
		TEST(threads__posting_polling_and_removing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
