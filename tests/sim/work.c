// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One run: made from a description and a seed, filled with QPs, run until all
 * is received and acknowledged, then asked. And the workloads.
 */
#include <stdarg.h>

#include "sim.h"

enum { MESSAGE = 262144 };	/* a flow is a sequence of WRITEs of that size */

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "sim: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(2);
}

void *zalloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p)
		die("no memory");
	return p;
}

u64 rnd64(struct sim *s)	/* xorshift64* */
{
	u64 x = s->rnd;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	s->rnd = x;
	return x * 0x2545f4914f6cdd1dULL;
}

u32 rnd(struct sim *s, u32 n)
{
	return (u32)((rnd64(s) >> 32) * n >> 32);
}

struct sim *sim_new(const struct fabric_cfg *c, u32 nqp, u64 seed)
{
	struct sim *s = zalloc(sizeof(*s));
	u32 i;

	s->seed = seed;
	s->rnd = mix64(seed) | 1;
	s->now = 7000 * PS_PER_US;	/* clocks don't start at 0 */
	s->limit = s->now + 60 * 1000000 * PS_PER_US;
	fabric_init(s, c);
	s->host = zalloc(s->f.nhosts * sizeof(*s->host));
	s->peers = zalloc(s->f.nhosts * sizeof(*s->peers));
	s->qp = zalloc(nqp * sizeof(*s->qp));
	for (i = 0; i < s->f.nhosts; i++) {
		s->host[i].last = &s->host[i].first;
		s->host[i].pacer_timer = NEVER;
		/* a little less than the link carries, or what stands in a queue would stay there */
		tp_pacer_init(&s->host[i].pacer, PAYLOAD, (u32)(995000000ULL / c->ps_per_byte), c->credit,
			      sim_ns(s));
	}
	return s;
}

/* @start: ps from the beginning. The caller gave sim_new() room for it. */
struct qp *sim_flow(struct sim *s, u16 src, u16 dst, u64 bytes, u64 start)
{
	struct qp *qp = &s->qp[s->nqp];

	qp->nr = s->nqp++;
	qp->src = src;
	qp->dst = dst;
	qp->len = MESSAGE;
	qp->nmsg = (u32)((bytes + MESSAGE - 1) / MESSAGE);
	qp->last_len = (u32)(bytes - (u64)(qp->nmsg - 1) * MESSAGE);
	qp->allowed = qp->nmsg;
	s->open++;
	heap_push(&s->heap, s->now + start, EV_START, qp);
	return qp;
}

/* @c must live as long as the run; times count from the beginning. */
void sim_script(struct sim *s, const struct script *c)
{
	heap_push(&s->heap, s->now + c->at, EV_SCRIPT, (void *)c);
}

static void sample(struct sim *s)
{
	if (s->nsamples == SAMPLES_MAX)
		return;
	s->sample[s->nsamples++] = s->total_rx - s->sampled;
	s->sampled = s->total_rx;
	heap_push(&s->heap, s->now + s->sample_every, EV_SAMPLE, NULL);
}

static void step(struct sim *s)
{
	struct event e = heap_pop(&s->heap);

	s->now = e.at;
	s->events++;
	switch ((enum event_kind)(e.order & 15)) {
	case EV_LINK:
		link_event(s, e.p);
		break;
	case EV_PACKET:
		packet_event(s, e.p);
		break;
	case EV_WAKE:
		host_wake(s, e.p);
		break;
	case EV_TIMER:
		qp_timer(s, e.p);
		break;
	case EV_START:
		qp_start(s, e.p);
		break;
	case EV_SCRIPT:
		script_event(s, e.p);
		break;
	case EV_ROOM:
		host_room(s, e.p);
		break;
	case EV_CREDIT:
		host_credit(s, e.p);
		break;
	case EV_SAMPLE:
		sample(s);
		break;
	}
}

/* Until every QP is done. What must hold in any run is checked at the end. */
void sim_run(struct sim *s)
{
	u32 i;

	if (s->sample_every)
		heap_push(&s->heap, s->now + s->sample_every, EV_SAMPLE, NULL);
	while (s->open) {
		if (!s->heap.n)
			die("seed %lu: %u QPs wait for nothing", (unsigned long)s->seed, s->open);
		step(s);
		if (s->now > s->limit)
			die("seed %lu: %u QPs hang", (unsigned long)s->seed, s->open);
	}
	for (i = 0; i < s->nqp; i++) {
		struct qp *qp = &s->qp[i];

		if (qp->rx_bytes != (u64)(qp->nmsg - 1) * qp->len + qp->last_len)
			die("QP %u: %lu bytes placed", i, (unsigned long)qp->rx_bytes);
		if (qp->received != qp->nmsg || qp->held_first)
			die("QP %u: %u messages executed", i, qp->received);
	}
}

static void free_peers(struct sim *s)
{
	struct peer *p, *next;
	u32 i;

	for (i = 0; i < s->f.nhosts; i++) {
		for (p = s->peers[i]; p; p = next) {
			next = p->next;
			free(p);
		}
	}
	free(s->peers);
}

