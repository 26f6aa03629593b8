// SPDX-License-Identifier: Apache-2.0
#include "port.h"

#include <inttypes.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <string.h>

#include "copy.h"
#include "packet_sockets.h"
#include "poll.h"
#include "say.h"
#include "steer.h"

// What comes around an IP packet: Ethernet, two VLAN tags, the FCS where a device keeps it, and the room that net_af_packet
// wants to see for the head of a ring's frame (receiver_device.py).
#define AROUND_IP 192
#define BURST_SPARE 512 // mbufs in the hands of a worker, its cache and the driver
#define CACHE 256
#define SEND_DESCRIPTORS 64 // nothing is sent

static const char *name_of(const struct port *port)
{
	return port->config->name;
}

static bool check_mtu(const struct port *port, const struct rte_eth_dev_info *info)
{
	uint32_t mtu = port->config->mtu;

	if (info->max_mtu != 0 && mtu > info->max_mtu) {
		say_error("mtu", name_of(port), "%s takes an MTU of %u at most, not %u", port->config->device, info->max_mtu, mtu);
		return false;
	}
	if (mtu < info->min_mtu) {
		say_error("mtu", name_of(port), "%s takes an MTU of %u at least, not %u", port->config->device, info->min_mtu, mtu);
		return false;
	}
	return true;
}

static bool make_pool(struct port *port)
{
	uint32_t room = RTE_ALIGN_CEIL(port->config->mtu + AROUND_IP, RTE_CACHE_LINE_SIZE) + RTE_PKTMBUF_HEADROOM;
	uint32_t mbufs = port->config->mbufs, rings = port->spread == SPREAD_SOFTWARE ? port->config->workers : 0;
	char name[RTE_MEMPOOL_NAMESIZE];

	if (mbufs == 0)
		mbufs = port->queues * (port->descriptors + BURST_SPARE) + rings * (rte_align32pow2(port->descriptors + 1u) + BURST_SPARE) + port->config->held + port->config->copiers * COPY_FLIGHTS;
	snprintf(name, sizeof(name), "port%u", port->id);
	room = RTE_MAX(room, (uint32_t)RTE_MBUF_DEFAULT_BUF_SIZE);
	if (room > UINT16_MAX) {
		say_error("mtu", name_of(port), "an MTU of %u does not fit into a buffer", port->config->mtu);
		return false;
	}
	port->pool = rte_pktmbuf_pool_create(
		name, mbufs, CACHE, 0, (uint16_t)room, rte_eth_dev_socket_id(port->id)
	);
	if (port->pool == NULL)
		say_error(
			"memory",
			name_of(port),
			"no memory for %u buffers of %u bytes: %s",
			mbufs,
			room,
			rte_strerror(rte_errno)
		);
	return port->pool != NULL;
}

// A driver that names no largest MTU (net_af_packet) tells a length of frames that it does not keep to, but which ethdev checks.
static uint32_t accepted_mtu(const struct port *port, const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != 0 && info->max_mtu != UINT16_MAX)
		return port->config->mtu;
	return RTE_MIN(port->config->mtu, info->max_rx_pktlen - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN);
}

// net_memif without a queue to send on never comes to a connection, and says nothing of it; net_af_xdp wants one for each that
// it receives on.
static uint16_t senders_of(const char *driver, uint16_t queues)
{
	if (strcmp(driver, "net_af_xdp") == 0)
		return queues;
	return strcmp(driver, "net_memif") == 0;
}

// 0, or -errno of the device.
static int configure(struct port *port, const struct rte_eth_dev_info *info, enum config_spread spread)
{
	struct rte_eth_conf conf = {.rxmode = {.mtu = accepted_mtu(port, info)}};
	bool one = spread == SPREAD_AUTO || spread == SPREAD_SOFTWARE;
	int rc;

	port->spread = spread;
	port->queues = one ? 1 : (uint16_t)port->config->workers;
	if (port->queues > info->max_rx_queues)
		return -ENOTSUP;
	steer_configure(spread, &conf);
	rc = rte_eth_dev_configure(port->id, port->queues, senders_of(info->driver_name, port->queues), &conf);
	return rc == 0 ? steer_try(spread, port->id, port->queues, info) : rc;
}

