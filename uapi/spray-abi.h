/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel module and the rdma-core provider say to each other.
 *
 * A queue pair has two rings in one mapping, a shared receive queue and a
 * completion queue have one each. A ring is a message, not a state: the consumer copies an entry once, checks
 * the copy and never looks at the entry again. Nothing in a ring is a pointer and
 * nothing is transport state.
 *
 * Indices count entries since the queue was made (or, for a QP, since the last
 * RESET), run through all 32 bits and wrap; slot = index & (entries - 1).
 *
 *   ring  producer  written by    consumer  written by
 *   SQ    user      sq_prod       kernel    sq_cons (a slot is free once its work completed)
 *   RQ    user      rq_prod       kernel    rq_cons (a slot is free once its receive completed)
 *   SRQ   user      prod          kernel    cons (a slot is free once a QP has taken its entry)
 *   CQ    kernel    prod          user      cons
 *
 * Barrier pairs:
 *  - An index is published with a store-release after the entries below it are
 *    written, and read with a load-acquire before they are read. The release of
 *    the CQ's prod also covers every byte of user memory that the completion
 *    speaks of, and the sq_cons/rq_cons that it frees.
 *  - Sleeping receiver: the kernel stores RQ_NEED_DOORBELL, full barrier, loads
 *    rq_prod. The provider stores rq_prod, full barrier, loads the word, and
 *    rings the doorbell if it is set. One of the two sees the other. A shared
 *    receive queue does the same with its need_doorbell and prod.
 *  - Sleeping poller: the provider stores armed, full barrier; the caller then
 *    polls once more. The kernel stores prod, full barrier, exchanges armed
 *    with 0 and raises the event that it asked for.
 *
 * The doorbell is POST_SEND with no work requests (a write() on the uverbs
 * file): it makes the kernel look at both rings of the QP. That of a shared
 * receive queue is POST_SRQ_RECV with none.
 *
 * RESIZE_CQ answers with a second mapping, which the kernel uses from then on:
 * its control words go on where those of the first stopped. The first stays as it
 * was; what waits there, below its prod, the provider copies to the slots of the
 * same indices, which are kept free. It lets nobody poll or arm meanwhile.
 *
 * MODIFY_SRQ with a new size makes a second mapping, too, with what waits in it at
 * the same indices. Uverbs has no answer to that command: the request says where a
 * struct spray_resize_srq_resp is wanted. The provider lets nobody post meanwhile.
 */
#ifndef SPRAY_ABI_H
#define SPRAY_ABI_H

#include <linux/types.h>

/* Not one of enum rdma_driver_id: 'SPRY'. Only ever compared, never an index. */
#define SPRAY_DRIVER_ID		0x53505259
#define SPRAY_ABI_VERSION	1

/* Limits that both sides build on. */
enum {
	SPRAY_MAX_SGE		= 32,
	SPRAY_MAX_INLINE	= 512,		/* bytes */
	SPRAY_MIN_INLINE	= 8,		/* bytes that every SQ takes inline: an ATOMIC_WRITE's */
	SPRAY_MAX_QP_WR		= 16384,	/* entries of an SQ or RQ */
	SPRAY_MAX_SRQ_WR	= 16384,
	SPRAY_MAX_CQE		= 1 << 20,
	SPRAY_RING_ALIGN	= 64,		/* bytes, of slots and ring starts */
};

/* A scatter/gather element, in SQEs and RQEs. */
struct spray_sge {
	__aligned_u64 addr;	/* bytes, virtual */
	__u32 length;		/* bytes */
	__u32 lkey;
};

/* The work of an SQE: our own numbers, so that neither side depends on enums of the other. */
enum spray_op {
	SPRAY_OP_SEND		= 0,
	SPRAY_OP_SEND_IMM	= 1,
	SPRAY_OP_WRITE		= 2,
	SPRAY_OP_WRITE_IMM	= 3,
	SPRAY_OP_READ		= 4,
	SPRAY_OP_CAS		= 5,
	SPRAY_OP_FAA		= 6,
	SPRAY_OP_SEND_INV	= 7,		/* imm: the peer's key to invalidate */
	SPRAY_OP_LOCAL_INV	= 8,		/* rkey */
	SPRAY_OP_BIND_MW	= 9,		/* see struct spray_sqe */
	SPRAY_OP_REG_MR		= 10,		/* kernel consumers only */
	/* if the device has the capability: */
	SPRAY_OP_ATOMIC_WRITE	= 11,		/* 8 bytes */
	SPRAY_OP_FLUSH		= 12,		/* no data; see struct spray_sqe */
	SPRAY_OP_NUM
};

