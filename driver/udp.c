// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sockets, routes and bursts.
 *
 * Receiving: a plain kernel UDP socket with UDP_GRO set, because only such a
 * socket is handed whole super-packets; sk_data_ready drains it where it is
 * called, in softirq. One CPU at a time drains a socket (the draining bit), so
 * that packets of one path stay in order, which loss detection builds on.
 *
 * Sending: a burst is one UDP GSO super-packet. Its packets lie one after the
 * other in per-CPU recycled pages (or in the skb's head when small): headers,
 * payload and ICRC of a packet are contiguous, so that one pass writes them.
 */
#include <linux/module.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_cache.h>

#include "compat.h"
#include "icrc.h"
#include "receive.h"
#include "udp.h"

enum {
	SPRAY_RCVBUF		= 32 << 20,	/* bytes of truesize: some hundred super-packets */
	SPRAY_DRAIN_MAX		= 32,		/* bursts that one softirq takes in a row */
	SPRAY_HEAD		= 384,		/* bytes of packets kept in the skb's head */
	SPRAY_HEADROOM		= LL_MAX_HEADER + sizeof(struct ipv6hdr) + sizeof(struct udphdr),
	SPRAY_HEAD_SIZE		= SKB_DATA_ALIGN(SPRAY_HEADROOM + SPRAY_HEAD) +
				  SKB_DATA_ALIGN(sizeof(struct skb_shared_info)),
	SPRAY_POOL_PAGES	= 64,		/* 2 MiB a CPU (4 with pages of 64 KiB): a full window and more in flight */
	SPRAY_POOL_ORDER	= PAGE_SHIFT < 15 ? 15 - PAGE_SHIFT : 0,	/* 32 KiB, if a page is less */
	SPRAY_MIN_PAYLOAD	= 256,
	SPRAY_MAX_PAYLOAD	= 8192,		/* bytes; several packets fit one pool page */
};

static unsigned int spray_net_id __read_mostly;
static DEFINE_MUTEX(spray_net_mutex);	/* joining and leaving; nests inside nothing of ours */

/* Sending pages of one CPU, used with BH off only. */
struct spray_pool {
	struct page *page[SPRAY_POOL_PAGES];
	u32 cur;
	u32 off;
};

static DEFINE_PER_CPU(struct spray_pool, spray_pool);

/* --- sockets --- */

static bool spray_sock_empty(struct sock *sk)
{
	/* The first queue is the reader's own, refilled from the second. */
	return skb_queue_empty_lockless(&udp_sk(sk)->reader_queue) &&
	       skb_queue_empty_lockless(&sk->sk_receive_queue);
}

/*
 * Empty a socket, up to a budget. Whoever finds the bit set leaves: the holder
 * looks at the queue once more after clearing it. Enqueue happens before
 * test_and_set (a full barrier), clear_bit + smp_mb before that look: one of
 * the two sees the packet.
 */
static void spray_drain(struct sock *sk, struct spray_net *sn, unsigned long *draining)
{
	u32 budget = SPRAY_DRAIN_MAX;
	struct spray_rx rx;
	struct sk_buff *skb;
	int err;

	do {
		if (test_and_set_bit(0, draining))
			return;
		spray_rx_begin(&rx, sn);
		while (budget && !spray_sock_empty(sk)) {
			skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
			if (!skb)
				break;
			spray_rx_burst(&rx, skb);
			budget--;
		}
		spray_rx_end(&rx);
		spray_jitter();
		smp_mb__before_atomic();
		clear_bit(0, draining);
		smp_mb__after_atomic();
		if (!budget) {	/* let others have the CPU; the tasklet looks at the queue */
			tasklet_schedule(&sn->more);
			return;
		}
	} while (!spray_sock_empty(sk));
}

/* RCU: spray_sock_close() waits for it as for any receiver. */
static void spray_drain_more(struct tasklet_struct *t)
{
	struct spray_net *sn = from_tasklet(sn, t, more);
	struct socket *s4, *s6;

	rcu_read_lock();
	s4 = READ_ONCE(sn->sock4);
	s6 = READ_ONCE(sn->sock6);
	if (s4)
		spray_drain(s4->sk, sn, &sn->draining4);
	if (s6)
		spray_drain(s6->sk, sn, &sn->draining6);
	rcu_read_unlock();
}

static void spray_data_ready(struct sock *sk)
{
	struct spray_net *sn;

	rcu_read_lock();
	sn = rcu_dereference_sk_user_data(sk);
	if (sn)
		spray_drain(sk, sn, sk->sk_family == AF_INET ? &sn->draining4 : &sn->draining6);
	rcu_read_unlock();
}

static struct socket *spray_sock_open(struct spray_net *sn, int family)
{
	struct udp_port_cfg cfg = {
		.family = family,
		.local_udp_port = htons(spray_port),
		.ipv6_v6only = family == AF_INET6,
	};
	struct socket *sock;
	int on = 1, err;

	err = udp_sock_create(sn->net, &cfg, &sock);
	if (err)
		return ERR_PTR(err);
	err = sock->ops->setsockopt(sock, SOL_UDP, UDP_GRO, KERNEL_SOCKPTR(&on), sizeof(on));
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}
	sock_set_rcvbuf(sock->sk, SPRAY_RCVBUF / 2);
#ifdef CONFIG_NET_RX_BUSY_POLL
	WRITE_ONCE(sock->sk->sk_ll_usec, 0);	/* we are polled from softirq: never poll a NAPI there */
#endif
	write_lock_bh(&sock->sk->sk_callback_lock);
	rcu_assign_sk_user_data(sock->sk, sn);
	sock->sk->sk_data_ready = spray_data_ready;
	write_unlock_bh(&sock->sk->sk_callback_lock);
	return sock;
}

