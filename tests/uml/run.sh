#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# run.sh [options] TEST [args...]: what qemu/run.sh is, with a User-Mode Linux for the guest.
#
#   TEST        name of tests/guest/TEST.sh, or a command (anything with a slash)
#   -k FLAVOUR  debug (KASAN, lockdep, kmemleak and more) or plain; default debug
#   -c CPUS     default 2                 -m MEM   memory in MiB, default 2048
#   -t SECONDS  limit for the whole guest, default 900
#   -I          an interactive shell in place of a test (no limit)
#   -e VAR=VAL  environment of the test (SPRAY_* of the caller goes in anyway)
#   -n          boot what was built last, build nothing
#   -a ARG      append to the kernel command line
#   -o DIR      results directory, default one in the cache
#
# The root is that of qemu/image.sh for $SPRAY_UML_ROOT, seen through hostfs; writes go to memory.
# Results: tap, rc, stderr, dmesg, boot, console, kmemleak and whatever the test writes to /out.
# Exit: 0 passed, 1 test failed or kernel log not clean, 2 harness trouble, 124 time is up.
. "$(dirname "$0")/common.sh"
. "$QEMU_DIR/results.sh"

flavour=debug cpus=2 mem=2048 limit=900 shell='' nobuild='' append='' out='' envs=()
while getopts "k:c:m:t:Ie:na:o:" o; do
	case $o in
	k) flavour=$OPTARG ;; c) cpus=$OPTARG ;; m) mem=$OPTARG ;; t) limit=$OPTARG ;;
	I) shell=1 limit=0 ;; e) envs+=("$OPTARG") ;;
	n) nobuild=1 ;; a) append=$OPTARG ;; o) out=$OPTARG ;;
	*) die "see the head of $0" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || [ -n "$shell" ] || die "usage: run.sh [options] TEST [args...] (see the head of $0)"
need_root

image=$("$QEMU_DIR/image.sh" "$SPRAY_UML_ROOT")
kernel=$("$UML_DIR/kernel.sh" "$flavour")
stage=$SPRAY_CACHE/uml-build-$flavour-$(echo "$TOP" | sha256sum | cut -c1-8)/stage
if [ -z "$nobuild" ]; then stage=$("$UML_DIR/build.sh" "$flavour"); fi
[ -d "$stage" ] || die "nothing built yet for $flavour"

name=$(basename "${1:-shell}" .sh)
results_dir "uml-$flavour" "$stage"
forget_results
mkdir -p "$out/.mnt"
trap 'rm -rf "$out/.stage"; rmdir "$out/.mnt" 2>/dev/null || :; [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM
guest_job "SPRAY_SUITE=$SPRAY_UML_ROOT SPRAY_SHELL=${shell:+tty0} SPRAY_CPUS=$cpus SPRAY_ICOUNT= SPRAY_UML=$flavour" "$@"

# Watchdogs see the host's time: on a busy host a softirq full of packets takes long under KASAN.
# The root is put together in a mount namespace of its own and goes with it.
guest() {
	# shellcheck disable=SC2016,SC2086
	exec timeout --foreground -s INT -k 10 "$limit" unshare -m bash -eu -c '
		out=$1 image=$2 linux=$3 lazymask=$4; shift 4
		mount -t tmpfs none "$out/.mnt"
		mkdir "$out"/.mnt/{upper,work,root}
		r=$out/.mnt/root
		mount -t overlay none -o "lowerdir=$image/root,upperdir=$out/.mnt/upper,workdir=$out/.mnt/work" "$r"
		mkdir -p "$r/usr/lib/modules"
		cp -a "$out/.stage/modules/." "$r/usr/lib/modules/"
		mount --bind "$out/.stage" "$r/spray"
		mount --bind "$out" "$r/out"
		exec env "LD_PRELOAD=$lazymask" "$linux" "rootflags=$r" "$@"' uml \
		"$out" "$image" "$kernel/linux" "$(dirname "$stage")/lazymask.so" \
		"uml_dir=$SPRAY_CACHE/.uml/" root=hostfs rootfstype=hostfs rw init=/spray/guest-init.sh "mem=${mem}M" \
		seccomp=on "ncpus=$cpus" "con0=fd:0,fd:1" con=null console=tty0 "loglevel=${SPRAY_LOGLEVEL:-7}" panic=-1 \
		workqueue.watchdog_thresh=180 rcupdate.rcu_cpu_stall_timeout=180 $append
}

start=$SECONDS rc=0
if [ -n "$shell" ]; then (guest) || rc=$?; exit $rc; fi
(guest) >"$out/console" 2>&1 </dev/null &
pid=$!
wait "$pid" || rc=$?
pid=
# what the kernel says before init is not ours: bringing up its second CPU, it frees memory before RCU knows that CPU
sed -i -e '1,/ as init process/{' -e "w $out/boot" -e 'd' -e '}' "$out/console"
[ -e "$out/started" ] || { tail -n 20 "$out/boot"; die "no boot: $out"; }
verdict "uml/$flavour" "$rc" $((SECONDS - start))
