// SPDX-License-Identifier: Apache-2.0
//
// Writes everything that arrives into pcapng files, on a thread of its own. Who takes packets out of a device never waits for it:
// what does not fit into the ring before the writer is not written, and counted.
#ifndef RECEIVER_TAP_H
#define RECEIVER_TAP_H

#include <pthread.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "pcapng.h"
#include "poll.h"

struct tap_port {
	struct rte_ring *ring;
	struct poll_time time; // noted in packets
	_Atomic uint64_t dropped; // the ring was full, or the file could not be written
	_Atomic int64_t fill_most;
	_Atomic uint64_t written;
};

struct tap {
	const struct config *config;
	uint32_t port_count;
	struct tap_port ports[CONFIG_PORTS];
	struct pcapng file;
	pthread_t thread;
	_Atomic bool stop;
	_Atomic int error; // of the file: nothing is written since
};

// Opens the first file. False: say_error() was called.
bool tap_set_up(struct tap *tap, const struct config *config);
// One more port, the next one in number. False: say_error() was called.
bool tap_add(struct tap *tap, uint16_t port, const struct poll_time *time);
bool tap_start(struct tap *tap);
// Writes what was still handed over, and ends the file.
void tap_finish(struct tap *tap);

// Notes the time of packets that have none, and hands them to the writer too. Their owner goes on with them as before.
static inline void tap_offer(struct tap_port *port, struct rte_mbuf **mbufs, uint16_t packets, uint64_t now)
{
	uint32_t free, done;

	for (uint16_t i = 0; i < packets; i++) {
		poll_note_time(&port->time, mbufs[i], now);
		rte_pktmbuf_refcnt_update(mbufs[i], 1);
	}
	done = rte_ring_mp_enqueue_burst(port->ring, (void **)mbufs, packets, &free);
	for (uint32_t i = done; i < packets; i++)
		rte_pktmbuf_refcnt_update(mbufs[i], -1);
	if (done < packets)
		atomic_fetch_add_explicit(&port->dropped, packets - done, memory_order_relaxed); // there may be several workers
	poll_most(&port->fill_most, (int64_t)(rte_ring_get_capacity(port->ring) - free));
}

#endif
