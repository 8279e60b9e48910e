// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A requester and a responder over a network in the hands of the input: it
 * posts messages and receives, and says which packet is delivered, twice, late,
 * marked or never, when a timer fires, which burst the local stack refuses. In
 * the end the network is good: then everything completes.
 *
 *   C1 each byte of a message is placed once    C2 a tail after all else
 *   C3 receives complete in order, with what was sent
 *   C4 completions in order, success means executed
 *   C5 READ sees what its turn saw or later, nothing behind a fence; ATOMICs as run one by one;
 *      at the turn of a FLUSH, and when it is complete, all before it is placed
 *   C6 the message that is wrong fails at its turn, those before it succeed, the rest flushes
 *   C9 memory ends as if WRITEs had run one by one
 */
#include "fuzz.h"
#include "responder.h"
#include "../unit/records.h"

enum {
	STEPS		= 4000,
	MSGS		= 64,
	OPS		= 16,		/* send queue */
	RD_RING		= 4,
	PAY_MAX		= 64,
	LEN_MAX		= 1200,
	MEM		= 2048,
	MEM_VA		= 0x10000,
	CELLS		= 4,
	CELL_VA		= 0x90000,
	RQ_BUF		= 600,
	KEY		= 0x1234,
	FLYING		= 1024,		/* packets on their way, more are lost */
	PATIENCE	= 60,		/* s without any new packet, on a good network */
};

#define MS	1000000ULL

enum { A, B };
enum wrong { RIGHT, BAD_RKEY, BAD_BOUNDS, BAD_SEND_LEN, BAD_READ, BAD_ATOMIC, BAD_LOCAL, BAD_POST,
	     BAD_ATOMIC_WRITE, BAD_FLUSH, WRONGS };

struct msg {
	u8 kind, wrong;
	bool fence, has_imm, executed, done;
	u32 len, rq, placed, back;
	u64 raddr, swap_add, compare, expect;
	enum tp_status st;
	u8 seen[LEN_MAX];
	u8 snap[LEN_MAX];		/* READ: writer of each byte at its turn, + 1 */
};

struct packet {
	u8 dst;
	bool ce;
	u32 entropy, len;
	u8 tags[PAY_MAX];		/* READ data: writer of each byte, + 1 */
	u8 buf[TP_MAX_ACK > TP_MAX_HDR + PAY_MAX + 4 ? TP_MAX_ACK : TP_MAX_HDR + PAY_MAX + 4];
};

struct held {
	struct tp_pkt p;
	u32 len, op;
	u8 bytes[PAY_MAX], tags[PAY_MAX];
};

static struct fuzz {
	struct input in;
	u64 now;
	struct packet pool[FLYING];
	u16 order[FLYING];		/* the first @flying: on their way, the oldest first; rest: free */
	u32 flying;
	bool refuse;
	u32 ack_rng;

	struct tp_req q;
	struct tp_op ops[OPS];
	struct tp_paths paths[2];
	bool rsp_is_held[TP_WINDOW];
	struct held rsp_held[TP_WINDOW];
	u32 posted, completed;
	bool failed;
	u32 payload, msn0, rd0, max_rd;
	u64 timeout_ns;
	bool has_wrong;

	struct tp_resp r;
	struct tp_op rops[RD_RING];
	u8 no_memory;
	bool is_held[TP_WINDOW];
	struct held held[TP_WINDOW];
	u32 rq_made, rq_posted, rq_done;
	u32 executed;
	u64 last_new;			/* when a packet was new to its receiver */

	struct msg msg[MSGS];
	u8 mem[MEM];
	u8 owner[MEM], ref_owner[MEM], last_owner[MEM];	/* + 1: placed; executed; posted */
	u64 cell[CELLS], model[CELLS];
	u8 rq[MSGS][RQ_BUF];
} f;

static u8 content(u32 msg, u32 offset)
{
	return (u8)(msg * 31 + offset * 7 + (offset >> 8) + 1);
}

static u32 now_us(void)
{
	return tp_us(f.now);
}

/* --- network --- */

static struct packet *transmit(u8 src, u32 entropy, const u8 *buf, u32 len)
{
	struct packet *k;

	if (f.flying == FLYING)
		return NULL;
	k = &f.pool[f.order[f.flying++]];
	CHECK(len <= sizeof(k->buf));
	k->dst = !src;
	k->ce = false;
	k->entropy = entropy;
	k->len = len;
	memcpy(k->buf, buf, len);
	return k;
}

