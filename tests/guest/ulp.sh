#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Kernel consumers, set up by sysfs and configfs alone, with data verified: NVMe over RDMA, SRP, RDS.
# They live in the initial namespace: both ends are there. SPRAY_PROFILE: what the spines do, or "direct".
# SPRAY_CUT=N: spine N dies silently while data are written, and comes back after.
FABRIC_HOSTS=init
. "$(dirname "$0")/lib.sh"
FABRIC_HOSTS=init
dir=$(dirname "$0")

check "modprobe $MODULE" modprobe "$MODULE" || bail "no module"
here "fabric ${SPRAY_PROFILE:-direct}" fabric_wanted || bail "no fabric"
here "rdma link add" fabric_link "$SPRAY_TYPE" || bail "no device"

# disk DEV: writes a known pattern through the page cache and around it, drops caches, compares
disk() {
	local mb=${SPRAY_MB:-16}
	head -c ${mb}M /dev/urandom >/tmp/data
	dd if=/tmp/data of="$1" bs=1M oflag=direct status=none || return 1
	echo 3 >/proc/sys/vm/drop_caches
	dd if="$1" bs=64k count=$((mb * 16)) iflag=direct status=none | cmp - /tmp/data || return 1
	# small and odd pieces, several at once
	dd if=/tmp/data of="$1" bs=4k count=256 oflag=direct status=none &
	dd if=/tmp/data of="$1" bs=512 count=512 seek=$((mb * 2048 - 512)) skip=$((mb * 2048 - 512)) oflag=direct status=none &
	wait
	echo 3 >/proc/sys/vm/drop_caches
	dd if="$1" bs=4k count=$((mb * 256)) status=none | cmp - /tmp/data
}
filesystem() { # DEV
	mkdir -p /mnt/u && busybox mke2fs -F "$1" >/dev/null && mount "$1" /mnt/u || return 1
	cp -r /usr/lib/python3*/json /usr/bin/bash /mnt/u/ && sync && umount /mnt/u || return 1
	echo 3 >/proc/sys/vm/drop_caches
	mount "$1" /mnt/u && diff -r /usr/lib/python3*/json /mnt/u/json && cmp /usr/bin/bash /mnt/u/bash && umount /mnt/u
}

verified() { # NAME DEV
	run "$1: reads and writes at random" 300 under_cut python3 "$dir/io_check.py" "$2" 4 6
	[ -z "$(command -v fio)" ] || run "$1: fio" 300 under_cut fio_verify "$2"
}

# --- NVMe over RDMA ---
nvmet=/sys/kernel/config/nvmet
nvme_target() { # use a shared receive queue?
	modprobe -a brd nvmet nvme-rdma && modprobe nvmet-rdma use_srq="$1" || return 1
	mount -t configfs none /sys/kernel/config 2>/dev/null
	mkdir $nvmet/subsystems/s && echo 1 >$nvmet/subsystems/s/attr_allow_any_host &&
		mkdir $nvmet/subsystems/s/namespaces/1 && echo /dev/ram0 >$nvmet/subsystems/s/namespaces/1/device_path &&
		echo 1 >$nvmet/subsystems/s/namespaces/1/enable && mkdir $nvmet/ports/1 &&
		echo rdma >$nvmet/ports/1/addr_trtype && echo ipv4 >$nvmet/ports/1/addr_adrfam &&
		echo $B4 >$nvmet/ports/1/addr_traddr && echo 4420 >$nvmet/ports/1/addr_trsvcid &&
		ln -s $nvmet/subsystems/s $nvmet/ports/1/subsystems/s
}
nvme_connect() {
	echo "transport=rdma,traddr=$B4,trsvcid=4420,nqn=s,host_traddr=$A4,nr_io_queues=1,queue_size=32" >/dev/nvme-fabrics &&
		waited nvme_disk
}
nvme_disk() { NVME=$(ls /dev/nvme*n1 2>/dev/null | head -1); [ -n "$NVME" ]; }
# Some consumers take a lock of theirs inside rdma_cm's handler_mutex when a connection begins, and the other way round
# elsewhere: nvmet (nvmet_config_sem, when a port ends), RDS (rds_trans_sem, in bind). That is between those two, and
# ends lockdep's work for everybody: it need not look at the latter.
unproved() {
	local f=/proc/sys/kernel/prove_locking rc
	[ ! -w $f ] || echo 0 >$f
	"$@"; rc=$?
	[ ! -w $f ] || echo 1 >$f
	return $rc
}
nvme_gone() {
	for d in /sys/class/nvme/nvme*/delete_controller; do echo 1 >"$d"; done
	unproved rm $nvmet/ports/1/subsystems/s && rmdir $nvmet/ports/1 && echo 0 >$nvmet/subsystems/s/namespaces/1/enable &&
		rmdir $nvmet/subsystems/s/namespaces/1 $nvmet/subsystems/s && modprobe -r nvme-rdma nvmet-rdma nvmet
}
if modprobe -n nvmet-rdma nvme-rdma 2>/dev/null; then
	unreachable() { ! echo "transport=rdma,traddr=${B4%.*}.99,trsvcid=4420,nqn=s,host_traddr=$A4" >/dev/nvme-fabrics; }
	modprobe brd rd_nr=1 rd_size=65536
	for srq in N Y; do
		here "nvme target, use_srq=$srq" nvme_target $srq && here "nvme connect" nvme_connect && {
			check "nvme: a target that isn't there" unreachable
			[ $srq = N ] || check "nvme: its queue is listed" sh -c 'rdma res show srq | grep -q "comm .*nvme\|pdn"'
			run "nvme: data" 180 under_cut disk "$NVME"
			run "nvme: a filesystem" 180 filesystem "$NVME"
			verified nvme "$NVME"
		}
		check "nvme disconnect" nvme_gone
	done
