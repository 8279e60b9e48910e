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
	quick_traces "$w/src/arch/um/kernel/stacktrace.c"
	v=$(make -s -C "$w/src" kernelversion)
	rm -rf "$SPRAY_CACHE/linux-$v"
	mv "$w/src" "$SPRAY_CACHE/linux-$v"
	rm -rf "$w"
	ln -sfn "linux-$v" "$1"
}

# quick_traces FILE: KASAN and kmemleak save a trace with every allocation. UML asks about each word of the
# stack whether it is code, under lockdep, and then saves those words only that belong to frames: ask about
# those only. A debug kernel boots in 3 instead of 35 seconds.
quick_traces() {
	sed -i -e '/^void dump_trace/i static void save_addr(void *data, unsigned long address, int reliable);\n' \
		-e 's/if (\(__kernel_text_address(addr)\))/if ((ops->address != save_addr || (unsigned long)sp == bp + sizeof(long)) \&\& \1)/' "$1"
	grep -q 'ops->address != save_addr' "$1" || say "stack traces stay slow: $1 has changed"
}

mkdir -p "$SPRAY_CACHE"
exec 9>"$SPRAY_CACHE/linux.lock"
flock 9
link=$SPRAY_CACHE/linux-$SPRAY_UML_SUITE
[ -e "$link/Makefile" ] || (fetch "$link") >"$SPRAY_CACHE/linux.log" 2>&1 9>&- ||
	{ tail -20 "$SPRAY_CACHE/linux.log" >&2; die "no kernel source from $SPRAY_UML_SUITE (log above)"; }
readlink -f "$link"
