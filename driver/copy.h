/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Between packets and user memory: scatter, gather, and the last word of a message. */
#ifndef SPRAY_COPY_H
#define SPRAY_COPY_H

#include "../uapi/spray-abi.h"
#include "mr.h"

/**
 * spray_copy_in() - bytes of a packet into a region whose range was checked
 * @last: they end a message: its final naturally aligned word (<= 8 bytes)
 *	becomes visible after everything else, in one store (C2)
 */
void spray_copy_in(const struct spray_mr *mr, u64 va, const u8 *src, u32 len, bool last);
void spray_copy_out(const struct spray_mr *mr, u64 va, u8 *dst, u32 len);

/**
 * spray_scatter() - payload into a list of elements
 * @offset: of @src in the message, bytes
 * Return: 0; -EFAULT for a key that does not hold; -EMSGSIZE if the list is too short.
 */
int spray_scatter(struct spray_dev *dev, struct ib_pd *pd, const struct spray_sge *sge, u32 n,
		  u32 offset, const u8 *src, u32 len, bool last);

/* Sum of the elements' lengths, bytes. */
u64 spray_sge_total(const struct spray_sge *sge, u32 n);

#endif
