// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A requester (or the bare sender of a response space) in the hands of a
 * hostile peer, a bad local stack and a bad clock: any operations in any order,
 * any bytes as acknowledgements and responses. After each operation
 *  - points are in order, sums agree with the records, the records with a
 *    naive list of what was reported received;
 *  - whoever has work has a timer, at most a second ahead.
 * Of every packet: inside the window, not after a fault, not one that is known
 * to be received; sent again it bears the same; fences, depth and C9 hold.
 * In the end the peer is honest: then everything completes, in order, soon.
 */
#include "fuzz.h"
#include "responder.h"	/* TP_TAKE_* */
#include "../unit/records.h"

enum {
	OPS		= 32,
	PAY		= 1000,
	AREA		= 4096,
	STEPS		= 2000,
	MAX_SILENCE	= 1000,		/* ms that a deadline may be ahead */
};

#define US	1000ULL
#define MS	1000000ULL

/* A packet as it was sent first. */
struct first {
	struct tp_pkt p;
	u32 op, offset, len;
};

struct held {
	struct tp_pkt p;
	u32 len, op;
};

static struct fuzz {
	struct input in;
	u64 now;
	bool raw;			/* no requester: tp_tx alone, response space */
	struct tp_req q;
	struct tp_tx *t;
	struct tp_op ops[OPS];
	u8 no_memory;
	struct tp_paths paths;
	u32 psn0, rsp0;
	u32 nxt;			/* next new PSN to come */
	u32 exec;			/* highest point that a possible answer told */
	u32 wnd_end;
	struct first first[TP_WINDOW];
	bool received[TP_WINDOW];	/* of [una or less, nxt) */
	bool rsp_taken[TP_WINDOW];	/* of the response window */
	bool is_held[TP_WINDOW];
	struct held held[TP_WINDOW];
	u32 op_started;			/* messages that sent anything */
	u32 completed;
	bool failed;			/* a completion said so */
	u32 max_rd;
	u16 probe_id;			/* latest seen */
} f;

static bool is_read(const struct tp_op *op)
{
	return tp_kind_answered(op->kind);
}

static bool is_atomic(const struct tp_op *op)
{
	return op->kind == TP_CAS || op->kind == TP_FAA;
}

/* Bytes of what answers it. */
static u32 back_of(const struct tp_op *op)
{
	return op->kind == TP_ATOMIC_WRITE || op->kind == TP_RDMA_FLUSH ? 0 : op->length;
}

static bool dead(void)
{
	return !f.raw && f.q.dead;
}

static u64 deadline(void)
{
	return f.raw ? tp_tx_deadline(f.t) : tp_req_deadline(&f.q);
}

/* --- what must hold at any time --- */

static void check_records(void)
{
	const struct tp_tx *t = f.t;
	u32 psn, lost = 0, bytes = 0;

	for (psn = t->una; psn != t->nxt; psn++) {
		const struct tp_sent *r = &t->sent[psn & (t->records - 1U)];

		CHECK_EQ(!!(r->flags & TP_SENT_RECEIVED), f.received[psn % TP_WINDOW]);
		CHECK(r->ev < f.paths.n);
		if (r->flags & TP_SENT_LOST) {
			CHECK(!(r->flags & TP_SENT_RECEIVED));
			CHECK(!tp_before(psn, t->lost_from));
			lost++;
		} else if (!(r->flags & TP_SENT_RECEIVED)) {
			bytes += r->bytes;
		}
	}
	CHECK_EQ(t->lost, lost);
	CHECK_EQ(t->inflight, bytes);
	CHECK(t->una == t->nxt || !f.received[t->una % TP_WINDOW]);
}

