/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The structs of spray-abi.h wrapped into the commands of uverbs: the driver's
 * part is reached as resp.drv_payload.
 */
#ifndef SPRAY_CMD_H
#define SPRAY_CMD_H

#include <infiniband/kern-abi.h>

#include "spray-abi.h"

/*
 * DECLARE_DRV_CMD wants each struct a second time, without a tag, for unnamed
 * access. Not used here: an empty one takes no space beside drv_payload.
 */
#define _STRUCT_spray_alloc_ucontext_resp	struct {}
#define _STRUCT_spray_alloc_pd_resp		struct {}
#define _STRUCT_spray_create_ah_resp		struct {}
#define _STRUCT_spray_create_cq_resp		struct {}
#define _STRUCT_spray_resize_cq_resp		struct {}
#define _STRUCT_spray_create_srq_resp		struct {}
#define _STRUCT_spray_modify_srq_req		struct {}
#define _STRUCT_spray_create_qp_resp		struct {}

DECLARE_DRV_CMD(spray_get_context_cmd, IB_USER_VERBS_CMD_GET_CONTEXT, empty, spray_alloc_ucontext_resp);
DECLARE_DRV_CMD(spray_alloc_pd_cmd, IB_USER_VERBS_CMD_ALLOC_PD, empty, spray_alloc_pd_resp);
DECLARE_DRV_CMD(spray_create_ah_cmd, IB_USER_VERBS_CMD_CREATE_AH, empty, spray_create_ah_resp);
DECLARE_DRV_CMD(spray_create_cq_cmd, IB_USER_VERBS_CMD_CREATE_CQ, empty, spray_create_cq_resp);
DECLARE_DRV_CMD(spray_resize_cq_cmd, IB_USER_VERBS_CMD_RESIZE_CQ, empty, spray_resize_cq_resp);
DECLARE_DRV_CMD(spray_create_srq_cmd, IB_USER_VERBS_CMD_CREATE_SRQ, empty, spray_create_srq_resp);
DECLARE_DRV_CMD(spray_modify_srq_cmd, IB_USER_VERBS_CMD_MODIFY_SRQ, spray_modify_srq_req, empty);
DECLARE_DRV_CMD(spray_create_cq_ex_cmd, IB_USER_VERBS_EX_CMD_CREATE_CQ, empty, spray_create_cq_resp);
DECLARE_DRV_CMD(spray_create_qp_ex_cmd, IB_USER_VERBS_EX_CMD_CREATE_QP, empty, spray_create_qp_resp);
DECLARE_DRV_CMD(spray_create_qp_cmd, IB_USER_VERBS_CMD_CREATE_QP, empty, spray_create_qp_resp);

#endif
