// SPDX-License-Identifier: Apache-2.0
//
// The message under way at the front of a flow. While its Middle packets come one after the other, nothing but what stands
// here is written for them, all of it in the first two cache lines of a flow; fck_flow_settle() brings the rest up to date.
#ifndef FCK_FRONT_H
#define FCK_FRONT_H

#include <stdint.h>

#define FCK_NO_FRONT 256 // as `opcode`: no packet may take the short way
#define FCK_ICRC_UNKNOWN (INT64_MIN / 2) // below 0, also when the ICRCs of all packets of a message are added

struct fck_front {
	uint16_t opcode; // of the Middle packets that go on
	int64_t until;  // the highest position that the message may have
	int64_t icrc;   // sum of theirs; below 0: one was not captured
	uint64_t time;  // latest of the message
	int64_t from;   // highest position of which the flow's pieces and ranges know
};

#endif
