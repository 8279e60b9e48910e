// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A responder: messages made by the input, their packets in any order and any
 * number, correct or with fields changed, with receives posted late, packets
 * that fail at their turn, and answers of any kind to its responses. A naive
 * model keeps one word per packet and one per byte of memory:
 *
 *   C1 a PSN runs once, nothing after a NAK    C2, C5 last packets at their turn
 *   C9 memory ends as if run in order          C6 what fails ends it, what came before ran
 *   numbers of messages, receives and READs; every answer bit by bit
 */
#include "fuzz.h"
#include "responder.h"

enum {
	STEPS		= 3000,
	AREA		= 256,
	CELL		= 4,		/* bytes per packet */
	MAX_RD		= 4,
	RING		= 2048,		/* packets remembered, by PSN */
	REACH		= TP_WINDOW + 64,
	MADE_MAX	= 3000,		/* packets of a case */
	BAD_KEY		= 0xbad,
};

#define MS	1000000ULL

enum fate { ABSENT, PLACED, HELD, RAN };

/* A packet as the peer made it, and what became of it. */
struct made {
	struct tp_pkt p;		/* numbers as on the wire */
	u32 len, msg;
	/* as it was taken, not always what was made; of this case only if @run is that of the case */
	struct tp_pkt taken;
	u32 taken_len, run;
	u8 fate;
};

static struct fuzz {
	struct input in;
	u64 now;
	struct tp_resp r;
	struct tp_paths paths;
	struct tp_op ops[MAX_RD];
	struct tp_sent sent[TP_WINDOW];
	struct made made[RING];
	u32 run;
	u32 psn0, exec, nxt;		/* full PSNs: first, to execute, to make */
	u32 hi;				/* one past the highest received */
	u32 max_rd;
	u32 msg, recv;			/* numbers of the next message to make */
	u32 done_msg, done_recv, done_rd;
	u32 posted;			/* receives */
	u32 area_msg[AREA];		/* message that writes the byte last, of all made */
	u32 area[AREA];			/* the same of all placed */
	bool hostile;			/* something wrong was taken */
	bool blocked, ended;
	u8 nak;
	/* what the next answer must say */
	bool wanted, dup, ce, probe;
	u16 probe_id;
	/* responses: what was asked, by number */
	struct tp_pkt read[RING];
	u32 rsp_nxt;
} f;

static struct made *at(u32 psn)
{
	return &f.made[psn % RING];
}

static enum fate fate_of(u32 psn)
{
	const struct made *m = at(psn);

	return m->run == f.run && m->taken.psn == psn ? m->fate : ABSENT;
}

/* --- the peer makes messages --- */

static void add(struct tp_pkt p, u32 len)
{
	struct made *m = at(f.nxt);

	p.psn = f.nxt++ & 0xffffff;
	p.msn = (u16)f.msg;
	m->p = p;
	m->len = len;
	m->msg = f.msg;
}

static bool overlaps(u32 va, u32 len)
{
	u32 i;

	for (i = va; i < va + len; i++)
		if (tp_diff(f.area_msg[i], f.done_msg) >= 0)
			return true;
	return false;
}

static void make_parts(u8 kind, u8 flags)
{
	u32 n = 1 + in8(&f.in) % (flags & 128 ? 64 : 6), i, plen;
	u32 len = n * CELL - in8(&f.in) % CELL;
	u32 va = kind == TP_WRITE ? in8(&f.in) % (AREA - len + 1) : 0;
	bool imm = flags & 16;
	struct tp_pkt p = {
		.kind = kind, .dma_len = len, .rqmsn = (u16)f.recv,
		.rkey = flags & 32 && in8(&f.in) == 1 ? BAD_KEY : 0,
		.ordered = kind == TP_WRITE && (overlaps(va, len) || flags & 64),
	};

	if (in8(&f.in) == 1)			/* without any bytes */
		len = n = 0;
	p.dma_len = len;
	for (i = 0; i < max_t(u32, n, 1); i++) {
		p.first = !i;
		p.last = i + 1 >= n;
		p.has_imm = imm && p.last;
		p.va = va + i * CELL;
		plen = p.last ? len - i * CELL : CELL;
		add(p, plen);
	}
	for (i = va; kind == TP_WRITE && i < va + len; i++)
		f.area_msg[i] = f.msg;
	f.recv += kind == TP_SEND || imm;
}

