/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sending side of one packet space: messages in, bursts of packets out,
 * acknowledgements in. A QP has one for requests, and one for responses once a
 * READ or ATOMIC was used. It numbers packets, remembers what is in flight,
 * finds losses, chooses paths and keeps the congestion window.
 *
 *        una                nxt              right edge
 *   ......|..s..L..s.........|................|
 *   known   s = known received   not sent yet
 *   received L = lost, to be sent again
 *
 * Messages (struct tp_op) sit in a ring that the caller gave, as many as the
 * send queue is deep:   head .. started .. tail.  A message gets its PSNs when
 * its first packet leaves; packet size is fixed then and for its whole life.
 *
 * Loss, in order of speed:
 *  1. Same EV (one hashed path is first in, first out): a packet is lost once
 *     a later-sent packet of the same EV was received. Order of sending is
 *     (stamp, PSN).
 *  2. Any EV, after RACK (RFC 8985): a packet is lost once something was received
 *     that was sent later by what the slowest path needs. No clock decides this:
 *     neither a host that pauses nor acks that come back over a slow path can
 *     make it wrong. If nothing is sent at that time, a probe is.
 *  3. Tail probe: about 2 x RTT of silence -> a probe; its answer counts as a
 *     packet received for rules 1 and 2. So it follows the oldest missing packet
 *     on its EV, and if more are missing, others follow those; if nothing is
 *     heard, one more takes an EV at random, lest those be dead.
 *     The same probe, with back-off, is the persist timer of everything that is
 *     received but not executed.
 *  4. RTO, once two probes in a row stayed unanswered: everything not received
 *     is sent again, window at its minimum, doubled.
 */
#ifndef TP_TX_H
#define TP_TX_H

#include "cc.h"
#include "credit.h"
#include "path.h"
#include "seq.h"
#include "window.h"
#include "wire.h"

/**
 * struct tp_op - one message of a send queue
 * @kind: TP_SEND ... TP_ATOMIC_DATA; TP_NONE for local work (no packet, no MSN)
 * @undone: local work that was not done yet: nothing behind it starts
 * @after_all: local work that waits until all before it is complete
 * @fence: not before earlier READs and ATOMICs of the queue are complete
 * @ordered: C9, decided once when the message starts
 * @rd_done: READ, ATOMIC: all of the response is here (set through tp_req_rd_done())
 * @error: fails locally at its turn with this enum tp_status
 * @payload: bytes per packet; the last may have fewer
 * @length: bytes of the message
 * @wire_len: bytes of it that travel in this space (0 for READ, ATOMIC and FLUSH requests)
 * @first_psn: valid once started
 * @npkts: packets in this space, at least 1 (0 for local work)
 */
struct tp_op {
	u8 kind;
	bool undone;
	bool after_all;
	bool fence;
	bool has_imm;
	bool has_inv;
	bool solicited;
	bool ordered;
	bool rd_done;
	u8 error;
	u32 payload;
	u32 length;
	u32 wire_len;
	u32 first_psn;
	u32 npkts;
	u32 msn;
	u32 rqmsn;
	u32 rkey;
	u32 imm;
	u64 raddr;
	u64 swap_add;
	u64 compare;
};

/* Record of a packet in flight, at index PSN & (tp_tx.records - 1). */
struct tp_sent {
	u32 stamp;	/* us, strictly increasing from burst to burst */
	u8 ev;
	u8 flags;	/* TP_SENT_* */
	u16 bytes;	/* on the wire, for the window; saturates */
};

enum {
	TP_SENT_RECEIVED	= 1 << 0,
	TP_SENT_LOST		= 1 << 1,	/* waits to be sent again */
	TP_SENT_RTX		= 1 << 2,	/* was sent more than once: no RTT sample */
	TP_SENT_HEAD		= 1 << 3,	/* first of its burst: once received, its EV is free */
	TP_SENT_OVERTAKEN	= 1 << 4,	/* a later packet of its EV was received */
};

enum {
	TP_DELAYS	= 16,		/* power of two */
	TP_PROBE_ID	= 0x7fff,	/* mask of the ids of probes that count */
	TP_PROBES	= 4,		/* at one time; power of two */
	TP_VAIN		= 3,		/* waits: the one before the first probe, and those of two probes */
};

enum { TP_BURST_MAX = 32 };

