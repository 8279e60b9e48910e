/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What every unit test of the core needs: cmocka, a seeded generator, and
 * checks that name the step of a random run. Names of tests are
 * function__case, in the order of the code.
 *
 * The same files are the self-test of the module's debug build (kernel.h):
 * no floating point, no big arrays on the stack.
 */
#ifndef UNIT_H
#define UNIT_H

/*
 * RUN_LONG() is for user space: the test says how well something does, and takes long.
 *
 * Random tests do less in a kernel, for a machine of any speed has to be through
 * in seconds: ROUNDS(n) of many short ones, FEW(n) things in a long one. One with
 * for (TRIES(i, n)) moreover stops at its time limit.
 */
#ifdef __KERNEL__
#include "kernel.h"

#define TEST(name)	static void __maybe_unused name(void **state)
#define RUN_LONG(name)	{ #name, NULL }
#define ROUNDS(n)	((n) / 16 ? (n) / 16 : 1)
#define FEW(n)		((n) / 4)
#define TRIES(i, n)	i = 0; i < ROUNDS(n) && (i <= (n) / 4096 || unit_time_left()); i++

#else
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name)	static void name(void **state __attribute__((unused)))
#define RUN_LONG(name)	cmocka_unit_test(name)
#define ROUNDS(n)	(n)
#define FEW(n)		(n)
#define TRIES(i, n)	i = 0; i < (n); i++
#define unit_breathe()	((void)0)

#endif

#define RUN(name)	cmocka_unit_test(name)

/* xorshift64*: the same numbers in every run; a failure repeats with its seed. */
static inline uint64_t rnd64(uint64_t *s)
{
	unit_breathe();
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
