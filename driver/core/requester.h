/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester half of a QP: a send queue on top of the request space
 * (struct tp_tx), and the receive window of the response space. Decides when a
 * message may start (fence, read depth, RNR), orders overlapping WRITEs (C9),
 * and hands completions out in SQ order (C4).
 */
#ifndef TP_REQUESTER_H
#define TP_REQUESTER_H

#include "tx.h"
#include "window.h"

/* Outcome of a message. Numbers are ours; the shell has the one table to IB's. */
enum tp_status {
	TP_OK = 0,
	TP_LOC_LEN,
	TP_LOC_PROT,
	TP_LOC_QP_OP,
	TP_REM_INV_REQ,
	TP_REM_ACCESS,
	TP_REM_OP,
	TP_RETRY_EXC,
	TP_RNR_EXC,
	TP_LOC_KEY,		/* work on a key that can't be done */
	TP_FLUSH,
};

/**
 * struct tp_req - requester
 * @tx: request space
 * @rx: window of the response space
 * @rd_slot: op index of READ/ATOMIC number n at n % TP_RD_MAX (ATOMIC_WRITE and FLUSH are
 *	counted among them, here and below)
 * @rd_head: oldest READ/ATOMIC not complete
 * @rd_tail: number of the next to start
 * @max_rd: how many may be open, <= TP_RD_MAX
 * @prepared: messages before this one may start: fence, read depth, order and RQMSN are decided
 * @executed: messages before this one were executed by the peer
 * @next_rqmsn: of the next message that consumes a receive
 * @exec_msn: messages executed
 * @dead: enum tp_status that ended it, TP_OK while alive. From then on the
 *	message at the head gets it and all others TP_FLUSH.
 * @flush_all: even the head gets TP_FLUSH
 * @rnr_wait: the peer has no receive posted; nothing new is sent
 * @rnr_left: waits left before TP_RNR_EXC
 * @rnr_probe_id: oldest probe whose RNR NAK counts as another one
 * @rnr_until_ns: end of the wait
 * @timeout_ns: of the QP attribute, 0 = for ever
 * @wr_lo, @wr_hi: first and last byte of the open WRITEs' hull, for C9
 * @wr_open: WRITEs prepared and not executed
 */
enum {
	TP_RD_MAX	= 128,
	TP_OVERLAP_SCAN	= 64,	/* open messages looked at for C9; with more, a WRITE inside the hull is ordered */
};

struct tp_req {
	struct tp_tx tx;
	struct tp_rx rx;
	u32 rd_slot[TP_RD_MAX];
	u32 rd_head, rd_tail;
	u32 max_rd;
	u32 prepared;
	u32 executed;
	u32 next_rqmsn;
	u32 exec_msn;
	u8 dead;
	bool flush_all;
	bool rnr_wait;
	u8 retry_cnt;		/* 0..7 */
	u8 rnr_retry;		/* 0..7, 7 = for ever */
	u8 rnr_left;
	u16 rnr_probe_id;
	u64 rnr_until_ns;
	u64 timeout_ns;
	u64 wr_lo, wr_hi;
	u32 wr_open;
};

struct tp_req_attr {
	u32 dqpn, psn, rsp_psn, payload, max_rd;	/* psn: sq_psn; rsp_psn: first PSN of responses; 24 bits */
	u8 retry_cnt, rnr_retry;
	u64 timeout_ns;
};

void tp_req_init(struct tp_req *q, const struct tp_req_attr *at, struct tp_op *ops, u32 nops,
		 struct tp_paths *paths, u32 seed, u64 now);

/* Change of live attributes (timeout, retry_cnt, rnr_retry, max_rd). */
void tp_req_modify(struct tp_req *q, const struct tp_req_attr *at);

/**
 * tp_req_post() - add a message
 * Message indices ("ring index") count up without end; tp_tx_op() masks them.
 * The caller filled the op at ring index q->tx.tail & mask: kind, fence,
 * has_imm, solicited, payload, length, rkey, imm, raddr, swap_add, compare,
 * error. The rest is set here.
 */
void tp_req_post(struct tp_req *q, u64 now);

/**
 * tp_req_local_turn() - is it a local work's turn?
 * @op: ring index of it
 * Do it, then call tp_req_local_done() or, if it failed, tp_req_local_error(); ask again before
 * every burst. Return: false if there is none.
 */
bool tp_req_local_turn(const struct tp_req *q, u32 *op);
void tp_req_local_done(struct tp_req *q, u32 op);

/* As tp_tx_burst(), with the requester's rules. Nothing new while RNR-blocked or dead. */
bool tp_req_burst(struct tp_req *q, u64 now, u32 max_pkts, struct tp_burst *b);

/* Tail, persist, RNR or path probe due? As tp_tx_probe(). */
bool tp_req_probe(struct tp_req *q, u64 now, struct tp_pkt *p, u8 *ev);

/*
 * A local fault (bad lkey ...) in message @op: it fails at its turn, nothing of it or after it is
 * sent any more. In the middle of a burst: give what did not leave to tp_tx_dropped() as well.
 */
void tp_req_local_error(struct tp_req *q, u32 op, enum tp_status st);

/* An Acknowledge or SACK of the request space. Return: anything to do (completions, sending)? */
bool tp_req_ack(struct tp_req *q, u64 now, const struct tp_ack *a);

/**
 * tp_req_response() - classify a packet of the response space
 * @p: psn is extended on return
 * @op: ring index of its READ or ATOMIC
 * Checks that it names an open READ/ATOMIC, the kind agrees, offset and length
 * lie inside the message.
 * Return: TP_TAKE_* of responder.h.
 */
int tp_req_response(struct tp_req *q, struct tp_pkt *p, u32 len, u32 *op);

/* Is a held packet, whose turn has come, still for @op? */
bool tp_req_response_still(const struct tp_req *q, const struct tp_pkt *p, u32 len, u32 op);

/* Its bytes are placed or held (TP_TAKE_PLACE, TP_TAKE_HOLD): as tp_resp_commit(). */
void tp_req_response_commit(struct tp_req *q, const struct tp_pkt *p);

/* The packet at the executed point of the response space has run. */
void tp_req_response_executed(struct tp_req *q);

static inline bool tp_req_response_ready(const struct tp_req *q)
{
	return tp_rx_ready(&q->rx);
}

/* The answer due to the response space, if any. */
bool tp_req_take_ack(struct tp_req *q, struct tp_ack *a);

/* The last packet of that READ/ATOMIC was executed (its bytes are placed, in order). */
void tp_req_rd_done(struct tp_req *q, u32 op);

/**
 * tp_req_next_done() - next completion, in SQ order
 * @op: ring index of the message; its memory may be reused after the next call
 * @st: outcome
 * After the first status other than TP_OK q->dead is set: the QP must go to
 * ERR and every further message comes out as TP_FLUSH (call until false).
 * Return: false if none is complete.
 */
bool tp_req_next_done(struct tp_req *q, u32 *op, enum tp_status *st);

/* The QP goes to ERR for another reason: everything flushes. */
void tp_req_flush(struct tp_req *q);

u64 tp_req_deadline(const struct tp_req *q);
void tp_req_timeout(struct tp_req *q, u64 now);

/* IB timer code (0..31) to ns, IBTA table 46. */
u64 tp_rnr_timer_ns(u8 code);

#endif
