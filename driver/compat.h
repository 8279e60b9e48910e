/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One interface for all kernels. The code is written for the newest; what is
 * older is mapped here, by the flags of features.sh (presence in the headers,
 * a version only where they can't tell). Force-included before every file of
 * the module, so nothing heavy is included here.
 */
#ifndef SPRAY_COMPAT_H
#define SPRAY_COMPAT_H

#ifndef SPRAY_FEATURES
#error "driver/features.sh did not run: build through Kbuild"
#endif

#include <linux/hrtimer.h>
#include <linux/kconfig.h>
#include <linux/version.h>

/* Memory is reached by page_address() for as long as it is registered. */
#ifdef CONFIG_HIGHMEM
#error "kernels with highmem are not supported"
#endif

/* Pool and bounce buffer are a CPU's own while softirqs are off. Where PREEMPT_RT has the choice, it must be this one. */
#if defined(CONFIG_PREEMPT_RT) && !defined(CONFIG_PREEMPT_RT_NEEDS_BH_LOCK) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#error "PREEMPT_RT needs CONFIG_PREEMPT_RT_NEEDS_BH_LOCK for this driver"
#endif

#ifdef SPRAY_HAVE_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* --- verbs --- */

/* Last argument of create_cq: an attribute bundle (NULL for kernel queues), or the bare udata. */
#ifdef SPRAY_HAVE_CREATE_CQ_ATTRS
#define spray_cq_bundle		uverbs_attr_bundle
#define spray_cq_udata(b)	((b) ? &(b)->driver_udata : NULL)
#else
#define spray_cq_bundle		ib_udata
#define spray_cq_udata(b)	(b)
#endif

/* CQs are resized for users only, and the operation says so. */
#ifdef SPRAY_HAVE_RESIZE_USER_CQ
#define SPRAY_RESIZE_CQ		.resize_user_cq
#define spray_cq_size		unsigned int
#else
#define SPRAY_RESIZE_CQ		.resize_cq
#define spray_cq_size		int
#endif

/* reg_user_mr got a steering-tag handle before the udata. */
#ifdef SPRAY_HAVE_REG_MR_DMAH
#define SPRAY_REG_MR_TAIL	struct ib_dmah *dmah, struct ib_udata *udata
#define spray_reg_mr_has_dmah()	(dmah != NULL)
#else
#define SPRAY_REG_MR_TAIL	struct ib_udata *udata
#define spray_reg_mr_has_dmah()	false
#endif

/* The same before the last of reg_user_mr_dmabuf, which was the bare udata once. */
#ifdef SPRAY_HAVE_REG_MR_DMAH
#define SPRAY_REG_DMABUF_TAIL	struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs
#elif defined(SPRAY_HAVE_REG_DMABUF_ATTRS)
#define SPRAY_REG_DMABUF_TAIL	struct uverbs_attr_bundle *attrs
#else
#define SPRAY_REG_DMABUF_TAIL	struct ib_udata *udata
#endif

/*
 * Memory placement extensions. Where the core has no name for them there is no capability, so what
 * is posted by number is refused, and no region has a right that a peer's FLUSH asks for.
 */
#ifndef SPRAY_HAVE_ATOMIC_WRITE
#define IB_DEVICE_ATOMIC_WRITE	0
#endif
#ifndef SPRAY_HAVE_FLUSH
#define IB_DEVICE_FLUSH_GLOBAL	0
#define IB_ACCESS_FLUSH_GLOBAL	(1 << 8)
#define IB_ACCESS_FLUSH_PERSISTENT (1 << 9)
#endif

/* Binding QPs to counters: newer cores name the port, too. */
#ifdef SPRAY_HAVE_COUNTER_PORT
#define SPRAY_COUNTER_TAIL	, u32 port
#else
#define SPRAY_COUNTER_TAIL
#endif

/* Before it had two names, the one function took no lock of the caller's. */
#ifndef SPRAY_HAVE_DMABUF_UNLOCKED
#define dma_buf_vmap_unlocked	dma_buf_vmap
#define dma_buf_vunmap_unlocked	dma_buf_vunmap
#endif

/* Where pinned memory can be withdrawn, an importer that names no function is known not to follow. */
#ifdef SPRAY_HAVE_DMABUF_INVALIDATE
#define SPRAY_DMABUF_OPS	{}
#else
#define SPRAY_DMABUF_OPS	{ .move_notify = spray_dmabuf_moved }
#endif

/* The other name takes the net_device's own lock, which notifiers run under. */
#ifndef SPRAY_HAVE_NETIF_LINK_KSETTINGS
#define netif_get_link_ksettings	__ethtool_get_link_ksettings
#endif

#ifdef SPRAY_HAVE_IMPORT_NS_STRING
#define SPRAY_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#else
#define SPRAY_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#endif

#ifndef SPRAY_HAVE_UMEM_GET_VA
#define ib_umem_get_va		ib_umem_get
#endif

#ifndef SPRAY_HAVE_MARK_NAME
#define ib_mark_name_assigned_by_user(dev)	((void)(dev))
#endif

/* Without it there is one way only: a device of the initial namespace. */
#ifndef SPRAY_HAVE_ALLOC_WITH_NET
#define ib_alloc_device_with_net(type, member, net)	((void)(net), ib_alloc_device(type, member))
#endif

/* --- timers --- */

#ifdef SPRAY_HAVE_HRTIMER_SETUP
#define spray_hrtimer_setup	hrtimer_setup
#else
static inline void spray_hrtimer_setup(struct hrtimer *t,
				       enum hrtimer_restart (*fn)(struct hrtimer *),
				       clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(t, clock, mode);
	t->function = fn;
}
#endif

/* --- network --- */

/* Where struct flowi4 keeps the DSCP; a macro, so that <net/flow.h> is for its users to include. */
#ifdef SPRAY_HAVE_FLOWI4_DSCP
#define spray_flowi4_set_tos(fl, tos)	((fl)->flowi4_dscp = inet_dsfield_to_dscp(tos))
#else
#define spray_flowi4_set_tos(fl, tos)	((fl)->flowi4_tos = (tos))
#endif

#endif
