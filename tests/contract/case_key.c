// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys that change while connections live: memory windows, remote invalidation, rereg_mr. */
#define _GNU_SOURCE
#include "contract.h"

#include <unistd.h>

#include "internal.h"

#define ACC_BIND (ACC_ALL | IBV_ACCESS_MW_BIND)
enum { LEN = 12 * KIB, WIN = 3 * KIB, AT = 1000 };	/* the window: [AT, AT + WIN) of the buffer */

/* End 1 has a buffer and a window on it; end 0 has the data and is told the key. */
struct rig {
	struct conn *c;
	struct buf *a, *b, *msg[2];
	struct ibv_mw *mw;
};

static void mw_free(void *mw)
{
	int r = ibv_dealloc_mw(mw);

	if (r)
		ct_fail("dealloc_mw: %s", strerror(r));
}

static void rig_up(struct rig *r, enum ibv_mw_type type)
{
	struct conn_opt o = conn_defaults();
	int i;

	if (!(ct_dev[1].attr.device_cap_flags &
	      (type == IBV_MW_TYPE_1 ? IBV_DEVICE_MEM_WINDOW : IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		ct_skip("no such memory windows");
	r->c = conn_new(&o);
	r->a = buf_new(&ct_dev[0], LEN, ACC_ALL);
	r->b = buf_new(&ct_dev[1], LEN, ACC_BIND);
	for (i = 0; i < 2; i++)
		r->msg[i] = buf_new(&ct_dev[i], 64, ACC_LOCAL);
	r->mw = ibv_alloc_mw(ct_dev[1].pd, type);
	CHECK(r->mw, "alloc_mw: %s", strerror(errno));
	ct_track(mw_free, r->mw);
}

static struct ibv_send_wr wr_bind(struct rig *r, uint64_t id, uint32_t key, size_t len,
				  unsigned int access)
{
	return (struct ibv_send_wr) {
		.wr_id = id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = r->mw,
			.rkey = key,
			.bind_info = {
				.mr = r->b->mr,
				.addr = buf_va(r->b, AT),
				.length = len,
				.mw_access_flags = access,
			},
		},
	};
}

static struct ibv_send_wr wr_local_inv(uint64_t id, uint32_t key)
{
	return (struct ibv_send_wr) { .wr_id = id, .opcode = IBV_WR_LOCAL_INV,
				      .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key };
}

/* End 0 reaches for [off, off + len) of end 1's buffer by @key. */
static void reach(struct rig *r, enum ibv_wr_opcode op, uint32_t key, size_t off, size_t len,
		  enum ibv_wc_status want)
{
	struct ibv_sge s = buf_sge(r->a, 0, len);
	struct ibv_send_wr wr = wr_make(op, 77, &s, 1, IBV_SEND_SIGNALED);
	uint64_t seed = rnd64();

	ct_doing("%s of %zu bytes at %zu, to give %s", op_name(op), len, off,
		 ibv_wc_status_str(want));
	poison(r->b->p, LEN);
	if (op == IBV_WR_RDMA_READ)
		pat_fill(r->b->p, LEN, seed, 0);
	else
		pat_fill(r->a->p, len, seed, 0);
	wr_remote(&wr, r->b, off);
	wr.wr.rdma.rkey = key;
	post_send(r->c->qp[0], &wr);
	cq_expect(r->c->scq[0], r->c->qp[0], 77, want);
	if (op == IBV_WR_RDMA_READ && want == IBV_WC_SUCCESS) {
		pat_check(r->a->p, len, seed, off, "READ by the key");
	} else if (want == IBV_WC_SUCCESS) {
		pat_check(r->b->p + off, len, seed, 0, "WRITE by the key");
		poison_check(r->b->p, off, "before it");
		poison_check(r->b->p + off + len, LEN - off - len, "behind it");
	} else if (op != IBV_WR_RDMA_READ) {
		/* Of a message that runs out of the window, packets inside it by themselves may have landed. */
		bool overrun = off < AT + WIN && off + len > AT + WIN && len > 256;
		size_t open = overrun ? AT + WIN : off;

		poison_check(r->b->p, off, "memory in front");
		poison_check(r->b->p + open, LEN - open, "memory that the key does not open");
	}
	if (want != IBV_WC_SUCCESS)
		conn_restart(r->c);
}

static void bound(struct rig *r, uint32_t key, size_t len, unsigned int access)
{
	struct ibv_send_wr wr = wr_bind(r, 5, key, len, access);

	post_send(r->c->qp[1], &wr);
	cq_expect(r->c->scq[1], r->c->qp[1], 5, IBV_WC_SUCCESS);
}

static const unsigned int rw = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

CASE(window_type_2, "a window of type 2: what it opens, to whom, and its end")
{
	struct conn_opt o = conn_defaults();
	struct conn *other;
	struct ibv_send_wr wr;
	struct rig r;
	uint32_t key;
	struct conn *own;

	rig_up(&r, IBV_MW_TYPE_2);
	key = ibv_inc_rkey(r.mw->rkey);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);	/* not bound */
	bound(&r, key, WIN, rw);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_READ, key, AT, WIN, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT + WIN - 1, 1, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT + WIN, 1, IBV_WC_REM_ACCESS_ERR);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT - 1, 1, IBV_WC_REM_ACCESS_ERR);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT + 1, WIN, IBV_WC_REM_ACCESS_ERR);
	reach(&r, IBV_WR_RDMA_READ, key + 1, AT, 8, IBV_WC_REM_ACCESS_ERR);

	ct_doing("dereg_mr under a bound window");
	CHECK(ibv_dereg_mr(r.b->mr), "dereg_mr of a region with a bound window");

	ct_doing("another QP of the same PD");
	other = conn_new(&o);
	own = r.c;
	r.c = other;
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);
	r.c = own;

	ct_doing("bind once more");
	wr = wr_bind(&r, 6, ibv_inc_rkey(key), WIN, rw);
	post_send(r.c->qp[1], &wr);
	cq_expect(r.c->scq[1], r.c->qp[1], 6, IBV_WC_MW_BIND_ERR);
	conn_restart(r.c);

	ct_doing("LOCAL_INV");
	wr = wr_local_inv(8, key);
	post_send(r.c->qp[1], &wr);
	cq_expect(r.c->scq[1], r.c->qp[1], 8, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);
	ct_doing("LOCAL_INV of what is invalid");
	wr = wr_local_inv(9, key);
	post_send(r.c->qp[1], &wr);
	cq_expect(r.c->scq[1], r.c->qp[1], 9, IBV_WC_MW_BIND_ERR);
	conn_restart(r.c);

	ct_doing("for reading only");
	key = ibv_inc_rkey(key);
	bound(&r, key, WIN, IBV_ACCESS_REMOTE_READ);
	reach(&r, IBV_WR_RDMA_READ, key, AT, WIN, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);
	conn_prove(r.c);
}

