// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sending. The core says what leaves next and on which path; here it gets its
 * bytes. The pump of a half takes in new work, sends bursts while the core
 * gives any, hands out completions, and arms the half's timer at the core's
 * deadline. Nothing is kept of a packet but the core's record: a
 * retransmission reads the same memory again.
 *
 * Shortage of memory is never an error: a packet that could not be built was
 * recorded as sent and is found lost like any other.
 */
#include "compat.h"
#include "copy.h"
#include "hello.h"
#include "icrc.h"
#include "qp.h"

/* --- bytes of a request --- */

static bool spray_op_reads(u8 op)
{
	return op == SPRAY_OP_READ || op == SPRAY_OP_CAS || op == SPRAY_OP_FAA;
}

/*
 * READ and ATOMIC write into local memory: refuse before the request leaves, but no sooner: its key may
 * be the work of a REG_MR just before.
 */
static int spray_check_target(struct spray_qp *qp, struct spray_sqe *sqe)
{
	struct spray_sge *sge = spray_sqe_sge(sqe);
	u32 i;

	for (i = 0; i < sqe->num_sge; i++) {
		struct spray_mr *mr;

		if (!sge[i].length)
			continue;
		mr = spray_mr_get(qp->dev, qp->ib.pd, 0, sge[i].lkey, IB_ACCESS_LOCAL_WRITE,
				  sge[i].addr, sge[i].length);
		if (!mr)
			return -EFAULT;
		spray_mr_put(mr);
	}
	return 0;
}

static int spray_gather(struct spray_qp *qp, u32 op, u32 offset, u8 *dst, u32 len)
{
	struct spray_sqe *sqe = spray_wq_slot(&qp->req.sq, op);
	struct spray_sge *sge = spray_sqe_sge(sqe);
	struct spray_cursor *c = &qp->req.cur;

	if (spray_op_reads(sqe->op))
		return spray_check_target(qp, sqe);
	if (sqe->flags & SPRAY_SQE_INLINE) {
		memcpy(dst, (u8 *)(sqe + 1) + offset, len);
		return 0;
	}
	if (c->op != op || offset < c->base)
		*c = (struct spray_cursor) { .op = op };
	while (len) {
		struct spray_mr *mr;
		u32 skip, n;

		if (c->sge >= sqe->num_sge)
			return -EMSGSIZE;
		skip = offset - c->base;
		if (skip >= sge[c->sge].length) {
			c->base += sge[c->sge++].length;
			continue;
		}
		n = min(len, sge[c->sge].length - skip);
		mr = spray_mr_get(qp->dev, qp->ib.pd, 0, sge[c->sge].lkey, 0,
				  sge[c->sge].addr + skip, n);
		if (!mr)
			return -EFAULT;
		spray_copy_out(mr, sge[c->sge].addr + skip, dst, n);
		spray_mr_put(mr);
		dst += n;
		offset += n;
		len -= n;
	}
	return 0;
}

/* --- bytes of a response --- */

static int spray_gather_response(struct spray_qp *qp, u32 idx, u32 offset, u8 *dst, u32 len)
{
	struct tp_tx *tx = &qp->resp.core.tx;
	struct tp_op *op = &tx->ops[idx & tx->op_mask];
	struct spray_mr *mr;

	if (op->kind == TP_ATOMIC_DATA) {
		tp_put64(dst, op->swap_add);
		return 0;
	}
	if (!len)
		return 0;
	mr = spray_mr_get(qp->dev, qp->ib.pd, qp->ib.qp_num, op->rkey, IB_ACCESS_REMOTE_READ,
			  op->raddr + offset, len);
	if (!mr)
		return -EFAULT;
	spray_copy_out(mr, op->raddr + offset, dst, len);
	spray_mr_put(mr);
	return 0;
}

/* --- packets --- */