/* What a FLUSH is to do: type (at least one of two) and selectivity. */
enum spray_flush {
	SPRAY_FLUSH_GLOBAL	= 1 << 0,	/* visible to all that read the memory */
	SPRAY_FLUSH_PERSISTENT	= 1 << 1,
	SPRAY_FLUSH_MR		= 1 << 4,	/* all of the region, not the range */
};

enum spray_sqe_flags {
	SPRAY_SQE_SIGNALED	= 1 << 0,	/* make a completion on success */
	SPRAY_SQE_SOLICITED	= 1 << 1,
	SPRAY_SQE_FENCE		= 1 << 2,
	SPRAY_SQE_INLINE	= 1 << 3,	/* data instead of sge[] follow, inline_len bytes */
};

/*
 * One send work request. Slot size = sizeof(struct spray_sqe) + the larger of
 * max_sge * sizeof(struct spray_sge) and max_inline, rounded up to
 * SPRAY_RING_ALIGN (the kernel computes it and says it in the response).
 */
struct spray_sqe {
	__aligned_u64 wr_id;
	__u8 op;		/* enum spray_op */
	__u8 flags;		/* enum spray_sqe_flags */
	__u16 num_sge;
	__u32 inline_len;	/* bytes, with SPRAY_SQE_INLINE */
	__u32 imm;		/* as on the wire (big endian); SEND_INV: the key, a number */
	__u32 rkey;		/* RC: remote key. UD: Q_Key. BIND_MW, REG_MR: key from now on */
	__aligned_u64 raddr;	/* RC: remote address, bytes. UD: address handle number in the low 32 bits */
	__aligned_u64 swap_add;	/* CAS: value to swap in, FAA: value to add. BIND_MW, REG_MR, FLUSH: bytes */
	__aligned_u64 compare;	/* CAS. BIND_MW, REG_MR: access flags of the verbs. FLUSH: enum spray_flush */
	__u32 remote_qpn;	/* UD. BIND_MW: lkey of the region */
	__u32 reserved;
	/* struct spray_sge sge[] or inline bytes follow */
};

/* One receive work request, sge[] follows; slot size as above without inline. */
struct spray_rqe {
	__aligned_u64 wr_id;
	__u16 num_sge;
	__u16 reserved0;
	__u32 reserved1;
};

/* Completion opcodes: the values of enum ibv_wc_opcode / enum ib_wc_opcode that both share. */
enum spray_wc_opcode {
	SPRAY_WC_SEND		= 0,
	SPRAY_WC_WRITE		= 1,
	SPRAY_WC_READ		= 2,
	SPRAY_WC_CAS		= 3,
	SPRAY_WC_FAA		= 4,
	SPRAY_WC_BIND_MW	= 5,
	SPRAY_WC_LOCAL_INV	= 6,
	SPRAY_WC_FLUSH		= 8,
	SPRAY_WC_ATOMIC_WRITE	= 9,
	SPRAY_WC_REG_MR		= 64,		/* kernel consumers only */
	SPRAY_WC_RECV		= 128,
	SPRAY_WC_RECV_IMM	= 129,
};

/* enum ibv_wc_flags and ib_wc_flags agree on GRH and WITH_IMM; ours are translated. */
enum spray_wc_flags {
	SPRAY_WC_GRH		= 1 << 0,
	SPRAY_WC_WITH_IMM	= 1 << 1,
	SPRAY_WC_WITH_INV	= 1 << 2,
	SPRAY_WC_SOLICITED	= 1 << 3,
	SPRAY_WC_IPV6		= 1 << 4,	/* network header of a UD packet */
	SPRAY_WC_VLAN		= 1 << 5,	/* for the kernel's CM */
};