static void forget(u32 i)
{
	u16 slot = f.order[i];

	f.flying--;
	memmove(f.order + i, f.order + i + 1, (f.flying - i) * sizeof(*f.order));
	f.order[f.flying] = slot;
}

/* --- the requester's shell --- */

static void make_atomic(struct msg *m)
{
	u32 cell = in8(&f.in) % CELLS;
	u64 *v = &f.model[cell];

	m->len = 8;
	m->raddr = CELL_VA + 8 * cell;
	m->expect = *v;
	m->swap_add = f.posted + 1;
	m->compare = in8(&f.in) & 1 ? *v : 77;
	if (m->wrong)
		m->raddr += 4;
	else if (m->kind == TP_FAA)
		*v += m->swap_add;
	else if (*v == m->compare)
		*v = m->swap_add;
}

static void make_wrong(struct msg *m)
{
	static const u8 kinds[] = {
		[BAD_RKEY] = TP_WRITE, [BAD_BOUNDS] = TP_WRITE, [BAD_SEND_LEN] = TP_SEND,
		[BAD_READ] = TP_READ, [BAD_ATOMIC] = TP_FAA, [BAD_LOCAL] = TP_WRITE,
		[BAD_POST] = TP_WRITE, [BAD_ATOMIC_WRITE] = TP_ATOMIC_WRITE,
		[BAD_FLUSH] = TP_RDMA_FLUSH,
	};

	m->wrong = 1 + in8(&f.in) % (WRONGS - 1);
	m->kind = kinds[m->wrong];
	m->has_imm = false;
	f.has_wrong = true;
}

static bool writes(const struct msg *m)
{
	return m->kind == TP_WRITE || m->kind == TP_ATOMIC_WRITE;
}

static void make_message(struct msg *m)
{
	static const u8 kinds[] = { TP_WRITE, TP_WRITE, TP_SEND, TP_READ, TP_CAS, TP_FAA, TP_WRITE,
				    TP_SEND };
	u8 flags = in8(&f.in), size = in8(&f.in);
	u32 i;

	memset(m, 0, offsetof(struct msg, seen));
	m->kind = kinds[flags & 7];
	m->fence = flags & 8;
	m->has_imm = flags & 16 && (m->kind == TP_SEND || m->kind == TP_WRITE);
	if (flags & 16 && (m->kind == TP_CAS || m->kind == TP_FAA))
		m->kind = m->kind == TP_CAS ? TP_ATOMIC_WRITE : TP_RDMA_FLUSH;
	if (flags >= 0xe0 && !f.has_wrong)
		make_wrong(m);
	if (!f.max_rd && m->kind > TP_WRITE) {
		m->kind = TP_WRITE;
		m->wrong = m->wrong ? BAD_RKEY : RIGHT;
	}
	m->len = flags & 32 ? size * 4 : size;
	if (m->kind == TP_SEND)
		m->len = min_t(u32, m->len, RQ_BUF);
	if (m->kind == TP_ATOMIC_WRITE)
		m->len = 8;
	m->raddr = MEM_VA + in8(&f.in) * 4 % (MEM - m->len + 1);
	if (m->kind == TP_ATOMIC_WRITE)
		m->raddr &= ~7ULL;
	switch (m->wrong) {
	case BAD_ATOMIC_WRITE:
		m->raddr += 4;
		break;
	case BAD_BOUNDS:
		m->len = m->len + 1;
		m->raddr = MEM_VA + MEM - m->len + 1;
		break;
	case BAD_SEND_LEN:
		m->len = RQ_BUF + 1;
		break;
	case BAD_RKEY:
	case BAD_READ:
	case BAD_LOCAL:
		m->len = max_t(u32, m->len, 1);
		break;
	}
	if (m->kind == TP_CAS || m->kind == TP_FAA)
		make_atomic(m);
	memset(m->seen, 0, m->len);
	m->rq = f.rq_made;
	f.rq_made += m->kind == TP_SEND || m->has_imm;
	for (i = 0; writes(m) && !f.has_wrong && i < m->len; i++)
		f.last_owner[m->raddr - MEM_VA + i] = (u8)(f.posted + 1);
}

