// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* spray_contract: opens the devices, runs the cases, speaks TAP. */
#include "contract.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define MAX_CASES 256
#define MAX_TRACK 8192

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
			printf("%-24s %s%s\n", c->name, c->desc,
			       c->flags & CF_HUGE ? " [-L]" : c->flags & CF_NAMED ? " [-t]" : "");
			continue;
		}
		if (only ? !in_list(only, c->name) : c->flags & (huge ? CF_NAMED : ~0u))
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
	devs_open(name, family, index);
	printf("1..%d\n", todo);
	while (number < todo) {
		bad += !run(run_list[number], number + 1);
		number++;
	}
	printf("# %d of %d cases failed, seed %llu\n", bad, todo, (unsigned long long)seed);
	devs_close();
	return bad ? 1 : 0;
}
