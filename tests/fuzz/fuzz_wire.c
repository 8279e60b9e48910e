// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * wire.c: any bytes into all decoders; what decodes lies inside the buffer and
 * encodes to something that means the same. And the other way round: any
 * packet or answer that the core may send is understood as it was meant.
 */
#include "fuzz.h"
#include "wire.h"

enum { STAMP_LEN = 4 };

static void same_pkt(const struct tp_pkt *a, const struct tp_pkt *b)
{
	CHECK_EQ(a->kind, b->kind);
	CHECK_EQ(a->space, b->space);
	CHECK_EQ(a->first, b->first);
	CHECK_EQ(a->last, b->last);
	CHECK_EQ(a->has_imm, b->has_imm);
	CHECK_EQ(a->has_inv, b->has_inv);
	CHECK_EQ(a->solicited, b->solicited);
	CHECK_EQ(a->ack_req, b->ack_req);
	CHECK_EQ(a->rtx, b->rtx);
	CHECK_EQ(a->ordered, b->ordered);
	CHECK_EQ(a->pad, b->pad);
	CHECK_EQ(a->pkey, b->pkey);
	CHECK_EQ(a->probe_id, b->probe_id);
	CHECK_EQ(a->dqpn, b->dqpn);
	CHECK_EQ(a->psn, b->psn);
	CHECK_EQ(a->msn, b->msn);
	CHECK_EQ(a->rqmsn, b->rqmsn);
	CHECK_EQ(a->rkey, b->rkey);
	CHECK_EQ(a->dma_len, b->dma_len);
	CHECK_EQ(a->imm, b->imm);
	CHECK_EQ(a->va, b->va);
	CHECK_EQ(a->swap_add, b->swap_add);
	CHECK_EQ(a->compare, b->compare);
	CHECK_EQ(a->src_qpn, b->src_qpn);
	CHECK_EQ(a->qkey, b->qkey);
}

/* Fields that have a meaning to a receiver, none else. */
static void in_range_pkt(const struct tp_pkt *p)
{
	CHECK(p->kind > TP_NONE && p->kind < TP_KINDS);
	CHECK(p->space <= TP_RESPONSE);
	CHECK(p->pad <= 3);
	CHECK(p->dqpn < 1 << 24 && p->psn < 1 << 24 && p->src_qpn < 1 << 24);
	CHECK(p->msn < 1 << 16 && p->rqmsn < 1 << 16);
	CHECK(!(p->has_imm && p->has_inv));
	CHECK(p->last || !(p->has_imm || p->has_inv));
}

/* Encode @p, put @payload bytes behind it, and read it again. */
static void again_pkt(const struct tp_pkt *p, const u8 *payload, u32 len)
{
	u8 *buf = malloc(TP_MAX_HDR + len);
	struct tp_pkt q;
	u32 n;

	n = tp_wire_encode(p, buf);
	CHECK_EQ(n, tp_wire_hdr_len(p));
	CHECK(n <= TP_MAX_HDR);
	if (len)
		memcpy(buf + n, payload, len);
	CHECK_EQ(tp_wire_kind(buf), p->kind);
	CHECK_EQ(tp_wire_dqpn(buf), p->dqpn);
	CHECK_EQ(tp_wire_decode(&q, buf, n + len), n);
	same_pkt(p, &q);
	free(buf);
}

static void try_packet(const u8 *buf, u32 len)
{
	struct tp_pkt p;
	int hdr = tp_wire_decode(&p, buf, len);
	bool stamp;

	if (hdr < 0)
		return;
	CHECK((u32)hdr <= len);
	CHECK(p.pad <= len - (u32)hdr);
	in_range_pkt(&p);
	stamp = p.kind != TP_UD && p.kind != TP_PROBE && buf[8] & 0x10;
	CHECK_EQ(hdr, tp_wire_hdr_len(&p) + (stamp ? STAMP_LEN : 0));
	again_pkt(&p, buf + hdr, len - (u32)hdr);
}

