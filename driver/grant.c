// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receiver credits: the device's side of core/credit.c. What comes is counted by
 * the half that takes it, and told to the pacer when that half answers: once a
 * batch. If it is that QP's turn just then, the answer bears the grant. All other
 * grants are the timer's, which has the QP answer unasked.
 *
 * LIFETIME. A half stands in the pacer's queue only while it is live: it is put
 * there under its own lock by an answer that saw it live, and whoever takes it out
 * of service has it leave under that same lock. So once spray_halves_reset() is
 * over, the pacer does not know the QP any more. The timer takes the pacer's lock
 * alone, and there a reference to each QP that it is to serve: a QP that stands in
 * the queue still has the reference of the table, which destroy drops only after
 * that reset. It lets the lock go and takes the QP's; if the half has left service
 * meanwhile it does nothing, if it has entered a new life it repeats that one's
 * state, which is as good as any answer. Destroy waits for the reference, as for a
 * receiver's. When the last QP is gone the queue is empty and nobody arms the
 * timer; spray_pacer_exit() waits for one that runs.
 */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>

#include "qp.h"

enum {
	SPRAY_GRANT_RATE	= 995,		/* per mille of the link's rate: else what stands in a queue stays there */
	SPRAY_GRANT_MBIT	= 125,		/* bytes per ms */
	SPRAY_GRANT_TICK	= 20000,	/* ns; the timer fires no sooner, the pacer makes good for it */
	SPRAY_GRANT_BATCH	= 16,		/* QPs told at a time, */
	SPRAY_GRANT_ROUNDS	= 8,		/* and so many times before others have the CPU */
};

/* --- the pacer --- */

static void spray_pacer_arm(struct spray_pacer *p, u64 now)
{
	u64 at = tp_pacer_deadline(&p->core);

	lockdep_assert_held(&p->lock);
	spray_timer_arm(&p->timer, at == ~0ULL ? at : max(at, now + SPRAY_GRANT_TICK));
}

static struct spray_qp *spray_credit_qp(struct tp_credit *core)
{
	struct spray_credit *c = container_of(core, struct spray_credit, core);

	return c->requests ? container_of(c, struct spray_qp, resp.credit) :
			     container_of(c, struct spray_qp, req.credit);
}

/* Whose turn it is: credit is given, references are taken. Return: how many. */
static u32 spray_pacer_due(struct spray_pacer *p, u64 now, struct tp_credit **due)
{
	struct tp_credit *c;
	u32 i, n = 0;

	spin_lock_bh(&p->lock);
	p->timer.armed = ~0ULL;
	while (n < SPRAY_GRANT_BATCH && (c = tp_pacer_grant(&p->core, now))) {
		struct spray_qp *qp = spray_credit_qp(c);

		spray_qp_count(qp, tx_grants);
		for (i = 0; i < n && due[i] != c; i++)
			;
		if (i < n)
			continue;
		refcount_inc(&qp->ref);
		due[n++] = c;
	}
	spray_pacer_arm(p, now);
	spin_unlock_bh(&p->lock);
	return n;
}

static enum hrtimer_restart spray_pacer_timer(struct hrtimer *t)
{
	struct spray_pacer *p = container_of(t, struct spray_pacer, timer.t);
	struct tp_credit *due[SPRAY_GRANT_BATCH];
	u32 i, n, rounds = SPRAY_GRANT_ROUNDS;

	do {
		n = spray_pacer_due(p, ktime_get_ns(), due);
		for (i = 0; i < n; i++) {
			struct spray_qp *qp = spray_credit_qp(due[i]);

			spray_jitter();		/* held by a reference alone */
			spray_answer_unasked(qp, due[i] == &qp->resp.credit.core ? TP_REQUEST :
										   TP_RESPONSE);
			spray_qp_put(qp);
		}
	} while (n == SPRAY_GRANT_BATCH && --rounds);
	return HRTIMER_NORESTART;
}

static void spray_pacer_set(struct spray_dev *dev)
{
	struct spray_pacer *p = &dev->pacer;
	u64 rate = div_u64((u64)p->mbits * SPRAY_GRANT_MBIT * SPRAY_GRANT_RATE, 1000);

	spin_lock_bh(&p->lock);
	tp_pacer_set(&p->core, spray_mtu_payload(false, READ_ONCE(dev->ndev->mtu)),
		     (u32)min_t(u64, rate, U32_MAX), p->budget);
	spin_unlock_bh(&p->lock);
}

