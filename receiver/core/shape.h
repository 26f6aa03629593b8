// SPDX-License-Identifier: Apache-2.0
//
// What the packets of a message have in common: all that a parser would look at, but for the PSN. A packet that has the shape
// of the one before it need not be parsed.
#ifndef FCK_SHAPE_H
#define FCK_SHAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cursor.h"

enum {
	FCK_SHAPE_AT = 12, // the ethertype
	FCK_SHAPE_WORDS4 = 5,
	FCK_SHAPE_WORDS6 = 8,
	FCK_SHAPE_LEAST4 = 58, // bytes of the shortest plain frame
	FCK_SHAPE_LEAST6 = 78,
};

_Static_assert(FCK_SHAPE_AT + 8 * FCK_SHAPE_WORDS4 <= FCK_SHAPE_LEAST4, "words lie in the frame");
_Static_assert(FCK_SHAPE_AT + 8 * FCK_SHAPE_WORDS6 <= FCK_SHAPE_LEAST6, "words lie in the frame");

struct fck_shape {
	struct fck_flow_state *flow; // NULL: none yet
	uint32_t count;  // of words
	uint32_t psn_at; // offset of the PSN in the frame
	uint32_t end;    // offset behind the ICRC
	uint32_t length; // of the payload
	uint8_t opcode;
	uint64_t words[FCK_SHAPE_WORDS6]; // as in memory
};

// Left out: identification, TTL, checksums, the UDP source port, P_Key, and bits that no one looks at.
static const uint8_t fck_shape_masks4[FCK_SHAPE_WORDS4][8] = {
	{0xff, 0xff, 0xff, 0x03, 0xff, 0xff, 0, 0},          // ethertype, version and header length, ECN, total length
	{0x3f, 0xff, 0, 0xff, 0, 0, 0xff, 0xff},             // fragmentation, protocol, source
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0},          // source, destination
	{0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0x3f},          // destination port, length; opcode, padding, version
	{0, 0, 0, 0xff, 0xff, 0xff, 0, 0},                   // destination queue pair
};
static const uint8_t fck_shape_masks6[FCK_SHAPE_WORDS6][8] = {
	{0xff, 0xff, 0xf0, 0x30, 0, 0, 0xff, 0xff},          // ethertype, version, ECN, length
	{0xff, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},       // next header, source
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},    // source, destination
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	{0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff},          // destination; destination port, length
	{0, 0, 0xff, 0x3f, 0, 0, 0, 0xff},                   // opcode, padding, version, destination queue pair
	{0xff, 0xff, 0, 0, 0, 0, 0, 0},
};

static inline uint64_t fck_shape_word(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

// The shape of a plain frame of this flow.
static inline void fck_shape_take(
	struct fck_shape *shape, struct fck_flow_state *flow, const uint8_t *data, bool ipv4, uint8_t opcode, uint32_t end,
	uint32_t length
)
{
	shape->flow = flow;
	shape->count = ipv4 ? FCK_SHAPE_WORDS4 : FCK_SHAPE_WORDS6;
	shape->psn_at = ipv4 ? 51 : 71;
	shape->end = end;
	shape->length = length;
	shape->opcode = opcode;
	for (uint32_t i = 0; i < shape->count; i++)
		shape->words[i] = fck_shape_word(data + FCK_SHAPE_AT + 8 * i);
}

// Whether a frame of which `end` bytes are there has the shape. `count` is that of the shape, for the compiler to know.
static inline bool fck_shape_fits(const struct fck_shape *shape, const uint8_t *data, uint32_t count)
{
	const uint8_t (*masks)[8] = count == FCK_SHAPE_WORDS4 ? fck_shape_masks4 : fck_shape_masks6;
	uint64_t other = 0;

	for (uint32_t i = 0; i < count; i++)
		other |= (fck_shape_word(data + FCK_SHAPE_AT + 8 * i) ^ shape->words[i]) & fck_shape_word(masks[i]);
	return (other | (data[0] & 1)) == 0;
}

#endif
