#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# check.sh FLAVOUR [TEST...]: guest tests in a User-Mode Linux; the last line counts them. Default: all of the list.
# SPRAY_UML_CASES: cases of the contract test, a list of patterns; default for debug: those where halves of a
# connection, memory and devices come and go under traffic; for plain: all
. "$(dirname "$0")/common.sh"
set -o pipefail

flavour=${1:?"flavour: $FLAVOURS"}; shift
need_root
log=$SPRAY_CACHE/check-uml-$flavour
rm -rf "$log"
mkdir -p "$log"
start=$SECONDS
: "${SPRAY_SEEDS:=1}" "${SPRAY_UML_PROFILES:=clean mixed}"
export SPRAY_SEEDS
[ "$flavour" = plain ] || : "${SPRAY_UML_CASES:=sizes_*,stream_mixed,stream_few_receives,flag_8,atomics_exact,rnr_exactly_one,error_*,flush_*,responder_*,requester_*,re*_restart,local_dereg_in_flight,churn,modify_refused,loopback_err,thread_*}"

# NAME SECONDS WORDS... (of run.sh)
guest_tests() {
	cat <<-E
		smoke      300 smoke
		uverbs     300 uverbs
		lifecycle  900 lifecycle
		contract  1800 contract $SPRAY_UML_PROFILES
	E
}

"$UML_DIR/build.sh" "$flavour" >"$log/build.out" || die "build failed"
while read -r name limit words; do
	[ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
	t=$SECONDS
	# shellcheck disable=SC2086
	"$UML_DIR/run.sh" -n -k "$flavour" -t "$limit" -o "$log/$name" -e "SPRAY_CONTRACT_ARGS=-q ${SPRAY_UML_CASES:+-t $SPRAY_UML_CASES}" \
		$words >"$log/$name.tap" 2>&1 </dev/null ||
		grep -q '^not ok' "$log/$name.tap" || echo "not ok - guest: $(grep -m1 FAILED "$log/$name.tap" || tail -n1 "$log/$name.tap")" >>"$log/$name.tap"
	read -r p f s <<<"$(awk '/^not ok /{ f++; next } /^ok .*# SKIP/{ s++; next } /^ok /{ p++ } END { print p + 0, f + 0, s + 0 }' "$log/$name.tap")"
	printf '%-24s %4d passed, %d failed, %d skipped  (%d s)\n' "uml/$flavour $name" "$p" "$f" "$s" $((SECONDS - t))
	awk '/^not ok /{ on = 1 } /^ok /{ on = 0 } on || /^# (FAILED|BUG|WARN|\[)/' "$log/$name.tap" | head -40 | sed 's/^/    /'
	echo "$p $f $s" >>"$log/totals"
done < <(guest_tests)
read -r p f s <<<"$(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$log/totals")"
echo "results in $log, $((SECONDS - start)) s"
echo "$p passed, $f failed, $s skipped"
[ "$f" = 0 ]
