// SPDX-License-Identifier: Apache-2.0
#include "lay.h"

#include <string.h>

#include "cursor.h"

#define WORD 8u
#define LINE_WORDS 15u // data words of an LL128 line
#define LL_DATA 8u     // data bytes of an LL line
#define LL_PART 512u   // data bytes that are put together before they are copied
#define AHEAD 2048     // as in lay_vector.c

// Data of one LL128 line: `words` in a row at byte `at`, and where that is 14, one more at `tail`.
struct line128 {
	uint32_t at;
	uint32_t words;
	uint32_t tail;
};

static uint64_t le64(const uint8_t *bytes)
{
	return (uint64_t)fck_le32(bytes + 4) << 32 | fck_le32(bytes);
}

static bool portable_ll_flag(const uint8_t *payload, uint32_t length, uint64_t *flag)
{
	uint32_t first = length > 0 ? fck_le32(payload + 4) : 0, differs = 0;

	for (uint32_t at = 0; at < length; at += FCK_LL_LINE)
		differs |= (fck_le32(payload + at + 4) ^ first) | (fck_le32(payload + at + 12) ^ first);
	*flag = first;
	return differs == 0;
}

static void portable_ll_strip(const uint8_t *payload, uint32_t bytes, uint8_t *out)
{
	for (; bytes >= LL_DATA; bytes -= LL_DATA, payload += FCK_LL_LINE, out += LL_DATA) {
		memcpy(out, payload, 4);
		memcpy(out + 4, payload + 8, 4);
	}
	for (uint32_t i = 0; i < bytes; i++)
		out[i] = payload[i < 4 ? i : i + 4];
}

static void portable_copy(uint8_t *out, const uint8_t *data, uint32_t bytes)
{
	memcpy(out, data, bytes);
}

const struct fck_lay_ops fck_lay_portable = {portable_ll_flag, portable_ll_strip, portable_copy, "portable"};

static bool ll128_flag(const uint8_t *payload, uint32_t length, uint64_t *flag)
{
	uint64_t first = length > 0 ? le64(payload + LINE_WORDS * WORD) : 0, differs = 0;

	for (uint32_t at = 0; at < length; at += FCK_LL128_LINE)
		differs |= le64(payload + at + LINE_WORDS * WORD) ^ first;
	*flag = first;
	return differs == 0;
}

// A group is four quarters of four lines. In a pair of quarters the first one's lines hold words 0-14, 16-30 ... of the
// pair's 120; the second one's lines hold 14 words each of the rest, and last the word that the flag above displaced.
static struct line128 line_of(uint32_t wire)
{
	uint32_t group = wire / FCK_LL128_GROUP, line = wire % FCK_LL128_GROUP / FCK_LL128_LINE;
	uint32_t base = group * FCK_LL128_GROUP_DATA + line / 8 * 120 * WORD, row = line % 4;

	if (line / 4 % 2 == 0)
		return (struct line128){base + 16 * row * WORD, LINE_WORDS, 0};
	return (struct line128){base + (64 + 14 * row) * WORD, 14, base + (16 * row + 15) * WORD};
}

static uint32_t room(uint32_t data_bytes, uint32_t at, uint32_t bytes)
{
	if (at >= data_bytes)
		return 0;
	return bytes < data_bytes - at ? bytes : data_bytes - at;
}

// As much of a run as lies in the message's data: the rest is padding.
static void put(uint8_t *data, uint32_t data_bytes, uint32_t at, const uint8_t *run, uint32_t bytes)
{
	bytes = room(data_bytes, at, bytes);
	if (bytes > 0)
		memcpy(data + at, run, bytes);
}

static void ll128_strip(const struct fck_piece_of *piece, uint8_t *data)
{
	for (uint32_t at = 0; at < piece->length; at += FCK_LL128_LINE) {
		const uint8_t *line = piece->payload + at;
		struct line128 place = line_of(piece->wire_at + at);

		__builtin_prefetch(line + AHEAD);
		__builtin_prefetch(line + AHEAD + 64);
		if (place.at + place.words * WORD > piece->data_bytes) {
			put(data, piece->data_bytes, place.at, line, place.words * WORD);
			if (place.words == 14)
				put(data, piece->data_bytes, place.tail, line + 14 * WORD, WORD);
		} else if (place.words == LINE_WORDS) {
			memcpy(data + place.at, line, LINE_WORDS * WORD); // of constant size: a few moves
		} else {
			memcpy(data + place.at, line, 14 * WORD);
			memcpy(data + place.tail, line + 14 * WORD, WORD); // lies before the others
		}
	}
}

bool fck_lay_flag(const struct fck_lay_ops *ops, uint32_t protocol, const struct fck_piece_of *piece, uint64_t *flag)
{
	*flag = 0;
	if (protocol == FCK_PROTOCOL_LL)
		return ops->ll_flag(piece->payload, piece->length, flag);
	return protocol != FCK_PROTOCOL_LL128 || ll128_flag(piece->payload, piece->length, flag);
}

// Halves of groups whose data are whole: a run of bytes, put together in the cache and copied past it.
static void ll128_halves(const struct fck_lay_ops *ops, const struct fck_piece_of *piece, uint8_t *data)
{
	_Alignas(64) uint8_t half[FCK_LL128_HALF_DATA];
	struct fck_piece_of part = {piece->payload, 0, FCK_LL128_HALF, FCK_LL128_HALF_DATA};
	uint32_t at = piece->wire_at / FCK_LL128_HALF * FCK_LL128_HALF_DATA;

	for (uint32_t done = 0; done < piece->length; done += FCK_LL128_HALF, part.payload += FCK_LL128_HALF, at += FCK_LL128_HALF_DATA) {
		ll128_strip(&part, half);
		ops->copy(data + at, half, FCK_LL128_HALF_DATA);
	}
}

