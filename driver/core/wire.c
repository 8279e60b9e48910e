// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets to and from bytes.
 *
 * What an opcode means is written down once, in TP_OPCODES: its kind, where
 * the packet stands in its message, and what follows the base headers. Both
 * directions are made from that list (opcode -> meaning to decode, meaning ->
 * opcode to encode), so they can't disagree. MRC numbers its opcodes by RC's
 * low five bits under class 110; the verbs that MRC leaves out fill the gaps
 * by the same rule (FLUSH and ATOMIC_WRITE, whose numbers MRC gave to SACK and NACK,
 * by what is left).
 *
 * Decoding believes nothing: every length is checked before the bytes are
 * read, a field that can't be true makes the packet malformed.
 *
 *   BTH   0 opcode | 1 SE M Pad:2 TVer:4 | 2 PKey:16 | 4 reserved | 5 DestQP:24
 *         8 A R rtx ts S O 0 0 | 9 PSN:24
 */
#include "seq.h"
#include "wire.h"

/* Bits of BTH byte 1 and byte 8. */
enum {
	BTH_SE		= 0x80,
	BTH_PAD_SHIFT	= 4,
	BTH_PAD_MASK	= 0x30,
	BTH_TVER_MASK	= 0x0f,
	BTH_ACK_REQ	= 0x80,
	BTH_RTX		= 0x20,
	BTH_TSETH	= 0x10,
	BTH_SPACE	= TP_BTH_SPACE,	/* ours: 0 request, 1 response space */
	BTH_ORDERED	= 0x04,		/* ours: C9 */
};

/* First word of SETH: type 4, next 5, M 2, reserved 3, pr 1, reserved 1, probe id 16. */
enum {
	SETH_CC_CREDIT	= 1 << 4,	/* CC type: CC_STATE has the credit limit, */
	SETH_CC_MASK	= 0xf << 4,
	CC_CREDIT_AT	= 5,		/* where "received bytes" stand otherwise */
	SETH_NEXT_SEXT	= 0x1f << 23,	/* our extension follows CC_STATE */
	SETH_M_ONCE	= 1 << 21,	/* marked: skip this path once */
	SETH_M_MASK	= 3 << 21,
	SETH_PROBE	= 1 << 17,
	SETH_BITS_AT	= 1,		/* bitmap starts at cumulative + 1 */
	SEXT_DUP	= 1 << 0,	/* in the reserved half of its last word */
	OP_HELLO	= 0xd8,
	OP_HELLO_REPLY	= 0xd9,
	HELLO_MAGIC	= 0x73707279,	/* "spry" */
	MAX_MPR		= 255,
	TSETH_LEN	= 4,
	ATOMIC_SIZE	= 8,
};

/* Position of a packet in its message, and the word after RETH. */
enum {
	FIRST = 1, LAST = 2, IMM = 4, INV = 8,
	MIDDLE = 0, ONLY = FIRST | LAST,
};

enum {
	LEN_RC		= TP_BTH_LEN + TP_METH_LEN + TP_RETH_LEN,
	LEN_RC_IMM	= LEN_RC + TP_IMM_LEN,
	LEN_RC_FETH	= LEN_RC + TP_FETH_LEN,
	LEN_RC_ATOMIC	= LEN_RC + TP_ATOMIC_LEN,
	LEN_PROBE	= TP_BTH_LEN + TP_PETH_LEN,
	LEN_UD		= TP_BTH_LEN + TP_DETH_LEN,
	LEN_ACK		= TP_BTH_LEN + TP_AETH_LEN,
	LEN_SACK	= TP_BTH_LEN + TP_SETH_LEN + TP_CC_LEN + TP_SEXT_LEN,
};

