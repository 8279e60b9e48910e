#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Installs what the host needs for the harness, if it is not there. Debian only.
. "$(dirname "$0")/common.sh"

PKGS="qemu-system-x86 mmdebstrap e2fsprogs cpio gzip xz-utils zstd rsync util-linux
	debian-archive-keyring gcc make libc6-dev libcmocka-dev"

missing=
for p in $PKGS "$@"; do
	dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || die "missing packages:$missing (run as root, and they get installed)"
command -v apt-get >/dev/null || die "missing:$missing; this harness wants a Debian host"
say "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get -o Acquire::Retries=5 install -y --no-install-recommends $missing >/dev/null 2>&1 && exit 0
retry 3 apt-get -o Acquire::Retries=5 update -q >/dev/null
# shellcheck disable=SC2086
retry 3 apt-get -o Acquire::Retries=5 install -q -y --no-install-recommends $missing
