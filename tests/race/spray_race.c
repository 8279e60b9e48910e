// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* spray_race: the threads, the failures, TAP. What is raced and checked: race.h. */
#include "race.h"

#include <getopt.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../contract/internal.h"

enum { THREADS_MAX = 64, DIAGS = 12, CHURN_ACCESS = ACC_ALL };

struct link *links[LINKS_MAX];
int n_links;
struct cqbox *boxes[LINKS_MAX * 2 + 8];
int n_boxes;
uint32_t slot_size = 8192;
bool quit, pollers;

/* what lib.c wants */
unsigned int ct_deadline_s = WAIT_S;
bool ct_quick, ct_no_events;
volatile bool ct_stop;

static bool over;	/* pollers leave */
static uint64_t seed;
static struct ibv_comp_channel *channel[2];

/* --- failures --- */

static struct thread threads[THREADS_MAX];
static int n_threads;
static __thread struct thread *self;
static struct thread main_thread = { .name = "main" };

static const char *const prop_names[P_NUM] = {
	[P_COMP] = "each completion once and its own, all there after ERR",
	[P_DATA] = "data in place at completions",
	[P_TAIL] = "all in place at a WRITE's last byte",
	[P_READ] = "READs bring what memory held",
	[P_ATOMIC] = "atomics once and in order",
	[P_ONCE] = "nothing written after completions, nor beside",
	[P_SILENCE] = "nothing written after ERR, RESET, destroy, dereg",
	[P_EVENT] = "sleepers are woken",
	[P_LIVE] = "calls succeed, links drain",
};

static unsigned long counts[P_NUM];
static bool failed[P_NUM];
static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;
static char diags[DIAGS][400];
static int n_diags;

void race_count(enum prop p)
{
	__atomic_fetch_add(&counts[p], 1, __ATOMIC_RELAXED);
}

void race_doing(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(self->doing, sizeof(self->doing), fmt, ap);
	va_end(ap);
}

static void note_failure(enum prop p, const char *text)
{
	pthread_mutex_lock(&fail_lock);
	/* What comes after the first may only be its echo. */
	if (!n_diags)
		failed[p] = true;
	if (n_diags < DIAGS)
		snprintf(diags[n_diags++], sizeof(diags[0]), "%s: %s%s%s", self->name, text,
			 self->doing[0] ? "; doing: " : "", self->doing);
	ct_stop = true;
	pthread_mutex_unlock(&fail_lock);
}

void race_fail(enum prop p, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	note_failure(p, text);
}

static int report(void)
{
	int p, i, bad = 0;

	for (p = 0; p < P_NUM; p++) {
		bool none = !counts[p] && !ct_stop && p != P_LIVE;

		bad += failed[p] || none;
		printf("%s %d - %s # %lu checks\n", failed[p] || none ? "not ok" : "ok", p + 1,
		       prop_names[p], counts[p]);
		if (none)
			printf("#   never looked at\n");
	}
	for (i = 0; i < n_diags; i++)
		printf("# %s%s\n", i ? "then " : "", diags[i]);
	if (bad)
		printf("# repeat with -s %llu\n", (unsigned long long)seed);
	fflush(stdout);
	return bad ? 1 : 0;
}

