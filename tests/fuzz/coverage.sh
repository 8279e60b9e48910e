#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Which branches of driver/core do the unit tests and the corpora of the
# fuzzers take? gcov counts each outcome of each condition. Prints a table and
# every outcome that nothing takes; fails below GOAL percent (95) in all.

set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
out=$root/build/coverage
GOAL=${GOAL:-95}
GCOV=${GCOV:-gcov}
CC=${CC:-gcc}

command -v "$GCOV" >/dev/null || { echo "coverage needs gcov: apt-get install gcc"; exit 1; }
rm -rf "$out"
mkdir -p "$out"

# Without sanitizers: their checks are branches, too.
make -s -C ../unit check OUT="$out" SANITIZE= CC="$CC" CFLAGS='-O0 -g --coverage' >"$out/unit.log" ||
	{ cat "$out/unit.log"; exit 1; }
for f in fuzz_*.c; do
	name=${f%.c}
	$CC -std=gnu11 -O0 -g --coverage -I../../driver/core -o "$out/$name" "$f" replay.c "$out/libcore.a"
	"$out/$name" "corpus/$name" >>"$out/fuzz.log"
done

cd "$out"
$GCOV -b -c core/*.gcda >gcov.log 2>&1
set --
for f in "$root"/driver/core/*.[ch]; do
	name=${f##*/}.gcov
	[ ! -e "$name" ] || set -- "$@" "$name"
done
awk -v goal="$GOAL" '
	function flush_file() {
		if (name != "" && all[name])
			order[++files] = name
	}
	FNR == 1 { flush_file(); name = FILENAME; sub(/\.gcov$/, "", name) }
	/^ *[0-9#=*-]+\*?: *[0-9]+:/ {
		line = $0
		sub(/^ *[^:]*: */, "", line)
		nr = line
		sub(/:.*/, "", nr)
		text = line
		sub(/^[0-9]+:[ \t]*/, "", text)
	}
	/^branch / {
		all[name]++
		if ($3 == "taken" && $4 > 0)
			taken[name]++
		else
			missed[name] = missed[name] sprintf("    %s:%s branch %d: %s\n", name, nr, $2, text)
	}
	END {
		flush_file()
		for (i = 1; i <= files; i++)
			printf "%s", missed[order[i]]
		print ""
		for (i = 1; i <= files; i++) {
			n = order[i]
			printf "%-14s %5d of %5d branches, %5.1f %%\n", n, taken[n], all[n], 100 * taken[n] / all[n]
			t += taken[n]
			a += all[n]
		}
		printf "%-14s %5d of %5d branches, %5.1f %%\n", "driver/core", t, a, 100 * t / a
		exit 100 * t < goal * a
	}' "$@"
