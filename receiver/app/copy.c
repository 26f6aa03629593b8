// SPDX-License-Identifier: Apache-2.0
#include "copy.h"

#include <errno.h>
#include <rte_dmadev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_pause.h>
#include <rte_vfio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

#define QUEUE COPY_FLIGHTS
#define BURST 128

struct flight {
	struct rte_mbuf *mbuf;
	uint8_t *to;
	const uint8_t *from;
	uint32_t bytes;
};

struct copy {
	int16_t device;
	bool virtual; // it takes the program's own addresses
	struct fck_tracker *tracker;
	struct rte_mbuf **mbufs; // of this burst
	uint16_t mbuf_count;
	uint16_t mbuf_at;
	uint64_t begun;
	uint64_t done;
	bool unsubmitted;
	struct copy_counts counts;
	struct flight flights[QUEUE];
};

static bool set_up(struct copy *copy, const char *device, const struct rte_dma_info *info)
{
	uint16_t descriptors = (uint16_t)RTE_MIN(QUEUE, (uint32_t)info->max_desc);
	struct rte_dma_conf conf = {.nb_vchans = 1};
	struct rte_dma_vchan_conf queue = {.direction = RTE_DMA_DIR_MEM_TO_MEM, .nb_desc = descriptors};
	int rc = rte_dma_configure(copy->device, &conf);

	if (rc == 0)
		rc = rte_dma_vchan_setup(copy->device, 0, &queue);
	if (rc == 0)
		rc = rte_dma_start(copy->device);
	if (rc != 0)
		say_error("copy", device, "the DMA device %s does not start: %s", device, strerror(-rc));
	return rc == 0;
}

struct copy *copy_open(const char *device)
{
	struct rte_dma_info info;
	struct copy *copy = calloc(1, sizeof(*copy));

	if (copy == NULL) {
		say_error("memory", device, "no memory for the DMA device %s", device);
		return NULL;
	}
	copy->device = (int16_t)rte_dma_get_dev_id_by_name(device);
	if (copy->device < 0 || rte_dma_info_get(copy->device, &info) != 0) {
		say_error("copy", device, "DPDK finds no DMA device %s", device);
		goto fail;
	}
	copy->virtual = (info.dev_capa & RTE_DMA_CAPA_SVA) != 0;
	if ((info.dev_capa & RTE_DMA_CAPA_MEM_TO_MEM) == 0 || (info.dev_capa & RTE_DMA_CAPA_OPS_COPY) == 0) {
		say_error("copy", device, "the DMA device %s does not copy from memory to memory", device);
		goto fail;
	}
	if (!copy->virtual && rte_eal_iova_mode() != RTE_IOVA_VA) {
		say_error("copy", device, "the DMA device %s needs an IOMMU (IOVA as virtual addresses)", device);
		goto fail;
	}
	if (set_up(copy, device, &info))
		return copy;
fail:
	free(copy);
	return NULL;
}

bool copy_target(struct copy *copy, void *target, uint64_t bytes)
{
	uint64_t at = (uint64_t)(uintptr_t)target;

	if (copy->virtual)
		return true;
	if (rte_vfio_container_dma_map(RTE_VFIO_DEFAULT_CONTAINER_FD, at, at, bytes) == 0 || rte_errno == EEXIST)
		return true;
	say_error("copy", "", "gradient memory cannot be mapped for DMA: %s", rte_strerror(rte_errno));
	return false;
}

void copy_burst(struct copy *copy, struct rte_mbuf **mbufs, uint16_t count)
{
	copy->mbufs = mbufs;
	copy->mbuf_count = count;
	copy->mbuf_at = 0;
}

static bool lies_in(const struct rte_mbuf *mbuf, const uint8_t *payload)
{
	const uint8_t *begin = mbuf->buf_addr;

	return payload >= begin && payload < begin + mbuf->buf_len;
}

// Most often that of the packet before, or the next one.
static struct rte_mbuf *mbuf_of(struct copy *copy, const uint8_t *payload)
{
	for (uint16_t tried = 0; tried < copy->mbuf_count; tried++) {
		if (lies_in(copy->mbufs[copy->mbuf_at], payload))
			return copy->mbufs[copy->mbuf_at];
		copy->mbuf_at = copy->mbuf_at + 1 == copy->mbuf_count ? 0 : copy->mbuf_at + 1;
	}
	return NULL;
}

static bool take(void *context, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	struct copy *copy = context;
	struct rte_mbuf *mbuf = mbuf_of(copy, from);

	if (mbuf == NULL)
		return false;
	if (copy->begun - copy->done == QUEUE ||
	    rte_dma_copy(copy->device, 0, (rte_iova_t)(uintptr_t)from, (rte_iova_t)(uintptr_t)to, bytes, 0) < 0) {
		copy->counts.full++;
		return false;
	}
	rte_mbuf_refcnt_update(mbuf, 1);
	copy->flights[copy->begun++ % QUEUE] = (struct flight){mbuf, to, from, bytes};
	copy->counts.taken++;
	copy->unsubmitted = true;
	return true;
}

static void land(struct copy *copy, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++)
		rte_pktmbuf_free(copy->flights[copy->done++ % QUEUE].mbuf);
	if (count > 0)
		fck_tracker_copied(copy->tracker, count);
}

// One copy failed: it is made here.
static void step_over(struct copy *copy)
{
	enum rte_dma_status_code status;
	const struct flight *flight;
	uint16_t last;

	while (rte_dma_completed_status(copy->device, 0, 1, &last, &status) == 0)
		rte_pause();
	flight = &copy->flights[copy->done % QUEUE];
	if (status != RTE_DMA_STATUS_SUCCESSFUL) {
		memcpy(flight->to, flight->from, flight->bytes);
		copy->counts.failed++;
	}
	land(copy, 1);
}

void copy_poll(struct copy *copy)
{
	bool failed = false;
	uint16_t last, count;

	if (copy->unsubmitted)
		rte_dma_submit(copy->device, 0);
	copy->unsubmitted = false;
	do {
		count = rte_dma_completed(copy->device, 0, BURST, &last, &failed);
		land(copy, count);
		if (failed)
			step_over(copy);
	} while (count == BURST || failed);
}

static void finish(void *context)
{
	struct copy *copy = context;

	while (copy->done != copy->begun) {
		copy_poll(copy);
		rte_pause();
	}
}

struct fck_copier copy_copier(struct copy *copy, struct fck_tracker *tracker)
{
	copy->tracker = tracker;
	return (struct fck_copier){take, finish, copy};
}

struct copy_counts copy_counts(const struct copy *copy)
{
	return copy->counts;
}

void copy_close(struct copy *copy)
{
	if (copy == NULL)
		return;
	finish(copy);
	rte_dma_stop(copy->device);
	rte_dma_close(copy->device);
	free(copy);
}