/* lib.c's checks end the run: what they guard is broken. */
void ct_fail_at(const char *file, int line, const char *fmt, ...)
{
	char text[256], where[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(where, sizeof(where), " (%s:%d)", file, line);
	strncat(text, where, sizeof(text) - strlen(text) - 1);
	note_failure(P_LIVE, text);
	report();
	_exit(1);
}

static void on_alarm(int sig)
{
	int i;

	(void)sig;
	printf("Bail out! stuck; seed %llu\n", (unsigned long long)seed);
	printf("# main: %s\n", main_thread.doing);
	for (i = 0; i < n_threads; i++)
		printf("# %s: %s\n", threads[i].name, threads[i].doing);
	for (i = 0; i < n_diags; i++)
		printf("# %s\n", diags[i]);
	fflush(stdout);
	_exit(3);
}

/* --- chance, time, memory --- */

static uint64_t mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Each thread has numbers of its own. */
uint64_t rnd64(void)
{
	return mix64(self->rng += 0x9e3779b97f4a7c15ull);
}

void race_seed(uint64_t s)
{
	self = &main_thread;
	seed = s;
	self->rng = mix64(s);
}

void nap_us(unsigned int us)
{
	struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

	if (us)
		nanosleep(&ts, NULL);
	else
		sched_yield();
}

bool filled(const void *p, size_t len, uint8_t v)
{
	const uint8_t *b = p;

	return !len || (b[0] == v && !memcmp(b, b + 1, len - 1));
}

/* --- queues --- */

struct cqbox *box_new(int d, bool evt)
{
	struct cqbox *b = calloc(1, sizeof(*b));
	pthread_rwlockattr_t a;

	CHECK(b, "out of memory");
	b->d = d;
	b->evt = evt;
	b->ch = channel[d];
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&b->lock, &a);
	boxes[n_boxes++] = b;
	return b;
}

void box_open(struct cqbox *b, int cqe)
{
	b->cq = ibv_create_cq(ct_dev[b->d].ctx, cqe, b, b->ch, 0);
	if (!b->cq)
		race_fail(P_LIVE, "create_cq: %s", strerror(errno));
	else if (b->evt && ibv_req_notify_cq(b->cq, 0))
		race_fail(P_LIVE, "req_notify_cq fails");
}

/* Lock held for reading. */
static int poll_box(struct cqbox *b, int most)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(b->cq, min_t(int, most, 16), wc), i;

	if (n < 0)
		race_fail(P_COMP, "poll_cq: %d", n);
	for (i = 0; i < n; i++)
		take_completion(b, &wc[i]);
	return n;
}

/* --- threads --- */

static void poster(struct thread *t)
{
	while (!quit && !ct_stop) {
		struct end *e = &links[rnd(n_links)]->end[rnd(2)];

		if (e->d != t->d || pthread_mutex_trylock(&e->post)) {
			sched_yield();
			continue;
		}
		race_doing("post to link %d end %d", e->link->number, e->idx);
		if (e->open) {
			post_recvs(e);
			post_sends(e, false);
		}
		pthread_mutex_unlock(&e->post);
		if (!rnd(8))
			nap_us(rnd(300));
	}
}

static void poller(struct thread *t)
{
	while (!over && !ct_stop) {
		struct cqbox *b = boxes[rnd(n_boxes)];
		int n = 0;

		if (b->d == t->d && !b->evt) {
			pthread_rwlock_rdlock(&b->lock);
			if (b->cq) {
				if (!rnd(16))
					ibv_req_notify_cq(b->cq, rnd(2));
				n = poll_box(b, 1 + rnd(16));
			}
			pthread_rwlock_unlock(&b->lock);
		}
		if (n <= 0)
			nap_us(rnd(4) ? 0 : rnd(300));
	}
}

/* Was a completion slept through? It may have come this moment, then its event comes, too. */
static void overslept(int d)
{
	struct pollfd p = { .fd = channel[d]->fd, .events = POLLIN };
	struct ibv_wc wc;
	int i;

	for (i = 0; i < n_boxes; i++) {
		struct cqbox *b = boxes[i];

		if (b->d != d || !b->evt)
			continue;
		pthread_rwlock_rdlock(&b->lock);
		if (b->cq && ibv_poll_cq(b->cq, 1, &wc) == 1) {
			if (poll(&p, 1, 2000) <= 0)
				race_fail(P_EVENT, "a completion was slept through: wr_id %llx, "
					  "QP %x", (unsigned long long)wc.wr_id, wc.qp_num);
			take_completion(b, &wc);
		}
		pthread_rwlock_unlock(&b->lock);
	}
}

