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
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "mr.h"

enum {
	SPRAY_KEY_VARIANT_BITS	= 8,
	SPRAY_ACCESS_REMOTE	= IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE |
				  IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_FLUSH_GLOBAL,
};

/* @window: type of a window, 0 for a region. Return: NULL without memory, or if there are too many. */
static struct spray_mr *spray_mr_new(struct ib_pd *pd, int access, u8 window)
{
	enum spray_object what = window ? SPRAY_OBJ_MW : SPRAY_OBJ_MR;
	struct spray_mr *mr;

	if (spray_take(to_sdev(pd->device), what))
		return NULL;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		spray_give(to_sdev(pd->device), what);
		return NULL;
	}
	mr->window = window;
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->pd = pd;
	mr->access = access;
	mr->shift = PAGE_SHIFT;
	refcount_set(&mr->ref, 1);
	init_completion(&mr->gone);
	return mr;
}

static void spray_dmabuf_detach(struct dma_buf_attachment *attach)
{
	struct dma_buf *buf = attach->dmabuf;

	if (buf->ops->pin) {
		dma_resv_lock(buf->resv, NULL);
		dma_buf_unpin(attach);
		dma_resv_unlock(buf->resv);
	}
	dma_buf_detach(buf, attach);
	dma_buf_put(buf);
}

static void spray_dmabuf_unmap(struct dma_buf_attachment *attach, struct iosys_map *map)
{
	dma_buf_vunmap_unlocked(attach->dmabuf, map);
	dma_buf_end_cpu_access(attach->dmabuf, DMA_BIDIRECTIONAL);
	spray_dmabuf_detach(attach);
}

/* The memory of a region goes, whatever kind it is. */
static void spray_mr_unpin(struct spray_mr *mr)
{
	if (mr->attach)
		spray_dmabuf_unmap(mr->attach, &mr->map);
	ib_umem_release(mr->umem);
	kvfree(mr->pages);
	kvfree(mr->next.pages);
}

/* Not in the table, or no more. Who looks keys up may still read it. */
static void spray_mr_free(struct spray_mr *mr)
{
	spray_mr_unpin(mr);
	spray_give(to_sdev(mr->ib.device), mr->window ? SPRAY_OBJ_MW : SPRAY_OBJ_MR);
	kfree_rcu(mr, rcu);
}

/* Give @mr, complete otherwise, its keys and make it known; if that can't be, it is freed. */
static struct ib_mr *spray_mr_publish(struct spray_mr *mr)
{
	struct spray_dev *dev = to_sdev(mr->ib.device);
	u32 index;
	int err;

	err = xa_alloc_cyclic(&dev->mrs, &index, NULL, XA_LIMIT(1, SPRAY_MAX_KEYS),
			      &dev->mr_next, GFP_KERNEL);
	if (err < 0) {
		spray_mr_free(mr);
		return ERR_PTR(err);
	}
	mr->key = index << SPRAY_KEY_VARIANT_BITS | get_random_u8();
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	/* The slot is reserved: no memory is needed, nothing can fail. */
	xa_store(&dev->mrs, index, mr, GFP_KERNEL);
	return &mr->ib;
}

/* The opposite: no new user, then no user. */
static void spray_mr_unpublish(struct spray_dev *dev, struct spray_mr *mr)
{
	xa_erase(&dev->mrs, mr->key >> SPRAY_KEY_VARIANT_BITS);
	spray_jitter();
	/* A work request that changes this very region is over when we have had the lock. */
	spin_lock_bh(&dev->mr_lock);
	mr->live = false;
	spin_unlock_bh(&dev->mr_lock);
	spray_mr_put(mr);
	wait_for_completion(&mr->gone);
}

