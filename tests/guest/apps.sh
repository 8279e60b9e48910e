#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The distribution's own RDMA programs, unmodified, across the fabric, over IPv4 and IPv6.
# SPRAY_PROFILE: what the spines do, default rate.
#
# Programs wait by event where they can ($EV, see lib.sh).
# The -I and -b options name the source, which both ends in one namespace (rxe) need.
. "$(dirname "$0")/lib.sh"

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_up "${SPRAY_PROFILE:-rate}" || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"

pingpongs() { # FAMILY A B
	local ga gb; ga=$(fabric_gid "$DEV_A" "$2") gb=$(fabric_gid "$DEV_B" "$3")
	local a="-d $DEV_A -g $ga" b="-d $DEV_B -g $gb"
	# the GID decides; the TCP side channel is IPv4 in any case, the server listens there alone
	pair "$1 ibv_rc_pingpong" 60 "ibv_rc_pingpong $b -e" "ibv_rc_pingpong $a -e $B4"
	pair "$1 ibv_rc_pingpong -c (data validated)" 60 "ibv_rc_pingpong $b -e -c -n 200" "ibv_rc_pingpong $a -e -c -n 200 $B4"
	pair "$1 ibv_srq_pingpong" 60 "ibv_srq_pingpong $b -e" "ibv_srq_pingpong $a -e $B4"
	pair "$1 ibv_srq_pingpong -c (data validated), 4 QPs, 8 receives" 60 "ibv_srq_pingpong $b -e -c -q 4 -r 8 -n 200" \
		"ibv_srq_pingpong $a -e -c -q 4 -r 8 -n 200 $B4"
	pair "$1 ibv_ud_pingpong" 60 "ibv_ud_pingpong $b -e -s 1024" "ibv_ud_pingpong $a -e -s 1024 $B4"
}

perf() { # FAMILY A B
	local ga gb t; ga=$(fabric_gid "$DEV_A" "$2") gb=$(fabric_gid "$DEV_B" "$3")
	local a="-d $DEV_A -x $ga -F" b="-d $DEV_B -x $gb -F" v6=''
	for t in "ib_write_bw -s 65536 -n 300" "ib_write_bw -s 1048576 -n 20" "ib_write_bw -s 65536 -n 100 -q 4" \
		"ib_read_bw -s 65536 -n 200 $EV" "ib_send_bw -s 65536 -n 300 $EV" "ib_send_bw -s 64 -n 1000 $EV" \
		"ib_send_bw -s 65536 -n 100 -q 4 --use-srq $EV" "ib_send_bw -s 64 -n 500 -q 4 --use-srq $EV" \
		"ib_send_bw -c UD -s 1024 -n 300 -q 2 --use-srq $EV" \
		"ib_send_bw -c UD -s 64 -n 900 -t 300 -r 900 -l 300" \
		"ib_write_lat -s 8 -n 200" "ib_read_lat -s 8 -n 500 $EV" "ib_send_lat -s 8 -n 500 $EV" \
		"ib_atomic_bw -n 500 $EV" "ib_atomic_bw -A CMP_AND_SWAP -n 500 $EV" "ib_atomic_lat -n 500 $EV"; do
		pair "$1 $t" 90 "${t%% *} $b ${t#* }" "${t%% *} $a ${t#* } $B4"
	done
	if [ "$1" = v6 ]; then
		ib_write_bw --help 2>&1 | grep -q -e --ipv6-addr || { skip "v6 perftest -R" "this perftest has no --ipv6-addr"; return; }
		v6=--ipv6-addr
	fi
	for t in "ib_write_bw -s 65536 -n 100" "ib_send_lat -s 8 -n 200 $EV" "ib_read_bw -s 65536 -n 100 $EV"; do
		pair "$1 $t -R (rdma_cm)" 90 "${t%% *} $b -R $v6 ${t#* }" "${t%% *} $a -R $v6 ${t#* } $3"
	done
}

cm() { # FAMILY A B
	pair "$1 rping" 60 "rping -s -a $3 -C 20 -V" "rping -c -a $3 -I $2 -C 20 -V"
	pair "$1 rping -S 65000" 60 "rping -s -a $3 -C 20 -V -S 65000" "rping -c -a $3 -I $2 -C 20 -V -S 65000"
	pair "$1 ucmatose" 60 "ucmatose -b $3 -c 4 -C 20 -S 5000" "ucmatose -s $3 -b $2 -c 4 -C 20 -S 5000"
	pair "$1 udaddy" 60 "udaddy -b $3 -C 10" "udaddy -s $3 -b $2 -C 10"
	pair "$1 rstream" 90 "rstream -b $3 -S 65536 -C 50 -T b" "rstream -s $3 -S 65536 -C 50 -T b"
}

qperfs() { # FAMILY A B
	local t
	for t in rc_lat rc_bw rc_bi_bw rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_poll_lat \
		rc_compare_swap_mr rc_fetch_add_mr; do
		PAIR_KILLS_SERVER=1 pair "$1 qperf $t" 60 "qperf" "qperf -t 2 -cm1 --use_bits_per_sec $3 $t"
	done
}

for f in pingpongs cm perf; do
	$f v4 $A4 $B4
	$f v6 $A6 $B6
done
# qperf knows IPv4 names only, and its UD tests no GIDs
qperfs v4 $A4 $B4
rdma statistic show | tr ' ' '\n' | sed 's/^/# /' >/out/statistic
here "rdma link delete" fabric_down
check "rmmod" rmmod "$MODULE"
finish
