// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rdma-core provider of the link type `spray`: device, context, MR, MW, AH.
 *
 * What is not in the table of operations answers EOPNOTSUPP by libibverbs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "spray-cmd.h"
#include "spray.h"

static int spray_query_device_ex(struct ibv_context *ibctx,
				 const struct ibv_query_device_ex_input *input,
				 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t fw;
	int ret;

	ret = ibv_cmd_query_device_any(ibctx, input, attr, attr_size, &resp, &resp_size);
	if (ret)
		return ret;
	fw = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 (unsigned int)(fw >> 32) & 0xffff, (unsigned int)(fw >> 16) & 0xffff,
		 (unsigned int)fw & 0xffff);
	return 0;
}

static int spray_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibctx, port, attr, &cmd, sizeof(cmd));
}

/* access goes to the kernel as it is: optional bits are the core's to drop. */
static struct ibv_mr *spray_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				   int access)
{
	struct ib_uverbs_reg_mr_resp resp = {};
	struct ibv_reg_mr cmd = {};
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	ret = ibv_cmd_reg_mr(pd, addr, length, iova, access, vmr, &cmd, sizeof(cmd), &resp,
			     sizeof(resp));
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

/*
 * Not ibv_cmd_reg_dmabuf_mr(): it got an argument more while the private ABI kept its number. This
 * way a provider goes with every library of that number.
 */
static struct ibv_mr *spray_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					  uint64_t iova, int fd, int access)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, 9);
	struct ib_uverbs_attr *handle;
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	handle = fill_attr_out_obj(cmd, UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
	fill_attr_out_ptr(cmd, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &vmr->ibv_mr.lkey);
	fill_attr_out_ptr(cmd, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &vmr->ibv_mr.rkey);
	fill_attr_in_obj(cmd, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd->handle);
	fill_attr_in_uint64(cmd, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset);
	fill_attr_in_uint64(cmd, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length);
	fill_attr_in_uint64(cmd, UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova);
	fill_attr_in_uint32(cmd, UVERBS_ATTR_REG_DMABUF_MR_FD, fd);
	fill_attr_in_uint32(cmd, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access);
	if (execute_ioctl(pd->context, cmd)) {
		free(vmr);
		return NULL;
	}
	vmr->ibv_mr.handle = read_attr_obj(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, handle);
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.addr = (void *)(uintptr_t)offset;
	vmr->ibv_mr.length = length;
	vmr->mr_type = IBV_MR_TYPE_DMABUF_MR;
	return &vmr->ibv_mr;
}

static int spray_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
			  size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr, access, pd, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
}

/* Another process's or context's. The kernel tells its keys and length; where it is, only its owner knows. */
static struct ibv_mr *spray_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));
	int ret;

	if (!vmr)
		return NULL;
	ret = ibv_cmd_query_mr(pd, vmr, handle);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

static void spray_unimport_mr(struct ibv_mr *mr)
{
	free(verbs_get_mr(mr));
}

static int spray_dereg_mr(struct verbs_mr *vmr)
{
	int ret = ibv_cmd_dereg_mr(vmr);

	if (!ret)
		free(vmr);
	return ret;
}

static struct ibv_mw *spray_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp = {};
	struct ibv_alloc_mw cmd = {};
	struct ibv_mw *mw;
	int ret;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	ret = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(mw);
		errno = ret;
		return NULL;
	}
	return mw;
}

static int spray_dealloc_mw(struct ibv_mw *mw)
{
	int ret = ibv_cmd_dealloc_mw(mw);

	if (!ret)
		free(mw);
	return ret;
}

static struct ibv_ah *spray_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct spray_create_ah_cmd_resp resp = {};
	struct spray_ah *ah;
	int ret;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ret = ibv_cmd_create_ah(pd, &ah->ibah, attr, &resp.ibv_resp, sizeof(resp));
	if (ret) {
		free(ah);
		errno = ret;
		return NULL;
	}
	ah->ah_num = resp.drv_payload.ah_num;
	return &ah->ibah;
}

static int spray_destroy_ah(struct ibv_ah *ibah)
{
	int ret = ibv_cmd_destroy_ah(ibah);

	if (!ret)
		free(to_spray_ah(ibah));
	return ret;
}

