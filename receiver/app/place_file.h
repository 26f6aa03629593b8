// SPDX-License-Identifier: Apache-2.0
//
// What is to be placed, as flowcheck-net writes it (receive/placement.py): a text file, one "key values" a line.
//
//   version 1
//   plan DIGEST                                       may be left out
//   group NUMBER SIZE UNITS CARRYING CYCLE NAME       of one slot
//   pattern MTU PROTOCOL IMMEDIATE FIFO_BYTES FIFO_STEPS STEPS COMPARE SEARCH
//   slot PACKETS BYTES IMMEDIATE DATA_AT DATA_BYTES WIRE_AT UNIT REDUCED STEP     of the pattern above
//   track PATTERN GROUP DEST_QP SOURCE DESTINATION CAPTURE
//   anchor POSITION ITERATION ITERATIONS              of the track above
//   end
#ifndef RECEIVER_PLACE_FILE_H
#define RECEIVER_PLACE_FILE_H

#include <stdint.h>

#include "config.h"
#include "fck_board.h"
#include "fck_track.h"

struct place_group {
	struct fck_board_shape shape; // without slots
	char name[FCK_BOARD_NAME];
};

struct place_pattern {
	struct fck_pattern_config config;
	struct fck_slot *slots;
	uint32_t count;
	uint32_t room;
};

struct place_anchor {
	int64_t position;
	uint64_t iteration;
	uint64_t iterations;
};

struct place_track {
	uint32_t pattern;
	uint32_t group;
	uint32_t dest_qp;
	uint32_t family;
	uint8_t source[16];
	uint8_t destination[16];
	char capture[CONFIG_TEXT];
	struct place_anchor *anchors;
	uint32_t count;
	uint32_t room;
};

struct place_file {
	char plan[FCK_BOARD_NAME + 1];
	struct place_group *groups;
	uint32_t group_count;
	uint32_t group_room;
	struct place_pattern *patterns;
	uint32_t pattern_count;
	uint32_t pattern_room;
	struct place_track *tracks;
	uint32_t track_count;
	uint32_t track_room;
};

// 0; -EINVAL: `line` is not understood, or the file does not end with "end"; -ENOMEM; or -errno of opening and reading.
int place_file_read(const char *path, struct place_file *file, uint32_t *line);
void place_file_free(struct place_file *file);

#endif
