/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What `rdma -dd resource show` tells of our objects besides what ib_core knows. */
#ifndef SPRAY_RESTRACK_H
#define SPRAY_RESTRACK_H

struct ib_cq;
struct ib_mr;
struct ib_qp;
struct ib_srq;
struct sk_buff;

/* ib_device_ops.fill_res_*: process context, the object is referenced. 0 or -EMSGSIZE. */
int spray_fill_res_qp(struct sk_buff *msg, struct ib_qp *ib);
int spray_fill_res_cq(struct sk_buff *msg, struct ib_cq *ib);
int spray_fill_res_mr(struct sk_buff *msg, struct ib_mr *ib);
int spray_fill_res_srq(struct sk_buff *msg, struct ib_srq *ib);

#endif
