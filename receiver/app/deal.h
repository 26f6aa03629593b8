// SPDX-License-Identifier: Apache-2.0
//
// Spreading by software: one lcore takes packets out of the only queue of a port and deals them to workers, by flow. A worker
// that does not keep up loses its own packets only, and they are counted.
#ifndef RECEIVER_DEAL_H
#define RECEIVER_DEAL_H

#include <rte_ring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "poll.h"
#include "spread.h"
#include "tap.h"

// From the dealer to one worker.
struct deal_lane {
	struct rte_ring *ring;
	_Atomic uint64_t dropped; // the ring was full
	_Atomic int64_t fill_most;
};

struct dealer {
	_Atomic bool stop;
	uint16_t port;
	uint32_t lcore;
	struct poll_rest rest;
	uint32_t drain;   // as of a worker
	int64_t unread;   // as of a worker
	bool ended;
	uint32_t lane_count; // 0: the port's packets are not dealt
	struct deal_lane lanes[CONFIG_WORKERS];
	struct fck_spreader spreader;
	struct poll_time time; // noted by the driver or here
	struct tap_port *tap;  // what writes all packets to a file; NULL: nothing does
	// Written by the dealer, read by others at any time.
	_Atomic int64_t fill_most; // packets in the queue; -1: the driver does not say
	_Atomic uint64_t sequence_gaps;
	_Atomic uint64_t refused;
	_Atomic uint64_t unnoted;
};

// Rings for `workers` of a port, `packets` each at least. False: say_error() was called.
bool deal_set_up(struct dealer *dealer, const struct config_port *config, uint16_t port, uint32_t packets);
void deal_free(struct dealer *dealer);
// An lcore_function_t; the argument is a struct dealer.
int deal_run(void *argument);
// Packets that found their worker's ring full.
uint64_t deal_dropped(const struct dealer *dealer);

#endif
