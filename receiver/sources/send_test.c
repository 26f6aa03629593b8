// SPDX-License-Identifier: Apache-2.0
// What is sent and what is not, full queues, faults of the interface, and stopping.
#include "send_world.h"

#include <errno.h>
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_sent_has_a_name),
		cmocka_unit_test(test_a_vlan_tag_comes_on_top_of_the_mtu),
		cmocka_unit_test(test_a_full_queue_is_waited_for),
		cmocka_unit_test(test_a_queue_that_stays_full),
		cmocka_unit_test(test_faults_of_the_interface_end_it),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_configurations_that_cannot_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