static void spray_sock_close(struct socket *sock)
{
	if (!sock)
		return;
	write_lock_bh(&sock->sk->sk_callback_lock);
	rcu_assign_sk_user_data(sock->sk, NULL);
	write_unlock_bh(&sock->sk->sk_callback_lock);
	/* A drainer is in softirq, inside RCU: after this none is left that knows @sn. */
	synchronize_net();
	sock_release(sock);
}

static int spray_net_open(struct spray_net *sn)
{
	struct socket *s = spray_sock_open(sn, AF_INET), *sock4;

	if (IS_ERR(s))
		return PTR_ERR(s);
	sn->sock4 = s;
	s = spray_sock_open(sn, AF_INET6);
	if (IS_ERR(s)) {
		/* A kernel or namespace without IPv6 still has IPv4. */
		if (PTR_ERR(s) != -EADDRINUSE)
			return 0;
		sock4 = sn->sock4;
		WRITE_ONCE(sn->sock4, NULL);
		spray_sock_close(sock4);
		return PTR_ERR(s);
	}
	sn->sock6 = s;
	return 0;
}

struct spray_net *spray_net_join(struct net *net, struct spray_dev *dev)
{
	struct spray_net *sn = net_generic(net, spray_net_id);
	int err = 0;

	mutex_lock(&spray_net_mutex);
	if (!sn->users)
		err = spray_net_open(sn);
	if (!err) {
		sn->users++;
		spin_lock_bh(&sn->devs_lock);
		list_add_tail(&dev->link, &sn->devs);
		spin_unlock_bh(&sn->devs_lock);
	}
	mutex_unlock(&spray_net_mutex);
	return err ? ERR_PTR(err) : sn;
}

void spray_net_leave(struct spray_net *sn, struct spray_dev *dev)
{
	struct socket *s4 = NULL, *s6 = NULL;

	mutex_lock(&spray_net_mutex);
	spin_lock_bh(&sn->devs_lock);
	list_del_init(&dev->link);
	spin_unlock_bh(&sn->devs_lock);
	if (!--sn->users) {
		s4 = sn->sock4;
		s6 = sn->sock6;
		WRITE_ONCE(sn->sock4, NULL);
		WRITE_ONCE(sn->sock6, NULL);
		spray_sock_close(s4);
		spray_sock_close(s6);
		tasklet_kill(&sn->more);
	} else {
		synchronize_net();	/* receivers that found the device have left it */
	}
	mutex_unlock(&spray_net_mutex);
}

static int __net_init spray_net_init(struct net *net)
{
	struct spray_net *sn = net_generic(net, spray_net_id);

	sn->net = net;
	INIT_LIST_HEAD(&sn->devs);
	spin_lock_init(&sn->devs_lock);
	tasklet_setup(&sn->more, spray_drain_more);
	return 0;
}