static void post(void)
{
	struct msg *m = &f.msg[f.posted];

	if (f.posted == MSGS || f.q.tx.tail - f.q.tx.head == OPS || f.q.dead)
		return;
	make_message(m);
	trace("post %u kind %u len %u wrong %u%s", f.posted, m->kind, m->len, m->wrong,
	      m->fence ? " fence" : "");
	*tp_tx_op(&f.q.tx, f.q.tx.tail) = (struct tp_op) {
		.kind = m->kind, .fence = m->fence, .has_imm = m->has_imm, .payload = f.payload,
		.length = m->len, .rkey = m->wrong == BAD_RKEY || m->wrong == BAD_READ ? 1 : KEY,
		.imm = m->kind != TP_RDMA_FLUSH ? f.posted : m->wrong ? 0 : TP_FETH_GLOBAL,
		.raddr = m->raddr, .swap_add = m->swap_add,
		.compare = m->compare, .error = m->wrong == BAD_POST ? TP_LOC_PROT : TP_OK,
	};
	tp_req_post(&f.q, f.now);
	f.posted++;
}

static enum tp_status expected(const struct msg *m)
{
	switch (m->wrong) {
	case RIGHT:
		return TP_OK;
	case BAD_LOCAL:
	case BAD_POST:
		return TP_LOC_PROT;
	case BAD_SEND_LEN:
	case BAD_ATOMIC:
	case BAD_ATOMIC_WRITE:
	case BAD_FLUSH:
		return TP_REM_INV_REQ;
	default:
		return TP_REM_ACCESS;
	}
}

/* Bytes that come back for a message. */
static u32 back_of(const struct msg *m)
{
	return m->kind == TP_READ || m->kind == TP_CAS || m->kind == TP_FAA ? m->len : 0;
}

/* Every byte of the messages before number @nr is at the peer. */
static void check_placed_before(u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (writes(&f.msg[i]) || f.msg[i].kind == TP_SEND)
			CHECK_EQ(f.msg[i].placed, f.msg[i].len);
}

static void take_completions(void)
{
	enum tp_status st;
	u32 op;

	while (tp_req_next_done(&f.q, &op, &st)) {
		struct msg *m = &f.msg[op];

		trace("completed %u status %u", op, st);
		CHECK_EQ(op, f.completed++);			/* C4 */
		m->done = true;
		m->st = st;
		if (st == TP_OK) {
			CHECK(m->executed && !f.failed);
			CHECK_EQ(m->back, back_of(m));
			if (m->kind == TP_RDMA_FLUSH)
				check_placed_before(op);
		} else if (f.failed) {
			CHECK_EQ(st, TP_FLUSH);
		} else if (!f.timeout_ns || st != TP_RETRY_EXC) {
			CHECK_EQ(st, expected(m));		/* C6 */
		}
		f.failed |= st != TP_OK;
	}
}

/* Return: false: message *@bad can't be read. */
static bool send_burst(u8 src, struct tp_tx *t, struct tp_burst *b, u32 *bad)
{
	u8 buf[TP_MAX_HDR + PAY_MAX + 4] = {}, tags[PAY_MAX];
	u32 first = b->psn, hdr, i, prev = 0, size;
	bool refuse = f.refuse;
	struct packet *k;
	struct tp_out o;

	f.refuse = false;
	while (tp_tx_next(t, f.now, b, &o)) {
		const struct msg *m = &f.msg[o.op % MSGS];

		hdr = tp_wire_encode(&o.pkt, buf);
		CHECK_EQ(hdr, tp_wire_hdr_len(&o.pkt));
		size = hdr + o.len + o.pkt.pad + TP_ICRC_LEN;
		CHECK(prev ? prev == b->seg_len && size <= prev : size == b->seg_len);
		prev = size;
		trace("%c> kind %u psn %u msn %u rq %u va %lx len %u%s%s%s%s%s", 'A' + src, o.pkt.kind,
		      o.pkt.psn, o.pkt.msn, o.pkt.rqmsn, (unsigned long)o.pkt.va, o.len,
		      o.pkt.first ? " first" : "", o.pkt.last ? " last" : "", o.pkt.rtx ? " rtx" : "",
		      o.pkt.ordered ? " ordered" : "", refuse ? " refused" : "");
		if (src == A) {
			if (m->wrong == BAD_LOCAL && o.pkt.last) {
				*bad = o.op;
				return false;
			}
			for (i = 0; i < o.len; i++)
				buf[hdr + i] = content(o.op, o.offset + i);
		} else if (o.pkt.kind == TP_READ_DATA) {
			u64 at = t->ops[o.op & t->op_mask].raddr + o.offset - MEM_VA;

			memcpy(buf + hdr, f.mem + at, o.len);
			memcpy(tags, f.owner + at, o.len);
		} else {
			tp_put64(buf + hdr, t->ops[o.op & t->op_mask].swap_add);
		}
		k = refuse ? NULL : transmit(src, b->entropy, buf, hdr + o.len + o.pkt.pad);
		if (k && o.pkt.kind == TP_READ_DATA)
			memcpy(k->tags, tags, o.len);
	}
	CHECK(b->n > 0 && b->n <= TP_BURST_MAX);
	if (refuse)
		tp_tx_dropped(t, b, first);
	return true;
}

