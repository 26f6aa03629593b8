// SPDX-License-Identifier: Apache-2.0
//
// Inside of the tracker. docs/design/0007-placement.md states the rules.
#ifndef FCK_TRACK_INSIDE_H
#define FCK_TRACK_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "fck_track.h"
#include "lay.h"
#include "packet.h"

#define FCK_FIFO_STEPS_LIMIT 16
#define FCK_PENDING_LIMIT 16
#define FCK_NOWHERE INT64_MIN
#define FCK_FOREVER (INT64_C(1) << 62) // behind every position; differences of positions stay far from overflow

struct fck_pattern {
	struct fck_pattern_config config;
	struct fck_slot *slots;
	uint32_t *starts; // first packet of each slot in the iteration; one more: the span
	uint32_t count;
	uint32_t span;    // packets of an iteration
	uint32_t rare;    // a slot whose packets and bytes are the rarest of the pattern
	uint32_t *alike;  // the slots like it, itself included
	uint32_t alike_count;
	bool periodic;    // a shift by some messages gives the same pattern: no base can be told
};

// Memory of one iteration of a group.
struct fck_gradient {
	uint32_t group;
	uint64_t iteration;
	uint8_t *data;
	uint64_t size;
	uint64_t *present;
	uint64_t *withdrawn; // units whose copies differed; ours where there is no board
	uint64_t units;
	struct fck_board *board; // NULL: memory that the caller lent
	uint32_t slot;           // of the board
	uint64_t *claimed;       // units that some worker has begun to lay, or laid
};

// A piece of a group's buffer as the tracks of the group bring it.
struct fck_extent {
	uint64_t data_at;
	uint32_t data_bytes;
	uint32_t wire_at;
	uint32_t bytes;
	uint32_t packets;
	uint32_t unit;
	uint32_t protocol;
	uint32_t mtu;
};

struct fck_group {
	uint32_t number;
	struct fck_extent *extents; // sorted by data_at, wire_at
	uint64_t count;
	uint64_t room;
};

// Iterations follow one another from `from` on, the first is number `iteration`.
struct fck_window {
	int64_t from;
	int64_t until; // behind its last packet
	uint64_t iteration;
	bool lost;     // until: where the step was lost
};

// One of the iterations that are remembered packet by packet.
struct fck_live {
	int64_t base; // FCK_NOWHERE: free
	uint64_t iteration;
	uint64_t row;
	uint64_t window;
	struct fck_gradient *gradient; // valid while `generation` is the tracker's
	uint64_t generation;
	uint64_t *seen; // a bit a packet
	uint64_t *laid; // of them, those that this track laid
};

// Packets laid behind the last message whose start or end was seen: to be taken back if the step turns out lost.
struct fck_pending {
	int64_t first;
	int64_t last;
};

struct fck_head { // of a message that was not placed
	int64_t position;
	uint32_t bytes;
	bool only;
};

struct fck_heads { // open addressing by position; filled anew when half full
	struct fck_head *items;
	uint32_t room; // a power of two
	uint32_t count;
	int64_t rare;  // position of the latest one like the pattern's rarest slot; FCK_NOWHERE: none
};

struct fck_track_state {
	struct fck_key key;
	uint32_t number;
	const struct fck_pattern *pattern;
	uint32_t group;
	struct fck_track counts;

	int64_t lift;
	int64_t highest;   // FCK_NOWHERE: no packet yet
	int64_t confirmed; // behind the last packet of the highest message whose start or end was seen
	bool fresh;        // restarted: the next packet has any PSN
	bool suspect;      // a packet before `confirmed` contradicted: a restart may be under way, nothing is placed
	int64_t open;      // first packet of the message whose start or end came last; FCK_NOWHERE: none

	struct fck_window *windows;
	uint64_t window_count;
	uint64_t window_room;

	struct fck_live *lives; // by iteration number, modulo
	uint32_t live_count;    // a power of two
	uint64_t *bits;         // of all of them
	struct fck_live *current;
	int64_t current_end;    // positions of `current` end here
	uint32_t slot;          // of the packet before

	struct fck_track_iteration *rows;
	uint64_t row_count;
	uint64_t row_room;