static void check_points(void)
{
	const struct tp_tx *t = f.t;

	CHECK_EQ(t->nxt, f.nxt);
	CHECK_EQ(t->exec, f.exec);
	CHECK(tp_diff(t->una, t->exec) >= 0);
	CHECK(tp_diff(t->nxt, t->una) >= 0);
	CHECK(tp_diff(t->wnd_end, t->nxt) >= 0);
	CHECK(tp_diff(t->wnd_end, f.wnd_end) >= 0);
	CHECK(tp_diff(t->wnd_end, t->exec + TP_WINDOW) <= 0);
	CHECK(tp_diff(t->look_end, t->nxt) <= 0);
	f.wnd_end = t->wnd_end;
	CHECK(t->started - t->head <= t->tail - t->head);
	CHECK(t->tail - t->head <= OPS);
	CHECK(t->nagain <= TP_DELAYS);
	CHECK(t->cc.cwnd >= t->cc.min && t->cc.cwnd <= t->cc.max);
}

static void check_requester(void)
{
	const struct tp_req *q = &f.q;

	CHECK(q->prepared - q->tx.started <= q->tx.tail - q->tx.started);
	CHECK(q->executed - q->tx.head <= q->tx.started - q->tx.head);
	CHECK(q->rd_tail - q->rd_head <= TP_RD_MAX);
	CHECK(q->wr_open <= OPS);
}

static void check_all(void)
{
	u64 d = deadline();

	check_points();
	check_records();
	if (!f.raw)
		check_requester();
	if (f.t->head == f.t->tail || dead())
		CHECK(d == ~0ULL);
	else
		CHECK(d <= f.now + MAX_SILENCE * MS);
}

/* --- sending --- */

static void post(void)
{
	static const u8 kinds[] = { TP_WRITE, TP_SEND, TP_READ, TP_CAS, TP_FAA, TP_NONE, TP_WRITE };
	struct tp_tx *t = f.t;
	struct tp_op *op = tp_tx_op(t, t->tail);
	u8 kind = in8(&f.in), flags = in8(&f.in);
	u32 len = in16(&f.in);

	if (t->tail - t->head == OPS)
		return;
	*op = (struct tp_op) {
		.kind = f.raw ? TP_READ_DATA + (kind & 1) : kinds[kind % ARRAY_SIZE(kinds)],
		.fence = flags & 1, .has_imm = flags & 2, .solicited = flags & 4,
		.error = !f.raw && flags >= 0xf8 ? TP_LOC_PROT : TP_OK,
		.payload = flags & 8 ? in8(&f.in) : PAY,
		.length = flags & 16 ? len : len % 3000,
		.raddr = 0x1000 + in16(&f.in) % AREA,
	};
	if (op->payload < 64 && op->length > 16384)
		op->length = 16384;
	if (is_atomic(op) || op->kind == TP_ATOMIC_DATA)
		op->length = 8;
	if (op->kind == TP_CAS && flags & 32) {
		op->kind = TP_ATOMIC_WRITE;
		op->payload = PAY;
	} else if (op->kind == TP_FAA && flags & 32) {
		op->kind = TP_RDMA_FLUSH;
		op->length = len;
		op->imm = flags;
	}
	trace("post %u kind %u len %u payload %u", t->tail, op->kind, op->length, op->payload);
	op->has_inv = op->kind == TP_SEND && !op->has_imm && flags & 32;
	op->undone = op->kind == TP_NONE && flags & 32;
	op->after_all = flags & 64;
	if (f.raw) {
		op->wire_len = op->length;
		if (t->head == t->tail)
			tp_tx_wake(t, f.now);
		t->tail++;
	} else {
		tp_req_post(&f.q, f.now);
	}
}

static bool writes(const struct tp_op *op)
{
	return (op->kind == TP_WRITE || op->kind == TP_ATOMIC_WRITE) && op->length;
}

static bool overlap(const struct tp_op *a, const struct tp_op *b)
{
	return writes(a) && writes(b) && a->raddr < b->raddr + b->length && b->raddr < a->raddr + a->length;
}

