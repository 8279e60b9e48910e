// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * spray_load: a load whose cost can be counted.
 *
 *	spray_load -a DEV -b DEV -g GID_A:GID_B OP SIZE COUNT [WINDOW]
 *
 * One process, two devices, one RC connection, one completion channel: nothing spins, so on one CPU
 * every instruction is part of the work. OP is write, read, send or pingpong (SENDs in turn, one
 * COUNT is a round trip). Measures COUNT messages after a warm-up of as many windows, and prints
 *
 *	OP SIZE COUNT busy_ns_per_message ns_per_message
 *
 * busy is time less what the idle loop had, read from /proc/timer_list; on one CPU under QEMU's
 * -icount shift=0 a nanosecond is an instruction.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 64

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
	uint64_t sent, received;
};

static struct end end[2];
static size_t size;

static void die(const char *what)
{
	fprintf(stderr, "spray_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_end(struct end *e, const char *name, int gid_index, size_t window)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			e->ctx = ibv_open_device(list[i]);
	if (!e->ctx)
		die(name);
	e->gid_index = gid_index;
	e->pd = ibv_alloc_pd(e->ctx);
	e->ch = ibv_create_comp_channel(e->ctx);
	e->buf = aligned_alloc(4096, (size * window + 4096) & ~4095ul);
	if (!e->pd || !e->ch || !e->buf)
		die("resources");
	memset(e->buf, 0x5a, size * window);
	e->mr = ibv_reg_mr(e->pd, e->buf, size * window,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	e->cq = ibv_create_cq(e->ctx, 4 * DEPTH, NULL, e->ch, 0);
	if (!e->mr || !e->cq)
		die("MR or CQ");
	init.send_cq = init.recv_cq = e->cq;
	init.cap.max_send_wr = init.cap.max_recv_wr = 2 * DEPTH;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	e->qp = ibv_create_qp(e->pd, &init);
	if (!e->qp || ibv_query_gid(e->ctx, 1, gid_index, &e->gid) || ibv_query_port(e->ctx, 1, &port))
		die("QP");
	e->mtu = port.active_mtu;
}

static void connect_end(struct end *e, struct end *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = e->mtu;
	a.dest_qp_num = peer->qp->qp_num;
	a.max_dest_rd_atomic = 16;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.dgid = peer->gid;
	a.ah_attr.grh.sgid_index = e->gid_index;
	a.ah_attr.grh.hop_limit = 64;
	a.ah_attr.port_num = 1;
	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 16;
	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static void post_recv(struct end *e, size_t slot)
{
	struct ibv_sge sge = { (uintptr_t)e->buf + slot * size, size, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if ((errno = ibv_post_recv(e->qp, &wr, &bad)))
		die("post_recv");
}

static void post_send(struct end *e, struct end *peer, enum ibv_wr_opcode op, size_t slot)
{
	struct ibv_sge sge = { (uintptr_t)e->buf + slot * size, size, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)peer->buf + slot * size;
	wr.wr.rdma.rkey = peer->mr->rkey;
	if ((errno = ibv_post_send(e->qp, &wr, &bad)))
		die("post_send");
}

/* Takes what both ends have; sleeps for an event when that is nothing. */
static void reap(void)
{
	struct pollfd fd[2] = { { end[0].ch->fd, POLLIN, 0 }, { end[1].ch->fd, POLLIN, 0 } };
	struct ibv_wc wc[16];
	int i, j, n, got = 0, armed;

	for (armed = 0; armed < 2 && !got; armed++) {
		for (i = 0; i < 2; i++) {
			if (armed && ibv_req_notify_cq(end[i].cq, 0))
				die("req_notify");
			while ((n = ibv_poll_cq(end[i].cq, 16, wc)) > 0) {
				for (j = 0; j < n; j++) {
					if (wc[j].status) {
						fprintf(stderr, "spray_load: %s\n",
							ibv_wc_status_str(wc[j].status));
						exit(1);
					}
					if (wc[j].opcode & IBV_WC_RECV)
						end[i].received++;
					else
						end[i].sent++;
				}
				got += n;
			}
		}
	}
	if (got)
		return;
	if (poll(fd, 2, 30000) <= 0) {
		errno = ETIMEDOUT;
		die("completion");
	}
	for (i = 0; i < 2; i++) {
		struct ibv_cq *cq;
		void *context;

		if (!(fd[i].revents & POLLIN))
			continue;
		if (ibv_get_cq_event(end[i].ch, &cq, &context))
			die("get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
}

static void pingpong(uint64_t count)
{
	uint64_t base = end[0].received, peer = end[1].received, i;

	for (i = 0; i < count; i++) {
		post_recv(&end[0], 0);
		post_recv(&end[1], 0);
		post_send(&end[0], &end[1], IBV_WR_SEND, 0);
		while (end[1].received < peer + i + 1)
			reap();
		post_send(&end[1], &end[0], IBV_WR_SEND, 0);
		while (end[0].received < base + i + 1)
			reap();
	}
	/* the last ones' own completions */
	while (end[0].sent < end[0].received || end[1].sent < end[1].received)
		reap();
}

static void stream(enum ibv_wr_opcode op, uint64_t count, uint64_t window)
{
	uint64_t base = end[0].sent, received = end[1].received, posted = 0, ready = 0;

	while (end[0].sent - base < count) {
		while (op == IBV_WR_SEND && ready < count && ready - (end[1].received - received) < window)
			post_recv(&end[1], ready++ % window);
		while (posted < count && posted - (end[0].sent - base) < window &&
		       (op != IBV_WR_SEND || posted < ready)) {
			post_send(&end[0], &end[1], op, posted % window);
			posted++;
		}
		reap();
	}
	while (op == IBV_WR_SEND && end[1].received - received < count)
		reap();
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* What all CPUs' idle loops had, in ns; 0 where the kernel doesn't tell. */
static double idle_ns(void)
{
	FILE *f = fopen("/proc/timer_list", "r");
	char line[256];
	double sum = 0, v;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " .idle_sleeptime : %lf", &v) == 1)
			sum += v;
	if (f)
		fclose(f);
	return sum;
}

static void run(const char *op, uint64_t count, uint64_t window)
{
	if (!strcmp(op, "pingpong"))
		pingpong(count);
	else if (!strcmp(op, "write"))
		stream(IBV_WR_RDMA_WRITE, count, window);
	else if (!strcmp(op, "read"))
		stream(IBV_WR_RDMA_READ, count, window);
	else if (!strcmp(op, "send"))
		stream(IBV_WR_SEND, count, window);
	else {
		fprintf(stderr, "spray_load: no operation %s\n", op);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	const char *name[2] = { NULL, NULL };
	int gid[2] = { 0, 0 }, c;
	uint64_t count, window;
	double t, idle;

	while ((c = getopt(argc, argv, "a:b:g:")) != -1) {
		if (c == 'a')
			name[0] = optarg;
		else if (c == 'b')
			name[1] = optarg;
		else if (c != 'g' || sscanf(optarg, "%d:%d", &gid[0], &gid[1]) != 2)
			exit(2);
	}
	if (!name[0] || !name[1] || argc - optind < 3) {
		fprintf(stderr, "spray_load -a DEV -b DEV -g GID_A:GID_B OP SIZE COUNT [WINDOW]\n");
		exit(2);
	}
	size = strtoul(argv[optind + 1], NULL, 0);
	count = strtoull(argv[optind + 2], NULL, 0);
	window = argc - optind > 3 ? strtoul(argv[optind + 3], NULL, 0) : 16;
	if (!window || window > DEPTH)
		window = DEPTH;
	for (c = 0; c < 2; c++)
		open_end(&end[c], name[c], gid[c], window);
	connect_end(&end[0], &end[1]);
	connect_end(&end[1], &end[0]);
	run(argv[optind], 4 * window, window);
	t = now_ns();
	idle = idle_ns();
	run(argv[optind], count, window);
	idle = idle_ns() - idle;
	t = now_ns() - t;
	printf("%s %zu %llu %.0f %.0f\n", argv[optind], size, (unsigned long long)count,
	       (t - idle) / count, t / count);
	return 0;
}
