/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire format: MRC 1.0 framing for RC, plain RoCEv2 for UD. Layout and
 * constants live here, the one table of opcodes in wire.c. Everything behind
 * decode works on struct tp_pkt or struct tp_ack in host order and never looks
 * at an opcode again: what a packet is (kind) and where it stands in its
 * message (first, last) are fields.
 *
 *   RC data    BTH | METH | RETH | [ImmDt|IETH|FETH] | [AtomicETH] | payload | pad | ICRC
 *   Ack        BTH | AETH | ICRC
 *   SACK       BTH | SETH | CC_STATE | SEXT | ICRC            (SEXT: ours)
 *   Probe      BTH | PETH | ICRC
 *   Endpoint   BTH | ERTH or HELLO | ICRC                     (QPN 2)
 *   UD         BTH | DETH | [ImmDt] | payload | pad | ICRC
 *
 * SEXT, the extension of SACK between two of our own endpoints:
 *
 *   AETH 4 | executed PSN 24, words 8 | probe id 16, reserved 16 | words x 64 bits
 *
 * so that one packet says what was received and what was executed. Bit i of
 * the words, from the least significant bit of the first word, is PSN
 * cumulative + 1 + i. Every 64-bit word is big endian.
 */
#ifndef TP_WIRE_H
#define TP_WIRE_H

#include "env.h"

enum {
	TP_UDP_PORT	= 4791,
	TP_BTH_LEN	= 12,
	TP_METH_LEN	= 4,
	TP_RETH_LEN	= 16,
	TP_IMM_LEN	= 4,
	TP_FETH_LEN	= 4,
	TP_ATOMIC_LEN	= 16,	/* swap or add 64, compare 64 */
	TP_AETH_LEN	= 4,
	TP_SETH_LEN	= 28,
	TP_CC_LEN	= 8,
	TP_SEXT_LEN	= 12,
	TP_PETH_LEN	= 16,
	TP_DETH_LEN	= 8,
	TP_ICRC_LEN	= 4,
	TP_HELLO_LEN	= 20,
	TP_SACK_WORDS	= 16,	/* 64-bit words in the longest SACK: 1024 PSNs */
	TP_MAX_HDR	= TP_BTH_LEN + TP_METH_LEN + TP_RETH_LEN + TP_IMM_LEN + TP_ATOMIC_LEN,
	TP_MAX_ACK	= TP_BTH_LEN + TP_SETH_LEN + TP_CC_LEN + TP_SEXT_LEN + 8 * TP_SACK_WORDS,
	TP_DATA_OVERHEAD = TP_BTH_LEN + TP_METH_LEN + TP_RETH_LEN + TP_IMM_LEN + TP_ICRC_LEN,
	TP_BTH_SPACE	= 0x08,	/* in byte 8 of the BTH: response space */
	TP_GSI_QPN	= 1,
	TP_ENDPOINT_QPN	= 2,
};

enum tp_kind {
	TP_NONE,
	/* request space */
	TP_SEND,
	TP_WRITE,
	TP_READ,		/* READ request */
	TP_CAS,
	TP_FAA,
	TP_ATOMIC_WRITE,	/* 8 bytes of payload, as they are to stand in memory */
	TP_RDMA_FLUSH,
	/* response space */
	TP_READ_DATA,		/* without a byte: ATOMIC_WRITE, FLUSH is done */
	TP_ATOMIC_DATA,		/* 8 bytes of payload: the value before, big endian */
	/* either space, not numbered */
	TP_ACK,
	TP_SACK,
	TP_NACK,
	TP_PROBE,
	/* no space */
	TP_ENDPOINT,
	TP_UD,
	TP_KINDS
};

/* Requests of one packet that a message of the response space answers. */
static inline bool tp_kind_answered(u8 kind)
{
	return kind >= TP_READ && kind <= TP_RDMA_FLUSH;
}

