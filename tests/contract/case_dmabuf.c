// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Regions of dma-bufs. The exporter is udmabuf: pages of a memfd, which the test sees by mmap. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract.h"

enum { PAGES = 8, OFFSET = 4096 + 128, LENGTH = 5 * 4096 + 77 };

struct dmabuf {
	uint8_t *p;	/* the memory, PAGES * 4096 bytes */
	int fd;
};

static struct dmabuf dmabuf_new(void)
{
	struct udmabuf_create c = { .size = PAGES * 4096 };
	int mem, dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct dmabuf d;

	if (dev < 0)
		ct_skip("no exporter of dma-bufs: /dev/udmabuf: %s", strerror(errno));
	mem = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	CHECK(mem >= 0, "memfd: %s", strerror(errno));
	c.memfd = mem;
	CHECK(!ftruncate(mem, c.size), "ftruncate: %s", strerror(errno));
	CHECK(!fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK), "seal: %s", strerror(errno));
	d.p = mmap(NULL, c.size, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	CHECK(d.p != MAP_FAILED, "mmap: %s", strerror(errno));
	d.fd = ioctl(dev, UDMABUF_CREATE, &c);
	CHECK(d.fd >= 0, "udmabuf: %s", strerror(errno));
	close(mem);
	close(dev);
	memset(d.p, POISON, PAGES * 4096);
	return d;
}

static void refused(struct ibv_pd *pd, int fd, uint64_t offset, size_t length, uint64_t iova,
		    unsigned int access, int err)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);

	CHECK(!mr && errno == err, "reg_dmabuf_mr(offset %llu, length %zu, iova 0x%llx, 0x%x): %s, "
	      "not %s", (unsigned long long)offset, length, (unsigned long long)iova, access,
	      mr ? "made" : strerror(errno), strerror(err));
}

static void around_is_poison(const struct dmabuf *d)
{
	poison_check(d->p, OFFSET, "before the region");
	poison_check(d->p + OFFSET + LENGTH, PAGES * 4096 - OFFSET - LENGTH, "behind the region");
}

CASE(dmabuf, "regions of a dma-buf: what is refused, SEND, WRITE, READ and ATOMIC on one, its life")
{
	struct conn_opt o = conn_defaults();
	struct ibv_pd *pd = ct_dev[1].pd;
	struct dmabuf d = dmabuf_new();
	const uint64_t iova = 0x123456000 + OFFSET % 4096;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, OFFSET, LENGTH, iova, d.fd, ACC_ALL);
	uint64_t pat = rnd64(), old;
	struct buf *b;
	struct ibv_send_wr wr;
	struct ibv_sge s;
	struct conn *c;

	if (!mr && errno == EOPNOTSUPP)
		ct_skip("no regions of dma-bufs");
	CHECK(mr, "reg_dmabuf_mr: %s", strerror(errno));
	refused(pd, d.fd, 0, 0, 0, ACC_LOCAL, EINVAL);
	refused(pd, d.fd, 0, PAGES * 4096 + 1, 0, ACC_LOCAL, EINVAL);
	refused(pd, d.fd, 4096, PAGES * 4096, 0, ACC_LOCAL, EINVAL);
	refused(pd, d.fd, 1ull << 63, 4096, 0, ACC_LOCAL, EINVAL);
	refused(pd, d.fd, 4096, ~0ul & ~4095ul, 0, ACC_LOCAL, EINVAL);
	refused(pd, d.fd, 1, 1, 0, ACC_LOCAL, EINVAL);		/* other places in their pages */
	refused(pd, d.fd, 0, 8192, ~0ull << 12, ACC_LOCAL, EINVAL);	/* the last byte has no address */
	refused(pd, d.fd, 0, 1, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	/* To be flushed: an exporter would have to be asked by calls that may sleep; nobody may demand it. */
	refused(pd, d.fd, 0, 1, 0, ACC_ALL | 1 << 8, EINVAL);
	refused(pd, -1, 0, 1, 0, ACC_LOCAL, EBADF);
	refused(pd, 1, 0, 1, 0, ACC_LOCAL, EINVAL);		/* a file of another kind */

	c = conn_new(&o);
	b = buf_new(&ct_dev[0], LENGTH, ACC_ALL);
	s = buf_sge(b, 0, LENGTH);
	pat_fill(b->p, LENGTH, pat, 0);
	wr = wr_make(IBV_WR_RDMA_WRITE, 1, &s, 1, IBV_SEND_SIGNALED);
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = mr->rkey;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	pat_check(d.p + OFFSET, LENGTH, pat, 0, "a WRITE into a dma-buf");
	around_is_poison(&d);

	pat_fill(d.p + OFFSET, LENGTH, ++pat, 0);
	wr.opcode = IBV_WR_RDMA_READ;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 1, IBV_WC_SUCCESS);
	pat_check(b->p, LENGTH, pat, 0, "a READ from a dma-buf");

	memcpy(&old, d.p + OFFSET, sizeof(old));
	s.length = 8;
	wr = wr_make(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, &s, 1, IBV_SEND_SIGNALED);
	wr.wr.atomic.remote_addr = iova;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 3;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(b->p, &old, 8), "what an ATOMIC found");
	old += 3;
	CHECK(!memcmp(d.p + OFFSET, &old, 8), "what an ATOMIC left");

	/* as a receive's memory, and as a SEND's */
	s = (struct ibv_sge) { .addr = iova, .length = LENGTH, .lkey = mr->lkey };
	post_recv(c->qp[1], 3, &s, 1);
	pat_fill(b->p, LENGTH, ++pat, 0);
	s = buf_sge(b, 0, LENGTH);
	wr = wr_make(IBV_WR_SEND, 3, &s, 1, IBV_SEND_SIGNALED);
	post_send(c->qp[0], &wr);
	cq_expect(c->rcq[1], c->qp[1], 3, IBV_WC_SUCCESS);
	cq_expect(c->scq[0], c->qp[0], 3, IBV_WC_SUCCESS);
	pat_check(d.p + OFFSET, LENGTH, pat, 0, "a SEND into a dma-buf");
	post_recv(c->qp[0], 4, &s, 1);
	pat_fill(d.p + OFFSET, LENGTH, ++pat, 0);
	s = (struct ibv_sge) { .addr = iova, .length = LENGTH, .lkey = mr->lkey };
	wr = wr_make(IBV_WR_SEND, 4, &s, 1, IBV_SEND_SIGNALED);
	post_send(c->qp[1], &wr);
	cq_expect(c->rcq[0], c->qp[0], 4, IBV_WC_SUCCESS);
	cq_expect(c->scq[1], c->qp[1], 4, IBV_WC_SUCCESS);
	pat_check(b->p, LENGTH, pat, 0, "a SEND from a dma-buf");
	around_is_poison(&d);

	ct_doing("WRITEs after the file and the process's mapping are gone");
	close(d.fd);
	munmap(d.p, PAGES * 4096);
	s = buf_sge(b, 0, LENGTH);
	wr = wr_make(IBV_WR_RDMA_WRITE, 5, &s, 1, IBV_SEND_SIGNALED);
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = mr->rkey;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 5, IBV_WC_SUCCESS);
	wr.wr.rdma.remote_addr = iova + 1;
	post_send(c->qp[0], &wr);
	cq_expect(c->scq[0], c->qp[0], 5, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr), "dereg_mr: %s", strerror(errno));
}