/* Padding and ICRC behind @len bytes of headers and payload. Return: length of it all. */
static u32 spray_finish_packet(struct spray_qp *qp, u32 seed, u8 *pkt, u32 len, u32 entropy)
{
	__le32 icrc = 0;

	while (len & 3)
		pkt[len++] = 0;
	if (qp->dev->icrc)
		icrc = spray_icrc_rc(seed, (u16)entropy, pkt, len);
	memcpy(pkt + len, &icrc, sizeof(icrc));
	return len + sizeof(icrc);
}

/* A packet that stands alone: probe or acknowledgement, @n bytes written by the caller. */
static int spray_send_lone(struct spray_qp *qp, u32 seed, const u8 *hdr, u32 n, u8 ev)
{
	u32 entropy = qp->peer->paths.p[ev].entropy;
	struct spray_txb b;
	u8 *p;

	if (spray_txb_begin(&b, qp->dev, READ_ONCE(qp->counted)))
		return -ENOMEM;
	p = spray_txb_reserve(&b, n + TP_ICRC_LEN + 4);
	if (!p) {
		spray_txb_abort(&b);
		return -ENOMEM;
	}
	memcpy(p, hdr, n);
	spray_txb_commit(&b, spray_finish_packet(qp, seed, p, n, entropy));
	return spray_txb_xmit(&b, qp->peer, entropy);
}

void spray_send_ack(struct spray_qp *qp, struct tp_ack *a)
{
	u32 now_us = (u32)div_u64(ktime_get_ns(), NSEC_PER_USEC);
	u8 buf[TP_MAX_ACK];
	u8 ev;

	if (!qp->peer)
		return;
	a->dqpn = qp->attr.dest_qp_num;
	ev = tp_path_pick_for_answer(&qp->peer->paths, &qp->ack_rng, now_us);
	spray_qp_count(qp, tx_acks);
	if (a->syndrome == TP_SYN_RNR)
		spray_qp_count(qp, tx_rnr_naks);
	else if (a->syndrome == TP_SYN_NAK)
		spray_qp_count(qp, tx_naks);
	spray_send_lone(qp, a->space == TP_REQUEST ? qp->seed_rsp_tx : qp->seed_req_tx, buf,
			tp_wire_encode_ack(a, buf), ev);
}

typedef int (*spray_gather_fn)(struct spray_qp *qp, u32 op, u32 offset, u8 *dst, u32 len);

/*
 * Build and send one burst. Return: 0; -EFAULT if message *@bad can't be read
 * (what came before it in the burst is sent).
 */
static int spray_send_burst(struct spray_qp *qp, struct tp_tx *tx, struct tp_burst *burst, u64 now,
			    spray_gather_fn gather, u32 *bad)
{
	u32 seed = tx->space == TP_REQUEST ? qp->seed_req_tx : qp->seed_rsp_tx;
	u32 first = burst->psn;
	struct spray_txb b;
	struct tp_out o;
	int err = 0;

	if (spray_txb_begin(&b, qp->dev, READ_ONCE(qp->counted))) {
		/* Nothing recorded yet: the core will offer it again, at the latest by its timer. */
		return -ENOMEM;
	}
	while (!err && tp_tx_next(tx, now, burst, &o)) {
		u32 hdr = tp_wire_hdr_len(&o.pkt);
		u8 *p = spray_txb_reserve(&b, hdr + o.len + 3 + TP_ICRC_LEN);

		if (!p) {
			/* recorded as sent: nobody's path is to blame for it */
			tp_tx_dropped(tx, burst, burst->psn - 1);
			err = -ENOMEM;
			break;
		}
		o.pkt.pkey = 0xffff;
		o.pkt.pad = -o.len & 3;
		tp_wire_encode(&o.pkt, p);
		err = gather(qp, o.op, o.offset, p + hdr, o.len);
		if (err) {
			*bad = o.op;
			break;
		}
		spray_txb_commit(&b, spray_finish_packet(qp, seed, p, hdr + o.len,
							 burst->entropy));
	}
	if (!b.segs)
		spray_txb_abort(&b);
	else if (spray_txb_xmit(&b, qp->peer, burst->entropy))
		tp_tx_dropped(tx, burst, first);
	return err;
}