#define TP_OPCODES(X)							\
	X(0x64, TP_UD,		ONLY,		LEN_UD)			\
	X(0x65, TP_UD,		ONLY | IMM,	LEN_UD + TP_IMM_LEN)	\
	X(0xc0, TP_SEND,	FIRST,		LEN_RC)			\
	X(0xc1, TP_SEND,	MIDDLE,		LEN_RC)			\
	X(0xc2, TP_SEND,	LAST,		LEN_RC)			\
	X(0xc3, TP_SEND,	LAST | IMM,	LEN_RC_IMM)		\
	X(0xc4, TP_SEND,	ONLY,		LEN_RC)			\
	X(0xc5, TP_SEND,	ONLY | IMM,	LEN_RC_IMM)		\
	X(0xc6, TP_WRITE,	FIRST,		LEN_RC)			\
	X(0xc7, TP_WRITE,	MIDDLE,		LEN_RC)			\
	X(0xc8, TP_WRITE,	LAST,		LEN_RC)			\
	X(0xc9, TP_WRITE,	LAST | IMM,	LEN_RC_IMM)		\
	X(0xca, TP_WRITE,	ONLY,		LEN_RC)			\
	X(0xcb, TP_WRITE,	ONLY | IMM,	LEN_RC_IMM)		\
	X(0xcc, TP_READ,	ONLY,		LEN_RC)			\
	X(0xcd, TP_READ_DATA,	FIRST,		LEN_RC)			\
	X(0xce, TP_READ_DATA,	MIDDLE,		LEN_RC)			\
	X(0xcf, TP_READ_DATA,	LAST,		LEN_RC)			\
	X(0xd0, TP_READ_DATA,	ONLY,		LEN_RC)			\
	X(0xd1, TP_ACK,		ONLY,		LEN_ACK)		\
	X(0xd2, TP_ATOMIC_DATA,	ONLY,		LEN_RC)			\
	X(0xd3, TP_CAS,		ONLY,		LEN_RC_ATOMIC)		\
	X(0xd4, TP_FAA,		ONLY,		LEN_RC_ATOMIC)		\
	X(0xd6, TP_SEND,	LAST | INV,	LEN_RC_IMM)		\
	X(0xd7, TP_SEND,	ONLY | INV,	LEN_RC_IMM)		\
	X(OP_HELLO, TP_ENDPOINT, FIRST,		TP_BTH_LEN + TP_HELLO_LEN) \
	X(OP_HELLO_REPLY, TP_ENDPOINT, LAST,	TP_BTH_LEN + TP_HELLO_LEN) \
	X(0xda, TP_RDMA_FLUSH,	ONLY,		LEN_RC_FETH)		\
	X(0xdb, TP_ATOMIC_WRITE, ONLY,		LEN_RC)			\
	X(0xdc, TP_SACK,	ONLY,		LEN_SACK)		\
	X(0xdd, TP_NACK,	ONLY,		0)			\
	X(0xde, TP_PROBE,	ONLY,		LEN_PROBE)

/* What an opcode says; all zero (TP_NONE) for an unknown one. */
static const struct meaning {
	u8 kind;
	u8 form;
	u8 hdr_len;
} meanings[256] = {
#define DECODE(opcode, k, f, len) [opcode] = { .kind = k, .form = f, .hdr_len = len },
	TP_OPCODES(DECODE)
};

#define KEY(kind, form) ((kind) << 4 | (form))
static const u8 opcodes[KEY(TP_KINDS, 0)] = {
#define ENCODE(opcode, k, f, len) [KEY(k, f)] = opcode,
	TP_OPCODES(ENCODE)
};

/* Nothing but the last packet of a message carries immediate data or a key. */
static u8 opcode_of(const struct tp_pkt *p)
{
	u32 form = (p->first ? FIRST : 0) | (p->last ? LAST : 0);

	if (p->last)
		form |= (p->has_imm ? IMM : 0) | (p->has_inv ? INV : 0);
	return opcodes[KEY(p->kind, form)];
}

static bool is_response(u8 kind)
{
	return kind == TP_READ_DATA || kind == TP_ATOMIC_DATA;
}

/* Bears one word of memory, no more and no less. */
static bool has_word(u8 kind)
{
	return kind == TP_ATOMIC_DATA || kind == TP_ATOMIC_WRITE;
}

static bool is_data(u8 kind)
{
	return kind >= TP_SEND && kind <= TP_ATOMIC_DATA;
}

enum tp_kind tp_wire_kind(const u8 *buf)
{
	return meanings[buf[0]].kind;
}

u32 tp_wire_hdr_len(const struct tp_pkt *p)
{
	return meanings[opcode_of(p)].hdr_len;
}

/* Everything of BTH but the PSN's meaning; @flags for byte 8. */
static void put_bth(u8 *b, u8 opcode, u8 byte1, u16 pkey, u32 dqpn, u8 flags, u32 psn)
{
	b[0] = opcode;
	b[1] = byte1;
	tp_put16(b + 2, pkey);
	b[4] = 0;
	tp_put24(b + 5, dqpn);
	b[8] = flags;
	tp_put24(b + 9, psn);
}

