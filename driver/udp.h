/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire: UDP sockets per network namespace, destinations (routes, paths),
 * and the builder of bursts. The only user of the socket and routing API.
 */
#ifndef SPRAY_UDP_H
#define SPRAY_UDP_H

#include <linux/skbuff.h>
#include <net/dst_cache.h>

#include "core/path.h"
#include "core/wire.h"
#include "dev.h"

/**
 * struct spray_net - what we have in one network namespace
 * @net: it
 * @users: devices that need the sockets; they are closed with the last
 * @devs: those devices
 * @devs_lock: leaf, bh: receivers look devices up
 * @draining4, @draining6: bit 0: a CPU is emptying that socket
 * @more: goes on where a drain used up its budget
 */
struct spray_net {
	struct net *net;
	struct socket *sock4, *sock6;
	u32 users;
	struct list_head devs;
	spinlock_t devs_lock;
	unsigned long draining4, draining6;
	struct tasklet_struct more;
};

/* Open the sockets (port from the module parameter) or join those who have. -EADDRINUSE if the port is taken. */
struct spray_net *spray_net_join(struct net *net, struct spray_dev *dev);
void spray_net_leave(struct spray_net *sn, struct spray_dev *dev);
int spray_udp_init(void);	/* per-net data, page pool */
void spray_udp_exit(void);

/**
 * struct spray_peer - a destination, shared by QPs and address handles
 * @paths: what is known of the paths there
 * @dst: routes, per CPU; always with oif = the GID's net_device
 * @hello: enum spray_hello_state
 * @hello_tries: questions asked
 * @hello_next: when the next is due, ns
 * @max_payload: bytes that the peer can take in a packet, 0 = it has not said
 * @grants: it said that it grants credit: QPs begin with that in mind, answers may tell them otherwise
 */
struct spray_peer {
	struct hlist_node node;
	refcount_t ref;
	struct spray_dev *dev;
	bool v6;
	u8 tos;			/* DSCP << 2 */
	u8 ttl;
	int ifindex;
	__be32 saddr4, daddr4;
	struct in6_addr saddr6, daddr6;
	struct dst_cache dst;
	u8 hello;
	bool grants;
	u32 hello_tries;
	u32 max_payload;
	u64 hello_next;
	u32 paths_told;		/* of paths.failed, counted */
	struct tp_paths paths;
};

enum spray_hello_state { SPRAY_HELLO_ASKING, SPRAY_HELLO_KNOWN, SPRAY_HELLO_SILENT };

/* Find or make the destination of @attr (RoCE GRH). May be called in atomic context with GFP_ATOMIC. */
struct spray_peer *spray_peer_get(struct spray_dev *dev, const struct rdma_ah_attr *attr, gfp_t gfp);
void spray_peer_put(struct spray_peer *peer);
/*
 * What destination a packet's sender is to this device: @fn for each one with
 * these addresses (they may differ in traffic class or hop limit), peers_lock
 * held. BH off. Return: one of them, referenced, or NULL.
 */
struct spray_peer *spray_peers_of_packet(struct spray_dev *dev, struct sk_buff *skb, bool v6,
					 void (*fn)(struct spray_peer *p, const void *arg),
					 const void *arg);

/* Payload bytes of a packet that fits @mtu, less all headers, multiple of 8. */
u32 spray_mtu_payload(bool v6, u32 mtu);
/* Payload bytes that fit a packet to @peer now: route MTU, less all headers, multiple of 8. BH off. */
u32 spray_peer_payload(struct spray_peer *peer);

/**
 * struct spray_txb - a burst under construction
 * Packets are reserved one after the other; each is contiguous in memory:
 * headers, payload, padding, ICRC.
 */
struct spray_txb {
	struct spray_dev *dev;
	struct spray_stats __percpu *counted;	/* of the QP's counter, or NULL */
	struct sk_buff *skb;
	struct page *page;	/* the last packet reserved lies there, or in the head if NULL */
	u32 page_off;
	u32 last_len;
	u32 seg_len;		/* UDP payload of the first packet */
	u32 segs;
};

/* BH off from begin to xmit or abort. Return: 0 or -ENOMEM. */
int spray_txb_begin(struct spray_txb *b, struct spray_dev *dev,
		    struct spray_stats __percpu *counted);
/* Room for a packet of @len bytes (UDP payload). NULL without memory. */
u8 *spray_txb_reserve(struct spray_txb *b, u32 len);
/* The packet last reserved becomes part of the burst, with @len bytes (<= reserved). */
void spray_txb_commit(struct spray_txb *b, u32 len);
/* Send it on the path of @entropy. Consumes the burst. Return: 0, or -errno if the stack refused. */
int spray_txb_xmit(struct spray_txb *b, struct spray_peer *peer, u32 entropy);
void spray_txb_abort(struct spray_txb *b);

extern ushort spray_port;	/* module parameter: UDP destination port */

#endif
