// SPDX-License-Identifier: Apache-2.0
//
// The packet sequence numbers of one flow: which were seen, jumps, and what the repeats look like.
// docs/design/0004-c-core.md states the rules.
#ifndef FCK_PSN_H
#define FCK_PSN_H

#include <stdbool.h>
#include <stdint.h>

#include "fck.h"

#define FCK_RECENT 64 // a power of two

// A packet seen not long ago, so that a repeat can be held against it.
// Sixteen bytes: four in a cache line, none in two.
struct fck_recent {
	uint64_t time;
	uint32_t icrc;
	uint32_t mark; // made by fck_mark(); 0: none yet
};

#define FCK_MARK_USED 1u
#define FCK_MARK_ICRC 2u
#define FCK_MARK_LAP (~3u)

struct fck_ranges { // sorted, disjoint, maximal
	struct fck_range *items;
	uint64_t count;
	uint64_t room;
};

// Packets behind the highest position, in growing order and with no packet at the front between them.
struct fck_run {
	int64_t first;
	int64_t last;
	uint64_t time;    // of the last one
	uint64_t fills;   // seen for the first time
	uint64_t repeats; // seen before
	bool like_mirror; // all of them look like second copies of what was seen a moment ago
};

struct fck_tally {
	uint64_t retransmitted;
	uint64_t duplicated;
	uint64_t reordered;
	int64_t series; // position behind the latest duplicate: where a mirror that copies all would go on
};

struct fck_sequence {
	int64_t highest;
	struct fck_recent *recent; // FCK_RECENT of them, the caller's memory, zeroed
	struct fck_ranges seen;
	struct fck_ranges jumps; // sorted since each begins behind the highest position of its time
	struct fck_repeat *repeats;
	uint64_t repeats_count;
	uint64_t repeats_room;
	struct fck_run run;
	struct fck_tally tally;
};

struct fck_sighting {
	int64_t position;
	uint32_t span; // PSNs used: more than 1 for a read request only
	bool has_icrc;
	uint32_t icrc;
	uint64_t time;
};

static inline bool fck_in_run(const struct fck_run *run)
{
	return run->fills + run->repeats > 0;
}

static inline struct fck_recent *fck_recent_slot(const struct fck_sequence *sequence, int64_t position)
{
	return &sequence->recent[(uint64_t)position & (FCK_RECENT - 1)];
}

// How often the positions went round before this one, which with its place tells it from all less than 2^35 away.
static inline uint32_t fck_mark(int64_t position, bool has_icrc)
{
	return (uint32_t)((uint64_t)position / FCK_RECENT) << 2 | (has_icrc ? FCK_MARK_ICRC : 0) | FCK_MARK_USED;
}

static inline void fck_remember(struct fck_sequence *sequence, const struct fck_sighting *sighting)
{
	struct fck_recent *slot = fck_recent_slot(sequence, sighting->position);

	slot->time = sighting->time;
	slot->icrc = sighting->icrc;
	slot->mark = fck_mark(sighting->position, sighting->has_icrc);
}

void fck_sequence_free(struct fck_sequence *sequence);
// Position of a PSN; the first one of a sequence is its own position.
int64_t fck_sequence_place(const struct fck_sequence *sequence, uint32_t psn);
// 1: a position not seen before; 0: a repeat; -ENOMEM. Times further apart than `window` are no mirror duplicate.
int fck_sequence_add(struct fck_sequence *sequence, const struct fck_sighting *sighting, uint64_t window);
// The highest position had `more` PSNs behind it. -ENOMEM.
int fck_sequence_extend(struct fck_sequence *sequence, uint32_t more);
// The tally with the unfinished run counted.
struct fck_tally fck_sequence_tally(const struct fck_sequence *sequence);

// Were all positions from `first` to `last` seen?
bool fck_ranges_hold(const struct fck_ranges *ranges, int64_t first, int64_t last);
// The same for one who asks in growing order: `*near` is where the answer before was found, 0 at the beginning.
bool fck_ranges_hold_near(const struct fck_ranges *ranges, int64_t first, int64_t last, uint64_t *near);
// How many positions from `first` to `last` were seen.
uint64_t fck_ranges_covered(const struct fck_ranges *ranges, int64_t first, int64_t last);
// The nearest position seen above / below; there must be one.
int64_t fck_ranges_above(const struct fck_ranges *ranges, int64_t position);
int64_t fck_ranges_below(const struct fck_ranges *ranges, int64_t position);

// Makes room for one item more: `*items` points to `*room` items of `size` bytes, `count` in use. -ENOMEM.
int fck_reserve(void **items, uint64_t *room, uint64_t count, uint64_t size);

#endif
