#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The product's main job, with a report in /out/report. See qemu/demo.sh, which boots and prints it.
#
# SPRAY_RATE: rate of one spine, default 40mbit; SPRAY_LOSS_RATE: with loss, where every packet crosses
# every hop on its own, default 20mbit. TAP says which steps failed; the figures are not judged
# unless SPRAY_JUDGE=1 (four spines at 90 %, within 10 % of each other, 80 % of that with 1 % loss).
. "$(dirname "$0")/lib.sh"

FABRIC_RATE=${SPRAY_RATE:-40mbit}
mbit=${FABRIC_RATE%mbit}
. "$(dirname "$0")/bandwidth.sh"

# ---- pieces -----------------------------------------------------------------------------------

# felt: from samples "us bytes" of the receiver and the moment of the cut: the longest silence, and the time
# until the rate was back at 90 % of what is left (three of four spines)
sample() {
	ip netns exec hostB bash -c 'mkfifo /tmp/never; exec 9<>/tmp/never
		while :; do
			while read -r dev bytes _; do [ "$dev" = vB: ] && echo "${EPOCHREALTIME/./} $bytes"; done </proc/net/dev
			read -r -t 0.05 <&9
		done' 2>/dev/null
}
felt() { # SAMPLES CUT_US
	awk -v cut="$2" '
		{ t[NR] = $1; b[NR] = $2 }
		END {
			for (i = 2; i <= NR; i++) if (t[i] <= cut && t[i] > cut - 3e6) { if (!f) f = i; l = i }
			before = (b[l] - b[f]) / (t[l] - t[f])
			# the last 100 kB are farewells, after whatever pause
			for (i = l + 1; i <= NR && b[i - 1] < b[NR] - 1e5; i++) {
				if (b[i] == b[i - 1]) { if (!q) q = t[i - 1]; if (t[i] - q > silent) silent = t[i] - q } else q = 0
			}
			# windows of 200 ms
			for (i = l; i <= NR && !back; i++) {
				for (j = i; j < NR && t[j] - t[i] < 2e5; j++);
				if (t[j] - t[i] >= 2e5 && (b[j] - b[i]) / (t[j] - t[i]) >= 0.9 * 0.75 * before) back = t[i]
			}
			printf "longest silence %d ms, ", silent / 1000
			if (back) printf "back at 90 %% of what three spines carry after %d ms\n", (back > cut ? back - cut : 0) / 1000
			else print "never back at the rate of the three that are left"
		}' "$1"
}

# ---- the show -------------------------------------------------------------------------------

kernel=$(uname -r) core=$(dpkg-query -W -f '${Version}' libibverbs1)
[ "${SPRAY_ICOUNT:-}" = 1 ] && clock="virtual time, 1 ns per instruction" || clock="$SPRAY_CPUS vCPU(s)"
say "$SPRAY_TYPE on Linux $kernel, rdma-core $core, $clock; 4 spines of $mbit Mbit/s each"
here "fabric and devices" fabric_now "$SPRAY_TYPE" rate || bail "no fabric: $(tail -n 3 "$LOGS/out")"

say ""
say "Unmodified programs of the distribution:"
program() { # NAME SERVER CLIENT
	if pair "$1" 90 "$2" "$3"; then say "  $(printf '%-18s' "$1") works"; else say "  $(printf '%-18s' "$1") FAILED"; fi
}
ga=$(fabric_gid "$DEV_A" $A4) gb=$(fabric_gid "$DEV_B" $B4)
program ibv_rc_pingpong "ibv_rc_pingpong -d $DEV_B -g $gb -e" "ibv_rc_pingpong -d $DEV_A -g $ga -e $B4"
program ib_write_bw "ib_write_bw $b -s 65536 -n 300" "ib_write_bw $a -s 65536 -n 300 $B4"
program ib_read_bw "ib_read_bw $b -s 65536 -n 300 $EV" "ib_read_bw $a -s 65536 -n 300 $EV $B4"
program ib_send_lat "ib_send_lat $b -s 8 -n 500 $EV" "ib_send_lat $a -s 8 -n 500 $EV $B4"
program ib_atomic_lat "ib_atomic_lat $b -n 500 $EV" "ib_atomic_lat $a -n 500 $EV $B4"
program rping "rping -s -a $B4 -C 20 -V" "rping -c -a $B4 -I $A4 -C 20 -V"

