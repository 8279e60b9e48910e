#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# demo.sh [SUITE [SHOW]]: the main job in one command, on a fresh Debian machine (root): installs what it needs
# by apt, builds a guest once, boots it, runs tests/guest/SHOW.sh (demo, or rates) on the fabric and prints its
# report.
#
# The guest runs in virtual time, a nanosecond per instruction: so the spines are what limits, not the
# emulator, however slow or busy this machine is. SPRAY_REAL=1: real time, two vCPUs (slow under TCG).
. "$(dirname "$0")/common.sh"

need_root
"$QEMU_DIR/need.sh"
suite=${1:-bookworm} show=${2:-demo}
out=$SPRAY_CACHE/$show
rm -rf "$out"
rc=0
echo "Two hosts, two leaves, four spines, in one guest ($suite). A few minutes, more when the guest must be built." >&2
mode=(-i)
[ -z "${SPRAY_REAL:-}" ] || mode=(-c 2)
"$QEMU_DIR/run.sh" -s "$suite" "${mode[@]}" -t 1500 -o "$out" "$show" >"$out.log" 2>&1 || rc=$?
if [ -s "$out/report" ]; then
	echo
	sed 's/^/  /' "$out/report"
	echo
fi
grep -A12 -E '^not ok|^Bail out|FAILED' "$out.log" || :
[ $rc = 0 ] || [ -s "$out/report" ] || tail -n 20 "$out.log"
[ $rc = 0 ] && echo "All went well. Details: $out" || echo "Something failed. Details: $out"
exit $rc
