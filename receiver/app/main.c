// SPDX-License-Identifier: Apache-2.0
//
// flowcheck-receiver CONFIG: started, watched and stopped by `flowcheck-net receive`. Counts until SIGINT or SIGTERM.
#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "say.h"
#include "status.h"
#include "telemetry.h"

#define MS_PER_S 1000
#define NS_PER_MS 1000000

static struct config config;
static struct control control;

// The next signal to end by, or none after `interval_ms`.
static bool told_to_stop(const sigset_t *signals, uint32_t interval_ms)
{
	struct timespec time = {.tv_sec = interval_ms / MS_PER_S, .tv_nsec = (long)(interval_ms % MS_PER_S) * NS_PER_MS};
	int found;

	pthread_mutex_unlock(&control_lock);
	do
		found = sigtimedwait(signals, NULL, &time);
	while (found < 0 && errno == EINTR);
	pthread_mutex_lock(&control_lock);
	return found > 0;
}

static int run(const sigset_t *signals)
{
	int rc = 0;

	if (!control_set_up(&control, &config) || !control_start(&control))
		return EXIT_FAILURE;
	rc = telemetry_begin(&control);
	if (rc != 0) {
		say_error("telemetry", "", "DPDK takes no commands for its telemetry: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	status_say(&control, "started");
	// Where nobody hears what is said, nobody watches any more: it may have died before PR_SET_PDEATHSIG was in force.
	while (rc == 0 && !told_to_stop(signals, config.interval_ms) && !ferror(stdout)) {
		rc = control_harvest(&control);
		status_say(&control, "status");
	}
	if (rc == 0)
		rc = control_finish(&control);
	if (rc != 0) {
		if (rc != -ECANCELED) // or it was said already
			say_error("spool", config.spool, "%s cannot be written: %s", config.spool, strerror(-rc));
		control_stop(&control); // nobody may poll while DPDK takes its memory away
		return EXIT_FAILURE;
	}
	status_say(&control, "stopped");
	telemetry_end();
	control_free(&control);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	sigset_t signals;
	uint32_t line;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: flowcheck-receiver CONFIG (it is started by `flowcheck-net receive`)\n");
		return EXIT_FAILURE;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM); // a receiver that nobody watches ends, with its records
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); // before there are threads, so that it holds for all
	signal(SIGPIPE, SIG_IGN); // nobody reads what is said any more
	rc = config_read(argv[1], &config, &line);
	if (rc != 0) {
		say_error("config", argv[1], "%s, line %u: %s", argv[1], line, strerror(-rc));
		return EXIT_FAILURE;
	}
	if (rte_eal_init((int)config.eal_count, config.eal) < 0) {
		say_error("eal", "", "DPDK does not start: %s", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	pthread_mutex_lock(&control_lock);
	rc = run(&signals);
	pthread_mutex_unlock(&control_lock);
	rte_eal_cleanup();
	return rc;
}
