// SPDX-License-Identifier: Apache-2.0
//
// Everything that says what a port lost, by name: counters of the device, of the kernel, of rings and workers, since the start.
// What a driver does not count is unknown, never 0.
#ifndef RECEIVER_LOSS_H
#define RECEIVER_LOSS_H

#include "control.h"

enum { LOSS_MOST = 512 };

// Whatever says that packets were lost: docs/receiver.md has a table of the same, which a test compares.
enum lost {
	LOST_DROPPED, // the sum of those that are about different packets
	LOST_MISSED,
	LOST_ERRORS,
	LOST_NO_BUFFER,
	LOST_KERNEL_RING,
	LOST_BEFORE_START,
	LOST_DEALER_TUNNEL_GAPS,
	LOST_DEALER_UNCOUNTED,
	LOST_DEALER_UNREAD,
	LOST_WORKER_RING, // from here on: of each worker
	LOST_WORKER_TUNNEL_GAPS,
	LOST_WORKER_UNCOUNTED,
	LOST_WORKER_SEGMENTED,
	LOST_WORKER_MISSING,
	LOST_WORKER_UNREAD,
	LOST_DEVICE, // as its driver calls it
	LOST_KINDS
};

// The counters of a port, of which there are LOSS_MOST at most; how many. The first one is "dropped": packets that arrived and
// came to nobody's count.
uint32_t loss_of(struct control *control, uint32_t port, struct spool_counter *counters);

#endif
