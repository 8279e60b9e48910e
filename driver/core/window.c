// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The receive window: see window.h for the picture.
 *
 * A PSN's bit sits at PSN % TP_WINDOW. Since every bit outside
 * [executed, executed + TP_WINDOW) is clear, moving the executed point needs no
 * more than clearing the bit it leaves. Each PSN is stepped over twice in its
 * life (by the cumulative point and by the executed point), so the work per
 * packet is constant.
 */
#include "window.h"

static bool is_received(const struct tp_rx *rx, u32 psn)
{
	return rx->bits[psn % TP_WINDOW / 64] >> psn % 64 & 1;
}

/* Start with nothing received; @first_psn: the first PSN expected, 24 bits. */
void tp_rx_init(struct tp_rx *rx, u32 first_psn)
{
	*rx = (struct tp_rx) { .exec = first_psn, .cum = first_psn, .hi = first_psn };
}

enum tp_verdict tp_rx_check(const struct tp_rx *rx, u32 wire_psn, u32 *psn)
{
	s32 ahead;

	*psn = tp_extend24(wire_psn, rx->exec);
	ahead = tp_diff(*psn, rx->exec);
	if (ahead < 0)
		return TP_DUP;
	if (ahead >= TP_WINDOW)
		return TP_OUTSIDE;
	return is_received(rx, *psn) ? TP_DUP : TP_NEW;
}

void tp_rx_commit(struct tp_rx *rx, u32 psn)
{
	u32 end = rx->exec + TP_WINDOW;

	rx->bits[psn % TP_WINDOW / 64] |= BIT_ULL(psn % 64);
	if (tp_before(rx->hi, psn + 1))
		rx->hi = psn + 1;
	while (rx->cum != end && is_received(rx, rx->cum))
		rx->cum++;
	rx->ack_wanted = true;
}

bool tp_rx_ready(const struct tp_rx *rx)
{
	return rx->cum != rx->exec;
}

void tp_rx_executed(struct tp_rx *rx)
{
	rx->bits[rx->exec % TP_WINDOW / 64] &= ~BIT_ULL(rx->exec % 64);
	rx->exec++;
	rx->ack_wanted = true;
}

/* 64 bits from @psn on, wherever they begin in the ring. */
static u64 word_at(const struct tp_rx *rx, u32 psn)
{
	u32 i = psn % TP_WINDOW / 64;
	u32 shift = psn % 64;
	u64 w = rx->bits[i] >> shift;

	if (shift)
		w |= rx->bits[(i + 1) % TP_WINDOW_WORDS] << (64 - shift);
	return w;
}

/*
 * The words up to the highest PSN received. What lies above it in the ring are
 * bits of [executed, cumulative), so the last word must be cut off there.
 */
static void fill_words(const struct tp_rx *rx, struct tp_ack *a)
{
	u32 left = rx->hi - rx->cum;
	u32 psn = rx->cum;
	u32 n = 0;

	while (left >= 64) {
		a->bits[n++] = word_at(rx, psn);
		psn += 64;
		left -= 64;
	}
	if (left)
		a->bits[n++] = word_at(rx, psn) & (BIT_ULL(left) - 1);
	a->nwords = (u8)max_t(u32, n, 1);
}

bool tp_rx_take_ack(struct tp_rx *rx, enum tp_space space, struct tp_ack *a)
{
	bool plain;

	if (!rx->ack_wanted)
		return false;
	plain = !tp_rx_hole(rx) && rx->cum == rx->exec && !rx->probe && !rx->ce && !rx->dup;
	*a = (struct tp_ack) {
		.space = (u8)space,
		.mpr = TP_MPR,
		.exec_psn = rx->exec,
		.cum_psn = rx->cum,
		.probe = rx->probe,
		.probe_id = rx->probe ? rx->probe_id : 0,
		.ce = rx->ce,
		.dup = rx->dup,
		.entropy = plain ? 0 : rx->entropy,	/* an echo would make it a SACK */
	};
	if (!plain)
		fill_words(rx, a);
	rx->ack_wanted = false;
	rx->probe = false;
	rx->ce = false;
	rx->dup = false;
	return true;
}
