// SPDX-License-Identifier: Apache-2.0
//
// pcapng files (draft-ietf-opsawg-pcapng), one after the other where they have a limit: each can be read by itself.
#ifndef RECEIVER_PCAPNG_H
#define RECEIVER_PCAPNG_H

#include <stdint.h>

enum { PCAPNG_INTERFACES = 32, PCAPNG_HELD = 1 << 20, PCAPNG_PATH = 1200 };

struct pcapng_interface {
	const char *name;
	uint64_t packets; // in this file
	uint64_t last;
};

struct pcapng {
	const char *path; // of file 1; those behind it have their number before the suffix
	uint32_t number;  // of the file that is open
	uint64_t most;    // bytes of a file; 0: no limit
	uint32_t keep;    // files; older ones are removed; 0: all
	int file;
	uint64_t bytes;   // of this file
	uint32_t interface_count;
	struct pcapng_interface interfaces[PCAPNG_INTERFACES];
	uint8_t *held;
	uint32_t held_bytes;
};

// -errno. `pcapng` is all zero but for path, number, most, keep and interfaces.
int pcapng_open(struct pcapng *pcapng);
// One frame of `parts`, `bytes` together. Opens the next file where it does not fit. -errno.
struct pcapng_part {
	const void *data;
	uint32_t bytes;
};
int pcapng_frame(
	struct pcapng *pcapng, uint32_t interface, uint64_t time_ns, const struct pcapng_part *parts, uint32_t count, uint32_t bytes
);
// -errno.
int pcapng_flush(struct pcapng *pcapng);
// Says at the end of the file how many packets of an interface were dropped. -errno.
int pcapng_dropped(struct pcapng *pcapng, uint32_t interface, uint64_t dropped);
// -errno.
int pcapng_close(struct pcapng *pcapng);

#endif