/*
 * Give @tx the records that its packets in flight need; they come with the packets, and go when none
 * is left. The old ring stays where there is no memory: see tp_tx_records(). Return: more may be sent.
 */
static bool spray_fit_records(struct tp_tx *tx)
{
	u32 n = tp_tx_records(tx);
	bool more = n > tx->records;
	struct tp_sent *sent;

	if (likely(!n))
		return false;
	sent = kmalloc_array(n, sizeof(*sent), GFP_ATOMIC | __GFP_NOWARN);
	if (!sent)
		return false;
	kfree(tp_tx_use_records(tx, sent, n));
	return more;
}

static void spray_publish(struct spray_qp *qp, struct tp_tx *tx, struct spray_published *p)
{
	u32 failed = READ_ONCE(qp->peer->paths.failed), told = READ_ONCE(qp->peer->paths_told);

	if (likely(tx->c_rtx == p->rtx && tx->c_lost_ev == p->lost_ev &&
		   tx->c_lost_rack == p->lost_rack && tx->c_rto == p->rto &&
		   tx->c_starved == p->starved && failed == told))
		return;
	spray_qp_count_n(qp, retransmissions, tx->c_rtx - p->rtx);
	spray_qp_count_n(qp, lost_same_path, tx->c_lost_ev - p->lost_ev);
	spray_qp_count_n(qp, lost_rack, tx->c_lost_rack - p->lost_rack);
	spray_qp_count_n(qp, timeouts, tx->c_rto - p->rto);
	spray_qp_count_n(qp, tx_credit_waits, tx->c_starved - p->starved);
	*p = (struct spray_published) {
		.rtx = tx->c_rtx,
		.lost_ev = tx->c_lost_ev,
		.lost_rack = tx->c_lost_rack,
		.rto = tx->c_rto,
		.starved = tx->c_starved,
	};
	/* Paths are shared: whoever moves the mark counts. */
	if (failed != told && cmpxchg(&qp->peer->paths_told, told, failed) == told)
		spray_count_n(qp->dev, paths_failed, failed - told);
}

/* --- requester --- */

static const u8 spray_op_kind[SPRAY_OP_NUM] = {
	[SPRAY_OP_SEND]		= TP_SEND,
	[SPRAY_OP_SEND_IMM]	= TP_SEND,
	[SPRAY_OP_WRITE]	= TP_WRITE,
	[SPRAY_OP_WRITE_IMM]	= TP_WRITE,
	[SPRAY_OP_READ]		= TP_READ,
	[SPRAY_OP_CAS]		= TP_CAS,
	[SPRAY_OP_FAA]		= TP_FAA,
	[SPRAY_OP_SEND_INV]	= TP_SEND,
	[SPRAY_OP_LOCAL_INV]	= TP_NONE,
	[SPRAY_OP_BIND_MW]	= TP_NONE,
	[SPRAY_OP_REG_MR]	= TP_NONE,
	[SPRAY_OP_ATOMIC_WRITE]	= TP_ATOMIC_WRITE,
	[SPRAY_OP_FLUSH]	= TP_RDMA_FLUSH,
};

static_assert((int)SPRAY_FLUSH_GLOBAL == TP_FETH_GLOBAL);
static_assert((int)SPRAY_FLUSH_PERSISTENT == TP_FETH_PERSISTENT);
static_assert((int)SPRAY_FLUSH_MR == TP_FETH_MR);

/* Is there such work? Not that of kernel consumers for users, nor what this kernel's verbs lack. */
static bool spray_op_offered(const struct spray_qp *qp, u8 op)
{
	switch (op) {
	case SPRAY_OP_REG_MR:
		return !qp->ctl;
	case SPRAY_OP_ATOMIC_WRITE:
		return IB_DEVICE_ATOMIC_WRITE != 0;
	case SPRAY_OP_FLUSH:
		return IB_DEVICE_FLUSH_GLOBAL != 0;
	default:
		return op < SPRAY_OP_NUM;
	}
}

