// SPDX-License-Identifier: Apache-2.0
#include "status.h"

#include <inttypes.h>
#include <rte_eal.h>
#include <stdio.h>
#include <string.h>

#include "loss.h"
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
	printf(",\"sleeps\":%" PRIu64, worker->rest.sleeps);
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

static void print_loss(struct control *control, uint32_t number)
{
	struct spool_counter counters[LOSS_MOST];
	uint32_t count = loss_of(control, number, counters);

	printf(",\"loss\":{");
	for (uint32_t i = 0; i < count; i++) {
		printf("%s", i == 0 ? "" : ",");
		print_known(counters[i].name, counters[i].value >= 0, (uint64_t)counters[i].value);
	}
	putchar('}');
}

// What the device itself says that it received.
static void print_received(const struct port *port)
{
	struct rte_eth_stats stats;
	bool known = port_stats(port, &stats);

	putchar(',');
	print_known("device_packets", known, known ? stats.ipackets : 0);
	printf(",\"no_flow_control\":%s", port->flow_control == 0 ? "true" : "false");
	printf(",\"promiscuous\":%s", port->promiscuous == 0 ? "true" : "false");
}

// What was written of a port's packets to the pcapng files.
static void print_written(const struct control *control, uint32_t number)
{
	const struct tap_port *tap = &control->tap.ports[number];

	if (control->tap.port_count == 0) {
		printf(",\"written\":null");
		return;
	}
	printf(",\"written\":{\"packets\":%" PRIu64 ",\"dropped\":%" PRIu64, tap->written, tap->dropped);
	printf(",\"fill_most\":%" PRId64 ",\"size\":%u", tap->fill_most, rte_ring_get_capacity(tap->ring));
	printf(",\"error\":\"%s\"}", control->tap.error == 0 ? "" : strerror(-control->tap.error));
}

static void print_port(struct control *control, uint32_t number)
{
	const struct port *port = &control->ports[number];
	struct control_total total = control_total(control, number);

	printf("{\"driver\":\"%s\",\"spread\":\"%s\",\"sleep_us\":%u", port->driver, steer_name(port->spread), port->sleep_us);
	printf(",\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"rocev2\":%" PRIu64, total.packets, total.bytes, total.rocev2);
	printf(",\"last_time\":%" PRIu64, total.last_time);
	print_received(port);
	print_loss(control, number);
	print_queues(control, number);
	print_workers(control, number);
	print_written(control, number);
	putchar('}');
}

// Counters of the workers are theirs as long as they run.
static void print_placement(const struct control *control, bool ended)
{
	const char *before = "";

	placement_print(&control->placement);
	printf(",\"placed\":[");
	for (uint32_t i = 0; ended && i < control->worker_count; i++) {
		if (control->workers[i].place == NULL)
			continue;
		printf("%s", before);
		place_print(control->workers[i].place);
		before = ",";
	}
	printf("]");
}

void status_say(struct control *control, const char *event)
{
	printf("{\"event\":\"%s\",\"runtime\":\"%s\",\"ports\":[", event, rte_eal_get_runtime_dir());
	for (uint32_t i = 0; i < control->config->port_count; i++) {
		print_port(control, i);
		printf("%s", i + 1 < control->config->port_count ? "," : "");
	}
	printf("]");
	if (control->placement.file.group_count > 0)
		print_placement(control, strcmp(event, "stopped") == 0);
	printf("}\n");
	fflush(stdout);
}
