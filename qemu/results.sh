# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash disable=SC2154
# What qemu/run.sh and tests/uml/run.sh do alike: the directory of a run, what the guest is told, and the
# verdict. Source it.
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
