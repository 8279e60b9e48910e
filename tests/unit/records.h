/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Records of packets in flight, from malloc(): what a shell does, for tests, fuzzers and the simulator. */
#ifndef RECORDS_H
#define RECORDS_H

#ifndef __KERNEL__
#include <stdlib.h>
#endif

#include "tx.h"

/* Give @t what it needs; @none: there is no memory. Return: more may be sent. */
static inline bool fit_records(struct tp_tx *t, bool none)
{
	u32 n = tp_tx_records(t);
	bool more = n > t->records;

	if (!n || none)
		return false;
	free(tp_tx_use_records(t, malloc(n * sizeof(struct tp_sent)), n));
	return more;
}

static inline void drop_records(struct tp_tx *t)
{
	free(tp_tx_use_records(t, NULL, 0));
}

#endif
