/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What unit.h takes from cmocka and the C library, for test files that are part
 * of the module (DEBUG=1). Includes env.h alone, so that the tests' own names
 * meet as few of the kernel's as can be.
 */
#ifndef UNIT_KERNEL_H
#define UNIT_KERNEL_H

#include "../../driver/core/env.h"

/* ---- kernel.c ---- */

struct CMUnitTest {
	const char *name;
	void (*test_func)(void **state);
};

/* Return: how many failed. */
int unit_run_group(const char *file, const struct CMUnitTest *tests, u32 n);
/* Says why; ends the test, and with it the thread that it is. */
__printf(3, 4) void unit_fail(const char *file, int line, const char *fmt, ...);
void *unit_alloc(size_t n, size_t size);
void *unit_zalloc(size_t n, size_t size);
void unit_free(const void *p);
void unit_sort(void *base, size_t n, size_t size, int (*cmp)(const void *a, const void *b));
/* A long test lets others run. */
void unit_breathe(void);
bool unit_time_left(void);

/* What main() of each test file is called here, by Kbuild. */
int unit_wire(void);
int unit_window(void);
int unit_path(void);
int unit_credit(void);
int unit_cc(void);
int unit_tx(void);
int unit_requester(void);
int unit_pair(void);

/* ---- the C library ---- */

#define malloc(size)		unit_alloc(1, size)
#define calloc(n, size)		unit_zalloc(n, size)
#define free(p)			unit_free(p)
#define qsort(b, n, size, cmp)	unit_sort(b, n, size, cmp)
#define getenv(name)		((const char *)NULL)
#define atoi(s)			((void)(s), 0)
#define printf(fmt, ...)	no_printk(fmt, ##__VA_ARGS__)

/* ---- cmocka ---- */

#define cmocka_unit_test(f)	{ #f, f }
#define cmocka_run_group_tests(tests, setup, teardown)				\
	unit_run_group(__FILE__, tests, ARRAY_SIZE(tests))
#define cmocka_run_group_tests_name(name, tests, setup, teardown)		\
	cmocka_run_group_tests(tests, setup, teardown)
#define print_message(fmt, ...)	no_printk(fmt, ##__VA_ARGS__)

#define fail_msg(fmt, ...)	unit_fail(__FILE__, __LINE__, fmt, ##__VA_ARGS__)
#define fail()			fail_msg("fail()")

#define UNIT_COMPARE(a, op, b)							\
	do {									\
		u64 x_ = (u64)(a), y_ = (u64)(b);				\
										\
		if (!(x_ op y_))						\
			fail_msg("not true: %s (%#llx and %#llx)", #a " " #op " " #b, x_, y_);	\
	} while (0)
#define assert_int_equal(a, b)		UNIT_COMPARE(a, ==, b)
#define assert_int_not_equal(a, b)	UNIT_COMPARE(a, !=, b)

#define assert_in_range(v, lo, hi)						\
	do {									\
		u64 x_ = (u64)(v), lo_ = (u64)(lo), hi_ = (u64)(hi);		\
										\
		if (x_ < lo_ || x_ > hi_)					\
			fail_msg("%s is %llu, not of %llu ... %llu", #v, x_, lo_, hi_);	\
	} while (0)

#define UNIT_TRUE(cond, what)							\
	do {									\
		if (!(cond))							\
			fail_msg("not true: %s", what);				\
	} while (0)
#define assert_true(c)			UNIT_TRUE(c, #c)
#define assert_false(c)			UNIT_TRUE(!(c), "!(" #c ")")
#define assert_non_null(p)		UNIT_TRUE((p) != NULL, #p " != NULL")
#define assert_ptr_equal(a, b)		UNIT_TRUE((a) == (b), #a " == " #b)
#define assert_memory_equal(a, b, n)	UNIT_TRUE(!memcmp(a, b, n), #a " as " #b)
#define assert_memory_not_equal(a, b, n) UNIT_TRUE(memcmp(a, b, n), #a " unlike " #b)

#endif
