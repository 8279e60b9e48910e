#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Errors of locking and lifetime, put into a copy of the driver one at a time: does the debug lane see them?

    mutate.py [-k] [NAME...]     default: all of them; -k: go on when one is not seen

A mutation is seen when its guest test fails, or the kernel log is not clean. TAP, and who saw it. Each costs a
build of the module and a guest of a minute or two. Run it after a change of locks, or of the tests that should
notice.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("SPRAY_CACHE", os.path.expanduser("~/.cache/rdma_spray"))
COPY = os.path.join(CACHE, "mutated")

RACE = ["-e", "SPRAY_ONLY=^direct/[0-9]*$", "race", "direct"]
EVENTS = ["-e", "SPRAY_ONLY=^direct/events$", "race", "direct"]
ENDS = ["-e", "SPRAY_ONLY=^direct/[0-9]* ends$", "race", "direct"]
DEREG = ["-e", "SPRAY_SEEDS=1 2 3 4", "-e", "SPRAY_CONTRACT_ARGS=-q -t responder_dereg,local_dereg_in_flight,read_source_dereg", "contract", "clean"]
MIXED = ["-e", "SPRAY_ONLY=^mixed/[0-9]*$", "race", "mixed"]


def storm(only):
    return ["-e", f"SPRAY_ONLY=^(works|{only})$", "storm"]


