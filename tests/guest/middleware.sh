#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# image: more
# The distribution's middleware, unmodified: UCX, Open MPI, libfabric, rsockets, and perftest with its flags.
# SPRAY_PROFILE: what the spines do, default rate. SPRAY_ROUNDS: how often all of it, default 1.
#
# Data are verified by Open MPI's part (mpi_check.c), by fi_pingpong -c, and by comparing what rcopy and a
# preloaded socket program brought across. One vCPU and programs that spin: a slow guest, hence the limits of time.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init
here=$(dirname "$0")

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric" fabric_up "${SPRAY_PROFILE:-rate}" || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"
ga=$(fabric_gid "$DEV_A" $A4) gb=$(fabric_gid "$DEV_B" $B4)
# for UCX: by GIDs of IPv4 its UD (1.13) takes nothing of what it receives, on rxe as here
ga6=$(fabric_gid "$DEV_A" $A6) gb6=$(fabric_gid "$DEV_B" $B6)

# both NAME SECONDS "SERVER" "CLIENT": the side channel is TCP by the loopback device; only RDMA crosses the fabric.
# BOTH_IN: what they have as standard input. BOTH_SERVES: that server goes on, and is ended once its client has.
both() {
	local name=$1 limit=$2 server=$3 client=$4 spid rc=0 rs=0 t in=${BOTH_IN:-/dev/null}
	_wanted "$name" || return 0
	echo "TEST begins: $name" >/dev/kmsg
	# shellcheck disable=SC2086
	timeout -k 5 $((limit + 10)) env $server >"$LOGS/server" 2>&1 <"$in" & spid=$!
	listens $spid
	t=$(now_ms)
	# shellcheck disable=SC2086
	timeout -k 5 "$limit" env $client >"$LOGS/client" 2>&1 <"$in" || rc=$?
	t=$(($(now_ms) - t))
	if [ $rc = 0 ] && [ -z "${BOTH_SERVES:-}" ]; then wait $spid || rs=$?; else kill $spid 2>/dev/null; wait $spid 2>/dev/null; fi
	[ $rc = 0 ] && [ $rs = 0 ] && { ok "$name" $t; return 0; }
	cp "$LOGS/client" "/out/$((_n + 1))-client"; cp "$LOGS/server" "/out/$((_n + 1))-server"
	{ echo "client exit $rc, server exit $rs, $t ms (limit $limit s)"; tail -n 7 "$LOGS/client"; echo "server:"
		tail -n 6 "$LOGS/server"; } >"$LOGS/out"
	not_ok "$name" "$LOGS/out"
	return 1
}

# --- UCX; ucx_perftest believes to be started by mpirun if its input is no terminal ---
ucx() {
	local tl t BOTH_IN=/dev/ptmx
	# rc_v: connections on rc_verbs, made over ud_verbs
	for tl in rc_v ud_verbs; do
		for t in "tag_lat -s 8 -n 200" "tag_bw -s 65536 -n 200" "tag_bw -s 1000000 -n 20" "ucp_put_bw -s 65536 -n 200" \
			"ucp_get -s 65536 -n 100" "stream_bw -s 10000 -n 200" "ucp_fadd -s 8 -n 100"; do
			both "ucx $tl: ${t%% -n*}" 120 "UCX_TLS=$tl UCX_NET_DEVICES=$DEV_B:1 UCX_IB_GID_INDEX=$gb6 ucx_perftest -p 13337" \
				"UCX_TLS=$tl UCX_NET_DEVICES=$DEV_A:1 UCX_IB_GID_INDEX=$ga6 ucx_perftest 127.0.0.1 -p 13337 -w 5 -t $t"
		done
	done
}

# --- Open MPI: two ranks on either device, nothing but UCX on RC between any two ---
mpi_program() { mpicc -O2 -o /tmp/mpi_check "$here/mpi_check.c"; }
mpi() { # TRANSPORTS ROUNDS [x: no one-sided operations]
	cat >/tmp/rank <<-R
		#!/bin/sh
		if [ \$((OMPI_COMM_WORLD_RANK / 2)) = 0 ]; then
			export UCX_NET_DEVICES=$DEV_A:1 UCX_IB_GID_INDEX=$ga6
		else
			export UCX_NET_DEVICES=$DEV_B:1 UCX_IB_GID_INDEX=$gb6
		fi
		exec /tmp/mpi_check "\$@"
	R
	chmod +x /tmp/rank
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 4 --mca pml ucx --mca osc ucx \
		--mca pml_ucx_tls any --mca pml_ucx_devices any --mca mpi_yield_when_idle 1 --mca btl self \
		-x UCX_TLS="$1" /tmp/rank "$2" $3
}

