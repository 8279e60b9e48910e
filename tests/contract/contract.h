/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * spray_contract: tests of the RC contract through plain libibverbs.
 *
 * One process opens both devices, so that requester and responder can be watched at the same
 * moment: what a completion or a flag promises is checked in the instruction after it is seen.
 *
 * A case is a function written with CASE(). It allocates through the ct_* and conn_* calls, which
 * remember what they made: a failed check jumps out of the case and everything is torn down.
 */
#ifndef SPRAY_CONTRACT_H
#define SPRAY_CONTRACT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define min_t(t, a, b) ((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b) ((t)(a) > (t)(b) ? (t)(a) : (t)(b))
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))

#define KIB 1024ul
#define MIB (1024ul * KIB)
#define GIB (1024ul * MIB)

/* ---- cases ---------------------------------------------------------------------------------- */

#define CF_HUGE 1u /* only when named with -t, or with -L */
#define CF_NAMED 2u /* only when named with -t: RC does not promise it */

struct ct_case {
	const char *name, *desc;
	unsigned int flags;
	void (*fn)(void);
	int order;
};

void ct_register(struct ct_case *c);

/* Cases run in the order in which they are written, file by file as the Makefile links them. */
#define CASE_F(_name, _flags, _desc)                                                              \
	static void case_##_name(void);                                                           \
	static struct ct_case case_def_##_name = { #_name, _desc, _flags, case_##_name, 0 };      \
	static void __attribute__((constructor)) case_reg_##_name(void)                           \
	{                                                                                         \
		ct_register(&case_def_##_name);                                                   \
	}                                                                                         \
	static void case_##_name(void)
#define CASE(_name, _desc) CASE_F(_name, 0, _desc)

/* ---- checks --------------------------------------------------------------------------------- */

void ct_fail_at(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void ct_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* What the case is about to do: printed with a failure. */
void ct_doing(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line of TAP comment. */
void ct_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define ct_fail(...) ct_fail_at(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond, ...)                                                                          \
	do {                                                                                      \
		if (!(cond))                                                                      \
			ct_fail_at(__FILE__, __LINE__, #cond ": " __VA_ARGS__);                   \
	} while (0)

#define CHECK_EQ(seen, expected, what)                                                            \
	do {                                                                                      \
		unsigned long long _s = (unsigned long long)(seen);                               \
		unsigned long long _e = (unsigned long long)(expected);                           \
		if (_s != _e)                                                                     \
			ct_fail_at(__FILE__, __LINE__, "%s: expected %llu (0x%llx), saw %llu "    \
				   "(0x%llx)", what, _e, _e, _s, _s);                             \
	} while (0)

/* ---- time, chance --------------------------------------------------------------------------- */

uint64_t ct_now_ns(void);
void ct_sleep_ms(unsigned int ms);
/* A loop that waits calls this: yields, after a while sleeps shortly; fails past the deadline. */
struct ct_wait {
	uint64_t start, deadline;
	unsigned int spins;
};
void ct_wait_start(struct ct_wait *w);
bool ct_wait_step(struct ct_wait *w); /* false: too late */

extern unsigned int ct_deadline_s; /* per operation */
extern bool ct_quick, ct_no_events;
/* Rounds of a loop: the full number, or the quick one with -q. */
#define ROUNDS(full, quick) (ct_quick ? (quick) : (full))

uint64_t rnd64(void); /* seeded per case */
static inline uint32_t rnd(uint32_t n) /* 0 .. n-1 */
{
	return n ? rnd64() % n : 0;
}
static inline uint32_t rnd_in(uint32_t lo, uint32_t hi) /* lo .. hi */
{
	return lo + rnd(hi - lo + 1);
}

/* ---- devices -------------------------------------------------------------------------------- */

struct dev {
	char name[64];
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	unsigned int gid_index;
	enum ibv_mtu mtu; /* the smaller active_mtu of both */
};

extern struct dev ct_dev[2];

/* Opens both and picks GIDs of one family (4, 6 or 0: IPv4 if there is) or of @index "I[:J]". */
void devs_open(const char *const name[2], int family, const char *index);
void devs_close(void);

static inline size_t mtu_bytes(enum ibv_mtu m)
{
	return 128ul << m;
}

/* ---- memory --------------------------------------------------------------------------------- */

#define POISON 0xA5
#define GUARD 256ul
#define ACC_LOCAL IBV_ACCESS_LOCAL_WRITE
#define ACC_ALL                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |              \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* A registered buffer with guard bytes on either side; starts `skew` bytes into a page + GUARD. */
struct buf {
	struct dev *dev;
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
	uint8_t *map;
	size_t map_len;
};

struct buf *buf_new(struct dev *dev, size_t len, unsigned int access);
struct buf *buf_new_skew(struct dev *dev, size_t len, unsigned int access, size_t skew);
void buf_dereg(struct buf *b);
void buf_guards_at(const char *file, int line, const struct buf *b);
#define buf_guards(b) buf_guards_at(__FILE__, __LINE__, b)
static inline uint64_t buf_va(const struct buf *b, size_t off)
{
	return (uintptr_t)b->p + off;
}
static inline struct ibv_sge buf_sge(const struct buf *b, size_t off, size_t len)
{
	return (struct ibv_sge){ .addr = buf_va(b, off), .length = len, .lkey = b->mr->lkey };
}

/* Patterns: byte i of pattern `seed`; a piece of it can be made or checked from any offset. */
void pat_fill(void *p, size_t len, uint64_t seed, size_t from);
/* Offset of the first byte that differs, or -1. */
ssize_t pat_diff(const void *p, size_t len, uint64_t seed, size_t from);
uint8_t pat_byte(uint64_t seed, size_t i);
void pat_check_at(const char *file, int line, const void *p, size_t len, uint64_t seed,
		  size_t from, const char *what);
#define pat_check(p, len, seed, from, what) \
	pat_check_at(__FILE__, __LINE__, p, len, seed, from, what)

void poison(void *p, size_t len);
/* Memory that was filled with another value and must still be. */
void filled_check_at(const char *file, int line, const void *p, size_t len, uint8_t value,
		     const char *what);
#define filled_check(p, len, v, what) filled_check_at(__FILE__, __LINE__, p, len, v, what)
void poison_check_at(const char *file, int line, const void *p, size_t len, const char *what);
#define poison_check(p, len, what) poison_check_at(__FILE__, __LINE__, p, len, what)

/* A message in several pieces of one buffer, at odd places, with poisoned gaps between them. */
#define SGL_MAX 64
struct sgl {
	struct buf *b;
	int n;
	size_t off[SGL_MAX], len[SGL_MAX];
	struct ibv_sge sge[SGL_MAX];
	size_t start, total, span;
};

/* span needed: sgl_room(total, n). All of that room is poisoned. */
static inline size_t sgl_room(size_t total, int n)
{
	return total + 16ul * (n + 1);
}
void sgl_build(struct sgl *s, struct buf *b, size_t off, size_t total, int n);
void sgl_fill(struct sgl *s, uint64_t seed);
/* The first `len` bytes hold the pattern, everything else in the span is poison. */
void sgl_check_at(const char *file, int line, struct sgl *s, uint64_t seed, size_t len);
#define sgl_check(s, seed, len) sgl_check_at(__FILE__, __LINE__, s, seed, len)

/* ---- other objects -------------------------------------------------------------------------- */

struct ibv_pd *ct_pd(struct dev *d);
struct ibv_cq *ct_cq(struct dev *d, int cqe, struct ibv_comp_channel *ch);
struct ibv_comp_channel *ct_channel(struct dev *d);
void ct_destroy_cq(struct ibv_cq *cq);
struct ibv_srq *ct_srq(struct ibv_pd *pd, uint32_t wr, uint32_t sge);
void ct_destroy_srq(struct ibv_srq *srq);
void *ct_alloc(size_t n); /* zeroed, freed after the case */
/* For loops that make much: undo what was made since the mark. */
int ct_mark(void);
void ct_release(int mark);

/* ---- connections ---------------------------------------------------------------------------- */

struct conn_opt {
	struct dev *dev[2];
	uint32_t sq, rq, send_sge, recv_sge, inline_data;
	uint32_t rd_atomic;      /* as requester */
	uint32_t dest_rd_atomic; /* as responder */
	uint32_t psn[2];         /* sq_psn of either end */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr;
	unsigned int access[2]; /* qp_access_flags */
	bool one_cq;            /* send and receive of an end share a CQ */
	struct ibv_cq *scq[2], *rcq[2]; /* given from outside */
	struct ibv_srq *srq[2];		/* the same; that end has no receive queue then */
	struct ibv_comp_channel *ch[2];
	uint32_t cqe; /* 0: as many as can be outstanding */
	bool sig_all;
	enum ibv_mtu mtu;
	uint64_t send_ops; /* IBV_QP_EX_WITH_*: 0: QPs without extended posting */
};

struct conn {
	struct conn_opt o;
	struct ibv_qp *qp[2];
	struct ibv_cq *scq[2], *rcq[2];
	struct ibv_qp_cap cap[2];
};

struct conn_opt conn_defaults(void);
struct conn *conn_create(const struct conn_opt *o); /* both QPs in RESET */
void conn_to_init(struct conn *c, int end);
void conn_to_rtr(struct conn *c, int end);
void conn_to_rts(struct conn *c, int end);
void conn_up(struct conn *c); /* both: INIT, RTR, RTS */
void conn_to_err(struct conn *c, int end);
void conn_to_reset(struct conn *c, int end);
void conn_destroy_qp(struct conn *c, int end);
struct conn *conn_new(const struct conn_opt *o); /* create + up */
/* RESET both, drain nothing, new PSNs, up again. */
void conn_restart(struct conn *c);
/* A SEND and a WRITE each way with checked data: is the connection in order? */
void conn_prove(struct conn *c);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

/* ---- work requests -------------------------------------------------------------------------- */

struct ibv_send_wr wr_make(enum ibv_wr_opcode op, uint64_t id, struct ibv_sge *sge, int n,
			   unsigned int flags);
void wr_remote(struct ibv_send_wr *wr, const struct buf *b, size_t off);
void wr_fadd(struct ibv_send_wr *wr, const struct buf *b, size_t off, uint64_t add);
void wr_cas(struct ibv_send_wr *wr, const struct buf *b, size_t off, uint64_t cmp, uint64_t swap);

void post_send_at(const char *file, int line, struct ibv_qp *qp, struct ibv_send_wr *wr);
#define post_send(qp, wr) post_send_at(__FILE__, __LINE__, qp, wr)
void post_recv_at(const char *file, int line, struct ibv_qp *qp, uint64_t id,
		  struct ibv_sge *sge, int n);
#define post_recv(qp, id, sge, n) post_recv_at(__FILE__, __LINE__, qp, id, sge, n)
void post_srq_at(const char *file, int line, struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge,
		 int n);
#define post_srq(srq, id, sge, n) post_srq_at(__FILE__, __LINE__, srq, id, sge, n)

/* ---- completions and events ----------------------------------------------------------------- */

bool cq_poll_at(const char *file, int line, struct ibv_cq *cq, struct ibv_wc *wc);
#define cq_poll(cq, wc) cq_poll_at(__FILE__, __LINE__, cq, wc)
void cq_wait_at(const char *file, int line, struct ibv_cq *cq, struct ibv_wc *wc);
#define cq_wait(cq, wc) cq_wait_at(__FILE__, __LINE__, cq, wc)
/* Next completion: of this WR, of this QP, with this status. */
struct ibv_wc cq_expect_at(const char *file, int line, struct ibv_cq *cq, struct ibv_qp *qp,
			   uint64_t id, enum ibv_wc_status status);
#define cq_expect(cq, qp, id, status) cq_expect_at(__FILE__, __LINE__, cq, qp, id, status)
/* Nothing more comes for so long. */
void cq_silent_at(const char *file, int line, struct ibv_cq *cq, unsigned int ms);
#define cq_silent(cq, ms) cq_silent_at(__FILE__, __LINE__, cq, ms)
/* Fields of a good completion of `op`. */
void wc_send_fields(const struct ibv_wc *wc, enum ibv_wr_opcode op, size_t len);
void wc_recv_fields(const struct ibv_wc *wc, enum ibv_wr_opcode op, size_t len, uint32_t imm);
enum ibv_wc_opcode wc_opcode_of(enum ibv_wr_opcode op);
const char *op_name(enum ibv_wr_opcode op);

/* Waits for an affiliated event of this QP; others are taken and forgotten. */
void event_expect_at(const char *file, int line, struct dev *d, struct ibv_qp *qp,
		     enum ibv_event_type type, enum ibv_event_type or_type);
#define event_expect(d, qp, type) event_expect_at(__FILE__, __LINE__, d, qp, type, type)
#define event_expect2(d, qp, t1, t2) event_expect_at(__FILE__, __LINE__, d, qp, t1, t2)
/* Does the limit event of this SRQ come within so long? Others are taken and forgotten. */
bool srq_limit_event(struct dev *d, struct ibv_srq *srq, int ms);
/* One event that is there; the caller acknowledges it. */
bool event_take(struct dev *d, struct ibv_async_event *ev);
/* Takes what is there; counts the fatal QP events. */
int events_drain(struct dev *d);

/* ---- threads -------------------------------------------------------------------------------- */

struct ct_thread;
struct ct_thread *ct_thread_start(void (*fn)(void *), void *arg);
void ct_thread_join(struct ct_thread *t); /* fails when the thread failed */
extern volatile bool ct_stop;             /* threads that wait leave when it is set */

#endif