/* Those of them that bring back the word that was there. */
static inline bool tp_kind_atomic(u8 kind)
{
	return kind == TP_CAS || kind == TP_FAA;
}

/* FETH: what is to be flushed, and how far; the rest of its 32 bits is not looked at. */
enum tp_feth {
	TP_FETH_GLOBAL		= 1 << 0,	/* placement type: visible to all that read memory */
	TP_FETH_PERSISTENT	= 1 << 1,	/* placement type: survives loss of power */
	TP_FETH_MR		= 1 << 4,	/* selectivity: the whole region, not the range */
	TP_FETH_BITS		= 0x3f,		/* type 4, selectivity 2 */
};

/* Does a FETH ask for anything, and for nothing else than what there is? */
static inline bool tp_feth_valid(u32 feth)
{
	const u32 types = TP_FETH_GLOBAL | TP_FETH_PERSISTENT;

	return feth & types && !(feth & ~(types | TP_FETH_MR));
}

enum tp_space {
	TP_REQUEST = 0,
	TP_RESPONSE = 1,
};

/**
 * struct tp_pkt - one packet of data or a probe, in host order
 * @kind: what it is
 * @space: request or response space
 * @first: first packet of its message
 * @last: last packet of its message
 * @has_imm: @imm holds immediate data, as a number
 * @has_inv: @imm holds a key to invalidate
 * @solicited: BTH SE
 * @ack_req: BTH A: answer at once
 * @rtx: sent before
 * @ordered: C9: not before every earlier message is complete
 * @dqpn: destination QPN, 24 bits
 * @psn: 24 bits from decode; 32 bits once extended
 * @msn: counts messages of this space, 16 bits from decode
 * @rqmsn: counts messages that consume a receive, 16 bits from decode. READ, ATOMIC,
 *	ATOMIC_WRITE, FLUSH: how many of their like are complete at the requester. In the response
 *	space: the ordinal of what it answers among their like
 * @va: WRITE, READ, ATOMIC, ATOMIC_WRITE, FLUSH: remote address of this packet's first byte.
 *	SEND, READ_DATA: byte offset inside the message
 * @rkey: remote key (0 where there is no remote address)
 * @dma_len: bytes of the whole message
 * @imm: see @has_imm, @has_inv. FLUSH: enum tp_feth
 * @swap_add: ATOMIC
 * @compare: ATOMIC
 * @pad: bytes of padding after the payload, 0..3
 * @probe_id: PROBE
 * @src_qpn: UD: sender's QPN
 * @qkey: UD
 * @pkey: partition key
 */
struct tp_pkt {
	u8 kind;
	u8 space;
	bool first;
	bool last;
	bool has_imm;
	bool has_inv;
	bool solicited;
	bool ack_req;
	bool rtx;
	bool ordered;
	u8 pad;
	u16 pkey;
	u16 probe_id;
	u32 dqpn;
	u32 psn;
	u32 msn;
	u32 rqmsn;
	u32 rkey;
	u32 dma_len;
	u32 imm;
	u64 va;
	u64 swap_add;
	u64 compare;
	u32 src_qpn;
	u32 qkey;
};

/* AETH syndrome classes, IBTA 9.7.5.1.1 */
enum tp_syndrome {
	TP_SYN_ACK = 0,		/* value: credit count, 31 = none kept */
	TP_SYN_RNR = 1,		/* value: encoded timer */
	TP_SYN_NAK = 3,		/* value: enum tp_nak */
};

enum tp_nak {
	TP_NAK_PSN_SEQ = 0,
	TP_NAK_INV_REQ = 1,
	TP_NAK_REM_ACCESS = 2,
	TP_NAK_REM_OP = 3,
};

