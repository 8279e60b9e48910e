// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every WRITE goes to a slot of its own at the responder, every READ and atomic to a slot of its
 * own at the requester, every receive has its own buffer. At a completion the slot is checked and
 * poisoned; before it is used again it must still be poison: nothing writes after the completion.
 *
 * At a receive completion (C3) every WRITE posted before that message and not yet completed must
 * be there as well.
 */
#include "stream.h"

#define GAP 32 /* poison behind each slot */

struct op {
	enum st_op type;
	size_t len, read_from;
	uint64_t pat, expect;
	uint32_t imm;
	int slot; /* of the requester's pool, of the responder's pool: same number */
	bool signalled, remote_checked;
};

struct stream {
	struct conn *c;
	int from, to;
	struct stream_cfg cfg;
	struct buf *src, *local, *remote, *recv, *still, *word;
	size_t slot;	      /* bytes of a slot with its gap */
	int slots;	      /* twice the depth */
	int rbufs;	      /* more than are posted: the others rest and must stay poison */
	struct op *op;
	int *rx;	      /* op numbers of those that take a receive, in order */
	int n, posted, done, done_signalled, unsignalled;
	int rx_posted, rx_done, rx_buffers; /* messages posted, received; receives posted */
	int *rbuf_of;	      /* receive number -> buffer, ring of rbufs */
	int *rest;	      /* FIFO of resting buffers */
	int rest_head, rest_n;
	uint64_t still_pat, counter;
	struct ct_wait wait;
};

static bool takes_recv(enum st_op t)
{
	return t == ST_SEND || t == ST_SEND_IMM || t == ST_WRITE_IMM;
}

static bool is_write(enum st_op t)
{
	return t == ST_WRITE || t == ST_WRITE_IMM;
}

