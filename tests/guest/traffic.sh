# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Traffic while devices come and go, and what is looked at afterwards; source it after lib.sh.

gone() { # DEVICE: gone within ten seconds
	local i
	for i in $(seq 100); do [ -e "/sys/class/infiniband/$1" ] || return 0; sleep 0.1; done
	echo "$1 is still there"; return 1
}
idle() { # no QP but the GSI's, nothing else of a user
	local i
	for i in $(seq 100); do
		rdma res show qp | grep -E "link ${SPRAY_TYPE}[ab]/" | grep -qv 'type GSI' || return 0
		sleep 0.1
	done
	rdma res show qp; return 1
}
# traffic: many seconds of it in the background, SEND both ways so that both ends receive
traffic_start() {
	local ga gb
	ga=$(fabric_gid "$DEV_A" $A4) gb=$(fabric_gid "$DEV_B" $B4)
	onB ib_send_bw -d "$DEV_B" -x "$gb" -F -e -b -q 2 -n 1000000 -s 32768 >"$LOGS/ts" 2>&1 &
	for _ in $(seq 100); do onB ss -Hltn | grep -q . && break; sleep 0.1; done
	onA ib_send_bw -d "$DEV_A" -x "$ga" -F -e -b -q 2 -n 1000000 -s 32768 $B4 >"$LOGS/tc" 2>&1 &
	sleep 3
	[ "$(pgrep -c ib_send_bw)" -ge 2 ] || { cat "$LOGS/ts" "$LOGS/tc"; traffic_stop; return 1; }
}
traffic_stop() { # all programs must be mortal
	local i
	pkill -9 ib_send_bw || :
	for i in $(seq 150); do pgrep ib_send_bw >/dev/null || { wait 2>/dev/null; return 0; }; sleep 0.1; done
	ps ax | grep ib_send_bw; cat /proc/"$(pgrep ib_send_bw | head -1)"/stack; return 1
}
refused() { # WHY-PATTERN CMD...: fails, and says why there or in the kernel log
	local why=$1 out; shift
	dmesg -C
	out=$("$@" 2>&1) && { echo "accepted: $*"; return 1; }
	out="$out
$(dmesg)"
	echo "$out" | grep -v TEST
	echo "$out" | grep -v 'TEST' | grep -qiE "$why"
}
pingpong() {
	pair "$1" 60 "ibv_rc_pingpong -d $DEV_B -g $(fabric_gid "$DEV_B" $B4) -e" \
		"ibv_rc_pingpong -d $DEV_A -g $(fabric_gid "$DEV_A" $A4) -e $B4"
}
