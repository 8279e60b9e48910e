#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Every verb against every other: tests/race under profiles of the fabric and on a direct link. Wants two CPUs.
#
# race.sh [PROFILE...]    default: direct clean mixed; "direct" is a veth between the hosts
# SPRAY_SEEDS: default 1      SPRAY_RACE_SECONDS: of each run, default 25      SPRAY_RACE_ARGS: appended
# SPRAY_JITTER: see lib.sh, default 400
export FABRIC_GSO=off
. "$(dirname "$0")/lib.sh"

: "${SPRAY_SEEDS:=1}" "${SPRAY_RACE_SECONDS:=25}" "${SPRAY_JITTER:=400}"
program=/spray/tests/race/spray_race
[ $# -gt 0 ] || set -- direct clean mixed
[ -x $program ] || bail "tests/race is not built"

race() { # NAME OPTION...
	local name=$1; shift
	# details of objects that come and go are read meanwhile
	( while :; do for i in qp cq mr srq; do rdma -dd resource show $i; sleep 0.2; done; done >/dev/null 2>&1 ) & local reader=$!
	# shellcheck disable=SC2086
	nested "$name" $((SPRAY_RACE_SECONDS + 240)) $program -a "$DEV_A" -b "$DEV_B" -T "$SPRAY_RACE_SECONDS" "$@" $SPRAY_RACE_ARGS
	kill $reader; wait $reader 2>/dev/null
}
# what holds on to a device or an MR shows when all is taken down
down() { fabric_down; [ "$(cat "/sys/module/$MODULE/refcnt")" = 0 ]; }

here "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
jitter "$SPRAY_JITTER"
up=
for p; do
	case $p in
	direct) [ -z "$up" ] || here "fabric down for $p" down; here "fabric $p" fabric_direct || bail "no fabric" ;;
	*) [ "$up" = spines ] || { [ -z "$up" ] || here "fabric down for $p" down; here "fabric" fabric_up clean || bail "no fabric"; } ;;
	esac
	[ "$p" = direct ] && new=direct || new=spines
	[ "$up" = "$new" ] || here "rdma link add for $p" fabric_link "$SPRAY_TYPE" || bail "no device"
	up=$new
	[ "$p" = direct ] || here "profile $p" fabric_profile "$p" || continue
	# one message at a time, each slept for: an event that is lost is the last one
	pair "$p/events" 90 "ibv_rc_pingpong -d $DEV_B -g $(fabric_gid "$DEV_B" $B4) -e -n 3000 -s 64" \
		"ibv_rc_pingpong -d $DEV_A -g $(fabric_gid "$DEV_A" $A4) -e -n 3000 -s 64 $B4"
	for seed in $SPRAY_SEEDS; do
		race "$p/$seed" -s "$seed"
		# few links whose memory or QP goes, all the time: those who copy just then are met more often
		[ "$p" != direct ] || race "$p/$seed ends" -s "$seed" -L 2 -o destroy,dereg
		[ "$p" = clean ] || [ "$SPRAY_TYPE" != spray ] || race "$p/$seed hostile" -s "$seed" -H
	done
	rdma res show qp | grep -E "link ${SPRAY_TYPE}[ab]/" | grep -v 'type GSI' >"$LOGS/left"
	check "no QP is left after $p" test ! -s "$LOGS/left"
done
rdma statistic show | tr ' ' '\n' >/out/statistic
here "rdma link delete, fabric down" down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
