# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# guest-init.sh sources this before a test when the guest is a User-Mode Linux.

# perftest wants to know a clock rate, which this machine doesn't tell
sed '/^bogomips/i cpu MHz\t\t: 2000.000' /proc/cpuinfo >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
# see the watchdogs in run.sh
sysctl -qw kernel.hung_task_timeout_secs=240 2>/dev/null
# a guest that hangs has failed: no need to wait for its time to run out
sysctl -qw kernel.hung_task_panic=1 2>/dev/null
sysctl -qw kernel.panic_on_rcu_stall=1 2>/dev/null
# a debug build tests itself once, here, where no test's time runs (many seconds on a busy machine)
if modinfo -p rdma_spray | grep -q '^selftest:'; then
	modprobe rdma_spray && rmmod rdma_spray || spray_broken=1
	echo "options rdma_spray selftest=0" >/etc/modprobe.d/rdma_spray-tested.conf
fi
# neither what the kernel said in its boot nor what it lost there is ours
dmesg -C
[ -z "${spray_broken:-}" ] || echo "BUG: rdma_spray does not load" >/dev/kmsg
[ ! -w /sys/kernel/debug/kmemleak ] || echo clear >/sys/kernel/debug/kmemleak

# after the test: memory that nobody points to any more, found in the module's code or on its behalf
spray_after() {
	[ -w /sys/kernel/debug/kmemleak ] || return 0
	# a leak counts when a second scan agrees; young objects are not looked at
	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	sleep 1
	echo scan >/sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak >/out/kmemleak
	n=$(grep -c '^unreferenced object' /out/kmemleak)
	# Where allocations were made to fail, the kernel now and then keeps the task_struct of the program that they
	# failed for. Nothing of ours holds tasks; there only what came by the RDMA stack counts.
	[ ! -e /run/faults ] || n=$(awk '/^unreferenced/ { n += own; own = 0 } /rdma_spray|ib_|uverbs|rdma_/ { own = 1 } END { print n + own }' /out/kmemleak)
	[ "$n" = 0 ] || echo "kmemleak: $n unreferenced objects" >/dev/kmsg
}
