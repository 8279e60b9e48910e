// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Paths that are withdrawn, and how they come back. See path.h for states and
 * for why there is no lock.
 *
 * Withdrawal. Two losses without an acknowledgement in between make a path BAD
 * as long as MIN_ACTIVE others remain. If everything is lost the fault is not
 * the paths'. Where all are withdrawn but those few and one answers again, the
 * outage was common to them: all are probed at once.
 *
 * Silence. A loss that a later packet of the same path showed is a loss. One
 * that only other paths' packets showed, with nothing heard of its own since,
 * may be a dead path: withdrawn at once, and asked at once. The answer of a
 * path that lost a packet by chance brings it back a round trip later. If
 * there is none, whatever died may be shared: paths that were not heard since
 * are asked, too, before they are used. The same way a path is asked of which
 * nothing is known (path.c).
 *
 * Units: microseconds.
 */
#include "path.h"
#include "seq.h"

enum {
	PROBE_FIRST_US	= 100000,
	PROBE_MAX_US	= 8000000,
	QUICK_PROBES	= 4,		/* of a path that fell silent, before the slow schedule; */
	QUICK_US	= 200,		/* at least that far apart */
	SUSPECT_US	= 100000,	/* from one general suspicion to the next */
	PROBE_DOUBLINGS	= 7,		/* from 100 ms past 8 s */
};

static u32 count(const struct tp_paths *g, enum tp_path_state state)
{
	u32 i, n = 0;

	for (i = 0; i < g->n; i++)
		n += READ_ONCE(g->p[i].state) == state;
	return n;
}

u32 tp_paths_dead(const struct tp_paths *g)
{
	u32 i, n = 0;

	for (i = 0; i < g->n; i++)
		n += READ_ONCE(g->p[i].state) == TP_PATH_BAD && !READ_ONCE(g->p[i].quick);
	return n;
}

static u32 count_usable(const struct tp_paths *g)
{
	return count(g, TP_PATH_GOOD) + count(g, TP_PATH_SKIP);
}

/*
 * Counted anew at each change, and again if that was not the last word: of two QPs
 * that change states at once, one sees what the other did.
 */
static void set_state(struct tp_paths *g, struct tp_path *p, enum tp_path_state state)
{
	u32 n;

	WRITE_ONCE(p->state, (u8)state);
	do {
		smp_mb();
		n = count(g, TP_PATH_BAD);
		WRITE_ONCE(g->bad, n);
		smp_mb();
	} while (n != count(g, TP_PATH_BAD));
}

void tp_path_lost(struct tp_paths *g, u8 ev, u32 now_us)
{
	struct tp_path *p = &g->p[ev];
	u8 losses = READ_ONCE(p->losses);

	if (losses < TP_PATH_LOSSES)
		WRITE_ONCE(p->losses, ++losses);
	if (losses < TP_PATH_LOSSES || !tp_path_usable(p) || count_usable(g) <= TP_PATHS_MIN_ACTIVE)
		return;
	WRITE_ONCE(p->quick, 0);
	WRITE_ONCE(p->backoff, 0);
	WRITE_ONCE(p->until_us, now_us + PROBE_FIRST_US);
	WRITE_ONCE(g->failed, READ_ONCE(g->failed) + 1);
	set_state(g, p, TP_PATH_BAD);
}

void tp_path_silent(struct tp_paths *g, u8 ev, u32 now_us)
{
	struct tp_path *p = &g->p[ev];

	if (!tp_path_usable(p) || count_usable(g) <= TP_PATHS_MIN_ACTIVE)
		return;
	WRITE_ONCE(p->quick, QUICK_PROBES);
	WRITE_ONCE(p->backoff, 0);
	WRITE_ONCE(p->until_us, now_us);
	set_state(g, p, TP_PATH_BAD);
}

static u32 probe_interval_us(u8 backoff)
{
	return min_t(u32, (u32)PROBE_FIRST_US << min_t(u8, backoff, PROBE_DOUBLINGS), PROBE_MAX_US);
}

