// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <errno.h>
#include <rte_lcore.h>
#include <rte_mbuf_dyn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results.h"
#include "say.h"

#define WAIT_US 20

pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

// net_pcap gives the time of the file, in microseconds since 1970. What other drivers write is in units of their own: only what
// a dealer noted is taken from there.
static bool use_noted_time(struct poll_time *time, const char *driver, bool dealt)
{
	bool file = strcmp(driver, "net_pcap") == 0;

	*time = (struct poll_time){.offset = -1, .unit = file ? 1000 : 1};
	return !(file || dealt) || rte_mbuf_dyn_rx_timestamp_register(&time->offset, &time->flag) == 0;
}

static struct tap_port *tap_of(struct control *control, uint32_t port)
{
	return control->tap.port_count > 0 ? &control->tap.ports[port] : NULL;
}

// Everything that arrives to a file, if it is wanted.
static bool make_tap(struct control *control)
{
	struct poll_time time;

	if (control->config->pcapng[0] == '\0')
		return true;
	for (uint32_t i = 0; i < control->config->port_count; i++)
		if (!use_noted_time(&time, control->ports[i].driver, true) || !tap_add(&control->tap, control->ports[i].id, &time))
			return false;
	return tap_set_up(&control->tap, control->config);
}

static bool make_core(struct worker *worker, const struct control *control, const struct port *port)
{
	struct fck_config config = control->config->core;

	config.tunnels_elsewhere = port->spread == SPREAD_SOFTWARE;
	return worker->exchange != NULL && fck_new(&config, &worker->core) == 0 &&
	       fck_capture_add(worker->core, port->config->name) >= 0;
}

static bool make_worker(struct control *control, uint32_t config_port, uint32_t number)
{
	const struct port *port = &control->ports[config_port];
	struct worker *worker = &control->workers[control->worker_count];
	bool dealt = port->spread == SPREAD_SOFTWARE;

	*worker = (struct worker){
		.port = port->id,
		.queue = dealt ? 0 : (uint16_t)number,
		.config_port = config_port,
		.fill_most = -1,
		.tap = dealt ? NULL : tap_of(control, config_port),
		.ring = dealt ? control->dealers[config_port].lanes[number].ring : NULL,
		.exchange = calloc(1, sizeof(*worker->exchange)),
	};
	if (!use_noted_time(&worker->time, port->driver, dealt) || !make_core(worker, control, port)) {
		say_error("memory", port->config->name, "no memory for a counter");
		free(worker->exchange);
		fck_free(worker->core);
		return false;
	}
	control->worker_count++;
	if (!placement_worker(&control->placement, port->config->name, control->worker_count - 1, &worker->place))
		return false;
	if (worker->place != NULL)
		fck_core_track(worker->core, worker->place->tracker);
	return true;
}

static bool make_dealer(struct control *control, uint32_t number)
{
	const struct port *port = &control->ports[number];
	struct dealer *dealer = &control->dealers[number];

	if (port->spread != SPREAD_SOFTWARE)
		return true;
	dealer->tap = tap_of(control, number);
	dealer->spreader.config = control->config->core;
	return use_noted_time(&dealer->time, port->driver, true) && deal_set_up(dealer, port->config, port->id, port->descriptors);
}

static bool make_workers(struct control *control)
{
	uint32_t lcores = rte_lcore_count() - 1, needed = 0;

	for (uint32_t i = 0; i < control->config->port_count; i++) {
		const struct config_port *config = &control->config->ports[i];

		needed += config->workers + (control->ports[i].spread == SPREAD_SOFTWARE);
		if (needed > lcores || needed > CONTROL_WORKERS) {
			say_error("lcores", config->name, "more workers than lcores for them (%u)", lcores);
			return false;
		}
		if (!make_dealer(control, i))
			return false;
		control->first_worker[i] = control->worker_count;
		for (uint32_t number = 0; number < config->workers; number++)
			if (!make_worker(control, i, number))
				return false;
	}
	control->first_worker[control->config->port_count] = control->worker_count;
	return true;
}

bool control_set_up(struct control *control, const struct config *config)
{
	int rc;

	control->config = config;
	if (!placement_open(&control->placement, config))
		return false;
	for (uint32_t i = 0; i < config->port_count; i++)
		if (!port_set_up(&control->ports[i], &config->ports[i]))
			return false;
	control->tap.config = config;
	if (!make_tap(control) || !make_workers(control))
		return false;
	rc = spool_open(&control->spool, config->spool);
	if (rc == 0) {
		results_head(control);
		rc = spool_flush(&control->spool);
	}
	if (rc != 0)
		say_error("spool", config->spool, "%s cannot be written: %s", config->spool, strerror(-rc));
	return rc == 0;
}

