// SPDX-License-Identifier: Apache-2.0
//
// One worker serves one queue of one port, or the ring that a dealer fills, on an lcore of its own, and counts into a core of
// its own.
#ifndef RECEIVER_WORKER_H
#define RECEIVER_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "book.h"
#include "fck.h"
#include "poll.h"
#include "spool.h"
#include "tap.h"

enum { EXCHANGE_ROWS = 2048, EXCHANGE_FLOWS = 512 };

enum exchange_turn { TURN_CONTROL, TURN_WORKER };

// What a worker hands over between two bursts, a piece at a time, so that it never stops for long. Whose turn it is owns all of it.
struct exchange {
	_Atomic uint32_t turn;
	uint32_t next_flow;   // where the worker goes on
	uint32_t known_flows; // of which the key was handed over
	bool complete;        // all flows were gone through
	uint32_t row_count;
	uint32_t part_count;
	uint32_t key_count;
	uint32_t first_key; // flow of keys[0]
	struct fck_capture capture;
	struct {
		uint32_t flow;
		uint32_t rows;
	} parts[EXCHANGE_FLOWS];
	struct spool_flow keys[EXCHANGE_FLOWS];
	struct fck_message rows[EXCHANGE_ROWS];
};

struct place;

struct worker {
	_Atomic bool stop;
	uint16_t port;
	uint16_t queue;
	uint32_t config_port; // index
	struct poll_rest rest;
	struct rte_ring *ring; // what a dealer deals it; NULL: it polls the queue itself
	struct poll_time time;
	struct tap_port *tap;  // what writes all packets to a file; NULL: nothing does, or the dealer hands them over
	struct fck_core *core;
	struct exchange *exchange;
	struct flow_book book; // of the control thread
	uint64_t missing; // PSNs never seen between those of its flows; once it has ended
	bool ended;
	uint32_t drain; // bursts before an end, where the queue never gets empty
	int64_t unread; // packets that were left in the queue or ring; -1: unknown; once it has ended
	struct place *place;      // NULL: nothing is placed
	struct place *place_next; // what it is to begin with at the next exchange
	// Written by the worker, read by others at any time.
	_Atomic uint64_t uncounted;  // frames that the core had no memory for
	_Atomic uint64_t segmented;  // frames longer than an mbuf: only the first part was looked at
	_Atomic int64_t fill_most;   // most packets that were waiting in the queue; -1: the driver does not say
};

// An lcore_function_t; the argument is a struct worker.
int worker_run(void *argument);
// Fills the exchange with the next piece. For the control thread once the worker has ended.
void worker_fill(struct worker *worker);

#endif