/* Responses that the peer could know to be complete: all whose packets were sent. */
static u32 complete_reads(void)
{
	const struct tp_tx *t = &f.r.tx;
	u32 i = t->head;

	while (f.r.has_tx && i != t->started) {
		const struct tp_op *op = &f.ops[i & t->op_mask];

		if (tp_before(t->nxt, op->first_psn + op->npkts))
			break;
		i++;
	}
	return i;
}

/* One word, in one packet. */
static void make_atomic_write(struct tp_pkt p, u8 flags)
{
	u32 i;

	p.va = 8 * (flags >> 4);
	add(p, 8);
	for (i = 0; i < 8; i++)
		f.area_msg[p.va + i] = f.msg;
}

static void make_message(void)
{
	static const u8 kinds[] = { TP_WRITE, TP_WRITE, TP_WRITE, TP_SEND, TP_SEND, TP_READ, TP_CAS,
				    TP_FAA };
	u8 flags = in8(&f.in), kind = kinds[flags & 7];
	struct tp_pkt p = {
		.kind = kind, .first = true, .last = true, .va = 8, .dma_len = 8,
		.rqmsn = (u16)complete_reads(),
	};

	if ((kind == TP_CAS || kind == TP_FAA) && flags & 16)
		p.kind = kind = kind == TP_CAS ? TP_ATOMIC_WRITE : TP_RDMA_FLUSH;
	if (kind == TP_RDMA_FLUSH)
		p.imm = TP_FETH_GLOBAL | (flags & 32 ? TP_FETH_MR : 0);

	if (f.nxt - f.psn0 > MADE_MAX || f.nxt - f.exec > RING - REACH / 2)
		return;
	if (kind == TP_WRITE || kind == TP_SEND) {
		make_parts(kind, flags);
	} else if (kind == TP_ATOMIC_WRITE) {
		make_atomic_write(p, flags);
	} else {
		if (kind == TP_READ)
			p.dma_len = flags & 16 ? in8(&f.in) * CELL : 0;
		add(p, 0);
	}
	f.msg++;
}

/* --- what happens to packets --- */

static bool consumes(const struct tp_pkt *p)
{
	return p->last && (p->kind == TP_SEND || (p->kind == TP_WRITE && p->has_imm));
}

static void write_area(const struct made *m)
{
	u32 i;

	for (i = 0; !f.hostile && i < m->taken_len; i++) {
		u32 *byte = &f.area[m->taken.va + i];

		CHECK(tp_diff(m->msg, *byte) >= 0);	/* C9 */
		*byte = m->msg;
	}
}

static void place(struct made *m)
{
	CHECK(!f.ended);
	CHECK(!m->taken.last);				/* C2, C5 */
	CHECK(m->taken.kind == TP_SEND || m->taken.kind == TP_WRITE);
	CHECK(!m->taken.ordered || m->taken.msn == f.done_msg);	/* C9 */
	CHECK(m->taken_len && m->taken_len <= m->taken.dma_len);
	if (m->taken.kind == TP_SEND)
		CHECK(m->taken.va + m->taken_len < m->taken.dma_len);
	m->fate = PLACED;
	if (m->taken.kind == TP_WRITE)
		write_area(m);
}

static void fail(u8 nak)
{
	trace("  fails: %u", nak);
	tp_resp_nak(&f.r, nak);
	f.ended = f.wanted = true;
	f.nak = nak;
	f.blocked = false;
}

/* Bytes of the response. */
static u32 back_of(const struct tp_pkt *p)
{
	return p->kind == TP_ATOMIC_WRITE || p->kind == TP_RDMA_FLUSH ? 0 : p->dma_len;
}

/* The READ or ATOMIC (or one of their like) at its turn. Return: false: it failed. */
static bool run_read(const struct tp_pkt *p)
{
	u32 open = f.r.tx.tail - f.r.tx.head, done = complete_reads(), claimed;
	struct tp_op *o;

	claimed = tp_extend16(p->rqmsn, f.done_rd);
	if (!tp_resp_read(&f.r, p, CELL, f.now, &o)) {
		/* what isn't possible: completing what was not sent, or more than may be open */
		CHECK(!f.max_rd || tp_diff(claimed, done) > 0 ||
		      f.done_rd - (tp_diff(claimed, f.r.tx.head) > 0 ? claimed : f.r.tx.head) >= f.max_rd);
		fail(TP_NAK_INV_REQ);
		return false;
	}
	CHECK(open <= f.max_rd);
	CHECK(f.r.tx.tail - f.r.tx.head <= f.max_rd);
	CHECK_EQ(o->rqmsn, f.done_rd);
	CHECK_EQ(o - f.ops, f.done_rd % MAX_RD);
	CHECK_EQ(o->raddr, p->va);
	CHECK_EQ(o->length, back_of(p));
	f.read[f.done_rd % RING] = *p;
	f.done_rd++;
	return true;
}

