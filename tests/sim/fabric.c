// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Links and switches. A link is a queue of bytes in front of a wire: since it
 * is first in, first out, the moment at which a packet leaves is known when it
 * is queued, and one event per packet and link does (its arrival).
 *
 * Switches hash (addresses, UDP source port), each with a salt of its own. A
 * dead link swallows what is on it and what still comes: nobody tells the
 * switches ("silent" death), so only the ends can help themselves.
 *
 * Marks are set when a packet is queued: never while fewer than mark_lo bytes
 * wait, always from mark_hi on, in between with a probability that rises
 * linearly. What finds no room is dropped; nothing is trimmed.
 */
#include "sim.h"

enum { SMALL_HDR = 64 };

/* --- links by place --- */

u32 link_host_up(const struct fabric *f, u32 host)
{
	(void)f;
	return host;
}

u32 link_host_down(const struct fabric *f, u32 host)
{
	return f->nhosts + host;
}

u32 link_edge_up(const struct fabric *f, u32 edge, u32 agg)
{
	return 2 * f->nhosts + edge * f->c.shape.aggs + agg;
}

u32 link_edge_down(const struct fabric *f, u32 edge, u32 agg)
{
	return link_edge_up(f, f->nedges + edge, agg);
}

u32 link_agg_up(const struct fabric *f, u32 agg, u32 core)
{
	return 2 * f->nhosts + 2 * f->nedges * f->c.shape.aggs + agg * f->c.shape.cores + core;
}

u32 link_agg_down(const struct fabric *f, u32 agg, u32 core)
{
	return link_agg_up(f, f->naggs + agg, core);
}

/* Nodes: hosts, edges, aggregation switches, cores. */
static u32 node_edge(const struct fabric *f, u32 edge)
{
	return f->nhosts + edge;
}

static u32 node_agg(const struct fabric *f, u32 agg)
{
	return node_edge(f, f->nedges) + agg;
}

static u32 node_core(const struct fabric *f, u32 core)
{
	return node_agg(f, f->naggs) + core;
}

static void link_init(struct fabric *f, u32 nr, u32 to, u64 delay)
{
	struct link *l = &f->links[nr];

	l->to = to;
	l->ps_per_byte = f->c.ps_per_byte;
	l->delay = delay;
	l->queue = f->c.queue;
	l->mark_lo = f->c.mark_lo;
	l->mark_hi = f->c.mark_hi;
	l->tail = &l->head;
}

static void link_lossy(struct fabric *f, u32 nr)
{
	struct link *l = &f->links[nr];

	l->loss = f->c.loss;
	l->dup = f->c.dup;
	l->reorder = f->c.reorder;
	l->reorder_ps = f->c.reorder_ps;
}

static void init_links(struct fabric *f)
{
	const struct shape *h = &f->c.shape;
	u32 i, j;

	for (i = 0; i < f->nhosts; i++) {
		link_init(f, link_host_up(f, i), node_edge(f, i / h->hosts), f->c.delay);
		link_init(f, link_host_down(f, i), i, f->c.delay);
		/* a host's own queue is its memory: no limit, no marks */
		f->links[link_host_up(f, i)].queue = 0;
		f->links[link_host_up(f, i)].mark_hi = 0;
	}
	for (i = 0; i < f->nedges; i++) {
		for (j = 0; j < h->aggs; j++) {
			u32 agg = i / h->edges * h->aggs + j;
			u64 delay = f->c.delay + j * f->c.spread;

			link_init(f, link_edge_up(f, i, j), node_agg(f, agg), delay);
			link_init(f, link_edge_down(f, i, j), node_edge(f, i), delay);
			link_lossy(f, link_edge_up(f, i, j));
		}
	}
	for (i = 0; i < f->naggs; i++) {
		for (j = 0; j < h->cores; j++) {
			u32 core = i % h->aggs * h->cores + j;

			link_init(f, link_agg_up(f, i, j), node_core(f, core), f->c.delay);
			link_init(f, link_agg_down(f, i, j), node_agg(f, i), f->c.delay);
		}
	}
}

void fabric_init(struct sim *s, const struct fabric_cfg *c)
{
	struct fabric *f = &s->f;
	u32 i, n;

	f->c = *c;
	f->nedges = c->shape.pods * c->shape.edges;
	f->naggs = c->shape.pods * c->shape.aggs;
	f->ncores = c->shape.aggs * c->shape.cores;
	f->nhosts = f->nedges * c->shape.hosts;
	f->nlinks = 2 * (f->nhosts + f->nedges * c->shape.aggs + f->naggs * c->shape.cores);
	f->links = zalloc(f->nlinks * sizeof(*f->links));
	n = f->nhosts + f->nedges + f->naggs + f->ncores;
	f->salt = zalloc(n * sizeof(*f->salt));
	for (i = 0; i < n; i++)
		f->salt[i] = mix64(s->seed * 1000003 + i);
	init_links(f);
}

void fabric_free(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->f.nlinks; i++) {
		struct pkt *p, *next;

		for (p = s->f.links[i].head; p; p = next) {
			next = p->next;
			pkt_free(s, p);
		}
	}
	free(s->f.links);
	free(s->f.salt);
}

/* --- packets --- */

/* @hlen: bytes of header, or the most that may be needed */
struct pkt *pkt_new(struct sim *s, u32 hlen)
{
	bool big = hlen > SMALL_HDR;
	struct pkt *p = s->pool[big];

