/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Serial numbers (RFC 1982). Inside the core PSNs, MSNs and RQMSNs are 32 bits
 * wide and wrap; the wire carries the low 24 or 16 bits. A wire number is
 * extended against a reference that it can't be further from than half of its
 * own space: true for every number inside a window of at most 32640 packets.
 */
#ifndef TP_SEQ_H
#define TP_SEQ_H

#include "env.h"

/* a - b, right as long as they are less than 2^31 apart. */
static inline s32 tp_diff(u32 a, u32 b)
{
	return (s32)(a - b);
}

static inline bool tp_before(u32 a, u32 b)
{
	return tp_diff(a, b) < 0;
}

/* The number nearest to @ref whose low 24 bits are @wire. */
static inline u32 tp_extend24(u32 wire, u32 ref)
{
	s32 d = (s32)((wire - ref) << 8) >> 8;

	return ref + (u32)d;
}

/* The number nearest to @ref whose low 16 bits are @wire. */
static inline u32 tp_extend16(u32 wire, u32 ref)
{
	return ref + (u32)(s32)(s16)(u16)(wire - ref);
}

#endif