static enum ibv_wr_opcode opcode(enum st_op t)
{
	static const enum ibv_wr_opcode o[ST_OPS] = {
		[ST_SEND] = IBV_WR_SEND,
		[ST_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[ST_WRITE] = IBV_WR_RDMA_WRITE,
		[ST_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[ST_READ] = IBV_WR_RDMA_READ,
		[ST_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[ST_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
	};

	return o[t];
}

static size_t random_len(size_t max)
{
	size_t mtu = mtu_bytes(ct_dev[0].mtu), n;

	switch (rnd(10)) {
	case 0:
		n = rnd(9);
		break;
	case 1:
	case 2:
		n = rnd(200);
		break;
	case 3:
	case 4:
	case 5:
		n = rnd(3000);
		break;
	case 6:
		n = mtu * (1 + rnd(4)) + rnd(3) - 1;
		break;
	case 7:
	case 8:
		n = rnd(8 * mtu);
		break;
	default:
		n = rnd(max + 1);
		break;
	}
	return min_t(size_t, n, max);
}

struct stream *stream_new(struct conn *c, int from, const struct stream_cfg *cfg)
{
	struct stream *s = ct_alloc(sizeof(*s));
	struct dev *near, *far;
	int i;

	s->c = c;
	s->from = from;
	s->to = !from;
	s->cfg = *cfg;
	s->n = ROUNDS(cfg->ops, cfg->quick_ops);
	s->op = ct_alloc(s->n * sizeof(*s->op));
	s->rx = ct_alloc(s->n * sizeof(*s->rx));
	s->slot = (cfg->max + GAP + 7) / 8 * 8;
	s->slots = 2 * cfg->depth;
	s->rbufs = cfg->recvs + 4;
	near = c->o.dev[from];
	far = c->o.dev[!from];
	s->src = buf_new_skew(near, s->slots * s->slot, ACC_LOCAL, rnd(8));
	s->local = buf_new_skew(near, s->slots * s->slot, ACC_LOCAL, rnd(8));
	s->remote = buf_new_skew(far, s->slots * s->slot, ACC_ALL, rnd(8));
	s->recv = buf_new_skew(far, s->rbufs * s->slot, ACC_LOCAL, rnd(8));
	s->still = buf_new_skew(far, 2 * cfg->max + 16, ACC_ALL, rnd(8));
	s->word = buf_new(far, 64, ACC_ALL);
	s->still_pat = rnd64();
	pat_fill(s->still->p, s->still->len, s->still_pat, 0);
	s->counter = rnd64();
	memcpy(s->word->p + 8, &s->counter, 8);
	s->rbuf_of = ct_alloc(s->rbufs * sizeof(int));
	s->rest = ct_alloc(s->rbufs * sizeof(int));
	for (i = 0; i < s->rbufs; i++)
		s->rest[s->rest_n++] = i;
	ct_wait_start(&s->wait);
	return s;
}

/* Posts the receive buffer that rested longest; it must be as it was left. */
static void post_receive(struct stream *s)
{
	int k = s->rest[s->rest_head], n = 0, pieces = 1 + rnd(s->c->o.recv_sge);
	uint8_t *p = s->recv->p + k * s->slot;
	size_t off = 0, max = s->cfg.max;
	struct ibv_sge sge[8];

	s->rest_head = (s->rest_head + 1) % s->rbufs;
	s->rest_n--;
	poison_check(p, s->slot, "receive buffer after its completion");
	pieces = min_t(int, pieces, (int)ARRAY_SIZE(sge));
	while (n < pieces) {
		size_t len = n == pieces - 1 ? max - off : rnd((max - off) / 2);

		if (len || n == pieces - 1)
			sge[n++] = buf_sge(s->recv, k * s->slot + off, len);
		else
			pieces--;
		off += len;
	}
	s->rbuf_of[s->rx_buffers % s->rbufs] = k;
	post_recv(s->c->qp[s->to], 0x100000 + s->rx_buffers, sge, n);
	s->rx_buffers++;
}

static enum st_op pick(const struct stream_cfg *cfg)
{
	int sum = 0, i, k;

	for (i = 0; i < ST_OPS; i++)
		sum += cfg->mix[i];
	k = rnd(sum);
	for (i = 0; (k -= cfg->mix[i]) >= 0; i++)
		;
	return i;
}

static void post_op(struct stream *s)
{
	int i = s->posted, n = 0, k;
	struct op *op = &s->op[i];
	struct ibv_sge sge[8];
	struct ibv_send_wr wr;
	uint32_t max_inline = s->c->cap[s->from].max_inline_data;
	size_t at;

	op->type = pick(&s->cfg);
	op->slot = i % s->slots;
	op->len = random_len(s->cfg.max);
	op->pat = rnd64();
	op->imm = rnd64();
	at = op->slot * s->slot;
	/* One of every half queue is signalled, so that the queue never fills with silent ones. */
	op->signalled = i == s->n - 1 || s->unsignalled + 1 >= (s->cfg.depth + 1) / 2 || rnd(4);
	s->unsignalled = op->signalled ? 0 : s->unsignalled + 1;
	wr = wr_make(opcode(op->type), i, sge, 0, op->signalled ? IBV_SEND_SIGNALED : 0);
	wr.imm_data = op->imm;
	if (rnd(20) == 0)
		wr.send_flags |= IBV_SEND_FENCE;
	poison_check(s->remote->p + at, s->slot, "slot of the responder since its last WRITE");
	poison_check(s->local->p + at, s->slot, "slot of the requester since its last READ");
	switch (op->type) {
	case ST_SEND:
	case ST_SEND_IMM:
	case ST_WRITE:
	case ST_WRITE_IMM: {
		int pieces = 1 + rnd(s->c->o.send_sge);
		size_t off = 0;

		pat_fill(s->src->p + at, op->len, op->pat, 0);
		pieces = min_t(int, pieces, (int)ARRAY_SIZE(sge));
		for (k = 0; k < pieces && off < op->len; k++) {
			size_t left = op->len - off;
			size_t len = k == pieces - 1 ? left : 1 + rnd(left);

			sge[n++] = buf_sge(s->src, at + off, len);
			off += len;
		}
		if (is_write(op->type))
			wr_remote(&wr, s->remote, at);
		if (op->len <= max_inline && rnd(2))
			wr.send_flags |= IBV_SEND_INLINE;
		break;
	}
	case ST_READ:
		op->read_from = rnd(s->still->len - op->len + 1);
		if (op->len)
			sge[n++] = buf_sge(s->local, at, op->len);
		wr_remote(&wr, s->still, op->read_from);
		break;
	case ST_FADD:
		op->expect = s->counter;
		op->pat = rnd64();
		s->counter += op->pat;
		op->len = 8;
		sge[n++] = buf_sge(s->local, at, 8);
		wr_fadd(&wr, s->word, 8, op->pat);
		break;
	case ST_CAS:
		op->expect = s->counter;
		op->len = 8;
		sge[n++] = buf_sge(s->local, at, 8);
		if (rnd(3)) {
			wr_cas(&wr, s->word, 8, s->counter, op->pat);
			s->counter = op->pat;
		} else {
			wr_cas(&wr, s->word, 8, s->counter ^ 1, op->pat);
		}
		break;
	default:
		ct_fail("no such op");
	}
	wr.num_sge = n;
	if (takes_recv(op->type))
		s->rx[s->rx_posted++] = i;
	post_send(s->c->qp[s->from], &wr);
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(s->src->p + at, 0x5c, op->len);
	s->posted++;
}

static void check_write(struct stream *s, struct op *op, const char *what)
{
	uint8_t *p = s->remote->p + op->slot * s->slot;

	pat_check(p, op->len, op->pat, 0, what);
	poison_check(p + op->len, s->slot - op->len, "behind the WRITE");
}

/* The op is complete at the requester. */
static void finish(struct stream *s, int i)
{
	struct op *op = &s->op[i];
	size_t at = op->slot * s->slot;
	uint64_t got;

	ct_doing("op %d of %d from end %d: %s, %zu bytes", i, s->n, s->from,
		 op_name(opcode(op->type)), op->len);
	switch (op->type) {
	case ST_WRITE:
	case ST_WRITE_IMM:
		check_write(s, op, "WRITE at its completion");
		poison(s->remote->p + at, op->len);
		break;
	case ST_READ:
		pat_check(s->local->p + at, op->len, s->still_pat, op->read_from,
			  "READ at its completion");
		poison(s->local->p + at, op->len);
		break;
	case ST_FADD:
	case ST_CAS:
		memcpy(&got, s->local->p + at, 8);
		CHECK_EQ(got, op->expect, "result of the atomic");
		poison(s->local->p + at, 8);
		break;
	default:
		break;
	}
	poison(s->src->p + at, op->len);
}

static void on_send_wc(struct stream *s, const struct ibv_wc *wc)
{
	int i = s->done;

	while (i < s->posted && !s->op[i].signalled)
		i++;
	ct_doing("completion of op %d of %d from end %d", i, s->n, s->from);
	CHECK(i < s->posted, "a completion that nothing asked for: wr_id %llu",
	      (unsigned long long)wc->wr_id);
	CHECK(wc->status == IBV_WC_SUCCESS, "%s of %zu bytes: \"%s\"",
	      op_name(opcode(s->op[i].type)), s->op[i].len, ibv_wc_status_str(wc->status));
	CHECK_EQ(wc->wr_id, i, "wr_id of the next send completion");
	CHECK_EQ(wc->qp_num, s->c->qp[s->from]->qp_num, "qp_num");
	wc_send_fields(wc, opcode(s->op[i].type), s->op[i].len);
	while (s->done <= i)
		finish(s, s->done++);
}

static void on_recv_wc(struct stream *s, const struct ibv_wc *wc)
{
	struct op *op;
	int k, i, j;

	CHECK(wc->status == IBV_WC_SUCCESS, "receive: \"%s\"", ibv_wc_status_str(wc->status));
	CHECK(s->rx_done < s->rx_posted, "a receive completes that no message was sent for");
	i = s->rx[s->rx_done];
	op = &s->op[i];
	ct_doing("receive %d of end %d: op %d, %s, %zu bytes", s->rx_done, s->to, i,
		 op_name(opcode(op->type)), op->len);
	CHECK_EQ(wc->wr_id, 0x100000 + s->rx_done, "wr_id of the next receive completion");
	CHECK_EQ(wc->qp_num, s->c->qp[s->to]->qp_num, "qp_num");
	wc_recv_fields(wc, opcode(op->type), op->len, op->imm);
	k = s->rbuf_of[s->rx_done % s->rbufs];
	if (is_write(op->type)) {
		poison_check(s->recv->p + k * s->slot, s->slot, "receive buffer of an immediate");
		if (i >= s->done)
			check_write(s, op, "WRITE_IMM at its receive completion");
	} else {
		pat_check(s->recv->p + k * s->slot, op->len, op->pat, 0, "SEND at its receive");
		poison_check(s->recv->p + k * s->slot + op->len, s->slot - op->len,
			     "behind the received message");
	}
	for (j = s->done; j < i; j++) {
		if (!is_write(s->op[j].type) || s->op[j].remote_checked)
			continue;
		check_write(s, &s->op[j], "earlier WRITE, at a receive completion");
		s->op[j].remote_checked = true;
	}
	/* Back to rest. */
	poison(s->recv->p + k * s->slot, op->len);
	s->rest[(s->rest_head + s->rest_n) % s->rbufs] = k;
	s->rest_n++;
	s->rx_done++;
}

bool stream_step(struct stream *s)
{
	struct ibv_wc wc;
	bool moved = false;
	int burst;

	while (s->rx_buffers - s->rx_done < s->cfg.recvs)
		post_receive(s);
	for (burst = 1 + rnd(s->cfg.depth); burst && s->posted < s->n &&
	     s->posted - s->done < s->cfg.depth; burst--) {
		if (s->cfg.credits && s->rx_posted - s->rx_done >= s->cfg.recvs)
			break;
		post_op(s);
		moved = true;
	}
	while (cq_poll(s->c->rcq[s->to], &wc)) {
		on_recv_wc(s, &wc);
		moved = true;
	}
	while (cq_poll(s->c->scq[s->from], &wc)) {
		on_send_wc(s, &wc);
		moved = true;
	}
	if (moved)
		ct_wait_start(&s->wait);
	else
		CHECK(ct_wait_step(&s->wait), "no progress for %u s: posted %d, done %d, messages "
		      "%d, received %d", ct_deadline_s, s->posted, s->done, s->rx_posted,
		      s->rx_done);
	return s->done == s->n && s->rx_done == s->rx_posted;
}

static void stream_end(struct stream *s)
{
	uint64_t now;

	ct_doing("end of the stream from end %d", s->from);
	cq_silent(s->c->scq[s->from], 20);
	cq_silent(s->c->rcq[s->to], 0);
	memcpy(&now, s->word->p + 8, 8);
	CHECK_EQ(now, s->counter, "word of the atomics");
	poison_check(s->word->p, 8, "before the word");
	poison_check(s->word->p + 16, s->word->len - 16, "after the word");
	poison_check(s->remote->p, s->remote->len, "slots of the responder at the end");
	poison_check(s->local->p, s->local->len, "slots of the requester at the end");
	poison_check(s->recv->p, s->recv->len, "receive buffers at the end");
	pat_check(s->still->p, s->still->len, s->still_pat, 0, "source of the READs");
	buf_guards(s->remote);
	buf_guards(s->local);
	buf_guards(s->recv);
	buf_guards(s->still);
	buf_guards(s->word);
	/* Use up the receives that are left, so that whoever comes next starts clean. */
	while (s->rx_done < s->rx_buffers) {
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, 1, NULL, 0, IBV_SEND_SIGNALED);

		post_send(s->c->qp[s->from], &wr);
		cq_expect(s->c->rcq[s->to], s->c->qp[s->to], 0x100000 + s->rx_done++,
			  IBV_WC_SUCCESS);
		cq_expect(s->c->scq[s->from], s->c->qp[s->from], 1, IBV_WC_SUCCESS);
	}
}

void stream_run(struct stream **s, int n)
{
	int left = n, i;
	bool ended[8] = { false };

	while (left) {
		for (i = 0; i < n; i++) {
			if (ended[i] || !stream_step(s[i]))
				continue;
			ended[i] = true;
			left--;
		}
	}
	for (i = 0; i < n; i++)
		stream_end(s[i]);
}
