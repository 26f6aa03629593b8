// SPDX-License-Identifier: Apache-2.0
#include "loss.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct list {
	struct spool_counter *items;
	uint32_t count;
};

__attribute__((format(printf, 3, 4))) static void put(struct list *list, int64_t value, const char *format, ...)
{
	struct spool_counter *counter = &list->items[list->count];
	va_list arguments;

	if (list->count == LOSS_MOST)
		return;
	list->count++;
	memset(counter, 0, sizeof(*counter));
	counter->value = value;
	va_start(arguments, format);
	vsnprintf(counter->name, sizeof(counter->name), format, arguments);
	va_end(arguments);
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
		uint32_t own = i - first;

		if (own < dealer->lane_count)
			put(list, (int64_t)dealer->lanes[own].dropped, "worker%u.ring", own);
		else
			put(list,
			    (int64_t)worker->exchange->capture.attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS],
			    "worker%u.tunnel_gaps",
			    own);
		put(list, (int64_t)worker->uncounted, "worker%u.uncounted", own);
		put(list, (int64_t)worker->segmented, "worker%u.segmented", own);
		if (worker->ended)
			put(list, (int64_t)worker->missing, "worker%u.missing", own);
	}
	if (dealer->lane_count > 0)
		put(list, (int64_t)dealer->sequence_gaps, "dealer.tunnel_gaps");
	if (dealer->lane_count > 0)
		put(list, (int64_t)dealer->unnoted, "dealer.uncounted");
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

	put(&list, port_dropped(port, lost_by_us(control, number)), "dropped");
	put(&list, if_known(device, stats.imissed), "missed");
	put(&list, if_known(device, stats.ierrors), "errors");
	put(&list, if_known(known && port->config->loss != LOSS_UNKNOWN, stats.rx_nombuf), "no_buffer");
	if (port->config->loss == LOSS_PACKET)
		put(&list, if_known(port->sockets_found, port->socket_drops), "kernel_ring");
	put_workers(&list, control, number);
	for (uint32_t i = 0; i < port->extended.count; i++)
		put(&list, (int64_t)extended_since(&port->extended, i), "device.%s", port->extended.names[i].name);
	return list.count;
}
