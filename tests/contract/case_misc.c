// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the query verbs say, limits, many QPs, loopback, threads, 2 GiB. */
#define _GNU_SOURCE
#include "contract.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "stream.h"

/* ---- queries and limits --------------------------------------------------------------------- */

CASE(query_device, "query_device and query_port make sense")
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct ibv_device_attr *a = &ct_dev[i].attr;
		const struct ibv_port_attr *p = &ct_dev[i].port;
		union ibv_gid gid;
		uint16_t pkey;

		ct_doing("%s", ct_dev[i].name);
		CHECK(a->node_guid, "node_guid is 0");
		CHECK(a->sys_image_guid, "sys_image_guid is 0");
		CHECK(a->phys_port_cnt == 1, "%u ports", a->phys_port_cnt);
		CHECK(a->max_qp >= 64, "max_qp %d", a->max_qp);
		CHECK(a->max_qp_wr >= 256, "max_qp_wr %d", a->max_qp_wr);
		CHECK(a->max_sge >= 4, "max_sge %d", a->max_sge);
		CHECK(a->max_cq >= 64, "max_cq %d", a->max_cq);
		CHECK(a->max_cqe >= 2 * a->max_qp_wr || a->max_cqe >= 4096, "max_cqe %d",
		      a->max_cqe);
		CHECK(a->max_mr >= 64, "max_mr %d", a->max_mr);
		CHECK(a->max_mr_size >= 1ull << 31, "max_mr_size %llu",
		      (unsigned long long)a->max_mr_size);
		CHECK(a->max_pd >= 4, "max_pd %d", a->max_pd);
		CHECK(a->max_qp_rd_atom >= 1, "max_qp_rd_atom %d", a->max_qp_rd_atom);
		CHECK(a->max_qp_init_rd_atom >= 1, "max_qp_init_rd_atom %d",
		      a->max_qp_init_rd_atom);
		CHECK(a->atomic_cap != IBV_ATOMIC_NONE, "no atomics");
		CHECK(a->max_pkeys >= 1, "max_pkeys %u", a->max_pkeys);
		CHECK(p->state == IBV_PORT_ACTIVE, "port state %d", p->state);
		CHECK(p->link_layer == IBV_LINK_LAYER_ETHERNET, "link layer %d", p->link_layer);
		CHECK(p->max_mtu >= p->active_mtu && p->active_mtu >= IBV_MTU_256, "MTUs %d, %d",
		      p->max_mtu, p->active_mtu);
		CHECK(p->max_msg_sz >= 1u << 20, "max_msg_sz %u", p->max_msg_sz);
		CHECK(p->gid_tbl_len >= 1, "no GIDs");
		CHECK(p->pkey_tbl_len >= 1, "no P_Keys");
		CHECK(!ibv_query_pkey(ct_dev[i].ctx, 1, 0, &pkey), "query_pkey");
		CHECK(pkey == 0xffff, "P_Key 0x%x", pkey);
		CHECK(!ibv_query_gid(ct_dev[i].ctx, 1, ct_dev[i].gid_index, &gid), "query_gid");
		CHECK(!memcmp(&gid, &ct_dev[i].gid, 16), "the GID changed");
	}
	if (ct_dev[0].ctx != ct_dev[1].ctx && strcmp(ct_dev[0].name, ct_dev[1].name))
		CHECK(ct_dev[0].attr.node_guid != ct_dev[1].attr.node_guid, "two equal node GUIDs");
}

