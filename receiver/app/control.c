// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <errno.h>
#include <rte_lcore.h>
#include <rte_mbuf_dyn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

#define WAIT_US 20

// net_pcap gives the time of the file, in microseconds since 1970. What other drivers write is in units of their own.
static void use_driver_time(struct worker *worker, const char *driver)
{
	int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);

	worker->time_offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
	if (flag < 0 || strcmp(driver, "net_pcap") != 0)
		worker->time_offset = -1;
	else
		worker->time_flag = RTE_BIT64(flag);
}

static bool make_worker(struct control *control, uint32_t config_port, uint16_t queue)
{
	const struct port *port = &control->ports[config_port];
	struct worker *worker = &control->workers[control->worker_count];
	int rc = -ENOMEM;

	*worker = (struct worker){
		.port = port->id,
		.queue = queue,
		.config_port = config_port,
		.idle_us = control->config->idle_us,
		.fill_most = -1,
		.exchange = calloc(1, sizeof(*worker->exchange)),
	};
	if (worker->exchange != NULL)
		rc = fck_new(&control->config->core, &worker->core);
	if (rc == 0)
		rc = fck_capture_add(worker->core, port->config->name);
	if (rc < 0) {
		say_error("memory", port->config->name, "no memory for a counter");
		free(worker->exchange);
		fck_free(worker->core);
		return false;
	}
	use_driver_time(worker, port->driver);
	control->worker_count++;
	return true;
}

static bool make_workers(struct control *control)
{
	uint32_t lcores = rte_lcore_count() - 1;

	for (uint32_t i = 0; i < control->config->port_count; i++) {
		control->first_worker[i] = control->worker_count;
		for (uint16_t queue = 0; queue < control->ports[i].queues; queue++) {
			if (control->worker_count == RTE_MIN(lcores, (uint32_t)CONTROL_WORKERS)) {
				say_error("lcores", control->config->ports[i].name, "more queues than lcores for them (%u)", lcores);
				return false;
			}
			if (!make_worker(control, i, queue))
				return false;
		}
	}
	control->first_worker[control->config->port_count] = control->worker_count;
	return true;
}

static void write_head(struct control *control)
{
	struct spool_head head = {
		.version = SPOOL_VERSION,
		.frame_kinds = FCK_FRAME_KINDS,
		.attributes = FCK_ATTRIBUTES,
		.classes = FCK_CLASSES,
	};

	spool_block(&control->spool, SPOOL_HEAD, 0, control->worker_count, &head, sizeof(head));
	for (uint32_t i = 0; i < control->worker_count; i++) {
		const char *name = control->config->ports[control->workers[i].config_port].name;

		spool_block(&control->spool, SPOOL_WORKER, i, 0, name, strlen(name));
	}
}

bool control_set_up(struct control *control, const struct config *config)
{
	int rc;

	control->config = config;
	for (uint32_t i = 0; i < config->port_count; i++)
		if (!port_set_up(&control->ports[i], &config->ports[i]))
			return false;
	if (!make_workers(control))
		return false;
	rc = spool_open(&control->spool, config->spool);
	if (rc == 0) {
		write_head(control);
		rc = spool_flush(&control->spool);
	}
	if (rc != 0)
		say_error("spool", config->spool, "%s cannot be written: %s", config->spool, strerror(-rc));
	return rc == 0;
}

bool control_start(struct control *control)
{
	uint32_t next = 0, lcore;

	for (uint32_t i = 0; i < control->config->port_count; i++)
		if (!port_start(&control->ports[i]))
			return false;
	RTE_LCORE_FOREACH_WORKER(lcore) {
		if (next == control->worker_count)
			break;
		rte_eal_remote_launch(worker_run, &control->workers[next++], lcore);
	}
	return true;
}

static void write_capture(struct control *control, uint32_t chain, const struct fck_capture *capture)
{
	struct spool_capture made = {
		.packets = capture->packets,
		.bytes = capture->bytes,
		.first_time = capture->first_time,
		.last_time = capture->last_time,
	};

	memcpy(made.frames, capture->frames, sizeof(made.frames));
	memcpy(made.attributes, capture->attributes, sizeof(made.attributes));
	spool_block(&control->spool, SPOOL_CAPTURE, chain, 0, &made, sizeof(made));
}

