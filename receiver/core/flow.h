// SPDX-License-Identifier: Apache-2.0
//
// One direction of one queue pair, and the table that finds it.
#ifndef FCK_FLOW_H
#define FCK_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "front.h"
#include "message.h"
#include "packet.h"
#include "psn.h"
#include "slab.h"

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

// The first two cache lines are all that a packet which goes on touches, but for its place in `recents`.
struct fck_flow_state {
	struct fck_key key;
	uint32_t hash;
	uint32_t mtu; // 0: unknown
	struct fck_front front;
	uint64_t bytes;
	struct fck_sequence sequence;
	struct fck_pieces pieces;
	uint32_t read_length; // of the read request at the highest position, its span not yet known; 0: none
	uint64_t packets[FCK_CLASSES];
	uint64_t truncated;
	struct fck_results results;
	const struct fck_tracker *tracker; // the one that was asked for `track`
	struct fck_track_state *track;     // NULL: not followed
	uint64_t tracks_asked;             // of the tracker's tracks when it was
	_Alignas(sizeof(struct fck_recent)) struct fck_recent recents[FCK_RECENT]; // where `sequence.recent` points to
};

_Static_assert(
	offsetof(struct fck_flow_state, sequence.seen) <= 2 * FCK_CACHE_LINE, "what a packet touches lies in two cache lines"
);

// With the hash, so that a flow in another one's place is not looked at.
struct fck_flow_slot {
	struct fck_flow_state *flow; // NULL: free
	uint32_t hash;
};

// Open addressing; flows never move, so that a pointer to one stays good.
struct fck_flow_table {
	struct fck_flow_slot *slots;
	uint32_t slot_count; // a power of two, or 0
	struct fck_flow_state **flows; // in the order of their first packet
	uint64_t count;
	uint64_t room;
	struct fck_flow_state *latest;
	struct fck_slab states; // where flows lie
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

// Fractions of the golden ratio, of the root of 2 and of pi, in 64 bits and odd.
#define FCK_ODD_1 0x9e3779b97f4a7c15u
#define FCK_ODD_2 0x6a09e667f3bcc909u
#define FCK_ODD_3 0x243f6a8885a308d3u

// Both halves of the product: every bit of it hangs on all bits of both.
static inline uint64_t fck_fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t fck_flow_hash(const struct fck_key *key)
{
	uint64_t a[2], b[2], rest = (uint64_t)key->where << 32 | key->dest_qp;

	memcpy(a, key->source, sizeof(a));
	memcpy(b, key->destination, sizeof(b));
	rest ^= fck_fold(a[0] ^ FCK_ODD_1, b[0] ^ FCK_ODD_2) ^ fck_fold(a[1] ^ FCK_ODD_3, b[1] ^ FCK_ODD_1);
	return (uint32_t)fck_fold(rest, FCK_ODD_2);
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

// May the flow's next packet be a Middle of this opcode and PSN, with nothing else to think of?
static inline bool fck_flow_goes_on(const struct fck_flow_state *flow, uint8_t opcode, uint32_t psn)
{
	int64_t highest = flow->sequence.highest;

	return opcode == flow->front.opcode && (((uint64_t)highest + 1) & FCK_PSN_MASK) == psn && highest < flow->front.until;
}

// What fck_flow_packet() would do with a packet that goes on. Without an ICRC one was not captured whole.
static inline void fck_flow_go_on(
	struct fck_flow_state *flow, uint32_t length, uint64_t time, uint32_t icrc, bool has_icrc
)
{
	struct fck_sighting sighting = {
		.position = ++flow->sequence.highest, .time = time, .icrc = icrc, .has_icrc = has_icrc,
	};

	if (length != flow->mtu && fck_is_mtu(length))
		flow->mtu = length;
	flow->bytes += length;
	flow->front.icrc = has_icrc ? flow->front.icrc + icrc : FCK_ICRC_UNKNOWN;
	flow->front.time = time > flow->front.time ? time : flow->front.time;
	fck_remember(&flow->sequence, &sighting);
}

// How many packets went on that `packets` does not count yet.
static inline uint64_t fck_flow_unsettled(const struct fck_flow_state *flow)
{
	return flow->front.opcode == FCK_NO_FRONT ? 0 : (uint64_t)(flow->sequence.highest - flow->front.from);
}

// The flow that most likely has this hash, whose memory is not touched; NULL: none has. For a table that is not empty.
static inline struct fck_flow_state *fck_flow_guess(const struct fck_flow_table *table, uint32_t hash)
{
	uint32_t at = hash & (table->slot_count - 1);

	while (table->slots[at].flow != NULL && table->slots[at].hash != hash)
		at = (at + 1) & (table->slot_count - 1);
	return table->slots[at].flow;
}

// Asks for the memory that a packet of this PSN will touch. What lies behind pointers: a moment later.
static inline void fck_flow_fetch(const struct fck_flow_state *flow, bool middle, uint32_t psn)
{
	const char *lines = (const char *)flow;

	__builtin_prefetch(&flow->recents[psn & (FCK_RECENT - 1)], 1); // that of its position, which ends in the same bits
	for (size_t line = 0; line < (middle ? 2 : 4); line++)
		__builtin_prefetch(lines + line * FCK_CACHE_LINE, 1);
}

static inline void fck_flow_fetch_places(const struct fck_flow_state *flow)
{
	if (flow->pieces.count == 0)
		return;
	__builtin_prefetch(&flow->pieces.items[flow->pieces.count - 1], 1);
	__builtin_prefetch(&flow->pieces.items[flow->pieces.count], 1);
	__builtin_prefetch(&flow->sequence.seen.items[flow->sequence.seen.count - 1], 1);
}

// Brings ranges, pieces and counters up to date, and ends the short way. Before anyone reads or changes them.
void fck_flow_settle(struct fck_flow_state *flow);
void fck_flow_table_free(struct fck_flow_table *table);
// NULL: not in the table.
struct fck_flow_state *fck_flow_find(struct fck_flow_table *table, const struct fck_key *key, uint32_t hash);
// `key` must not be in the table. NULL: no memory.
struct fck_flow_state *fck_flow_make(struct fck_flow_table *table, const struct fck_key *key, uint32_t hash);
// Counts one packet. -ENOMEM.
int fck_flow_packet(struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time, uint64_t window);

// The message that the piece at index `at` is, of which `packets` were seen.
struct fck_message fck_message_of(const struct fck_flow_state *flow, uint64_t at, uint64_t packets);
// Takes up to `room` finished messages out of the flow.
uint64_t fck_messages_take(struct fck_flow_state *flow, struct fck_message *out, uint64_t room);

// -ENOMEM; then the results are empty.
int fck_results_make(struct fck_flow_state *flow);
void fck_results_free(struct fck_results *results);

#endif
