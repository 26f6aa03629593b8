// SPDX-License-Identifier: Apache-2.0
//
// Placement: with a job's expectation, every data packet has its place by PSN: (iteration, message, bytes). Fully
// reduced bytes are laid into gradient buffers of the caller. docs/design/0007-placement.md states the rules.
//
// Order of calls: fck_tracker_new(), a pattern for each kind of queue pair, fck_tracker_follow() for each queue pair,
// anchors, memory, fck_core_track(), frames, results. Anchors, memory and more queue pairs may be added between frames.
// A tracker belongs to the thread of its core, and must outlive it or be taken off by fck_core_track(core, NULL).
#ifndef FCK_TRACK_H
#define FCK_TRACK_H

#include <stdint.h>

#include "fck.h"

#ifdef __cplusplus
extern "C" {
#endif

// cffi: begin

struct fck_tracker;

enum fck_protocol { FCK_PROTOCOL_SIMPLE, FCK_PROTOCOL_LL, FCK_PROTOCOL_LL128 };

// How NCCL writes the length into the immediate: little-endian up to 2.28, big-endian from 2.29.2, or a request id.
enum fck_immediate { FCK_IMMEDIATE_LITTLE, FCK_IMMEDIATE_BIG, FCK_IMMEDIATE_IGNORED };

// One message of an iteration on one queue pair, in the order of sending. Where a message is cut over several queue
// pairs, its piece on this one. The separate 0-byte write of the adaptive-routing form is a slot of its own, with
// packets = 1, bytes = 0, and then the slot before it has no immediate (`immediate` = -2).
struct fck_slot {
	uint32_t packets;    // consecutive PSNs: max(1, ceil(bytes / mtu))
	uint32_t bytes;      // RETH DMA length of this piece
	int64_t immediate;   // expected value of its last packet; -1: not known, -2: must have none
	uint64_t data_at;    // byte of the group's gradient buffer where the data of the whole message begin
	uint32_t data_bytes; // gradient bytes of the whole message; what lies beyond is padding
	uint32_t wire_at;    // byte of the whole message where this piece begins; 0 unless cut over queue pairs
	uint32_t unit;       // presence bit of its first packet; its packets have consecutive ones
	uint32_t reduced;    // 1: fully reduced, to be laid; 0: only placed
	uint32_t step;       // FIFO steps of the iteration before this message
	uint32_t reserved;
};

struct fck_pattern_config {
	uint32_t mtu;        // 256 to 4096, a power of two
	uint32_t protocol;   // enum fck_protocol
	uint32_t immediate;  // enum fck_immediate
	uint32_t fifo_bytes; // of one step in NCCL's FIFO; 0: remote addresses are not checked
	uint32_t fifo_steps; // steps until the FIFO begins anew (NCCL: 8)
	uint32_t steps;      // FIFO steps of a whole iteration; 0: neither addresses nor the value of flags are checked
	uint32_t compare;    // 1: bytes that come again are compared with those that lie
	uint32_t search;     // 1: look for the base where no anchor is known or the step was lost
};

enum fck_finding_kind {
	FCK_FINDING_PART,            // First, Middle, Last or Only (BTH) where another belongs: enum-like opcode part
	FCK_FINDING_MESSAGE_LENGTH,  // RETH length
	FCK_FINDING_PACKET_LENGTH,   // payload of the packet
	FCK_FINDING_IMMEDIATE,       // value (-1: has none)
	FCK_FINDING_ADDRESS,         // RETH address, where the FIFO says another
	FCK_FINDING_FLAG_TORN,       // LL or LL128 flags of one packet differ
	FCK_FINDING_FLAG_VALUE,      // all the same, but of another step
	FCK_FINDING_CLASS,           // no RDMA write where one belongs: enum fck_class
	FCK_FINDING_PAYLOAD_DIFFERS, // bytes came again and are others: the unit is withdrawn; expected, found: first byte
	FCK_FINDING_STEP_LOST,       // from this packet on nothing is placed until an anchor is given or found
	FCK_FINDING_ANCHOR_FOUND,    // found: the iteration
	FCK_FINDING_KINDS
};

struct fck_finding {
	uint32_t kind;
	uint32_t track;
	uint64_t packet;   // running number of the core's frames, from 1
	int64_t position;
	uint64_t iteration;
	uint32_t slot;
	uint32_t reserved;
	int64_t expected;
	int64_t found;
};

enum { FCK_FINDING_LIMIT = 1024 }; // of them kept; all are counted

// Every packet of a followed queue pair is counted under exactly one.
enum fck_place_kind {
	FCK_PLACE_PLACED,   // at its place for the first time
	FCK_PLACE_REPEATED, // at its place again
	FCK_PLACE_CONFLICT, // contradicts the expectation: a finding says how
	FCK_PLACE_OUTSIDE,  // before the first anchor or between the windows of two
	FCK_PLACE_WAITING,  // no anchor yet, or the step was lost
	FCK_PLACE_LATE,     // of an iteration too long ago to tell whether it is a repeat
	FCK_PLACE_UNMEASURED, // its RDMA headers were not captured
	FCK_PLACES
};

// Every placed or repeated packet is counted under exactly one.
enum fck_lay_kind {
	FCK_LAY_LAID,
	FCK_LAY_PRESENT,     // its bytes lie already (and are the same, where compared)
	FCK_LAY_DIFFERS,     // its bytes lie already and are others: withdrawn
	FCK_LAY_DOUBTFUL,    // of a unit that was withdrawn before
	FCK_LAY_NOT_REDUCED, // partial sums, or no gradient bytes in it
	FCK_LAY_NO_MEMORY,   // no buffer for its group and iteration
	FCK_LAY_SHORT,       // not captured whole
	FCK_LAY_FLAG_TORN,
	FCK_LAY_UNCONFIRMED, // too many packets since the last message whose start was seen
	FCK_LAY_IN_FLIGHT,   // another worker is laying it at this moment: taken for the same, not compared
	FCK_LAYS
};

struct fck_track {
	uint32_t pattern;
	uint32_t group;
	uint64_t packets; // sum of `places`
	uint64_t places[FCK_PLACES];
	uint64_t lays[FCK_LAYS]; // sum: placed + repeated
	uint64_t revoked;        // of the packets laid, those taken back since the step was lost behind them
	uint64_t unconfirmed;    // of the packets laid, those that no start or end of a message has confirmed yet
	int64_t candidate;       // base found that no iteration number is known for: anchor there; INT64_MIN: none
	uint32_t waiting;        // 1: packets at the front are not placed now
	uint32_t iterations;     // rows for fck_tracker_iterations()
};

struct fck_track_iteration {
	uint64_t iteration;
	int64_t position;   // of its first packet
	uint64_t expected;  // packets
	uint64_t distinct;  // placed
	uint64_t repeats;
	uint64_t conflicts;
	uint64_t laid;      // of them, those that were revoked or withdrawn not included
};

// -ENOMEM.
int fck_tracker_new(struct fck_tracker **out);
void fck_tracker_free(struct fck_tracker *tracker);

// Number of a new pattern. -EINVAL: contradicts itself; -EOPNOTSUPP: pieces cut inside a line of LL or LL128; -ENOMEM.
int fck_tracker_pattern(
	struct fck_tracker *tracker, const struct fck_slot *slots, uint32_t count, const struct fck_pattern_config *config
);

// Number of a new track. Addresses as in struct fck_flow. -EINVAL: no such pattern; -EEXIST: followed already, or the
// group's buffer is cut into other units by another pattern; -EBUSY: brings new bytes to a group that has memory; -ENOMEM.
int fck_tracker_follow(
	struct fck_tracker *tracker, uint32_t capture, uint32_t family, const uint8_t *source, const uint8_t *destination,
	uint32_t dest_qp, uint32_t pattern, uint32_t group
);

// `iterations` of them follow one another without a break from `position` on, the first is number `iteration`; 0: up to
// the next anchor. -EINVAL: no such track, or not behind (position and iteration) the anchor given before; -ENOMEM.
int fck_tracker_anchor(
	struct fck_tracker *tracker, uint32_t track, int64_t position, uint64_t iteration, uint64_t iterations
);
// The queue pair begins anew: its next packet may have any PSN. The anchors known stay for what was placed. The next
// anchor's position counts from 2^24 * k above all before it, see fck_tracker_lift(). -EINVAL: no such track.
int fck_tracker_restart(struct fck_tracker *tracker, uint32_t track);
// What is to be added to a PSN for its position after a restart. -EINVAL: no such track.
int64_t fck_tracker_lift(const struct fck_tracker *tracker, uint32_t track);
// With `search`: the base found first, or after a loss of step, begins this iteration. Without this call
// bases are only shown as `candidate`. -EINVAL: no such track.
int fck_tracker_expect(struct fck_tracker *tracker, uint32_t track, uint64_t iteration);

// The caller's memory for one iteration of a group: `present` has one bit a unit, bit u & 63 of word u >> 6, and begins
// as zeros. It is used until fck_tracker_release(). Follow all queue pairs of the group first. -EINVAL: no such group,
// too small for its patterns, or one unit for two packets; -EEXIST: has memory; -ENOMEM.
int fck_tracker_gradient(
	struct fck_tracker *tracker, uint32_t group, uint64_t iteration, uint8_t *data, uint64_t size, uint64_t *present,
	uint64_t units
);
// -ENOENT: has no memory.
int fck_tracker_release(struct fck_tracker *tracker, uint32_t group, uint64_t iteration);
// Copies bytes that were all observed. -ENODATA: some were not; nothing is copied. -ENOENT: no memory.
int fck_gradient_read(
	const struct fck_tracker *tracker, uint32_t group, uint64_t iteration, uint64_t at, uint64_t size, uint8_t *out
);

// From now on the core hands every request packet to the tracker; NULL: no longer.
void fck_core_track(struct fck_core *core, struct fck_tracker *tracker);

// -EINVAL: no such track.
int fck_tracker_track(const struct fck_tracker *tracker, uint32_t track, struct fck_track *out);
// By iteration, as they were first seen. The array lives until the next frame. -EINVAL: no such track.
int fck_tracker_iterations(
	const struct fck_tracker *tracker, uint32_t track, const struct fck_track_iteration **rows, uint64_t *count
);
// The first FCK_FINDING_LIMIT findings; `counts` gets FCK_FINDING_KINDS numbers. Returns how many rows.
uint32_t fck_tracker_findings(const struct fck_tracker *tracker, const struct fck_finding **rows, uint64_t *counts);
// Request packets of queue pairs that are not followed.
uint64_t fck_tracker_unfollowed(const struct fck_tracker *tracker);

// Names such as "message_length", "placed", "laid"; NULL: no such number.
const char *fck_finding_name(uint32_t kind);
const char *fck_place_name(uint32_t kind);
const char *fck_lay_name(uint32_t kind);

// cffi: end

#ifdef __cplusplus
}
#endif

#endif
