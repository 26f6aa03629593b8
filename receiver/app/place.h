// SPDX-License-Identifier: Apache-2.0
//
// Payload of followed queue pairs into gradient boards in shared memory. Each worker has a tracker of its own; boards are
// one a group, files that other processes read (docs/payload.md).
#ifndef RECEIVER_PLACE_H
#define RECEIVER_PLACE_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"
#include "copy.h"
#include "fck_online.h"
#include "place_file.h"

struct place_board {
	struct fck_board *board;
	uint64_t bytes;
	int file;
	uint64_t told; // entries of its journal that were written
	uint64_t gone; // readers that died while they held or kept something
};

// Of the whole receiver. All zero: nothing is placed.
struct placement {
	const struct config *config;
	struct place_file file;
	struct place_board *boards; // one a group
	int log;                    // closed iterations, a line of JSON each
	uint64_t forgotten;         // entries of journals that were overwritten before they were written
};

// Of one worker.
struct place {
	struct fck_tracker *tracker;
	struct copy *copy;   // NULL: the worker copies
	uint64_t last_ns;    // of the last burst
	uint64_t close_ns;   // so long without a packet: slots are given back
	bool holds;          // slots, perhaps
	bool filled;         // since the last poll
};

// Reads the file where the configuration names one, and maps the boards. Where it is not there yet, nothing happens, and the
// control thread calls again. False: say_error() was called.
bool placement_open(struct placement *placement, const struct config *config);
// What a worker of a capture port needs; *out is NULL where it follows nothing. `number`: of the worker.
bool placement_worker(struct placement *placement, const char *capture, uint32_t number, struct place **out);
// Writes down what was closed since the last call. -errno.
int placement_tell(struct placement *placement);
// Of a group, by its number. -1: no such iteration yet.
struct placement_progress {
	int64_t newest;   // the last iteration that was begun
	int64_t complete; // the last iteration of which every byte is there
	uint64_t complete_ns;
};
struct placement_progress placement_progress(const struct placement *placement, uint32_t group);
// "groups": for the status.
void placement_print(const struct placement *placement);
// What became of a worker's packets, once it has ended.
void place_print(const struct place *place);
void placement_close(struct placement *placement);

// Before and after the packets of a burst are counted.
void place_begin(struct place *place, struct rte_mbuf **mbufs, uint16_t count);
void place_end(struct place *place, uint64_t now_ns);
// Where nothing came.
void place_rest(struct place *place, uint64_t now_ns);
// No packets come any more: closes everything.
void place_finish(struct place *place, uint64_t now_ns);
void place_free(struct place *place);

#endif
