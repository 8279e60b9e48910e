#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck disable=SC3045
# Pid 1 of the guest after the initrd: install the payload, run one test, leave the results, power off.
#
# In:  /spray/root (files of make install), /spray/tests, /spray/fabric.sh, /out/command
# Out: /out/started (the boot went well), /out/tap, /out/rc, /out/dmesg
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /run
mount -t tmpfs none /tmp
mkdir -p /dev/pts /dev/shm /run/netns
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
mount -t debugfs none /sys/kernel/debug 2>/dev/null
mount -t tracefs none /sys/kernel/tracing 2>/dev/null
ln -sf /proc/self/fd /dev/fd
hostname spray
ip link set lo up
ulimit -l unlimited
ulimit -c 0
sysctl -qw kernel.hung_task_timeout_secs=60 kernel.watchdog_thresh=30 kernel.panic_on_oops=1
cp -a /spray/root/. / 2>/dev/null
# what udev rules of rdma-core do on a real host
modprobe -a ib_uverbs rdma_ucm ib_umad 2>/dev/null

poweroff_now() {
	dmesg >/out/dmesg
	sync
	echo o >/proc/sysrq-trigger
	while :; do :; done	# nothing from the disk: it goes first
}

. /out/environment
# shellcheck source=/dev/null
[ ! -e /spray/init-hook.sh ] || . /spray/init-hook.sh
: >/out/started
if [ -n "$SPRAY_SHELL" ]; then
	# a pid 1 shell has no job control: setsid gives it the console
	echo "guest shell: tests in /spray/tests/guest, fabric in /spray/fabric.sh; exit powers off"
	cd /spray && setsid -c bash -i <>"/dev/$SPRAY_SHELL" >&0 2>&1
	echo 0 >/out/rc
	poweroff_now
fi
cd /out && bash /out/command >/out/tap 2>/out/stderr </dev/null
echo $? >/out/rc
[ ! -e /spray/init-hook.sh ] || spray_after
poweroff_now
