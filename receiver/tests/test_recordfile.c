// SPDX-License-Identifier: Apache-2.0
//
// The records reader on files built here byte by byte: what is whole, and every kind of damage by its name.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "fck.h"
#include "icrc.h"
#include "recordfile.h"

static struct fck_icrc crc_tables;

struct image {
	uint8_t data[1024];
	uint64_t size;
};

static void seal(uint8_t *head, const void *content, uint64_t length)
{
	uint32_t crc = fck_crc32(&crc_tables, 0, head, 12);

	crc = fck_crc32(&crc_tables, crc, head + 16, 8);
	crc = fck_crc32(&crc_tables, crc, content, length);
	memcpy(head + 12, &crc, 4);
}

static void add_block(struct image *image, uint32_t kind, const void *content, uint64_t length)
{
	uint32_t numbers[3] = {kind, 0, 7};
	uint8_t *head = image->data + image->size;

	memcpy(head, numbers, sizeof(numbers));
	memcpy(head + 16, &length, 8);
	seal(head, content, length);
	memcpy(head + 24, content, length);
	image->size += 24 + length;
}

static void close_image(struct image *image, uint64_t claimed)
{
	static const uint8_t magic[] = {0x89, 'F', 'C', 'R', '\r', '\n', 0x1a, '\n', FCK_RECORDS_FORMAT, 0, 0, 0};

	memcpy(image->data, magic, sizeof(magic));
	memcpy(image->data + 16, &claimed, 8);
	seal(image->data, NULL, 0);
}

// Reads from memory of exactly this size, so that the sanitizer sees a byte too many.
static struct fck_recordfile_report walk(const uint8_t *data, uint64_t size)
{
	struct fck_recordfile_report report;
	struct fck_recordfile_block block;
	struct fck_recordfile *file;
	uint8_t *exact = malloc(size > 0 ? size : 1);

	assert_non_null(exact);
	memcpy(exact, data, size);
	assert_int_equal(fck_recordfile_new(&file, exact, size), 0);
	while (fck_recordfile_next(file, &block) == 1)
		assert_true(block.offset + block.length <= size);
	assert_int_equal(fck_recordfile_next(file, &block), 0);
	report = fck_recordfile_report(file);
	fck_recordfile_free(file);
	free(exact);
	return report;
}

static struct image small_image(void)
{
	struct fck_range seen[2] = {{1, 3}, {5, 5}};
	struct fck_message message = {.position = 1, .bytes = 3000, .packets = 3, .expected_packets = 3, .immediate = -1, .ll_flag = -1};
	struct image image = {.size = 24};

	add_block(&image, FCK_RECORDS_MESSAGES, &message, sizeof(message));
	add_block(&image, FCK_RECORDS_SEEN, seen, sizeof(seen));
	add_block(&image, FCK_RECORDS_INDEX, "{}", 2);
	close_image(&image, image.size);
	return image;
}

TEST(test_a_whole_file)
{
	struct image image = small_image();
	struct fck_recordfile_report report = walk(image.data, image.size);

	assert_int_equal(report.state, FCK_RECORDS_WHOLE);
	assert_int_equal(report.blocks, 3);
	assert_int_equal(report.claimed, image.size);
}

TEST(test_every_cut_is_told)
{
	struct image image = small_image();

	for (uint64_t size = 0; size < image.size; size++) {
		struct fck_recordfile_report report = walk(image.data, size);

		if (size < 8)
			assert_int_equal(report.state, FCK_RECORDS_FOREIGN);
		else if (size < 24)
			assert_int_equal(report.state, FCK_RECORDS_CORRUPT);
		else
			assert_int_equal(report.state, FCK_RECORDS_TRUNCATED);
	}
}

