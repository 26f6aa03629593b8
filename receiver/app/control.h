// SPDX-License-Identifier: Apache-2.0
//
// Everything around the workers: started, harvested, reported, stopped. One thread, the main lcore.
#ifndef RECEIVER_CONTROL_H
#define RECEIVER_CONTROL_H

#include <pthread.h>
#include <stdbool.h>

#include "config.h"
#include "deal.h"
#include "place.h"
#include "port.h"
#include "spool.h"
#include "worker.h"

enum { CONTROL_WORKERS = 256 };

struct control {
	const struct config *config;
	struct port ports[CONFIG_PORTS];
	struct worker workers[CONTROL_WORKERS];
	uint32_t worker_count;
	uint32_t first_worker[CONFIG_PORTS + 1]; // of each port
	struct dealer dealers[CONFIG_PORTS];     // of each port; without lanes where its workers poll queues themselves
	struct spool spool;
	struct tap tap; // without ports where no pcapng file is to be written
	struct placement placement;
	bool stopped;
};

// Held by the control thread but while it waits, so that others may look at what it knows.
extern pthread_mutex_t control_lock;

// What a port received, as far as its workers have told.
struct control_total {
	uint64_t packets;
	uint64_t bytes;
	uint64_t rocev2;
	uint64_t flows;
	uint64_t last_time;
	uint64_t sleeps; // of all that poll
	int64_t queue_fill_most; // of the fullest queue; -1: unknown
	int64_t ring_fill_most;  // of the fullest ring; -1: there is none
};

struct control_total control_total(const struct control *control, uint32_t port);

// Chain of a port's dealer in the spool, behind those of the workers.
static inline uint32_t control_dealer_chain(const struct control *control, uint32_t port)
{
	return control->worker_count + port;
}

// Sets up ports and workers, opens the spool. False: say_error() was called.
bool control_set_up(struct control *control, const struct config *config);
// Begins to receive. False: say_error() was called.
bool control_start(struct control *control);
// Takes finished messages out of the running workers and writes them. -errno: the spool cannot be written; -ECANCELED:
// say_error() was called.
int control_harvest(struct control *control);
// Ends the workers and all else that runs beside; nothing more the second time.
void control_stop(struct control *control);
// Ends the workers, and writes all that they counted. -errno.
int control_finish(struct control *control);
void control_free(struct control *control);

#endif