bool control_start(struct control *control)
{
	uint32_t lcore = rte_get_next_lcore(-1, 1, 0);

	for (uint32_t i = 0; i < control->config->port_count; i++)
		if (!port_start(&control->ports[i]))
			return false;
	if (control->tap.port_count > 0 && !tap_start(&control->tap))
		return false;
	for (uint32_t i = 0; i < control->worker_count; i++) {
		const struct port *port = &control->ports[control->workers[i].config_port];

		control->workers[i].rest.sleep_us = port->sleep_us;
		control->workers[i].drain = port->drain;
		rte_eal_remote_launch(worker_run, &control->workers[i], lcore);
		lcore = rte_get_next_lcore(lcore, 1, 0);
	}
	for (uint32_t i = 0; i < control->config->port_count; i++) {
		struct dealer *dealer = &control->dealers[i];

		if (dealer->lane_count == 0)
			continue;
		dealer->lcore = lcore;
		dealer->rest.sleep_us = control->ports[i].sleep_us;
		dealer->drain = control->ports[i].drain;
		rte_eal_remote_launch(deal_run, dealer, lcore);
		lcore = rte_get_next_lcore(lcore, 1, 0);
	}
	return true;
}

struct control_total control_total(const struct control *control, uint32_t port)
{
	const struct dealer *dealer = &control->dealers[port];
	struct control_total total = {.queue_fill_most = dealer->lane_count > 0 ? dealer->fill_most : -1, .ring_fill_most = -1};

	for (uint32_t i = control->first_worker[port]; i < control->first_worker[port + 1]; i++) {
		const struct worker *worker = &control->workers[i];
		const struct fck_capture *capture = &worker->exchange->capture;

		total.packets += capture->packets;
		total.bytes += capture->bytes;
		total.rocev2 += capture->frames[FCK_FRAME_ROCEV2];
		total.flows += worker->exchange->known_flows;
		total.sleeps += worker->rest.sleeps;
		total.last_time = RTE_MAX(total.last_time, capture->last_time);
		total.queue_fill_most = RTE_MAX(total.queue_fill_most, worker->fill_most);
	}
	total.sleeps += dealer->rest.sleeps;
	for (uint32_t i = 0; i < dealer->lane_count; i++)
		total.ring_fill_most = RTE_MAX(total.ring_fill_most, dealer->lanes[i].fill_most);
	return total;
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
			results_exchange(control, i);
		} while (!control->workers[i].exchange->complete && control->spool.error == 0);
	}
	results_dealt(control);
}

// What is to be placed is told once the control program has learnt it.
static bool begin_placement(struct control *control)
{
	if (control->placement.file.group_count > 0)
		return true;
	if (!placement_open(&control->placement, control->config))
		return false;
	for (uint32_t i = 0; i < control->worker_count && control->placement.file.group_count > 0; i++) {
		struct worker *worker = &control->workers[i];
		const char *capture = control->config->ports[worker->config_port].name;

		if (!placement_worker(&control->placement, capture, i, &worker->place_next))
			return false;
	}
	return true;
}

int control_harvest(struct control *control)
{
	int rc;

	if (!begin_placement(control))
		return -ECANCELED;
	harvest(control, true);
	rc = spool_flush(&control->spool);
	return rc == 0 ? placement_tell(&control->placement) : rc;
}

// Dealers first: what they have still dealt is counted.
void control_stop(struct control *control)
{
	if (control->stopped)
		return;
	control->stopped = true;
	for (uint32_t i = 0; i < control->config->port_count; i++)
		control->dealers[i].stop = true;
	for (uint32_t i = 0; i < control->config->port_count; i++)
		if (control->dealers[i].lane_count > 0)
			control->dealers[i].ended = rte_eal_wait_lcore(control->dealers[i].lcore) == 0;
	for (uint32_t i = 0; i < control->worker_count; i++)
		control->workers[i].stop = true;
	rte_eal_mp_wait_lcore();
	if (control->tap.port_count > 0)
		tap_finish(&control->tap);
}

int control_finish(struct control *control)
{
	int rc = 0;

	control_stop(control);
	for (uint32_t i = 0; i < control->worker_count; i++)
		if (control->workers[i].place != NULL)
			place_finish(control->workers[i].place, poll_now());
	rc = placement_tell(&control->placement);
	if (rc != 0)
		return rc;
	harvest(control, false);
	for (uint32_t i = 0; rc == 0 && i < control->worker_count; i++)
		rc = results_worker(control, i);
	for (uint32_t i = 0; rc == 0 && i < control->config->port_count; i++)
		results_port(control, i);
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
		book_free(&control->workers[i].book);
		place_free(control->workers[i].place);
	}
	placement_close(&control->placement);
	for (uint32_t i = 0; i < control->config->port_count; i++)
		deal_free(&control->dealers[i]);
	spool_close(&control->spool);
}
