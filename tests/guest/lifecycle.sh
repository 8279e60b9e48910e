#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Devices come and go: in loops, under traffic, with their netdev, their namespace, the module; and
# what must be refused is refused with a reason.
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
. "$(dirname "$0")/traffic.sh"

: "${SPRAY_ROUNDS:=5}"

add_delete() { for _ in $(seq "$SPRAY_ROUNDS"); do fabric_link "$SPRAY_TYPE"; onA rdma link delete "$DEV_A"; onB rdma link delete "$DEV_B"; done; }
readd() { DEV_A='' DEV_B=''; fabric_link "$SPRAY_TYPE"; }

dmesg >/out/dmesg-before
check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
run "add and delete, $SPRAY_ROUNDS times" 120 add_delete
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"

if [ "$SPRAY_TYPE" = spray ]; then
	check "a second link on a netdev is refused" refused 'already|exist' onA rdma link add spray9 type spray netdev vA
	check "a link on lo is refused" refused 'loopback|ethernet|lo:' onA rdma link add spray9 type spray netdev lo
	check "the same name is refused" refused 'exist' onA rdma link add "$DEV_A" type spray netdev vA
fi
check "no such netdev" refused 'no such|device' onA rdma link add spray9 type "$SPRAY_TYPE" netdev nix0

# addresses
gids_follow() {
	onA ip addr add 10.77.0.1/24 dev vA; sleep 0.5
	fabric_gid "$DEV_A" 10.77.0.1 || { echo "no GID for a new address"; return 1; }
	onA ip addr del 10.77.0.1/24 dev vA; sleep 0.5
	! fabric_gid "$DEV_A" 10.77.0.1 || { echo "GID of a lost address stays"; return 1; }
}
check "GIDs follow the addresses" gids_follow
mtu_follows() {
	onA ip link set vA mtu 5000 && onB ip link set vB mtu 5000; sleep 0.3
	ibv_devinfo -d "$DEV_A" | grep -E 'active_mtu:[[:space:]]*4096' || { ibv_devinfo -d "$DEV_A"; return 1; }
	onA ip link set vA mtu 1500 && onB ip link set vB mtu 1500; sleep 0.3
	ibv_devinfo -d "$DEV_A" | grep -E 'active_mtu:[[:space:]]*1024' || { ibv_devinfo -d "$DEV_A"; return 1; }
}
check "the MTU follows" mtu_follows
state_follows() {
	onB ip link set vB down; sleep 0.5
	rdma link show "$DEV_A/1" | tee /dev/stderr | grep -q 'state DOWN' || return 1
	onB ip link set vB up; sleep 0.5
	rdma link show "$DEV_A/1" | tee /dev/stderr | grep -q 'state ACTIVE' || return 1
}
check "the port's state follows the carrier" state_follows
# addresses and routes went with the link: once more
here "fabric again" fabric_down; here "fabric is up" fabric_direct || bail "no fabric"
here "rdma link add again" fabric_link "$SPRAY_TYPE" || bail "no device"
pingpong "pingpong"

# programs die
killed() { for _ in 1 2 3; do traffic_start && traffic_stop && idle || return 1; done; }
run "programs killed under traffic, 3 times" 120 killed

# the link goes under traffic
deleted() {
	traffic_start || return 1
	"$1" rdma link delete "$2"
	gone "$2"; local rc=$?
	traffic_stop && return $rc
}
run "rdma link delete under traffic" 90 deleted onA "$DEV_A"
here "rdma link add after it" eval 'onB rdma link delete $DEV_B; readd' || bail "no device"
pingpong "pingpong after it"

# the netdev goes under traffic
netdev_gone() {
	traffic_start || return 1
	timeout 60 "$@" || { echo "$* failed or hung"; traffic_stop; return 1; }
	gone "$DEV_A" && gone "$DEV_B" && traffic_stop
}
if [ "$FABRIC_HOSTS" = init ]; then
	run "netdev removed under traffic" 120 netdev_gone ip link del vA
else
	run "netdev removed under traffic" 120 netdev_gone ip -n hostA link del vA
fi
here "fabric after it" fabric_down; here "fabric up after it" fabric_direct || bail "no fabric"
here "rdma link add after the netdev's end" fabric_link "$SPRAY_TYPE" || bail "no device"
pingpong "pingpong after the netdev's end"

# the namespace goes under traffic
if [ "$FABRIC_HOSTS" = netns ]; then
	netns_gone() {
		traffic_start || return 1
		ip netns del hostA; ip netns del hostB
		traffic_stop || return 1
		gone "$DEV_A" && gone "$DEV_B"
	}
	run "namespaces end under traffic" 120 netns_gone
	here "fabric after the namespaces" fabric_down; here "fabric up after the namespaces" fabric_direct || bail "no fabric"
	here "rdma link add after the namespaces" fabric_link "$SPRAY_TYPE" || bail "no device"
	pingpong "pingpong after the namespaces"
	moved() { ip -n hostA link set vA netns hostB; sleep 1; ip -n hostB link show vA; kmsg_clean; }
	run "netdev moves to another namespace" 60 moved
	here "fabric after the move" fabric_down; here "fabric up after the move" fabric_direct || bail "no fabric"
	here "rdma link add after the move" fabric_link "$SPRAY_TYPE" || bail "no device"
fi

# the module goes
busy() { traffic_start || return 1; ! rmmod "$MODULE" || { echo "rmmod went through under open contexts"; return 1; }; traffic_stop && idle; }
run "rmmod is refused while programs run" 90 busy
away() { modprobe -r "$MODULE" && gone "$DEV_A" && gone "$DEV_B"; }
run "modprobe -r with idle links" 60 away
reload() { for _ in $(seq "$SPRAY_ROUNDS"); do modprobe "$MODULE"; modprobe -r "$MODULE"; done; }
run "module in and out, $SPRAY_ROUNDS times" 90 reload

if [ "$SPRAY_TYPE" = spray ]; then
	# no type loaded: rdma link add asks for the module by its alias
	autoload() { onA rdma link add sprayz type spray netdev vA && onA rdma link delete sprayz && modprobe -r $MODULE; }
	check "autoload by rdma link add" autoload
	# the UDP port is rdma_rxe's; the initial namespace is where rxe opens its socket
	ip link add e0 type veth peer name e1; ip link set e0 up; ip link set e1 up
	if modprobe rdma_rxe 2>/dev/null; then
		rdma link add rxe9 type rxe netdev e0
		check "the port held by rxe is said" refused 'port|in use|rxe' rdma link add sprayz type spray netdev e1
		rdma link delete rxe9; modprobe -r rdma_rxe
		check "and free again afterwards" rdma link add sprayz type spray netdev e1
	else
		skip "the port held by rxe is said" "no rdma_rxe"
	fi
	ip link del e0
	check "the link of e1 went with it" gone sprayz
	check "rmmod at the end" modprobe -r $MODULE
fi
here "fabric at the end" fabric_down
finish