# --- libfabric: -c compares data ---
ofi() {
	local ep
	for ep in "msg verbs" "rdm verbs;ofi_rxm"; do
		both "fi_pingpong -e ${ep%% *} -p ${ep#* } -c" 180 "fi_pingpong -p ${ep#* } -e ${ep%% *} -I 50 -c -B 47600" \
			"fi_pingpong -p ${ep#* } -e ${ep%% *} -I 50 -c -P 47600 $B4"
	done
}

# --- rsockets ---
preload=$(ls /usr/lib/*/rsocket/librspreload.so 2>/dev/null | head -1)
rcopies() {
	head -c 3000000 /dev/urandom >/tmp/from
	BOTH_SERVES=y both "rcopy" 120 "rcopy" "rcopy /tmp/from $B4:/tmp/to" && check "rcopy: the file" cmp /tmp/from /tmp/to
}
preloaded() { # an ordinary socket program in both directions, hashes compared
	cat >/tmp/echo.py <<-'P'
		import hashlib, os, socket, sys
		N = 2000000
		def get(c, n):
		    h = hashlib.sha256()
		    while n:
		        d = c.recv(min(n, 65536))
		        assert d, n
		        h.update(d)
		        n -= len(d)
		    return h.digest()
		s = socket.socket()
		if sys.argv[1] == 'server':
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		    s.bind((sys.argv[2], 7777))
		    s.listen(1)
		    c, _ = s.accept()
		    c.sendall(get(c, N))
		    assert c.recv(1) == b''
		else:
		    s.connect((sys.argv[2], 7777))
		    d = os.urandom(N)
		    s.sendall(d)
		    r = b''
		    while len(r) < 32:
		        r += s.recv(32 - len(r))
		    assert r == hashlib.sha256(d).digest()
		    s.close()
	P
	both "python, sockets by librspreload" 120 "LD_PRELOAD=$preload python3 /tmp/echo.py server $B4" \
		"LD_PRELOAD=$preload python3 /tmp/echo.py client $B4"
}

# --- perftest's flags ---
perf() {
	local a="-d $DEV_A -x $ga -F" b="-d $DEV_B -x $gb -F" t
	for t in "ib_write_bw -a -n 10" "ib_write_bw -b -s 65536 -n 100" "ib_send_bw -b -s 65536 -n 100" "ib_read_bw -a -n 10" \
		"ib_write_bw -q 64 -s 16384 -n 10" "ib_send_bw -q 64 -s 4096 -n 10" "ib_write_bw -q 16 -b --mr_per_qp -s 16384 -n 20" \
		"ib_write_lat -a -n 5 --inline_size=256" "ib_send_lat -s 200 --inline_size=400 -n 100" "ib_send_bw -a -n 10 -r 32" \
		"ib_send_bw -c UD -s 512 -n 200 --inline_size=512" "ib_atomic_bw -q 8 -n 100" "ib_read_lat -a -n 5" \
		"ib_write_bw -s 65536 -n 100 -t 256 -Q 16" "ib_write_bw --write_with_imm -s 16384 -n 50"; do
		case $t in *write_with_imm*) ib_write_bw --help 2>&1 | grep -q write_with_imm || { skip "$t" "not in this perftest"; continue; } ;; esac
		case "$t ${SPRAY_PROFILE:-}" in *"-c UD"*loss*) skip "$t" "it waits for every datagram"; continue ;; esac
		both "$t" 240 "${t%% *} $b ${t#* }" "${t%% *} $a ${t#* } 127.0.0.1"
	done
	for t in "ib_write_bw -R -q 4 -s 65536 -n 50" "ib_send_bw -R -b -s 4096 -n 100" "ib_read_bw -R -a -n 5"; do
		both "$t" 240 "${t%% *} -F ${t#* }" "${t%% *} -F ${t#* } $B4"
	done
}

_wanted mpi && run "mpicc" 300 mpi_program
for round in $(seq "${SPRAY_ROUNDS:-1}"); do
	[ "${SPRAY_ROUNDS:-1}" = 1 ] || note "round $round"
	ucx
	run "mpirun -np 4, rc_verbs: collectives, messages, one-sided" 600 mpi rc_v,self 14
	run "mpirun -np 4, ud_verbs: collectives, messages" 600 mpi ud_verbs,self 7 x
	ofi
	rcopies
	[ -z "$preload" ] || preloaded
	perf
done
fabric_bytes | sed 's/^/# spine bytes: /'
here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
