/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A network in virtual time with driver/core at its ends. README.md has the
 * model; here are the types that its parts share.
 *
 *   event.c    what happens next
 *   fabric.c   links, switches, ECMP, queues, marks, loss
 *   host.c     the two halves of a QP around the core; batches and timers
 *   work.c     workloads, and one run from start to end
 *   figure.c   plots
 *   goals.c    the table
 *
 * Time is in picoseconds: a byte takes 80 of them at 100 Gbit/s.
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "responder.h"

#define PS_PER_NS	1000ULL
#define PS_PER_US	1000000ULL
#define NEVER		(~0ULL)

enum {
	PAYLOAD		= 4096,
	WIRE_OVERHEAD	= 20 + 8 + 14 + 4 + 20,	/* IPv4, UDP, Ethernet, FCS, preamble and gap */
	OPS		= 64,			/* send queue of a QP, messages */
	REORDER_MAX	= 1024,			/* reordering depths that are told apart */
	BURST_MAX	= 65535 / (PAYLOAD + TP_DATA_OVERHEAD),	/* what a UDP super-packet holds */
	SAMPLES_MAX	= 4096,
};

/* --- events --- */

enum event_kind { EV_LINK, EV_PACKET, EV_WAKE, EV_TIMER, EV_START, EV_SCRIPT, EV_SAMPLE, EV_ROOM, EV_CREDIT };

struct event {
	u64 at;
	u64 order;		/* of events at one moment: as they were made; low 4 bits: kind */
	void *p;
};

struct heap {
	struct event *e;
	u32 n, room;
	u64 made;
};

void heap_push(struct heap *h, u64 at, enum event_kind kind, void *p);
struct event heap_pop(struct heap *h);

/* --- fabric --- */

struct pkt {
	struct pkt *next;
	u64 at;			/* end of the link that it is on */
	u64 born;		/* when the sender handed it over */
	struct qp *qp;
	u32 entropy;
	u32 size;		/* bytes that a link is busy with */
	u32 len;		/* payload */
	u32 epoch;		/* of the link when it took the packet */
	u16 src, dst;
	bool data;		/* to the responder; else an acknowledgement */
	bool rtx;
	bool ce;
	bool big;		/* which pool */
	u8 hlen;
	u8 hdr[];		/* in wire format */
};

struct link {
	u32 to;			/* node */
	u32 ps_per_byte;
	u64 delay;
	u64 busy;		/* until then */
	u32 queue;		/* bytes; 0 = no limit */
	u32 mark_lo, mark_hi;	/* bytes: no mark below, always above; 0 = never */
	u32 loss, dup, reorder;	/* per million */
	u64 reorder_ps;
	bool down;
	u32 epoch;		/* times it died */
	u64 down_since;
	struct pkt *head, **tail;	/* first in, first out */
	u64 bytes, drops, marks;
	u32 peak;		/* bytes queued at most */
};

/* Pods of edge and aggregation switches, cores between pods. A leaf-spine fabric is one pod. */
struct shape {
	u32 pods;
	u32 edges;		/* per pod */
	u32 aggs;		/* per pod */
	u32 hosts;		/* per edge */
	u32 cores;		/* per aggregation switch of a pod; 0: one pod */
};

struct fabric_cfg {
	struct shape shape;
	u32 ps_per_byte;	/* of every link */
	u64 delay;		/* of every link, ps */
	u64 spread;		/* aggregation switch i is that much times i further away, ps */
	u32 queue, mark_lo, mark_hi;
	u32 loss, dup, reorder;	/* on the way up from an edge */
	u64 reorder_ps;
	u32 burst;		/* packets of a burst at most */
	u32 own_queue;		/* bytes that a host's QPs may leave in its own queue; 0 = no limit */
	u32 credit;		/* receivers grant credit: packets that may be outstanding in all; 0 = no */
	u64 batch;		/* a host serves what came within that time at once, ps */
};

struct fabric {
	struct fabric_cfg c;
	u32 nhosts, nedges, naggs, ncores, nlinks;
	struct link *links;
	u64 *salt;		/* of each switch's hash */
};

/* --- hosts --- */

struct peer {			/* one direction between two hosts */
	struct peer *next;
	u16 src, dst;
	struct tp_paths paths;
};

/* A packet that waits at the responder for its turn, in the order of PSNs. */
struct held {
	struct held *prev, *next;
	struct tp_pkt p;
};

struct host {
	struct pkt *first, **last;	/* arrived, not served */
	bool woken;
	struct qp *touched;
	struct qp *waiting, **last_waiting;	/* for room in the host's own queue */
	struct tp_pacer pacer;
	u64 pacer_timer;
};

struct sim;

/* A connection in one direction: requester at @src, responder at @dst. */
struct qp {
	u32 nr;
	u16 src, dst;
	bool started, closed, touched;
	struct qp *next_touched, *next_waiting;
	bool waits;
	struct tp_req q;
	struct tp_resp r;
	struct tp_op *ops;
	struct peer *fwd, *back;
	struct held *held_first, *held_last;
	u32 ack_rng;
	struct tp_credit credit;	/* at @dst */
	u64 timer;