/*
 * Ours is a pernet *device* operation registered after that of the core network
 * code, so it runs before the namespace's net_devices go and before ib_core's.
 */
static void __net_exit spray_net_exit(struct net *net)
{
	struct spray_net *sn = net_generic(net, spray_net_id);

	spray_dev_net_exit(net);
	WARN_ON_ONCE(sn->users);
}

static struct pernet_operations spray_net_ops = {
	.init = spray_net_init,
	.exit = spray_net_exit,
	.id = &spray_net_id,
	.size = sizeof(struct spray_net),
};

int spray_udp_init(void)
{
	return register_pernet_device(&spray_net_ops);
}

void spray_udp_exit(void)
{
	int cpu, i;

	unregister_pernet_device(&spray_net_ops);
	for_each_possible_cpu(cpu) {
		struct spray_pool *pool = per_cpu_ptr(&spray_pool, cpu);

		for (i = 0; i < SPRAY_POOL_PAGES; i++)
			if (pool->page[i])
				put_page(pool->page[i]);
	}
}

/* --- destinations --- */

static u32 spray_peer_hash(const struct spray_peer *p)
{
	return p->v6 ? ipv6_addr_hash(&p->daddr6) : (__force u32)p->daddr4;
}

static bool spray_peer_same(const struct spray_peer *a, const struct spray_peer *b)
{
	if (a->v6 != b->v6 || a->tos != b->tos || a->ttl != b->ttl || a->ifindex != b->ifindex)
		return false;
	if (a->v6)
		return ipv6_addr_equal(&a->saddr6, &b->saddr6) &&
		       ipv6_addr_equal(&a->daddr6, &b->daddr6);
	return a->saddr4 == b->saddr4 && a->daddr4 == b->daddr4;
}

/* Fill the key fields from an address vector. */
static int spray_peer_key(struct spray_peer *p, struct spray_dev *dev,
			  const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	const struct ib_gid_attr *sgid = grh->sgid_attr;
	struct net_device *ndev;

	if (!sgid || sgid->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return -EINVAL;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(sgid);
	p->ifindex = IS_ERR(ndev) ? 0 : ndev->ifindex;
	rcu_read_unlock();
	if (!p->ifindex)
		return -ENODEV;
	p->dev = dev;
	p->tos = grh->traffic_class & ~3;
	p->ttl = grh->hop_limit ?: 64;
	p->v6 = !ipv6_addr_v4mapped((const struct in6_addr *)&sgid->gid);
	if (p->v6 == ipv6_addr_v4mapped((const struct in6_addr *)&grh->dgid))
		return -EINVAL;
	if (p->v6) {
		memcpy(&p->saddr6, &sgid->gid, sizeof(p->saddr6));
		memcpy(&p->daddr6, &grh->dgid, sizeof(p->daddr6));
		if (ipv6_addr_is_multicast(&p->daddr6))
			return -EINVAL;
	} else {
		memcpy(&p->saddr4, sgid->gid.raw + 12, 4);
		memcpy(&p->daddr4, grh->dgid.raw + 12, 4);
		if (ipv4_is_multicast(p->daddr4) || ipv4_is_lbcast(p->daddr4) ||
		    ipv4_is_zeronet(p->daddr4))
			return -EINVAL;
	}
	return 0;
}

static struct spray_peer *spray_peer_find(struct spray_dev *dev, const struct spray_peer *key,
					  u32 hash)
{
	struct spray_peer *p;

	lockdep_assert_held(&dev->peers_lock);
	hash_for_each_possible(dev->peers, p, node, hash)
		if (spray_peer_same(p, key) && refcount_inc_not_zero(&p->ref))
			return p;
	return NULL;
}

struct spray_peer *spray_peer_get(struct spray_dev *dev, const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct spray_peer *p, *old;
	unsigned long flags;
	u32 hash;
	int err;

	p = kzalloc(sizeof(*p), gfp);
	if (!p)
		return ERR_PTR(-ENOMEM);
	err = spray_peer_key(p, dev, attr);
	if (!err)
		err = dst_cache_init(&p->dst, gfp);
	if (err) {
		kfree(p);
		return ERR_PTR(err);
	}
	refcount_set(&p->ref, 1);
	tp_paths_init(&p->paths, TP_PATHS, get_random_u64());
	hash = spray_peer_hash(p);

	spin_lock_irqsave(&dev->peers_lock, flags);
	old = spray_peer_find(dev, p, hash);
	if (!old)
		hash_add(dev->peers, &p->node, hash);
	spin_unlock_irqrestore(&dev->peers_lock, flags);
	if (!old)
		return p;
	dst_cache_destroy(&p->dst);
	kfree(p);
	return old;
}

void spray_peer_put(struct spray_peer *p)
{
	unsigned long flags;

	if (!p || !refcount_dec_and_test(&p->ref))
		return;
	/* No new reference from here on (inc_not_zero); all users held one. */
	spray_jitter();
	spin_lock_irqsave(&p->dev->peers_lock, flags);
	hash_del(&p->node);
	spin_unlock_irqrestore(&p->dev->peers_lock, flags);
	dst_cache_destroy(&p->dst);
	kfree(p);
}

static bool spray_peer_sent(const struct spray_peer *p, const struct sk_buff *skb, bool v6)
{
	if (p->v6 != v6)
		return false;
	if (v6)
		return ipv6_addr_equal(&p->daddr6, &ipv6_hdr(skb)->saddr) &&
		       ipv6_addr_equal(&p->saddr6, &ipv6_hdr(skb)->daddr);
	return p->daddr4 == ip_hdr(skb)->saddr && p->saddr4 == ip_hdr(skb)->daddr;
}

struct spray_peer *spray_peers_of_packet(struct spray_dev *dev, struct sk_buff *skb, bool v6,
					 void (*fn)(struct spray_peer *p, const void *arg),
					 const void *arg)
{
	u32 hash = v6 ? ipv6_addr_hash(&ipv6_hdr(skb)->saddr) : (__force u32)ip_hdr(skb)->saddr;
	struct spray_peer *p, *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&dev->peers_lock, flags);
	hash_for_each_possible(dev->peers, p, node, hash) {
		if (!spray_peer_sent(p, skb, v6))
			continue;
		fn(p, arg);
		if (!found && refcount_inc_not_zero(&p->ref))
			found = p;
	}
	spin_unlock_irqrestore(&dev->peers_lock, flags);
	return found;
}

