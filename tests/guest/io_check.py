#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""io_check.py PATH WORKERS MIB: reads and writes at random, compared with what memory says.

PATH is a directory (a file for each worker) or a block device (a part for each). Every other worker goes around the
page cache. At the end caches are dropped, and everything is read once more. Prints the seed; SEED= repeats it.
"""
import mmap
import os
import random
import stat
import sys

BLOCK = 512
LONGEST = 256 << 10


def worker(path, base, size, seed, direct):
    rnd = random.Random(seed)
    buf = mmap.mmap(-1, LONGEST)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_DIRECT if direct else 0), 0o600)
    shadow = bytearray()

    def extent():
        length = min(rnd.choice((BLOCK, 4096, 1 + rnd.randrange(20000), LONGEST)), size)
        at = rnd.randrange(size - length + 1)
        if direct:
            length = -(-length // BLOCK) * BLOCK
            at = min(at // BLOCK * BLOCK, size - length)
        return at, length

    def write(at, data):
        buf[:len(data)] = data
        with memoryview(buf) as v:
            n = os.pwritev(fd, [v[:len(data)]], base + at)
        assert n == len(data), f'{path}: wrote {n} of {len(data)} at {at}'
        shadow[at:at + len(data)] = data

    def compare(at, length):
        with memoryview(buf) as v:
            n = os.preadv(fd, [v[:length]], base + at)
        assert n == length, f'{path}: read {n} of {length} at {at}'
        if buf[:length] != shadow[at:at + length]:
            i = next(i for i in range(length) if buf[i] != shadow[at + i])
            raise AssertionError(f'{path}: {at}+{length}, direct {direct}: other data from byte {i} on')

    for at in range(0, size, LONGEST):
        write(at, rnd.randbytes(min(LONGEST, size - at)))
    for i in range(200):
        if rnd.random() < .3:
            compare(*extent())
        else:
            at, length = extent()
            write(at, rnd.randbytes(length))
        if i % 50 == 49:
            os.fsync(fd)
    os.fsync(fd)
    os.close(fd)
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')
    fd = os.open(path, os.O_RDONLY)
    for at in range(0, size, 48000):
        compare(at, min(48000, size - at))
    os.close(fd)


def main():
    path, workers, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) << 20
    seed = int(os.environ.get('SEED', 0)) or random.randrange(1, 1 << 30)
    print('seed', seed, flush=True)
    device = stat.S_ISBLK(os.stat(path).st_mode)
    pids = []
    for i in range(workers):
        pid = os.fork()
        if pid == 0:
            if device:
                worker(path, i * size, size, seed + i, i % 2)
            else:
                worker(f'{path}/io.{i}', 0, size, seed + i, i % 2)
            os._exit(0)
        pids.append(pid)
    sys.exit(max([os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) != 0 for p in pids]))


main()
