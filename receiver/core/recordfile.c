// SPDX-License-Identifier: Apache-2.0
#include "recordfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "fck.h"
#include "icrc.h"
#include "packet.h"

// As PNG does it: the first byte is no ASCII, and a transfer that touches line ends spoils what follows.
static const uint8_t magic[8] = {0x89, 'F', 'C', 'R', '\r', '\n', 0x1a, '\n'};

// Only this row has bytes of no use: four at its end.
#define MISSING_END (offsetof(struct fck_missing, cause) + sizeof(uint32_t))
_Static_assert(sizeof(struct fck_missing) == MISSING_END + 4, "the rows are part of the file format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they stand in memory");

struct fck_recordfile {
	const uint8_t *data;
	uint64_t size;
	uint64_t offset;
	bool begun;
	bool ended;
	struct fck_recordfile_report report;
	struct fck_icrc crc;
};

static uint64_t le64(const uint8_t *bytes)
{
	return (uint64_t)fck_le32(bytes + 4) << 32 | fck_le32(bytes);
}

static int stop(struct fck_recordfile *file, enum fck_recordfile_state state, const char *reason)
{
	file->ended = true;
	file->report.state = state;
	file->report.offset = file->offset;
	file->report.reason = reason;
	return 0;
}

static int corrupt(struct fck_recordfile *file, const char *reason)
{
	return stop(file, FCK_RECORDS_CORRUPT, reason);
}

// Checksum over a head of 24 bytes, without the four at `at` that hold it.
static uint32_t head_crc(const struct fck_recordfile *file, const uint8_t *head, uint32_t at)
{
	uint32_t crc = fck_crc32(&file->crc, 0, head, at);

	return fck_crc32(&file->crc, crc, head + at + 4, FCK_RECORDS_BLOCK_HEAD - at - 4);
}

// The file's own head. 1: fine.
static int begin(struct fck_recordfile *file)
{
	const uint8_t *head = file->data;

	file->begun = true;
	if (file->size < sizeof(magic) || memcmp(head, magic, sizeof(magic)) != 0)
		return stop(file, FCK_RECORDS_FOREIGN, NULL);
	if (file->size < FCK_RECORDS_HEAD)
		return corrupt(file, "the head of the file is cut");
	if (fck_le32(head + 8) != FCK_RECORDS_FORMAT) {
		file->report.claimed = fck_le32(head + 8);
		return stop(file, FCK_RECORDS_VERSION, NULL);
	}
	if (head_crc(file, head, 12) != fck_le32(head + 12))
		return corrupt(file, "the checksum of the file's head is wrong");
	file->report.claimed = le64(head + 16);
	file->offset = FCK_RECORDS_HEAD;
	if (file->report.claimed == 0)
		return stop(file, FCK_RECORDS_UNFINISHED, NULL);
	if (file->size < file->report.claimed) {
		file->offset = file->size;
		return stop(file, FCK_RECORDS_TRUNCATED, NULL);
	}
	if (file->size > file->report.claimed) {
		file->offset = file->report.claimed;
		return corrupt(file, "something follows behind the end");
	}
	return 1;
}

static bool small(int64_t value)
{
	return value >= -1 && value <= (int64_t)UINT32_MAX;
}

static bool psn(uint32_t value)
{
	return value <= FCK_PSN_MASK;
}

static const char *check_message(const uint8_t *row)
{
	struct fck_message message;

	memcpy(&message, row, sizeof(message));
	if (message.bytes < -1 || message.expected_packets < -1 || !small(message.immediate) || !small(message.ll_flag))
		return "a message has a number that cannot be";
	if (!psn(message.first_psn) || message.opcode > UINT8_MAX)
		return "a message has a PSN or opcode that cannot be";
	return NULL;
}

static const char *check_range(const uint8_t *row, const uint8_t *before)
{
	struct fck_range range, last;

	memcpy(&range, row, sizeof(range));
	if (range.last < range.first)
		return "the ranges of seen packets are not in order";
	if (before == NULL)
		return NULL;
	memcpy(&last, before, sizeof(last));
	if (range.first <= last.last || range.first - 1 == last.last)
		return "the ranges of seen packets are not in order";
	return NULL;
}

static const char *check_repeat(const uint8_t *row, const uint8_t *before)
{
	struct fck_repeat repeat, last;

	memcpy(&repeat, row, sizeof(repeat));
	if (repeat.copies == 0)
		return "a repeat has no copies";
	if (before == NULL)
		return NULL;
	memcpy(&last, before, sizeof(last));
	return repeat.position <= last.position ? "the repeats are not in order" : NULL;
}