/* The first packet of a message leaves for the first time. */
static void check_start(u32 i, const struct tp_out *o)
{
	const struct tp_op *op = tp_tx_op(f.t, i);
	u32 j, reads = 0;

	CHECK(!tp_before(i, f.op_started));	/* in order */
	f.op_started = i + 1;
	CHECK_EQ(op->error, TP_OK);
	if (f.raw)
		return;
	for (j = f.t->head; j != i; j++) {
		const struct tp_op *e = tp_tx_op(f.t, j);
		bool executed = tp_tx_op_executed(f.t, e);

		CHECK(!e->undone);		/* local work first */
		if (is_read(e) && !e->rd_done) {
			CHECK(!op->fence);
			reads++;
		}
		if (overlap(op, e) && !executed)
			CHECK(o->pkt.ordered);		/* C9 */
	}
	if (is_read(op))
		CHECK(reads < f.max_rd);
}

static void check_packet(const struct tp_burst *b, const struct tp_out *o)
{
	const struct tp_op *op = tp_tx_op(f.t, o->op);
	u32 psn = o->pkt.psn;
	struct first *k = &f.first[psn % TP_WINDOW];

	CHECK(tp_diff(psn, f.exec) >= 0 && tp_diff(psn, f.exec) < TP_WINDOW);
	CHECK(!f.t->halted || tp_before(psn, f.t->halt_psn));
	CHECK_EQ(o->pkt.kind, op->kind);
	if (op->kind == TP_RDMA_FLUSH)
		CHECK_EQ(o->pkt.imm, op->imm);
	if (op->kind == TP_ATOMIC_WRITE)
		CHECK(o->pkt.first && o->pkt.last && o->len == 8);
	CHECK_EQ(o->pkt.rtx, b->rtx);
	CHECK(o->offset <= op->wire_len && o->len <= op->wire_len - o->offset);
	CHECK_EQ(o->pkt.last, o->offset + o->len == op->wire_len);
	CHECK(o->len || !op->wire_len);
	if (b->rtx) {
		CHECK(tp_before(psn, f.nxt));
		CHECK(!f.received[psn % TP_WINDOW]);
		CHECK_EQ(k->op, o->op);
		CHECK_EQ(k->offset, o->offset);
		CHECK_EQ(k->len, o->len);
		k->p.rtx = true;
		k->p.ack_req = o->pkt.ack_req;
		CHECK(!memcmp(&k->p, &o->pkt, sizeof(k->p)));
		return;
	}
	CHECK_EQ(psn, f.nxt);
	CHECK(!f.t->credited || tp_before(f.t->credit_used - tp_credit_cost(o->len), f.t->credit_limit));
	CHECK_EQ(o->pkt.first, !o->offset);
	if (o->pkt.first)
		check_start(o->op, o);
	else
		CHECK_EQ(o->op, f.op_started - 1);
	f.nxt++;
	f.received[psn % TP_WINDOW] = false;
	k->op = o->op;
	k->offset = o->offset;
	k->len = o->len;
	memcpy(&k->p, &o->pkt, sizeof(k->p));
}

/* Return: packets, all that there are but @most. */
static u32 fill(struct tp_burst *b, u32 most)
{
	u32 first = b->psn, size, prev = 0;
	struct tp_out o;

	CHECK(b->ev < f.paths.n);
	while (b->n < most && tp_tx_next(f.t, f.now, b, &o)) {
		trace("  psn %u op %u offset %u len %u%s", o.pkt.psn, o.op, o.offset, o.len,
		      b->rtx ? " rtx" : "");
		CHECK_EQ(o.pkt.psn, first + b->n - 1);
		size = tp_wire_hdr_len(&o.pkt) + o.len + o.pkt.pad + TP_ICRC_LEN;
		CHECK(prev ? prev == b->seg_len && size <= prev : size == b->seg_len);
		prev = size;
		check_packet(b, &o);
	}
	CHECK(b->n > 0 && b->n <= TP_BURST_MAX);	/* nothing to send was announced as something */
	return b->n;
}

/* Local work whose turn it is: all before it has started, all READs before a fence are over. */
static void local_work(void)
{
	u32 op, i;

	while (!f.raw && tp_req_local_turn(&f.q, &op)) {
		const struct tp_op *o = tp_tx_op(f.t, op);

		trace("local work %u", op);
		CHECK(o->kind == TP_NONE && o->undone && !o->error);
		CHECK(!o->after_all || op == f.t->head);
		for (i = f.t->head; o->fence && i != op; i++)
			CHECK(!is_read(tp_tx_op(f.t, i)) || tp_tx_op(f.t, i)->rd_done);
		if (in8(&f.in) == 1)
			tp_req_local_error(&f.q, op, TP_LOC_KEY);
		else
			tp_req_local_done(&f.q, op);
	}
}

