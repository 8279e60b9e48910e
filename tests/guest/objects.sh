#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Objects of every kind by the thousand; then memory, resources and the module's count are where they were.
#
# SPRAY_OBJECTS: of each kind in turn and as many in heaps, default 64000 (connected pairs half as many)
# SPRAY_CONNECTED: QPs that are connected at once, default 2000
. "$(dirname "$0")/lib.sh"

: "${SPRAY_OBJECTS:=64000}" "${SPRAY_CONNECTED:=2000}"
program=/spray/tests/race/spray_objects
[ -x $program ] || bail "tests/race is not built"

resources() { rdma resource show | grep -E " ${SPRAY_TYPE}[ab]:"; }
same_resources() {
	local i
	for i in $(seq 50); do resources >"$LOGS/after"; cmp -s "$LOGS/before" "$LOGS/after" && return 0; sleep 0.1; done
	diff "$LOGS/before" "$LOGS/after"
}
unused() { [ "$(cat "/sys/module/$MODULE/refcnt")" = 0 ] || { lsmod | grep "^$MODULE"; return 1; }; }
mapped() { grep -cE 'spray_(create|qp|cq|mmap)' /proc/vmallocinfo; return 0; }

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_direct || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
sleep 1
resources >"$LOGS/before"; mapped >"$LOGS/rings"
nested objects "${SPRAY_LIMIT:-1500}" $program -a "$DEV_A" -b "$DEV_B" -n "$SPRAY_OBJECTS" -C "$SPRAY_CONNECTED"
check "rdma resource show says what it said before" same_resources
check "no ring is left in vmalloc space" test "$(mapped)" = "$(cat "$LOGS/rings")"
check "nobody uses the module" unused
here "rdma link delete, fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
