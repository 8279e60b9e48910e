// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "compat.h"
#include "copy.h"

static void spray_copy_range(const struct spray_mr *mr, u64 va, const u8 *src, u32 len)
{
	while (len) {
		u32 n = len;
		void *dst = spray_mr_ptr(mr, va, &n);

		memcpy(dst, src, n);
		va += n;
		src += n;
		len -= n;
	}
}

/* Bytes of the final naturally aligned word of [@va, @va + @len): 8, 4, 2 or 1. */
static u32 spray_tail_word(u64 va, u32 len)
{
	u64 end = va + len;
	u32 w = 8;

	while ((end & (w - 1)) || w > len)
		w >>= 1;
	return w;
}

static void spray_store_word(void *dst, const u8 *src, u32 w)
{
	switch (w) {
	case 8:
		WRITE_ONCE(*(u64 *)dst, get_unaligned((const u64 *)src));
		break;
	case 4:
		WRITE_ONCE(*(u32 *)dst, get_unaligned((const u32 *)src));
		break;
	case 2:
		WRITE_ONCE(*(u16 *)dst, get_unaligned((const u16 *)src));
		break;
	default:
		WRITE_ONCE(*(u8 *)dst, *src);
	}
}

void spray_copy_in(const struct spray_mr *mr, u64 va, const u8 *src, u32 len, bool last)
{
	u32 w, one;

	spray_jitter();
	if (!last) {
		spray_copy_range(mr, va, src, len);
		return;
	}
	if (!len)
		return;
	w = spray_tail_word(va, len);
	smp_wmb();	/* C2: what earlier packets placed is visible before any byte of this one */
	spray_copy_range(mr, va, src, len - w);
	spray_jitter();
	smp_wmb();	/* and all of it before the word that a program may poll */
	one = w;
	spray_store_word(spray_mr_ptr(mr, va + len - w, &one), src + len - w, w);
}

void spray_copy_out(const struct spray_mr *mr, u64 va, u8 *dst, u32 len)
{
	spray_jitter();
	while (len) {
		u32 n = len;
		const void *src = spray_mr_ptr(mr, va, &n);

		memcpy(dst, src, n);
		va += n;
		dst += n;
		len -= n;
	}
}

int spray_scatter(struct spray_dev *dev, struct ib_pd *pd, const struct spray_sge *sge, u32 n,
		  u32 offset, const u8 *src, u32 len, bool last)
{
	u32 i;

	if (last)
		smp_wmb();	/* C2, as in spray_copy_in(): its last bytes may lie in several pieces */
	for (i = 0; i < n && len; i++) {
		struct spray_mr *mr;
		u32 part;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		part = min(len, sge[i].length - offset);
		mr = spray_mr_get(dev, pd, 0, sge[i].lkey, IB_ACCESS_LOCAL_WRITE,
				  sge[i].addr + offset, part);
		if (!mr)
			return -EFAULT;
		spray_copy_in(mr, sge[i].addr + offset, src, part, last && part == len);
		spray_mr_put(mr);
		src += part;
		len -= part;
		offset = 0;
	}
	return len ? -EMSGSIZE : 0;
}

u64 spray_sge_total(const struct spray_sge *sge, u32 n)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < n; i++)
		sum += sge[i].length;
	return sum;
}
