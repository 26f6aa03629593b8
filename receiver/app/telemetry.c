// SPDX-License-Identifier: Apache-2.0
#include "telemetry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <rte_telemetry.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loss.h"
#include "steer.h"

#define PAGE 40 // flows in an answer, which has 16 KiB at most

static struct control *asked; // NULL: nothing can be told any more

static void add_count(struct rte_tel_data *data, const char *name, uint64_t count)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	rte_tel_data_add_dict_uint(data, name, count);
#else
	rte_tel_data_add_dict_u64(data, name, count);
#endif
}

// What is not known is a word: JSON's null cannot be told here.
static void add_known(struct rte_tel_data *data, const char *name, int64_t count)
{
	if (count >= 0)
		add_count(data, name, (uint64_t)count);
	else
		rte_tel_data_add_dict_string(data, name, "unknown");
}

// Where a numbered object is to be written, which put_object() then puts into the whole. DPDK 22.11 has no arrays of objects.
static struct rte_tel_data *new_object(void)
{
	struct rte_tel_data *made = rte_tel_data_alloc();

	if (made != NULL)
		rte_tel_data_start_dict(made);
	return made;
}

static int put_object(struct rte_tel_data *whole, uint64_t number, struct rte_tel_data *made)
{
	char name[24];
	int rc;

	snprintf(name, sizeof(name), "%" PRIu64, number);
	rc = rte_tel_data_add_dict_container(whole, name, made, 0);
	if (rc != 0)
		rte_tel_data_free(made);
	return rc;
}

static void tell_port(struct rte_tel_data *data, uint32_t number)
{
	const struct port *port = &asked->ports[number];
	struct control_total total = control_total(asked, number);

	rte_tel_data_add_dict_string(data, "driver", port->driver);
	rte_tel_data_add_dict_string(data, "spread", steer_name(port->spread));
	add_count(data, "workers", port->config->workers);
	add_count(data, "sleep_us", port->sleep_us);
	add_count(data, "sleeps", total.sleeps);
	add_count(data, "packets", total.packets);
	add_count(data, "bytes", total.bytes);
	add_count(data, "rocev2", total.rocev2);
	add_count(data, "flows", total.flows);
	add_count(data, "last_time", total.last_time);
	add_known(data, "queue_fill_most", total.queue_fill_most);
	add_known(data, "ring_fill_most", total.ring_fill_most);
}

static void tell_port_loss(struct rte_tel_data *data, uint32_t number)
{
	struct spool_counter counters[LOSS_MOST];
	uint32_t count = loss_of(asked, number, counters);

	for (uint32_t i = 0; i < count; i++) {
		if (count > RTE_TEL_MAX_DICT_ENTRIES / 2 && counters[i].value == 0)
			continue; // DPDK would leave out the last ones
		for (char *dot = counters[i].name; (dot = strchr(dot, '.')) != NULL;)
			*dot = '/'; // a dot may not be in a name here
		add_known(data, counters[i].name, counters[i].value);
	}
}

// Of every port, by its number.
static int tell_ports(struct rte_tel_data *data, void (*tell)(struct rte_tel_data *data, uint32_t number))
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < asked->config->port_count; i++) {
		struct rte_tel_data *port = new_object();

		if (port == NULL)
			return -ENOMEM;
		rte_tel_data_add_dict_string(port, "port", asked->config->ports[i].name);
		tell(port, i);
		rc = put_object(data, i, port);
	}
	return rc;
}

static void tell_flow(struct rte_tel_data *data, const char *port, const struct flow_line *line)
{
	int family = line->key.family == 4 ? AF_INET : AF_INET6;
	char address[INET6_ADDRSTRLEN];

	rte_tel_data_add_dict_string(data, "port", port);
	inet_ntop(family, line->key.source, address, sizeof(address));
	rte_tel_data_add_dict_string(data, "source", address);
	inet_ntop(family, line->key.destination, address, sizeof(address));
	rte_tel_data_add_dict_string(data, "destination", address);
	add_count(data, "dest_qp", line->key.dest_qp);
	add_count(data, "messages", line->messages);
	add_count(data, "bytes", line->bytes);
	add_count(data, "last_time", line->last_time);
}

// A page of flows, from number `from` on over all workers.
static int tell_flows(struct rte_tel_data *data, uint64_t from)
{
	uint64_t number = 0;
	int rc = 0;

	for (uint32_t i = 0; i < asked->worker_count; i++) {
		const struct worker *worker = &asked->workers[i];

		for (uint32_t n = 0; n < worker->book.count; n++, number++) {
			struct rte_tel_data *flow = NULL;

			if (number < from)
				continue;
			if (rc != 0 || number - from == PAGE)
				return rc;
			flow = new_object();
			if (flow == NULL)
				return -ENOMEM;
			tell_flow(flow, asked->config->ports[worker->config_port].name, &worker->book.lines[n]);
			rc = put_object(data, number, flow);
		}
	}
	return rc;
}

// How far the payload of every group is, by its number; iterations that are not there yet are unknown.
static int tell_groups(struct rte_tel_data *data)
{
	const struct placement *placement = &asked->placement;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < placement->file.group_count; i++) {
		struct rte_tel_data *group = new_object();
		struct placement_progress progress = placement_progress(placement, i);

		if (group == NULL)
			return -ENOMEM;
		rte_tel_data_add_dict_string(group, "group", placement->boards[i].board->name);
		add_known(group, "newest", progress.newest);
		add_known(group, "complete", progress.complete);
		add_count(group, "complete_time", progress.complete_ns);
		add_known(group, "behind", progress.complete < 0 ? -1 : progress.newest - progress.complete);
		add_count(group, "no_room", placement->boards[i].board->no_room);
		add_count(group, "overwritten", placement->boards[i].board->overwritten);
		add_count(group, "readers_gone", placement->boards[i].gone);
		rc = put_object(data, i, group);
	}
	return rc;
}

static int answer(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int rc = -ENODEV;

	rte_tel_data_start_dict(data);
	pthread_mutex_lock(&control_lock);
	if (asked != NULL && strcmp(command, "/flowcheck/status") == 0)
		rc = tell_ports(data, tell_port);
	else if (asked != NULL && strcmp(command, "/flowcheck/loss") == 0)
		rc = tell_ports(data, tell_port_loss);
	else if (asked != NULL && strcmp(command, "/flowcheck/groups") == 0)
		rc = tell_groups(data);
	else if (asked != NULL)
		rc = tell_flows(data, parameters == NULL ? 0 : strtoull(parameters, NULL, 10));
	pthread_mutex_unlock(&control_lock);
	return rc;
}

int telemetry_begin(struct control *control)
{
	int rc = rte_telemetry_register_cmd("/flowcheck/status", answer, "Every capture port: what it received. Takes no parameters");

	if (rc == 0)
		rc = rte_telemetry_register_cmd("/flowcheck/loss", answer, "Every capture port: all that tells of loss. Takes no parameters");
	if (rc == 0)
		rc = rte_telemetry_register_cmd("/flowcheck/groups", answer, "Every group whose payload is placed. Takes no parameters");
	if (rc == 0)
		rc = rte_telemetry_register_cmd("/flowcheck/flows", answer, "40 flows and their finished messages. Parameter: number of the first");
	if (rc == 0)
		asked = control;
	return rc;
}

void telemetry_end(void)
{
	asked = NULL;
}
