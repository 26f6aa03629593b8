// SPDX-License-Identifier: Apache-2.0
//
// Takes finished messages out while packets go on coming. A piece that begins with its First, ends with its known last
// packet and of which all positions were seen cannot change any more: no position in it can be seen for the first time
// again. Its place is kept, so that the pieces around it come out as if it were still there; places that no packet can
// come between are one.
#include "flow.h"

#define TIDY_LEAST 64 // fewer are not worth a walk over all

static bool finished(const struct fck_flow_state *flow, uint64_t at, uint64_t *near)
{
	const struct fck_piece *piece = &flow->pieces.items[at];

	if (!piece->headed || piece->last != piece->end)
		return false;
	if (at + 1 < flow->pieces.count && piece[1].start <= piece->end)
		return false; // the RETH length contradicts what follows
	return fck_ranges_hold_near(&flow->sequence.seen, piece->start, piece->end, near);
}

static bool joins(const struct fck_flow_state *flow, const struct fck_piece *before, const struct fck_piece *piece)
{
	return before->packet_class == FCK_PIECE_TAKEN && piece->packet_class == FCK_PIECE_TAKEN &&
	       fck_ranges_hold(&flow->sequence.seen, before->start, piece->end);
}

// Makes one place of those between which nothing can come. All pieces are moved at most once for each one taken.
static void tidy(struct fck_flow_state *flow)
{
	struct fck_pieces *pieces = &flow->pieces;
	uint64_t kept = 0, settled = 0;

	for (uint64_t at = 0; at < pieces->count; at++) {
		const struct fck_piece *piece = &pieces->items[at];

		if (at == pieces->settled)
			settled = kept;
		if (kept > 0 && joins(flow, &pieces->items[kept - 1], piece))
			pieces->items[kept - 1].last = pieces->items[kept - 1].end = piece->end;
		else
			pieces->items[kept++] = *piece;
	}
	pieces->settled = pieces->settled == pieces->count ? kept : settled;
	pieces->count = kept;
	pieces->current = kept - 1;
	pieces->taken = 0;
}

// Is all but the message under way at the front looked at? That one is not finished, and its short way stays open.
static bool only_front_left(const struct fck_flow_state *flow)
{
	return flow->front.opcode != FCK_NO_FRONT && flow->sequence.highest < flow->front.until &&
	       flow->pieces.settled + 1 >= flow->pieces.count;
}

uint64_t fck_messages_take(struct fck_flow_state *flow, struct fck_message *out, uint64_t room)
{
	struct fck_pieces *pieces = &flow->pieces;
	uint64_t count = 0, near = 0;

	if (only_front_left(flow))
		return 0;
	fck_flow_settle(flow);
	for (; pieces->settled < pieces->count; pieces->settled++) {
		struct fck_piece *piece = &pieces->items[pieces->settled];

		if (piece->packet_class == FCK_PIECE_TAKEN || !finished(flow, pieces->settled, &near))
			continue;
		if (piece->packet_class == FCK_CLASS_WRITE) {
			if (count == room)
				break;
			out[count++] = fck_message_of(flow, pieces->settled, (uint64_t)(piece->end - piece->start) + 1);
		}
		piece->packet_class = FCK_PIECE_TAKEN;
		pieces->taken++;
	}
	if (pieces->taken >= TIDY_LEAST && 2 * pieces->taken >= pieces->count)
		tidy(flow);
	return count;
}