static struct dst_entry *spray_route4(struct spray_peer *p)
{
	struct flowi4 fl = {
		.daddr = p->daddr4,
		.saddr = p->saddr4,
		.flowi4_oif = p->ifindex,
		.flowi4_proto = IPPROTO_UDP,
		.fl4_dport = htons(spray_port),
	};
	struct dst_entry *dst;
	struct rtable *rt;
	__be32 saddr;

	dst = dst_cache_get(&p->dst);
	if (dst)
		return dst;
	spray_flowi4_set_tos(&fl, p->tos);
	rt = ip_route_output_key(p->dev->sn->net, &fl);
	if (IS_ERR(rt))
		return NULL;
	if (rt->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(rt);
		return NULL;
	}
	saddr = p->saddr4;
	dst_cache_set_ip4(&p->dst, &rt->dst, saddr);
	return &rt->dst;
}

static struct dst_entry *spray_route6(struct spray_peer *p)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl = {
		.daddr = p->daddr6,
		.saddr = p->saddr6,
		.flowi6_oif = p->ifindex,
		.flowi6_proto = IPPROTO_UDP,
		.fl6_dport = htons(spray_port),
	};
	/* Closed after an RCU grace period: there until this softirq ends. Others have a device that is linked. */
	struct socket *sock = READ_ONCE(p->dev->sn->sock6);
	struct dst_entry *dst;

	dst = dst_cache_get(&p->dst);
	if (dst)
		return dst;
	if (!sock)
		return NULL;
	dst = ip6_dst_lookup_flow(p->dev->sn->net, sock->sk, &fl, NULL);
	if (IS_ERR(dst))
		return NULL;
	dst_cache_set_ip6(&p->dst, dst, &p->saddr6);
	return dst;
#else
	return NULL;
#endif
}

static struct dst_entry *spray_route(struct spray_peer *p)
{
	return p->v6 ? spray_route6(p) : spray_route4(p);
}