/**
 * struct tp_tx - see the head of the file
 * @space: TP_REQUEST or TP_RESPONSE
 * @mpr: latest window the peer told of, in units of 128 PSNs
 * @rto_backoff: doublings of the RTO since the last sign of life
 * @probe_backoff: probes since the last progress, hence doublings of their interval
 * @silent: probes since anything was heard
 * @vain: waits of the probe timer since the last progress, whatever was answered; those before the
 *	clock jumped do not count
 * @rounds: times since the last progress that the oldest missing packet was sent again
 * @reo: how much this fabric reorders inside a path: 0 not at all; else rules 1 and 2 wait
 *	longer, doubling with each step
 * @reo_good: retransmissions that were needed since @reo moved
 * @q_pos: where the next entry of @q_us goes
 * @again, @nagain: EVs of bursts that were heard: to be used again, the oldest first
 * @probe_id: of the last probe
 * @probe_ev, @probe_stamp, @probes_open: the last TP_PROBES ones, at id % TP_PROBES; a bit for each
 *	that waits for its answer
 * @probe_wanted: tp_tx_probe() will give at least one
 * @asked: EVs that a probe of this round went to
 * @asks: how many
 * @doubt: TP_DOUBT_*, about the packet @doubt_psn, whose bytes can't be read again
 * @doubt_id: first probe whose answer settles it
 * @credited: the peer grants credit; else @credit_limit has no meaning
 * @starved: new data wait for credit, and were counted
 * @credit_used, @credit_limit: bytes sent, and allowed, as credit.h counts them
 * @limited: the last attempt to send was stopped by the congestion window
 * @more: it was stopped for want of records
 * @hold_new: nothing new is sent, only retransmissions (RNR)
 * @halted: nothing at or after PSN @halt_psn is ever sent (again)
 * @payload_hint: typical bytes of payload per packet
 * @ops: ring of messages, @op_mask + 1 of them, a power of two; index & op_mask
 * @head: oldest message not retired
 * @started: first message that has no PSN yet; the one before it may be partly sent
 * @tail: one past the newest message
 * @una: oldest PSN not known to be received
 * @exec: PSN executed by the peer, @exec <= @una <= @nxt <= @wnd_end <= @exec + TP_WINDOW
 * @nxt: next new PSN to be sent
 * @wnd_end: right edge (@exec + @mpr * 128), never moves left
 * @lost: packets marked lost and not yet sent again
 * @look_end: nothing from this PSN on was overtaken by anything received
 * @inflight: bytes in flight (sent, neither received nor lost)
 * @slow_us: longest RTT of any path seen lately; made less at @slow_at_us
 * @reo_us: time @reo was raised last
 * @last_rtx_us: time of the last retransmission
 * @q_us: queueing delay of the latest paths heard
 * @last_progress_ns: something new was received or executed, or sending began after silence
 * @rack_at_ns: when rule 2 needs something to be sent, 0 = it does not
 * @probe_at_ns: when rule 3 does
 * @rto_at_ns: when rule 4 does, if anything is not received
 * @retry_at_ns: when to try again what the local stack refused, 0 = nothing
 * @quiet_until_ns: no probe before that (RNR)
 * @sent: ring of @records records, those of @una to @nxt in use
 * @records: 0 or a power of two, TP_RECORDS_LEAST to TP_WINDOW
 */
