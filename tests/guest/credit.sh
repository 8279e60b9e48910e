#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Receiver credits: an incast gets equal shares, also with loss; an end that grants and one that doesn't.
#
# SPRAY_CREDIT_MBITS: rate that is granted at, default 40: less than the slowest machine carries, so that
# credit is what limits                     SPRAY_CREDIT_ARGS: of spray_contract, default -q
export FABRIC_GSO=off
. "$(dirname "$0")/lib.sh"

: "${SPRAY_CREDIT_MBITS:=40}" "${SPRAY_CREDIT_ARGS:=-q}"
program=/spray/tests/contract/spray_contract
parameters=/sys/module/$MODULE/parameters
[ -x $program ] || bail "tests/contract is not built"
[ "$SPRAY_TYPE" = spray ] || bail "only for spray"

credit() { echo "$1" >$parameters/credit && echo "${2:-0}" >$parameters/credit_mbits; }
links() { # PACKETS MBITS of A, of B: new links
	[ -z "${DEV_A:-}" ] || onA rdma link delete "$DEV_A"
	[ -z "${DEV_B:-}" ] || onB rdma link delete "$DEV_B"
	DEV_A=spraya DEV_B=sprayb
	credit "$1" "$2" && onA rdma link add $DEV_A type spray netdev vA &&
		credit "$3" "$4" && onB rdma link add $DEV_B type spray netdev vB || return 1
	local i
	for i in $(seq 50); do
		fabric_gid $DEV_A $A6 >/dev/null && fabric_gid $DEV_B $B6 >/dev/null && return 0
		sleep 0.1
	done
	return 1
}
stat() { rdma -j statistic show link "$1/1" | jq ".[0].$2"; }
# contract NAME FROM TO CASES
contract() {
	# shellcheck disable=SC2086
	nested "$1" "${SPRAY_LIMIT:-600}" $program -a "$2" -b "$3" $SPRAY_CREDIT_ARGS -t "$4"
}
used() { # who grants, who sends: credit was given, and waited for
	echo "grants $(stat "$1" tx_grants), waits $(stat "$2" tx_credit_waits)"
	[ "$(stat "$1" tx_grants)" -gt 100 ] && [ "$(stat "$2" tx_credit_waits)" -gt 100 ]
}
unused() { [ "$(stat "$1" tx_grants)" = 0 ] && [ "$(stat "$2" tx_credit_waits)" = 0 ]; }
# a veth says 10 Gbit/s; a bridge without ports says nothing
speed() {
	credit 64 0
	onA ip link add br9 type bridge && onA ip link set br9 up || return 1
	! onA rdma link add spray9 type spray netdev br9 || { echo "accepted"; return 1; }
	dmesg | tail -n 20 | grep 'credit_mbits' || return 1
	credit 64 100
	onA rdma link add spray9 type spray netdev br9 && onA ip link del br9
}
follows() { # the pacer is told of MTU and state; there is no more to see than that all goes on
	onB ip link set vB mtu 1400 && onB ip link set vB mtu 1500
}

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
jitter "${SPRAY_JITTER:-0}"
here "fabric" fabric_up rate || bail "no fabric"
run "a link whose speed nobody knows" 120 speed

here "both ends grant" links 64 "$SPRAY_CREDIT_MBITS" 64 "$SPRAY_CREDIT_MBITS" || bail "no device"
contract "incast" $DEV_A $DEV_B "incast_*"
run "credit was granted and waited for" 120 used $DEV_B $DEV_A
run "the netdev changes" 120 follows
contract "streams" $DEV_A $DEV_B "stream_mixed,many_qps,loopback"
rdma -dd -j resource show qp link "$DEV_A/1" | jq -c '.[0]' | sed 's/^/# /'
here "profile loss1" fabric_profile loss1
contract "incast, 1 % loss" $DEV_A $DEV_B "incast_*"
contract "streams, 1 % loss" $DEV_A $DEV_B "stream_mixed"
note "A: $(stat $DEV_A retransmissions) sent again, $(stat $DEV_A timeouts) timeouts"

here "one end grants" links 0 0 64 "$SPRAY_CREDIT_MBITS" || bail "no device"
contract "to the one that grants" $DEV_A $DEV_B "incast_write,incast_read,stream_mixed"
run "it granted" 120 used $DEV_B $DEV_A
contract "to the one that does not" $DEV_B $DEV_A "stream_mixed,many_qps"
run "nobody granted there" 120 unused $DEV_A $DEV_B
here "profile clean" fabric_profile clean
contract "to the one that does not, no loss" $DEV_B $DEV_A "stream_mixed"

rdma statistic show | tr ' ' '\n' >/out/statistic
here "rdma link delete, fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
