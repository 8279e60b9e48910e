// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Details for `rdma -dd resource show`: a snapshot is taken under the locks of
 * the object, then written into the message. Names are short, units in them.
 *
 * The object itself stays until we are done, but what hangs on it need not: kernels
 * before 7.x take it from the list only after the driver's destroy. So destroy
 * takes the QP's peer and the CQ's memory away under the lock that is held here,
 * a destroyed QP is not live, and regions leave the list first in every kernel.
 */
#include <net/netlink.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "compat.h"
#include "cq.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "srq.h"

struct spray_detail {
	const char *name;
	u64 value;
};

static int __spray_put_details(struct sk_buff *msg, const struct spray_detail *d, int n)
{
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	int i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < n; i++)
		if (rdma_nl_put_driver_u64(msg, d[i].name, d[i].value))
			goto full;
	nla_nest_end(msg, nest);
	return 0;
full:
	nla_nest_cancel(msg, nest);
	return -EMSGSIZE;
}

#define spray_put_details(msg, ...) ({						\
	const struct spray_detail __d[] = { __VA_ARGS__ };			\
										\
	__spray_put_details(msg, __d, ARRAY_SIZE(__d));				\
})

/* A packet space: how far it is, what its window does. */
struct spray_space {
	u64 window, flight, rtt, sent, again, timeouts, credited, credit;
};

static struct spray_space spray_look_at(const struct tp_tx *tx)
{
	return (struct spray_space) {
		.window = tx->cc.cwnd,
		.flight = tx->inflight,
		.rtt = tx->srtt_us,
		.sent = tx->c_sent,
		.again = tx->c_rtx,
		.timeouts = tx->c_rto,
		.credited = tx->credited,
		.credit = tx->credited ? max_t(s32, tp_diff(tx->credit_limit, tx->credit_used), 0) : 0,
	};
}

int spray_fill_res_qp(struct sk_buff *msg, struct ib_qp *ib)
{
	struct spray_qp *qp = to_sqp(ib);
	u64 posted, waiting, held, receives, path_n = 0, path_bad = 0;
	struct spray_space req = {}, rsp = {};

	/* Paths, spaces and their memory stay as long as no state changes. */
	mutex_lock(&qp->mutex);
	spin_lock_bh(&qp->req.lock);
	posted = qp->req.sq.avail - qp->req.sq.cons;
	held = qp->req.hold.n;
	if (!qp->ud && qp->req.live)
		req = spray_look_at(&qp->req.core.tx);
	spin_unlock_bh(&qp->req.lock);
	spin_lock_bh(&qp->resp.lock);
	receives = qp->resp.rq.avail - qp->resp.rq.cons;
	held += qp->resp.hold.n;
	waiting = qp->resp.seat.waiting || qp->resp.core.syndrome == TP_SYN_RNR;
	if (!qp->ud && qp->resp.live && qp->resp.core.has_tx)
		rsp = spray_look_at(&qp->resp.core.tx);
	spin_unlock_bh(&qp->resp.lock);
	if (qp->peer) {
		path_n = READ_ONCE(qp->peer->paths.n);
		path_bad = tp_paths_dead(&qp->peer->paths);
	}
	mutex_unlock(&qp->mutex);
	return spray_put_details(msg,
		{ "paths", path_n },
		{ "paths_bad", path_bad },
		{ "packet_bytes", qp->payload },
		{ "sq_posted", posted },
		{ "rq_taken", receives },
		{ "rq_waiting", waiting },
		{ "held_packets", held },
		{ "window_bytes", req.window },
		{ "in_flight_bytes", req.flight },
		{ "rtt_us", req.rtt },
		{ "packets", req.sent },
		{ "retransmissions", req.again },
		{ "timeouts", req.timeouts },
		{ "credited", req.credited },
		{ "credit_bytes", req.credit },
		{ "rsp_window_bytes", rsp.window },
		{ "rsp_in_flight_bytes", rsp.flight },
		{ "rsp_packets", rsp.sent },
		{ "rsp_retransmissions", rsp.again },
		{ "rsp_timeouts", rsp.timeouts },
		{ "rsp_credited", rsp.credited },
		{ "rsp_credit_bytes", rsp.credit });
}

int spray_fill_res_cq(struct sk_buff *msg, struct ib_cq *ib)
{
	u32 entries = 0, waiting = 0, armed = 0, lost;
	struct spray_cq *cq = to_scq(ib);

	spin_lock_irq(&cq->lock);
	if (cq->m.ctl) {
		entries = cq->m.mask + 1;
		/* a user's index: it says what it likes */
		waiting = min(cq->prod - READ_ONCE(cq->m.ctl->cons), entries);
		armed = READ_ONCE(cq->m.ctl->armed);
	}
	lost = test_bit(SPRAY_CQ_OVERFLOW, &cq->events);
	spin_unlock_irq(&cq->lock);
	return spray_put_details(msg,
		{ "entries", entries },
		{ "waiting", waiting },
		{ "armed", armed },
		{ "overflow", lost });
}

int spray_fill_res_mr(struct sk_buff *msg, struct ib_mr *ib)
{
	struct spray_mr *mr = container_of(ib, struct spray_mr, ib);
	struct spray_dev *dev = to_sdev(ib->device);
	u64 live, access, windows, pages;

	spin_lock_bh(&dev->mr_lock);
	live = mr->live;
	access = mr->access;
	windows = max(atomic_read(&mr->windows), 0);
	pages = mr->fast ? mr->npages : mr->dma ? 0 :
		PFN_UP((mr->offset & (PAGE_SIZE - 1)) + mr->length);
	spin_unlock_bh(&dev->mr_lock);
	return spray_put_details(msg,
		{ "live", live },
		{ "access", access },
		{ "pages", pages },
		{ "windows", windows },
		{ "fast", mr->fast },
		{ "dmabuf", !!mr->attach });
}

int spray_fill_res_srq(struct sk_buff *msg, struct ib_srq *ib)
{
	struct spray_srq *srq = to_ssrq(ib);
	u32 entries, posted, limit, back, waiting = 0;
	struct list_head *i;

	spin_lock_irq(&srq->lock);
	entries = srq->m.entries;
	posted = srq->prod - srq->cons;
	back = srq->n_returned;
	limit = srq->limit;
	list_for_each(i, &srq->waiters)
		waiting++;
	spin_unlock_irq(&srq->lock);
	return spray_put_details(msg,
		{ "entries", entries },
		{ "posted", posted },
		{ "returned", back },
		{ "limit", limit },
		{ "qps_waiting", waiting });
}
