#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Does it live at all: module, link, device, one program across the fabric, and away again.
. "$(dirname "$0")/lib.sh"

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
# GID 0 is a link-local address: it needs a common link, which the fabric's hosts do not have
if [ "$FABRIC_HOSTS" = netns ]; then
	here "direct pair" fabric_direct
	here "rdma link add on the pair" fabric_link "$SPRAY_TYPE" || bail "no device"
	pair "ibv_rc_pingpong -g 0" 60 "ibv_rc_pingpong -d $DEV_B -g 0 -e" "ibv_rc_pingpong -d $DEV_A -g 0 -e $B4"
	here "direct pair goes" fabric_down
fi
here "fabric" fabric_up rate || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
rdma link show | sed 's/^/# /'

active() { ibv_devinfo -d "$1" | tee /dev/stderr | grep -q PORT_ACTIVE; }
check "ibv_devinfo $DEV_A" active "$DEV_A"
check "ibv_devinfo $DEV_B" active "$DEV_B"
check "ibv_devinfo -v" ibv_devinfo -v -d "$DEV_A"
pair "ibv_rc_pingpong" 60 "ibv_rc_pingpong -d $DEV_B -g $(fabric_gid "$DEV_B" $B4) -e" \
	"ibv_rc_pingpong -d $DEV_A -g $(fabric_gid "$DEV_A" $A4) -e $B4"
pair "ib_write_bw" 60 "ib_write_bw -d $DEV_B -x $(fabric_gid "$DEV_B" $B4) -F -s 65536 -n 200" \
	"ib_write_bw -d $DEV_A -x $(fabric_gid "$DEV_A" $A4) -F -s 65536 -n 200 $B4"
grep -A1 BW "$LOGS/client" | sed 's/^/# /'
fabric_bytes | sed 's/^/# spine bytes: /'
check "rdma statistic" rdma statistic show link "$DEV_A/1"
both_deleted() { onA rdma link delete "$DEV_A" && onB rdma link delete "$DEV_B"; }
check "rdma link delete" both_deleted
DEV_A='' DEV_B=''
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
here "fabric goes" fabric_down
finish
