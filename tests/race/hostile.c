// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Processes that do what no library does: scribble on their own rings while these are in use,
 * destroy objects by raw commands under threads that use them, twice at once, and die at any
 * moment. What they see is of no interest. The kernel lives, and each of them ends when killed.
 */
#include "race.h"

#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAPS = 32, PAIRS = 3 };

struct map {
	uint32_t *p;
	size_t words;
};

static struct map maps[MAPS];
static int n_maps;
static struct ibv_qp *qps[PAIRS * 2];
static struct ibv_cq *cqs[2];
static struct buf *mem[2];

/* The rings, by the mappings of the device files. */
static void find_maps(void)
{
	unsigned long from, to;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "/uverbs") || sscanf(line, "%lx-%lx", &from, &to) != 2 ||
		    n_maps == MAPS)
			continue;
		maps[n_maps].p = (uint32_t *)from;
		maps[n_maps++].words = (to - from) / 4;
	}
	if (f)
		fclose(f);
}

static int command(int d, uint32_t cmd, uint32_t handle)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		union {
			struct ib_uverbs_destroy_qp qp;
			struct ib_uverbs_destroy_cq cq;
			struct ib_uverbs_dereg_mr mr;
			struct ib_uverbs_dealloc_pd pd;
			struct ib_uverbs_post_send send;
		};
	} c = { 0 };
	uint64_t resp[8];
	size_t body = sizeof(c.mr);

	switch (cmd) {
	case IB_USER_VERBS_CMD_DESTROY_QP:
		body = sizeof(c.qp);
		c.qp.response = (uintptr_t)resp;
		c.qp.qp_handle = handle;
		break;
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		body = sizeof(c.cq);
		c.cq.response = (uintptr_t)resp;
		c.cq.cq_handle = handle;
		break;
	case IB_USER_VERBS_CMD_POST_SEND:
		body = sizeof(c.send);
		c.send.response = (uintptr_t)resp;
		c.send.qp_handle = handle;
		c.send.wqe_size = sizeof(struct ib_uverbs_send_wr);
		break;
	default:
		c.mr.mr_handle = handle;
	}
	c.hdr.command = cmd;
	c.hdr.in_words = (sizeof(c.hdr) + body) / 4;
	c.hdr.out_words = cmd == IB_USER_VERBS_CMD_POST_SEND || body == sizeof(c.qp) ? 1 :
			  body == sizeof(c.cq) ? 2 : 0;
	return write(ct_dev[d].ctx->cmd_fd, &c, sizeof(c.hdr) + body) < 0 ? errno : 0;
}

/* --- threads of a victim --- */

static void busy_thread(struct thread *t)
{
	size_t n = t->n, len = mem[0]->len / 4;
	struct ibv_qp *qp = qps[n];
	struct ibv_wc wc[8];

	for (;;) {
		struct buf *own = mem[n & 1], *far = mem[!(n & 1)];
		struct ibv_sge s = buf_sge(own, rnd(len), 1 + rnd(len));
		struct ibv_send_wr wr = wr_make(rnd(4) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, n, &s, 1,
						IBV_SEND_SIGNALED), *bad;
		struct ibv_recv_wr rwr = { .sg_list = &s, .num_sge = 1 }, *rbad;

		if (!rnd(5))
			wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = buf_va(far, 2 * len + rnd(len));
		wr.wr.rdma.rkey = far->mr->rkey;
		ibv_post_recv(qp, &rwr, &rbad);
		ibv_post_send(qp, &wr, &bad);
		ibv_poll_cq(qp->send_cq, 8, wc);
		if (!rnd(64))
			nap_us(rnd(500));
	}
}

static void scribble_thread(struct thread *t)
{
	(void)t;
	for (;;) {
		struct map *m = &maps[rnd(n_maps)];
		/* Half of it in the control words and first entries. */
		uint32_t at = rnd(2) ? rnd(64) : rnd(m->words), v = rnd64();

		if (!rnd(3))
			v = rnd(70);
		else if (!rnd(3))
			v = READ_ONCE(m->p[at]) ^ 1u << rnd(32);
		__atomic_store_n(&m->p[at], v, __ATOMIC_RELAXED);
		command(rnd(2), IB_USER_VERBS_CMD_POST_SEND, rnd(16));
		nap_us(rnd(8) ? 0 : rnd(300));
	}
}

static void destroy_thread(struct thread *t)
{
	static const uint32_t cmds[] = {
		IB_USER_VERBS_CMD_DESTROY_QP, IB_USER_VERBS_CMD_DESTROY_QP,
		IB_USER_VERBS_CMD_DESTROY_CQ, IB_USER_VERBS_CMD_DEREG_MR,
		IB_USER_VERBS_CMD_DEALLOC_PD,
	};

	(void)t;
	nap_us(rnd(60000));
	for (;;) {
		command(rnd(2), cmds[rnd(ARRAY_SIZE(cmds))], rnd(16));
		nap_us(rnd(3000));
	}
}

static void victim(const char *const name[2], int family, const char *gids, uint64_t s)
{
	struct conn_opt o;
	int i;

	race_seed(s);
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	devs_open(name, family, gids);
	for (i = 0; i < 2; i++) {
		mem[i] = buf_new(&ct_dev[i], 32768, ACC_ALL);
		cqs[i] = ct_cq(&ct_dev[i], 500, NULL);
	}
	o = conn_defaults();
	for (i = 0; i < 2; i++)
		o.scq[i] = o.rcq[i] = cqs[i];
	for (i = 0; i < PAIRS; i++) {
		struct conn *c = conn_new(&o);

		qps[2 * i] = c->qp[0];
		qps[2 * i + 1] = c->qp[1];
	}
	find_maps();
	for (i = 0; i < PAIRS * 2; i++)
		race_start("busy", busy_thread, i & 1, i);
	if (n_maps)
		race_start("scribbler", scribble_thread, 0, 0);
	race_start("destroyer", destroy_thread, 0, 0);
	race_start("destroyer", destroy_thread, 1, 0);
	nap_us(20000 + rnd(400000));
	/* The others are in the middle of something, or somebody has killed us by now. */
	_exit(n_maps ? 0 : 1);
}

/* --- who starts and kills them --- */

static bool reap(pid_t pid, int *status)
{
	int i;

	for (i = 0; i < 2000; i++) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		nap_us(10000);
	}
	return false;
}

int hostile(const char *const name[2], int family, const char *gids, unsigned int seconds,
	    uint64_t seed)
{
	uint64_t until = ct_now_ns() + seconds * 1000000000ull;
	unsigned int n = 0, killed = 0, odd = 0;
	bool stuck = false;

	printf("TAP version 13\n1..2\n# seed %llu\n", (unsigned long long)seed);
	while (ct_now_ns() < until && !stuck) {
		uint64_t s = rnd64();
		pid_t pid = fork();
		int status = 0;

		if (!pid)
			victim(name, family, gids, s);
		if (rnd(2)) {
			nap_us(rnd(600000));
			kill(pid, SIGKILL);
		}
		stuck = pid < 0 || !reap(pid, &status);
		killed += WIFSIGNALED(status);
		odd += WIFEXITED(status) && WEXITSTATUS(status);
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			printf("# a victim died by signal %d\n", WTERMSIG(status));
		n++;
	}
	printf("%s 1 - processes that break everything end when they shall # %u, %u killed\n",
	       stuck ? "not ok" : "ok", n, killed);
	/* Some die in their own set-up; if all do, nothing was tried. */
	printf("%s 2 - most of them got to work # %u did not\n", odd * 2 < n ? "ok" : "not ok",
	       odd);
	return stuck || odd * 2 >= n;
}
