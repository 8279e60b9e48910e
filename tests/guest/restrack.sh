#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What `rdma` tells of our objects (-dd resource show), and counters of QPs (statistic qp): by hand, by
# type and by process, while they live and after. What a port counts is told once, whoever counted it.
. "$(dirname "$0")/lib.sh"

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_up "${SPRAY_PROFILE:-loss1}" || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
ga=$(fabric_gid "$DEV_A" $A4) gb=$(fabric_gid "$DEV_B" $B4)

QPS=3
# all of them: a busy machine starts one after the other
sending() { res qp | jq -e '[.[] | select(.type == "RC" and .state == "RTS" and .drv_packets > 100)] | length == '$QPS >/dev/null; }
flow_start() { # OPTIONS: ib_write_bw that goes on for long
	onB ib_write_bw -d "$DEV_B" -x "$gb" -F -q $QPS -s 65536 -D 3000 >"$LOGS/flow" 2>&1 &
	for i in $(seq 100); do _listening && break; sleep 0.1; done
	onA ib_write_bw -d "$DEV_A" -x "$ga" -F -q $QPS -s 65536 -D 3000 $B4 >"$LOGS/flow" 2>&1 &
	for i in $(seq 300); do sending && return 0; sleep 0.1; done
	cat "$LOGS/flow"
	return 1
}
flow_stop() {
	pkill '^ib_(write|send)_bw'
	for i in $(seq 100); do ! pgrep '^ib_(write|send)_bw' >/dev/null && [ -z "$(qps)" ] && return 0; sleep 0.1; done
	return 1
}
res() { if [ "$1" = qp ]; then rdma -dd -j resource show qp link "$DEV_A/1"; else rdma -dd -j resource show "$1" dev "$DEV_A"; fi; }
qps() { rdma -j resource show qp link "$DEV_A/1" | jq '.[] | select(.type == "RC" and .state == "RTS") | .lqpn'; }
port() { rdma -j statistic show link "$DEV_A/1" | jq ".[0].$1"; }
counters() { rdma -j statistic qp show link "$DEV_A/1"; }
# is JQ EXPRESSION: true of what comes in, or it is shown
is() { tee "$LOGS/json" | jq -e "$1" >/dev/null || { cat "$LOGS/json"; return 1; }; }

details() {
	res qp | is '[.[] | select(.type == "RC" and .state == "RTS")] | length == '$QPS' and all(
		.drv_paths == 64 and .drv_packet_bytes > 200 and .drv_window_bytes > .drv_packet_bytes and
		.drv_packets > 10 and .drv_rtt_us > 0 and .drv_in_flight_bytes >= 0 and .drv_sq_posted >= 0 and .drv_held_packets == 0)' || return 1
	res cq | is '[.[] | select(.comm == "ib_write_bw")] | length > 0 and all(
		.drv_entries >= 128 and .drv_waiting <= .drv_entries and .drv_overflow == 0)' || return 1
	res mr | is '[.[] | select(.comm == "ib_write_bw")] | length > 0 and all(.drv_live == 1 and .drv_pages >= 32 and .drv_windows == 0)'
}
again() { # with 1 % loss something is sent again sooner or later, and is told of that QP
	for i in $(seq 300); do
		res qp | jq -e '[.[] | .drv_retransmissions // 0] | add > 0' >/dev/null && return 0
		sleep 0.1
	done
	res qp; return 1
}
srqs() {
	rdma -dd -j resource show srq dev "$DEV_B" |
		is '[.[] | select(.comm == "ib_send_bw")] | length > 0 and all(.drv_entries >= 64 and .drv_posted >= 0 and .drv_qps_waiting >= 0)'
}

here "streams" flow_start
check "details of QPs, CQs, MRs" details
case ${SPRAY_PROFILE:-loss1} in *loss*) run "retransmissions of a QP" 60 again ;; esac
note "$(res qp | jq -c '[.[] | select(.type == "RC")][0]')"

