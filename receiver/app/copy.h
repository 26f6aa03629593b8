// SPDX-License-Identifier: Apache-2.0
//
// Copies of payload by a DMA device: the engine that placement asks first. Where it cannot take a copy, the worker makes
// it itself, past the cache (receiver/core/lay_vector.c), and that is counted.
#ifndef RECEIVER_COPY_H
#define RECEIVER_COPY_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "fck_online.h"

enum { COPY_FLIGHTS = 1024 }; // copies of a worker that are not done, at most: so many packets more live

struct copy_counts {
	uint64_t taken;  // by the device
	uint64_t full;   // made by the worker, since the device's queue was full
	uint64_t failed; // the device gave up, the worker made it
};

// One device with one queue: one worker's.
struct copy;

// Sets the device up. `target`, `bytes`: memory that it will write to. NULL: say_error() was called.
struct copy *copy_open(const char *device);
// Memory that copies will go to. False: say_error() was called.
bool copy_target(struct copy *copy, void *target, uint64_t bytes);
// The packets that payloads lie in from now on; they live until their copies are done.
void copy_burst(struct copy *copy, struct rte_mbuf **mbufs, uint16_t count);
// Begins what was taken, and tells the tracker of what is done.
void copy_poll(struct copy *copy);
struct fck_copier copy_copier(struct copy *copy, struct fck_tracker *tracker);
struct copy_counts copy_counts(const struct copy *copy);
void copy_close(struct copy *copy);

#endif