u32 spray_mtu_payload(bool v6, u32 mtu)
{
	u32 over = (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
		   sizeof(struct udphdr) + TP_DATA_OVERHEAD;

	if (mtu < over + SPRAY_MIN_PAYLOAD)
		return SPRAY_MIN_PAYLOAD;
	return min_t(u32, mtu - over, SPRAY_MAX_PAYLOAD) & ~7U;
}

u32 spray_peer_payload(struct spray_peer *p)
{
	struct dst_entry *dst = spray_route(p);
	u32 mtu = READ_ONCE(p->dev->ndev->mtu);

	if (dst) {
		mtu = dst_mtu(dst);
		dst_release(dst);
	}
	return spray_mtu_payload(p->v6, mtu);
}

/* --- bursts --- */

static bool spray_page_idle(struct page *page)
{
	return page && page_ref_count(page) == 1 && !page_is_pfmemalloc(page);
}

/* Memory is in pieces: any page of this CPU's pool with nothing in flight on it. Return: it, or NULL. */
static struct page *spray_pool_find(struct spray_pool *pool)
{
	u32 i;

	for (i = 0; i < SPRAY_POOL_PAGES; i++) {
		if (!spray_page_idle(pool->page[i]))
			continue;
		pool->cur = i;
		pool->off = 0;
		return pool->page[i];
	}
	return NULL;
}

/* The next page of this CPU's pool with nothing in flight on it, or a fresh one. */
static struct page *spray_pool_advance(struct spray_pool *pool)
{
	u32 next = (pool->cur + 1) % SPRAY_POOL_PAGES;

	if (!spray_page_idle(pool->page[next])) {
		struct page *fresh = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN |
						 __GFP_NORETRY, SPRAY_POOL_ORDER);

		if (!fresh)
			return spray_pool_find(pool);
		if (pool->page[next])
			put_page(pool->page[next]);
		pool->page[next] = fresh;
	}
	pool->cur = next;
	pool->off = 0;
	return pool->page[next];
}

/* The page of this CPU's pool that has @len bytes left at pool->off. BH off. */
static struct page *spray_pool_page(struct spray_pool *pool, u32 len)
{
	struct page *page = pool->page[pool->cur];

	if (page && pool->off + len <= PAGE_SIZE << SPRAY_POOL_ORDER)
		return page;
	return spray_pool_advance(pool);
}

/*
 * An skb whose head lies in the pool: recycled memory need not be zeroed (as
 * init_on_alloc does with every fresh head), and slab is left in peace.
 */
static struct sk_buff *spray_pool_skb(void)
{
	struct spray_pool *pool = this_cpu_ptr(&spray_pool);
	struct sk_buff *skb;
	struct page *page;

	pool->off = SKB_DATA_ALIGN(pool->off);
	page = spray_pool_page(pool, SPRAY_HEAD_SIZE);
	if (!page)	/* an answer needs no more than this */
		return alloc_skb(SPRAY_HEADROOM + SPRAY_HEAD, GFP_ATOMIC | __GFP_NOWARN);
	skb = build_skb(page_address(page) + pool->off, SPRAY_HEAD_SIZE);
	if (!skb)
		return NULL;
	get_page(page);		/* dropped when the head is freed */
	pool->off += SPRAY_HEAD_SIZE;
	return skb;
}

int spray_txb_begin(struct spray_txb *b, struct spray_dev *dev,
		    struct spray_stats __percpu *counted)
{
	b->dev = dev;
	b->counted = counted;
	b->page = NULL;
	b->segs = 0;
	b->seg_len = 0;
	b->skb = spray_pool_skb();
	if (!b->skb) {
		spray_count_two_n(dev, counted, tx_no_memory, 1);
		return -ENOMEM;
	}
	skb_reserve(b->skb, SPRAY_HEADROOM);
	return 0;
}

u8 *spray_txb_reserve(struct spray_txb *b, u32 len)
{
	struct spray_pool *pool = this_cpu_ptr(&spray_pool);
	struct page *page;

	if (!skb_shinfo(b->skb)->nr_frags && b->skb->len + len <= SPRAY_HEAD) {
		b->page = NULL;
		return skb_tail_pointer(b->skb);
	}
	page = spray_pool_page(pool, len);
	if (!page) {
		spray_count_two_n(b->dev, b->counted, tx_no_memory, 1);
		return NULL;
	}
	b->page = page;
	b->page_off = pool->off;
	return (u8 *)page_address(page) + pool->off;
}

