// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * wire.c: the bytes of each header, one packet of each opcode there and back,
 * every length at which a packet can be cut, and bytes at random.
 */
#include "unit.h"
#include "wire.h"

enum {
	ONLY = 3, FIRST = 1, LAST = 2, MIDDLE = 0,
	BUF = TP_MAX_ACK + 64,
};

struct form {
	u8 opcode, kind, form;
	bool imm, inv;
	u32 hdr_len, payload;
};

static const struct form forms[] = {
	{ 0x64, TP_UD, ONLY, 0, 0, 20, 40 },
	{ 0x65, TP_UD, ONLY, 1, 0, 24, 40 },
	{ 0xc0, TP_SEND, FIRST, 0, 0, 32, 64 },
	{ 0xc1, TP_SEND, MIDDLE, 0, 0, 32, 64 },
	{ 0xc2, TP_SEND, LAST, 0, 0, 32, 64 },
	{ 0xc3, TP_SEND, LAST, 1, 0, 36, 64 },
	{ 0xc4, TP_SEND, ONLY, 0, 0, 32, 64 },
	{ 0xc5, TP_SEND, ONLY, 1, 0, 36, 64 },
	{ 0xc6, TP_WRITE, FIRST, 0, 0, 32, 64 },
	{ 0xc7, TP_WRITE, MIDDLE, 0, 0, 32, 64 },
	{ 0xc8, TP_WRITE, LAST, 0, 0, 32, 64 },
	{ 0xc9, TP_WRITE, LAST, 1, 0, 36, 64 },
	{ 0xca, TP_WRITE, ONLY, 0, 0, 32, 64 },
	{ 0xcb, TP_WRITE, ONLY, 1, 0, 36, 64 },
	{ 0xcc, TP_READ, ONLY, 0, 0, 32, 0 },
	{ 0xcd, TP_READ_DATA, FIRST, 0, 0, 32, 64 },
	{ 0xce, TP_READ_DATA, MIDDLE, 0, 0, 32, 64 },
	{ 0xcf, TP_READ_DATA, LAST, 0, 0, 32, 64 },
	{ 0xd0, TP_READ_DATA, ONLY, 0, 0, 32, 64 },
	{ 0xd2, TP_ATOMIC_DATA, ONLY, 0, 0, 32, 8 },
	{ 0xd3, TP_CAS, ONLY, 0, 0, 48, 0 },
	{ 0xd4, TP_FAA, ONLY, 0, 0, 48, 0 },
	{ 0xd6, TP_SEND, LAST, 0, 1, 36, 64 },
	{ 0xd7, TP_SEND, ONLY, 0, 1, 36, 64 },
	{ 0xda, TP_RDMA_FLUSH, ONLY, 0, 0, 36, 0 },
	{ 0xdb, TP_ATOMIC_WRITE, ONLY, 0, 0, 32, 8 },
	{ 0xde, TP_PROBE, ONLY, 0, 0, 28, 0 },
};

static bool is_atomic(u8 kind)
{
	return kind == TP_CAS || kind == TP_FAA;
}

/* 8 bytes of payload, always */
static bool has_word(u8 kind)
{
	return kind == TP_ATOMIC_DATA || kind == TP_ATOMIC_WRITE;
}

/* A packet of that form with every field set that the wire carries, and no other. */
static struct tp_pkt make(const struct form *f)
{
	struct tp_pkt p = {
		.kind = f->kind, .first = f->form & FIRST, .last = f->form & LAST,
		.has_imm = f->imm, .has_inv = f->inv,
		.solicited = true, .ack_req = true,
		.pkey = 0x8123, .dqpn = 0xabcdef, .psn = 0xfedcba,
	};

