# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash disable=SC2034,SC2154
# How much of the spines' rate one way WRITE traffic gets, for demo.sh and rates.sh. Source it after lib.sh;
# $mbit is the rate of one spine.

say() { echo "$*" >>/out/report; note "$*"; }
: >/out/report

args() { # sets $a and $b: the devices' options for perftest
	a="-d $DEV_A -x $(fabric_gid "$DEV_A" $A4) -F" b="-d $DEV_B -x $(fabric_gid "$DEV_B" $B4) -F"
}
fabric_now() { # TYPE PROFILE
	case $1 in rxe) FABRIC_HOSTS=init ;; *) FABRIC_HOSTS=netns ;; esac
	fabric_up "$2" && modprobe "$(case $1 in spray) echo rdma_spray ;; *) echo "rdma_$1" ;; esac)" && fabric_link "$1" && args
}
counters() { rdma -j statistic show link "$DEV_A/1" | jq -r '.[0] | to_entries[] | "\(.key) \(.value)"'; }
counters_b() { rdma -j statistic show link "$DEV_B/1" | jq -r '.[0] | to_entries[] | "\(.key) \(.value)"'; }
# changed BEFORE AFTER PATTERN: "name +n" of those counters that match
changed() { join <(sort "$1") <(sort "$2") | awk -v p="$3" '$1 ~ p && $3 > $2 { printf "%s%s %d", s, $1, $3 - $2; s = ", " } END { print s ? "" : "none" }'; }

bw_start() { # SECONDS QPS: one way WRITE traffic in the background
	onB ib_write_bw $b -s 65536 -D "$1" -q "$2" >"$LOGS/bs" 2>&1 & bs=$!
	for _ in $(seq 100); do onB ss -Hltn | grep -q . && break; sleep 0.1; done
	onA ib_write_bw $a -s 65536 -D "$1" -q "$2" $B4 >"$LOGS/bc" 2>&1 & bc=$!
}
bw_end() { local rc=0; wait $bc || rc=1; wait $bs || rc=1; [ $rc = 0 ] || { tail -n 4 "$LOGS/bs" "$LOGS/bc"; }; return $rc; }

# throughput NAME QPS: sets $share (percent of the spines' sum, on the wire) and $spread (largest deviation)
throughput() {
	local t0 t1 before after
	bw_start 7 "$2"
	sleep 3
	t0=$(now_ms); before=$(fabric_bytes); counters >"$LOGS/c0"; counters_b >"$LOGS/d0"
	sleep 3
	t1=$(now_ms); after=$(fabric_bytes); counters >"$LOGS/c1"; counters_b >"$LOGS/d1"
	bw_end || return 1
	goodput=$(awk '/^ *65536/ { v = $4 } END { print v }' "$LOGS/bc")
	line=$(paste <(echo "$before") <(echo "$after") | awk -v ms=$((t1 - t0)) -v mbit="$mbit" '
		{ n = $7 - $2; sum += n; v[NR] = n; row = row sprintf(" %6.1f MB", n / 1e6) }
		END { mean = sum / NR; for (i in v) { d = (v[i] - mean) / mean * 100; if (d < 0) d = -d; if (d > dev) dev = d }
			printf "%.1f %.1f|%s", sum * 8 / ms / 1000 / (NR * mbit) * 100, dev, row }')
	share=${line%% *}; spread=${line#* }; spread=${spread%%|*}
	say "$(printf '%-34s %s   %5.1f %% of the sum, goodput %s MiB/s' "$1" "${line#*|}" "$share" "$goodput")"
}