	struct fck_pending pending[FCK_PENDING_LIMIT];
	uint32_t pending_count;

	// What was learned in a window about flags and addresses: values less the steps counted from its begin.
	uint64_t learned_window;
	bool flag_known;
	uint64_t flag;
	uint32_t addresses_known; // bits by step modulo fifo_steps
	uint64_t addresses[FCK_FIFO_STEPS_LIMIT];

	struct fck_heads heads;
	int64_t gapless; // next position if no packet lacks since the step was lost; FCK_NOWHERE: some do
	bool expects;    // the caller said the number of the next base
	uint64_t expected;
};

struct fck_board;
struct fck_online_state;

struct fck_tracker {
	struct fck_pattern **patterns;
	uint64_t pattern_count;
	uint64_t pattern_room;
	struct fck_track_state **tracks;
	uint64_t track_count;
	uint64_t track_room;
	struct fck_group *groups;
	uint64_t group_count;
	uint64_t group_room;
	struct fck_gradient **gradients;
	uint64_t gradient_count;
	uint64_t gradient_room;
	uint64_t generation; // changes with every change of tracks or memory
	const struct fck_lay_ops *ops;
	struct fck_online_state *online; // NULL: no boards
	uint64_t unfollowed;
	struct fck_finding *findings; // FCK_FINDING_LIMIT
	uint32_t finding_count;
	uint64_t finding_counts[FCK_FINDING_KINDS];
};

// Where a packet is.
struct fck_place {
	struct fck_live *live;
	const struct fck_slot *slot;
	uint32_t number; // of the slot
	uint32_t packet; // in the slot
	uint32_t offset; // in the iteration
	int64_t position;
	uint64_t frame;  // running number
};

// NULL: not followed.
struct fck_track_state *fck_track_find(const struct fck_tracker *tracker, const struct fck_key *key);
// One request packet of a followed queue pair, at the flow's position. -ENOMEM.
int fck_track_packet(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, int64_t position,
	uint64_t frame
);

void fck_find_add(
	struct fck_tracker *tracker, struct fck_track_state *track, enum fck_finding_kind kind, const struct fck_place *place,
	int64_t expected, int64_t found
);
struct fck_gradient *fck_gradient_find(const struct fck_tracker *tracker, uint32_t group, uint64_t iteration);
struct fck_group *fck_group_find(const struct fck_tracker *tracker, uint32_t number);
// Adds the pattern's reduced slots to the group. -EEXIST, -ENOMEM.
int fck_group_join(struct fck_tracker *tracker, uint32_t number, const struct fck_pattern *pattern);

enum fck_check { FCK_CHECK_AGREES, FCK_CHECK_CONFLICT, FCK_CHECK_STEP_LOST };
// Holds the packet's headers against its place; findings are noted.
enum fck_check fck_check_headers(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
);
// FCK_CHECK_CONFLICT: torn.
enum fck_check fck_check_flag(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_place *place, bool whole, uint64_t flag
);

// Can the packet's bytes be laid as far as it can tell itself? FCK_LAY_LAID: yes; FCK_LAYS: its flag is another step's.
enum fck_lay_kind fck_track_weigh(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
);
// Lays a packet's bytes; the counter it belongs under.
enum fck_lay_kind fck_track_lay(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
);
void fck_track_revoke(struct fck_tracker *tracker, struct fck_track_state *track, int64_t first, int64_t last);

// Opens a window at `from`. -ENOMEM.
int fck_window_open(struct fck_track_state *track, int64_t from, uint64_t iteration, uint64_t iterations);
// The window that a position is in or behind; NULL: before all.
struct fck_window *fck_window_at(const struct fck_track_state *track, int64_t position);
// Ends the last window at `until`.
void fck_window_close(struct fck_track_state *track, struct fck_window *window, int64_t until);
// A restart: what was at `lowest` goes above all before.
void fck_track_start_over(struct fck_track_state *track, int64_t lowest);

// A message's start that was not placed, for the search of the base. -ENOMEM.
int fck_search(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet,
	const struct fck_place *place
);
void fck_search_forget(struct fck_track_state *track);

#endif
