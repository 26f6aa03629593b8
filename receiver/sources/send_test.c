// SPDX-License-Identifier: Apache-2.0
// The sender with a clock and an interface of the test's own: no packet leaves, no time passes.
#include "send_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static struct fck_send *make(struct world *world, struct fck_send_config config)
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

static int push(struct fck_send *send, uint64_t time_ns, uint32_t length)
{
	return fck_send_frame(send, FCK_SEND_CHOSEN, time_ns, bytes, length, length);
}

// Each frame goes out at its time: not before, and no more after than the looks at the clock take.
static void expect_times(const struct world *world, const uint64_t *times, uint32_t count)
{
	assert_int_equal(world->count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(world->given[i].time >= START + times[i]);
		assert_true(world->given[i].time <= START + times[i] + 4 * TICK);
	}
}

static void test_recorded_times(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 700});
	(void)state;
	world.oversleep = 50000; // less than the sleep is cut by
	assert_int_equal(push(send, 700, 60), 0);
	assert_int_equal(push(send, 700 + 30000, 61), 0);
	assert_int_equal(push(send, 700 + 400000000, 62), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 30000, 400000000}, 3);
	assert_int_equal(world.given[1].length, 61);
	assert_true(world.longest_sleep <= FCK_SEND_SLICE_NS);
	assert_true(world.sleeps >= 8);
	struct fck_send_report report = fck_send_report(send);
	assert_int_equal(report.packets, 3);
	assert_int_equal(report.bytes, 183);
	assert_int_equal(report.timed, 3);
	assert_true(report.late_max_ns <= 4 * TICK && report.late_median_ns <= report.late_max_ns);
	assert_int_equal(report.first_ns, world.given[0].time);
	assert_true(report.last_ns > world.given[2].time);
	fck_send_close(send);
	assert_true(world.closed);
}

static void test_times_that_go_back_are_due_at_once(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 1000000});
	(void)state;
	const uint64_t times[] = {1000000, 1500000, 1200000, 5, 1600000};
	for (int i = 0; i < 5; i++)
		assert_int_equal(push(send, times[i], 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 500000, 500000, 500000, 600000}, 5);
	fck_send_close(send);
}

static void test_half_speed_takes_twice_as_long(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 500000});
	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(push(send, i * 1000000, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 2000000, 4000000, 6000000}, 4);
	fck_send_close(send);
}

// 3 packets/s: a third of a second apart, and no rounding adds up. Refused frames take no place.
static void test_packets_per_second(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_PACKETS, .rate = 3000000});
	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(push(send, 99 - i, 60), 0);
		assert_int_equal(push(send, 99 - i, 1600), 0);
	}
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 333333333, 666666666, 1000000000}, 4);
	assert_int_equal(fck_send_report(send).refused[FCK_REFUSED_TOO_LONG], 4);
	fck_send_close(send);
}

// 1 Mbit/s: a frame of 125 bytes takes 1 ms, whatever comes behind it.
static void test_bits_per_second(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_BITS, .rate = 1000000});
	(void)state;
	assert_int_equal(push(send, 0, 125), 0);
	assert_int_equal(push(send, 0, 1250), 0);
	assert_int_equal(push(send, 0, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000, 11000000}, 3);
	fck_send_close(send);
}

static void test_full_speed_goes_in_batches(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	(void)state;
	for (uint64_t i = 0; i < 2 * FCK_SEND_BATCH + 3; i++)
		assert_int_equal(push(send, i * 1000000000, 60), 0);
	assert_int_equal(world.calls, 2);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(world.calls, 3);
	assert_int_equal(world.count, 2 * FCK_SEND_BATCH + 3);
	assert_int_equal(world.sleeps, 0);
	assert_int_equal(fck_send_report(send).timed, 0);
	fck_send_close(send);
}

