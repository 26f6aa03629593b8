// SPDX-License-Identifier: Apache-2.0
//
// Everything that says what a port lost, by name: counters of the device, of the kernel, of rings and workers, since the start.
// What a driver does not count is unknown, never 0.
#ifndef RECEIVER_LOSS_H
#define RECEIVER_LOSS_H

#include "control.h"

enum { LOSS_MOST = 512 };

// The counters of a port, of which there are LOSS_MOST at most; how many. The first one is "dropped": packets that arrived and
// came to nobody's count.
uint32_t loss_of(struct control *control, uint32_t port, struct spool_counter *counters);

#endif
