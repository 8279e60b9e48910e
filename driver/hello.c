// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <net/net_ratelimit.h>

#include "compat.h"
#include "hello.h"
#include "icrc.h"

enum {
	SPRAY_HELLO_VERSION	= 1,
	SPRAY_HELLO_TRIES	= 6,
	SPRAY_HELLO_FIRST_MS	= 100,		/* doubled with every try */
	SPRAY_SAFE_MTU		= 1500,
};

static void spray_hello_send(struct spray_peer *peer, bool reply)
{
	struct tp_hello h = {
		.reply = reply,
		.version = SPRAY_HELLO_VERSION,
		.flags = (peer->dev->icrc ? TP_HELLO_ICRC : 0) |
			 (peer->dev->pacer.budget ? TP_HELLO_CREDIT : 0),
		.mpr = TP_MPR,
		.max_payload = spray_mtu_payload(peer->v6, READ_ONCE(peer->dev->ndev->mtu)),
	};
	u32 entropy = peer->paths.p[peer->hello_tries % TP_PATHS].entropy;
	u32 room = TP_BTH_LEN + TP_HELLO_LEN + TP_ICRC_LEN, n;
	struct spray_txb b;
	__le32 icrc;
	u8 *p;

	if (spray_txb_begin(&b, peer->dev, NULL))
		return;
	p = spray_txb_reserve(&b, room);
	if (!p) {
		spray_txb_abort(&b);
		return;
	}
	n = tp_wire_encode_hello(&h, p);
	icrc = spray_peer_icrc(peer, entropy, p, n);
	memcpy(p + n, &icrc, sizeof(icrc));
	spray_txb_commit(&b, n + sizeof(icrc));
	spray_txb_xmit(&b, peer, entropy);
}

/*
 * Several QPs may find the question due at once: who moves the time of the
 * next one asks.
 */
void spray_hello_poll(struct spray_peer *peer, u64 now)
{
	u64 next = READ_ONCE(peer->hello_next);
	u32 tries = READ_ONCE(peer->hello_tries);

	if (READ_ONCE(peer->hello) != SPRAY_HELLO_ASKING || now < next)
		return;
	if (cmpxchg64(&peer->hello_next, next,
		      now + ((u64)SPRAY_HELLO_FIRST_MS * NSEC_PER_MSEC << tries)) != next)
		return;
	if (tries >= SPRAY_HELLO_TRIES) {
		WRITE_ONCE(peer->hello, SPRAY_HELLO_SILENT);
		spray_count(peer->dev, peer_no_hello);
		if (!net_ratelimit())
			return;
		if (peer->v6)
			pr_info("rdma_spray: %pI6c does not answer as a spray endpoint\n",
				&peer->daddr6);
		else
			pr_info("rdma_spray: %pI4 does not answer as a spray endpoint\n",
				&peer->daddr4);
		return;
	}
	WRITE_ONCE(peer->hello_tries, tries + 1);
	spray_hello_send(peer, false);
}

u32 spray_hello_payload(const struct spray_peer *peer, u32 payload)
{
	u32 most = READ_ONCE(peer->max_payload);

	return min(payload, most ? most : spray_mtu_payload(peer->v6, SPRAY_SAFE_MTU));
}

/* What a peer says of itself; once for each destination that it is to us. */
static void spray_hello_take(struct spray_peer *peer, const void *arg)
{
	const struct tp_hello *h = arg;

	WRITE_ONCE(peer->max_payload, max_t(u32, h->max_payload & ~7U, 256));
	WRITE_ONCE(peer->grants, !!(h->flags & TP_HELLO_CREDIT));
	WRITE_ONCE(peer->hello, SPRAY_HELLO_KNOWN);
}

static void spray_hello_compare(struct spray_dev *dev, const struct tp_hello *h)
{
	if (h->version != SPRAY_HELLO_VERSION || !!(h->flags & TP_HELLO_ICRC) != dev->icrc)
		spray_count(dev, peer_mode_mismatch);
}

void spray_hello_receive(struct spray_rx *rx, const u8 *pkt, u32 len)
{
	struct spray_peer *peer = NULL;
	struct spray_dev *dev;
	struct tp_hello h;

	/*
	 * The device stays while devs_lock is held; after that the peer keeps
	 * itself, and spray_net_leave() waits for this softirq before the
	 * device goes.
	 */
	spin_lock(&rx->sn->devs_lock);
	dev = spray_rx_dev(rx);
	if (!dev)
		;
	else if (!spray_peer_icrc_ok(rx, pkt, len - TP_ICRC_LEN))
		spray_count(dev, drop_icrc);
	else if (tp_wire_decode_hello(&h, pkt, len - TP_ICRC_LEN) < 0)
		spray_count(dev, drop_malformed);
	else {
		spray_hello_compare(dev, &h);
		peer = spray_peers_of_packet(dev, rx->skb, rx->v6, spray_hello_take, &h);
	}
	spin_unlock(&rx->sn->devs_lock);
	if (!peer)
		return;		/* nobody here talks to it yet: it will ask again */
	if (!h.reply)
		spray_hello_send(peer, true);
	spray_peer_put(peer);
}
