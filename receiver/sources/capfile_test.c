// SPDX-License-Identifier: Apache-2.0
// The file reader on images built here: every length at which a file can be cut, every byte changed. Each image is a
// heap block of exactly its size, so that the address sanitizer sees any read beyond it.
#include "fck.h"
#include "capfile.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FRAME 60u // an ARP frame

struct image {
	uint8_t data[2048];
	size_t size;
};

static void put16(struct image *image, uint16_t value)
{
	memcpy(image->data + image->size, &value, sizeof(value));
	image->size += sizeof(value);
}

static void put32(struct image *image, uint32_t value)
{
	memcpy(image->data + image->size, &value, sizeof(value));
	image->size += sizeof(value);
}

static void put64(struct image *image, uint64_t value)
{
	memcpy(image->data + image->size, &value, sizeof(value));
	image->size += sizeof(value);
}

static void put_frame(struct image *image)
{
	static const uint8_t arp[FRAME] = {[12] = 0x08, [13] = 0x06};
	memcpy(image->data + image->size, arp, FRAME);
	image->size += FRAME;
}

static void put_record(struct image *image, uint32_t seconds, uint32_t fraction)
{
	put32(image, seconds);
	put32(image, fraction);
	put32(image, FRAME);
	put32(image, FRAME);
	put_frame(image);
}

static struct image pcap(void)
{
	struct image image = {.size = 0};
	put32(&image, 0xa1b2c3d4);
	put16(&image, 2);
	put16(&image, 4);
	put64(&image, 0);
	put32(&image, 65535);
	put32(&image, 1);
	put_record(&image, 10, 5);
	put_record(&image, 11, 6);
	return image;
}

// Call after the body: writes both lengths.
static void close_block(struct image *image, size_t start)
{
	uint32_t length = (uint32_t)(image->size - start) + 4;
	put32(image, length);
	memcpy(image->data + start + 4, &length, sizeof(length));
}

static size_t open_block(struct image *image, uint32_t type)
{
	size_t start = image->size;
	put32(image, type);
	put32(image, 0);
	return start;
}

static void put_section(struct image *image)
{
	size_t start = open_block(image, 0x0a0d0d0a);
	put32(image, 0x1a2b3c4d);
	put16(image, 1);
	put16(image, 0);
	put64(image, UINT64_MAX);
	close_block(image, start);
}

static void put_interface(struct image *image)
{
	size_t start = open_block(image, 1);
	put16(image, 1);
	put16(image, 0);
	put32(image, 0);
	put16(image, 2); // if_name
	put16(image, 4);
	put32(image, 0x30706163); // "cap0"
	put16(image, 9);          // if_tsresol
	put16(image, 1);
	put32(image, 9);
	put32(image, 0);
	close_block(image, start);
}

static void put_enhanced(struct image *image, uint32_t interface, uint64_t time)
{
	size_t start = open_block(image, 6);
	put32(image, interface);
	put32(image, (uint32_t)(time >> 32));
	put32(image, (uint32_t)time);
	put32(image, FRAME);
	put32(image, FRAME);
	put_frame(image);
	close_block(image, start);
}

static void put_statistics(struct image *image, uint64_t dropped)
{
	size_t start = open_block(image, 5);
	put32(image, 0);
	put64(image, 0);
	put16(image, 5); // isb_ifdrop
	put16(image, 8);
	put64(image, dropped);
	close_block(image, start);
}

static struct image pcapng(void)
{
	struct image image = {.size = 0};
	put_section(&image);
	put_interface(&image);
	put_enhanced(&image, 0, 7000000001);
	size_t unknown = open_block(&image, 0x0bad);
	put32(&image, 0);
	close_block(&image, unknown);
	put_enhanced(&image, 0, 7000000002);
	put_statistics(&image, 42);
	return image;
}

struct outcome {
	struct fck_capfile_report report;
	struct fck_capfile_interface interface; // the first one
	struct fck_capture capture;
};