u32 spray_link_mbits(struct net_device *ndev, bool notified)
{
	struct ethtool_link_ksettings ks;
	int err;

	ASSERT_RTNL();
	if (ndev->reg_state != NETREG_REGISTERED)
		return 0;
	err = notified ? netif_get_link_ksettings(ndev, &ks) : __ethtool_get_link_ksettings(ndev, &ks);
	return err || ks.base.speed == (u32)SPEED_UNKNOWN ? 0 : ks.base.speed;
}

int spray_pacer_init(struct spray_dev *dev, u32 budget, u32 mbits)
{
	struct spray_pacer *p = &dev->pacer;

	if (!budget)
		return 0;
	p->follows = !mbits;
	p->mbits = mbits ? mbits : spray_link_mbits(dev->ndev, false);
	if (!p->mbits)
		return -ENODATA;
	p->budget = min_t(u32, budget, TP_BUDGET_MAX);
	tp_pacer_init(&p->core, 0, 0, 0, ktime_get_ns());
	spray_pacer_set(dev);
	return 0;
}

/* A link that is down, or does not say, keeps its rate: QPs wait for grants. */
void spray_pacer_follow(struct spray_dev *dev, bool notified)
{
	u32 mbits;

	if (!dev->pacer.budget)
		return;
	mbits = dev->pacer.follows ? spray_link_mbits(dev->ndev, notified) : 0;
	if (mbits)
		dev->pacer.mbits = mbits;
	spray_pacer_set(dev);
}

void spray_pacer_mtu(struct spray_dev *dev)
{
	if (dev->pacer.budget)
		spray_pacer_set(dev);
}

void spray_pacer_alloc(struct spray_pacer *p)
{
	spin_lock_init(&p->lock);
	p->timer.armed = ~0ULL;
	spray_hrtimer_setup(&p->timer.t, spray_pacer_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

void spray_pacer_exit(struct spray_pacer *p)
{
	WARN_ON_ONCE(p->core.first);
	hrtimer_cancel(&p->timer.t);
}

/* --- the halves of a QP --- */

static struct spray_credit *spray_half_credit(struct spray_qp *qp, enum tp_space space)
{
	return space == TP_REQUEST ? &qp->resp.credit : &qp->req.credit;
}

void spray_grant_begin(struct spray_qp *qp, enum tp_space space)
{
	struct spray_credit *c = spray_half_credit(qp, space);
	struct spray_pacer *p = &qp->dev->pacer;

	spin_lock_bh(&p->lock);
	tp_credit_init(&c->core, qp->payload);
	spin_unlock_bh(&p->lock);
	c->requests = space == TP_REQUEST;
	c->bytes = 0;
	c->rtx = false;
}

void spray_grant_end(struct spray_qp *qp, enum tp_space space)
{
	struct spray_pacer *p = &qp->dev->pacer;

	if (!p->budget)
		return;
	spin_lock_bh(&p->lock);
	tp_credit_leave(&p->core, &spray_half_credit(qp, space)->core);
	spin_unlock_bh(&p->lock);
}

void spray_grant_tell(struct spray_qp *qp, enum tp_space space, bool live, struct tp_ack *a)
{
	struct spray_credit *c = spray_half_credit(qp, space);
	struct spray_pacer *p = &qp->dev->pacer;
	u64 now = ktime_get_ns();
	u32 grants = 0;

	spin_lock_bh(&p->lock);
	if (live && c->bytes) {
		tp_credit_got(&p->core, &c->core, c->bytes, c->rtx, now);
		while (p->core.first == &c->core && tp_pacer_grant(&p->core, now))
			grants++;
		spray_pacer_arm(p, now);
	}
	a->credited = true;
	a->credit = c->core.limit / TP_CREDIT_UNIT;
	spin_unlock_bh(&p->lock);
	c->bytes = 0;
	c->rtx = false;
	if (grants)
		spray_qp_count_n(qp, tx_grants, grants);
}
