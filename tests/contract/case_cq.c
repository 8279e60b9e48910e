// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ibv_resize_cq. */
#include "contract.h"

#include <poll.h>

#include "internal.h"

static int resize(struct ibv_cq *cq, int cqe)
{
	int r = ibv_resize_cq(cq, cqe);

	if (r == EOPNOTSUPP || r == ENOSYS)
		ct_skip("no resize_cq");
	if (!r)
		CHECK(cq->cqe >= cqe, "CQ of %d entries after resize to %d", cq->cqe, cqe);
	return r;
}

static void send_n(struct conn *c, uint64_t *id, int n)
{
	while (n--) {
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, (*id)++, NULL, 0, IBV_SEND_SIGNALED);

		post_send(c->qp[0], &wr);
	}
}

/* n receives have completed, as their senders know; nobody has polled them. */
static void settled(struct conn *c, uint64_t *id, uint64_t *got, int n)
{
	int i;

	for (i = 0; i < n; i++)
		post_recv(c->qp[1], *id + i, NULL, 0);
	send_n(c, id, n);
	for (i = 0; i < n; i++)
		cq_expect(c->scq[0], c->qp[0], (*got)++, IBV_WC_SUCCESS);
}

CASE(resize_waiting, "resize_cq: what waits comes out in order; refused if it does not fit")
{
	struct conn_opt o = conn_defaults();
	uint64_t id = 0, got = 0, next = 0;
	struct conn *c;
	int round;

	o.cqe = 64;
	o.rcq[1] = ct_cq(&ct_dev[1], 64, NULL);
	c = conn_new(&o);
	for (round = 0; round < ROUNDS(40, 10); round++) {
		int n = rnd_in(0, 60), old = c->rcq[1]->cqe, r;
		struct ct_wait w;
		int size = rnd(2) ? rnd_in(1, 48) : rnd_in(1, 300);

		ct_doing("%d completions, %d entries to %d", n, old, size);
		settled(c, &id, &got, n);
		r = resize(c->rcq[1], size);
		if (r) {
			CHECK_EQ(r, EINVAL, "errno of a resize that was refused");
			CHECK(size < n, "resize to %d with %d waiting: %s", size, n, strerror(r));
			CHECK_EQ(c->rcq[1]->cqe, old, "size after a refused resize");
		}
		ct_wait_start(&w);
		while (next != id) {
			struct ibv_wc wc;

			if (!cq_poll(c->rcq[1], &wc)) {
				CHECK(ct_wait_step(&w), "completion %llu is lost",
				      (unsigned long long)next);
				continue;
			}
			CHECK_EQ(wc.wr_id, next, "wr_id");
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
			next++;
		}
		cq_silent(c->rcq[1], 2);
		/* Large enough for the next round in any case. */
		if (c->rcq[1]->cqe < 64)
			CHECK_EQ(resize(c->rcq[1], 64), 0, "resize");
	}
	CHECK(resize(c->rcq[1], ct_dev[1].attr.max_cqe + 1) == EINVAL, "resize beyond max_cqe");
	CHECK(ibv_resize_cq(c->rcq[1], 0) == EINVAL, "resize to 0");
	conn_prove(c);
}

/* A full CQ shrinks to exactly what waits, and is refused one less. */
CASE(resize_exact, "resize_cq to exactly what waits, and to one power of two less")
{
	struct conn_opt o = conn_defaults();
	uint64_t id = 0, got = 0, next;
	struct conn *c;

	o.cqe = 64;
	o.rcq[1] = ct_cq(&ct_dev[1], 256, NULL);
	c = conn_new(&o);
	settled(c, &id, &got, 32);
	CHECK_EQ(resize(c->rcq[1], 32), 0, "resize to what waits");
	CHECK_EQ(resize(c->rcq[1], 16), EINVAL, "resize to half of what waits");
	CHECK_EQ(resize(c->rcq[1], 128), 0, "resize up");
	settled(c, &id, &got, 32);
	for (next = 0; next < 64; next++)
		cq_expect(c->rcq[1], c->qp[1], next, IBV_WC_SUCCESS);
	cq_silent(c->rcq[1], 5);
}

struct resizer {
	struct ibv_cq *cq;
	volatile bool stop;
	unsigned int done, refused;
};

