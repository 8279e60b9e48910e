/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * HELLO: what two endpoints tell each other, once per destination: version,
 * ICRC mode, credit, largest payload, window. Asked when a QP becomes connected and,
 * with back-off, as long as QPs send there without having been answered;
 * answered statelessly. Until then, and for peers that never answer,
 * conservative defaults hold: packets that fit 1500 bytes.
 */
#ifndef SPRAY_HELLO_H
#define SPRAY_HELLO_H

#include "receive.h"
#include "udp.h"

/* Ask if it is due; cheap if not. BH off. @now: ns */
void spray_hello_poll(struct spray_peer *peer, u64 now);

/* Payload bytes per packet of new messages to @peer, at most @payload. */
u32 spray_hello_payload(const struct spray_peer *peer, u32 payload);

/* An endpoint packet with its ICRC. Softirq. */
void spray_hello_receive(struct spray_rx *rx, const u8 *pkt, u32 len);

#endif