static void sleeper(struct thread *t)
{
	struct pollfd p = { .fd = channel[t->d]->fd, .events = POLLIN };

	while (!over && !ct_stop) {
		struct ibv_cq *cq;
		struct cqbox *b;
		void *ctx;

		if (poll(&p, 1, 500) <= 0) {
			overslept(t->d);
			continue;
		}
		if (ibv_get_cq_event(channel[t->d], &cq, &ctx))
			continue;
		ibv_ack_cq_events(cq, 1);
		b = ctx;
		if (!b->evt)
			continue;
		race_count(P_EVENT);
		pthread_rwlock_rdlock(&b->lock);
		if (b->cq) {
			ibv_req_notify_cq(b->cq, 0);
			while (poll_box(b, 1 + rnd(16)) > 0)
				;
		}
		pthread_rwlock_unlock(&b->lock);
	}
}

static void watcher(struct thread *t)
{
	(void)t;
	while (!over && !ct_stop) {
		struct link *l = links[rnd(n_links)];

		race_doing("watching link %d", l->number);
		watch_dir(&l->end[rnd(2)]);
		nap_us(rnd(4) ? 0 : rnd(200));
	}
}

static void modifier(struct thread *t)
{
	(void)t;
	while (!quit && !ct_stop) {
		struct link *l = links[rnd(n_links)];

		nap_us(rnd(20000));
		if (pthread_mutex_trylock(&l->busy))
			continue;
		if (!quit)
			link_fate(l);
		pthread_mutex_unlock(&l->busy);
	}
}

static void events(struct thread *t)
{
	struct ibv_context *ctx = ct_dev[t->d].ctx;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	while (!over) {
		if (poll(&p, 1, 200) <= 0 || ibv_get_async_event(ctx, &ev))
			continue;
		if (ev.event_type == IBV_EVENT_CQ_ERR || ev.event_type == IBV_EVENT_DEVICE_FATAL)
			race_fail(P_LIVE, "event \"%s\"", ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

/* Objects of no use come and go: handles, keys, numbers. */
static void churner(struct thread *t)
{
	static uint8_t mem[65536];

	(void)t;
	while (!quit && !ct_stop) {
		struct dev *d = &ct_dev[rnd(2)];
		struct ibv_pd *pd = ibv_alloc_pd(d->ctx);
		struct ibv_cq *cq = ibv_create_cq(d->ctx, 1 + rnd(500), NULL, NULL, 0);
		struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 1 + rnd(200), 1 + rnd(200), 1, 1, 0 } };
		size_t len = 1 + rnd(sizeof(mem));
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, mem, len, CHURN_ACCESS) : NULL;
		struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &a) : NULL;
		struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
		int bad = !pd || !cq || !mr || !qp;

		race_doing("making and destroying objects");
		if (qp && rnd(2))
			bad |= ibv_modify_qp(qp, &err, IBV_QP_STATE) != 0 &&
			       ibv_modify_qp(qp, &err, IBV_QP_STATE) != EINVAL;
		bad |= qp ? PERSIST(ibv_destroy_qp(qp)) : 0;
		bad |= mr ? ibv_dereg_mr(mr) : 0;
		bad |= cq ? PERSIST(ibv_destroy_cq(cq)) : 0;
		bad |= pd ? ibv_dealloc_pd(pd) : 0;
		if (bad)
			race_fail(P_LIVE, "unconnected objects: %s", strerror(errno));
		nap_us(rnd(2000));
	}
}

/* Doorbells that nobody asked for, also of handles that are gone. */
static void ringer(struct thread *t)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} c = { 0 };
	struct ib_uverbs_post_send_resp resp;

	while (!quit && !ct_stop) {
		c.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
		c.hdr.in_words = sizeof(c) / 4;
		c.hdr.out_words = sizeof(resp) / 4;
		c.cmd.response = (uintptr_t)&resp;
		c.cmd.qp_handle = rnd(n_links * 8 + 16);
		c.cmd.wqe_size = sizeof(struct ib_uverbs_send_wr);
		if (write(ct_dev[t->d].ctx->cmd_fd, &c, sizeof(c)) < 0 &&
		    errno != EINVAL && errno != ENOENT && errno != EBUSY)
			race_fail(P_LIVE, "doorbell: %s", strerror(errno));
		nap_us(rnd(1000));
	}
}