static void lay_ll128(const struct fck_lay_ops *ops, const struct fck_piece_of *piece, uint8_t *data)
{
	uint64_t end = ((uint64_t)piece->wire_at + piece->length) / FCK_LL128_HALF * FCK_LL128_HALF_DATA;

	if ((piece->wire_at | piece->length) % FCK_LL128_HALF == 0 && end <= piece->data_bytes)
		ll128_halves(ops, piece, data);
	else
		ll128_strip(piece, data);
}

static void lay_ll(const struct fck_lay_ops *ops, const struct fck_piece_of *piece, uint8_t *data)
{
	uint32_t at = piece->wire_at / 2, bytes = room(piece->data_bytes, at, piece->length / 2);
	const uint8_t *lines = piece->payload;
	_Alignas(64) uint8_t part[LL_PART];

	for (uint32_t some; bytes > 0; bytes -= some, at += some, lines += 2 * LL_PART) {
		some = bytes < LL_PART ? bytes : LL_PART;
		ops->ll_strip(lines, some, part);
		ops->copy(data + at, part, some);
	}
}

void fck_lay(const struct fck_lay_ops *ops, uint32_t protocol, const struct fck_piece_of *piece, uint8_t *data)
{
	if (protocol == FCK_PROTOCOL_LL128) {
		lay_ll128(ops, piece, data);
	} else if (protocol == FCK_PROTOCOL_LL) {
		lay_ll(ops, piece, data);
	} else if (piece->wire_at < piece->data_bytes) {
		ops->copy(data + piece->wire_at, piece->payload, room(piece->data_bytes, piece->wire_at, piece->length));
	}
}

// Compares one run of bytes; the first that differs, counted from the message's begin.
static int64_t differs_at(const uint8_t *data, uint32_t at, const uint8_t *found, uint32_t bytes)
{
	if (memcmp(data + at, found, bytes) == 0)
		return -1;
	for (uint32_t i = 0; i < bytes; i++)
		if (data[at + i] != found[i])
			return (int64_t)at + i;
	return -1;
}

static int64_t ll128_difference(const struct fck_piece_of *piece, const uint8_t *data)
{
	for (uint32_t at = 0; at < piece->length; at += FCK_LL128_LINE) {
		const uint8_t *line = piece->payload + at;
		struct line128 place = line_of(piece->wire_at + at);
		uint32_t bytes = room(piece->data_bytes, place.at, place.words * WORD);
		int64_t found = bytes > 0 ? differs_at(data, place.at, line, bytes) : -1;

		bytes = place.words == 14 ? room(piece->data_bytes, place.tail, WORD) : 0;
		if (found < 0 && bytes > 0)
			found = differs_at(data, place.tail, line + 14 * WORD, bytes);
		if (found >= 0)
			return found;
	}
	return -1;
}

static int64_t ll_difference(const struct fck_piece_of *piece, const uint8_t *data)
{
	uint32_t at = piece->wire_at / 2, bytes = room(piece->data_bytes, at, piece->length / 2);
	uint8_t stripped[32 * LL_DATA];

	for (uint32_t done = 0; done < bytes; done += sizeof(stripped)) {
		uint32_t some = bytes - done < sizeof(stripped) ? bytes - done : (uint32_t)sizeof(stripped);
		int64_t found;

		portable_ll_strip(piece->payload + 2 * (uint64_t)done, some, stripped);
		found = differs_at(data, at + done, stripped, some);
		if (found >= 0)
			return found;
	}
	return -1;
}

int64_t fck_lay_difference(uint32_t protocol, const struct fck_piece_of *piece, const uint8_t *data)
{
	uint32_t bytes;

	if (protocol == FCK_PROTOCOL_LL128)
		return ll128_difference(piece, data);
	if (protocol == FCK_PROTOCOL_LL)
		return ll_difference(piece, data);
	bytes = room(piece->data_bytes, piece->wire_at, piece->length);
	return bytes > 0 ? differs_at(data, piece->wire_at, piece->payload, bytes) : -1;
}

static void ll128_bounds(uint32_t wire_at, uint32_t length, uint32_t *low, uint32_t *high)
{
	*low = UINT32_MAX;
	*high = 0;
	for (uint32_t at = 0; at < length; at += FCK_LL128_LINE) {
		struct line128 place = line_of(wire_at + at);
		uint32_t first = place.words == 14 && place.tail < place.at ? place.tail : place.at;
		uint32_t behind = place.at + place.words * WORD;

		*low = first < *low ? first : *low;
		*high = behind > *high ? behind : *high;
	}
}

void fck_lay_bounds(
	uint32_t protocol, uint32_t wire_at, uint32_t length, uint32_t data_bytes, uint32_t *low, uint32_t *high
)
{
	*low = wire_at;
	*high = wire_at + length;
	if (protocol == FCK_PROTOCOL_LL) {
		*low = wire_at / 2;
		*high = (wire_at + length) / 2;
	} else if (protocol == FCK_PROTOCOL_LL128) {
		ll128_bounds(wire_at, length, low, high);
	}
	*high = *high < data_bytes ? *high : data_bytes;
	*low = *low < *high ? *low : *high;
}
