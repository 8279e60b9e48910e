#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Instructions per message, ours beside rxe's, in one boot, on one pair of netdevs. Needs run.sh -i.
#
# A veth pair in the initial namespace, GSO and GRO on, MTU 1500. spray_load is event-driven and counts
# between two points of its run, so programs' start-up is not in it. A second figure by perftest: the
# slope of the whole program's busy time between two message counts.
#
# Bounds, of rxe's count: bulk WRITE and SEND 0.5, a 2 byte round trip 1.0.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init

[ "$SPRAY_ICOUNT" = 1 ] || note "without run.sh -i these are nanoseconds of a busy host: only a trial"
load=/spray/tests/guest/spray_load
[ -x $load ] || bail "spray_load is not built"

cases="write:65536:150 send:65536:150 read:65536:150 write:4096:600 send:64:2000 pingpong:2:1000"
[ -z "$SPRAY_CASES" ] || cases=$SPRAY_CASES

here "direct pair" fabric_direct || bail "no fabric"
ethtool -K vA gro on; ethtool -K vB gro on
# perftest's busy time: the clock less the idle loop's
busy() { awk -v up="$(date +%s%N)" '/\.idle_sleeptime/ { idle += $3 } END { printf "%.0f\n", up - idle }' /proc/timer_list; }
perf_once() { # PROGRAM COUNT SIZE: busy ns
	local t; t=$(busy)
	$1 -d "$DEV_B" -x "$gb" -F -e -s "$3" -n "$2" >"$LOGS/ps" 2>&1 &
	for _ in $(seq 100); do ss -Hltn | grep -q . && break; sleep 0.1; done
	timeout 300 $1 -d "$DEV_A" -x "$ga" -F -e -s "$3" -n "$2" $B4 >"$LOGS/pc" 2>&1 || { tail -3 "$LOGS/pc" >&2; return 1; }
	wait
	echo $(($(busy) - t))
}
measure() { # TYPE: writes $LOGS/TYPE with "op size count busy ns"
	local c ga gb op n
	modprobe "$(module_of "$1")" && fabric_link "$1" || return 1
	ga=$(fabric_gid "$DEV_A" $A4) gb=$(fabric_gid "$DEV_B" $B4)
	for c in $cases; do
		IFS=: read -r op size n <<<"$c"
		timeout 300 $load -a "$DEV_A" -b "$DEV_B" -g "$ga:$gb" "$op" "$size" "$n" || echo "$op $size $n failed"
	done | tee "$LOGS/$1"
	if [ -z "$SPRAY_CASES" ]; then
		for c in ib_send_bw:65536:100:700 ib_send_lat:2:500:2500; do
			IFS=: read -r op size n m <<<"$c"
			n1=$(perf_once "$op" "$n" "$size") && n2=$(perf_once "$op" "$m" "$size") &&
				echo "$op $size $m $(((n2 - n1) / (m - n))) 0" || echo "$op $size $m failed"
		done | tee -a "$LOGS/$1"
	fi
	rdma link delete "$DEV_A"; rdma link delete "$DEV_B"
	DEV_A='' DEV_B=''
	modprobe -r "$(module_of "$1")"
}
module_of() { case $1 in spray) echo rdma_spray ;; *) echo "rdma_$1" ;; esac; }

here "rxe measured" measure rxe
sed 's/^/# rxe: /' "$LOGS/rxe"
if [ "$SPRAY_TYPE" = rxe ]; then
	# the second time says how well this repeats
	cp "$LOGS/rxe" "$LOGS/first"
	here "rxe once more" measure rxe
	cp "$LOGS/rxe" "$LOGS/ours"; cp "$LOGS/first" "$LOGS/rxe"
else
	here "$SPRAY_TYPE measured" measure "$SPRAY_TYPE"
	cp "$LOGS/$SPRAY_TYPE" "$LOGS/ours"
fi
bound() { # OP SIZE: ok when ours is at most that share of rxe's
	case $1:$2 in
	write:65536|send:65536) echo 0.5 ;;
	pingpong:2) echo 1.0 ;;
	*) echo - ;;
	esac
}
note "instructions per message (per round trip for pingpong and ib_send_lat)"
note "$(printf '%-12s %8s %12s %12s %8s %8s' op bytes rxe "$SPRAY_TYPE" ratio bound)"
while read -r op size _ theirs _; do
	ours=$(awk -v o="$op" -v s="$size" '$1 == o && $2 == s { print $4 }' "$LOGS/ours")
	b=$(bound "$op" "$size")
	r=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { if (a > 0 && b > 0) printf "%.3f", a / b; else print "?" }')
	line=$(printf '%-12s %8s %12s %12s %8s %8s' "$op" "$size" "$theirs" "$ours" "$r" "$b")
	note "$line"; echo "$line" >>/out/pathlen
	[ "$b" != - ] && [ "$SPRAY_TYPE" != rxe ] || continue
	if awk -v r="$r" -v b="$b" 'BEGIN { exit !(r != "?" && r + 0 <= b + 0) }'; then
		ok "$op of $size bytes: $r of rxe's path, at most $b"
	else
		not_ok "$op of $size bytes: $r of rxe's path, at most $b"
	fi
done <"$LOGS/rxe"
here "fabric down" fabric_down
finish