// The first way that the device can. RSS is not tried by itself where tunnels may come: it would go by the addresses of the
// switches, and a flow that two of them mirror would come to two workers.
static bool configure_some_way(struct port *port, const struct rte_eth_dev_info *info)
{
	enum config_spread asked = (enum config_spread)port->config->spread;
	int rc;

	if (port->config->workers == 1)
		rc = configure(port, info, SPREAD_AUTO);
	else if (asked != SPREAD_AUTO)
		rc = configure(port, info, asked);
	else if ((rc = configure(port, info, SPREAD_RULES)) != 0 &&
		 (port->config->tunnelled || (rc = configure(port, info, SPREAD_RSS)) != 0))
		rc = configure(port, info, SPREAD_SOFTWARE);
	if (rc == 0)
		return true;
	if (port->spread == SPREAD_RULES || port->spread == SPREAD_RSS)
		say_error(
			"spread",
			name_of(port),
			"%s (%s) cannot spread packets to %u queues by %s: %s",
			port->config->device,
			info->driver_name,
			port->config->workers,
			steer_name(port->spread),
			rte_strerror(-rc)
		);
	else
		say_error("device", name_of(port), "%s refuses its configuration: %s", port->config->device, rte_strerror(-rc));
	return false;
}

static bool set_up_queues(struct port *port)
{
	struct rte_eth_dev_info info;
	int rc = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &port->descriptors, NULL);

	for (uint16_t queue = 0; rc == 0 && queue < port->queues; queue++)
		rc = rte_eth_rx_queue_setup(
			port->id, queue, port->descriptors, (unsigned int)rte_eth_dev_socket_id(port->id), NULL, port->pool
		);
	if (rc == 0)
		rc = rte_eth_dev_info_get(port->id, &info);
	for (uint16_t queue = 0; rc == 0 && queue < info.nb_tx_queues; queue++)
		rc = rte_eth_tx_queue_setup(port->id, queue, SEND_DESCRIPTORS, (unsigned int)rte_eth_dev_socket_id(port->id), NULL);
	if (rc != 0)
		say_error("device", name_of(port), "%s refuses its queues: %s", port->config->device, rte_strerror(-rc));
	return rc == 0;
}

bool port_set_up(struct port *port, const struct config_port *config)
{
	struct rte_eth_dev_info info;

	*port = (struct port){.config = config, .descriptors = (uint16_t)config->descriptors};
	if (rte_eth_dev_get_port_by_name(config->device, &port->id) != 0) {
		say_error("no-device", name_of(port), "DPDK finds no device %s", config->device);
		return false;
	}
	if (rte_eth_dev_info_get(port->id, &info) != 0) {
		say_error("device", name_of(port), "%s tells nothing about itself", config->device);
		return false;
	}
	port->driver = info.driver_name;
	return check_mtu(port, &info) && configure_some_way(port, &info) && make_pool(port) && set_up_queues(port);
}

// A monitor port that asks the switch to pause would slow the network that it watches.
static int no_flow_control(const struct port *port)
{
	struct rte_eth_fc_conf conf;
	int rc = rte_eth_dev_flow_ctrl_get(port->id, &conf);

	if (rc != 0 || conf.mode == RTE_ETH_FC_NONE)
		return rc;
	conf.mode = RTE_ETH_FC_NONE;
	return rte_eth_dev_flow_ctrl_set(port->id, &conf);
}

// DPDK opens a packet socket for all interfaces, makes its ring, and only then binds it to one: what lies in the ring may have
// come from any interface of the namespace. Receiving begins behind it.
static void discard_waiting(struct port *port)
{
	enum { BURST = 64, MOST_BURSTS = 4096 };
	struct rte_mbuf *packets[BURST];

	for (uint16_t queue = 0; queue < port->queues; queue++)
		for (unsigned int i = 0; i < MOST_BURSTS; i++) {
			uint16_t count = rte_eth_rx_burst(port->id, queue, packets, BURST);

			if (count == 0)
				break;
			rte_pktmbuf_free_bulk(packets, count);
			port->before_start += count;
		}
}

