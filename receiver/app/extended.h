// SPDX-License-Identifier: Apache-2.0
//
// Extended counters of a device that tell of loss.
#ifndef RECEIVER_EXTENDED_H
#define RECEIVER_EXTENDED_H

#include <rte_ethdev.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXTENDED_MOST = 128 };

struct extended {
	uint32_t count;
	uint64_t ids[EXTENDED_MOST];
	struct rte_eth_xstat_name names[EXTENDED_MOST];
	uint64_t before[EXTENDED_MOST];
	uint64_t now[EXTENDED_MOST];
};

// Chooses those of a device that tell of loss, and keeps what they were. `counts`: its usual counters are to be believed.
void extended_begin(struct extended *extended, uint16_t port, bool counts);
// Reads them again.
void extended_read(struct extended *extended, uint16_t port);
static inline uint64_t extended_since(const struct extended *extended, uint32_t number)
{
	return extended->now[number] - extended->before[number];
}
// Packets that the device threw away before any of its queues, which its usual counters leave out.
uint64_t extended_before_queues(const struct extended *extended);

#endif
