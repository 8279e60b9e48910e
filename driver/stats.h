/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters of a device, per CPU, shown by `rdma statistic`. One list: name and
 * meaning stand beside each other, order is the order shown.
 *
 * `rdma statistic qp` binds QPs to counters, each a set of the same kind. What a
 * bound QP does is counted twice, in the device's set and in its counter's.
 * ib_core adds the counters to what the device says, so that is told without them.
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
	X(tx_grants)		/* of credit, some packets each */	\
	X(tx_credit_waits)	/* new data had to wait for credit: events */ \
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

/* Any context. */
#define spray_count(dev, name)		this_cpu_inc((dev)->stats->c[SPRAY_C_##name])
#define spray_count_n(dev, name, n)	this_cpu_add((dev)->stats->c[SPRAY_C_##name], (n))

/* What a QP did. @own: of its counter, or NULL, as READ_ONCE(qp->counted) said; BH off from there on. */
#define spray_count_two_n(dev, own, name, n) do {				\
	struct spray_stats __percpu *__own = (own);				\
										\
	spray_count_n(dev, name, n);						\
	if (unlikely(__own))							\
		this_cpu_add(__own->c[SPRAY_C_##name], (n));			\
} while (0)
#define spray_qp_count_n(qp, name, n)						\
	spray_count_two_n((qp)->dev, READ_ONCE((qp)->counted), name, n)
#define spray_qp_count(qp, name)	spray_qp_count_n(qp, name, 1)

struct spray_dev;
struct ib_device;
struct ib_qp;
struct rdma_counter;
struct rdma_hw_stats;
struct rdma_hw_stats *spray_alloc_hw_port_stats(struct ib_device *ib, u32 port);
int spray_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index);

/* --- counters of QPs; ib_core calls these under the counter's mutex --- */
struct rdma_hw_stats *spray_counter_alloc_stats(struct rdma_counter *counter);
int spray_counter_update_stats(struct rdma_counter *counter);
int spray_counter_bind(struct rdma_counter *counter, struct ib_qp *ib SPRAY_COUNTER_TAIL);
int spray_counter_unbind(struct ib_qp *ib SPRAY_COUNTER_TAIL);
int spray_counter_dealloc(struct rdma_counter *counter);

#endif