static void *thread_main(void *arg)
{
	self = arg;
	self->fn(self);
	snprintf(self->doing, sizeof(self->doing), "ended");
	return NULL;
}

void race_start(const char *name, void (*fn)(struct thread *), int d, int n)
{
	struct thread *t = &threads[n_threads++];

	snprintf(t->name, sizeof(t->name), "%s %c%d", name, 'A' + d, n);
	t->fn = fn;
	t->d = d;
	t->n = n;
	t->rng = mix64(seed + n_threads * 7919);
	CHECK(!pthread_create(&t->id, NULL, thread_main, t), "cannot make a thread");
}

static void start_all(void)
{
	int d, i;

	for (d = 0; d < 2; d++) {
		race_start("events", events, d, 0);
		race_start("sleeper", sleeper, d, 0);
		for (i = 0; i < 2; i++) {
			race_start("poster", poster, d, i);
			race_start("poller", poller, d, i);
			race_start("modifier", modifier, d, i);
		}
		race_start("ringer", ringer, d, 0);
	}
	race_start("watcher", watcher, 0, 0);
	race_start("churner", churner, 0, 0);
}

/* --- links --- */

static void link_new(int number)
{
	static struct cqbox *shared[2][3];
	struct link *l = calloc(1, sizeof(*l));
	/* Every fourth stays on one device. */
	bool loop = number % 4 == 3;
	int i;

	CHECK(l, "out of memory");
	l->number = number;
	l->own_cq = number % 3 == 2;
	pthread_mutex_init(&l->busy, NULL);
	for (i = 0; i < 2; i++) {
		struct end *e = &l->end[i];
		int d = loop ? number / 4 % 2 : i;

		if (!shared[d][0]) {
			shared[d][0] = box_new(d, false);
			shared[d][1] = box_new(d, false);
			shared[d][2] = box_new(d, true);
			box_open(shared[d][0], 8192);
			box_open(shared[d][1], 8192);
			box_open(shared[d][2], 8192);
		}
		e->link = l;
		e->idx = i;
		e->d = d;
		pthread_mutex_init(&e->post, NULL);
		pthread_mutex_init(&e->acct, NULL);
		pthread_mutex_init(&e->out.lock, NULL);
		if (l->own_cq)
			e->scq = e->rcq = box_new(d, number % 2);
		else if (number % 3 == 1)
			e->scq = e->rcq = shared[d][2];
		else
			e->scq = shared[d][0], e->rcq = shared[d][1];
	}
	links[n_links++] = l;
}

static bool idle(struct end *e)
{
	bool yes;

	pthread_mutex_lock(&e->acct);
	yes = e->sq_tail == e->sq_head;
	pthread_mutex_unlock(&e->acct);
	return yes;
}

/* Posters are gone: what they left completes, with a last request that asks for it. */
static void drain_links(void)
{
	uint64_t until = ct_now_ns() + WAIT_S * 1000000000ull;
	bool last[LINKS_MAX][2] = { { false } };
	int left, i, k;

	do {
		left = 0;
		for (i = 0; i < n_links; i++) {
			for (k = 0; k < 2; k++) {
				struct end *e = &links[i]->end[k];
				uint32_t head = e->sq_head;

				race_doing("waiting for link %d end %d, %u to %u", i, k,
					   e->sq_tail, e->sq_head);
				post_recvs(e);
				if (!last[i][k])
					post_sends(e, true);
				last[i][k] |= e->sq_head != head;
				left += !last[i][k] || !idle(e);
			}
		}
		nap_us(1000);
	} while (left && ct_now_ns() < until && !ct_stop);
	race_count(P_LIVE);
	if (left && !ct_stop)
		race_fail(P_LIVE, "%d ends do not finish in %d s", left, WAIT_S);
}

