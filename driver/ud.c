// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * UD and GSI queue pairs: plain RoCEv2 datagrams, so that the kernel's CM,
 * rdma_cm and any RoCE peer understand them. A message is a packet; it is
 * complete when it was handed to the stack. Everything that does not fit at
 * the receiver (Q_Key, no receive, too long) is dropped and counted and leaves
 * the QP as it was.
 */
#include <linux/jhash.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "compat.h"
#include "copy.h"
#include "icrc.h"
#include "receive.h"

enum {
	SPRAY_GRH		= 40,		/* bytes in front of every UD receive */
	SPRAY_UD_BUDGET		= 256,		/* datagrams sent in a row */
	SPRAY_QKEY_OWN		= 1U << 31,	/* IBTA 10.2.5: use the QP's Q_Key */
	SPRAY_UD_HDR		= TP_BTH_LEN + TP_DETH_LEN + TP_IMM_LEN,
};

/* The destination of an entry, referenced. Kernel posters stored it so; users name an AH. */
static struct spray_peer *spray_ud_peer(struct spray_qp *qp, struct spray_sqe *sqe)
{
	struct spray_peer *peer;

	if (qp->ctl)
		return spray_ah_peer(qp->dev, qp->ib.pd, (u32)sqe->raddr);
	peer = (struct spray_peer *)(uintptr_t)sqe->raddr;
	sqe->raddr = 0;
	return peer;
}

static enum ib_wc_status spray_ud_gather(struct spray_qp *qp, struct spray_sqe *sqe, u8 *dst,
					 u32 len)
{
	struct spray_sge *sge = spray_sqe_sge(sqe);
	u32 i;

	if (sqe->flags & SPRAY_SQE_INLINE) {
		memcpy(dst, sqe + 1, len);
		return IB_WC_SUCCESS;
	}
	for (i = 0; i < sqe->num_sge; i++) {
		struct spray_mr *mr;

		if (!sge[i].length)
			continue;
		mr = spray_mr_get(qp->dev, qp->ib.pd, 0, sge[i].lkey, 0, sge[i].addr, sge[i].length);
		if (!mr)
			return IB_WC_LOC_PROT_ERR;
		spray_copy_out(mr, sge[i].addr, dst, sge[i].length);
		spray_mr_put(mr);
		dst += sge[i].length;
	}
	return IB_WC_SUCCESS;
}

__le32 spray_peer_icrc(const struct spray_peer *peer, u32 entropy, const u8 *pkt, u32 len)
{
	if (peer->v6)
		return spray_icrc_ud6(&peer->saddr6, &peer->daddr6, (u16)entropy, pkt, len);
	return spray_icrc_ud4(peer->saddr4, peer->daddr4, 0, htons(IP_DF), (u16)entropy, pkt, len);
}

static u32 spray_ud_encode(struct spray_qp *qp, struct spray_sqe *sqe, u32 len, u8 *pkt)
{
	struct tp_pkt p = {
		.kind = TP_UD,
		.first = true,
		.last = true,
		.has_imm = sqe->op == SPRAY_OP_SEND_IMM,
		.solicited = sqe->flags & SPRAY_SQE_SOLICITED,
		.pad = -len & 3,
		.pkey = 0xffff,
		.dqpn = sqe->remote_qpn & 0xffffff,
		.psn = qp->ud_psn++ & 0xffffff,
		.imm = be32_to_cpu((__force __be32)sqe->imm),
		.src_qpn = qp->ib.qp_num,
		.qkey = sqe->rkey & SPRAY_QKEY_OWN ? qp->qkey : sqe->rkey,
	};

	return tp_wire_encode(&p, pkt);
}

/*
 * Programs that build on UD expect what one path gives, and resend all that overtakes: so the
 * datagrams of one QP to another stay on one path, for a second. Then it is another one's turn,
 * lest they go on into a path that died: nobody acknowledges them.
 */
static u32 spray_ud_entropy(const struct spray_qp *qp, const struct spray_sqe *sqe,
			    const struct spray_peer *peer, u32 now_us)
{
	const struct tp_paths *g = &peer->paths;
	u32 n = max_t(u32, READ_ONCE(g->n), 1), i, k;

	k = jhash_2words(sqe->remote_qpn, now_us >> 20, qp->ack_rng) % n;
	for (i = 0; i < n; i++)
		if (tp_path_usable(&g->p[(k + i) % n]))
			return READ_ONCE(g->p[(k + i) % n].entropy);
	return READ_ONCE(g->p[k].entropy);
}

