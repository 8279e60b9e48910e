// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* spray_contract: opens the devices, runs the cases, speaks TAP. */
#include "contract.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define MAX_CASES 256
#define MAX_TRACK 8192

struct dev ct_dev[2];
unsigned int ct_deadline_s = 60;
bool ct_quick, ct_no_events;
volatile bool ct_stop;

static struct ct_case *cases[MAX_CASES];
static int n_cases;

static struct {
	void (*undo)(void *);
	void *obj;
} tracked[MAX_TRACK];
static int n_tracked;

static uint64_t seed, rng;
static unsigned int case_limit_s = 600;

static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread sigjmp_buf *fail_jump;
static bool failed, skipped;
static char fail_where[128], fail_text[1024], doing[256];
static const char *case_name = "";

/* ---- the case table ------------------------------------------------------------------------- */

void ct_register(struct ct_case *c)
{
	if (n_cases == MAX_CASES)
		abort();
	c->order = n_cases;
	cases[n_cases++] = c;
}

void ct_track(void (*undo)(void *), void *obj)
{
	if (n_tracked == MAX_TRACK)
		ct_fail("a case makes too many objects");
	tracked[n_tracked].undo = undo;
	tracked[n_tracked++].obj = obj;
}

void ct_untrack(void *obj)
{
	int i;

	for (i = n_tracked - 1; i >= 0; i--) {
		if (tracked[i].obj != obj)
			continue;
		memmove(&tracked[i], &tracked[i + 1], (--n_tracked - i) * sizeof(tracked[0]));
		return;
	}
}

int ct_mark(void)
{
	return n_tracked;
}

void ct_release(int mark)
{
	while (n_tracked > mark) {
		n_tracked--;
		tracked[n_tracked].undo(tracked[n_tracked].obj);
	}
}

/* ---- failing -------------------------------------------------------------------------------- */

void ct_fail_at(const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;

	pthread_mutex_lock(&fail_lock);
	if (!failed) {
		failed = true;
		snprintf(fail_where, sizeof(fail_where), "%s:%d", base ? base + 1 : file, line);
		va_start(ap, fmt);
		vsnprintf(fail_text, sizeof(fail_text), fmt, ap);
		va_end(ap);
	}
	ct_stop = true;
	pthread_mutex_unlock(&fail_lock);
	if (!fail_jump) {
		printf("Bail out! %s:%d: %s\n", file, line, fail_text);
		exit(2);
	}
	siglongjmp(*fail_jump, 1);
}

void ct_skip(const char *fmt, ...)
{
	va_list ap;

	skipped = true;
	va_start(ap, fmt);
	vsnprintf(fail_text, sizeof(fail_text), fmt, ap);
	va_end(ap);
	siglongjmp(*fail_jump, 1);
}

void ct_doing(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(doing, sizeof(doing), fmt, ap);
	va_end(ap);
}

void ct_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

/* A call that never returns (or a case that never ends) must not hang the whole run. */
static void on_alarm(int sig)
{
	static const char t[] = "Bail out! stuck in the case ";

	(void)sig;
	if (write(1, t, sizeof(t) - 1) < 0 || write(1, case_name, strlen(case_name)) < 0 ||
	    write(1, ": ", 2) < 0 || write(1, doing, strlen(doing)) < 0 || write(1, "\n", 1) < 0)
		_exit(3);
	_exit(3);
}

/* ---- chance --------------------------------------------------------------------------------- */

static uint64_t mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Threads may call it; the values they get then depend on their order. */
uint64_t rnd64(void)
{
	return mix64(__atomic_add_fetch(&rng, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED));
}

/* ---- threads -------------------------------------------------------------------------------- */

struct ct_thread {
	pthread_t id;
	void (*fn)(void *);
	void *arg;
	bool joined;
};

static void *thread_main(void *arg)
{
	struct ct_thread *t = arg;
	sigjmp_buf jump;

	fail_jump = &jump;
	if (!sigsetjmp(jump, 0))
		t->fn(t->arg);
	return NULL;
}

static void thread_undo(void *arg)
{
	struct ct_thread *t = arg;

	ct_stop = true;
	if (!t->joined)
		pthread_join(t->id, NULL);
	free(t);
}

struct ct_thread *ct_thread_start(void (*fn)(void *), void *arg)
{
	struct ct_thread *t = calloc(1, sizeof(*t));

	CHECK(t, "out of memory");
	t->fn = fn;
	t->arg = arg;
	CHECK(!pthread_create(&t->id, NULL, thread_main, t), "cannot make a thread");
	ct_track(thread_undo, t);
	return t;
}