	if (f->imm || f->inv)
		p.imm = 0xa1b2c3d4;
	if (f->kind == TP_UD) {
		p.qkey = 0x11223344;
		p.src_qpn = 0x556677;
		return p;
	}
	p.rtx = true;
	p.ordered = true;
	if (f->kind == TP_PROBE) {
		p.probe_id = 0x1357;
		return p;
	}
	p.space = f->kind == TP_READ_DATA || f->kind == TP_ATOMIC_DATA;
	p.msn = 0x9abc;
	p.rqmsn = 0xdef0;
	p.va = 0x0123456789abcdefULL;
	p.rkey = 0x0f1e2d3c;
	p.dma_len = is_atomic(f->kind) || has_word(f->kind) ? 8 : 0x87654321;
	if (f->kind == TP_RDMA_FLUSH)
		p.imm = 0x2d;		/* any bits of the two fields */
	if (is_atomic(f->kind)) {
		p.swap_add = 0x1111222233334444ULL;
		p.compare = 0x5555666677778888ULL;
	}
	return p;
}

static void assert_same_pkt(const struct tp_pkt *a, const struct tp_pkt *b)
{
#define SAME(field) assert_int_equal(a->field, b->field)
	SAME(kind); SAME(space); SAME(first); SAME(last); SAME(has_imm); SAME(has_inv);
	SAME(solicited); SAME(ack_req); SAME(rtx); SAME(ordered); SAME(pad); SAME(pkey);
	SAME(probe_id); SAME(dqpn); SAME(psn); SAME(msn); SAME(rqmsn); SAME(rkey);
	SAME(dma_len); SAME(imm); SAME(va); SAME(swap_add); SAME(compare); SAME(src_qpn);
	SAME(qkey);
}

static void assert_same_ack(const struct tp_ack *a, const struct tp_ack *b)
{
	SAME(space); SAME(syndrome); SAME(value); SAME(mpr); SAME(probe); SAME(ce); SAME(dup);
	SAME(nwords); SAME(probe_id); SAME(dqpn); SAME(exec_psn); SAME(exec_msn); SAME(cum_psn);
	SAME(entropy); SAME(credited); SAME(credit);
	assert_memory_equal(a->bits, b->bits, sizeof(a->bits));
}

/* Decode from memory that ends where the packet ends. */
static int decode(struct tp_pkt *p, const u8 *buf, u32 len)
{
	u8 *copy = exact_copy(buf, len);
	int r = tp_wire_decode(p, copy, len);

	free(copy);
	return r;
}

static int decode_ack(struct tp_ack *a, const u8 *buf, u32 len)
{
	u8 *copy = exact_copy(buf, len);
	int r = tp_wire_decode_ack(a, copy, len);

	free(copy);
	return r;
}

static int decode_hello(struct tp_hello *h, const u8 *buf, u32 len)
{
	u8 *copy = exact_copy(buf, len);
	int r = tp_wire_decode_hello(h, copy, len);

	free(copy);
	return r;
}

/* Encodes form @i with its payload; returns the length. */
static u32 build(u32 i, u8 *buf)
{
	struct tp_pkt p = make(&forms[i]);

	memset(buf, 0xee, BUF);
	return tp_wire_encode(&p, buf) + forms[i].payload;
}

static u32 form_of(u8 opcode)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(forms); i++)
		if (forms[i].opcode == opcode)
			return i;
	fail();
	return 0;
}

/* ---- kinds ---- */

TEST(kind__each_opcode)
{
	u8 buf[TP_BTH_LEN] = { 0 };
	u32 known = 0, i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		buf[0] = forms[i].opcode;
		assert_int_equal(tp_wire_kind(buf), forms[i].kind);
	}
	buf[0] = 0xd1;
	assert_int_equal(tp_wire_kind(buf), TP_ACK);
	buf[0] = 0xd8;
	assert_int_equal(tp_wire_kind(buf), TP_ENDPOINT);
	buf[0] = 0xd9;
	assert_int_equal(tp_wire_kind(buf), TP_ENDPOINT);
	buf[0] = 0xdc;
	assert_int_equal(tp_wire_kind(buf), TP_SACK);
	buf[0] = 0xdd;
	assert_int_equal(tp_wire_kind(buf), TP_NACK);
	for (i = 0; i < 256; i++) {
		buf[0] = (u8)i;
		known += tp_wire_kind(buf) != TP_NONE;
	}
	assert_int_equal(known, ARRAY_SIZE(forms) + 5);
}

/* ---- data packets ---- */

