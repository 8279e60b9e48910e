#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# pyverbs.sh [MODULE...]: rdma-core's own Python tests on one of our devices (both ends are in one
# process: a QP talks to another one of the same device). A process for each module, see suite.py.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
gid=$(fabric_gid "$DEV_A" $A4)
dir=/usr/share/doc/rdma-core/tests
[ $# != 0 ] || set -- $(cd $dir && ls test_*.py | grep -vE 'mlx5|efa|cuda' | sed 's/\.py$//')
for m; do
	nested "$m" 300 python3 "$(dirname "$0")/suite.py" "$DEV_A" "$gid" vA "$m"
done
here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
