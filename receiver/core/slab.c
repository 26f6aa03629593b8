// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "slab.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "psn.h"

#define LARGE_PAGE (UINT64_C(1) << 21)
#define SMALLEST 8192 // bytes of the first block: who has few items pays for few

// An odd number of cache lines: the same part of all items then spreads over all of a cache's sets.
static size_t stride_of(size_t size)
{
	return ((size + FCK_CACHE_LINE - 1) / FCK_CACHE_LINE | 1) * FCK_CACHE_LINE;
}

// Each block is twice as large as the one before, up to one large page.
static size_t block_bytes(uint64_t number)
{
	return number >= 8 ? LARGE_PAGE : (size_t)SMALLEST << number;
}

static int grow(struct fck_slab *slab, size_t stride)
{
	size_t bytes = block_bytes(slab->count);
	void *block;

	if (bytes < stride)
		bytes = stride;
	if (fck_reserve((void **)&slab->blocks, &slab->room, slab->count, sizeof(*slab->blocks)) != 0)
		return -1;
	block = aligned_alloc(bytes == LARGE_PAGE ? LARGE_PAGE : FCK_CACHE_LINE, bytes);
	if (block == NULL)
		return -1;
#ifdef MADV_HUGEPAGE
	if (bytes == LARGE_PAGE)
		(void)madvise(block, bytes, MADV_HUGEPAGE); // only advice
#endif
	slab->blocks[slab->count++] = block;
	slab->next = block;
	slab->left = bytes;
	return 0;
}

void *fck_slab_take(struct fck_slab *slab, size_t size)
{
	size_t stride = stride_of(size);
	char *item;

	if (slab->left < stride && grow(slab, stride) != 0)
		return NULL;
	item = slab->next;
	slab->next += stride;
	slab->left -= stride;
	return item;
}

void fck_slab_free(struct fck_slab *slab)
{
	for (uint64_t i = 0; i < slab->count; i++)
		free(slab->blocks[i]);
	free(slab->blocks);
}
