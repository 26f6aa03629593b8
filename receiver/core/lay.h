// SPDX-License-Identifier: Apache-2.0
//
// From the wire forms of NCCL's protocols to gradient bytes. docs/design/0007-placement.md shows the forms.
#ifndef FCK_LAY_H
#define FCK_LAY_H

#include <stdbool.h>
#include <stdint.h>

#include "fck_track.h"

#define FCK_LL_LINE 16u
#define FCK_LL128_LINE 128u
#define FCK_LL128_GROUP 2048u // what the 32 threads of a warp store at once
#define FCK_LL128_GROUP_DATA 1920u
#define FCK_LL128_HALF 1024u // a run of data bytes
#define FCK_LL128_HALF_DATA 960u

// One packet's payload and its place in the message.
struct fck_piece_of {
	const uint8_t *payload;
	uint32_t wire_at;    // byte of the message; a multiple of the protocol's line
	uint32_t length;     // of the payload; a multiple of the protocol's line
	uint32_t data_bytes; // of the message
};

// The ways to do it: portable, or with the vector unit of the machine.
struct fck_lay_ops {
	// The flag that all lines have: false where they differ. `length` may be 0.
	bool (*ll_flag)(const uint8_t *payload, uint32_t length, uint64_t *flag);
	// `bytes` of data from lines, a multiple of 4 or less than the last line holds.
	void (*ll_strip)(const uint8_t *payload, uint32_t bytes, uint8_t *out);
	// Copies to memory that is not read soon.
	void (*copy)(uint8_t *out, const uint8_t *data, uint32_t bytes);
	const char *name;
};

extern const struct fck_lay_ops fck_lay_portable;
// What suits this machine; the portable way where nothing else does.
const struct fck_lay_ops *fck_lay_best(void);

// The lines of the packet all carry the same flag? Simple has none: always true, flag 0.
bool fck_lay_flag(const struct fck_lay_ops *ops, uint32_t protocol, const struct fck_piece_of *piece, uint64_t *flag);
// Writes the packet's gradient bytes into the message's `data_bytes` at `data`, and nothing else.
void fck_lay(const struct fck_lay_ops *ops, uint32_t protocol, const struct fck_piece_of *piece, uint8_t *data);
// First byte of `data` that differs from what the packet carries; -1: none.
int64_t fck_lay_difference(uint32_t protocol, const struct fck_piece_of *piece, const uint8_t *data);
// The bytes of the message's data that the packet's reach over: from *low up to *high; empty where both are equal. LL128
// packets that are no multiple of 1024 bytes have other packets' bytes between their own.
void fck_lay_bounds(
	uint32_t protocol, uint32_t wire_at, uint32_t length, uint32_t data_bytes, uint32_t *low, uint32_t *high
);

// Does the packet carry gradient bytes, or padding only?
static inline bool fck_lay_carries(uint32_t protocol, uint32_t wire_at, uint32_t length, uint32_t data_bytes)
{
	uint32_t low, high;

	if (protocol == FCK_PROTOCOL_LL)
		return length > 0 && wire_at / 2 < data_bytes;
	if (protocol != FCK_PROTOCOL_LL128)
		return length > 0 && wire_at < data_bytes;
	if (wire_at % FCK_LL128_HALF == 0) // its first word comes first of its half
		return length > 0 && wire_at / FCK_LL128_HALF * FCK_LL128_HALF_DATA < data_bytes;
	fck_lay_bounds(protocol, wire_at, length, data_bytes, &low, &high);
	return low < high;
}

#endif