static void query(struct conn *c, int end, struct ibv_qp_attr *a, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr ia;
	int all = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
		  IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		  IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
		  IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP |
		  IBV_QP_DEST_QPN;
	int r;

	memset(a, 0, sizeof(*a));
	r = ibv_query_qp(c->qp[end], a, all, &ia);
	CHECK(!r, "query_qp: %s", strerror(r));
	CHECK_EQ(a->qp_state, state, "qp_state");
	CHECK_EQ(a->cur_qp_state, state, "cur_qp_state");
	CHECK_EQ(c->qp[end]->state, state, "state in the ibv_qp");
	CHECK_EQ(a->cap.max_send_wr, c->cap[end].max_send_wr, "max_send_wr");
	CHECK_EQ(a->cap.max_recv_wr, c->cap[end].max_recv_wr, "max_recv_wr");
	CHECK_EQ(a->cap.max_send_sge, c->cap[end].max_send_sge, "max_send_sge");
	CHECK_EQ(a->cap.max_recv_sge, c->cap[end].max_recv_sge, "max_recv_sge");
	CHECK_EQ(a->cap.max_inline_data, c->cap[end].max_inline_data, "max_inline_data");
	CHECK(ia.send_cq == c->scq[end] && ia.recv_cq == c->rcq[end], "CQs of query_qp");
	CHECK_EQ(ia.qp_type, IBV_QPT_RC, "qp_type");
	CHECK_EQ(ia.sq_sig_all, c->o.sig_all, "sq_sig_all");
	if (state == IBV_QPS_RESET)
		return;
	CHECK_EQ(a->port_num, 1, "port_num");
	CHECK_EQ(a->pkey_index, 0, "pkey_index");
	CHECK_EQ(a->qp_access_flags & (ACC_ALL & ~IBV_ACCESS_LOCAL_WRITE),
		 c->o.access[end] & (ACC_ALL & ~IBV_ACCESS_LOCAL_WRITE), "qp_access_flags");
	if (state == IBV_QPS_INIT)
		return;
	CHECK_EQ(a->dest_qp_num, c->qp[!end]->qp_num, "dest_qp_num");
	CHECK_EQ(a->path_mtu, c->o.mtu, "path_mtu");
	CHECK_EQ(a->max_dest_rd_atomic, c->o.dest_rd_atomic, "max_dest_rd_atomic");
	CHECK_EQ(a->min_rnr_timer, c->o.min_rnr, "min_rnr_timer");
	CHECK_EQ(a->ah_attr.is_global, 1, "is_global");
	CHECK(!memcmp(&a->ah_attr.grh.dgid, &c->o.dev[!end]->gid, 16), "dgid");
	CHECK_EQ(a->ah_attr.grh.sgid_index, c->o.dev[end]->gid_index, "sgid_index");
	CHECK_EQ(a->ah_attr.grh.hop_limit, 64, "hop_limit");
	if (state == IBV_QPS_RTR) {
		CHECK_EQ(a->rq_psn, c->o.psn[!end], "rq_psn");
		return;
	}
	CHECK_EQ(a->timeout, c->o.timeout, "timeout");
	CHECK_EQ(a->retry_cnt, c->o.retry_cnt, "retry_cnt");
	CHECK_EQ(a->rnr_retry, c->o.rnr_retry, "rnr_retry");
	CHECK_EQ(a->max_rd_atomic, c->o.rd_atomic, "max_rd_atomic");
}

CASE(query_qp, "query_qp tells what was set, state by state")
{
	struct conn_opt o = conn_defaults();
	struct ibv_qp_attr a;
	struct conn *c;
	int end;

	o.rd_atomic = max_t(uint32_t, o.rd_atomic / 2, 1);
	o.rnr_retry = 5;
	o.retry_cnt = 6;
	o.timeout = 15;
	o.min_rnr = 17;
	o.access[0] = IBV_ACCESS_REMOTE_READ;
	o.access[1] = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	c = conn_create(&o);
	for (end = 0; end < 2; end++) {
		ct_doing("end %d", end);
		query(c, end, &a, IBV_QPS_RESET);
		conn_to_init(c, end);
		query(c, end, &a, IBV_QPS_INIT);
		conn_to_rtr(c, end);
		query(c, end, &a, IBV_QPS_RTR);
		conn_to_rts(c, end);
		query(c, end, &a, IBV_QPS_RTS);
		CHECK_EQ(a.sq_psn, c->o.psn[end], "sq_psn");
	}
	conn_to_err(c, 0);
	query(c, 0, &a, IBV_QPS_ERR);
	conn_to_reset(c, 0);
	query(c, 0, &a, IBV_QPS_RESET);
}

static void must_refuse(struct conn *c, int end, struct ibv_qp_attr *a, int mask, const char *what)
{
	ct_doing("%s", what);
	CHECK(ibv_modify_qp(c->qp[end], a, mask), "modify_qp takes it");
}

