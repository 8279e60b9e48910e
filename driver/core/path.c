// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Paths to one destination. See path.h for states and for why there is no lock.
 *
 * Delay. queue = rtt - base. An RTT that was seen long ago says nothing about
 * now, and the worst path is hardly ever drawn; so when two paths are compared,
 * a queue counts half for every AGE_US since the last sample, and a path once
 * found slow gets another chance.
 *
 * Base. The least RTT seen is the path's own delay, until its route changes.
 * Falling is easy. Rising is not: a standing queue of our own must not pass
 * for distance, else the window would follow its own queue upwards. Per path
 * we keep the least RTT of each BASE_WINDOW_US, and at its end
 *   excess = least of the window - base
 *   excess > BASE_JUMP_US    not ours: the window (cc.c) lets that much stand
 *                            only where links are slow and nothing marks (there
 *                            the path seems emptier than it is for a while).
 *                            Another route: base += excess
 *   otherwise                base += excess / 8, i.e. 3 ms of standing queue
 *                            creep by 0.4 ms in 10 s, a flow's pause undoes it
 * The first sample of a path, or the first after IDLE_US, is its base, less
 * what the paths heard lately all had in common: the queue of our own host,
 * which would pass for distance on every path that is first used behind it.
 *
 * Trust. A path that was never heard, or not for TP_PATH_TRUST_US, may be dead,
 * and a burst is a dear way to find out. Where others are trusted it is withdrawn
 * when drawn, asked by a probe, and back in a round trip (path_state.c). Not so
 * while traffic is young: a short flow needs the width more than the certainty.
 *
 * Choice. Two draws, not more. Three would even out a fabric that hashes as
 * badly as 28:18:12:6 (two can't give the last spine more than 18 %), but where
 * hashing is ordinary they run in herds to the spine that looked empty a round
 * trip ago: three times the mean queue at 96 % load in the unit test's model.
 *
 * Units: microseconds.
 */
#include "path.h"
#include "seq.h"

enum {
	FIRST_PORT	= 49152,	/* IANA's dynamic range: 14 bits of entropy */
	PORT_MASK	= 0x3fff,
	AGE_US		= 20000,
	NOISE_US	= 50,		/* queues that differ by less are equal */
	BASE_WINDOW_US	= 10000000,
	BASE_JUMP_US	= 12000,
	IDLE_US		= 1000000,
	PATIENCE_US	= 20000,	/* of a path that has never answered */
	KNOWN		= 4,		/* so many answered: they are a fair sample */
	MARGIN_US	= 100,		/* interrupts, batching of answers; late ends show in RTTs */
	SKIP_MIN_US	= 100,
	SKIP_MAX_US	= 100000,
	DRAWS		= 4,
	YOUTH_RTTS	= 32,		/* least ones of the group, but at least */
	YOUTH_MIN_US	= 1000,
	YOUTH_MAX_US	= 100000,
};

static u64 mix(u64 *state)		/* splitmix64 */
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static bool port_taken(const struct tp_paths *g, u32 n, u32 entropy)
{
	u32 i;

	for (i = 0; i < n; i++)
		if ((u16)g->p[i].entropy == (u16)entropy)
			return true;
	return false;
}

/* Flow label at random, ports all different: IPv4 has nothing but the port. */
void tp_paths_init(struct tp_paths *g, u32 n, u64 seed)
{
	u32 i, entropy;
	u64 r;

	memset(g, 0, sizeof(*g));
	memset(g->heard, TP_NO_PATH, sizeof(g->heard));
	g->n = clamp_t(u32, n, 1, TP_PATHS);
	for (i = 0; i < g->n; i++) {
		do {
			r = mix(&seed);
			entropy = (u32)(r >> 32) << 16 | (FIRST_PORT + ((u32)r & PORT_MASK));
		} while (port_taken(g, i, entropy));
		g->p[i].entropy = entropy;
	}
}

static bool is_skipped(const struct tp_path *p, u32 now_us)
{
	return READ_ONCE(p->state) == TP_PATH_SKIP &&
	       tp_path_ahead(READ_ONCE(p->until_us), now_us, SKIP_MAX_US);
}

static u32 next_random(u32 *rng)	/* xorshift32 */
{
	u32 x = *rng ? *rng : 0x9e3779b9;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*rng = x;
	return x;
}

static u8 random_path(const struct tp_paths *g, u32 *rng)
{
	return (u8)((u64)next_random(rng) * g->n >> 32);
}

/* Heard lately. Any other may have died since, or never have led anywhere. */
static bool is_trusted(const struct tp_path *p, u32 now_us)
{
	return (READ_ONCE(p->rtt_us) && now_us - READ_ONCE(p->seen_us) < TP_PATH_TRUST_US) ||
	       tp_path_ahead(READ_ONCE(p->until_us), now_us, TP_PATH_TRUST_US);
}

static void note_heard(struct tp_paths *g, u8 ev)
{
	u8 last = READ_ONCE(g->heard[0]);

	if (last == ev)
		return;
	WRITE_ONCE(g->heard[1], last);
	WRITE_ONCE(g->heard[0], ev);
}

/* Are there two trusted ones to use meanwhile? */
static bool may_ask(const struct tp_paths *g, u32 now_us)
{
	u8 last = READ_ONCE(g->heard[0]), before = READ_ONCE(g->heard[1]);

	return !tp_path_ahead(READ_ONCE(g->young_us), now_us, YOUTH_MAX_US) &&
	       last != TP_NO_PATH && is_trusted(&g->p[last], now_us) &&
	       before != TP_NO_PATH && is_trusted(&g->p[before], now_us);
}

/* What a path is good for, the better the higher. */
enum { WITHDRAWN, AVOIDED, MARKED, UNKNOWN, TRUSTED };

static u8 rank(const struct tp_paths *g, u8 ev, u8 avoid, u32 now_us)
{
	const struct tp_path *p = &g->p[ev];

	if (!tp_path_usable(p))
		return WITHDRAWN;
	if (ev == avoid)
		return AVOIDED;
	if (is_skipped(p, now_us))
		return MARKED;
	return is_trusted(p, now_us) ? TRUSTED : UNKNOWN;
}

/* From @first on, the first of the best. */
static u8 best_from(const struct tp_paths *g, u8 first, u8 avoid, u32 now_us)
{
	u8 best = first, most = WITHDRAWN;
	u32 i;

	for (i = 0; i < g->n; i++) {
		u8 ev = (u8)((first + i) % g->n), r = rank(g, ev, avoid, now_us);

		if (r > most) {
			most = r;
			best = ev;
		}
	}
	return best;
}

/*
 * A random path that may be used now. One that is not trusted is asked, where there are others, and
 * has its chance once it has answered. If luck fails, the next that is as good as any.
 */
static u8 draw(struct tp_paths *g, u32 *rng, u8 avoid, bool ask, u32 now_us)
{
	u8 ev = 0, tries;

	for (tries = 0; tries < DRAWS; tries++) {
		ev = random_path(g, rng);
		if (ev == avoid || !tp_path_usable(&g->p[ev]) || is_skipped(&g->p[ev], now_us))
			continue;
		if (!ask || is_trusted(&g->p[ev], now_us) || !may_ask(g, now_us))
			return ev;
		tp_path_silent(g, ev, now_us);
	}
	return best_from(g, ev, avoid, now_us);
}

static u32 aged_queue_us(const struct tp_paths *g, u8 ev, u32 now_us)
{
	u32 age = (now_us - READ_ONCE(g->p[ev].seen_us)) / AGE_US;

	return age < 32 ? tp_path_queue_us(g, ev) >> age : 0;
}

static bool is_suspect(const struct tp_paths *g, u8 ev)
{
	return READ_ONCE(g->p[ev].losses) >= TP_PATH_LOSSES;
}

static u8 better_of_two(struct tp_paths *g, u32 *rng, u8 avoid, bool ask, u32 now_us)
{
	u8 a = draw(g, rng, avoid, ask, now_us);
	u8 b = draw(g, rng, avoid, ask, now_us);

	/* Kept in use only because too few are left: the other one, if it is better. */
	if (is_suspect(g, a) != is_suspect(g, b))
		return is_suspect(g, a) ? b : a;
	return aged_queue_us(g, a, now_us) > aged_queue_us(g, b, now_us) + NOISE_US ? b : a;
}

u8 tp_path_pick(struct tp_paths *g, u32 *rng, u8 avoid, u32 now_us)
{
	return better_of_two(g, rng, avoid, true, now_us);
}

u8 tp_path_pick_for_answer(struct tp_paths *g, u32 *rng, u32 now_us)
{
	return better_of_two(g, rng, TP_NO_PATH, false, now_us);
}

static void update_group_base(struct tp_paths *g)
{
	u32 i, base, least = 0, known = 0;
	u64 sum = 0;

	for (i = 0; i < g->n; i++) {
		base = READ_ONCE(g->p[i].base_us);
		if (!base)
			continue;
		known++;
		sum += base;
		if (!least || base < least)
			least = base;
	}
	WRITE_ONCE(g->base_us, least);
	WRITE_ONCE(g->mean_us, known ? (u32)div_u64(sum, known) : 0);
}

static void set_base(struct tp_paths *g, struct tp_path *p, u32 base_us)
{
	WRITE_ONCE(p->base_us, base_us);
	update_group_base(g);
}

static void start_window(struct tp_path *p, u32 rtt_us, u32 now_us)
{
	WRITE_ONCE(p->least_us, rtt_us);
	WRITE_ONCE(p->window_us, now_us);
}

static u32 common_us(const struct tp_paths *g, u32 now_us)
{
	return now_us - READ_ONCE(g->common_at_us) < AGE_US ? READ_ONCE(g->common_us) : 0;
}

/* After a pause, and once there is a first answer. */
static void grow_young(struct tp_paths *g, u32 heard_us, u32 now_us)
{
	u32 youth = clamp_t(u32, YOUTH_RTTS * READ_ONCE(g->base_us), YOUTH_MIN_US, YOUTH_MAX_US);

	if (!heard_us || now_us - heard_us > youth)
		WRITE_ONCE(g->young_us, now_us + youth);
}

void tp_path_common(struct tp_paths *g, u32 queue_us, u32 now_us)
{
	u32 at = READ_ONCE(g->common_at_us);

	if (!at || now_us - at > YOUTH_MIN_US)
		grow_young(g, at, now_us);
	WRITE_ONCE(g->common_us, queue_us);
	WRITE_ONCE(g->common_at_us, now_us);
}

/* The base: see the head of the file. */
static void sample_base(struct tp_paths *g, struct tp_path *p, u32 rtt_us, u32 now_us)
{
	u32 base = READ_ONCE(p->base_us);
	u32 least = min_t(u32, READ_ONCE(p->least_us), rtt_us);
	u32 excess;

	if (rtt_us < base) {
		set_base(g, p, rtt_us);
		start_window(p, rtt_us, now_us);
		return;
	}
	if (!base || now_us - READ_ONCE(p->seen_us) > IDLE_US) {
		set_base(g, p, rtt_us - min_t(u32, common_us(g, now_us), rtt_us - 1));
		start_window(p, rtt_us, now_us);
		return;
	}
	if (now_us - READ_ONCE(p->window_us) < BASE_WINDOW_US) {
		WRITE_ONCE(p->least_us, least);
		return;
	}
	excess = least > base ? least - base : 0;
	set_base(g, p, base + (excess > BASE_JUMP_US ? excess : excess / 8));
	start_window(p, rtt_us, now_us);
}

static void sample_rtt(struct tp_path *p, u32 rtt_us)
{
	u32 rtt = READ_ONCE(p->rtt_us);
	u32 var = READ_ONCE(p->var_us);
	u32 off = rtt > rtt_us ? rtt - rtt_us : rtt_us - rtt;

	if (!rtt) {
		WRITE_ONCE(p->var_us, rtt_us / 4);
		WRITE_ONCE(p->rtt_us, rtt_us);
		return;
	}
	WRITE_ONCE(p->var_us, var - var / 4 + off / 4);
	WRITE_ONCE(p->rtt_us, rtt - rtt / 2 + rtt_us / 2);
}

/* Marked: use others for about a round trip, so that the queue there can drain. */
static void skip(struct tp_path *p, u32 now_us)
{
	u32 us = clamp_t(u32, READ_ONCE(p->rtt_us), SKIP_MIN_US, SKIP_MAX_US);

	WRITE_ONCE(p->until_us, now_us + us);
	WRITE_ONCE(p->state, TP_PATH_SKIP);
}

void tp_path_acked(struct tp_paths *g, u8 ev, u32 rtt_us, bool ce, u32 now_us)
{
	struct tp_path *p = &g->p[ev];

	if (rtt_us) {
		sample_base(g, p, rtt_us, now_us);
		sample_rtt(p, rtt_us);
		WRITE_ONCE(p->seen_us, now_us);
		note_heard(g, ev);
	}
	if (READ_ONCE(p->losses))
		WRITE_ONCE(p->losses, 0);
	if (!tp_path_usable(p))
		return;		/* an answer to what was sent before it died is no proof of life */
	if (ce)
		skip(p, now_us);
	else if (READ_ONCE(p->state) == TP_PATH_SKIP && !is_skipped(p, now_us))
		WRITE_ONCE(p->state, TP_PATH_GOOD);
}

u32 tp_path_queue_us(const struct tp_paths *g, u8 ev)
{
	u32 rtt = READ_ONCE(g->p[ev].rtt_us);
	u32 base = READ_ONCE(g->p[ev].base_us);

	return rtt > base ? rtt - base : 0;
}

static u32 known_patience_us(const struct tp_path *p)
{
	u32 rtt = READ_ONCE(p->rtt_us);

	return rtt + 4 * READ_ONCE(p->var_us) + max_t(u32, rtt / 4, MARGIN_US);
}

/*
 * A path that never answered may be the slowest of all: twice what the slowest known one takes,
 * and a good while as long as few are known.
 */
u32 tp_path_patience_us(const struct tp_paths *g, u8 ev)
{
	u32 i, known = 0, worst = 0;

	if (READ_ONCE(g->p[ev].rtt_us))
		return known_patience_us(&g->p[ev]);
	for (i = 0; i < g->n; i++) {
		if (!READ_ONCE(g->p[i].rtt_us))
			continue;
		known++;
		worst = max_t(u32, worst, 2 * known_patience_us(&g->p[i]));
	}
	return known < min_t(u32, g->n, KNOWN) ? max_t(u32, worst, PATIENCE_US) : worst;
}