enum { OK, BLOCKED, FAILED };

/* The packet at the executed point. */
static int run(struct made *m)
{
	const struct tp_pkt *p = &m->taken;

	CHECK(!f.ended);
	CHECK_EQ(m, at(f.exec));
	if (!tp_resp_turn(&f.r, p)) {
		CHECK(f.hostile);
		fail(TP_NAK_INV_REQ);
		return FAILED;
	}
	CHECK_EQ(p->psn, f.exec);
	CHECK_EQ(p->msn, f.done_msg);
	if (p->kind == TP_SEND || consumes(p)) {
		CHECK_EQ(p->rqmsn, f.done_recv);
		if (f.posted == f.done_recv) {
			tp_resp_rnr(&f.r);
			f.blocked = f.wanted = true;
			return BLOCKED;
		}
	}
	if (p->rkey == BAD_KEY) {
		fail(TP_NAK_REM_ACCESS);
		return FAILED;
	}
	if (p->kind == TP_ATOMIC_WRITE)
		CHECK(m->taken_len == 8);
	if (p->kind == TP_RDMA_FLUSH)
		CHECK(tp_feth_valid(p->imm));
	if (p->kind >= TP_READ && !run_read(p))
		return FAILED;
	m->fate = RAN;
	if (p->kind == TP_WRITE || p->kind == TP_ATOMIC_WRITE)
		write_area(m);
	tp_resp_executed(&f.r, p, consumes(p));
	f.exec++;
	f.done_msg += p->last;
	f.done_recv += consumes(p);
	f.wanted = true;
	if (!f.hostile) {
		CHECK_EQ(f.done_msg, m->msg + p->last);
	}
	return OK;
}

static void advance(void)
{
	CHECK_EQ(tp_resp_ready(&f.r), !f.ended && fate_of(f.exec) != ABSENT && f.exec != f.hi);
	while (!f.blocked && tp_resp_ready(&f.r)) {
		struct made *m = at(f.exec);

		CHECK(fate_of(f.exec) == PLACED || fate_of(f.exec) == HELD);
		if (m->fate == PLACED) {
			tp_resp_executed(&f.r, NULL, false);
			m->fate = RAN;
			f.exec++;
			f.wanted = true;
		} else if (run(m) != OK) {
			break;
		}
	}
}

/* One in some packets is not what a correct peer would send. */
static bool corrupt(struct tp_pkt *p, u32 *len)
{
	u8 what = in8(&f.in), by = in8(&f.in);

	switch (what & 15) {
	case 0:
		p->msn = (u16)(p->msn + (s8)by);
		break;
	case 1:
		p->rqmsn = (u16)(p->rqmsn + (s8)by);
		break;
	case 2:
		p->kind = by % TP_KINDS;
		break;
	case 3:
		p->first ^= by & 1;
		p->last ^= by >> 1 & 1;
		break;
	case 4:
		p->va += (u64)(s64)(s8)by << (what >> 4) * 4;
		break;
	case 5:
		p->dma_len += (u32)(s8)by << (what >> 4);
		break;
	case 6:
		*len += by;
		break;
	case 7:
		*len -= min_t(u32, by, *len);
		break;
	case 8:
		p->ordered ^= 1;
		break;
	case 9:
		p->msn = (u16)(p->msn + (by << 8));
		break;
	case 10:
		p->rqmsn = (u16)(p->rqmsn + (by << 8));
		break;
	case 11:
		p->has_imm ^= 1;
		break;
	case 12:
		p->psn = (p->psn + ((u32)by << (what >> 4))) & 0xffffff;
		break;
	case 13:
		p->imm ^= by;
		break;
	default:
		return false;
	}
	return true;
}

static void expect_received(struct made *m, u32 psn)
{
	m->run = f.run;
	m->taken.psn = psn;
	m->fate = HELD;
	if (tp_before(f.hi, psn + 1))
		f.hi = psn + 1;
	f.wanted = true;
}

