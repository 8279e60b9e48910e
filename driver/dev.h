/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device: an ib_device on one net_device, and the objects that need no file of their own. */
#ifndef SPRAY_DEV_H
#define SPRAY_DEV_H

#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "core/credit.h"
#include "jitter.h"
#include "stats.h"

struct spray_net;
struct spray_qp;

enum {
	SPRAY_PEER_HASH_BITS	= 8,
	SPRAY_GID_TABLE_LEN	= 128,
};

/* Kinds of objects that a device has only so many of. */
enum spray_object {
	SPRAY_OBJ_PD,
	SPRAY_OBJ_AH,
	SPRAY_OBJ_CQ,
	SPRAY_OBJ_QP,
	SPRAY_OBJ_SRQ,
	SPRAY_OBJ_MR,
	SPRAY_OBJ_MW,
	SPRAY_OBJ_NUM
};

enum {
	SPRAY_MAX_OBJECTS	= 1 << 20,	/* of each kind, unless said otherwise */
	SPRAY_MAX_KEYS		= (1 << 24) - 1, /* MRs and MWs; an index is 24 bits */
};

struct spray_timer {
	struct hrtimer t;
	u64 armed;	/* ns it will fire at, ~0 = not armed; only ever moved earlier while pending */
};

/**
 * struct spray_pacer - gives credit to those who send to the device: grant.c
 * @lock: bh, leaf; @core, @timer.armed, and the struct tp_credit of all QPs
 * @budget: packets that may be outstanding in all; 0: no credit is granted. Does not change
 * @mbits: rate of the link, Mbit/s; RTNL
 * @follows: @mbits is what the net_device says, else what the parameter said
 */
struct spray_pacer {
	spinlock_t lock;
	struct tp_pacer core;
	struct spray_timer timer;
	u32 budget;
	u32 mbits;
	bool follows;
};

/**
 * struct spray_dev - one soft RNIC
 * @ndev: its net_device; the reference of ib_device_set_netdev() and one of our own
 * @sn: the UDP sockets of @ndev's network namespace
 * @stats: counters
 * @used: objects there are, by enum spray_object
 * @max: most that there may be
 * @mrs: key index -> struct spray_mr
 * @mr_lock: bh; whoever changes a key that exists, see mr.h. Nests inside the locks of a QP's half
 * @ahs: number -> struct spray_ah; its lock is a leaf, irqsave
 * @gsi: QP 1, or NULL; under devs_lock of the namespace
 * @peers: destinations, by address; @peers_lock is a leaf, irqsave (ib_cm makes AHs with IRQs off)
 * @held: bytes of held packets over all QPs (device pool)
 * @pacer: of credit
 * @counters: number -> struct spray_qp_counter
 * @counter_lock: mutex; who adds to or sums up @counters and @counted
 * @counted: what counters had counted that are gone
 * @link: entry in the list of the namespace's devices
 * @all: entry in dev.c's list of all devices
 * @pd_next: number of the PD allocated last
 */
struct spray_dev {
	struct ib_device ib;
	struct net_device *ndev;
	netdevice_tracker tracker;
	struct list_head all;
	struct spray_net *sn;
	struct spray_stats __percpu *stats;
	atomic_t used[SPRAY_OBJ_NUM];
	u32 max[SPRAY_OBJ_NUM];
	struct xarray mrs;
	u32 mr_next;
	spinlock_t mr_lock;
	struct xarray ahs;
	u32 ah_next;
	struct spray_qp *gsi;
	DECLARE_HASHTABLE(peers, SPRAY_PEER_HASH_BITS);
	spinlock_t peers_lock;
	atomic_long_t held;
	struct spray_pacer pacer;
	struct xarray counters;
	u32 counter_next;
	struct mutex counter_lock;
	struct spray_stats counted;
	bool icrc;
	struct list_head link;
	enum ib_port_state port_state;	/* last one told to consumers */
	atomic_t pd_next;
};

static inline struct spray_dev *to_sdev(struct ib_device *ib)
{
	return container_of(ib, struct spray_dev, ib);
}

