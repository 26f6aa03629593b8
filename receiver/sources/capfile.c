// SPDX-License-Identifier: Apache-2.0
// Interfaces, the run, and the classic pcap format: a 24-byte header, then records of a 16-byte header and data
// (draft-ietf-opsawg-pcap). The format's own byte order is told by its magic number.
#define _GNU_SOURCE
#include "capfile.h"

#include "capfile_internal.h"
#include "fck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PCAP_HEADER 24u
#define PCAP_RECORD 16u
#define PCAP_RECORD_MODIFIED 24u // Kuznetzov's form: interface, protocol and packet type after the usual fields
#define PCAP_MICROSECONDS 0xa1b2c3d4u
#define PCAP_NANOSECONDS 0xa1b23c4du
#define PCAP_MODIFIED 0xa1b2cd34u

int fck_capfile_stop(struct fck_capfile *file, enum fck_capfile_state state, const char *reason)
{
	file->ended = true;
	file->report.state = state;
	file->report.reason = reason;
	return FCK_RUN_END;
}

struct fck_interface *fck_capfile_add_interface(struct fck_capfile *file)
{
	if (file->interface_count == file->interface_room) {
		uint32_t room = file->interface_room ? 2 * file->interface_room : 4;
		struct fck_interface *grown = realloc(file->interfaces, room * sizeof(*grown));
		if (grown == NULL)
			return NULL;
		file->interfaces = grown;
		file->interface_room = room;
	}
	struct fck_interface *interface = &file->interfaces[file->interface_count];
	memset(interface, 0, sizeof(*interface));
	interface->public.number = file->interface_count++;
	return interface;
}

static int pcap_record(struct fck_capfile *file, struct fck_core *core)
{
	uint64_t left = file->size - file->position;
	if (left == 0)
		return fck_capfile_stop(file, FCK_FILE_WHOLE, NULL);
	if (left < file->record_header)
		return fck_capfile_stop(file, FCK_FILE_TRUNCATED, "the header of a packet record is cut");
	const uint8_t *record = file->data + file->position;
	uint32_t captured = fck_get32(file, record + 8);
	if (captured > FCK_MAX_CAPTURED)
		return fck_capfile_stop(file, FCK_FILE_CORRUPT, "a packet record says it holds more bytes than a packet can have");
	if (left - file->record_header < captured)
		return fck_capfile_stop(file, FCK_FILE_TRUNCATED, "the data of a packet record are cut");
	struct fck_interface *interface = &file->interfaces[0];
	uint64_t fraction = fck_get32(file, record + 4) * interface->clock.multiply;
	uint64_t time = fck_get32(file, record) * UINT64_C(1000000000) + fraction;
	uint32_t original = fck_get32(file, record + 12);
	const uint8_t *packet = record + file->record_header;
	int error = fck_capfile_deliver(file, core, interface, time, packet, captured, original);
	if (error < 0)
		return error;
	file->position += file->record_header + captured;
	return FCK_RUN_MORE;
}

static int pcap_step(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	int result;
	do
		result = pcap_record(file, core);
	while (result == FCK_RUN_MORE && file->report.packets < limit);
	return result;
}

// Is `magic` (in this machine's byte order) one of pcap's? Sets the record form.
static bool pcap_magic(struct fck_capfile *file, uint32_t magic, struct fck_clock *clock)
{
	file->record_header = magic == PCAP_MODIFIED ? PCAP_RECORD_MODIFIED : PCAP_RECORD;
	clock->multiply = magic == PCAP_NANOSECONDS ? 1 : 1000;
	return magic == PCAP_MICROSECONDS || magic == PCAP_NANOSECONDS || magic == PCAP_MODIFIED;
}

static int pcap_begin(struct fck_capfile *file)
{
	struct fck_clock clock = {0};
	uint32_t magic;
	memcpy(&magic, file->data, sizeof(magic));
	file->swapped = !pcap_magic(file, magic, &clock);
	if (file->swapped && !pcap_magic(file, __builtin_bswap32(magic), &clock))
		return fck_capfile_stop(file, FCK_FILE_FOREIGN, NULL);
	if (file->size < PCAP_HEADER)
		return fck_capfile_stop(file, FCK_FILE_TRUNCATED, "the file header is cut");
	struct fck_interface *interface = fck_capfile_add_interface(file);
	if (interface == NULL)
		return -ENOMEM;
	interface->clock = clock;
	// The upper half holds flags and the length of a trailing frame check sequence, which no parser of ours ever
	// reads: packets are cut by their own IP length.
	interface->public.link_type = fck_get32(file, file->data + 20) & 0xffff;
	file->position = PCAP_HEADER;
	file->step = pcap_step;
	return FCK_RUN_INTERFACE;
}