struct tp_tx {
	u8 space;
	u8 mpr;
	u8 rto_backoff;
	u8 probe_backoff;
	u8 silent;
	u8 vain;
	u8 rounds;
	u8 asks;
	u8 reo;
	u8 reo_good;
	u8 q_pos;
	u8 probe_ev[TP_PROBES];
	u8 probes_open;
	u8 nagain;
	u8 again[TP_DELAYS];
	bool probe_wanted;
	u8 doubt;
	bool credited;
	bool starved;
	bool limited;
	bool more;
	bool hold_new;
	bool halted;
	u16 probe_id;
	u16 doubt_id;
	u16 payload_hint;
	u16 records;
	u32 doubt_psn;
	u32 dqpn;
	struct tp_op *ops;
	u32 op_mask;
	u32 head, started, tail;
	u32 next_msn;
	u32 una, exec, nxt, wnd_end;
	u32 halt_psn;
	u32 lost;
	u32 lost_from;		/* no lost packet below this PSN */
	u32 look_end;
	u32 inflight;
	u32 last_stamp;
	u32 rack_stamp;		/* latest (stamp, PSN) known received */
	u32 rack_psn;
	u32 blamed_stamp;	/* burst whose path was blamed last */
	u32 probe_stamp[TP_PROBES];
	u32 srtt_us, rttvar_us;
	u32 slow_us, slow_at_us;
	u32 reo_us;
	u32 last_rtx_us;
	u32 credit_used, credit_limit;
	u16 q_us[TP_DELAYS];
	u64 asked;
	u64 last_progress_ns;
	u64 last_sent_ns;
	u64 rack_at_ns;
	u64 probe_at_ns;
	u64 rto_at_ns;
	u64 retry_at_ns;
	u64 quiet_until_ns;
	u32 rng;
	u32 c_starved;		/* events: new data had to wait for credit; wraps */
	struct tp_paths *paths;
	struct tp_sent *sent;
	struct tp_cc cc;
	/* counters, monotonic, for the shell to publish; packets unless said */
	u64 c_sent;		/* sent for the first time */
	u64 c_rtx;		/* sent again */
	u64 c_lost_ev;		/* rule 1 */
	u64 c_lost_rack;	/* rule 2 */
	u64 c_rto;		/* events of rule 4 */
	u64 c_probes;
	u64 c_needless;		/* retransmissions (or loss marks) that proved needless */
	u64 c_dup;		/* acks that report a duplicate */
};

/* A burst being built: consecutive packets on one path. */
struct tp_burst {
	u8 ev;
	bool rtx;
	u32 entropy;
	u32 stamp;
	u32 psn;	/* next packet to hand out */
	u32 end;	/* stop here */
	u32 seg_len;	/* UDP payload of all packets but the last, 0 before the first */
	u32 n;		/* packets handed out */
	u32 op;		/* op index of the last packet handed out */
	u32 may_start;	/* messages before this index may start; may be raised until tp_tx_next() */
	bool shut;	/* a shorter packet was handed out: nothing may follow */
};

/* One packet of a burst: headers, and which bytes of which message it carries. */
struct tp_out {
	struct tp_pkt pkt;
	u32 op;		/* index into the ring (not masked) */
	u32 offset;	/* bytes into the message */
	u32 len;	/* bytes of payload */
};

/**
 * tp_tx_init() - start a packet space
 * @ops, @nops: the message ring, @nops a power of two
 * @psn: first PSN, 24 bits
 * @payload: typical bytes of payload per packet (window arithmetic)
 */
void tp_tx_init(struct tp_tx *t, enum tp_space space, u32 dqpn, struct tp_op *ops, u32 nops,
		u32 psn, u32 payload, struct tp_paths *paths, u32 seed, u64 now);

/*
 * Records come with the packets in flight and go when there are none: the caller gives the ring, since
 * the core allocates nothing. Without any, nothing is sent; a ring that is too small is a window.
 */
enum { TP_RECORDS_LEAST = TP_BURST_MAX };

/**
 * tp_tx_records() - how large a ring should take the place of the one there is
 *
 * More if records were what stopped the last attempt to send, the least when nothing is in flight.
 * Who can't have them does nothing: for the least, a deadline asks again, for more, acks do.
 * Return: records; 0: it is right.
 */
static inline u32 tp_tx_records(const struct tp_tx *t)
{
	if (t->more && t->records < TP_WINDOW)
		return max_t(u32, 2U * t->records, TP_RECORDS_LEAST);
	return t->records > TP_RECORDS_LEAST && t->una == t->nxt ? TP_RECORDS_LEAST : 0;
}

/**
 * tp_tx_use_records() - another ring
 * @sent: @n records, tp_tx_records() of them; or NULL and 0 for a space that ends
 * Return: the one that was there, now the caller's; NULL if none.
 */
struct tp_sent *tp_tx_use_records(struct tp_tx *t, struct tp_sent *sent, u32 n);

/*
 * The peer is said to grant credit: send no more than TP_UNSCHEDULED full packets before it does. From
 * the first answer on, that tells: one that names no limit ends it, one that names one begins it.
 */
void tp_tx_use_credit(struct tp_tx *t);

