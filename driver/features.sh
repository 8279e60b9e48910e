#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# features.sh KERNEL_SOURCE: compiler flags that say what this kernel's headers offer.
#
# Distribution kernels carry backports, so nothing asks for a version: one look into the header per
# change. SPRAY_FEATURES tells compat.h that this script came to its end.
set -eu

inc=$1/include
[ -r "$inc/rdma/ib_verbs.h" ] || { echo "features.sh: no kernel headers in $1" >&2; exit 1; }

# has NAME HEADER REGEX: the header exists and, on one line, matches
has()
{
	if [ -r "$inc/$2" ] && tr -s '\n\t ' ' ' <"$inc/$2" | grep -Eq "$3"; then
		printf ' -DSPRAY_HAVE_%s' "$1"
	fi
}

has CREATE_CQ_ATTRS	rdma/ib_verbs.h '\(\*create_cq\)\([^)]*struct uverbs_attr_bundle'
has RESIZE_USER_CQ	rdma/ib_verbs.h '\(\*resize_user_cq\)\('
has REG_MR_DMAH		rdma/ib_verbs.h '\(\*reg_user_mr\)\([^)]*struct ib_dmah'
has ATOMIC_WRITE	rdma/ib_verbs.h 'IB_DEVICE_ATOMIC_WRITE ='
has FLUSH		rdma/ib_verbs.h 'IB_DEVICE_FLUSH_GLOBAL ='
has REG_DMABUF_ATTRS	rdma/ib_verbs.h '\(\*reg_user_mr_dmabuf\)\([^)]*struct uverbs_attr_bundle'
has DMABUF_UNLOCKED	linux/dma-buf.h 'int dma_buf_vmap_unlocked\('
has DMABUF_INVALIDATE	linux/dma-buf.h '\(\*invalidate_mappings\)\('
has IMPORT_NS_STRING	linux/module.h 'define MODULE_IMPORT_NS\(ns\) MODULE_INFO\(import_ns, ns\)'
has COUNTER_PORT	rdma/ib_verbs.h '\(\*counter_bind_qp\)\([^)]*u32 port'
has COUNTER_INIT	rdma/ib_verbs.h '\(\*counter_init\)\('
has FILL_RES_SRQ	rdma/ib_verbs.h '\(\*fill_res_srq_entry\)\('
has UMEM_GET_VA		rdma/ib_umem.h 'struct ib_umem \*ib_umem_get_va\('
has ALLOC_WITH_NET	rdma/ib_verbs.h 'define ib_alloc_device_with_net\('
has MARK_NAME		rdma/ib_verbs.h 'ib_mark_name_assigned_by_user\('
has REPORT_PORT_EVENT	rdma/ib_verbs.h '\(\*report_port_event\)\('
has NETIF_LINK_KSETTINGS linux/ethtool.h 'int netif_get_link_ksettings\('
has HRTIMER_SETUP	linux/hrtimer.h 'void hrtimer_setup\('
has FLOWI4_DSCP		net/flow.h 'define flowi4_dscp'
has UNALIGNED		linux/unaligned.h 'get_unaligned'

printf ' -DSPRAY_FEATURES\n'
