// SPDX-License-Identifier: Apache-2.0
//
// Looking at a few frames ahead of counting them. Where many flows take turns, each packet would wait for the memory of its
// own: so all of it is asked for before.
#ifndef FCK_AHEAD_H
#define FCK_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "fck.h"
#include "flow.h"
#include "plain.h"

#define FCK_AHEAD 32 // frames at a time

// What a frame is, as far as one sees without touching its flow.
struct fck_ahead {
	struct fck_plain plain;
	struct fck_key key;
	uint32_t hash;
	bool is_plain;
	bool middle;
	struct fck_flow_state *flow; // that most likely is its; NULL: none
};

// For a table that is not empty, up to FCK_AHEAD frames, and where no DSCP marks trimmed packets.
void fck_look_ahead(
	const struct fck_flow_table *table, uint32_t capture, const struct fck_input *frames, uint32_t count,
	struct fck_ahead *ahead
);

#endif
