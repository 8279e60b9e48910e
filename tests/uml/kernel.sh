#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kernel.sh FLAVOUR: builds, once, a User-Mode Linux (debug or plain) and prints its build directory.
# One flavour takes ten minutes of two processors; afterwards this is instant.
. "$(dirname "$0")/common.sh"

[ $# = 1 ] || die "usage: kernel.sh FLAVOUR ($FLAVOURS)"
flavour=$1
case " $FLAVOURS " in *" $flavour "*) ;; *) die "no flavour $flavour ($FLAVOURS)" ;; esac
src=$("$UML_DIR/source.sh")
set -- "$UML_DIR/kernel.config"
[ "$flavour" = plain ] || set -- "$@" "$UML_DIR/$flavour.config"
key=$(cat "$@" | sha256sum | cut -c1-10)
dir=$SPRAY_CACHE/uml-${src##*linux-}-$flavour-$key

mk() { nice -n 5 env -u MAKEFLAGS LC_ALL=C make -C "$src" ARCH=um O="$dir" "$@"; }

build() {
	mkdir -p "$dir"
	cat "$@" >"$dir/wanted"
	mk KCONFIG_ALLCONFIG="$dir/wanted" allnoconfig || return 1
	# shellcheck disable=SC2013
	for s in $(sed -n 's/^# needed: //p' "$dir/wanted"); do
		grep -qE "^CONFIG_$s=[ym]$" "$dir/.config" || { echo "needed, but not to be had: $s"; return 1; }
	done
	mk -j"$SPRAY_UML_JOBS" linux modules || return 1
	rm -rf "$dir/root"
	mk INSTALL_MOD_PATH="$dir/root" modules_install
}

exec 9>"$SPRAY_CACHE/uml-$flavour.lock"
flock 9
if [ ! -e "$dir/done" ]; then
	"$QEMU_DIR/need.sh" bc bison flex kmod
	say "building the $flavour kernel in $dir (some ten minutes, once)"
	(build "$@") >"$dir.log" 2>&1 9>&- || { tail -20 "$dir.log" >&2; die "kernel build failed: $dir.log"; }
	mk -s kernelrelease >"$dir/kver"
	: >"$dir/done"
fi
echo "$dir"
