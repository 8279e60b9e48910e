// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The responder: which packet may be placed now, which waits for its turn, and
 * what the peer is told. The contract's rules, and where they live:
 *
 *  C1  exactly once		a PSN is taken once: window.c; nothing after a NAK
 *  C2  tail last		a last packet runs at the executed point only
 *  C5  READ, ATOMIC and their	as C2: they are their own last packet. So all that
 *      like in turn		came before a FLUSH is placed when it runs
 *  C6  errors have a place	what breaks the rules is held like a tail, fails at its turn
 *  C9  last writer wins	an ordered packet waits until its message is the next
 *
 * Order of numbers: the PSN decides whether a packet is old, new or foreign.
 * Only of a new one are MSN and RQMSN (16 bits on the wire) looked at: it is
 * less than a window from the executed point, so they can be extended without
 * doubt. They never decide about duplicates.
 */
#include "responder.h"

enum {
	CREDITS_UNKNOWN	= 31,
	CREDITS_MAX	= 30,		/* means 32768 */
};

/* tp_extend16() needs numbers within 2^15 of the expected ones. */
_Static_assert(TP_WINDOW < 32768, "window too large for 16 bit message numbers");

/* What a QP costs (tests/sim/README.md has the sum): let nothing grow unseen. */
_Static_assert(sizeof(struct tp_sent) == 8, "a record per packet of the window");
_Static_assert(sizeof(struct tp_op) <= 72, "one per work request");
_Static_assert(sizeof(struct tp_rx) <= 160, "two per QP");
_Static_assert(sizeof(struct tp_tx) <= 448, "two per QP");
_Static_assert(sizeof(struct tp_resp) <= 640, "one per QP");

void tp_resp_init(struct tp_resp *r, const struct tp_resp_attr *at)
{
	memset(r, 0, sizeof(*r));
	tp_rx_init(&r->rx, at->psn);
	r->max_dest_rd = at->max_dest_rd;
	r->rnr_timer = at->rnr_timer;
}

void tp_resp_start_tx(struct tp_resp *r, u32 dqpn, u32 psn, struct tp_op *ops, u32 nops,
		      u32 payload, struct tp_paths *paths, u32 seed, u64 now)
{
	tp_tx_init(&r->tx, TP_RESPONSE, dqpn, ops, nops, psn, payload, paths, seed, now);
	r->has_tx = true;
}

static bool is_request(u8 kind)
{
	return kind >= TP_SEND && kind <= TP_RDMA_FLUSH;
}

static bool takes_receive(const struct tp_pkt *p)
{
	return p->kind == TP_SEND || (p->kind == TP_WRITE && p->has_imm);
}

/* Between two packets there can't be more messages than packets. */
static bool number_fits(u32 number, u32 expected, u32 packets)
{
	return number - expected <= packets;
}

/* SEND: the payload lies where its place in the message says. */
static bool send_fits(const struct tp_pkt *p, u32 len)
{
	u64 end = p->va + len;

	if (p->va > p->dma_len || end > p->dma_len)
		return false;
	return (p->va == 0) == p->first && (end == p->dma_len) == p->last;
}

/* WRITE: only the first and the last packet tell where the message begins; nobody wraps. */
static bool write_fits(const struct tp_pkt *p, u32 len)
{
	if (p->first && p->last)
		return len == p->dma_len;
	return len < p->dma_len && p->va + len > p->va;
}

/* Could this packet be part of a correct request stream? */
static bool is_sane(const struct tp_resp *r, const struct tp_pkt *p, u32 len)
{
	u32 ahead = p->psn - r->rx.exec;

	if (!number_fits(p->msn, r->msn, ahead))
		return false;
	if (takes_receive(p) && !number_fits(p->rqmsn, r->rqmsn, ahead))
		return false;
	if (!len && p->dma_len && !tp_kind_answered(p->kind))
		return false;
	switch (p->kind) {
	case TP_SEND:
		return send_fits(p, len);
	case TP_WRITE:
		return write_fits(p, len);
	case TP_ATOMIC_WRITE:
		return p->first && p->last && len == 8 && p->dma_len == 8;
	case TP_RDMA_FLUSH:
		return p->first && p->last && tp_feth_valid(p->imm);
	default:
		return p->first && p->last;	/* READ, ATOMIC: one packet each */
	}
}