/* One word, no more and no less. */
static bool spray_op_is_word(u8 op)
{
	return op == SPRAY_OP_CAS || op == SPRAY_OP_FAA || op == SPRAY_OP_ATOMIC_WRITE;
}

/* Work without data: on keys, or a FLUSH. */
static u8 spray_check_dataless(struct spray_sqe *sqe, u64 *length)
{
	sqe->num_sge = 0;
	if (sqe->flags & SPRAY_SQE_INLINE)
		return TP_LOC_QP_OP;
	if (sqe->op != SPRAY_OP_FLUSH)
		return TP_OK;
	if (sqe->compare > U32_MAX || !tp_feth_valid((u32)sqe->compare))
		return TP_LOC_QP_OP;
	*length = sqe->compare & SPRAY_FLUSH_MR ? 0 : sqe->swap_add;
	return *length > SPRAY_MAX_MSG ? TP_LOC_LEN : TP_OK;
}

/* What a copied entry asks for, checked. Return: enum tp_status. */
static u8 spray_check_sqe(struct spray_qp *qp, struct spray_sqe *sqe, u64 *length)
{
	struct spray_wq *sq = &qp->req.sq;

	if (!spray_op_offered(qp, sqe->op))
		return TP_LOC_QP_OP;
	if (spray_op_kind[sqe->op] == TP_NONE || sqe->op == SPRAY_OP_FLUSH)
		return spray_check_dataless(sqe, length);
	if (sqe->flags & SPRAY_SQE_INLINE) {
		*length = sqe->inline_len;
		if (sqe->inline_len > sq->max_inline || spray_op_reads(sqe->op))
			return TP_LOC_QP_OP;
	} else {
		if (sqe->num_sge > sq->max_sge)
			return TP_LOC_QP_OP;
		*length = spray_sge_total(spray_sqe_sge(sqe), sqe->num_sge);
	}
	if (*length > SPRAY_MAX_MSG || (spray_op_is_word(sqe->op) && *length != 8))
		return TP_LOC_LEN;
	return TP_OK;
}

static void spray_take_sqe(struct spray_qp *qp, u64 now)
{
	struct tp_tx *tx = &qp->req.core.tx;
	struct spray_sqe *sqe = spray_wq_slot(&qp->req.sq, tx->tail);
	struct tp_op *op = &tx->ops[tx->tail & tx->op_mask];
	u64 length = 0;

	memset(op, 0, sizeof(*op));
	op->error = spray_check_sqe(qp, sqe, &length);
	if (op->error) {
		/* Our copy is made harmless for whoever looks at it when it completes. */
		sqe->num_sge = 0;
		length = 0;
	}
	op->kind = sqe->op < SPRAY_OP_NUM ? spray_op_kind[sqe->op] : TP_SEND;
	op->undone = op->kind == TP_NONE;
	op->after_all = sqe->op == SPRAY_OP_LOCAL_INV;	/* work under way may use the key */
	op->fence = sqe->flags & SPRAY_SQE_FENCE;
	op->solicited = sqe->flags & SPRAY_SQE_SOLICITED;
	op->has_imm = sqe->op == SPRAY_OP_SEND_IMM || sqe->op == SPRAY_OP_WRITE_IMM;
	op->has_inv = sqe->op == SPRAY_OP_SEND_INV;
	op->imm = op->has_imm ? be32_to_cpu((__force __be32)sqe->imm) : sqe->imm;
	if (op->kind == TP_RDMA_FLUSH)
		op->imm = (u32)sqe->compare;
	op->payload = qp->req.payload;
	op->length = (u32)length;
	op->rkey = sqe->rkey;
	op->raddr = sqe->raddr;
	op->swap_add = sqe->swap_add;
	op->compare = sqe->compare;
	tp_req_post(&qp->req.core, now);
}

