#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The kernel's own limits, without a provider in between: see uverbs.py.
. "$(dirname "$0")/lib.sh"

added() { ip link add d0 type dummy && ip link set d0 up && rdma link add "$SPRAY_TYPE"0 type "$SPRAY_TYPE" netdev d0; }

check "modprobe $MODULE" modprobe -a "$MODULE" ib_uverbs || bail "no module"
check "rdma link add" added || bail "no device"
nested uverbs 120 python3 "$(dirname "$0")/uverbs.py" "$SPRAY_TYPE"0
check "rdma link delete" rdma link delete "$SPRAY_TYPE"0
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
ip link del d0
finish
