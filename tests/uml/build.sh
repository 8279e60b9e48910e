#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# build.sh FLAVOUR: builds what a User-Mode Linux guest runs and prints the directory of the result:
# the payload of qemu/build.sh (provider, test programs), and stage/modules/, the module tree of the
# flavour's kernel with our module in it, built in a copy of the sources.
. "$(dirname "$0")/common.sh"

[ $# = 1 ] || die "usage: build.sh FLAVOUR ($FLAVOURS)"
need_root
kernel=$("$UML_DIR/kernel.sh" "$1")
kver=$(cat "$kernel/kver")
payload=$("$QEMU_DIR/build.sh" "$SPRAY_UML_ROOT")
b=$SPRAY_CACHE/uml-build-$1-$(echo "$TOP" | sha256sum | cut -c1-8)
mkdir -p "$b/src"
exec 9>"$b/lock"
flock 9
rsync -a --delete --exclude=/.git --exclude=/qemu --filter=':- .gitignore' "$TOP/" "$b/src/"
[ "$(cat "$b/kernel" 2>/dev/null)" = "$kernel" ] || {
	find "$b/src" \( -name '*.o' -o -name '*.ko' -o -name '.*.cmd' \) -delete
	echo "$kernel" >"$b/kernel"
}
# the debug kernel's module has assertions, the self-test and jitter
debug=${SPRAY_DEBUG:+DEBUG=1}
[ "$1" = plain ] || debug=DEBUG=1
# shellcheck disable=SC2086
env -u MAKEFLAGS LC_ALL=C make -C "$kernel" ARCH=um M="$b/src" -j2 $debug modules >"$b/log" 2>&1 9>&- || {
	cat "$b/log" >&2
	die "module for $1 failed"
}
! grep -E 'warning:|WARNING:' "$b/log" >&2 || say "warnings in the build for $1 (above)"
rm -rf "$b/stage"
cp -a "$payload" "$b/stage"
cc -O2 -Wall -shared -fPIC -o "$b/lazymask.so" "$b/src/tests/uml/lazymask.c" >&2
# another kernel's module is of no use here
rm -rf "$b"/stage/root/lib/modules "$b"/stage/root/usr/lib/modules
cp "$UML_DIR/init-hook.sh" "$b/stage/"
mkdir "$b/modules.new"
cp -a "$kernel/root/lib/modules/$kver" "$b/modules.new/"
rm -f "$b/modules.new/$kver/build" "$b/modules.new/$kver/source"
install -D -m 644 "$b/src/rdma_spray.ko" "$b/modules.new/$kver/updates/rdma_spray.ko"
mkdir -p "$b/stage/.depmod/lib"
mv "$b/modules.new" "$b/stage/.depmod/lib/modules"
depmod -b "$b/stage/.depmod" "$kver"
mv "$b/stage/.depmod/lib/modules" "$b/stage/modules"
rm -rf "$b/stage/.depmod"
echo "$b/stage"
