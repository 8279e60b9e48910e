# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# The standard fabric in one kernel: source it in bash, as root, and call the functions.
#
#                         +-- 1 -- spine1 -- 1 --+
#   hostA                 |                      |                  hostB
#   vA ------------ leafA +-- 2 -- spine2 -- 2 --+ leafB ------------ vB
#   10.1.0.2/24           |                      |           10.2.0.2/24
#   fd01::2/64            +-- 3 -- spine3 -- 3 --+            fd02::2/64
#                         |                      |
#                         +-- 4 -- spine4 -- 4 --+
#
# Every box is a network namespace, every line a veth. The leaves route over all spines by a hash of
# addresses and UDP ports (IPv4 and IPv6): one port stays on one spine, many ports use all of them.
# Each leaf's ports to the spines carry the profile's netem, so each direction has one emulated queue
# per spine. A profile is described at fabric_profile.
#
#   fabric_up [PROFILE]        build it               fabric_down          take it away (links, too)
#   fabric_direct              hostA vA ---- vB hostB, no switches; same names and addresses (IPv4 10.1.0.0/16)
#   fabric_profile NAME [opt]  change what the spines do
#   fabric_link TYPE           rdma link add in both hosts: devices $DEV_A and $DEV_B
#   fabric_cut N [silent|link] a spine dies: silently (routing doesn't notice), or with its carrier
#   fabric_restore N
#   fabric_bytes               per spine: "N bytes_A_to_B bytes_B_to_A packets_A_to_B packets_B_to_A"
#   onA CMD..., onB CMD...     run in a host
#   fabric_gid DEV ADDRESS     index of the address in the device's GID table (RoCE v2)
#   fabric_sprayed             sends 400 UDP ports across, prints packets per spine
#
# Variables, set before fabric_up:
#   FABRIC_HOSTS  netns (default) or init: both host ends in this very namespace, kept apart by policy
#                 routing. rxe carries traffic only so; kernel users (nvme, rds) live there, too.
#   FABRIC_SPINES 4            FABRIC_MTU   1500 (4200 for an RDMA MTU of 4096)
#   FABRIC_RATE   80mbit, the rate per spine of the profiles that have one (see there), a whole number of mbit
#   FABRIC_GSO    on; off: the hosts' devices split super-packets, so that netem's loss and reordering
#                 act on single packets (netem drops and delays a super-packet as a whole)

: "${FABRIC_HOSTS:=netns}" "${FABRIC_SPINES:=4}" "${FABRIC_MTU:=1500}" "${FABRIC_RATE:=80mbit}" "${FABRIC_GSO:=on}"

A4=10.1.0.2 A6=fd01::2
B4=10.2.0.2 B6=fd02::2

_seq() { seq "$FABRIC_SPINES"; }

onA() { if [ "$FABRIC_HOSTS" = init ]; then "$@"; else ip netns exec hostA "$@"; fi; }
onB() { if [ "$FABRIC_HOSTS" = init ]; then "$@"; else ip netns exec hostB "$@"; fi; }

# Starting a program costs an emulated guest some 50 ms, so this works in batches: one run of ip per
# namespace, settings written by the shell itself.
_settings() { # NS ("" is the present one) SYSCTL=VALUE...
	local ns=$1 w='cd /proc/sys/net || exit' v; shift
	for v in "$@"; do w="$w; echo ${v#*=} >${v%=*}"; done
	if [ -n "$ns" ]; then ip netns exec "$ns" sh -c "$w"; else (eval "$w"); fi
}
_plain="ipv6/conf/all/accept_dad=0 ipv6/conf/default/accept_dad=0 ipv6/conf/default/router_solicitations=0
	ipv4/conf/all/rp_filter=0 ipv4/conf/default/rp_filter=0"
