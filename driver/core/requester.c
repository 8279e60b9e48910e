// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The requester half of a QP.
 *
 *   head        executed      started   prepared      tail
 *    |..done, but..|..in flight...|..may...|..wait for...|
 *    | not reported|              |  start | their turn  |
 *
 * A message is prepared when nothing forbids its start any more: an earlier
 * local fault, its fence, the depth of READs. Then, once, it gets its receive
 * number and the decision of C9: a WRITE that overlaps one not yet executed is
 * "ordered" (the peer holds it until all earlier messages are complete). To all
 * of these ATOMIC_WRITE and FLUSH are READs; ATOMIC_WRITE is a WRITE, too.
 * Preparation runs just ahead of the burst, so that little is ordered needlessly.
 * Local work (a key made valid or invalid) is done when preparation reaches it.
 *
 * Completion follows the queue strictly: the head is reported when the peer
 * executed it and, if it is answered, its response is here. An error is a
 * property of a message (op->error): whether found here or NAKed by the peer,
 * it waits until its message is the head, and everything behind it flushes.
 *
 * Waiting for the peer is never an error while it answers; only silence, or
 * packets that never arrive, use up retry_cnt. RNR has its own count.
 */
#include "requester.h"
#include "responder.h"	/* TP_TAKE_* */

_Static_assert(sizeof(struct tp_req) <= 1200, "one per QP, see responder.c");

/**
 * tp_rnr_timer_ns() - IBTA table 46
 * @code: 0..31
 * Return: ns
 */
