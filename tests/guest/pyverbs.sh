#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# pyverbs.sh [MODULE...]: rdma-core's own Python tests on one of our devices (both ends are in one
# process: a QP talks to another one of the same device). See suite.py; what may be skipped is in
# pyverbs-skips.txt.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init
here=$(dirname "$0")

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
gid=$(fabric_gid "$DEV_A" $A4)
# some tests want them
echo 64 >/proc/sys/vm/nr_hugepages
nested pyverbs 7200 python3 "$here/suite.py" "$DEV_A" "$gid" vA "$SPRAY_SUITE" "$here/pyverbs-skips.txt" "$@"
echo 0 >/proc/sys/vm/nr_hugepages
here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