static void send_lone(u8 src, u8 ev, const u8 *buf, u32 n)
{
	transmit(src, f.paths[src].p[ev].entropy, buf, n);
}

static void send_ack(u8 src, const struct tp_ack *a)
{
	u8 buf[TP_MAX_ACK];
	u32 n = tp_wire_encode_ack(a, buf);

	trace("%c> ack space %u syndrome %u exec %u cum %u words %u", 'A' + src, a->space, a->syndrome,
	      a->exec_psn, a->cum_psn, a->nwords);
	send_lone(src, tp_path_pick_for_answer(&f.paths[src], &f.ack_rng, now_us()), buf, n);
}

static void send_probe(u8 src, const struct tp_pkt *p, u8 ev)
{
	u8 buf[TP_MAX_HDR];

	trace("%c> probe %u", 'A' + src, p->probe_id);
	send_lone(src, ev, buf, tp_wire_encode(p, buf));
}

static void pump_a(u32 most)
{
	u32 done, bad, n = 0;
	struct tp_burst b;
	struct tp_pkt p;
	struct tp_ack a;
	u8 ev;

	do {
		do {
			while (tp_req_burst(&f.q, f.now, most, &b)) {
				CHECK(++n < 10000);
				if (!send_burst(A, &f.q.tx, &b, &bad))
					tp_req_local_error(&f.q, bad, TP_LOC_PROT);
			}
		} while (fit_records(&f.q.tx, ++f.no_memory % 8 == 0));
		done = f.completed;
		take_completions();
	} while (done != f.completed && !f.q.dead);
	while (tp_req_probe(&f.q, f.now, &p, &ev))
		send_probe(A, &p, ev);
	if (tp_req_take_ack(&f.q, &a))
		send_ack(A, &a);
}

/* READ data may be newer than the READ's turn, but not older, nor from behind a fence (C5). */
static void check_read_byte(u32 op, u32 at, u8 tag)
{
	u32 i;

	CHECK(tag >= f.msg[op].snap[at]);
	for (i = op + 1; i + 1 <= tag; i++)
		CHECK(!f.msg[i].fence);
}

static void place_response(u32 op, const struct tp_pkt *p, const u8 *bytes, u32 len, const u8 *tags)
{
	struct msg *m = &f.msg[op];
	bool atomic = p->kind == TP_ATOMIC_DATA;
	u32 i;

	CHECK(!m->done && m->executed);
	if (p->last)
		CHECK_EQ(m->back + len, back_of(m));		/* C2 */
	m->back += len;
	for (i = 0; i < len; i++) {
		u32 at = atomic ? i : (u32)p->va + i;

		CHECK(!m->seen[at]);				/* C1 */
		m->seen[at] = 1;
		if (!atomic)
			check_read_byte(op, at, tags[i]);
	}
	if (atomic)
		CHECK_EQ(tp_get64(bytes), m->expect);		/* C5 */
}

static void run_response(u32 op, const struct tp_pkt *p, const u8 *bytes, u32 len, const u8 *tags)
{
	place_response(op, p, bytes, len, tags);
	if (p->last)
		tp_req_rd_done(&f.q, op);
	tp_req_response_executed(&f.q);
}

static void keep(struct held *h, const struct tp_pkt *p, const u8 *bytes, u32 len, const u8 *tags)
{
	CHECK(len <= PAY_MAX);
	h->p = *p;
	h->len = len;
	memcpy(h->bytes, bytes, len);
	memcpy(h->tags, tags, len);
}

static void take_response(struct tp_pkt *p, const u8 *bytes, u32 len, const u8 *tags)
{
	struct held *h;
	u32 op, i;

	switch (tp_req_response(&f.q, p, len, &op)) {
	case TP_TAKE_PLACE:
		place_response(op, p, bytes, len, tags);
		tp_req_response_commit(&f.q, p);
		break;
	case TP_TAKE_HOLD:
		i = p->psn % TP_WINDOW;
		CHECK(!f.rsp_is_held[i]);
		f.rsp_is_held[i] = true;
		keep(&f.rsp_held[i], p, bytes, len, tags);
		f.rsp_held[i].op = op;
		tp_req_response_commit(&f.q, p);
		break;
	case TP_TAKE_TURN:
		run_response(op, p, bytes, len, tags);
		break;
	case TP_TAKE_DUP:
		return;
	default:
		CHECK(f.q.dead);
		return;
	}
	f.last_new = f.now;
	while (tp_req_response_ready(&f.q)) {
		i = f.q.rx.exec % TP_WINDOW;
		h = &f.rsp_held[i];
		if (f.rsp_is_held[i]) {
			f.rsp_is_held[i] = false;
			CHECK(tp_req_response_still(&f.q, &h->p, h->len, h->op));
			run_response(h->op, &h->p, h->bytes, h->len, h->tags);
		} else {
			tp_req_response_executed(&f.q);
		}
	}
}

