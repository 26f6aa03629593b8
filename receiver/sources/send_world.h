// SPDX-License-Identifier: Apache-2.0
// The world of the sender's tests, with a clock and an interface of its own: no packet leaves, no time passes.
#ifndef FCK_SEND_WORLD_H
#define FCK_SEND_WORLD_H

#include "send_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TICK 1000u // ns that pass with each look at the clock
#define START UINT64_C(5000000000)
#define MTU_FRAME 1514u
#define LOG 512u

struct given {
	uint64_t time;
	uint32_t length;
	uint32_t call;
};

struct world {
	uint64_t clock;
	uint64_t oversleep; // a sleep ends so much late
	uint64_t give_time; // ns that a call takes
	uint64_t longest_sleep;
	int answers[8]; // of give(), in order; 0: takes all
	uint32_t answer;
	bool link;
	bool closed;
	uint32_t calls;
	uint32_t waits;
	uint32_t sleeps;
	uint32_t stop_at_sleep; // calls fck_send_stop() in this sleep; 0: never
	uint32_t count;
	struct given given[LOG];
	struct fck_send *send;
};

static uint64_t test_now(void *context)
{
	struct world *world = context;
	return world->clock += TICK;
}

static void test_sleep_until(void *context, uint64_t time_ns)
{
	struct world *world = context;
	assert_true(time_ns > world->clock);
	if (time_ns - world->clock > world->longest_sleep)
		world->longest_sleep = time_ns - world->clock;
	world->clock = time_ns + world->oversleep;
	if (++world->sleeps == world->stop_at_sleep)
		fck_send_stop(world->send);
}

static int test_give(void *context, const struct fck_send_item *items, uint32_t count)
{
	struct world *world = context;
	int answer = world->answers[world->answer];
	if (world->answer < sizeof(world->answers) / sizeof(world->answers[0]) - 1)
		world->answer++;
	world->calls++;
	if (answer < 0)
		return answer;
	if (answer > 0 && (uint32_t)answer < count)
		count = (uint32_t)answer;
	for (uint32_t i = 0; i < count && world->count < LOG; i++)
		world->given[world->count++] = (struct given){world->clock, items[i].length, world->calls};
	world->clock += world->give_time;
	return (int)count;
}

static void test_wait(void *context)
{
	struct world *world = context;
	world->waits++;
	world->clock += 1000000;
}

static bool test_link(void *context)
{
	const struct world *world = context;
	return world->link;
}

static void test_close(void *context)
{
	struct world *world = context;
	world->closed = true;
}

static inline struct fck_send *make(struct world *world, struct fck_send_config config)
{
	struct fck_send_world functions = {world,     test_now,  test_sleep_until, test_give,
	                                   test_wait, test_link, test_close};
	*world = (struct world){.clock = START - 1000000, .link = true};
	config.start_ns = START;
	if (config.longest == 0)
		config.longest = MTU_FRAME;
	assert_int_equal(fck_send_make(&world->send, &functions, &config), 0);
	return world->send;
}

static const uint8_t bytes[2048] = {[12] = 0x08};

static inline int push(struct fck_send *send, uint64_t time_ns, uint32_t length)
{
	return fck_send_frame(send, FCK_SEND_CHOSEN, time_ns, bytes, length, length);
}

#endif
