// SPDX-License-Identifier: Apache-2.0
//
// Gradient buffers: which bytes belong to which presence bit, and the memory that the caller lends.
#include "track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "psn.h"

#define WORD_BITS 64u

struct fck_group *fck_group_find(const struct fck_tracker *tracker, uint32_t number)
{
	for (uint64_t i = 0; i < tracker->group_count; i++)
		if (tracker->groups[i].number == number)
			return &tracker->groups[i];
	return NULL;
}

static int order(const struct fck_extent *a, const struct fck_extent *b)
{
	if (a->data_at != b->data_at)
		return a->data_at < b->data_at ? -1 : 1;
	if (a->wire_at != b->wire_at)
		return a->wire_at < b->wire_at ? -1 : 1;
	return 0;
}

static uint64_t find_extent(const struct fck_group *group, const struct fck_extent *wanted)
{
	uint64_t low = 0, high = group->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (order(&group->extents[middle], wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// Do neighbours in the order overlap, or cut one message in two ways?
static bool clash(const struct fck_extent *before, const struct fck_extent *after)
{
	if (before->data_at == after->data_at)
		return before->data_bytes != after->data_bytes || before->protocol != after->protocol ||
		       before->mtu != after->mtu || before->wire_at + before->bytes > after->wire_at;
	return before->data_at + before->data_bytes > after->data_at;
}

// `lent`: there is memory already, made for what was known then.
static int join_extent(struct fck_group *group, const struct fck_extent *extent, bool lent)
{
	uint64_t at = find_extent(group, extent);

	if (at < group->count && order(&group->extents[at], extent) == 0)
		return memcmp(&group->extents[at], extent, sizeof(*extent)) == 0 ? 0 : -EEXIST;
	if (lent)
		return -EBUSY;
	if (at > 0 && clash(&group->extents[at - 1], extent))
		return -EEXIST;
	if (at < group->count && clash(extent, &group->extents[at]))
		return -EEXIST;
	if (fck_reserve((void **)&group->extents, &group->room, group->count, sizeof(*extent)) != 0)
		return -ENOMEM;
	memmove(&group->extents[at + 1], &group->extents[at], (group->count - at) * sizeof(*extent));
	group->extents[at] = *extent;
	group->count++;
	return 0;
}

int fck_group_join(struct fck_tracker *tracker, uint32_t number, const struct fck_pattern *pattern)
{
	struct fck_group *group = fck_group_find(tracker, number);
	bool lent = false;
	int rc = 0;

	if (group == NULL) {
		if (fck_reserve((void **)&tracker->groups, &tracker->group_room, tracker->group_count, sizeof(*group)) != 0)
			return -ENOMEM;
		group = &tracker->groups[tracker->group_count++];
		*group = (struct fck_group){.number = number};
	}
	for (uint64_t i = 0; i < tracker->gradient_count; i++)
		lent |= tracker->gradients[i]->group == number;
	for (uint32_t i = 0; i < pattern->count && rc == 0; i++) {
		const struct fck_slot *slot = &pattern->slots[i];
		struct fck_extent extent;

		if (!slot->reduced || slot->bytes == 0 || slot->data_bytes == 0)
			continue;
		memset(&extent, 0, sizeof(extent)); // compared as bytes
		extent.data_at = slot->data_at;
		extent.data_bytes = slot->data_bytes;
		extent.wire_at = slot->wire_at;
		extent.bytes = slot->bytes;
		extent.packets = slot->packets;
		extent.unit = slot->unit;
		extent.protocol = pattern->config.protocol;
		extent.mtu = pattern->config.mtu;
		rc = join_extent(group, &extent, lent);
	}
	return rc;
}

static bool test_bit(const uint64_t *bits, uint64_t bit)
{
	return bits[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

// Every unit stands for one packet only, and lies in the memory. `bits` is zero before and after.
static int check_units(const struct fck_group *group, uint64_t units, uint64_t *bits)
{
	uint64_t words = (units + WORD_BITS - 1) / WORD_BITS;
	int rc = 0;

	for (uint64_t i = 0; i < group->count && rc == 0; i++) {
		const struct fck_extent *extent = &group->extents[i];

		for (uint64_t unit = extent->unit; unit < (uint64_t)extent->unit + extent->packets && rc == 0; unit++) {
			if (unit >= units || test_bit(bits, unit))
				rc = -EINVAL;
			else
				bits[unit / WORD_BITS] |= UINT64_C(1) << unit % WORD_BITS;
		}
	}
	memset(bits, 0, words * sizeof(*bits));
	return rc;
}

static uint64_t gradient_index(const struct fck_tracker *tracker, uint32_t group, uint64_t iteration)
{
	uint64_t at = 0;

	while (at < tracker->gradient_count && (tracker->gradients[at]->group != group ||
						tracker->gradients[at]->iteration != iteration))
		at++;
	return at;
}

struct fck_gradient *fck_gradient_find(const struct fck_tracker *tracker, uint32_t group, uint64_t iteration)
{
	uint64_t at = gradient_index(tracker, group, iteration);

	return at < tracker->gradient_count ? tracker->gradients[at] : NULL;
}

static int check_memory(const struct fck_group *group, uint64_t size, uint64_t units, uint64_t *bits)
{
	const struct fck_extent *last = group->count > 0 ? &group->extents[group->count - 1] : NULL;

	if (last != NULL && last->data_at + last->data_bytes > size)
		return -EINVAL;
	return check_units(group, units, bits);
}

int fck_tracker_gradient(
	struct fck_tracker *tracker, uint32_t group, uint64_t iteration, uint8_t *data, uint64_t size, uint64_t *present,
	uint64_t units
)
{
	const struct fck_group *known = fck_group_find(tracker, group);
	uint64_t words = units / WORD_BITS + 1;
	struct fck_gradient *made;
	int rc;

	if (known == NULL || (data == NULL && size > 0) || (present == NULL && units > 0))
		return -EINVAL;
	if (fck_gradient_find(tracker, group, iteration) != NULL)
		return -EEXIST;
	if (fck_reserve((void **)&tracker->gradients, &tracker->gradient_room, tracker->gradient_count, sizeof(made)) != 0)
		return -ENOMEM;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return -ENOMEM;
	made->withdrawn = calloc(words, sizeof(*made->withdrawn));
	rc = made->withdrawn == NULL ? -ENOMEM : check_memory(known, size, units, made->withdrawn);
	if (rc != 0) {
		free(made->withdrawn);
		free(made);
		return rc;
	}
	made->group = group;
	made->iteration = iteration;
	made->data = data;
	made->size = size;
	made->present = present;
	made->units = units;
	tracker->gradients[tracker->gradient_count++] = made;
	tracker->generation++;
	return 0;
}

int fck_tracker_release(struct fck_tracker *tracker, uint32_t group, uint64_t iteration)
{
	uint64_t at = gradient_index(tracker, group, iteration);

	if (at == tracker->gradient_count)
		return -ENOENT;
	free(tracker->gradients[at]->withdrawn);
	free(tracker->gradients[at]);
	tracker->gradients[at] = tracker->gradients[--tracker->gradient_count];
	tracker->generation++;
	return 0;
}

// Are all packets of the piece present that bring bytes from `low` up to `high` of the message's data?
static bool piece_present(const struct fck_extent *piece, const struct fck_gradient *gradient, uint64_t low, uint64_t high)
{
	for (uint32_t packet = 0; packet < piece->packets; packet++) {
		uint32_t at = packet * piece->mtu, length = piece->bytes - at < piece->mtu ? piece->bytes - at : piece->mtu;
		uint32_t from, to;

		fck_lay_bounds(piece->protocol, piece->wire_at + at, length, piece->data_bytes, &from, &to);
		if (from < high && to > low && from < to && !test_bit(gradient->present, (uint64_t)piece->unit + packet))
			return false;
	}
	return true;
}

// LL128 packets bring bytes from here and there: a message whose pieces are not all followed has holes that bounds do
// not show.
static bool whole_message(const struct fck_group *group, uint64_t at)
{
	const struct fck_extent *piece = &group->extents[at];
	uint64_t data_at = piece->data_at, wire = 0, data;

	while (at > 0 && group->extents[at - 1].data_at == data_at)
		at--;
	for (; at < group->count && group->extents[at].data_at == data_at; at++) {
		piece = &group->extents[at];
		if (piece->wire_at != wire)
			return false;
		wire += piece->bytes;
	}
	data = wire / FCK_LL128_GROUP * FCK_LL128_GROUP_DATA;
	return data >= piece->data_bytes;
}

// Which of the message's bytes the piece has, for itself or with the others of the message.
static void reach(const struct fck_group *group, uint64_t at, uint32_t *from, uint32_t *to)
{
	const struct fck_extent *piece = &group->extents[at];

	if (piece->protocol != FCK_PROTOCOL_LL128) {
		fck_lay_bounds(piece->protocol, piece->wire_at, piece->bytes, piece->data_bytes, from, to);
		return;
	}
	*from = 0;
	*to = whole_message(group, at) ? piece->data_bytes : 0;
}

int fck_gradient_read(
	const struct fck_tracker *tracker, uint32_t group, uint64_t iteration, uint64_t at, uint64_t size, uint8_t *out
)
{
	const struct fck_gradient *gradient = fck_gradient_find(tracker, group, iteration);
	const struct fck_group *known = fck_group_find(tracker, group);
	uint64_t covered = at, end = at + size;

	if (gradient == NULL || known == NULL)
		return -ENOENT;
	if (end < at || end > gradient->size)
		return -ENODATA;
	for (uint64_t i = 0; i < known->count && known->extents[i].data_at < end; i++) { // by their bounds pieces overlap
		const struct fck_extent *piece = &known->extents[i];
		uint64_t low = at > piece->data_at ? at - piece->data_at : 0;
		uint32_t from, to;

		if (piece->data_at + piece->data_bytes <= at)
			continue;
		reach(known, i, &from, &to);
		if (piece->data_at + from > covered)
			break; // a hole that no message fills
		if (!piece_present(piece, gradient, low, end - piece->data_at))
			return -ENODATA;
		covered = piece->data_at + to > covered ? piece->data_at + to : covered;
	}
	if (covered < end)
		return -ENODATA;
	memcpy(out, gradient->data + at, size);
	return 0;
}