/* --- the responder's shell --- */

static u32 number(const struct tp_pkt *p)
{
	return p->msn - f.msn0;
}

static void place(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct msg *m = &f.msg[number(p)];
	u32 offset = (u32)(p->kind == TP_SEND ? p->va : p->va - m->raddr), i;

	m->placed += len;
	if (p->last) {							/* C2 */
		CHECK_EQ(p->psn, f.r.rx.exec);
		CHECK_EQ(f.executed, number(p));
		CHECK_EQ(m->placed, m->len);
	}
	for (i = 0; i < len; i++) {
		CHECK_EQ(bytes[i], content(number(p), offset + i));
		CHECK(!m->seen[offset + i]);				/* C1 */
		m->seen[offset + i] = 1;
		if (m->kind == TP_SEND) {
			f.rq[m->rq][offset + i] = bytes[i];
			continue;
		}
		CHECK(f.owner[p->va - MEM_VA + i] <= number(p) + 1);	/* C9 */
		f.owner[p->va - MEM_VA + i] = (u8)(number(p) + 1);
		f.mem[p->va - MEM_VA + i] = bytes[i];
	}
}

static bool in_mem(const struct tp_pkt *p, u64 va, u64 len)
{
	return !len || (p->rkey == KEY && va >= MEM_VA && va + len <= MEM_VA + MEM);
}

static bool place_early(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	if (p->kind == TP_SEND && (p->rqmsn - f.msn0 >= f.rq_posted || p->dma_len > RQ_BUF))
		return false;
	if (p->kind == TP_WRITE && !in_mem(p, p->va, len))
		return false;
	place(p, bytes, len);
	return true;
}

enum { RAN, BLOCKED, FAILED };

static int nak(enum tp_nak n)
{
	trace("B fails: %u", n);
	tp_resp_nak(&f.r, n);
	return FAILED;
}

static int run_read(const struct tp_pkt *p)
{
	struct msg *m = &f.msg[number(p)];
	struct tp_op *o;

	if (!in_mem(p, p->va, p->dma_len))
		return nak(TP_NAK_REM_ACCESS);
	CHECK(tp_resp_read(&f.r, p, f.payload, f.now, &o));
	memcpy(m->snap, f.ref_owner + (m->raddr - MEM_VA), m->len);
	return RAN;
}

static int run_atomic(const struct tp_pkt *p)
{
	u64 *cell = &f.cell[(p->va - CELL_VA) / 8 % CELLS];
	struct tp_op *o;
	u64 old = *cell;

	if (p->va % 8)
		return nak(TP_NAK_INV_REQ);
	CHECK(tp_resp_read(&f.r, p, f.payload, f.now, &o));
	CHECK_EQ(old, f.msg[number(p)].expect);
	if (p->kind == TP_FAA)
		*cell += p->swap_add;
	else if (old == p->compare)
		*cell = p->swap_add;
	o->swap_add = old;
	return RAN;
}

static int run_atomic_write(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct tp_op *o;

	if (p->va % 8)
		return nak(TP_NAK_INV_REQ);
	CHECK(tp_resp_read(&f.r, p, f.payload, f.now, &o));
	place(p, bytes, len);
	memset(f.ref_owner + (p->va - MEM_VA), (int)number(p) + 1, len);
	return RAN;
}

static int run_flush(const struct tp_pkt *p)
{
	struct tp_op *o;

	CHECK(tp_resp_read(&f.r, p, f.payload, f.now, &o));
	check_placed_before(number(p));
	return RAN;
}

static int run_send(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	if (p->rqmsn - f.msn0 >= f.rq_posted)
		return BLOCKED;
	if (p->dma_len > RQ_BUF)
		return nak(TP_NAK_INV_REQ);
	place(p, bytes, len);
	return RAN;
}