TEST(encode__bytes_of_a_write)
{
	static const u8 expected[] = {
		0xcb, 0x80, 0x81, 0x23, 0x00, 0xab, 0xcd, 0xef, 0xa4, 0xfe, 0xdc, 0xba,
		0xde, 0xf0, 0x9a, 0xbc,
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x0f, 0x1e, 0x2d, 0x3c,
		0x87, 0x65, 0x43, 0x21,
		0xa1, 0xb2, 0xc3, 0xd4,
	};
	u8 buf[BUF];

	build(form_of(0xcb), buf);
	assert_memory_equal(buf, expected, sizeof(expected));
	assert_int_equal(buf[sizeof(expected)], 0xee);
}

TEST(encode__bytes_of_an_atomic)
{
	static const u8 expected[] = {
		0x00, 0x00, 0x00, 0x08,
		0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44,
		0x55, 0x55, 0x66, 0x66, 0x77, 0x77, 0x88, 0x88,
	};
	u8 buf[BUF];

	build(form_of(0xd3), buf);
	assert_memory_equal(buf + 28, expected, sizeof(expected));
	assert_int_equal(buf[48], 0xee);
}

TEST(encode__bytes_of_a_probe)
{
	static const u8 expected[] = { 0, 0, 0, 0, 0x13, 0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xee };
	u8 buf[BUF];

	build(form_of(0xde), buf);
	assert_memory_equal(buf + TP_BTH_LEN, expected, sizeof(expected));
}

TEST(encode__bytes_of_ud)
{
	static const u8 expected[] = {
		0x65, 0x80, 0x81, 0x23, 0x00, 0xab, 0xcd, 0xef, 0x80, 0xfe, 0xdc, 0xba,
		0x11, 0x22, 0x33, 0x44, 0x00, 0x55, 0x66, 0x77,
		0xa1, 0xb2, 0xc3, 0xd4, 0xee,
	};
	u8 buf[BUF];

	build(form_of(0x65), buf);
	assert_memory_equal(buf, expected, sizeof(expected));
}

/* UD is plain RoCEv2: none of our bits goes out, none comes in. */
TEST(encode__ud_has_no_bits_of_ours)
{
	struct tp_pkt p = make(&forms[0]), q;
	u8 buf[BUF] = { 0 };

	p.rtx = p.ordered = true;
	p.space = TP_RESPONSE;
	tp_wire_encode(&p, buf);
	assert_int_equal(buf[8], 0x80);
	buf[8] = 0xff;
	assert_int_equal(decode(&q, buf, 20), 20);
	assert_false(q.rtx || q.ordered || q.space);
}

TEST(encode__imm_only_in_last)
{
	struct tp_pkt p = make(&forms[form_of(0xc9)]);
	u8 buf[BUF];

	p.last = false;
	assert_int_equal(tp_wire_hdr_len(&p), 32);
	assert_int_equal(tp_wire_encode(&p, buf), 32);
	assert_int_equal(buf[0], 0xc7);
}

TEST(encode__wide_numbers_are_cut)
{
	struct tp_pkt p = make(&forms[form_of(0xca)]), q;
	u8 buf[BUF] = { 0 };

	p.psn = 0xff000001;
	p.msn = 0xffff0002;
	p.rqmsn = 0xffff0003;
	tp_wire_encode(&p, buf);
	assert_int_equal(decode(&q, buf, 40), 32);
	assert_int_equal(q.psn, 1);
	assert_int_equal(q.msn, 2);
	assert_int_equal(q.rqmsn, 3);
}

TEST(decode__gives_back_each_form)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tp_pkt p = make(&forms[i]), q;
		u8 buf[BUF];
		u32 len = build(i, buf);

		assert_int_equal(buf[0], forms[i].opcode);
		assert_int_equal(buf[forms[i].hdr_len], 0xee);	/* wrote no more than it says */
		assert_int_equal(buf[forms[i].hdr_len + 3], 0xee);
		assert_int_equal(tp_wire_hdr_len(&p), forms[i].hdr_len);
		assert_int_equal(len, forms[i].hdr_len + forms[i].payload);
		assert_int_equal(decode(&q, buf, len), forms[i].hdr_len);
		assert_same_pkt(&q, &p);
	}
}

