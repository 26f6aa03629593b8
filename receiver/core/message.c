// SPDX-License-Identifier: Apache-2.0
#include "message.h"

#include <errno.h>
#include <string.h>

#define NONE UINT64_MAX

static bool follows(const struct fck_pieces *pieces, uint64_t at, int64_t position)
{
	return at + 1 == pieces->count || pieces->items[at + 1].start > position;
}

// Index of the last piece that begins at or before `position`; NONE when there is none.
static uint64_t find(const struct fck_pieces *pieces, int64_t position)
{
	uint64_t low = 0, high = pieces->count, at = pieces->current;

	if (at < high && pieces->items[at].start <= position && follows(pieces, at, position))
		return at;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (pieces->items[middle].start <= position)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? NONE : low - 1;
}

// Puts `piece` in before index `at`. -ENOMEM.
static int insert(struct fck_pieces *pieces, uint64_t at, const struct fck_piece *piece)
{
	int rc = fck_reserve((void **)&pieces->items, &pieces->room, pieces->count, sizeof(*piece));

	if (rc != 0)
		return rc;
	memmove(&pieces->items[at + 1], &pieces->items[at], (pieces->count - at) * sizeof(*piece));
	pieces->items[at] = *piece;
	pieces->count++;
	pieces->current = at;
	return 0;
}

static void erase(struct fck_pieces *pieces, uint64_t at)
{
	pieces->count--;
	memmove(&pieces->items[at], &pieces->items[at + 1], (pieces->count - at) * sizeof(*pieces->items));
}

// A piece without a head that a packet below it may belong to.
static bool headless(const struct fck_pieces *pieces, uint64_t at, uint8_t packet_class)
{
	return at < pieces->count && !pieces->items[at].headed && pieces->items[at].packet_class == packet_class;
}

static void stretch_times(struct fck_piece *piece, uint64_t first_time, uint64_t last_time)
{
	if (first_time < piece->first_time)
		piece->first_time = first_time;
	if (last_time > piece->last_time)
		piece->last_time = last_time;
}

// Opcode of the lowest packet of what is left of a cut piece: its Last when that is all, else Middle.
static uint8_t opcode_of_rest(const struct fck_piece *rest)
{
	return rest->start == rest->end ? rest->last_opcode : fck_middle_of(rest->opcode, rest->packet_class);
}

// Cuts the piece at `at` so that what it has above `position` becomes a piece of its own, without head.
// The immediate goes with the upper part: only a Last carries one. -ENOMEM.
static int cut_above(struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t at, int64_t position)
{
	struct fck_piece rest = pieces->items[at];

	rest.start = fck_ranges_above(seen, position);
	rest.headed = false;
	rest.bytes = rest.expected = rest.ll_flag = rest.icrc_sum = -1;
	rest.opcode = opcode_of_rest(&rest);
	pieces->items[at].last = fck_ranges_below(seen, position + 1);
	pieces->items[at].immediate = pieces->items[at].icrc_sum = -1;
	return insert(pieces, at + 1, &rest);
}

// Piece `at` has just got a known First: the piece without head behind it is its tail, as far as it reaches. -ENOMEM.
static int take_tail(struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t at)
{
	struct fck_piece *head = &pieces->items[at], *tail = head + 1;
	bool open = head->end == FCK_OPEN;
	int rc;

	if (!headless(pieces, at + 1, head->packet_class) || (!open && tail->start > head->end))
		return 0;
	if (!open && tail->last > head->end) {
		rc = cut_above(pieces, seen, at + 1, head->end);
		if (rc != 0)
			return rc;
		head = &pieces->items[at];
		tail = head + 1;
	}
	head->last = tail->last;
	head->immediate = tail->immediate;
	head->last_opcode = tail->last_opcode;
	if (open)
		head->end = tail->end;
	stretch_times(head, tail->first_time, tail->last_time);
	fck_piece_add_icrc(head, tail->icrc_sum);
	erase(pieces, at + 1);
	pieces->current = at;
	return 0;
}

// A piece will begin at `position`: what the piece before it has above that becomes a piece of its own. The end of the piece
// before may then lie beyond; the piece that follows bounds it. -ENOMEM.
static int make_way(struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t before, int64_t position)
{
	int rc;

	if (before == NONE || pieces->items[before].last < position)
		return 0;
	rc = cut_above(pieces, seen, before, position);
	if (rc != 0)
		return rc;
	pieces->items[before].last = fck_ranges_below(seen, position);
	return 0;
}

