// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Devices: how they come, how they follow their net_device, how they go.
 *
 * COMING. `rdma link add` calls spray_newlink() without RTNL. The net_device is
 * checked, claimed and its namespace's sockets are joined under RTNL, where it
 * can neither go nor move. Registration itself may not hold RTNL; what became
 * of the net_device meanwhile is looked at afterwards, under RTNL again: either
 * the change is over and seen there, or it comes later and the notifier finds
 * the device.
 *
 * GOING. By `rdma link delete`, by the net_device (the notifier holds RTNL, so
 * it only queues the work), by the namespace, by module removal. All end in
 * ib_core's unregistration, once, which
 *   1. lets nobody new in and ends user contexts and kernel clients, so that
 *      QPs, CQs, MRs and AHs are destroyed by the verbs that do it at any time,
 *   2. waits for those who hold the device by ib_device_try_get(),
 *   3. takes away sysfs and netlink (no counters are read from here on) and
 *      its reference to the net_device,
 *   4. calls spray_dev_dealloc(): the receivers of the namespace's sockets may
 *      still look the device up and find that it has no QPs; spray_net_leave()
 *      ends that. RCU callbacks may still name it: rcu_barrier(). Now nothing
 *      does, and what the device owns is freed, our reference to the net_device
 *      last. ib_core frees the memory.
 * The list of devices, left in step 4, is what a dying namespace waits on.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "../uapi/spray-abi.h"
#include "dev.h"
#include "udp.h"

#define SPRAY_RDMA_DRIVER	((enum rdma_driver_id)SPRAY_DRIVER_ID)

static LIST_HEAD(spray_devs);
static DEFINE_MUTEX(spray_devs_mutex);	/* spray_devs; inside RTNL, outside nothing */
static DECLARE_WAIT_QUEUE_HEAD(spray_devs_wait);
static u32 spray_devs_left;		/* how many have gone so far */

/* There is no extack on this path: the reason goes to the log. */
#define spray_refuse(ndev, fmt, ...)						\
do {										\
	if (net_ratelimit())							\
		netdev_err(ndev, "rdma_spray: " fmt "\n", ##__VA_ARGS__);	\
} while (0)

enum ib_port_state spray_port_state(const struct spray_dev *dev)
{
	return netif_running(dev->ndev) && netif_carrier_ok(dev->ndev) ? IB_PORT_ACTIVE :
									 IB_PORT_DOWN;
}

/* --- coming --- */

static void spray_dev_limits(struct spray_dev *dev)
{
	u32 max = clamp_t(u32, READ_ONCE(spray_max_objects), 1, SPRAY_MAX_OBJECTS);
	int i;

	for (i = 0; i < SPRAY_OBJ_NUM; i++)
		dev->max[i] = max;
	if (max == SPRAY_MAX_OBJECTS)
		dev->max[SPRAY_OBJ_MR] = SPRAY_MAX_KEYS - SPRAY_MAX_OBJECTS;
}

static struct spray_dev *spray_dev_alloc(struct net *net)
{
	struct spray_dev *dev = ib_alloc_device(spray_dev, ib);

	/* Where namespaces do not share RDMA devices, ours belongs to its net_device's. */
	if (dev && !rdma_dev_access_netns(&dev->ib, net)) {
		ib_dealloc_device(&dev->ib);
		dev = ib_alloc_device_with_net(spray_dev, ib, net);
	}
	if (!dev)
		return NULL;
	/* Before anybody can find the device: receivers count as soon as it has joined its sockets. */
	dev->stats = alloc_percpu(struct spray_stats);
	if (!dev->stats) {
		ib_dealloc_device(&dev->ib);
		return NULL;
	}
	INIT_LIST_HEAD(&dev->all);
	INIT_LIST_HEAD(&dev->link);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	spin_lock_init(&dev->mr_lock);
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->counters, XA_FLAGS_ALLOC1);
	mutex_init(&dev->counter_lock);
	hash_init(dev->peers);
	spin_lock_init(&dev->peers_lock);
	spray_pacer_alloc(&dev->pacer);
	dev->icrc = spray_use_icrc;
	spray_dev_limits(dev);
	ib_set_device_ops(&dev->ib, &spray_dev_ops);
	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = num_possible_cpus();
	dev->ib.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				   BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV) |
				   BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	return dev;
}

