/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder half of a QP: the receive window of the request space, what
 * must be held back and when its turn comes, and the response space on which
 * READ data and ATOMIC results go back, and that an ATOMIC_WRITE or FLUSH is done.
 *
 * A packet is placed at once unless the contract holds it back: the last
 * packet of a message (C2), an ordered WRITE whose message is not next (C9), a
 * READ, ATOMIC, ATOMIC_WRITE or FLUSH (C5), SEND data for which no receive is posted. Those are
 * held by the shell, keyed by PSN, and run when the executed point reaches them:
 *
 *   tp_resp_check()  -> TP_TAKE_PLACE   place now, then tp_resp_commit()
 *                       TP_TAKE_HOLD    keep, then tp_resp_commit()
 *                       TP_TAKE_TURN    it is at the executed point: run it now
 *                       TP_TAKE_DUP/OUTSIDE/BAD  drop (answer DUP with an ack)
 *   after TURN or any commit, while tp_resp_ready(): run the packet at
 *   exec (held, or placed already: nothing to run), then tp_resp_executed().
 *
 * A packet that was meant to be placed early but can't be (bad key, no
 * receive) is held instead and fails, if it still must, at its turn (C6).
 */
#ifndef TP_RESPONDER_H
#define TP_RESPONDER_H

#include "requester.h"

enum tp_take {
	TP_TAKE_PLACE,
	TP_TAKE_HOLD,
	TP_TAKE_TURN,
	TP_TAKE_DUP,
	TP_TAKE_OUTSIDE,
	TP_TAKE_BAD,
};

/**
 * struct tp_resp - responder
 * @rx: window of the request space
 * @msn: messages executed so far = number of the next one
 * @rqmsn: receives consumed so far = number of the next one
 * @rd_no: READs, ATOMICs, ATOMIC_WRITEs and FLUSHes executed
 * @rd_mask: ring of response messages, @rd_mask + 1 >= max_dest_rd_atomic
 * @tx: response space (ops are READ_DATA/ATOMIC_DATA); only once @has_tx
 * @syndrome, @value: what blocks the executed point (RNR) or ended it (NAK); TP_SYN_ACK otherwise
 */
struct tp_resp {
	struct tp_rx rx;
	u32 msn, rqmsn, rd_no;
	u32 max_dest_rd;
	bool has_tx;
	u8 syndrome, value;
	u8 rnr_timer;		/* IB code 0..31 for RNR NAKs */
	struct tp_tx tx;
};

struct tp_resp_attr {
	u32 psn;		/* expected first PSN (rq_psn), 24 bits */
	u32 max_dest_rd;
	u8 rnr_timer;
};

void tp_resp_init(struct tp_resp *r, const struct tp_resp_attr *at);

/*
 * Start the response space. @psn: the requester's first PSN (our rq_psn, its sq_psn): all that a
 * responder in RTR knows, and there it must answer already.
 */
void tp_resp_start_tx(struct tp_resp *r, u32 dqpn, u32 psn, struct tp_op *ops, u32 nops,
		      u32 payload, struct tp_paths *paths, u32 seed, u64 now);

/**
 * tp_resp_check() - what to do with a request packet; before a NAK it changes nothing but the wish to answer
 * @p: psn, msn, rqmsn are extended on return
 * @len: bytes of payload
 *
 * A packet that no correct peer sends (numbers, offset or length that can't be) becomes
 * p->kind == TP_NONE: it is held as it is, and tp_resp_turn() refuses it at its turn (C6).
 * After a NAK every new packet is TP_TAKE_OUTSIDE, and the answer repeats the NAK.
 */
enum tp_take tp_resp_check(struct tp_resp *r, struct tp_pkt *p, u32 len);

/* Its bytes are placed or held. */
void tp_resp_commit(struct tp_resp *r, const struct tp_pkt *p);

static inline bool tp_resp_ready(const struct tp_resp *r)
{
	return r->syndrome != TP_SYN_NAK && tp_rx_ready(&r->rx);
}

/**
 * tp_resp_turn() - may this packet, now at the executed point, run?
 * Checks message and receive numbers against the expected ones.
 * Return: false: protocol violation, NAK it as an invalid request.
 */
bool tp_resp_turn(const struct tp_resp *r, const struct tp_pkt *p);

/**
 * tp_resp_executed() - the packet at the executed point has run
 * It need not have been committed (TP_TAKE_TURN).
 * @p: it, or NULL for one that was placed early (never a last packet)
 * @consumed: it consumed a receive (last packet of SEND, WRITE with immediate)
 */
void tp_resp_executed(struct tp_resp *r, const struct tp_pkt *p, bool consumed);

/* The executed point is blocked: no receive. Answers are RNR NAKs until tp_resp_unblock(). */
void tp_resp_rnr(struct tp_resp *r);
void tp_resp_unblock(struct tp_resp *r);

/* The packet at the executed point fails for good: answers are this NAK from now on. */
void tp_resp_nak(struct tp_resp *r, enum tp_nak nak);

/* The packet that failed, or one after it: never run, but received. */
void tp_resp_ignore(struct tp_resp *r, const struct tp_pkt *p);

/**
 * tp_resp_read() - the READ, ATOMIC, ATOMIC_WRITE or FLUSH at the executed point becomes a
 * response message (READ data without a byte for the last two)
 * @o: on return the op, filled (kind, msn, rqmsn = rd_no, raddr, rkey, length ...);
 *	for an ATOMIC the shell sets swap_add = the value found
 * @p->rqmsn implies which responses have arrived.
 * Return: false if the peer has more open than it may (invalid request).
 */
bool tp_resp_read(struct tp_resp *r, const struct tp_pkt *p, u32 payload, u64 now, struct tp_op **o);

/**
 * tp_resp_take_ack() - the answer that is due, if any
 * @credits: receives posted and unused, for the AETH credit; -1 = do not say
 */
bool tp_resp_take_ack(struct tp_resp *r, s32 credits, struct tp_ack *a);

/*
 * Responses not yet known to be received. While there are any, a NAK that is due waits: everything
 * before the failing request must complete normally (C6), and the QP leaves RTS with the NAK.
 */
static inline bool tp_resp_owes(const struct tp_resp *r)
{
	return r->has_tx && r->tx.head != r->tx.tail;
}

/* An acknowledgement of the response space: as tp_tx_ack(), and retires responses that have arrived. */
bool tp_resp_ack(struct tp_resp *r, u64 now, const struct tp_ack *a);

#endif
