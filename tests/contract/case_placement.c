// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory placement extensions. ATOMIC_WRITE: a word at once, exactly once, at its turn. FLUSH: when it
 * is complete, who looks at the other end sees all that was sent before. C1, C5, C6, C9.
 */
#include "contract.h"

#include "internal.h"

/* Numbers of the kernel: the headers of some libraries have no names for them. */
enum {
	WC_FLUSH = 8, WC_ATOMIC_WRITE = 9,
	ACC_FLUSH_GLOBAL = 1 << 8, ACC_FLUSH_PERSISTENT = 1 << 9,
	OPS_FLUSH = 1 << 11, OPS_ATOMIC_WRITE = 1 << 12,
};

#define CAP_FLUSH_GLOBAL (1ull << 38)
#define CAP_FLUSH_PERSISTENT (1ull << 39)
#define CAP_ATOMIC_WRITE (1ull << 40)

static uint64_t caps_of(struct dev *d)
{
	struct ibv_device_attr_ex a;

	CHECK(!ibv_query_device_ex(d->ctx, NULL, &a), "query_device_ex of %s", d->name);
	return a.device_cap_flags_ex;
}

/* ---- what is not there is refused ----------------------------------------------------------- */

static void refuse_qp(struct dev *d, uint64_t ops, const char *what)
{
	struct ibv_cq *cq = ct_cq(d, 16, NULL);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->pd,
		.send_ops_flags = ops,
	};

	CHECK(!ibv_create_qp_ex(d->ctx, &a), "a QP with %s, which the device has not", what);
}

static void refuse_mr(struct dev *d, unsigned int access, const char *what)
{
	static uint8_t mem[64];

	CHECK(!ibv_reg_mr(d->pd, mem, sizeof(mem), ACC_ALL | access), "a region with %s", what);
}

CASE(placement_refused, "no FLUSH to persistence; without the capability no ATOMIC_WRITE, no FLUSH, by no way")
{
	struct conn_opt o = conn_defaults();
	int i;

	for (i = 0; i < 2; i++) {
		uint64_t caps = caps_of(&ct_dev[i]);

		ct_doing("%s", ct_dev[i].name);
		/* Memory here survives no loss of power. */
		CHECK(!(caps & CAP_FLUSH_PERSISTENT), "flush to persistence is claimed");
		refuse_mr(&ct_dev[i], ACC_FLUSH_PERSISTENT, "FLUSH_PERSISTENT");
		refuse_mr(&ct_dev[i], ACC_FLUSH_PERSISTENT | ACC_FLUSH_GLOBAL, "both kinds of FLUSH");
		if (!(caps & CAP_ATOMIC_WRITE))
			refuse_qp(&ct_dev[i], OPS_ATOMIC_WRITE, "ATOMIC_WRITE");
		if (caps & CAP_FLUSH_GLOBAL)
			continue;
		refuse_qp(&ct_dev[i], OPS_FLUSH, "FLUSH");
		refuse_mr(&ct_dev[i], ACC_FLUSH_GLOBAL, "FLUSH_GLOBAL");
	}
	if (!(caps_of(&ct_dev[0]) & CAP_ATOMIC_WRITE)) {
		struct conn *c = conn_new(&o);
		struct buf *b[2] = { buf_new(&ct_dev[0], 8, ACC_ALL), buf_new(&ct_dev[1], 8, ACC_ALL) };
		struct ibv_sge s = buf_sge(b[0], 0, 8);
		struct ibv_send_wr wr = wr_make(15 /* IBV_WR_ATOMIC_WRITE */, 1, &s, 1, 0), *bad = NULL;

		wr_remote(&wr, b[1], 0);
		CHECK(ibv_post_send(c->qp[0], &wr, &bad) > 0 && bad == &wr, "ATOMIC_WRITE is taken");
		poison_check(b[1]->p, 8, "its target");
		conn_prove(c);
	}
}

#if defined(SPRAY_HAVE_wr_atomic_write) && defined(SPRAY_HAVE_wr_flush)

/* ---- posting -------------------------------------------------------------------------------- */

static void need(uint64_t caps)
{
	if (~caps_of(&ct_dev[0]) & caps || ~caps_of(&ct_dev[1]) & caps)
		ct_skip("no ATOMIC_WRITE, no FLUSH");
}

static struct conn_opt placement_opt(void)
{
	struct conn_opt o = conn_defaults();

	need(CAP_FLUSH_GLOBAL | CAP_ATOMIC_WRITE);
	o.send_ops = OPS_FLUSH | OPS_ATOMIC_WRITE;
	o.access[0] = o.access[1] = ACC_ALL | ACC_FLUSH_GLOBAL;
	return o;
}

