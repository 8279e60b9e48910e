/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters of a device, per CPU, shown by `rdma statistic`. One list: name and
 * meaning stand beside each other, order is the order shown.
 */
#ifndef SPRAY_STATS_H
#define SPRAY_STATS_H

#include <linux/percpu.h>
#include <linux/types.h>

#define SPRAY_COUNTERS(X)						\
	X(tx_packets)		/* packets handed to the stack */	\
	X(tx_bytes)		/* UDP payload bytes of them */		\
	X(tx_bursts)		/* super-packets they left in */	\
	X(rx_packets)		/* packets taken from the sockets */	\
	X(rx_bytes)							\
	X(rx_bursts)							\
	X(tx_acks)							\
	X(rx_acks)							\
	X(tx_probes)							\
	X(rx_probes)							\
	X(tx_rnr_naks)							\
	X(rx_rnr_naks)							\
	X(tx_naks)							\
	X(rx_naks)							\
	X(retransmissions)	/* packets sent again */		\
	X(lost_same_path)	/* found lost by a later packet of the same EV */ \
	X(lost_rack)		/* found lost by time */		\
	X(timeouts)		/* RTO events */			\
	X(rx_out_of_order)	/* packets that did not arrive at the cumulative point */ \
	X(rx_held)		/* packets held until their turn */	\
	X(rx_duplicates)						\
	X(rx_ecn_marked)						\
	X(paths_failed)		/* paths withdrawn */			\
	X(tx_local_drops)	/* refused by the local stack */	\
	X(tx_no_memory)							\
	X(tx_no_route)							\
	X(drop_short)		/* rx: too short for its headers */	\
	X(drop_malformed)	/* rx: bad opcode, version, padding, space */ \
	X(drop_checksum)	/* rx: UDP checksum */			\
	X(drop_icrc)							\
	X(drop_no_qp)		/* rx: no such QPN */			\
	X(drop_qp_state)	/* rx: QP not ready to receive */	\
	X(drop_address)		/* rx: not from the QP's peer */	\
	X(drop_outside_window)						\
	X(drop_hold_quota)	/* rx: held bytes exhausted */		\
	X(drop_no_memory)						\
	X(drop_bad_response)	/* rx: response that names no open READ or ATOMIC */ \
	X(drop_stale_ack)	/* rx: acknowledgement with nothing new or out of range */ \
	X(drop_ud_qkey)							\
	X(drop_ud_no_receive)						\
	X(drop_ud_length)						\
	X(peer_no_hello)	/* destinations that never answered HELLO */ \
	X(peer_mode_mismatch)	/* HELLO with another ICRC mode or version */

enum spray_counter {
#define X(name) SPRAY_C_##name,
	SPRAY_COUNTERS(X)
#undef X
	SPRAY_C_NUM
};

struct spray_stats {
	u64 c[SPRAY_C_NUM];
};

/* Any context; BH must be off or the count may be lost to a race with it. */
#define spray_count(dev, name)		this_cpu_inc((dev)->stats->c[SPRAY_C_##name])
#define spray_count_n(dev, name, n)	this_cpu_add((dev)->stats->c[SPRAY_C_##name], (n))

struct ib_device;
struct rdma_hw_stats;
struct rdma_hw_stats *spray_alloc_hw_port_stats(struct ib_device *ib, u32 port);
int spray_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index);

#endif
