// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of verbs, and those that only translate or look up. Nothing here
 * knows of packets.
 *
 * Not in the table, and so refused by ib_core with EOPNOTSUPP: multicast, XRC.
 * The capabilities say the same.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#include "cq.h"
#include "dev.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "udp.h"

enum {
	SPRAY_VENDOR_ID		= 0x535052,	/* no OUI, but not 0 either */
	SPRAY_FW_MAJOR		= 0,
	SPRAY_FW_MINOR		= 1,
};

/* --- device and port --- */

static int spray_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	struct spray_dev *dev = to_sdev(ib);

	/* udata is NULL at registration on newer kernels, empty on older ones. */
	if (udata && udata->inlen)
		return -EINVAL;
	attr->fw_ver = (u64)SPRAY_FW_MAJOR << 32 | SPRAY_FW_MINOR << 16;
	attr->sys_image_guid = ib->node_guid;
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = PAGE_SIZE;
	attr->vendor_id = SPRAY_VENDOR_ID;
	attr->vendor_part_id = 1;
	attr->hw_ver = 1;
	attr->max_qp = dev->max[SPRAY_OBJ_QP];
	attr->max_qp_wr = SPRAY_MAX_QP_WR;
	attr->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B | IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_ATOMIC_WRITE | IB_DEVICE_FLUSH_GLOBAL;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;	/* rdma link delete */
	attr->max_send_sge = SPRAY_MAX_SGE;
	attr->max_recv_sge = SPRAY_MAX_SGE;
	attr->max_sge_rd = SPRAY_MAX_SGE;
	attr->max_cq = dev->max[SPRAY_OBJ_CQ];
	attr->max_cqe = SPRAY_MAX_CQE;
	attr->max_srq = dev->max[SPRAY_OBJ_SRQ];
	attr->max_srq_wr = SPRAY_MAX_SRQ_WR;
	attr->max_srq_sge = SPRAY_MAX_SGE;
	attr->max_mr = dev->max[SPRAY_OBJ_MR];
	attr->max_mw = dev->max[SPRAY_OBJ_MW];
	attr->max_fast_reg_page_list_len = SPRAY_MAX_FAST_PAGES;
	attr->max_pd = dev->max[SPRAY_OBJ_PD];
	attr->max_qp_rd_atom = SPRAY_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = SPRAY_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = SPRAY_MAX_RD_ATOMIC * dev->max[SPRAY_OBJ_QP];
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_ah = dev->max[SPRAY_OBJ_AH];
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	/* CQEs carry CLOCK_MONOTONIC in ns; the unit of the clock is kHz. */
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = NSEC_PER_MSEC;
	return 0;
}

static void spray_get_fw_str(struct ib_device *ib, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.0", SPRAY_FW_MAJOR, SPRAY_FW_MINOR);
}

static const struct spray_speed {
	u32 mbits;	/* up to */
	u16 speed;
	u8 width;
} spray_speeds[] = {
	{ 1000, IB_SPEED_SDR, IB_WIDTH_1X },
	{ 10000, IB_SPEED_FDR10, IB_WIDTH_1X },
	{ 20000, IB_SPEED_DDR, IB_WIDTH_4X },
	{ 25000, IB_SPEED_EDR, IB_WIDTH_1X },
	{ 40000, IB_SPEED_FDR10, IB_WIDTH_4X },
	{ 50000, IB_SPEED_EDR, IB_WIDTH_2X },
	{ 100000, IB_SPEED_EDR, IB_WIDTH_4X },
	{ 200000, IB_SPEED_HDR, IB_WIDTH_4X },
	{ U32_MAX, IB_SPEED_NDR, IB_WIDTH_4X },
};

/* Not ib_get_eth_speed(): it writes to the log whenever a net_device has no speed to tell. */
static void spray_query_speed(struct net_device *ndev, struct ib_port_attr *attr)
{
	u32 mbits;
	int i = 0;

	rtnl_lock();
	mbits = spray_link_mbits(ndev, false) ?: 1000;
	rtnl_unlock();
	while (mbits > spray_speeds[i].mbits)
		i++;
	attr->active_speed = spray_speeds[i].speed;
	attr->active_width = spray_speeds[i].width;
}

