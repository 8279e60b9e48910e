#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The fabric itself: both layouts, both families, spreading, profiles, cut and restore. No RDMA.
. "$(dirname "$0")/lib.sh"

reach() { # every way, both families
	onA ping -q -c 2 -i 0.2 -W 2 -I $A4 $B4 && onB ping -q -c 2 -i 0.2 -W 2 -I $B4 $A4 &&
	onA ping -q -c 2 -i 0.2 -W 2 -I $A6 $B6 && onB ping -q -c 2 -i 0.2 -W 2 -I $B6 $A6
}
spread() { # 400 ports: no spine with less than 60 or more than 140
	fabric_sprayed | tee /dev/stderr | awk '$2 < 60 || $2 > 140 { bad = 1 } END { exit bad || NR != 4 }'
}
one_port() {
	local before; before=$(fabric_bytes)
	onA python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('$A4', 50000))
for i in range(100): s.sendto(b'x', ('$B4', 9))"
	sleep 0.3
	paste <(echo "$before") <(fabric_bytes) | awk '{ print $1, $9 - $4; if ($9 - $4 >= 100) n++ } END { exit n != 1 }'
}
lost() { # share of 400 packets to 400 ports which did not reach hostB's switch, in percent
	fabric_sprayed | awk '{ n += $2 } END { print 100 - n / 4 }'
}
cut_costs() { # a quarter of the ports dies, the rest lives; all is well afterwards
	local n
	fabric_cut 2 silent
	n=$(onA python3 -c "
import socket, subprocess
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for p in range(50000, 50400):
	s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('$A4', p)); s.sendto(b'x', ('$B4', 9)); s.close()
" ; sleep 0.3; fabric_bytes)
	fabric_restore 2
	echo "$n"
	reach
}

for hosts in netns init; do
	FABRIC_HOSTS=$hosts
	here "$hosts: up" fabric_up clean || bail "no fabric"
	run "$hosts: both ways, both families" 60 reach
	[ $hosts = init ] || run "$hosts: 400 ports spread over four spines" 60 spread
	[ $hosts = init ] || run "$hosts: one port stays on one spine" 60 one_port
	for p in rate rate+loss1 rate+loss01 rate+unequal shallow loss1 loss5 dup reorder unequal mixed; do
		here "$hosts: profile $p" fabric_profile $p
	done
	here "$hosts: profile unequal is there" fabric_profile unequal
	run "$hosts: through unequal" 60 reach
	here "$hosts: profile clean" fabric_profile clean
	run "$hosts: silent cut and restore" 60 cut_costs
	fabric_cut 3 link; fabric_restore 3
	run "$hosts: after a link cut" 60 reach
	[ $hosts = init ] || run "$hosts: spread after the cuts" 60 spread
	here "$hosts: down" fabric_down
	here "$hosts: direct" fabric_direct
	run "$hosts: direct both ways" 60 reach
	here "$hosts: direct down" fabric_down
done
finish