else
	skip "nvme" "this kernel has no NVMe over RDMA"
fi

# --- SRP: SCSI over SEND and RDMA, connected by rdma_cm ---
target=/sys/kernel/config/target srpt='' SRP=''
srp_target() { # a RAM disk, to be had by an initiator that came to $B4 (which is what ib_srpt goes by)
	modprobe -a sd_mod target_core_mod ib_srpt || return 1
	mount -t configfs none /sys/kernel/config 2>/dev/null
	mkdir -p $target/srpt /etc/target
	srpt=$target/srpt/$(cat "/sys/class/infiniband/$DEV_B/node_guid")
	mkdir -p $target/core/rd_mcp_0/disk && echo rd_pages=16384 >$target/core/rd_mcp_0/disk/control &&
		echo 1 >$target/core/rd_mcp_0/disk/enable && mkdir -p "$srpt/tpgt_1/lun/lun_0" &&
		ln -s $target/core/rd_mcp_0/disk "$srpt/tpgt_1/lun/lun_0/disk" &&
		mkdir "$srpt/tpgt_1/acls/$B4" && mkdir "$srpt/tpgt_1/acls/$B4/lun_0" &&
		ln -s "$srpt/tpgt_1/lun/lun_0" "$srpt/tpgt_1/acls/$B4/lun_0/lun" && echo 1 >"$srpt/tpgt_1/enable" &&
		echo 5555 >$target/srpt/discovery_auth/rdma_cm_port
}
srp_disk() { SRP=$(ls /dev/sd? 2>/dev/null | head -1); [ -n "$SRP" ]; }
srp_connect() {
	local guid
	guid=$(printf %016x "$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)")
	modprobe ib_srp && waited test -e "/sys/class/infiniband_srp/srp-$DEV_A-1/add_target" &&
		echo "id_ext=$guid,ioc_guid=$guid,dest=$B4:5555,src=$A4" >"/sys/class/infiniband_srp/srp-$DEV_A-1/add_target" &&
		waited srp_disk
}
srp_gone() {
	local d
	for d in /sys/class/srp_remote_ports/*/delete; do echo 1 >"$d"; done
	waited modprobe -r ib_srp || return 1
	echo 0 >"$srpt/tpgt_1/enable"
	rm "$srpt/tpgt_1/acls/$B4/lun_0/lun" && rmdir "$srpt/tpgt_1/acls/$B4/lun_0" "$srpt/tpgt_1/acls/$B4" &&
		rm "$srpt/tpgt_1/lun/lun_0/disk" && rmdir "$srpt/tpgt_1/lun/lun_0" "$srpt/tpgt_1" "$srpt" &&
		rmdir $target/core/rd_mcp_0/disk $target/core/rd_mcp_0 && rmdir $target/srpt && waited modprobe -r ib_srpt
}
if modprobe -n -a ib_srp ib_srpt 2>/dev/null; then
	here "srp target" srp_target && here "srp login" srp_connect && {
		run "srp: data" 180 under_cut disk "$SRP"
		run "srp: a filesystem" 180 filesystem "$SRP"
		verified srp "$SRP"
	}
	check "srp logout, unload" srp_gone
else
	skip "srp" "this kernel has no SRP"
fi

# --- RDS: reliable datagrams by a kernel consumer, and its RDMA operations ---
rds() {
	modprobe -a rds rds_rdma || return 1
	python3 - $A4 $B4 <<-'P'
		import os, socket, sys
		AF_RDS = 21
		a = socket.socket(AF_RDS, socket.SOCK_SEQPACKET); a.bind((sys.argv[1], 4000))
		b = socket.socket(AF_RDS, socket.SOCK_SEQPACKET); b.bind((sys.argv[2], 4000))
		a.settimeout(30); b.settimeout(30)
		for i in range(200):
		    data = os.urandom(1 + i * 157 % 30000)
		    a.sendto(data, (sys.argv[2], 4000))
		    got, who = b.recvfrom(65536)
		    assert got == data, (i, len(got), len(data))
		    b.sendto(got[::-1], who)
		    assert a.recvfrom(65536)[0] == data[::-1], i
	P
}
# Its connections end with their devices first: unloaded with connections, rds_rdma empties its list of those without
# a device by splicing it elsewhere, while their workers still add to it (seen: "list_add corruption").
rds_links_gone() { onA rdma link delete "$DEV_A" && onB rdma link delete "$DEV_B" && sleep 2; }
rds_gone() { modprobe -r rds_rdma && modprobe -r rds; }
if modprobe -n rds_rdma 2>/dev/null; then
	run "rds: datagrams" 120 unproved rds
	here "rds: its links go" rds_links_gone
	check "rds unloads" waited rds_gone
else
	skip "rds" "this kernel has no RDS"
fi

here "fabric down" fabric_down
check "rmmod" rmmod "$MODULE"
check "kernel log" kmsg_clean
finish
