// SPDX-License-Identifier: Apache-2.0
#include "packet_sockets.h"

#include <dirent.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23 // Linux 4.20
#endif

typedef void (*visit_fn)(int file, void *context);

static bool on_interface(int file, int index)
{
	struct sockaddr_ll address;
	socklen_t size = sizeof(address);

	if (getsockname(file, (struct sockaddr *)&address, &size) != 0 || size < offsetof(struct sockaddr_ll, sll_addr))
		return false;
	return address.sll_family == AF_PACKET && address.sll_ifindex == index;
}

static uint32_t visit_sockets(const char *interface, visit_fn visit, void *context)
{
	int index = (int)if_nametoindex(interface);
	DIR *files = opendir("/proc/self/fd");
	uint32_t found = 0;

	if (files == NULL)
		return 0;
	for (struct dirent *entry = readdir(files); index > 0 && entry != NULL; entry = readdir(files)) {
		int file = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || !on_interface(file, index))
			continue;
		visit(file, context);
		found++;
	}
	closedir(files);
	return found;
}

static void ignore_outgoing(int file, void *context)
{
	int on = 1;

	(void)context;
	setsockopt(file, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
}

static void add_drops(int file, void *context)
{
	uint64_t *drops = context;
	struct tpacket_stats_v3 stats; // the longer form of both
	socklen_t size = sizeof(stats);

	if (getsockopt(file, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) // which sets them to 0
		*drops += stats.tp_drops;
}

bool packet_sockets_begin(const char *interface)
{
	return visit_sockets(interface, ignore_outgoing, NULL) > 0;
}

uint64_t packet_sockets_drops(const char *interface)
{
	uint64_t drops = 0;

	visit_sockets(interface, add_drops, &drops);
	return drops;
}
