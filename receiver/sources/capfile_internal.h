// SPDX-License-Identifier: Apache-2.0
// Shared by capfile.c (memory, classic pcap) and capfile_pcapng.c.
#ifndef FCK_CAPFILE_INTERNAL_H
#define FCK_CAPFILE_INTERNAL_H

#include "fck.h"
#include "capfile.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FCK_LINK_ETHERNET 1
// A packet longer than this is a corrupt length, not a packet (libpcap uses the same bound).
#define FCK_MAX_CAPTURED 262144u

// Ticks to nanoseconds: times `multiply`, or divided by `divide`, or (both 0) ticks of 1/2^shift second.
struct fck_clock {
	uint64_t multiply;
	uint64_t divide;
	uint32_t shift;
	uint64_t offset; // nanoseconds, two's complement
};

struct fck_interface {
	struct fck_capfile_interface public;
	struct fck_clock clock;
	uint32_t snaplen;   // 0: no limit
	char *name;         // what public.name points to
	bool statistics;    // drops come from a statistics block
	uint64_t last_time; // ns, for packets without a time of their own
};

// The step functions go on until `report.packets` is `limit` or something else than FCK_RUN_MORE is to be said: enum
// fck_capfile_run, or -errno.
typedef int fck_step(struct fck_capfile *file, struct fck_core *core, uint64_t limit);

struct fck_capfile {
	const uint8_t *data;
	uint64_t size;
	uint64_t position;
	uint64_t gone; // bytes of the stream before `data`
	struct fck_window *window; // NULL for a caller's buffer
	void *mapping; // of the whole file, to unmap; NULL: none was asked for
	bool swapped;  // of the file (pcap) or section (pcapng): not this machine's byte order
	bool ended;
	fck_step *step; // NULL before the file header was read
	struct fck_capfile_report report;
	fck_capfile_sink sink; // where packets go instead of to a core; NULL: to the core
	void *sink_context;

	struct fck_interface *interfaces;
	uint32_t interface_count;
	uint32_t interface_room;
	uint32_t section_first; // number of the section's interface 0

	uint32_t record_header; // pcap: bytes before the data of a packet
};

static inline uint16_t fck_get16(const struct fck_capfile *file, const uint8_t *at)
{
	uint16_t value;
	memcpy(&value, at, sizeof(value));
	return file->swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t fck_get32(const struct fck_capfile *file, const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return file->swapped ? __builtin_bswap32(value) : value;
}

static inline uint64_t fck_get64(const struct fck_capfile *file, const uint8_t *at)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return file->swapped ? __builtin_bswap64(value) : value;
}

// Stop reading for good at the current position.
int fck_capfile_stop(struct fck_capfile *file, enum fck_capfile_state state, const char *reason);

// A zeroed interface at the end of the list; NULL when memory is out.
struct fck_interface *fck_capfile_add_interface(struct fck_capfile *file);

// What is read next begins with what was left: `size` bytes at `data`.
void fck_capfile_move(struct fck_capfile *file, const void *data, uint64_t size);

// A window on a regular file of `*size` bytes, which owns the descriptor. 0, -errno of fstat, -EINVAL: no regular file; -ENOMEM.
int fck_window_new(struct fck_window **out, int descriptor, uint64_t *size);
void fck_window_free(struct fck_window *window);

// Read on behind what there is. 1: there is more now; 0: there is no more; -errno of pread, -ENOMEM.
int fck_window_more(struct fck_capfile *file);

// Map the whole file, so that its packets stay where they are. 0 or -errno of mmap.
int fck_window_map(struct fck_capfile *file);

// Count one packet and hand it to the core if its link type is Ethernet. 0 or -errno of the core.
static inline int fck_capfile_deliver(
	struct fck_capfile *file, struct fck_core *core, struct fck_interface *interface, uint64_t time,
	const uint8_t *packet, uint32_t captured, uint32_t original
)
{
	file->report.packets++;
	interface->public.packets++;
	interface->last_time = time;
	if (file->sink != NULL)
		return file->sink(file->sink_context, interface->public.capture, time, packet, captured, original);
	if (interface->public.link_type == FCK_LINK_ETHERNET)
		return fck_frame(core, interface->public.capture, time, packet, captured, original);
	return fck_frame_foreign(core, interface->public.capture, time, original);
}

// Read the file's first bytes when they are a section header; the steps then are fck_pcapng_step.
// False: they are not one.
bool fck_pcapng_probe(struct fck_capfile *file);
fck_step fck_pcapng_step;
// The same as far as blocks are plain; stops before one that is not.
fck_step fck_pcapng_plain;

#endif
