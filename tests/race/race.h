/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * spray_race: many threads on two devices, every verb against every other that verbs allow, and
 * books about each work request.
 *
 * A LINK is a pair of connected QPs, its two ENDs. It has LIVES: from RTS on until one of its ends
 * is made to fail. While it lives undisturbed, nothing may fail. What ends it is done without any
 * lock that posters or pollers need, so the kernel meets it in the middle of their work.
 *
 * WHAT IS CHECKED, and where:
 *   P_COMP	a completion belongs to a request of this life that has none yet; after ERR every
 *		request has got one (signalled, failed or flushed), in order
 *   P_DATA	at a receive completion the message and all WRITEs before it are there; at a
 *		WRITE's own completion it is there
 *   P_TAIL	at the last byte of a WRITE it and all WRITEs before it are there
 *   P_READ	a READ's completion: the data, and never what the memory held after deregistration
 *   P_ATOMIC	each executed exactly once and in order: the value that comes back says so
 *   P_ONCE	memory that a completion (or last byte) has given back does not change any more
 *   P_SILENCE	nor does that of a QP after ERR, RESET, destroy, of an MR after dereg or rereg,
 *		of a window after invalidation or dealloc
 *   P_EVENT	a completion that a sleeper has asked for wakes it
 *   P_LIVE	verbs calls that must work do, and in the end every link drains
 *
 * LOCKS, outer to inner. Verbs calls that race are made under none that the other side needs.
 *   link->busy		the modifier's link
 *   end->post		who posts, or begins a life
 *   cqbox->lock	read: poll and handle; write: nobody holds polled completions
 *   end->acct		the books of one end
 *   dir->lock		messages and WRITEs of one direction, and the memory they go to
 */
#ifndef SPRAY_RACE_H
#define SPRAY_RACE_H

#include <pthread.h>

#include "../contract/contract.h"

enum {
	SQ		= 32,	/* requests outstanding per end */
	RQ		= 32,
	TARGETS		= 32,	/* slots that WRITEs of a direction go to */
	MSGS		= 64,
	LINKS_MAX	= 32,
	INLINE_MAX	= 64,
	FILL		= 0x5a,	/* what memory holds that must not be written (POISON: not yet) */
	USED		= 0xee,	/* sent, completed, and changed by its owner */
	WAIT_S		= 60,	/* for something that must come */
};

enum prop {
	P_COMP, P_DATA, P_TAIL, P_READ, P_ATOMIC, P_ONCE, P_SILENCE, P_EVENT, P_LIVE, P_NUM
};

/* Memory of an end, each with its own MR. */
enum section {
	S_SEND,		/* what SENDs and WRITEs send, a slot per entry of the SQ */
	S_RECV,		/* a slot per entry of the RQ */
	S_TARGET,	/* the peer's WRITEs */
	S_SOURCE,	/* the peer's READs; never changes while registered */
	S_RESULT,	/* own READs and atomics, a slot per entry of the SQ */
	S_WORD,		/* the peer's atomics: a counter for FAA, one for CAS */
	S_NUM
};

struct cqbox {
	pthread_rwlock_t lock;
	struct ibv_cq *cq;
	struct ibv_comp_channel *ch;
	int d;			/* device */
	bool evt;		/* polled by the device's sleeper alone */
};

struct wr {
	enum ibv_wr_opcode op;
	bool signaled, done;
	uint32_t len, off;	/* off: READs, in the source */
	uint64_t seed, expect;	/* atomics */
	int target;		/* WRITEs: slot */
};

enum recv_state { R_IDLE, R_POSTED, R_CHECKED };

struct recv {
	enum recv_state state;
	uint32_t seq;
};

struct write {
	bool busy;
	uint32_t pos, off, len;	/* pos: its number in the send queue */
	uint64_t seed;
};

struct msg {
	bool busy, send, imm;
	uint32_t pos, len, imm_data;
	uint64_t seed;
};

