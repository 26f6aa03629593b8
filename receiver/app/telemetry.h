// SPDX-License-Identifier: Apache-2.0
//
// What anybody may ask over DPDK's telemetry socket while packets come (docs/receiver.md).
#ifndef RECEIVER_TELEMETRY_H
#define RECEIVER_TELEMETRY_H

#include "control.h"

// Registers the commands. They are answered while the control's lock is free. -errno.
int telemetry_begin(struct control *control);
// From now on they are refused. With the control's lock.
void telemetry_end(void);

#endif
