// SPDX-License-Identifier: Apache-2.0
//
// How the packets of a port come to several workers, each flow to one of them: the best way that the device has.
#ifndef RECEIVER_STEER_H
#define RECEIVER_STEER_H

#include <rte_ethdev.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Tells the device's configuration what the way needs.
void steer_configure(enum config_spread spread, struct rte_eth_conf *conf);
// Can the configured device take the way? 0, or -errno.
int steer_try(enum config_spread spread, uint16_t port, uint16_t queues, const struct rte_eth_dev_info *info);
// Does it at a device that has started. -errno.
int steer_begin(enum config_spread spread, uint16_t port, uint16_t queues);
const char *steer_name(enum config_spread spread);

#endif
