// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * spray_objects: objects of every kind, made and destroyed by the thousand, in turn and many at
 * once; then memory must be where it was.
 *
 * Each kind is warmed up, the kernel's caches are counted, COUNT objects come and go in turn, COUNT
 * more in heaps, and the caches are counted again. A kind leaks if any slab cache has grown by a
 * quarter of COUNT objects (and NOISE_OBJS), if vmalloc space has by a page for every fourth, if as
 * much memory is missing, or if pages are still pinned. Freeing may lag (RCU, work queues): it has
 * SETTLE_S to catch up. The cache of vmap_area is not looked at: unmapped areas lie there until 32 MiB
 * per doubling of CPUs have come together, thousands of them; a leaked one shows in VmallocUsed.
 *
 * With -F (kernels with fault injection) instead each allocation on the way to an object, and
 * each copy from and to user space, fails once.
 */
#include "../contract/contract.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../contract/internal.h"

enum { SETTLE_S = 20, CACHES = 512, NOISE_KIB = 8192, NOISE_OBJS = 600 };

unsigned int ct_deadline_s = 60;
bool ct_quick, ct_no_events;
volatile bool ct_stop;

static unsigned int count = 64000, together = 2000;
static const char *devs[2];
static uint8_t page[4096] __attribute__((aligned(4096)));

void ct_fail_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("Bail out! %s:%d: ", file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

uint64_t rnd64(void)
{
	static uint64_t x = 1;

	x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x >> 17;
}

/* --- kinds --- */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void *pd_make(void)
{
	return ibv_alloc_pd(ctx);
}

static int pd_end(void *o)
{
	return ibv_dealloc_pd(o);
}

static void *mr_make(void)
{
	return ibv_reg_mr(pd, page, sizeof(page), ACC_ALL);
}

static int mr_end(void *o)
{
	return ibv_dereg_mr(o);
}

static void *cq_make(void)
{
	return ibv_create_cq(ctx, 10, NULL, NULL, 0);
}

static int cq_end(void *o)
{
	return ibv_destroy_cq(o);
}

static void *qp_make(void)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
	};

	return ibv_create_qp(pd, &a);
}

static int qp_end(void *o)
{
	return ibv_destroy_qp(o);
}

static void *ah_make(void)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = {
			.dgid = ct_dev[1].gid,
			.sgid_index = ct_dev[0].gid_index,
			.hop_limit = 64,
		},
	};

	return ibv_create_ah(pd, &a);
}

static int ah_end(void *o)
{
	return ibv_destroy_ah(o);
}

static void *srq_make(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(pd, &a);
}

static int srq_end(void *o)
{
	return ibv_destroy_srq(o);
}

