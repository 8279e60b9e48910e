#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# build.sh SUITE: builds module, provider and test programs for a suite's kernel and rdma-core, and
# prints the directory of the result. Incremental: unchanged sources cost about three seconds.
# SPRAY_DEBUG=1: the module with DEBUG=1, which tests itself as it is loaded.
#
# The sources are copied to a build tree per suite and clone, so suites never see each other's objects.
# `make install` runs for real in the suite's root, behind an overlay: what it wrote is the payload.
. "$(dirname "$0")/common.sh"

[ $# = 1 ] || die "usage: build.sh SUITE ($SUITES)"
need_root
suite=$1
image=$("$QEMU_DIR/image.sh" "$suite")
kver=$(cat "$image/kver")
rdma=$("$QEMU_DIR/source.sh" "$suite")
b=$SPRAY_CACHE/build-$suite-$(echo "$TOP" | sha256sum | cut -c1-8)
mkdir -p "$b/src" "$b/mnt"
exec 9>"$b/lock"
flock 9

# built files of either tree are what .gitignore names: neither copied nor deleted. What has changed gets
# the time of now: by its own, an edit made during the last build would look older than that build's objects
rsync -a --no-times --checksum --delete --exclude=/.git --exclude=/qemu --filter=':- .gitignore' "$TOP/" "$b/src/"
# another image: other headers, other libraries
[ "$(cat "$b/image" 2>/dev/null)" = "$image" ] || {
	rm -rf "$b/src"
	rsync -a --exclude=/.git --exclude=/qemu --filter=':- .gitignore' "$TOP/" "$b/src/"
	echo "$image" >"$b/image"
}

if ! unshare -m sh -eu -s "$image" "$kver" "$rdma" "$b" "${SPRAY_TYPE:-spray}" 9>&- >"$b/log" 2>&1 <<'IN'
image=$1 kver=$2 rdma=$3 b=$4 type=$5
mount -t tmpfs none "$b/mnt"
mkdir "$b/mnt/upper" "$b/mnt/work" "$b/mnt/root"
mount -t overlay none -o "lowerdir=$image/root,upperdir=$b/mnt/upper,workdir=$b/mnt/work" "$b/mnt/root"
r=$b/mnt/root
mount -t proc none "$r/proc"
mount --bind /dev "$r/dev"
mount --bind "$b/src" "$r/build"
mkdir -p "$r/run/rdma-core"
mount --bind "$rdma" "$r/run/rdma-core"
mk() { chroot "$r" env -u MAKEFLAGS LC_ALL=C make -C /build -j2 KVER="$kver" KDIR="/lib/modules/$kver/build" RDMA_CORE=/run/rdma-core "$@"; }
ok=yes
[ ! -e "$b/src/Kbuild" ] || mk module ${SPRAY_DEBUG:+DEBUG=1} || ok=no
[ ! -e "$b/src/userspace-provider/Makefile" ] || { mk provider && mk provider-check; } || ok=no
[ ! -e "$b/src/tests/contract/Makefile" ] || mk contract || ok=no
if [ $ok = yes ] && [ -e "$b/src/Kbuild" ]; then mk install; fi
# rxe as the device under test needs nothing of ours
[ $ok = yes ] || [ "$type" != spray ] || exit 1
umount "$r/run/rdma-core" "$r/build" "$r/dev" "$r/proc"
rm -rf "$b/stage.new"
mkdir -p "$b/stage.new"
cp -a "$b/mnt/upper" "$b/stage.new/root"
rm -rf "$b/stage.new/root/run" "$b/stage.new/root/build"
cp -a "$b/src/tests" "$b/stage.new/tests"
find "$b/stage.new/tests" -name '*.[od]' -delete
IN
then
	cat "$b/log" >&2
	die "build for $suite failed"
fi
! grep -E 'warning:|WARNING:' "$b/log" >&2 || say "warnings in the build for $suite (above)"
rm -rf "$b/stage"
mv "$b/stage.new" "$b/stage"
cp "$QEMU_DIR/guest-init.sh" "$QEMU_DIR/fabric.sh" "$b/stage/"
echo "$b/stage"
