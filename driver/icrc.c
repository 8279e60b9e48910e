// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/crc32.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "compat.h"
#include "icrc.h"

/*
 * Kernels from 6.14 on have an architecture's fast CRC behind crc32_le();
 * before, only the crypto API knows one (crc32-pclmul). Where there is neither,
 * or no crypto API at all, the table does.
 */
#if defined(CONFIG_CRC32_ARCH) || !IS_ENABLED(CONFIG_CRYPTO_HASH)

int spray_icrc_init(void)
{
	return 0;
}

void spray_icrc_exit(void)
{
}

static u32 spray_crc(u32 crc, const void *p, u32 len)
{
	return crc32_le(crc, p, len);
}

#else

#include <crypto/hash.h>

enum { SPRAY_CRC_SMALL = 64 };	/* bytes; below, the call costs more than the table */

static struct crypto_shash *spray_crc_tfm;

int spray_icrc_init(void)
{
	struct crypto_shash *tfm = crypto_alloc_shash("crc32", 0, 0);

	spray_crc_tfm = IS_ERR(tfm) ? NULL : tfm;
	return 0;
}

void spray_icrc_exit(void)
{
	if (spray_crc_tfm)
		crypto_free_shash(spray_crc_tfm);
}

static u32 spray_crc(u32 crc, const void *p, u32 len)
{
	struct crypto_shash *tfm = spray_crc_tfm;

	if (len < SPRAY_CRC_SMALL || !tfm)
		return crc32_le(crc, p, len);
	{
		SHASH_DESC_ON_STACK(desc, tfm);

		desc->tfm = tfm;
		*(u32 *)shash_desc_ctx(desc) = crc;
		if (crypto_shash_update(desc, p, len))
			return crc32_le(crc, p, len);
		return *(u32 *)shash_desc_ctx(desc);
	}
}

#endif

static u32 spray_crc_ones(void)
{
	static const u8 ones[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

	return crc32_le(~0U, ones, sizeof(ones));
}

u32 spray_icrc_seed(const void *src, const void *dst, u32 addr_len, u32 src_qpn, u32 psn,
		    u32 dst_qpn)
{
	__be32 id[3] = { cpu_to_be32(src_qpn), cpu_to_be32(psn & 0xffffff), cpu_to_be32(dst_qpn) };
	u32 crc = spray_crc_ones();

	crc = crc32_le(crc, src, addr_len);
	crc = crc32_le(crc, dst, addr_len);
	return crc32_le(crc, (const u8 *)id, sizeof(id));
}

static struct udphdr spray_crc_udp(u16 sport, u32 len)
{
	return (struct udphdr) {
		.source = htons(sport),
		.dest = htons(spray_port),
		.len = htons(sizeof(struct udphdr) + len + TP_ICRC_LEN),
		.check = (__force __sum16)0xffff,
	};
}

__le32 spray_icrc_rc(u32 seed, u16 sport, const u8 *pkt, u32 len)
{
	struct udphdr uh = spray_crc_udp(sport, len);
	u32 crc = crc32_le(seed, (const u8 *)&uh, sizeof(uh));

	return cpu_to_le32(~spray_crc(crc, pkt, len));
}

/* UDP header, BTH with its reserved byte masked, and the rest. */
static __le32 spray_icrc_ud_tail(u32 crc, u16 sport, const u8 *pkt, u32 len)
{
	struct udphdr uh = spray_crc_udp(sport, len);
	u8 bth[TP_BTH_LEN];

	memcpy(bth, pkt, sizeof(bth));
	bth[4] = 0xff;
	crc = crc32_le(crc, (const u8 *)&uh, sizeof(uh));
	crc = crc32_le(crc, bth, sizeof(bth));
	return cpu_to_le32(~spray_crc(crc, pkt + sizeof(bth), len - sizeof(bth)));
}

__le32 spray_icrc_ud4(__be32 saddr, __be32 daddr, __be16 id, __be16 frag_off, u16 sport,
		      const u8 *pkt, u32 len)
{
	struct iphdr iph = {
		.version = 4,
		.ihl = sizeof(iph) >> 2,
		.tos = 0xff,
		.tot_len = htons(sizeof(iph) + sizeof(struct udphdr) + len + TP_ICRC_LEN),
		.id = id,
		.frag_off = frag_off,
		.ttl = 0xff,
		.protocol = IPPROTO_UDP,
		.check = (__force __sum16)0xffff,
		.saddr = saddr,
		.daddr = daddr,
	};

	return spray_icrc_ud_tail(crc32_le(spray_crc_ones(), (const u8 *)&iph, sizeof(iph)),
				  sport, pkt, len);
}

__le32 spray_icrc_ud6(const struct in6_addr *saddr, const struct in6_addr *daddr, u16 sport,
		      const u8 *pkt, u32 len)
{
	struct ipv6hdr h = {
		.payload_len = htons(sizeof(struct udphdr) + len + TP_ICRC_LEN),
		.nexthdr = IPPROTO_UDP,
		.hop_limit = 0xff,
		.saddr = *saddr,
		.daddr = *daddr,
	};

	*(__be32 *)&h = htonl(0x6fffffff);
	return spray_icrc_ud_tail(crc32_le(spray_crc_ones(), (const u8 *)&h, sizeof(h)),
				  sport, pkt, len);
}