static void *mw1_make(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static void *mw2_make(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int mw_end(void *o)
{
	return ibv_dealloc_mw(o);
}

static void *channel_make(void)
{
	return ibv_create_comp_channel(ctx);
}

static int channel_end(void *o)
{
	return ibv_destroy_comp_channel(o);
}

static void *context_make(void)
{
	return ibv_open_device(ctx->device);
}

static int context_end(void *o)
{
	return ibv_close_device(o);
}

/* A pair of connected QPs. */
static void *conn_make(void)
{
	struct conn_opt o = conn_defaults();
	static struct ibv_cq *cqs[2];
	int i;

	o.sq = o.rq = 4;
	o.send_sge = o.recv_sge = 1;
	for (i = 0; i < 2; i++) {
		if (!cqs[i])
			cqs[i] = ct_cq(&ct_dev[i], 8192, NULL);
		o.scq[i] = o.rcq[i] = cqs[i];
	}
	return conn_new(&o);
}

static int conn_end(void *arg)
{
	struct conn *c = arg;

	conn_destroy_qp(c, 0);
	conn_destroy_qp(c, 1);
	free(c);
	return 0;
}

/* All at once: a message over each. */
static void conn_use(void **o, unsigned int n)
{
	static struct buf *b[2];
	unsigned int i;
	int k;

	for (k = 0; k < 2; k++)
		if (!b[k])
			b[k] = buf_new(&ct_dev[k], 4096, ACC_ALL);
	for (i = 0; i < n; i++) {
		struct conn *c = o[i];
		struct ibv_sge s = buf_sge(b[0], 0, 64), r = buf_sge(b[1], 64, 64);
		struct ibv_send_wr wr = wr_make(IBV_WR_SEND, i, &s, 1, IBV_SEND_SIGNALED);

		pat_fill(b[0]->p, 64, i + 1, 0);
		post_recv(c->qp[1], i, &r, 1);
		post_send(c->qp[0], &wr);
		cq_expect(c->rcq[1], c->qp[1], i, IBV_WC_SUCCESS);
		pat_check(b[1]->p + 64, 64, i + 1, 0, "message");
		cq_expect(c->scq[0], c->qp[0], i, IBV_WC_SUCCESS);
	}
}

/* @div: a kind whose objects cost much is made less often. @heap: most at once, 0: -C. */
static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*end)(void *o);
	unsigned int div, heap;
	void (*use)(void **o, unsigned int n);
} kinds[] = {
	{ "PD", pd_make, pd_end, 1, 64000, NULL },
	{ "MR", mr_make, mr_end, 1, 32000, NULL },
	{ "CQ", cq_make, cq_end, 1, 16000, NULL },
	{ "QP", qp_make, qp_end, 1, 8000, NULL },
	{ "SRQ", srq_make, srq_end, 1, 8000, NULL },
	{ "MW 1", mw1_make, mw_end, 1, 32000, NULL },
	{ "MW 2", mw2_make, mw_end, 1, 32000, NULL },
	{ "AH", ah_make, ah_end, 1, 64000, NULL },
	{ "comp channel", channel_make, channel_end, 1, 4000, NULL },
	{ "context", context_make, context_end, 1, 500, NULL },
	{ "connected pair", conn_make, conn_end, 2, 0, conn_use },
};

/* --- counting --- */

struct cache {
	char name[64];
	unsigned long objs;
};

struct counts {
	struct cache cache[CACHES];
	int n;
	long vmalloc_kib, avail_kib, pinned_kib;
};

static long number_in(const char *file, const char *key)
{
	char line[256];
	long v = 0;
	FILE *f = fopen(file, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			v = atol(line + strlen(key));
	if (f)
		fclose(f);
	return v;
}

static void take(struct counts *c)
{
	char line[512];
	FILE *f = fopen("/proc/slabinfo", "r");

	c->n = 0;
	while (f && fgets(line, sizeof(line), f))
		if (line[0] != '#' && c->n < CACHES &&
		    sscanf(line, "%63s %lu", c->cache[c->n].name, &c->cache[c->n].objs) == 2 &&
		    strcmp(c->cache[c->n].name, "vmap_area"))
			c->n++;
	if (f)
		fclose(f);
	c->vmalloc_kib = number_in("/proc/meminfo", "VmallocUsed:");
	c->avail_kib = number_in("/proc/meminfo", "MemAvailable:");
	c->pinned_kib = number_in("/proc/self/status", "VmPin:");
}

/* What @n objects have left behind, as text; "" if nothing. */
static void compare(const struct counts *a, const struct counts *b, unsigned int n, char *text,
		    size_t len)
{
	long kib = (long)n + NOISE_KIB;	/* a page for every fourth, and noise */
	int i, k;

	text[0] = 0;
	for (i = 0; i < b->n; i++) {
		for (k = 0; k < a->n && strcmp(a->cache[k].name, b->cache[i].name); k++)
			;
		if (k < a->n && (long)(b->cache[i].objs - a->cache[k].objs) >=
					max_t(long, n / 4, NOISE_OBJS))
			snprintf(text + strlen(text), len - strlen(text), " %s +%ld objects;",
				 b->cache[i].name, (long)(b->cache[i].objs - a->cache[k].objs));
	}
	if (b->vmalloc_kib - a->vmalloc_kib > (long)n)
		snprintf(text + strlen(text), len - strlen(text), " vmalloc +%ld KiB;",
			 b->vmalloc_kib - a->vmalloc_kib);
	if (a->avail_kib - b->avail_kib > kib)
		snprintf(text + strlen(text), len - strlen(text), " %ld KiB missing;",
			 a->avail_kib - b->avail_kib);
	if (b->pinned_kib > a->pinned_kib)
		snprintf(text + strlen(text), len - strlen(text), " %ld KiB pinned;",
			 b->pinned_kib);
}

/* --- allocations that fail --- */

static int fail_fd = -1;

/* The @n-th allocation or copy from now on fails; 0: none. */
static void fail_nth(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n), i;

	if (fail_fd < 0)
		fail_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	/* What fails may be this very write. */
	for (i = 0; i < 2; i++)
		if (pwrite(fail_fd, text, len, 0) == len)
			return;
	ct_fail("fail-nth: %s", strerror(errno));
}

