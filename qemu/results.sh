# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash disable=SC2154
# What run.sh and check.sh of qemu/ and of tests/uml/ do alike: the directory of a run, what the guest is told,
# the verdict, and the count of it all. Source it.
set -o pipefail

# results_dir LABEL STAGE: makes $out (default: one in the cache) for $name, with a copy of STAGE in it:
# the next build must not pull files from under this guest
results_dir() {
	out=${out:-$SPRAY_CACHE/results/$(date +%m%d-%H%M%S)-$1-$name-$$}
	mkdir -p "$out" "$SPRAY_CACHE/results"
	out=$(cd "$out" && pwd)
	ln -sfn "$out" "$SPRAY_CACHE/results/last"
	rm -rf "$out/.stage"
	flock "$(dirname "$2")/lock" cp -a "$2" "$out/.stage"
}
forget_results() { rm -rf "$out"/{started,tap,rc,stderr,dmesg,boot,console,qemu,kmemleak}; }

# guest_job VARIABLES TEST [args...]: environment (VARIABLES, then the caller's SPRAY_*, then ${envs[@]}) and command
guest_job() {
	local own=$1 v; shift
	{
		echo "export $own"
		for v in ${!SPRAY_*}; do
			case " SPRAY_CACHE= $own" in *" $v="*) ;; *) printf 'export %s=%q\n' "$v" "${!v}" ;; esac
		done
		for v in "${envs[@]}"; do printf 'export %q\n' "$v"; done
	} >"$out/environment"
	{
		case ${1:-} in
		*/*) ;;
		*) set -- "/spray/tests/guest/${1:-none}.sh" "${@:2}"; printf 'exec bash ' ;;
		esac
		printf '%q ' "$@"
	} >"$out/command"
}

# verdict LABEL RC SECONDS: prints the TAP and what is wrong besides, and exits
verdict() {
	local fail='' trc log=$out/dmesg bad
	cat "$out/tap" 2>/dev/null || :
	[ "$2" != 124 ] || fail="time is up ($limit s)"
	trc=$(cat "$out/rc" 2>/dev/null || echo none)
	[ -n "$fail" ] || [ "$trc" = 0 ] || fail="test exit $trc"
	# no log from the test's end: the console has at least the trouble
	[ -s "$log" ] || { log=$out/console; [ -n "$fail" ] || fail="guest died"; }
	bad=$("$QEMU_DIR/klog.sh" "$log" "$out/console") || fail="${fail:+$fail; }kernel log not clean"
	[ -n "$fail" ] || { echo "# passed: $name on $1 ($3 s, $out)"; exit 0; }
	echo "# FAILED: $name on $1: $fail ($3 s, $out)"
	[ -z "$bad" ] || echo "$bad" | sed 's/^/# /'
	tail -n 5 "$out/stderr" 2>/dev/null | sed 's/^/# stderr: /' || :
	case $fail in time*) exit 124 ;; esac
	exit 1
}

# tally FILE: "passed failed skipped" of a TAP file
tally() {
	awk '/^not ok /{ f++; next } /^ok .*# SKIP/{ s++; next } /^ok /{ p++ } END { print p + 0, f + 0, s + 0 }' "$1"
}
# report NAME FILE SECONDS: one line for a TAP file, what failed or was skipped with its reason; for total()
report() {
	local p f s
	read -r p f s <<<"$(tally "$2")"
	printf '%-24s %4d passed, %d failed, %d skipped  (%d s)\n' "$1" "$p" "$f" "$s" "$3"
	awk '/^not ok /{ on = 1 } /^ok /{ on = 0 } on || /^# (FAILED|BUG|WARN|\[)/' "$2" | head -40 | sed 's/^/    /'
	sed -n 's/^ok [0-9]* - \(.*\) # SKIP \(.*\)/    skipped: \1: \2/p' "$2"
	echo "$p $f $s" >>"$log/totals"
}
# whole NAME COMMAND...: a step that is one test
whole() {
	local name=$1 t=$SECONDS; shift
	if "$@" >"$log/$name.out" 2>&1; then echo "ok 1 - $name" >"$log/$name.tap"
	else { echo "not ok 1 - $name"; tail -n 30 "$log/$name.out" | sed 's/^/#   /'; } >"$log/$name.tap"; fi
	report "$name" "$log/$name.tap" $((SECONDS - t))
}
# total SECONDS: the last lines of a check; false when something failed
total() {
	local p f s
	read -r p f s <<<"$(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$log/totals")"
	echo "results in $log, $1 s"
	echo "$p passed, $f failed, $s skipped"
	[ "$f" = 0 ]
}