static void resize_thread(void *arg)
{
	struct resizer *r = arg;

	while (!r->stop && !ct_stop) {
		int err = ibv_resize_cq(r->cq, rnd_in(64, 2000));

		CHECK(!err || err == EINVAL, "resize_cq: %s", strerror(err));
		r->done += !err;
		r->refused += !!err;
		ct_sleep_ms(rnd(3));
	}
}

CASE(resize_traffic, "resize_cq again and again under traffic: every completion once, in order")
{
	struct conn_opt o = conn_defaults();
	uint64_t sent = 0, send_next = 0, recv_next = 0, posted = 0, total = ROUNDS(20000, 3000);
	uint64_t end = ct_now_ns() + ROUNDS(30, 8) * 1000000000ull;	/* a resize is slow on debug kernels */
	struct resizer s = {}, r = {};
	struct ct_thread *t[2];
	struct ct_wait w;
	struct conn *c;

	o.scq[0] = s.cq = ct_cq(&ct_dev[0], 256, NULL);
	o.rcq[1] = r.cq = ct_cq(&ct_dev[1], 256, NULL);
	c = conn_new(&o);
	resize(s.cq, 128);
	t[0] = ct_thread_start(resize_thread, &s);
	t[1] = ct_thread_start(resize_thread, &r);
	ct_wait_start(&w);
	while (send_next < total || recv_next < total) {
		struct ibv_wc wc;
		bool news = false;

		for (; posted < total && posted - recv_next < 60; posted++)
			post_recv(c->qp[1], posted, NULL, 0);
		if (sent < total && sent - send_next < 60)
			send_n(c, &sent, 1);
		while (cq_poll(c->scq[0], &wc)) {
			CHECK_EQ(wc.wr_id, send_next, "wr_id of a send");
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a send");
			send_next++;
			news = true;
		}
		while (cq_poll(c->rcq[1], &wc)) {
			CHECK_EQ(wc.wr_id, recv_next, "wr_id of a receive");
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a receive");
			recv_next++;
			news = true;
		}
		if (total > sent && ct_now_ns() > end)
			total = sent;
		if (news)
			ct_wait_start(&w);
		else
			CHECK(ct_wait_step(&w), "lost: %llu sent, %llu completed, %llu received",
			      (unsigned long long)sent, (unsigned long long)send_next,
			      (unsigned long long)recv_next);
	}
	s.stop = r.stop = true;
	ct_thread_join(t[0]);
	ct_thread_join(t[1]);
	cq_silent(c->scq[0], 20);
	cq_silent(c->rcq[1], 0);
	ct_diag("%u resizes, %u refused", s.done + r.done, s.refused + r.refused);
	CHECK(s.done + r.done > 10, "only %u resizes", s.done + r.done);
}

/* A sleeper that asked for an event before the resize must be woken by what comes after it. */
CASE(resize_event, "resize_cq between req_notify_cq and the completion: the event still comes")
{
	struct conn_opt o = conn_defaults();
	struct ibv_comp_channel *ch;
	struct conn *c;
	int round;

	if (ct_no_events)
		ct_skip("no events");
	ch = ct_channel(&ct_dev[1]);
	o.rcq[1] = ct_cq(&ct_dev[1], 64, ch);
	c = conn_new(&o);
	for (round = 0; round < ROUNDS(40, 10); round++) {
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, round, NULL, 0, IBV_SEND_SIGNALED);
		struct pollfd p = { .fd = ch->fd, .events = POLLIN };
		struct ibv_cq *cq;
		void *ctx;

		post_recv(c->qp[1], round, NULL, 0);
		CHECK(!ibv_req_notify_cq(c->rcq[1], 0), "req_notify_cq");
		cq_silent(c->rcq[1], 0);
		CHECK_EQ(resize(c->rcq[1], rnd_in(1, 500)), 0, "resize");
		post_send(c->qp[0], &wr);
		CHECK(poll(&p, 1, 10000) == 1, "no event within 10 s");
		CHECK(!ibv_get_cq_event(ch, &cq, &ctx) && cq == c->rcq[1], "get_cq_event");
		ibv_ack_cq_events(cq, 1);
		cq_expect(c->rcq[1], c->qp[1], round, IBV_WC_SUCCESS);
		cq_expect(c->scq[0], c->qp[0], round, IBV_WC_SUCCESS);
	}
}
