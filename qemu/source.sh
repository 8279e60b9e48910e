#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# source.sh SUITE: fetches, once, the rdma-core source package of a Debian suite for the provider's
# private headers, and prints the directory of the unpacked tree.
#
# A mirror may lack a suite's tarball: 44 and 56 share their private ABI (34), so the newer one stands in.
. "$(dirname "$0")/common.sh"

fetch() { # SUITE DIR
	w=$2.new
	apt_private "$w" "$1" deb-src || return 1
	# the .dsc may be the missing part: what counts is that the tarball came
	(cd "$w" && retry 2 apt-get -q source --download-only rdma-core) || :
	t=$(find "$w" -maxdepth 1 -name 'rdma-core_*.orig.tar.*' ! -name '*.asc')
	[ -n "$t" ] && verify "$w" "$t" || { rm -rf "$w"; return 1; }
	mkdir "$w/src"
	tar -xf "$t" -C "$w/src" --strip-components=1
	rm -rf "${w:?}/lists" "$w/cache" "${w:?}/etc"
	mv "$w" "$2"
}

# verify WORK TARBALL: by the signed index, since apt leaves an unchecked file when its .dsc is missing
verify() {
	_f=$(ls "$1"/lists/*_Sources* | head -1)
	_want=$(index_cat "$_f" | awk -v f="$(basename "$2")" '
		/^Checksums-Sha256:/ { on = 1; next } /^[^ ]/ { on = 0 } on && $3 == f { print $1; exit }')
	[ -n "$_want" ] && echo "$_want  $2" | sha256sum -c --quiet
}
index_cat() { /usr/lib/apt/apt-helper cat-file "$1"; }

[ $# = 1 ] || die "usage: source.sh SUITE ($SUITES)"
mkdir -p "$SPRAY_CACHE"
exec 9>"$SPRAY_CACHE/source.lock"
flock 9
dir=$SPRAY_CACHE/rdma-core-$1
for s in "$1" trixie; do
	[ ! -d "$dir" ] || break
	from=$SPRAY_CACHE/rdma-core-$s
	[ -d "$from" ] || (fetch "$s" "$from") >"$SPRAY_CACHE/source-$s.log" 2>&1 9>&- || { say "no rdma-core source from $s"; continue; }
	[ "$from" = "$dir" ] || ln -sfn "$from" "$dir"
done
[ -d "$dir" ] || { tail -20 "$SPRAY_CACHE/source-trixie.log" >&2; die "no rdma-core source package (log above)"; }
echo "$dir/src"