static struct buf *flush_buf(size_t len)
{
	return buf_new(&ct_dev[1], len, ACC_ALL | ACC_FLUSH_GLOBAL);
}

/* End 0 posts; the word is gone when it returns. */
static void post_word(struct conn *c, uint64_t id, unsigned int flags, const struct buf *b, size_t off,
		      uint64_t word)
{
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(c->qp[0]);
	int r;

	ibv_wr_start(qx);
	qx->wr_id = id;
	qx->wr_flags = flags;
	ibv_wr_atomic_write(qx, b->mr->rkey, buf_va(b, off), &word);
	word = ~word;
	r = ibv_wr_complete(qx);
	CHECK(!r, "ATOMIC_WRITE: %s", strerror(r));
}

static void post_flush(struct conn *c, uint64_t id, unsigned int flags, uint32_t rkey, uint64_t va,
		       size_t len, uint8_t type, uint8_t level)
{
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(c->qp[0]);
	int r;

	ibv_wr_start(qx);
	qx->wr_id = id;
	qx->wr_flags = flags;
	ibv_wr_flush(qx, rkey, va, len, type, level);
	r = ibv_wr_complete(qx);
	CHECK(!r, "FLUSH: %s", strerror(r));
}

static void post_write(struct conn *c, uint64_t id, unsigned int flags, struct buf *a, size_t from,
		       struct buf *b, size_t to, size_t len)
{
	struct ibv_sge s = buf_sge(a, from, len);
	struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, id, &s, 1, flags);

	wr_remote(&wr, b, to);
	post_send(c->qp[0], &wr);
}

static uint64_t word_at(const struct buf *b, size_t off)
{
	return __atomic_load_n((uint64_t *)(b->p + off), __ATOMIC_ACQUIRE);
}

/* Both halves alike: a word that is written in parts gives itself away. */
static uint64_t twice(uint32_t v)
{
	return (uint64_t)v << 32 | v;
}

/* ---- ATOMIC_WRITE --------------------------------------------------------------------------- */

CASE(atomic_write, "8 bytes, and no other, by ibv_wr_atomic_write() and by ibv_post_send() with and without inline")
{
	struct conn_opt o = placement_opt();
	struct conn *c;
	struct buf *a = buf_new(&ct_dev[0], 64, ACC_ALL), *b = flush_buf(256);
	int i;

	o.inline_data = 0;	/* that one word is taken all the same */
	c = conn_new(&o);
	for (i = 0; i < ROUNDS(300, 60); i++) {
		size_t at = 8 * rnd(256 / 8);
		uint64_t word = rnd64(), got;
		struct ibv_wc wc;

		ct_doing("round %d, offset %zu", i, at);
		poison(b->p, b->len);
		if (i % 3) {
			struct ibv_sge s[2] = { buf_sge(a, 3, 5), buf_sge(a, 20, 3) };
			struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_WRITE, i, s, 2, IBV_SEND_SIGNALED);

			memcpy(a->p + 3, &word, 5);
			memcpy(a->p + 20, (uint8_t *)&word + 5, 3);
			if (i % 3 == 2)
				wr.send_flags |= IBV_SEND_INLINE;
			wr_remote(&wr, b, at);
			post_send(c->qp[0], &wr);
		} else {
			post_word(c, i, IBV_SEND_SIGNALED, b, at, word);
		}
		wc = cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WC_ATOMIC_WRITE, "opcode of the completion");
		memcpy(&got, b->p + at, 8);
		CHECK_EQ(got, word, "word at its completion");
		poison_check(b->p, at, "before the word");
		poison_check(b->p + at + 8, 256 - at - 8, "behind the word");
		if (i % 3 == 1) {
			memcpy(&got, a->p + 3, 5);
			memcpy((uint8_t *)&got + 5, a->p + 20, 3);
			CHECK_EQ(got, word, "what it was written from");
		}
	}
	buf_guards(b);
	buf_guards(a);
}

struct watch {
	const struct buf *b;
	size_t off;
	bool stop;
	uint64_t looks;
};

/* Values only grow, and are whole. */
static void watch_word(void *arg)
{
	struct watch *w = arg;
	uint32_t last = 0;

	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE) && !ct_stop) {
		uint64_t v = word_at(w->b, w->off);

		CHECK(v == twice((uint32_t)v), "half a word: 0x%llx", (unsigned long long)v);
		CHECK((uint32_t)v >= last, "the word goes back from %u to %u", last, (uint32_t)v);
		last = (uint32_t)v;
		if (!(++w->looks & 1023))
			ct_sleep_ms(1);
	}
}

