/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs: what they consist of, and the locking of the whole driver.
 *
 * A QP has two halves that share no field:
 *
 *   requester (qp->req)   send queue, request packets out, acknowledgements in,
 *                         response packets in, send completions
 *   responder (qp->resp)  request packets in, receive queue, receive
 *                         completions, response packets out, their acknowledgements in
 *
 * LOCKS, outer to inner; a lock on a line is never taken inside one below it:
 *
 *   qp->mutex             modify, query, destroy: who changes the IB state. Sleeps.
 *   req.lock | resp.lock  bh. Own a half each, its core state and its timer.
 *                         Never nested in each other. Copying to and from user
 *                         memory and handing packets to the stack happen inside.
 *   sq.lock | rq.lock     irqsave. Kernel posters only (post from any context).
 *   srq.lock              irqsave, leaf, inside resp.lock. Many QPs meet here: an
 *                         entry is copied out or a QP gets in line, nothing else.
 *   mr_lock               bh. Work requests that change a key; see mr.h.
 *   cq.lock               irqsave, leaf. Post, poll, arm from any context.
 *   pacer.lock            bh, leaf. Credit of all QPs of a device; see grant.c.
 *   devs_lock             bh. Devices of a namespace; peers_lock nests in it.
 *   xa_lock of QPs, MRs   bh, leaves.
 *   xa_lock of AHs; peers_lock                           irqsave, leaves.
 *
 * Path state (struct tp_paths) needs no lock: single-word hints, see core/path.h.
 *
 * WHO RUNS IN THEM. The socket's softirq (one CPU per socket at a time), the
 * QP's hrtimers (soft mode: softirq), the device's that grants credit (the same),
 * a user's doorbell (process context, BH off), a kernel poster where interrupts
 * are on, and the QP's tasklet in its stead where they are off. The tasklet also
 * goes on with datagrams that are too many for one doorbell.
 *
 * WHY COPYING UNDER THE LOCK: a copy precedes, in lock order, the commit that
 * marks its packet received, hence the completion that covers it, hence the
 * release of the CQ index that the poller acquires (C3). A retransmitted twin
 * is checked under the same lock after that commit and writes nothing (C1).
 * Moving a half out of service under its lock waits for any copy in progress,
 * and nothing is copied after (C7); MRs wait for their copiers by reference.
 *
 * CALLBACKS. Completion handlers run from the CQ's tasklet, events of the QP
 * from the QP's, of the SRQ from the SRQ's: no lock held, outside every verbs call.
 *
 * SHARED RECEIVE QUEUES. Who posts there wakes QPs whose locks it must not take:
 * it schedules their tasklets, under srq.lock. A QP that goes leaves the line
 * under the same lock before its tasklet is killed, so none is woken after.
 *
 * LIFETIME. The receiver finds a QP under the table's xa_lock and takes a
 * reference there; the table holds one. The pacer's timer finds it in the
 * pacer's queue, under that lock, and takes one, too: a half leaves the queue
 * as it leaves service. Destroy removes it from the table,
 * takes both halves out of service, stops timers and tasklet (each of which
 * looks at half->live under the lock before it re-arms anything), drops the
 * table's reference and waits for the receiver's.
 *
 * ERROR. Either half may find a fatal fault. It records it under its own lock
 * (req: flushing; resp: failed), writes ERR to the QP's state before anything
 * tells the consumer, and the caller, with no lock held, lets spray_qp_settle()
 * carry it to the other half: live and flushing of a half are never set by
 * somebody who does not hold that half's lock.
 */
#ifndef SPRAY_QP_H
#define SPRAY_QP_H

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/xarray.h>

#include "../uapi/spray-abi.h"
#include "core/requester.h"
#include "core/responder.h"
#include "cq.h"
#include "dev.h"
#include "srq.h"
#include "udp.h"

/**
 * struct spray_wq - a send or receive queue
 * @lock: kernel posters; see above
 * @slots: our private copies of the entries, SQEs or RQEs with their tails
 * @slot: bytes of one
 * @mask: entries - 1
 * @entries: 0 for none, else a power of two
 * @max_sge: gather/scatter elements that an entry may have
 * @max_inline: bytes, send queues
 * @avail: entries up to here are in @slots
 * @cons: entries up to here are complete
 * @ring: the user's ring, NULL for kernel queues
 * @asleep: kernel queues: the receiver waits for a post (as rq_need_doorbell for users)
 */
struct spray_wq {
	spinlock_t lock;
	void *slots;
	u32 slot;
	u32 mask;
	u32 entries;
	u32 max_sge;
	u32 max_inline;
	u32 avail;
	u32 cons;
	const void *ring;
	u32 asleep;
};

static inline void *spray_wq_slot(const struct spray_wq *wq, u32 idx)
{
	return wq->slots + (size_t)(idx & wq->mask) * wq->slot;
}

static inline struct spray_sge *spray_sqe_sge(struct spray_sqe *sqe)
{
	return (struct spray_sge *)(sqe + 1);
}

