// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The layout of spray-abi.h, written down a second time. Compiling this file is
 * the test, with the kernel's flags and with a process's: both must agree to
 * these numbers, and a number changes only together with SPRAY_ABI_VERSION.
 */
#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#else
#include <assert.h>
#include <stddef.h>
#endif

#include "spray-abi.h"

#define SIZE(type, bytes) \
	static_assert(sizeof(struct type) == (bytes), "size of " #type)
#define AT(type, member, bytes) \
	static_assert(offsetof(struct type, member) == (bytes), #type "." #member)

static_assert(SPRAY_ABI_VERSION == 1, "version");
static_assert(SPRAY_DRIVER_ID == 0x53505259, "driver id");

SIZE(spray_sge, 16);
AT(spray_sge, addr, 0);
AT(spray_sge, length, 8);
AT(spray_sge, lkey, 12);

SIZE(spray_sqe, 56);
AT(spray_sqe, wr_id, 0);
AT(spray_sqe, op, 8);
AT(spray_sqe, flags, 9);
AT(spray_sqe, num_sge, 10);
AT(spray_sqe, inline_len, 12);
AT(spray_sqe, imm, 16);
AT(spray_sqe, rkey, 20);
AT(spray_sqe, raddr, 24);
AT(spray_sqe, swap_add, 32);
AT(spray_sqe, compare, 40);
AT(spray_sqe, remote_qpn, 48);

SIZE(spray_rqe, 16);
AT(spray_rqe, wr_id, 0);
AT(spray_rqe, num_sge, 8);

SIZE(spray_cqe, 64);
AT(spray_cqe, wr_id, 0);
AT(spray_cqe, timestamp, 8);
AT(spray_cqe, qpn, 16);
AT(spray_cqe, src_qpn, 20);
AT(spray_cqe, byte_len, 24);
AT(spray_cqe, ex, 28);
AT(spray_cqe, vendor_err, 32);
AT(spray_cqe, pkey_index, 36);
AT(spray_cqe, status, 38);
AT(spray_cqe, opcode, 39);
AT(spray_cqe, flags, 40);
AT(spray_cqe, sl, 41);

SIZE(spray_cq_ctl, SPRAY_CQ_ENTRIES_OFFSET);
AT(spray_cq_ctl, prod, 0);
AT(spray_cq_ctl, overflow, 4);
AT(spray_cq_ctl, cons, 64);
AT(spray_cq_ctl, armed, 68);

SIZE(spray_qp_ctl, SPRAY_QP_RINGS_OFFSET);
AT(spray_qp_ctl, sq_prod, 0);
AT(spray_qp_ctl, rq_prod, 4);
AT(spray_qp_ctl, sq_cons, 64);
AT(spray_qp_ctl, rq_cons, 68);
AT(spray_qp_ctl, rq_need_doorbell, 72);
AT(spray_qp_ctl, sq_need_doorbell, 76);

SIZE(spray_srq_ctl, SPRAY_SRQ_RING_OFFSET);
AT(spray_srq_ctl, prod, 0);
AT(spray_srq_ctl, cons, 64);
AT(spray_srq_ctl, need_doorbell, 68);

SIZE(spray_alloc_ucontext_resp, 8);
SIZE(spray_alloc_pd_resp, 8);
SIZE(spray_create_ah_resp, 8);
SIZE(spray_create_cq_resp, 16);
AT(spray_create_cq_resp, mmap_size, 8);
AT(spray_create_cq_resp, entries, 12);

SIZE(spray_resize_cq_resp, 16);
AT(spray_resize_cq_resp, mmap_size, 8);
AT(spray_resize_cq_resp, entries, 12);

SIZE(spray_create_srq_resp, 24);
AT(spray_create_srq_resp, mmap_size, 8);
AT(spray_create_srq_resp, entries, 12);
AT(spray_create_srq_resp, slot, 16);

SIZE(spray_modify_srq_req, 8);
SIZE(spray_resize_srq_resp, 16);
AT(spray_resize_srq_resp, mmap_size, 8);
AT(spray_resize_srq_resp, entries, 12);

SIZE(spray_create_qp_resp, 40);
AT(spray_create_qp_resp, mmap_size, 8);
AT(spray_create_qp_resp, sq_offset, 12);
AT(spray_create_qp_resp, sq_entries, 16);
AT(spray_create_qp_resp, sq_slot, 20);
AT(spray_create_qp_resp, rq_offset, 24);
AT(spray_create_qp_resp, rq_entries, 28);
AT(spray_create_qp_resp, rq_slot, 32);
AT(spray_create_qp_resp, max_inline, 36);

/* The largest slots that the limits allow are addressable and fit a mapping. */
static_assert(sizeof(struct spray_sqe) + SPRAY_MAX_SGE * sizeof(struct spray_sge) <= 1024, "send slot");
