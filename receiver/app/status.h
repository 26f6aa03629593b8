// SPDX-License-Identifier: Apache-2.0
#ifndef RECEIVER_STATUS_H
#define RECEIVER_STATUS_H

#include "control.h"

// One line of JSON: what every port and queue has counted, and what is known to be lost. A counter that the device does not give
// is null. `event` is "started", "status" or "stopped".
void status_say(struct control *control, const char *event);

#endif