/* Where the last gather or scatter in a message ended, so that the next packet need not start over. */
struct spray_cursor {
	u32 op;		/* entry index; ~0: nowhere */
	u32 sge;
	u32 base;	/* message offset of that element's first byte */
};

/* Core counters that went into the device's. */
struct spray_published {
	u64 rtx, lost_ev, lost_rack, rto;
	u32 starved;
};

/*
 * A packet kept until its turn. A copy, not a reference: a slice of a received
 * super-packet would pin all of it, and the quota could not tell.
 */
struct spray_held {
	struct tp_pkt pkt;
	u32 op;			/* response space: the READ or ATOMIC */
	u32 len;		/* bytes of payload */
	bool pooled;		/* charged to the device */
	u8 data[];
};

/* The packets one half holds, by PSN. */
struct spray_hold {
	struct xarray pkts;
	u32 n;
	u32 bytes;		/* charged here, at most SPRAY_HOLD_OWN; the rest to the device */
};

/**
 * struct spray_credit - what the peer may send to one half
 * @core: under the pacer's lock
 * @bytes: that came since the pacer was told, as credit.h counts them
 * @rtx: of these, some had been sent before
 * @requests: it is the responder's
 */
struct spray_credit {
	struct tp_credit core;
	u32 bytes;
	bool rtx;
	bool requests;
};

/* See the head of this file. All fields under @lock. */
struct spray_req {
	spinlock_t lock;
	bool live;		/* RTS (or SQD): may send */
	bool flushing;		/* ERR: whatever is posted comes out flushed */
	bool drain;		/* SQD: start nothing new */
	bool drained_told;
	u32 payload;		/* bytes per packet of new messages */
	struct tp_req core;
	struct spray_wq sq;
	struct tp_op *ops;
	struct spray_cursor cur;
	struct spray_hold hold;	/* response packets */
	struct spray_credit credit;	/* for them */
	struct spray_published published;
	struct spray_timer timer;
};

struct spray_resp {
	spinlock_t lock;
	bool live;		/* RTR and up: may receive */
	bool flushing;		/* ERR */
	bool failed;		/* fatal fault found: spray_qp_settle() finishes it */
	bool comm_est;		/* told */
	bool last_wqe;		/* in ERR, on an SRQ: IB_EVENT_QP_LAST_WQE_REACHED is to be raised */
	u8 nak;			/* enum tp_nak + 1: the end; sent once no response is owed */
	u8 nak_event;		/* enum ib_event_type that goes with it */
	u64 nak_at;		/* when @nak was set, ns */
	u32 epoch;		/* of the QP, under this half's lock */
	u8 event;		/* enum ib_event_type to raise */
	struct tp_resp core;
	struct spray_wq rq;		/* empty for QPs on an SRQ, but for @asleep */
	struct spray_srq_seat seat;
	struct tp_op *ops;
	struct spray_hold hold;	/* request packets */
	struct spray_credit credit;	/* for them */
	struct spray_published published;
	struct spray_timer timer;
};

struct spray_qp {
	struct ib_qp ib;
	struct spray_dev *dev;
	struct mutex mutex;
	struct spray_qp_ctl *ctl;	/* shared page of user QPs, NULL for kernel QPs */
	struct spray_mmap *mmap;
	enum ib_qp_state state;
	u32 epoch;			/* lives since creation: RESETs; req.lock */
	bool sq_sig_all;
	bool ud;
	struct spray_stats __percpu *counted;	/* of the counter it is bound to, or NULL; RCU */
	u32 qkey;
	u32 ud_psn;
	struct ib_qp_attr attr;		/* as modified; under mutex */
	struct spray_peer *peer;	/* set before live, gone after */
	u32 payload;			/* bytes per packet to @peer */
	/*
	 * ICRC seeds, by role: of what a requester sends (requests, their
	 * probes, acknowledgements of responses) and of what a responder sends.
	 * Both build on the requester's first PSN: a responder in RTR answers
	 * before it knows a PSN of its own.
	 */
	u32 seed_req_tx, seed_req_rx, seed_rsp_tx, seed_rsp_rx;
	u32 max_pkts;			/* packets that fit one burst */
	u32 ack_rng;			/* path choice of lone packets: a hint, no lock. UD: stays as it was drawn */
	refcount_t ref;
	struct completion gone;
	struct tasklet_struct task;	/* pump for posters with interrupts off; UD: goes on where a doorbell's budget ends */
	struct spray_req req;
	struct spray_resp resp;
};

enum {
	SPRAY_MAX_RD_ATOMIC	= 16,
	SPRAY_NAK_WAIT_NS	= 1000000000,	/* for responses owed before a NAK */
	SPRAY_MAX_MSG		= 1U << 31,	/* bytes */
	SPRAY_HOLD_OWN		= 64 << 10,	/* bytes that each half may hold whatever others do */
	SPRAY_HOLD_DEVICE	= 256 << 20,	/* bytes above that, of all QPs of a device */
};

static inline struct spray_qp *to_sqp(struct ib_qp *ib)
{
	return container_of(ib, struct spray_qp, ib);
}