static enum ib_wc_status spray_ud_emit(struct spray_qp *qp, struct spray_sqe *sqe,
				       struct spray_peer *peer, u32 len)
{
	u32 now_us = (u32)div_u64(ktime_get_ns(), NSEC_PER_USEC);
	enum ib_wc_status st;
	struct spray_txb b;
	u32 entropy, n;
	__le32 icrc;
	u8 *p;

	if (spray_txb_begin(&b, qp->dev, READ_ONCE(qp->counted)))
		return IB_WC_SUCCESS;	/* a datagram may be lost */
	p = spray_txb_reserve(&b, SPRAY_UD_HDR + len + 3 + TP_ICRC_LEN);
	if (!p) {
		spray_txb_abort(&b);
		return IB_WC_SUCCESS;
	}
	n = spray_ud_encode(qp, sqe, len, p);
	st = spray_ud_gather(qp, sqe, p + n, len);
	if (st) {
		spray_txb_abort(&b);
		return st;
	}
	for (n += len; n & 3; n++)
		p[n] = 0;
	entropy = spray_ud_entropy(qp, sqe, peer, now_us);
	icrc = spray_peer_icrc(peer, entropy, p, n);
	memcpy(p + n, &icrc, sizeof(icrc));
	spray_txb_commit(&b, n + sizeof(icrc));
	spray_txb_xmit(&b, peer, entropy);
	return IB_WC_SUCCESS;
}

static enum ib_wc_status spray_ud_send(struct spray_qp *qp, struct spray_sqe *sqe,
				       struct spray_peer *peer)
{
	u64 len;

	if (!peer || sqe->op > SPRAY_OP_SEND_IMM)
		return IB_WC_LOC_QP_OP_ERR;
	if (sqe->flags & SPRAY_SQE_INLINE) {
		len = sqe->inline_len;
		if (len > qp->req.sq.max_inline)
			return IB_WC_LOC_QP_OP_ERR;
	} else if (sqe->num_sge > qp->req.sq.max_sge) {
		return IB_WC_LOC_QP_OP_ERR;
	} else {
		len = spray_sge_total(spray_sqe_sge(sqe), sqe->num_sge);
	}
	/* A RoCE peer may use a few more bytes of header than our own RC needs fewer: same bound. */
	if (len > spray_peer_payload(peer))
		return IB_WC_LOC_LEN_ERR;
	return spray_ud_emit(qp, sqe, peer, (u32)len);
}

/* What is ready, sent (or flushed) and completed in order; a softirq's worth of it, then the tasklet goes on. */
static void spray_ud_run(struct spray_qp *qp, bool flush)
{
	struct spray_wq *sq = &qp->req.sq;
	u32 avail = spray_sq_pull(qp), n;

	for (n = 0; sq->cons != avail; n++) {
		struct spray_sqe *sqe = spray_wq_slot(sq, sq->cons);
		enum ib_wc_status st = IB_WC_WR_FLUSH_ERR;
		struct spray_peer *peer;

		if (!flush && n == SPRAY_UD_BUDGET) {
			tasklet_schedule(&qp->task);
			return;
		}
		peer = spray_ud_peer(qp, sqe);

		if (!flush)
			st = spray_ud_send(qp, sqe, peer);
		spray_peer_put(peer);
		if (sqe->op >= SPRAY_OP_NUM || sqe->num_sge > sq->max_sge)
			sqe->num_sge = 0;
		spray_complete_send(qp, sq->cons, st);
	}
}

void spray_ud_pump(struct spray_qp *qp)
{
	lockdep_assert_held(&qp->req.lock);
	if (!qp->req.drain)
		spray_ud_run(qp, false);
}

void spray_flush_ud_sq(struct spray_qp *qp)
{
	lockdep_assert_held(&qp->req.lock);
	spray_ud_run(qp, true);
}

/* RESET: entries vanish without a completion, but not without their references. */
void spray_forget_ud_sq(struct spray_qp *qp)
{
	struct spray_wq *sq = &qp->req.sq;

	lockdep_assert_held(&qp->req.lock);
	if (qp->ctl)
		return;
	while (sq->cons != sq->avail)
		spray_peer_put(spray_ud_peer(qp, spray_wq_slot(sq, sq->cons++)));
}

/* --- receive --- */

/* Merged datagrams lost their IDs: they count up from the first one's, or are all alike. */
bool spray_peer_icrc_ok(struct spray_rx *rx, const u8 *pkt, u32 len)
{
	const struct iphdr *iph;
	__le32 got, want;

	memcpy(&got, pkt + len, sizeof(got));
	if (rx->v6) {
		const struct ipv6hdr *h = ipv6_hdr(rx->skb);

		return got == spray_icrc_ud6(&h->saddr, &h->daddr, rx->sport, pkt, len);
	}
	iph = ip_hdr(rx->skb);
	want = spray_icrc_ud4(iph->saddr, iph->daddr, iph->id, iph->frag_off, rx->sport, pkt, len);
	if (got == want || !rx->seg)
		return got == want;
	return got == spray_icrc_ud4(iph->saddr, iph->daddr, htons(ntohs(iph->id) + rx->seg),
				     iph->frag_off, rx->sport, pkt, len);
}

