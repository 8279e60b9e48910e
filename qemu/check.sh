#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# check.sh [TEST...]: all tests; the last line counts them. With names: only these guest tests, unit tests first.
#
# Unit tests, lint and simulation come first, then the guest tests, the suites side by side (a guest has one vCPU).
# SPRAY_SUITES: default "bookworm trixie"      SPRAY_SEEDS: seeds of the contract test, default 1
# SPRAY_CONTRACT_ARGS: default fewer rounds, and the one long case only once
# SPRAY_RACE_SECONDS, SPRAY_OBJECTS: default 20 for each profile, 8000 of a kind
. "$(dirname "$0")/common.sh"
set -o pipefail

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
		ulp        600
		fabric     300 once
		pathlen    900 once -i
		race       600 once -c 2
		objects    600 last
		storm      900 last -c 2
	E
}

# tally FILE: "passed failed skipped" of a TAP file
tally() {
	awk '/^not ok /{ f++; next } /^ok .*# SKIP/{ s++; next } /^ok /{ p++ } END { print p + 0, f + 0, s + 0 }' "$1"
}
report() { # NAME FILE SECONDS
	read -r p f s <<<"$(tally "$2")"
	printf '%-24s %4d passed, %d failed, %d skipped  (%d s)\n' "$1" "$p" "$f" "$s" "$3"
	# what failed, with its reason
	awk '/^not ok /{ on = 1 } /^ok /{ on = 0 } on || /^# (FAILED|BUG|WARN|\[)/' "$2" | head -40 | sed 's/^/    /'
	sed -n 's/^ok [0-9]* - \(.*\) # SKIP \(.*\)/    skipped: \1: \2/p' "$2"
	echo "$p $f $s" >>"$log/totals"
}
whole() { # NAME COMMAND...: a step that is one test
	local name=$1 t=$SECONDS; shift
	if "$@" >"$log/$name.out" 2>&1; then echo "ok 1 - $name" >"$log/$name.tap"
	else { echo "not ok 1 - $name"; tail -n 30 "$log/$name.out" | sed 's/^/#   /'; } >"$log/$name.tap"; fi
	report "$name" "$log/$name.tap" $((SECONDS - t))
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
	local suite=$1 name limit rest once t n names; shift
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
		n=$log/$suite-$name.tap
		# shellcheck disable=SC2086
		"$QEMU_DIR/run.sh" -n -s "$suite" -t "$limit" $rest -o "$log/$suite-$name" "$name" >"$n" 2>&1 </dev/null || {
			# a clean log and exit belong to the test: what TAP doesn't count as failed counts once here
			grep -q '^not ok' "$n" || echo "not ok - guest: $(grep -m1 'FAILED' "$n" || tail -n1 "$n")" >>"$n"
		}
		report "$suite $name" "$n" $((SECONDS - t))
	done < <(guest_tests)
}

unit
[ ! -x "$TOP/tests/lint.sh" ] || whole lint "$TOP/tests/lint.sh"
whole fuzz make --no-print-directory -C "$TOP" fuzz-replay
whole sim make --no-print-directory -C "$TOP" sim-quick
pids=()
for s in $SPRAY_SUITES; do suite_tests "$s" "$@" & pids+=($!); done
trap 'kill "${pids[@]}" 2>/dev/null; exit 130' INT TERM
wait
read -r p f s <<<"$(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$log/totals")"
echo "results in $log, $((SECONDS - start)) s"
echo "$p passed, $f failed, $s skipped"
[ "$f" = 0 ]