static bool begin(struct tp_burst *b, u32 max_pkts)
{
	local_work();
	do {
		if (f.raw ? tp_tx_burst(f.t, f.now, max_pkts, f.t->tail, b) :
			    tp_req_burst(&f.q, f.now, max_pkts, b))
			return true;
	} while (fit_records(f.t, f.no_memory && ++f.no_memory % 8 == 0));
	return false;
}

static void send_all(u32 max_pkts)
{
	struct tp_burst b;
	u32 n = 0;

	while (begin(&b, max_pkts)) {
		fill(&b, TP_BURST_MAX);
		CHECK(++n < 100000);
	}
}

static void local_error(u32 op)
{
	if (!f.raw)
		tp_req_local_error(&f.q, op, TP_LOC_PROT);
	else
		tp_tx_halt(f.t, tp_tx_op(f.t, op)->first_psn);
}

/* The local stack refused @first and what follows: all of it waits to be sent again, not at once. */
static void drop(const struct tp_burst *b, u32 first)
{
	u32 psn;

	tp_tx_dropped(f.t, b, first);
	for (psn = first; psn != b->psn; psn++)
		CHECK(f.t->sent[psn & (f.t->records - 1U)].flags & TP_SENT_LOST);
	CHECK(f.t->retry_at_ns > f.now);
}

/* A burst that goes wrong on its way out. */
static void send_badly(void)
{
	u8 how = in8(&f.in);
	struct tp_burst b;
	u32 first, n;

	if (!begin(&b, 1 + how % TP_BURST_MAX))
		return;
	first = b.psn;
	n = fill(&b, 1 + in8(&f.in) % TP_BURST_MAX);
	trace(" badly: %u of them, %u", n, how >> 5);
	switch (how >> 5) {
	case 0:
		drop(&b, first);
		break;
	case 1:
		drop(&b, first + in8(&f.in) % (n + 1));
		break;
	case 2:
	case 3:
	case 4:
		if (tp_tx_unreadable(f.t, &b) && how & 16)
			local_error(b.op);
		break;
	case 5:
		local_error(b.op);
		break;
	default:	/* the rest was not built */
		break;
	}
}

static void probe(void)
{
	struct tp_pkt p;
	u32 n = 0;
	u8 ev;

	if (f.raw) {
		if (tp_tx_probe(f.t, f.now, &p, &ev))
			f.probe_id = p.probe_id;
		if (tp_tx_path_probe(f.t, f.now, &p, &ev))
			CHECK(ev < f.paths.n);
		return;
	}
	while (tp_req_probe(&f.q, f.now, &p, &ev)) {
		CHECK_EQ(p.kind, TP_PROBE);
		CHECK(ev < f.paths.n);
		if (p.probe_id <= TP_PROBE_ID)
			f.probe_id = p.probe_id;
		CHECK(++n < 1000);
	}
}

/* --- completions --- */

static void complete(void)
{
	enum tp_status st;
	u32 op;

	if (f.raw) {
		while (f.t->head != f.t->started && tp_tx_op_executed(f.t, tp_tx_op(f.t, f.t->head)))
			f.t->head++;
		return;
	}
	while (tp_req_next_done(&f.q, &op, &st)) {
		const struct tp_op *o = tp_tx_op(f.t, op);

		trace("completed %u status %u", op, st);
		CHECK_EQ(op, f.completed++);		/* C4 */
		if (st == TP_OK) {
			CHECK(!f.failed && !o->undone);
			CHECK(o->kind == TP_NONE || tp_before(op, f.op_started));
			CHECK(o->kind == TP_NONE || tp_tx_op_executed(f.t, o));
			CHECK(!is_read(o) || o->rd_done);
			continue;
		}
		CHECK(f.q.dead);
		if (f.failed)
			CHECK_EQ(st, TP_FLUSH);
		f.failed = true;
	}
	if (f.q.dead)
		CHECK(f.t->head == f.t->tail);
}