static uint32_t speed_of(const struct port *port)
{
	struct rte_eth_link link;

	if (port->config->mbps > 0)
		return port->config->mbps;
	return rte_eth_link_get_nowait(port->id, &link) == 0 ? link.link_speed : 0;
}

// Bursts in which what waits is taken, with as much again.
static uint32_t drain_of(const struct port *port)
{
	uint32_t ring = port->config->ring == UINT32_MAX ? 0 : RTE_MAX(port->config->ring, (uint32_t)port->descriptors);

	return RTE_MAX(ring / POLL_BURST * 2, (uint32_t)POLL_DRAIN);
}

// The smallest of the rings that a packet goes through.
static uint64_t smallest_ring(const struct port *port)
{
	uint64_t ring = port->config->ring > 0 ? port->config->ring : port->descriptors;

	if (port->spread == SPREAD_SOFTWARE)
		ring = RTE_MIN(ring, port->descriptors);
	return port->config->held > 0 ? RTE_MIN(ring, port->config->held) : ring;
}

// False: say_error() was called.
static bool find_rest(struct port *port)
{
	uint64_t ring = smallest_ring(port), bound = rest_bound_us(ring, speed_of(port));

	port->sleep_us = port->config->sleep_us;
	if (port->sleep_us == CONFIG_SLEEP_AUTO)
		port->sleep_us = rest_unasked_us(bound);
	if (port->sleep_us <= bound)
		return true;
	say_error(
		"sleep",
		name_of(port),
		"at line rate a ring of %" PRIu64 " packets is a quarter full after %" PRIu64 " us: a sleep of %u us can cost packets",
		ring,
		bound,
		port->sleep_us
	);
	return false;
}

bool port_start(struct port *port)
{
	int rc = rte_eth_dev_start(port->id);

	if (rc != 0) {
		say_error("device", name_of(port), "%s does not start: %s", port->config->device, rte_strerror(-rc));
		return false;
	}
	rc = steer_begin(port->spread, port->id, port->queues);
	if (rc != 0) {
		say_error("spread", name_of(port), "%s refuses its flow rules: %s", port->config->device, rte_strerror(-rc));
		return false;
	}
	port->flow_control = no_flow_control(port);
	port->promiscuous = rc = rte_eth_promiscuous_enable(port->id);
	if (rc != 0 && rc != -ENOTSUP) { // a device without addresses has no such mode
		say_error("device", name_of(port), "%s is not promiscuous: %s", port->config->device, rte_strerror(-rc));
		return false;
	}
	port->drain = drain_of(port);
	if (port->config->loss == LOSS_PACKET) {
		discard_waiting(port);
		port->sockets_found = packet_sockets_begin(port->config->interface);
	}
	if (rte_eth_stats_get(port->id, &port->before) != 0)
		port->before = (struct rte_eth_stats){0};
	extended_begin(&port->extended, port->id, port->config->loss == LOSS_DEVICE);
	return find_rest(port);
}

void port_stop(struct port *port)
{
	rte_eth_dev_stop(port->id);
	rte_eth_dev_close(port->id);
}

bool port_stats(const struct port *port, struct rte_eth_stats *stats)
{
	if (rte_eth_stats_get(port->id, stats) != 0)
		return false;
	stats->ipackets -= port->before.ipackets;
	stats->ibytes -= port->before.ibytes;
	stats->imissed -= port->before.imissed;
	stats->ierrors -= port->before.ierrors;
	stats->rx_nombuf -= port->before.rx_nombuf;
	return true;
}

int64_t port_dropped(struct port *port, uint64_t uncounted)
{
	struct rte_eth_stats stats;

	extended_read(&port->extended, port->id);
	if (port->config->loss == LOSS_UNKNOWN || !port_stats(port, &stats))
		return -1;
	if (port->config->loss == LOSS_DEVICE)
		return (int64_t)(stats.imissed + stats.ierrors + stats.rx_nombuf + extended_before_queues(&port->extended) + uncounted);
	if (!port->sockets_found)
		return -1;
	port->socket_drops += packet_sockets_drops(port->config->interface);
	return (int64_t)(port->socket_drops + stats.rx_nombuf + uncounted);
}
