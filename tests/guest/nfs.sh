#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# NFS over RDMA from one network namespace to another: nfsd and its daemons in hostB, mounts in hostA. Data are
# verified. SPRAY_PROFILE: what the spines do, or "direct". SPRAY_CUT=N: spine N dies silently while data are written.
#
# All programs share one mount namespace: what is mounted below `ip netns exec` (onA, onB) goes when that ends.
. "$(dirname "$0")/lib.sh"
[ "$FABRIC_HOSTS" = netns ] || bail "$SPRAY_TYPE carries nothing in network namespaces"
dir=$(dirname "$0")
inA() { nsenter --net=/run/netns/hostA "$@"; }
inB() { nsenter --net=/run/netns/hostB "$@"; }

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric ${SPRAY_PROFILE:-direct}" fabric_wanted || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"

# --- server ---
served=/run/nfs/served mnt=/run/nfs/mnt state=/var/lib/nfs
daemons() {
	modprobe -a nfsd rpcrdma || return 1
	mkdir -p $served $mnt /run/rpcbind && mount -t tmpfs none $state && mount -t tmpfs none $served || return 1
	mkdir $state/rpc_pipefs $state/nfsdcld && touch $state/etab $state/rmtab || return 1
	# these two belong to the namespace of whoever mounts them
	inB mount -t rpc_pipefs none $state/rpc_pipefs && inB mount -t nfsd none /proc/fs/nfsd || return 1
	# nfsd registers its version 3 with rpcbind, and does not start if it can't. Outside the initial namespace nfsdcld
	# alone can tell it what clients it had when it last ran; if it is not there by then, version 4 holds everybody
	# off for 90 seconds, since an old client might still come for its locks.
	inB rpcbind && inB nfsdcld -p $state/rpc_pipefs -s $state/nfsdcld && inB rpc.mountd -p 20048
}
server() {
	# insecure: of privileged ports RDMA knows nothing
	inB exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 "*:$served" && inB rpc.nfsd --rdma=20049 4 || return 1
	head /proc/fs/nfsd/portlist /proc/fs/nfsd/v4_end_grace
	grep -q '^rdma 20049' /proc/fs/nfsd/portlist && grep -q Y /proc/fs/nfsd/v4_end_grace
}
here "nfs: daemons" daemons || bail "no server"
here "nfs: server" server || bail "no server"

# --- client ---
mounted() { # VERSION TRANSPORT[,OPTION...] SERVER:PATH; "rdma" alone would mean IPv4
	inA mount -t nfs -o "vers=$1,port=20049,proto=$2" "$3" $mnt || return 1
	grep " $mnt nfs" /proc/mounts
	grep " $mnt nfs.*[ ,]vers=$1," /proc/mounts | grep -q ",proto=${2%%,*},"
}
data() {
	local f=$mnt/data
	head -c 16M /dev/urandom >/tmp/data
	dd if=/tmp/data of=$f bs=1M oflag=direct status=none || return 1
	echo 3 >/proc/sys/vm/drop_caches
	dd if=$f bs=64k iflag=direct status=none | cmp - /tmp/data || return 1
	# by the page cache, in odd pieces; what the server has is compared, too
	dd if=/tmp/data of=$f.odd bs=12345 conv=fsync status=none || return 1
	cmp /tmp/data $served/data.odd || return 1
	echo 3 >/proc/sys/vm/drop_caches
	[ "$(sha256sum <$f.odd)" = "$(sha256sum </tmp/data)" ] && rm $f $f.odd
}
tree() { # many small requests, and answers longer than an inline message
	local n
	mkdir $mnt/tree && cp -r /usr/lib/python3*/json /usr/bin/bash $mnt/tree/ || return 1
	for n in $(seq 150); do echo "$n" >"$mnt/tree/a-file-of-some-longer-name-$n" || return 1; done
	echo 3 >/proc/sys/vm/drop_caches
	diff -r /usr/lib/python3*/json $mnt/tree/json && cmp /usr/bin/bash $mnt/tree/bash || return 1
	[ "$(cat $mnt/tree/a-file* | sort -n | sha256sum)" = "$(seq 150 | sha256sum)" ] || return 1
	rm -r $mnt/tree && [ -z "$(ls $served)" ]
}
io() { python3 "$dir/io_check.py" $mnt 4 4 && rm $mnt/io.*; }
gone() { inA umount $mnt; }

session() { # NAME, what mounted() wants
	local name=$1; shift
	run "$name: mount" 120 mounted "$@" || return 1
	run "$name: data" 600 under_cut data
	run "$name: many files" 600 tree
	run "$name: reads and writes at random" 600 under_cut io
	[ -z "$(command -v fio)" ] || run "$name: fio" 600 under_cut fio_verify $mnt
	run "$name: umount" 120 gone
}
session "nfs 4.2" 4.2 rdma "$B4:/"
session "nfs 4.2, IPv6" 4.2 rdma6 "[$B6]:/"
session "nfs 3" 3 rdma,nolock,mountport=20048,mountproto=tcp "$B4:$served"

server_gone() {
	inB rpc.nfsd 0 && inB exportfs -au && [ -z "$(cat /proc/fs/nfsd/portlist)" ] || return 1
	pkill -x rpc.mountd; pkill -x nfsdcld; pkill -x rpcbind
	waited umount /proc/fs/nfsd && waited umount $state/rpc_pipefs && waited umount $state && waited umount $served
}
run "nfs: server ends" 120 server_gone
# lockd, sunrpc and what else nobody uses any more go with them
run "nfs unloads" 120 waited modprobe -r nfsd nfsv3 nfsv4 nfs rpcrdma
here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