/* --- answers --- */

static void take_ack(const struct tp_ack *a)
{
	static struct tp_req before;
	u32 exec = tp_extend24(a->exec_psn, f.t->una), cum = tp_extend24(a->cum_psn, f.t->una), i, psn;
	bool ignored = dead() || !tp_tx_ack_valid(f.t, a);

	before = f.q;
	trace("ack exec %d cum %d words %u syndrome %u/%u%s%s", exec - f.exec, cum - f.exec, a->nwords,
	      a->syndrome, a->value, a->probe ? " probe" : "", ignored ? " ignored" : "");
	if (!ignored) {
		CHECK(tp_diff(cum, exec) >= 0 && tp_diff(f.nxt, cum) >= 0);
		if (tp_before(f.exec, exec))
			f.exec = exec;
		for (psn = f.t->una; tp_before(psn, cum); psn++)
			f.received[psn % TP_WINDOW] = true;
		for (i = 0; i < 64u * a->nwords; i++) {
			if (!(a->bits[i / 64] >> i % 64 & 1))
				continue;
			CHECK(tp_before(cum + i, f.nxt));
			if (!tp_before(cum + i, f.t->una))
				f.received[(cum + i) % TP_WINDOW] = true;
		}
	}
	if (f.raw)
		tp_tx_ack(f.t, f.now, a);
	else
		tp_req_ack(&f.q, f.now, a);
	if (ignored)
		CHECK(!memcmp(&before, &f.q, sizeof(before)));
}

/* Points near the true ones, and everything else that an answer may say. */
static void any_ack(void)
{
	u8 flags = in8(&f.in), more = in8(&f.in), n;
	struct tp_ack a = { .space = f.t->space, .dup = flags & 1, .ce = flags & 2, .mpr = flags >> 6 };

	a.exec_psn = f.t->exec;
	a.cum_psn = f.t->una;
	a.credited = flags & 2;
	a.credit = (f.t->credit_limit / TP_CREDIT_UNIT + (u32)(s8)more) & 0xffffff;
	if (flags & 4)
		a.exec_psn += in_below(&f.in, f.nxt - f.t->exec + 1);
	if (flags & 8)
		a.cum_psn = a.exec_psn + in_below(&f.in, f.nxt - a.exec_psn + 1);
	if (flags & 16)
		a.cum_psn = f.nxt;
	if (flags & 32) {
		a.exec_psn += (u32)(s8)in8(&f.in);
		a.cum_psn += (u32)(s8)in8(&f.in);
	}
	if (tp_before(a.cum_psn, a.exec_psn) && more & 1)
		a.cum_psn = a.exec_psn;
	for (n = more >> 5; n; n--) {		/* runs of bits */
		u32 bit = in_below(&f.in, f.nxt - a.cum_psn + 2 < TP_WINDOW ? f.nxt - a.cum_psn + 2 : TP_WINDOW);
		u32 run = 1 + in8(&f.in) % 32;

		for (; run && bit < 64 * TP_SACK_WORDS; bit++, run--) {
			a.bits[bit / 64] |= BIT_ULL(bit % 64);
			a.nwords = (u8)max_t(u32, a.nwords, bit / 64 + 1);
		}
	}
	if (more & 2) {
		a.probe = true;
		a.probe_id = f.probe_id;
		if (more & 4)
			a.probe_id += (u16)in8(&f.in);
	}
	if (more & 8) {
		a.syndrome = in8(&f.in) & 7;
		a.value = in8(&f.in) & 31;
	}
	if (more & 16)
		a.entropy = in8(&f.in) & 1 ? in32(&f.in) : f.paths.p[in8(&f.in) % f.paths.n].entropy;
	a.exec_psn &= 0xffffff;
	a.cum_psn &= 0xffffff;
	take_ack(&a);
}

