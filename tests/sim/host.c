// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Hosts: what driver/send.c and driver/receive.c are to the core in the kernel.
 * Packets bear the core's own headers, encoded and decoded as on a wire, and no
 * payload. A host serves what came within a batch at once, then each QP that
 * was touched answers and sends, as after a run of the receive softirq.
 *
 * Only WRITE and WRITE_WITH_IMM are posted; addresses never overlap. Receives
 * are always there. Per PSN nothing is kept but message tails that wait for
 * their turn.
 */
#include "sim.h"
#include "../unit/records.h"

enum {
	DEPTH		= 32,		/* messages that an application keeps posted */
	BATCH_MAX	= 128,		/* packets served before answers go out */
};

/* --- what one QP does, packet by packet: SIM_TRACE=number --- */

static bool traced(const struct qp *qp)
{
	static int nr = -2;

	if (nr == -2)
		nr = getenv("SIM_TRACE") ? atoi(getenv("SIM_TRACE")) : -1;
	return nr == (int)qp->nr;
}

static double trace_us(const struct qp *qp, u64 ps)
{
	return ((double)ps - (double)qp->start) / (double)PS_PER_US;
}

static void trace_data(const struct sim *s, const struct qp *qp, const struct pkt *k, u32 psn)
{
	if (traced(qp))
		printf("%10.2f data PSN %u port %u%s%s sent %.2f\n", trace_us(qp, s->now), psn,
		       (u16)k->entropy, k->rtx ? " rtx" : "", k->ce ? " CE" : "",
		       trace_us(qp, k->born));
}

static void trace_ack(const struct sim *s, const struct qp *qp, const struct tp_ack *a)
{
	const struct tp_tx *t = &qp->q.tx;

	if (traced(qp))
		printf("%10.2f ack cum %u words %u%s%s, una %u nxt %u lost %u, %u of %u in flight, rtt %u +- %u longest %u queue %u us, probe %.0f\n",
		       trace_us(qp, s->now), a->cum_psn, a->nwords, a->probe ? " probe" : "",
		       a->ce ? " CE" : "", t->una, t->nxt, t->lost, t->inflight / PAYLOAD,
		       t->cc.cwnd / PAYLOAD, t->srtt_us, t->rttvar_us, t->slow_us,
		       t->cc.avg_delay_us, trace_us(qp, t->probe_at_ns * PS_PER_NS));
}

/* --- sending --- */

static void send_lone(struct sim *s, struct qp *qp, bool data, struct pkt *k, u32 hlen, u32 entropy)
{
	k->hlen = (u8)hlen;
	k->size = hlen + TP_ICRC_LEN + WIRE_OVERHEAD;
	k->qp = qp;
	k->data = data;
	k->src = data ? qp->src : qp->dst;
	k->dst = data ? qp->dst : qp->src;
	k->entropy = entropy;
	k->born = s->now;
	fabric_send(s, k);
}

static void send_burst(struct sim *s, struct qp *qp, struct tp_burst *b)
{
	struct tp_out o;

	while (tp_tx_next(&qp->q.tx, sim_ns(s), b, &o)) {
		struct pkt *k = pkt_new(s, TP_MAX_HDR);

		k->hlen = (u8)tp_wire_encode(&o.pkt, k->hdr);
		k->len = o.len;
		k->size = k->hlen + o.len + o.pkt.pad + TP_ICRC_LEN + WIRE_OVERHEAD;
		k->qp = qp;
		k->data = true;
		k->rtx = o.pkt.rtx;
		k->src = qp->src;
		k->dst = qp->dst;
		k->entropy = b->entropy;
		k->born = s->now;
		fabric_send(s, k);
	}
}

static void send_probes(struct sim *s, struct qp *qp)
{
	struct tp_pkt p;
	u8 ev;

	while (tp_req_probe(&qp->q, sim_ns(s), &p, &ev)) {
		struct pkt *k = pkt_new(s, TP_MAX_HDR);

		send_lone(s, qp, true, k, tp_wire_encode(&p, k->hdr), qp->fwd->paths.p[ev].entropy);
	}
}

