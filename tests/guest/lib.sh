# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# TAP for the guest tests; source it first. It brings the fabric in, too.
#
#   run NAME SECONDS CMD...            one test: passes when the command does
#   pair NAME SECONDS "SERVER" "CLIENT"   a server in hostB, its client in hostA; both must end well
#   check NAME CMD...                  the same as run, 30 s
#   here NAME CMD...               in this very shell, for functions that set variables; no limit of time
#   nested PREFIX SECONDS CMD...   a program that speaks TAP itself
#   skip NAME REASON
#   bail REASON                        nothing else makes sense
# The last line of a script is `finish`.
#
# SPRAY_TYPE: link type under test, spray or, for comparison, rxe.
# SPRAY_ONLY: a regular expression; tests with other names are left out.

: "${SPRAY_TYPE:=spray}"
case $SPRAY_TYPE in
spray) MODULE=rdma_spray ;;
rxe) MODULE=rdma_rxe
	# rxe carries no traffic in another than the initial namespace
	FABRIC_HOSTS=init ;;
*) MODULE=$SPRAY_TYPE ;;
esac
# shellcheck source=/dev/null
. "${FABRIC_SH:-/spray/fabric.sh}"

# perftest's events: without, two programs that spin share one vCPU by the scheduler's tick; with, and two
# vCPUs, ib_send_lat sleeps for ever now and then (on rxe, too: it serves two CQs by one channel)
EV=-e
[ "${SPRAY_CPUS:-1}" = 1 ] || EV=

LOGS=$(mktemp -d)
_n=0 _failed=0 _skipped=0

_wanted() { [ -z "${SPRAY_ONLY:-}" ] || [[ $1 =~ $SPRAY_ONLY ]]; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

ok() { # NAME [ms]
	_n=$((_n + 1)); echo "ok $_n - $1${2:+ # $2 ms}"
	echo "TEST ok: $1" >/dev/kmsg
}
not_ok() { # NAME FILE...
	_n=$((_n + 1)); _failed=$((_failed + 1)); echo "not ok $_n - $1"; shift
	[ $# = 0 ] || tail -n 15 "$@" 2>/dev/null | tr -d '\r' | sed 's/^/#   /'
	echo "TEST NOT ok: $1" >/dev/kmsg
}
skip() { _n=$((_n + 1)); _skipped=$((_skipped + 1)); echo "ok $_n - $1 # SKIP $2"; }
bail() { echo "Bail out! $*"; exit 1; }
note() { echo "# $*"; }

run() {
	local name=$1 limit=$2 t rc=0; shift 2
	_wanted "$name" || return 0
	t=$(now_ms)
	echo "TEST begins: $name" >/dev/kmsg
	if [ "$(type -t "$1")" = function ]; then
		# functions can't go through timeout(1): a watchdog on the subshell's group
		_limited "$limit" "$@" >"$LOGS/out" 2>&1 || rc=$?
	else
		timeout -k 5 "$limit" "$@" >"$LOGS/out" 2>&1 || rc=$?
	fi
	t=$(($(now_ms) - t))
	[ $rc = 0 ] && { ok "$name" $t; return 0; }
	echo "exit $rc after $t ms (limit $limit s)" >>"$LOGS/out"
	not_ok "$name" "$LOGS/out"
	return 1
}
_limited() {
	local limit=$1 pid dog rc=0; shift
	( set -e; "$@" ) & pid=$!
	( sleep "$limit"; echo "time is up"; pkill -P $pid; kill $pid ) 2>/dev/null & dog=$!
	wait $pid || rc=$?
	pkill -P $dog 2>/dev/null; kill $dog 2>/dev/null; wait $dog 2>/dev/null
	return $rc
}
here() {
	local name=$1 t rc=0; shift
	t=$(now_ms)
	echo "TEST begins: $name" >/dev/kmsg
	"$@" >"$LOGS/out" 2>&1 || rc=$?
	[ $rc = 0 ] && { ok "$name" $(($(now_ms) - t)); return 0; }
	not_ok "$name" "$LOGS/out"
	return 1
}
check() { local n=$1; shift; run "$n" 30 "$@"; }

# a server listens when its TCP port or its cm_id does
_cm_listening() { rdma res show cm_id 2>/dev/null | grep -q 'state LISTEN'; }
_listening() { onB ss -Hltn 2>/dev/null | grep -q . || _cm_listening; }
# listens PID: waits until somebody does, or that server has ended; a minute at most
listens() { local i; for i in $(seq 600); do _listening && return; kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done; }
# waits for a server of rdma_cm, five seconds at most
cm_listens() { local i; for i in $(seq 50); do _cm_listening && return 0; sleep 0.1; done; return 1; }

pair() {
	local name=$1 limit=$2 server=$3 client=$4 t spid rs=0 rc=0 again=
	_wanted "$name" || return 0
	echo "TEST begins: $name" >/dev/kmsg
	# shellcheck disable=SC2086
	onB timeout -k 5 $((limit + 5)) $server >"$LOGS/server" 2>&1 </dev/null & spid=$!
	listens $spid
	t=$(now_ms)
	# shellcheck disable=SC2086
	onA timeout -k 5 "$limit" $client >"$LOGS/client" 2>&1 </dev/null || rc=$?
	t=$(($(now_ms) - t))
	if [ $rc = 0 ] && [ -z "${PAIR_KILLS_SERVER:-}" ]; then
		wait $spid || rs=$?
	else
		pkill -P $spid 2>/dev/null; kill $spid 2>/dev/null; wait $spid 2>/dev/null
	fi
	[ $rc = 0 ] && [ $rs = 0 ] && { ok "$name" $t; return 0; }
	# Busy hosts: perftest gives up after good traffic if it can't calibrate its clock; with -R its client now and
	# then finds nobody who listens yet, and crashes over that. Neither is a result.
	case $rc in
	1) again="Can't produce a report" ;;
	139) again="Failed to handle RDMA CM event" ;;
	esac
	if [ -n "$again" ] && [ "${_tries:-1}" -lt 4 ] && grep -q "$again" "$LOGS/client"; then
		note "$name: \"$again\", once more"
		_tries=$((${_tries:-1} + 1)) pair "$@"
		return
	fi
	{ echo "client exit $rc, server exit $rs, $t ms (limit $limit s)"; echo "client: $client"; tail -n 6 "$LOGS/client"
		echo "server: $server"; tail -n 6 "$LOGS/server"; } >"$LOGS/out"
	not_ok "$name" "$LOGS/out"
	return 1
}