/* What verbs call the GRH: the IPv6 header, or 20 unused bytes and the IPv4 header. */
static void spray_ud_grh(struct spray_rx *rx, u32 udp_len, u8 *grh)
{
	memset(grh, 0, SPRAY_GRH);
	if (rx->v6) {
		struct ipv6hdr *h = (struct ipv6hdr *)grh;

		memcpy(h, ipv6_hdr(rx->skb), sizeof(*h));
		h->payload_len = htons(udp_len);
	} else {
		struct iphdr *h = (struct iphdr *)(grh + SPRAY_GRH - sizeof(*h));

		memcpy(h, ip_hdr(rx->skb), sizeof(*h));
		h->tot_len = htons(sizeof(*h) + udp_len);
	}
}

/* The CM looks a VLAN's addresses up by its number, too. */
static void spray_ud_vlan(struct spray_rx *rx, struct spray_cqe *c)
{
	struct net_device *in = dev_get_by_index_rcu(rx->sn->net, rx->skb->skb_iif);

	if (!in || !is_vlan_dev(in))
		return;
	c->vlan_id = vlan_dev_vlan_id(in);
	c->flags |= SPRAY_WC_VLAN;
}

static void spray_ud_deliver(struct spray_rx *rx, struct spray_qp *qp, const struct tp_pkt *p,
			     const u8 *data, u32 len, u32 udp_len)
{
	struct tp_resp *core = &qp->resp.core;
	struct spray_cqe c = {
		.byte_len = SPRAY_GRH + len,
		.src_qpn = p->src_qpn,
		.opcode = SPRAY_WC_RECV,
		.flags = SPRAY_WC_GRH | (rx->v6 ? SPRAY_WC_IPV6 : 0),
	};
	struct spray_rqe *rqe = spray_rq_get(qp, core->rqmsn);
	u8 grh[SPRAY_GRH];
	int err;

	if (!rqe) {
		spray_qp_count(qp, drop_ud_no_receive);
		return;
	}
	if (spray_sge_total(spray_rqe_sge(rqe), rqe->num_sge) < SPRAY_GRH + len) {
		spray_qp_count(qp, drop_ud_length);
		return;
	}
	spray_ud_grh(rx, udp_len, grh);
	err = spray_scatter(qp->dev, spray_recv_pd(qp), spray_rqe_sge(rqe), rqe->num_sge, 0, grh,
			    SPRAY_GRH, false);
	if (!err)
		err = spray_scatter(qp->dev, spray_recv_pd(qp), spray_rqe_sge(rqe), rqe->num_sge,
				    SPRAY_GRH, data, len, true);
	if (err)
		c.status = IB_WC_LOC_PROT_ERR;
	spray_ud_vlan(rx, &c);
	if (p->has_imm) {
		c.flags |= SPRAY_WC_WITH_IMM;
		c.ex = (__force u32)cpu_to_be32(p->imm);
	}
	core->rqmsn++;
	spray_complete_recv(qp, &c, p->solicited);
}

void spray_ud_receive(struct spray_rx *rx, struct spray_qp *qp, const u8 *pkt, u32 len)
{
	u32 body = len - TP_ICRC_LEN;
	struct tp_pkt p;
	int hdr = tp_wire_decode(&p, pkt, body);

	spray_qp_count(qp, rx_packets);
	spray_qp_count_n(qp, rx_bytes, len);
	if (!rx->seg)
		spray_qp_count(qp, rx_bursts);
	if (hdr < 0 || p.kind != TP_UD) {
		spray_qp_count(qp, drop_malformed);
		return;
	}
	if (!spray_peer_icrc_ok(rx, pkt, body)) {
		spray_qp_count(qp, drop_icrc);
		return;
	}
	spin_lock_bh(&qp->resp.lock);
	if (!qp->resp.live)
		spray_qp_count(qp, drop_qp_state);
	else if (p.qkey != qp->qkey)
		spray_qp_count(qp, drop_ud_qkey);
	else
		spray_ud_deliver(rx, qp, &p, pkt + hdr, body - hdr - p.pad,
				 len + sizeof(struct udphdr));
	spin_unlock_bh(&qp->resp.lock);
}
