// SPDX-License-Identifier: Apache-2.0
//
// How long one that polls and finds nothing may sleep. No ring on the way may be full when it wakes, though the smallest
// frames come at line rate: a quarter of the smallest ring is given away, the rest is for a wake-up that comes late.
#ifndef RECEIVER_REST_H
#define RECEIVER_REST_H

#include <stdint.h>

enum {
	REST_FRAME_BITS = 84 * 8,   // the smallest Ethernet frame with preamble and gap
	REST_SHARE = 4,             // a ring is filled to a quarter at most
	REST_UNKNOWN_MBPS = 400000, // where a device tells no speed
	REST_LEAST_MBPS = 10000,    // virtual devices tell less than they bring
	REST_MOST_US = 500,         // unasked: times of packets are those of the look that finds them
	REST_LEAST_US = 10,         // a shorter sleep costs more than polling
	REST_SLACK_NS = 1000,       // by which the kernel may lengthen a sleep, instead of its usual 50 us
};

// Microseconds in which `packets` of a ring fill up to their share.
static inline uint64_t rest_bound_us(uint64_t packets, uint32_t mbps)
{
	if (mbps == 0 || mbps == UINT32_MAX) // DPDK's words for "none" and "unknown"
		mbps = REST_UNKNOWN_MBPS;
	if (mbps < REST_LEAST_MBPS)
		mbps = REST_LEAST_MBPS;
	return packets * REST_FRAME_BITS / REST_SHARE / mbps; // bits / (Mbit/s) are microseconds
}

// Where nobody asked for a time. 0: no sleep.
static inline uint32_t rest_unasked_us(uint64_t bound_us)
{
	if (bound_us < REST_LEAST_US)
		return 0;
	return bound_us < REST_MOST_US ? (uint32_t)bound_us : REST_MOST_US;
}

#endif
