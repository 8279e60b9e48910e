#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What loss, unequal paths, and reordering inside a path leave of the rate of one QP; a table in /out/report.
#
# SPRAY_RATE: rate of one spine, default 20mbit: every packet crosses every hop on its own here
# SPRAY_ROWS: which rows, a regular expression, default all
export FABRIC_GSO=off
. "$(dirname "$0")/lib.sh"
FABRIC_RATE=${SPRAY_RATE:-20mbit}
mbit=${FABRIC_RATE%mbit}
. "$(dirname "$0")/bandwidth.sh"

# row NAME GOAL PROFILE [REORDER]: REORDER percent overtake the others of their spine by half a millisecond, and
# all by what the rate makes of that. Clean comes first: the others are a share of its goodput.
clean=
row() {
	local i part
	[[ $1 =~ ${SPRAY_ROWS:-.} ]] || [ -z "$clean" ] || return 0
	here "$1: fabric" fabric_now "$SPRAY_TYPE" "$3" || return
	for i in $(_seq); do
		[ -z "$4" ] || tc -n "spine$i" qdisc replace dev lb root netem limit 10000 delay 500us reorder "$4%"
	done
	here "$1: one QP" throughput "$1" 1 && {
		: "${clean:=$goodput}"
		part=$(awk -v v="$goodput" -v c="$clean" 'BEGIN { printf "%.1f", 100 * v / c }')
		say "$(printf '    %5.1f %% of clean (goal %s); resent, and what came twice:' "$part" "$2")" \
			"$(changed "$LOGS/c0" "$LOGS/c1" 'retrans'); $(changed "$LOGS/d0" "$LOGS/d1" 'dup')"
		check "$1: no less than $2 of clean ($part)" awk -v v="$part" -v g="$2" 'BEGIN { exit !(v >= g) }'
		[ -z "$5" ] || check "$1: nothing is sent twice" test "$(changed "$LOGS/c0" "$LOGS/c1" 'retrans')" = none
	}
	here "$1: fabric down" fabric_down
	modprobe -r "$MODULE"
}

say "$SPRAY_TYPE, one QP, ib_write_bw of 64 KiB over four spines of $mbit Mbit/s; bytes per spine in three seconds:"
row "clean"                     95 rate
row "0.1 % lost"                97 rate+loss01
row "1 % lost"                  90 rate+loss1
row "5 % lost"                  75 rate+loss5
row "0, 1, 3, 9 ms"             95 rate+unequal '' exactly
row "1 % overtake in a spine"   90 rate 1
row "5 % overtake in a spine"   90 rate 5
row "25 % overtake in a spine"  90 rate 25
finish
