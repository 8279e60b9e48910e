/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What every fuzzer of the core needs: a reader of its input, in which all
 * decisions come from, and checks that end the run. A fuzzer is one function
 * with libFuzzer's name; libFuzzer, AFL++ or replay.c give it its inputs.
 *
 * FUZZ_TRACE=1 in the environment prints what happens, to understand a finding.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include "env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input: at its end every number is 0. */
struct input {
	const u8 *p, *end;
};

static inline bool in_more(const struct input *in)
{
	return in->p != in->end;
}

static inline u8 in8(struct input *in)
{
	return in_more(in) ? *in->p++ : 0;
}

static inline u16 in16(struct input *in)
{
	u8 high = in8(in);

	return (u16)(high << 8 | in8(in));
}

static inline u32 in32(struct input *in)
{
	u32 high = in16(in);

	return high << 16 | in16(in);
}

static inline u64 in64(struct input *in)
{
	u64 high = in32(in);

	return high << 32 | in32(in);
}

/* 0 .. n - 1, n <= 65536; 0 if there is none */
static inline u32 in_below(struct input *in, u32 n)
{
	u32 v = n > 256 ? in16(in) : in8(in);

	return n ? v % n : 0;
}

/* True once in @n times. */
static inline bool in_one_of(struct input *in, u32 n)
{
	return in8(in) % n == n - 1;
}

#define fuzz_fail(fmt, ...)							\
	do {									\
		fprintf(stderr, "%s:%d: " fmt "\n", __FILE__, __LINE__, ##__VA_ARGS__);	\
		abort();							\
	} while (0)

#define CHECK(cond)								\
	do {									\
		if (!(cond))							\
			fuzz_fail("not true: %s", #cond);			\
	} while (0)

#define CHECK_EQ(a, b)								\
	do {									\
		u64 a_ = (u64)(a), b_ = (u64)(b);				\
										\
		if (a_ != b_)							\
			fuzz_fail("%s is %#lx, expected %s = %#lx", #a,		\
				  (unsigned long)a_, #b, (unsigned long)b_);	\
	} while (0)

static inline bool fuzz_tracing(void)
{
	static int on = -1;

	if (on < 0)
		on = getenv("FUZZ_TRACE") != NULL;
	return on;
}

#define trace(fmt, ...)								\
	do {									\
		if (fuzz_tracing())						\
			fprintf(stderr, fmt "\n", ##__VA_ARGS__);			\
	} while (0)

#endif