CASE(modify_refused, "transitions that do not exist or lack attributes are refused")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_create(&o);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .port_num = 1 };

	must_refuse(c, 0, &a, IBV_QP_STATE, "RESET to RTS");
	a.qp_state = IBV_QPS_RTR;
	must_refuse(c, 0, &a, IBV_QP_STATE, "RESET to RTR");
	a.qp_state = IBV_QPS_INIT;
	must_refuse(c, 0, &a, IBV_QP_STATE, "INIT without port and P_Key");
	a.port_num = 7;
	must_refuse(c, 0, &a,
		    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
		    "INIT with port 7");
	a.port_num = 1;
	conn_to_init(c, 0);
	a.qp_state = IBV_QPS_RTS;
	must_refuse(c, 0, &a, IBV_QP_STATE, "INIT to RTS");
	a.qp_state = IBV_QPS_RTR;
	must_refuse(c, 0, &a, IBV_QP_STATE, "RTR without address");
	CHECK_EQ(qp_state(c->qp[0]), IBV_QPS_INIT, "state after refusals");
	conn_to_reset(c, 0);
	conn_up(c);
	a.qp_state = IBV_QPS_INIT;
	must_refuse(c, 0, &a,
		    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
		    "RTS to INIT");
	ct_doing("%s", "");
	conn_prove(c);
}

CASE(limits_refused, "one more than the limits is refused, the limits themselves are taken")
{
	struct ibv_device_attr *d = &ct_dev[0].attr;
	struct ibv_cq *cq = ct_cq(&ct_dev[0], 64, NULL), *big;
	struct ibv_qp_init_attr base = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 16, 16, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	}, a;
	struct ibv_qp *qp;
	unsigned int i;

	for (i = 0; i < 10; i++) {
		int want_ok = i >= 5;

		a = base;
		switch (i % 5) {
		case 0:
			a.cap.max_send_wr = d->max_qp_wr + !want_ok;
			break;
		case 1:
			a.cap.max_recv_wr = d->max_qp_wr + !want_ok;
			break;
		case 2:
			a.cap.max_send_sge = d->max_sge + !want_ok;
			break;
		case 3:
			a.cap.max_recv_sge = d->max_sge + !want_ok;
			break;
		case 4:
			a.cap.max_inline_data = want_ok ? 32 : 1 << 20;
			break;
		}
		ct_doing("limit %u, %s", i % 5, want_ok ? "exactly" : "one more");
		qp = ibv_create_qp(ct_dev[0].pd, &a);
		if (qp)
			ibv_destroy_qp(qp);
		CHECK(!qp == !want_ok, "create_qp: %s", qp ? "taken" : strerror(errno));
	}
	big = ibv_create_cq(ct_dev[0].ctx, d->max_cqe + 1, NULL, NULL, 0);
	if (big)
		ibv_destroy_cq(big);
	CHECK(!big, "create_cq takes max_cqe + 1");
	big = ibv_create_cq(ct_dev[0].ctx, 0, NULL, NULL, 0);
	if (big)
		ibv_destroy_cq(big);
	/* A QP with no send or no receive queue at all is legal. */
	a = base;
	a.cap.max_send_wr = a.cap.max_send_sge = 0;
	qp = ibv_create_qp(ct_dev[0].pd, &a);
	CHECK(qp, "create_qp without a send queue: %s", strerror(errno));
	ibv_destroy_qp(qp);
	a = base;
	a.cap.max_recv_wr = a.cap.max_recv_sge = 0;
	qp = ibv_create_qp(ct_dev[0].pd, &a);
	CHECK(qp, "create_qp without a receive queue: %s", strerror(errno));
	ibv_destroy_qp(qp);
}

CASE(reg_mr_flags, "access flags of reg_mr: optional ones are taken, senseless ones refused")
{
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	unsigned int bit;

	CHECK(p != MAP_FAILED, "mmap");
	for (bit = 1u << 20; bit && bit < 1u << 30; bit <<= 1) {
		unsigned int access = ACC_ALL | bit;

		ct_doing("optional access flag 0x%x", bit);
		mr = ibv_reg_mr(ct_dev[0].pd, p, 8192, access);
		CHECK(mr, "reg_mr: %s", strerror(errno));
		ibv_dereg_mr(mr);
	}
	ct_doing("remote write without local write");
	mr = ibv_reg_mr(ct_dev[0].pd, p, 8192, IBV_ACCESS_REMOTE_WRITE);
	if (mr)
		ibv_dereg_mr(mr);
	CHECK(!mr, "taken");
	ct_doing("memory that is not there");
	munmap(p, 8192);
	mr = ibv_reg_mr(ct_dev[0].pd, p, 8192, ACC_ALL);
	if (mr)
		ibv_dereg_mr(mr);
	CHECK(!mr, "taken");
	ct_doing("write access to memory that may only be read");
	p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED, "mmap");
	mr = ibv_reg_mr(ct_dev[0].pd, p, 8192, ACC_ALL);
	if (mr)
		ibv_dereg_mr(mr);
	munmap(p, 8192);
	CHECK(!mr, "taken");
}