static const char *check_missing(const uint8_t *row)
{
	struct fck_missing missing;

	memcpy(&missing, row, sizeof(missing));
	if (missing.cause > FCK_CAUSE_CAPTURE_END || !psn(missing.first_psn) || !psn(missing.last_psn))
		return "a missing range has a PSN or cause that cannot be";
	return fck_le32(row + MISSING_END) == 0 ? NULL : "the unused bytes of a row are not zero";
}

static const char *check_gap(const uint8_t *row)
{
	struct fck_gap gap;

	memcpy(&gap, row, sizeof(gap));
	return psn(gap.first_psn) && psn(gap.last_psn) ? NULL : "a gap has a PSN that cannot be";
}

static uint64_t row_size(uint32_t kind)
{
	static const uint64_t sizes[] = {
		[FCK_RECORDS_MESSAGES] = sizeof(struct fck_message),
		[FCK_RECORDS_SEEN] = sizeof(struct fck_range),
		[FCK_RECORDS_REPEATS] = sizeof(struct fck_repeat),
		[FCK_RECORDS_MISSING] = sizeof(struct fck_missing),
		[FCK_RECORDS_GAPS] = sizeof(struct fck_gap),
		[FCK_RECORDS_INDEX] = 1,
	};

	return kind < sizeof(sizes) / sizeof(*sizes) ? sizes[kind] : 0;
}

// NULL, or what is wrong with the rows of a block.
static const char *check_rows(uint32_t kind, const uint8_t *rows, uint64_t length)
{
	uint64_t size = row_size(kind);
	const uint8_t *before = NULL;
	const char *fault = NULL;

	for (uint64_t at = 0; kind != FCK_RECORDS_INDEX && at < length && fault == NULL; at += size) {
		const uint8_t *row = rows + at;

		switch (kind) {
		case FCK_RECORDS_MESSAGES:
			fault = check_message(row);
			break;
		case FCK_RECORDS_SEEN:
			fault = check_range(row, before);
			break;
		case FCK_RECORDS_REPEATS:
			fault = check_repeat(row, before);
			break;
		case FCK_RECORDS_MISSING:
			fault = check_missing(row);
			break;
		default:
			fault = check_gap(row);
		}
		before = row;
	}
	return fault;
}

// Takes the block at the offset. 1: it is good.
static int take(struct fck_recordfile *file, struct fck_recordfile_block *block)
{
	const uint8_t *head = file->data + file->offset;
	uint64_t left = file->size - file->offset;
	const char *fault;
	uint32_t crc;

	if (left < FCK_RECORDS_BLOCK_HEAD)
		return corrupt(file, "the head of a block is cut");
	*block = (struct fck_recordfile_block){
		.kind = fck_le32(head),
		.chain = fck_le32(head + 4),
		.flow = fck_le32(head + 8),
		.offset = file->offset + FCK_RECORDS_BLOCK_HEAD,
		.length = le64(head + 16),
	};
	if (block->length > left - FCK_RECORDS_BLOCK_HEAD)
		return corrupt(file, "a block is longer than the file");
	crc = head_crc(file, head, 12);
	crc = fck_crc32(&file->crc, crc, file->data + block->offset, block->length);
	if (crc != fck_le32(head + 12))
		return corrupt(file, "the checksum of a block is wrong");
	if (row_size(block->kind) == 0)
		return corrupt(file, "a block is of no known kind");
	if (block->length % row_size(block->kind) != 0)
		return corrupt(file, "a block holds no whole number of rows");
	fault = check_rows(block->kind, file->data + block->offset, block->length);
	if (fault != NULL)
		return corrupt(file, fault);
	if ((block->kind == FCK_RECORDS_INDEX) != (block->length == left - FCK_RECORDS_BLOCK_HEAD))
		return corrupt(file, "the index is not the last block");
	file->offset = block->offset + block->length;
	file->report.blocks++;
	return 1;
}

int fck_recordfile_new(struct fck_recordfile **out, const void *data, uint64_t size)
{
	struct fck_recordfile *file = calloc(1, sizeof(*file));

	if (file == NULL)
		return -ENOMEM;
	file->data = data;
	file->size = size;
	fck_icrc_init(&file->crc);
	*out = file;
	return 0;
}

void fck_recordfile_free(struct fck_recordfile *file)
{
	free(file);
}

int fck_recordfile_next(struct fck_recordfile *file, struct fck_recordfile_block *block)
{
	if (file->ended || (!file->begun && begin(file) == 0))
		return 0;
	if (file->report.blocks > 0 && file->offset == file->size)
		return stop(file, FCK_RECORDS_WHOLE, NULL);
	return take(file, block);
}

struct fck_recordfile_report fck_recordfile_report(const struct fck_recordfile *file)
{
	return file->report;
}