/**
 * struct tp_ack - what one end knows of the other's packets, both ways a plain value
 * @space: which packets it speaks of
 * @syndrome: enum tp_syndrome
 * @value: of the syndrome, 5 bits
 * @exec_psn: next PSN to execute: everything below was executed; with RNR and
 *	NAK the packet that can't be. (24 bits from decode, as all PSNs.)
 * @exec_msn: messages executed, modulo 2^24 on the wire
 * @cum_psn: next PSN not received; never below @exec_psn
 * @nwords: words of @bits in use; 0 for a plain Acknowledge
 * @bits: bit i: PSN @cum_psn + i was received (bit 0 is clear by definition)
 * @probe: answers the probe @probe_id
 * @probe_id: see @probe
 * @entropy: echoed entropy of the packet that made this answer, 0 if unknown
 * @ce: that packet carried a congestion mark
 * @mpr: receive window in units of 128 PSNs from @exec_psn; 0 = not said
 * @dup: the packet that made this answer was received before (our answer to it may have been lost)
 * @credited: @credit is said
 * @credit: bytes that may be sent in all, in units of TP_CREDIT_UNIT, modulo 2^24
 */
struct tp_ack {
	u8 space;
	u8 syndrome;
	u8 value;
	u8 mpr;
	bool probe;
	bool ce;
	bool dup;
	bool credited;
	u8 nwords;
	u16 probe_id;
	u32 dqpn;
	u32 exec_psn;
	u32 exec_msn;
	u32 cum_psn;
	u32 entropy;
	u32 credit;
	u64 bits[TP_SACK_WORDS];
};

/* What two endpoints tell each other before they trust defaults no longer. */
struct tp_hello {
	bool reply;
	u8 version;
	u8 flags;		/* enum tp_hello_flags */
	u8 mpr;
	u32 max_payload;	/* bytes of payload that the sender of this can take in a packet */
};

enum tp_hello_flags {
	TP_HELLO_ICRC = 1 << 0,
	TP_HELLO_CREDIT = 1 << 1,	/* who sends this grants credit to those who send to it */
};

/**
 * tp_wire_kind() - what a BTH announces
 * @buf: at least TP_BTH_LEN bytes
 * Return: the kind, TP_NONE for an unknown opcode.
 */
enum tp_kind tp_wire_kind(const u8 *buf);

/* Destination QPN of a BTH, 24 bits. */
static inline u32 tp_wire_dqpn(const u8 *buf)
{
	return tp_get24(buf + 5);
}

/* Packet space of a BTH. */
static inline enum tp_space tp_wire_space(const u8 *buf)
{
	return buf[8] & TP_BTH_SPACE ? TP_RESPONSE : TP_REQUEST;
}

/**
 * tp_wire_decode() - parse a data packet, a probe or a UD packet
 * @p: filled, PSN and counters not yet extended
 * @buf: BTH and what follows, without ICRC
 * @len: bytes of @buf
 * Return: length of the headers (the payload starts there and is
 * @len - headers - p->pad bytes long), or -1 for anything malformed: truncated,
 * unknown opcode, class and space that disagree, padding longer than the
 * payload, payload where the kind has none, wrong version.
 */
int tp_wire_decode(struct tp_pkt *p, const u8 *buf, u32 len);

/**
 * tp_wire_hdr_len() - bytes of header that tp_wire_encode() will write for @p
 */
u32 tp_wire_hdr_len(const struct tp_pkt *p);

/**
 * tp_wire_encode() - write a data packet's, probe's or UD packet's headers
 * @buf: room for TP_MAX_HDR bytes
 * Return: bytes written.
 */
u32 tp_wire_encode(const struct tp_pkt *p, u8 *buf);

/* Acknowledge or SACK (chosen by a->nwords, a->probe, a->ce, a->entropy != 0, a->dup). */
int tp_wire_decode_ack(struct tp_ack *a, const u8 *buf, u32 len);
u32 tp_wire_encode_ack(const struct tp_ack *a, u8 *buf);	/* room for TP_MAX_ACK */

int tp_wire_decode_hello(struct tp_hello *h, const u8 *buf, u32 len);
u32 tp_wire_encode_hello(const struct tp_hello *h, u8 *buf);	/* BTH + TP_HELLO_LEN */

#endif