CASE(window_type_1, "a window of type 1: bound anew without an end between, unbound by length 0")
{
	struct ibv_mw_bind bind;
	struct rig r;
	uint32_t old;
	int i;

	rig_up(&r, IBV_MW_TYPE_1);
	for (i = 0; i < ROUNDS(20, 5); i++) {
		size_t at = rnd(LEN - WIN);

		old = r.mw->rkey;
		bind = (struct ibv_mw_bind) {
			.wr_id = 40 + i,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = r.b->mr, .addr = buf_va(r.b, at), .length = WIN,
				       .mw_access_flags = rw },
		};
		CHECK(!ibv_bind_mw(r.c->qp[1], r.mw, &bind), "bind_mw");
		cq_expect(r.c->scq[1], r.c->qp[1], 40 + i, IBV_WC_SUCCESS);
		CHECK(r.mw->rkey != old, "the key stays 0x%x", old);
		reach(&r, IBV_WR_RDMA_WRITE, r.mw->rkey, at, WIN, IBV_WC_SUCCESS);
		reach(&r, IBV_WR_RDMA_WRITE, old, at, 8, IBV_WC_REM_ACCESS_ERR);
	}
	ct_doing("unbind");
	bind.bind_info.length = 0;
	CHECK(!ibv_bind_mw(r.c->qp[1], r.mw, &bind), "bind_mw of no bytes");
	cq_expect(r.c->scq[1], r.c->qp[1], bind.wr_id, IBV_WC_SUCCESS);
	reach(&r, IBV_WR_RDMA_WRITE, r.mw->rkey, AT, 8, IBV_WC_REM_ACCESS_ERR);
	conn_prove(r.c);
}

