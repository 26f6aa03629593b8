// SPDX-License-Identifier: Apache-2.0
//
// The only way packet bytes are read: a window that knows both how many bytes are there and how many there should be.
#ifndef FCK_CURSOR_H
#define FCK_CURSOR_H

#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>

struct fck_cursor {
	const uint8_t *data;
	uint32_t captured; // bytes that may be read, never more than `wire`
	uint32_t wire;     // bytes that the enclosing header says are there
};

static inline void fck_cursor_cut(struct fck_cursor *cursor, uint32_t wire)
{
	cursor->wire = wire;
	if (cursor->captured > wire)
		cursor->captured = wire;
}

// The next `size` bytes, and steps over them; NULL, without a step, when they are not there.
static inline const uint8_t *fck_cursor_take(struct fck_cursor *cursor, uint32_t size)
{
	const uint8_t *bytes = cursor->data;

	if (size > cursor->captured)
		return NULL;
	cursor->data += size;
	cursor->captured -= size;
	cursor->wire -= size;
	return bytes;
}

// Steps over bytes that need not be captured; false when not even the headers say that they exist.
static inline bool fck_cursor_skip(struct fck_cursor *cursor, uint32_t size)
{
	uint32_t there = size < cursor->captured ? size : cursor->captured;

	if (size > cursor->wire)
		return false;
	cursor->data += there;
	cursor->captured -= there;
	cursor->wire -= size;
	return true;
}

static inline uint16_t fck_be16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t fck_be24(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

static inline uint32_t fck_be32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | fck_be24(bytes + 1);
}

static inline uint64_t fck_be64(const uint8_t *bytes)
{
	return (uint64_t)fck_be32(bytes) << 32 | fck_be32(bytes + 4);
}

static inline uint32_t fck_le32(const uint8_t *bytes)
{
	return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 | bytes[0];
}

#endif
