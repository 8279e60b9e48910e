#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# /init of the guest's initrd: mount the root image, the payload and the results share, go there.
# Payload (/spray, read-only) and results (/out) are 9p shares of the host; no network.
export PATH=/bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
while read -r m; do insmod "/modules/$m" 2>/dev/null; done </modules/order
n=0
until [ -b /dev/vda ] || [ $n -gt 100 ]; do sleep 0.1; n=$((n + 1)); done
opt=trans=virtio,version=9p2000.L,msize=262144
if mount -t ext4 /dev/vda /r && mount -t 9p -o ro,cache=loose,$opt spray /r/spray &&
   mount -t 9p -o $opt out /r/out; then
	umount /sys /proc
	mount -o move /dev /r/dev
	exec switch_root /r /bin/sh /spray/guest-init.sh
fi
echo "initrd: could not mount the root" >/dev/console
poweroff -f
