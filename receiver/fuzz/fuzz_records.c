// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the input is a records file. A checksum is no hurdle for long: before the reader sees the file, the checksums of
// all blocks that are there are set right, unless the last byte of the input is odd. What the reader hands out must lie
// in the file, and its rows must be in order.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fck.h"
#include "icrc.h"
#include "recordfile.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void seal(const struct fck_icrc *icrc, uint8_t *head, uint64_t length)
{
	uint32_t crc = fck_crc32(icrc, 0, head, 12);

	crc = fck_crc32(icrc, crc, head + 16, 8 + length);
	memcpy(head + 12, &crc, 4);
}

static void mend(uint8_t *data, uint64_t size)
{
	struct fck_icrc icrc;

	fck_icrc_init(&icrc);
	if (size < FCK_RECORDS_HEAD)
		return;
	memcpy(data + 16, &size, 8);
	seal(&icrc, data, 0);
	for (uint64_t at = FCK_RECORDS_HEAD; size - at >= FCK_RECORDS_BLOCK_HEAD;) {
		uint64_t length;

		memcpy(&length, data + at + 16, 8);
		if (length > size - at - FCK_RECORDS_BLOCK_HEAD)
			return;
		seal(&icrc, data + at, length);
		at += FCK_RECORDS_BLOCK_HEAD + length;
	}
}

static void check_seen(const uint8_t *rows, uint64_t length)
{
	struct fck_range range, last = {0};

	for (uint64_t at = 0; at < length; at += sizeof(range), last = range) {
		memcpy(&range, rows + at, sizeof(range));
		require(range.first <= range.last);
		require(at == 0 || (range.first > last.last && range.first - 1 > last.last));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size > 0 ? size : 1);
	struct fck_recordfile_report report;
	struct fck_recordfile_block block;
	struct fck_recordfile *file;
	uint64_t blocks = 0, end = FCK_RECORDS_HEAD;

	require(exact != NULL);
	memcpy(exact, data, size);
	if (size > 0 && (data[size - 1] & 1) == 0)
		mend(exact, size);
	require(fck_recordfile_new(&file, exact, size) == 0);
	while (fck_recordfile_next(file, &block) == 1) {
		require(block.offset == end + FCK_RECORDS_BLOCK_HEAD);
		require(block.length <= size - block.offset);
		end = block.offset + block.length;
		blocks++;
		if (block.kind == FCK_RECORDS_SEEN)
			check_seen(exact + block.offset, block.length);
	}
	report = fck_recordfile_report(file);
	require(report.blocks == blocks);
	require(report.state != FCK_RECORDS_WHOLE || (end == size && report.claimed == size && blocks > 0));
	require((report.reason != NULL) == (report.state == FCK_RECORDS_CORRUPT));
	require(report.offset <= size);
	fck_recordfile_free(file);
	free(exact);
	return 0;
}
