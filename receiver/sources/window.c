// SPDX-License-Identifier: Apache-2.0
// The window through which a file on disk is read. Reading 256 KiB at a time into memory that stays in the processor's cache
// is faster than touching the pages of a mapping, once each: no page fault, and memory does not grow with the file.
#include "capfile_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK UINT64_C(262144)
#define PAGE 4096u

// The rest of a record that a chunk ended in stands right before the next chunk, which begins on a page as its place in the
// file does: processors copy from a page's start to a page's start much faster than to some bytes behind it.
struct fck_window {
	uint8_t *memory;
	uint64_t before; // room for such a rest
	uint64_t chunk;  // room behind it
	int descriptor;
};

int fck_window_new(struct fck_window **out, int descriptor, uint64_t *size)
{
	struct stat status;
	if (fstat(descriptor, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	struct fck_window *window = calloc(1, sizeof(*window));
	if (window == NULL)
		return -ENOMEM;
	window->descriptor = descriptor;
	*size = (uint64_t)status.st_size;
	*out = window;
	return 0;
}

void fck_window_free(struct fck_window *window)
{
	if (window == NULL)
		return;
	close(window->descriptor);
	free(window->memory);
	free(window);
}

// Makes room for a rest of `rest` bytes, which are at `from`, and a chunk. A long record makes chunks grow, so that it is moved
// a few times only. -ENOMEM.
static int reserve(struct fck_window *window, const uint8_t *from, uint64_t rest)
{
	uint64_t room = CHUNK;
	while (room < rest)
		room *= 2;
	if (window->memory != NULL && room <= window->before) {
		memmove(window->memory + window->before - rest, from, rest);
		return 0;
	}
	uint8_t *memory = aligned_alloc(PAGE, 2 * room);
	if (memory == NULL)
		return -ENOMEM;
	if (rest > 0)
		memcpy(memory + room - rest, from, rest);
	free(window->memory);
	window->memory = memory;
	window->before = window->chunk = room;
	return 0;
}

static ssize_t read_at(int descriptor, uint8_t *to, uint64_t size, uint64_t offset)
{
	ssize_t got;
	do
		got = pread(descriptor, to, size, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int fck_window_more(struct fck_capfile *file)
{
	struct fck_window *window = file->window;
	uint64_t rest = file->size - file->position, next = file->gone + file->size;
	if (window == NULL || file->mapping != NULL || next >= file->report.size)
		return 0;
	int error = reserve(window, rest > 0 ? file->data + file->position : NULL, rest);
	if (error < 0)
		return error;
	uint64_t left = file->report.size - next, wanted = left < window->chunk ? left : window->chunk;
	ssize_t got = read_at(window->descriptor, window->memory + window->before, wanted, next);
	if (got < 0)
		return (int)got;
	if (got == 0) // the file was cut since it was opened
		file->report.size = next;
	fck_capfile_move(file, window->memory + window->before - rest, rest + (uint64_t)got);
	return got > 0;
}

int fck_window_map(struct fck_capfile *file)
{
	if (file->window == NULL || file->mapping != NULL || file->report.size == 0)
		return 0;
	size_t size = (size_t)file->report.size;
	void *mapping = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file->window->descriptor, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	(void)madvise(mapping, size, MADV_SEQUENTIAL); // only advice
	file->mapping = mapping;
	file->position += file->gone;
	file->gone = 0;
	file->data = mapping;
	file->size = size;
	return 0;
}
