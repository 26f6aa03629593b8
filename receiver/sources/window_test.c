// SPDX-License-Identifier: Apache-2.0
// Files on disk, read through the window, against the same bytes in memory: records that lie across the ends of windows, blocks
// longer than a window, files cut anywhere, files that shrink.
#include "fck.h"
#include "capfile.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WINDOW 262144u
#define ROOM (5u * WINDOW)
#define LONG_BLOCK (3u * WINDOW + 40) // grows the window twice
#define PATH "/tmp/fck-window-XXXXXX"

struct image {
	uint8_t *data;
	size_t size;
};

static void put32(struct image *image, uint32_t value)
{
	assert_true(image->size + 4 <= ROOM);
	memcpy(image->data + image->size, &value, sizeof(value));
	image->size += sizeof(value);
}

// A block with `count` words of body and zeros up to `length` bytes.
static void put_block(struct image *image, uint32_t type, const uint32_t *words, size_t count, uint32_t length)
{
	size_t end = image->size + length;
	put32(image, type);
	put32(image, length);
	for (size_t i = 0; i < count; i++)
		put32(image, words[i]);
	while (image->size + 4 < end)
		put32(image, 0);
	put32(image, length);
}

static void put_head(struct image *image)
{
	static const uint32_t section[] = {0x1a2b3c4d, 1, 0xffffffff, 0xffffffff};
	static const uint32_t interface[] = {1, 0, 0x00040002, 0x30706163, 0}; // Ethernet, if_name "cap0"
	put_block(image, 0x0a0d0d0a, section, 4, 28);
	put_block(image, 1, interface, 5, 32);
}

// An ARP frame of `captured` bytes (a multiple of 4, at least 16).
static void put_packet(struct image *image, uint32_t number, uint32_t captured)
{
	const uint32_t words[] = {0, 0, number, captured, captured, 0, 0, 0, 0x00000608};
	put_block(image, 6, words, 9, 32 + captured);
}

// Packets of many lengths over three windows; behind the first of them one block that is longer than a window.
static struct image make_image(bool long_block)
{
	struct image image = {.data = malloc(ROOM)};
	assert_non_null(image.data);
	put_head(&image);
	for (uint32_t i = 0; image.size < (long_block ? WINDOW / 2 : 3 * WINDOW); i++)
		put_packet(&image, i, 16 + 4 * (i * 2654435761u >> 23));
	if (long_block) {
		put_block(&image, 0x0bad, NULL, 0, LONG_BLOCK);
		put_packet(&image, 7, 60);
		put_packet(&image, 8, 2000);
	}
	return image;
}

struct outcome {
	struct fck_capfile_report report;
	struct fck_capture capture;
	char name[8];
};

static struct outcome run(struct fck_capfile *file, uint64_t limit)
{
	struct outcome outcome = {.name = ""};
	struct fck_capfile_interface interface;
	struct fck_core *core;
	int result;
	assert_int_equal(fck_new(NULL, &core), 0);
	while ((result = fck_capfile_run(file, core, limit)) != FCK_RUN_END) {
		assert_true(result == FCK_RUN_MORE || result == FCK_RUN_INTERFACE);
		if (result == FCK_RUN_INTERFACE)
			assert_int_equal(fck_capfile_bind(file, (uint32_t)fck_capture_add(core, "port")), 0);
	}
	outcome.report = fck_capfile_report(file);
	if (fck_capfile_interface(file, 0, &interface) == 0) {
		assert_int_equal(interface.name_length, 4);
		memcpy(outcome.name, interface.name, 4); // long after its block was read
	}
	if (fck_capture_get(core, 0, &outcome.capture) == 0)
		outcome.capture.name = NULL;
	fck_free(core);
	return outcome;
}

static struct fck_capfile *open_file(const struct image *image, size_t size, char *path)
{
	struct fck_capfile *file;
	int descriptor;
	strcpy(path, PATH);
	descriptor = mkstemp(path);
	assert_true(descriptor >= 0);
	assert_int_equal(write(descriptor, image->data, size), size);
	close(descriptor);
	assert_int_equal(fck_capfile_open(&file, path), 0);
	return file;
}

static struct outcome run_file(const struct image *image, size_t size, uint64_t limit)
{
	char path[sizeof(PATH)];
	struct fck_capfile *file = open_file(image, size, path);
	struct outcome outcome;
	unlink(path);
	outcome = run(file, limit);
	fck_capfile_close(file);
	return outcome;
}