static void write_exchange(struct control *control, uint32_t chain)
{
	const struct exchange *exchange = control->workers[chain].exchange;
	const struct fck_message *rows = exchange->rows;
	struct spool *spool = &control->spool;

	for (uint32_t i = 0; i < exchange->key_count; i++)
		spool_block(spool, SPOOL_KEY, chain, exchange->first_key + i, &exchange->keys[i], sizeof(exchange->keys[i]));
	for (uint32_t i = 0; i < exchange->part_count; i++) {
		uint32_t count = exchange->parts[i].rows;

		spool_block(spool, 1, chain, exchange->parts[i].flow, rows, count * sizeof(*rows));
		rows += count;
	}
	if (exchange->complete)
		write_capture(control, chain, &exchange->capture);
}

static void ask(struct worker *worker, bool runs)
{
	if (!runs) {
		worker_fill(worker);
		return;
	}
	atomic_store_explicit(&worker->exchange->turn, TURN_WORKER, memory_order_release);
	while (atomic_load_explicit(&worker->exchange->turn, memory_order_acquire) == TURN_WORKER)
		usleep(WAIT_US);
}

static void harvest(struct control *control, bool running)
{
	for (uint32_t i = 0; i < control->worker_count; i++) {
		do {
			ask(&control->workers[i], running);
			write_exchange(control, i);
		} while (!control->workers[i].exchange->complete && control->spool.error == 0);
	}
}

int control_harvest(struct control *control)
{
	harvest(control, true);
	return spool_flush(&control->spool);
}

static void write_flow(struct spool *spool, uint32_t chain, uint32_t number, const struct fck_flow *flow)
{
	struct spool_flow made = spool_flow_of(flow);

	spool_block(spool, SPOOL_FLOW, chain, number, &made, sizeof(made));
	if (flow->messages_count > 0)
		spool_block(spool, 1, chain, number, flow->messages, flow->messages_count * sizeof(*flow->messages));
	if (flow->seen_count > 0)
		spool_block(spool, 2, chain, number, flow->seen, flow->seen_count * sizeof(*flow->seen));
	if (flow->repeats_count > 0)
		spool_block(spool, 3, chain, number, flow->repeats, flow->repeats_count * sizeof(*flow->repeats));
	if (flow->missing_count > 0)
		spool_block(spool, 4, chain, number, flow->missing, flow->missing_count * sizeof(*flow->missing));
	if (flow->gaps_count > 0)
		spool_block(spool, 5, chain, number, flow->gaps, flow->gaps_count * sizeof(*flow->gaps));
}

static int write_tunnels(struct spool *spool, uint32_t chain, const struct fck_core *core)
{
	uint32_t count = fck_tunnel_count(core);
	struct fck_tunnel *tunnels;

	if (count == 0)
		return 0;
	tunnels = calloc(count, sizeof(*tunnels));
	if (tunnels == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		fck_tunnel_get(core, i, &tunnels[i]);
	spool_block(spool, SPOOL_TUNNELS, chain, 0, tunnels, count * sizeof(*tunnels));
	free(tunnels);
	return 0;
}

static int write_results(struct control *control, uint32_t chain)
{
	struct fck_core *core = control->workers[chain].core;
	struct fck_flow flow;
	int rc = fck_finish(core);

	for (uint32_t i = 0; rc == 0 && i < fck_flow_count(core); i++) {
		rc = fck_flow_get(core, i, &flow);
		if (rc == 0)
			write_flow(&control->spool, chain, i, &flow);
	}
	return rc == 0 ? write_tunnels(&control->spool, chain, core) : rc;
}

static void write_loss(struct control *control, uint32_t number)
{
	struct spool_loss loss;
	uint64_t uncounted = 0;

	for (uint32_t i = control->first_worker[number]; i < control->first_worker[number + 1]; i++)
		uncounted += control->workers[i].uncounted;
	loss.dropped = port_dropped(&control->ports[number], uncounted);
	spool_block(&control->spool, SPOOL_LOSS, number, control->first_worker[number], &loss, sizeof(loss));
}

int control_finish(struct control *control)
{
	int rc = 0;

	for (uint32_t i = 0; i < control->worker_count; i++)
		control->workers[i].stop = true;
	rte_eal_mp_wait_lcore();
	harvest(control, false);
	for (uint32_t i = 0; rc == 0 && i < control->worker_count; i++)
		rc = write_results(control, i);
	for (uint32_t i = 0; rc == 0 && i < control->config->port_count; i++)
		write_loss(control, i);
	if (rc != 0)
		return rc;
	spool_block(&control->spool, SPOOL_END, 0, 0, NULL, 0);
	return spool_flush(&control->spool);
}

void control_free(struct control *control)
{
	for (uint32_t i = 0; i < control->config->port_count; i++)
		port_stop(&control->ports[i]);
	for (uint32_t i = 0; i < control->worker_count; i++) {
		free(control->workers[i].exchange);
		fck_free(control->workers[i].core);
	}
	spool_close(&control->spool);
}