static void post(struct sim *s, struct qp *qp)
{
	bool last = qp->posted + 1 == qp->nmsg;
	struct tp_op *op = tp_tx_op(&qp->q.tx, qp->q.tx.tail);

	*op = (struct tp_op) {
		.kind = TP_WRITE,
		.has_imm = last || qp->imm_each,
		.payload = PAYLOAD,
		.length = last ? qp->last_len : qp->len,
		.raddr = qp->va,
	};
	qp->va += op->length;
	qp->posted++;
	tp_req_post(&qp->q, sim_ns(s));
}

static void close_qp(struct sim *s, struct qp *qp)
{
	qp->closed = true;
	s->open--;
	free(qp->ops);
	drop_records(&qp->q.tx);
	qp->ops = NULL;
}

static void arm(struct sim *s, struct qp *qp)
{
	u64 ns = tp_req_deadline(&qp->q), at = ns == ~0ULL ? NEVER : ns * PS_PER_NS;

	if (at >= qp->timer)	/* fires early, looks, and is set anew */
		return;
	qp->timer = max(at, s->now);
	heap_push(&s->heap, qp->timer, EV_TIMER, qp);
}

/* Time until the host's own queue has shrunk to what may stand in it. */
static u64 until_room(struct sim *s, const struct qp *qp)
{
	const struct link *l = &s->f.links[link_host_up(&s->f, qp->src)];
	u64 may = (u64)s->f.c.own_queue * l->ps_per_byte;

	return s->f.c.own_queue && l->busy > s->now + may ? l->busy - s->now - may : 0;
}

/* In turn with the host's other QPs. Return: may send now. */
static bool take_turn(struct sim *s, struct qp *qp)
{
	struct host *h = &s->host[qp->src];
	u64 wait = until_room(s, qp);

	if (qp->waits)
		return false;
	if (!wait && !h->waiting)
		return true;
	if (!h->waiting)
		heap_push(&s->heap, s->now + wait, EV_ROOM, h);
	qp->waits = true;
	qp->next_waiting = NULL;
	*(h->waiting ? h->last_waiting : &h->waiting) = qp;
	h->last_waiting = &qp->next_waiting;
	return false;
}

/* The requester's pump: post, send, reap, as long as one brings on another. */
void qp_pump(struct sim *s, struct qp *qp)
{
	struct tp_req *q = &qp->q;
	enum tp_status st;
	struct tp_burst b;
	u32 op, done;

	if (!qp->started || qp->closed)
		return;
	do {
		while (qp->posted < qp->allowed && q->tx.tail - q->tx.head < DEPTH)
			post(s, qp);
		do {
			while (take_turn(s, qp) && tp_req_burst(q, sim_ns(s), s->f.c.burst, &b))
				send_burst(s, qp, &b);
		} while (fit_records(&q->tx, false));
		for (done = 0; tp_req_next_done(q, &op, &st); done++, qp->completed++)
			if (st != TP_OK)
				die("QP %u: message %u ends with status %u at %lu us", qp->nr,
				    qp->completed, st, (unsigned long)(s->now / PS_PER_US));
	} while (done);
	if (qp->completed == qp->nmsg) {
		close_qp(s, qp);
		return;
	}
	send_probes(s, qp);
	arm(s, qp);
}

/* The host's own queue is short again: the QP that waits longest may send a burst. */
void host_room(struct sim *s, struct host *h)
{
	struct qp *qp = h->waiting;

	h->waiting = qp->next_waiting;
	qp->waits = false;
	if (h->waiting) {
		struct tp_burst b;
		/* one burst, then the others' turn */
		if (!qp->closed && tp_req_burst(&qp->q, sim_ns(s), s->f.c.burst, &b))
			send_burst(s, qp, &b);
		heap_push(&s->heap, s->now + until_room(s, h->waiting), EV_ROOM, h);
	}
	qp_pump(s, qp);
}

void qp_timer(struct sim *s, struct qp *qp)
{
	if (s->now != qp->timer || qp->closed)
		return;
	qp->timer = NEVER;
	if (tp_req_deadline(&qp->q) <= sim_ns(s)) {
		tp_req_timeout(&qp->q, sim_ns(s));
		qp_pump(s, qp);
	} else {
		arm(s, qp);
	}
}

static struct peer *peer_get(struct sim *s, u16 src, u16 dst)
{
	struct peer **at = &s->peers[src], *p;

