// SPDX-License-Identifier: Apache-2.0
//
// The receiver's own file: blocks with checksums, appended while packets come, so that what is written stays good whatever
// happens to the process. flowcheck-net makes records of it (receive/receiver_spool.py).
//
// A block is that of the records container (docs/records-format.md): kind, chain, flow, checksum, length, content. The chain is
// the number of a worker. Kinds 1 to 5 are the container's own; the others stand here.
#ifndef RECEIVER_SPOOL_H
#define RECEIVER_SPOOL_H

#include <stdint.h>

#include "fck.h"
#include "icrc.h"

// cffi: begin

enum { SPOOL_VERSION = 2 };

enum spool_kind {
	SPOOL_HEAD = 16, // struct spool_head: first block of a file; `flow` is the number of workers
	SPOOL_WORKER,    // name of the worker's capture port
	SPOOL_KEY,       // struct spool_flow: a flow appeared
	SPOOL_CAPTURE,   // struct spool_capture: everything so far
	SPOOL_FLOW,      // struct spool_flow: at the end
	SPOOL_TUNNELS,   // struct fck_tunnel, one block each: at the end
	SPOOL_LOSS,      // array of struct spool_counter: at the end; `chain` is the number of the port, `flow` its first worker
	SPOOL_END,       // no content: the receiver ended as it should
};

struct spool_head {
	uint32_t version;
	uint32_t frame_kinds;
	uint32_t attributes;
	uint32_t classes;
};

struct spool_flow {
	uint32_t capture;
	uint32_t family;
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t dest_qp;
	uint32_t mtu;
	uint64_t packets[FCK_CLASSES];
	uint64_t truncated;
	uint64_t bytes;
	uint64_t retransmitted;
	uint64_t duplicated;
	uint64_t reordered;
};

struct spool_capture {
	uint64_t packets;
	uint64_t bytes;
	uint64_t first_time;
	uint64_t last_time;
	uint64_t frames[FCK_FRAME_KINDS];
	uint64_t attributes[FCK_ATTRIBUTES];
};

struct spool_counter {
	char name[80];
	int64_t value; // -1: unknown
};

// cffi: end

struct spool {
	int file;
	struct fck_icrc crc;
	uint8_t *held; // not yet written
	uint64_t held_bytes;
	int error; // the first one, -errno: nothing is written after it
};

// -errno.
int spool_open(struct spool *spool, const char *path);
void spool_close(struct spool *spool);
void spool_block(struct spool *spool, uint32_t kind, uint32_t chain, uint32_t flow, const void *content, uint64_t bytes);
// Writes what is held. -errno: the first error there ever was.
int spool_flush(struct spool *spool);

struct spool_flow spool_flow_of(const struct fck_flow *flow);

#endif
