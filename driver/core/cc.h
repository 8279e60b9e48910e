/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Congestion window of one packet space of one QP, in bytes: delay-based after
 * NSCC (see cc.c for the rule and its constants).
 */
#ifndef TP_CC_H
#define TP_CC_H

#include "env.h"

/**
 * struct tp_cc - congestion window
 * @cwnd: bytes that may be in flight, @min <= @cwnd <= @max
 * @packet: bytes of a packet
 * @inc: increase gathered in this adjustment period, bytes x bytes
 * @avg_delay_us: smoothed queueing delay
 * @dev_us: its mean deviation
 * @last_cut_us: time of the last decrease, us
 * @acked: bytes acknowledged since @epoch_us
 * @acked_prev: the same of the round trip before
 * @lost: bytes lost since @epoch_us
 * @epoch_us: start of the current round trip
 * @calm: round trips since the last loss burst, up to a limit
 * @cut_valid: @last_cut_us is set
 * @slow_start: no sign of congestion yet: double per round trip
 */
struct tp_cc {
	u32 cwnd;
	u32 max;
	u32 min;
	u32 packet;
	u32 avg_delay_us;
	u32 dev_us;
	u32 last_cut_us;
	u32 acked;
	u32 acked_prev;
	u32 lost;
	u32 epoch_us;
	u64 inc;
	u8 calm;
	bool cut_valid;
	bool slow_start;
};

/* RTT without queues: of the shortest path of a destination, and of its paths on average; us, 0 = not known */
struct tp_cc_way {
	u32 base_us;
	u32 mean_us;
};

void tp_cc_init(struct tp_cc *c, u32 packet_bytes, u32 max_packets);

/**
 * tp_cc_ack() - bytes were acknowledged
 * @bytes: newly acknowledged, including headers
 * @queue_us: queueing delay of the packets (median of recent paths)
 * @way: how far it is
 * @ce: congestion mark seen
 * @limited: the window, not the application, limited sending
 */
void tp_cc_ack(struct tp_cc *c, u32 bytes, u32 queue_us, struct tp_cc_way way, bool ce,
	       bool limited, u32 now_us);

/* @bytes in one loss event; @rto: everything in flight. A single random loss does not cut. */
void tp_cc_lost(struct tp_cc *c, u32 bytes, bool rto, u32 base_us, u32 now_us);

#endif