static int run_write(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	const struct msg *m = &f.msg[number(p)];

	if (!in_mem(p, p->va, len))
		return nak(TP_NAK_REM_ACCESS);
	if (p->has_imm && p->rqmsn - f.msn0 >= f.rq_posted)
		return BLOCKED;
	place(p, bytes, len);
	if (p->last && m->len)
		memset(f.ref_owner + (m->raddr - MEM_VA), (int)number(p) + 1, m->len);
	return RAN;
}

/* C3 */
static void receive_done(const struct msg *m, const struct tp_pkt *p)
{
	u32 i;

	CHECK_EQ(m->rq, f.rq_done);
	CHECK_EQ(p->has_imm, m->has_imm);
	CHECK(!m->has_imm || p->imm == number(p));
	CHECK_EQ(p->dma_len, m->len);
	for (i = 0; m->kind == TP_SEND && i < m->len; i++)
		CHECK_EQ(f.rq[m->rq][i], content(number(p), i));
	f.rq_done++;
}

static int run(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	struct msg *m = &f.msg[number(p)];
	bool consumes = p->last && (p->kind == TP_SEND || (p->kind == TP_WRITE && p->has_imm));
	int how;

	CHECK(number(p) < f.posted);
	if (!tp_resp_turn(&f.r, p)) {
		CHECK_EQ(m->wrong, BAD_FLUSH);
		return nak(TP_NAK_INV_REQ);
	}
	if (p->kind == TP_SEND)
		how = run_send(p, bytes, len);
	else if (p->kind == TP_WRITE)
		how = run_write(p, bytes, len);
	else if (p->kind == TP_READ)
		how = run_read(p);
	else if (p->kind == TP_ATOMIC_WRITE)
		how = run_atomic_write(p, bytes, len);
	else if (p->kind == TP_RDMA_FLUSH)
		how = run_flush(p);
	else
		how = run_atomic(p);
	if (how == BLOCKED)
		tp_resp_rnr(&f.r);
	if (how != RAN)
		return how;
	tp_resp_executed(&f.r, p, consumes);
	if (!p->last)
		return RAN;
	CHECK_EQ(f.executed, number(p));
	CHECK(!m->wrong);
	m->executed = true;
	f.executed++;
	if (consumes)
		receive_done(m, p);
	return RAN;
}

static void run_ready(void)
{
	while (tp_resp_ready(&f.r)) {
		u32 i = f.r.rx.exec % TP_WINDOW;
		struct held *h = &f.held[i];

		if (!f.is_held[i])
			tp_resp_executed(&f.r, NULL, false);
		else if (run(&h->p, h->bytes, h->len) != RAN)
			return;
		f.is_held[i] = false;
	}
}

static void hold(const struct tp_pkt *p, const u8 *bytes, u32 len)
{
	u32 i = p->psn % TP_WINDOW;

	CHECK(!f.is_held[i]);
	f.is_held[i] = true;
	keep(&f.held[i], p, bytes, len, bytes);
	tp_resp_commit(&f.r, p);
}

static void take_request(struct tp_pkt *p, const u8 *bytes, u32 len)
{
	bool blocked = f.r.syndrome == TP_SYN_RNR;

	switch (tp_resp_check(&f.r, p, len)) {
	case TP_TAKE_PLACE:
		if (place_early(p, bytes, len))
			tp_resp_commit(&f.r, p);
		else
			hold(p, bytes, len);
		break;
	case TP_TAKE_HOLD:
		hold(p, bytes, len);
		break;
	case TP_TAKE_TURN:
		switch (run(p, bytes, len)) {
		case BLOCKED:
			hold(p, bytes, len);
			break;
		case FAILED:
			tp_resp_ignore(&f.r, p);
			break;
		default:
			break;
		}
		break;
	case TP_TAKE_DUP:
		return;
	case TP_TAKE_OUTSIDE:
		CHECK_EQ(f.r.syndrome, TP_SYN_NAK);	/* nobody sends beyond the window */
		return;
	default:
		fuzz_fail("a packet of ours is bad");
	}
	f.last_new = f.now;
	if (!blocked)
		run_ready();
}

static void post_receives(u32 n)
{
	f.rq_posted = min_t(u32, f.rq_posted + n, MSGS);
	if (f.r.syndrome == TP_SYN_RNR) {
		tp_resp_unblock(&f.r);
		f.r.rx.ack_wanted = true;
		run_ready();
	}
}

