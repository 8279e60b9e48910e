#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The contract program under every profile of the fabric, per seed.
#
# contract.sh [PROFILE...]    default: all
# SPRAY_SEEDS: default "1 2 3"; CI takes one     SPRAY_CONTRACT_ARGS: appended (e.g. "-t stream*")
# SPRAY_JITTER: microseconds, of a debug build (see driver/jitter.h), default 0
#
# The hosts' devices split super-packets (FABRIC_GSO=off), so that loss, duplication and reordering
# hit single packets.
export FABRIC_GSO=off
. "$(dirname "$0")/lib.sh"

: "${SPRAY_SEEDS:=1 2 3}"
program=/spray/tests/contract/spray_contract
[ $# -gt 0 ] || set -- clean loss1 loss5 dup reorder unequal mixed
[ -x $program ] || bail "tests/contract is not built"

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_up clean || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
jitter "${SPRAY_JITTER:-0}"
for p; do
	here "profile $p" fabric_profile "$p" || continue
	for seed in $SPRAY_SEEDS; do
		# shellcheck disable=SC2086
		nested "$p/$seed" "${SPRAY_LIMIT:-900}" $program -a "$DEV_A" -b "$DEV_B" -s "$seed" $SPRAY_CONTRACT_ARGS
	done
done
# more than 2^16 messages take long: where the quick passes leave that case out, it runs once here
case " $SPRAY_CONTRACT_ARGS " in *" -x message_numbers_wrap "*)
	here "profile clean" fabric_profile clean &&
		nested "wrap" "${SPRAY_LIMIT:-900}" $program -a "$DEV_A" -b "$DEV_B" -t message_numbers_wrap ;;
esac
rdma statistic show | tr ' ' '\n' >/out/statistic
here "rdma link delete, fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
finish