void ct_thread_join(struct ct_thread *t)
{
	pthread_join(t->id, NULL);
	t->joined = true;
	if (failed)
		siglongjmp(*fail_jump, 1);
}

/* ---- devices -------------------------------------------------------------------------------- */

static bool gid_is_v4(const union ibv_gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(g->raw, mapped, 12);
}

static bool gid_is_link_local(const union ibv_gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}

/* 0 no use, else the higher the better. */
static int gid_rank(const struct ibv_gid_entry *e, int family)
{
	bool v4 = gid_is_v4(&e->gid);

	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (family == 4)
		return v4 ? 2 : 0;
	if (v4)
		return 0;
	return gid_is_link_local(&e->gid) ? 1 : 2;
}

static bool pick_gid(struct dev *d, int family)
{
	int best = 0, i;

	for (i = 0; i < d->port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		int rank;

		if (ibv_query_gid_ex(d->ctx, 1, i, &e, 0))
			continue;
		rank = gid_rank(&e, family);
		if (rank <= best)
			continue;
		best = rank;
		d->gid = e.gid;
		d->gid_index = i;
	}
	return best;
}

static void open_dev(struct dev *d, const char *name)
{
	struct ibv_device **list;
	int n, i;

	snprintf(d->name, sizeof(d->name), "%s", name);
	list = ibv_get_device_list(&n);
	if (!list)
		ct_fail("no list of RDMA devices: %s", strerror(errno));
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			break;
	if (i == n)
		ct_fail("no RDMA device %s with a provider that can drive it", name);
	d->ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!d->ctx)
		ct_fail("cannot open %s: %s", name, strerror(errno));
	if (fcntl(d->ctx->async_fd, F_SETFL, fcntl(d->ctx->async_fd, F_GETFL) | O_NONBLOCK))
		ct_fail("async fd of %s: %s", name, strerror(errno));
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd)
		ct_fail("alloc_pd on %s: %s", name, strerror(errno));
	if (ibv_query_device(d->ctx, &d->attr))
		ct_fail("query_device of %s", name);
	if (ibv_query_port(d->ctx, 1, &d->port))
		ct_fail("query_port of %s", name);
	if (d->port.state != IBV_PORT_ACTIVE)
		ct_fail("port of %s is not active", name);
}

static void pick_gids(int family, const char *index)
{
	char text[INET6_ADDRSTRLEN];
	int i;

	if (index) {
		char *end;

		ct_dev[0].gid_index = ct_dev[1].gid_index = strtoul(index, &end, 0);
		if (*end == ':')
			ct_dev[1].gid_index = strtoul(end + 1, NULL, 0);
		for (i = 0; i < 2; i++)
			if (ibv_query_gid(ct_dev[i].ctx, 1, ct_dev[i].gid_index, &ct_dev[i].gid))
				ct_fail("%s has no GID %u", ct_dev[i].name, ct_dev[i].gid_index);
	} else {
		bool ok = false;

		if (family != 6)
			ok = pick_gid(&ct_dev[0], 4) && pick_gid(&ct_dev[1], 4);
		if (!ok && family != 4)
			ok = pick_gid(&ct_dev[0], 6) && pick_gid(&ct_dev[1], 6);
		if (!ok)
			ct_fail("the devices have no RoCE v2 GIDs of one family");
	}
	for (i = 0; i < 2; i++) {
		inet_ntop(AF_INET6, ct_dev[i].gid.raw, text, sizeof(text));
		ct_diag("%c = %s, GID %u %s, active MTU %zu", 'A' + i, ct_dev[i].name,
			ct_dev[i].gid_index, text, mtu_bytes(ct_dev[i].port.active_mtu));
		ct_dev[i].mtu = min_t(int, ct_dev[0].port.active_mtu, ct_dev[1].port.active_mtu);
	}
}

/* ---- running -------------------------------------------------------------------------------- */