# nested PREFIX SECONDS CMD...: a program that speaks TAP itself; its tests are counted as ours
nested() {
	local prefix=$1 limit=$2 line rc=0 plan='' seen=0 bad=0 t; shift 2
	_wanted "$prefix" || return 0
	echo "TEST begins: $prefix" >/dev/kmsg
	t=$(now_ms)
	while IFS= read -r line; do
		case $line in
		'ok '*|'not ok '*)
			seen=$((seen + 1)) _n=$((_n + 1))
			case $line in
			*'# SKIP'*) _skipped=$((_skipped + 1)) ;;
			not*) _failed=$((_failed + 1)) bad=1 ;;
			esac
			[[ $line =~ ^((not )?ok)\ [0-9]*( - )?(.*)$ ]]
			line="${BASH_REMATCH[1]} $_n - $prefix: ${BASH_REMATCH[4]}"
			echo "TEST $line" >/dev/kmsg
			echo "$line" ;;
		'exit '*) rc=${line#exit } ;;
		1..*) plan=${line#1..}; plan=${plan%% *} ;;
		'#'*|' '*) echo "${line/#/# }" ;;
		*) echo "# $line" ;;
		esac
	done < <(timeout -k 5 "$limit" "$@" 2>&1; echo "exit $?")
	note "$prefix: $seen tests, exit $rc, $(($(now_ms) - t)) ms"
	[ "$plan" = "$seen" ] || { not_ok "$prefix: ended after $seen of ${plan:-?} tests, exit $rc"; return 1; }
	[ $bad = 0 ] && { [ "$rc" = 0 ] || { not_ok "$prefix: exit $rc"; return 1; }; }
	return $bad
}

# the fabric of $SPRAY_PROFILE; without, or when that is "direct", no switches
fabric_wanted() { if [ "${SPRAY_PROFILE:-direct}" = direct ]; then fabric_direct; else fabric_up "$SPRAY_PROFILE"; fi; }
# under_cut CMD...: meanwhile spine $SPRAY_CUT is dead, if there is one of that name
under_cut() {
	[ -n "${SPRAY_CUT:-}" ] || { "$@"; return; }
	( sleep 1; fabric_cut "$SPRAY_CUT" silent ) & local cut=$! rc=0
	"$@" || rc=$?
	wait $cut
	fabric_restore "$SPRAY_CUT"
	return $rc
}
# waited CMD...: until it succeeds, ten seconds at most
waited() { local i; for i in $(seq 100); do "$@" && return 0; sleep 0.1; done; return 1; }
# fio_verify FILE_OR_DIRECTORY: of a device its first 32 MiB
fio_verify() {
	local where="--filename=$1"
	[ ! -d "$1" ] || where="--directory=$1"
	fio "$where" --size=8m --numjobs=2 --offset_increment=8m --rw=randwrite --direct=1 --ioengine=libaio \
		--verify=crc32c --verify_fatal=1 --group_reporting \
		--name=small --bs=4k --iodepth=16 --name=large --new_group --bs=256k --iodepth=4 --offset=16m
	local rc=$?
	[ ! -d "$1" ] || rm -f "$1"/small.* "$1"/large.*
	return $rc
}

# debug builds of the module can be made to wait where threads meet: up to so many microseconds
jitter() { [ ! -w "/sys/module/$MODULE/parameters/jitter" ] || echo "$1" >"/sys/module/$MODULE/parameters/jitter"; }

kmsg_clean() { ! dmesg | grep -E 'WARNING:|BUG:|Oops|unregister_netdevice: waiting'; }

finish() {
	echo "1..$_n"
	note "$((_n - _failed - _skipped)) passed, $_failed failed, $_skipped skipped"
	[ $_failed = 0 ]
	exit $?
}