/* As it comes from the wire. */
static void raw_ack(void)
{
	u8 buf[TP_MAX_ACK];
	struct tp_ack a;
	u32 i, len = in8(&f.in) % (TP_MAX_ACK + 1);

	for (i = 0; i < len; i++)
		buf[i] = in8(&f.in);
	if (!tp_wire_decode_ack(&a, buf, len))
		take_ack(&a);
}

static void honest_ack(void)
{
	struct tp_ack a = {
		.space = f.t->space, .exec_psn = f.nxt & 0xffffff, .cum_psn = f.nxt & 0xffffff,
		.value = 31, .mpr = TP_MPR, .probe = true, .probe_id = f.probe_id,
		.credited = f.t->credited,
		.credit = ((f.t->credit_used + TP_WINDOW * PAY) / TP_CREDIT_UNIT) & 0xffffff,
	};

	take_ack(&a);
}

/* --- responses --- */

static void response_executed(void)
{
	f.rsp_taken[f.q.rx.exec % TP_WINDOW] = false;
	tp_req_response_executed(&f.q);
}

static void place_response(const struct tp_pkt *p, u32 len, u32 i)
{
	const struct tp_op *op = tp_tx_op(f.t, i);

	CHECK(i - f.t->head < f.t->tail - f.t->head);	/* nothing after its completion */
	CHECK(is_read(op));
	CHECK(tp_before(i, f.op_started));
	if (p->kind == TP_ATOMIC_DATA)
		CHECK(is_atomic(op) && len == 8);
	else
		CHECK(!is_atomic(op) && p->va <= back_of(op) && len <= back_of(op) - p->va);
}

static void run_response(const struct tp_pkt *p, u32 len, u32 op)
{
	place_response(p, len, op);
	if (p->last)
		tp_req_rd_done(&f.q, op);
}

static void response_advance(void)
{
	while (tp_req_response_ready(&f.q)) {
		u32 at = f.q.rx.exec % TP_WINDOW;
		struct held *h = &f.held[at];

		CHECK(f.rsp_taken[at]);
		if (f.is_held[at] && tp_req_response_still(&f.q, &h->p, h->len, h->op))
			run_response(&h->p, h->len, h->op);
		f.is_held[at] = false;
		response_executed();
	}
}

static void take_response(struct tp_pkt *p, u32 len, bool fault)
{
	u32 op;
	int take = tp_req_response(&f.q, p, len, &op);

	trace("response psn %u take %d", p->psn, take);
	if (take > TP_TAKE_TURN)
		return;
	CHECK(!f.q.dead);
	CHECK(p->psn - f.q.rx.exec < TP_WINDOW);
	CHECK(!f.rsp_taken[p->psn % TP_WINDOW]);	/* C1 */
	CHECK_EQ(take == TP_TAKE_PLACE, !p->last);
	CHECK(take != TP_TAKE_TURN || p->psn == f.q.rx.exec);
	if (fault && take != TP_TAKE_HOLD) {
		tp_req_local_error(&f.q, op, TP_LOC_PROT);
		return;
	}
	f.rsp_taken[p->psn % TP_WINDOW] = true;
	if (take == TP_TAKE_TURN) {
		run_response(p, len, op);
		response_executed();
	} else {
		if (take == TP_TAKE_PLACE)
			place_response(p, len, op);
		else
			f.held[p->psn % TP_WINDOW] = (struct held) { *p, len, op };
		f.is_held[p->psn % TP_WINDOW] = take == TP_TAKE_HOLD;
		tp_req_response_commit(&f.q, p);
	}
	response_advance();
}

