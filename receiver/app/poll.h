// SPDX-License-Identifier: Apache-2.0
//
// What all that poll have in common.
#ifndef RECEIVER_POLL_H
#define RECEIVER_POLL_H

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_pause.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "rest.h"

enum {
	POLL_BURST = 32,
	POLL_DRAIN = 1000, // bursts of a queue that never gets empty before an end, at least
	POLL_EMPTY = 32,   // empty polls before a sleep: what comes in a moment is waited for
	POLL_FULL = 16,    // full bursts between two looks at how full the queue is
};

// Where a time was noted in packets: by net_pcap, or by who took them out of the device.
struct poll_time {
	int offset;    // -1: nowhere
	uint64_t flag; // of the packets that have one
	uint64_t unit; // nanoseconds
};

// Nanoseconds since 1970.
static inline uint64_t poll_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time); // vDSO
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t poll_time_of(const struct poll_time *time, const struct rte_mbuf *mbuf, uint64_t burst_time)
{
	if (time->offset < 0 || (mbuf->ol_flags & time->flag) == 0)
		return burst_time;
	return *RTE_MBUF_DYNFIELD(mbuf, time->offset, const uint64_t *) * time->unit;
}

// Gives a packet a time that has none, so that it stays that of its arrival however long it lies in a ring.
static inline void poll_note_time(const struct poll_time *time, struct rte_mbuf *mbuf, uint64_t now)
{
	if ((mbuf->ol_flags & time->flag) != 0)
		return;
	*RTE_MBUF_DYNFIELD(mbuf, time->offset, uint64_t *) = now / time->unit;
	mbuf->ol_flags |= time->flag;
}

// Only one thread writes each of these counters.
static inline void poll_add(_Atomic uint64_t *counter, uint64_t more)
{
	if (more > 0)
		atomic_store_explicit(
			counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed
		);
}

static inline void poll_most(_Atomic int64_t *most, int64_t found)
{
	if (found > atomic_load_explicit(most, memory_order_relaxed))
		atomic_store_explicit(most, found, memory_order_relaxed);
}

// Of one that polls.
struct poll_rest {
	uint32_t sleep_us; // 0: never (rest.h)
	uint32_t empty;    // polls since there was something
	_Atomic uint64_t sleeps;
};

// For the thread that polls, once: sleeps as long as they are meant to be.
static inline void poll_rest_begin(const struct poll_rest *rest)
{
	if (rest->sleep_us > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)REST_SLACK_NS);
}

// Packets in a queue of a device. -1: the driver does not say.
static inline int64_t poll_waiting(uint16_t port, uint16_t queue)
{
	int found = rte_eth_rx_queue_count(port, queue);

	return found < 0 ? -1 : found;
}

// After an empty poll.
static inline void poll_rest(struct poll_rest *rest)
{
	if (rest->sleep_us == 0 || ++rest->empty < POLL_EMPTY) {
		rte_pause();
		return;
	}
	poll_add(&rest->sleeps, 1);
	usleep(rest->sleep_us);
}

#endif