/* Whose keys the elements of a receive are. */
static inline struct ib_pd *spray_recv_pd(const struct spray_qp *qp)
{
	return qp->ib.srq ? qp->ib.srq->pd : qp->ib.pd;
}

static inline struct spray_cq *spray_send_cq(struct spray_qp *qp)
{
	return to_scq(qp->ib.send_cq);
}

static inline struct spray_cq *spray_recv_cq(struct spray_qp *qp)
{
	return to_scq(qp->ib.recv_cq);
}

/* --- qp.c --- */
int spray_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata);
int spray_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int spray_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init);
int spray_destroy_qp(struct ib_qp *ib, struct ib_udata *udata);

/* Find and reference; any context. @net: where the packet came from. */
struct spray_qp *spray_qp_get(struct spray_net *sn, u32 qpn);
void spray_qp_put(struct spray_qp *qp);

/* The requester is out of service and flushes; req.lock held. */
void spray_req_set_err(struct spray_qp *qp);

/* Carry faults from half to half and raise events. No lock held, BH off. */
void spray_qp_settle(struct spray_qp *qp);

/* Work was posted, or may have been: look at both queues. No lock held, BH off. */
void spray_qp_kick(struct spray_qp *qp);

void spray_timer_arm(struct spray_timer *t, u64 at);

/* --- post.c: work requests in, completions out --- */
int spray_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int spray_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);

/* Take in what was posted to the SQ and not copied yet; req.lock. Return: entries that are ready. */
u32 spray_sq_pull(struct spray_qp *qp);
/*
 * Receive number @idx, or NULL if it is not posted; resp.lock. From an SRQ only
 * the next one (core.rqmsn) is to be had, and to ask for it is to take it.
 */
struct spray_rqe *spray_rq_get(struct spray_qp *qp, u32 idx);
/* No receive: have posters ring. Return: false if one was posted meanwhile; resp.lock. */
bool spray_rq_sleep(struct spray_qp *qp);
void spray_rq_wake(struct spray_qp *qp);

void spray_complete_send(struct spray_qp *qp, u32 idx, enum ib_wc_status st);
/* This QP will take no receive any more, but for flushing its own queue; resp.lock. */
void spray_rq_leave(struct spray_qp *qp);

/* Completes receive rq.cons, or the one bound from the SRQ. @c: wr_id and qpn are filled here. */
void spray_complete_recv(struct spray_qp *qp, struct spray_cqe *c, bool solicited);
void spray_flush_rq(struct spray_qp *qp);
enum ib_wc_status spray_wc_status(u8 tp_status);

/* --- send.c --- */
/* Send what may be sent, complete what is complete, arm the timer. Takes req.lock; BH off. */
void spray_req_pump(struct spray_qp *qp);
void __spray_req_pump(struct spray_qp *qp);	/* req.lock held */
void __spray_resp_pump(struct spray_qp *qp);	/* resp.lock held: response packets */
void spray_send_ack(struct spray_qp *qp, struct tp_ack *a);	/* the half's lock held */
enum hrtimer_restart spray_req_timer(struct hrtimer *t);
enum hrtimer_restart spray_resp_timer(struct hrtimer *t);

/* --- grant.c; the half's lock held --- */
/* The half that takes packets of @space goes into service: credit is counted from the first PSN. */
void spray_grant_begin(struct spray_qp *qp, enum tp_space space);
/* It is out of service; any number of times. */
void spray_grant_end(struct spray_qp *qp, enum tp_space space);
/* On a device that grants it answers by @a: have the pacer told what came, and the peer how much it may send. @live: in service. */
void spray_grant_tell(struct spray_qp *qp, enum tp_space space, bool live, struct tp_ack *a);

/* A new packet is safe; the half's lock held. */
static inline void spray_grant_count(struct spray_credit *c, u32 len, bool rtx)
{
	c->bytes += tp_credit_cost(len);
	c->rtx |= rtx;
}

/* --- receive.c --- */
/* Tell the peer what there is, though nothing came. Takes the half's lock; softirq. */
void spray_answer_unasked(struct spray_qp *qp, enum tp_space space);
/* Run what can run at the executed point, answer; resp.lock held. */
void __spray_resp_progress(struct spray_qp *qp);
/* The same where the executed point may have waited for a receive; resp.lock held. */
void __spray_resp_receive_posted(struct spray_qp *qp);
/*
 * The request at the executed point fails for good; resp.lock held. The NAK
 * waits for responses still owed unless @now. @event: enum ib_event_type.
 */
void spray_resp_fail(struct spray_qp *qp, enum tp_nak nak, u8 event, bool now);
void spray_hold_drop(struct spray_qp *qp, struct spray_hold *h);

/* --- ud.c --- */
void spray_ud_pump(struct spray_qp *qp);	/* these three: req.lock held */
void spray_flush_ud_sq(struct spray_qp *qp);
void spray_forget_ud_sq(struct spray_qp *qp);
struct spray_rx;
/* @pkt: one packet with its ICRC. Takes resp.lock. */
void spray_ud_receive(struct spray_rx *rx, struct spray_qp *qp, const u8 *pkt, u32 len);

#endif