/* May the bytes of this packet be placed before its turn? */
static bool may_place(const struct tp_resp *r, const struct tp_pkt *p)
{
	if (p->last)				/* C2, C5 */
		return false;
	if (p->ordered && p->msn != r->msn)	/* C9 */
		return false;
	return true;
}

/*
 * A packet that can't be right becomes TP_NONE, which never passes
 * tp_resp_turn(): it fails at its turn, not before (C6).
 */
enum tp_take tp_resp_check(struct tp_resp *r, struct tp_pkt *p, u32 len)
{
	if (!is_request(p->kind))
		return TP_TAKE_BAD;
	switch (tp_rx_check(&r->rx, p->psn, &p->psn)) {
	case TP_OUTSIDE:
		return TP_TAKE_OUTSIDE;
	case TP_DUP:				/* C1; our answer may have been lost */
		r->rx.dup = true;
		r->rx.ack_wanted = true;
		return TP_TAKE_DUP;
	case TP_NEW:
		break;
	}
	if (r->syndrome == TP_SYN_NAK) {	/* C1: nothing after the end; say so again */
		tp_resp_ignore(r, p);
		return TP_TAKE_OUTSIDE;
	}
	p->msn = tp_extend16(p->msn, r->msn);
	p->rqmsn = tp_extend16(p->rqmsn, r->rqmsn);
	if (!is_sane(r, p, len))
		p->kind = TP_NONE;
	else if (may_place(r, p))
		return TP_TAKE_PLACE;
	return p->psn == r->rx.exec ? TP_TAKE_TURN : TP_TAKE_HOLD;
}

void tp_resp_commit(struct tp_resp *r, const struct tp_pkt *p)
{
	tp_rx_commit(&r->rx, p->psn);
}

bool tp_resp_turn(const struct tp_resp *r, const struct tp_pkt *p)
{
	if (!is_request(p->kind) || p->psn != r->rx.exec || p->msn != r->msn)
		return false;
	return !takes_receive(p) || p->rqmsn == r->rqmsn;
}

void tp_resp_executed(struct tp_resp *r, const struct tp_pkt *p, bool consumed)
{
	/* A packet run straight from the wire (TP_TAKE_TURN) has not been committed. */
	if (!tp_rx_ready(&r->rx))
		tp_rx_commit(&r->rx, r->rx.exec);
	tp_rx_executed(&r->rx);
	r->msn += p && p->last;
	r->rqmsn += consumed;
}

void tp_resp_rnr(struct tp_resp *r)
{
	if (r->syndrome == TP_SYN_NAK)
		return;
	r->syndrome = TP_SYN_RNR;
	r->value = r->rnr_timer;
	r->rx.ack_wanted = true;
}

void tp_resp_unblock(struct tp_resp *r)
{
	if (r->syndrome == TP_SYN_RNR)
		r->syndrome = TP_SYN_ACK;
}

/*
 * After the request that failed nothing runs, but while its NAK waits for responses owed (C6) the peer
 * must see that we live: whatever it has in flight is received, or its patience with us would end first.
 */
void tp_resp_ignore(struct tp_resp *r, const struct tp_pkt *p)
{
	u32 psn;

	if (tp_rx_check(&r->rx, p->psn, &psn) == TP_NEW)
		tp_rx_commit(&r->rx, psn);
	r->rx.ack_wanted = true;
}

/* The first failure is the one that is told. */
void tp_resp_nak(struct tp_resp *r, enum tp_nak nak)
{
	if (r->syndrome == TP_SYN_NAK)
		return;
	r->syndrome = TP_SYN_NAK;
	r->value = (u8)nak;
	r->rx.ack_wanted = true;
}

