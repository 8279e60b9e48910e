#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# run.sh [options] TEST [args...]: builds, boots a guest, runs one test in it.
#
#   TEST        name of tests/guest/TEST.sh, or a command (anything with a slash)
#   -s SUITE    bookworm (6.1, rdma-core 44) or trixie (6.12, rdma-core 56); default bookworm
#   -c CPUS     vCPUs, default 1          -m MEM   memory in MiB, default 1536
#   -t SECONDS  limit for the whole guest, default 600
#   -i          count instructions: one virtual nanosecond each, one vCPU
#   -I          an interactive shell in place of a test (no limit)
#   -e VAR=VAL  environment of the test (SPRAY_* of the caller goes in anyway)
#   -n          boot what was built last, build nothing
#   -a ARG      append to the kernel command line
#   -o DIR      results directory, default one in the cache
#
# SPRAY_IMAGE=more: the image with more packages, which some tests ask for, for any test or shell.
# Results: tap, rc, stderr, dmesg, console and whatever the test writes to /out.
# Exit: 0 passed, 1 test failed or kernel log not clean, 2 harness trouble, 124 time is up.
. "$(dirname "$0")/common.sh"
. "$QEMU_DIR/results.sh"

suite=bookworm cpus=1 mem=1536 limit=600 icount='' shell='' nobuild='' append='' out='' envs=()
while getopts "s:c:m:t:iIe:na:o:" o; do
	case $o in
	s) suite=$OPTARG ;; c) cpus=$OPTARG ;; m) mem=$OPTARG ;; t) limit=$OPTARG ;;
	i) icount=1 cpus=1 ;; I) shell=1 limit=0 ;; e) envs+=("$OPTARG") ;;
	n) nobuild=1 ;; a) append=$OPTARG ;; o) out=$OPTARG ;;
	*) die "see the head of $0" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || [ -n "$shell" ] || die "usage: run.sh [options] TEST [args...] (see the head of $0)"
need_root
"$QEMU_DIR/need.sh"

# a test may name an image that has more in it
more=$(sed -n 's/^# image: //p' "$TOP/tests/guest/${1:-}.sh" 2>/dev/null || :)
more=${SPRAY_IMAGE:-$more}
image=$("$QEMU_DIR/image.sh" "$suite" ${more:+"$more"})
[ -z "$more" ] || cmp -s "$image/kver" "$("$QEMU_DIR/image.sh" "$suite")/kver" ||
	die "two images of $suite with two kernels: remove the older of $image and $("$QEMU_DIR/image.sh" "$suite")"
stage=$SPRAY_CACHE/build-$suite-$(echo "$TOP" | sha256sum | cut -c1-8)/stage
if [ -z "$nobuild" ]; then stage=$("$QEMU_DIR/build.sh" "$suite"); fi
[ -d "$stage" ] || die "nothing built yet for $suite"

name=$(basename "${1:-shell}" .sh)
results_dir "$suite" "$stage"
trap 'rm -rf "$out/.stage"; [ -z "${qpid:-}" ] || kill "$qpid" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM
guest_job "SPRAY_SUITE=$suite SPRAY_SHELL=${shell:+ttyS0} SPRAY_CPUS=$cpus SPRAY_ICOUNT=$icount" "$@"

# Under TCG the guest sees the host's time stamp counter, and measures its rate: on a busy host wrongly, by as much
# as seven times, and then all its clocks run as fast. Where nothing scales this host's clock, its rate is told.
tsc_rate() {
	[ -z "$icount" ] && ! have_kvm && [ ! -e /sys/devices/system/cpu/cpu0/cpufreq ] || return 0
	awk -F: '/^cpu MHz/ { printf "tsc_early_khz=%d", $2 * 1000; exit }' /proc/cpuinfo
}

qemu() {
	local accel=(-accel "tcg,thread=multi,tb-size=512" -cpu max)
	if [ -n "$icount" ]; then
		# never sleep=off: virtual time would run away while the guest waits for the host
		# shellcheck disable=SC2054
		accel=(-accel "tcg,thread=single,tb-size=512" -cpu max -icount shift=0
			-rtc base=2024-01-01T00:00:00,clock=vm)
	elif have_kvm; then
		accel=(-accel kvm -cpu host)
	fi
	local con=(-serial "file:$out/console" -monitor "${SPRAY_MONITOR:-none}")
	[ -z "$shell" ] || con=(-serial mon:stdio)
	exec timeout --foreground "$limit" qemu-system-x86_64 -M q35 -nodefaults -no-user-config -display none -no-reboot \
		"${accel[@]}" -smp "$cpus" -m "$mem" "${con[@]}" \
		-kernel "$image/vmlinux" -initrd "$image/initrd" \
		-append "console=ttyS0 loglevel=${SPRAY_LOGLEVEL:-5} panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check cryptomgr.notests net.ifnames=0 $(tsc_rate) $append" \
		-drive "if=none,id=root,file=$image/root.ext4,format=raw,snapshot=on,cache=unsafe" -device virtio-blk-pci,drive=root \
		-device virtio-rng-pci \
		-virtfs "local,path=$out/.stage,mount_tag=spray,security_model=none,readonly=on" \
		-virtfs "local,path=$out,mount_tag=out,security_model=none"
}

for try in 1 2 3; do
	forget_results
	start=$SECONDS rc=0
	if [ -n "$shell" ]; then (qemu) || rc=$?; exit $rc; fi
	(qemu) >"$out/qemu" 2>&1 </dev/null &
	qpid=$!
	wait "$qpid" || rc=$?
	qpid=
	[ ! -e "$out/started" ] || break
	say "the guest died in its boot (try $try, qemu exit $rc): $(tail -n 3 "$out/console" "$out/qemu" 2>/dev/null | tr -d '\r' | tail -n 4)"
done
[ -e "$out/started" ] || die "no boot in three tries: $out"
verdict "$suite" "$rc" $((SECONDS - start))