/* Completions that are due. Return: how many. */
static u32 spray_reap(struct spray_qp *qp)
{
	enum tp_status st;
	u32 idx, n = 0;

	while (tp_req_next_done(&qp->req.core, &idx, &st)) {
		/* Who sees the error must find the QP in ERR; spray_qp_settle() does the rest. */
		if (st != TP_OK && !qp->req.flushing)
			spray_req_set_err(qp);
		spray_complete_send(qp, idx, spray_wc_status(st));
		n++;
	}
	return n;
}

static void spray_send_probe(struct spray_qp *qp, u32 seed, struct tp_pkt *p, u8 ev)
{
	u8 buf[TP_MAX_HDR];

	p->pkey = 0xffff;
	spray_qp_count(qp, tx_probes);
	spray_send_lone(qp, seed, buf, tp_wire_encode(p, buf), ev);
}

static void spray_send_probes(struct spray_qp *qp, u64 now)
{
	struct tp_pkt p;
	u8 ev;

	while (tp_req_probe(&qp->req.core, now, &p, &ev))
		spray_send_probe(qp, qp->seed_req_tx, &p, ev);
}

/* Work on keys: it is its turn. Return: 0 or -errno. */
static int spray_local_work(struct spray_qp *qp, const struct spray_sqe *sqe)
{
	struct spray_bind b = {
		.key = sqe->rkey,
		.lkey = sqe->remote_qpn,
		.access = (int)sqe->compare,
		.qpn = qp->ib.qp_num,
		.addr = sqe->raddr,
		.length = sqe->swap_add,
	};

	switch (sqe->op) {
	case SPRAY_OP_REG_MR:
		return spray_mr_register(qp->dev, qp->ib.pd, b.key, b.access, b.addr, b.length);
	case SPRAY_OP_BIND_MW:
		return spray_mr_bind(qp->dev, qp->ib.pd, &b);
	default:
		return spray_mr_invalidate(qp->dev, qp->ib.pd, 0, b.key);
	}
}

static void spray_run_local(struct spray_qp *qp)
{
	struct tp_req *core = &qp->req.core;
	u32 op;

	while (tp_req_local_turn(core, &op)) {
		if (spray_local_work(qp, spray_wq_slot(&qp->req.sq, op)))
			tp_req_local_error(core, op, TP_LOC_KEY);
		else
			tp_req_local_done(core, op);
	}
}

/* The next burst; work on keys that comes before it is done. */
static bool spray_next_burst(struct spray_qp *qp, u64 now, struct tp_burst *b)
{
	spray_run_local(qp);
	return tp_req_burst(&qp->req.core, now, qp->max_pkts, b);
}

static void spray_send_requests(struct spray_qp *qp, u64 now)
{
	struct tp_req *core = &qp->req.core;
	struct tp_burst b;
	u32 bad;
	int err;

	do {
		while (spray_next_burst(qp, now, &b)) {
			err = spray_send_burst(qp, &core->tx, &b, now, spray_gather, &bad);
			if (err == -ENOMEM)
				break;
			if (err)
				tp_req_local_error(core, bad, TP_LOC_PROT);
		}
	} while (spray_fit_records(&core->tx));
	spray_send_probes(qp, now);
}

void __spray_req_pump(struct spray_qp *qp)
{
	struct spray_req *r = &qp->req;
	u64 now = ktime_get_ns();
	u32 avail;

	lockdep_assert_held(&r->lock);
	if (!r->live && !r->flushing)
		return;
	avail = spray_sq_pull(qp);
	if (r->live) {
		spray_hello_poll(qp->peer, now);
		r->payload = spray_hello_payload(qp->peer, qp->payload);
	}
	if (!r->drain || r->flushing)
		while (r->core.tx.tail != avail)
			spray_take_sqe(qp, now);
	spray_reap(qp);
	do {
		if (r->live)
			spray_send_requests(qp, now);
	} while (spray_reap(qp));
	if (!r->live)
		return;
	spray_publish(qp, &r->core.tx, &r->published);
	spray_timer_arm(&r->timer, tp_req_deadline(&r->core));
}