struct dir {
	pthread_mutex_t lock;
	bool dirty;		/* its target memory was filled: contents say nothing any more */
	struct write w[TARGETS];
	struct msg m[MSGS];
	uint32_t msgs;
};

struct end {
	struct link *link;
	int idx, d;
	struct ibv_qp *qp;
	uint32_t qpn;	/* of completions that may come; with both CQs locked */
	struct cqbox *scq, *rcq;
	struct buf *sec[S_NUM], *other;		/* other: memory that an MR may be moved to */
	struct ibv_mw *mw;			/* on S_TARGET, or NULL */
	uint32_t lkey[S_NUM], rkey[S_NUM];	/* of this life */

	pthread_mutex_t post;
	bool open;

	pthread_mutex_t acct;
	struct wr wr[SQ];
	uint32_t sq_head, sq_tail;	/* posted, complete */
	uint32_t last_seq;		/* of send completions, sleeper's CQs */
	uint32_t first_bad;		/* first send that failed */
	struct recv recv[RQ];
	uint32_t rq_head, rq_next;
	uint32_t faa, cas;
	unsigned int marks;
	enum ibv_wc_status ctrl;	/* of the last request about the window */
	bool ctrl_done;
	bool dirty;		/* set with both CQs locked: own memory was filled */
	struct dir out;		/* to the peer */
};

struct link {
	int number;
	pthread_mutex_t busy;
	bool disturbed, dereg;
	bool own_cq;		/* CQs come and go with the QPs */
	uint32_t life;
	struct end end[2];
};

extern struct link *links[LINKS_MAX];
extern int n_links;
extern struct cqbox *boxes[LINKS_MAX * 2 + 8];
extern int n_boxes;
extern uint32_t slot_size;
extern bool quit;		/* posters and modifiers leave */
extern bool pollers;		/* are there */

static inline struct end *peer_of(struct end *e)
{
	return &e->link->end[!e->idx];
}

static inline uint8_t *slot_of(struct end *e, enum section s, uint32_t n)
{
	return e->sec[s]->p + (size_t)n * slot_size;
}

/* Pattern of S_SOURCE. */
static inline uint64_t source_seed(const struct link *l)
{
	return l->number | (uint64_t)l->life << 8;
}

#define load(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define store(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

/* --- spray_race.c --- */
struct thread {
	pthread_t id;
	char name[32], doing[128];
	void (*fn)(struct thread *t);
	int d, n;		/* device, number */
	uint64_t rng;
};

void race_start(const char *name, void (*fn)(struct thread *), int d, int n);
void race_seed(uint64_t seed);
void race_doing(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void race_fail(enum prop p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void race_count(enum prop p);
bool filled(const void *p, size_t len, uint8_t v);
void nap_us(unsigned int us);
/* A doorbell of the ringer's holds an object for a moment: who destroys it then is told EBUSY. */
#define PERSIST(call)                                                                             \
	({                                                                                        \
		int _r, _n = 0;                                                                   \
		while ((_r = (call)) == EBUSY && _n++ < 1000)                                     \
			nap_us(100);                                                              \
		_r;                                                                               \
	})
struct cqbox *box_new(int d, bool evt);
/* The CQ of it; lock held for writing, or not shared yet. */
void box_open(struct cqbox *b, int cqe);

/* --- traffic.c --- */
void post_recvs(struct end *e);			/* these two: e->post held, e->open */
void post_sends(struct end *e, bool last);	/* @last: one, signalled */
void take_completion(struct cqbox *b, const struct ibv_wc *wc);
void watch_dir(struct end *e);
int post_marks(struct end *e, int have);	/* after ERR; bits of those posted */
int post_ctrl(struct end *e, struct ibv_send_wr *wr);	/* about the window, signalled */
void check_drained(struct end *e);

/* --- fate.c --- */
void link_begin(struct link *l);
void link_fate(struct link *l);
void fate_report(void);
bool fate_only(const char *list);

/* --- hostile.c --- */
int hostile(const char *const name[2], int family, const char *gids, unsigned int seconds,
	    uint64_t seed);

#endif