/* One completion. status is the number of enum ib_wc_status (same as ibv_wc_status). */
struct spray_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 timestamp;	/* ns, CLOCK_MONOTONIC */
	__u32 qpn;
	__u32 src_qpn;			/* UD */
	__u32 byte_len;			/* bytes */
	__u32 ex;			/* immediate as on the wire, or invalidated key */
	__u32 vendor_err;
	__u16 pkey_index;
	__u8 status;
	__u8 opcode;			/* enum spray_wc_opcode */
	__u8 flags;			/* enum spray_wc_flags */
	__u8 sl;
	__u16 vlan_id;			/* UD, with SPRAY_WC_VLAN */
	__u32 reserved1[5];		/* 64 bytes in all */
};

/* First page of a CQ mapping; entries start at SPRAY_CQ_ENTRIES_OFFSET. */
struct spray_cq_ctl {
	__u32 prod;		/* kernel */
	__u32 overflow;		/* kernel: nonzero once an entry had to be dropped */
	__u32 pad0[14];
	__u32 cons;		/* user */
	__u32 armed;		/* user sets, kernel clears: enum spray_arm */
	__u32 pad1[14];
};

enum spray_arm {
	SPRAY_ARM_NONE		= 0,
	SPRAY_ARM_SOLICITED	= 1,
	SPRAY_ARM_ANY		= 2,
};

#define SPRAY_CQ_ENTRIES_OFFSET	128

/* Start of a QP mapping; the SQ is at sq_offset, the RQ at rq_offset of the response. */
struct spray_qp_ctl {
	__u32 sq_prod;		/* user */
	__u32 rq_prod;		/* user */
	__u32 pad0[14];
	__u32 sq_cons;		/* kernel */
	__u32 rq_cons;		/* kernel */
	__u32 rq_need_doorbell;	/* kernel: ring after posting receives */
	__u32 sq_need_doorbell;	/* kernel: reserved, always 1 today */
	__u32 pad1[12];
};

#define SPRAY_QP_RINGS_OFFSET	128

/* Start of the mapping of a shared receive queue; struct spray_rqe slots start at SPRAY_SRQ_RING_OFFSET. */
struct spray_srq_ctl {
	__u32 prod;		/* user */
	__u32 pad0[15];
	__u32 cons;		/* kernel */
	__u32 need_doorbell;	/* kernel: a QP waits for a receive */
	__u32 pad1[14];
};

#define SPRAY_SRQ_RING_OFFSET	128

struct spray_alloc_ucontext_resp {
	__u32 abi_version;
	__u32 reserved;
};

struct spray_alloc_pd_resp {
	__u32 pdn;
	__u32 reserved;
};

struct spray_create_ah_resp {
	__u32 ah_num;		/* what SQEs of UD QPs name */
	__u32 reserved;
};

struct spray_create_cq_resp {
	__aligned_u64 mmap_offset;
	__u32 mmap_size;	/* bytes */
	__u32 entries;		/* power of two */
};

struct spray_resize_cq_resp {
	__aligned_u64 mmap_offset;
	__u32 mmap_size;	/* bytes */
	__u32 entries;		/* power of two */
};

struct spray_create_srq_resp {
	__aligned_u64 mmap_offset;
	__u32 mmap_size;	/* bytes */
	__u32 entries;		/* power of two */
	__u32 slot;		/* bytes */
	__u32 reserved;
};

struct spray_modify_srq_req {
	__aligned_u64 resp_addr;	/* of a struct spray_resize_srq_resp; used for a new size only */
};

struct spray_resize_srq_resp {
	__aligned_u64 mmap_offset;
	__u32 mmap_size;	/* bytes */
	__u32 entries;		/* power of two */
};

struct spray_create_qp_resp {
	__aligned_u64 mmap_offset;
	__u32 mmap_size;	/* bytes */
	__u32 sq_offset;	/* bytes, from the mapping's start */
	__u32 sq_entries;	/* power of two, 0 if none */
	__u32 sq_slot;		/* bytes */
	__u32 rq_offset;
	__u32 rq_entries;
	__u32 rq_slot;
	__u32 max_inline;	/* bytes */
};

#endif