CASE(mr_iova, "a region with an address of its own (reg_mr_iova)")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 20000;
	struct buf *a = buf_new_skew(&ct_dev[0], len, ACC_ALL, 9), *b;
	uint64_t iova, pat = rnd64();
	struct ibv_sge s = buf_sge(a, 0, len);
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	b = buf_new_skew(&ct_dev[1], len, ACC_ALL, 33);
	/* The offset in the page must fit: what hardware asks for. */
	iova = 0x4000000000ull + ((uintptr_t)b->p & 4095);
	mr = ibv_reg_mr_iova(ct_dev[1].pd, b->p, len, iova, ACC_ALL);
	CHECK(mr, "reg_mr_iova: %s", strerror(errno));
	pat_fill(a->p, len, pat, 0);
	wr = wr_make(IBV_WR_RDMA_WRITE, 1, &s, 1, IBV_SEND_SIGNALED);
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = mr->rkey;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	pat_check(b->p, len, pat, 0, "WRITE by the address of the region");
	wr.wr.rdma.remote_addr = buf_va(b, 0);
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_REM_ACCESS_ERR);
	buf_guards(b);
	ibv_dereg_mr(mr);
}

CASE(unstable_source, "a source that changes while it is sent does not break the connection")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	size_t len = 64 * KIB;
	struct buf *a = buf_new(&ct_dev[0], len, ACC_ALL), *b = buf_new(&ct_dev[1], len, ACC_ALL);
	int sent = 0, done = 0, total = ROUNDS(300, 60);
	struct ct_wait w;

	ct_wait_start(&w);
	while (done < total) {
		struct ibv_sge s = buf_sge(a, 0, len);
		struct ibv_wc wc;

		while (sent < total && sent - done < 8) {
			struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, sent++, &s, 1,
							IBV_SEND_SIGNALED);

			wr_remote(&wr, b, 0);
			post_send(c->qp[0], &wr);
		}
		memset(a->p + rnd(len - 4096), rnd(256), 4096);
		while (cq_poll(c->scq[0], &wc)) {
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			CHECK_EQ(wc.wr_id, done, "wr_id");
			done++;
			ct_wait_start(&w);
		}
		CHECK(ct_wait_step(&w), "stuck at %d of %d", done, total);
	}
	conn_prove(c);
}

/* ---- many QPs, loopback, threads ------------------------------------------------------------ */

static void many(int n, struct dev *from, struct dev *to)
{
	struct stream_cfg cfg = {
		.ops = 60, .quick_ops = 20, .depth = 8, .recvs = 8, .max = 6000,
		.mix = { [ST_SEND] = 3, [ST_SEND_IMM] = 1, [ST_WRITE] = 4, [ST_WRITE_IMM] = 1,
			 [ST_READ] = 3, [ST_FADD] = 1, [ST_CAS] = 1 },
		.credits = true,
	};
	struct stream **s = ct_alloc(n * sizeof(*s));
	bool *ended = ct_alloc(n * sizeof(*ended));
	int i, left = n;

	for (i = 0; i < n; i++) {
		struct conn_opt o = conn_defaults();

		o.dev[0] = from;
		o.dev[1] = to;
		o.sq = o.rq = 8;
		s[i] = stream_new(conn_new(&o), 0, &cfg);
	}
	while (left)
		for (i = 0; i < n; i++)
			if (!ended[i] && stream_step(s[i])) {
				ended[i] = true;
				left--;
			}
}

CASE(many_qps, "64 connections at once, each with a checked stream")
{
	many(64, &ct_dev[0], &ct_dev[1]);
}