/* Twice the longest RTT: the way back may be another path's. */
static u32 quick_us(const struct tp_paths *g)
{
	u32 i, us = 0;

	for (i = 0; i < g->n; i++)
		us = max_t(u32, us, READ_ONCE(g->p[i].rtt_us));
	return clamp_t(u32, 2 * us, QUICK_US, PROBE_FIRST_US);
}

/*
 * A silent path does not answer: what died may be shared. Paths that were not heard since it fell
 * silent have to answer a probe before they are used again, as long as an eighth of all remains.
 */
static void suspect_unheard(struct tp_paths *g, u32 since_us, u32 now_us)
{
	u32 i;

	if (tp_path_ahead(READ_ONCE(g->trust_us), now_us, SUSPECT_US))
		return;
	WRITE_ONCE(g->trust_us, now_us + SUSPECT_US);
	for (i = 0; i < g->n && count_usable(g) > g->n / 8; i++) {
		if (READ_ONCE(g->p[i].rtt_us) && !tp_before(READ_ONCE(g->p[i].seen_us), since_us))
			continue;
		tp_path_silent(g, (u8)i, now_us);
	}
}

/* Set the time of the probe after this one. */
static void next_probe(struct tp_paths *g, struct tp_path *p, u32 now_us)
{
	u8 quick = READ_ONCE(p->quick);

	if (quick) {
		u32 wait = quick_us(g);

		if (quick == QUICK_PROBES - 1)
			suspect_unheard(g, now_us - wait, now_us);
		WRITE_ONCE(p->quick, quick - 1);
		WRITE_ONCE(p->until_us, now_us + wait);
		if (quick == 1)
			WRITE_ONCE(g->failed, READ_ONCE(g->failed) + 1);
		return;
	}
	if (p->backoff < PROBE_DOUBLINGS)
		WRITE_ONCE(p->backoff, p->backoff + 1);
	WRITE_ONCE(p->until_us, now_us + probe_interval_us(p->backoff));
}

u8 tp_path_probe_due(struct tp_paths *g, u32 now_us)
{
	struct tp_path *p;
	u32 i;

	if (!READ_ONCE(g->bad))
		return TP_NO_PATH;
	for (i = 0; i < g->n; i++) {
		p = &g->p[i];
		if (READ_ONCE(p->state) != TP_PATH_BAD ||
		    tp_path_ahead(READ_ONCE(p->until_us), now_us, PROBE_MAX_US))
			continue;
		next_probe(g, p, now_us);
		return (u8)i;
	}
	return TP_NO_PATH;
}

/* All BAD paths are due at @since, a moment that is past. */
static void probe_all(struct tp_paths *g, u32 since)
{
	u32 i;

	for (i = 0; i < g->n; i++) {
		if (READ_ONCE(g->p[i].state) != TP_PATH_BAD)
			continue;
		WRITE_ONCE(g->p[i].backoff, 0);
		WRITE_ONCE(g->p[i].until_us, since);
	}
}

static void revive(struct tp_paths *g, struct tp_path *p, u32 now_us)
{
	bool outage = count_usable(g) <= TP_PATHS_MIN_ACTIVE;
	u32 probed_us = p->until_us - probe_interval_us(p->backoff);

	WRITE_ONCE(p->losses, 0);
	if (READ_ONCE(p->state) != TP_PATH_BAD)
		return;
	WRITE_ONCE(p->until_us, now_us + TP_PATH_TRUST_US);
	set_state(g, p, TP_PATH_GOOD);
	if (outage)
		probe_all(g, probed_us);
}

void tp_path_revived(struct tp_paths *g, u32 entropy, u32 now_us)
{
	u32 i;

	for (i = 0; i < g->n; i++)
		if (tp_path_is(&g->p[i], entropy))
			revive(g, &g->p[i], now_us);
}