// A call takes as long as ten frames last: those that have become due meanwhile go out with the next call.
static void test_a_late_sender_catches_up(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000});
	(void)state;
	world.give_time = 1000000;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(push(send, i * 100000, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(world.count, 100);
	assert_true(world.calls >= 10 && world.calls <= 14);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(world.given[i].time >= START + i * 100000);
	struct fck_send_report report = fck_send_report(send);
	assert_true(report.late_max_ns >= 900000 && report.late_max_ns < 1200000);
	assert_true(report.late_median_ns > 300000 && report.late_median_ns < 700000);
	fck_send_close(send);
}

static void test_what_is_not_sent_has_a_name(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	(void)state;
	fck_send_frame(send, FCK_SEND_OTHER, 0, bytes, 60, 60);
	fck_send_frame(send, FCK_SEND_NOT_ETHERNET, 0, bytes, 60, 60);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, 60, 61);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, 61, 60);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, 13, 13);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, 14, 14);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, MTU_FRAME, MTU_FRAME);
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, bytes, MTU_FRAME + 1, MTU_FRAME + 1);
	assert_int_equal(fck_send_flush(send), 0);
	struct fck_send_report report = fck_send_report(send);
	assert_int_equal(report.packets, 2);
	assert_int_equal(report.other, 1);
	const uint64_t expected[FCK_REFUSALS] = {1, 1, 1, 1, 1, 0};
	assert_memory_equal(report.refused, expected, sizeof(expected));
	for (uint32_t i = 0; i < FCK_REFUSALS; i++)
		assert_true(strlen(fck_send_refusal_name(i)) > 0);
	assert_null(fck_send_refusal_name(FCK_REFUSALS));
	fck_send_close(send);
}

static void test_a_vlan_tag_comes_on_top_of_the_mtu(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	uint8_t tagged[MTU_FRAME + 5] = {[12] = 0x81};
	(void)state;
	for (uint32_t extra = 0; extra <= 5; extra++)
		fck_send_frame(send, FCK_SEND_CHOSEN, 0, tagged, MTU_FRAME + extra, MTU_FRAME + extra);
	assert_int_equal(fck_send_report(send).refused[FCK_REFUSED_TOO_LONG], 1);
	tagged[12] = 0x88;
	tagged[13] = 0xa8;
	fck_send_frame(send, FCK_SEND_CHOSEN, 0, tagged, MTU_FRAME + 4, MTU_FRAME + 4);
	assert_int_equal(fck_send_report(send).refused[FCK_REFUSED_TOO_LONG], 2);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(fck_send_report(send).packets, 5);
	fck_send_close(send);
}

// Five frames: the interface takes two, then none twice, then calls one too long, is interrupted, and takes the rest.
static void test_a_full_queue_is_waited_for(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	const int answers[] = {2, -EAGAIN, -ENOBUFS, -EMSGSIZE, -EINTR};
	(void)state;
	memcpy(world.answers, answers, sizeof(answers));
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(push(send, 0, 60 + i), 0);
	assert_int_equal(fck_send_flush(send), 0);
	struct fck_send_report report = fck_send_report(send);
	assert_int_equal(report.packets, 4);
	assert_int_equal(report.bytes, 60 + 61 + 63 + 64);
	assert_int_equal(report.refused[FCK_REFUSED_TOO_LONG], 1);
	assert_int_equal(report.waits, 2);
	assert_int_equal(world.waits, 2);
	assert_int_equal(world.given[2].length, 63);
	fck_send_close(send);
}

static void test_a_queue_that_stays_full(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL, .patience_ns = 2500000}); // a wait is 1 ms
	const int answers[] = {-ENOBUFS, -ENOBUFS, -ENOBUFS, -ENOBUFS};
	(void)state;
	memcpy(world.answers, answers, sizeof(answers));
	push(send, 0, 60);
	push(send, 0, 61);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(fck_send_report(send).refused[FCK_REFUSED_QUEUE_FULL], 1);
	assert_int_equal(world.count, 1);
	assert_int_equal(world.given[0].length, 61);
	fck_send_close(send);
}

static void test_faults_of_the_interface_end_it(void **state)
{
	const int faults[] = {-ENETDOWN, -ENXIO, -EPERM};
	struct world world;
	struct fck_send *send;
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
		world.answers[0] = 1;
		world.answers[1] = faults[i];
		push(send, 0, 60);
		push(send, 0, 60);
		assert_int_equal(fck_send_flush(send), faults[i]);
		assert_int_equal(fck_send_report(send).packets, 1);
		assert_int_equal(fck_send_flush(send), 0); // nothing is kept
		fck_send_close(send);
	}
	// a queue that stays full because the link went down
	send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL, .patience_ns = 1});
	world.link = false;
	world.answers[0] = world.answers[1] = -ENOBUFS;
	push(send, 0, 60);
	assert_int_equal(fck_send_flush(send), -ENETDOWN);
	fck_send_close(send);
}