static void pump_b(u32 most)
{
	struct tp_tx *t = &f.r.tx;
	struct tp_burst b;
	struct tp_pkt p;
	struct tp_ack a;
	u32 bad, n = 0;
	u8 ev;

	do {
		while (f.max_rd && tp_tx_burst(t, f.now, most, t->tail, &b)) {
			CHECK(++n < 10000);
			send_burst(B, t, &b, &bad);
		}
	} while (fit_records(t, ++f.no_memory % 8 == 0));
	for (n = 0; f.max_rd && (tp_tx_probe(t, f.now, &p, &ev) ||
				 tp_tx_path_probe(t, f.now, &p, &ev)); n++) {
		CHECK(n < 1000);
		send_probe(B, &p, ev);
	}
	if (tp_resp_take_ack(&f.r, -1, &a))
		send_ack(B, &a);
}

/* --- one packet --- */

static void take_packet(const struct packet *k)
{
	struct tp_rx *rx = k->dst == A ? &f.q.rx : &f.r.rx;
	enum tp_kind kind = tp_wire_kind(k->buf);
	struct tp_pkt p;
	struct tp_ack a;
	u32 len;
	int hdr;

	if (kind == TP_ACK || kind == TP_SACK) {
		CHECK_EQ(tp_wire_decode_ack(&a, k->buf, k->len), 0);
		if (k->dst == A)
			tp_req_ack(&f.q, f.now, &a);
		else
			tp_resp_ack(&f.r, f.now, &a);
		return;
	}
	hdr = tp_wire_decode(&p, k->buf, k->len);
	CHECK(hdr >= 0);
	len = k->len - (u32)hdr - p.pad;
	trace("%c< kind %u psn %u", 'A' + k->dst, p.kind, p.psn);
	tp_rx_seen(rx, k->entropy, k->ce);
	if (kind == TP_PROBE)
		tp_rx_probed(rx, p.probe_id);
	else if (k->dst == A)
		take_response(&p, k->buf + hdr, len, k->tags);
	else
		take_request(&p, k->buf + hdr, len);
}

static void deliver(u32 i, bool twice, bool ce)
{
	static struct packet k;

	k = f.pool[f.order[i]];
	k.ce |= ce;
	if (!twice)
		forget(i);
	take_packet(&k);
}

static void drop(u8 how)
{
	u32 i = in8(&f.in) % f.flying, entropy = f.pool[f.order[i]].entropy;
	u8 dst = f.pool[f.order[i]].dst;

	trace("drop %u", how & 3);
	if (how & 1) {
		forget(i);
		return;
	}
	for (i = f.flying; i--;)	/* a path is dead; or one direction */
		if (how & 2 ? f.pool[f.order[i]].entropy == entropy : f.pool[f.order[i]].dst == dst)
			forget(i);
}

/* --- a case --- */

static u64 deadline_of(u8 who)
{
	return who == A ? tp_req_deadline(&f.q) : f.max_rd ? tp_tx_deadline(&f.r.tx) : ~0ULL;
}

static void fire(u8 who)
{
	u64 d = deadline_of(who);

	if (d == ~0ULL)
		return;
	f.now = max(f.now, d);
	trace("%lu us: timer of %c", (unsigned long)(f.now / 1000), 'A' + who);
	if (who == A) {
		tp_req_timeout(&f.q, f.now);
		pump_a(TP_BURST_MAX);
	} else {
		tp_tx_timeout(&f.r.tx, f.now);
		pump_b(TP_BURST_MAX);
	}
}

static void check_timers(void)
{
	u64 a = deadline_of(A), b = deadline_of(B);

	if (f.q.tx.head != f.q.tx.tail && !f.q.dead)
		CHECK(a <= f.now + 1000 * MS);
	if (f.max_rd && f.r.tx.head != f.r.tx.tail)
		CHECK(b <= f.now + 1000 * MS);
}