static bool spray_guid_taken(__be64 guid)
{
	struct spray_dev *d;

	list_for_each_entry(d, &spray_devs, all)
		if (d->ib.node_guid == guid)
			return true;
	return false;
}

/* From the MAC, or random where that is zero or not unique. */
static __be64 spray_guid(struct net_device *ndev)
{
	__be64 guid;

	addrconf_addr_eui48((u8 *)&guid, ndev->dev_addr);
	while (is_zero_ether_addr(ndev->dev_addr) || spray_guid_taken(guid)) {
		get_random_bytes(&guid, sizeof(guid));
		((u8 *)&guid)[0] |= 2;	/* locally administered */
		if (!spray_guid_taken(guid))
			break;
	}
	return guid;
}

/* One device per net_device. */
static int spray_dev_claim(struct spray_dev *dev, struct net_device *ndev)
{
	struct spray_dev *d;
	int err = 0;

	mutex_lock(&spray_devs_mutex);
	list_for_each_entry(d, &spray_devs, all)
		if (d->ndev == ndev)
			err = -EEXIST;
	if (!err) {
		dev->ib.node_guid = spray_guid(ndev);
		dev->ndev = ndev;
		netdev_hold(ndev, &dev->tracker, GFP_KERNEL);
		list_add_tail(&dev->all, &spray_devs);
	}
	mutex_unlock(&spray_devs_mutex);
	return err;
}

static int spray_dev_attach(struct spray_dev *dev, struct net_device *ndev)
{
	struct spray_net *sn;
	int err;

	ASSERT_RTNL();
	if (ndev->reg_state != NETREG_REGISTERED)
		return -ENODEV;
	err = spray_dev_claim(dev, ndev);
	if (err)
		return err;
	dev->port_state = spray_port_state(dev);
	err = spray_pacer_init(dev, READ_ONCE(spray_credit), READ_ONCE(spray_credit_mbits));
	if (err) {
		spray_refuse(ndev, "its speed is not known (is it up?), and credit needs it; see parameter credit_mbits");
		return err;
	}
	sn = spray_net_join(dev_net(ndev), dev);
	if (IS_ERR(sn)) {
		if (PTR_ERR(sn) == -EADDRINUSE)
			spray_refuse(ndev, "UDP port %u is in use (rdma_rxe?); see parameter port",
				     spray_port);
		return PTR_ERR(sn);
	}
	dev->sn = sn;
	return 0;
}

static int spray_dev_register(struct spray_dev *dev, const char *name)
{
	int err;

	err = ib_device_set_netdev(&dev->ib, dev->ndev, 1);
	if (err)
		return err;
	ib_mark_name_assigned_by_user(&dev->ib);
	return ib_register_device(&dev->ib, name, NULL);
}

static void spray_port_update(struct spray_dev *dev)
{
	enum ib_port_state state = spray_port_state(dev);
	struct ib_event ev = {
		.device = &dev->ib,
		.element.port_num = 1,
		.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	ASSERT_RTNL();
	if (state == dev->port_state)
		return;
	dev->port_state = state;
	ib_dispatch_event(&ev);
}

static void spray_dev_follow(struct spray_dev *dev, bool notified)
{
	spray_port_update(dev);
	spray_pacer_follow(dev, notified);
}

/* The device may be gone already: only ib_core can tell. */
static void spray_dev_settle(struct net_device *ndev, const struct net *net)
{
	struct ib_device *ib;

	rtnl_lock();
	ib = ib_device_get_by_netdev(ndev, SPRAY_RDMA_DRIVER);
	if (ib) {
		if (ndev->reg_state != NETREG_REGISTERED || !net_eq(dev_net(ndev), net))
			ib_unregister_device_queued(ib);
		else
			spray_dev_follow(to_sdev(ib), false);
		ib_device_put(ib);
	}
	rtnl_unlock();
}

static int spray_newlink(const char *name, struct net_device *ndev)
{
	struct spray_dev *dev;
	struct net *net;
	int err;

	if (ndev->type != ARPHRD_ETHER) {
		spray_refuse(ndev, "not an Ethernet device");
		return -EOPNOTSUPP;
	}
	/* ib_core lists a VLAN's addresses with the net_device below it, and nowhere else. */
	if (is_vlan_dev(ndev)) {
		spray_refuse(ndev, "a VLAN: link %s instead, it serves this one's addresses",
			     vlan_dev_real_dev(ndev)->name);
		return -EOPNOTSUPP;
	}
	dev = spray_dev_alloc(dev_net(ndev));
	if (!dev)
		return -ENOMEM;
	rtnl_lock();
	net = dev_net(ndev);
	err = spray_dev_attach(dev, ndev);
	rtnl_unlock();
	if (!err)
		err = spray_dev_register(dev, name);
	if (err) {
		ib_dealloc_device(&dev->ib);
		return err;
	}
	spray_dev_settle(ndev, net);
	return 0;
}

/* --- following --- */

/* MTU, speed and addresses are read when asked for, or ib_core sees to them; but the pacer is told. */
static int spray_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct ib_device *ib = ib_device_get_by_netdev(ndev, SPRAY_RDMA_DRIVER);

	if (!ib)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UNREGISTER: /* also: moves to another namespace */
		ib_unregister_device_queued(ib);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		spray_dev_follow(to_sdev(ib), true);
		break;
	case NETDEV_CHANGEMTU:
		spray_pacer_mtu(to_sdev(ib));
		break;
	}
	ib_device_put(ib);
	return NOTIFY_DONE;
}

