// SPDX-License-Identifier: Apache-2.0
// Capture files (pcap and pcapng) read from a file, or from a buffer that the caller keeps.
//
// Use: open, then call fck_capfile_run() until it returns FCK_RUN_END, answering each FCK_RUN_INTERFACE with
// fck_capfile_bind(). fck_capfile_report() says at any time how far the reading got and why it stopped.
#ifndef FCK_CAPFILE_H
#define FCK_CAPFILE_H

#include <stddef.h>
#include <stdint.h>

// cffi: begin

struct fck_core;
struct fck_capfile;

// What the file turned out to be. All but WHOLE are worth a word to the user.
enum fck_capfile_state {
	FCK_FILE_WHOLE,     // read to the end (so far)
	FCK_FILE_EMPTY,     // 0 bytes
	FCK_FILE_FOREIGN,   // not pcap, not pcapng
	FCK_FILE_TRUNCATED, // ends inside a header, record or block; `offset` is where that one starts
	FCK_FILE_CORRUPT,   // a header, record or block that cannot be; `offset` is where it starts
};

struct fck_capfile_report {
	uint32_t state;      // enum fck_capfile_state
	uint64_t size;       // bytes of the file
	uint64_t offset;     // byte where reading stopped: everything before it was used
	uint64_t packets;    // handed to the core, or of another link type
	const char *reason;  // static text for TRUNCATED and CORRUPT: what is there; else NULL
};

// One interface of the file. A classic pcap file has one, without a name.
struct fck_capfile_interface {
	uint32_t number;      // in order of appearance in the file, through all sections
	uint32_t link_type;   // LINKTYPE_ value; 1 is Ethernet
	const char *name;     // if_name, not terminated; NULL if absent
	uint32_t name_length; // bytes
	uint32_t bound;       // fck_capfile_bind() was called
	uint32_t capture;     // what it gave: an index of fck_capture_add()
	uint64_t packets;
	uint32_t drops_known; // the file says how many packets were dropped
	uint64_t drops;       // ifdrop + osdrop of the last statistics block, or the sum of the packets' own drop counts
};

enum fck_capfile_run {
	FCK_RUN_END,       // no more packets: see the report
	FCK_RUN_MORE,      // the limit was reached: call again
	FCK_RUN_INTERFACE, // the newest interface wants its capture: bind it and call again
};

// Open a regular file. 0, or -errno of open, fstat; -EINVAL when it is not a regular file; -ENOMEM. It is read through a window
// of memory that does not grow with the file.
int fck_capfile_open(struct fck_capfile **out, const char *path);

// Read from memory, which must outlive the handle and is not changed. 0 or -ENOMEM.
int fck_capfile_buffer(struct fck_capfile **out, const void *data, size_t size);

// Go on with a stream that is read piece by piece: `data` begins with the byte at report.offset, which the run before did
// not use, and replaces what was there. 0, or -EINVAL for a file.
int fck_capfile_more(struct fck_capfile *file, const void *data, size_t size);

void fck_capfile_close(struct fck_capfile *file);

// Feed up to `limit` packets to the core. enum fck_capfile_run; what the core refused with, or -errno of pread.
int fck_capfile_run(struct fck_capfile *file, struct fck_core *core, uint64_t limit);

// Takes one packet of the capture that its interface was bound to. `data` lives as long as the file. 0, or -errno, which
// ends the run.
typedef int (*fck_capfile_sink)(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
);

// As fck_capfile_run(), but the packets, of whatever link type, go to `sink` and not to a core. The file is mapped, so that
// they stay where they are. Also -errno of mmap.
int fck_capfile_run_to(struct fck_capfile *file, fck_capfile_sink sink, void *context, uint64_t limit);

// Say to which capture the newest interface belongs. 0, or -EINVAL when none waits for one.
int fck_capfile_bind(struct fck_capfile *file, uint32_t capture);

struct fck_capfile_report fck_capfile_report(const struct fck_capfile *file);

uint32_t fck_capfile_interfaces(const struct fck_capfile *file);

// -EINVAL: no such number.
int fck_capfile_interface(const struct fck_capfile *file, uint32_t number, struct fck_capfile_interface *out);

// cffi: end

#endif
