// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A requester and a responder over a fabric of paths, in virtual time, from a
 * seed. Packets travel in wire format; hosts take them in batches; timers fire
 * when the core asks for it, or later.
 *
 * What is watched, byte by byte (contract: C1 ... C9):
 *  - a packet's bytes are placed once (C1), those of a last packet after
 *    everything before (C2), and never over those of a later message (C9);
 *  - receives complete in order, with what was sent (C3); send completions come
 *    in order, success means executed (C4);
 *  - READ shows what was there at its turn or later, nothing behind a fence;
 *    ATOMICs give what a sequential run gives; when a FLUSH is complete, all before it is placed (C5);
 *  - what fails does so at its turn, with its status (C6);
 *  - packets never leave the peer's window; bursts have one length; whoever
 *    waits has a timer, and no timer is in the past.
 *
 * A failure prints the case and its seed. SIM_TRACE=1 prints every packet,
 * SIM_VERBOSE=1 the figures of the long runs, SIM_SEEDS=n runs n seeds of each.
 */
#include "unit.h"
#include "responder.h"
#include "records.h"

enum {
	PATHS_MAX	= 8,
	OPS_MAX		= 512,		/* send queue */
	RD_RING		= 16,
	MEM		= 4096,		/* WRITE and READ */
	CELLS		= 16,		/* ATOMIC */
	RQ_BUF		= 600,
	BIG_BUF		= 1 << 16,
	KEY		= 0x1234,
	CELL_VA		= 0x900000,
};

#define MEM_VA	0x70000ULL
#define MS	1000000ULL
#define US	1000ULL

struct path_cfg {
	u64 delay_ns;
	u64 dead_from, dead_to;		/* ns */
};

struct cfg {
	const char *name;
	u64 seed;
	u32 nmsg;
	u32 npaths;
	u32 nevs;
	struct path_cfg path[PATHS_MAX];
	u32 mbit;			/* rate of a path, 0 = no limit */
	u32 queue;			/* bytes that fit into a path's queue */
	u32 mark;			/* bytes from which on it marks, 0 = never */
	u32 loss, dup, reorder;		/* per million */
	u64 reorder_ns;
	u64 batch_ns;			/* a host wakes that long after a packet came */
	u64 late_ns;			/* timers are up to that late */
	u32 refuse;			/* per million: the local stack refuses a burst */
	u32 payload, max_len;
	u32 psn;
	u32 max_rd;
	u32 depth;			/* of the send queue */
	u32 verbs;			/* mask of enum tp_kind */
	u32 fence;			/* per 100 */
	u32 rq_ahead;			/* receives posted at the start; 0: all */
	u64 rq_every_ns;
	u8 rnr_timer, rnr_retry, retry_cnt;
	u64 timeout_ns;
	u32 grants;			/* mask of hosts that grant credit, BIT(A) | BIT(B), */
	u32 budget;			/* packets, */
	u32 rate;			/* bytes per ms */
	u64 limit_ns;			/* fail if not over by then */
	bool bulk;			/* big WRITEs into one area, no shadow: for goodput */
	bool disjoint;			/* WRITEs that never overlap in flight */
	int bad;			/* message that is wrong, -1: none */
	u8 bad_how;
};

enum bad_how { BAD_RKEY, BAD_BOUNDS, BAD_SEND_LEN, BAD_READ, BAD_ATOMIC, BAD_ATOMIC_WRITE, BAD_FLUSH,
	       BAD_FLUSH_TYPE, BAD_LOCAL, BAD_LOCAL_POST };

enum { A, B };

struct msg {
	u8 kind;
	bool fence, has_imm, faulty;
	u32 len, imm;
	u64 raddr, rkey;
	u64 swap_add, compare, expect;	/* ATOMIC: value that a sequential run finds */
	u32 barrier;			/* READ: no message from this one on may be seen */
	u32 nr_rq;			/* receive it consumes */
	u32 placed;			/* bytes at the peer */
	u32 back;			/* bytes of the response */
	bool executed, done;
	enum tp_status st;
	u8 *got;			/* READ, ATOMIC: what came back */
	u32 *snap;			/* READ: writer of each byte at its turn */
	u8 *seen;			/* bytes placed */
};

struct packet {
	u64 at;
	u64 seq;
	u32 entropy;
	bool ce;
	u32 len;
	u8 dst;
	u32 *tags;			/* READ data: writer of each byte */
	struct packet *next;
	u8 buf[];
};

struct held {
	bool used;
	struct tp_pkt p;
	u32 len;
	u32 *tags;
	u8 *bytes;
};

struct link {
	u64 busy;
	u64 bytes, packets, drops;
};

struct host {
	struct packet *first, **last;
	u64 wake;
	u64 timer;
	u64 deadline;
	struct tp_pacer pacer;
	struct tp_credit credit;
	bool told;			/* by an answer, whether the other one grants credit */
};

struct sim {
	const struct cfg *c;
	u64 now, seq;
	u64 rnd;
	struct packet *heap[1 << 16];
	u32 nheap;
	struct link link[2][PATHS_MAX];
	struct host host[2];

	/* requester's side */
	struct tp_req q;
	struct tp_op ops[OPS_MAX];
	struct tp_paths paths;
	struct held rheld[TP_WINDOW];
	u32 posted, completed;
	u64 c_pkts;

	/* responder's side */
	struct tp_resp r;
	struct tp_op rops[RD_RING];
	struct tp_paths rpaths;
	struct held held[TP_WINDOW];
	u32 ack_rng;
	u32 rq_posted, rq_done;
	u64 rq_next;
	bool blocked;

	/* memory and its shadow */
	u8 mem[MEM];
	u32 owner[MEM];			/* number of the message that wrote it, + 1 */
	u32 ref_owner[MEM];		/* the same, if messages ran one after the other */
	u64 cell[CELLS], model_cell[CELLS];
	u8 rq[OPS_MAX][RQ_BUF];

	struct msg *msg;
	u32 nmsg;
	u32 executed;			/* messages, at the peer */
	u64 end;			/* time of the last completion */
	u32 ordered;
	u32 needless;			/* duplicates that arrived */
	u64 last_burst;
};

static bool trace;

