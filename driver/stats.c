// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Counters: summed over the CPUs when somebody asks. */
#include <rdma/ib_verbs.h>

#include "dev.h"
#include "stats.h"

static const struct rdma_stat_desc spray_stat_descs[] = {
#define X(n) [SPRAY_C_##n] = { .name = #n },
	SPRAY_COUNTERS(X)
#undef X
};

struct rdma_hw_stats *spray_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(spray_stat_descs, SPRAY_C_NUM,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int spray_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct spray_dev *dev = to_sdev(ib);
	int cpu, i;

	if (!port || !stats)
		return -EINVAL;
	memset(stats->value, 0, SPRAY_C_NUM * sizeof(stats->value[0]));
	for_each_possible_cpu(cpu) {
		const struct spray_stats *s = per_cpu_ptr(dev->stats, cpu);

		for (i = 0; i < SPRAY_C_NUM; i++)
			stats->value[i] += READ_ONCE(s->c[i]);
	}
	return SPRAY_C_NUM;
}