/* Whether none has failed since fail_nth(). */
static bool fail_left(void)
{
	char text[16] = "";

	return pread(fail_fd, text, sizeof(text) - 1, 0) < 0 || atoi(text);
}

/* What changes an object that exists: all of it or nothing. */
static void *resized_make(void)
{
	struct ibv_cq *c = cq_make();

	if (c && ibv_resize_cq(c, 100)) {
		ibv_destroy_cq(c);
		return NULL;
	}
	return c;
}

static void *rereg_make(void)
{
	static uint8_t other[4096] __attribute__((aligned(4096)));
	struct ibv_mr *mr = mr_make();

	if (mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, sizeof(other), 0)) {
		ibv_dereg_mr(mr);
		return NULL;
	}
	return mr;
}

/* A QP to RTS, as far as it gets. */
static void *rts_make(void)
{
	struct ibv_qp *qp = qp_make();
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACC_ALL,
		.path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 4, .max_rd_atomic = 4,
		.timeout = 14,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = ct_dev[1].gid,
				.sgid_index = ct_dev[0].gid_index,
				.hop_limit = 64,
			},
		},
	};

	if (!qp)
		return NULL;
	a.dest_qp_num = qp->qp_num;
	ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a.qp_state = IBV_QPS_RTR;
	ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return qp;
}

/* The first allocation fails, then the second, ... until none is left to fail. */
static bool faults(const struct kind *k, int number)
{
	int n, made = 0, refused = 0;
	bool left = false;
	void *o;

	for (n = 1; n < 2000 && !left; n++) {
		fail_nth(n);
		o = k->make();
		left = fail_left();
		fail_nth(0);
		made += !!o;
		refused += !o;
		if (o && k->end(o)) {
			printf("not ok %d - %s: the end of one fails\n", number, k->name);
			return false;
		}
	}
	printf("%sok %d - %s: each allocation fails once # %d refused, %d made all the same\n",
	       left && refused ? "" : "not ", number, k->name, refused, made);
	return left && refused;
}

static const struct kind changed[] = {
	{ "QP to RTS", rts_make, qp_end, 1, 1, NULL },
	{ "CQ resize", resized_make, cq_end, 1, 1, NULL },
	{ "rereg_mr", rereg_make, mr_end, 1, 1, NULL },
};

static bool wanted(const char *only, const struct kind *k)
{
	return !only || !strcmp(only, k->name);
}

static int all_faults(const char *only)
{
	int bad = 0, n = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!kinds[i].use && wanted(only, &kinds[i]))
			bad += !faults(&kinds[i], ++n);
	for (i = 0; i < ARRAY_SIZE(changed); i++)
		if (wanted(only, &changed[i]))
			bad += !faults(&changed[i], ++n);
	printf("1..%d\n", n);
	return bad != 0;
}