/* Each flag alone: no two share a bit. */
TEST(decode__flags_apart)
{
	u32 i;

	for (i = 0; i < 5; i++) {
		struct tp_pkt p = { .kind = TP_SEND, .first = true, .last = true }, q;
		u8 buf[BUF];

		p.solicited = i == 0;
		p.ack_req = i == 1;
		p.rtx = i == 2;
		p.ordered = i == 3;
		p.pad = i == 4 ? 3 : 0;
		tp_wire_encode(&p, buf);
		assert_int_equal(decode(&q, buf, 36), 32);
		assert_same_pkt(&q, &p);
	}
}

TEST(decode__probe_of_either_space)
{
	struct tp_pkt p = { .kind = TP_PROBE, .first = true, .last = true, .space = TP_RESPONSE }, q;
	u8 buf[BUF];

	assert_int_equal(tp_wire_encode(&p, buf), 28);
	assert_int_equal(decode(&q, buf, 28), 28);
	assert_int_equal(q.space, TP_RESPONSE);
}

TEST(decode__cut_anywhere)
{
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(forms); i++)
		for (len = 0; len < forms[i].hdr_len; len++) {
			struct tp_pkt q;
			u8 buf[BUF];

			build(i, buf);
			assert_int_equal(decode(&q, buf, len), -1);
		}
}

TEST(decode__empty_payload)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tp_pkt q;
		u8 buf[BUF];

		build(i, buf);
		assert_int_equal(decode(&q, buf, forms[i].hdr_len),
				 has_word(forms[i].kind) ? -1 : (int)forms[i].hdr_len);
	}
}

TEST(decode__pad_longer_than_payload)
{
	static const u8 with_payload[] = { 0x64, 0x65, 0xc0, 0xca, 0xd0 };
	u32 i, pad;

	for (i = 0; i < ARRAY_SIZE(with_payload); i++)
		for (pad = 1; pad < 4; pad++) {
			u32 f = form_of(with_payload[i]);
			struct tp_pkt p = make(&forms[f]), q;
			u8 buf[BUF];

			p.pad = (u8)pad;
			tp_wire_encode(&p, buf);
			assert_int_equal(decode(&q, buf, forms[f].hdr_len + pad - 1), -1);
			assert_int_equal(decode(&q, buf, forms[f].hdr_len + pad), forms[f].hdr_len);
			assert_int_equal(q.pad, pad);
		}
}

TEST(decode__payload_where_none_belongs)
{
	static const u8 without[] = { 0xcc, 0xd3, 0xd4, 0xda, 0xde };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(without); i++) {
		u32 f = form_of(without[i]);
		struct tp_pkt q;
		u8 buf[BUF];

		build(f, buf);
		assert_int_equal(decode(&q, buf, forms[f].hdr_len + 1), -1);
		assert_int_equal(decode(&q, buf, forms[f].hdr_len + 4), -1);
		buf[1] |= 0x10;		/* padding is payload too */
		assert_int_equal(decode(&q, buf, forms[f].hdr_len), -1);
		assert_int_equal(decode(&q, buf, forms[f].hdr_len + 1), -1);
	}
}

TEST(decode__word_is_8_bytes)
{
	static const u8 words[] = { 0xd2, 0xdb };
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		struct tp_pkt q;
		u8 buf[BUF];

		build(form_of(words[i]), buf);
		for (len = 32; len < 48; len++)
			assert_int_equal(decode(&q, buf, len), len == 40 ? 32 : -1);
		buf[1] |= 0x30;
		assert_int_equal(decode(&q, buf, 40), -1);
	}
}

TEST(encode__bytes_of_a_flush)
{
	static const u8 expected[] = {
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x0f, 0x1e, 0x2d, 0x3c,
		0x87, 0x65, 0x43, 0x21,
		0x00, 0x00, 0x00, 0x2d, 0xee,
	};
	u8 buf[BUF];

	build(form_of(0xda), buf);
	assert_memory_equal(buf + 16, expected, sizeof(expected));
}