/*
 * A word set to 2, 4, 6 ...; after each, an atomic adds 1 and tells what it found. Were one written
 * twice, late, or out of its turn, the next atomic would find another number than is due.
 */
static void words_exact(int rd_atomic, int total)
{
	enum { RING = 64 };
	struct conn_opt o = placement_opt();
	struct conn *c;
	struct buf *a = buf_new(&ct_dev[0], 8 * RING, ACC_ALL), *b = flush_buf(64);
	struct watch w = { .b = b, .off = 24 };
	struct ct_thread *t;
	int sent = 0, done = 0;

	o.rd_atomic = o.dest_rd_atomic = rd_atomic;
	o.sq = 2 * RING;
	c = conn_new(&o);
	memset(b->p, 0, b->len);
	t = ct_thread_start(watch_word, &w);
	while (done < total) {
		uint64_t got;

		while (sent < total && sent - done < RING - 4) {
			struct ibv_sge s = buf_sge(a, sent % RING * 8, 8);
			struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, 2 * sent + 1, &s, 1,
							IBV_SEND_SIGNALED);

			post_word(c, 2 * sent, IBV_SEND_SIGNALED, b, 24, twice(2 * sent + 2));
			wr_fadd(&wr, b, 24, twice(1));
			post_send(c->qp[0], &wr);
			sent++;
		}
		ct_doing("word %d of %d, max_rd_atomic %d", done, total, rd_atomic);
		cq_expect(c->scq[0], c->qp[0], 2 * done, IBV_WC_SUCCESS);
		CHECK((uint32_t)word_at(b, 24) >= 2 * (uint32_t)done + 2, "not there at its completion");
		cq_expect(c->scq[0], c->qp[0], 2 * done + 1, IBV_WC_SUCCESS);
		memcpy(&got, a->p + done % RING * 8, 8);
		CHECK_EQ(got, twice(2 * done + 2), "what the atomic behind it found");
		done++;
	}
	ct_sleep_ms(20);
	CHECK_EQ(word_at(b, 24), twice(2 * total + 1), "word at the end");
	__atomic_store_n(&w.stop, true, __ATOMIC_RELEASE);
	ct_thread_join(t);
	CHECK(w.looks, "nobody looked");
	filled_check(b->p, 24, 0, "before the word");
	filled_check(b->p + 32, 32, 0, "behind the word");
	cq_silent(c->scq[0], 0);
}

CASE(atomic_write_exact, "ATOMIC_WRITEs and atomics on one word in a pipeline: each once, in order, never half")
{
	words_exact(conn_defaults().rd_atomic, ROUNDS(2000, 300));
}

CASE(atomic_write_exact_rd1, "the same with max_rd_atomic 1 and with the largest")
{
	words_exact(1, ROUNDS(500, 100));
	words_exact(min_t(int, ct_dev[0].attr.max_qp_init_rd_atom, ct_dev[1].attr.max_qp_rd_atom),
		    ROUNDS(1000, 200));
}

CASE(atomic_write_overlap, "WRITEs and ATOMIC_WRITEs over each other in flight: memory as if run one by one")
{
	enum { SPACE = 12 * KIB, N = 48 };
	struct conn_opt o = placement_opt();
	struct conn *c = conn_new(&o);
	size_t max = 6 * KIB;
	struct buf *a = buf_new(&ct_dev[0], N * max, ACC_ALL), *b = flush_buf(SPACE);
	uint8_t *model = ct_alloc(SPACE);
	int round, i;

	for (round = 0; round < ROUNDS(80, 15); round++) {
		size_t range = rnd(3) ? SPACE : 64 + 8 * rnd(200);

		poison(b->p, SPACE);
		poison(model, SPACE);
		for (i = 0; i < N; i++) {
			unsigned int flags = i == N - 1 ? IBV_SEND_SIGNALED : 0;
			size_t len = 1 + rnd(rnd(2) ? 64 : max), at;
			uint64_t word = rnd64();

			len = min_t(size_t, len, range);
			at = rnd(range - len + 1);
			if (rnd(2)) {
				at = 8 * rnd(range / 8);
				post_word(c, i, flags, b, at, word);
				memcpy(model + at, &word, 8);
				continue;
			}
			pat_fill(a->p + i * max, len, word, 0);
			post_write(c, i, flags, a, i * max, b, at, len);
			memcpy(model + at, a->p + i * max, len);
		}
		ct_doing("round %d, within %zu bytes", round, range);
		cq_expect(c->scq[0], c->qp[0], N - 1, IBV_WC_SUCCESS);
		for (i = 0; i < SPACE; i++)
			if (b->p[i] != model[i])
				ct_fail("byte %d: expected 0x%02x, saw 0x%02x", i, model[i], b->p[i]);
	}
	buf_guards(b);
}

