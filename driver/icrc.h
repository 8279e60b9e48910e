/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC. UD: exactly RoCEv2's (IBTA annex 17), so that every RoCE
 * peer agrees. RC: the same polynomial over the same packet, but seeded per
 * connection, so that what does not change from packet to packet is summed
 * once, and a packet of an earlier life of a QPN fails:
 *
 *   seed = crc(8 x ff, source address, destination address,
 *              source QPN, first PSN, destination QPN)
 *   icrc = ~crc(seed, UDP ports and length, BTH ... pad)
 *
 * The IPv4 ID is not covered (segmentation numbers it, merging loses it).
 */
#ifndef SPRAY_ICRC_H
#define SPRAY_ICRC_H

#include <linux/skbuff.h>

#include "udp.h"

int spray_icrc_init(void);
void spray_icrc_exit(void);

/* Seed of a connection's packets that go from @src to @dst (4 or 16 bytes each). */
u32 spray_icrc_seed(const void *src, const void *dst, u32 addr_len, u32 src_qpn, u32 psn,
		    u32 dst_qpn);

/* ICRC of an RC packet as it stands on the wire. @len: BTH to padding, bytes. */
__le32 spray_icrc_rc(u32 seed, u16 sport, const u8 *pkt, u32 len);

/* RoCEv2 ICRC of a UD packet; addresses, traffic class etc. as masked by the standard. @id: IPv4 ID. */
__le32 spray_icrc_ud4(__be32 saddr, __be32 daddr, __be16 id, __be16 frag_off, u16 sport,
		      const u8 *pkt, u32 len);
__le32 spray_icrc_ud6(const struct in6_addr *saddr, const struct in6_addr *daddr, u16 sport,
		      const u8 *pkt, u32 len);

#endif
