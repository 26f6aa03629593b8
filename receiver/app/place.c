// SPDX-License-Identifier: Apache-2.0
#include "place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

#define NS_PER_MS 1000000u

static int make_patterns(struct place *place, const struct place_file *file)
{
	for (uint32_t i = 0; i < file->pattern_count; i++) {
		const struct place_pattern *pattern = &file->patterns[i];
		int rc = fck_tracker_pattern(place->tracker, pattern->slots, pattern->count, &pattern->config);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int follow(struct place *place, const struct place_track *track)
{
	int number = fck_tracker_follow(
		place->tracker, 0, track->family, track->source, track->destination, track->dest_qp, track->pattern, track->group
	);

	if (number < 0)
		return number;
	for (uint32_t i = 0; i < track->count; i++) {
		const struct place_anchor *anchor = &track->anchors[i];
		int rc = fck_tracker_anchor(
			place->tracker, (uint32_t)number, anchor->position, anchor->iteration, anchor->iterations
		);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool brings(const struct place_file *file, const char *capture, uint32_t group)
{
	for (uint32_t i = 0; i < file->track_count; i++)
		if (file->tracks[i].group == group && strcmp(file->tracks[i].capture, capture) == 0)
			return true;
	return false;
}

static int set_up(struct placement *placement, struct place *place, const char *capture)
{
	const struct place_file *file = &placement->file;
	int rc = make_patterns(place, file);

	for (uint32_t i = 0; rc >= 0 && i < file->track_count; i++)
		if (strcmp(file->tracks[i].capture, capture) == 0)
			rc = follow(place, &file->tracks[i]);
	for (uint32_t i = 0; rc >= 0 && i < file->group_count; i++) {
		uint32_t group = file->groups[i].shape.group;

		if (brings(file, capture, group))
			rc = fck_tracker_board(place->tracker, group, placement->boards[i].board);
	}
	return rc < 0 ? rc : 0;
}

static bool use_device(struct placement *placement, struct place *place, uint32_t number)
{
	struct fck_copier copier;

	if (number >= placement->config->copy_count)
		return true;
	place->copy = copy_open(placement->config->copies[number]);
	if (place->copy == NULL)
		return false;
	for (uint32_t i = 0; i < placement->file.group_count; i++)
		if (!copy_target(place->copy, placement->boards[i].board, placement->boards[i].bytes))
			return false;
	copier = copy_copier(place->copy, place->tracker);
	if (fck_tracker_copier(place->tracker, &copier) == 0)
		return true;
	say_error("memory", "", "no memory for copies in flight");
	return false;
}

bool placement_worker(struct placement *placement, const char *capture, uint32_t number, struct place **out)
{
	bool any = false;
	struct place *place;
	int rc;

	*out = NULL;
	for (uint32_t i = 0; i < placement->file.group_count; i++)
		any |= brings(&placement->file, capture, placement->file.groups[i].shape.group);
	if (!any)
		return true;
	place = calloc(1, sizeof(*place));
	rc = place == NULL ? -ENOMEM : fck_tracker_new(&place->tracker);
	if (rc == 0)
		rc = set_up(placement, place, capture);
	if (rc != 0)
		say_error("place", capture, "placement of %s cannot be set up: %s", capture, strerror(-rc));
	if (rc != 0 || !use_device(placement, place, number)) {
		place_free(place);
		return false;
	}
	place->close_ns = (uint64_t)placement->config->place_close_ms * NS_PER_MS;
	*out = place;
	return true;
}

void place_begin(struct place *place, struct rte_mbuf **mbufs, uint16_t count)
{
	if (place->copy != NULL)
		copy_burst(place->copy, mbufs, count);
}

void place_end(struct place *place, uint64_t now_ns)
{
	fck_tracker_publish(place->tracker, now_ns);
	if (place->copy != NULL)
		copy_poll(place->copy);
	place->last_ns = now_ns;
	place->holds = true;
}

void place_rest(struct place *place, uint64_t now_ns)
{
	if (!place->holds)
		return;
	if (place->copy != NULL)
		copy_poll(place->copy);
	if (now_ns - place->last_ns < place->close_ns)
		return;
	place_finish(place, now_ns);
}

void place_finish(struct place *place, uint64_t now_ns)
{
	fck_tracker_let_go(place->tracker, now_ns);
	place->holds = false;
}

static void print_counts(const char *name, const uint64_t *counts, uint32_t count, const char *(*name_of)(uint32_t))
{
	bool first = true;

	printf("\"%s\":{", name);
	for (uint32_t i = 0; i < count; i++) {
		if (counts[i] == 0)
			continue;
		printf("%s\"%s\":%" PRIu64, first ? "" : ",", name_of(i), counts[i]);
		first = false;
	}
	putchar('}');
}

void place_print(const struct place *place)
{
	uint64_t places[FCK_PLACES] = {0}, lays[FCK_LAYS] = {0}, findings[FCK_FINDING_KINDS], revoked = 0;
	struct copy_counts copies = {0};
	const struct fck_finding *rows;
	struct fck_track track;

	for (uint32_t i = 0; fck_tracker_track(place->tracker, i, &track) == 0; i++) {
		for (uint32_t kind = 0; kind < FCK_PLACES; kind++)
			places[kind] += track.places[kind];
		for (uint32_t kind = 0; kind < FCK_LAYS; kind++)
			lays[kind] += track.lays[kind];
		revoked += track.revoked;
	}
	fck_tracker_findings(place->tracker, &rows, findings);
	if (place->copy != NULL)
		copies = copy_counts(place->copy);
	putchar('{');
	print_counts("places", places, FCK_PLACES, fck_place_name);
	putchar(',');
	print_counts("lays", lays, FCK_LAYS, fck_lay_name);
	putchar(',');
	print_counts("findings", findings, FCK_FINDING_KINDS, fck_finding_name);
	printf(",\"revoked\":%" PRIu64 ",\"unfollowed\":%" PRIu64, revoked, fck_tracker_unfollowed(place->tracker));
	printf(",\"device_copies\":%" PRIu64 ",\"device_full\":%" PRIu64, copies.taken, copies.full);
	printf(",\"device_failed\":%" PRIu64 "}", copies.failed);
}

void place_free(struct place *place)
{
	if (place == NULL)
		return;
	copy_close(place->copy);
	fck_tracker_free(place->tracker);
	free(place);
}
