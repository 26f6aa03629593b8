// SPDX-License-Identifier: Apache-2.0
//
// One direction of one queue pair, and the table that finds it.
#ifndef FCK_FLOW_H
#define FCK_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "packet.h"
#include "psn.h"

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
