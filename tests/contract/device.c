// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The two devices, and the GIDs by which they know each other. */
#include "contract.h"

#include <arpa/inet.h>
#include <fcntl.h>

struct dev ct_dev[2];

static bool gid_is_v4(const union ibv_gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(g->raw, mapped, 12);
}

static bool gid_is_link_local(const union ibv_gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}

/* 0 no use, else the higher the better. */
static int gid_rank(const struct ibv_gid_entry *e, int family)
{
	bool v4 = gid_is_v4(&e->gid);

	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (family == 4)
		return v4 ? 2 : 0;
	if (v4)
		return 0;
	return gid_is_link_local(&e->gid) ? 1 : 2;
}

static bool pick_gid(struct dev *d, int family)
{
	int best = 0, i;

	for (i = 0; i < d->port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		int rank;

		if (ibv_query_gid_ex(d->ctx, 1, i, &e, 0))
			continue;
		rank = gid_rank(&e, family);
		if (rank <= best)
			continue;
		best = rank;
		d->gid = e.gid;
		d->gid_index = i;
	}
	return best;
}

static void open_dev(struct dev *d, const char *name)
{
	struct ibv_device **list;
	int n, i;

	snprintf(d->name, sizeof(d->name), "%s", name);
	list = ibv_get_device_list(&n);
	if (!list)
		ct_fail("no list of RDMA devices: %s", strerror(errno));
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			break;
	if (i == n)
		ct_fail("no RDMA device %s with a provider that can drive it", name);
	d->ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!d->ctx)
		ct_fail("cannot open %s: %s", name, strerror(errno));
	if (fcntl(d->ctx->async_fd, F_SETFL, fcntl(d->ctx->async_fd, F_GETFL) | O_NONBLOCK))
		ct_fail("async fd of %s: %s", name, strerror(errno));
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd)
		ct_fail("alloc_pd on %s: %s", name, strerror(errno));
	if (ibv_query_device(d->ctx, &d->attr))
		ct_fail("query_device of %s", name);
	if (ibv_query_port(d->ctx, 1, &d->port))
		ct_fail("query_port of %s", name);
	if (d->port.state != IBV_PORT_ACTIVE)
		ct_fail("port of %s is not active", name);
}

static void pick_gids(int family, const char *index)
{
	char text[INET6_ADDRSTRLEN];
	int i;

	if (index) {
		char *end;

		ct_dev[0].gid_index = ct_dev[1].gid_index = strtoul(index, &end, 0);
		if (*end == ':')
			ct_dev[1].gid_index = strtoul(end + 1, NULL, 0);
		for (i = 0; i < 2; i++)
			if (ibv_query_gid(ct_dev[i].ctx, 1, ct_dev[i].gid_index, &ct_dev[i].gid))
				ct_fail("%s has no GID %u", ct_dev[i].name, ct_dev[i].gid_index);
	} else {
		bool ok = false;

		if (family != 6)
			ok = pick_gid(&ct_dev[0], 4) && pick_gid(&ct_dev[1], 4);
		if (!ok && family != 4)
			ok = pick_gid(&ct_dev[0], 6) && pick_gid(&ct_dev[1], 6);
		if (!ok)
			ct_fail("the devices have no RoCE v2 GIDs of one family");
	}
	for (i = 0; i < 2; i++) {
		inet_ntop(AF_INET6, ct_dev[i].gid.raw, text, sizeof(text));
		ct_diag("%c = %s, GID %u %s, active MTU %zu", 'A' + i, ct_dev[i].name,
			ct_dev[i].gid_index, text, mtu_bytes(ct_dev[i].port.active_mtu));
		ct_dev[i].mtu = min_t(int, ct_dev[0].port.active_mtu, ct_dev[1].port.active_mtu);
	}
}

void devs_open(const char *const name[2], int family, const char *index)
{
	int i;

	for (i = 0; i < 2; i++)
		open_dev(&ct_dev[i], name[i]);
	pick_gids(family, index);
}

void devs_close(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		ibv_dealloc_pd(ct_dev[i].pd);
		ibv_close_device(ct_dev[i].ctx);
	}
}