static void any_response(void)
{
	u8 flags = in8(&f.in), what = in8(&f.in);
	struct tp_pkt p = { .kind = TP_READ_DATA, .space = TP_RESPONSE };
	u32 nr = f.q.rd_head + (what & 7), len;
	const struct tp_op *op = tp_tx_op(f.t, f.q.rd_slot[nr % TP_RD_MAX]);
	struct tp_ack a;

	p.psn = (f.q.rx.exec + (flags & 1 ? (u32)(s32)(s16)in16(&f.in) : what >> 3)) & 0xffffff;
	p.rqmsn = (u16)(nr + (flags & 2 ? in16(&f.in) : 0));
	p.dma_len = back_of(op);
	len = back_of(op);
	if (is_atomic(op))
		p.kind = TP_ATOMIC_DATA;
	if (flags & 4) {		/* a part of it */
		p.va = in_below(&f.in, (u16)back_of(op) + 1u);
		len -= (u32)p.va;
		if (flags & 8)
			len = in_below(&f.in, (u16)len + 1u);
	}
	p.first = !p.va;
	p.last = p.va + len == back_of(op);
	if (flags & 16) {		/* nonsense */
		p.kind ^= in8(&f.in) & 7;
		p.va += in64(&f.in);
		len = in16(&f.in);
		p.first ^= flags >> 7 & 1;
		p.last ^= flags >> 6 & 1;
	}
	take_response(&p, len, flags & 32 && what > 0xf0);
	if (tp_req_take_ack(&f.q, &a)) {
		CHECK_EQ(a.exec_psn, f.q.rx.exec);
		CHECK_EQ(a.exec_msn, f.q.rd_head);
		CHECK_EQ(a.space, TP_RESPONSE);
	}
}

/* All of it in one packet, to each READ and ATOMIC that was executed. */
static void honest_responses(void)
{
	while (!f.q.dead && f.q.rd_head != f.q.rd_tail) {
		u32 before = f.q.rd_head, i = f.q.rd_slot[before % TP_RD_MAX];
		const struct tp_op *op = tp_tx_op(f.t, i);
		struct tp_pkt p = {
			.kind = is_atomic(op) ? TP_ATOMIC_DATA : TP_READ_DATA,
			.space = TP_RESPONSE, .first = true, .last = true,
			.psn = f.q.rx.exec & 0xffffff, .rqmsn = (u16)before, .dma_len = back_of(op),
		};

		if (!tp_before(i, f.op_started) || !tp_tx_op_executed(f.t, op))
			return;
		take_response(&p, back_of(op), false);
		CHECK(f.q.rd_head != before);
	}
}

/* --- time --- */

static void timeout(void)
{
	if (f.raw)
		tp_tx_timeout(f.t, f.now);
	else
		tp_req_timeout(&f.q, f.now);
}

/*
 * The timer fires when it is due, everything is sent: it must not go on firing. Once more it may:
 * the second probe in vain can show that the time to give up is over.
 */
static void settle(void)
{
	u32 i;

	for (i = 0; deadline() != ~0ULL && (!i || deadline() <= f.now); i++) {
		CHECK(i < 2);
		f.now = max(f.now, deadline());
		timeout();
		complete();
		send_all(TP_BURST_MAX);
		probe();
		complete();
		send_all(TP_BURST_MAX);
	}
}

static void pass_time(void)
{
	static const u64 jumps[] = { US, 100 * US, MS, 20 * MS, 100 * MS, 1000 * MS, 60000 * MS,
				     2400000 * MS };
	u8 how = in8(&f.in);

	f.now += jumps[how & 7] * (1 + (how >> 3)) / 8;
	trace("now %lu us", (unsigned long)(f.now / US));
}

/* --- a case --- */

static void modify(void)
{
	u8 how = in8(&f.in);
	struct tp_req_attr at = {
		.max_rd = how >> 4, .retry_cnt = how & 7, .rnr_retry = in8(&f.in) & 7,
		.timeout_ns = how & 8 ? 0 : in8(&f.in) * 20 * MS,
	};

	tp_req_modify(&f.q, &at);
	f.max_rd = max(f.max_rd, at.max_rd);
}

/* Other QPs share the paths. */
static void others_on_path(void)
{
	u8 how = in8(&f.in), ev = in8(&f.in) % (u8)f.paths.n;
	u32 now_us = tp_us(f.now);

	if (how & 1)
		tp_path_lost(&f.paths, ev, now_us);
	else if (how & 2)
		tp_path_acked(&f.paths, ev, in16(&f.in) * 16, how & 4, now_us);
	else if (how & 8)
		tp_path_revived(&f.paths, f.paths.p[ev].entropy, now_us);
	else
		f.paths.p[ev].state = TP_PATH_DENIED;
}