CASE(shared_cq, "32 QPs on one CQ: every completion once, each QP's in its order")
{
	enum { N = 32, PER = 40 };
	struct conn_opt o = conn_defaults();
	struct ibv_cq *cq[2] = { ct_cq(&ct_dev[0], N * PER + 64, NULL),
				 ct_cq(&ct_dev[1], N * PER + 64, NULL) };
	int next[2][N] = { { 0 } }, left = 2 * N * PER, i, k, end;
	struct conn *c[N];
	struct ct_wait w;

	for (end = 0; end < 2; end++)
		o.scq[end] = o.rcq[end] = cq[end];
	for (i = 0; i < N; i++)
		c[i] = conn_new(&o);
	for (k = 0; k < PER; k++)
		for (i = 0; i < N; i++) {
			struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i * 1000 + k, NULL, 0,
							IBV_SEND_SIGNALED);

			post_recv(c[i]->qp[1], i * 1000 + k, NULL, 0);
			post_send(c[i]->qp[0], &wr);
		}
	ct_wait_start(&w);
	while (left) {
		for (end = 0; end < 2; end++) {
			struct ibv_wc wc;

			while (cq_poll(cq[end], &wc)) {
				CHECK(wc.status == IBV_WC_SUCCESS, "%s",
				      ibv_wc_status_str(wc.status));
				i = wc.wr_id / 1000;
				CHECK(i >= 0 && i < N, "wr_id %llu", (unsigned long long)wc.wr_id);
				CHECK_EQ(wc.qp_num, c[i]->qp[end]->qp_num, "qp_num");
				CHECK_EQ(wc.wr_id % 1000, next[end][i], "order within a QP");
				next[end][i]++;
				left--;
				ct_wait_start(&w);
			}
		}
		CHECK(ct_wait_step(&w), "%d completions missing", left);
	}
	cq_silent(cq[0], 20);
	cq_silent(cq[1], 0);
}

CASE(loopback, "two QPs of one device connected to each other")
{
	struct stream_cfg cfg = {
		.ops = 800, .quick_ops = 150, .depth = 32, .recvs = 32, .max = 16 * KIB,
		.mix = { [ST_SEND] = 3, [ST_SEND_IMM] = 1, [ST_WRITE] = 4, [ST_WRITE_IMM] = 1,
			 [ST_READ] = 3, [ST_FADD] = 1, [ST_CAS] = 1 },
		.credits = true,
	};
	int i;

	for (i = 0; i < 2; i++) {
		struct conn_opt o = conn_defaults();
		struct stream *s[2];
		struct conn *c;

		ct_doing("loopback on %s", ct_dev[i].name);
		o.dev[0] = o.dev[1] = &ct_dev[i];
		c = conn_new(&o);
		s[0] = stream_new(c, 0, &cfg);
		s[1] = stream_new(c, 1, &cfg);
		stream_run(s, 2);
		conn_prove(c);
	}
}

CASE(loopback_err, "the same, both flooding, moved to ERR and back through RESET")
{
	struct conn_opt o = conn_defaults();
	struct buf *a = buf_new(&ct_dev[0], 16 * KIB, ACC_ALL);
	struct buf *b = buf_new(&ct_dev[0], 16 * KIB, ACC_ALL);
	struct conn *c;
	int round, i, end;

	o.dev[1] = &ct_dev[0];
	c = conn_new(&o);
	for (round = 0; round < ROUNDS(30, 8); round++) {
		ct_doing("round %d", round);
		for (end = 0; end < 2; end++)
			for (i = 0; i < 40; i++) {
				struct ibv_sge s = buf_sge(end ? b : a, 0, 16 * KIB);
				struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, i, &s, 1,
								IBV_SEND_SIGNALED);

				wr_remote(&wr, end ? a : b, 0);
				post_send(c->qp[end], &wr);
			}
		if (round & 1)
			ct_sleep_ms(rnd(6));
		conn_to_err(c, round & 1);
		if (round & 2)
			conn_to_err(c, !(round & 1));
		conn_restart(c);
		conn_prove(c);
	}
}

CASE(idle, "connections that rest between messages")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);
	int i;

	for (i = 0; i < ROUNDS(4, 2); i++) {
		conn_prove(c);
		cq_silent(c->scq[0], ct_quick ? 300 : 1500);
	}
	conn_prove(c);
}

