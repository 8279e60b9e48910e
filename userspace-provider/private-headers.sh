#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# private-headers.sh SRC SUITE PABI OUT: copies what a provider needs of an rdma-core tree to OUT.
# Without SRC, the source package of SUITE is fetched. PABI is that of the installed libibverbs.
set -eu
src=$1 suite=$2 pabi=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)

[ -n "$src" ] || src=$(sh "$here/../qemu/source.sh" "$suite")
have=$(sed -n 's/^set(IBVERBS_PABI_VERSION "\([0-9]*\)").*/\1/p' "$src/CMakeLists.txt")
if [ "$have" != "$pabi" ]; then
	echo "${0##*/}: $src has private ABI $have, the installed libibverbs $pabi:" \
		"pass the right tree as RDMA_CORE_SRC=" >&2
	exit 1
fi

copy() { # SUBDIR FILE...: files of the tree to OUT/SUBDIR
	mkdir -p "$out/$1"
	_to=$1; shift
	for f; do cp "$src/$f" "$out/$_to/"; done
}

rm -rf "$out"
copy infiniband libibverbs/driver.h libibverbs/kern-abi.h libibverbs/cmd_ioctl.h libibverbs/cmd_write.h
copy ccan ccan/list.h ccan/container_of.h ccan/check_type.h ccan/str.h ccan/str_debug.h ccan/build_assert.h
copy util util/compiler.h
copy rdma kernel-headers/rdma/ib_user_verbs.h kernel-headers/rdma/ib_user_ioctl_verbs.h \
	kernel-headers/rdma/ib_user_ioctl_cmds.h kernel-headers/rdma/rdma_user_ioctl_cmds.h
mkdir -p "$out/kernel-abi"
"${PYTHON:-python3}" "$src/buildlib/make_abi_structs.py" "$out/rdma/ib_user_verbs.h" "$out/kernel-abi/ib_user_verbs.h"
# last: its presence says that the rest is there
cat >"$out/config.h" <<EOF
#define IBVERBS_PABI_VERSION $pabi
#define HAVE_TYPEOF 1
#define HAVE_ISBLANK 1
#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1
#define HAVE_FUNC_ATTRIBUTE_ALWAYS_INLINE 1
EOF
