# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""uverbs.py DEVICE: commands that no library would send, straight to the kernel. Speaks TAP.

Answers that cannot be written, sizes at and beyond every limit, mappings of the wrong shape, rings
scribbled on and destroyed under a mapping. Nothing may be left behind.
"""
import ctypes, glob, os, struct, sys
from errno import EBUSY, EFAULT, EINVAL, EOPNOTSUPP

GET_CONTEXT, ALLOC_PD, REG_MR, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, CREATE_QP, DESTROY_QP = 0, 3, 9, 18, 19, 20, 24, 27
CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ, POST_SRQ_RECV = range(32, 37)
RC = 2
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, ON_DEMAND, RELAXED = 1, 2, 4, 1 << 6, 1 << 20
FLUSH_GLOBAL, FLUSH_PERSISTENT = 1 << 8, 1 << 9
MAX_CQE, MAX_WR, MAX_SGE, MAX_INLINE = 1 << 20, 16384, 32, 512
MAX_WR_BIT, LIMIT_BIT = 1, 2        # what modify_srq changes
PAGE, SHARED, PRIVATE, ANON = 4096, 1, 2, 0x20

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def mmap(size, flags, fd=-1, off=0):
    """Address, or the negative errno."""
    p = libc.mmap(None, size, 3, flags, fd, off)
    return -ctypes.get_errno() if p == ctypes.c_void_p(-1).value else p


answer = mmap(2 * PAGE, PRIVATE | ANON)
closed = answer + PAGE          # may not be written
libc.mprotect(closed, PAGE, 1)


class Uverbs:
    def __init__(self, dev):
        node = next(d for d in glob.glob('/sys/class/infiniband_verbs/uverbs*')
                    if open(d + '/ibdev').read().strip() == dev)
        self.fd = os.open('/dev/infiniband/' + os.path.basename(node), os.O_RDWR)
        self.async_fd, _, self.abi, _ = self.ask(GET_CONTEXT, b'', '<IIII')
        self.pd, _ = self.ask(ALLOC_PD, b'', '<II', size=12)

    def send(self, n, body, to, size):
        """0 or the errno."""
        head = struct.pack('<IHHQ', n, (16 + len(body)) // 4, size // 4, to)
        try:
            os.write(self.fd, head + body)
            return 0
        except OSError as e:
            return e.errno

    def ask(self, n, body, fmt, size=0):
        err = self.send(n, body, answer, size or struct.calcsize(fmt))
        if err:
            raise OSError(err, os.strerror(err))
        return struct.unpack(fmt, ctypes.string_at(answer, struct.calcsize(fmt)))

    def cq(self, cqe, to=answer):
        return self.send(CREATE_CQ, struct.pack('<QIIiI', 1, cqe, 0, -1, 0), to, 24)

    def cq_made(self, cqe):
        if self.cq(cqe):
            raise OSError
        return struct.unpack('<IIQII', ctypes.string_at(answer, 24))

    def resize_cq(self, cq, cqe, to=answer):
        return self.send(RESIZE_CQ, struct.pack('<II', cq, cqe), to, 24)

    def srq(self, wr, sge, to=answer):
        return self.send(CREATE_SRQ, struct.pack('<QIIII', 1, self.pd, wr, sge, 0), to, 40)

    def srq_made(self, wr, sge):
        if self.srq(wr, sge):
            raise OSError
        return struct.unpack('<IIIIQIII', ctypes.string_at(answer, 36))

    def modify_srq(self, srq, mask, wr, limit, resp=None):
        # the only command of these without an answer: no address of one, but where a new size is to be answered
        head = struct.pack('<IHH', MODIFY_SRQ, 6 if resp is None else 8, 0)
        try:
            os.write(self.fd, head + struct.pack('<IIII', srq, mask, wr, limit) +
                     (b'' if resp is None else struct.pack('<Q', resp)))
            return 0
        except OSError as e:
            return e.errno

    def srq_limit(self, srq):
        return self.ask(QUERY_SRQ, struct.pack('<II', srq, 0), '<IIII')[2]

    def post_srq(self, srq, n):
        wrs = struct.pack('<QII', 5, 0, 0) * n
        return self.send(POST_SRQ_RECV, struct.pack('<IIII', srq, n, 0, 16) + wrs, answer, 4)

    def destroy_srq(self, srq):
        return self.send(DESTROY_SRQ, struct.pack('<II', srq, 0), answer, 4)

    def destroy_qp(self, qp):
        return self.send(DESTROY_QP, struct.pack('<II', qp, 0), answer, 4)

    def qp(self, cq, caps, to=answer, srq=None):
        body = struct.pack('<QIIII5IBBBB', 1, self.pd, cq, cq, srq or 0, *caps, 0, RC, srq is not None, 0)
        return self.send(CREATE_QP, body, to, 32 + 40)

    def destroy_cq(self, cq):
        return self.send(DESTROY_CQ, struct.pack('<II', cq, 0), answer, 8)

    def mr(self, start, length, iova, access):
        body = struct.pack('<QQQII', start, length, iova, self.pd, access)
        return self.send(REG_MR, body, answer, 12)


def rings():
    return sum(any(f in line for f in ('spray_c', 'spray_q', 'spray_srq', 'spray_resize'))
               for line in open('/proc/vmallocinfo'))


def pinned():
    return next(int(line.split()[1]) for line in open('/proc/self/status') if 'VmPin' in line)


count = failed = 0


def expect(name, got, want):
    global count, failed
    count += 1
    failed += got != want
    print(f"{'ok' if got == want else 'not ok'} {count} - {name}" +
          ('' if got == want else f'\n#   got {got}, expected {want}'), flush=True)


u = Uverbs(sys.argv[1])
expect('ABI version', u.abi, 1)
before = rings()

expect('create_cq, no answer writable', {u.cq(100, closed) for _ in range(200)}, {EFAULT})
expect("create_cq, the driver's part not writable", {u.cq(100, closed - 8) for _ in range(200)}, {EFAULT})
for cqe, want in ((0, EINVAL), (1, 0), (MAX_CQE, 0), (MAX_CQE + 1, EINVAL), (0x7fffffff, EINVAL), (0xffffffff, EINVAL)):
    expect(f'create_cq, {cqe} entries', u.cq(cqe), want)
    if not want:
        u.destroy_cq(struct.unpack('<I', ctypes.string_at(answer, 4))[0])
expect('nothing left of these', rings(), before)

cq, cqe, off, size, entries = u.cq_made(100)
expect('entries are what was asked for or more', (cqe, entries), (128, 128))
for name, args in (('private', (size, PRIVATE, u.fd, off)), ('too short', (size - PAGE, SHARED, u.fd, off)),
                   ('too long', (size + PAGE, SHARED, u.fd, off)), ('off by a page', (size, SHARED, u.fd, off + PAGE)),
                   ('nowhere', (size, SHARED, u.fd, 1 << 40))):
    expect(f'mapping, {name}', mmap(*args), -EINVAL)
maps = [mmap(size, SHARED, u.fd, off) for _ in range(3)]
expect('mapped thrice', min(maps) > 0, True)
ctypes.memset(maps[0], 0xff, size)
expect('destroyed under its mappings', u.destroy_cq(cq), 0)
expect('which stay', ctypes.string_at(maps[1] + 200, 4), b'\xff' * 4)
expect('and are the last', mmap(size, SHARED, u.fd, off), -EINVAL)
for p in maps:
    libc.munmap(p, size)
expect('memory is given back', rings(), before)

cq, _, off, size, _ = u.cq_made(100)
p = mmap(size, SHARED, u.fd, off)
expect('resize_cq, no answer writable', {u.resize_cq(cq, 200, closed) for _ in range(200)}, {EFAULT})
expect("resize_cq, the driver's part not writable", {u.resize_cq(cq, 200, closed - 8) for _ in range(200)}, {EFAULT})
for cqe, want in ((0, EINVAL), (1, 0), (MAX_CQE, 0), (MAX_CQE + 1, EINVAL), (0xffffffff, EINVAL), (64, 0)):
    expect(f'resize_cq to {cqe}', u.resize_cq(cq, cqe), want)
_, _, new, newsize, entries = struct.unpack('<IIQII', ctypes.string_at(answer, 24))
expect('entries of the last', entries, 64)
expect('the old ring can no more be mapped', mmap(size, SHARED, u.fd, off), -EINVAL)
q = mmap(newsize, SHARED, u.fd, new)
expect('the new one can', q > 0, True)
ctypes.memset(p, 0xff, size)
expect('which is another', ctypes.string_at(q, 4), bytes(4))
ctypes.memset(q + 64, 0x80, 4)      # the consumer's index: more waits than there can be
expect('resize_cq with an index of nonsense, smaller', u.resize_cq(cq, 32), EINVAL)
expect('and larger', u.resize_cq(cq, 128), 0)
u.destroy_cq(cq)
libc.munmap(p, size), libc.munmap(q, newsize)
expect('all rings are gone', rings(), before)

expect('create_srq, no answer writable', {u.srq(100, 2, closed) for _ in range(200)}, {EFAULT})
expect("create_srq, the driver's part not writable", {u.srq(100, 2, closed - 16) for _ in range(200)}, {EFAULT})
for wr, sge, want in ((0, 1, EINVAL), (1, 0, 0), (MAX_WR, MAX_SGE, 0), (MAX_WR + 1, 1, EINVAL), (1, MAX_SGE + 1, EINVAL),
                      (0xffffffff, 0xffffffff, EINVAL)):
    expect(f'create_srq, {wr} of {sge}', u.srq(wr, sge), want)
    if not want:
        u.destroy_srq(struct.unpack('<I', ctypes.string_at(answer, 4))[0])
expect('nothing left of these', rings(), before)
srq, wr, sge, _, off, size, entries, slot = u.srq_made(100, 2)
expect('what it got', (wr, sge, entries, slot), (128, 2, 128, 64))
expect('its mapping, too long', mmap(size + PAGE, SHARED, u.fd, off), -EINVAL)
p = mmap(size, SHARED, u.fd, off)
expect('its mapping', p > 0, True)
expect('modify_srq, size without a place for the answer', u.modify_srq(srq, MAX_WR_BIT, 200, 0), EINVAL)
expect('modify_srq, size and limit, the same', (u.modify_srq(srq, 3, 200, 5), u.srq_limit(srq)), (EINVAL, 0))
expect('modify_srq, size, no answer writable', {u.modify_srq(srq, MAX_WR_BIT, 200, 0, closed) for _ in range(200)}, {EFAULT})
expect("modify_srq, size, the kernel's own memory", u.modify_srq(srq, MAX_WR_BIT, 200, 0, 0xffff888000000000), EFAULT)
for wr, want in ((0, EINVAL), (MAX_WR + 1, EINVAL), (0xffffffff, EINVAL)):
    expect(f'modify_srq, size {wr}', u.modify_srq(srq, MAX_WR_BIT, wr, 0, answer), want)
expect('modify_srq, a bit that is none', u.modify_srq(srq, 4, 200, 5, answer), EOPNOTSUPP)
expect('modify_srq, limit too high', u.modify_srq(srq, LIMIT_BIT, 0, 129), EINVAL)
expect('post by a command, not by the ring', u.post_srq(srq, 1), EINVAL)
ctypes.memset(p, 0xff, size)        # all of it, the producer's index included
expect('doorbell of a ring of nonsense', {u.post_srq(srq, 0) for _ in range(10)}, {0})
expect('which reads as full', (u.modify_srq(srq, LIMIT_BIT, 0, 128), u.srq_limit(srq)), (0, 128))
expect('modify_srq of a ring of nonsense, smaller', u.modify_srq(srq, MAX_WR_BIT, 64, 0, answer), EINVAL)
expect('and larger', u.modify_srq(srq, MAX_WR_BIT, 200, 0, answer), 0)
new, newsize, entries = struct.unpack('<QII', ctypes.string_at(answer, 16))
expect('entries of that', entries, 256)
expect('the old ring can no more be mapped', mmap(size, SHARED, u.fd, off), -EINVAL)
q = mmap(newsize, SHARED, u.fd, new)
expect('the new one can', q > 0, True)
expect('and goes on where the old one was, full', struct.unpack('<I', ctypes.string_at(q, 4))[0], 128)
expect('with what waits in it', ctypes.string_at(q + 128, 128 * slot), b'\xff' * (128 * slot))
libc.munmap(q, newsize)
cq = u.cq_made(100)[0]
expect('create_qp on it', u.qp(cq, (64, 64, 4, 4, 64), srq=srq), 0)
qp, _, *caps = struct.unpack('<IIIIIIII', ctypes.string_at(answer, 32))
expect('without a receive queue', (caps[1], caps[3]), (0, 0))
expect('destroy_srq in use', u.destroy_srq(srq), EBUSY)
u.destroy_qp(qp)
expect('destroy_srq under its mapping', u.destroy_srq(srq), 0)
expect('which stays', ctypes.string_at(p, 4), b'\xff' * 4)
libc.munmap(p, size)
u.destroy_cq(cq)
expect('memory is given back', rings(), before)

cq = u.cq_made(100)[0]
ok = (64, 64, 4, 4, 64)
expect('create_qp, no answer writable', {u.qp(cq, ok, closed) for _ in range(200)}, {EFAULT})
expect("create_qp, the driver's part not writable", {u.qp(cq, ok, closed - 32) for _ in range(200)}, {EFAULT})
expect('nothing left of these', rings(), before + 1)
for caps, want in (((0, 0, 0, 0, 0), 0), ((MAX_WR, MAX_WR, MAX_SGE, MAX_SGE, MAX_INLINE), 0),
                   ((MAX_WR + 1, 1, 1, 1, 0), EINVAL), ((1, MAX_WR + 1, 1, 1, 0), EINVAL),
                   ((1, 1, MAX_SGE + 1, 1, 0), EINVAL), ((1, 1, 1, MAX_SGE + 1, 0), EINVAL),
                   ((1, 1, 1, 1, MAX_INLINE + 1), EINVAL), ((0xffffffff,) * 5, EINVAL)):
    expect(f'create_qp, {caps}', u.qp(cq, caps), want)

knows_flush = tuple(map(int, os.uname().release.split('.')[:2])) >= (6, 2)
m = mmap(1 << 20, PRIVATE | ANON)
top = 1 << 64
for name, args, want in (
        ('no length', (m, 0, m, LOCAL_WRITE), EINVAL),
        ('one byte', (m, 1, m, LOCAL_WRITE), 0),
        ('up to the last address', (m, 1 << 20, top - (1 << 20), LOCAL_WRITE), 0),
        ('beyond the last address', (m, 1 << 20, top - (1 << 19), LOCAL_WRITE), EINVAL),
        ('start wraps', (top - PAGE, 2 * PAGE, top - PAGE, LOCAL_WRITE), EINVAL),
        ('other offset in the page', (m, PAGE, m + 1, LOCAL_WRITE), EINVAL),
        ('remote write without local', (m, PAGE, m, REMOTE_WRITE), EINVAL),
        ('optional access bit', (m, PAGE, m, RELAXED), 0),
        ('to be flushed', (m, PAGE, m, LOCAL_WRITE | FLUSH_GLOBAL), 0 if knows_flush else EINVAL),
        ('to be flushed, not to be written', (m, PAGE, m, REMOTE_READ | FLUSH_GLOBAL), 0 if knows_flush else EINVAL),
        ('persistent', (m, PAGE, m, FLUSH_PERSISTENT), EOPNOTSUPP if knows_flush else EINVAL),
        ('persistent, too', (m, PAGE, m, FLUSH_GLOBAL | FLUSH_PERSISTENT), EOPNOTSUPP if knows_flush else EINVAL),
        ('no memory there', (PAGE, PAGE, PAGE, LOCAL_WRITE), EFAULT)):
    expect(f'reg_mr, {name}', u.mr(*args), want)
expect('reg_mr, on demand', u.mr(m, PAGE, m, ON_DEMAND) != 0, True)
libc.mprotect(m, 1 << 20, 1)
expect('reg_mr, LOCAL_WRITE of memory that may not be written', u.mr(m, PAGE, m, LOCAL_WRITE), EFAULT)
expect('reg_mr, REMOTE_READ of it', u.mr(m, PAGE, m, REMOTE_READ), 0)
expect('pages are accounted', pinned() > 0, True)

os.close(u.fd)
os.close(u.async_fd)
expect('all goes with the context', (rings(), pinned()), (before, 0))
print(f'1..{count}')
sys.exit(failed != 0)