struct relay {
	struct conn *c;
	struct buf *b;
	volatile int posted, seen;
	int total;
};

static void relay_post(void *arg)
{
	struct relay *r = arg;
	struct ct_wait w;

	ct_wait_start(&w);
	while (r->posted < r->total) {
		struct ibv_send_wr wr = wr_make(IBV_WR_RDMA_WRITE, r->posted, NULL, 0,
						IBV_SEND_SIGNALED);

		if (r->posted - __atomic_load_n(&r->seen, __ATOMIC_ACQUIRE) >= 60) {
			CHECK(ct_wait_step(&w), "nobody polls");
			continue;
		}
		ct_wait_start(&w);
		wr_remote(&wr, r->b, 0);
		post_send(r->c->qp[0], &wr);
		r->posted++;
	}
}

CASE(thread_post_poll, "one thread posts, another polls: a sequence number in every wr_id")
{
	struct conn_opt o = conn_defaults();
	struct relay r = { .total = ROUNDS(15000, 3000) };
	struct ct_thread *t;
	struct ct_wait w;

	r.c = conn_new(&o);
	r.b = buf_new(&ct_dev[1], 64, ACC_ALL);
	t = ct_thread_start(relay_post, &r);
	ct_wait_start(&w);
	while (r.seen < r.total) {
		struct ibv_wc wc;

		if (!cq_poll(r.c->scq[0], &wc)) {
			CHECK(ct_wait_step(&w), "stuck at %d of %d", r.seen, r.total);
			continue;
		}
		ct_wait_start(&w);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		CHECK_EQ(wc.wr_id, r.seen, "wr_id");
		__atomic_store_n(&r.seen, r.seen + 1, __ATOMIC_RELEASE);
	}
	ct_thread_join(t);
	cq_silent(r.c->scq[0], 20);
}

/* The kernel takes write() only from who opened the file; a daemon's child and who drops privileges are not. */
static void prove_as_another(void *arg)
{
	CHECK_EQ(syscall(SYS_setgroups, 0, NULL), 0, "setgroups");	/* of this thread alone */
	conn_prove(arg);
}

CASE(other_credentials, "whoever changed credentials since the device was opened posts all the same")
{
	struct conn_opt o = conn_defaults();
	struct conn *c = conn_new(&o);

	ct_thread_join(ct_thread_start(prove_as_another, c));
	conn_prove(c);
}

struct adder {
	struct conn *c;
	struct buf *a, *b;
	int n, id;
	volatile int *free_slots; /* of the send queue */
};

static void adder_run(void *arg)
{
	struct adder *x = arg;
	struct ct_wait w;
	int i;

	ct_wait_start(&w);
	for (i = 0; i < x->n; i++) {
		struct ibv_sge s = buf_sge(x->a, x->id * 8, 8);
		struct ibv_send_wr wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, x->id, &s, 1,
						IBV_SEND_SIGNALED);

		while (__atomic_sub_fetch(x->free_slots, 1, __ATOMIC_ACQUIRE) < 0) {
			__atomic_add_fetch(x->free_slots, 1, __ATOMIC_RELAXED);
			CHECK(ct_wait_step(&w), "no free slot");
		}
		ct_wait_start(&w);
		wr_fadd(&wr, x->b, 0, 1);
		post_send(x->c->qp[0], &wr);
	}
}

CASE(thread_post_many, "four threads post to one QP while two poll its CQ")
{
	enum { T = 4 };
	struct conn_opt o = conn_defaults();
	int per = ROUNDS(1500, 250), seen = 0, count[T] = { 0 }, i;
	volatile int free_slots = 60;
	struct ct_thread *t[T];
	struct adder x[T];
	struct ct_wait w;
	uint64_t sum;

	for (i = 0; i < T; i++) {
		x[i] = (struct adder){ .n = per, .id = i, .free_slots = &free_slots };
		if (!i) {
			x[0].c = conn_new(&o);
			x[0].a = buf_new(&ct_dev[0], T * 8, ACC_ALL);
			x[0].b = buf_new(&ct_dev[1], 8, ACC_ALL);
			memset(x[0].b->p, 0, 8);
		}
		x[i].c = x[0].c;
		x[i].a = x[0].a;
		x[i].b = x[0].b;
	}
	for (i = 0; i < T; i++)
		t[i] = ct_thread_start(adder_run, &x[i]);
	ct_wait_start(&w);
	while (seen < T * per) {
		struct ibv_wc wc;

		if (!cq_poll(x[0].c->scq[0], &wc)) {
			CHECK(ct_wait_step(&w), "stuck at %d of %d", seen, T * per);
			continue;
		}
		ct_wait_start(&w);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id < T, "wr_id %llu", (unsigned long long)wc.wr_id);
		count[wc.wr_id]++;
		seen++;
		__atomic_add_fetch(&free_slots, 1, __ATOMIC_RELEASE);
	}
	for (i = 0; i < T; i++) {
		ct_thread_join(t[i]);
		CHECK_EQ(count[i], per, "completions of a thread's WRs");
	}
	memcpy(&sum, x[0].b->p, 8);
	CHECK_EQ(sum, T * per, "counter");
}

