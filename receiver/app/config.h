// SPDX-License-Identifier: Apache-2.0
//
// What the receiver is to do: a text file that flowcheck-net writes, one "key value" a line (config.c lists the keys).
#ifndef RECEIVER_CONFIG_H
#define RECEIVER_CONFIG_H

#include <stdint.h>

#include "fck.h"

enum { CONFIG_COPIES = 64, CONFIG_PORTS = 32, CONFIG_WORKERS = 64, CONFIG_EAL = 128, CONFIG_TEXT = 1024, CONFIG_HELD = 8192 };

#define CONFIG_SLEEP_AUTO UINT32_MAX

// Which of a driver's counters tell the truth; decided by flowcheck-net, which knows the drivers.
enum config_loss {
	LOSS_UNKNOWN, // the driver counts no loss
	LOSS_DEVICE,  // imissed, ierrors and rx_nombuf
	LOSS_PACKET,  // those of the driver's packet sockets, and rx_nombuf
};

// How packets come to several workers (steer.h).
enum config_spread {
	SPREAD_AUTO, // rules or RSS where the device can, else by software
	SPREAD_RULES,
	SPREAD_RSS,
	SPREAD_SOFTWARE,
};

struct config_port {
	char name[CONFIG_TEXT];   // of the capture port
	char device[CONFIG_TEXT]; // as DPDK calls it
	char interface[CONFIG_TEXT]; // of the kernel, for LOSS_PACKET; may be empty
	uint32_t workers;
	uint32_t spread;      // enum config_spread; nothing where there is one worker
	uint32_t tunnelled;   // 1: frames may come in tunnels, whose outer addresses RSS would go by
	uint32_t mtu;
	uint32_t descriptors; // of each queue
	uint32_t copiers;     // workers whose payload a DMA device copies: they hold more packets
	uint32_t mbufs;       // of each queue; 0: as many as are needed
	uint32_t loss;        // enum config_loss
	uint32_t held;        // mbufs that others than workers may hold
	uint32_t ring;        // packets that wait where nobody looks; 0: as many as there are descriptors
	uint32_t mbps;        // most that can come; 0: as the device says
	uint32_t sleep_us;    // of one that polls and finds nothing; CONFIG_SLEEP_AUTO: as long as no ring can be full then
};

struct config {
	struct config_port ports[CONFIG_PORTS];
	uint32_t port_count;
	char *eal[CONFIG_EAL]; // arguments of the EAL, the program's name first
	uint32_t eal_count;
	char spool[CONFIG_TEXT];
	char pcapng[CONFIG_TEXT]; // file for all packets; empty: none
	uint32_t pcapng_first;    // number of the first file
	uint32_t pcapng_mb;       // of a file; 0: no limit
	uint32_t pcapng_files;    // to be kept; 0: all
	uint32_t interval_ms; // between two writings
	struct fck_config core;
	char place[CONFIG_TEXT];        // file that says what is to be placed; empty: nothing (place_file.h)
	char place_memory[CONFIG_TEXT]; // folder of the gradient boards
	uint32_t place_slots;           // of each board
	uint32_t place_close_ms;        // so long without a packet: what is open is closed
	char *copies[CONFIG_COPIES];    // DMA devices, one a worker
	uint32_t copy_count;
};

// Reads the file. 0; -EINVAL: `line` is not understood; -ENOMEM; or -errno of opening and reading.
int config_read(const char *path, struct config *config, uint32_t *line);
void config_free(struct config *config);

#endif