void spray_req_pump(struct spray_qp *qp)
{
	spin_lock_bh(&qp->req.lock);
	if (!qp->ud)
		__spray_req_pump(qp);
	else if (qp->req.live)
		spray_ud_pump(qp);
	else if (qp->req.flushing)
		spray_flush_ud_sq(qp);
	spin_unlock_bh(&qp->req.lock);
}

enum hrtimer_restart spray_req_timer(struct hrtimer *t)
{
	struct spray_qp *qp = container_of(t, struct spray_qp, req.timer.t);

	spray_jitter();
	spin_lock_bh(&qp->req.lock);
	qp->req.timer.armed = ~0ULL;
	if (qp->req.live) {
		tp_req_timeout(&qp->req.core, ktime_get_ns());
		__spray_req_pump(qp);
	}
	spin_unlock_bh(&qp->req.lock);
	spray_qp_settle(qp);
	return HRTIMER_NORESTART;
}

/* --- responder --- */

static void spray_send_response_probes(struct spray_qp *qp, u64 now)
{
	struct tp_tx *tx = &qp->resp.core.tx;
	struct tp_pkt p;
	u8 ev;

	while (tp_tx_probe(tx, now, &p, &ev) || tp_tx_path_probe(tx, now, &p, &ev))
		spray_send_probe(qp, qp->seed_rsp_tx, &p, ev);
}

/* Between READs, most of the time: nothing of this space waits, is under way or to be asked, no ring is to shrink. */
static bool spray_resp_idle(const struct tp_tx *tx)
{
	return tx->head == tx->tail && tx->una == tx->nxt && !tx->probe_wanted && !tp_tx_records(tx);
}

void __spray_resp_pump(struct spray_qp *qp)
{
	struct spray_resp *r = &qp->resp;
	struct tp_burst b;
	u64 now;
	u32 bad;
	int err;

	lockdep_assert_held(&r->lock);
	if (!r->live || !r->core.has_tx || r->failed || spray_resp_idle(&r->core.tx))
		return;
	now = ktime_get_ns();
	spray_hello_poll(qp->peer, now);
	do {
		while (tp_tx_burst(&r->core.tx, now, qp->max_pkts, r->core.tx.tail, &b)) {
			err = spray_send_burst(qp, &r->core.tx, &b, now, spray_gather_response, &bad);
			if (err == -ENOMEM)
				break;
			if (err && tp_tx_unreadable(&r->core.tx, &b)) {
				/* The memory went away between READ and (re)sending it: nothing else is left. */
				spray_resp_fail(qp, TP_NAK_REM_OP, IB_EVENT_QP_ACCESS_ERR, true);
				return;
			}
		}
	} while (spray_fit_records(&r->core.tx));
	spray_send_response_probes(qp, now);
	spray_publish(qp, &r->core.tx, &r->published);
	spray_timer_arm(&r->timer, tp_tx_deadline(&r->core.tx));
}

/*
 * The response space has no end of patience: whether the peer still lives is
 * for the peer's requester to find out; its silence ends with our QP's ERR,
 * RESET or destruction. Retransmission is bounded by back-off.
 */
enum hrtimer_restart spray_resp_timer(struct hrtimer *t)
{
	struct spray_qp *qp = container_of(t, struct spray_qp, resp.timer.t);

	spray_jitter();
	spin_lock_bh(&qp->resp.lock);
	qp->resp.timer.armed = ~0ULL;
	if (qp->resp.live && qp->resp.core.has_tx) {
		u64 now = ktime_get_ns();

		tp_tx_timeout(&qp->resp.core.tx, now);
		/* A NAK waits for responses that are owed, but not for a peer that is gone. */
		if (qp->resp.nak && now - max(qp->resp.nak_at, qp->resp.core.tx.last_progress_ns) >
				    SPRAY_NAK_WAIT_NS)
			spray_resp_fail(qp, qp->resp.nak - 1, qp->resp.nak_event, true);
		__spray_resp_pump(qp);
	}
	spin_unlock_bh(&qp->resp.lock);
	spray_qp_settle(qp);
	return HRTIMER_NORESTART;
}
