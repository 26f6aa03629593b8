// SPDX-License-Identifier: Apache-2.0
//
// Memory for many items of one size that stay where they are and are given back all at once. Side by side in large pages, so
// that reaching one of many thousands in turn costs no walk through page tables.
#ifndef FCK_SLAB_H
#define FCK_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define FCK_CACHE_LINE 64

struct fck_slab {
	void **blocks;
	uint64_t count;
	uint64_t room;
	char *next;    // free memory of the newest block
	size_t left;   // bytes there
};

// Room for one item, not initialised, at the beginning of a cache line. `size` is the same each time. NULL: no memory.
void *fck_slab_take(struct fck_slab *slab, size_t size);
void fck_slab_free(struct fck_slab *slab);

#endif
