// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What happens next: a heap with four children per node. Events at one moment
 * come in the order in which they were made, so a run repeats exactly. A link
 * has at most one event in it, for the packet at its head: the heap's size is
 * that of the network, not of what is in flight.
 */
#include "sim.h"

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void heap_push(struct heap *h, u64 at, enum event_kind kind, void *p)
{
	struct event e = { .at = at, .order = h->made++ << 4 | kind, .p = p };
	u32 i;

	if (h->n == h->room) {
		h->room = h->room ? 2 * h->room : 1024;
		h->e = realloc(h->e, h->room * sizeof(*h->e));
		if (!h->e)
			die("no memory");
	}
	for (i = h->n++; i && sooner(&e, &h->e[(i - 1) / 4]); i = (i - 1) / 4)
		h->e[i] = h->e[(i - 1) / 4];
	h->e[i] = e;
}

struct event heap_pop(struct heap *h)
{
	struct event top = h->e[0], last = h->e[--h->n];
	u32 i = 0, j, k, least;

	while ((j = 4 * i + 1) < h->n) {
		least = j;
		for (k = j + 1; k < j + 4 && k < h->n; k++)
			if (sooner(&h->e[k], &h->e[least]))
				least = k;
		if (!sooner(&h->e[least], &last))
			break;
		h->e[i] = h->e[least];
		i = least;
	}
	h->e[i] = last;
	return top;
}