_router="ipv4/ip_forward=1 ipv6/conf/all/forwarding=1 ipv4/fib_multipath_hash_policy=1 ipv6/fib_multipath_hash_policy=1"
_one="$_plain ipv4/conf/default/accept_local=1 ipv4/conf/all/accept_local=1 ipv4/conf/all/arp_ignore=1 ipv4/conf/all/arp_announce=2"

# Interface indexes are unique over all namespaces: rdma_cm of the kernel looks connections up by index and
# address, and takes a neighbour's news in one namespace for that of another (and then reports UNREACHABLE).
_index=1000
_wire() { # NS1 DEV1 NS2 DEV2 ("" is the present one): a line for ip -batch
	_index=$((_index + 2))
	echo "link add name $2 index $_index ${1:+netns $1} mtu $FABRIC_MTU type veth" \
		"peer name $4 index $((_index + 1)) ${3:+netns $3} mtu $FABRIC_MTU"
}

_ip() { # NS ARGS...: ip in a namespace, "" is the present one
	local ns=$1; shift
	if [ -n "$ns" ]; then ip -n "$ns" "$@"; else ip "$@"; fi
}

_hosts() { # create the two hosts' namespaces; sets _hA, _hB
	if [ "$FABRIC_HOSTS" = init ]; then
		_hA='' _hB=''
		# shellcheck disable=SC2086
		_settings '' $_one
	else
		_hA=hostA _hB=hostB
		printf '%s\n' "netns add hostA" "netns add hostB" | ip -batch -
		# shellcheck disable=SC2086
		{ _settings hostA $_plain; _settings hostB $_plain; }
	fi
}

_host_addr() { # NS DEV V4 V6 GW4 GW6 PEER4 PEER6 (GW "" for an on-link peer)
	{
		echo "link set lo up"
		echo "link set $2 up"
		echo "addr add $3 dev $2"
		echo "addr add $4 dev $2 nodad"
		if [ "$FABRIC_HOSTS" != init ]; then
			echo "route add $7 ${5:+via $5} dev $2"
			[ "$8" = default ] && echo "route add ::/0 via $6 dev $2" || echo "route add $8 dev $2"
		fi
	} | _ip "$1" -batch -
}