static int begin(struct fck_capfile *file)
{
	if (file->size == 0)
		return fck_capfile_stop(file, FCK_FILE_EMPTY, NULL);
	if (file->size < 4)
		return fck_capfile_stop(file, FCK_FILE_FOREIGN, NULL);
	if (fck_pcapng_probe(file))
		return file->ended ? FCK_RUN_END : FCK_RUN_MORE;
	return pcap_begin(file);
}

// Did reading end for want of data?
static bool out_of_data(const struct fck_capfile *file)
{
	return file->report.state == FCK_FILE_WHOLE || file->report.state == FCK_FILE_TRUNCATED ||
	       file->report.state == FCK_FILE_EMPTY;
}

// Takes an end back.
static int go_on(struct fck_capfile *file)
{
	file->ended = false;
	file->report.state = FCK_FILE_WHOLE;
	file->report.reason = NULL;
	return FCK_RUN_MORE;
}

static int step(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	return file->step == NULL ? begin(file) : file->step(file, core, limit);
}

static int run(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	if (file->interface_count > 0 && !file->interfaces[file->interface_count - 1].public.bound)
		return FCK_RUN_INTERFACE;
	int result = file->ended ? FCK_RUN_END : FCK_RUN_MORE;
	int more = file->data == NULL ? fck_window_more(file) : 0;
	if (more < 0)
		return more;
	uint64_t before = file->report.packets, last = limit < UINT64_MAX - before ? before + limit : UINT64_MAX;
	while (result == FCK_RUN_MORE && file->report.packets < last) {
		result = step(file, core, last);
		if (result != FCK_RUN_END || !out_of_data(file))
			continue;
		more = fck_window_more(file);
		if (more != 0)
			result = more < 0 ? more : go_on(file);
	}
	file->report.offset = file->gone + file->position;
	return result;
}

int fck_capfile_run(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	file->sink = NULL;
	return run(file, core, limit);
}

int fck_capfile_run_to(struct fck_capfile *file, fck_capfile_sink sink, void *context, uint64_t limit)
{
	int error = fck_window_map(file);
	if (error < 0)
		return error;
	file->sink = sink;
	file->sink_context = context;
	return run(file, NULL, limit);
}

int fck_capfile_bind(struct fck_capfile *file, uint32_t capture)
{
	if (file->interface_count == 0)
		return -EINVAL;
	struct fck_capfile_interface *newest = &file->interfaces[file->interface_count - 1].public;
	if (newest->bound)
		return -EINVAL;
	newest->bound = 1;
	newest->capture = capture;
	return 0;
}

static int make(struct fck_capfile **out, const void *data, uint64_t size)
{
	struct fck_capfile *file = calloc(1, sizeof(*file));
	if (file == NULL)
		return -ENOMEM;
	file->data = data;
	file->size = size;
	file->report.size = size;
	*out = file;
	return 0;
}

int fck_capfile_buffer(struct fck_capfile **out, const void *data, size_t size)
{
	return make(out, data, size);
}

void fck_capfile_move(struct fck_capfile *file, const void *data, uint64_t size)
{
	file->gone += file->position;
	file->position = 0;
	file->data = data;
	file->size = size;
}

int fck_capfile_more(struct fck_capfile *file, const void *data, size_t size)
{
	if (file->window != NULL)
		return -EINVAL;
	fck_capfile_move(file, data, size);
	file->report.size = file->gone + size;
	if (file->ended && out_of_data(file))
		go_on(file);
	return 0;
}

int fck_capfile_open(struct fck_capfile **out, const char *path)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return -errno;
	struct fck_window *window;
	uint64_t size;
	int error = fck_window_new(&window, descriptor, &size);
	if (error < 0) {
		close(descriptor);
		return error;
	}
	error = make(out, NULL, 0);
	if (error < 0) {
		fck_window_free(window);
		return error;
	}
	(*out)->window = window;
	(*out)->report.size = size;
	return 0;
}

void fck_capfile_close(struct fck_capfile *file)
{
	if (file == NULL)
		return;
	if (file->mapping != NULL)
		munmap(file->mapping, file->size);
	fck_window_free(file->window);
	for (uint32_t i = 0; i < file->interface_count; i++)
		free(file->interfaces[i].name);
	free(file->interfaces);
	free(file);
}

struct fck_capfile_report fck_capfile_report(const struct fck_capfile *file)
{
	return file->report;
}

uint32_t fck_capfile_interfaces(const struct fck_capfile *file)
{
	return file->interface_count;
}

int fck_capfile_interface(const struct fck_capfile *file, uint32_t number, struct fck_capfile_interface *out)
{
	if (number >= file->interface_count)
		return -EINVAL;
	*out = file->interfaces[number].public;
	return 0;
}
