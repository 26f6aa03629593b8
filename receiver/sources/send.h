// SPDX-License-Identifier: Apache-2.0
// Frames sent on a network interface at absolute deadlines.
//
// Use: open, hand every frame to fck_send_frame() (from one thread), fck_send_flush(), then read the report. What cannot be
// sent as it was on the wire is counted by name and left out. fck_send_stop() may be called from any thread.
#ifndef FCK_SEND_H
#define FCK_SEND_H

#include <stddef.h>
#include <stdint.h>

// cffi: begin

struct fck_send;

// When a frame is due. The first one is due at `start_ns`, except with FULL.
enum fck_send_pace {
	FCK_PACE_FULL,     // at once
	FCK_PACE_RECORDED, // as far behind the first one as in the recording, divided by the speed
	FCK_PACE_PACKETS,  // a number of packets a second
	FCK_PACE_BITS,     // a number of bits of frames a second; preamble, FCS and gap not counted
};

struct fck_send_config {
	uint32_t pace;        // enum fck_send_pace
	uint64_t rate;        // RECORDED: millionths of the recorded speed; PACKETS: millionths of a packet/s; BITS: bit/s; > 0
	uint64_t start_ns;    // on CLOCK_MONOTONIC
	uint64_t base_ns;     // RECORDED: the time in the recording that is due at `start_ns`
	uint32_t longest;     // bytes of the longest frame that the interface takes; a VLAN tag may come on top
	uint32_t bypass;      // 1: around the queueing discipline, where the interface can
	uint64_t patience_ns; // after so long with a full queue a frame is given up; 0: 1 s
};

// Why a frame was not sent.
enum fck_send_refusal {
	FCK_REFUSED_TRUNCATED,    // the capture holds less of it than was on the wire
	FCK_REFUSED_INCONSISTENT, // the capture holds more of it than was on the wire
	FCK_REFUSED_NOT_ETHERNET, // recorded on another kind of link
	FCK_REFUSED_TOO_SHORT,    // shorter than an Ethernet header
	FCK_REFUSED_TOO_LONG,     // longer than the MTU allows
	FCK_REFUSED_QUEUE_FULL,   // the interface took nothing for `patience_ns`
	FCK_REFUSALS
};

// The captures that frames belong to (see fck_capfile_bind()).
enum { FCK_SEND_OTHER, FCK_SEND_CHOSEN, FCK_SEND_NOT_ETHERNET };

struct fck_send_report {
	uint64_t packets; // taken by the interface
	uint64_t bytes;   // of them
	uint64_t refused[FCK_REFUSALS];
	uint64_t other;    // frames of FCK_SEND_OTHER
	uint64_t waits;    // times that the queue of the interface was full
	uint64_t first_ns; // CLOCK_MONOTONIC before the first packet, after the last; 0 without packets
	uint64_t last_ns;
	uint64_t timed;    // packets that had a deadline
	uint64_t late_median_ns; // how long after its deadline a packet was given to the interface: never too small, and at most
	uint64_t late_p99_ns;    // 1/16 too large
	uint64_t late_max_ns;    // exact
	uint32_t bypass;         // the queueing discipline is passed by
};

// Open a socket on an interface. -errno of socket, bind, if_nametoindex; -EPERM: needs CAP_NET_RAW; -EINVAL: the
// configuration.
int fck_send_open(struct fck_send **out, const char *interface, const struct fck_send_config *config);

void fck_send_close(struct fck_send *send);

// Take one frame: send it, or keep it for the batch until fck_send_flush(), or count why not. Blocks until it is due.
// `context` is a struct fck_send, so that this is an fck_capfile_sink. -ECANCELED: stopped; -errno of the interface.
int fck_send_frame(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
);

// Send what is kept. As fck_send_frame().
int fck_send_flush(struct fck_send *send);

// The recording begins again: its times now count from `base_ns`, which is due at `start_ns`. Other paces go on.
void fck_send_again(struct fck_send *send, uint64_t start_ns, uint64_t base_ns);

// Let the thread that sends return soon (within 0.1 s).
void fck_send_stop(struct fck_send *send);

struct fck_send_report fck_send_report(const struct fck_send *send);

// Such as "too_long"; NULL: no such number.
const char *fck_send_refusal_name(uint32_t refusal);

// CLOCK_MONOTONIC in nanoseconds.
uint64_t fck_send_now(void);

// cffi: end

#endif
