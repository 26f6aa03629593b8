// SPDX-License-Identifier: Apache-2.0
#include "extended.h"

#include <stdlib.h>
#include <string.h>

static bool has(const char *name, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(name, parts[i]) != NULL)
			return true;
	return false;
}

// DPDK makes these of the usual counters, which are 0 where a driver does not count: no more is known by them.
static bool usual(const char *name)
{
	static const char *const names[] = {"rx_missed_errors", "rx_errors", "rx_mbuf_allocation_errors"};

	for (size_t i = 0; i < RTE_DIM(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool of_a_queue(const char *name)
{
	return strncmp(name, "rx_q", 4) == 0;
}

static bool tells_of_loss(const char *name, bool counts)
{
	static const char *const parts[] = {"drop", "discard", "miss", "error", "no_mbuf", "nombuf", "out_of_buffer", "overflow", "pause"};

	if (strncmp(name, "tx_", 3) == 0 || usual(name) || (of_a_queue(name) && !counts))
		return false;
	return has(name, parts, RTE_DIM(parts));
}

void extended_begin(struct extended *extended, uint16_t port, bool counts)
{
	int count = rte_eth_xstats_get_names(port, NULL, 0);
	struct rte_eth_xstat_name *names = count > 0 ? calloc((size_t)count, sizeof(*names)) : NULL;

	extended->count = 0;
	if (names == NULL)
		return;
	count = RTE_MIN(rte_eth_xstats_get_names(port, names, (unsigned int)count), count);
	for (int i = 0; i < count && extended->count < EXTENDED_MOST; i++) {
		if (!tells_of_loss(names[i].name, counts))
			continue;
		extended->ids[extended->count] = (uint64_t)i; // ethdev: the place of a name is its number
		extended->names[extended->count++] = names[i];
	}
	free(names);
	extended_read(extended, port);
	memcpy(extended->before, extended->now, sizeof(extended->before));
}

void extended_read(struct extended *extended, uint16_t port)
{
	if (extended->count > 0)
		rte_eth_xstats_get_by_id(port, extended->ids, extended->now, extended->count);
}

// Of mlx5, whose counters for each priority tell the same once more.
uint64_t extended_before_queues(const struct extended *extended)
{
	for (uint32_t i = 0; i < extended->count; i++)
		if (strcmp(extended->names[i].name, "rx_phy_discard_packets") == 0)
			return extended_since(extended, i);
	return 0;
}