/* Registered pages in order; for_each_sgtable_page undoes the merging of neighbours. */
static void **spray_umem_pages(struct ib_umem *umem)
{
	struct sg_page_iter it;
	void **pages;
	size_t n = 0;

	pages = kvcalloc(ib_umem_num_pages(umem), sizeof(*pages),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return NULL;
	for_each_sgtable_page(&umem->sgt_append.sgt, &it, 0)
		pages[n++] = page_address(sg_page_iter_page(&it));
	return pages;
}

/* The last byte's address must be one. */
static bool spray_range_exists(u64 iova, u64 length)
{
	return length && iova + (length - 1) >= iova;
}

/* The memory of a region: pinned, and its pages' addresses. */
static int spray_mr_pin(struct spray_mr *mr, u64 start, u64 length, u64 iova, int access)
{
	struct ib_umem *umem;

	if (access & IB_ACCESS_ON_DEMAND)
		return -EOPNOTSUPP;
	if (!spray_range_exists(iova, length))	/* ib_umem looks after @start */
		return -EINVAL;
	umem = ib_umem_get_va(mr->pd->device, start, length, access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	mr->pages = spray_umem_pages(umem);
	if (!mr->pages) {
		ib_umem_release(umem);
		return -ENOMEM;
	}
	mr->umem = umem;
	mr->offset = ib_umem_offset(umem);
	mr->iova = iova;
	mr->length = length;
	return 0;
}

/* A region of a user's whose memory is there. */
static struct ib_mr *spray_mr_ready(struct spray_mr *mr)
{
	mr->ib.iova = mr->iova;
	mr->ib.length = mr->length;
	mr->live = true;
	return spray_mr_publish(mr);
}

struct ib_mr *spray_reg_user_mr_any(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				    struct ib_udata *udata)
{
	struct spray_mr *mr = spray_mr_new(pd, access, 0);
	int err;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = spray_mr_pin(mr, start, length, iova, access);
	if (!err)
		return spray_mr_ready(mr);
	spray_mr_free(mr);
	return ERR_PTR(err);
}

/* --- dma-bufs: what their exporter can map for the CPU --- */

/* Pinned memory does not move. Older kernels insist on somebody to tell. */
static void __maybe_unused spray_dmabuf_moved(struct dma_buf_attachment *attach)
{
}

static const struct dma_buf_attach_ops spray_dmabuf_ops = SPRAY_DMABUF_OPS;

/*
 * A mapping alone does not keep the memory where it is. Exporters that never move it have no pin(), and older
 * kernels map it for an importer that could follow, which a device without DMA is not: attach as one that can't.
 * Takes over the reference to @buf, also if it fails.
 */
static struct dma_buf_attachment *spray_dmabuf_attach(struct ib_device *ib, struct dma_buf *buf)
{
	struct dma_buf_attachment *attach;
	int err;

	attach = buf->ops->pin ? dma_buf_dynamic_attach(buf, &ib->dev, &spray_dmabuf_ops, NULL) :
				 dma_buf_attach(buf, &ib->dev);
	if (IS_ERR(attach))
		goto put;
	if (!buf->ops->pin)
		return attach;
	dma_resv_lock(buf->resv, NULL);
	err = dma_buf_pin(attach);
	dma_resv_unlock(buf->resv);
	if (!err)
		return attach;
	dma_buf_detach(buf, attach);
	attach = ERR_PTR(err);
put:
	dma_buf_put(buf);
	return attach;
}

static int spray_dmabuf_map(struct dma_buf *buf, struct iosys_map *map)
{
	int err;

	if (!buf->ops->vmap)
		return -EOPNOTSUPP;
	err = dma_buf_begin_cpu_access(buf, DMA_BIDIRECTIONAL);
	if (err)
		return err;
	err = dma_buf_vmap_unlocked(buf, map);
	if (!err && map->is_iomem) {		/* no memory to the CPU: memcpy() may not touch it */
		dma_buf_vunmap_unlocked(buf, map);
		err = -EOPNOTSUPP;
	}
	if (err)
		dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
	return err;
}

/* The mapping stays for as long as the region, and is one run of addresses; @offset: of the region in it. */
static int spray_dmabuf_pages(struct spray_mr *mr, u64 offset)
{
	u64 n = PFN_UP(offset_in_page(offset) + mr->length), i;

	mr->pages = kvcalloc(n, sizeof(*mr->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mr->pages)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		mr->pages[i] = mr->map.vaddr + (offset & PAGE_MASK) + i * PAGE_SIZE;
	mr->offset = offset_in_page(offset);
	return 0;
}

static bool spray_dmabuf_has(const struct dma_buf *buf, u64 offset, u64 length)
{
	return offset <= buf->size && length <= buf->size - offset;
}

/* The dma-buf @fd becomes the memory of @mr, whose range is set. */
static int spray_mr_map(struct spray_mr *mr, int fd, u64 offset)
{
	struct dma_buf *buf = dma_buf_get(fd);
	struct dma_buf_attachment *attach;
	int err;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (!spray_range_exists(mr->iova, mr->length) || !spray_dmabuf_has(buf, offset, mr->length)) {
		dma_buf_put(buf);
		return -EINVAL;
	}
	attach = spray_dmabuf_attach(mr->ib.device, buf);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	err = spray_dmabuf_map(buf, &mr->map);
	if (err) {
		spray_dmabuf_detach(attach);
		return err;
	}
	mr->attach = attach;
	return spray_dmabuf_pages(mr, offset);
}

struct ib_mr *spray_reg_dmabuf_any(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				   int access)
{
	struct spray_mr *mr = spray_mr_new(pd, access, 0);
	int err;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	err = spray_mr_map(mr, fd, offset);
	if (!err)
		return spray_mr_ready(mr);
	spray_mr_free(mr);
	return ERR_PTR(err);
}

/* All of memory: kernel consumers get kernel addresses as DMA addresses (virtual DMA device). */
struct ib_mr *spray_get_dma_mr(struct ib_pd *pd, int access)
{
	struct spray_mr *mr = spray_mr_new(pd, access, 0);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->dma = true;
	mr->length = U64_MAX;
	mr->live = true;
	return spray_mr_publish(mr);
}

int spray_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib);

	/* Windows are counted without a reference: the region stays as long as one is bound. */
	if (atomic_cmpxchg(&mr->windows, 0, INT_MIN))
		return -EBUSY;
	spray_mr_unpublish(to_sdev(ib->device), mr);
	spray_mr_free(mr);
	return 0;
}

static bool spray_mr_covers(const struct spray_mr *mr, u64 va, u64 len)
{
	u64 off = va - mr->iova;

	return off <= mr->length && len <= mr->length - off;
}

/* Referenced. */
static bool spray_mr_permits(const struct spray_mr *mr, const struct ib_pd *pd, u32 qpn, u32 key,
			     int access, u64 va, u32 len)
{
	/* Pairs with the release that made it live: what is behind it holds still now. */
	if (!smp_load_acquire(&mr->live) || mr->key != key || mr->pd != pd)
		return false;
	if (mr->window && (!qpn || (mr->window == 2 && mr->qpn != qpn)))
		return false;
	return (mr->access & access) == access && (!len || spray_mr_covers(mr, va, len));
}

/* By its index, whatever the state. Return: referenced, or NULL. */
static struct spray_mr *spray_mr_find(struct spray_dev *dev, u32 key)
{
	struct spray_mr *mr;

	rcu_read_lock();
	mr = xa_load(&dev->mrs, key >> SPRAY_KEY_VARIANT_BITS);
	spray_jitter();
	if (mr && !refcount_inc_not_zero(&mr->ref))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

struct spray_mr *spray_mr_get(struct spray_dev *dev, struct ib_pd *pd, u32 qpn, u32 key,
			      int access, u64 va, u32 len)
{
	struct spray_mr *mr = spray_mr_find(dev, key);

	if (!mr)
		return NULL;
	spray_jitter();
	smp_mb__after_atomic();		/* counted before looked at: see spray_mr_stop() */
	if (spray_mr_permits(mr, pd, qpn, key, access, va, len))
		return mr;
	spray_mr_put(mr);
	return NULL;
}

void spray_mr_put(struct spray_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->gone);
}

void *spray_mr_ptr(const struct spray_mr *mr, u64 va, u32 *len)
{
	u32 in_page, run, size;
	void **page;
	void *p;
	u64 off;

	if (mr->base)
		mr = mr->base;
	if (mr->dma)
		return (void *)(uintptr_t)va;
	size = 1U << mr->shift;
	off = mr->offset + (va - mr->iova);
	page = mr->pages + (off >> mr->shift);
	in_page = off & (size - 1);
	p = *page + in_page;
	/* Neighbours in memory are one run; a range that goes on has a next page. */
	for (run = size - in_page; run < *len && page[1] == page[0] + size; page++)
		run += size;
	*len = min(*len, run);
	return p;
}

/* --- keys that work requests and rereg_mr change --- */

/* Take the key out of force and wait for copiers, see mr.h. The caller holds one reference. */
static void spray_mr_stop(struct spray_dev *dev, struct spray_mr *mr)
{
	lockdep_assert_held(&dev->mr_lock);
	WRITE_ONCE(mr->live, false);
	spray_jitter();
	smp_mb();	/* pairs with spray_mr_get() */
	while (refcount_read(&mr->ref) > 2)
		cpu_relax();
	/* Pairs with the release in spray_mr_put(): what copiers wrote is there before anybody goes on. */
	smp_acquire__after_ctrl_dep();
}

static void spray_mr_go(struct spray_mr *mr, u32 key)
{
	mr->key = key;
	smp_store_release(&mr->live, true);
}

/* Unbound; mr_lock held. */
static void spray_mw_release(struct spray_mr *win)
{
	if (win->base)
		atomic_dec(&win->base->windows);
	win->base = NULL;
}

/* The entry of @key for a change: referenced, of this PD, dev->mr_lock taken. */
static struct spray_mr *spray_mr_lock(struct spray_dev *dev, struct ib_pd *pd, u32 key)
{
	struct spray_mr *mr;

	/* The lock comes before the reference: who waits for it must not be waited for. */
	spin_lock_bh(&dev->mr_lock);
	mr = spray_mr_find(dev, key);
	if (mr && mr->pd == pd)
		return mr;
	if (mr)
		spray_mr_put(mr);
	spin_unlock_bh(&dev->mr_lock);
	return NULL;
}

static void spray_mr_unlock(struct spray_dev *dev, struct spray_mr *mr)
{
	spray_mr_put(mr);
	spin_unlock_bh(&dev->mr_lock);
}

/* What the consumer mapped last takes force; without that, what was in force before does again. */
static void spray_mr_take_mapped(struct spray_mr *mr)
{
	if (!mr->next.fresh)
		return;
	mr->next.fresh = false;
	swap(mr->pages, mr->next.pages);
	mr->npages = mr->next.npages;
	mr->offset = mr->next.offset;
	mr->shift = mr->next.shift;
}

int spray_mr_register(struct spray_dev *dev, struct ib_pd *pd, u32 key, int access, u64 iova,
		      u64 length)
{
	struct spray_mr *mr;
	int err = -EINVAL;

	/* No memory of ours survives a loss of power. Users are refused that by ib_core: no capability. */
	if (access & IB_ACCESS_FLUSH_PERSISTENT)
		return -EACCES;
	mr = spray_mr_lock(dev, pd, key);
	if (!mr)
		return -EINVAL;
	if (!mr->fast || mr->live)
		goto out;
	spray_mr_take_mapped(mr);
	if (length && mr->offset + length <= (u64)mr->npages << mr->shift) {
		mr->access = access;
		mr->iova = iova;
		mr->length = length;
		spray_mr_go(mr, key);
		err = 0;
	}
out:
	spray_mr_unlock(dev, mr);
	return err;
}

int spray_mr_invalidate(struct spray_dev *dev, struct ib_pd *pd, u32 qpn, u32 key)
{
	struct spray_mr *mr = spray_mr_lock(dev, pd, key);
	int err = -EINVAL;

	if (!mr)
		return -EINVAL;
	if (!mr->live || mr->key != key || !(mr->fast || mr->window == 2))
		goto out;
	if (qpn && mr->window && mr->qpn != qpn)
		goto out;
	if (qpn && !(mr->access & SPRAY_ACCESS_REMOTE))
		goto out;
	if (atomic_read(&mr->windows))	/* bound to it */
		goto out;
	spray_mr_stop(dev, mr);
	spray_mw_release(mr);
	err = 0;
out:
	spray_mr_unlock(dev, mr);
	return err;
}

/* May a window be opened so? */
static int spray_mw_check(const struct spray_mr *base, const struct spray_bind *b)
{
	const int known = SPRAY_ACCESS_REMOTE | IB_ACCESS_LOCAL_WRITE;

	if (!base->live || base->key != b->lkey || base->window || base->dma)
		return -EINVAL;
	if (!(base->access & IB_ACCESS_MW_BIND) || (b->access & ~known))
		return -EACCES;
	if ((b->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) &&
	    !(base->access & IB_ACCESS_LOCAL_WRITE))
		return -EACCES;
	if (b->access & ~base->access & IB_ACCESS_FLUSH_GLOBAL)
		return -EACCES;
	return spray_mr_covers(base, b->addr, b->length) ? 0 : -EINVAL;
}

int spray_mr_bind(struct spray_dev *dev, struct ib_pd *pd, const struct spray_bind *b)
{
	struct spray_mr *win = spray_mr_lock(dev, pd, b->key), *base = NULL;
	int err = -EINVAL;

	if (!win)
		return -EINVAL;
	/* Type 2 must be unbound first, and binding to nothing is no way to do that. */
	if (!win->window || (win->window == 2 && (win->live || !b->length)))
		goto out;
	if (b->length) {
		base = spray_mr_find(dev, b->lkey);
		if (!base || base->pd != pd)
			goto out;
		err = spray_mw_check(base, b);
		if (err)
			goto out;
		err = -EINVAL;
		if (!atomic_inc_unless_negative(&base->windows))
			goto out;
	}
	spray_mr_stop(dev, win);
	spray_mw_release(win);
	err = 0;
	win->base = base;
	win->qpn = b->qpn;
	win->iova = b->addr;
	win->length = b->length;
	win->access = b->access;
	if (base)
		spray_mr_go(win, b->key);
	else
		win->key = b->key;
out:
	if (base)
		spray_mr_put(base);
	spray_mr_unlock(dev, win);
	return err;
}

/* --- fast registration: the region itself --- */

struct ib_mr *spray_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_pages)
{
	struct spray_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_pages || max_pages > SPRAY_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	mr = spray_mr_new(pd, 0, 0);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->fast = true;
	mr->max_pages = max_pages;
	mr->pages = kvcalloc(max_pages, sizeof(*mr->pages), GFP_KERNEL_ACCOUNT);
	mr->next.pages = kvcalloc(max_pages, sizeof(*mr->pages), GFP_KERNEL_ACCOUNT);
	if (mr->pages && mr->next.pages)
		return spray_mr_publish(mr);
	spray_mr_free(mr);
	return ERR_PTR(-ENOMEM);
}

