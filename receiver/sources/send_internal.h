// SPDX-License-Identifier: Apache-2.0
// Shared by send.c (frames and batches), send_pace.c (deadlines) and send_socket.c (the interface).
#ifndef FCK_SEND_INTERNAL_H
#define FCK_SEND_INTERNAL_H

#include "send.h"

#include <stdatomic.h>
#include <stdbool.h>

#define FCK_SEND_BATCH 64u
// Below this a sleep would wake too late (a timer wakes 5 to 50 us late), so that the rest is waited for in a loop.
#define FCK_SEND_SPIN_NS 60000u
// No sleep is longer, so that fck_send_stop() is seen.
#define FCK_SEND_SLICE_NS 50000000u
#define FCK_LATE_STEPS 16u // buckets for each power of two
#define FCK_LATE_BUCKETS (61u * FCK_LATE_STEPS)

struct fck_send_item {
	const uint8_t *data;
	uint32_t length;
	uint64_t due;
};

// What the sender needs from the world; tests give it a clock and an interface of their own.
struct fck_send_world {
	void *context;
	uint64_t (*now)(void *context);
	void (*sleep_until)(void *context, uint64_t time_ns); // may return early
	// Give frames to the interface: how many it took (one at least), or -errno for the first of them.
	int (*give)(void *context, const struct fck_send_item *items, uint32_t count);
	void (*wait)(void *context); // until the interface may take more, for a millisecond or so
	bool (*link)(void *context); // is the link up?
	void (*close)(void *context);
};

// Deadlines. `packets` and `bits` are what was due so far.
struct fck_pace {
	uint32_t kind;
	uint64_t rate;
	uint64_t start;
	uint64_t base;
	uint64_t packets;
	uint64_t bits;
};

// When the next frame, recorded at `time_ns`, is due. FULL: 0.
uint64_t fck_pace_due(const struct fck_pace *pace, uint64_t time_ns);

// A histogram of lateness.
struct fck_late {
	uint64_t buckets[FCK_LATE_BUCKETS];
	uint64_t count;
	uint64_t max;
};

void fck_late_add(struct fck_late *late, uint64_t nanoseconds);
// The least bound that `permille` of the values do not exceed, at most 1/16 too large; 0 without values.
uint64_t fck_late_quantile(const struct fck_late *late, uint32_t permille);

struct fck_send {
	struct fck_send_world world;
	struct fck_pace pace;
	struct fck_late late;
	struct fck_send_report report;
	uint32_t longest;
	uint64_t patience;
	uint64_t now; // as last read
	atomic_bool stop;
	uint32_t count;
	struct fck_send_item batch[FCK_SEND_BATCH];
};

// -EINVAL: the configuration; -ENOMEM. Owns `world` from then on; on failure the caller still does.
int fck_send_make(struct fck_send **out, const struct fck_send_world *world, const struct fck_send_config *config);

#endif