static void get_bth(struct tp_pkt *p, const struct meaning *m, const u8 *b)
{
	*p = (struct tp_pkt) {
		.kind = m->kind,
		.first = m->form & FIRST,
		.last = m->form & LAST,
		.has_imm = m->form & IMM,
		.has_inv = m->form & INV,
		.solicited = b[1] & BTH_SE,
		.pad = (b[1] & BTH_PAD_MASK) >> BTH_PAD_SHIFT,
		.pkey = tp_get16(b + 2),
		.dqpn = tp_get24(b + 5),
		.ack_req = b[8] & BTH_ACK_REQ,
		.psn = tp_get24(b + 9),
	};
	if (m->kind == TP_UD)	/* plain RoCEv2: the other bits are not ours */
		return;
	p->rtx = b[8] & BTH_RTX;
	p->space = tp_wire_space(b);
	p->ordered = b[8] & BTH_ORDERED;
}

/* METH and what follows it; @b has all of it. */
static void get_rc(struct tp_pkt *p, const u8 *meth, const u8 *b)
{
	p->rqmsn = tp_get16(meth);
	p->msn = tp_get16(meth + 2);
	p->va = tp_get64(b);
	p->rkey = tp_get32(b + 8);
	p->dma_len = tp_get32(b + 12);
	b += TP_RETH_LEN;
	if (p->has_imm || p->has_inv)
		p->imm = tp_get32(b);
	else if (p->kind == TP_RDMA_FLUSH)
		p->imm = tp_get32(b) & TP_FETH_BITS;
	if (tp_kind_atomic(p->kind)) {
		p->swap_add = tp_get64(b);
		p->compare = tp_get64(b + 8);
	}
}

/* Does the payload (padding included) fit the kind, and the space the opcode? */
static bool rc_agrees(const struct tp_pkt *p, u32 payload)
{
	if (p->pad > payload || (p->space == TP_RESPONSE) != is_response(p->kind))
		return false;
	if ((tp_kind_atomic(p->kind) || has_word(p->kind)) && p->dma_len != ATOMIC_SIZE)
		return false;
	if (has_word(p->kind))
		return payload == ATOMIC_SIZE && !p->pad;
	return !tp_kind_answered(p->kind) || payload == 0;
}

static int decode_probe(struct tp_pkt *p, const u8 *buf, u32 len)
{
	if (len != LEN_PROBE || p->pad)
		return -1;
	p->probe_id = tp_get16(buf + TP_BTH_LEN + 4);
	return LEN_PROBE;
}

static int decode_ud(struct tp_pkt *p, const u8 *buf, u32 len, u32 hdr_len)
{
	const u8 *deth = buf + TP_BTH_LEN;

	if (p->pad > len - hdr_len)
		return -1;
	p->qkey = tp_get32(deth);
	p->src_qpn = tp_get24(deth + 5);
	if (p->has_imm)
		p->imm = tp_get32(deth + TP_DETH_LEN);
	return (int)hdr_len;
}

int tp_wire_decode(struct tp_pkt *p, const u8 *buf, u32 len)
{
	const struct meaning *m;
	u32 hdr_len, stamp;

	if (len < TP_BTH_LEN || buf[1] & BTH_TVER_MASK)
		return -1;
	m = &meanings[buf[0]];
	/* A time stamp (MRC's TSETH) is stepped over. */
	stamp = is_data(m->kind) && buf[8] & BTH_TSETH ? TSETH_LEN : 0;
	hdr_len = m->hdr_len + stamp;
	if (len < hdr_len)
		return -1;
	get_bth(p, m, buf);
	if (m->kind == TP_PROBE)
		return decode_probe(p, buf, len);
	if (m->kind == TP_UD)
		return decode_ud(p, buf, len, hdr_len);
	if (!is_data(m->kind))
		return -1;
	get_rc(p, buf + TP_BTH_LEN, buf + TP_BTH_LEN + TP_METH_LEN + stamp);
	return rc_agrees(p, len - hdr_len) ? (int)hdr_len : -1;
}

static void put_rc(const struct tp_pkt *p, u8 *b, bool imm)
{
	tp_put16(b, (u16)p->rqmsn);
	tp_put16(b + 2, (u16)p->msn);
	b += TP_METH_LEN;
	tp_put64(b, p->va);
	tp_put32(b + 8, p->rkey);
	tp_put32(b + 12, p->dma_len);
	b += TP_RETH_LEN;
	if (imm)
		tp_put32(b, p->imm);
	if (tp_kind_atomic(p->kind)) {
		tp_put64(b, p->swap_add);
		tp_put64(b + 8, p->compare);
	}
}

static void put_probe(const struct tp_pkt *p, u8 *b)
{
	memset(b, 0, TP_PETH_LEN);
	tp_put16(b + 4, p->probe_id);
}

