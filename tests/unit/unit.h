/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What every unit test of the core needs: cmocka, a seeded generator, and
 * checks that name the step of a random run. Names of tests are
 * function__case, in the order of the code.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name)	static void name(void **state __attribute__((unused)))
#define RUN(name)	cmocka_unit_test(name)

/* xorshift64*: the same numbers in every run; a failure repeats with its seed. */
static inline uint64_t rnd64(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1dULL;
}

/* 0 .. n - 1 */
static inline uint32_t rnd(uint64_t *s, uint32_t n)
{
	return (uint32_t)((rnd64(s) >> 32) * n >> 32);
}

/* As assert_int_equal(), and says at which step of a random run it failed. */
#define CHECK_AT(step, a, b)							\
	do {									\
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);		\
										\
		if (a_ != b_)							\
			fail_msg("step %lu: %s is %#lx, expected %s = %#lx",	\
				 (unsigned long)(step), #a, (unsigned long)a_,	\
				 #b, (unsigned long)b_);			\
	} while (0)

/* A copy at the very end of an allocation: one byte too far is found by the sanitizer. */
static inline uint8_t *exact_copy(const void *src, size_t len)
{
	uint8_t *p = malloc(len ? len : 1);

	assert_non_null(p);
	memcpy(p, src, len);
	return p;
}

#endif
