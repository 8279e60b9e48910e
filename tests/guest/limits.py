# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""limits.py DEVICE GID-INDEX NETDEV: what query_device promises, reached and not passed. Speaks TAP.

Counts of the whole device (the module was loaded with a small max_objects), capability bits, and the limits of
modify_qp. Sizes of single objects are in uverbs.py and in the contract's cases limits_refused, srq_limits,
several_sges, inline_data, sq_full, rq_full, atomics_exact_max and huge_too_long.
"""
import errno, os, signal, subprocess, sys

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
try:
    import pyverbs.enums as e
except ImportError:
    import pyverbs.libibverbs_enums as e

dev, gid_index, netdev = sys.argv[1], int(sys.argv[2]), sys.argv[3]
count = 0


def expect(name, got, want):
    global count
    count += 1
    good = got == want
    print(f"{'ok' if good else 'not ok'} {count} - {name}" + ('' if good else f'\n#   got {got}, expected {want}'), flush=True)
    return good


def err_of(f):
    try:
        f()
        return 0
    except PyverbsRDMAError as x:
        return x.error_code


ctx = Context(name=dev)
attr = ctx.query_device()

# --- every capability bit, and who uses it ---

USED = {
    7: ('CURR_QP_STATE_MOD', 'below'),
    10: ('PORT_ACTIVE_EVENT', 'below'),
    11: ('SYS_IMAGE_GUID', 'contract: query_device'),
    12: ('RC_RNR_NAK_GEN', 'contract: rnr_*'),
    13: ('SRQ_RESIZE', 'contract: srq_resize*; pyverbs: test_srq'),
    17: ('MEM_WINDOW', 'contract: window_type_1; pyverbs: test_mr'),
    21: ('MEM_MGT_EXTENSIONS', 'ulp: NVMe, RDS (REG_MR); contract: keys_in_order, send_with_invalidate (LOCAL_INV, SEND_WITH_INV)'),
    24: ('MEM_WINDOW_TYPE_2B', 'contract: window_type_2; pyverbs: test_mr'),
}
if tuple(map(int, os.uname().release.split('.')[:2])) >= (6, 2):    # else the kernel's core has no names for them
    USED[38] = ('FLUSH_GLOBAL', 'contract: flush_*, placement_*; pyverbs: test_qpex')
    USED[40] = ('ATOMIC_WRITE', 'contract: atomic_write*, placement_*; pyverbs: test_qpex')
flags = ctx.query_device_ex().device_cap_flags_ex | attr.device_cap_flags       # some are beyond bit 31
shown = {b for b in range(64) if flags >> b & 1}
expect('capability bits are those that some test uses', sorted(shown), sorted(USED))
for b in sorted(shown):
    print(f'# {USED.get(b, ("?", "?"))[0]}: {USED.get(b, ("?", "no test"))[1]}')
expect('atomics', attr.atomic_caps, e.IBV_ATOMIC_HCA)       # contract: atomic*; pyverbs: test_atomic

# --- counts ---


def there(kind):
    """How many of that kind the device has, by ib_core's own list (the kernel's own objects included)."""
    out = subprocess.run(['rdma', 'resource', 'show'], check=True, capture_output=True, text=True).stdout
    words = next(l for l in out.splitlines() if f' {dev}:' in l).split()
    return int(words[words.index(kind) + 1]) if kind in words else 0


kernel_pds = there('pd')            # with a region of all memory each, which no list shows
pd, cq = PD(ctx), CQ(ctx, 1, None, None, 0)
grh = GlobalRoute(dgid=ctx.query_gid(1, gid_index), sgid_index=gid_index)
cap = QPCap(1, 1, 1, 1)
KINDS = (
    ('pd', 'max_pd', lambda: PD(ctx)),
    ('cq', 'max_cq', lambda: CQ(ctx, 1, None, None, 0)),
    ('qp', 'max_qp', lambda: QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))),
    ('srq', 'max_srq', lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=1, max_sge=1)))),
    ('mr', 'max_mr', lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)),
    ('mw', 'max_mw', lambda: MW(pd, e.IBV_MW_TYPE_1)),
    ('ah', 'max_ah', lambda: AH(pd, attr=AHAttr(gr=grh, is_global=1, port_num=1))),
)
for kind, limit, make in KINDS:
    most = getattr(attr, limit)
    before = there(kind) + (kernel_pds if kind == 'mr' else 0)
    for again in ('', ', again'):
        made = []
        err = 0
        while not err and len(made) <= most:
            err = err_of(lambda: made.append(make()))
        if expect(f'{limit} {most}{again}: one more', err, errno.ENOMEM):
            expect(f'{limit} {most}{again}: so many', len(made) + before, most)
        made.pop().close()
        expect(f'{limit} {most}{again}: one less, one more', err_of(lambda: made.append(make())), 0)
        expect(f'{limit} {most}{again}: no more', err_of(lambda: made.append(make())), errno.ENOMEM)
        while made:
            made.pop().close()

# --- what a QP may be set to ---

qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))


def to(state, mask, **over):
    a = QPAttr(qp_state=state, port_num=1)
    a.qp_access_flags = 0
    a.path_mtu = e.IBV_MTU_1024
    a.dest_qp_num = qp.qp_num
    a.rq_psn = a.sq_psn = 0
    a.max_dest_rd_atomic = a.max_rd_atomic = 1
    a.min_rnr_timer = 12
    a.timeout, a.retry_cnt, a.rnr_retry = 14, 7, 7
    a.ah_attr = AHAttr(gr=grh, is_global=1, port_num=1)
    for k, v in over.items():
        setattr(a, k, v)
    return err_of(lambda: qp.modify(a, e.IBV_QP_STATE | mask))


INIT = e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
RTR = (e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN | e.IBV_QP_MAX_DEST_RD_ATOMIC |
       e.IBV_QP_MIN_RNR_TIMER)
RTS = (e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_SQ_PSN | e.IBV_QP_MAX_QP_RD_ATOMIC)
expect(f'pkey_index {attr.max_pkeys}', to(e.IBV_QPS_INIT, INIT, pkey_index=attr.max_pkeys), errno.EINVAL)
expect('port 2', to(e.IBV_QPS_INIT, INIT, port_num=attr.phys_port_cnt + 1), errno.EINVAL)
expect(f'pkey_index {attr.max_pkeys - 1}', to(e.IBV_QPS_INIT, INIT, pkey_index=attr.max_pkeys - 1), 0)
most = attr.max_qp_rd_atom
expect(f'max_dest_rd_atomic {most + 1}', to(e.IBV_QPS_RTR, RTR, max_dest_rd_atomic=most + 1), errno.EINVAL)
expect('min_rnr_timer 32', to(e.IBV_QPS_RTR, RTR, min_rnr_timer=32), errno.EINVAL)
expect('path_mtu above 4096', to(e.IBV_QPS_RTR, RTR, path_mtu=6), errno.EINVAL)
expect(f'max_dest_rd_atomic {most}', to(e.IBV_QPS_RTR, RTR, max_dest_rd_atomic=most, min_rnr_timer=31), 0)
most = attr.max_qp_init_rd_atom
expect(f'max_rd_atomic {most + 1}', to(e.IBV_QPS_RTS, RTS, max_rd_atomic=most + 1), errno.EINVAL)
for name, field, high in (('timeout', 'timeout', 31), ('retry_cnt', 'retry_cnt', 7), ('rnr_retry', 'rnr_retry', 7)):
    expect(f'{name} {high + 1}', to(e.IBV_QPS_RTS, RTS, **{field: high + 1}), errno.EINVAL)
expect(f'max_rd_atomic {most}, timeout 31', to(e.IBV_QPS_RTS, RTS, max_rd_atomic=most, timeout=31), 0)
expect('SQD', to(e.IBV_QPS_SQD, 0), 0)
expect('back to RTS, said to come from SQD', to(e.IBV_QPS_RTS, e.IBV_QP_CUR_STATE, cur_qp_state=e.IBV_QPS_SQD), 0)
expect('said to come from SQD, in RTS', to(e.IBV_QPS_RTS, e.IBV_QP_CUR_STATE, cur_qp_state=e.IBV_QPS_SQD), 0)
expect('state', qp.query(0)[0].qp_state, e.IBV_QPS_RTS)
qp.close()

# --- the port's events ---

watch = subprocess.Popen(['stdbuf', '-oL', 'ibv_asyncwatch', '-d', dev], stdout=subprocess.PIPE, text=True)
first = watch.stdout.readline()
expect('ibv_asyncwatch', 'spray' in first or dev in first, True)
subprocess.run(['ip', 'link', 'set', netdev, 'down'], check=True)
subprocess.run(['ip', 'link', 'set', netdev, 'up'], check=True)
seen = []
signal.alarm(60)
while len(seen) < 2:
    line = watch.stdout.readline()
    print('# ' + line.strip())
    seen += [n for n in ('PORT_ERR', 'PORT_ACTIVE') if n in line]
expect('port events of a net_device that goes down and up', seen, ['PORT_ERR', 'PORT_ACTIVE'])
watch.kill()
cq.close()
pd.close()
print(f'1..{count}')
