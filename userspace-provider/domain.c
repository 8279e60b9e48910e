// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains, thread domains, and parent domains, which join the two and bring an
 * allocator. A parent domain exists in this process only: to the kernel it is its PD.
 */
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>

#include "spray-cmd.h"
#include "spray.h"

static void count(int *users, int n)
{
	__atomic_fetch_add(users, n, __ATOMIC_ACQ_REL);
}

static bool in_use(const int *users)
{
	return __atomic_load_n(users, __ATOMIC_ACQUIRE);
}

struct ibv_pd *spray_alloc_pd(struct ibv_context *ibctx)
{
	struct spray_alloc_pd_cmd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct spray_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	ret = ibv_cmd_alloc_pd(ibctx, &pd->ibpd, &cmd, sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->ibpd;
}

static int dealloc_parent(struct spray_pd *pd)
{
	if (in_use(&pd->users))
		return EBUSY;
	if (pd->td)
		count(&pd->td->users, -1);
	count(&pd->protection->users, -1);
	free(pd);
	return 0;
}

int spray_dealloc_pd(struct ibv_pd *ibpd)
{
	struct spray_pd *pd = to_spray_pd(ibpd);
	int ret;

	if (pd->protection)
		return dealloc_parent(pd);
	if (in_use(&pd->users))
		return EBUSY;
	ret = ibv_cmd_dealloc_pd(ibpd);
	if (!ret)
		free(pd);
	return ret;
}

/* Another process's or context's: the kernel looks at the handle whenever it is used. */
struct ibv_pd *spray_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	struct spray_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ibpd.context = ibctx;
	pd->ibpd.handle = handle;
	return &pd->ibpd;
}

void spray_unimport_pd(struct ibv_pd *ibpd)
{
	free(to_spray_pd(ibpd));
}

struct ibv_td *spray_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr)
{
	struct spray_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->ibtd.context = ibctx;
	return &td->ibtd;
}

int spray_dealloc_td(struct ibv_td *ibtd)
{
	struct spray_td *td = container_of(ibtd, struct spray_td, ibtd);

	if (in_use(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

static int check_parent(const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if (!attr->pd || to_spray_pd(attr->pd)->protection)
		return EINVAL;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *spray_alloc_parent_domain(struct ibv_context *ibctx,
					 struct ibv_parent_domain_init_attr *attr)
{
	struct spray_pd *pd;

	(void)ibctx;
	errno = check_parent(attr);
	if (errno)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	ibv_initialize_parent_domain(&pd->ibpd, attr->pd);
	pd->protection = to_spray_pd(attr->pd);
	count(&pd->protection->users, 1);
	if (attr->td) {
		pd->td = container_of(attr->td, struct spray_td, ibtd);
		count(&pd->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	return &pd->ibpd;
}

bool spray_single_threaded(const struct ibv_pd *ibpd)
{
	return to_spray_pd(ibpd)->td != NULL;
}

/* --- memory of objects --- */

static uint64_t resource_type(enum spray_resource what)
{
	return (uint64_t)SPRAY_DRIVER_ID << 32 | what;
}

/*
 * Rings are the kernel's memory, mapped; what a parent domain's allocator can give is the
 * provider's own part of an object. In front of it stands where it came from.
 */
struct origin {
	alignas(max_align_t) struct spray_pd *owner;	/* parent domain that the object is in, or NULL */
	bool foreign;					/* its allocator gave the memory */
	enum spray_resource what;
};

void *spray_object_alloc(struct ibv_pd *ibpd, size_t size, enum spray_resource what)
{
	struct spray_pd *pd = ibpd && to_spray_pd(ibpd)->protection ? to_spray_pd(ibpd) : NULL;
	struct origin *o = IBV_ALLOCATOR_USE_DEFAULT;
	bool foreign;

	size += sizeof(*o);
	if (pd && pd->alloc)
		o = pd->alloc(ibpd, pd->pd_context, size, alignof(max_align_t),
			      resource_type(what));
	foreign = o != IBV_ALLOCATOR_USE_DEFAULT;
	if (!foreign)
		o = malloc(size);
	if (!o)
		return NULL;
	memset(o, 0, size);
	*o = (struct origin) { .owner = pd, .foreign = foreign, .what = what };
	if (pd)		/* the kernel does not know it: it stays as long as its objects do */
		count(&pd->users, 1);
	return o + 1;
}

void spray_object_free(void *p)
{
	struct origin *o = (struct origin *)p - 1;
	struct spray_pd *pd;

	if (!p)
		return;
	pd = o->owner;
	if (o->foreign)
		pd->free(&pd->ibpd, pd->pd_context, o, resource_type(o->what));
	else
		free(o);
	if (pd)
		count(&pd->users, -1);
}