static void put_ud(const struct tp_pkt *p, u8 *b)
{
	tp_put32(b, p->qkey);
	b[4] = 0;
	tp_put24(b + 5, p->src_qpn);
	if (p->has_imm)
		tp_put32(b + TP_DETH_LEN, p->imm);
}

u32 tp_wire_encode(const struct tp_pkt *p, u8 *buf)
{
	u8 opcode = opcode_of(p);
	const struct meaning *m = &meanings[opcode];
	u8 flags = p->ack_req ? BTH_ACK_REQ : 0;

	if (p->kind != TP_UD)
		flags |= (p->rtx ? BTH_RTX : 0) | (p->space == TP_RESPONSE ? BTH_SPACE : 0) |
			 (p->ordered ? BTH_ORDERED : 0);
	put_bth(buf, opcode, (u8)((p->solicited ? BTH_SE : 0) | p->pad << BTH_PAD_SHIFT),
		p->pkey, p->dqpn, flags, p->psn);
	if (p->kind == TP_PROBE)
		put_probe(p, buf + TP_BTH_LEN);
	else if (p->kind == TP_UD)
		put_ud(p, buf + TP_BTH_LEN);
	else
		put_rc(p, buf + TP_BTH_LEN, m->form & (IMM | INV) || p->kind == TP_RDMA_FLUSH);
	return m->hdr_len;
}

static void put_aeth(const struct tp_ack *a, u8 *b)
{
	b[0] = (u8)(a->syndrome << 5 | (a->value & 0x1f));
	tp_put24(b + 1, a->exec_msn);
}

static int get_aeth(struct tp_ack *a, const u8 *b)
{
	a->syndrome = b[0] >> 5;
	a->value = b[0] & 0x1f;
	a->exec_msn = tp_get24(b + 1);
	if (a->syndrome != TP_SYN_ACK && a->syndrome != TP_SYN_RNR && a->syndrome != TP_SYN_NAK)
		return -1;
	return 0;
}

static bool is_sack(const struct tp_ack *a)
{
	return a->nwords || a->probe || a->ce || a->entropy || a->dup || a->credited;
}

/* A positive Acknowledge names the last PSN executed, RNR and NAK the one that can't be. */
static u32 ack_psn(const struct tp_ack *a)
{
	return a->syndrome == TP_SYN_ACK ? a->exec_psn - 1 : a->exec_psn;
}

static void put_seth(const struct tp_ack *a, u8 *b)
{
	memset(b, 0, TP_SETH_LEN + TP_CC_LEN);
	tp_put32(b, SETH_NEXT_SEXT | (a->ce ? SETH_M_ONCE : 0) |
		 (a->probe ? SETH_PROBE | a->probe_id : 0));
	tp_put32(b + 4, a->entropy);
	tp_put24(b + 13, a->cum_psn - 1);
	b[16] = a->credited ? SETH_CC_CREDIT : 0;
	b[17] = a->mpr;
	if (a->credited)
		tp_put24(b + TP_SETH_LEN + CC_CREDIT_AT, a->credit);
	tp_put16(b + 18, SETH_BITS_AT);
	tp_put64(b + 20, a->nwords ? a->bits[0] : 0);
}

static void put_sext(const struct tp_ack *a, u8 *b)
{
	u32 i;

	put_aeth(a, b);
	tp_put24(b + 4, a->exec_psn);
	b[7] = a->nwords;
	tp_put16(b + 8, a->probe ? a->probe_id : 0);
	tp_put16(b + 10, a->dup ? SEXT_DUP : 0);
	for (i = 0; i < a->nwords; i++)
		tp_put64(b + TP_SEXT_LEN + 8 * i, a->bits[i]);
}

u32 tp_wire_encode_ack(const struct tp_ack *a, u8 *buf)
{
	bool sack = is_sack(a);
	u8 opcode = opcodes[KEY(sack ? TP_SACK : TP_ACK, ONLY)];
	u8 flags = a->space == TP_RESPONSE ? BTH_SPACE : 0;

	put_bth(buf, opcode, 0, 0xffff, a->dqpn, flags, ack_psn(a));
	if (!sack) {
		put_aeth(a, buf + TP_BTH_LEN);
		return LEN_ACK;
	}
	put_seth(a, buf + TP_BTH_LEN);
	put_sext(a, buf + TP_BTH_LEN + TP_SETH_LEN + TP_CC_LEN);
	return LEN_SACK + 8u * a->nwords;
}

