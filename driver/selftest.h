/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A debug build tests its core in the very kernel that it is loaded into, before anything is
 * registered: tests/unit. Return: 0, or -EINVAL, with the reasons in the log.
 */
#ifndef SPRAY_SELFTEST_H
#define SPRAY_SELFTEST_H

#ifdef SPRAY_DEBUG
int spray_selftest(void);
#else
static inline int spray_selftest(void)
{
	return 0;
}
#endif

#endif