/* ---- FLUSH ---------------------------------------------------------------------------------- */

enum { F_SLOTS = 8, F_SLOT = 24 * KIB, F_WRITES = 5 };

/* Slots that were flushed go to a reader, who must find all of them there at once. */
struct shelf {
	struct buf *b;
	uint64_t pat[F_SLOTS];
	size_t len[F_SLOTS];
	int ready, seen, total;
};

static void shelf_check(struct shelf *s, int k, const char *what)
{
	pat_check(s->b->p + k * F_SLOT, s->len[k], s->pat[k], 0, what);
	poison_check(s->b->p + k * F_SLOT + s->len[k], F_SLOT - s->len[k], "behind the data");
}

static void shelf_reader(void *arg)
{
	struct shelf *s = arg;
	struct ct_wait w;

	ct_wait_start(&w);
	while (s->seen < s->total && !ct_stop) {
		if (__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) == s->seen) {
			CHECK(ct_wait_step(&w), "nothing is flushed any more");
			continue;
		}
		shelf_check(s, s->seen % F_SLOTS, "data after their FLUSH, to a reader over there");
		__atomic_store_n(&s->seen, s->seen + 1, __ATOMIC_RELEASE);
		ct_wait_start(&w);
	}
}

/* Several WRITEs into slot @k, in parts. */
static void shelf_fill(struct conn *c, struct shelf *s, struct buf *a, int k)
{
	size_t len = 1 + rnd(rnd(3) ? 5000 : F_SLOT - 64), off = 0;
	int i, n = 1 + rnd(F_WRITES);

	s->len[k] = len;
	s->pat[k] = rnd64();
	pat_fill(a->p + k * F_SLOT, len, s->pat[k], 0);
	poison(s->b->p + k * F_SLOT, F_SLOT);
	for (i = 0; i < n; i++) {
		size_t part = i == n - 1 ? len - off : rnd(len - off + 1);

		post_write(c, 0, 0, a, k * F_SLOT + off, s->b, k * F_SLOT + off, part);
		off += part;
	}
}

CASE(flush_visible, "WRITEs, then a FLUSH of range or region: a reader over there sees all when it is complete")
{
	struct conn_opt o = placement_opt();
	struct conn *c;
	struct buf *a = buf_new(&ct_dev[0], F_SLOTS * F_SLOT, ACC_ALL);
	struct shelf s = { .b = flush_buf(F_SLOTS * F_SLOT), .total = ROUNDS(600, 100) };
	struct ct_thread *t;
	int posted = 0, done = 0;

	o.sq = F_SLOTS * (F_WRITES + 1);
	c = conn_new(&o);
	t = ct_thread_start(shelf_reader, &s);
	while (done < s.total) {
		struct ibv_wc wc;

		while (posted < s.total && posted - __atomic_load_n(&s.seen, __ATOMIC_ACQUIRE) < F_SLOTS) {
			int k = posted % F_SLOTS;
			bool mr = rnd(2);

			shelf_fill(c, &s, a, k);
			/* Of a region the range does not count: nor does a wrong one. */
			post_flush(c, posted, IBV_SEND_SIGNALED, s.b->mr->rkey,
				   mr ? rnd64() : buf_va(s.b, k * F_SLOT), mr ? rnd(1 << 20) : s.len[k],
				   IBV_FLUSH_GLOBAL, mr ? IBV_FLUSH_MR : IBV_FLUSH_RANGE);
			posted++;
		}
		ct_doing("FLUSH %d of %d", done, s.total);
		if (posted == done) {		/* the reader is behind */
			ct_sleep_ms(1);
			continue;
		}
		wc = cq_expect(c->scq[0], c->qp[0], done, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WC_FLUSH, "opcode of the completion");
		done++;
		__atomic_store_n(&s.ready, done, __ATOMIC_RELEASE);
	}
	ct_thread_join(t);
	cq_silent(c->scq[0], 0);
	buf_guards(s.b);
}

/* A log as it is kept in remote memory: record, FLUSH, then the word that says how far it goes. */
struct journal {
	struct shelf s;
	struct buf *tail;
};

