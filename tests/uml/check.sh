#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# check.sh FLAVOUR [TEST...]: guest tests in a User-Mode Linux; the last line counts them. Default: all of the
# flavour's list.
# SPRAY_UML_CASES: cases of the contract test, a list of patterns; default for debug: those where halves of a
# connection, memory and devices come and go under traffic; for plain: all
# SPRAY_UML_PROFILES: of the fabric, default clean (plain: what fits into three minutes) or clean and mixed
# SPRAY_OBJECTS: of each kind, default 2000 (plain only)
. "$(dirname "$0")/common.sh"
. "$QEMU_DIR/results.sh"

flavour=${1:?"flavour: $FLAVOURS"}; shift
need_root
log=$SPRAY_CACHE/check-uml-$flavour
rm -rf "$log"
mkdir -p "$log"
start=$SECONDS
: "${SPRAY_SEEDS:=1}"
if [ "$flavour" = plain ]; then
	: "${SPRAY_UML_PROFILES:=clean}" "${SPRAY_OBJECTS:=2000}"
else
	: "${SPRAY_UML_PROFILES:=clean mixed}" "${SPRAY_ROUNDS:=6}"
	: "${SPRAY_UML_CASES:=sizes_*,stream_mixed,stream_few_receives,flag_8,atomics_exact,rnr_exactly_one,error_*,flush_*,responder_*,requester_*,re*_restart,local_dereg_in_flight,atomic_write_exact,placement_errors,churn,modify_refused,loopback_err,thread_*}"
fi
export SPRAY_SEEDS SPRAY_OBJECTS SPRAY_ROUNDS

# NAME SECONDS WORDS... (of run.sh)
guest_tests() {
	cat <<-E
		smoke      300 smoke
		uverbs     300 uverbs
		contract  1500 contract $SPRAY_UML_PROFILES
	E
	# memory is counted where KASAN keeps none back; leaks are kmemleak's elsewhere
	[ "$flavour" = debug ] || echo "objects 900 objects"
	[ "$flavour" = plain ] || cat <<-E
		credit     900 credit
		noipv6     300 -a ipv6.disable=1 noipv6
		lifecycle  900 lifecycle
		race       900 race direct mixed
		storm     1800 storm
		ulp        900 ulp
	E
}

whole "uml-$flavour-build" "$UML_DIR/build.sh" "$flavour"
! grep -q '^not ok' "$log/uml-$flavour-build.tap" || { total $((SECONDS - start)); exit 1; }
while read -r name limit words; do
	[ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
	t=$SECONDS
	# shellcheck disable=SC2086
	"$UML_DIR/run.sh" -n -k "$flavour" -t "$limit" -o "$log/$name" -e "SPRAY_CONTRACT_ARGS=-q ${SPRAY_UML_CASES:+-t $SPRAY_UML_CASES}" \
		$words >"$log/$name.tap" 2>&1 </dev/null ||
		grep -q '^not ok' "$log/$name.tap" || echo "not ok - guest: $(grep -m1 FAILED "$log/$name.tap" || tail -n1 "$log/$name.tap")" >>"$log/$name.tap"
	report "uml/$flavour $name" "$log/$name.tap" $((SECONDS - t))
done < <(guest_tests)
total $((SECONDS - start))
