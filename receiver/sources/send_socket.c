// SPDX-License-Identifier: Apache-2.0
// The real world of the sender: a packet socket, sendmmsg, and the monotonic clock.
#define _GNU_SOURCE
#include "send_internal.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS UINT64_C(1000000000)
#define SEND_BUFFER (4 * 1024 * 1024) // bytes; the kernel may give less

struct wire {
	int socket;
	char interface[IFNAMSIZ];
	struct iovec parts[FCK_SEND_BATCH];
	struct mmsghdr messages[FCK_SEND_BATCH];
};

uint64_t fck_send_now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * NANOSECONDS + (uint64_t)time.tv_nsec;
}

static uint64_t wire_now(void *context)
{
	(void)context;
	return fck_send_now();
}

static void wire_sleep_until(void *context, uint64_t time_ns)
{
	struct timespec until = {.tv_sec = (time_t)(time_ns / NANOSECONDS), .tv_nsec = (long)(time_ns % NANOSECONDS)};
	(void)context;
	// Timers of a thread are rounded up by 50 us otherwise. Of the calling thread, so it cannot be set earlier.
	(void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL); // the caller looks at the clock again
}

static int wire_give(void *context, const struct fck_send_item *items, uint32_t count)
{
	struct wire *wire = context;
	for (uint32_t i = 0; i < count; i++)
		wire->parts[i] = (struct iovec){(void *)items[i].data, items[i].length};
	int taken = sendmmsg(wire->socket, wire->messages, count, MSG_DONTWAIT);
	return taken < 0 ? -errno : taken;
}

// A packet socket with room says so at once although the queue behind it is full, hence the sleep.
static void wire_wait(void *context)
{
	const struct wire *wire = context;
	struct pollfd room = {.fd = wire->socket, .events = POLLOUT};
	struct timespec pause = {.tv_nsec = 50000};
	(void)poll(&room, 1, 1);
	(void)nanosleep(&pause, NULL);
}

static bool wire_link(void *context)
{
	const struct wire *wire = context;
	struct ifreq request = {0};
	memcpy(request.ifr_name, wire->interface, sizeof(request.ifr_name));
	if (ioctl(wire->socket, SIOCGIFFLAGS, &request) < 0)
		return false;
	return (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

static void wire_close(void *context)
{
	struct wire *wire = context;
	if (wire->socket >= 0)
		close(wire->socket);
	free(wire);
}

// Protocol 0: the socket receives nothing.
static int wire_open(struct wire *wire, const char *interface)
{
	size_t length = strlen(interface);
	if (length == 0 || length >= sizeof(wire->interface))
		return -ENODEV;
	memcpy(wire->interface, interface, length);
	wire->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (wire->socket < 0)
		return -errno;
	struct sockaddr_ll place = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
	if (place.sll_ifindex == 0)
		return -errno;
	if (bind(wire->socket, (const struct sockaddr *)&place, sizeof(place)) < 0)
		return -errno;
	int size = SEND_BUFFER;
	if (setsockopt(wire->socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(wire->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); // a small one is only slower
	for (uint32_t i = 0; i < FCK_SEND_BATCH; i++) {
		wire->messages[i].msg_hdr.msg_iov = &wire->parts[i];
		wire->messages[i].msg_hdr.msg_iovlen = 1;
	}
	return 0;
}

int fck_send_open(struct fck_send **out, const char *interface, const struct fck_send_config *config)
{
	struct wire *wire = calloc(1, sizeof(*wire));
	if (wire == NULL)
		return -ENOMEM;
	wire->socket = -1;
	struct fck_send_world world = {wire, wire_now, wire_sleep_until, wire_give, wire_wait, wire_link, wire_close};
	int error = wire_open(wire, interface);
	if (error == 0)
		error = fck_send_make(out, &world, config);
	if (error < 0) {
		wire_close(wire);
		return error;
	}
	int wanted = 1;
	if (config->bypass && setsockopt(wire->socket, SOL_PACKET, PACKET_QDISC_BYPASS, &wanted, sizeof(wanted)) == 0)
		(*out)->report.bypass = 1;
	return 0;
}