static void journal_reader(void *arg)
{
	struct journal *j = arg;
	struct ct_wait w;

	ct_wait_start(&w);
	while (j->s.seen < j->s.total && !ct_stop) {
		uint64_t v = word_at(j->tail, 8);
		int tail = (uint32_t)v, seen = j->s.seen;

		CHECK(v == twice(tail), "half a word: 0x%llx", (unsigned long long)v);
		CHECK(tail >= seen && tail <= j->s.total, "tail %d, seen %d", tail, seen);
		if (tail == seen) {
			CHECK(ct_wait_step(&w), "the tail does not move from %d", tail);
			continue;
		}
		for (; seen < tail; seen++)
			shelf_check(&j->s, seen % F_SLOTS, "record below the tail");
		__atomic_store_n(&j->s.seen, seen, __ATOMIC_RELEASE);
		ct_wait_start(&w);
	}
}

CASE(flush_log, "WRITE record, FLUSH, ATOMIC_WRITE tail in a pipeline: what is below the tail is there")
{
	struct conn_opt o = placement_opt();
	struct conn *c;
	struct buf *a = buf_new(&ct_dev[0], F_SLOTS * F_SLOT, ACC_ALL);
	struct journal j = {
		.s = { .b = flush_buf(F_SLOTS * F_SLOT), .total = ROUNDS(600, 100) },
		.tail = flush_buf(64),
	};
	struct ct_thread *t;
	int posted = 0, done = 0;
	struct ct_wait w;

	o.sq = F_SLOTS * (F_WRITES + 2) * 2;
	c = conn_new(&o);
	memset(j.tail->p, 0, 64);
	t = ct_thread_start(journal_reader, &j);
	ct_wait_start(&w);
	while (done < j.s.total) {
		struct ibv_wc wc;

		if (posted < j.s.total && posted - done < F_SLOTS &&
		    posted - __atomic_load_n(&j.s.seen, __ATOMIC_ACQUIRE) < F_SLOTS) {
			int k = posted % F_SLOTS;

			shelf_fill(c, &j.s, a, k);
			post_flush(c, 0, 0, j.s.b->mr->rkey, buf_va(j.s.b, k * F_SLOT), j.s.len[k],
				   IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
			posted++;
			post_word(c, posted, IBV_SEND_SIGNALED, j.tail, 8, twice(posted));
			ct_wait_start(&w);
		}
		while (cq_poll(c->scq[0], &wc)) {
			done++;
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)done,
			      "completion: expected %d, saw %llu with \"%s\"", done,
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			ct_wait_start(&w);
		}
		CHECK(ct_wait_step(&w), "stuck at %d of %d, %d posted", done, j.s.total, posted);
	}
	ct_thread_join(t);
	buf_guards(j.s.b);
	buf_guards(j.tail);
}

/* ---- order, depth --------------------------------------------------------------------------- */

