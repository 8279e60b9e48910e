#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# image.sh SUITE [more]: builds, once, the guest of a Debian suite and prints its directory.
# With "more", the one that has the packages of packages-more.list, too.
#
#   root/      the whole root, also the chroot in which module and provider are built
#   root.ext4  the same as an image for the guest (opened with snapshot=on, never written)
#   vmlinux    uncompressed kernel, booted by PVH: 5 s to a shell under TCG against 17 s for bzImage
#   initrd     busybox and the modules needed to reach the root
#   kver       the kernel's release
. "$(dirname "$0")/common.sh"

# What else the initrd loads; dependencies are found by modprobe.
BOOT_MODULES="virtio_pci virtio_blk virtio_rng 9pnet_virtio 9p ext4 crc32c_generic"

# extract_vmlinux BZIMAGE: the payload's place is in the header (Documentation/arch/x86/boot.rst)
extract_vmlinux() {
	_sects=$(od -An -tu1 -j 497 -N 1 "$1" | tr -d ' ')
	_off=$(od -An -tu4 -j 584 -N 4 "$1" | tr -d ' ')
	_len=$(od -An -tu4 -j 588 -N 4 "$1" | tr -d ' ')
	_at=$(((_sects + 1) * 512 + _off))
	case $(od -An -tx1 -j $_at -N 4 "$1" | tr -d ' ') in
	fd377a58) _cat="xz -dc --single-stream" ;;
	28b52ffd) _cat="zstd -dc" ;;
	1f8b*) _cat="gzip -dc" ;;
	*) die "$1: unknown kernel compression" ;;
	esac
	# four bytes of size follow the payload: the unpackers complain and are right to
	tail -c +$((_at + 1)) "$1" | head -c "$_len" | $_cat 2>/dev/null || :
}

make_initrd() { # IMAGE_DIR KVER
	_t=$1/initrd.d
	mkdir -p "$_t/bin" "$_t/dev" "$_t/proc" "$_t/sys" "$_t/r" "$_t/modules"
	cp "$1/root/bin/busybox" "$_t/bin/"
	for c in sh mount umount insmod sleep switch_root poweroff; do ln -s busybox "$_t/bin/$c"; done
	install -m 755 "$QEMU_DIR/initrd-init.sh" "$_t/init"
	for m in $BOOT_MODULES; do
		chroot "$1/root" modprobe -S "$2" --show-depends "$m" 2>/dev/null || :
	done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' >"$_t/list"
	while read -r f; do
		b=$(basename "$f")
		case $f in
		*.xz) b=${b%.xz}; xz -dc "$1/root$f" >"$_t/modules/$b" ;;
		*) cp "$1/root$f" "$_t/modules/$b" ;;
		esac
		echo "$b"
	done <"$_t/list" >"$_t/modules/order"
	rm "$_t/list"
	(cd "$_t" && find . | cpio -o -H newc --quiet) | gzip -1 >"$1/initrd"
	rm -rf "$_t"
}

build() { # SUITE DIR [more]
	suite=$1 dir=$2
	say "building the $suite${3:+ ($3)} image in $dir (some minutes, once)"
	rm -rf "$dir" "$dir.new"
	mkdir -p "$dir.new"
	# shellcheck disable=SC2046
	pkgs=$(cat $(package_lists "${3:-}") | sed '/^#/d' | paste -sd,)
	apt_settings >"$dir.new/apt.conf"
	sources_list "$suite" >"$dir.new/sources"
	# shellcheck disable=SC2086
	bootstrap() {
		rm -rf "$dir.new/root"
		INITRD=No mmdebstrap --variant=apt --include="$pkgs" \
			--aptopt="$dir.new/apt.conf" \
			--aptopt='APT::Install-Recommends "false"' \
			--dpkgopt=force-unsafe-io \
			--dpkgopt='path-exclude=/usr/share/doc/*' \
			--dpkgopt='path-exclude=/usr/share/man/*' \
			--dpkgopt='path-exclude=/usr/share/locale/*' \
			--dpkgopt='path-include=/usr/share/doc/rdma-core*' \
			--customize-hook='mkdir -p "$1/spray" "$1/out" "$1/build"' \
			--customize-hook='gunzip -rf "$1/usr/share/doc/rdma-core/tests" || :' \
			--customize-hook='rm -rf "$1"/var/cache/apt/*.bin "$1"/etc/resolv.conf; echo spray >"$1/etc/hostname"' \
			"$suite" "$dir.new/root" "$dir.new/sources"
	}
	retry 4 bootstrap >"$dir.new/log" 2>&1 || { tail -20 "$dir.new/log" >&2; die "mmdebstrap $suite failed"; }
	kver=$(basename "$(ls -d "$dir.new"/root/lib/modules/*/kernel | sort -V | tail -1 | xargs dirname)")
	# by chroot: the link may be absolute, and this host has no such directory
	chroot "$dir.new/root" test -e "/lib/modules/$kver/build/Makefile" || die "$suite: kernel $kver has no matching headers"
	echo "$kver" >"$dir.new/kver"
	extract_vmlinux "$dir.new/root/boot/vmlinuz-$kver" >"$dir.new/vmlinux"
	[ "$(head -c 4 "$dir.new/vmlinux" | tail -c 3)" = ELF ] || die "$suite: no vmlinux in the kernel image"
	chroot "$dir.new/root" depmod "$kver"
	make_initrd "$dir.new" "$kver"
	mb=$(du -sm "$dir.new/root" | cut -f1)
	mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$dir.new/root" "$dir.new/root.ext4" $((mb * 115 / 100 + 400))M >/dev/null
	mv "$dir.new" "$dir"
}

[ $# = 1 ] || [ $# = 2 ] || die "usage: image.sh SUITE [more] ($SUITES)"
need_root
dir=$(image_dir "$1" "${2:-}")
if [ ! -d "$dir" ]; then
	mkdir -p "$SPRAY_CACHE"
	exec 9>"$SPRAY_CACHE/image-$1${2:+-$2}.lock"
	flock 9
	[ -d "$dir" ] || build "$1" "$dir" "${2:-}" 9>&-
fi
echo "$dir"
