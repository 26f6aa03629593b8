// SPDX-License-Identifier: Apache-2.0
//
// Cuts a flow's positions into messages. Every request packet belongs to one; only RDMA writes are handed out.
// The result does not depend on the order in which the packets came (but for times).
#ifndef FCK_MESSAGE_H
#define FCK_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"
#include "psn.h"

// A message, or the piece of one whose first packet was not seen. `end` is known from the RETH length, from a Last or
// Only packet, or not at all: then the piece takes all up to the next message.
struct fck_piece {
	int64_t start;
	int64_t last; // highest packet seen of it
	int64_t end;  // FCK_OPEN: unknown
	int64_t bytes;
	int64_t expected; // -1: unknown
	int64_t immediate;
	int64_t ll_flag;
	int64_t icrc_sum; // -1: unknown
	uint64_t first_time;
	uint64_t last_time;
	uint8_t opcode;      // of the packet at `start`
	uint8_t last_opcode; // of its Last or Only, where that was seen
	uint8_t packet_class;
	bool headed;         // its First or Only packet was seen
};

#define FCK_OPEN INT64_MIN
#define FCK_PIECE_TAKEN UINT8_MAX // as `packet_class`: taken out, only its place is kept

struct fck_pieces { // sorted by start
	struct fck_piece *items;
	uint64_t count;
	uint64_t room;
	uint64_t current; // the one used last
	uint64_t settled; // pieces before this one did not change since they were looked at by fck_flow_take()
	uint64_t taken;   // how many were taken since the last tidying up
};

static inline bool fck_piece_covers(const struct fck_piece *piece, int64_t position, uint8_t packet_class)
{
	return piece->packet_class == packet_class && (piece->end == FCK_OPEN || position <= piece->end);
}

// -1: not captured.
static inline int64_t fck_icrc_of(const struct fck_packet *packet)
{
	return packet->has_icrc ? (int64_t)packet->icrc : -1;
}

static inline void fck_piece_add_icrc(struct fck_piece *piece, int64_t icrc_sum)
{
	piece->icrc_sum = piece->icrc_sum < 0 || icrc_sum < 0 ? -1 : piece->icrc_sum + icrc_sum;
}

// A Middle packet right behind the last one seen of the piece at index `at`, which covers it.
static inline void fck_pieces_stretch(
	struct fck_pieces *pieces, uint64_t at, int64_t position, uint64_t time, const struct fck_packet *packet
)
{
	struct fck_piece *piece = &pieces->items[at];

	pieces->current = at;
	if (at < pieces->settled)
		pieces->settled = at;
	piece->last = position;
	piece->last_time = time > piece->last_time ? time : piece->last_time;
	fck_piece_add_icrc(piece, fck_icrc_of(packet));
}

// Adds a packet at a position seen for the first time; `seen` already has it. `mtu`: 0 where unknown. -ENOMEM.
int fck_pieces_add(
	struct fck_pieces *pieces, const struct fck_ranges *seen, int64_t position, uint64_t time, uint32_t mtu,
	const struct fck_packet *packet
);

#endif