CASE(placement_fence, "READs, then a fenced ATOMIC_WRITE onto what they read, FLUSH, fenced SEND")
{
	struct conn_opt o = placement_opt();
	struct conn *c = conn_new(&o);
	size_t part = 16 * KIB;
	struct buf *l = buf_new(&ct_dev[0], 4 * part, ACC_ALL), *b = flush_buf(4 * part);
	int round, i;

	for (round = 0; round < ROUNDS(100, 20); round++) {
		struct ibv_send_wr wr;
		uint64_t old = rnd64();
		uint64_t word = rnd64();
		struct ibv_sge s;
		size_t at = 8 * rnd(b->len / 8);

		ct_doing("round %d", round);
		pat_fill(b->p, b->len, old, 0);
		poison(l->p, l->len);
		for (i = 0; i < 4; i++) {
			s = buf_sge(l, i * part, part);
			wr = wr_make(IBV_WR_RDMA_READ, i, &s, 1, IBV_SEND_SIGNALED);
			wr_remote(&wr, b, i * part);
			post_send(c->qp[0], &wr);
		}
		post_word(c, 4, IBV_SEND_SIGNALED | IBV_SEND_FENCE, b, at, word);
		post_flush(c, 5, IBV_SEND_SIGNALED, b->mr->rkey, buf_va(b, 0), b->len, IBV_FLUSH_GLOBAL,
			   IBV_FLUSH_RANGE);
		post_recv(c->qp[1], 7, NULL, 0);
		wr = wr_make(IBV_WR_SEND, 6, NULL, 0, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		post_send(c->qp[0], &wr);
		cq_expect(c->rcq[1], c->qp[1], 7, IBV_WC_SUCCESS);
		/* The SEND left when the READs had come back: their memory is theirs no more. */
		pat_check(l->p, l->len, old, 0, "READs before the fenced ATOMIC_WRITE");
		CHECK_EQ(word_at(b, at), word, "the ATOMIC_WRITE");
		for (i = 0; i < 7; i++)
			cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
}

static void depth(int rd_atomic, int total)
{
	struct conn_opt o = placement_opt();
	struct buf *l = buf_new(&ct_dev[0], 64, ACC_ALL), *b = flush_buf(4096);
	int sent = 0, done = 0;
	struct conn *c;

	o.rd_atomic = o.dest_rd_atomic = rd_atomic;
	c = conn_new(&o);
	ct_doing("max_rd_atomic %d", rd_atomic);
	while (done < total) {
		while (sent < total && sent - done < 60) {
			struct ibv_sge s = buf_sge(l, 0, 8);
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_READ, sent, &s, 1, IBV_SEND_SIGNALED);

			switch (rnd(3)) {
			case 0:
				post_word(c, sent, IBV_SEND_SIGNALED, b, 8 * rnd(512), rnd64());
				break;
			case 1:
				post_flush(c, sent, IBV_SEND_SIGNALED, b->mr->rkey, buf_va(b, rnd(4096)), 0,
					   IBV_FLUSH_GLOBAL, rnd(2));
				break;
			default:
				wr_remote(&wr, b, 8 * rnd(512));
				post_send(c->qp[0], &wr);
			}
			sent++;
		}
		cq_expect(c->scq[0], c->qp[0], done++, IBV_WC_SUCCESS);
	}
	conn_prove(c);
}

CASE(placement_depth, "more ATOMIC_WRITEs, FLUSHes and READs than may be open: they wait; where none may be, an error")
{
	struct conn_opt o = placement_opt();
	struct buf *b = flush_buf(64);
	int i;

	depth(1, ROUNDS(300, 60));
	depth(2, ROUNDS(300, 60));
	depth(min_t(int, ct_dev[0].attr.max_qp_init_rd_atom, ct_dev[1].attr.max_qp_rd_atom),
	      ROUNDS(1000, 200));
	for (i = 0; i < 4; i++) {
		/* The requester may have none open, or the responder keeps none. */
		struct conn *c;

		o.rd_atomic = i & 1 ? 0 : 4;
		o.dest_rd_atomic = i & 1 ? 4 : 0;
		ct_doing("max_rd_atomic %u, max_dest_rd_atomic %u", o.rd_atomic, o.dest_rd_atomic);
		c = conn_new(&o);
		poison(b->p, 64);
		if (i & 2)
			post_word(c, 1, IBV_SEND_SIGNALED, b, 0, 1);
		else
			post_flush(c, 1, IBV_SEND_SIGNALED, b->mr->rkey, buf_va(b, 0), 64, IBV_FLUSH_GLOBAL,
				   IBV_FLUSH_RANGE);
		cq_expect(c->scq[0], c->qp[0], 1,
			  i & 1 ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
		poison_check(b->p, 64, "memory of an ATOMIC_WRITE that was refused");
	}
}

/* ---- C6 ------------------------------------------------------------------------------------- */

enum trouble {
	T_ALIGN, T_RKEY, T_BEYOND, T_RIGHT, T_QP, T_SHORT, T_LONG, T_LKEY,	/* ATOMIC_WRITE */
	F_RKEY, F_DEREG, F_BEYOND, F_BEFORE, F_RIGHT, F_QP, F_PERSISTENT, F_BOTH, F_MR_RKEY, F_MR_RIGHT,
	F_HUGE, F_OTHER_PD,
};

struct trouble_of {
	enum trouble what;
	const char *name;
	enum ibv_wc_status status;
	bool remote;		/* the peer finds it, and ends, too */
};

static void trouble_post(struct conn *c, enum trouble what, struct buf *a, struct buf *b, uint64_t id)
{
	struct ibv_sge s = buf_sge(a, 0, what == T_SHORT ? 4 : what == T_LONG ? 16 : 8);
	struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_WRITE, id, &s, 1, 0);
	uint64_t va = buf_va(b, 0);
	size_t len = b->len;
	uint8_t type = IBV_FLUSH_GLOBAL, level = IBV_FLUSH_RANGE;
	uint32_t rkey = b->mr ? b->mr->rkey : 0;

	if (what <= T_LKEY) {
		wr_remote(&wr, b, what == T_ALIGN ? 1 + rnd(7) : what == T_BEYOND ? b->len : 8);
		if (what == T_RKEY)
			wr.wr.rdma.rkey ^= 1 + rnd(255);
		if (what == T_LKEY)
			s.lkey ^= 1 + rnd(255);
		post_send(c->qp[0], &wr);
		return;
	}
	switch (what) {
	case F_RKEY:
	case F_MR_RKEY:
		rkey ^= 1 + rnd(255);
		break;
	case F_DEREG:
		buf_dereg(b);
		break;
	case F_BEYOND:
		va++;
		break;
	case F_BEFORE:
		va--;
		break;
	case F_PERSISTENT:
		type = IBV_FLUSH_PERSISTENT;
		break;
	case F_BOTH:
		type |= IBV_FLUSH_PERSISTENT;
		break;
	case F_HUGE:
		len = (2ul << 30) + 1;
		break;
	default:
		break;
	}
	if (what == F_MR_RKEY || what == F_MR_RIGHT)
		level = IBV_FLUSH_MR;
	post_flush(c, id, 0, rkey, va, len, type, level);
}

/* WRITEs before it succeed, it fails, WRITEs behind it are flushed and leave no tail. */
static void trouble_once(const struct trouble_of *t)
{
	enum { N = 6, LEN = 3000 };
	struct conn_opt o = placement_opt();
	bool flush = t->what >= F_RKEY;
	unsigned int access = ACC_ALL | ACC_FLUSH_GLOBAL;
	struct buf *a, *b, *d;
	int mark = ct_mark(), i;
	uint64_t pat = rnd64();
	struct conn *c;

	ct_doing("%s: %s", flush ? "FLUSH" : "ATOMIC_WRITE", t->name);
	if (t->what == T_QP)
		o.access[1] &= ~IBV_ACCESS_REMOTE_WRITE;
	if (t->what == F_QP)
		o.access[1] &= ~ACC_FLUSH_GLOBAL;
	if (t->what == T_RIGHT)
		access &= ~IBV_ACCESS_REMOTE_WRITE;
	if (t->what == F_RIGHT || t->what == F_MR_RIGHT)
		access &= ~ACC_FLUSH_GLOBAL;
	c = conn_new(&o);
	a = buf_new(&ct_dev[0], 2 * N * LEN, ACC_ALL);
	b = buf_new(&ct_dev[1], 64, access);
	d = flush_buf(2 * N * LEN);
	if (t->what == F_OTHER_PD) {
		buf_dereg(b);
		b->mr = ibv_reg_mr(ct_pd(&ct_dev[1]), b->p, b->len, access);
		CHECK(b->mr, "reg_mr: %s", strerror(errno));
	}
	pat_fill(a->p, a->len, pat, 0);
	for (i = 0; i < N; i++) {
		if (t->what == T_QP) {	/* what the QP does not allow comes first */
			post_flush(c, i, IBV_SEND_SIGNALED, d->mr->rkey, 0, 0, IBV_FLUSH_GLOBAL,
				   IBV_FLUSH_MR);
			continue;
		}
		post_write(c, i, IBV_SEND_SIGNALED, a, i * LEN, d, i * LEN, LEN);
	}
	trouble_post(c, t->what, a, b, N);
	for (i = N + 1; i < 2 * N; i++)
		post_write(c, i, 0, a, i * LEN, d, i * LEN, LEN);
	for (i = 0; i < N; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	if (t->what != T_QP)
		pat_check(d->p, N * LEN, pat, 0, "WRITEs before it");
	cq_expect(c->scq[0], c->qp[0], N, t->status);
	for (i = N + 1; i < 2 * N; i++)
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_ERR, "state of the requester");
	CHECK_EQ(qp_state(c->qp[1]), t->remote ? IBV_QPS_ERR : IBV_QPS_RTS, "state of the responder");
	for (i = N + 1; i < 2 * N; i++)
		poison_check(d->p + (i + 1) * LEN - 8, 8, "tail of a flushed WRITE");
	poison_check(b->p, b->len, "its target");
	buf_guards(b);
	c->o.access[1] = ACC_ALL | ACC_FLUSH_GLOBAL;
	conn_restart(c);
	conn_prove(c);
	if (t->what == F_OTHER_PD)
		buf_dereg(b);
	events_drain(&ct_dev[1]);
	ct_release(mark);
}

CASE(placement_errors, "bad address, key, range, right or type: its error at its place, nothing written")
{
	static const struct trouble_of t[] = {
		{ T_ALIGN, "not aligned", IBV_WC_REM_INV_REQ_ERR, true },
		{ T_RKEY, "key", IBV_WC_REM_ACCESS_ERR, true },
		{ T_BEYOND, "behind the region", IBV_WC_REM_ACCESS_ERR, true },
		{ T_RIGHT, "region without REMOTE_WRITE", IBV_WC_REM_ACCESS_ERR, true },
		{ T_QP, "QP without REMOTE_WRITE", IBV_WC_REM_ACCESS_ERR, true },
		{ T_SHORT, "4 bytes", IBV_WC_LOC_LEN_ERR, false },
		{ T_LONG, "16 bytes", IBV_WC_LOC_LEN_ERR, false },
		{ T_LKEY, "local key", IBV_WC_LOC_PROT_ERR, false },
		{ F_RKEY, "key", IBV_WC_REM_ACCESS_ERR, true },
		{ F_DEREG, "region that is gone", IBV_WC_REM_ACCESS_ERR, true },
		{ F_BEYOND, "a byte too far", IBV_WC_REM_ACCESS_ERR, true },
		{ F_BEFORE, "a byte too early", IBV_WC_REM_ACCESS_ERR, true },
		{ F_RIGHT, "region without FLUSH_GLOBAL", IBV_WC_REM_ACCESS_ERR, true },
		{ F_QP, "QP without FLUSH_GLOBAL", IBV_WC_REM_ACCESS_ERR, true },
		{ F_PERSISTENT, "to persistence", IBV_WC_REM_ACCESS_ERR, true },
		{ F_BOTH, "to persistence, too", IBV_WC_REM_ACCESS_ERR, true },
		{ F_MR_RKEY, "key, whole region", IBV_WC_REM_ACCESS_ERR, true },
		{ F_MR_RIGHT, "region without FLUSH_GLOBAL, whole", IBV_WC_REM_ACCESS_ERR, true },
		{ F_HUGE, "more than a message", IBV_WC_LOC_LEN_ERR, false },
		{ F_OTHER_PD, "region of another PD", IBV_WC_REM_ACCESS_ERR, true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t); i++)
		trouble_once(&t[i]);
}

/* ---- memory windows ------------------------------------------------------------------------- */

static void window_free(void *mw)
{
	int r = ibv_dealloc_mw(mw);

	if (r)
		ct_fail("dealloc_mw: %s", strerror(r));
}

/* End 1 opens [64, 128) of @b. Return: the key. */
static uint32_t window_open(struct conn *c, struct buf *b, struct ibv_mw *mw, unsigned int access,
			    enum ibv_wc_status want)
{
	struct ibv_send_wr wr = {
		.wr_id = 50,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = { .mr = b->mr, .addr = buf_va(b, 64), .length = 64,
				       .mw_access_flags = access },
		},
	};

	post_send(c->qp[1], &wr);
	cq_expect(c->scq[1], c->qp[1], 50, want);
	return wr.bind_mw.rkey;
}

