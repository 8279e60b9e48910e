#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guest.sh [PROFILE [spray_contract options]]: the contract under one profile of the fabric, in a guest:
#
#   qemu/run.sh /spray/tests/contract/guest.sh loss -s 1 -t 'stream*'
#
# PROFILE "direct" is a veth between the hosts, without switches.
. "$(dirname "$0")/../guest/lib.sh"

profile=${1:-clean}
shift
modprobe "$MODULE" || exit 2
if [ "$profile" = direct ]; then fabric_direct; else fabric_up "$profile"; fi || exit 2
fabric_link "$SPRAY_TYPE" || exit 2
echo "# profile $profile, $SPRAY_TYPE"
"$(dirname "$0")/spray_contract" -a "$DEV_A" -b "$DEV_B" "$@"
rc=$?
rdma statistic show link "$DEV_A/1" 2>/dev/null | tr -s ' ' | fold -s -w 160 | sed 's/^/# /'
[ "$profile" = direct ] || fabric_bytes | sed 's/^/# spine bytes: /'
exit $rc