static struct outcome run_memory(const struct image *image, size_t size)
{
	struct fck_capfile *file;
	struct outcome outcome;
	assert_int_equal(fck_capfile_buffer(&file, image->data, size), 0);
	outcome = run(file, UINT64_MAX);
	fck_capfile_close(file);
	return outcome;
}

static void assert_same(const struct image *image, size_t size)
{
	struct outcome memory = run_memory(image, size), file = run_file(image, size, 1 + size % 1000);
	assert_int_equal(file.report.state, memory.report.state);
	assert_int_equal(file.report.size, size);
	assert_int_equal(file.report.offset, memory.report.offset);
	assert_int_equal(file.report.packets, memory.report.packets);
	assert_ptr_equal(file.report.reason, memory.report.reason);
	assert_memory_equal(&file.capture, &memory.capture, sizeof(memory.capture));
	assert_string_equal(file.name, memory.name);
}

static void test_across_windows(void **state)
{
	(void)state;
	struct image image = make_image(false);
	assert_int_equal(run_file(&image, image.size, UINT64_MAX).report.state, FCK_FILE_WHOLE);
	for (size_t size = 0; size < 64; size++)
		assert_same(&image, size);
	for (uint32_t window = 1; window <= 2; window++)
		for (int off = -8; off <= 8; off++)
			assert_same(&image, window * WINDOW + (size_t)off);
	assert_same(&image, image.size);
	free(image.data);
}

static void test_block_longer_than_a_window(void **state)
{
	(void)state;
	struct image image = make_image(true);
	assert_int_equal(run_file(&image, image.size, UINT64_MAX).report.state, FCK_FILE_WHOLE);
	for (size_t size = WINDOW; size < image.size; size += WINDOW / 2 + 1)
		assert_same(&image, size);
	assert_same(&image, image.size);
	image.data[image.size - 1] ^= 1; // the second length of the last block
	assert_same(&image, image.size);
	free(image.data);
}

static int count(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	const uint8_t **packets = context;
	(void)time_ns;
	assert_int_equal(capture, 0);
	assert_int_equal(captured, original);
	while (*packets != NULL)
		packets++;
	*packets = data;
	return 0;
}

// The packets that a sink was given stay where they are, also when a core had the first ones.
static void test_sink_after_a_core(void **state)
{
	(void)state;
	static const uint8_t *packets[1024];
	struct image image = make_image(false);
	char path[sizeof(PATH)];
	struct fck_capfile *file = open_file(&image, image.size, path);
	struct fck_core *core;
	uint64_t total = run_memory(&image, image.size).report.packets;
	assert_int_equal(fck_new(NULL, &core), 0);
	assert_int_equal(fck_capfile_run(file, core, 1), FCK_RUN_INTERFACE);
	assert_int_equal(fck_capfile_bind(file, (uint32_t)fck_capture_add(core, "port")), 0);
	assert_int_equal(fck_capfile_run(file, core, total - 300), FCK_RUN_MORE);
	assert_int_equal(fck_capfile_run_to(file, count, packets, UINT64_MAX), FCK_RUN_END);
	assert_int_equal(fck_capfile_report(file).packets, total);
	assert_int_equal(fck_capfile_report(file).offset, image.size);
	assert_non_null(packets[299]);
	assert_null(packets[300]);
	for (int i = 0; i < 300; i++)
		assert_int_equal(packets[i][12] << 8 | packets[i][13], 0x0806);
	fck_free(core);
	fck_capfile_close(file);
	unlink(path);
	free(image.data);
}

static void test_file_that_shrinks(void **state)
{
	(void)state;
	struct image image = make_image(false);
	char path[sizeof(PATH)];
	struct fck_capfile *file = open_file(&image, image.size, path);
	struct outcome outcome;
	assert_int_equal(truncate(path, WINDOW + 1000), 0);
	outcome = run(file, UINT64_MAX);
	assert_int_equal(outcome.report.state, FCK_FILE_TRUNCATED);
	assert_int_equal(outcome.report.size, WINDOW + 1000);
	assert_true(outcome.report.offset <= WINDOW + 1000);
	fck_capfile_close(file);
	unlink(path);
	free(image.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_across_windows),
		cmocka_unit_test(test_block_longer_than_a_window),
		cmocka_unit_test(test_sink_after_a_core),
		cmocka_unit_test(test_file_that_shrinks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