static void expect_outside(u32 psn)
{
	s32 ahead = tp_diff(psn, f.exec);

	CHECK(ahead >= TP_WINDOW || (f.ended && ahead >= 0));
	if (ahead < TP_WINDOW)		/* received, and never run */
		expect_received(at(psn), psn);
}

static void deliver(u32 psn, bool wrong)
{
	struct tp_pkt p = at(psn)->p;
	u32 len = at(psn)->len;
	enum tp_take take;
	struct made *m;

	if (wrong)
		wrong = corrupt(&p, &len);
	take = tp_resp_check(&f.r, &p, len);
	trace("deliver %d (from exec %d)%s: %d", psn - f.psn0, psn - f.exec, wrong ? " wrong" : "", take);
	switch (take) {
	case TP_TAKE_BAD:
		CHECK(wrong && !(p.kind >= TP_SEND && p.kind <= TP_RDMA_FLUSH));
		return;
	case TP_TAKE_OUTSIDE:
		expect_outside(p.psn);
		return;
	case TP_TAKE_DUP:
		CHECK(tp_before(p.psn, f.exec) || fate_of(p.psn) != ABSENT);
		f.dup = f.wanted = true;
		return;
	default:
		break;
	}
	CHECK(!f.ended);
	CHECK(p.psn - f.exec < TP_WINDOW);
	CHECK_EQ(fate_of(p.psn), ABSENT);		/* C1 */
	f.hostile |= wrong;
	m = at(p.psn);
	m->run = f.run;
	m->taken = p;
	m->taken_len = len;
	m->fate = ABSENT;
	if (tp_before(f.hi, p.psn + 1))
		f.hi = p.psn + 1;
	f.wanted = true;
	if (!f.hostile) {
		CHECK_EQ(p.msn, m->msg);
		CHECK_EQ(take == TP_TAKE_PLACE, !p.last && (!p.ordered || p.msn == f.done_msg));
	}
	if (take == TP_TAKE_TURN) {
		CHECK_EQ(p.psn, f.exec);
		if (f.blocked || run(m) == BLOCKED) {
			m->fate = HELD;
			tp_resp_commit(&f.r, &p);
		}
	} else if (take == TP_TAKE_PLACE && p.rkey != BAD_KEY &&
		   (p.kind != TP_SEND || tp_before(p.rqmsn, f.posted))) {
		place(m);
		tp_resp_commit(&f.r, &p);
	} else {
		m->fate = HELD;
		tp_resp_commit(&f.r, &p);
	}
	if (!f.ended) {
		advance();
	} else {			/* it failed straight from the wire */
		tp_resp_ignore(&f.r, &p);
		expect_received(m, p.psn);
	}
}

static void deliver_some(u8 op)
{
	u32 psn = f.exec, n;

	if (op & 1)
		psn += in8(&f.in) % 16;
	else
		psn += (u32)(s32)(s16)in16(&f.in) % REACH;
	n = 1 + (op >> 4 & 7) * (op >> 4 & 7);
	for (; n; n--, psn++) {
		if (tp_before(psn, f.psn0) || tp_before(psn + RING, f.nxt))
			continue;		/* forgotten */
		while (tp_diff(psn, f.nxt) >= 0) {
			u32 before = f.nxt;

			make_message();
			if (f.nxt == before)
				return;
		}
		deliver(psn, false);
	}
}

static void post_receives(void)
{
	f.posted += 1 + in8(&f.in) % 4;
	if (!f.blocked)
		return;
	f.blocked = false;
	tp_resp_unblock(&f.r);
	advance();
}

/* --- answers --- */

static void check_bits(const struct tp_ack *a)
{
	u32 i;

	CHECK(64u * a->nwords >= f.hi - a->cum_psn);
	for (i = 0; i < 64u * a->nwords; i++) {
		u32 psn = a->cum_psn + i;
		bool have = tp_before(psn, f.hi) && fate_of(psn) != ABSENT;

		CHECK_EQ(a->bits[i / 64] >> i % 64 & 1, have);
	}
}

static u32 cumulative(void)
{
	u32 psn = f.exec;

	while (tp_before(psn, f.hi) && fate_of(psn) != ABSENT)
		psn++;
	return psn;
}

