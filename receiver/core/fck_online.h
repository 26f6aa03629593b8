// SPDX-License-Identifier: Apache-2.0
//
// Placement while packets come: memory from boards, which the trackers of several workers fill together, and bytes that
// another engine copies. docs/design/0008-online-placement.md states the rules.
//
// After each burst: fck_tracker_publish(). A byte counts as present only from then on, or once its copy is done.
#ifndef FCK_ONLINE_H
#define FCK_ONLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "fck_board.h"
#include "fck_track.h"

#ifdef __cplusplus
extern "C" {
#endif

// Copies in the order in which it takes them over.
struct fck_copier {
	// Takes a copy over; false: the caller is to do it. Both stay as they are until fck_tracker_copied() was called for it.
	bool (*take)(void *context, uint8_t *to, const uint8_t *from, uint32_t bytes);
	// Comes back when all that was taken is copied, and fck_tracker_copied() was called for it.
	void (*finish)(void *context);
	void *context;
};

// The group's memory from now on. It outlives the tracker. Follow all queue pairs of the group first, and give the board to
// all trackers that fill it before the first one gets a packet. -EINVAL: no such
// group, or the board does not fit its patterns; -EEXIST: has one; -ENOMEM.
int fck_tracker_board(struct fck_tracker *tracker, uint32_t group, struct fck_board *board);
// Copies of whole packets go to `copier`, which the caller keeps. -ENOMEM.
int fck_tracker_copier(struct fck_tracker *tracker, const struct fck_copier *copier);
// The `count` oldest copies that were taken over are done.
void fck_tracker_copied(struct fck_tracker *tracker, uint64_t count);
// What was laid since the last call is present now. `now_ns`: CLOCK_REALTIME.
void fck_tracker_publish(struct fck_tracker *tracker, uint64_t now_ns);
// Waits for copies, publishes, and gives all slots back: what is not complete is closed where nobody else fills it.
void fck_tracker_let_go(struct fck_tracker *tracker, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
