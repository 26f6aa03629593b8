// SPDX-License-Identifier: Apache-2.0
//
// What net_af_packet of DPDK 22.11 does not tell: how many packets the kernel could not put into its rings. The driver's packet
// sockets are found among the files of this process.
#ifndef RECEIVER_PACKET_SOCKETS_H
#define RECEIVER_PACKET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

// Tells the sockets on an interface to leave out what this machine itself sends. False: none was found.
bool packet_sockets_begin(const char *interface);
// Drops since the last call, or since there are these sockets.
uint64_t packet_sockets_drops(const char *interface);

#endif
