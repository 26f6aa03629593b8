// SPDX-License-Identifier: Apache-2.0
// Frames that are due are gathered into batches; before one that is not, the batch is sent and the deadline awaited. So a
// sender that keeps up sends each frame on its own at its time, and one that is late sends many with one call.
#include "send_internal.h"

#include <errno.h>
#include <stdlib.h>

#define ETHERNET_HEADER 14u
#define VLAN_TAG 4u
#define PATIENCE_NS UINT64_C(1000000000)

int fck_send_make(struct fck_send **out, const struct fck_send_world *world, const struct fck_send_config *config)
{
	if (config->pace > FCK_PACE_BITS || (config->pace != FCK_PACE_FULL && config->rate == 0))
		return -EINVAL;
	struct fck_send *send = calloc(1, sizeof(*send));
	if (send == NULL)
		return -ENOMEM;
	send->world = *world;
	send->pace.kind = config->pace;
	send->pace.rate = config->rate;
	send->longest = config->longest;
	send->patience = config->patience_ns > 0 ? config->patience_ns : PATIENCE_NS;
	fck_send_again(send, config->start_ns, config->base_ns);
	*out = send;
	return 0;
}

void fck_send_close(struct fck_send *send)
{
	if (send == NULL)
		return;
	send->world.close(send->world.context);
	free(send);
}

void fck_send_again(struct fck_send *send, uint64_t start_ns, uint64_t base_ns)
{
	bool recorded = send->pace.kind == FCK_PACE_RECORDED;
	if (recorded || send->pace.packets == 0)
		send->pace.start = start_ns;
	send->pace.base = base_ns;
}

void fck_send_stop(struct fck_send *send)
{
	atomic_store_explicit(&send->stop, true, memory_order_relaxed);
}

static bool stopped(struct fck_send *send)
{
	return atomic_load_explicit(&send->stop, memory_order_relaxed);
}

static uint64_t read_clock(struct fck_send *send)
{
	return send->now = send->world.now(send->world.context);
}

// False: stopped.
static bool await(struct fck_send *send, uint64_t due)
{
	while (read_clock(send) < due) {
		uint64_t left = due - send->now;
		if (stopped(send))
			return false;
		if (left <= FCK_SEND_SPIN_NS)
			continue;
		left -= FCK_SEND_SPIN_NS;
		send->world.sleep_until(send->world.context, send->now + (left < FCK_SEND_SLICE_NS ? left : FCK_SEND_SLICE_NS));
	}
	return true;
}

// `count` items went out; `send->now` is the time before.
static void account(struct fck_send *send, const struct fck_send_item *items, uint32_t count)
{
	struct fck_send_report *report = &send->report;
	if (report->packets == 0)
		report->first_ns = send->now;
	report->packets += count;
	for (uint32_t i = 0; i < count; i++) {
		report->bytes += items[i].length;
		if (send->pace.kind != FCK_PACE_FULL)
			fck_late_add(&send->late, send->now - items[i].due);
	}
	report->last_ns = read_clock(send);
}

// The queue of the interface is full, since `*since` (0: since now). 1: try again; 0: the frame is given up; or -errno.
static int queue_full(struct fck_send *send, uint64_t *since)
{
	if (stopped(send))
		return -ECANCELED;
	send->report.waits++;
	if (*since == 0)
		*since = send->now;
	if (send->now - *since < send->patience) {
		send->world.wait(send->world.context);
		return 1;
	}
	if (!send->world.link(send->world.context))
		return -ENETDOWN;
	send->report.refused[FCK_REFUSED_QUEUE_FULL]++;
	return 0;
}

int fck_send_flush(struct fck_send *send)
{
	uint32_t done = 0, count = send->count;
	uint64_t full_since = 0;

	send->count = 0; // after an error the rest is neither sent nor refused: the caller knows how many there were
	while (done < count) {
		int taken;
		read_clock(send);
		taken = send->world.give(send->world.context, send->batch + done, count - done);
		if (taken > 0) {
			account(send, send->batch + done, (uint32_t)taken);
		} else if (taken == -EAGAIN || taken == -ENOBUFS) {
			int again = queue_full(send, &full_since);
			if (again < 0)
				return again;
			if (again > 0)
				continue;
			taken = 1;
		} else if (taken == -EMSGSIZE) {
			send->report.refused[FCK_REFUSED_TOO_LONG]++;
			taken = 1;
		} else if (taken == -EINTR) {
			continue;
		} else {
			return taken;
		}
		full_since = 0;
		done += (uint32_t)taken;
	}
	return 0;
}

// Is the first tag one that an interface takes beyond its MTU? Linux does for 802.1Q, not for 802.1ad.
static bool tagged(const uint8_t *data)
{
	return data[12] == 0x81 && data[13] == 0x00;
}

// FCK_REFUSALS: it can be sent.
static enum fck_send_refusal judge(
	const struct fck_send *send, uint32_t capture, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	if (capture == FCK_SEND_NOT_ETHERNET)
		return FCK_REFUSED_NOT_ETHERNET;
	if (captured < original)
		return FCK_REFUSED_TRUNCATED;
	if (captured > original)
		return FCK_REFUSED_INCONSISTENT;
	if (captured < ETHERNET_HEADER)
		return FCK_REFUSED_TOO_SHORT;
	if (captured > send->longest && (captured - send->longest > VLAN_TAG || !tagged(data)))
		return FCK_REFUSED_TOO_LONG;
	return FCK_REFUSALS;
}

int fck_send_frame(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct fck_send *send = context;

	if (stopped(send))
		return -ECANCELED;
	if (capture == FCK_SEND_OTHER) {
		send->report.other++;
		return 0;
	}
	enum fck_send_refusal refusal = judge(send, capture, data, captured, original);
	if (refusal != FCK_REFUSALS) {
		send->report.refused[refusal]++;
		return 0;
	}
	uint64_t due = fck_pace_due(&send->pace, time_ns);
	if (due > send->now && due > read_clock(send)) {
		int error = fck_send_flush(send);
		if (error < 0)
			return error;
		if (!await(send, due))
			return -ECANCELED;
	}
	send->batch[send->count++] = (struct fck_send_item){data, captured, due};
	send->pace.packets++;
	send->pace.bits += captured * UINT64_C(8);
	return send->count == FCK_SEND_BATCH ? fck_send_flush(send) : 0;
}

struct fck_send_report fck_send_report(const struct fck_send *send)
{
	struct fck_send_report report = send->report;
	report.timed = send->late.count;
	report.late_median_ns = fck_late_quantile(&send->late, 500);
	report.late_p99_ns = fck_late_quantile(&send->late, 990);
	report.late_max_ns = send->late.max;
	return report;
}

const char *fck_send_refusal_name(uint32_t refusal)
{
	static const char *const names[FCK_REFUSALS] = {
		[FCK_REFUSED_TRUNCATED] = "truncated",       [FCK_REFUSED_INCONSISTENT] = "inconsistent",
		[FCK_REFUSED_NOT_ETHERNET] = "not_ethernet", [FCK_REFUSED_TOO_SHORT] = "too_short",
		[FCK_REFUSED_TOO_LONG] = "too_long",         [FCK_REFUSED_QUEUE_FULL] = "queue_full",
	};
	return refusal < FCK_REFUSALS ? names[refusal] : NULL;
}