# Both ends in one namespace: what A sends to B must leave by vA, though B's address is local.
# Table local steps behind the rules that know better; only own packets (iif lo) are concerned.
_policy() { # GWA4 GWA6 GWB4 GWB6 ("" = on link)
	_policy_rules vA $A4 $B4 101 "$1" vB $B4 $A4 102 "$3" | ip -4 -batch -
	_policy_rules vA $A6 $B6 101 "$2" vB $B6 $A6 102 "$4" | ip -6 -batch -
}
_policy_rules() { # twice: DEV OWN PEER TABLE GATEWAY
	echo "rule add pref 1000 lookup local"
	echo "rule del pref 0"
	while [ $# -ge 5 ]; do
		echo "route add $3 ${5:+via $5} dev $1 table $4"
		echo "rule add pref $4 oif $1 to $3 lookup $4"
		echo "rule add pref $4 iif lo from $2 to $3 lookup $4"
		shift 5
	done
}
_policy_gone() {
	local f
	for f in -4 -6; do
		printf '%s\n' "rule add pref 0 lookup local" "rule del pref 1000" "rule del pref 101" "rule del pref 101" \
			"rule del pref 102" "rule del pref 102" | ip $f -force -batch - >/dev/null 2>&1 || :
	done
}

_offload() { # DEV of host A or B by its runner
	"$1" ethtool -K "$2" tx-udp-segmentation "$FABRIC_GSO" >/dev/null 2>&1 || :
}

fabric_up() { # [PROFILE]
	local i s
	_hosts
	{
		echo "netns add leafA"; echo "netns add leafB"
		for i in $(_seq); do echo "netns add spine$i"; done
	} | ip -batch -
	{
		_wire "$_hA" vA leafA host
		_wire "$_hB" vB leafB host
		for i in $(_seq); do
			_wire leafA "s$i" "spine$i" la
			_wire leafB "s$i" "spine$i" lb
		done
	} | ip -batch -
	for i in leafA leafB $(_seq | sed s/^/spine/); do
		# shellcheck disable=SC2086
		_settings "$i" $_plain $_router
	done
	_host_addr "$_hA" vA $A4/24 $A6/64 10.1.0.1 fd01::1 default default
	_host_addr "$_hB" vB $B4/24 $B6/64 10.2.0.1 fd02::1 default default
	_leaf leafA 1 2 11; _leaf leafB 2 1 12
	for i in $(_seq); do
		{
			echo "link set lo up"
			for s in "la 1 11" "lb 2 12"; do
				# shellcheck disable=SC2086
				set -- $s
				echo "link set $1 up"
				echo "addr add 10.$3.$i.2/30 dev $1"
				echo "addr add fd$3:$i::2/64 dev $1 nodad"
				echo "route add 10.$2.0.0/24 via 10.$3.$i.1"
				echo "route add fd0$2::/64 via fd$3:$i::1"
			done
		} | ip -n "spine$i" -batch -
	done
	[ "$FABRIC_HOSTS" != init ] || _policy 10.1.0.1 fd01::1 10.2.0.1 fd02::1
	_offload onA vA; _offload onB vB
	_fabric=spines
	fabric_profile "${1:-clean}"
	_fabric_settle
}

_leaf() { # NS OWN PEER UPLINKS: the numbers in 10.OWN.0.0, 10.UPLINKS.i.0
	local i n4='' n6=''
	{
		echo "link set lo up"
		echo "link set host up"
		echo "addr add 10.$2.0.1/24 dev host"
		echo "addr add fd0$2::1/64 dev host nodad"
		for i in $(_seq); do
			echo "link set s$i up"
			echo "addr add 10.$4.$i.1/30 dev s$i"
			echo "addr add fd$4:$i::1/64 dev s$i nodad"
			n4="$n4 nexthop via 10.$4.$i.2 dev s$i"
			n6="$n6 nexthop via fd$4:$i::2 dev s$i"
		done
		echo "route add 10.$3.0.0/24$n4"
		echo "route add fd0$3::/64$n6"
	} | ip -n "$1" -batch -
}

fabric_direct() {
	_hosts
	_wire "$_hA" vA "$_hB" vB | ip -batch -
	_host_addr "$_hA" vA $A4/24 $A6/64 '' '' $B4 $B6
	_host_addr "$_hB" vB $B4/24 $B6/64 '' '' $A4 $A6
	[ "$FABRIC_HOSTS" != init ] || _policy '' '' '' ''
	_offload onA vA; _offload onB vB
	_fabric=direct
	_fabric_settle
}

# first packets resolve every neighbour, so that no test meets a cold fabric
_fabric_settle() {
	local i ok=''
	for i in $(seq 50); do
		onA ping -q -c 1 -W 1 -I $A4 $B4 >/dev/null 2>&1 && onB ping -q -c 1 -W 1 -I $B4 $A4 >/dev/null 2>&1 &&
			onA ping -6 -q -c 1 -W 1 -I $A6 $B6 >/dev/null 2>&1 && { ok=1; break; }
	done
	[ -n "$ok" ] || { echo "fabric: no way from hostA to hostB" >&2; return 1; }
	if [ "$_fabric" = spines ]; then
		for i in $(_seq); do
			ip netns exec leafA ping -q -c 1 -W 1 "10.11.$i.2" >/dev/null; ip netns exec leafB ping -q -c 1 -W 1 "10.12.$i.2" >/dev/null
			ip netns exec leafA ping -q -c 1 -W 1 "fd11:$i::2" >/dev/null; ip netns exec leafB ping -q -c 1 -W 1 "fd12:$i::2" >/dev/null
		done
	fi
	return 0
}

fabric_down() {
	local n i
	for n in "${DEV_A:-}" "${DEV_B:-}"; do [ -z "$n" ] || rdma link delete "$n" 2>/dev/null || :; done
	DEV_A='' DEV_B=''
	for n in hostA hostB leafA leafB $(ip netns list | sed -n 's/^\(spine[0-9]*\).*/\1/p'); do
		ip netns del "$n" 2>/dev/null || :
	done
	if [ "$FABRIC_HOSTS" = init ]; then
		_policy_gone
		ip link del vA 2>/dev/null || :
		ip link del vB 2>/dev/null || :
	fi
	# a namespace goes in the background
	for i in $(seq 50); do [ -n "$(ip -o link show type veth)" ] || break; sleep 0.1; done
	_fabric=
}

# Profiles. ms: one-way delay per spine; loss and dup in percent of packets (of super-packets with
# FABRIC_GSO=on); reorder: share sent at once while the rest of the same spine is delayed.
#   clean     nothing, no limit (the processor is the limit)
#   rate      $FABRIC_RATE per spine, 0.1 ms, a queue of 1000 packets at 80mbit and as many ms at another
#             rate: the fabric is the bottleneck
#   loss1, loss5   1 %, 5 % lost         rate+loss5, rate+loss1, rate+loss01   the same (5, 1, 0.1 %) with the rate
#   dup       5 % twice
#   reorder   within a spine: 25 % overtake the others by 0.5 ms
#   unequal   0, 1, 3, 9 ms              rate+unequal   the same with the rate
#   mixed     loss 1, dup 1, reorder 10, delays 0.2, 1, 3, 9 ms
#   shallow   rate, with a queue of 32 packets
fabric_profile() { # NAME [netem options appended]
	local name=$1 i base spine_ms n limit tcs=; shift
	limit=$((${FABRIC_RATE%mbit} * 1000 / 80))
	for i in $(_seq); do
		spine_ms=$(echo "0 1 3 9 0 1 3 9" | cut -d' ' -f"$i")
		case $name in
		clean) base= ;;
		rate) base="rate $FABRIC_RATE limit $limit delay 100us" ;;
		rate+loss1) base="rate $FABRIC_RATE limit $limit delay 100us loss 1%" ;;
		rate+loss5) base="rate $FABRIC_RATE limit $limit delay 100us loss 5%" ;;
		rate+loss01) base="rate $FABRIC_RATE limit $limit delay 100us loss 0.1%" ;;
		rate+unequal) base="rate $FABRIC_RATE limit $limit delay ${spine_ms}ms" ;;
		shallow) base="rate $FABRIC_RATE limit 32 delay 100us" ;;
		loss1) base="limit 10000 loss 1%" ;;
		loss5) base="limit 10000 loss 5%" ;;
		dup) base="limit 10000 duplicate 5%" ;;
		reorder) base="limit 10000 delay 500us reorder 25%" ;;
		unequal) base="limit 10000 delay ${spine_ms}ms" ;;
		mixed) [ "$spine_ms" != 0 ] || spine_ms=0.2
			base="limit 10000 delay ${spine_ms}ms reorder 10% loss 1% duplicate 1%" ;;
		*) echo "fabric: no profile $name" >&2; return 1 ;;
		esac
		# an emptied qdisc is a pfifo: replacing works whatever was there
		[ -z "$base$*" ] && tcs="$tcs