static struct notifier_block spray_netdev_nb = {
	.notifier_call = spray_netdev_event,
};

/* --- going --- */

void spray_dev_dealloc(struct ib_device *ib)
{
	struct spray_dev *dev = to_sdev(ib);

	if (dev->sn)
		spray_net_leave(dev->sn, dev);
	spray_pacer_exit(&dev->pacer);
	rcu_barrier();
	WARN_ON_ONCE(!xa_empty(&dev->mrs) || !xa_empty(&dev->ahs) || !hash_empty(dev->peers));
	WARN_ON_ONCE(!xa_empty(&dev->counters));
	xa_destroy(&dev->mrs);
	xa_destroy(&dev->ahs);
	xa_destroy(&dev->counters);
	free_percpu(dev->stats);
	mutex_lock(&spray_devs_mutex);
	if (!list_empty(&dev->all)) {
		list_del_init(&dev->all);
		netdev_put(dev->ndev, &dev->tracker);
	}
	WRITE_ONCE(spray_devs_left, spray_devs_left + 1);
	mutex_unlock(&spray_devs_mutex);
	wake_up_all(&spray_devs_wait);
}

/* A device of @net: 1 and a reference, or 0 and it is going already. -ENOENT: there is none. */
static int spray_dev_find_net(const struct net *net, struct ib_device **ib, u32 *left)
{
	struct spray_dev *d;
	int ret = -ENOENT;

	mutex_lock(&spray_devs_mutex);
	*left = spray_devs_left;
	list_for_each_entry(d, &spray_devs, all) {
		if (!d->sn || d->sn->net != net)
			continue;
		*ib = &d->ib;
		ret = ib_device_try_get(&d->ib);
		break;
	}
	mutex_unlock(&spray_devs_mutex);
	return ret;
}

/* No link is added any more: who could has no reference to @net. */
void spray_dev_net_exit(struct net *net)
{
	struct ib_device *ib;
	u32 left;
	int ret;

	while ((ret = spray_dev_find_net(net, &ib, &left)) >= 0) {
		if (ret)
			ib_unregister_device_and_put(ib);
		else
			wait_event(spray_devs_wait, READ_ONCE(spray_devs_left) != left);
	}
}

/* --- module --- */

static struct rdma_link_ops spray_link_ops = {
	.type = "spray",
	.newlink = spray_newlink,
};

int spray_dev_init(void)
{
	int err = register_netdevice_notifier(&spray_netdev_nb);

	if (!err)
		rdma_link_register(&spray_link_ops);
	return err;
}

/* First nothing comes any more, then all goes; the notifier last: devices need it to their end. */
void spray_dev_exit(void)
{
	rdma_link_unregister(&spray_link_ops);
	ib_unregister_driver(SPRAY_RDMA_DRIVER);
	unregister_netdevice_notifier(&spray_netdev_nb);
	WARN_ON_ONCE(!list_empty(&spray_devs));
}

MODULE_ALIAS_RDMA_LINK("spray");