/*
 * What is answered says how many of its like are complete at the peer: the
 * request itself acknowledges those responses, lost SACKs or not.
 * Return: false if one of them was not even sent, or more are open than may be.
 */
static bool retire_implied(struct tp_resp *r, u32 done, u64 now)
{
	struct tp_tx *t = &r->tx;
	struct tp_ack a = {
		.space = TP_RESPONSE,
		.value = CREDITS_UNKNOWN,
		.credited = t->credited,	/* of that the request says nothing */
		.credit = t->credit_limit / TP_CREDIT_UNIT,
	};
	const struct tp_op *op;

	if (tp_diff(done, t->head) > 0) {
		op = &t->ops[(done - 1) & t->op_mask];
		if (tp_diff(done, t->started) > 0 || tp_before(t->nxt, op->first_psn + op->npkts))
			return false;
		a.exec_psn = op->first_psn + op->npkts;
		a.cum_psn = tp_before(a.exec_psn, t->una) ? t->una : a.exec_psn;
		tp_resp_ack(r, now, &a);
	}
	return t->tail - t->head < r->max_dest_rd;
}

bool tp_resp_read(struct tp_resp *r, const struct tp_pkt *p, u32 payload, u64 now, struct tp_op **o)
{
	struct tp_tx *t = &r->tx;
	struct tp_op *op;
	bool atomic = tp_kind_atomic(p->kind);
	u32 length = atomic || p->kind == TP_READ ? p->dma_len : 0;

	if (!r->has_tx || !r->max_dest_rd || !tp_kind_answered(p->kind) ||
	    !retire_implied(r, tp_extend16(p->rqmsn, r->rd_no), now))
		return false;
	op = &t->ops[t->tail & t->op_mask];
	*op = (struct tp_op) {
		.kind = atomic ? TP_ATOMIC_DATA : TP_READ_DATA,
		.payload = payload,
		.length = length,
		.wire_len = length,
		.npkts = max_t(u32, 1, length / payload + !!(length % payload)),
		.msn = r->rd_no,
		.rqmsn = r->rd_no,
		.rkey = p->rkey,
		.raddr = p->va,
		.swap_add = p->swap_add,
		.compare = p->compare,
	};
	if (t->head == t->tail)
		tp_tx_wake(t, now);	/* silence counts from here */
	t->tail++;
	r->rd_no++;
	*o = op;
	return true;
}

/* The AETH credit code (IBTA table 44): two codes per power of two, the largest not above @n. */
static u8 credit_code(u32 n)
{
	u32 e = 0;

	if (n < 2)
		return (u8)n;
	while (n >> (e + 1))
		e++;
	return (u8)min_t(u32, 2 * e + (n >> (e - 1) & 1), CREDITS_MAX);
}

bool tp_resp_take_ack(struct tp_resp *r, s32 credits, struct tp_ack *a)
{
	if (!tp_rx_take_ack(&r->rx, TP_REQUEST, a))
		return false;
	a->exec_msn = r->msn;
	if (r->syndrome == TP_SYN_ACK || (r->syndrome == TP_SYN_NAK && tp_resp_owes(r))) {
		a->syndrome = TP_SYN_ACK;
		a->value = credits < 0 ? CREDITS_UNKNOWN : credit_code((u32)credits);
	} else {
		a->syndrome = r->syndrome;
		a->value = r->value;
	}
	return true;
}

/* The last response that arrives releases a NAK that waited for it (C6). */
bool tp_resp_ack(struct tp_resp *r, u64 now, const struct tp_ack *a)
{
	struct tp_tx *t = &r->tx;
	bool owed = tp_resp_owes(r);
	bool news;

	if (!r->has_tx)
		return false;
	news = tp_tx_ack(t, now, a);
	while (t->head != t->started && tp_tx_op_executed(t, &t->ops[t->head & t->op_mask]))
		t->head++;
	if (owed && !tp_resp_owes(r) && r->syndrome == TP_SYN_NAK)
		r->rx.ack_wanted = true;
	return news;
}