static void test_stop(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000});
	(void)state;
	assert_int_equal(push(send, 0, 60), 0);
	uint32_t slept = world.sleeps;
	world.stop_at_sleep = slept + 3;
	assert_int_equal(push(send, UINT64_C(3600000000000), 60), -ECANCELED); // in an hour
	assert_int_equal(world.sleeps, slept + 3);
	assert_int_equal(world.count, 1); // what was due before is sent
	assert_int_equal(push(send, 0, 60), -ECANCELED);
	fck_send_close(send);
	// in front of a full queue
	send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	push(send, 0, 60);
	world.answers[0] = -EAGAIN;
	fck_send_stop(send);
	assert_int_equal(fck_send_flush(send), -ECANCELED);
	assert_int_equal(fck_send_report(send).packets, 0);
	fck_send_close(send);
}

static void test_the_recording_again(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 100});
	(void)state;
	push(send, 100, 60);
	push(send, 1000100, 60);
	fck_send_again(send, START + 3000000, 100);
	push(send, 100, 60);
	push(send, 1000100, 60);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000, 3000000, 4000000}, 4);
	fck_send_close(send);
	send = make(&world, (struct fck_send_config){.pace = FCK_PACE_PACKETS, .rate = UINT64_C(1000000000)});
	push(send, 0, 60);
	fck_send_again(send, START + 77777777, 0);
	push(send, 0, 60); // the rate goes on
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000}, 2);
	fck_send_close(send);
}

static void test_the_end_of_time(void **state)
{
	const struct fck_pace pace = {.kind = FCK_PACE_RECORDED, .rate = 1, .start = START};
	(void)state;
	assert_int_equal(fck_pace_due(&pace, UINT64_MAX), UINT64_MAX);
	assert_int_equal(fck_pace_due(&pace, 1), START + 1000000);
}

static void test_configurations_that_cannot_be(void **state)
{
	const struct fck_send_world functions = {0};
	struct fck_send *send;
	(void)state;
	assert_int_equal(fck_send_make(&send, &functions, &(struct fck_send_config){.pace = 4}), -EINVAL);
	for (uint32_t pace = FCK_PACE_RECORDED; pace <= FCK_PACE_BITS; pace++)
		assert_int_equal(fck_send_make(&send, &functions, &(struct fck_send_config){.pace = pace}), -EINVAL);
	assert_true(fck_send_open(&send, "", &(struct fck_send_config){.pace = FCK_PACE_FULL}) < 0);
	assert_true(fck_send_open(&send, "0123456789abcdef", &(struct fck_send_config){.pace = FCK_PACE_FULL}) < 0);
}

static int ascending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

// Against a sorted list, for values of every magnitude.
static void test_quantiles(void **state)
{
	enum { VALUES = 997 };
	static uint64_t values[VALUES];
	static struct fck_late late;
	uint64_t random = 12345;
	(void)state;
	assert_int_equal(fck_late_quantile(&late, 500), 0);
	for (int i = 0; i < VALUES; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		values[i] = i == 0 ? UINT64_MAX : random >> (random >> 58);
		fck_late_add(&late, values[i]);
	}
	qsort(values, VALUES, sizeof(values[0]), ascending);
	for (uint32_t permille = 1; permille <= 1000; permille++) {
		uint32_t at = 0; // so many values and one more are enough
		while ((at + 1) * 1000 < permille * VALUES)
			at++;
		uint64_t exact = values[at], found = fck_late_quantile(&late, permille);
		assert_true(found >= exact);
		assert_true(found - exact <= exact / 16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_times),
		cmocka_unit_test(test_times_that_go_back_are_due_at_once),
		cmocka_unit_test(test_half_speed_takes_twice_as_long),
		cmocka_unit_test(test_packets_per_second),
		cmocka_unit_test(test_bits_per_second),
		cmocka_unit_test(test_full_speed_goes_in_batches),
		cmocka_unit_test(test_a_late_sender_catches_up),
		cmocka_unit_test(test_what_is_not_sent_has_a_name),
		cmocka_unit_test(test_a_vlan_tag_comes_on_top_of_the_mtu),
		cmocka_unit_test(test_a_full_queue_is_waited_for),
		cmocka_unit_test(test_a_queue_that_stays_full),
		cmocka_unit_test(test_faults_of_the_interface_end_it),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_the_recording_again),
		cmocka_unit_test(test_the_end_of_time),
		cmocka_unit_test(test_configurations_that_cannot_be),
		cmocka_unit_test(test_quantiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