static void run_to_end(struct fck_capfile *file, struct fck_core *core)
{
	int result;
	while ((result = fck_capfile_run(file, core, 1)) != FCK_RUN_END) {
		assert_true(result == FCK_RUN_MORE || result == FCK_RUN_INTERFACE);
		if (result == FCK_RUN_INTERFACE)
			assert_int_equal(fck_capfile_bind(file, (uint32_t)fck_capture_add(core, "port")), 0);
	}
}

static uint8_t *exact_copy(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	assert_non_null(exact);
	memcpy(exact, data, size);
	return exact;
}

// Reads exact copies of the first `size` bytes, one packet a call: those before `cut` first, then what they left and the
// rest.
static struct outcome read_pieces(const uint8_t *data, size_t cut, size_t size)
{
	struct outcome outcome = {.report = {.state = UINT32_MAX}};
	struct fck_core *core;
	struct fck_capfile *file;
	uint8_t *exact = exact_copy(data, cut);
	assert_int_equal(fck_new(NULL, &core), 0);
	assert_int_equal(fck_capfile_buffer(&file, exact, cut), 0);
	run_to_end(file, core);
	if (cut < size) {
		size_t used = fck_capfile_report(file).offset;
		uint8_t *rest = exact_copy(data + used, size - used);
		assert_int_equal(fck_capfile_more(file, rest, size - used), 0);
		free(exact);
		exact = rest;
		run_to_end(file, core);
	}
	outcome.report = fck_capfile_report(file);
	if (fck_capfile_interfaces(file) > 0)
		assert_int_equal(fck_capfile_interface(file, 0, &outcome.interface), 0);
	if (fck_capture_count(core) > 0)
		assert_int_equal(fck_capture_get(core, 0, &outcome.capture), 0);
	assert_true(outcome.report.offset <= size);
	fck_capfile_close(file);
	fck_free(core);
	free(exact);
	outcome.interface.name = NULL; // pointed into the image
	outcome.interface.name_length = 0;
	outcome.capture.name = NULL;
	return outcome;
}

static struct outcome read_image(const uint8_t *data, size_t size)
{
	return read_pieces(data, size, size);
}

static void test_whole_files(void **state)
{
	(void)state;
	struct image image = pcap();
	struct outcome outcome = read_image(image.data, image.size);
	assert_int_equal(outcome.report.state, FCK_FILE_WHOLE);
	assert_int_equal(outcome.report.packets, 2);
	assert_int_equal(outcome.capture.frames[FCK_FRAME_ARP], 2);
	assert_int_equal(outcome.capture.first_time, UINT64_C(10000005000));
	assert_int_equal(outcome.interface.drops_known, 0);

	image = pcapng();
	outcome = read_image(image.data, image.size);
	assert_int_equal(outcome.report.state, FCK_FILE_WHOLE);
	assert_int_equal(outcome.report.packets, 2);
	assert_int_equal(outcome.capture.first_time, 7000000001);
	assert_int_equal(outcome.capture.last_time, 7000000002);
	assert_int_equal(outcome.interface.drops_known, 1);
	assert_int_equal(outcome.interface.drops, 42);
}

// A file cut at any byte is read up to the last whole record, never beyond its end.
static void cut_everywhere(const struct image *image)
{
	for (size_t size = 0; size < image->size; size++) {
		struct outcome outcome = read_image(image->data, size);
		if (size == 0)
			assert_int_equal(outcome.report.state, FCK_FILE_EMPTY);
		else if (size < 4)
			assert_int_equal(outcome.report.state, FCK_FILE_FOREIGN);
		else if (outcome.report.state != FCK_FILE_WHOLE)
			assert_int_equal(outcome.report.state, FCK_FILE_TRUNCATED);
		else
			assert_int_equal(outcome.report.offset, size); // cut between two records
		assert_true(outcome.report.packets <= 2);
		assert_int_equal(outcome.capture.packets, outcome.report.packets);
	}
}

static void test_cut_everywhere(void **state)
{
	(void)state;
	struct image image = pcap();
	cut_everywhere(&image);
	image = pcapng();
	cut_everywhere(&image);
}