struct spray_ucontext {
	struct ib_ucontext ib;
};

struct spray_pd {
	struct ib_pd ib;
};

/* An address handle: a destination and the number that work requests name it by. */
struct spray_ah {
	struct ib_ah ib;
	struct spray_peer *peer;
	u32 num;
	struct rdma_ah_attr attr;
};

static inline struct spray_ah *to_sah(struct ib_ah *ib)
{
	return container_of(ib, struct spray_ah, ib);
}

/**
 * spray_take() - one more object of a kind
 * Any context. Return: 0, or -ENOMEM if the device has as many as it may. Else spray_give() it back.
 */
static inline int spray_take(struct spray_dev *dev, enum spray_object what)
{
	return atomic_add_unless(&dev->used[what], 1, dev->max[what]) ? 0 : -ENOMEM;
}

static inline void spray_give(struct spray_dev *dev, enum spray_object what)
{
	atomic_dec(&dev->used[what]);
}

/**
 * spray_ah_peer() - the destination of address handle @num
 * @pd: protection domain of the QP that sends
 * Any context. Return: referenced, or NULL if @pd has no such handle.
 */
struct spray_peer *spray_ah_peer(struct spray_dev *dev, struct ib_pd *pd, u32 num);

/* Kernel memory that user space maps: the rings. */
struct spray_mmap {
	struct rdma_user_mmap_entry entry;
	void *mem;		/* vmalloc_user() */
};

/**
 * spray_mmap_new() - make @mem (vmalloc_user, @size bytes) mappable by @uctx
 * Frees @mem when the last user is gone, also on failure of this function.
 * Return: entry or ERR_PTR.
 */
struct spray_mmap *spray_mmap_new(struct ib_ucontext *uctx, void *mem, size_t size, u64 *offset);

extern const struct ib_device_ops spray_dev_ops;
extern unsigned short spray_port;	/* module parameter: UDP port, host order */
extern unsigned int spray_max_objects;	/* module parameter: the same */
extern bool spray_use_icrc;		/* module parameter: for links made from now on */
extern unsigned int spray_credit;	/* the same: packets, 0 = none is granted */
extern unsigned int spray_credit_mbits;	/* the same: 0 = what the net_device says */

int spray_dev_init(void);		/* notifier, link type: from here on devices come */
void spray_dev_exit(void);		/* after it there is none and none can come */
/* Unregister the devices of a namespace that goes away, and wait for them. Takes RTNL. */
void spray_dev_net_exit(struct net *net);
/* ib_device_ops.dealloc_driver */
void spray_dev_dealloc(struct ib_device *ib);

/* --- grant.c: the pacer of a device --- */
void spray_pacer_alloc(struct spray_pacer *p);
/* Nobody uses it any more. Sleeps. */
void spray_pacer_exit(struct spray_pacer *p);
/**
 * spray_pacer_init() - have the device grant credit
 * @budget: packets that may be outstanding in all; 0: it grants none
 * @mbits: rate of the link, Mbit/s; 0: what the net_device says
 * RTNL held. Return: 0, or -ENODATA if the net_device does not say.
 */
int spray_pacer_init(struct spray_dev *dev, u32 budget, u32 mbits);
/*
 * The net_device has changed. RTNL held; @notified: by a notifier, which some net_devices call with
 * their own lock held (UP, DOWN and CHANGE do, if any).
 */
void spray_pacer_follow(struct spray_dev *dev, bool notified);
/* Its MTU has. */
void spray_pacer_mtu(struct spray_dev *dev);

/* What a net_device says of its speed, Mbit/s; 0: nothing. RTNL held; @notified: as above. */
u32 spray_link_mbits(struct net_device *ndev, bool notified);

/* The state that the net_device is in now, as a port state. */
enum ib_port_state spray_port_state(const struct spray_dev *dev);

/* Copy a response to user space, as much as it has room for. Return: 0 or -EFAULT. */
int spray_udata_respond(struct ib_udata *udata, void *resp, size_t size);

#endif