/* ---- 2 GiB ---------------------------------------------------------------------------------- */

/*
 * A buffer of 2 GiB out of little memory: most of it shows one file again and again. Some windows
 * have pages of their own, so that what lands there is known to come from the right place: the
 * first and the last MiB, and one on either side of 1 GiB.
 */
#define HUGE_LEN (2 * GIB)
#define COMMON (16 * MIB)
#define WINDOW MIB

static const size_t window_at[] = { 0, 123 * MIB, GIB - WINDOW, GIB, HUGE_LEN - WINDOW };

static void unmap_huge(void *p)
{
	munmap(p, HUGE_LEN + WINDOW);
}

static struct buf *huge_new(struct dev *d)
{
	int fd = memfd_create("spray_contract", 0);
	struct buf *b = ct_alloc(sizeof(*b));
	size_t off;
	unsigned int i;

	CHECK(fd >= 0, "memfd: %s", strerror(errno));
	CHECK(!ftruncate(fd, COMMON + (ARRAY_SIZE(window_at) + 1) * WINDOW), "ftruncate");
	b->dev = d;
	b->len = HUGE_LEN;
	/* One window more: for a message that is too long, which must not touch it. */
	b->p = mmap(NULL, HUGE_LEN + WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	CHECK(b->p != MAP_FAILED, "mmap: %s", strerror(errno));
	ct_track(unmap_huge, b->p);
	for (off = 0; off < HUGE_LEN; off += COMMON)
		CHECK(mmap(b->p + off, COMMON, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   0) != MAP_FAILED, "mmap: %s", strerror(errno));
	for (i = 0; i <= ARRAY_SIZE(window_at); i++)
		CHECK(mmap(b->p + (i < ARRAY_SIZE(window_at) ? window_at[i] : HUGE_LEN), WINDOW,
			   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   COMMON + i * WINDOW) != MAP_FAILED, "mmap: %s", strerror(errno));
	close(fd);
	b->mr = ibv_reg_mr(d->pd, b->p, HUGE_LEN + WINDOW, ACC_ALL);
	if (!b->mr)
		ct_skip("cannot register 2 GiB: %s", strerror(errno));
	return b;
}

static void huge_release(struct buf *b)
{
	int r = ibv_dereg_mr(b->mr);

	CHECK(!r, "dereg_mr: %s", strerror(r));
}

static void huge_fill(struct buf *b, uint64_t pat)
{
	unsigned int i;

	pat_fill(b->p + COMMON, COMMON, pat, 0);
	for (i = 0; i < ARRAY_SIZE(window_at); i++)
		pat_fill(b->p + window_at[i], WINDOW, pat, window_at[i] + 99 * GIB);
}

static void huge_poison(struct buf *b)
{
	unsigned int i;

	poison(b->p + COMMON, COMMON);
	for (i = 0; i < ARRAY_SIZE(window_at); i++)
		poison(b->p + window_at[i], WINDOW);
	poison(b->p + HUGE_LEN, WINDOW);
}

static void huge_check(struct buf *b, uint64_t pat)
{
	unsigned int i;

	pat_check(b->p + COMMON, COMMON, pat, 0, "common part");
	for (i = 0; i < ARRAY_SIZE(window_at); i++) {
		ct_doing("window at %zu MiB", window_at[i] / MIB);
		pat_check(b->p + window_at[i], WINDOW, pat, window_at[i] + 99 * GIB, "window");
	}
	poison_check(b->p + HUGE_LEN, WINDOW, "behind the message");
}

static void huge(enum ibv_wr_opcode op)
{
	struct conn_opt o = conn_defaults();
	struct buf *a = huge_new(&ct_dev[0]), *b = huge_new(&ct_dev[1]);
	bool read = op == IBV_WR_RDMA_READ;
	struct buf *from = read ? b : a, *to = read ? a : b;
	struct ibv_sge s = { .addr = (uintptr_t)a->p, .length = HUGE_LEN, .lkey = a->mr->lkey };
	struct ibv_sge r = { .addr = (uintptr_t)b->p, .length = HUGE_LEN, .lkey = b->mr->lkey };
	struct ibv_send_wr wr = wr_make(op, 1, &s, 1, IBV_SEND_SIGNALED);
	unsigned int was = ct_deadline_s;
	uint64_t pat = rnd64(), start;
	struct conn *c;
	struct ibv_wc wc;

	if (ct_dev[0].port.max_msg_sz < HUGE_LEN)
		ct_skip("max_msg_sz is %u", ct_dev[0].port.max_msg_sz);
	c = conn_new(&o);
	huge_fill(from, pat);
	huge_poison(to);
	if (op == IBV_WR_SEND)
		post_recv(c->qp[1], 2, &r, 1);
	else
		wr_remote(&wr, b, 0);
	ct_doing("%s of 2 GiB", op_name(op));
	start = ct_now_ns();
	post_send(c->qp[0], &wr);
	ct_deadline_s = max_t(unsigned int, was, 1800);
	if (op == IBV_WR_SEND) {
		wc = cq_expect(c->rcq[1], c->qp[1], 2, IBV_WC_SUCCESS);
		huge_check(b, pat);
		CHECK_EQ(wc.byte_len, HUGE_LEN, "byte_len");
	}
	wc = cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	ct_deadline_s = was;
	ct_diag("%s of 2 GiB took %.1f s", op_name(op), (ct_now_ns() - start) / 1e9);
	huge_check(to, pat);
	pat_check(from->p + COMMON, COMMON, pat, 0, "the source");
	conn_prove(c);
	huge_release(a);
	huge_release(b);
}

CASE_F(huge_write, CF_HUGE, "WRITE of 2 GiB")
{
	huge(IBV_WR_RDMA_WRITE);
}

CASE_F(huge_read, CF_HUGE, "READ of 2 GiB")
{
	huge(IBV_WR_RDMA_READ);
}

CASE_F(huge_send, CF_HUGE, "SEND of 2 GiB")
{
	huge(IBV_WR_SEND);
}

CASE_F(huge_too_long, CF_HUGE,
       "max_msg_sz + 1 bytes, in one piece and in several: refused, nothing moves")
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
	};
	struct conn_opt o = conn_defaults();
	struct buf *a = huge_new(&ct_dev[0]), *b = huge_new(&ct_dev[1]);
	uint32_t max = ct_dev[0].port.max_msg_sz;
	unsigned int i, pieces;
	struct conn *c;

	if (max > HUGE_LEN)
		ct_skip("max_msg_sz is %u", max);
	c = conn_new(&o);
	huge_poison(b);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (pieces = 1; pieces <= 2; pieces++) {
			struct ibv_sge s[2] = {
				{ .addr = (uintptr_t)a->p,
				  .length = pieces == 1 ? max + 1 : max / 2 + 1,
				  .lkey = a->mr->lkey },
				{ .addr = (uintptr_t)a->p, .length = max / 2, .lkey = a->mr->lkey },
			};
			struct ibv_send_wr wr = wr_make(ops[i], 1, s, pieces, IBV_SEND_SIGNALED),
					   *bad;
			int r;

			ct_doing("%s of max_msg_sz + 1 in %u pieces", op_name(ops[i]), pieces);
			if (ops[i] != IBV_WR_SEND)
				wr_remote(&wr, b, 0);
			r = ibv_post_send(c->qp[0], &wr, &bad);
			if (!r)
				cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_LOC_LEN_ERR);
			poison_check(b->p, WINDOW, "start of the target");
			poison_check(b->p + HUGE_LEN - WINDOW, 2 * WINDOW, "end of the target");
			conn_restart(c);
			conn_prove(c);
		}
	}
	huge_release(a);
	huge_release(b);
}