static int spray_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct spray_dev *dev = to_sdev(ib);
	u32 mtu = READ_ONCE(dev->ndev->mtu);

	attr->state = spray_port_state(dev);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
			   netif_running(dev->ndev) ? IB_PORT_PHYS_STATE_POLLING :
						      IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	/* What RoCE's largest headers leave of the MTU; what packets are sized by is the route's. */
	attr->active_mtu = iboe_get_mtu(mtu) ?: IB_MTU_256;
	attr->phys_mtu = mtu;
	attr->gid_tbl_len = SPRAY_GID_TABLE_LEN;
	attr->ip_gids = true;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = SPRAY_MAX_MSG;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	spray_query_speed(dev->ndev, attr);
	return 0;
}

static int spray_get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *im)
{
	im->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	im->gid_tbl_len = SPRAY_GID_TABLE_LEN;
	im->pkey_tbl_len = 1;
	im->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static int spray_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static enum rdma_link_layer spray_get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* --- user contexts and what they map --- */

int spray_udata_respond(struct ib_udata *udata, void *resp, size_t size)
{
	return ib_copy_to_udata(udata, resp, min(size, udata->outlen));
}

/*
 * A context pins the module: rmmod is refused while programs run. ib_core does
 * that for us only without disassociate_ucontext. The last put is safe: module
 * exit unregisters the devices, which waits for a context being closed.
 */
static int spray_alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct spray_alloc_ucontext_resp resp = { .abi_version = SPRAY_ABI_VERSION };
	int err;

	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	err = spray_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		module_put(THIS_MODULE);
	return err;
}

/* Its presence lets a process take over a context by its file. Nothing of ours is to be told. */
static int spray_query_ucontext(struct ib_ucontext *ib, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static void spray_dealloc_ucontext(struct ib_ucontext *ib)
{
	module_put(THIS_MODULE);
}

/*
 * Its presence lets ib_core end user contexts when the net_device goes, instead
 * of waiting for the processes. Rings stay mapped where they are: their pages
 * belong to the mapping, and nobody reads or writes them on our side.
 */
static void spray_disassociate_ucontext(struct ib_ucontext *ib)
{
}

struct spray_mmap *spray_mmap_new(struct ib_ucontext *uctx, void *mem, size_t size, u64 *offset)
{
	struct spray_mmap *m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!m)
		goto fail;
	m->mem = mem;
	err = rdma_user_mmap_entry_insert(uctx, &m->entry, size);
	if (err)
		goto fail;
	*offset = rdma_user_mmap_get_offset(&m->entry);
	return m;
fail:
	kfree(m);
	vfree(mem);
	return ERR_PTR(err);
}

static void spray_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct spray_mmap *m = container_of(entry, struct spray_mmap, entry);

	vfree(m->mem);
	kfree(m);
}

/* The mapping holds the pages, not the entry: a queue may go before it is unmapped. */
static int spray_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err = -EINVAL;

	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;
	if ((vma->vm_flags & VM_SHARED) &&
	    vma->vm_end - vma->vm_start == entry->npages * PAGE_SIZE)
		err = remap_vmalloc_range(vma, container_of(entry, struct spray_mmap, entry)->mem,
					  0);
	rdma_user_mmap_entry_put(entry);
	return err;
}

/* --- protection domains --- */

static int spray_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct spray_dev *dev = to_sdev(ib->device);
	struct spray_alloc_pd_resp resp = {};
	int err = spray_take(dev, SPRAY_OBJ_PD);

	if (err)
		return err;
	resp.pdn = atomic_inc_return(&dev->pd_next);
	if (udata)
		err = spray_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		spray_give(dev, SPRAY_OBJ_PD);
	return err;
}

static int spray_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	spray_give(to_sdev(ib->device), SPRAY_OBJ_PD);
	return 0;
}

/* --- address handles --- */

/*
 * Callers may hold spinlocks with interrupts off (the CM does), so all that may
 * sleep happens before, and the table has an irqsave lock. Whoever looks a
 * number up does it under that lock, where the handle still holds its peer.
 */