void sim_free(struct sim *s)
{
	struct held *h, *hnext;
	struct pkt *p, *next;
	u32 i;

	for (i = 0; i < s->heap.n; i++)
		if ((s->heap.e[i].order & 15) == EV_PACKET)
			pkt_free(s, s->heap.e[i].p);
	for (i = 0; i < s->f.nhosts; i++) {
		for (p = s->host[i].first; p; p = next) {
			next = p->next;
			pkt_free(s, p);
		}
	}
	fabric_free(s);
	for (i = 0; i < 2; i++) {
		for (p = s->pool[i]; p; p = next) {
			next = p->next;
			free(p);
		}
	}
	for (h = s->held_pool; h; h = hnext) {
		hnext = h->next;
		free(h);
	}
	free_peers(s);
	free(s->host);
	free(s->qp);
	free(s->heap.e);
	free(s);
}

/* --- workloads --- */

/* Starts are a little apart: nothing in a network happens at one moment. */
static u64 jitter(struct sim *s)
{
	return rnd64(s) % (s->f.c.delay + 1);
}

static void shuffle(struct sim *s, u16 *v, u32 n)
{
	u32 i;

	for (i = n; i > 1; i--) {
		u32 j = rnd(s, i);
		u16 x = v[i - 1];

		v[i - 1] = v[j];
		v[j] = x;
	}
}

/* Hosts in random order, each sends to the next: everybody sends once and receives once. */
static u16 *random_ring(struct sim *s, u32 n)
{
	u16 *v = zalloc(n * sizeof(*v));
	u32 i;

	for (i = 0; i < n; i++)
		v[i] = (u16)i;
	shuffle(s, v, n);
	return v;
}

void work_permutation(struct sim *s, u64 bytes)
{
	u32 n = s->f.nhosts, i;
	u16 *v = random_ring(s, n);

	for (i = 0; i < n; i++)
		sim_flow(s, v[i], v[(i + 1) % n], bytes, jitter(s));
	free(v);
}

/*
 * @senders on other edges send to one host; @bystanders (group 1), a
 * permutation among hosts that take no part, half of them beside the victim.
 */
void work_incast(struct sim *s, u32 senders, u64 bytes, u32 bystanders, u64 bystander_bytes)
{
	u32 per = s->f.c.shape.hosts, n = s->f.nhosts, i;
	u16 *v = zalloc(n * sizeof(*v));
	u32 nv = 0;

	for (i = per; i < n; i++)
		v[nv++] = (u16)i;
	shuffle(s, v, nv);
	for (i = 0; i < senders; i++)
		sim_flow(s, v[i], 0, bytes, jitter(s));
	for (i = 0; i < bystanders; i++) {
		u16 dst = i < per - 1 ? (u16)(i + 1) : v[senders + bystanders + i];
		struct qp *qp = sim_flow(s, v[senders + i], dst, bystander_bytes, jitter(s));

		qp->group = 1;
	}
	free(v);
}

void work_all_to_all(struct sim *s, u32 hosts, u64 bytes)
{
	u32 i, j;

	for (i = 0; i < hosts; i++)
		for (j = 1; j < hosts; j++)
			sim_flow(s, (u16)i, (u16)((i + j) % hosts), bytes, jitter(s));
}

/* What came from the left goes on to the right. */
static void ring_received(struct sim *s, struct qp *qp)
{
	struct qp *right = qp->arg;

	if (right->allowed == right->nmsg)
		return;
	right->allowed++;
	qp_pump(s, right);
}

/*
 * All-reduce over a ring: 2 (n - 1) steps, in each every host passes a chunk of
 * 1/n to its neighbour by WRITE_WITH_IMM, whose completion allows the next.
 */
void work_ring(struct sim *s, u32 hosts, u64 bytes)
{
	u16 *v = random_ring(s, hosts);
	struct qp *first = &s->qp[s->nqp];
	u32 i;

	for (i = 0; i < hosts; i++) {
		struct qp *qp = sim_flow(s, v[i], v[(i + 1) % hosts], bytes / hosts, jitter(s));

		qp->nmsg = 2 * (hosts - 1);
		qp->len = (u32)(bytes / hosts);
		qp->last_len = qp->len;
		qp->imm_each = true;
		qp->allowed = 1;
		qp->on_receive = ring_received;
		qp->arg = first + (i + 1) % hosts;
	}
	free(v);
}

/* --- asked afterwards --- */

int by_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

struct times sim_times(const struct sim *s, u32 group)
{
	u64 *v = zalloc(s->nqp * sizeof(*v));
	struct times t = {};
	u32 i;

	for (i = 0; i < s->nqp; i++) {
		const struct qp *qp = &s->qp[i];

		if (qp->group != group)
			continue;
		v[t.n++] = qp->end - qp->start;
		t.end = max(t.end, qp->end);
	}
	if (!t.n) {
		free(v);
		return t;
	}
	qsort(v, t.n, sizeof(*v), by_u64);
	t.least = v[0];
	t.median = v[t.n / 2];
	t.most = v[t.n - 1];
	free(v);
	return t;
}

struct counts sim_counts(const struct sim *s)
{
	struct counts c = {};
	u32 i;

	for (i = 0; i < s->nqp; i++) {
		const struct tp_tx *t = &s->qp[i].q.tx;

		c.sent += t->c_sent;
		c.rtx += t->c_rtx;
		c.lost_ev += t->c_lost_ev;
		c.lost_rack += t->c_lost_rack;
		c.rto += t->c_rto;
		c.probes += t->c_probes;
		c.needless += s->qp[i].rx_dup;
	}
	return c;
}
