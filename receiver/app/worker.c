// SPDX-License-Identifier: Apache-2.0
//
// Run to completion: no lock, no print, no system call a packet.
#include "worker.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <time.h>
#include <unistd.h>

#define BURST 32
#define AHEAD 4 // packets whose headers are fetched before they are looked at
#define IDLE_POLLS 1024 // before a worker sleeps
#define FULL_BURSTS 16  // between two looks at how full the queue is
#define DRAIN_POLLS 1000
#define SECOND_NS 1000000000u
#define MICROSECOND_NS 1000u

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

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time); // vDSO
	return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

static inline uint64_t time_of(const struct worker *worker, const struct rte_mbuf *mbuf, uint64_t burst_time)
{
	if (worker->time_offset < 0 || (mbuf->ol_flags & worker->time_flag) == 0)
		return burst_time;
	return *RTE_MBUF_DYNFIELD(mbuf, worker->time_offset, const uint64_t *) * MICROSECOND_NS;
}

// Only the worker itself writes these.
static inline void add(_Atomic uint64_t *counter, uint64_t more)
{
	if (more > 0)
		atomic_store_explicit(
			counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed
		);
}

static inline void count(struct worker *worker, struct rte_mbuf **mbufs, uint16_t packets)
{
	uint64_t time = now(), uncounted = 0, segmented = 0;

	for (uint16_t i = 0; i < packets && i < AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (uint16_t i = 0; i < packets; i++) {
		const struct rte_mbuf *mbuf = mbufs[i];

		if (i + AHEAD < packets)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + AHEAD], void *));
		segmented += mbuf->nb_segs > 1;
		uncounted += fck_frame(
			worker->core,
			0,
			time_of(worker, mbuf, time),
			rte_pktmbuf_mtod(mbuf, const uint8_t *),
			mbuf->data_len,
			mbuf->pkt_len
		) != 0;
	}
	rte_pktmbuf_free_bulk(mbufs, packets);
	add(&worker->uncounted, uncounted);
	add(&worker->segmented, segmented);
}

// A full burst says that more is waiting: only then it is worth to ask how much.
static void look_at_queue(struct worker *worker)
{
	int waiting = rte_eth_rx_queue_count(worker->port, worker->queue);

	if (waiting > atomic_load_explicit(&worker->fill_most, memory_order_relaxed))
		atomic_store_explicit(&worker->fill_most, waiting, memory_order_relaxed);
}

static void rest(struct worker *worker)
{
	if (++worker->idle_polls < IDLE_POLLS || worker->idle_us == 0)
		rte_pause();
	else
		usleep(worker->idle_us);
}

int worker_run(void *argument)
{
	struct worker *worker = argument;
	struct exchange *exchange = worker->exchange;
	struct rte_mbuf *mbufs[BURST];
	uint32_t full = 0, drained = 0;

	while (drained < DRAIN_POLLS) {
		bool stop = atomic_load_explicit(&worker->stop, memory_order_relaxed); // before the poll, which then is the last
		uint16_t packets = rte_eth_rx_burst(worker->port, worker->queue, mbufs, BURST);

		if (packets > 0) {
			count(worker, mbufs, packets);
			worker->idle_polls = 0;
		} else {
			rest(worker);
		}
		if (packets == BURST && ++full % FULL_BURSTS == 0)
			look_at_queue(worker);
		if (atomic_load_explicit(&exchange->turn, memory_order_acquire) == TURN_WORKER) {
			worker_fill(worker);
			atomic_store_explicit(&exchange->turn, TURN_CONTROL, memory_order_release);
		}
		if (stop)
			drained += packets == 0 ? DRAIN_POLLS : 1; // what waits is counted, but not for ever
	}
	return 0;
}