static int spray_ah_number(struct spray_dev *dev, struct spray_ah *ah)
{
	unsigned long flags;
	int err;

	xa_lock_irqsave(&dev->ahs, flags);
	err = __xa_alloc_cyclic(&dev->ahs, &ah->num, ah, xa_limit_31b, &dev->ah_next,
				GFP_ATOMIC);
	xa_unlock_irqrestore(&dev->ahs, flags);
	return err < 0 ? err : 0;
}

static void spray_ah_unnumber(struct spray_dev *dev, struct spray_ah *ah)
{
	unsigned long flags;

	xa_lock_irqsave(&dev->ahs, flags);
	__xa_erase(&dev->ahs, ah->num);
	xa_unlock_irqrestore(&dev->ahs, flags);
}

static int spray_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	bool sleepable = init->flags & RDMA_CREATE_AH_SLEEPABLE;
	struct spray_dev *dev = to_sdev(ib->device);
	struct spray_create_ah_resp resp = {};
	struct spray_ah *ah = to_sah(ib);
	int err;

	if (init->ah_attr->type != RDMA_AH_ATTR_TYPE_ROCE ||
	    !(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	err = spray_take(dev, SPRAY_OBJ_AH);
	if (err)
		return err;
	ah->attr = *init->ah_attr;
	ah->attr.grh.sgid_attr = NULL;	/* not ours to keep: ib_core's AH holds it */
	ah->peer = spray_peer_get(dev, init->ah_attr, sleepable ? GFP_KERNEL : GFP_ATOMIC);
	if (IS_ERR(ah->peer)) {
		err = PTR_ERR(ah->peer);
		goto fail_give;
	}
	err = spray_ah_number(dev, ah);
	if (err)
		goto fail_peer;
	resp.ah_num = ah->num;
	if (udata)
		err = spray_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto fail_num;
	return 0;

fail_num:
	spray_ah_unnumber(dev, ah);
fail_peer:
	spray_peer_put(ah->peer);
fail_give:
	spray_give(dev, SPRAY_OBJ_AH);
	return err;
}

static int spray_query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	*attr = to_sah(ib)->attr;
	return 0;
}

static int spray_destroy_ah(struct ib_ah *ib, u32 flags)
{
	struct spray_ah *ah = to_sah(ib);

	spray_ah_unnumber(to_sdev(ib->device), ah);
	spray_peer_put(ah->peer);
	spray_give(to_sdev(ib->device), SPRAY_OBJ_AH);
	return 0;
}

struct spray_peer *spray_ah_peer(struct spray_dev *dev, struct ib_pd *pd, u32 num)
{
	struct spray_peer *peer = NULL;
	struct spray_ah *ah;
	unsigned long flags;

	xa_lock_irqsave(&dev->ahs, flags);
	ah = xa_load(&dev->ahs, num);
	if (ah && ah->ib.pd == pd) {
		peer = ah->peer;
		refcount_inc(&peer->ref);
	}
	xa_unlock_irqrestore(&dev->ahs, flags);
	return peer;
}

/* --- forms that differ between kernels --- */

static int spray_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			   struct spray_cq_bundle *bundle)
{
	return spray_create_cq_any(ib, attr, spray_cq_udata(bundle));
}

static int spray_resize_cq(struct ib_cq *ib, spray_cq_size cqe, struct ib_udata *udata)
{
	return spray_resize_cq_any(ib, cqe, udata);
}

static struct ib_mr *spray_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				       int access, SPRAY_REG_MR_TAIL)
{
	if (spray_reg_mr_has_dmah())
		return ERR_PTR(-EOPNOTSUPP);
	return spray_reg_user_mr_any(pd, start, length, iova, access, udata);
}

static struct ib_mr *spray_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				      int access, SPRAY_REG_DMABUF_TAIL)
{
	if (spray_reg_mr_has_dmah())
		return ERR_PTR(-EOPNOTSUPP);
	return spray_reg_dmabuf_any(pd, offset, length, iova, fd, access);
}

