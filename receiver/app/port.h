// SPDX-License-Identifier: Apache-2.0
//
// One capture port: a DPDK device, set up so that it hands over everything that arrives and nothing is sent.
#ifndef RECEIVER_PORT_H
#define RECEIVER_PORT_H

#include <rte_ethdev.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "extended.h"

struct port {
	const struct config_port *config;
	uint16_t id;
	uint16_t queues;
	uint16_t descriptors;
	enum config_spread spread; // SPREAD_AUTO: there is one worker
	const char *driver;
	struct rte_mempool *pool;
	struct rte_eth_stats before; // what its counters were at the start
	uint64_t socket_drops;       // of LOSS_PACKET, so far
	bool sockets_found;
	uint64_t before_start; // packets of LOSS_PACKET that came before, perhaps of other interfaces
	struct extended extended;
	int flow_control; // 0: it asks nobody to pause; -errno: that could not be done
	int promiscuous;  // 0, -errno
	uint32_t drain;    // bursts of a queue that never gets empty before an end: what waited in it is counted
	uint32_t sleep_us; // of those that poll it (rest.h); 0: never
};

// Finds and sets up the device. False: say_error() was called.
bool port_set_up(struct port *port, const struct config_port *config);
// Begins to receive. False: say_error() was called.
bool port_start(struct port *port);
void port_stop(struct port *port);

// Copies the counters since the start; false: the device gives none.
bool port_stats(const struct port *port, struct rte_eth_stats *stats);
// Reads what the device and the kernel have counted. Packets that arrived and never came to a worker; -1: unknown. `uncounted` are those that a core could not count.
int64_t port_dropped(struct port *port, uint64_t uncounted);

#endif