/**
 * tp_tx_burst() - begin a burst
 * @max_pkts: caller's limit (64 KiB / packet size, device limits)
 * @may_start: messages with index before this may start (requester: fence, read depth)
 * @b: filled
 *
 * Retransmissions come first; they need no receive window, but room in the congestion window
 * like all. Burst size is
 * clamp(cwnd / 16 paths, 1, TP_BURST_MAX), less when less may be sent.
 * Return: false if nothing can be sent now.
 */
bool tp_tx_burst(struct tp_tx *t, u64 now, u32 max_pkts, u32 may_start, struct tp_burst *b);

/**
 * tp_tx_next() - next packet of a burst, recorded as sent by this call
 * @o: filled; o->pkt.dqpn, psn, msn, ..., everything but pkey
 * All packets of a burst have one length, only the last may be shorter.
 * Return: false when the burst is complete.
 */
bool tp_tx_next(struct tp_tx *t, u64 now, struct tp_burst *b, struct tp_out *o);

/*
 * The local stack refused the burst from @first_psn on: those packets are lost
 * at once; blames no path, cuts nothing. No burst for a moment; the deadline
 * then asks for a new attempt.
 */
void tp_tx_dropped(struct tp_tx *t, const struct tp_burst *b, u32 first_psn);

/**
 * tp_tx_unreadable() - the bytes of the burst's latest packet can't be read (any more)
 * Sent before, it may have arrived and its message be over: then its memory may rightly be gone.
 * So the peer is asked, and only what it still misses is a fault.
 * Return: true: the message can't be completed. false: the packet is lost again; go on.
 */
bool tp_tx_unreadable(struct tp_tx *t, const struct tp_burst *b);

/* A probe is due: id and path of it. Return: false if none. */
bool tp_tx_probe(struct tp_tx *t, u64 now, struct tp_pkt *p, u8 *ev);

/* A probe of some withdrawn path is due while there is traffic. Return: false if none. */
bool tp_tx_path_probe(struct tp_tx *t, u64 now, struct tp_pkt *p, u8 *ev);

/* Are the points of this ack possible? Anything else must be ignored as a whole. */
bool tp_tx_ack_valid(const struct tp_tx *t, const struct tp_ack *a);

/**
 * tp_tx_ack() - news from the peer about this space
 * Malformed or stale reports (points beyond nxt, exec above cum, going back) change nothing.
 * Return: true if anything new was received, executed, granted or found lost.
 */
bool tp_tx_ack(struct tp_tx *t, u64 now, const struct tp_ack *a);

/* The message with ring index @i. */
static inline struct tp_op *tp_tx_op(const struct tp_tx *t, u32 i)
{
	return &t->ops[i & t->op_mask];
}

/* Index of the message that holds @psn, which must be in flight. */
u32 tp_tx_find(const struct tp_tx *t, u32 psn);

/* Nothing at or after @psn is sent (again); never moves right. */
void tp_tx_halt(struct tp_tx *t, u32 psn);

/* Start both timers anew: something happened, or the rules of waiting changed. */
void tp_tx_arm(struct tp_tx *t, u64 now);

/* A message will be waiting from @now on, where none was: no earlier silence counts. */
void tp_tx_wake(struct tp_tx *t, u64 now);

static inline u32 tp_us(u64 ns)
{
	return (u32)div_u64(ns, 1000);
}

/* Did all that matters arrive? What will never be sent again does not. */
static inline bool tp_tx_all_received(const struct tp_tx *t)
{
	return t->una == t->nxt || (t->halted && !tp_before(t->una, t->halt_psn));
}

/* Retire messages: those fully executed leave the ring by moving head; caller decides when. */
static inline bool tp_tx_op_executed(const struct tp_tx *t, const struct tp_op *op)
{
	return tp_diff(t->exec, op->first_psn + op->npkts) >= 0;
}

/* Time of the next thing to do, ns; ~0 if none: anything not executed keeps a timer. */
u64 tp_tx_deadline(const struct tp_tx *t);

/* The deadline passed: rules 3 and 4. Sending follows by tp_tx_burst()/tp_tx_probe(). */
void tp_tx_timeout(struct tp_tx *t, u64 now);

/* How long the loss of the oldest packet in flight may stay unknown although probes are answered, us. */
u32 tp_tx_loss_known_us(const struct tp_tx *t);

/* Current retransmission timeout before back-off, us. */
u32 tp_tx_rto_us(const struct tp_tx *t);

#endif