qdisc replace dev s$i root pfifo limit 1000" || tcs="$tcs
qdisc replace dev s$i root netem $base $*"
	done
	for n in leafA leafB; do echo "$tcs" | tc -n $n -batch -; done
}

fabric_cut() { # N [silent|link]
	case ${2:-silent} in
	# the spine swallows everything; neither leaf's routing can tell
	silent) ip netns exec "spine$1" sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0 ;;
	link) ip -n "spine$1" link set la down; ip -n "spine$1" link set lb down ;;
	esac
}

fabric_restore() { # N
	local i=$1
	ip netns exec "spine$i" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	[ -n "$(ip -n "spine$i" -o link show dev la up)" ] && return
	ip -n "spine$i" link set la up; ip -n "spine$i" link set lb up
	# what the carrier's loss took from the routing tables
	ip -n "spine$i" addr add "fd11:$i::2/64" dev la nodad 2>/dev/null; ip -n "spine$i" addr add "fd12:$i::2/64" dev lb nodad 2>/dev/null
	ip -n "spine$i" route replace 10.1.0.0/24 via "10.11.$i.1"; ip -n "spine$i" -6 route replace fd01::/64 via "fd11:$i::1"
	ip -n "spine$i" route replace 10.2.0.0/24 via "10.12.$i.1"; ip -n "spine$i" -6 route replace fd02::/64 via "fd12:$i::1"
}