/* Reserved bits mean nothing; what the fields may hold is not the wire's to say. */
TEST(decode__flush_reserved_bits)
{
	struct tp_pkt q;
	u8 buf[BUF];

	build(form_of(0xda), buf);
	memset(buf + 32, 0xff, 4);
	assert_int_equal(decode(&q, buf, 36), 36);
	assert_int_equal(q.imm, 0x3f);
	assert_false(q.has_imm || q.has_inv);
	memset(buf + 32, 0, 4);
	assert_int_equal(decode(&q, buf, 36), 36);
	assert_int_equal(q.imm, 0);
}

/* Types 0..15, selectivity 0..3: at least one type, none but two, range or region. */
TEST(feth__valid)
{
	u32 i, n = 0;

	for (i = 0; i < 64; i++) {
		bool valid = i == 1 || i == 2 || i == 3 || i == 0x11 || i == 0x12 || i == 0x13;

		assert_int_equal(tp_feth_valid(i), valid);
		n += valid;
	}
	assert_int_equal(n, 6);
	assert_false(tp_feth_valid(0x41));
}

TEST(decode__atomic_of_another_length)
{
	static const u8 atomics[] = { 0xd2, 0xd3, 0xd4, 0xdb };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(atomics); i++) {
		struct tp_pkt q;
		u8 buf[BUF];
		u32 len = build(form_of(atomics[i]), buf);

		buf[31] = 9;
		assert_int_equal(decode(&q, buf, len), -1);
	}
}

TEST(decode__class_and_space_disagree)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tp_pkt q;
		u8 buf[BUF];
		u32 len = build(i, buf);

		if (forms[i].kind == TP_UD || forms[i].kind == TP_PROBE)
			continue;
		buf[8] ^= 0x08;
		assert_int_equal(decode(&q, buf, len), -1);
	}
}

TEST(decode__wrong_version)
{
	u32 i, bit;

	for (i = 0; i < ARRAY_SIZE(forms); i++)
		for (bit = 0; bit < 4; bit++) {
			struct tp_pkt q;
			u8 buf[BUF];
			u32 len = build(i, buf);

			buf[1] |= (u8)(1 << bit);
			assert_int_equal(decode(&q, buf, len), -1);
		}
}

/* MRC peers may put a time stamp behind METH. */
TEST(decode__steps_over_tseth)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tp_pkt p = make(&forms[i]), q;
		u32 len = build(i, (u8[BUF]){ 0 });
		u8 buf[BUF];

		if (forms[i].kind == TP_UD || forms[i].kind == TP_PROBE)
			continue;
		build(i, buf);
		memmove(buf + 20, buf + 16, BUF - 20);
		memset(buf + 16, 0x5a, 4);
		buf[8] |= 0x10;
		assert_int_equal(decode(&q, buf, len + 4), forms[i].hdr_len + 4);
		assert_same_pkt(&q, &p);
		assert_int_equal(decode(&q, buf, forms[i].hdr_len + 3), -1);
	}
}

TEST(decode__other_kinds_are_no_data)
{
	static const u8 others[] = { 0xd1, 0xd8, 0xd9, 0xdc, 0xdd, 0x00, 0x04, 0xff, 0xd5, 0xdf };
	u8 buf[BUF] = { 0 };
	struct tp_pkt q;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		buf[0] = others[i];
		assert_int_equal(decode(&q, buf, BUF), -1);
	}
}

/* ---- acknowledgements ---- */

static const struct tp_ack plain = {
	.space = TP_RESPONSE, .value = 31, .dqpn = 0xabcdef,
	.exec_psn = 0x123456, .cum_psn = 0x123456, .exec_msn = 0x654321,
};

static const struct tp_ack sack = {
	.space = TP_REQUEST, .syndrome = TP_SYN_RNR, .value = 14, .mpr = 8, .probe = true,
	.ce = true, .dup = true, .nwords = 2, .probe_id = 0x2468, .dqpn = 0xabcdef,
	.exec_psn = 0x123456, .exec_msn = 0x654321, .cum_psn = 0x123460, .entropy = 0xdeadbeef,
	.bits = { 0x8000000000000002ULL, 0x123456789abcdef0ULL },
};

