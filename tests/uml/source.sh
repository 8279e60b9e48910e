#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# source.sh: fetches, once, the newest linux-source package of $SPRAY_UML_SUITE and prints the directory
# of the unpacked tree.
. "$(dirname "$0")/common.sh"

fetch() { # LINK
	w=$SPRAY_CACHE/linux.new
	apt_private "$w" "$SPRAY_UML_SUITE" deb || return 1
	p=$(apt-cache pkgnames linux-source- | grep -E '^linux-source-[0-9]+\.[0-9]+$' | sort -V | tail -1)
	[ -n "$p" ] || return 1
	(cd "$w" && retry 3 apt-get -q download "$p") || return 1
	mkdir "$w/deb" "$w/src"
	dpkg-deb -x "$w"/linux-source-*.deb "$w/deb"
	tar -xf "$w"/deb/usr/src/linux-source-*.tar.* -C "$w/src" --strip-components=1
	v=$(make -s -C "$w/src" kernelversion)
	rm -rf "$SPRAY_CACHE/linux-$v"
	mv "$w/src" "$SPRAY_CACHE/linux-$v"
	rm -rf "$w"
	ln -sfn "linux-$v" "$1"
}

mkdir -p "$SPRAY_CACHE"
exec 9>"$SPRAY_CACHE/linux.lock"
flock 9
link=$SPRAY_CACHE/linux-$SPRAY_UML_SUITE
[ -e "$link/Makefile" ] || (fetch "$link") >"$SPRAY_CACHE/linux.log" 2>&1 9>&- ||
	{ tail -20 "$SPRAY_CACHE/linux.log" >&2; die "no kernel source from $SPRAY_UML_SUITE (log above)"; }
readlink -f "$link"