# name, file in driver/, what stands there, what comes instead, test
MUTATIONS = [
    ("destroy_qp does not wait for who holds the QP", "qp.c",
     "\tspray_qp_put(qp);\n\twait_for_completion(&qp->gone);\n",
     "\tspray_qp_put(qp);\n", ENDS),
    ("destroy_qp does not cancel the requester's timer", "qp.c",
     "\thrtimer_cancel(&qp->req.timer.t);\n", "", RACE),
    ("dereg_mr does not wait for copiers", "mr.c",
     "\tspray_mr_put(mr);\n\twait_for_completion(&mr->gone);\n",
     "\tspray_mr_put(mr);\n", DEREG),
    ("a key is changed while it is copied through", "mr.c",
     "\twhile (refcount_read(&mr->ref) > 2)\n\t\tcpu_relax();\n", "", ENDS),
    ("an MR is freed at once, not after RCU readers", "mr.c",
     "SPRAY_OBJ_MR);\n\tkfree_rcu(mr, rcu);\n",
     "SPRAY_OBJ_MR);\n\tkfree(mr);\n", DEREG),
    ("QPs are looked up without the table's lock", "qp.c",
     "\txa_lock_bh(&spray_qps);\n\tqp = xa_load(&spray_qps, qpn);\n"
     "\tif (qp && (qp->dev->sn != sn || !refcount_inc_not_zero(&qp->ref)))\n\t\tqp = NULL;\n\txa_unlock_bh(&spray_qps);\n",
     "\trcu_read_lock();\n\tqp = xa_load(&spray_qps, qpn);\n\tspray_jitter();\n"
     "\tif (qp && (qp->dev->sn != sn || !refcount_inc_not_zero(&qp->ref)))\n\t\tqp = NULL;\n\trcu_read_unlock();\n", ENDS),
    ("the CQ looks whether it is armed before the entry is there", "cq.c",
     "\tif (!spray_cq_append(cq, c, qp)) {\n\t\tdue = !test_and_set_bit(SPRAY_CQ_OVERFLOW, &cq->events);\n"
     "\t} else if (spray_cq_disarm(cq, solicited)) {\n",
     "\tdue = spray_cq_disarm(cq, solicited);\n\tif (!spray_cq_append(cq, c, qp)) {\n"
     "\t\tdue = !test_and_set_bit(SPRAY_CQ_OVERFLOW, &cq->events);\n\t} else if (due) {\n", EVENTS),
    ("the CQ's lock is not taken to post", "cq.c",
     "\tspin_lock_irqsave(&cq->lock, flags);\n\tif (!spray_cq_append",
     "\tlocal_irq_save(flags);\n\tif (!spray_cq_append", RACE),
    ("destroy_cq does not end the tasklet", "cq.c",
     "\ttasklet_kill(&cq->task);\n", "", EVENTS),
    ("a receive completes before its last bytes are there", "receive.c",
     "\terr = spray_place_send(qp, rqe, p, data, len);\n\tif (err)\n\t\treturn spray_fail_recv(qp, IB_WC_LOC_PROT_ERR, TP_NAK_REM_OP);\n"
     "\tif (!p->last)\n\t\treturn SPRAY_RAN;\n",
     "\tif (p->last && !p->has_inv) {\n\t\tstruct spray_rqe *own = kmemdup(rqe, qp->resp.rq.slot, GFP_ATOMIC);\n\n"
     "\t\tspray_recv_done(qp, p);\n\t\terr = spray_place_send(qp, own ?: rqe, p, data, len);\n\t\tkfree(own);\n\t\treturn SPRAY_RAN_RECV;\n\t}\n"
     "\terr = spray_place_send(qp, rqe, p, data, len);\n\tif (err)\n\t\treturn spray_fail_recv(qp, IB_WC_LOC_PROT_ERR, TP_NAK_REM_OP);\n"
     "\tif (!p->last)\n\t\treturn SPRAY_RAN;\n", RACE),
    ("the responder goes on placing after ERR", "qp.c",
     "\tqp->resp.last_wqe |= qp->ib.srq && !qp->resp.flushing;\n\tqp->resp.live = false;\n",
     "\tqp->resp.last_wqe |= qp->ib.srq && !qp->resp.flushing;\n", RACE),
    ("ERR does not flush the receive queue", "qp.c",
     "\tspray_rq_leave(qp);\n\tspray_flush_rq(qp);\n", "\tspray_rq_leave(qp);\n", RACE),
    ("ERR does not drop what the responder holds, RESET and destroy neither", "receive.c",
     "\txa_for_each(&h->pkts, psn, held)\n\t\tspray_hold_del(qp, h, held);\n", "\tpsn = 0;\n\theld = NULL;\n", MIXED),
    ("locks of devices and of destinations are taken in either order", "udp.c",
     "\tif (!old)\n\t\thash_add(dev->peers, &p->node, hash);\n",
     "\tif (!old) {\n\t\thash_add(dev->peers, &p->node, hash);\n\t\tspin_lock(&dev->sn->devs_lock);\n\t\tspin_unlock(&dev->sn->devs_lock);\n\t}\n", RACE),
    ("modify takes the requester's lock with softirqs on", "qp.c",
     "\tspin_lock_bh(&qp->req.lock);\n\tqp->req.drain = on;\n\tqp->req.drained_told = !on;\n\tspin_unlock_bh(&qp->req.lock);\n",
     "\tspin_lock(&qp->req.lock);\n\tqp->req.drain = on;\n\tqp->req.drained_told = !on;\n\tspin_unlock(&qp->req.lock);\n", RACE),
    ("a timer serves its half without the lock", "send.c",
     "\tspin_lock_bh(&qp->req.lock);\n\tqp->req.timer.armed = ~0ULL;\n\tif (qp->req.live) {\n"
     "\t\ttp_req_timeout(&qp->req.core, ktime_get_ns());\n\t\t__spray_req_pump(qp);\n\t}\n\tspin_unlock_bh(&qp->req.lock);\n",
     "\tqp->req.timer.armed = ~0ULL;\n\tif (qp->req.live) {\n"
     "\t\ttp_req_timeout(&qp->req.core, ktime_get_ns());\n\t\t__spray_req_pump(qp);\n\t}\n", RACE),
    ("what is held is allocated with GFP_KERNEL", "receive.c",
     "held = kmalloc(struct_size(held, data, len), GFP_ATOMIC | __GFP_NOWARN);",
     "held = kmalloc(struct_size(held, data, len), GFP_KERNEL | __GFP_NOWARN);", MIXED),
    ("a batch keeps its reference to one QP in 4096", "receive.c",
     "\t\tspray_qp_put(rx->touched[i].qp);\n",
     "\t\tif (get_random_u32() & 4095)\n\t\t\tspray_qp_put(rx->touched[i].qp);\n", RACE),
    ("destinations are not released with their QP", "qp.c",
     "\tspray_peer_put(qp->peer);\n\tqp->peer = NULL;\n", "\tqp->peer = NULL;\n", RACE),
    ("sockets close without waiting for receivers", "udp.c",
     "\tsynchronize_net();\n\tsock_release(sock);\n", "\tsock_release(sock);\n", storm("packets in flight.*")),
    ("the reference to the net_device is not returned", "dev.c",
     "\t\tnetdev_put(dev->ndev, &dev->tracker);\n", "", storm("link on a dummy")),
    ("pages stay pinned after dereg_mr", "mr.c",
     "\tib_umem_release(mr->umem);\n\tkvfree(mr->pages);\n",
     "\tkvfree(mr->pages);\n", ["-e", "SPRAY_OBJECTS=1000", "objects"]),
    ("create_cq frees its memory twice when the copy to the user fails", "cq.c",
     "\tif (err)\n\t\tspray_cq_mem_free(m);\n\treturn err;\n",
     "\tif (err) {\n\t\tspray_cq_mem_free(m);\n\t\tif (m->mmap)\n\t\t\tvfree(m->ctl);\n\t}\n\treturn err;\n", storm("fault injection|allocations and copies fail")),
    ("a failed create_qp leaves its queues", "qp.c",
     "fail:\n\tspray_qp_free(qp);\n", "fail:\n", storm("fault injection|allocations and copies fail")),
    ("the module goes without waiting for RCU callbacks, the device too", "dev.c",
     "\trcu_barrier();\n\tWARN_ON_ONCE(", "\tWARN_ON_ONCE(", storm("kill -9 anywhere|links come and go while MAC.*")),
]