static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name);
	const char *p = list;

	while (p && *p) {
		size_t len = strcspn(p, ",");

		/* A trailing * takes every case that starts so. */
		if (len && p[len - 1] == '*' ? !strncmp(p, name, len - 1) :
					       len == n && !strncmp(p, name, n))
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

static bool run(struct ct_case *c, int number)
{
	uint64_t start = ct_now_ns();
	sigjmp_buf jump;
	const char *p;
	double s;

	case_name = c->name;
	failed = skipped = false;
	ct_stop = false;
	doing[0] = 0;
	rng = seed;
	for (p = c->name; *p; p++)
		rng = mix64(rng ^ (uint8_t)*p);
	fail_jump = &jump;
	alarm(c->flags & CF_HUGE ? 0 : case_limit_s);
	if (!sigsetjmp(jump, 0))
		c->fn();
	while (n_tracked) {
		n_tracked--;
		if (!sigsetjmp(jump, 0))
			tracked[n_tracked].undo(tracked[n_tracked].obj);
	}
	alarm(0);
	events_drain(&ct_dev[0]);
	events_drain(&ct_dev[1]);
	s = (ct_now_ns() - start) / 1e9;
	if (failed) {
		printf("not ok %d - %s # %.2f s\n  ---\n  at: %s\n  message: %s\n", number, c->name,
		       s, fail_where, fail_text);
		if (doing[0])
			printf("  doing: %s\n", doing);
		printf("  seed: %llu\n  ...\n", (unsigned long long)seed);
	} else if (skipped) {
		printf("ok %d - %s # SKIP %s\n", number, c->name, fail_text);
	} else {
		printf("ok %d - %s # %.2f s\n", number, c->name, s);
	}
	fflush(stdout);
	return !failed;
}

static void usage(FILE *f)
{
	fprintf(f,
		"spray_contract -a DEVICE -b DEVICE [options]\n"
		"  -a, -b NAME   the two RDMA devices (may be the same one)\n"
		"  -4 | -6       GIDs of this family (default: IPv4, else IPv6)\n"
		"  -g I[:J]      these GID indexes\n"
		"  -t C[,C...]   only these cases; C* takes all that start so\n"
		"  -x C[,C...]   without these cases\n"
		"  -L            with the cases of 2 GiB too\n"
		"  -l            list the cases\n"
		"  -q            fewer rounds\n"
		"  -E            do not ask for asynchronous events\n"
		"  -s SEED       repeat a run (default: from the clock)\n"
		"  -w SECONDS    longest wait for one completion (default 60)\n"
		"  -W SECONDS    longest case (default 600)\n");
}

int main(int argc, char **argv)
{
	const char *name[2] = { NULL, NULL }, *only = NULL, *without = NULL, *index = NULL;
	bool list = false, huge = false;
	int family = 0, bad = 0, todo = 0, number = 0, i, o;
	struct rlimit inf = { RLIM_INFINITY, RLIM_INFINITY };
	struct ct_case *run_list[MAX_CASES];

	seed = ct_now_ns() % 1000000007;
	while ((o = getopt(argc, argv, "a:b:g:46s:t:x:qElLw:W:h")) != -1) {
		switch (o) {
		case 'a':
			name[0] = optarg;
			break;
		case 'b':
			name[1] = optarg;
			break;
		case 'g':
			index = optarg;
			break;
		case '4':
		case '6':
			family = o - '0';
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			only = optarg;
			break;
		case 'x':
			without = optarg;
			break;
		case 'q':
			ct_quick = true;
			break;
		case 'E':
			ct_no_events = true;
			break;
		case 'l':
			list = true;
			break;
		case 'L':
			huge = true;
			break;
		case 'w':
			ct_deadline_s = strtoul(optarg, NULL, 0);
			break;
		case 'W':
			case_limit_s = strtoul(optarg, NULL, 0);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	for (i = 0; i < n_cases; i++) {
		struct ct_case *c = cases[i];

		if (list) {
			printf("%-24s %s%s\n", c->name, c->desc, c->flags & CF_HUGE ? " [-L]" : "");
			continue;
		}
		if (only ? !in_list(only, c->name) : c->flags & CF_HUGE && !huge)
			continue;
		if (in_list(without, c->name))
			continue;
		run_list[todo++] = c;
	}
	if (list)
		return 0;
	if (!name[0] || !name[1] || optind != argc) {
		usage(stderr);
		return 2;
	}
	if (!todo) {
		fprintf(stderr, "no such case\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_MEMLOCK, &inf);
	signal(SIGALRM, on_alarm);
	printf("TAP version 13\n# seed %llu%s\n", (unsigned long long)seed,
	       ct_quick ? ", quick" : "");
	for (i = 0; i < 2; i++)
		open_dev(&ct_dev[i], name[i]);
	pick_gids(family, index);
	printf("1..%d\n", todo);
	while (number < todo) {
		bad += !run(run_list[number], number + 1);
		number++;
	}
	printf("# %d of %d cases failed, seed %llu\n", bad, todo, (unsigned long long)seed);
	for (i = 0; i < 2; i++) {
		ibv_dealloc_pd(ct_dev[i].pd);
		ibv_close_device(ct_dev[i].ctx);
	}
	return bad ? 1 : 0;
}