#ifdef SPRAY_HAVE_COUNTER_INIT
/* Not optional for who has counters: the core allocates by the size that is told, and calls. */
struct spray_rdma_counter {
	struct rdma_counter ib;
};

static void spray_counter_init(struct rdma_counter *counter)
{
}
#endif

#ifdef SPRAY_HAVE_REPORT_PORT_EVENT
/* Newer cores tell port events, but for one device of a net_device: dev.c tells ours, always. */
static void spray_report_port_event(struct ib_device *ib, struct net_device *ndev,
				    unsigned long event)
{
}
#endif

const struct ib_device_ops spray_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)SPRAY_DRIVER_ID,
	.uverbs_abi_ver = SPRAY_ABI_VERSION,

	.alloc_hw_port_stats = spray_alloc_hw_port_stats,
	.alloc_mr = spray_alloc_mr,
	.alloc_mw = spray_alloc_mw,
	.alloc_pd = spray_alloc_pd,
	.alloc_ucontext = spray_alloc_ucontext,
	.counter_alloc_stats = spray_counter_alloc_stats,
	.counter_bind_qp = spray_counter_bind,
	.counter_dealloc = spray_counter_dealloc,
#ifdef SPRAY_HAVE_COUNTER_INIT
	.counter_init = spray_counter_init,
#endif
	.counter_unbind_qp = spray_counter_unbind,
	.counter_update_stats = spray_counter_update_stats,
	.create_ah = spray_create_ah,
	.create_cq = spray_create_cq,
	.create_qp = spray_create_qp,
	.create_srq = spray_create_srq,
	.create_user_ah = spray_create_ah,
	.dealloc_driver = spray_dev_dealloc,
	.dealloc_mw = spray_dealloc_mw,
	.dealloc_pd = spray_dealloc_pd,
	.dealloc_ucontext = spray_dealloc_ucontext,
	.dereg_mr = spray_dereg_mr,
	.destroy_ah = spray_destroy_ah,
	.destroy_cq = spray_destroy_cq,
	.destroy_qp = spray_destroy_qp,
	.destroy_srq = spray_destroy_srq,
	.disassociate_ucontext = spray_disassociate_ucontext,
	.fill_res_cq_entry = spray_fill_res_cq,
	.fill_res_mr_entry = spray_fill_res_mr,
	.fill_res_qp_entry = spray_fill_res_qp,
#ifdef SPRAY_HAVE_FILL_RES_SRQ
	.fill_res_srq_entry = spray_fill_res_srq,
#endif
	.get_dev_fw_str = spray_get_fw_str,
	.get_dma_mr = spray_get_dma_mr,
	.get_hw_stats = spray_get_hw_stats,
	.get_link_layer = spray_get_link_layer,
	.get_port_immutable = spray_get_port_immutable,
	.map_mr_sg = spray_map_mr_sg,
	.mmap = spray_mmap,
	.mmap_free = spray_mmap_free,
	.modify_qp = spray_modify_qp,
	.modify_srq = spray_modify_srq,
	.poll_cq = spray_poll_cq,
	.post_recv = spray_post_recv,
	.post_send = spray_post_send,
	.post_srq_recv = spray_post_srq_recv,
	.query_ah = spray_query_ah,
	.query_device = spray_query_device,
	.query_pkey = spray_query_pkey,
	.query_port = spray_query_port,
	.query_qp = spray_query_qp,
	.query_srq = spray_query_srq,
	.query_ucontext = spray_query_ucontext,
	.reg_user_mr = spray_reg_user_mr,
	.reg_user_mr_dmabuf = spray_reg_dmabuf,
#ifdef SPRAY_HAVE_REPORT_PORT_EVENT
	.report_port_event = spray_report_port_event,
#endif
	.req_notify_cq = spray_req_notify_cq,
	.rereg_user_mr = spray_rereg_user_mr,
	SPRAY_RESIZE_CQ = spray_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, spray_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, spray_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, spray_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, spray_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, spray_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, spray_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, spray_ucontext, ib),
#ifdef SPRAY_HAVE_COUNTER_INIT
	INIT_RDMA_OBJ_SIZE(rdma_counter, spray_rdma_counter, ib),
#endif
};