TEST(encode_ack__bytes_of_a_plain_one)
{
	static const u8 expected[] = {
		0xd1, 0x00, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x08, 0x12, 0x34, 0x55,
		0x1f, 0x65, 0x43, 0x21, 0xee,
	};
	u8 buf[BUF];

	memset(buf, 0xee, sizeof(buf));
	assert_int_equal(tp_wire_encode_ack(&plain, buf), 16);
	assert_memory_equal(buf, expected, sizeof(expected));
}

TEST(encode_ack__bytes_of_a_sack)
{
	static const u8 expected[] = {
		0xdc, 0x00, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56,
		/* SETH: type, next, M, pr, probe id; entropy; contexts; cumulative; MPR, offset; bits */
		0x0f, 0xa2, 0x24, 0x68, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x12, 0x34, 0x5f, 0x00, 0x08, 0x00, 0x01,
		0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
		/* CC_STATE */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		/* SEXT */
		0x2e, 0x65, 0x43, 0x21, 0x12, 0x34, 0x56, 0x02, 0x24, 0x68, 0x00, 0x01,
		0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
		0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0xee,
	};
	u8 buf[BUF];

	memset(buf, 0xee, sizeof(buf));
	assert_int_equal(tp_wire_encode_ack(&sack, buf), 76);
	assert_memory_equal(buf, expected, sizeof(expected));
}

/* Credit takes the place of CC_STATE's "received bytes", and the CC type says so. */
TEST(encode_ack__bytes_of_credit)
{
	struct tp_ack a = plain;
	u8 buf[BUF];

	a.credited = true;
	a.credit = 0x123456;
	assert_int_equal(tp_wire_encode_ack(&a, buf), 60);
	assert_int_equal(buf[0], 0xdc);
	assert_int_equal(buf[12 + 16], 0x10);
	assert_int_equal(tp_get24(buf + 12 + 28 + 5), 0x123456);
}

/* A positive one names the PSN before the executed point, the others the one that can't be. */
TEST(encode_ack__psn_of_each_syndrome)
{
	struct tp_ack a = plain;
	u8 buf[BUF];

	a.exec_psn = 0;
	tp_wire_encode_ack(&a, buf);
	assert_int_equal(tp_get24(buf + 9), 0xffffff);
	a.syndrome = TP_SYN_RNR;
	tp_wire_encode_ack(&a, buf);
	assert_int_equal(tp_get24(buf + 9), 0);
	a.syndrome = TP_SYN_NAK;
	tp_wire_encode_ack(&a, buf);
	assert_int_equal(tp_get24(buf + 9), 0);
	assert_int_equal(buf[12] >> 5, 3);
}

static void there_and_back(const struct tp_ack *a)
{
	struct tp_ack b;
	u8 buf[TP_MAX_ACK];
	u32 len = tp_wire_encode_ack(a, buf);

	assert_int_equal(decode_ack(&b, buf, len), 0);
	assert_same_ack(&b, a);
}

TEST(decode_ack__gives_back_plain)
{
	struct tp_ack a = plain;

	there_and_back(&a);
	a.space = TP_REQUEST;
	a.syndrome = TP_SYN_RNR;
	there_and_back(&a);
	a.syndrome = TP_SYN_NAK;
	a.value = TP_NAK_REM_OP;
	there_and_back(&a);
	a.exec_psn = a.cum_psn = 0;
	there_and_back(&a);
}

/* Each of the things that make it a SACK, alone. */
TEST(decode_ack__gives_back_sack)
{
	struct tp_ack a = sack;
	u32 i;

	there_and_back(&a);
	for (i = 0; i < 6; i++) {
		a = plain;
		a.mpr = 255;
		a.credited = i == 5;
		a.credit = i == 5 ? 0xfedcba : 0;
		a.probe = i == 0;
		a.ce = i == 1;
		a.dup = i == 2;
		a.entropy = i == 3 ? 1 : 0;
		a.nwords = i == 4 ? 1 : 0;
		there_and_back(&a);
	}
	a.nwords = TP_SACK_WORDS;
	for (i = 0; i < TP_SACK_WORDS; i++)
		a.bits[i] = 0x0102030405060708ULL << i;
	there_and_back(&a);
}

