// SPDX-License-Identifier: Apache-2.0
//
// Run to completion: no lock, no print, no system call a packet.
#include "worker.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "place.h"

void worker_fill(struct worker *worker)
{
	struct exchange *exchange = worker->exchange;
	uint32_t flows = fck_flow_count(worker->core), first = exchange->next_flow, last;
	struct fck_flow flow;

	exchange->row_count = exchange->part_count = exchange->key_count = 0;
	last = flows - first > EXCHANGE_FLOWS ? first + EXCHANGE_FLOWS : flows;
	exchange->first_key = exchange->known_flows;
	for (uint32_t i = first; i < last; i++) {
		uint64_t room = EXCHANGE_ROWS - exchange->row_count;
		int64_t taken;

		if (i >= exchange->known_flows && fck_flow_peek(worker->core, i, &flow) == 0) {
			exchange->keys[exchange->key_count++] = spool_flow_of(&flow);
			exchange->known_flows = i + 1;
		}
		taken = fck_flow_take(worker->core, i, exchange->rows + exchange->row_count, room);
		if (taken > 0) {
			exchange->parts[exchange->part_count].flow = i;
			exchange->parts[exchange->part_count++].rows = (uint32_t)taken;
			exchange->row_count += (uint32_t)taken;
		}
		if ((uint64_t)taken == room) {
			last = i; // there may be more of it
			break;
		}
	}
	fck_capture_get(worker->core, 0, &exchange->capture);
	exchange->complete = last == flows;
	exchange->next_flow = exchange->complete ? 0 : last;
}

// What nearly every received packet is: whole in a buffer of this pool, and nobody else holds it.
static inline bool is_simple(const struct rte_mbuf *mbuf, const struct rte_mempool *pool)
{
	return mbuf->nb_segs == 1 && mbuf->pool == pool && RTE_MBUF_DIRECT(mbuf) && rte_mbuf_refcnt_read(mbuf) == 1;
}

// Gives the buffers back, all at once where they are simple. Only now: while packets are counted and placed, others may come to
// hold them.
static inline void give_back(struct rte_mbuf **mbufs, uint16_t packets)
{
	struct rte_mempool *pool = mbufs[0]->pool;
	bool simple = true;

	for (uint16_t i = 0; i < packets; i++)
		simple &= is_simple(mbufs[i], pool);
	if (simple)
		rte_mempool_put_bulk(pool, (void *const *)mbufs, packets);
	else
		rte_pktmbuf_free_bulk(mbufs, packets);
}

static inline void count(struct worker *worker, struct rte_mbuf **mbufs, uint16_t packets)
{
	uint64_t time = poll_now(), segmented = 0;
	struct fck_input frames[POLL_BURST];

	for (uint16_t i = 0; i < packets; i++) {
		const struct rte_mbuf *mbuf = mbufs[i];
		const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);

		rte_prefetch0(data);
		rte_prefetch0(data + mbuf->data_len - 1); // where the ICRC is
		frames[i].data = data;
		frames[i].time_ns = poll_time_of(&worker->time, mbuf, time);
		frames[i].captured = mbuf->data_len;
		frames[i].original = mbuf->pkt_len;
		segmented += mbuf->nb_segs > 1;
	}
	poll_add(&worker->uncounted, (uint64_t)fck_frames(worker->core, 0, frames, packets));
	poll_add(&worker->segmented, segmented);
	give_back(mbufs, packets);
}

static inline uint16_t take(const struct worker *worker, struct rte_mbuf **mbufs)
{
	if (worker->ring != NULL)
		return (uint16_t)rte_ring_sc_dequeue_burst(worker->ring, (void **)mbufs, POLL_BURST, NULL);
	return rte_eth_rx_burst(worker->port, worker->queue, mbufs, POLL_BURST);
}

static int64_t waiting(const struct worker *worker)
{
	return worker->ring != NULL ? rte_ring_count(worker->ring) : poll_waiting(worker->port, worker->queue);
}

static void take_place(struct worker *worker)
{
	if (worker->place_next == NULL)
		return;
	worker->place = worker->place_next;
	worker->place_next = NULL;
	fck_core_track(worker->core, worker->place->tracker);
}

int worker_run(void *argument)
{
	struct worker *worker = argument;
	struct exchange *exchange = worker->exchange;
	struct rte_mbuf *mbufs[POLL_BURST];
	uint32_t full = 0, drained = 0;
	uint16_t packets = 1;

	poll_rest_begin(&worker->rest);
	while (packets > 0 || drained == 0) {
		bool stop = atomic_load_explicit(&worker->stop, memory_order_relaxed); // before the poll, which then is the last

		packets = take(worker, mbufs);
		if (packets > 0) {
			if (worker->tap != NULL)
				tap_offer(worker->tap, mbufs, packets, poll_now());
			if (worker->place != NULL)
				place_begin(worker->place, mbufs, packets);
			count(worker, mbufs, packets);
			if (worker->place != NULL)
				place_end(worker->place, poll_now());
			worker->rest.empty = 0;
		} else {
			if (worker->place != NULL)
				place_rest(worker->place, poll_now());
			poll_rest(&worker->rest);
		}
		// A full burst says that more is waiting: only then it is worth to ask how much.
		if (packets == POLL_BURST && ++full % POLL_FULL == 0 && worker->ring == NULL)
			poll_most(&worker->fill_most, rte_eth_rx_queue_count(worker->port, worker->queue));
		if (atomic_load_explicit(&exchange->turn, memory_order_acquire) == TURN_WORKER) {
			take_place(worker);
			worker_fill(worker);
			atomic_store_explicit(&exchange->turn, TURN_CONTROL, memory_order_release);
		}
		drained += stop;
		if (drained == worker->drain) // what waits is counted, but not for ever
			break;
	}
	worker->unread = packets == 0 ? 0 : waiting(worker);
	return 0;
}
