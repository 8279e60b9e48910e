/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of a packet space's sender (tx.c, tx_path.c, tx_time.c,
 * tx_ack.c) share and nobody else needs.
 */
#ifndef TP_TX_INT_H
#define TP_TX_INT_H

#include "tx.h"

enum {
	TP_SILENT	= 2,		/* so many probes unanswered: nobody is there */
	TP_LOSSY_US	= 50000,	/* so long after a retransmission */
};

enum {				/* may a packet that can't be read again have arrived? */
	TP_DOUBT_NONE,
	TP_DOUBT_ASKED,
	TP_DOUBT_ANSWERED,	/* what is still missing now, the peer needs */
};

static inline struct tp_sent *tp_tx_rec(const struct tp_tx *t, u32 psn)
{
	return &t->sent[psn & (t->records - 1U)];
}

static inline u32 tp_tx_pkt_bytes(const struct tp_tx *t)
{
	return t->payload_hint + TP_DATA_OVERHEAD;
}

/* Did (stamp, PSN) a leave before b? */
static inline bool tp_sent_before(u32 stamp_a, u32 psn_a, u32 stamp_b, u32 psn_b)
{
	if (stamp_a != stamp_b)
		return tp_before(stamp_a, stamp_b);
	return tp_before(psn_a, psn_b);
}

/* tx.c: stamp of the next burst or probe, later than any before */
u32 tp_tx_stamp(struct tp_tx *t, u32 now_us);

/* tx.c: a packet is to be sent again; its path is told, once per burst */
void tp_tx_lose(struct tp_tx *t, u32 psn);
void tp_tx_blame(struct tp_tx *t, const struct tp_sent *r, bool silent, u32 now_us);

/* tx_path.c: packets that may be sent now (a whole burst, or 0) and the EV for them */
u32 tp_tx_room(struct tp_tx *t, u32 max_pkts, u32 now_us);
u8 tp_tx_path(struct tp_tx *t, u32 now_us);
u8 tp_tx_rtx_path(struct tp_tx *t, u8 avoid, u32 now_us);

/* tx_path.c: a burst was heard: another may take its place on its EV */
void tp_tx_use_again(struct tp_tx *t, u8 ev);

#endif
