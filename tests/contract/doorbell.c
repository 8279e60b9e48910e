// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Data plus doorbell: the pattern that needs order from a network that has none.
 *
 *	spray_doorbell -s [ADDRESS]	server: offers 64 MB of memory
 *	spray_doorbell ADDRESS		client: writes into it
 *
 * The client posts, without waiting in between,
 *
 *	WRITE 16 MB, WRITE 16 MB, WRITE 16 MB, WRITE 16 MB, WRITE_WITH_IMM of nothing
 *
 * and the packets take many paths. The server's CPU takes no part in it; it only sees the immediate
 * (the doorbell) as a receive completion, and at that moment checks every byte of the 64 MB. An RC
 * connection promises that all of them are there. Each round has other data, so that what an
 *earlier round left is not taken for an arrival.
 *
 * It is an ordinary program of librdmacm and libibverbs: nothing in it knows about spraying.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MB (1000ul * 1000)
#define DATA_LEN (64 * MB)
#define WRITES 4

/* What the server tells the client when it accepts: where to write. */
struct offer {
	uint64_t addr;
	uint32_t rkey;
	uint32_t rounds;
};

/* What the server answers to a round. */
struct verdict {
	uint32_t round;
	uint32_t wrong; /* bytes, in words of 8 */
};

static void die(const char *what)
{
	fprintf(stderr, "spray_doorbell: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Word i of the data of a round. */
static uint64_t word(uint32_t round, size_t i)
{
	return (round * 0x9e3779b97f4a7c15ull) ^ (i * 0xbf58476d1ce4e5b9ull);
}

static void fill(uint64_t *data, uint32_t round)
{
	size_t i;

	for (i = 0; i < DATA_LEN / 8; i++)
		data[i] = word(round, i);
}

static size_t count_wrong(const uint64_t *data, uint32_t round)
{
	size_t i, wrong = 0;

	for (i = 0; i < DATA_LEN / 8; i++) {
		if (data[i] == word(round, i))
			continue;
		if (!wrong++)
			fprintf(stderr, "round %u: first wrong word is at byte %zu\n", round,
				i * 8);
	}
	return wrong;
}

/* Sleeps until the next completion; it must be a good one. */
static struct ibv_wc wait_completion(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	struct ibv_cq *which;
	struct ibv_wc wc;
	void *context;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		/* Arm first and look again: what came in between makes no event. */
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
		n = ibv_poll_cq(cq, 1, &wc);
		if (n)
			break;
		if (ibv_get_cq_event(channel, &which, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(which, 1);
	}
	if (n < 0)
		die("ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "spray_doorbell: work request failed: %s\n",
			ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *ec, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(ec, &ev))
		die("rdma_get_cm_event");
	if (ev->event != want) {
		fprintf(stderr, "spray_doorbell: expected %s, got %s (status %d)\n",
			rdma_event_str(want), rdma_event_str(ev->event), ev->status);
		exit(1);
	}
	return ev;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = sizeof(struct verdict) },
		.qp_type = IBV_QPT_RC,
	};

	id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
	id->send_cq_channel = ibv_create_comp_channel(id->verbs);
	if (!id->recv_cq_channel || !id->send_cq_channel)
		die("ibv_create_comp_channel");
	id->recv_cq = attr.recv_cq = ibv_create_cq(id->verbs, 16, NULL, id->recv_cq_channel, 0);
	id->send_cq = attr.send_cq = ibv_create_cq(id->verbs, 16, NULL, id->send_cq_channel, 0);
	if (!id->recv_cq || !id->send_cq)
		die("ibv_create_cq");
	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
}

static struct ibv_mr *make_memory(struct rdma_cm_id *id, size_t len, int access)
{
	void *p = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
	struct ibv_mr *mr;

	if (!p)
		die("memory");
	memset(p, 0, len);
	mr = ibv_reg_mr(id->pd, p, len, access);
	if (!mr)
		die("ibv_reg_mr");
	return mr;
}

static void post_receive(struct rdma_cm_id *id, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = sge ? 1 : 0 }, *bad;

	if (ibv_post_recv(id->qp, &wr, &bad))
		die("ibv_post_recv");
}

static int server(struct rdma_event_channel *ec, struct rdma_cm_id *listener, struct sockaddr *addr,
		  uint32_t rounds)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .rnr_retry_count = 7 };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct offer offer;
	uint32_t round, bad = 0;

	if (rdma_bind_addr(listener, addr))
		die("rdma_bind_addr");
	if (rdma_listen(listener, 1))
		die("rdma_listen");
	printf("waiting for a client on port %u\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);
	ev = next_event(ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	rdma_ack_cm_event(ev);

	make_qp(id);
	mr = make_memory(id, DATA_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	/* The doorbell takes a receive. No memory for it: the data go where the client says. */
	post_receive(id, NULL);
	offer.addr = htobe64((uintptr_t)mr->addr);
	offer.rkey = htobe32(mr->rkey);
	offer.rounds = htobe32(rounds);
	param.private_data = &offer;
	param.private_data_len = sizeof(offer);
	if (rdma_accept(id, &param))
		die("rdma_accept");
	rdma_ack_cm_event(next_event(ec, RDMA_CM_EVENT_ESTABLISHED));

	for (round = 1; round <= rounds; round++) {
		struct verdict v;
		struct ibv_sge sge = { .addr = (uintptr_t)&v, .length = sizeof(v) };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };
		struct ibv_send_wr *bad_wr;
		struct ibv_wc wc = wait_completion(id->recv_cq, id->recv_cq_channel);
		size_t wrong;

		/* The doorbell rang: by now every byte must be here. */
		wrong = count_wrong(mr->addr, round);
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || ntohl(wc.imm_data) != round)
			die("not the doorbell");
		printf("round %u: doorbell seen, %lu MB checked, %s\n", round, DATA_LEN / MB,
		       wrong ? "WRONG" : "every byte right");
		fflush(stdout);
		bad += !!wrong;
		v.round = htobe32(round);
		v.wrong = htobe32(wrong);
		post_receive(id, NULL);
		if (ibv_post_send(id->qp, &wr, &bad_wr))
			die("ibv_post_send");
		wait_completion(id->send_cq, id->send_cq_channel);
	}
	rdma_ack_cm_event(next_event(ec, RDMA_CM_EVENT_DISCONNECTED));
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	ibv_dereg_mr(mr);
	return bad ? 1 : 0;
}

