// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions: a table of kernel addresses, one per page, and a key.
 *
 * Life of a key: reserved in the table, the region filled in, then published
 * (xa_store, a release); looked up under RCU with a reference taken only from
 * non-zero; erased by deregistration, which then waits for the references.
 * Indices go round before one is used again, and eight random bits lie below,
 * so that a key of a region that is gone meets no new one.
 */
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "mr.h"

enum {
	SPRAY_KEY_VARIANT_BITS	= 8,
	SPRAY_KEY_INDEX_MAX	= (1 << 24) - 1,
};

static struct spray_mr *spray_mr_alloc(struct ib_pd *pd, int access)
{
	struct spray_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);

	if (!mr)
		return NULL;
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->access = access;
	refcount_set(&mr->ref, 1);
	init_completion(&mr->gone);
	return mr;
}

/* Give @mr, complete otherwise, its keys and make it known. */
static int spray_mr_publish(struct spray_dev *dev, struct spray_mr *mr)
{
	u32 index;
	int err;

	err = xa_alloc_cyclic(&dev->mrs, &index, NULL, XA_LIMIT(1, SPRAY_KEY_INDEX_MAX),
			      &dev->mr_next, GFP_KERNEL);
	if (err < 0)
		return err;
	mr->key = index << SPRAY_KEY_VARIANT_BITS | get_random_u8();
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	/* The slot is reserved: no memory is needed, nothing can fail. */
	xa_store(&dev->mrs, index, mr, GFP_KERNEL);
	return 0;
}

/* Registered pages in order; for_each_sgtable_page undoes the merging of neighbours. */
static int spray_mr_map(struct spray_mr *mr)
{
	struct sg_page_iter it;
	size_t n = 0;

	mr->pages = kvcalloc(ib_umem_num_pages(mr->umem), sizeof(*mr->pages),
			     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mr->pages)
		return -ENOMEM;
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &it, 0)
		mr->pages[n++] = page_address(sg_page_iter_page(&it));
	mr->offset = ib_umem_offset(mr->umem);
	return 0;
}

struct ib_mr *spray_reg_user_mr_any(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				    struct ib_udata *udata)
{
	struct spray_mr *mr;
	int err;

	if (access & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EOPNOTSUPP);
	/* The last byte's address must be one. (ib_umem looks after start.) */
	if (!length || iova + (length - 1) < iova)
		return ERR_PTR(-EINVAL);
	mr = spray_mr_alloc(pd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	mr->umem = ib_umem_get_va(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto fail_free;
	}
	err = spray_mr_map(mr);
	if (err)
		goto fail_umem;
	mr->ib.iova = iova;
	mr->ib.length = length;
	err = spray_mr_publish(to_sdev(pd->device), mr);
	if (err)
		goto fail_pages;
	return &mr->ib;

fail_pages:
	kvfree(mr->pages);
fail_umem:
	ib_umem_release(mr->umem);
fail_free:
	kfree(mr);
	return ERR_PTR(err);
}

/* All of memory: kernel consumers get kernel addresses as DMA addresses (virtual DMA device). */
struct ib_mr *spray_get_dma_mr(struct ib_pd *pd, int access)
{
	struct spray_mr *mr = spray_mr_alloc(pd, access);
	int err;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->dma = true;
	mr->length = U64_MAX;
	err = spray_mr_publish(to_sdev(pd->device), mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	return &mr->ib;
}

int spray_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib);

	xa_erase(&to_sdev(ib->device)->mrs, mr->key >> SPRAY_KEY_VARIANT_BITS);
	spray_mr_put(mr);
	wait_for_completion(&mr->gone);
	ib_umem_release(mr->umem);
	kvfree(mr->pages);
	kfree_rcu(mr, rcu);
	return 0;
}

static bool spray_mr_permits(const struct spray_mr *mr, const struct ib_pd *pd, u32 key,
			     int access, u64 va, u32 len)
{
	u64 off = va - mr->iova;

	return mr->key == key && mr->ib.pd == pd && (mr->access & access) == access &&
	       off <= mr->length && len <= mr->length - off;
}

struct spray_mr *spray_mr_get(struct spray_dev *dev, struct ib_pd *pd, u32 key, int access,
			      u64 va, u32 len)
{
	struct spray_mr *mr;

	rcu_read_lock();
	mr = xa_load(&dev->mrs, key >> SPRAY_KEY_VARIANT_BITS);
	if (mr && (!spray_mr_permits(mr, pd, key, access, va, len) ||
		   !refcount_inc_not_zero(&mr->ref)))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

void spray_mr_put(struct spray_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->gone);
}

void *spray_mr_ptr(const struct spray_mr *mr, u64 va, u32 *len)
{
	void **page;
	u32 in_page, run;
	void *p;
	u64 off;

	if (mr->dma)
		return (void *)(uintptr_t)va;
	off = mr->offset + (va - mr->iova);
	page = mr->pages + (off >> PAGE_SHIFT);
	in_page = offset_in_page(off);
	p = *page + in_page;
	/* Neighbours in memory are one run; a range that goes on has a next page. */
	for (run = PAGE_SIZE - in_page; run < *len && page[1] == page[0] + PAGE_SIZE; page++)
		run += PAGE_SIZE;
	*len = min(*len, run);
	return p;
}