TEST(decode_ack__wrap)
{
	struct tp_ack a = sack;

	a.exec_psn = 0xfffff0;
	a.cum_psn = 0;
	there_and_back(&a);
	a.exec_psn = a.cum_psn = 0;
	there_and_back(&a);
	a.exec_psn = 0xffffff;
	a.cum_psn = 1;
	there_and_back(&a);
}

TEST(decode_ack__each_length)
{
	u8 buf[BUF];
	u32 len, right;
	struct tp_ack b;

	memset(buf, 0, sizeof(buf));
	right = tp_wire_encode_ack(&plain, buf);
	for (len = 0; len < BUF; len++)
		assert_int_equal(decode_ack(&b, buf, len), len == right ? 0 : -1);
	right = tp_wire_encode_ack(&sack, buf);
	for (len = 0; len < BUF; len++)
		assert_int_equal(decode_ack(&b, buf, len), len == right ? 0 : -1);
}

TEST(decode_ack__impossible)
{
	struct tp_ack a, b;
	u8 buf[BUF];
	u32 len;

#define REFUSE(what)							\
	do {								\
		memset(buf, 0, sizeof(buf));				\
		a = sack;						\
		len = tp_wire_encode_ack(&a, buf);			\
		what;							\
		assert_int_equal(decode_ack(&b, buf, len), -1);		\
	} while (0)

	REFUSE(buf[1] |= 1);					/* version */
	REFUSE(buf[48] = 2 << 5);				/* syndrome class 2 */
	REFUSE(buf[48] |= 0x80);				/* syndrome's reserved bit */
	REFUSE(buf[55] = TP_SACK_WORDS + 1);			/* too many words */
	REFUSE(buf[55] = TP_SACK_WORDS + 1; len = 60 + 8 * (TP_SACK_WORDS + 1));
	REFUSE(buf[67] |= 1);					/* the hole was received */
	REFUSE(tp_put24(buf + 25, 0x123454));			/* received less than executed */
	REFUSE(tp_put24(buf + 25, 0x123455 + 255 * 128 + 1));	/* more than any window */
	REFUSE(buf[0] = 0xdd);					/* NACK */
	REFUSE(buf[0] = 0xca);
	tp_wire_encode_ack(&plain, buf);
	buf[12] = 2 << 5;
	assert_int_equal(decode_ack(&b, buf, 16), -1);
}

TEST(decode_ack__widest_window)
{
	struct tp_ack a = sack;

	a.cum_psn = a.exec_psn + 255 * 128;
	there_and_back(&a);
	a.cum_psn = a.exec_psn;
	there_and_back(&a);
}

/* ---- HELLO ---- */

TEST(hello__there_and_back)
{
	struct tp_hello h = { .version = 1, .flags = TP_HELLO_ICRC, .mpr = 8, .max_payload = 0x12345 }, g;
	u8 buf[BUF];
	u32 len, i;

	for (i = 0; i < 2; i++) {
		h.reply = i;
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(tp_wire_encode_hello(&h, buf), TP_BTH_LEN + TP_HELLO_LEN);
		assert_int_equal(buf[0], 0xd8 + i);
		assert_memory_equal(buf + 24, "\0\0\0\0\0\0\0\0\xee", 9);
		assert_int_equal(tp_wire_dqpn(buf), TP_ENDPOINT_QPN);
		for (len = 0; len < TP_BTH_LEN + TP_HELLO_LEN; len++)
			assert_int_equal(decode_hello(&g, buf, len), -1);
		for (; len < BUF; len += 7) {
			assert_int_equal(decode_hello(&g, buf, len), 0);
			assert_int_equal(g.reply, h.reply);
			assert_int_equal(g.version, h.version);
			assert_int_equal(g.flags, h.flags);
			assert_int_equal(g.mpr, h.mpr);
			assert_int_equal(g.max_payload, h.max_payload);
		}
	}
}

TEST(hello__refused)
{
	static const u8 spoil[] = { 0, 1, 7, 12, 15 };	/* opcode, version, QPN, magic */
	struct tp_hello h = { .version = 1 }, g;
	u8 buf[BUF];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(spoil); i++) {
		tp_wire_encode_hello(&h, buf);
		buf[spoil[i]] ^= 7;
		assert_int_equal(decode_hello(&g, buf, TP_BTH_LEN + TP_HELLO_LEN), -1);
	}
}