TEST(test_every_flipped_bit_is_told)
{
	struct image image = small_image();

	for (uint64_t bit = 0; bit < image.size * 8; bit++) {
		image.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(walk(image.data, image.size).state, FCK_RECORDS_WHOLE);
		image.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

TEST(test_states)
{
	struct image image = small_image();
	uint8_t longer[1024] = {0};

	close_image(&image, 0);
	assert_int_equal(walk(image.data, image.size).state, FCK_RECORDS_UNFINISHED);
	close_image(&image, image.size);
	memcpy(longer, image.data, image.size);
	assert_string_equal(walk(longer, image.size + 1).reason, "something follows behind the end");
	image.data[8] = FCK_RECORDS_FORMAT + 1;
	assert_int_equal(walk(image.data, image.size).state, FCK_RECORDS_VERSION);
	assert_int_equal(walk(image.data, image.size).claimed, FCK_RECORDS_FORMAT + 1);
}

// A file with one block and an index, every checksum right.
static const char *reason_of(uint32_t kind, const void *rows, uint64_t length)
{
	struct image image = {.size = 24};
	struct fck_recordfile_report report;

	add_block(&image, kind, rows, length);
	add_block(&image, FCK_RECORDS_INDEX, "{}", 2);
	close_image(&image, image.size);
	report = walk(image.data, image.size);
	return report.state == FCK_RECORDS_WHOLE ? "" : report.reason;
}

TEST(test_rows_that_cannot_be)
{
	const struct fck_range backward[] = {{2, 1}}, touching[] = {{1, 2}, {3, 4}}, wide[] = {{INT64_MIN, INT64_MAX}, {0, 1}};
	const struct fck_repeat none[] = {{1, 0}}, twice[] = {{1, 1}, {1, 1}};
	struct fck_missing missing = {.cause = 3};
	struct fck_message message = {.bytes = -2};
	struct fck_gap gap = {.last_psn = 1 << 24};

	assert_string_equal(reason_of(FCK_RECORDS_SEEN, backward, 16), "the ranges of seen packets are not in order");
	assert_string_equal(reason_of(FCK_RECORDS_SEEN, touching, 32), "the ranges of seen packets are not in order");
	assert_string_equal(reason_of(FCK_RECORDS_SEEN, wide, 32), "the ranges of seen packets are not in order");
	assert_string_equal(reason_of(FCK_RECORDS_SEEN, wide, 15), "a block holds no whole number of rows");
	assert_string_equal(reason_of(FCK_RECORDS_REPEATS, none, 16), "a repeat has no copies");
	assert_string_equal(reason_of(FCK_RECORDS_REPEATS, twice, 32), "the repeats are not in order");
	assert_string_equal(
		reason_of(FCK_RECORDS_MISSING, &missing, sizeof(missing)), "a missing range has a PSN or cause that cannot be"
	);
	missing.cause = 0;
	memset((uint8_t *)&missing + 28, 1, 4);
	assert_string_equal(reason_of(FCK_RECORDS_MISSING, &missing, sizeof(missing)), "the unused bytes of a row are not zero");
	assert_string_equal(reason_of(FCK_RECORDS_MESSAGES, &message, sizeof(message)), "a message has a number that cannot be");
	message.bytes = -1;
	message.opcode = 256;
	assert_string_equal(
		reason_of(FCK_RECORDS_MESSAGES, &message, sizeof(message)), "a message has a PSN or opcode that cannot be"
	);
	assert_string_equal(reason_of(FCK_RECORDS_GAPS, &gap, sizeof(gap)), "a gap has a PSN that cannot be");
	assert_string_equal(reason_of(0, "", 0), "a block is of no known kind");
	assert_string_equal(reason_of(99, "", 0), "a block is of no known kind");
	assert_string_equal(reason_of(FCK_RECORDS_INDEX, "{}", 2), "the index is not the last block");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_whole_file),
		cmocka_unit_test(test_every_cut_is_told),
		cmocka_unit_test(test_every_flipped_bit_is_told),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_rows_that_cannot_be),
	};

	fck_icrc_init(&crc_tables);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