/* --- running --- */

static void in_turn(const struct kind *k, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		void *o = k->make();
		int err;

		if (!o)
			ct_fail("%s number %u: %s", k->name, i, strerror(errno));
		err = k->end(o);
		if (err)
			ct_fail("end of %s number %u: %s", k->name, i, strerror(err));
	}
}

/* Destroyed from both ends by turns, so that tables are not only stacks. */
static void heap(const struct kind *k, unsigned int n)
{
	void **o = calloc(n, sizeof(*o));
	unsigned int i;

	for (i = 0; i < n; i++) {
		o[i] = k->make();
		if (!o[i])
			ct_fail("%s number %u at once: %s", k->name, i, strerror(errno));
	}
	if (k->use)
		k->use(o, n);
	for (i = 0; i < n; i++)
		if (k->end(o[i & 1 ? n - 1 - i / 2 : i / 2]))
			ct_fail("end of one of %u %ss", n, k->name);
	free(o);
}

static bool test(const struct kind *k, int number)
{
	unsigned int n = max_t(unsigned int, count / k->div, 64);
	unsigned int most = min_t(unsigned int, k->heap ? k->heap : together / 2, n), left;
	static struct counts before, after;
	uint64_t start = ct_now_ns(), until;
	char text[512];

	if (!k->heap)
		most = together / 2;
	in_turn(k, min_t(unsigned int, n / 8 + 16, 1000));
	heap(k, most);
	usleep(200000);
	take(&before);
	in_turn(k, n);
	for (left = n; left; left -= min_t(unsigned int, left, most))
		heap(k, min_t(unsigned int, left, most));
	until = ct_now_ns() + SETTLE_S * 1000000000ull;
	do {
		take(&after);
		compare(&before, &after, n, text, sizeof(text));
		if (text[0])
			usleep(500000);
	} while (text[0] && ct_now_ns() < until);
	printf("%sok %d - %s: %u in turn, %u in heaps of %u, and memory is back # %.1f s\n",
	       text[0] ? "not " : "", number, k->name, n, n, most, (ct_now_ns() - start) / 1e9);
	if (text[0])
		printf("#  %s\n", text);
	return !text[0];
}

int main(int argc, char **argv)
{
	struct rlimit inf = { RLIM_INFINITY, RLIM_INFINITY }, files = { 20000, 20000 };
	const char *only = NULL, *gids = NULL;
	int bad = 0, todo = 0, number = 0, o;
	bool fail = false;
	unsigned int i;

	while ((o = getopt(argc, argv, "a:b:g:n:C:k:F")) != -1) {
		switch (o) {
		case 'a':
		case 'b':
			devs[o - 'a'] = optarg;
			break;
		case 'g':
			gids = optarg;
			break;
		case 'n':
			count = strtoul(optarg, NULL, 0);
			break;
		case 'C':
			together = strtoul(optarg, NULL, 0);
			break;
		case 'k':
			only = optarg;
			break;
		case 'F':
			fail = true;
			break;
		default:
			devs[0] = NULL;
		}
	}
	if (!devs[0] || !devs[1]) {
		fprintf(stderr, "spray_objects -a DEVICE -b DEVICE [-g I[:J]] [-n COUNT] "
			"[-C QPS_CONNECTED_AT_ONCE] [-k KIND] [-F (allocations fail)]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_MEMLOCK, &inf);
	setrlimit(RLIMIT_NOFILE, &files);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		todo += wanted(only, &kinds[i]);
	printf("TAP version 13\n");
	if (!fail)
		printf("1..%d\n", todo);
	devs_open(devs, 0, gids);
	ctx = ct_dev[0].ctx;
	pd = ct_dev[0].pd;
	cq = ct_cq(&ct_dev[0], 100, NULL);
	if (fail)
		return all_faults(only);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (wanted(only, &kinds[i]))
			bad += !test(&kinds[i], ++number);
	return bad != 0;
}