/* ---- bytes at random ---- */

/* What was accepted is encoded and accepted again as the same. */
static void again(const u8 *buf, u32 len)
{
	struct tp_pkt p, q;
	struct tp_ack a, b;
	u8 out[TP_MAX_ACK + 64] = { 0 };
	u32 n;
	int hdr = tp_wire_decode(&p, buf, len);

	if (hdr >= 0) {
		assert_true((u32)hdr + p.pad <= len);
		n = tp_wire_encode(&p, out);
		assert_int_equal(n, tp_wire_hdr_len(&p));
		assert_true((u32)hdr == n || (u32)hdr == n + 4);
		assert_int_equal(tp_wire_decode(&q, out, n + len - (u32)hdr), n);
		assert_same_pkt(&q, &p);
	}
	if (!tp_wire_decode_ack(&a, buf, len)) {
		n = tp_wire_encode_ack(&a, out);
		assert_int_equal(tp_wire_decode_ack(&b, out, n), 0);
		assert_true(a.nwords <= TP_SACK_WORDS);
		/* the window is not said in a plain one, which a SACK without news becomes */
		b.mpr = a.mpr;
		assert_same_ack(&b, &a);
	}
}

TEST(decode__random_bytes)
{
	u64 seed = 20260301;
	u32 i, j, accepted = 0;

	for (TRIES(i, 1000000)) {
		u32 len = rnd(&seed, 80);
		u8 *buf = malloc(len ? len : 1);
		struct tp_hello h;
		struct tp_pkt p;

		for (j = 0; j < len; j++)
			buf[j] = (u8)rnd64(&seed);
		if (len > 1 && i % 4) {		/* most of them nearly right */
			buf[0] = i % 4 == 1 ? 0xdc : 0xc0 | (buf[0] & 0x1f);
			buf[1] &= 0xf0;
		}
		if (len > 55 && i % 4 == 1) {
			buf[48] &= 0x7f;
			buf[55] = (u8)((len - 60) / 8);
			memcpy(buf + 52, buf + 25, 3);
		}
		again(buf, len);
		tp_wire_decode_hello(&h, buf, len);
		accepted += tp_wire_decode(&p, buf, len) >= 0;
		free(buf);
	}
	assert_in_range(accepted, i / 20, i - i / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(kind__each_opcode),
		RUN(encode__bytes_of_a_write),
		RUN(encode__bytes_of_an_atomic),
		RUN(encode__bytes_of_a_probe),
		RUN(encode__bytes_of_ud),
		RUN(encode__ud_has_no_bits_of_ours),
		RUN(encode__imm_only_in_last),
		RUN(encode__wide_numbers_are_cut),
		RUN(decode__gives_back_each_form),
		RUN(decode__flags_apart),
		RUN(decode__probe_of_either_space),
		RUN(decode__cut_anywhere),
		RUN(decode__empty_payload),
		RUN(decode__pad_longer_than_payload),
		RUN(decode__payload_where_none_belongs),
		RUN(decode__word_is_8_bytes),
		RUN(encode__bytes_of_a_flush),
		RUN(decode__flush_reserved_bits),
		RUN(feth__valid),
		RUN(decode__atomic_of_another_length),
		RUN(decode__class_and_space_disagree),
		RUN(decode__wrong_version),
		RUN(decode__steps_over_tseth),
		RUN(decode__other_kinds_are_no_data),
		RUN(encode_ack__bytes_of_a_plain_one),
		RUN(encode_ack__bytes_of_a_sack),
		RUN(encode_ack__bytes_of_credit),
		RUN(encode_ack__psn_of_each_syndrome),
		RUN(decode_ack__gives_back_plain),
		RUN(decode_ack__gives_back_sack),
		RUN(decode_ack__wrap),
		RUN(decode_ack__each_length),
		RUN(decode_ack__impossible),
		RUN(decode_ack__widest_window),
		RUN(hello__there_and_back),
		RUN(hello__refused),
		RUN(decode__random_bytes),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
