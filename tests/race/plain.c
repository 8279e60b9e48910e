// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What tests/contract asks of its main program, for one without cases: everything lives until the end. */
#include "../contract/contract.h"
#include "../contract/internal.h"

#include <stdarg.h>

void ct_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

void ct_doing(const char *fmt, ...)
{
	(void)fmt;
}

void ct_track(void (*undo)(void *), void *obj)
{
	(void)undo;
	(void)obj;
}

void ct_untrack(void *obj)
{
	(void)obj;
}