# By the queues of the leaves: that counts what super-packets will be on the wire, and packets singly.
fabric_bytes() {
	paste <(tc -n leafA -s qdisc show) <(tc -n leafB -s qdisc show) | awk '
		/^qdisc/ { dev = ""; for (i = 1; i < NF; i++) if ($i == "dev") { dev = $(i + 1); break } }
		/Sent/ && dev ~ /^s[0-9]+$/ {
			n = 0
			for (i = 1; i < NF; i++) if ($i == "Sent") { n++; bytes[n] = $(i + 1); pkts[n] = $(i + 3) }
			print substr(dev, 2), bytes[1], bytes[2], pkts[1], pkts[2] }' | sort -n
}

fabric_link() { # TYPE: one device per host
	DEV_A=${1}a DEV_B=${1}b
	onA rdma link add "$DEV_A" type "$1" netdev vA || { DEV_A=''; return 1; }
	onB rdma link add "$DEV_B" type "$1" netdev vB || { DEV_B=''; return 1; }
	# GIDs come by a work queue
	local i
	for i in $(seq 50); do
		fabric_gid "$DEV_A" $A4 >/dev/null && fabric_gid "$DEV_B" $B4 >/dev/null && { [ ! -d /proc/sys/net/ipv6 ] ||
			{ fabric_gid "$DEV_A" $A6 >/dev/null && fabric_gid "$DEV_B" $B6 >/dev/null; }; } && return 0
		sleep 0.1
	done
	echo "fabric: no GIDs on $DEV_A, $DEV_B" >&2
	return 1
}

fabric_gid() { # DEVICE ADDRESS: prints the index
	local want got g p=/sys/class/infiniband/$1/ports/1
	case $2 in
	*:*) want=$(_gid6 "$2") ;;
	*) want=$(echo "$2" | awk -F. '{ printf "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", $1, $2, $3, $4 }') ;;
	esac
	for g in $(seq 0 63); do
		{ read -r got <"$p/gids/$g"; } 2>/dev/null || return 1
		[ "$got" = "$want" ] || continue
		{ read -r got <"$p/gid_attrs/types/$g"; } 2>/dev/null || continue
		[ "$got" = "RoCE v2" ] && { echo "$g"; return 0; }
	done
	return 1
}
_gid6() { # ADDRESS: full form; only one "::" at most and no embedded IPv4
	echo "$1" | awk -F: '{ n = 0; for (i = 1; i <= NF; i++) if ($i != "") n++
		out = ""; filled = 0
		for (i = 1; i <= NF; i++) {
			if ($i == "") { if (!filled) { for (j = n; j < 8; j++) out = out ":0000"; filled = 1 } }
			else out = out ":" sprintf("%4s", $i) }
		gsub(/ /, "0", out); print substr(out, 2) }'
}

fabric_sprayed() {
	local before; before=$(fabric_bytes)
	onA python3 -c "
import socket
for p in range(50000, 50400):
	s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('$A4', p)); s.sendto(b'x', ('$B4', 9)); s.close()"
	sleep 0.3
	paste <(echo "$before") <(fabric_bytes) | awk '{ print $1, $9 - $4 }'
}
