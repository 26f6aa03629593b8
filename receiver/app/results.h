// SPDX-License-Identifier: Apache-2.0
//
// What workers, dealers and ports have counted, into the spool.
#ifndef RECEIVER_RESULTS_H
#define RECEIVER_RESULTS_H

#include "control.h"

// The beginning of a spool.
void results_head(struct control *control);
// What a worker has handed over.
void results_exchange(struct control *control, uint32_t worker);
// What only the dealers of ports can count.
void results_dealt(struct control *control);
// Everything of a worker that has ended. -errno.
int results_worker(struct control *control, uint32_t worker);
// Loss of a port, and its tunnels, once its workers have ended.
void results_port(struct control *control, uint32_t port);

#endif