	for (p = *at; p; p = p->next)
		if (p->dst == dst)
			return p;
	p = zalloc(sizeof(*p));
	p->src = src;
	p->dst = dst;
	p->next = *at;
	tp_paths_init(&p->paths, TP_PATHS, rnd64(s));
	*at = p;
	return p;
}

void qp_start(struct sim *s, struct qp *qp)
{
	u32 psn = (u32)rnd64(s) & 0xffffff;
	struct tp_req_attr at = {
		.dqpn = qp->nr, .psn = psn, .rsp_psn = psn, .payload = PAYLOAD, .max_rd = 16,
		.retry_cnt = 7, .rnr_retry = 7, .timeout_ns = 500000000,
	};
	struct tp_resp_attr rat = { .psn = psn, .max_dest_rd = 16, .rnr_timer = 12 };

	qp->fwd = peer_get(s, qp->src, qp->dst);
	qp->back = peer_get(s, qp->dst, qp->src);
	qp->ops = zalloc(OPS * sizeof(*qp->ops));
	tp_req_init(&qp->q, &at, qp->ops, OPS, &qp->fwd->paths, (u32)rnd64(s), sim_ns(s));
	tp_resp_init(&qp->r, &rat);
	if (s->f.c.credit)
		tp_tx_use_credit(&qp->q.tx);
	tp_credit_init(&qp->credit, PAYLOAD);
	qp->ack_rng = (u32)rnd64(s);
	qp->timer = NEVER;
	qp->start = s->now;
	qp->started = true;
	qp_pump(s, qp);
}

/* --- the responder --- */

static void hold(struct sim *s, struct qp *qp, const struct tp_pkt *p)
{
	struct held *h = s->held_pool, *at = qp->held_last;

	if (h)
		s->held_pool = h->next;
	else
		h = zalloc(sizeof(*h));
	h->p = *p;
	while (at && tp_before(p->psn, at->p.psn))
		at = at->prev;
	h->prev = at;
	h->next = at ? at->next : qp->held_first;
	*(at ? &at->next : &qp->held_first) = h;
	*(h->next ? &h->next->prev : &qp->held_last) = h;
}

static void let_go(struct sim *s, struct qp *qp)
{
	struct held *h = qp->held_first;

	qp->held_first = h->next;
	*(h->next ? &h->next->prev : &qp->held_last) = NULL;
	h->next = s->held_pool;
	s->held_pool = h;
}

/* A last packet, at its turn. */
static void run(struct sim *s, struct qp *qp, const struct tp_pkt *p)
{
	if (!tp_resp_turn(&qp->r, p))
		die("QP %u: PSN %u is not what may run", qp->nr, p->psn);
	tp_resp_executed(&qp->r, p, p->last && p->has_imm);
	if (!p->last)
		return;
	qp->received++;
	if (qp->received == qp->nmsg)
		qp->end = s->now;
	if (qp->on_receive && p->has_imm)
		qp->on_receive(s, qp);
}

static void run_ready(struct sim *s, struct qp *qp)
{
	while (tp_resp_ready(&qp->r)) {
		struct held *h = qp->held_first;

		if (h && h->p.psn == qp->r.rx.exec) {
			struct tp_pkt p = h->p;

			let_go(s, qp);
			run(s, qp, &p);
		} else {
			tp_resp_executed(&qp->r, NULL, false);
		}
	}
}

static void note_order(struct sim *s, const struct qp *qp, u32 psn)
{
	s32 behind = tp_diff(qp->r.rx.hi, psn + 1);

	s->rx_packets++;
	s->reorder[clamp_t(s32, behind, 0, REORDER_MAX - 1)]++;
}

static void answer(struct sim *s, struct qp *qp)
{
	struct tp_ack a;
	struct pkt *k;
	u8 ev;

	if (!tp_resp_take_ack(&qp->r, -1, &a))
		return;
	a.dqpn = qp->nr;
	a.credited = s->f.c.credit;
	a.credit = qp->credit.limit / TP_CREDIT_UNIT;
	k = pkt_new(s, TP_MAX_ACK);
	ev = tp_path_pick_for_answer(&qp->back->paths, &qp->ack_rng, tp_us(sim_ns(s)));
	send_lone(s, qp, false, k, tp_wire_encode_ack(&a, k->hdr), qp->back->paths.p[ev].entropy);
}

/* --- credit --- */

