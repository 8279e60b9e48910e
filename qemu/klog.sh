#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# klog.sh FILE...: prints what in a kernel log is a finding; exit 1 when there is any.
# Not counted: qperf's own segfault at the end of each good run with -cm1 (on rxe, too; it closes twice).

cat "$@" 2>/dev/null | tr -d '\r' | grep -v '\bqperf\[[0-9]*\]: segfault' | grep -nE \
	-e '\bWARNING: |\bBUG: |\bBUG at |Oops[: ]|general protection fault|Kernel panic|kernel BUG' \
	-e 'KASAN|KCSAN|UBSAN|kmemleak: [1-9][0-9]* unreferenced|refcount_t' \
	-e 'possible circular|possible recursive|inconsistent lock|suspicious RCU|sleeping function called|scheduling while atomic' \
	-e 'blocked for more than|soft lockup|hard LOCKUP|self-detected stall|detected stalls|rcu_.* kthread (starved|timer)' \
	-e 'unregister_netdevice: waiting|GID entry ref leak|ref_tracker|list_(add|del) corruption|bad page state|Bad page' \
	-e 'Unable to handle|unable to handle|stack segment|segfault|traps: |double fault' |
	sort -t: -k2 -u | sort -n | cut -d: -f2- | head -40 >"${TMPDIR:-/tmp}/klog.$$"
n=$(wc -l <"${TMPDIR:-/tmp}/klog.$$")
cat "${TMPDIR:-/tmp}/klog.$$"
rm -f "${TMPDIR:-/tmp}/klog.$$"
[ "$n" = 0 ]
