// SPDX-License-Identifier: Apache-2.0
//
// Reads a records file (docs/records-format.md, "The container") from memory that nobody needs to trust: every length,
// checksum and row is tested here, once. Pure memory, no I/O.
#ifndef FCK_RECORDFILE_H
#define FCK_RECORDFILE_H

#include <stdint.h>

// cffi: begin

struct fck_recordfile;

enum { FCK_RECORDS_FORMAT = 2, FCK_RECORDS_HEAD = 24, FCK_RECORDS_BLOCK_HEAD = 24 };

enum fck_recordfile_state {
	FCK_RECORDS_WHOLE,
	FCK_RECORDS_FOREIGN,    // does not begin like a records file
	FCK_RECORDS_VERSION,    // of another version: `claimed` is that version
	FCK_RECORDS_UNFINISHED, // its writer never came to the end
	FCK_RECORDS_TRUNCATED,  // shorter than `claimed`, which is what its header says
	FCK_RECORDS_CORRUPT,    // `reason` at byte `offset`
};

// Rows are the structs of fck.h as they stand in memory, little-endian, padding zero.
enum fck_recordfile_kind {
	FCK_RECORDS_MESSAGES = 1, // struct fck_message
	FCK_RECORDS_SEEN,         // struct fck_range
	FCK_RECORDS_REPEATS,      // struct fck_repeat
	FCK_RECORDS_MISSING,      // struct fck_missing
	FCK_RECORDS_GAPS,         // struct fck_gap
	FCK_RECORDS_INDEX,        // JSON, the last block
};

struct fck_recordfile_block {
	uint32_t kind;
	uint32_t chain; // `flow` counts within it
	uint32_t flow;
	uint64_t offset; // of the content in the file
	uint64_t length; // bytes, a whole number of rows
};

struct fck_recordfile_report {
	uint32_t state;
	uint64_t claimed;
	uint64_t offset; // where the fault is
	uint64_t blocks; // whole ones before it
	const char *reason; // static text for CORRUPT, else NULL
};

// `data` must outlive the handle. 0 or -ENOMEM; faults are told by fck_recordfile_next().
int fck_recordfile_new(struct fck_recordfile **out, const void *data, uint64_t size);
void fck_recordfile_free(struct fck_recordfile *file);
// 1: a block whose checksum and rows are right. 0: the end, see the report; only WHOLE has an index.
int fck_recordfile_next(struct fck_recordfile *file, struct fck_recordfile_block *block);
struct fck_recordfile_report fck_recordfile_report(const struct fck_recordfile *file);

// cffi: end

#endif