static void credit_arm(struct sim *s, struct host *h)
{
	u64 ns = tp_pacer_deadline(&h->pacer), at = ns == ~0ULL ? NEVER : max(ns * PS_PER_NS, s->now);

	if (at >= h->pacer_timer)
		return;
	h->pacer_timer = at;
	heap_push(&s->heap, at, EV_CREDIT, h);
}

void host_credit(struct sim *s, struct host *h)
{
	struct tp_credit *c;

	if (s->now != h->pacer_timer)
		return;
	h->pacer_timer = NEVER;
	while ((c = tp_pacer_grant(&h->pacer, sim_ns(s)))) {
		struct qp *qp = (struct qp *)((char *)c - offsetof(struct qp, credit));

		qp->r.rx.ack_wanted = true;
		answer(s, qp);
	}
	credit_arm(s, h);
}

static void take_data(struct sim *s, struct qp *qp, const struct pkt *k)
{
	struct tp_pkt p;

	if (tp_wire_decode(&p, k->hdr, k->hlen + k->len) != k->hlen)
		die("QP %u: malformed", qp->nr);
	trace_data(s, qp, k, p.psn);
	/* as spray_rx_note(): each probe gets its own answer */
	if (p.kind == TP_PROBE ? qp->r.rx.probe || qp->r.rx.ce : qp->r.rx.probe && k->ce) {
		qp->r.rx.ack_wanted = true;
		answer(s, qp);
	}
	tp_rx_seen(&qp->r.rx, k->entropy, k->ce);
	if (p.kind == TP_PROBE) {
		tp_rx_probed(&qp->r.rx, p.probe_id);
		return;
	}
	switch (tp_resp_check(&qp->r, &p, k->len)) {
	case TP_TAKE_TURN:
		note_order(s, qp, p.psn);
		run(s, qp, &p);
		break;
	case TP_TAKE_HOLD:
		note_order(s, qp, p.psn);
		hold(s, qp, &p);
		tp_resp_commit(&qp->r, &p);
		break;
	case TP_TAKE_PLACE:
		note_order(s, qp, p.psn);
		tp_resp_commit(&qp->r, &p);
		break;
	case TP_TAKE_DUP:
		qp->rx_dup++;
		return;
	default:
		die("QP %u: PSN %u outside of the window", qp->nr, p.psn);
	}
	if (s->f.c.credit) {
		tp_credit_got(&s->host[qp->dst].pacer, &qp->credit, tp_credit_cost(k->len), p.rtx, sim_ns(s));
		credit_arm(s, &s->host[qp->dst]);
	}
	qp->rx_bytes += k->len;
	s->total_rx += k->len;
	run_ready(s, qp);
}

/* --- batches --- */

static void take(struct sim *s, struct qp *qp, const struct pkt *k)
{
	struct tp_ack a;

	if (k->data) {
		take_data(s, qp, k);
	} else {
		if (tp_wire_decode_ack(&a, k->hdr, k->hlen) < 0)
			die("QP %u: malformed answer", qp->nr);
		if (qp->closed)
			return;
		tp_req_ack(&qp->q, sim_ns(s), &a);
		trace_ack(s, qp, &a);
	}
}

static void serve_touched(struct sim *s, struct host *h)
{
	struct qp *qp;

	while ((qp = h->touched)) {
		h->touched = qp->next_touched;
		qp->touched = false;
		if (h == &s->host[qp->dst])
			answer(s, qp);
		else
			qp_pump(s, qp);
	}
}

void host_wake(struct sim *s, struct host *h)
{
	struct pkt *k;
	u32 n = 0;

	h->woken = false;
	while ((k = h->first)) {
		struct qp *qp = k->qp;

		h->first = k->next;
		if (!qp->touched) {
			qp->touched = true;
			qp->next_touched = h->touched;
			h->touched = qp;
		}
		take(s, qp, k);
		pkt_free(s, k);
		if (++n % BATCH_MAX == 0)
			serve_touched(s, h);
	}
	h->last = &h->first;
	serve_touched(s, h);
}

void host_arrive(struct sim *s, struct pkt *p)
{
	struct host *h = &s->host[p->dst];

	p->next = NULL;
	*h->last = p;
	h->last = &p->next;
	if (h->woken)
		return;
	h->woken = true;
	heap_push(&s->heap, s->now + s->f.c.batch, EV_WAKE, h);
}