CASE(placement_window, "ATOMIC_WRITE and FLUSH through a memory window, which opens no more than its region")
{
	struct conn_opt o = placement_opt();
	struct conn *c = conn_new(&o);
	struct buf *b = buf_new(&ct_dev[1], 256, ACC_ALL | IBV_ACCESS_MW_BIND | ACC_FLUSH_GLOBAL);
	struct buf *no = buf_new(&ct_dev[1], 256, ACC_ALL | IBV_ACCESS_MW_BIND);
	struct buf view = *b;
	struct ibv_mr as_mr = *b->mr;
	struct ibv_mw *mw;
	int i;

	if (!(ct_dev[1].attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B))
		ct_skip("no memory windows");
	view.mr = &as_mr;
	for (i = 0; i < 4; i++) {
		mw = ibv_alloc_mw(ct_dev[1].pd, IBV_MW_TYPE_2);
		CHECK(mw, "alloc_mw: %s", strerror(errno));
		ct_track(window_free, mw);
		if (i == 3) {
			window_open(c, no, mw, IBV_ACCESS_REMOTE_WRITE | ACC_FLUSH_GLOBAL,
				    IBV_WC_MW_BIND_ERR);
			break;
		}
		as_mr.rkey = window_open(c, b, mw, IBV_ACCESS_REMOTE_WRITE | (i ? 0 : ACC_FLUSH_GLOBAL),
					 IBV_WC_SUCCESS);
		ct_doing("window %d", i);
		poison(b->p, 256);
		if (i == 2) {
			post_word(c, 1, IBV_SEND_SIGNALED, &view, 128, 5);
			cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_REM_ACCESS_ERR);
			poison_check(b->p, 256, "memory outside of the window");
			conn_restart(c);
			continue;
		}
		post_word(c, 1, IBV_SEND_SIGNALED, &view, 120, twice(7));
		cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
		CHECK_EQ(word_at(b, 120), twice(7), "word through the window");
		post_flush(c, 2, IBV_SEND_SIGNALED, as_mr.rkey, buf_va(b, 64), 64, IBV_FLUSH_GLOBAL,
			   i ? IBV_FLUSH_MR : IBV_FLUSH_RANGE);
		cq_expect(c->scq[0], c->qp[0], 2, i ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		if (i)
			conn_restart(c);
	}
	events_drain(&ct_dev[1]);
}

#endif