static void start(void)
{
	static const u32 psns[] = { 0, 0xfffff0, 0x7ffff0, 0xfffc10 };
	static const u32 numbers[] = { 0, 0xfffe, 0x7ffe, 0xfffffffe };
	static const u32 payloads[] = { 16, 8, 9, PAY_MAX };
	u8 how = in8(&f.in), more = in8(&f.in);
	struct tp_req_attr qa = {
		.dqpn = B, .psn = psns[how & 3], .rsp_psn = psns[how & 3], .retry_cnt = 7,
		.rnr_retry = 7, .max_rd = more & 7,
	};
	struct tp_resp_attr ra = { .psn = qa.psn, .rnr_timer = more >> 3 & 15 };
	u32 i;

	f.payload = payloads[how >> 4 & 3];
	f.msn0 = numbers[how >> 2 & 3];
	f.rd0 = how & 64 ? numbers[how >> 2 & 3] : 0;
	f.timeout_ns = how & 128 ? 1000 * MS : 0;
	qa.max_rd = min_t(u32, qa.max_rd, RD_RING);
	qa.payload = f.payload;
	qa.timeout_ns = f.timeout_ns;
	ra.max_dest_rd = f.max_rd = qa.max_rd;
	f.now = 1000 * MS;
	f.ack_rng = 1;
	for (i = 0; i < FLYING; i++)
		f.order[i] = (u16)i;
	f.flying = 0;
	tp_paths_init(&f.paths[A], 1 + more % 16, 1);
	tp_paths_init(&f.paths[B], 1 + more % 16, 2);
	drop_records(&f.q.tx);
	drop_records(&f.r.tx);
	f.no_memory = 0;
	tp_req_init(&f.q, &qa, f.ops, OPS, &f.paths[A], 3, f.now);
	tp_resp_init(&f.r, &ra);
	if (f.max_rd)
		tp_resp_start_tx(&f.r, A, qa.psn, f.rops, RD_RING, f.payload, &f.paths[B], 5, f.now);
	f.q.tx.next_msn = f.r.msn = f.q.next_rqmsn = f.r.rqmsn = f.msn0;
	f.q.rd_head = f.q.rd_tail = f.r.rd_no = f.rd0;
	f.r.tx.head = f.r.tx.started = f.r.tx.tail = f.r.tx.next_msn = f.rd0;
	f.posted = f.completed = f.executed = f.rq_made = f.rq_posted = f.rq_done = 0;
	f.failed = f.has_wrong = f.refuse = false;
	memset(f.is_held, 0, sizeof(f.is_held));
	memset(f.rsp_is_held, 0, sizeof(f.rsp_is_held));
	memset(f.mem, 0, sizeof(f.mem));
	memset(f.owner, 0, sizeof(f.owner));
	memset(f.ref_owner, 0, sizeof(f.ref_owner));
	memset(f.last_owner, 0, sizeof(f.last_owner));
	memset(f.cell, 0, sizeof(f.cell));
	memset(f.model, 0, sizeof(f.model));
}

static void step(void)
{
	u8 op = in8(&f.in), n = op >> 4;

	switch (op & 15) {
	case 0:
	case 1:
		post();
		break;
	case 2:
	case 3:
		pump_a(1 + n * 2);
		break;
	case 4:
	case 5:
		pump_b(1 + n * 2);
		break;
	case 6:
	case 7:
		if (f.flying)
			deliver(in8(&f.in) % f.flying, n & 1, n == 15);
		break;
	case 8:
	case 9:
		for (n = n * n / 4 + 1; n && f.flying; n--)
			deliver(0, false, false);
		break;
	case 10:
		if (f.flying)
			deliver(f.flying - 1 - in8(&f.in) % min_t(u32, f.flying, 4), n & 1, false);
		break;
	case 11:
		if (f.flying)
			drop(n);
		break;
	case 12:
		post_receives(n);
		break;
	case 13:
		fire(n & 1);
		break;
	case 14:
		f.now += n & 1 ? n * MS : n * 20000ULL;
		break;
	default:
		f.refuse = true;
	}
	check_timers();
}

static bool over(void)
{
	return f.completed == f.posted && (!f.max_rd || f.r.tx.head == f.r.tx.tail || f.q.dead);
}

/* A good network, receives for all. */
static void drain(void)
{
	u32 i;

	f.refuse = false;
	f.last_new = f.now;
	while (!over()) {
		post_receives(MSGS);
		pump_a(TP_BURST_MAX);
		pump_b(TP_BURST_MAX);
		for (i = f.flying; i && f.flying; i--)
			deliver(0, false, false);
		pump_a(TP_BURST_MAX);
		pump_b(TP_BURST_MAX);
		check_timers();
		CHECK(f.now - f.last_new < PATIENCE * 1000 * MS);
		if (!f.flying)
			fire(deadline_of(A) > deadline_of(B));
		else
			f.now += MS / 4;
	}
}

static void check_end(void)
{
	u32 i;

	if (f.failed)
		return;
	CHECK(!f.has_wrong);
	CHECK_EQ(f.rq_done, f.rq_made);
	CHECK(!memcmp(f.cell, f.model, sizeof(f.cell)));
	CHECK(!memcmp(f.owner, f.last_owner, sizeof(f.owner)));		/* C9 */
	for (i = 0; i < f.posted; i++)
		CHECK(f.msg[i].executed && f.msg[i].done);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 i;

	f.in = (struct input) { data, data + size };
	start();
	for (i = 0; i < STEPS && in_more(&f.in); i++)
		step();
	drain();
	check_end();
	return 0;
}
