// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Counters: summed over the CPUs when somebody asks. */
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "qp.h"
#include "stats.h"

static const struct rdma_stat_desc spray_stat_descs[] = {
#define X(n) [SPRAY_C_##n] = { .name = #n },
	SPRAY_COUNTERS(X)
#undef X
};

/* What no QP can be blamed for; a QP's counter does not show it. */
static const u8 spray_not_of_a_qp[] = {
	SPRAY_C_paths_failed, SPRAY_C_drop_short, SPRAY_C_drop_checksum, SPRAY_C_drop_no_qp,
	SPRAY_C_peer_no_hello, SPRAY_C_peer_mode_mismatch,
};

static void spray_add_stats(u64 *sum, const struct spray_stats __percpu *stats)
{
	int cpu, i;

	for_each_possible_cpu(cpu) {
		const struct spray_stats *s = per_cpu_ptr(stats, cpu);

		for (i = 0; i < SPRAY_C_NUM; i++)
			sum[i] += READ_ONCE(s->c[i]);
	}
}

struct rdma_hw_stats *spray_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(spray_stat_descs, SPRAY_C_NUM,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/* --- counters of QPs --- */

/**
 * struct spray_qp_counter - the driver's side of a struct rdma_counter
 * @stats: what QPs bound to it count in
 */
struct spray_qp_counter {
	struct spray_stats __percpu *stats;
};

/* ib_core's counters are kept apart: before 7.x there is no room for ours behind them. counter_lock held. */
static struct spray_qp_counter *spray_counter_new(struct spray_dev *dev, u32 *id)
{
	struct spray_qp_counter *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int err = -ENOMEM;

	if (!c)
		return ERR_PTR(-ENOMEM);
	c->stats = alloc_percpu(struct spray_stats);
	if (!c->stats)
		goto fail;
	err = xa_alloc_cyclic(&dev->counters, id, c, xa_limit_31b, &dev->counter_next, GFP_KERNEL);
	if (err >= 0)
		return c;
	free_percpu(c->stats);
fail:
	kfree(c);
	return ERR_PTR(err);
}

/* The names are those of the port, whose sums ib_core makes by their places. */
struct rdma_hw_stats *spray_counter_alloc_stats(struct rdma_counter *counter)
{
	struct rdma_hw_stats *stats = spray_alloc_hw_port_stats(counter->device, counter->port);
	int i;

	for (i = 0; stats && i < ARRAY_SIZE(spray_not_of_a_qp); i++)
		set_bit(spray_not_of_a_qp[i], stats->is_disabled);
	return stats;
}

int spray_counter_update_stats(struct rdma_counter *counter)
{
	struct spray_dev *dev = to_sdev(counter->device);
	struct spray_stats sum = {};
	struct spray_qp_counter *c;
	int i;

	mutex_lock(&dev->counter_lock);		/* dealloc is not kept away by ib_core on all kernels */
	c = xa_load(&dev->counters, counter->id);
	if (c)
		spray_add_stats(sum.c, c->stats);
	mutex_unlock(&dev->counter_lock);
	if (!c)
		return -EINVAL;
	/* ib_core reads them without a lock: they never go back. */
	for (i = 0; i < SPRAY_C_NUM; i++)
		WRITE_ONCE(counter->stats->value[i], sum.c[i]);
	return 0;
}

int spray_counter_bind(struct rdma_counter *counter, struct ib_qp *ib SPRAY_COUNTER_TAIL)
{
	struct spray_dev *dev = to_sdev(ib->device);
	struct spray_qp_counter *c;
	int err = 0;

	mutex_lock(&dev->counter_lock);
	/* Two who bind it at once are told apart here: ib_core has looked, but under no common lock. */
	if (ib->counter)
		c = NULL;
	else if (counter->id)
		c = xa_load(&dev->counters, counter->id);
	else
		c = spray_counter_new(dev, &counter->id);
	if (IS_ERR_OR_NULL(c)) {
		err = c ? PTR_ERR(c) : -EINVAL;
	} else {
		ib->counter = counter;
		WRITE_ONCE(to_sqp(ib)->counted, c->stats);
	}
	mutex_unlock(&dev->counter_lock);
	return err;
}

/* Who counts just now may have seen it still; it goes after that. */
int spray_counter_unbind(struct ib_qp *ib SPRAY_COUNTER_TAIL)
{
	WRITE_ONCE(to_sqp(ib)->counted, NULL);
	ib->counter = NULL;
	return 0;
}

/* No QP is bound any more. What it counted goes on in ib_core's sum of such counters. */
int spray_counter_dealloc(struct rdma_counter *counter)
{
	struct spray_dev *dev = to_sdev(counter->device);
	struct spray_qp_counter *c;
	int i;

	mutex_lock(&dev->counter_lock);
	c = xa_erase(&dev->counters, counter->id);
	/* As ib_core saw it last; what came since was of nobody's any more. */
	for (i = 0; c && i < SPRAY_C_NUM; i++)
		dev->counted.c[i] += counter->stats->value[i];
	mutex_unlock(&dev->counter_lock);
	if (!c)
		return -EINVAL;
	synchronize_rcu();
	free_percpu(c->stats);
	kfree(c);
	return 0;
}

/* --- the port --- */

int spray_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct spray_dev *dev = to_sdev(ib);
	struct spray_stats bound;
	struct spray_qp_counter *c;
	unsigned long id;
	int i;

	if (!port || !stats)
		return -EINVAL;
	mutex_lock(&dev->counter_lock);
	bound = dev->counted;
	xa_for_each(&dev->counters, id, c)
		spray_add_stats(bound.c, c->stats);
	/* After those, which are a part of it: it must not come out less. */
	memset(stats->value, 0, SPRAY_C_NUM * sizeof(stats->value[0]));
	spray_add_stats(stats->value, dev->stats);
	mutex_unlock(&dev->counter_lock);
	for (i = 0; i < SPRAY_C_NUM; i++)
		stats->value[i] -= bound.c[i];
	return SPRAY_C_NUM;
}