void spray_txb_commit(struct spray_txb *b, u32 len)
{
	struct sk_buff *skb = b->skb;
	int n = skb_shinfo(skb)->nr_frags;

	if (!b->page) {
		skb_put(skb, len);
	} else {
		if (n && skb_can_coalesce(skb, n, b->page, b->page_off)) {
			skb_frag_size_add(&skb_shinfo(skb)->frags[n - 1], len);
		} else {
			get_page(b->page);
			skb_fill_page_desc(skb, n, b->page, b->page_off, len);
		}
		skb->len += len;
		skb->data_len += len;
		skb->truesize += len;
		this_cpu_ptr(&spray_pool)->off += len;
	}
	if (!b->segs++)
		b->seg_len = len;
}

static void spray_push_udp(struct sk_buff *skb, const struct spray_txb *b, u32 entropy)
{
	struct udphdr *uh = __skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	uh->source = htons((u16)entropy);
	uh->dest = htons(spray_port);
	uh->len = htons(skb->len);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	if (b->segs > 1) {
		skb_shinfo(skb)->gso_size = b->seg_len;
		skb_shinfo(skb)->gso_segs = b->segs;
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	}
}

static int spray_out4(struct sk_buff *skb, struct spray_peer *p)
{
	struct net *net = p->dev->sn->net;
	struct iphdr *iph;

	udp_hdr(skb)->check = ~csum_tcpudp_magic(p->saddr4, p->daddr4, skb->len, IPPROTO_UDP, 0);
	iph = __skb_push(skb, sizeof(*iph));
	skb_reset_network_header(skb);
	memset(iph, 0, sizeof(*iph));
	iph->version = 4;
	iph->ihl = sizeof(*iph) >> 2;
	iph->tos = p->tos | INET_ECN_ECT_0;
	iph->frag_off = htons(IP_DF);	/* ID 0: an atomic datagram, RFC 6864 */
	iph->ttl = p->ttl;
	iph->protocol = IPPROTO_UDP;
	iph->saddr = p->saddr4;
	iph->daddr = p->daddr4;
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	skb->protocol = htons(ETH_P_IP);
	return ip_local_out(net, NULL, skb);
}

static int spray_out6(struct sk_buff *skb, struct spray_peer *p, u32 entropy)
{
#if IS_ENABLED(CONFIG_IPV6)
	u32 len = skb->len;
	struct ipv6hdr *ip6h;

	udp_hdr(skb)->check = ~csum_ipv6_magic(&p->saddr6, &p->daddr6, len, IPPROTO_UDP, 0);
	ip6h = __skb_push(skb, sizeof(*ip6h));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip6h, p->tos | INET_ECN_ECT_0, htonl(entropy >> 16));
	ip6h->payload_len = htons(len);
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = p->ttl;
	ip6h->saddr = p->saddr6;
	ip6h->daddr = p->daddr6;
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	skb->protocol = htons(ETH_P_IPV6);
	return ip6_local_out(p->dev->sn->net, NULL, skb);
#else
	kfree_skb(skb);
	return -EAFNOSUPPORT;
#endif
}

int spray_txb_xmit(struct spray_txb *b, struct spray_peer *p, u32 entropy)
{
	struct dst_entry *dst = spray_route(p);
	struct sk_buff *skb = b->skb;
	int err;

	if (!dst) {
		spray_count_two_n(b->dev, b->counted, tx_no_route, 1);
		spray_txb_abort(b);
		return -EHOSTUNREACH;
	}
	spray_count_two_n(b->dev, b->counted, tx_packets, b->segs);
	spray_count_two_n(b->dev, b->counted, tx_bytes, skb->len);
	spray_count_two_n(b->dev, b->counted, tx_bursts, 1);
	skb_dst_set(skb, dst);
	skb->ignore_df = 0;
	spray_push_udp(skb, b, entropy);
	err = p->v6 ? spray_out6(skb, p, entropy) : spray_out4(skb, p);
	if (err > 0)
		err = net_xmit_errno(err);
	if (err)
		spray_count_two_n(b->dev, b->counted, tx_local_drops, 1);
	return err;
}

void spray_txb_abort(struct spray_txb *b)
{
	kfree_skb(b->skb);
	b->skb = NULL;
}
