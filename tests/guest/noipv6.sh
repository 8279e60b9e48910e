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
	onB rping -s -a $B4 -C 5 >"$LOGS/rping" 2>&1 & local s=$! i
	for i in $(seq 50); do rdma res show cm_id | grep -q 'state LISTEN' && break; sleep 0.1; done
	onA timeout -k 5 20 rping -c -a $B4 -C 5 && wait $s
}

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "two hosts" hosts || bail "no hosts"
linked() {
	local i
	DEV_A=${SPRAY_TYPE}a DEV_B=${SPRAY_TYPE}b
	onA rdma link add "$DEV_A" type "$SPRAY_TYPE" netdev vA && onB rdma link add "$DEV_B" type "$SPRAY_TYPE" netdev vB || return 1
	for i in $(seq 50); do fabric_gid "$DEV_A" $A4 && fabric_gid "$DEV_B" $B4 && return 0; sleep 0.1; done
	return 1
}
here "rdma link add" linked || bail "no device"
nested contract 120 $contract -a "$DEV_A" -b "$DEV_B" -4 -q -t sizes_send,sizes_read,atomic_values,churn,loopback_err
check "rping" rping_runs
both_deleted() { onA rdma link delete "$DEV_A" && onB rdma link delete "$DEV_B"; }
check "rdma link delete" both_deleted
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