u64 tp_rnr_timer_ns(u8 code)
{
	/* units of 10 us */
	static const u16 timer[32] = {
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	code &= 31;
	return code ? timer[code] * 10000ULL : 655360000ULL;
}

/**
 * tp_req_init() - a requester whose queue is empty
 * @q: filled
 * @at: QP attributes
 * @ops: ring of messages
 * @nops: its size, a power of two
 * @paths: of the destination
 * @seed: of the path choice
 * @now: ns
 */
void tp_req_init(struct tp_req *q, const struct tp_req_attr *at, struct tp_op *ops, u32 nops,
		 struct tp_paths *paths, u32 seed, u64 now)
{
	memset(q, 0, sizeof(*q));
	tp_tx_init(&q->tx, TP_REQUEST, at->dqpn, ops, nops, at->psn, at->payload, paths, seed, now);
	tp_rx_init(&q->rx, at->rsp_psn);
	tp_req_modify(q, at);
}

/**
 * tp_req_modify() - change of live attributes
 * @q: requester
 * @at: timeout, retry_cnt, rnr_retry and max_rd are used
 */
void tp_req_modify(struct tp_req *q, const struct tp_req_attr *at)
{
	q->max_rd = min_t(u32, at->max_rd, TP_RD_MAX);
	q->retry_cnt = at->retry_cnt;
	q->rnr_retry = at->rnr_retry;
	q->rnr_left = at->rnr_retry;
	q->timeout_ns = at->timeout_ns;
}

static bool tp_op_is_read(const struct tp_op *op)
{
	return tp_kind_answered(op->kind);
}

static bool tp_op_takes_receive(const struct tp_op *op)
{
	return op->kind == TP_SEND || (op->kind == TP_WRITE && op->has_imm);
}

static bool tp_op_writes(const struct tp_op *op)
{
	return (op->kind == TP_WRITE || op->kind == TP_ATOMIC_WRITE) && op->length;
}

/**
 * tp_req_post() - add a message
 * @q: requester
 * @now: ns
 */
void tp_req_post(struct tp_req *q, u64 now)
{
	struct tp_op *op = tp_tx_op(&q->tx, q->tx.tail);
	bool travels = op->kind == TP_SEND || tp_op_writes(op);

	op->wire_len = travels ? op->length : 0;
	op->ordered = false;
	op->rd_done = false;
	op->first_psn = 0;
	op->npkts = 0;
	if (q->tx.head == q->tx.tail)
		tp_tx_wake(&q->tx, now);
	q->tx.tail++;
}

/* --- starting messages --- */

/* Ranges on a ring of 2^64 bytes; neither is empty. */
static bool tp_ranges_overlap(u64 a, u32 alen, u64 b, u32 blen)
{
	return a - b < blen || b - a < alen;
}

static u64 tp_op_last_byte(const struct tp_op *op)
{
	u64 end = op->raddr + op->length - 1;

	return end < op->raddr ? ~0ULL : end;	/* wraps; the peer will refuse it */
}

/* C9: does WRITE @i touch bytes of an earlier one that may still be on its way? */
static bool tp_req_overlaps(const struct tp_req *q, u32 i)
{
	const struct tp_op *op = tp_tx_op(&q->tx, i);
	u32 j;

	if (!q->wr_open || op->raddr > q->wr_hi || tp_op_last_byte(op) < q->wr_lo)
		return false;
	for (j = i; j != q->executed; j--) {
		const struct tp_op *w = tp_tx_op(&q->tx, j - 1);

		if (i - j >= TP_OVERLAP_SCAN)
			return true;
		if (tp_op_writes(w) &&
		    tp_ranges_overlap(op->raddr, op->length, w->raddr, w->length))
			return true;
	}
	return false;
}

static void tp_req_order_write(struct tp_req *q, u32 i)
{
	struct tp_op *op = tp_tx_op(&q->tx, i);
	u64 end = tp_op_last_byte(op);

	op->ordered = tp_req_overlaps(q, i);
	q->wr_lo = q->wr_open ? min(q->wr_lo, op->raddr) : op->raddr;
	q->wr_hi = q->wr_open ? max(q->wr_hi, end) : end;
	q->wr_open++;
}

static bool tp_req_fenced(const struct tp_req *q, const struct tp_op *op)
{
	return op->fence && q->rd_head != q->rd_tail;
}

/* Fence and depth of READs and ATOMICs. */
static bool tp_req_may_start(struct tp_req *q, struct tp_op *op)
{
	if (op->error || op->undone)
		return false;
	if (tp_req_fenced(q, op))
		return false;
	if (!tp_op_is_read(op))
		return true;
	if (!q->max_rd)
		op->error = TP_LOC_QP_OP;
	return q->rd_tail - q->rd_head < q->max_rd;
}

/* Decide all about the next message, if it may start. */
static bool tp_req_prepare_one(struct tp_req *q)
{
	struct tp_op *op = tp_tx_op(&q->tx, q->prepared);

	if (q->prepared == q->tx.tail || !tp_req_may_start(q, op))
		return false;
	op->rqmsn = tp_op_is_read(op) ? q->rd_head : q->next_rqmsn;
	if (tp_op_takes_receive(op))
		q->next_rqmsn++;
	if (tp_op_is_read(op))
		q->rd_slot[q->rd_tail++ % TP_RD_MAX] = q->prepared;
	if (tp_op_writes(op))
		tp_req_order_write(q, q->prepared);
	q->prepared++;
	return true;
}

/* Have @want messages with packets ready to start. */
static void tp_req_prepare(struct tp_req *q, u32 want)
{
	u32 i;

	for (i = q->tx.started; want; i++) {
		if (i == q->prepared && !tp_req_prepare_one(q))
			return;
		if (tp_tx_op(&q->tx, i)->kind != TP_NONE)
			want--;
	}
}

/**
 * tp_req_local_turn() - is it a local work's turn?
 * @q: requester
 * @op: ring index of it
 * Return: false if there is none.
 */
bool tp_req_local_turn(const struct tp_req *q, u32 *op)
{
	const struct tp_op *o = tp_tx_op(&q->tx, q->prepared);

	if (q->dead || q->tx.halted || q->prepared == q->tx.tail || !o->undone || o->error)
		return false;
	if (o->after_all && q->prepared != q->tx.head)
		return false;
	if (tp_req_fenced(q, o))
		return false;
	*op = q->prepared;
	return true;
}

/**
 * tp_req_local_done() - a local work was done
 * @q: requester
 * @op: ring index, as tp_req_local_turn() said
 */
void tp_req_local_done(struct tp_req *q, u32 op)
{
	tp_tx_op(&q->tx, op)->undone = false;
}

/**
 * tp_req_burst() - begin a burst
 * @q: requester
 * @now: ns
 * @max_pkts: caller's limit
 * @b: filled
 * Return: false if nothing can be sent now.
 */
bool tp_req_burst(struct tp_req *q, u64 now, u32 max_pkts, struct tp_burst *b)
{
	if (q->dead)
		return false;
	q->tx.hold_new = q->rnr_wait;
	if (!q->rnr_wait && !q->tx.halted)
		tp_req_prepare(q, 1);
	if (!tp_tx_burst(&q->tx, now, max_pkts, q->prepared, b))
		return false;
	if (!b->rtx) {
		/* one more than the burst may hold: so the last packet knows whether more follows */
		tp_req_prepare(q, b->end - b->psn + 1);
		b->may_start = q->prepared;
	}
	return true;
}

/**
 * tp_req_probe() - tail, persist, RNR or path probe
 * @q: requester
 * @now: ns
 * @p: filled
 * @ev: path to send it on
 * Return: false if none is due.
 */
bool tp_req_probe(struct tp_req *q, u64 now, struct tp_pkt *p, u8 *ev)
{
	if (q->dead)
		return false;
	if (!tp_tx_probe(&q->tx, now, p, ev))
		return tp_tx_path_probe(&q->tx, now, p, ev);
	if (q->rnr_wait && now < q->rnr_until_ns)	/* for lost packets: not the end of the wait */
		q->rnr_probe_id = (q->tx.probe_id + 1) & TP_PROBE_ID;
	return true;
}

/**
 * tp_req_local_error() - a local fault in a message
 * @q: requester
 * @op: ring index of the message
 * @st: what it will complete with
 */
void tp_req_local_error(struct tp_req *q, u32 op, enum tp_status st)
{
	struct tp_tx *t = &q->tx;
	u32 i = t->head + ((op - t->head) & t->op_mask);	/* masked or not */
	struct tp_op *o = tp_tx_op(t, i);

	if (tp_diff(i, t->tail) >= 0)
		return;
	if (!o->error)
		o->error = st;
	if (tp_before(i, t->started))
		tp_tx_halt(t, o->first_psn);
	else if (tp_before(i, q->prepared))
		q->prepared = i;
}

/* --- acknowledgements --- */

/* Messages that were executed leave the ranges of C9 and are counted. */
static void tp_req_retire_ranges(struct tp_req *q)
{
	for (; q->executed != q->tx.started; q->executed++) {
		const struct tp_op *op = tp_tx_op(&q->tx, q->executed);

		if (!tp_tx_op_executed(&q->tx, op))
			return;
		if (tp_op_writes(op))
			q->wr_open--;
		if (op->kind != TP_NONE)
			q->exec_msn++;
	}
}

/* The message that holds the packet at the executed point fails; nothing more is sent. */
static void tp_req_fail_at_exec(struct tp_req *q, enum tp_status st)
{
	struct tp_op *op = tp_tx_op(&q->tx, tp_tx_find(&q->tx, q->tx.exec));

	if (!op->error)
		op->error = st;
	tp_tx_halt(&q->tx, op->first_psn);
	q->rnr_wait = false;
	q->tx.quiet_until_ns = 0;
}

static enum tp_status tp_nak_status(u8 value)
{
	switch (value) {
	case TP_NAK_INV_REQ:
		return TP_REM_INV_REQ;
	case TP_NAK_REM_ACCESS:
		return TP_REM_ACCESS;
	default:
		return TP_REM_OP;
	}
}

/* Is this ack an answer to a probe sent after the last RNR NAK that counted? */
static bool tp_req_rnr_answer(const struct tp_req *q, const struct tp_ack *a)
{
	return a->probe && ((a->probe_id - q->rnr_probe_id) & TP_PROBE_ID) <= TP_PROBE_ID / 2;
}

/* Not ready: wait, then probe. Each wait uses up one rnr_retry. */
static void tp_req_rnr(struct tp_req *q, u64 now, const struct tp_ack *a)
{
	if (q->rnr_wait && !tp_req_rnr_answer(q, a))
		return;		/* the same blockade, reported again */
	if (!q->rnr_left) {
		tp_req_fail_at_exec(q, TP_RNR_EXC);
		return;
	}
	if (q->rnr_retry < 7)
		q->rnr_left--;
	q->rnr_wait = true;
	q->rnr_probe_id = (q->tx.probe_id + 1) & TP_PROBE_ID;
	q->rnr_until_ns = now + tp_rnr_timer_ns(a->value);
	q->tx.quiet_until_ns = q->rnr_until_ns;
	q->tx.probe_wanted = false;
	q->tx.probe_backoff = 0;
	q->tx.vain = 0;
	q->tx.probe_at_ns = q->rnr_until_ns;
}

static void tp_req_unblock(struct tp_req *q, u64 now)
{
	q->rnr_wait = false;
	q->tx.quiet_until_ns = 0;
	tp_tx_wake(&q->tx, now);
}

/* Is the response of an executed READ or ATOMIC not here yet? */
static bool tp_req_response_open(const struct tp_req *q)
{
	u32 op = q->rd_slot[q->rd_head % TP_RD_MAX];

	return q->rd_head != q->rd_tail && tp_before(op, q->tx.started) &&
	       tp_tx_op_executed(&q->tx, tp_tx_op(&q->tx, op));
}

/* What the peer says about the packet at its executed point, which is ours too. */
static void tp_req_syndrome(struct tp_req *q, u64 now, const struct tp_ack *a)
{
	bool flying = q->tx.exec != q->tx.nxt;

	switch (a->syndrome) {
	case TP_SYN_ACK:
		if (q->rnr_wait && tp_req_rnr_answer(q, a))
			tp_req_unblock(q, now);
		break;
	case TP_SYN_RNR:
		/* Halted by a local fault further on, what is before it still waits and counts. */
		if (flying && (!q->tx.halted || tp_before(q->tx.exec, q->tx.halt_psn)))
			tp_req_rnr(q, now, a);
		break;
	case TP_SYN_NAK:
		if (a->value == TP_NAK_PSN_SEQ)
			break;
		/*
		 * A NAK comes when no response is owed any more. If one is
		 * open here all the same, it will not come: the memory of a
		 * READ went away before it was sent, or the peer gave up.
		 */
		if (tp_req_response_open(q))
			tp_req_local_error(q, q->rd_slot[q->rd_head % TP_RD_MAX], TP_REM_OP);
		else if (flying)
			tp_req_fail_at_exec(q, tp_nak_status(a->value));
		break;
	}
}

/**
 * tp_req_ack() - an Acknowledge or SACK of the request space
 * @q: requester
 * @now: ns
 * @a: PSNs as on the wire
 * Return: true if there may be completions to take or packets to send.
 */
bool tp_req_ack(struct tp_req *q, u64 now, const struct tp_ack *a)
{
	u32 before = q->tx.exec;
	bool news;

	if (q->dead || !tp_tx_ack_valid(&q->tx, a))
		return false;
	news = tp_tx_ack(&q->tx, now, a);
	if (q->tx.exec != before) {
		tp_req_retire_ranges(q);
		q->rnr_left = q->rnr_retry;
		if (q->rnr_wait)
			tp_req_unblock(q, now);
	}
	if (tp_extend24(a->exec_psn, q->tx.una) == q->tx.exec)
		tp_req_syndrome(q, now, a);
	return news || a->syndrome != TP_SYN_ACK || a->probe;
}

/* --- responses --- */

/* Bytes of READ data that answer a message. */
static u32 tp_op_back(const struct tp_op *op)
{
	return op->kind == TP_READ ? op->length : 0;
}

/* Does the packet name an open READ or ATOMIC, and lie inside it? */
static bool tp_req_response_fits(const struct tp_req *q, const struct tp_pkt *p, u32 len, u32 *op)
{
	u32 nr = tp_extend16(p->rqmsn, q->rd_head), back;
	const struct tp_op *o;

	if (p->space != TP_RESPONSE || nr - q->rd_head >= q->rd_tail - q->rd_head)
		return false;
	*op = q->rd_slot[nr % TP_RD_MAX];
	if (!tp_before(*op, q->tx.started))
		return false;
	o = tp_tx_op(&q->tx, *op);
	if (p->kind == TP_ATOMIC_DATA)
		return tp_kind_atomic(o->kind) && len == 8 && p->first && p->last;
	back = tp_op_back(o);
	if (p->kind != TP_READ_DATA || tp_kind_atomic(o->kind) || p->dma_len != back)
		return false;
	if (p->va > back || len > back - p->va || p->first != !p->va)
		return false;
	return p->last == (p->va + len == back) && (len || !back);
}

/**
 * tp_req_response_still() - is a held packet still for the message it was held for?
 * @q: requester
 * @p: as tp_req_response() left it
 * @len: bytes of payload
 * @op: what tp_req_response() said
 * A peer may complete a READ by another packet and have its slot used anew
 * before the held one's turn comes. Return: false: do not place it.
 */
bool tp_req_response_still(const struct tp_req *q, const struct tp_pkt *p, u32 len, u32 op)
{
	u32 now;

	return tp_req_response_fits(q, p, len, &now) && now == op;
}

/**
 * tp_req_response() - classify a packet of the response space
 * @q: requester
 * @p: psn is extended on return
 * @len: bytes of payload
 * @op: ring index of its READ or ATOMIC
 * Return: TP_TAKE_* of responder.h.
 */
int tp_req_response(struct tp_req *q, struct tp_pkt *p, u32 len, u32 *op)
{
	enum tp_verdict v = tp_rx_check(&q->rx, p->psn, &p->psn);

	if (q->dead)
		return TP_TAKE_BAD;
	if (v == TP_OUTSIDE)
		return TP_TAKE_OUTSIDE;
	q->rx.ack_wanted = true;
	if (v == TP_DUP) {
		q->rx.dup = true;
		return TP_TAKE_DUP;
	}
	if (!tp_req_response_fits(q, p, len, op))
		return TP_TAKE_BAD;
	if (!p->last)
		return TP_TAKE_PLACE;
	return p->psn == q->rx.exec ? TP_TAKE_TURN : TP_TAKE_HOLD;
}

/**
 * tp_req_response_commit() - its bytes are placed or held
 * @q: requester
 * @p: the packet, as tp_req_response() left it
 */
void tp_req_response_commit(struct tp_req *q, const struct tp_pkt *p)
{
	tp_rx_commit(&q->rx, p->psn);
}

/**
 * tp_req_response_executed() - the packet at the executed point of the response space has run
 * @q: requester
 */
void tp_req_response_executed(struct tp_req *q)
{
	if (!tp_rx_ready(&q->rx))	/* TP_TAKE_TURN: straight from the wire, not committed */
		tp_rx_commit(&q->rx, q->rx.exec);
	tp_rx_executed(&q->rx);
}

/**
 * tp_req_take_ack() - the answer due to the response space
 * @q: requester
 * @a: filled
 * Return: false if none is due.
 */
bool tp_req_take_ack(struct tp_req *q, struct tp_ack *a)
{
	if (!tp_rx_take_ack(&q->rx, TP_RESPONSE, a))
		return false;
	a->dqpn = q->tx.dqpn;
	a->syndrome = TP_SYN_ACK;
	a->value = 31;
	a->exec_msn = q->rd_head;
	return true;
}

/**
 * tp_req_rd_done() - all of a READ or ATOMIC is here
 * @q: requester
 * @op: ring index of the message
 */
void tp_req_rd_done(struct tp_req *q, u32 op)
{
	tp_tx_op(&q->tx, op)->rd_done = true;
	while (q->rd_head != q->rd_tail &&
	       tp_tx_op(&q->tx, q->rd_slot[q->rd_head % TP_RD_MAX])->rd_done)
		q->rd_head++;
}

/* --- completions --- */

/* Has the message at the head run its course? */
static bool tp_req_head_done(const struct tp_req *q)
{
	const struct tp_op *op = tp_tx_op(&q->tx, q->tx.head);

	if (q->tx.head == q->tx.started)
		return op->kind == TP_NONE && !op->undone;
	return tp_tx_op_executed(&q->tx, op) && (!tp_op_is_read(op) || op->rd_done);
}

static void tp_req_retire_head(struct tp_req *q)
{
	u32 next = ++q->tx.head;

	if (tp_before(q->tx.started, next))
		q->tx.started = next;
	if (tp_before(q->prepared, next))
		q->prepared = next;
	if (tp_before(q->executed, next))
		q->executed = next;
}

/* What the head completes with, if it does. */
static bool tp_req_head_status(struct tp_req *q, enum tp_status *st)
{
	u8 error = tp_tx_op(&q->tx, q->tx.head)->error;

	*st = TP_FLUSH;
	if (q->flush_all)
		return true;
	*st = TP_OK;
	if (!error && tp_req_head_done(q))
		return true;
	if (!error)
		error = q->dead;
	*st = error;
	q->dead = error;
	q->flush_all = error;
	return error;
}

/**
 * tp_req_next_done() - next completion, in SQ order
 * @q: requester
 * @op: ring index of the message
 * @st: outcome
 * Return: false if none is complete.
 */
bool tp_req_next_done(struct tp_req *q, u32 *op, enum tp_status *st)
{
	if (q->tx.head == q->tx.tail || !tp_req_head_status(q, st))
		return false;
	*op = q->tx.head;
	tp_req_retire_head(q);
	return true;
}

/**
 * tp_req_flush() - the QP goes to ERR for a reason that is not ours
 * @q: requester
 */
void tp_req_flush(struct tp_req *q)
{
	if (!q->dead)
		q->dead = TP_FLUSH;
	q->flush_all = true;
}

/* --- time --- */

/* When silence becomes an error, ns; ~0 = not yet, or never. */
static u64 tp_req_retry_end(const struct tp_req *q)
{
	u64 base = q->tx.last_progress_ns, one;

	/* A clock that jumped is no proof of silence: two probes must have been given their time. */
	if (!q->timeout_ns || q->tx.vain < TP_VAIN)
		return ~0ULL;
	if (q->rnr_wait)
		base = max(base, q->rnr_until_ns);
	one = max_t(u64, q->timeout_ns, 4000ULL * tp_tx_rto_us(&q->tx));
	one = max_t(u64, one, 1000ULL * tp_tx_loss_known_us(&q->tx));	/* else nothing was tried again */
	return base + (q->retry_cnt + 1) * one;
}

/**
 * tp_req_deadline() - time of the next thing to do
 * @q: requester
 * Return: ns; ~0 if the queue is empty or dead.
 */
u64 tp_req_deadline(const struct tp_req *q)
{
	if (q->dead || q->tx.head == q->tx.tail)
		return ~0ULL;
	return min_t(u64, tp_tx_deadline(&q->tx), tp_req_retry_end(q));
}

/**
 * tp_req_timeout() - the deadline passed
 * @q: requester
 * @now: ns
 * Take completions and send afterwards.
 */
void tp_req_timeout(struct tp_req *q, u64 now)
{
	if (q->dead || q->tx.head == q->tx.tail)
		return;
	tp_tx_timeout(&q->tx, now);
	if (now >= tp_req_retry_end(q))
		q->dead = TP_RETRY_EXC;
}
