# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2034
# Shared by the scripts of tests/uml/, on top of qemu/common.sh. Source it.
#
#   $SPRAY_CACHE/linux-VERSION/          source of the newest kernel that the suite's backports have
#   $SPRAY_CACHE/uml-VERSION-FLAVOUR-KEY/   objects of one User-Mode Linux: debug or plain
#   $SPRAY_CACHE/uml-build-FLAVOUR-TREE/    copy of our sources, the module built for it

# common.sh finds its own directory by $0
_uml_dir=$(cd "$(dirname "$0")" && pwd)
_uml_zero=$_uml_dir/../../qemu/common.sh
# shellcheck source=../../qemu/common.sh
. "$_uml_zero"
UML_DIR=$_uml_dir
TOP=$(cd "$UML_DIR/../.." && pwd)
QEMU_DIR=$TOP/qemu

: "${SPRAY_UML_SUITE:=trixie-backports}" "${SPRAY_UML_ROOT:=trixie}" "${SPRAY_UML_JOBS:=2}"
FLAVOURS="debug plain"