static void start(void)
{
	static const u32 psns[] = { 0, 0xfffff0, 0x7ffff0, 5 };
	static const u64 times[] = { 100 * MS, 4294967 * MS, 2147483 * MS, 4294967295ULL * US - MS };
	u8 how = in8(&f.in), n = in8(&f.in);
	struct tp_req_attr at = {
		.dqpn = 7, .psn = psns[how & 3], .rsp_psn = psns[how >> 2 & 3], .payload = PAY,
	};

	f.now = times[how >> 4 & 3];
	f.raw = how >= 0xc0;
	f.max_rd = 0;
	memset(f.ops, 0xa5, sizeof(f.ops));
	memset(f.rsp_taken, 0, sizeof(f.rsp_taken));
	memset(f.is_held, 0, sizeof(f.is_held));
	memset(f.q.rd_slot, 0, sizeof(f.q.rd_slot));
	tp_paths_init(&f.paths, 1 + n % TP_PATHS, 7);
	f.t = &f.q.tx;
	drop_records(f.t);
	f.no_memory = n >> 6 & 1;
	tp_req_init(&f.q, &at, f.ops, OPS, &f.paths, 3, f.now);
	if (f.raw)
		tp_tx_init(f.t, TP_RESPONSE, 7, f.ops, OPS, at.psn, PAY, &f.paths, 3, f.now);
	if (n & 0x80)
		tp_tx_use_credit(f.t);
	f.nxt = f.exec = at.psn;
	f.wnd_end = f.t->wnd_end;
	f.op_started = f.completed = 0;
	f.failed = false;
	f.probe_id = 0;
	modify();
}

static void step(void)
{
	u8 op = in8(&f.in) & 15;

	trace("%lu us: operation %u", (unsigned long)(f.now / US), op);
	switch (op) {
	case 0:
	case 1:
		post();
		break;
	case 2:
	case 3:
		send_all(1 + in8(&f.in) % 40);
		break;
	case 4:
		send_badly();
		break;
	case 5:
		f.now = max(f.now, deadline() == ~0ULL ? 0 : deadline());
		timeout();
		break;
	case 6:
		pass_time();
		timeout();
		break;
	case 7:
		probe();
		break;
	case 8:
	case 9:
		any_ack();
		break;
	case 10:
		raw_ack();
		break;
	case 11:
		if (in_one_of(&f.in, 2))
			honest_ack();
		complete();
		break;
	case 12:
		if (!f.raw)
			any_response();
		break;
	case 13:
		settle();
		break;
	case 14:
		others_on_path();
		break;
	default:
		switch (in8(&f.in)) {
		case 0:
			if (!f.raw)
				tp_req_flush(&f.q);
			break;
		case 1:
			local_error(f.t->head + in8(&f.in) % OPS);
			break;
		case 2:
			f.t->cc.cwnd = f.t->cc.min;
			break;
		default:
			if (!f.raw)
				modify();
		}
	}
}

/* From now on the peer executes all that it is sent. */
static void drain(void)
{
	u32 i, idle = 0;

	if (!f.raw && f.q.dead)
		complete();
	for (i = 0; f.t->head != f.t->tail && idle < 100; i++) {
		u32 head = f.t->head, nxt = f.nxt;

		if (f.raw && f.t->halted)
			return;
		send_all(TP_BURST_MAX);
		probe();
		honest_ack();
		if (!f.raw)
			honest_responses();
		complete();
		check_all();
		idle = head == f.t->head && nxt == f.nxt ? idle + 1 : 0;
		if (idle)
			settle();
	}
	CHECK(f.t->head == f.t->tail);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 i;

	f.in = (struct input) { data, data + size };
	start();
	for (i = 0; i < STEPS && in_more(&f.in); i++) {
		step();
		check_all();
	}
	drain();
	return 0;
}
