/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receive window of one packet space: a bitmap over PSNs that starts at
 * the executed point.
 *
 *        executed          cumulative            right edge
 *   ........|=================|...x..xx....x........|
 *   done      received, not    x = received out of order
 *             yet executed
 *
 * The right edge is executed + TP_WINDOW and never moves left. A packet is
 * taken at most once: check says what it is, the caller places or keeps its
 * bytes, commit marks it. Nothing is marked before its bytes are safe, but for
 * what comes behind a NAK, which nobody will run.
 */
#ifndef TP_WINDOW_H
#define TP_WINDOW_H

#include "seq.h"
#include "wire.h"

enum {
	TP_MPR		= 8,			/* window in units of 128 PSNs */
	TP_WINDOW	= TP_MPR * 128,		/* PSNs, a power of two */
	TP_WINDOW_WORDS	= TP_WINDOW / 64,
};

/**
 * struct tp_rx - receive window
 * @exec: next PSN to execute
 * @cum: next PSN not yet received, @exec <= @cum <= @exec + TP_WINDOW
 * @hi: one past the highest PSN received, @hi >= @cum
 * @bits: bit (psn % TP_WINDOW): received, for PSNs in [@exec, @exec + TP_WINDOW); all others clear
 * @ack_wanted: something came that deserves an answer when the batch is over
 * @dup: since the last answer a packet came that was here before
 * @ce: since the last answer a packet bore a congestion mark
 * @probe: a probe waits for its answer
 * @probe_id: of that probe
 * @entropy: to be echoed, see tp_rx_seen()
 */
struct tp_rx {
	u32 exec;
	u32 cum;
	u32 hi;
	bool ack_wanted;
	bool dup;
	bool ce;
	bool probe;
	u16 probe_id;
	u32 entropy;
	u64 bits[TP_WINDOW_WORDS];
};

enum tp_verdict {
	TP_NEW,		/* inside the window, not seen */
	TP_DUP,		/* received before */
	TP_OUTSIDE,	/* beyond the right edge */
};

void tp_rx_init(struct tp_rx *rx, u32 first_psn);

/**
 * tp_rx_check() - classify a PSN; changes nothing
 * @wire_psn: 24 bits
 * @psn: extended against the executed point on return
 */
enum tp_verdict tp_rx_check(const struct tp_rx *rx, u32 wire_psn, u32 *psn);

/* Mark @psn received; it must have been TP_NEW. Moves the cumulative point. */
void tp_rx_commit(struct tp_rx *rx, u32 psn);

/* Is the packet at the executed point here? */
bool tp_rx_ready(const struct tp_rx *rx);

/* The packet at the executed point was executed; tp_rx_ready() must hold. */
void tp_rx_executed(struct tp_rx *rx);

/* Anything received beyond the cumulative point, i.e. is there a hole? */
static inline bool tp_rx_hole(const struct tp_rx *rx)
{
	return rx->hi != rx->cum;
}

/*
 * Note where a packet (or probe) of this space came from and whether it was
 * marked. The answer echoes one entropy: that of the first marked packet or of
 * the probe that it answers, else the latest.
 */
static inline void tp_rx_seen(struct tp_rx *rx, u32 entropy, bool ce)
{
	if (!rx->ce && !rx->probe)
		rx->entropy = entropy;
	rx->ce |= ce;
}

/* A probe of this space arrived: answer at once. */
static inline void tp_rx_probed(struct tp_rx *rx, u16 probe_id)
{
	rx->probe = true;
	rx->probe_id = probe_id;
	rx->ack_wanted = true;
}

/**
 * tp_rx_take_ack() - the answer that is due, if any; clears what waited
 * @a: all set but dqpn, syndrome, value and exec_msn (0 on return).
 *	nwords 0 (a plain Acknowledge) if nothing is out of order, no probe, no
 *	mark, no duplicate waits and everything received was executed; else just
 *	the words needed to reach @hi (at least 1).
 * Return: false if nothing waits.
 */
bool tp_rx_take_ack(struct tp_rx *rx, enum tp_space space, struct tp_ack *a);

#endif
