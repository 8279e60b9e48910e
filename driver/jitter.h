/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * spray_jitter(): a place where two threads may meet, between two steps whose order
 * matters. Nothing, but for debug builds with the module parameter `jitter` set: there
 * it sometimes waits, up to that many microseconds, so that what needs an instruction's
 * luck elsewhere is common (tests/race). Any context, any lock.
 */
#ifndef SPRAY_JITTER_H
#define SPRAY_JITTER_H

#ifdef SPRAY_DEBUG
#include <linux/delay.h>
#include <linux/random.h>

extern unsigned int spray_jitter_us;

static inline void spray_jitter(void)
{
	u32 us = READ_ONCE(spray_jitter_us), r;

	if (!us)
		return;
	/* One in eight waits, half as long twice as often: many places, and all of them soon. */
	r = get_random_u8();
	if (!(r & 7))
		udelay(1 + (us >> (r >> 4)));
}
#else
static inline void spray_jitter(void)
{
}
#endif

#endif