# --- by hand ---
first=$(qps | head -1) second=$(qps | sed -n 2p)
bind() {
	rdma statistic qp bind link "$DEV_A/1" lqpn "$first" || return 1
	id=$(counters | jq '.[0].cntn')
	rdma statistic qp bind link "$DEV_A/1" lqpn "$second" cntn "$id" || return 1
	counters | is ".[0].lqpn == [$first, $second] or .[0].lqpn == [$second, $first]"
}
grows() {
	local a b; a=$(counters | jq '.[0].tx_packets')
	for i in $(seq 100); do b=$(counters | jq '.[0].tx_packets'); [ "$b" -gt $((a + 50)) ] && return 0; sleep 0.1; done
	echo "$a $b"; return 1
}
not_all() { # two of three QPs: less than the port, and the port is not their sum on top
	local c p q; p=$(port tx_bytes) c=$(counters | jq '.[0].tx_bytes') q=$(port tx_bytes)
	echo "port $p $q, counter $c"
	[ "$c" -gt 0 ] && [ "$c" -lt "$q" ] && [ "$q" -ge "$p" ]
}
no_ports() { counters | is '.[0] | has("tx_packets") and has("rx_acks") and has("retransmissions") and (has("drop_no_qp") | not)'; }
refused() { # bound twice; unbound from another; auto while bound
	! rdma statistic qp bind link "$DEV_A/1" lqpn "$first" && ! rdma statistic qp unbind link "$DEV_A/1" cntn 99999 lqpn "$first" &&
		! rdma statistic qp set link "$DEV_A/1" auto type on
}
unbind() {
	local p q; p=$(port tx_bytes)
	rdma statistic qp unbind link "$DEV_A/1" cntn "$id" lqpn "$first" || return 1
	counters | is ".[0].lqpn == [$second]" || return 1
	rdma statistic qp unbind link "$DEV_A/1" cntn "$id" || return 1
	[ "$(counters)" = '[{}]' ] || [ "$(counters | jq '[.[] | select(.cntn)] | length')" = 0 ] || { counters; return 1; }
	q=$(port tx_bytes)
	echo "port $p, then $q"
	[ "$q" -ge "$p" ]
}
check "bind two QPs to a counter" bind
id=$(counters | jq '.[0].cntn')
check "it counts" grows
check "and the port's sum goes on as it was" not_all
check "what is of the port alone is not told of a QP" no_ports
check "what may not be" refused
check "unbind" unbind
here "streams end" flow_stop

# --- automatic ---
# A number of bytes that is known: with retransmissions and headers somewhat more, told twice it would be twice.
send() { # DIR: by how much do the bytes of the port grow
	local p q
	p=$(port tx_bytes)
	pair "$1" 120 "ib_write_bw -d $DEV_B -x $gb -F -q 2 -s 65536 -n 100" "ib_write_bw -d $DEV_A -x $ga -F -q 2 -s 65536 -n 100 $B4" || return 1
	q=$(port tx_bytes)
	note "$((q - p)) bytes for $((200 * 65536))"
	grown=$((q - p))
}
once() { [ "$grown" -gt $((200 * 65536)) ] && [ "$grown" -lt $((200 * 65536 * 3 / 2)) ]; }
send "200 messages, no counters" && check "bytes of the port" once
check "auto type on" rdma statistic qp set link "$DEV_A/1" auto type on
send "200 messages, counters by type" && check "bytes of the port, counted by counters" once
check "auto off" rdma statistic qp set link "$DEV_A/1" auto off
check "auto pid on" rdma statistic qp set link "$DEV_A/1" auto pid on
here "streams, a counter for each process" flow_start
one_counter() { counters | is "[.[] | select(.cntn)] | length == 1 and (.[0].lqpn | length) == $QPS and .[0].tx_packets > 0"; }
check "all QPs of the process in one" one_counter
check "it counts" grows
here "streams end" flow_stop
none() { [ "$(counters | jq '[.[] | select(.cntn)] | length')" = 0 ]; }
check "the counter went with its QPs" none
check "auto off again" rdma statistic qp set link "$DEV_A/1" auto off

# --- a shared receive queue, where rdma asks drivers about them ---
if [ "$SPRAY_SUITE" = bookworm ]; then
	skip "details of SRQs" "no driver is asked about SRQs in this kernel"
else
	onB ib_send_bw -d "$DEV_B" -x "$gb" -F -q 2 --use-srq -s 4096 -D 3000 >/dev/null 2>&1 &
	for i in $(seq 100); do _listening && break; sleep 0.1; done
	onA ib_send_bw -d "$DEV_A" -x "$ga" -F -q 2 --use-srq -s 4096 -D 3000 $B4 >/dev/null 2>&1 &
	for i in $(seq 300); do [ "$(qps | wc -l)" = 2 ] && break; sleep 0.1; done
	check "details of SRQs" srqs
	here "streams end" flow_stop
fi

# a device that goes with a counter bound
check "auto type on" rdma statistic qp set link "$DEV_A/1" auto type on
here "streams" flow_start
here "rdma link delete, fabric down, under them" fabric_down
pkill '^ib_write_bw'
gone() { for i in $(seq 100); do rmmod "$MODULE" 2>/dev/null && return 0; sleep 0.1; done; rmmod "$MODULE"; }
check "rmmod" gone
check "kernel log" kmsg_clean
finish
