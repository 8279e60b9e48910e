/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SPRAY_CONTRACT_INTERNAL_H
#define SPRAY_CONTRACT_INTERNAL_H

/* What a case made is undone in the reverse order after it, whether it failed or not. */
void ct_track(void (*undo)(void *), void *obj);
void ct_untrack(void *obj);

#endif
