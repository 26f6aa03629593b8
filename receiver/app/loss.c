// SPDX-License-Identifier: Apache-2.0
#include "loss.h"

#include <stdio.h>
#include <string.h>

static const char *const names[LOST_KINDS] = {
	[LOST_DROPPED] = "dropped",
	[LOST_MISSED] = "missed",
	[LOST_ERRORS] = "errors",
	[LOST_NO_BUFFER] = "no_buffer",
	[LOST_KERNEL_RING] = "kernel_ring",
	[LOST_BEFORE_START] = "before_start",
	[LOST_DEALER_TUNNEL_GAPS] = "dealer.tunnel_gaps",
	[LOST_DEALER_UNCOUNTED] = "dealer.uncounted",
	[LOST_DEALER_UNREAD] = "dealer.unread",
	[LOST_WORKER_RING] = "ring",
	[LOST_WORKER_TUNNEL_GAPS] = "tunnel_gaps",
	[LOST_WORKER_UNCOUNTED] = "uncounted",
	[LOST_WORKER_SEGMENTED] = "segmented",
	[LOST_WORKER_MISSING] = "missing",
	[LOST_WORKER_UNREAD] = "unread",
	[LOST_DEVICE] = "device",
};

struct list {
	struct spool_counter *items;
	uint32_t count;
	uint32_t worker; // whose turn it is
	const char *device; // name of its counter
};

static void put(struct list *list, enum lost kind, int64_t value)
{
	struct spool_counter *counter = &list->items[list->count];

	if (list->count == LOSS_MOST)
		return;
	list->count++;
	memset(counter, 0, sizeof(*counter));
	counter->value = value;
	if (kind == LOST_DEVICE)
		snprintf(counter->name, sizeof(counter->name), "%s.%s", names[kind], list->device);
	else if (kind >= LOST_WORKER_RING)
		snprintf(counter->name, sizeof(counter->name), "worker%u.%s", list->worker, names[kind]);
	else
		snprintf(counter->name, sizeof(counter->name), "%s", names[kind]);
}

static int64_t if_known(bool known, uint64_t value)
{
	return known ? (int64_t)value : -1;
}

static void put_workers(struct list *list, const struct control *control, uint32_t number)
{
	const struct dealer *dealer = &control->dealers[number];
	uint32_t first = control->first_worker[number];

	for (uint32_t i = first; i < control->first_worker[number + 1]; i++) {
		const struct worker *worker = &control->workers[i];
		const uint64_t *attributes = worker->exchange->capture.attributes;

		list->worker = i - first;
		if (list->worker < dealer->lane_count)
			put(list, LOST_WORKER_RING, (int64_t)dealer->lanes[list->worker].dropped);
		else
			put(list, LOST_WORKER_TUNNEL_GAPS, (int64_t)attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS]);
		put(list, LOST_WORKER_UNCOUNTED, (int64_t)worker->uncounted);
		put(list, LOST_WORKER_SEGMENTED, (int64_t)worker->segmented);
		if (!worker->ended)
			continue;
		put(list, LOST_WORKER_MISSING, (int64_t)worker->missing);
		put(list, LOST_WORKER_UNREAD, worker->unread);
	}
}

static void put_dealer(struct list *list, const struct dealer *dealer)
{
	put(list, LOST_DEALER_TUNNEL_GAPS, (int64_t)dealer->sequence_gaps);
	put(list, LOST_DEALER_UNCOUNTED, (int64_t)dealer->unnoted);
	if (dealer->ended)
		put(list, LOST_DEALER_UNREAD, dealer->unread);
}

static uint64_t lost_by_us(const struct control *control, uint32_t number)
{
	uint64_t lost = deal_dropped(&control->dealers[number]) + control->dealers[number].unnoted;

	for (uint32_t i = control->first_worker[number]; i < control->first_worker[number + 1]; i++)
		lost += control->workers[i].uncounted;
	return lost;
}

uint32_t loss_of(struct control *control, uint32_t number, struct spool_counter *counters)
{
	struct port *port = &control->ports[number];
	struct list list = {.items = counters};
	struct rte_eth_stats stats = {0};
	bool known = port_stats(port, &stats), device = known && port->config->loss == LOSS_DEVICE;

	put(&list, LOST_DROPPED, port_dropped(port, lost_by_us(control, number)));
	put(&list, LOST_MISSED, if_known(device, stats.imissed));
	put(&list, LOST_ERRORS, if_known(device, stats.ierrors));
	put(&list, LOST_NO_BUFFER, if_known(known && port->config->loss != LOSS_UNKNOWN, stats.rx_nombuf));
	if (port->config->loss == LOSS_PACKET) {
		put(&list, LOST_KERNEL_RING, if_known(port->sockets_found, port->socket_drops));
		put(&list, LOST_BEFORE_START, (int64_t)port->before_start);
	}
	if (control->dealers[number].lane_count > 0)
		put_dealer(&list, &control->dealers[number]);
	put_workers(&list, control, number);
	for (uint32_t i = 0; i < port->extended.count; i++) {
		list.device = port->extended.names[i].name;
		put(&list, LOST_DEVICE, (int64_t)extended_since(&port->extended, i));
	}
	return list.count;
}
