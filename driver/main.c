// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The module: its parameters, the order in which its parts come and go. */
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "core/wire.h"
#include "dev.h"
#include "icrc.h"
#include "receive.h"
#include "selftest.h"
#include "udp.h"

unsigned short spray_port = TP_UDP_PORT;
module_param_named(port, spray_port, ushort, 0444);
MODULE_PARM_DESC(port, "UDP port that is listened on and sent to (default 4791)");

bool spray_use_icrc = true;
module_param_named(icrc, spray_use_icrc, bool, 0644);
MODULE_PARM_DESC(icrc, "invariant CRC on links added from now on; both ends alike (default on)");

unsigned int spray_max_objects = SPRAY_MAX_OBJECTS;
module_param_named(max_objects, spray_max_objects, uint, 0644);
MODULE_PARM_DESC(max_objects, "most QPs, and as many each of PDs, CQs, SRQs, MRs, MWs and AHs, of links added from now on (default, and most, 1048576)");

unsigned int spray_credit;
module_param_named(credit, spray_credit, uint, 0644);
MODULE_PARM_DESC(credit, "grant credit to those who send, on links added from now on: packets that may be on their way to a link in all, what a round trip needs (default 0: none is granted; most 65536)");

unsigned int spray_credit_mbits;
module_param_named(credit_mbits, spray_credit_mbits, uint, 0644);
MODULE_PARM_DESC(credit_mbits, "rate of links added from now on, Mbit/s, that credit is granted at (default 0: what the net_device says)");

#ifdef SPRAY_DEBUG
unsigned int spray_jitter_us;
module_param_named(jitter, spray_jitter_us, uint, 0644);
MODULE_PARM_DESC(jitter, "debug builds: wait up to so many us where threads meet (default 0)");
#endif

static int __init spray_init(void)
{
	int err;

	if (!spray_port) {
		pr_err("rdma_spray: port must not be 0\n");
		return -EINVAL;
	}
	err = spray_selftest();
	if (err)
		return err;
	err = spray_icrc_init();
	if (err)
		return err;
	err = spray_rx_init();
	if (err)
		goto fail_icrc;
	err = spray_udp_init();
	if (err)
		goto fail_rx;
	err = spray_dev_init();
	if (err)
		goto fail_udp;
	return 0;

fail_udp:
	spray_udp_exit();
fail_rx:
	spray_rx_exit();
fail_icrc:
	spray_icrc_exit();
	return err;
}

static void __exit spray_exit(void)
{
	spray_dev_exit();
	spray_udp_exit();
	/* RCU callbacks are code of this module. */
	rcu_barrier();
	spray_rx_exit();
	spray_icrc_exit();
}

module_init(spray_init);
module_exit(spray_exit);

MODULE_DESCRIPTION("Soft RDMA over any net_device, RC packets sprayed over many UDP paths");
MODULE_LICENSE("Dual BSD/GPL");