static void answer(void)
{
	bool owes = f.r.has_tx && f.r.tx.head != f.r.tx.tail, plain;
	u32 cum = cumulative();
	struct tp_ack a;

	CHECK_EQ(tp_resp_take_ack(&f.r, (s32)in16(&f.in) - 1, &a), f.wanted);
	if (!f.wanted)
		return;
	plain = cum == f.exec && f.hi == cum && !f.dup && !f.ce && !f.probe;
	CHECK_EQ(a.space, TP_REQUEST);
	CHECK_EQ(a.exec_psn, f.exec);
	CHECK_EQ(a.cum_psn, cum);
	CHECK_EQ(a.exec_msn, f.done_msg);
	CHECK_EQ(a.dup, f.dup);
	CHECK_EQ(a.ce, f.ce);
	CHECK_EQ(a.probe, f.probe);
	CHECK_EQ(a.probe_id, f.probe ? f.probe_id : 0);
	CHECK_EQ(!a.nwords, plain);
	CHECK_EQ(a.syndrome, f.ended && !owes ? TP_SYN_NAK : f.blocked ? TP_SYN_RNR : TP_SYN_ACK);
	if (a.syndrome == TP_SYN_NAK)
		CHECK_EQ(a.value, f.nak);
	check_bits(&a);
	f.wanted = f.dup = f.ce = f.probe = false;
}

/* A packet bears a mark, or is a probe. */
static void note(void)
{
	u8 how = in8(&f.in);

	tp_rx_seen(&f.r.rx, in16(&f.in), how & 1);
	f.ce |= how & 1;
	if (!(how & 2))
		return;
	f.probe_id = in16(&f.in);
	tp_rx_probed(&f.r.rx, f.probe_id);
	f.probe = f.wanted = true;
}

/* --- responses --- */

static void send_responses(void)
{
	u8 most = in8(&f.in);
	struct tp_burst b;
	struct tp_out o;
	u32 n = 0;

	while (f.r.has_tx && n < most && tp_tx_burst(&f.r.tx, f.now, 1 + most % 32, f.r.tx.tail, &b)) {
		while (tp_tx_next(&f.r.tx, f.now, &b, &o)) {
			const struct tp_pkt *q = &f.read[o.op % RING];

			CHECK(tp_before(o.op, f.done_rd));
			CHECK_EQ(o.pkt.rqmsn, o.op);
			CHECK_EQ(o.pkt.kind, q->kind == TP_CAS || q->kind == TP_FAA ? TP_ATOMIC_DATA :
										      TP_READ_DATA);
			CHECK_EQ(o.pkt.dma_len, back_of(q));
			CHECK(o.offset + o.len <= back_of(q));
			if (!b.rtx)
				CHECK_EQ(o.pkt.psn, f.rsp_nxt++);
			n++;
		}
		CHECK(b.n);
	}
}

static void answer_responses(void)
{
	u8 how = in8(&f.in);
	struct tp_tx *t = &f.r.tx;
	bool owed = f.r.has_tx && t->head != t->tail;
	struct tp_ack a = { .space = TP_RESPONSE, .value = 31, .mpr = how & 3 };

	a.exec_psn = (t->exec + in_below(&f.in, t->nxt - t->exec + 1)) & 0xffffff;
	a.cum_psn = a.exec_psn;
	if (how & 4)
		a.cum_psn = t->nxt & 0xffffff;
	if (how & 8)
		a.exec_psn = (a.exec_psn + (u32)(s8)in8(&f.in)) & 0xffffff;
	if (how & 16) {
		a.bits[0] = in32(&f.in) & ~1U;
		a.nwords = 1;
	}
	if (how & 32) {
		a.probe = true;
		a.probe_id = t->probe_id;
	}
	tp_resp_ack(&f.r, f.now, &a);
	if (!f.r.has_tx)
		return;
	CHECK(t->head == t->tail || t->tail - t->head <= f.max_rd);
	if (owed && t->head == t->tail && f.ended)
		f.wanted = true;		/* the NAK that waited */
}

static void pass_time(void)
{
	u8 how = in8(&f.in);
	struct tp_pkt p;
	u8 ev;

	f.now += how & 1 ? (u64)how * MS : how * 1000ULL;
	if (!f.r.has_tx)
		return;
	if (f.r.tx.head != f.r.tx.tail)
		CHECK(tp_tx_deadline(&f.r.tx) <= f.now + 1000 * MS);
	tp_tx_timeout(&f.r.tx, f.now);
	tp_tx_probe(&f.r.tx, f.now, &p, &ev);
}