static int race(const char *const name[2], int family, const char *gids,
		unsigned int seconds, int want)
{
	int i;

	printf("TAP version 13\n1..%d\n", P_NUM);
	devs_open(name, family, gids);
	ct_diag("seed %llu, %u s, %d links, slots of %u bytes", (unsigned long long)seed,
		seconds, want, slot_size);
	for (i = 0; i < 2; i++) {
		channel[i] = ibv_create_comp_channel(ct_dev[i].ctx);
		CHECK(channel[i], "comp channel: %s", strerror(errno));
	}
	for (i = 0; i < want; i++)
		link_new(i);
	for (i = 0; i < n_links; i++)
		link_begin(links[i]);
	alarm(seconds + 3 * WAIT_S);
	pollers = true;
	start_all();
	for (i = 0; i < (int)seconds * 10 && !ct_stop; i++)
		nap_us(100000);
	quit = true;
	race_doing("waiting for modifiers");
	for (i = 0; i < n_threads; i++)
		if (threads[i].fn == poster || threads[i].fn == modifier)
			pthread_join(threads[i].id, NULL);
	if (!ct_stop)
		drain_links();
	over = true;
	race_doing("waiting for threads");
	for (i = 0; i < n_threads; i++)
		if (threads[i].fn != poster && threads[i].fn != modifier)
			pthread_join(threads[i].id, NULL);
	fate_report();
	return report();
}

static void usage(FILE *f)
{
	fprintf(f,
		"spray_race -a DEVICE -b DEVICE [options]\n"
		"  -4 | -6, -g I[:J]  GIDs, as spray_contract\n"
		"  -T SECONDS    of racing (default 30)\n"
		"  -s SEED       of every thread's choices (default: from the clock)\n"
		"  -L LINKS      default 9\n"
		"  -S BYTES      longest message (default 8192)\n"
		"  -o A[,B...]   only these ends of lives: err reset destroy dereg errerr\n"
		"                errreset ends query\n"
		"  -H            instead: processes that break their own rings and objects,\n"
		"                and are killed\n");
}

int main(int argc, char **argv)
{
	struct rlimit inf = { RLIM_INFINITY, RLIM_INFINITY };
	const char *name[2] = { NULL, NULL }, *gids = NULL;
	unsigned int seconds = 30;
	int family = 0, want = 9, o;
	bool evil = false;

	race_seed(ct_now_ns() % 1000000007);
	while ((o = getopt(argc, argv, "a:b:g:46T:s:L:S:o:Hh")) != -1) {
		switch (o) {
		case 'a':
			name[0] = optarg;
			break;
		case 'b':
			name[1] = optarg;
			break;
		case 'g':
			gids = optarg;
			break;
		case '4':
		case '6':
			family = o - '0';
			break;
		case 'T':
			seconds = strtoul(optarg, NULL, 0);
			break;
		case 's':
			race_seed(strtoull(optarg, NULL, 0));
			break;
		case 'L':
			want = min_t(int, atoi(optarg), LINKS_MAX);
			break;
		case 'S':
			slot_size = max_t(int, atoi(optarg), 64) / 64 * 64;
			break;
		case 'o':
			if (fate_only(optarg))
				break;
			/* fallthrough */
		default:
			usage(o == 'h' ? stdout : stderr);
			return o == 'h' ? 0 : 2;
		case 'H':
			evil = true;
			break;
		}
	}
	if (!name[0] || !name[1] || optind != argc) {
		usage(stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_MEMLOCK, &inf);
	signal(SIGALRM, on_alarm);
	if (evil)
		return hostile(name, family, gids, seconds, seed);
	return race(name, family, gids, seconds, want);
}
