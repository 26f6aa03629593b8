// SPDX-License-Identifier: Apache-2.0
#include "deal.h"

#include <rte_ethdev.h>
#include <rte_errno.h>
#include <rte_prefetch.h>
#include <stdio.h>
#include <string.h>

#include "say.h"

// A burst, sorted by lane.
struct hand {
	uint32_t counts[CONFIG_WORKERS];
	struct rte_mbuf *packets[CONFIG_WORKERS][POLL_BURST];
};

bool deal_set_up(struct dealer *dealer, const struct config_port *config, uint16_t port, uint32_t packets)
{
	char name[RTE_RING_NAMESIZE];

	dealer->port = port;
	dealer->fill_most = -1;
	for (uint32_t i = 0; i < config->workers; i++) {
		struct deal_lane *lane = &dealer->lanes[i];

		snprintf(name, sizeof(name), "lane%u.%u", port, i);
		lane->ring = rte_ring_create(
			name, rte_align32pow2(packets + 1), rte_eth_dev_socket_id(port), RING_F_SP_ENQ | RING_F_SC_DEQ
		);
		if (lane->ring == NULL) {
			say_error("memory", config->name, "no memory for a ring of %u packets: %s", packets, rte_strerror(rte_errno));
			return false;
		}
		dealer->lane_count++;
	}
	return true;
}

void deal_free(struct dealer *dealer)
{
	for (uint32_t i = 0; i < dealer->lane_count; i++)
		rte_ring_free(dealer->lanes[i].ring);
	fck_spreader_free(&dealer->spreader);
}

static inline void sort(struct dealer *dealer, struct hand *hand, struct rte_mbuf **mbufs, uint16_t packets)
{
	uint64_t now = poll_now();

	if (dealer->tap != NULL)
		tap_offer(dealer->tap, mbufs, packets, now);
	for (uint16_t i = 0; i < packets; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (uint16_t i = 0; i < packets; i++) {
		const uint8_t *data = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);
		uint32_t lane = fck_spread(&dealer->spreader, dealer->lane_count, data, mbufs[i]->data_len, mbufs[i]->pkt_len);

		poll_note_time(&dealer->time, mbufs[i], now);
		hand->packets[lane][hand->counts[lane]++] = mbufs[i];
	}
}

static inline void deal(struct dealer *dealer, struct hand *hand)
{
	for (uint32_t i = 0; i < dealer->lane_count; i++) {
		struct deal_lane *lane = &dealer->lanes[i];
		uint32_t count = hand->counts[i], free, done;

		if (count == 0)
			continue;
		done = rte_ring_sp_enqueue_burst(lane->ring, (void **)hand->packets[i], count, &free);
		poll_most(&lane->fill_most, (int64_t)(rte_ring_get_capacity(lane->ring) - free));
		if (done < count) {
			rte_pktmbuf_free_bulk(hand->packets[i] + done, count - done);
			poll_add(&lane->dropped, count - done);
		}
		hand->counts[i] = 0;
	}
}

static void publish(struct dealer *dealer)
{
	atomic_store_explicit(&dealer->sequence_gaps, dealer->spreader.sequence_gaps, memory_order_relaxed);
	atomic_store_explicit(&dealer->refused, dealer->spreader.refused, memory_order_relaxed);
	atomic_store_explicit(&dealer->unnoted, dealer->spreader.unnoted, memory_order_relaxed);
}

int deal_run(void *argument)
{
	struct dealer *dealer = argument;
	struct hand hand = {0};
	struct rte_mbuf *mbufs[POLL_BURST];
	uint32_t full = 0, drained = 0;
	uint16_t packets = 1;

	poll_rest_begin(&dealer->rest);
	while (packets > 0 || drained == 0) {
		bool stop = atomic_load_explicit(&dealer->stop, memory_order_relaxed); // before the poll, which then is the last

		packets = rte_eth_rx_burst(dealer->port, 0, mbufs, POLL_BURST);
		if (packets > 0) {
			sort(dealer, &hand, mbufs, packets);
			deal(dealer, &hand);
			publish(dealer);
			dealer->rest.empty = 0;
		} else {
			poll_rest(&dealer->rest);
		}
		if (packets == POLL_BURST && ++full % POLL_FULL == 0)
			poll_most(&dealer->fill_most, rte_eth_rx_queue_count(dealer->port, 0));
		drained += stop;
		if (drained == dealer->drain)
			break;
	}
	dealer->unread = packets == 0 ? 0 : poll_waiting(dealer->port, 0);
	return 0;
}

uint64_t deal_dropped(const struct dealer *dealer)
{
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < dealer->lane_count; i++)
		dropped += atomic_load_explicit(&dealer->lanes[i].dropped, memory_order_relaxed);
	return dropped;
}
