/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receiving: from super-packets to placed bytes, completions and answers. */
#ifndef SPRAY_RECEIVE_H
#define SPRAY_RECEIVE_H

#include <linux/skbuff.h>

#include "qp.h"

enum {
	SPRAY_TOUCH_MAX = 16,	/* QPs that one batch answers together */
	SPRAY_TOUCH_REQ	= 1,
	SPRAY_TOUCH_RESP = 2,
	SPRAY_RX_BATCH	= 8,	/* bursts before answers go out */
};

/**
 * struct spray_rx - one drain of a socket
 * @skb: the burst at hand; the fields below speak of it
 * @seg: which packet of it
 * @touched: QPs to be served when the batch ends, each referenced
 */
struct spray_rx {
	struct spray_net *sn;
	struct sk_buff *skb;
	bool v6;
	bool ce;
	u16 sport;
	u32 entropy;
	u32 seg;
	u32 bursts;
	u32 n;
	struct {
		struct spray_qp *qp;
		u32 half;
	} touched[SPRAY_TOUCH_MAX];
};

void spray_rx_begin(struct spray_rx *rx, struct spray_net *sn);
/* Takes the skb over. Softirq. */
void spray_rx_burst(struct spray_rx *rx, struct sk_buff *skb);
void spray_rx_end(struct spray_rx *rx);

int spray_rx_init(void);
void spray_rx_exit(void);

/* Device that a packet without a connection is for: by the interface it came in, else by address. */
struct spray_dev *spray_rx_dev(struct spray_rx *rx);

/* ud.c: RoCEv2 ICRC of packets without a connection; @len without it */
__le32 spray_peer_icrc(const struct spray_peer *peer, u32 entropy, const u8 *pkt, u32 len);
bool spray_peer_icrc_ok(struct spray_rx *rx, const u8 *pkt, u32 len);

#endif
