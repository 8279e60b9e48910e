#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Life-cycle storms: what lifecycle.sh does in turn happens here at once, under the traffic of tests/race,
# and on net_devices of other kinds. SPRAY_ROUNDS: of every loop, default 10.
# SPRAY_CONNECTIONS: by rdma_cm in a row, default 2000. SPRAY_JITTER: see lib.sh, default 200.
#
# In a storm connections may fail; programs must end, devices must be usable afterwards, the log is clean.
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
. "$(dirname "$0")/traffic.sh"

: "${SPRAY_ROUNDS:=10}" "${SPRAY_CONNECTIONS:=2000}" "${SPRAY_JITTER:=200}"
program=/spray/tests/race/spray_race
contract=/spray/tests/contract/spray_contract
[ -x $program ] || bail "tests/race is not built"
[ "$SPRAY_TYPE" = spray ] || bail "only for spray"

# --- traffic ---

storm_start() { # [spray_race OPTIONS]: again and again until storm_stop
	( while :; do $program -a "$DEV_A" -b "$DEV_B" -T 30 -L 6 "$@"; sleep 0.1; done >"$LOGS/storm" 2>&1 ) & storm=$!
	local i
	for i in $(seq 50); do grep -q '^# seed' "$LOGS/storm" 2>/dev/null && { sleep 0.7; return 0; }; sleep 0.1; done
	echo "no traffic"; cat "$LOGS/storm"; kill $storm; return 1
}
race_dies() {
	local i
	pkill -9 spray_race
	for i in $(seq 150); do pgrep spray_race >/dev/null || return 0; sleep 0.1; done
	echo "spray_race does not die"; cat /proc/"$(pgrep spray_race | head -1)"/task/*/stack; return 1
}
storm_stop() { kill $storm; wait $storm 2>/dev/null; race_dies && idle; }
# data both ways, all opcodes
works() { $contract -a "${1:-$DEV_A}" -b "${2:-$DEV_B}" -q -t "sizes_send,atomic_values,sizes_read" || return 1; }
active() {
	local i
	for i in $(seq 50); do rdma link show "$1/1" | grep -q 'state ACTIVE' && return 0; sleep 0.1; done
	rdma link show "$1/1"; return 1
}
times() { local i; for i in $(seq "$SPRAY_ROUNDS"); do printf '%s\n' "$@"; done; }
# what a netdev that was down has lost
reroute() {
	printf '%s\n' "link set vA up" "addr replace $A6/64 dev vA nodad" "route replace $B4 dev vA" "route replace $B6 dev vA" | ip -n hostA -batch -
	printf '%s\n' "link set vB up" "addr replace $B6/64 dev vB nodad" "route replace $A4 dev vB" "route replace $A6 dev vB" | ip -n hostB -batch -
}
# the GID table has the addresses, and the link-local one of the MAC
gids_match() { # NS NETDEV DEV
	python3 - "$@" <<-'E'
	import ipaddress, json, subprocess, sys, time
	ns, netdev, dev = sys.argv[1:]
	def gids():
	    out = set()
	    for i in range(128):
	        try:
	            g = open(f'/sys/class/infiniband/{dev}/ports/1/gids/{i}').read().strip()
	            open(f'/sys/class/infiniband/{dev}/ports/1/gid_attrs/types/{i}').read()
	        except OSError:
	            continue
	        a = ipaddress.ip_address(g)
	        out.add(str(a.ipv4_mapped or a))
	    return out
	def addresses():
	    link = json.loads(subprocess.check_output(['ip', '-n', ns, '-j', 'addr', 'show', netdev]))[0]
	    m = bytes.fromhex(link['address'].replace(':', ''))
	    own = 'fe80::' + ':'.join(f'{int.from_bytes(x, "big"):x}' for x in
	                              (bytes([m[0] ^ 2, m[1]]), m[2:3] + b'\xff', b'\xfe' + m[3:4], m[4:6]))
	    return {a['local'] for a in link['addr_info']}, str(ipaddress.ip_address(own))
	for _ in range(50):
	    have, (want, own) = gids(), addresses()
	    if want <= have <= want | {own}:
	        sys.exit(0)
	    time.sleep(0.1)
	sys.exit(f'GIDs {sorted(have)}, addresses {sorted(want)}, by MAC {own}')
	E
}

# --- the netdev changes under traffic ---

down_up() {
	storm_start || return 1
	times "link set vA down" "link set vA up" | ip -n hostA -force -batch - & local a=$!
	times "link set vA down" "link set vA up" | ip -n hostA -force -batch - & local b=$!
	times "link set vB down" "link set vB up" | ip -n hostB -force -batch - & local c=$!
	wait $a $b $c
	storm_stop || return 1
	reroute; active "$DEV_A" && active "$DEV_B" && works
}
mtu_mac_address() {
	storm_start || return 1
	times "link set vA mtu 1280" "link set vA mtu 4200" "link set vA mtu 1500" | ip -n hostA -force -batch - & local a=$!
	times "link set vA address 02:00:00:00:00:11" "link set vA address 02:00:00:00:00:22" | ip -n hostA -force -batch - & local b=$!
	times "addr add 10.77.0.1/24 dev vA" "addr add fd77::1/64 dev vA nodad" "addr del 10.77.0.1/24 dev vA" "addr del fd77::1/64 dev vA" |
		ip -n hostA -force -batch - & local c=$!
	wait $a $b $c
	storm_stop || return 1
	gids_match hostA vA "$DEV_A" && works
}
renamed() {
	local i rc=0
	storm_start || return 1
	for i in 1 2; do
		# since 6.2 a netdev that is up may change its name
		ip -n hostA link set vA name vX 2>/dev/null ||
			printf '%s\n' "link set vA down" "link set vA name vX" "link set vX up" | ip -n hostA -batch - || rc=1
		rdma dev set "$DEV_A" name spraynew || rc=1
		onA rdma link show spraynew/1 | grep -q 'netdev vX' || { onA rdma link show; rc=1; }
		ip -n hostA link set vX name vA 2>/dev/null ||
			printf '%s\n' "link set vX down" "link set vX name vA" "link set vA up" | ip -n hostA -batch - || rc=1
		rdma dev set spraynew name "$DEV_A" || rc=1
	done
	storm_stop || return 1
	reroute; active "$DEV_A" && works && return $rc
}
neighbours() { # connections while the neighbour's address flips
	local mac i rc
	mac=$(ip -n hostB -br link show vB | awk '{ print $3 }')
	onB cmtime -c 200 >"$LOGS/cmtime" 2>&1 & local s=$!
	cm_listens
	( while :; do times "neigh replace $B4 lladdr 02:00:00:00:00:99 dev vA" "neigh replace $B4 lladdr $mac dev vA" | ip -n hostA -batch -; sleep 0.05; done ) & local f=$!
	onA timeout -k 5 30 cmtime -s $B4 -c 200; rc=$?
	kill $f; wait $f 2>/dev/null; pkill -9 cmtime; wait $s 2>/dev/null
	ip -n hostA neigh del $B4 dev vA
	# late or refused is all right, stuck is not
	[ $rc != 137 ] && idle && works
}
connections() { # many in a row: none is stale, none is left
	onB cmtime -c "$SPRAY_CONNECTIONS" >"$LOGS/cmtime" 2>&1 & local s=$! rc
	cm_listens
	onA timeout -k 5 150 cmtime -s $B4 -c "$SPRAY_CONNECTIONS"; rc=$?
	pkill -9 cmtime; wait $s 2>/dev/null
	[ $rc = 0 ] && idle
}
in_flight() { # packets in a queue outlive QP, device and module
	tc -n hostA qdisc add dev vA root netem delay 2s && tc -n hostB qdisc add dev vB root netem delay 2s || return 1
	storm_start || return 1
	kill $storm; wait $storm 2>/dev/null; race_dies || return 1
	[ "$(tc -n hostA -s qdisc show dev vA | sed -n 's/.*backlog [0-9]*b \([0-9]*\)p.*/\1/p')" -gt 0 ] || { echo "nothing in flight"; tc -n hostA -s qdisc show dev vA; return 1; }
	rdma link delete "$DEV_A"; rdma link delete "$DEV_B"
	modprobe -r $MODULE || return 1
	sleep 3
	tc -n hostA qdisc del dev vA root; tc -n hostB qdisc del dev vB root
	modprobe $MODULE && kmsg_clean
}
killed_anywhere() {
	local i
	for i in $(seq 6); do
		$program -a "$DEV_A" -b "$DEV_B" -T 60 >"$LOGS/storm" 2>&1 & local p=$!
		sleep "$(printf '%d.%02d' $((RANDOM % 2)) $((RANDOM % 100)))"
		kill -9 $p; wait $p 2>/dev/null
		race_dies && idle || return 1
	done
	works
}
# both ends of every link on one device: requester and responder of one softirq
one_device() { $program -a "$DEV_A" -b "$DEV_A" -T 8 -s 1; }
opened() { # every character device, hundreds of times: the module's count stays
	python3 - <<-E || return 1
	import glob, os
	for n in glob.glob('/dev/infiniband/*'):
	    for _ in range(300):
	        try:
	            os.close(os.open(n, os.O_RDWR))
	        except OSError:
	            break
	for root, _, files in os.walk('/sys/class/infiniband/$DEV_A/'):
	    for f in files:
	        for _ in range(5):
	            try:
	                open(os.path.join(root, f)).read()
	            except (OSError, UnicodeDecodeError):
	                pass
	E
	[ "$(cat /sys/module/$MODULE/refcnt)" = 0 ]
}