static int decode_plain_ack(struct tp_ack *a, const u8 *buf, u32 len)
{
	u32 psn = tp_get24(buf + 9);

	if (len != LEN_ACK || get_aeth(a, buf + TP_BTH_LEN))
		return -1;
	a->exec_psn = (a->syndrome == TP_SYN_ACK ? psn + 1 : psn) & 0xffffff;
	a->cum_psn = a->exec_psn;
	return 0;
}

static void get_seth(struct tp_ack *a, const u8 *b)
{
	u32 word = tp_get32(b);

	a->ce = word & SETH_M_MASK;
	a->probe = word & SETH_PROBE;
	a->entropy = tp_get32(b + 4);
	a->cum_psn = (tp_get24(b + 13) + 1) & 0xffffff;
	a->mpr = b[17];
	a->credited = (b[16] & SETH_CC_MASK) == SETH_CC_CREDIT;
	a->credit = a->credited ? tp_get24(b + TP_SETH_LEN + CC_CREDIT_AT) : 0;
}

/* @b has all of SEXT but perhaps its words; @len: bytes that are there for those. */
static int get_sext(struct tp_ack *a, const u8 *b, u32 len)
{
	u32 i;

	if (get_aeth(a, b))
		return -1;
	a->exec_psn = tp_get24(b + 4);
	a->nwords = b[7];
	a->probe_id = a->probe ? tp_get16(b + 8) : 0;
	a->dup = tp_get16(b + 10) & SEXT_DUP;
	if (a->nwords > TP_SACK_WORDS || len != 8u * a->nwords)
		return -1;
	for (i = 0; i < a->nwords; i++)
		a->bits[i] = tp_get64(b + TP_SEXT_LEN + 8 * i);
	return 0;
}

/* A SACK without our extension can't say what was executed: of no use to us. */
static int decode_sack(struct tp_ack *a, const u8 *buf, u32 len)
{
	const u8 *seth = buf + TP_BTH_LEN;
	const u8 *sext = seth + TP_SETH_LEN + TP_CC_LEN;

	if (len < LEN_SACK)
		return -1;
	get_seth(a, seth);
	if (get_sext(a, sext, len - LEN_SACK))
		return -1;
	/* received runs ahead of executed, by a window at most; bit 0 is the hole itself */
	if (((a->cum_psn - a->exec_psn) & 0xffffff) > MAX_MPR * 128 || a->bits[0] & 1)
		return -1;
	return 0;
}

int tp_wire_decode_ack(struct tp_ack *a, const u8 *buf, u32 len)
{
	if (len < TP_BTH_LEN || buf[1] & BTH_TVER_MASK)
		return -1;
	*a = (struct tp_ack) {
		.space = tp_wire_space(buf),
		.dqpn = tp_wire_dqpn(buf),
	};
	switch (tp_wire_kind(buf)) {
	case TP_ACK:
		return decode_plain_ack(a, buf, len);
	case TP_SACK:
		return decode_sack(a, buf, len);
	default:	/* MRC's NACK too: nobody trims for us yet */
		return -1;
	}
}

/*
 * HELLO: magic 32 | version 8, flags 8, MPR 8, reserved 8 | largest payload 32 | reserved 64.
 * A later version may be longer, the fields here stay where they are.
 */
int tp_wire_decode_hello(struct tp_hello *h, const u8 *buf, u32 len)
{
	const u8 *b = buf + TP_BTH_LEN;

	if (len < TP_BTH_LEN + TP_HELLO_LEN || buf[1] & BTH_TVER_MASK)
		return -1;
	if (tp_wire_kind(buf) != TP_ENDPOINT || tp_wire_dqpn(buf) != TP_ENDPOINT_QPN)
		return -1;
	if (tp_get32(b) != HELLO_MAGIC)
		return -1;
	*h = (struct tp_hello) {
		.reply = buf[0] == OP_HELLO_REPLY,
		.version = b[4],
		.flags = b[5],
		.mpr = b[6],
		.max_payload = tp_get32(b + 8),
	};
	return 0;
}

u32 tp_wire_encode_hello(const struct tp_hello *h, u8 *buf)
{
	u8 *b = buf + TP_BTH_LEN;

	put_bth(buf, h->reply ? OP_HELLO_REPLY : OP_HELLO, 0, 0xffff, TP_ENDPOINT_QPN, 0, 0);
	memset(b, 0, TP_HELLO_LEN);
	tp_put32(b, HELLO_MAGIC);
	b[4] = h->version;
	b[5] = h->flags;
	b[6] = h->mpr;
	tp_put32(b + 8, h->max_payload);
	return TP_BTH_LEN + TP_HELLO_LEN;
}