	if (p)
		s->pool[big] = p->next;
	else
		p = malloc(sizeof(*p) + (big ? TP_MAX_ACK : SMALL_HDR));
	if (!p)
		die("no memory");
	memset(p, 0, sizeof(*p));
	p->big = big;
	return p;
}

void pkt_free(struct sim *s, struct pkt *p)
{
	p->next = s->pool[p->big];
	s->pool[p->big] = p;
}

static struct pkt *pkt_twin(struct sim *s, const struct pkt *p)
{
	struct pkt *t = pkt_new(s, p->big ? TP_MAX_ACK : SMALL_HDR);

	memcpy(t, p, sizeof(*p) + p->hlen);
	return t;
}

/* --- queueing --- */

static bool chance(struct sim *s, u32 ppm)
{
	return ppm && rnd(s, 1000000) < ppm;
}

static void count_dead(struct sim *s, const struct link *l, const struct pkt *p)
{
	s->drops_down++;
	if (p->data && !p->rtx && p->len && p->born > l->down_since)
		s->new_on_dead = max(s->new_on_dead, p->born - l->down_since);
}

static void mark(struct sim *s, struct link *l, struct pkt *p, u32 waiting)
{
	if (!l->mark_hi || p->ce || waiting <= l->mark_lo)
		return;
	if (waiting < l->mark_hi && rnd(s, l->mark_hi - l->mark_lo) > waiting - l->mark_lo)
		return;
	p->ce = true;
	l->marks++;
}

/* On its way, in order or, by chance, overtaken. */
static void depart(struct sim *s, struct link *l, struct pkt *p)
{
	p->at = l->busy + l->delay;
	p->epoch = l->epoch;
	p->next = NULL;
	if (chance(s, l->reorder)) {
		p->at += rnd64(s) % l->reorder_ps;
		heap_push(&s->heap, p->at, EV_PACKET, p);
		return;
	}
	if (!l->head)
		heap_push(&s->heap, p->at, EV_LINK, l);
	*l->tail = p;
	l->tail = &p->next;
}

static void link_take(struct sim *s, struct link *l, struct pkt *p)
{
	u64 from = max(l->busy, s->now);
	u32 waiting = (u32)((from - s->now) / l->ps_per_byte);

	if (l->down)
		count_dead(s, l, p);
	else if (chance(s, l->loss))
		s->drops_loss++;
	else if (l->queue && waiting + p->size > l->queue)
		l->drops++, s->drops_queue++;
	else {
		mark(s, l, p, waiting);
		l->peak = max(l->peak, waiting + p->size);
		l->busy = from + (u64)p->size * l->ps_per_byte;
		l->bytes += p->size;
		if (chance(s, l->dup)) {
			s->dups_made++;
			depart(s, l, pkt_twin(s, p));
		}
		depart(s, l, p);
		return;
	}
	pkt_free(s, p);
}

void fabric_send(struct sim *s, struct pkt *p)
{
	link_take(s, &s->f.links[link_host_up(&s->f, p->src)], p);
}

/* --- switches --- */

static u32 ecmp(const struct fabric *f, u32 node, const struct pkt *p, u32 n)
{
	u64 key = (u64)p->src << 32 | (u64)p->dst << 16 | (u16)p->entropy;

	return (u32)((mix64(key ^ f->salt[node]) >> 32) * n >> 32);
}

static u32 route(const struct fabric *f, u32 node, const struct pkt *p)
{
	const struct shape *h = &f->c.shape;
	u32 edge = p->dst / h->hosts, pod = edge / h->edges;

	if (node < node_agg(f, 0)) {
		if (node == node_edge(f, edge))
			return link_host_down(f, p->dst);
		return link_edge_up(f, node - node_edge(f, 0), ecmp(f, node, p, h->aggs));
	}
	if (node < node_core(f, 0)) {
		u32 agg = node - node_agg(f, 0);

		if (agg / h->aggs == pod)
			return link_edge_down(f, edge, agg % h->aggs);
		return link_agg_up(f, agg, ecmp(f, node, p, h->cores));
	}
	node -= node_core(f, 0);
	return link_agg_down(f, pod * h->aggs + node / h->cores, node % h->cores);
}

static void arrive(struct sim *s, struct link *l, struct pkt *p)
{
	if (p->epoch != l->epoch) {	/* was on it when it died */
		s->drops_down++;
		pkt_free(s, p);
	} else if (l->to < s->f.nhosts) {
		host_arrive(s, p);
	} else {
		link_take(s, &s->f.links[route(&s->f, l->to, p)], p);
	}
}

void link_event(struct sim *s, struct link *l)
{
	struct pkt *p = l->head;

	l->head = p->next;
	if (l->head)
		heap_push(&s->heap, l->head->at, EV_LINK, l);
	else
		l->tail = &l->head;
	arrive(s, l, p);
}

/* It was overtaken on an edge's way up, the only links that reorder. */
void packet_event(struct sim *s, struct pkt *p)
{
	const struct fabric *f = &s->f;
	u32 edge = p->src / f->c.shape.hosts;

	arrive(s, &s->f.links[link_edge_up(f, edge, ecmp(f, node_edge(f, edge), p, f->c.shape.aggs))],
	       p);
}

void script_event(struct sim *s, const struct script *c)
{
	struct link *l = &s->f.links[c->link];

	switch (c->what) {
	case LINK_DIES:
		l->down = true;
		l->down_since = s->now;
		l->epoch++;
		break;
	case LINK_RETURNS:
		l->down = false;
		break;
	case LINK_RATE:
		l->ps_per_byte = c->ps_per_byte;
		break;
	}
}