static void same_ack(const struct tp_ack *a, const struct tp_ack *b)
{
	CHECK_EQ(a->space, b->space);
	CHECK_EQ(a->syndrome, b->syndrome);
	CHECK_EQ(a->value, b->value);
	CHECK_EQ(a->dqpn, b->dqpn);
	CHECK_EQ(a->exec_psn, b->exec_psn);
	CHECK_EQ(a->exec_msn, b->exec_msn);
}

/* What only a SACK can say. */
static void same_sack(const struct tp_ack *a, const struct tp_ack *b)
{
	CHECK_EQ(a->mpr, b->mpr);
	CHECK_EQ(a->probe, b->probe);
	CHECK_EQ(a->probe_id, b->probe_id);
	CHECK_EQ(a->ce, b->ce);
	CHECK_EQ(a->dup, b->dup);
	CHECK_EQ(a->credited, b->credited);
	CHECK_EQ(a->credit, b->credit);
	CHECK_EQ(a->nwords, b->nwords);
	CHECK_EQ(a->cum_psn, b->cum_psn);
	CHECK_EQ(a->entropy, b->entropy);
	CHECK(!memcmp(a->bits, b->bits, sizeof(a->bits)));
}

static void again_ack(const struct tp_ack *a)
{
	/* A SACK that says nothing becomes a plain one, which has fewer fields. */
	bool sack = a->nwords || a->probe || a->ce || a->entropy || a->dup || a->credited;
	u8 buf[TP_MAX_ACK], *exact;
	struct tp_ack b;
	u32 n = tp_wire_encode_ack(a, buf);

	CHECK(n <= TP_MAX_ACK);
	CHECK_EQ(tp_wire_kind(buf), sack ? TP_SACK : TP_ACK);
	exact = malloc(n);
	memcpy(exact, buf, n);
	CHECK_EQ(tp_wire_decode_ack(&b, exact, n), 0);
	free(exact);
	same_ack(a, &b);
	if (sack)
		same_sack(a, &b);
}

static void try_ack(const u8 *buf, u32 len)
{
	struct tp_ack a;

	if (tp_wire_decode_ack(&a, buf, len))
		return;
	CHECK(a.nwords <= TP_SACK_WORDS);
	CHECK(!(a.bits[0] & 1));
	CHECK(a.exec_psn < 1 << 24 && a.cum_psn < 1 << 24 && a.exec_msn < 1 << 24);
	CHECK(a.value <= 31);
	CHECK(a.syndrome == TP_SYN_ACK || a.syndrome == TP_SYN_RNR || a.syndrome == TP_SYN_NAK);
	again_ack(&a);
}

static void again_hello(const struct tp_hello *h)
{
	u8 *buf = malloc(TP_BTH_LEN + TP_HELLO_LEN);
	struct tp_hello g;

	CHECK_EQ(tp_wire_encode_hello(h, buf), TP_BTH_LEN + TP_HELLO_LEN);
	CHECK_EQ(tp_wire_decode_hello(&g, buf, TP_BTH_LEN + TP_HELLO_LEN), 0);
	CHECK_EQ(h->reply, g.reply);
	CHECK_EQ(h->version, g.version);
	CHECK_EQ(h->flags, g.flags);
	CHECK_EQ(h->mpr, g.mpr);
	CHECK_EQ(h->max_payload, g.max_payload);
	free(buf);
}

static void try_hello(const u8 *buf, u32 len)
{
	struct tp_hello h;

	if (!tp_wire_decode_hello(&h, buf, len))
		again_hello(&h);
}

/* --- from fields --- */

static bool is_response(u8 kind)
{
	return kind == TP_READ_DATA || kind == TP_ATOMIC_DATA;
}

static void make_form(struct input *in, struct tp_pkt *p)
{
	u8 flags = in8(in);
	bool parts = p->kind == TP_SEND || p->kind == TP_WRITE || p->kind == TP_READ_DATA;

	p->first = !parts || flags & 1;
	p->last = !parts || flags & 2;
	p->solicited = flags & 4;
	p->ack_req = flags & 8;
	p->rtx = p->kind != TP_UD && flags & 16;
	p->ordered = p->kind != TP_UD && flags & 32;
	if (p->kind == TP_UD || ((p->kind == TP_SEND || p->kind == TP_WRITE) && p->last))
		p->has_imm = flags & 64;
	if (p->kind == TP_SEND && p->last && !p->has_imm)
		p->has_inv = flags & 128;
}

