#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# check.sh [TEST...]: all tests; the last line counts them. With names: only these guest tests, unit tests first.
#
# Unit tests, lint and simulation come first, then the guest tests, the suites side by side (a guest has one vCPU),
# and a part of them in a User-Mode Linux with all debugging (tests/uml).
# SPRAY_SUITES: default "bookworm trixie"      SPRAY_SEEDS: seeds of the contract test, default 1
# SPRAY_CONTRACT_ARGS: default fewer rounds, and the one long case only once
# SPRAY_RACE_SECONDS, SPRAY_OBJECTS: default 20 for each profile, 8000 of a kind
. "$(dirname "$0")/common.sh"
. "$QEMU_DIR/results.sh"

: "${SPRAY_SUITES:=$SUITES}" "${SPRAY_SEEDS:=1}" "${SPRAY_CONTRACT_ARGS:=-q -x message_numbers_wrap}"
: "${SPRAY_RACE_SECONDS:=20}" "${SPRAY_OBJECTS:=8000}"
export SPRAY_CACHE SPRAY_SEEDS SPRAY_CONTRACT_ARGS SPRAY_RACE_SECONDS SPRAY_OBJECTS
need_root
"$QEMU_DIR/need.sh"
log=$SPRAY_CACHE/check
rm -rf "$log"
mkdir -p "$log"
start=$SECONDS

# tests: NAME SECONDS OPTIONS (of run.sh); those marked once run in the first suite alone, last: in the last one
guest_tests() {
	cat <<-E
		smoke      300
		apps       900
		contract  1800
		lifecycle  900
		uverbs     300
		limits     300
		restrack   300 last
		ulp        600 once
		ulp        600 last -a ib_core.force_mr=1
		nfs        600
		fabric     300 once
		credit     900 once
		pathlen    900 once -i
		race       600 once -c 2
		objects    600 last
		storm      900 last -c 2
	E
}

# cmocka's TAP: one line per test; a crash of a program shows as its make failing
unit() {
	local t=$SECONDS
	CMOCKA_MESSAGE_OUTPUT=TAP make --no-print-directory -C "$TOP" unit >"$log/unit.tap" 2>&1 && [ -s "$log/unit.tap" ] ||
		{ grep -q '^not ok' "$log/unit.tap" || { tail -n 20 "$log/unit.tap" | sed 's/^/#   /'; echo "not ok - unit tests did not finish"; } >>"$log/unit.tap"; }
	report unit "$log/unit.tap" $((SECONDS - t))
}

# build a suite once; its tests then boot what was built
suite_tests() { # SUITE NAMES...
	local suite=$1 name as limit rest once t n names; shift
	names=" $* "
	t=$SECONDS
	if ! "$QEMU_DIR/build.sh" "$suite" >"$log/$suite-build.out" 2>"$log/$suite-build.err"; then
		{ echo "not ok 1 - build"; tail -n 30 "$log/$suite-build.err" | sed 's/^/#   /'; } >"$log/$suite-build.tap"
		report "$suite build" "$log/$suite-build.tap" $((SECONDS - t))
		return
	fi
	echo "ok 1 - build" >"$log/$suite-build.tap"
	report "$suite build" "$log/$suite-build.tap" $((SECONDS - t))
	while read -r name limit rest; do
		[ "$names" = "  " ] || case $names in *" $name "*) ;; *) continue ;; esac
		once=
		case $rest in
		once*) once=${SPRAY_SUITES%% *} rest=${rest#once} ;;
		last*) once=${SPRAY_SUITES##* } rest=${rest#last} ;;
		esac
		[ -z "$once" ] || [ "$suite" = "$once" ] || continue
		t=$SECONDS
		as=$name
		case $rest in *-a*) as=$name-${rest##*.} ;; esac
		n=$log/$suite-$as.tap
		# shellcheck disable=SC2086
		"$QEMU_DIR/run.sh" -n -s "$suite" -t "$limit" $rest -o "$log/$suite-$as" "$name" >"$n" 2>&1 </dev/null || {
			# a clean log and exit belong to the test: what TAP doesn't count as failed counts once here
			grep -q '^not ok' "$n" || echo "not ok - guest: $(grep -m1 'FAILED' "$n" || tail -n1 "$n")" >>"$n"
		}
		report "$suite $as" "$n" $((SECONDS - t))
	done < <(guest_tests)
}

# a part on a kernel with KASAN, lockdep and kmemleak; left out only where its source can't be had
debug_kernel() {
	local t=$SECONDS
	if ! "$TOP/tests/uml/source.sh" >"$log/uml.out" 2>&1; then
		echo "ok 1 - debug kernel # SKIP $(tail -n 1 "$log/uml.out")" >"$log/uml.tap"
		report "uml/debug" "$log/uml.tap" $((SECONDS - t))
		return
	fi
	SPRAY_UML_PROFILES=mixed "$TOP/tests/uml/check.sh" debug smoke noipv6 lifecycle contract race | sed '$d' || :
	cat "$SPRAY_CACHE/check-uml-debug/totals" >>"$log/totals" || echo "0 1 0" >>"$log/totals"
}

unit
[ ! -x "$TOP/tests/lint.sh" ] || whole lint "$TOP/tests/lint.sh"
whole fuzz make --no-print-directory -C "$TOP" fuzz-replay
whole sim make --no-print-directory -C "$TOP" sim-quick
pids=()
for s in $SPRAY_SUITES; do suite_tests "$s" "$@" & pids+=($!); done
trap 'kill "${pids[@]}" 2>/dev/null; exit 130' INT TERM
wait
[ $# -gt 0 ] || debug_kernel
total $((SECONDS - start))
