#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# limits.sh: as many objects as the device says it has, and no more; capability bits; see limits.py.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init

check "modprobe $MODULE, few objects" modprobe "$MODULE" max_objects=60 || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
nested limits 300 python3 "$(dirname "$0")/limits.py" "$DEV_A" "$(fabric_gid "$DEV_A" $A4)" vA
here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
