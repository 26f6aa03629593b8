// SPDX-License-Identifier: Apache-2.0
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELD_MOST (1u << 20)

struct block {
	uint32_t kind;
	uint32_t chain;
	uint32_t flow;
	uint32_t crc;
	uint64_t bytes;
};

int spool_open(struct spool *spool, const char *path)
{
	*spool = (struct spool){.file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)};
	if (spool->file < 0)
		return -errno;
	spool->held = malloc(HELD_MOST);
	if (spool->held == NULL) {
		close(spool->file);
		return -ENOMEM;
	}
	fck_icrc_init(&spool->crc);
	return 0;
}

void spool_close(struct spool *spool)
{
	spool_flush(spool);
	free(spool->held);
	close(spool->file);
}

static void write_all(struct spool *spool, const uint8_t *data, uint64_t bytes)
{
	while (bytes > 0 && spool->error == 0) {
		ssize_t done = write(spool->file, data, bytes);

		if (done < 0 && errno != EINTR)
			spool->error = -errno;
		if (done > 0) {
			data += done;
			bytes -= (uint64_t)done;
		}
	}
}

int spool_flush(struct spool *spool)
{
	write_all(spool, spool->held, spool->held_bytes);
	spool->held_bytes = 0;
	return spool->error;
}

static void put(struct spool *spool, const void *data, uint64_t bytes)
{
	if (bytes == 0)
		return;
	if (spool->held_bytes + bytes > HELD_MOST)
		spool_flush(spool);
	if (bytes > HELD_MOST) {
		write_all(spool, data, bytes);
		return;
	}
	memcpy(spool->held + spool->held_bytes, data, bytes);
	spool->held_bytes += bytes;
}

void spool_block(struct spool *spool, uint32_t kind, uint32_t chain, uint32_t flow, const void *content, uint64_t bytes)
{
	struct block block = {.kind = kind, .chain = chain, .flow = flow, .bytes = bytes};

	block.crc = fck_crc32(&spool->crc, 0, (const uint8_t *)&block, offsetof(struct block, crc));
	block.crc = fck_crc32(&spool->crc, block.crc, (const uint8_t *)&block.bytes, sizeof(block.bytes));
	block.crc = fck_crc32(&spool->crc, block.crc, content, bytes);
	put(spool, &block, sizeof(block));
	put(spool, content, bytes);
}

struct spool_flow spool_flow_of(const struct fck_flow *flow)
{
	struct spool_flow made = {
		.capture = flow->capture,
		.family = flow->family,
		.dest_qp = flow->dest_qp,
		.mtu = flow->mtu,
		.truncated = flow->truncated,
		.bytes = flow->bytes,
		.retransmitted = flow->retransmitted,
		.duplicated = flow->duplicated,
		.reordered = flow->reordered,
	};

	memcpy(made.source, flow->source, sizeof(made.source));
	memcpy(made.destination, flow->destination, sizeof(made.destination));
	memcpy(made.packets, flow->packets, sizeof(made.packets));
	return made;
}
