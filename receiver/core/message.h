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

// Adds a packet at a position seen for the first time; `seen` already has it. `mtu`: 0 where unknown. -ENOMEM.
int fck_pieces_add(
	struct fck_pieces *pieces, const struct fck_ranges *seen, int64_t position, uint64_t time, uint32_t mtu,
	const struct fck_packet *packet
);

#endif