CASE(window_refused, "binds that may not be: no MW_BIND, no local write, out of range, another PD")
{
	struct rig r;
	uint32_t key;
	int i;

	rig_up(&r, IBV_MW_TYPE_2);
	key = ibv_inc_rkey(r.mw->rkey);
	for (i = 0; i < 5; i++) {
		struct ibv_send_wr wr = wr_bind(&r, i, key, WIN, rw);
		struct buf *plain = buf_new(&ct_dev[1], LEN, ACC_ALL);
		struct buf *reader = buf_new(&ct_dev[1], LEN,
					     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);

		ct_doing("kind %d", i);
		switch (i) {
		case 0:
			wr.bind_mw.bind_info.mr = plain->mr;
			wr.bind_mw.bind_info.addr = buf_va(plain, 0);
			break;
		case 1:
			wr.bind_mw.bind_info.mr = reader->mr;
			wr.bind_mw.bind_info.addr = buf_va(reader, 0);
			break;
		case 2:
			wr.bind_mw.bind_info.length = LEN;	/* from AT on: too much */
			break;
		case 3:
			wr.bind_mw.bind_info.length = 0;
			break;
		case 4:
			wr.bind_mw.rkey = r.b->mr->rkey;	/* no window at all */
			break;
		}
		post_send(r.c->qp[1], &wr);
		cq_expect(r.c->scq[1], r.c->qp[1], i, IBV_WC_MW_BIND_ERR);
		conn_restart(r.c);
	}
	ct_doing("and then a good one");
	bound(&r, key, WIN, rw);
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_SUCCESS);
}

CASE(send_with_invalidate, "the key is dead when the receive that names it completes")
{
	struct ibv_wc wc;
	struct rig r;
	uint32_t key;
	int i;

	rig_up(&r, IBV_MW_TYPE_2);
	key = r.mw->rkey;
	for (i = 0; i < ROUNDS(40, 10); i++) {
		struct ibv_sge s = buf_sge(r.a, 0, WIN), m = buf_sge(r.msg[0], 0, 64);
		struct ibv_sge rs = buf_sge(r.msg[1], 0, 64);
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, 1, &s, 1, 0), inv;
		uint64_t seed = rnd64();

		ct_doing("round %d", i);
		key = ibv_inc_rkey(key);
		bound(&r, key, WIN, rw);
		pat_fill(r.a->p, WIN, seed, 0);
		wr_remote(&wr, r.b, AT);
		wr.wr.rdma.rkey = key;
		inv = wr_make(IBV_WR_SEND_WITH_INV, 2, &m, 1, IBV_SEND_SIGNALED);
		inv.invalidate_rkey = key;
		wr.next = &inv;
		post_recv(r.c->qp[1], 3, &rs, 1);
		post_send(r.c->qp[0], &wr);
		wc = cq_expect(r.c->rcq[1], r.c->qp[1], 3, IBV_WC_SUCCESS);
		CHECK(wc.wc_flags & IBV_WC_WITH_INV, "no IBV_WC_WITH_INV");
		CHECK_EQ(wc.invalidated_rkey, key, "invalidated_rkey");
		pat_check(r.b->p + AT, WIN, seed, 0, "the WRITE before it");
		cq_expect(r.c->scq[0], r.c->qp[0], 2, IBV_WC_SUCCESS);
		if (rnd(4))
			continue;
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);
	}
	for (i = 0; i < 2; i++) {
		struct ibv_sge m = buf_sge(r.msg[0], 0, 64), rs = buf_sge(r.msg[1], 0, 64);
		struct ibv_send_wr inv = wr_make(IBV_WR_SEND_WITH_INV, 4, &m, 1,
						 IBV_SEND_SIGNALED);

		ct_doing(i ? "a region that no work request made" : "a key that is invalid");
		inv.invalidate_rkey = i ? r.b->mr->rkey : key;
		post_recv(r.c->qp[1], 5, &rs, 1);
		post_send(r.c->qp[0], &inv);
		cq_expect(r.c->scq[0], r.c->qp[0], 4, IBV_WC_REM_ACCESS_ERR);
		conn_restart(r.c);
	}
	conn_prove(r.c);
}