#define sim_fail(s, fmt, ...)							\
	fail_msg("%s seed %lu at %lu us: " fmt, (s)->c->name, (unsigned long)(s)->c->seed,	\
		 (unsigned long)((s)->now / US), ##__VA_ARGS__)

#define sim_check(s, cond)							\
	do {									\
		if (!(cond))							\
			sim_fail(s, "line %d: %s", __LINE__, #cond);		\
	} while (0)

static bool chance(struct sim *s, u32 ppm)
{
	return ppm && rnd(&s->rnd, 1000000) < ppm;
}

static u8 content(u32 msg, u32 offset)
{
	return (u8)(msg * 31 + offset * 7 + (offset >> 8) + 1);
}

/* --- fabric --- */

static void heap_push(struct sim *s, struct packet *p)
{
	u32 i = s->nheap++;

	sim_check(s, s->nheap < ARRAY_SIZE(s->heap));
	for (; i; i = (i - 1) / 2) {
		struct packet *up = s->heap[(i - 1) / 2];

		if (up->at < p->at || (up->at == p->at && up->seq < p->seq))
			break;
		s->heap[i] = up;
	}
	s->heap[i] = p;
}

static bool sooner(const struct packet *a, const struct packet *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static struct packet *heap_pop(struct sim *s)
{
	struct packet *top = s->heap[0], *last = s->heap[--s->nheap];
	u32 i = 0, j;

	while ((j = 2 * i + 1) < s->nheap) {
		if (j + 1 < s->nheap && sooner(s->heap[j + 1], s->heap[j]))
			j++;
		if (!sooner(s->heap[j], last))
			break;
		s->heap[i] = s->heap[j];
		i = j;
	}
	s->heap[i] = last;
	return top;
}

static u32 hash_path(const struct sim *s, u32 entropy)
{
	u64 h = (entropy + s->c->seed) * 0x9e3779b97f4a7c15ULL;

	return (u32)((h >> 40) % s->c->npaths);
}

static void deliver(struct sim *s, u64 at, u8 dst, u32 entropy, bool ce, const u8 *buf, u32 len,
		    const u32 *tags)
{
	struct packet *p = malloc(sizeof(*p) + len);

	*p = (struct packet) { .at = at, .seq = s->seq++, .entropy = entropy, .ce = ce, .len = len,
			       .dst = dst };
	memcpy(p->buf, buf, len);
	if (tags) {
		p->tags = malloc(len * sizeof(*tags));
		memcpy(p->tags, tags, len * sizeof(*tags));
	}
	heap_push(s, p);
}

/* @wire_len: bytes that the link carries */
static void transmit(struct sim *s, u8 src, u32 entropy, const u8 *buf, u32 len, u32 wire_len,
		     const u32 *tags)
{
	const struct cfg *c = s->c;
	u32 path = hash_path(s, entropy);
	const struct path_cfg *pc = &c->path[path];
	struct link *l = &s->link[src][path];
	u64 start = l->busy > s->now ? l->busy : s->now;
	u64 backlog = c->mbit ? (start - s->now) * c->mbit / 8000 : 0;
	u64 at;
	u32 copies;

	if ((s->now >= pc->dead_from && s->now < pc->dead_to) || chance(s, c->loss) ||
	    (c->queue && backlog + wire_len > c->queue)) {
		l->drops++;
		return;
	}
	if (c->mbit)
		start += wire_len * 8000ULL / c->mbit;
	l->busy = start;
	l->bytes += wire_len;
	l->packets++;
	for (copies = 1 + chance(s, c->dup); copies; copies--) {
		at = start + pc->delay_ns;
		if (chance(s, c->reorder))
			at += rnd(&s->rnd, (u32)c->reorder_ns);
		deliver(s, at, !src, entropy, c->mark && backlog > c->mark, buf, len, tags);
	}
}

/* --- the requester's shell --- */

static u32 msg_of_op(const struct sim *s, u32 op)
{
	(void)s;
	return op;	/* the ring index counts messages */
}

static void post_one(struct sim *s)
{
	struct msg *m = &s->msg[s->posted];
	struct tp_op *op = &s->ops[s->q.tx.tail & s->q.tx.op_mask];

	*op = (struct tp_op) {
		.kind = m->kind, .fence = m->fence, .has_imm = m->has_imm, .payload = s->c->payload,
		.length = m->len, .rkey = (u32)m->rkey, .imm = m->imm, .raddr = m->raddr,
		.swap_add = m->swap_add, .compare = m->compare,
	};
	if (m->faulty && s->c->bad_how == BAD_LOCAL_POST)
		op->error = TP_LOC_PROT;
	tp_req_post(&s->q, s->now);
	s->posted++;
}

/* Bytes that come back for a message. */
static u32 back_of(const struct msg *m)
{
	return m->kind == TP_READ || m->kind == TP_CAS || m->kind == TP_FAA ? m->len : 0;
}

static bool sends_bytes(const struct msg *m)
{
	return m->kind == TP_SEND || m->kind == TP_WRITE || m->kind == TP_ATOMIC_WRITE;
}

/* Every byte of the messages before number @nr is at the peer. */
static void check_placed_before(struct sim *s, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		sim_check(s, !sends_bytes(&s->msg[i]) || s->msg[i].placed == s->msg[i].len);
}

static void take_completions(struct sim *s)
{
	enum tp_status st;
	u32 op;

	while (tp_req_next_done(&s->q, &op, &st)) {
		struct msg *m = &s->msg[msg_of_op(s, op)];

		sim_check(s, msg_of_op(s, op) == s->completed);
		s->completed++;
		m->st = st;
		m->done = true;
		s->end = s->now;
		if (st != TP_OK)
			continue;
		sim_check(s, m->executed);
		sim_check(s, m->back == back_of(m));
		if (m->kind == TP_RDMA_FLUSH)
			check_placed_before(s, s->completed - 1);
	}
}

static void trace_pkt(const struct sim *s, const char *what, const struct tp_pkt *p, u32 len)
{
	if (trace)
		printf("%8lu.%03lu %s kind %u psn %u msn %u rq %u va %lx len %u%s%s%s%s\n",
		       (unsigned long)(s->now / US), (unsigned long)(s->now % US), what, p->kind,
		       p->psn, p->msn, p->rqmsn, (unsigned long)p->va, len, p->first ? " first" : "",
		       p->last ? " last" : "", p->rtx ? " rtx" : "", p->ordered ? " ordered" : "");
}

/* Send one burst of a space. Return: false: message @bad can't be read. */
static bool send_burst(struct sim *s, u8 src, struct tp_tx *t, struct tp_burst *b, u32 *bad)
{
	static u8 buf[BIG_BUF + TP_MAX_HDR];
	u32 first = b->psn, prev = 0, hdr, len, i;
	bool refuse = chance(s, s->c->refuse);
	struct tp_out o;
	static u32 tags[RQ_BUF];

	sim_check(s, (s32)(b->stamp - (u32)s->last_burst) > 0 || src == B);
	if (src == A)
		s->last_burst = b->stamp;
	while (tp_tx_next(t, s->now, b, &o)) {
		sim_check(s, o.pkt.psn == first + b->n - 1);
		sim_check(s, b->n <= TP_BURST_MAX);
		hdr = tp_wire_encode(&o.pkt, buf);
		len = hdr + o.len + o.pkt.pad + TP_ICRC_LEN;
		sim_check(s, b->n == 1 || len <= b->seg_len);
		sim_check(s, prev == 0 || prev == b->seg_len);	/* only the last is shorter */
		prev = len;
		trace_pkt(s, src == A ? "A>" : "B>", &o.pkt, o.len);
		if (src == A) {
			struct msg *m = &s->msg[msg_of_op(s, o.op)];

			s->c_pkts++;
			s->ordered += o.pkt.ordered && !o.pkt.rtx && o.pkt.first;
			if (m->faulty && s->c->bad_how == BAD_LOCAL && o.pkt.last) {
				*bad = o.op;
				return false;
			}
			for (i = 0; i < o.len && !s->c->bulk; i++)
				buf[hdr + i] = content(msg_of_op(s, o.op), o.offset + i);
		} else if (o.pkt.kind == TP_READ_DATA && !s->c->bulk) {
			u64 at = t->ops[o.op & t->op_mask].raddr + o.offset - MEM_VA;

			memcpy(buf + hdr, s->mem + at, o.len);
			memcpy(tags, s->owner + at, o.len * sizeof(*tags));
		} else if (o.pkt.kind == TP_ATOMIC_DATA) {
			tp_put64(buf + hdr, t->ops[o.op & t->op_mask].swap_add);
		}
		if (!refuse)
			transmit(s, src, b->entropy, buf, len - TP_ICRC_LEN, len + 46,
				 o.pkt.kind == TP_READ_DATA && !s->c->bulk ? tags : NULL);
	}
	sim_check(s, b->n > 0);
	if (refuse)
		tp_tx_dropped(t, b, first);
	return true;
}

static void send_probe(struct sim *s, u8 src, const struct tp_paths *g, const struct tp_pkt *p, u8 ev)
{
	u8 buf[TP_MAX_HDR];
	u32 n = tp_wire_encode(p, buf);

	if (trace)
		printf("%8lu %c> probe %u on ev %u\n", (unsigned long)(s->now / US), 'A' + src,
		       p->probe_id, ev);
	transmit(s, src, g->p[ev].entropy, buf, n, n + 50, NULL);
}

static void pump_a(struct sim *s)
{
	struct tp_req *q = &s->q;
	u32 done, bad;
	struct tp_burst b;
	struct tp_pkt p;
	u8 ev;

	do {
		while (s->posted < s->nmsg && q->tx.tail - q->tx.head < s->c->depth && !q->dead)
			post_one(s);
		do {
			while (tp_req_burst(q, s->now, 1 + rnd(&s->rnd, TP_BURST_MAX), &b))
				if (!send_burst(s, A, &q->tx, &b, &bad))
					tp_req_local_error(q, bad, TP_LOC_PROT);
		} while (fit_records(&q->tx, !rnd(&s->rnd, 8)));
		done = s->completed;
		take_completions(s);
	} while (done != s->completed && !q->dead);
	while (tp_req_probe(q, s->now, &p, &ev))
		send_probe(s, A, &s->paths, &p, ev);
}

static void ack(struct sim *s, u8 src, struct tp_ack *a)
{
	u8 buf[TP_MAX_ACK];
	struct tp_paths *g = src == A ? &s->paths : &s->rpaths;
	u8 ev = tp_path_pick_for_answer(g, &s->ack_rng, (u32)(s->now / US));
	u32 n;

	a->credited = s->c->grants & BIT(src);
	if (a->credited)
		a->credit = s->host[src].credit.limit / TP_CREDIT_UNIT;
	n = tp_wire_encode_ack(a, buf);
	if (trace)
		printf("%8lu.%03lu %c> ack space %u syn %u exec %u cum %u words %u\n",
		       (unsigned long)(s->now / US), (unsigned long)(s->now % US), 'A' + src,
		       a->space, a->syndrome, a->exec_psn, a->cum_psn, a->nwords);
	transmit(s, src, g->p[ev].entropy, buf, n, n + 50, NULL);
}

static void keep(struct held *h, const struct tp_pkt *p, const u8 *bytes, u32 len, const u32 *tags)
{
	h->used = true;
	h->p = *p;
	h->len = len;
	h->bytes = len ? exact_copy(bytes, len) : NULL;
	h->tags = tags ? (u32 *)exact_copy(tags, len * sizeof(*tags)) : NULL;
}

static void let_go(struct held *h)
{
	free(h->bytes);
	free(h->tags);
	memset(h, 0, sizeof(*h));
}

/* A new packet is safe. */
static void count(struct sim *s, u8 who, const struct tp_pkt *p, u32 len)
{
	struct host *h = &s->host[who];

	if (s->c->grants & BIT(who))
		tp_credit_got(&h->pacer, &h->credit, tp_credit_cost(len), p->rtx, s->now);
}

/* READ data may be newer than the READ's turn, but not older, nor from behind a fence. */
static void place_response(struct sim *s, u32 op, const struct tp_pkt *p, const u8 *bytes, u32 len,
			   const u32 *tags)
{
	struct msg *m = &s->msg[msg_of_op(s, op)];
	u32 i;

	sim_check(s, !m->done);
	m->back += len;
	for (i = 0; i < len && !s->c->bulk; i++) {
		u32 at = p->kind == TP_ATOMIC_DATA ? i : (u32)p->va + i;

		sim_check(s, !m->seen[at]);
		m->seen[at] = 1;
		m->got[at] = bytes[i];
		if (p->kind == TP_ATOMIC_DATA)
			continue;
		sim_check(s, tags[i] >= m->snap[at]);
		sim_check(s, tags[i] <= m->barrier);
	}
	if (p->kind == TP_ATOMIC_DATA && !s->c->bulk)
		sim_check(s, tp_get64(m->got) == m->expect);
}

static void run_response(struct sim *s, u32 op, const struct tp_pkt *p, const u8 *bytes, u32 len,
			 const u32 *tags)
{
	place_response(s, op, p, bytes, len, tags);
	if (p->last)
		tp_req_rd_done(&s->q, op);
	tp_req_response_executed(&s->q);
}

static u32 held_op(struct sim *s, const struct tp_pkt *p)
{
	return s->q.rd_slot[tp_extend16(p->rqmsn, s->q.rd_head) % TP_RD_MAX];
}

static void take_response(struct sim *s, struct tp_pkt *p, const u8 *bytes, u32 len, const u32 *tags)
{
	struct held *h;
	u32 op;

	switch (tp_req_response(&s->q, p, len, &op)) {
	case TP_TAKE_PLACE:
		place_response(s, op, p, bytes, len, tags);
		tp_req_response_commit(&s->q, p);
		break;
	case TP_TAKE_HOLD:
		keep(&s->rheld[p->psn % TP_WINDOW], p, bytes, len, tags);
		tp_req_response_commit(&s->q, p);
		break;
	case TP_TAKE_TURN:
		run_response(s, op, p, bytes, len, tags);
		break;
	case TP_TAKE_DUP:
		s->needless++;
		return;
	default:
		sim_check(s, s->q.dead);
		return;
	}
	count(s, A, p, len);
	while (tp_req_response_ready(&s->q)) {
		h = &s->rheld[s->q.rx.exec % TP_WINDOW];
		if (h->used) {
			run_response(s, held_op(s, &h->p), &h->p, h->bytes, h->len, h->tags);
			let_go(h);
		} else {
			tp_req_response_executed(&s->q);
		}
	}
}

/* --- the responder's shell --- */

static void place(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len, u32 offset)
{
	struct msg *m = &s->msg[p->msn];
	u32 i;

	m->placed += len;
	if (s->c->bulk)
		return;
	if (p->last) {		/* C2 */
		sim_check(s, p->psn == s->r.rx.exec);
		sim_check(s, s->executed == p->msn);
		sim_check(s, m->placed == m->len);
	}
	for (i = 0; i < len; i++) {
		u64 at = p->va + i - MEM_VA;

		sim_check(s, bytes[i] == content(p->msn, offset + i));
		sim_check(s, !m->seen[offset + i]);	/* C1 */
		m->seen[offset + i] = 1;
		if (m->kind == TP_SEND) {
			s->rq[m->nr_rq % OPS_MAX][offset + i] = bytes[i];
			continue;
		}
		sim_check(s, s->owner[at] <= p->msn + 1);	/* C9 */
		s->owner[at] = p->msn + 1;
		s->mem[at] = bytes[i];
	}
}

static bool in_mem(const struct sim *s, const struct tp_pkt *p, u64 va, u64 len)
{
	return s->c->bulk || !len || (p->rkey == KEY && va >= MEM_VA && va + len <= MEM_VA + MEM);
}

/* Offset of a packet in its message: told by SEND, for WRITE known from the model. */
static u32 offset_of(const struct sim *s, const struct tp_pkt *p)
{
	return (u32)(p->kind == TP_SEND ? p->va : p->va - s->msg[p->msn].raddr);
}

/* Place before its turn. Return: false if it can't be. */
static bool place_early(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	if (p->kind == TP_SEND && (p->rqmsn >= s->rq_posted || p->dma_len > RQ_BUF))
		return false;
	if (p->kind == TP_WRITE && !in_mem(s, p, p->va, len))
		return false;
	place(s, p, bytes, len, offset_of(s, p));
	return true;
}

enum { RAN, BLOCKED, FAILED };

static void write_done(struct sim *s, const struct msg *m, u32 nr)
{
	u32 i;

	if (s->c->bulk)
		return;
	for (i = 0; i < m->len; i++)
		s->ref_owner[m->raddr - MEM_VA + i] = nr + 1;
}

static int nak(struct sim *s, enum tp_nak n)
{
	tp_resp_nak(&s->r, n);
	return FAILED;
}

static int run_read(struct sim *s, const struct tp_pkt *p)
{
	struct msg *m = &s->msg[p->msn];
	struct tp_op *o;

	if (!in_mem(s, p, p->va, p->dma_len))
		return nak(s, TP_NAK_REM_ACCESS);
	if (!tp_resp_read(&s->r, p, s->c->payload, s->now, &o))
		return nak(s, TP_NAK_INV_REQ);
	if (m->len && !s->c->bulk)
		memcpy(m->snap, s->ref_owner + (m->raddr - MEM_VA), m->len * sizeof(*m->snap));
	return RAN;
}

static int run_atomic(struct sim *s, const struct tp_pkt *p)
{
	u64 *cell = &s->cell[(p->va - CELL_VA) / 8 % CELLS];
	struct tp_op *o;
	u64 old = *cell;

	if (p->va % 8)
		return nak(s, TP_NAK_INV_REQ);
	if (!tp_resp_read(&s->r, p, s->c->payload, s->now, &o))
		return nak(s, TP_NAK_INV_REQ);
	if (p->kind == TP_FAA)
		*cell += p->swap_add;
	else if (old == p->compare)
		*cell = p->swap_add;
	o->swap_add = old;
	return RAN;
}

static int run_atomic_write(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct tp_op *o;

	if (p->va % 8)
		return nak(s, TP_NAK_INV_REQ);
	if (!in_mem(s, p, p->va, len))
		return nak(s, TP_NAK_REM_ACCESS);
	if (!tp_resp_read(&s->r, p, s->c->payload, s->now, &o))
		return nak(s, TP_NAK_INV_REQ);
	place(s, p, bytes, len, 0);
	write_done(s, &s->msg[p->msn], p->msn);
	return RAN;
}

static int run_flush(struct sim *s, const struct tp_pkt *p)
{
	struct tp_op *o;

	if (!in_mem(s, p, p->va, p->dma_len))
		return nak(s, TP_NAK_REM_ACCESS);
	if (!tp_resp_read(&s->r, p, s->c->payload, s->now, &o))
		return nak(s, TP_NAK_INV_REQ);
	check_placed_before(s, p->msn);
	return RAN;
}

static int run_send(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	if (p->rqmsn >= s->rq_posted)
		return BLOCKED;
	if (p->dma_len > RQ_BUF)
		return nak(s, TP_NAK_INV_REQ);
	place(s, p, bytes, len, offset_of(s, p));
	return RAN;
}

static int run_write(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct msg *m = &s->msg[p->msn];

	if (!in_mem(s, p, p->va, len))
		return nak(s, TP_NAK_REM_ACCESS);
	if (p->has_imm && p->rqmsn >= s->rq_posted)
		return BLOCKED;
	place(s, p, bytes, len, offset_of(s, p));
	if (p->last)
		write_done(s, m, p->msn);
	return RAN;
}

static void receive_done(struct sim *s, const struct msg *m, const struct tp_pkt *p)
{
	u32 i;

	sim_check(s, m->nr_rq == s->rq_done);
	sim_check(s, p->has_imm == m->has_imm);
	sim_check(s, !m->has_imm || p->imm == m->imm);
	sim_check(s, p->dma_len == m->len);
	for (i = 0; m->kind == TP_SEND && i < m->len; i++)
		sim_check(s, s->rq[m->nr_rq % OPS_MAX][i] == content(p->msn, i));
	s->rq_done++;
}

/* Run the packet at the executed point. */
static int run(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct msg *m = &s->msg[p->msn];
	bool consumes = p->last && (p->kind == TP_SEND || (p->kind == TP_WRITE && p->has_imm));
	int how;

	if (!tp_resp_turn(&s->r, p))
		how = nak(s, TP_NAK_INV_REQ);
	else if (p->kind == TP_SEND)
		how = run_send(s, p, bytes, len);
	else if (p->kind == TP_WRITE)
		how = run_write(s, p, bytes, len);
	else if (p->kind == TP_READ)
		how = run_read(s, p);
	else if (p->kind == TP_ATOMIC_WRITE)
		how = run_atomic_write(s, p, bytes, len);
	else if (p->kind == TP_RDMA_FLUSH)
		how = run_flush(s, p);
	else
		how = run_atomic(s, p);
	if (how == BLOCKED)
		tp_resp_rnr(&s->r);
	if (how != RAN)
		return how;
	tp_resp_executed(&s->r, p, consumes);
	if (p->last) {
		sim_check(s, s->executed == p->msn);
		m->executed = true;
		s->executed++;
		if (consumes)
			receive_done(s, m, p);
	}
	return RAN;
}

static void run_ready(struct sim *s)
{
	while (tp_resp_ready(&s->r)) {
		struct held *h = &s->held[s->r.rx.exec % TP_WINDOW];

		if (!h->used) {
			tp_resp_executed(&s->r, NULL, false);
			continue;
		}
		if (run(s, &h->p, h->bytes, h->len) == BLOCKED)
			return;
		let_go(h);
	}
}

static void hold(struct sim *s, const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	keep(&s->held[p->psn % TP_WINDOW], p, bytes, len, NULL);
	tp_resp_commit(&s->r, p);
}

static void take_request(struct sim *s, struct tp_pkt *p, const u8 *bytes, u32 len)
{
	switch (tp_resp_check(&s->r, p, len)) {
	case TP_TAKE_PLACE:
		if (place_early(s, p, bytes, len))
			tp_resp_commit(&s->r, p);
		else
			hold(s, p, bytes, len);
		break;
	case TP_TAKE_HOLD:
		hold(s, p, bytes, len);
		break;
	case TP_TAKE_TURN:
		switch (run(s, p, bytes, len)) {
		case BLOCKED:
			hold(s, p, bytes, len);
			break;
		case FAILED:
			tp_resp_ignore(&s->r, p);
			break;
		}
		break;
	case TP_TAKE_DUP:
		s->needless++;
		return;
	case TP_TAKE_OUTSIDE:
		sim_check(s, s->r.syndrome == TP_SYN_NAK);
		return;
	default:
		sim_fail(s, "bad packet");
	}
	count(s, B, p, len);
	run_ready(s);
}

static void post_receives(struct sim *s, u32 n)
{
	s->rq_posted += n;
	if (s->r.syndrome == TP_SYN_RNR) {
		tp_resp_unblock(&s->r);
		run_ready(s);
	}
}

static void pump_b(struct sim *s)
{
	struct tp_tx *t = &s->r.tx;
	struct tp_burst b;
	struct tp_pkt p;
	struct tp_ack a;
	u32 bad;
	u8 ev;

	do {
		while (tp_tx_burst(t, s->now, 1 + rnd(&s->rnd, TP_BURST_MAX), t->tail, &b))
			send_burst(s, B, t, &b, &bad);
	} while (fit_records(t, !rnd(&s->rnd, 8)));
	while (tp_tx_probe(t, s->now, &p, &ev) || tp_tx_path_probe(t, s->now, &p, &ev))
		send_probe(s, B, &s->rpaths, &p, ev);
	if (tp_resp_take_ack(&s->r, -1, &a))
		ack(s, B, &a);
}

/* --- one packet, one host, one step of time --- */

static void take_packet(struct sim *s, struct packet *k)
{
	struct tp_rx *rx = k->dst == A ? &s->q.rx : &s->r.rx;
	enum tp_kind kind = tp_wire_kind(k->buf);
	struct tp_pkt p;
	struct tp_ack a;
	int hdr;

	if (kind == TP_ACK || kind == TP_SACK) {
		sim_check(s, tp_wire_decode_ack(&a, k->buf, k->len) >= 0);
		if (k->dst == A)
			tp_req_ack(&s->q, s->now, &a);
		else
			tp_resp_ack(&s->r, s->now, &a);
		s->host[k->dst].told = true;
		return;
	}
	hdr = tp_wire_decode(&p, k->buf, k->len);
	sim_check(s, hdr >= 0);
	if (kind == TP_PROBE && rx->probe) {		/* each probe gets its own answer */
		if (k->dst == A ? tp_req_take_ack(&s->q, &a) : tp_resp_take_ack(&s->r, -1, &a))
			ack(s, k->dst, &a);
	}
	tp_rx_seen(rx, k->entropy, k->ce);
	trace_pkt(s, k->dst == A ? ">A" : ">B", &p, k->len - (u32)hdr - p.pad);
	if (kind == TP_PROBE)
		tp_rx_probed(rx, p.probe_id);
	else if (k->dst == A)
		take_response(s, &p, k->buf + hdr, k->len - (u32)hdr - p.pad, k->tags);
	else
		take_request(s, &p, k->buf + hdr, k->len - (u32)hdr - p.pad);
}

static void settle(struct sim *s, u8 who)
{
	const struct tp_tx *t = who == A ? &s->q.tx : &s->r.tx;
	struct host *h = &s->host[who];
	struct tp_ack a;
	u64 d;

	sim_check(s, !h->told || t->credited == !!(s->c->grants & BIT(!who)));
	if (who == A) {
		pump_a(s);
		if (tp_req_take_ack(&s->q, &a))
			ack(s, A, &a);
		d = tp_req_deadline(&s->q);
		if (s->q.tx.head != s->q.tx.tail && !s->q.dead)
			sim_check(s, d != ~0ULL);
	} else {
		pump_b(s);
		d = tp_tx_deadline(&s->r.tx);
		if (s->r.tx.head != s->r.tx.tail)
			sim_check(s, d != ~0ULL);
	}
	if (d != h->deadline) {
		h->deadline = d;
		h->timer = d == ~0ULL || !s->c->late_ns ? d : d + rnd(&s->rnd, (u32)s->c->late_ns);
	}
}

static void wake(struct sim *s, u8 who)
{
	struct host *h = &s->host[who];
	struct packet *k;

	while ((k = h->first)) {
		h->first = k->next;
		take_packet(s, k);
		free(k->tags);
		free(k);
	}
	h->last = &h->first;
	h->wake = ~0ULL;
	settle(s, who);
}

static void arrive(struct sim *s, struct packet *k)
{
	struct host *h = &s->host[k->dst];

	k->next = NULL;
	*h->last = k;
	h->last = &k->next;
	if (h->wake == ~0ULL)
		h->wake = s->now + s->c->batch_ns;
}

static u64 next_time(const struct sim *s)
{
	u64 t = min(s->host[A].wake, s->host[B].wake);

	t = min(t, min(s->host[A].timer, s->host[B].timer));
	t = min(t, s->rq_next);
	t = min(t, max(s->now, tp_pacer_deadline(&s->host[A].pacer)));
	t = min(t, max(s->now, tp_pacer_deadline(&s->host[B].pacer)));
	return s->nheap ? min(t, s->heap[0]->at) : t;
}

/* Whose turn it is, answers unasked. */
static void grant(struct sim *s, u8 who)
{
	struct host *h = &s->host[who];

	if (!tp_pacer_grant(&h->pacer, s->now))
		return;
	while (tp_pacer_grant(&h->pacer, s->now))
		;
	*(who == A ? &s->q.rx.ack_wanted : &s->r.rx.ack_wanted) = true;
	settle(s, who);
}

static void step(struct sim *s)
{
	u8 who;

	s->now = next_time(s);
	grant(s, A);
	grant(s, B);
	while (s->nheap && s->heap[0]->at <= s->now)
		arrive(s, heap_pop(s));
	if (s->rq_next <= s->now) {
		post_receives(s, 1 + rnd(&s->rnd, 8));
		s->rq_next = s->rq_posted < s->nmsg ? s->now + s->c->rq_every_ns : ~0ULL;
		settle(s, B);
	}
	for (who = A; who <= B; who++)
		if (s->host[who].wake <= s->now)
			wake(s, who);
	for (who = A; who <= B; who++) {
		if (s->host[who].timer > s->now)
			continue;
		s->host[who].timer = ~0ULL;
		s->host[who].deadline = 0;
		if (who == A)
			tp_req_timeout(&s->q, s->now);
		else
			tp_tx_timeout(&s->r.tx, s->now);
		settle(s, who);
		sim_check(s, s->host[who].deadline > s->now);	/* else the timer would spin */
	}
}

/* --- messages --- */

static u8 pick_verb(struct sim *s)
{
	u8 k;

	do {
		k = (u8)rnd(&s->rnd, TP_RDMA_FLUSH + 1);
	} while (!(s->c->verbs & 1 << k));
	return k;
}

static void make_range(struct sim *s, struct msg *m, u32 i)
{
	const struct cfg *c = s->c;

	m->len = rnd(&s->rnd, 8) ? 1 + rnd(&s->rnd, c->max_len) : rnd(&s->rnd, 2) * c->max_len;
	if (c->bulk)
		m->len = c->max_len;
	m->raddr = MEM_VA;
	if (c->bulk)
		m->raddr += (u64)i * c->max_len;
	else if (c->disjoint)
		m->raddr += i * c->max_len % MEM;
	else if (m->kind != TP_SEND)
		m->raddr += rnd(&s->rnd, MEM - m->len + 1);
	m->rkey = KEY;
}

static void make_atomic(struct sim *s, struct msg *m)
{
	u32 cell = rnd(&s->rnd, CELLS);
	u64 *v = &s->model_cell[cell];

	m->len = 8;
	m->raddr = CELL_VA + 8 * cell;
	m->rkey = KEY;
	m->expect = *v;
	m->swap_add = rnd64(&s->rnd);
	m->compare = rnd(&s->rnd, 2) ? *v : rnd64(&s->rnd);
	if (m->kind == TP_FAA)
		*v += m->swap_add;
	else if (*v == m->compare)
		*v = m->swap_add;
}

static void make_atomic_write(struct sim *s, struct msg *m)
{
	m->len = 8;
	m->raddr = MEM_VA + 8 * rnd(&s->rnd, MEM / 8);
	m->rkey = KEY;
}

static void make_bad(struct sim *s, struct msg *m)
{
	m->faulty = true;
	m->has_imm = false;
	switch (s->c->bad_how) {
	case BAD_RKEY:
	case BAD_READ:
		m->kind = s->c->bad_how == BAD_READ ? TP_READ : TP_WRITE;
		m->rkey = KEY + 1;
		m->len = 5 * s->c->payload;
		m->raddr = MEM_VA;
		break;
	case BAD_BOUNDS:
		m->kind = TP_WRITE;
		m->len = 5 * s->c->payload;
		m->raddr = MEM_VA + MEM - m->len + 1;
		break;
	case BAD_SEND_LEN:
		m->kind = TP_SEND;
		m->len = RQ_BUF + 1;
		break;
	case BAD_ATOMIC:
		m->kind = TP_FAA;
		m->len = 8;
		m->raddr = CELL_VA + 4;
		break;
	case BAD_ATOMIC_WRITE:
		m->kind = TP_ATOMIC_WRITE;
		m->len = 8;
		m->raddr = MEM_VA + 12;
		break;
	case BAD_FLUSH:
	case BAD_FLUSH_TYPE:
		m->kind = TP_RDMA_FLUSH;
		m->len = 100;
		m->raddr = MEM_VA;
		m->rkey = s->c->bad_how == BAD_FLUSH ? KEY + 1 : KEY;
		break;
	default:
		m->kind = TP_WRITE;
		m->len = 3 * s->c->payload;
		m->raddr = MEM_VA;
	}
}

static void make_messages(struct sim *s)
{
	u32 i, rq = 0, barrier = s->nmsg;

	for (i = 0; i < s->nmsg; i++) {
		struct msg *m = &s->msg[i];

		m->kind = pick_verb(s);
		m->fence = rnd(&s->rnd, 100) < s->c->fence;
		if (m->kind == TP_CAS || m->kind == TP_FAA)
			make_atomic(s, m);
		else if (m->kind == TP_ATOMIC_WRITE)
			make_atomic_write(s, m);
		else
			make_range(s, m, i);
		if ((m->kind == TP_WRITE || m->kind == TP_SEND) && s->c->verbs & 1 << TP_SEND)
			m->has_imm = rnd(&s->rnd, 3) == 0;
		if ((int)i == s->c->bad)
			make_bad(s, m);
		m->imm = m->kind != TP_RDMA_FLUSH ? i * 77 :
			 m->faulty && s->c->bad_how == BAD_FLUSH_TYPE ? 0 : TP_FETH_GLOBAL;
		m->nr_rq = rq;
		rq += m->kind == TP_SEND || (m->kind == TP_WRITE && m->has_imm);
		if (s->c->bulk)
			continue;
		m->seen = calloc(1, m->len + 1);
		m->got = calloc(1, m->len + 1);
		m->snap = calloc(m->len + 1, sizeof(*m->snap));
	}
	for (i = s->nmsg; i--;) {
		s->msg[i].barrier = barrier;	/* tags count from 1: message barrier - 1 may be seen */
		if (s->msg[i].fence)
			barrier = i;
	}
}

static void start(struct sim *s, const struct cfg *c)
{
	struct tp_req_attr at = {
		.dqpn = 5, .psn = c->psn & 0xffffff, .rsp_psn = (c->psn + 77) & 0xffffff,
		.payload = c->payload, .max_rd = c->max_rd, .retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry, .timeout_ns = c->timeout_ns,
	};
	struct tp_resp_attr rat = { .psn = at.psn, .max_dest_rd = c->max_rd, .rnr_timer = c->rnr_timer };
	u32 i;

	memset(s, 0, sizeof(*s));
	s->c = c;
	s->rnd = c->seed * 0x9e3779b97f4a7c15ULL + 1;
	s->now = 7 * MS;
	s->nmsg = c->nmsg;
	s->msg = calloc(c->nmsg, sizeof(*s->msg));
	tp_paths_init(&s->paths, c->nevs ? c->nevs : TP_PATHS, c->seed);
	tp_paths_init(&s->rpaths, c->nevs ? c->nevs : TP_PATHS, c->seed + 1);
	tp_req_init(&s->q, &at, s->ops, OPS_MAX, &s->paths, (u32)c->seed, s->now);
	tp_resp_init(&s->r, &rat);
	tp_resp_start_tx(&s->r, 6, at.rsp_psn, s->rops, RD_RING, c->payload, &s->rpaths,
			 (u32)c->seed + 9, s->now);
	s->ack_rng = (u32)c->seed + 3;
	s->rq_posted = c->rq_ahead ? c->rq_ahead : c->nmsg;
	s->rq_next = c->rq_ahead && c->rq_every_ns ? s->now + c->rq_every_ns : ~0ULL;
	s->host[A] = (struct host) { .last = &s->host[A].first, .wake = ~0ULL, .timer = ~0ULL };
	s->host[B] = (struct host) { .last = &s->host[B].first, .wake = ~0ULL, .timer = ~0ULL };
	for (i = A; i <= B; i++) {
		tp_pacer_init(&s->host[i].pacer, c->payload, c->rate, c->budget, s->now);
		tp_credit_init(&s->host[i].credit, c->payload);
	}
	/* What HELLO said: the truth, nothing, or what is not so. */
	if (c->grants && rnd(&s->rnd, 2))
		tp_tx_use_credit(&s->q.tx);
	if (c->grants && rnd(&s->rnd, 2))
		tp_tx_use_credit(&s->r.tx);
	make_messages(s);
}

static void finish(struct sim *s)
{
	u32 i;

	while (s->nheap) {
		struct packet *k = heap_pop(s);

		free(k->tags);
		free(k);
	}
	for (i = 0; i < 2; i++) {
		struct packet *k, *next;

		for (k = s->host[i].first; k; k = next) {
			next = k->next;
			free(k->tags);
			free(k);
		}
	}
	for (i = 0; i < TP_WINDOW; i++) {
		let_go(&s->held[i]);
		let_go(&s->rheld[i]);
	}
	for (i = 0; i < s->nmsg; i++) {
		free(s->msg[i].seen);
		free(s->msg[i].got);
		free(s->msg[i].snap);
	}
	drop_records(&s->q.tx);
	drop_records(&s->r.tx);
	free(s->msg);
	free(s);
}

/* Every byte holds what the last message that wrote it left there; READs got it right. */
static void check_memory(struct sim *s)
{
	u32 i, j;

	for (i = 0; i < MEM && !s->c->bulk; i++) {
		u32 w = s->ref_owner[i];

		sim_check(s, s->owner[i] == w);
		if (w)
			sim_check(s, s->mem[i] == content(w - 1, (u32)(MEM_VA + i - s->msg[w - 1].raddr)));
	}
	sim_check(s, s->c->bulk || !memcmp(s->cell, s->model_cell, sizeof(s->cell)));
	for (i = 0; i < s->nmsg && !s->c->bulk; i++)
		for (j = 0; s->msg[i].kind == TP_READ && j < s->msg[i].len; j++)
			sim_check(s, s->msg[i].seen[j]);
}

static struct sim *run_pair(const struct cfg *c)
{
	struct sim *s = malloc(sizeof(*s));

	trace = getenv("SIM_TRACE");
	start(s, c);
	settle(s, A);
	settle(s, B);
	while (s->completed < s->nmsg) {
		if (s->q.dead && s->completed == s->posted)
			break;
		step(s);
		if (s->now > c->limit_ns)
			sim_fail(s, "hangs: %u of %u complete, %u executed, exec %u una %u nxt %u lost %u",
				 s->completed, s->nmsg, s->executed, s->q.tx.exec, s->q.tx.una,
				 s->q.tx.nxt, s->q.tx.lost);
	}
	return s;
}

static void check_all_ok(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->nmsg; i++)
		if (s->msg[i].st != TP_OK || !s->msg[i].done)
			sim_fail(s, "message %u: status %u", i, s->msg[i].st);
	sim_check(s, s->executed == s->nmsg);
	check_memory(s);
}

#define ALL_VERBS	(1 << TP_SEND | 1 << TP_WRITE | 1 << TP_READ | 1 << TP_CAS | 1 << TP_FAA |	\
			 1 << TP_ATOMIC_WRITE | 1 << TP_RDMA_FLUSH)

static const struct cfg base = {
	.name = "base", .nmsg = 300, .npaths = 4, .nevs = 64,
	.path = { { .delay_ns = 50 * US }, { .delay_ns = 80 * US }, { .delay_ns = 200 * US },
		  { .delay_ns = 120 * US } },
	.batch_ns = 10 * US, .payload = 32, .max_len = 300, .psn = 0xfffff0, .max_rd = 8,
	.depth = 128, .verbs = ALL_VERBS, .fence = 10, .rnr_timer = 1, .rnr_retry = 7, .retry_cnt = 7,
	.timeout_ns = 500 * MS, .limit_ns = 100000 * MS, .bad = -1,
};

/* SIM_SEEDS=n runs that many seeds instead. */
static u32 seeds(u32 n)
{
	const char *e = getenv("SIM_SEEDS");

	return e ? (u32)atoi(e) : n;
}

static void run_seeds(struct cfg c, u32 n)
{
	u32 i;

	n = seeds(n);
	c.nmsg = FEW(c.nmsg);
	for (TRIES(i, n)) {
		struct sim *s;

		c.seed = i + 1;
		c.psn = i % 3 ? 0xffffff - 37 * i : i;
		s = run_pair(&c);
		check_all_ok(s);
		finish(s);
	}
}

/* --- everything, on all kinds of bad fabric --- */

TEST(pair__clean)
{
	struct cfg c = base;

	c.name = "clean";
	run_seeds(c, 20);
}

TEST(pair__one_path_no_delay)
{
	struct cfg c = base;

	c.name = "one path";
	c.npaths = 1;
	c.nevs = 1;
	c.path[0].delay_ns = 0;
	c.batch_ns = 0;
	run_seeds(c, 10);
	c.loss = 50000;
	run_seeds(c, 20);
}

TEST(pair__loss)
{
	static const u32 ppm[] = { 1000, 10000, 50000, 200000, 400000 };
	struct cfg c = base;
	u32 i;

	c.name = "loss";
	c.timeout_ns = 2000 * MS;
	for (i = 0; i < ARRAY_SIZE(ppm); i++) {
		c.loss = ppm[i];
		run_seeds(c, 16);
	}
}

TEST(pair__duplicates)
{
	struct cfg c = base;

	c.name = "duplicates";
	c.dup = 300000;
	run_seeds(c, 20);
	c.loss = 100000;
	run_seeds(c, 20);
}

TEST(pair__reordering_inside_a_path)
{
	struct cfg c = base;

	c.name = "reordering";
	c.reorder = 300000;
	c.reorder_ns = 5 * MS;
	run_seeds(c, 20);
	c.loss = 50000;
	c.dup = 50000;
	run_seeds(c, 20);
}

TEST(pair__late_timers)
{
	struct cfg c = base;

	c.name = "late timers";
	c.late_ns = 20 * MS;
	c.loss = 50000;
	c.dup = 20000;
	c.reorder = 50000;
	c.reorder_ns = 1 * MS;
	run_seeds(c, 20);
}

TEST(pair__refused_by_the_local_stack)
{
	struct cfg c = base;

	c.name = "refused";
	c.refuse = 200000;
	run_seeds(c, 20);
	c.loss = 50000;
	run_seeds(c, 20);
}

TEST(pair__shallow_queues_and_marks)
{
	struct cfg c = base;

	c.name = "shallow";
	c.mbit = 10;
	c.queue = 5000;
	c.mark = 2000;
	run_seeds(c, 20);
}

TEST(pair__deep_queue_of_small_messages)
{
	struct cfg c = base;

	c.name = "deep";
	c.nmsg = 500;
	c.depth = OPS_MAX;
	c.max_len = 20;
	c.loss = 20000;
	run_seeds(c, 20);
}

TEST(pair__big_messages)
{
	struct cfg c = base;

	c.name = "big";
	c.verbs = 1 << TP_WRITE | 1 << TP_READ;
	c.payload = 2;
	c.max_len = 4000;
	c.nmsg = 60;
	c.loss = 20000;
	c.depth = 64;
	run_seeds(c, 20);
}

TEST(pair__reads_and_atomics_only)
{
	struct cfg c = base;

	c.name = "reads";
	c.verbs = 1 << TP_READ | 1 << TP_CAS | 1 << TP_FAA;
	c.loss = 50000;
	for (c.max_rd = 1; c.max_rd <= RD_RING; c.max_rd *= 4)
		run_seeds(c, 10);
}

/* A log: data, FLUSH, ATOMIC_WRITE of its end; over and over the same memory. */
TEST(pair__flush_and_atomic_write)
{
	struct cfg c = base;

	c.name = "log";
	c.verbs = 1 << TP_WRITE | 1 << TP_ATOMIC_WRITE | 1 << TP_RDMA_FLUSH;
	c.dup = 100000;
	c.loss = 50000;
	for (c.max_rd = 1; c.max_rd <= RD_RING; c.max_rd *= 4)
		run_seeds(c, 10);
}

/* --- receiver not ready --- */

/* One end grants or both, much or little, whatever is lost: nobody waits for ever, and little is sent unasked. */
TEST(pair__credit)
{
	struct cfg c = base;

	c.rate = 40000;
	for (c.grants = BIT(A); c.grants <= (BIT(A) | BIT(B)); c.grants++) {
		c.name = "credit";
		c.budget = 64;
		c.loss = 0;
		run_seeds(c, 6);
		c.name = "credit, least budget, late timers";
		c.budget = 1;
		c.late_ns = 5 * MS;
		run_seeds(c, 6);
		c.name = "credit, loss";
		c.loss = 200000;
		run_seeds(c, 6);
		c.name = "credit, slow";
		c.loss = 20000;
		c.late_ns = 0;
		c.rate = 500;
		c.verbs = 1 << TP_WRITE | 1 << TP_READ;
		run_seeds(c, 6);
		c.rate = 40000;
		c.verbs = ALL_VERBS;
	}
}

TEST(pair__rnr)
{
	struct cfg c = base;

	c.name = "rnr";
	c.rq_ahead = 1;
	c.rq_every_ns = 3 * MS;
	c.fence = 2;
	run_seeds(c, 20);
	c.loss = 100000;
	run_seeds(c, 20);
}

/* READ data must not wait for a SEND that is blocked. */
TEST(pair__rnr_exhausted)
{
	struct cfg c = base;
	u32 seed, i;

	c.name = "rnr exhausted";
	c.rq_ahead = 5;
	c.rnr_retry = 3;
	c.rnr_timer = 14;	/* 1.28 ms */
	for (seed = 1; seed <= ROUNDS(20); seed++) {
		struct sim *s;

		c.seed = seed;
		c.loss = seed & 1 ? 50000 : 0;
		s = run_pair(&c);
		for (i = 0; s->msg[i].nr_rq < 5 || (s->msg[i].kind != TP_SEND && !s->msg[i].has_imm); i++)
			sim_check(s, s->msg[i].st == TP_OK);
		sim_check(s, s->msg[i].st == TP_RNR_EXC);
		for (i++; i < s->posted; i++)
			sim_check(s, s->msg[i].st == TP_FLUSH && s->msg[i].done);
		sim_check(s, s->end > 7 * MS + 3 * 1280 * US);
		finish(s);
	}
}

/* --- paths that die --- */

TEST(pair__path_dies_and_returns)
{
	struct cfg c = base;
	u32 seed;

	c.name = "path death";
	c.bulk = true;
	c.verbs = 1 << TP_WRITE;
	c.payload = 1024;
	c.max_len = 65536;
	c.nmsg = 400;
	c.mbit = 80;
	c.queue = 200000;
	c.path[1].dead_from = 100 * MS;
	c.path[1].dead_to = 300 * MS;
	c.limit_ns = 4000 * MS;
	for (seed = 1; seed <= 5; seed++) {
		struct sim *s;

		c.seed = seed;
		s = run_pair(&c);
		check_all_ok(s);
		/* 26 MB at 40 MB/s, 0.2 s of it at three quarters, and what was on the path */
		if (s->end > 900 * MS)
			sim_fail(s, "took too long");
		finish(s);
	}
}

TEST(pair__all_paths_dead_for_a_while)
{
	struct cfg c = base;
	u32 i;

	c.name = "blackout";
	for (i = 0; i < c.npaths; i++) {
		c.path[i].dead_from = 8 * MS;
		c.path[i].dead_to = 1500 * MS;
	}
	run_seeds(c, 10);
}

TEST(pair__silence_ends_in_retry_exceeded)
{
	struct cfg c = base;
	u32 i, seed;

	c.name = "silence";
	for (i = 0; i < c.npaths; i++) {
		c.path[i].dead_from = 9 * MS;
		c.path[i].dead_to = ~0ULL;
	}
	for (seed = 1; seed <= 5; seed++) {
		struct sim *s;
		bool failed = false;

		c.seed = seed;
		s = run_pair(&c);
		for (i = 0; i < s->posted; i++) {
			if (s->msg[i].st != TP_OK && !failed) {
				sim_check(s, s->msg[i].st == TP_RETRY_EXC);
				failed = true;
			} else {
				sim_check(s, s->msg[i].st == (failed ? TP_FLUSH : TP_OK));
			}
			sim_check(s, s->msg[i].done);
		}
		sim_check(s, failed);
		sim_check(s, s->end >= 8 * c.timeout_ns && s->end < 8 * c.timeout_ns + 1100 * MS);
		finish(s);
	}
}

/* --- errors --- */

static enum tp_status bad_status(enum bad_how how)
{
	switch (how) {
	case BAD_SEND_LEN:
	case BAD_ATOMIC:
	case BAD_ATOMIC_WRITE:
	case BAD_FLUSH_TYPE:
		return TP_REM_INV_REQ;
	case BAD_LOCAL:
	case BAD_LOCAL_POST:
		return TP_LOC_PROT;
	default:
		return TP_REM_ACCESS;
	}
}

static void check_error(struct sim *s)
{
	u32 i, bad = (u32)s->c->bad;

	for (i = 0; i < s->posted; i++) {
		enum tp_status want = i < bad ? TP_OK : i > bad ? TP_FLUSH : bad_status(s->c->bad_how);

		sim_check(s, s->msg[i].done);
		if (s->msg[i].st != want)
			sim_fail(s, "how %u: message %u of %u: status %u, expected %u",
				 s->c->bad_how, i, bad, s->msg[i].st, want);
	}
	sim_check(s, s->executed == bad);
	for (i = bad; i < s->posted; i++)
		sim_check(s, !s->msg[i].len || s->msg[i].placed < s->msg[i].len);
}

TEST(pair__errors_at_their_turn)
{
	struct cfg c = base;
	u32 seed, how;

	c.name = "errors";
	c.nmsg = 120;
	for (how = BAD_RKEY; how <= BAD_LOCAL_POST; how++) {
		for (seed = 1; seed <= ROUNDS(20); seed++) {
			struct sim *s;

			c.seed = seed;
			c.bad_how = (u8)how;
			c.bad = (int)(seed * 37 % c.nmsg);
			c.loss = seed & 1 ? 0 : 100000;
			c.rq_ahead = seed & 2 ? 1 : 0;
			c.rq_every_ns = 1 * MS;
			s = run_pair(&c);
			check_error(s);
			finish(s);
		}
	}
}

TEST(pair__no_reads_allowed)
{
	struct cfg c = base;
	struct sim *s;
	u32 i;

	c.name = "no reads";
	c.seed = 5;
	c.max_rd = 0;
	s = run_pair(&c);
	for (i = 0; s->msg[i].kind < TP_READ; i++)
		sim_check(s, s->msg[i].st == TP_OK);
	sim_check(s, s->msg[i].st == TP_LOC_QP_OP);
	sim_check(s, i + 1 == s->posted || s->msg[i + 1].st == TP_FLUSH);
	finish(s);
}

/* --- order of WRITEs --- */

TEST(pair__writes_apart_are_not_ordered)
{
	struct cfg c = base;
	struct sim *s;

	c.name = "apart";
	c.seed = 1;
	c.verbs = 1 << TP_WRITE;
	c.disjoint = true;
	c.max_len = 64;
	c.depth = 32;
	s = run_pair(&c);
	check_all_ok(s);
	sim_check(s, s->ordered == 0);
	finish(s);
}

/* --- how well it does --- */

static void bulk(struct cfg *c, u32 verb)
{
	c->bulk = true;
	c->verbs = 1 << verb;
	c->payload = 1408;
	c->max_len = 65536;
	c->depth = 32;
	c->nmsg = 300;
	c->max_rd = RD_RING;
	c->fence = 0;
	c->queue = 1000000;
}

static void unequal(struct cfg *c)
{
	static const u64 ms[] = { 0, 1, 3, 9 };
	u32 i;

	c->name = "0/1/3/9 ms";
	for (i = 0; i < 4; i++)
		c->path[i].delay_ns = ms[i] * MS + 20 * US;
}

/* Runs without loss over paths of very different length. */
static void check_no_resends(struct cfg c, u32 n)
{
	struct sim *s;
	u32 mbit = c.mbit;

	unequal(&c);
	for (c.seed = 1; c.seed <= n; c.seed++) {
		c.mbit = c.seed & 1 ? mbit : mbit * 12;
		s = run_pair(&c);
		check_all_ok(s);
		if (s->q.tx.c_rtx || s->r.tx.c_rtx || s->needless)
			sim_fail(s, "resent %lu and %lu, %u duplicates", (unsigned long)s->q.tx.c_rtx,
				 (unsigned long)s->r.tx.c_rtx, s->needless);
		finish(s);
	}
}

TEST(pair__lossless_and_unequal_never_resends)
{
	struct cfg c = base;

	c.nmsg = FEW(c.nmsg);
	check_no_resends(c, ROUNDS(8));
}

TEST(pair__lossless_bulk_never_resends)
{
	struct cfg c = base;

	c.mbit = 80;		/* and 960 */
	bulk(&c, TP_WRITE);
	check_no_resends(c, 4);
	bulk(&c, TP_READ);
	check_no_resends(c, 4);
}

/* Run, and return per mille of what the paths together can carry of payload. */
static u32 goodput(const struct cfg *c, bool shares, u32 *needless_pm)
{
	struct sim *s = run_pair(c);
	u64 bytes = (u64)c->nmsg * c->max_len;
	u64 ns = s->end - 7 * MS;
	u64 wire = c->payload + 46 + 4 + TP_BTH_LEN + TP_METH_LEN + TP_RETH_LEN;
	u64 can = ns * c->npaths * c->mbit / 8000 * c->payload / wire;
	u8 dir = c->verbs & 1 << TP_READ ? B : A;
	struct tp_tx *t = dir == A ? &s->q.tx : &s->r.tx;
	u64 sum = 0;
	u32 i;

	check_all_ok(s);
	for (i = 0; i < c->npaths; i++)
		sum += s->link[dir][i].bytes;
	for (i = 0; i < c->npaths && shares; i++)
		if (s->link[dir][i].bytes * c->npaths * 10 < sum * 9 ||
		    s->link[dir][i].bytes * c->npaths * 10 > sum * 11)
			sim_fail(s, "path %u carries %lu of %lu bytes", i,
				 (unsigned long)s->link[dir][i].bytes, (unsigned long)sum);
	*needless_pm = t->c_rtx ? (u32)(s->needless * 1000ULL / t->c_rtx) : 0;
	if (getenv("SIM_VERBOSE"))
		printf("%s seed %lu: %lu us, %lu per mille; sent %lu rtx %lu (ev %lu rack %lu rto %lu) dup %u probes %lu cwnd %u srtt %u var %u reo %u\n",
		       c->name, (unsigned long)c->seed, (unsigned long)(ns / US),
		       (unsigned long)(bytes * 1000 / can), (unsigned long)t->c_sent,
		       (unsigned long)t->c_rtx, (unsigned long)t->c_lost_ev,
		       (unsigned long)t->c_lost_rack, (unsigned long)t->c_rto, s->needless,
		       (unsigned long)t->c_probes, t->cc.cwnd, t->srtt_us, t->rttvar_us, t->reo);
	finish(s);
	return (u32)(bytes * 1000 / can);
}

static void check_goodput(struct cfg c, u32 least_pm, bool shares, u32 most_needless_pm)
{
	u32 pm, needless, verb;

	bulk(&c, TP_WRITE);
	for (verb = TP_WRITE; verb <= TP_READ; verb++) {
		for (c.seed = 1; c.seed <= seeds(2); c.seed++) {
			c.verbs = 1 << verb;
			pm = goodput(&c, shares, &needless);
			if (pm < least_pm)
				fail_msg("%s seed %lu verb %u: goodput %u per mille of %u", c.name,
					 (unsigned long)c.seed, verb, pm, least_pm);
			if (needless > most_needless_pm)
				fail_msg("%s seed %lu verb %u: %u per mille of resends needless",
					 c.name, (unsigned long)c.seed, verb, needless);
		}
	}
}

TEST(pair__goodput_of_four_paths)
{
	struct cfg c = base;
	u32 i;

	for (i = 0; i < 4; i++)
		c.path[i].delay_ns = 100 * US;
	c.name = "4 x 80";
	c.mbit = 80;
	check_goodput(c, 950, true, 0);
	c.name = "4 x 1000";
	c.mbit = 1000;
	check_goodput(c, 900, true, 0);
}

/* Far paths hold more packets than near ones, and are filled all the same. */
TEST(pair__goodput_of_unequal_paths)
{
	struct cfg c = base;

	unequal(&c);
	c.mbit = 20;
	check_goodput(c, 940, true, 0);
}

TEST(pair__goodput_with_loss)
{
	struct cfg c = base;
	u32 i;

	for (i = 0; i < 4; i++)
		c.path[i].delay_ns = 100 * US;
	c.mbit = 80;
	c.name = "loss 0.1 %";
	c.loss = 1000;
	check_goodput(c, 930, false, 100);
	c.name = "loss 1 %";
	c.loss = 10000;
	check_goodput(c, 880, false, 100);
	c.name = "loss 5 %";
	c.loss = 50000;
	check_goodput(c, 730, false, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(pair__clean),
		RUN(pair__one_path_no_delay),
		RUN(pair__loss),
		RUN(pair__duplicates),
		RUN(pair__reordering_inside_a_path),
		RUN(pair__late_timers),
		RUN(pair__refused_by_the_local_stack),
		RUN(pair__shallow_queues_and_marks),
		RUN(pair__deep_queue_of_small_messages),
		RUN_LONG(pair__big_messages),
		RUN(pair__reads_and_atomics_only),
		RUN(pair__credit),
		RUN(pair__flush_and_atomic_write),
		RUN(pair__rnr),
		RUN(pair__rnr_exhausted),
		RUN_LONG(pair__path_dies_and_returns),
		RUN(pair__all_paths_dead_for_a_while),
		RUN(pair__silence_ends_in_retry_exceeded),
		RUN(pair__errors_at_their_turn),
		RUN(pair__no_reads_allowed),
		RUN(pair__writes_apart_are_not_ordered),
		RUN(pair__lossless_and_unequal_never_resends),
		RUN_LONG(pair__lossless_bulk_never_resends),
		RUN_LONG(pair__goodput_of_four_paths),
		RUN_LONG(pair__goodput_of_unequal_paths),
		RUN_LONG(pair__goodput_with_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
