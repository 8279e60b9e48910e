#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# A kernel booted with ipv6.disable=1 (run.sh -a): IPv4 works as ever.
. "$(dirname "$0")/lib.sh"

ip6=/proc/sys/net/ipv6
[ ! -d $ip6 ] || bail "this kernel has IPv6: boot it with ipv6.disable=1"
contract=/spray/tests/contract/spray_contract
hosts() {
	printf '%s\n' "netns add hostA" "netns add hostB" "link add vA netns hostA type veth peer name vB netns hostB" | ip -batch - &&
		printf '%s\n' "addr add $A4/8 dev vA" "link set lo up" "link set vA up" | ip -n hostA -batch - &&
		printf '%s\n' "addr add $B4/8 dev vB" "link set lo up" "link set vB up" | ip -n hostB -batch -
}
rping_runs() {
	onB rping -s -a $B4 -C 5 >"$LOGS/rping" 2>&1 & local s=$!
	cm_listens
	onA timeout -k 5 20 rping -c -a $B4 -C 5 && wait $s
}

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "two hosts" hosts || bail "no hosts"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
nested contract 120 $contract -a "$DEV_A" -b "$DEV_B" -4 -q -t sizes_send,sizes_read,atomic_values,churn,loopback_err
check "rping" rping_runs
both_deleted() { onA rdma link delete "$DEV_A" && onB rdma link delete "$DEV_B"; }
check "rdma link delete" both_deleted
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