static void spray_free_context(struct ibv_context *ibctx)
{
	struct spray_context *ctx = to_spray_context(ibctx);

	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops spray_context_ops = {
	.alloc_mw = spray_alloc_mw,
	.alloc_parent_domain = spray_alloc_parent_domain,
	.alloc_pd = spray_alloc_pd,
	.alloc_td = spray_alloc_td,
	.bind_mw = spray_bind_mw,
	.create_ah = spray_create_ah,
	.create_cq = spray_create_cq,
	.create_cq_ex = spray_create_cq_ex,
	.create_qp = spray_create_qp,
	.create_qp_ex = spray_create_qp_ex,
	.create_srq = spray_create_srq,
	.dealloc_mw = spray_dealloc_mw,
	.dealloc_pd = spray_dealloc_pd,
	.dealloc_td = spray_dealloc_td,
	.dereg_mr = spray_dereg_mr,
	.destroy_ah = spray_destroy_ah,
	.destroy_cq = spray_destroy_cq,
	.destroy_qp = spray_destroy_qp,
	.destroy_srq = spray_destroy_srq,
	.free_context = spray_free_context,
	.import_mr = spray_import_mr,
	.import_pd = spray_import_pd,
	.modify_qp = spray_modify_qp,
	.modify_srq = spray_modify_srq,
	.poll_cq = spray_poll_cq,
	.post_recv = spray_post_recv,
	.post_send = spray_post_send,
	.post_srq_recv = spray_post_srq_recv,
	.query_device_ex = spray_query_device_ex,
	.query_port = spray_query_port,
	.query_qp = spray_query_qp,
	.query_rt_values = spray_query_rt_values,
	.query_srq = spray_query_srq,
	.reg_dmabuf_mr = spray_reg_dmabuf_mr,
	.reg_mr = spray_reg_mr,
	.req_notify_cq = spray_req_notify_cq,
	.rereg_mr = spray_rereg_mr,
	.resize_cq = spray_resize_cq,
	.unimport_mr = spray_unimport_mr,
	.unimport_pd = spray_unimport_pd,
};

static int spray_get_context(struct spray_context *ctx)
{
	struct spray_get_context_cmd_resp resp = {};
	struct ibv_get_context cmd = {};
	int ret;

#if IBVERBS_PABI_VERSION >= 65
	ret = ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), NULL, &resp.ibv_resp, sizeof(resp));
#else
	ret = ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), &resp.ibv_resp, sizeof(resp));
#endif
	if (ret)
		return ret;
	if (resp.drv_payload.abi_version != SPRAY_ABI_VERSION)
		return EPROTO;
	return 0;
}

/* What the kernel has that libraries may not know, and the other way round. Return: 0 or errno. */
static int query_caps(struct spray_context *ctx)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	struct ibv_device_attr_ex attr = {};
	int ret = ibv_cmd_query_device_any(&ctx->vctx.context, NULL, &attr, sizeof(attr), &resp,
					   &resp_size);

	ctx->caps = ret ? 0 : attr.device_cap_flags_ex;
	return ret;
}

/* @err: of the kernel's half: 0, or an errno, then there is no context. */
static struct verbs_context *finish_context(struct spray_context *ctx, int err)
{
	if (!err)
		err = query_caps(ctx);
	if (!err) {
		verbs_set_ops(&ctx->vctx, &spray_context_ops);
		return &ctx->vctx;
	}
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = err;
	return NULL;
}

static struct verbs_context *spray_alloc_context(struct ibv_device *ibdev, int cmd_fd,
						 void *private_data)
{
	struct spray_context *ctx;

	(void)private_data;
	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx, SPRAY_DRIVER_ID);
	return ctx ? finish_context(ctx, spray_get_context(ctx)) : NULL;
}

/* A context that another process made, or this one: the file is all that it takes. */
static struct verbs_context *spray_import_context(struct ibv_device *ibdev, int cmd_fd)
{
	struct spray_context *ctx;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx, SPRAY_DRIVER_ID);
	return ctx ? finish_context(ctx, ibv_cmd_query_context(&ctx->vctx.context, NULL)) : NULL;
}

static struct verbs_device *spray_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct spray_device *dev = calloc(1, sizeof(*dev));

	(void)sysfs_dev;
	return dev ? &dev->vdev : NULL;
}

static void spray_uninit_device(struct verbs_device *vdev)
{
	free(to_spray_device(vdev));
}

/* The id decides, whatever the device is called; the name serves kernels that do not send it. */
static const struct verbs_match_ent spray_match_table[] = {
	VERBS_DRIVER_ID(SPRAY_DRIVER_ID),
	VERBS_NAME_MATCH("spray", NULL),
	{},
};

static const struct verbs_device_ops spray_device_ops = {
	.name = "spray",
	.match_min_abi_version = SPRAY_ABI_VERSION,
	.match_max_abi_version = SPRAY_ABI_VERSION,
	.match_table = spray_match_table,
	.alloc_device = spray_alloc_device,
	.uninit_device = spray_uninit_device,
	.alloc_context = spray_alloc_context,
	.import_context = spray_import_context,
};
PROVIDER_DRIVER(spray, spray_device_ops);