/* DMA addresses are kernel addresses here: no IOMMU, a virtual DMA device. */
static int spray_set_page(struct ib_mr *ib, u64 addr)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib);

	if (mr->next.npages == mr->max_pages)
		return -ENOMEM;
	mr->next.pages[mr->next.npages++] = (void *)(uintptr_t)addr;
	return 0;
}

/*
 * The consumer calls this before it posts a REG_MR; until that is done the key may hold for other pages.
 * Nobody takes @next meanwhile: the REG_MR before was done when the consumer invalidated its key.
 */
int spray_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int n, unsigned int *offset)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib);
	int done;

	if (!mr->fast)
		return -EINVAL;
	mr->next.npages = 0;
	done = ib_sg_to_pages(ib, sg, n, offset, spray_set_page);
	mr->next.shift = ilog2(ib->page_size);
	mr->next.offset = ib->iova & (ib->page_size - 1);
	mr->next.fresh = true;
	return done;
}

/* --- rereg_mr --- */

struct ib_mr *spray_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 iova,
				  int access, struct ib_pd *pd, struct ib_udata *udata)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib), new;
	struct spray_dev *dev = to_sdev(ib->device);
	bool trans = flags & IB_MR_REREG_TRANS;
	int err;

	if (flags & ~IB_MR_REREG_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	if (!mr->umem)
		return ERR_PTR(-EINVAL);
	if (atomic_cmpxchg(&mr->windows, 0, INT_MIN))
		return ERR_PTR(-EBUSY);
	new = (struct spray_mr) { .pd = flags & IB_MR_REREG_PD ? pd : mr->pd };
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!trans && ib_access_writable(access) && !mr->umem->writable) {
		if (mr->umem->owning_mm != current->mm) {	/* its addresses are not ours */
			err = -EPERM;
			goto out;
		}
		trans = true;		/* the same memory, but pinned for writing */
		start = mr->umem->address;
		length = mr->length;
		iova = mr->iova;
	}
	err = trans ? spray_mr_pin(&new, start, length, iova, access) : 0;
	if (err)
		goto out;

	spin_lock_bh(&dev->mr_lock);
	refcount_inc(&mr->ref);
	spray_mr_stop(dev, mr);
	mr->pd = new.pd;
	mr->access = access;
	if (trans) {
		swap(mr->umem, new.umem);
		swap(mr->pages, new.pages);
		mr->offset = new.offset;
		mr->iova = new.iova;
		mr->length = new.length;
		ib->iova = iova;
		ib->length = length;
	}
	spray_mr_go(mr, mr->key);
	spray_mr_unlock(dev, mr);
	if (trans)
		spray_mr_unpin(&new);
out:
	atomic_set(&mr->windows, 0);
	return err ? ERR_PTR(err) : NULL;
}

/* --- memory windows --- */

int spray_alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct spray_mw *mw = container_of(ib, struct spray_mw, ib);
	struct spray_mr *mr = spray_mr_new(ib->pd, 0, ib->type == IB_MW_TYPE_1 ? 1 : 2);
	struct ib_mr *known;

	if (!mr)
		return -ENOMEM;
	known = spray_mr_publish(mr);
	if (IS_ERR(known))
		return PTR_ERR(known);
	mw->mr = mr;
	ib->rkey = mr->key;
	return 0;
}

int spray_dealloc_mw(struct ib_mw *ib)
{
	struct spray_mr *mr = container_of(ib, struct spray_mw, ib)->mr;
	struct spray_dev *dev = to_sdev(ib->device);

	spray_mr_unpublish(dev, mr);
	spray_mw_release(mr);
	spray_mr_free(mr);
	return 0;
}

SPRAY_IMPORT_NS(DMA_BUF);