// A First or Only.
static int add_head(struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t before, const struct fck_piece *head)
{
	uint64_t at = before == NONE ? 0 : before + 1;
	int rc = make_way(pieces, seen, before, head->start);

	if (rc == 0)
		rc = insert(pieces, at, head);
	if (rc != 0 || head->end == head->start)
		return rc;
	return take_tail(pieces, seen, at);
}

// A Middle or Last whose message is known, wholly or in part.
static int add_inside(
	struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t at, const struct fck_piece *packet, bool is_last
)
{
	struct fck_piece *piece = &pieces->items[at];
	int rc = 0;

	pieces->current = at;
	stretch_times(piece, packet->first_time, packet->last_time);
	if (is_last && piece->expected < 0) {
		if (piece->last > packet->start)
			rc = cut_above(pieces, seen, at, packet->start);
		piece = &pieces->items[at];
		piece->end = packet->start;
	}
	fck_piece_add_icrc(piece, packet->icrc_sum);
	if (packet->start > piece->last)
		piece->last = packet->start;
	if (is_last) {
		piece->immediate = packet->immediate;
		piece->last_opcode = packet->opcode;
	}
	return rc;
}

// A Middle or Last that no known message covers.
static int add_stray(
	struct fck_pieces *pieces, const struct fck_ranges *seen, uint64_t before, const struct fck_piece *packet, bool is_last
)
{
	uint64_t after = before == NONE ? 0 : before + 1;
	struct fck_piece *piece;
	int rc = make_way(pieces, seen, before, packet->start);

	if (rc != 0)
		return rc;
	if (is_last || !headless(pieces, after, packet->packet_class))
		return insert(pieces, after, packet);
	piece = &pieces->items[after];
	piece->start = packet->start;
	piece->opcode = packet->opcode;
	if (packet->ll_flag >= 0)
		piece->ll_flag = packet->ll_flag;
	stretch_times(piece, packet->first_time, packet->last_time);
	fck_piece_add_icrc(piece, packet->icrc_sum);
	pieces->current = after;
	return 0;
}

static struct fck_piece single(int64_t position, uint64_t time, const struct fck_packet *packet)
{
	return (struct fck_piece){
		.start = position,
		.last = position,
		.end = packet->info.part & FCK_PART_LAST ? position : FCK_OPEN,
		.bytes = -1,
		.expected = packet->info.part == FCK_PART_ONLY ? 1 : -1,
		.immediate = packet->immediate,
		.ll_flag = fck_ll_flag(packet),
		.icrc_sum = fck_icrc_of(packet),
		.first_time = time,
		.last_time = time,
		.opcode = packet->opcode,
		.last_opcode = packet->opcode,
		.packet_class = packet->info.packet_class,
		.headed = packet->info.part & FCK_PART_FIRST,
	};
}

int fck_pieces_add(
	struct fck_pieces *pieces, const struct fck_ranges *seen, int64_t position, uint64_t time, uint32_t mtu,
	const struct fck_packet *packet
)
{
	bool is_last = packet->info.part & FCK_PART_LAST;
	uint64_t at = find(pieces, position);
	struct fck_piece piece;

	if (packet->info.part == FCK_PART_MIDDLE && at != NONE && pieces->items[at].last == position - 1 &&
	    fck_piece_covers(&pieces->items[at], position, packet->info.packet_class)) {
		fck_pieces_stretch(pieces, at, position, time, packet);
		return 0;
	}
	if (at == NONE || at < pieces->settled)
		pieces->settled = at == NONE ? 0 : at;
	piece = single(position, time, packet);
	if (packet->has_reth)
		piece.bytes = packet->reth_length;
	if (packet->info.part == FCK_PART_FIRST && packet->has_reth && mtu > 0) {
		piece.expected = ((int64_t)packet->reth_length + mtu - 1) / mtu;
		piece.expected = piece.expected > 0 ? piece.expected : 1;
		piece.end = position + piece.expected - 1;
	}
	if (piece.headed)
		return add_head(pieces, seen, at, &piece);
	if (at != NONE && fck_piece_covers(&pieces->items[at], position, piece.packet_class))
		return add_inside(pieces, seen, at, &piece, is_last);
	return add_stray(pieces, seen, at, &piece, is_last);
}