doorbell=/spray/tests/contract/spray_doorbell
if [ -x $doorbell ] && [ "$FABRIC_HOSTS" = netns ]; then
	say ""
	if pair "data and doorbell" 180 "$doorbell -s" "$doorbell $B4"; then
		say "Data and doorbell (64 MB in 4 WRITEs, then WRITE_WITH_IMM; every byte checked when the doorbell rings):"
		grep -hv '^$' "$LOGS/server" | tail -n 3 | sed 's/^/  /' >>/out/report
	else
		say "Data and doorbell: FAILED"
	fi
fi

say ""
say "One QP, ib_write_bw of 64 KiB; bytes per spine in three seconds:"
here "throughput" throughput "  $SPRAY_TYPE" 1 && {
	s0=$share d0=$spread
	say "  spines differ from their mean by at most $spread %"
	say "  sender:   $(changed "$LOGS/c0" "$LOGS/c1" 'retrans|resen|timeout|rto|probe')"
	say "  receiver: $(changed "$LOGS/d0" "$LOGS/d1" 'order|ooo|dup|reorder|drop')"
}

say ""
say "A spine dies silently while ib_write_bw runs (the leaves go on sending into it):"
sample >"$LOGS/samples" & sampler=$!
bw_start 9 1
sleep 4
cut_at=${EPOCHREALTIME/./}
fabric_cut 2 silent
here "no application sees the cut" bw_end && say "  ib_write_bw ended well" || say "  ib_write_bw FAILED"
pkill -P $sampler 2>/dev/null; kill $sampler 2>/dev/null; wait $sampler 2>/dev/null
[ "$FABRIC_HOSTS" = init ] || say "  $(felt "$LOGS/samples" "$cut_at")"
fabric_restore 2
cp "$LOGS/samples" /out/cut-samples 2>/dev/null

here "fabric down" fabric_down
say ""
say "1 % of packets lost on every spine of ${SPRAY_LOSS_RATE:-20mbit} (the hosts' devices split super-packets: each packet is at risk):"
FABRIC_GSO=off FABRIC_RATE=${SPRAY_LOSS_RATE:-20mbit}
mbit=${FABRIC_RATE%mbit}
here "fabric with loss" fabric_now "$SPRAY_TYPE" rate+loss1 && here "throughput with loss" throughput "  $SPRAY_TYPE" 1 && {
	s1=$share
	say "  sender:   $(changed "$LOGS/c0" "$LOGS/c1" 'retrans|resen|timeout|rto|probe')"
	say "  receiver: $(changed "$LOGS/d0" "$LOGS/d1" 'order|ooo|dup|reorder|drop')"
}
here "fabric with loss down" fabric_down
FABRIC_GSO=on FABRIC_RATE=${SPRAY_RATE:-40mbit}
mbit=${FABRIC_RATE%mbit}
modprobe -r "$MODULE"

if [ "$SPRAY_TYPE" != rxe ]; then
	say ""
	say "For comparison, rxe on the same fabric:"
	here "rxe's fabric" fabric_now rxe rate && throughput "  rxe" 1
	FABRIC_RATE=${SPRAY_LOSS_RATE:-20mbit}
	mbit=${FABRIC_RATE%mbit}
	fabric_profile rate+loss1 && throughput "  rxe, 1 % lost, $FABRIC_RATE" 1 || say "  rxe, 1 % lost: FAILED"
	here "rxe's fabric down" fabric_down
	modprobe -r rdma_rxe
fi
if [ "$SPRAY_JUDGE" = 1 ]; then
	check "four spines filled to 90 % (${s0:-?})" awk -v v="${s0:-0}" 'BEGIN { exit !(v >= 90) }'
	check "each within 10 % of the mean (${d0:-?})" awk -v v="${d0:-100}" 'BEGIN { exit !(v <= 10) }'
	check "with 1 % loss 80 % of that (${s1:-?})" awk -v v="${s1:-0}" -v w="${s0:-100}" 'BEGIN { exit !(v >= 0.8 * w) }'
fi
finish