def copy_tree():
    r = subprocess.run(["rsync", "-a", "--delete", "--itemize-changes", "--exclude=/.git", "--filter=:- .gitignore", TOP + "/",
                        COPY + "/"], check=True, stdout=subprocess.PIPE, text=True)
    # an original that comes back is older than the object made of its mutation
    for line in r.stdout.splitlines():
        if line.startswith(">f"):
            os.utime(os.path.join(COPY, line.split(" ", 1)[1]))


def apply(file, old, new):
    path = os.path.join(COPY, "driver", file)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        raise SystemExit(f"{file}: {text.count(old)} places for\n{old}")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))


def guest(test, out):
    """Returns lines that say what was seen, or None when all was well."""
    env = {"SPRAY_RACE_SECONDS": "20", "SPRAY_JITTER": "4000", **os.environ}
    r = subprocess.run([os.path.join(COPY, "tests/uml/run.sh"), "-t", "600", "-o", out] + test, env=env, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if r.returncode == 0:
        return None
    seen = [line for line in r.stdout.splitlines() if re.match(r"not ok|# FAILED|.*(BUG|WARNING|KASAN|kmemleak)", line)]
    return seen or r.stdout.splitlines()[-3:]


def main():
    names = [a for a in sys.argv[1:] if a != "-k"]
    todo = [m for m in MUTATIONS if not names or any(n in m[0] for n in names)]
    print(f"1..{len(todo)}", flush=True)
    missed = 0
    for i, (name, file, old, new, test) in enumerate(todo, 1):
        copy_tree()
        apply(file, old, new)
        seen = guest(test, os.path.join(CACHE, "mutated-out", str(i)))
        print(f"{'ok' if seen else 'not ok'} {i} - {name}: {'seen' if seen else 'NOT SEEN'} by {' '.join(w for w in test if w != '-e')}")
        for line in (seen or [])[:4]:
            print("#   " + line[:160])
        sys.stdout.flush()
        missed += not seen
        if not seen and "-k" not in sys.argv:
            break
    print(f"# {len(todo) - missed} seen, {missed} not")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
