/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths to one destination: a set of entropy values (EVs), each of which
 * fabrics hash to some path. What is known of a path (delay, losses, marks) is
 * shared by all QPs that go there.
 *
 * No lock: every field is a hint in one machine word, read and written with
 * READ_ONCE/WRITE_ONCE. QPs may lose each other's updates; no decision needs
 * more than "recent and roughly right".
 *
 * Choice: of two EVs drawn pseudo-randomly (per QP) among the usable ones,
 * the one with less queueing delay (recent RTT - its least RTT). Hashing is
 * uneven; feedback is what fills all spines alike ("power of two choices").
 *
 * States: GOOD; SKIP (marked: bypassed until skip_until); BAD (two losses
 * without a clean ack in between, silence after one, or not heard for long:
 * withdrawn until a probe on it is answered; probed with back-off); DENIED
 * (administrator).
 */
#ifndef TP_PATH_H
#define TP_PATH_H

#include "env.h"

enum {
	TP_PATHS	= 64,		/* per destination; EV index fits a byte */
	TP_PATHS_MIN_ACTIVE = 4,	/* never fewer usable paths than this, whatever was lost */
	TP_NO_PATH	= 0xff,
	TP_PATH_TRUST_US = 1000000,	/* so long is an answer proof of life */
	TP_PATH_LOSSES	= 2,		/* without an acknowledgement in between: it is withdrawn */
};

enum tp_path_state { TP_PATH_GOOD, TP_PATH_SKIP, TP_PATH_BAD, TP_PATH_DENIED };

struct tp_path {
	u32 entropy;	/* high 16 flow label, low 16 UDP source port 49152..65535 */
	u32 base_us;	/* least RTT seen, 0 = none yet */
	u32 rtt_us;	/* recent RTT (gain 1/2) */
	u32 var_us;	/* mean deviation (gain 1/4) */
	u32 until_us;	/* SKIP: end of it; BAD: time of the next probe; GOOD: trusted until then */
	u8 state;
	u8 losses;	/* since the last clean ack */
	u8 backoff;	/* BAD: doublings of the probe interval */
	u8 quick;	/* BAD for its silence: probes left that follow each other quickly */
	u32 seen_us;	/* time of the last RTT sample */
	u32 least_us;	/* least RTT since window_us; see path.c on how base_us rises */
	u32 window_us;
};

struct tp_paths {
	u32 n;			/* paths in use, <= TP_PATHS */
	u32 bad;		/* how many are BAD */
	u32 failed;		/* times that one became BAD */
	u32 base_us;		/* least RTT over all paths, 0 = none yet */
	u32 mean_us;		/* mean of their least RTTs: paths may be unequally long */
	u32 common_us;		/* queueing delay that all paths heard lately share: the host's own */
	u32 common_at_us;
	u32 trust_us;		/* until then nobody is suspected for what others suffer */
	u32 young_us;		/* until then paths are used without being asked */
	u8 heard[2];		/* the EV heard last, and the last one before that was another */
	struct tp_path p[TP_PATHS];
};

/* Is this the path of @entropy? By UDP port, unique in a group: IPv4 carries no flow label. */
static inline bool tp_path_is(const struct tp_path *p, u32 entropy)
{
	return (u16)READ_ONCE(p->entropy) == (u16)entropy;
}

static inline bool tp_path_usable(const struct tp_path *p)
{
	u8 state = READ_ONCE(p->state);

	return state == TP_PATH_GOOD || state == TP_PATH_SKIP;
}

/* Is the moment @until still ahead, given that it was set at most @most ahead? */
static inline bool tp_path_ahead(u32 until, u32 now_us, u32 most)
{
	return until - now_us - 1 < most;
}

/* @seed makes the EVs of this group; the same seed gives the same EVs. */
void tp_paths_init(struct tp_paths *g, u32 n, u64 seed);

/**
 * tp_path_pick() - choose a path for a burst
 * @rng: the QP's pseudo-random state, advanced
 * @avoid: EV index not to use again (of a lost packet), or TP_NO_PATH
 * @now_us: time, us, wraps
 * Return: EV index.
 */
u8 tp_path_pick(struct tp_paths *g, u32 *rng, u8 avoid, u32 now_us);

/*
 * The same for an acknowledgement. No path is asked for its sake: who only answers sends no probes, and
 * what was withdrawn would stay so.
 */
u8 tp_path_pick_for_answer(struct tp_paths *g, u32 *rng, u32 now_us);

/* A packet on @ev was acknowledged; @rtt_us 0 if no sample may be taken; @ce: it was marked. */
void tp_path_acked(struct tp_paths *g, u8 ev, u32 rtt_us, bool ce, u32 now_us);

/* Called for each answer: all paths that were heard lately had at least that queueing delay. */
void tp_path_common(struct tp_paths *g, u32 queue_us, u32 now_us);

/* A burst (or part of one) on @ev was lost; call once per burst. */
void tp_path_lost(struct tp_paths *g, u8 ev, u32 now_us);

/* Maybe dead: a burst was lost, and nothing after it was heard. Withdrawn at once, and probed at once. */
void tp_path_silent(struct tp_paths *g, u8 ev, u32 now_us);

/* Next BAD path whose probe is due, or TP_NO_PATH; marks it as probed (back-off doubles, <= 8 s). */
u8 tp_path_probe_due(struct tp_paths *g, u32 now_us);

/* A probe on the path with this entropy was answered: GOOD again, and trusted for a while. */
void tp_path_revived(struct tp_paths *g, u32 entropy, u32 now_us);

/* How many are withdrawn, those aside that have been asked just now. */
u32 tp_paths_dead(const struct tp_paths *g);

/* Queueing delay now: recent RTT - least RTT of that path, us. */
u32 tp_path_queue_us(const struct tp_paths *g, u8 ev);

/* After this long without an answer a packet on @ev counts as silent, us (RACK's window, per path). */
u32 tp_path_patience_us(const struct tp_paths *g, u8 ev);

#endif