static int client(struct rdma_event_channel *ec, struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_mr *mr, *answer_mr;
	struct rdma_cm_event *ev;
	struct verdict *answer;
	struct offer offer;
	uint32_t round, bad = 0;

	if (rdma_resolve_addr(id, NULL, addr, 5000))
		die("rdma_resolve_addr");
	rdma_ack_cm_event(next_event(ec, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(id, 5000))
		die("rdma_resolve_route");
	rdma_ack_cm_event(next_event(ec, RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp(id);
	mr = make_memory(id, DATA_LEN, IBV_ACCESS_LOCAL_WRITE);
	answer_mr = make_memory(id, sizeof(*answer), IBV_ACCESS_LOCAL_WRITE);
	answer = answer_mr->addr;
	if (rdma_connect(id, &param))
		die("rdma_connect");
	ev = next_event(ec, RDMA_CM_EVENT_ESTABLISHED);
	if (!ev->param.conn.private_data || ev->param.conn.private_data_len < sizeof(offer))
		die("the server offers no memory");
	memcpy(&offer, ev->param.conn.private_data, sizeof(offer));
	rdma_ack_cm_event(ev);

	for (round = 1; round <= be32toh(offer.rounds); round++) {
		struct ibv_sge answer_sge = { .addr = (uintptr_t)answer, .length = sizeof(*answer),
					      .lkey = answer_mr->lkey };
		struct ibv_sge sge[WRITES];
		struct ibv_send_wr wr[WRITES + 1] = { { 0 } }, *bad_wr;
		size_t part = DATA_LEN / WRITES;
		double start, took;
		int i;

		fill(mr->addr, round);
		post_receive(id, &answer_sge);
		for (i = 0; i < WRITES; i++) {
			sge[i].addr = (uintptr_t)mr->addr + i * part;
			sge[i].length = part;
			sge[i].lkey = mr->lkey;
			wr[i].sg_list = &sge[i];
			wr[i].num_sge = 1;
			wr[i].opcode = IBV_WR_RDMA_WRITE;
			wr[i].wr.rdma.remote_addr = be64toh(offer.addr) + i * part;
			wr[i].wr.rdma.rkey = be32toh(offer.rkey);
			wr[i].next = &wr[i + 1];
		}
		/* The doorbell: no data, no fence, no waiting. Its place in the queue is enough. */
		wr[WRITES].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr[WRITES].imm_data = htonl(round);
		wr[WRITES].send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
		wr[WRITES].wr.rdma.remote_addr = be64toh(offer.addr);
		wr[WRITES].wr.rdma.rkey = be32toh(offer.rkey);
		start = now();
		if (ibv_post_send(id->qp, wr, &bad_wr))
			die("ibv_post_send");
		wait_completion(id->send_cq, id->send_cq_channel);
		took = now() - start;

		wait_completion(id->recv_cq, id->recv_cq_channel);
		if (be32toh(answer->round) != round)
			die("answer to another round");
		printf("round %u: %lu MB in %u WRITEs and a doorbell: %.3f s, %.1f Mbit/s, %s\n",
		       round, DATA_LEN / MB, WRITES, took, DATA_LEN * 8 / took / 1e6,
		       answer->wrong ? "DATA WRONG" : "every byte right at the doorbell");
		fflush(stdout);
		bad += !!answer->wrong;
	}
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(answer_mr);
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *ai;
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id;
	const char *port = "7471", *host = NULL;
	bool is_server = false;
	uint32_t rounds = 1;
	int o;

	while ((o = getopt(argc, argv, "sp:n:h")) != -1) {
		switch (o) {
		case 's':
			is_server = true;
			break;
		case 'p':
			port = optarg;
			break;
		case 'n':
			rounds = strtoul(optarg, NULL, 0);
			break;
		default:
			goto usage;
		}
	}
	if (optind < argc)
		host = argv[optind++];
	if (optind != argc || (!is_server && !host))
		goto usage;
	if (is_server) {
		hints.ai_flags = RAI_PASSIVE;
		if (!host)
			host = "::";
	}
	if (rdma_getaddrinfo(host, port, &hints, &ai))
		die(host);
	ec = rdma_create_event_channel();
	if (!ec || rdma_create_id(ec, &id, NULL, RDMA_PS_TCP))
		die("no RDMA connection manager");
	return is_server ? server(ec, id, ai->ai_src_addr, rounds) :
			   client(ec, id, ai->ai_dst_addr);

usage:
	fprintf(stderr,
		"spray_doorbell -s [-n ROUNDS] [-p PORT] [ADDRESS]	server\n"
		"spray_doorbell [-p PORT] ADDRESS			client\n");
	return 2;
}
