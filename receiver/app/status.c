// SPDX-License-Identifier: Apache-2.0
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"

static void print_known(const char *name, bool known, uint64_t value)
{
	if (known)
		printf("\"%s\":%" PRIu64, name, value);
	else
		printf("\"%s\":null", name);
}

static void print_fill(const char *name, int64_t fill)
{
	print_known(name, fill >= 0, (uint64_t)fill);
}

// One object for each queue of the device.
static void print_queues(const struct control *control, uint32_t number)
{
	const struct port *port = &control->ports[number];
	const struct dealer *dealer = &control->dealers[number];

	printf(",\"queues\":[");
	for (uint32_t i = 0; i < port->queues; i++) {
		printf("%s{", i == 0 ? "" : ",");
		print_fill("fill_most", dealer->lane_count > 0 ? dealer->fill_most : control->workers[control->first_worker[number] + i].fill_most);
		printf(",\"size\":%u}", port->descriptors);
	}
	putchar(']');
}

static void print_worker(const struct worker *worker, const struct deal_lane *lane)
{
	const struct fck_capture *capture = &worker->exchange->capture;

	printf("{\"packets\":%" PRIu64 ",\"flows\":%u", capture->packets, worker->exchange->known_flows);
	printf(",\"sequence_gaps\":%" PRIu64, capture->attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS]);
	printf(",\"segmented\":%" PRIu64 ",\"uncounted\":%" PRIu64 ",\"ring\":", worker->segmented, worker->uncounted);
	if (lane == NULL) {
		printf("null}");
		return;
	}
	putchar('{');
	print_fill("fill_most", lane->fill_most);
	printf(",\"size\":%u,\"dropped\":%" PRIu64 "}}", rte_ring_get_capacity(lane->ring), lane->dropped);
}

static void print_workers(const struct control *control, uint32_t number)
{
	const struct dealer *dealer = &control->dealers[number];
	uint32_t first = control->first_worker[number];

	printf(",\"workers\":[");
	for (uint32_t i = first; i < control->first_worker[number + 1]; i++) {
		printf("%s", i == first ? "" : ",");
		print_worker(&control->workers[i], dealer->lane_count > 0 ? &dealer->lanes[i - first] : NULL);
	}
	putchar(']');
}

// Loss and errors of the driver; what it cannot know is null.
static void print_counters(const struct port *port)
{
	struct rte_eth_stats stats = {0};
	bool known = port_stats(port, &stats), device = known && port->config->loss == LOSS_DEVICE;

	print_known("device_packets", known, stats.ipackets);
	putchar(',');
	print_known("imissed", device, stats.imissed);
	putchar(',');
	print_known("ierrors", device, stats.ierrors);
	putchar(',');
	print_known("rx_nombuf", known && port->config->loss != LOSS_UNKNOWN, stats.rx_nombuf);
}

static void print_extended(const struct port *port)
{
	int count = rte_eth_xstats_get(port->id, NULL, 0), named;
	struct rte_eth_xstat_name *names;
	struct rte_eth_xstat *values;
	bool first = true;

	names = calloc((size_t)RTE_MAX(count, 1), sizeof(*names));
	values = calloc((size_t)RTE_MAX(count, 1), sizeof(*values));
	printf(",\"extended\":{");
	if (names != NULL && values != NULL && count > 0) {
		named = rte_eth_xstats_get_names(port->id, names, (unsigned int)count);
		count = RTE_MIN(rte_eth_xstats_get(port->id, values, (unsigned int)count), named);
		for (int i = 0; i < count; i++) {
			if (strncmp(names[i].name, "tx_", 3) == 0)
				continue;
			printf("%s\"%s\":%" PRIu64, first ? "" : ",", names[i].name, values[i].value);
			first = false;
		}
	}
	putchar('}');
	free(names);
	free(values);
}

static void print_port(struct control *control, uint32_t number, bool extended)
{
	struct port *port = &control->ports[number];
	uint64_t packets = 0, bytes = 0, rocev2 = 0, last = 0, uncounted = 0;
	uint32_t from = control->first_worker[number], to = control->first_worker[number + 1];
	int64_t dropped;

	for (uint32_t i = from; i < to; i++) {
		const struct fck_capture *capture = &control->workers[i].exchange->capture;

		packets += capture->packets;
		bytes += capture->bytes;
		rocev2 += capture->frames[FCK_FRAME_ROCEV2];
		last = RTE_MAX(last, capture->last_time);
		uncounted += control->workers[i].uncounted;
	}
	printf("{\"driver\":\"%s\",\"spread\":\"%s\"", port->driver, steer_name(port->spread));
	printf(",\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"rocev2\":%" PRIu64, packets, bytes, rocev2);
	printf(",\"last_time\":%" PRIu64 ",", last);
	uncounted += control->dealers[number].unnoted + deal_dropped(&control->dealers[number]);
	dropped = port_dropped(port, uncounted);
	print_known("dropped", dropped >= 0, (uint64_t)dropped);
	putchar(',');
	print_counters(port);
	if (extended)
		print_extended(port);
	print_queues(control, number);
	print_workers(control, number);
	putchar('}');
}

void status_say(struct control *control, const char *event)
{
	printf("{\"event\":\"%s\",\"ports\":[", event);
	for (uint32_t i = 0; i < control->config->port_count; i++) {
		print_port(control, i, strcmp(event, "stopped") == 0);
		printf("%s", i + 1 < control->config->port_count ? "," : "");
	}
	printf("]}\n");
	fflush(stdout);
}