/* --- a case --- */

static void start(void)
{
	static const u32 psns[] = { 0, 0xfffff0, 0x7ffff0, 0xffff00 };
	static const u32 msns[] = { 0, 0xfff8, 0x7ff8, 0xfffffff8 };
	u8 how = in8(&f.in);
	struct tp_resp_attr at = { .psn = psns[how & 3], .max_dest_rd = how >> 4 & 7, .rnr_timer = 14 };
	u32 i;

	at.max_dest_rd = min_t(u32, at.max_dest_rd, MAX_RD);
	tp_resp_init(&f.r, &at);
	tp_paths_init(&f.paths, 8, 1);
	f.now = 1000 * MS;
	f.psn0 = f.exec = f.nxt = f.hi = at.psn;
	f.max_rd = at.max_dest_rd;
	f.msg = f.done_msg = f.r.msn = msns[how >> 2 & 3];
	f.recv = f.done_recv = f.posted = f.r.rqmsn = f.msg * 3;
	f.done_rd = 0;
	f.rsp_nxt = 500;
	for (i = 0; i < AREA; i++)		/* by some message before the first */
		f.area[i] = f.area_msg[i] = f.msg - 1;
	f.run++;
	f.hostile = f.blocked = f.ended = false;
	f.wanted = f.dup = f.ce = f.probe = false;
	if (f.max_rd && how < 0x80) {
		tp_resp_start_tx(&f.r, 7, 500, f.ops, MAX_RD, CELL, &f.paths, 1, f.now);
		tp_tx_use_records(&f.r.tx, f.sent, TP_WINDOW);
	} else {
		f.max_rd = 0;
	}
}

static void step(void)
{
	u8 op = in8(&f.in);

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		deliver_some(op);
		break;
	case 6:
		if (f.exec != f.nxt)
			deliver(f.exec + in8(&f.in) % (f.nxt - f.exec), true);
		break;
	case 7:
		make_message();
		break;
	case 8:
	case 9:
		post_receives();
		break;
	case 10:
		answer();
		break;
	case 11:
		note();
		break;
	case 12:
		send_responses();
		break;
	case 13:
		answer_responses();
		break;
	case 14:
		pass_time();
		break;
	default:
		if (in8(&f.in) == 1 && !f.ended && !f.blocked) {
			fail(TP_NAK_REM_OP);
			CHECK(!tp_resp_ready(&f.r));
		}
	}
	CHECK_EQ(f.r.rx.exec, f.exec);
	CHECK_EQ(f.r.msn, f.done_msg);
	CHECK_EQ(f.r.rqmsn, f.done_recv);
	CHECK_EQ(f.r.rd_no, f.done_rd);
}

/* A correct peer's stream ends with all of it executed. */
static void drain(void)
{
	u32 i;

	if (f.hostile || f.ended)
		return;
	while (f.exec != f.nxt && !f.ended) {
		struct tp_ack a = { .space = TP_RESPONSE, .value = 31 };
		u32 before = f.exec;

		f.posted += 4;
		if (f.blocked) {
			f.blocked = false;
			tp_resp_unblock(&f.r);
			advance();
		}
		if (!f.ended && f.exec != f.nxt)
			deliver(f.exec, false);
		CHECK(f.ended || f.exec != before);
		in8(&f.in);
		f.in.p = f.in.end;
		if (f.r.has_tx) {
			struct tp_burst b;
			struct tp_out o;

			while (tp_tx_burst(&f.r.tx, f.now, 32, f.r.tx.tail, &b))
				while (tp_tx_next(&f.r.tx, f.now, &b, &o))
					;
			a.exec_psn = a.cum_psn = f.r.tx.nxt & 0xffffff;
			tp_resp_ack(&f.r, f.now, &a);
			f.now += MS;
		}
	}
	if (f.ended)
		return;
	for (i = 0; i < AREA; i++)
		CHECK_EQ(f.area[i], f.area_msg[i]);
	CHECK_EQ(f.r.msn, f.msg);
	CHECK_EQ(f.r.rqmsn, f.recv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 i;

	f.in = (struct input) { data, data + size };
	start();
	for (i = 0; i < STEPS && in_more(&f.in); i++)
		step();
	drain();
	return 0;
}
