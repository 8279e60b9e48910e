/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions and windows on them, one table of keys. A datapath user looks
 * a key up, checks it and holds a reference only while it copies, under a QP
 * lock; deregistration takes the region out of the table, drops its own
 * reference and sleeps until the last copier is gone. So not a byte is written
 * once dereg_mr has returned (C7).
 *
 * FAST REGISTRATION, WINDOWS. A key can be made invalid and valid again by work
 * requests, i.e. under a QP lock, where nobody sleeps: what changes a region does
 * so under dev->mr_lock, clears @live and then spins until all references
 * but two are gone (the table's and its own). Copiers have BH off, hold no lock
 * that we take here and wait for nothing, so that takes one copy at most. A
 * copier counts itself, full barrier, looks at @live; we clear @live, full
 * barrier, look at the count: one of the two sees the other.
 */
#ifndef SPRAY_MR_H
#define SPRAY_MR_H

#include <linux/iosys-map.h>

#include "dev.h"

/**
 * struct spray_mr - a region
 * @pd: that it belongs to
 * @key: lkey and rkey: index << 8 | 8 bits that change with every registration
 * @live: the key holds, and all below is as it says; REG_MR changes it while it does not
 * @iova: first address as seen by work requests
 * @length: bytes
 * @access: IB_ACCESS_*
 * @dma: covers all of kernel memory: addresses are kernel virtual addresses
 * @fast: made valid by REG_MR, invalid by LOCAL_INV or the peer
 * @window: type of a memory window (1, 2), 0 for a region
 * @shift: log2 of the page size in @pages
 * @offset: of @iova in the first page, bytes
 * @umem: pinned memory of a process, NULL for other kinds
 * @attach, @map: memory of a dma-buf: the attachment that pins it, and where it is mapped
 * @npages, @max_pages: fast: pages mapped, and room for them
 * @pages: kernel address of each page, from the page that holds @iova
 * @next: fast: pages mapped since, which the next REG_MR puts in force; consumers map while the old key
 *	still holds, its LOCAL_INV posted but not done
 * @base: bound window: the region it opens, whose @windows it counts in
 * @qpn: window of type 2: the QP it is for
 * @windows: bound to this region; negative once it is being deregistered
 */
struct spray_mr {
	struct ib_mr ib;
	struct ib_pd *pd;
	u32 key;
	bool live;
	bool dma;
	bool fast;
	u8 window;
	u8 shift;
	int access;
	u64 iova;
	u64 length;
	u32 offset;
	u32 npages, max_pages;
	void **pages;
	struct spray_mapped {
		void **pages;
		u32 npages;
		u32 offset;
		u8 shift;
		bool fresh;
	} next;
	struct ib_umem *umem;
	struct dma_buf_attachment *attach;
	struct iosys_map map;
	struct spray_mr *base;
	u32 qpn;
	atomic_t windows;
	refcount_t ref;
	struct completion gone;
	struct rcu_head rcu;
};

enum { SPRAY_MAX_FAST_PAGES = 1024 };	/* of a fast registered region */

struct spray_mw {
	struct ib_mw ib;
	struct spray_mr *mr;
};

/* What a window is bound to. */
struct spray_bind {
	u32 key;	/* of the window from now on: its old one with other low 8 bits */
	u32 lkey;	/* of the region */
	int access;	/* IB_ACCESS_* */
	u32 qpn;	/* that asks */
	u64 addr;
	u64 length;	/* bytes; 0 unbinds a window of type 1 */
};

/**
 * spray_mr_get() - look up a key and check what is asked of it
 * @pd: protection domain of the QP
 * @qpn: remote access: number of the QP that the peer talks to. 0: the key is an lkey
 * @access: IB_ACCESS_* bits that must all be granted (0 for local read)
 * @va, @len: range, bytes; must lie inside the region. @len 0: whatever range
 * Any context. Return: the region, referenced, or NULL.
 */
struct spray_mr *spray_mr_get(struct spray_dev *dev, struct ib_pd *pd, u32 qpn, u32 key,
			      int access, u64 va, u32 len);
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
struct ib_mr *spray_reg_dmabuf_any(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				   int access);
struct ib_mr *spray_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 iova,
				  int access, struct ib_pd *pd, struct ib_udata *udata);
int spray_dereg_mr(struct ib_mr *ib, struct ib_udata *udata);
struct ib_mr *spray_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_pages);
int spray_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int n, unsigned int *offset);
int spray_alloc_mw(struct ib_mw *ib, struct ib_udata *udata);
int spray_dealloc_mw(struct ib_mw *ib);

/*
 * Work requests on keys; any context with BH off. A key that does not exist, is of another
 * PD or kind, or is in the wrong state gives -EINVAL, access that may not be -EACCES.
 */
int spray_mr_register(struct spray_dev *dev, struct ib_pd *pd, u32 key, int access, u64 iova,
		      u64 length);
int spray_mr_bind(struct spray_dev *dev, struct ib_pd *pd, const struct spray_bind *b);
/* @qpn: whose peer asks for it, then regions without remote access are refused; 0 for LOCAL_INV */
int spray_mr_invalidate(struct spray_dev *dev, struct ib_pd *pd, u32 qpn, u32 key);

#endif