// A stream read in two pieces gives what the whole gives, or the same fault at the same byte, wherever it is cut.
static void split_everywhere(const struct image *image)
{
	for (size_t size = image->size; size + 20 > image->size; size--) {
		struct outcome whole = read_image(image->data, size);
		for (size_t cut = 4; cut < size; cut++) {
			struct outcome pieces = read_pieces(image->data, cut, size);
			assert_memory_equal(&pieces.report, &whole.report, sizeof(whole.report));
			assert_memory_equal(&pieces.interface, &whole.interface, sizeof(whole.interface));
			assert_memory_equal(&pieces.capture, &whole.capture, sizeof(whole.capture));
		}
	}
}

static void test_split_everywhere(void **state)
{
	(void)state;
	struct image image = pcap();
	split_everywhere(&image);
	image = pcapng();
	split_everywhere(&image);
}

// Any byte changed to any of a few values: some result, no read beyond the end.
static void change_everywhere(const struct image *image)
{
	static const uint8_t values[] = {0x00, 0x01, 0x0c, 0x7f, 0x80, 0xff};
	for (size_t at = 0; at < image->size; at++) {
		for (size_t i = 0; i < sizeof(values); i++) {
			struct image changed = *image;
			changed.data[at] = values[i];
			struct outcome outcome = read_image(changed.data, changed.size);
			assert_int_equal(outcome.capture.packets, outcome.report.packets);
		}
	}
}

static void test_change_everywhere(void **state)
{
	(void)state;
	struct image image = pcap();
	change_everywhere(&image);
	image = pcapng();
	change_everywhere(&image);
}

static void test_impossible_blocks(void **state)
{
	(void)state;
	struct image image = {.size = 0};
	put_section(&image);
	size_t before = image.size;
	put_enhanced(&image, 0, 1); // no interface was described
	struct outcome outcome = read_image(image.data, image.size);
	assert_int_equal(outcome.report.state, FCK_FILE_CORRUPT);
	assert_int_equal(outcome.report.offset, before);
	assert_int_equal(outcome.report.packets, 0);

	image = pcapng();
	image.data[image.size - 1] ^= 1; // the second length of the last block
	outcome = read_image(image.data, image.size);
	assert_int_equal(outcome.report.state, FCK_FILE_CORRUPT);
	assert_int_equal(outcome.report.packets, 2);
}

static void test_binding(void **state)
{
	(void)state;
	struct image image = pcap();
	struct fck_capfile *file;
	struct fck_core *core;
	assert_int_equal(fck_new(NULL, &core), 0);
	assert_int_equal(fck_capfile_buffer(&file, image.data, image.size), 0);
	assert_int_equal(fck_capfile_bind(file, 0), -EINVAL); // nothing is known of the file yet
	assert_int_equal(fck_capfile_run(file, core, UINT64_MAX), FCK_RUN_INTERFACE);
	assert_int_equal(fck_capfile_run(file, core, UINT64_MAX), FCK_RUN_INTERFACE); // no packet without a capture
	assert_int_equal(fck_capfile_report(file).packets, 0);
	assert_int_equal(fck_capfile_bind(file, (uint32_t)fck_capture_add(core, "port")), 0);
	assert_int_equal(fck_capfile_bind(file, 0), -EINVAL); // once only
	assert_int_equal(fck_capfile_run(file, core, UINT64_MAX), FCK_RUN_END);
	assert_int_equal(fck_capfile_run(file, core, UINT64_MAX), FCK_RUN_END);
	assert_int_equal(fck_capfile_report(file).packets, 2);
	struct fck_capfile_interface interface;
	assert_int_equal(fck_capfile_interface(file, 1, &interface), -EINVAL);
	fck_capfile_close(file);
	fck_free(core);
}

static void test_no_file(void **state)
{
	(void)state;
	struct fck_capfile *file = NULL;
	assert_int_equal(fck_capfile_open(&file, "/nonexistent/file.pcap"), -ENOENT);
	assert_int_equal(fck_capfile_open(&file, "/dev"), -EINVAL);
	assert_null(file);
	fck_capfile_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_files),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_split_everywhere),
		cmocka_unit_test(test_change_everywhere),
		cmocka_unit_test(test_impossible_blocks),
		cmocka_unit_test(test_binding),
		cmocka_unit_test(test_no_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
