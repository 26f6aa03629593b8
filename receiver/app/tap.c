// SPDX-License-Identifier: Apache-2.0
#include "tap.h"

#include <errno.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

#define BURST 64
#define PARTS 64 // buffers of a packet
#define IDLE_US 200
#define MB 1000000u

bool tap_set_up(struct tap *tap, const struct config *config)
{
	int rc;

	tap->file = (struct pcapng){
		.path = config->pcapng,
		.number = config->pcapng_first,
		.most = (uint64_t)config->pcapng_mb * MB,
		.keep = config->pcapng_files,
		.interface_count = config->port_count,
	};
	for (uint32_t i = 0; i < config->port_count; i++)
		tap->file.interfaces[i].name = config->ports[i].name;
	rc = pcapng_open(&tap->file);
	if (rc != 0)
		say_error("pcapng", config->pcapng, "%s cannot be written: %s", config->pcapng, strerror(-rc));
	return rc == 0;
}

bool tap_add(struct tap *tap, uint16_t port, const struct poll_time *time)
{
	struct tap_port *made = &tap->ports[tap->port_count];
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "tap%u", port);
	made->time = *time;
	made->ring = rte_ring_create(name, CONFIG_HELD, (int)rte_socket_id(), RING_F_SC_DEQ);
	if (made->ring == NULL) {
		say_error("memory", tap->config->ports[tap->port_count].name, "no memory for a ring: %s", rte_strerror(rte_errno));
		return false;
	}
	tap->port_count++;
	return true;
}

static int write_packet(struct tap *tap, uint32_t number, const struct rte_mbuf *mbuf)
{
	uint64_t time = poll_time_of(&tap->ports[number].time, mbuf, 0);
	struct pcapng_part parts[PARTS];
	uint32_t count = 0, bytes = 0;

	for (const struct rte_mbuf *part = mbuf; part != NULL && count < PARTS; part = part->next, count++) {
		parts[count] = (struct pcapng_part){rte_pktmbuf_mtod(part, const void *), part->data_len};
		bytes += part->data_len;
	}
	return pcapng_frame(&tap->file, number, time, parts, count, bytes);
}

// A file that cannot be written is left at that: receiving goes on.
static uint32_t write_waiting(struct tap *tap, uint32_t number)
{
	struct tap_port *port = &tap->ports[number];
	struct rte_mbuf *mbufs[BURST];
	uint32_t packets = rte_ring_sc_dequeue_burst(port->ring, (void **)mbufs, BURST, NULL), written = 0;
	int error = tap->error;

	for (; error == 0 && written < packets; written += error == 0)
		error = write_packet(tap, number, mbufs[written]);
	if (packets > 0)
		rte_pktmbuf_free_bulk(mbufs, packets);
	tap->error = error;
	port->written += written;
	port->dropped += packets - written;
	return packets;
}

static void *run(void *argument)
{
	struct tap *tap = argument;

	for (;;) {
		bool stop = tap->stop; // before the look, which then is the last
		uint32_t packets = 0;

		for (uint32_t i = 0; i < tap->port_count; i++)
			packets += write_waiting(tap, i);
		if (packets > 0)
			continue;
		if (stop)
			return NULL;
		if (tap->error == 0)
			tap->error = pcapng_flush(&tap->file);
		usleep(IDLE_US);
	}
}

bool tap_start(struct tap *tap)
{
	int rc = pthread_create(&tap->thread, NULL, run, tap); // on the core of the control thread, and of no worker

	if (rc != 0)
		say_error("memory", "", "no thread for the pcapng file: %s", strerror(rc));
	return rc == 0;
}

void tap_finish(struct tap *tap)
{
	int rc;

	tap->stop = true;
	pthread_join(tap->thread, NULL);
	for (uint32_t i = 0; i < tap->port_count && tap->error == 0; i++)
		tap->error = pcapng_dropped(&tap->file, i, tap->ports[i].dropped);
	rc = pcapng_close(&tap->file);
	if (tap->error == 0)
		tap->error = rc;
}
