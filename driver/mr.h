/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions. A datapath user looks a key up, checks it and holds a
 * reference only while it copies, under a QP lock; deregistration takes the
 * region out of the table, drops its own reference and sleeps until the last
 * copier is gone. So not a byte is written once dereg_mr has returned (C7).
 */
#ifndef SPRAY_MR_H
#define SPRAY_MR_H

#include "dev.h"

/**
 * struct spray_mr - a region
 * @key: lkey and rkey: index << 8 | 8 bits that change with every registration
 * @iova: first address as seen by work requests
 * @length: bytes
 * @access: IB_ACCESS_*
 * @dma: covers all of kernel memory: addresses are kernel virtual addresses
 * @pages: kernel address of each PAGE_SIZE page, from the page that holds @iova
 * @offset: of @iova in the first page
 */
struct spray_mr {
	struct ib_mr ib;
	u32 key;
	u64 iova;
	u64 length;
	int access;
	bool dma;
	u32 offset;
	void **pages;
	struct ib_umem *umem;
	refcount_t ref;
	struct completion gone;
	struct rcu_head rcu;
};

/**
 * spray_mr_get() - look up a key and check what is asked of it
 * @pd: protection domain of the QP
 * @access: IB_ACCESS_* bits that must all be granted (0 for local read)
 * @va, @len: range, bytes; must lie inside the region (len 0 is never asked)
 * Any context. Return: the region, referenced, or NULL.
 */
struct spray_mr *spray_mr_get(struct spray_dev *dev, struct ib_pd *pd, u32 key, int access,
			      u64 va, u32 len);
void spray_mr_put(struct spray_mr *mr);

/**
 * spray_mr_ptr() - kernel address of @va
 * @len: in: bytes wanted; out: bytes that are contiguous there (>= 1)
 * The range must have been checked by spray_mr_get().
 */
void *spray_mr_ptr(const struct spray_mr *mr, u64 va, u32 *len);

struct ib_mr *spray_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *spray_reg_user_mr_any(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				    struct ib_udata *udata);
int spray_dereg_mr(struct ib_mr *ib, struct ib_udata *udata);

#endif