/* One word of memory, always. */
static bool has_word(u8 kind)
{
	return kind == TP_ATOMIC_DATA || kind == TP_ATOMIC_WRITE;
}

static void make_rc(struct input *in, struct tp_pkt *p)
{
	bool atomic = p->kind == TP_CAS || p->kind == TP_FAA;

	p->msn = in16(in);
	p->rqmsn = in16(in);
	p->va = in64(in);
	p->rkey = in32(in);
	p->dma_len = atomic || has_word(p->kind) ? 8 : in32(in);
	if (atomic) {
		p->swap_add = in64(in);
		p->compare = in64(in);
	}
}

static void make_packet(struct input *in)
{
	static const u8 kinds[] = {
		TP_SEND, TP_WRITE, TP_READ, TP_CAS, TP_FAA, TP_READ_DATA, TP_ATOMIC_DATA, TP_PROBE,
		TP_UD, TP_ATOMIC_WRITE, TP_RDMA_FLUSH,
	};
	struct tp_pkt p = { .kind = kinds[in8(in) % ARRAY_SIZE(kinds)] };
	u32 len = 0;

	make_form(in, &p);
	p.space = is_response(p.kind) || (p.kind == TP_PROBE && in8(in) & 1);
	p.pkey = in16(in);
	p.dqpn = in32(in) & 0xffffff;
	p.psn = in32(in) & 0xffffff;
	if (p.kind == TP_PROBE) {
		p.probe_id = in16(in);
	} else if (p.kind == TP_UD) {
		p.qkey = in32(in);
		p.src_qpn = in32(in) & 0xffffff;
	} else {
		make_rc(in, &p);
	}
	if (p.has_imm || p.has_inv)
		p.imm = in32(in);
	if (p.kind == TP_RDMA_FLUSH)
		p.imm = in8(in) & TP_FETH_BITS;
	if (p.kind == TP_SEND || p.kind == TP_WRITE || p.kind == TP_READ_DATA || p.kind == TP_UD)
		len = (u32)(in->end - in->p);
	if (has_word(p.kind)) {
		again_pkt(&p, (const u8 *)"12345678", 8);
		return;
	}
	p.pad = (u8)min_t(u32, 3, len);
	again_pkt(&p, in->p, len);
}

static void make_ack(struct input *in)
{
	static const u8 syndromes[] = { TP_SYN_ACK, TP_SYN_RNR, TP_SYN_NAK };
	u8 flags = in8(in), i;
	struct tp_ack a = {
		.space = flags & 1, .probe = flags & 2, .ce = flags & 4, .dup = flags & 8,
		.syndrome = syndromes[in8(in) % 3], .value = in8(in) & 31, .mpr = in8(in),
		.nwords = in8(in) % (TP_SACK_WORDS + 1), .dqpn = in32(in) & 0xffffff,
		.exec_psn = in32(in) & 0xffffff, .exec_msn = in32(in) & 0xffffff,
		.entropy = in32(in),
	};

	a.cum_psn = (a.exec_psn + in16(in) % (255 * 128 + 1)) & 0xffffff;
	a.probe_id = a.probe ? in16(in) : 0;
	a.credited = flags & 16;
	a.credit = a.credited ? a.exec_msn ^ a.dqpn : 0;
	for (i = 0; i < a.nwords; i++)
		a.bits[i] = in64(in);
	a.bits[0] &= ~1ULL;
	again_ack(&a);
}

static void make_hello(struct input *in)
{
	struct tp_hello h = {
		.reply = in8(in) & 1, .version = in8(in), .flags = in8(in), .mpr = in8(in),
		.max_payload = in32(in),
	};

	again_hello(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	switch (in8(&in)) {
	case 'p':
		make_packet(&in);
		break;
	case 'a':
		make_ack(&in);
		break;
	case 'h':
		make_hello(&in);
		break;
	default:	/* the rest of the input ends where its memory ends */
		try_packet(in.p, (u32)(in.end - in.p));
		try_ack(in.p, (u32)(in.end - in.p));
		try_hello(in.p, (u32)(in.end - in.p));
	}
	return 0;
}