	/* the application: messages of @len bytes, the last one of @last_len */
	u32 nmsg, len, last_len;
	u32 allowed;		/* messages that may be posted now */
	bool imm_each;		/* every message has an immediate; else the last only */
	u32 posted, completed, received;
	u64 va;
	u64 start, end;		/* @end: the receiver has all */
	void (*on_receive)(struct sim *s, struct qp *qp);
	void *arg;
	u32 group;

	u64 rx_bytes;		/* placed or held */
	u64 rx_dup;		/* packets that were here before */
};

struct script {			/* at @at ps, a link changes */
	u64 at;
	u32 link;
	enum { LINK_DIES, LINK_RETURNS, LINK_RATE } what;
	u32 ps_per_byte;
};

struct sim {
	u64 now;
	u64 rnd;
	struct heap heap;
	struct fabric f;
	struct host *host;
	struct qp *qp;
	u32 nqp, open;
	struct peer **peers;
	struct pkt *pool[2];
	struct held *held_pool;
	u64 seed;
	u64 limit;
	u64 events;

	/* seen */
	u64 drops_queue, drops_loss, drops_down, dups_made;
	u64 new_on_dead;	/* ps after its death, of the last new packet sent onto a dead link */
	u64 rx_packets;
	u64 reorder[REORDER_MAX];	/* packets that came that far behind the highest */
	u64 sample_every;
	u64 sampled;
	u32 nsamples;
	u64 total_rx;
	u64 sample[SAMPLES_MAX];	/* bytes received in each interval */
};

static inline u64 sim_ns(const struct sim *s)
{
	return s->now / PS_PER_NS;
}

static inline u64 mix64(u64 z)		/* splitmix64's finish */
{
	z += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

u64 rnd64(struct sim *s);
u32 rnd(struct sim *s, u32 n);		/* 0 .. n - 1 */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *zalloc(size_t n);

void fabric_init(struct sim *s, const struct fabric_cfg *c);
void fabric_free(struct sim *s);
struct pkt *pkt_new(struct sim *s, u32 hlen);
void pkt_free(struct sim *s, struct pkt *p);
void fabric_send(struct sim *s, struct pkt *p);		/* by its source host */
void link_event(struct sim *s, struct link *l);
void packet_event(struct sim *s, struct pkt *p);	/* one that left its link's order */
void script_event(struct sim *s, const struct script *c);

/* Numbers of links, for scripts and figures. */
u32 link_host_up(const struct fabric *f, u32 host);
u32 link_host_down(const struct fabric *f, u32 host);
u32 link_edge_up(const struct fabric *f, u32 edge, u32 agg);
u32 link_edge_down(const struct fabric *f, u32 edge, u32 agg);
u32 link_agg_up(const struct fabric *f, u32 agg, u32 core);
u32 link_agg_down(const struct fabric *f, u32 agg, u32 core);

void host_arrive(struct sim *s, struct pkt *p);
void host_wake(struct sim *s, struct host *h);
void host_room(struct sim *s, struct host *h);
void host_credit(struct sim *s, struct host *h);
void qp_timer(struct sim *s, struct qp *qp);
void qp_start(struct sim *s, struct qp *qp);
void qp_pump(struct sim *s, struct qp *qp);

/* --- runs --- */

struct sim *sim_new(const struct fabric_cfg *c, u32 nqp, u64 seed);
struct qp *sim_flow(struct sim *s, u16 src, u16 dst, u64 bytes, u64 start);
void sim_script(struct sim *s, const struct script *c);
void sim_run(struct sim *s);
void sim_free(struct sim *s);

/* Workloads: QPs of a fresh simulation. */
void work_permutation(struct sim *s, u64 bytes);
void work_incast(struct sim *s, u32 senders, u64 bytes, u32 bystanders, u64 bystander_bytes);
void work_all_to_all(struct sim *s, u32 hosts, u64 bytes);
void work_ring(struct sim *s, u32 hosts, u64 bytes);

/* Of QPs of @group: */
struct times {
	u32 n;
	u64 least, median, most;	/* ps from start to the last byte at the receiver */
	u64 end;			/* when the last one was over */
};

struct counts {
	u64 sent, rtx, needless, lost_ev, lost_rack, rto, probes;
};

struct times sim_times(const struct sim *s, u32 group);
struct counts sim_counts(const struct sim *s);
int by_u64(const void *a, const void *b);

/* --- figures --- */

struct curve {
	const char *name;
	u32 n;
	double *x, *y;
};

struct figure {
	const char *file, *title, *xlabel, *ylabel;
	double xmax, ymax;	/* 0: as the data need */
	bool logy;
	u32 n;
	struct curve curve[12];
};

struct curve *figure_curve(struct figure *f, const char *name, u32 room);
void curve_add(struct curve *c, double x, double y);
void figure_write(struct figure *f);		/* and frees its curves */

#endif
