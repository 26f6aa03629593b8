// SPDX-License-Identifier: Apache-2.0
//
// One direction of one queue pair, and the table that finds it.
#ifndef FCK_FLOW_H
#define FCK_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "message.h"
#include "packet.h"
#include "psn.h"

#define FCK_MTU_SMALLEST 256
#define FCK_MTU_LARGEST 4096

// What fck_flow_get() hands out; made by fck_results_make().
struct fck_results {
	struct fck_missing *missing;
	uint64_t missing_count;
	struct fck_gap *gaps;
	uint64_t gaps_count;
	struct fck_message *messages;
	uint64_t messages_count;
};

struct fck_tracker;
struct fck_track_state;

struct fck_flow_state {
	struct fck_key key;
	uint32_t hash;
	uint32_t mtu;         // 0: unknown
	uint32_t read_length; // of the read request at the highest position, its span not yet known; 0: none
	uint64_t packets[FCK_CLASSES];
	uint64_t truncated;
	uint64_t bytes;
	struct fck_sequence sequence;
	struct fck_pieces pieces;
	struct fck_results results;
	const struct fck_tracker *tracker; // the one that was asked for `track`
	struct fck_track_state *track;     // NULL: not followed
	uint64_t tracks_asked;             // of the tracker's tracks when it was
};

// Open addressing; flows never move, so that a pointer to one stays good.
struct fck_flow_table {
	struct fck_flow_state **slots;
	uint32_t slot_count; // a power of two, or 0
	struct fck_flow_state **flows; // in the order of their first packet
	uint64_t count;
	uint64_t room;
	struct fck_flow_state *latest;
};

static inline bool fck_same_address(const uint8_t *a, const uint8_t *b)
{
	uint64_t left[2], right[2];

	memcpy(left, a, sizeof(left));
	memcpy(right, b, sizeof(right));
	return ((left[0] ^ right[0]) | (left[1] ^ right[1])) == 0;
}

static inline bool fck_same_key(const struct fck_key *a, const struct fck_key *b)
{
	return a->dest_qp == b->dest_qp && a->where == b->where && fck_same_address(a->source, b->source) &&
	       fck_same_address(a->destination, b->destination);
}

// The flow found last, if it is this one; else NULL.
static inline struct fck_flow_state *fck_flow_latest(const struct fck_flow_table *table, const struct fck_key *key)
{
	return table->latest != NULL && fck_same_key(&table->latest->key, key) ? table->latest : NULL;
}

static inline bool fck_is_mtu(uint32_t length)
{
	return length >= FCK_MTU_SMALLEST && length <= FCK_MTU_LARGEST && (length & (length - 1)) == 0;
}

// Is this the next packet of a message that is under way at the front, and nothing else to think of? Then it takes the short way.
static inline bool fck_flow_goes_on(const struct fck_flow_state *flow, const struct fck_packet *packet)
{
	int64_t highest = flow->sequence.highest;
	const struct fck_piece *piece;

	if (packet->info.part != FCK_PART_MIDDLE || !packet->info.request || flow->pieces.count == 0)
		return false;
	piece = &flow->pieces.items[flow->pieces.count - 1];
	return (((uint64_t)highest + 1) & FCK_PSN_MASK) == packet->psn && piece->last == highest &&
	       fck_piece_covers(piece, highest + 1, packet->info.packet_class) && !fck_in_run(&flow->sequence.run) &&
	       flow->read_length == 0;
}

// What the rest of fck_flow_packet() would do.
static inline void fck_flow_go_on(struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time)
{
	struct fck_sighting sighting = {
		.position = flow->sequence.highest + 1, .time = time, .icrc = packet->icrc, .has_icrc = packet->has_icrc,
	};

	flow->packets[packet->info.packet_class]++;
	flow->truncated += packet->truncated;
	if (packet->length != flow->mtu && fck_is_mtu(packet->length))
		flow->mtu = packet->length;
	fck_sequence_next(&flow->sequence, &sighting);
	flow->bytes += packet->length;
	fck_pieces_stretch(&flow->pieces, flow->pieces.count - 1, sighting.position, time, packet);
}

void fck_flow_table_free(struct fck_flow_table *table);
// NULL: not in the table.
struct fck_flow_state *fck_flow_find(struct fck_flow_table *table, const struct fck_key *key);
// `key` must not be in the table. NULL: no memory.
struct fck_flow_state *fck_flow_make(struct fck_flow_table *table, const struct fck_key *key);
// Counts one packet. -ENOMEM.
int fck_flow_packet(struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time, uint64_t window);

// The message that the piece at index `at` is.
struct fck_message fck_message_of(const struct fck_flow_state *flow, uint64_t at);
// Takes up to `room` finished messages out of the flow.
uint64_t fck_messages_take(struct fck_flow_state *flow, struct fck_message *out, uint64_t room);

// -ENOMEM; then the results are empty.
int fck_results_make(struct fck_flow_state *flow);
void fck_results_free(struct fck_results *results);

#endif