# UD and multicast clients die at any moment, or their link goes: no GID entry stays behind
datagrams_killed() {
	local i j s c m
	for i in $(seq "$SPRAY_ROUNDS"); do
		onB udaddy >"$LOGS/us" 2>&1 & s=$!
		cm_listens
		onA udaddy -s $B4 -c 10 -C 100000 >"$LOGS/uc" 2>&1 & c=$!
		onA mckey -m 239.0.0.1 -b $A4 -C 1 >"$LOGS/mc" 2>&1 & m=$!
		sleep 0.$((RANDOM % 4))
		[ $((i % 2)) = 0 ] || onA rdma link delete "$DEV_A"
		pkill -9 'udaddy|mckey'; wait $c $m $s
		[ $((i % 2)) = 0 ] || { gone "$DEV_A" && onA rdma link add "$DEV_A" type spray netdev vA; } || return 1
		for j in $(seq 50); do fabric_gid "$DEV_A" $A4 >/dev/null && break; sleep 0.1; done
	done 2>/dev/null
	idle && gids_match hostA vA "$DEV_A" && works
}

# --- devices come and go while they are read ---

readers_against() { # WRITER READER...
	local w=$1 p=() r rc=0; shift
	for r; do ( while :; do $r; done >/dev/null 2>&1 ) & p+=($!); done
	$w d0 spray8 & local a=$!
	$w d1 spray9 & local b=$!
	wait $a || rc=1
	wait $b || rc=1
	kill "${p[@]}"; wait "${p[@]}" 2>/dev/null
	pkill ibv_devinfo
	! rdma link show | grep -E 'spray[89]' && return $rc
}
links_come_go() { local i; for i in $(seq "$SPRAY_ROUNDS"); do rdma link add "$2" type spray netdev "$1" && rdma link delete "$2" || return 1; done; }
netdevs_come_go() {
	local i
	for i in $(seq $((SPRAY_ROUNDS / 3))); do
		ip link add "x$1" type dummy && ip link set "x$1" up && rdma link add "$2" type spray netdev "x$1" && ip link del "x$1" && gone "$2" || return 1
	done
}
read_sysfs() { cat /sys/class/infiniband/spray[89]/ports/1/{rate,state,gids/0,gid_attrs/ndevs/0,hw_counters/*} /sys/class/infiniband/spray[89]/node_guid; }
read_netlink() { rdma dev show; rdma link show; rdma statistic show; rdma resource show; local i; for i in qp cq mr pd srq cm_id; do rdma -dd resource show $i; done; }
addresses_change() { # the device comes and goes, too
	times "link set d0 address 02:00:00:00:01:11" "addr add 10.78.0.1/24 dev d0" "link set d0 address 02:00:00:00:01:22" "addr del 10.78.0.1/24 dev d0" | ip -force -batch -
}
address_against() {
	( while :; do addresses_change; done >/dev/null 2>&1 ) & local p=$! rc=0
	links_come_go d0 spray8 || rc=1
	kill $p; wait $p 2>/dev/null
	sleep 0.2
	return $rc
}
clients_loaded() {
	local m got='' i
	for m in rds_rdma smc rpcrdma ib_srpt ib_isert nvme_rdma nvmet_rdma ib_iser ib_srp; do modprobe $m 2>/dev/null && got="$m $got"; done
	echo "clients: $got"; [ -n "$got" ] || return 1
	links_come_go d0 spray8
	i=$?
	for m in $got; do modprobe -r "$m" || i=1; done
	return $i
}

# --- net_devices of other kinds ---

guid() { cat "/sys/class/infiniband/$1/node_guid"; }
taken() { # NETDEV: a link on it comes, has a GUID of its own, goes with its netdev
	rdma link add spray8 type spray netdev "$1" || return 1
	[ "$(guid spray8)" != 0000:0000:0000:0000 ] && [ "$(guid spray8)" != "$(guid spray9 2>/dev/null)" ] || { guid spray8; return 1; }
	ibv_devinfo -d spray8 -v >/dev/null && ip link del "$1" && gone spray8
}
on_kind() { ip link add k0 "${@}" && ip link set k0 up && taken k0; }
tun_there() { modprobe tun; [ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }; }
on_tap() { tun_there; ip tuntap add k0 mode tap && ip link set k0 up && taken k0; }
on_vlan() {
	ip -n hostA link add link vA name vA.55 type vlan id 55 && ip -n hostB link add link vB name vB.55 type vlan id 55 || return 1
	printf '%s\n' "addr add 10.55.0.1/24 dev vA.55" "link set vA.55 up" | ip -n hostA -batch -
	printf '%s\n' "addr add 10.55.0.2/24 dev vB.55" "link set vB.55 up" | ip -n hostB -batch -
	refused 'VLAN.*vA' onA rdma link add spray8 type spray netdev vA.55 || return 1
	local i ga gb rc
	for i in $(seq 20); do ga=$(fabric_gid "$DEV_A" 10.55.0.1) && gb=$(fabric_gid "$DEV_B" 10.55.0.2) && break; sleep 0.1; done
	$contract -a "$DEV_A" -b "$DEV_B" -g "$ga:$gb" -q -t sizes_send,sizes_read; rc=$?
	onB rping -s -a 10.55.0.2 -C 3 >"$LOGS/rping" 2>&1 & local s=$!
	cm_listens
	onA timeout -k 5 20 rping -c -a 10.55.0.2 -C 3 || { cat "$LOGS/rping"; rc=1; }
	pkill -9 rping; wait $s 2>/dev/null
	ip -n hostA link del vA.55; ip -n hostB link del vB.55
	works && return $rc
}
on_bond() {
	modprobe bonding max_bonds=0 && ip link add k0 type bond mode active-backup || return 1
	ip link set d0 down; ip link set d0 master k0; ip link set k0 up; ip addr add 10.79.0.1/24 dev k0
	rdma link add spray8 type spray netdev k0 || return 1
	$program -a spray8 -b spray8 -T 30 -L 4 >/dev/null 2>&1 & local p=$! i
	for i in $(seq 5); do
		printf '%s\n' "link set d0 nomaster" "link set d1 down" "link set d1 master k0" "addr add 10.79.1.1/24 dev k0" "addr del 10.79.1.1/24 dev k0" \
			"link set d1 nomaster" "link set d0 down" "link set d0 master k0" | ip -force -batch -
	done
	ip link del k0 && gone spray8; local rc=$?
	wait $p
	ip link set d0 up; ip link set d1 up
	return $rc
}
tun_refused() { tun_there; ip tuntap add k0 mode tun && refused 'ethernet' rdma link add spray8 type spray netdev k0; local rc=$?; ip link del k0; return $rc; }

# --- rdma_cm to oneself; every GID ---

self_cm() { # ADDRESS [may be refused]
	onA rping -s -a "$1" -C 3 >"$LOGS/rping" 2>&1 & local s=$! rc
	cm_listens
	onA timeout -k 5 15 rping -c -a "$1" -C 3; rc=$?
	pkill -9 rping; wait $s 2>/dev/null
	[ $rc = 0 ] || { cat "$LOGS/rping"; [ -n "$2" ] && [ $rc != 124 ] && [ $rc != 137 ]; }
}
each_gid() {
	local i n=0
	for i in $(seq 0 15); do
		[ -e "/sys/class/infiniband/$DEV_A/ports/1/gid_attrs/types/$i" ] && cat "/sys/class/infiniband/$DEV_A/ports/1/gid_attrs/types/$i" >/dev/null 2>&1 || continue
		$contract -a "$DEV_A" -b "$DEV_B" -g "$i:$i" -q -t sizes_send || return 1
		n=$((n + 1))
	done
	echo "$n GIDs"; [ $n -ge 3 ]
}

# --- namespaces that share nothing ---

# Namespaces with a link and a program in each: one of the three goes first.
#
# One end at a time. What a device shows in other namespaces, ib_core takes away when either goes, and the end of a
# namespace does not wait for the end of a device that has already begun to (remove_one_compat_dev() in 7.3: taken off
# the list under a lock, deleted after it); then device_del() sends its event by a namespace that is freed.
namespace_storm() { # NS DEVICE
	local i p bad=0
	for i in $(seq "$SPRAY_ROUNDS"); do
		ip netns add "$1" || return 1
		printf '%s\n' "link set lo up" "link add d0 type dummy" "addr add 10.88.0.1/24 dev d0" "link set d0 up" \
			"link add w0 type veth peer name $1 netns 1" | ip -n "$1" -batch - || return 1
		ip netns exec "$1" rdma link add "$2" type spray netdev d0 || return 1
		ip netns exec "$1" $program -a "$2" -b "$2" -T 20 -L 3 >"$LOGS/$1" 2>&1 8>&- & p=$!
		sleep "1.$((RANDOM % 10))"
		flock 8
		case $((i % 3)) in
		0) kill -9 $p ;;
		1) ip netns exec "$1" rdma link delete "$2" || bad=1 ;;
		esac
		ip netns del "$1"
		kill -9 $p 2>/dev/null
		pkill -9 -f -- "-a $2 -b $2"
		wait $p
		# when the namespace's netdevs go, ib_core has left it
		gone "$2" && waited test ! -e "/sys/class/net/$1" || return 1
		flock -u 8
	done 2>/dev/null 8>>"$LOGS/one_end"
	return $bad
}
namespaces_come_go() {
	local a b rc=0
	namespace_storm stA spray8 & a=$!
	namespace_storm stB spray9 & b=$!
	wait $a || rc=1
	wait $b || rc=1
	return $rc
}
gid_in() { "$1" bash -c ". /spray/fabric.sh; fabric_gid $2 $3"; }
exclusive() {
	local i
	# not while another namespace is still going
	for i in $(seq 50); do rdma system set netns exclusive 2>/dev/null && break; sleep 0.2; done
	rdma system show | grep -q 'netns exclusive' || { rdma system show; ip netns; return 1; }
	fabric_direct || return 1
	onA rdma link add spray8 type spray netdev vA && onB rdma link add spray9 type spray netdev vB || return 1
	if rdma dev show | grep 'spray[89]'; then
		# a kernel whose drivers cannot say where a device belongs: all begin here
		! onA rdma dev show | grep spray8 || { echo "seen from everywhere"; return 1; }
		rdma dev set spray8 netns hostA && rdma dev set spray9 netns hostB || return 1
	fi
	! rdma dev show | grep 'spray[89]' || { echo "seen from outside"; return 1; }
	! onA rdma dev show | grep spray9 || { echo "seen from the other namespace"; return 1; }
	local ga gb rc=0
	for i in $(seq 50); do ga=$(gid_in onA spray8 $A4) && gb=$(gid_in onB spray9 $B4) && break; sleep 0.1; done
	onB timeout -k 1 60 ibv_rc_pingpong -d spray9 -g "$gb" -e -n 1000000 >"$LOGS/ps" 2>&1 & local s=$!
	sleep 1
	onA timeout -k 1 60 ibv_rc_pingpong -d spray8 -g "$ga" -e -n 1000000 $B4 >"$LOGS/pc" 2>&1 & local c=$!
	sleep 2
	kill -0 $c || { cat "$LOGS/ps" "$LOGS/pc"; rc=1; }
	# with an open context: works, and the context ends, or is refused
	if onA timeout -k 1 30 rdma dev set spray8 netns hostB; then
		echo "moved"
		onB rdma dev show | grep -q spray8 || { echo "moved, but is not there"; rc=1; }
		onB rdma dev set spray8 netns hostA || { onB rdma link delete spray8; echo "does not come back"; }
	else
		[ $? -lt 124 ] || rc=1
		echo "not moved"
	fi
	pkill -9 ibv_rc_pingpong; wait $s $c 2>/dev/null
	# goes with its namespace
	ip netns del hostA; ip netns del hostB
	for i in $(seq 100); do [ "$(cat /sys/module/$MODULE/refcnt)" = 0 ] && break; sleep 0.1; done
	return $rc
}
shared_again() { fabric_down; local i; for i in $(seq 50); do rdma system set netns shared 2>/dev/null && return 0; sleep 0.2; done; return 1; }

# --- beside rxe; without IPv6; without memory ---

beside_rxe() {
	modprobe -r $MODULE; modprobe rdma_rxe && modprobe $MODULE port=4792 || return 1
	local order rc=0
	for order in "rxe9 spray9" "spray9 rxe9" netdev; do
		ip link add e0 type veth peer name e1; ip link set e0 up; ip link set e1 up; ip addr add 10.88.0.1/24 dev e0
		rdma link add rxe9 type rxe netdev e0 && rdma link add spray9 type spray netdev e0 || return 1
		sleep 0.5
		works spray9 spray9 & local p=$!
		works rxe9 rxe9 || rc=1
		wait $p || rc=1
		if [ "$order" = netdev ]; then ip link del e0; else for i in $order; do rdma link delete "$i" || rc=1; done; ip link del e0; fi
		gone rxe9 && gone spray9 || rc=1
	done
	modprobe -r rdma_rxe $MODULE && modprobe $MODULE && return $rc
}
without_ipv6() {
	ip netns add six && ip netns exec six sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 || return 1
	printf '%s\n' "link set lo up" "link add e0 type dummy" "link set e0 up" "addr add 10.88.0.1/24 dev e0" | ip -n six -batch -
	ip netns exec six rdma link add spray9 type spray netdev e0 && sleep 0.5 && works spray9 spray9; local rc=$?
	ip netns del six; gone spray9 && return $rc
}

# allocations that may wait and single pages, too, and no trace of each
faults_on() {
	local f
	for f in /sys/kernel/debug/{failslab,fail_page_alloc}/ignore-gfp-wait; do echo N >$f || return 1; done
	echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
	for f in /sys/kernel/debug/{failslab,fail_page_alloc,fail_usercopy}/verbose; do echo 0 >$f || return 1; done
	touch /run/faults	# for tests/uml/init-hook.sh
}
storm() { run "$1" "$2" freely "${@:3}"; }
freely() { set +e; "$@"; }	# what fails on the way is looked at by the function itself

here "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
for h in onA onB; do $h sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1; done
here "rdma link add" fabric_link spray || bail "no device"
jitter "$SPRAY_JITTER"
storm "works" 180 works || bail "not even in good weather"

storm "every GID in the table works" 180 each_gid
storm "$SPRAY_CONNECTIONS connections by rdma_cm, one after the other" 180 connections
storm "the neighbour's address flips while connections are made" 180 neighbours
storm "rdma_cm to the own IPv4 address" 90 self_cm $A4
storm "rdma_cm to the own IPv6 address" 90 self_cm $A6
storm "rdma_cm to 127.0.0.1 works or is refused" 90 self_cm 127.0.0.1 refused
storm "rdma_cm to ::1 works or is refused" 90 self_cm ::1 refused
storm "all links on one device" 180 one_device
storm "kill -9 anywhere" 180 killed_anywhere
storm "device nodes opened and closed" 180 opened
storm "MTU, MAC and addresses change under traffic" 180 mtu_mac_address
storm "netdev and device renamed under traffic" 180 renamed
storm "three loops of down and up under traffic" 180 down_up
if [ -e /proc/self/fail-nth ]; then
	here "fault injection" faults_on
	nested "allocations and copies fail" 120 /spray/tests/race/spray_objects -a "$DEV_A" -b "$DEV_B" -F
else
	skip "allocations and copies fail" "kernel without CONFIG_FAULT_INJECTION"
fi
storm "UD and multicast clients killed, their link deleted" 180 datagrams_killed
storm "a VLAN is served by the link below it" 180 on_vlan
storm "packets in flight when QP, device and module go" 180 in_flight
here "fabric down" fabric_down

printf '%s\n' "link add d0 type dummy" "link add d1 type dummy" "link set d0 up" "link set d1 up" | ip -batch -
storm "devinfo and sysfs read while links come and go" 180 readers_against links_come_go "ibv_devinfo -v" read_sysfs
storm "rdma show while links come and go" 180 readers_against links_come_go read_netlink read_netlink
storm "all of it read while netdevs come and go" 180 readers_against netdevs_come_go "ibv_devinfo -v" read_sysfs read_netlink
storm "links come and go while MAC and address change" 180 address_against
storm "links come and go with kernel clients loaded" 180 clients_loaded
storm "link on a dummy" 90 on_kind type dummy
storm "link on a bridge" 90 on_kind type bridge
storm "link on a macvlan" 90 on_kind link d0 type macvlan
storm "link on a tap" 90 on_tap
storm "a tun is refused" 90 tun_refused
storm "bond loses and gets slaves, then goes, under traffic" 180 on_bond
ip link del d0; ip link del d1
storm "without IPv6" 180 without_ipv6
storm "rxe on the same netdev, in either order" 180 beside_rxe
storm "namespaces come and go with links and programs" 180 namespaces_come_go
storm "namespaces exclusive" 180 exclusive
storm "namespaces shared again" 180 shared_again
check "nobody uses the module" test "$(cat /sys/module/$MODULE/refcnt)" = 0
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
