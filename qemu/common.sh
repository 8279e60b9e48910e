# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2034
# Shared by the scripts of qemu/ that run on the host. Source it.
#
# Everything that is built lands in one cache, outside of the source tree:
#   $SPRAY_CACHE/image-SUITE-KEY/   root/ (chroot for builds), root.ext4, vmlinux, initrd, kver
#   $SPRAY_CACHE/rdma-core-KEY/     source package of the suite's rdma-core (private headers)
#   $SPRAY_CACHE/build-SUITE-TREE/  copy of the sources, objects, and stage/ (what is installed)
#   $SPRAY_CACHE/results/           one directory per run; "last" points to the newest

set -eu

: "${SPRAY_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/rdma_spray}"
QEMU_DIR=$(cd "$(dirname "$0")" && pwd)
TOP=$(dirname "$QEMU_DIR")
SUITES="bookworm trixie"

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 2; }

need_root() { [ "$(id -u)" = 0 ] || die "needs root (chroot builds): run it with sudo -E"; }

# retry N CMD...: mirrors fail now and then
retry() {
	_n=$1; shift
	_i=1
	until "$@"; do
		[ "$_i" -lt "$_n" ] || return 1
		say "try $_i of $_n failed: $1"
		_i=$((_i + 1)); sleep $((_i * 2))
	done
}

# The machine's own Debian mirror: mirror_of Debian | mirror_of Debian-Security
mirror_of() {
	apt-get indextargets --format '$(LABEL)|$(SITE)' 'Created-By: Packages' |
		sed -n "s/^$1|//p" | head -1
}

# The machine's own network settings for apt (proxies, validity checks), as options
apt_settings() {
	apt-config dump |
		sed -nE 's/^(Acquire::(https?::[^ ]*[Pp]roxy[^ ]*|Check-Valid-Until|Check-Date|ForceIPv[46])) "(.+)";$/\1 "\3";/p'
	echo 'Acquire::Retries "5";'
}

# sources_list SUITE [deb|deb-src]: the lines of one suite, on this machine's mirror
sources_list() {
	_deb=${SPRAY_MIRROR:-$(mirror_of Debian)}
	_sec=${SPRAY_SECURITY_MIRROR:-$(mirror_of Debian-Security)}
	[ -n "$_deb" ] || die "no Debian mirror in apt's configuration; set SPRAY_MIRROR"
	echo "${2:-deb} $_deb $1 main"
	echo "${2:-deb} $_deb $1-updates main"
	[ -z "$_sec" ] || echo "${2:-deb} $_sec $1-security main"
}

# apt_private DIR SUITE deb|deb-src: from here on apt knows the main list of that suite and nothing else. It
# checks by the archive's signed index, with lists of its own in DIR: the host's sources stay as they are
apt_private() {
	rm -rf "$1"
	mkdir -p "$1/etc" "$1/lists/partial" "$1/cache/archives/partial"
	cat /usr/share/keyrings/debian-archive-*.gpg >"$1/etc/keys.gpg" 2>/dev/null || :
	sources_list "$2" "$3" | sed -n "1s|^$3 |$3 [signed-by=$1/etc/keys.gpg] |p" >"$1/etc/sources.list"
	: >"$1/etc/status"
	{
		apt_settings
		cat <<-E
			Dir::Etc::sourcelist "$1/etc/sources.list";
			Dir::Etc::sourceparts "/dev/null";
			Dir::State::lists "$1/lists";
			Dir::State::status "$1/etc/status";
			Dir::Cache "$1/cache";
			Acquire::Languages "none";
			APT::Sandbox::User "root";
		E
	} >"$1/etc/apt.conf"
	export APT_CONFIG="$1/etc/apt.conf"
	retry 3 apt-get -q update
}

# KVM by the CPU's flags: a /dev/kvm node alone proves nothing
have_kvm() { [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; }

# package_lists [more]: the lists of an image
package_lists() { echo "$QEMU_DIR/packages.list" ${1:+"$QEMU_DIR/packages-$1.list"}; }

# image_dir SUITE [more]: where the image of that suite belongs (keyed by its recipe)
image_dir() {
	# shellcheck disable=SC2046
	_key=$(cat "$QEMU_DIR/image.sh" $(package_lists "${2:-}") "$QEMU_DIR/initrd-init.sh" | sha256sum | cut -c1-10)
	echo "$SPRAY_CACHE/image-$1${2:+-$2}-$_key"
}
