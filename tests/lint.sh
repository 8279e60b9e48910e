#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What the layers promise and no compiler checks. Prints each breach, fails if any.
#
#   core is pure       linked by itself it wants nothing but mem*() from outside,
#                      includes its own headers only, calls no kernel
#   one place each     kernel versions in driver/compat.h, __KERNEL__ in env.h
#   short functions    core 40 lines at most, shell 110
#   licence            a tag in every source file
#   self-test          has every unit test that can be in a kernel

# The checks are called by none():
# shellcheck disable=SC2317

set -u
cd "$(dirname "$0")/.." || exit 1
CC=${CC:-cc}
failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

breach() {
	echo "lint: $1"
	echo "$2" | sed 's/^/    /'
	failed=1
}

# Prints what the command prints, as a breach called $1.
none() {
	title=$1
	shift
	out=$("$@") || true
	[ -z "$out" ] || breach "$title" "$out"
}

core_symbols() {
	for f in driver/core/*.c; do
		$CC -std=gnu11 -O2 -ffreestanding -fno-stack-protector -c -o "$tmp/$(basename "$f" .c).o" "$f" ||
			echo "$f does not compile"
	done
	ld -r -o "$tmp/core.o" "$tmp"/*.o && nm -u "$tmp/core.o" |
		grep -Ev '^ *U (memcpy|memmove|memset|memcmp|_GLOBAL_OFFSET_TABLE_)$'
}

core_includes() {
	grep -nE '^#include' driver/core/*.[ch] |
		grep -vE '^driver/core/env\.h:|#include "(env|seq|wire|window|path|cc|credit|tx|tx_int|requester|responder)\.h"'
}

version_tests() {
	grep -rnE 'LINUX_VERSION_CODE|KERNEL_VERSION\(' driver --include='*.[ch]' | grep -v '^driver/compat\.h:'
}

kernel_tests() {
	grep -rn '__KERNEL__' driver/core | grep -v '^driver/core/env\.h:'
}

dying() {
	grep -rnE '\b(BUG|BUG_ON|panic)\(' driver --include='*.[ch]'
}

# Functions of more than $1 lines in the files that follow: from the brace in column 1 to its end.
long_functions() {
	limit=$1
	shift
	awk -v limit="$limit" '
		/^[a-z].*\(/		{ name = $0 }
		/^{/			{ start = FNR; open = 1 }
		/^}/ && open		{ open = 0
					  if (FNR - start - 1 > limit)
						printf "%s:%d: %d lines: %s\n", FILENAME, start, FNR - start - 1, name }
	' "$@"
}

unlicensed() {
	git ls-files -- '*.c' '*.h' '*.sh' '*Makefile' '*Kbuild' | while read -r f; do
		head -n 3 "$f" | grep -q 'SPDX-License-Identifier: ' || echo "$f"
	done
}

# test_responder stands in for functions of the core, test_provider_* is about user space.
not_in_selftest() {
	for f in tests/unit/test_*.c; do
		t=${f#tests/unit/test_} t=${t%.c}
		case $t in responder | provider_*) continue ;; esac
		grep -Eq "^spray-tests := (.* )?$t( |\$)" Kbuild && grep -qw "unit_$t" tests/unit/kernel.c || echo "$f"
	done
}

none 'the core needs something from outside' core_symbols
none 'the core includes a header that is not its own' core_includes
none 'a kernel version outside driver/compat.h' version_tests
none '__KERNEL__ outside driver/core/env.h' kernel_tests
none 'remote or user input must not be able to stop a kernel' dying
none 'a long function in the core' long_functions 40 driver/core/*.c
none 'a long function in the shell' long_functions 110 driver/*.c
none 'no licence tag' unlicensed
none 'a unit test that the self-test has not' not_in_selftest

[ $failed = 0 ] && echo 'lint: clean'
exit $failed