CASE(keys_in_order, "bind, tell the key, and LOCAL_INV behind WRITEs, posted in one chain")
{
	struct ibv_send_wr wr[3];
	struct rig r;
	uint32_t key;
	int i;

	rig_up(&r, IBV_MW_TYPE_2);
	key = r.mw->rkey;
	for (i = 0; i < ROUNDS(40, 10); i++) {
		struct ibv_sge m = buf_sge(r.msg[1], 0, 8), rs = buf_sge(r.msg[0], 0, 8);
		struct ibv_sge w = buf_sge(r.b, 0, 4 * KIB);

		ct_doing("round %d", i);
		key = ibv_inc_rkey(key);
		memcpy(r.msg[1]->p, &key, sizeof(key));
		wr[0] = wr_bind(&r, 10, key, WIN, rw);
		wr[1] = wr_make(IBV_WR_SEND, 11, &m, 1, IBV_SEND_SIGNALED);
		wr[0].next = &wr[1];
		post_recv(r.c->qp[0], 12, &rs, 1);
		post_send(r.c->qp[1], wr);
		cq_expect(r.c->rcq[0], r.c->qp[0], 12, IBV_WC_SUCCESS);
		CHECK(!memcmp(r.msg[0]->p, &key, sizeof(key)), "the key that came");
		cq_expect(r.c->scq[1], r.c->qp[1], 10, IBV_WC_SUCCESS);
		cq_expect(r.c->scq[1], r.c->qp[1], 11, IBV_WC_SUCCESS);
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_SUCCESS);

		/* complete in order, whatever is under way */
		wr[0] = wr_make(IBV_WR_RDMA_WRITE, 20, &w, 1, IBV_SEND_SIGNALED);
		wr_remote(&wr[0], r.a, 0);
		wr[1] = wr_local_inv(21, key);
		wr[2] = wr_make(IBV_WR_RDMA_WRITE, 22, &w, 1, IBV_SEND_SIGNALED);
		wr_remote(&wr[2], r.a, 0);
		wr[0].next = &wr[1];
		wr[1].next = &wr[2];
		post_send(r.c->qp[1], wr);
		cq_expect(r.c->scq[1], r.c->qp[1], 20, IBV_WC_SUCCESS);
		cq_expect(r.c->scq[1], r.c->qp[1], 21, IBV_WC_SUCCESS);
		cq_expect(r.c->scq[1], r.c->qp[1], 22, IBV_WC_SUCCESS);
	}
	reach(&r, IBV_WR_RDMA_WRITE, key, AT, 8, IBV_WC_REM_ACCESS_ERR);
}

CASE(rereg, "rereg_mr: other access, other memory, another PD, under the same key")
{
	struct conn_opt o = conn_defaults();
	struct ibv_pd *pd = ct_pd(&ct_dev[1]);
	struct rig r = { .c = conn_new(&o) };
	struct buf *second = buf_new(&ct_dev[1], LEN, ACC_ALL);
	struct ibv_mr *mr;
	uint32_t key;
	int i;

	r.a = buf_new(&ct_dev[0], LEN, ACC_ALL);
	r.b = buf_new(&ct_dev[1], LEN, ACC_ALL);
	mr = r.b->mr;
	key = mr->rkey;
	for (i = 0; i < ROUNDS(10, 3); i++) {
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_SUCCESS);
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_REMOTE_READ), "rereg of access");
		CHECK_EQ(mr->rkey, key, "rkey");
		reach(&r, IBV_WR_RDMA_READ, key, AT, WIN, IBV_WC_SUCCESS);
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_REM_ACCESS_ERR);
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
				    NULL, second->p, LEN, ACC_ALL), "rereg of memory");
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_REM_ACCESS_ERR);
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, r.b->p, LEN, 0),
		      "rereg of memory, back");
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), "rereg of the PD");
		reach(&r, IBV_WR_RDMA_WRITE, key, AT, WIN, IBV_WC_REM_ACCESS_ERR);
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, ct_dev[1].pd, NULL, 0, 0),
		      "rereg of the PD, back");
	}
	conn_prove(r.c);
}
