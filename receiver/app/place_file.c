// SPDX-License-Identifier: Apache-2.0
#include "place_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define ADDRESS_TEXT "%45s" // INET6_ADDRSTRLEN - 1

// Room for one more. -ENOMEM.
static int more(void **items, uint32_t *room, uint32_t count, size_t size)
{
	uint32_t wanted = *room > 0 ? 2 * *room : 16;
	void *grown;

	if (count < *room)
		return 0;
	grown = reallocarray(*items, wanted, size);
	if (grown == NULL)
		return -ENOMEM;
	*items = grown;
	*room = wanted;
	return 0;
}

static int add_group(struct place_file *file, const char *text)
{
	struct place_group group = {0};

	if (more((void **)&file->groups, &file->group_room, file->group_count, sizeof(group)) != 0)
		return -ENOMEM;
	if (sscanf(text, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %63[^\n]", &group.shape.group,
		   &group.shape.size, &group.shape.units, &group.shape.carrying, &group.shape.cycle, group.name) != 6)
		return -EINVAL;
	if (strchr(group.name, '/') != NULL || group.name[0] == '.')
		return -EINVAL;
	file->groups[file->group_count++] = group;
	return 0;
}

static int add_pattern(struct place_file *file, const char *text)
{
	struct place_pattern pattern = {0};
	struct fck_pattern_config *config = &pattern.config;

	if (more((void **)&file->patterns, &file->pattern_room, file->pattern_count, sizeof(pattern)) != 0)
		return -ENOMEM;
	if (sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
		   &config->mtu, &config->protocol, &config->immediate, &config->fifo_bytes, &config->fifo_steps,
		   &config->steps, &config->compare, &config->search) != 8)
		return -EINVAL;
	file->patterns[file->pattern_count++] = pattern;
	return 0;
}

static int add_slot(struct place_file *file, const char *text)
{
	struct place_pattern *pattern;
	struct fck_slot slot = {0};

	if (file->pattern_count == 0)
		return -EINVAL;
	pattern = &file->patterns[file->pattern_count - 1];
	if (more((void **)&pattern->slots, &pattern->room, pattern->count, sizeof(slot)) != 0)
		return -ENOMEM;
	if (sscanf(text,
		   "%" SCNu32 " %" SCNu32 " %" SCNd64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
		   &slot.packets, &slot.bytes, &slot.immediate, &slot.data_at, &slot.data_bytes, &slot.wire_at, &slot.unit,
		   &slot.reduced, &slot.step) != 9)
		return -EINVAL;
	pattern->slots[pattern->count++] = slot;
	return 0;
}

static int add_track(struct place_file *file, const char *text)
{
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	struct place_track track = {0};
	int family;

	if (more((void **)&file->tracks, &file->track_room, file->track_count, sizeof(track)) != 0)
		return -ENOMEM;
	if (sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " " ADDRESS_TEXT " " ADDRESS_TEXT " %1023[^\n]",
		   &track.pattern, &track.group, &track.dest_qp, source, destination, track.capture) != 6)
		return -EINVAL;
	track.family = strchr(source, ':') != NULL ? 6 : 4;
	family = track.family == 6 ? AF_INET6 : AF_INET;
	if (inet_pton(family, source, track.source) != 1 || inet_pton(family, destination, track.destination) != 1)
		return -EINVAL;
	if (track.pattern >= file->pattern_count)
		return -EINVAL;
	file->tracks[file->track_count++] = track;
	return 0;
}

static int add_anchor(struct place_file *file, const char *text)
{
	struct place_anchor anchor;
	struct place_track *track;

	if (file->track_count == 0)
		return -EINVAL;
	track = &file->tracks[file->track_count - 1];
	if (more((void **)&track->anchors, &track->room, track->count, sizeof(anchor)) != 0)
		return -ENOMEM;
	if (sscanf(text, "%" SCNd64 " %" SCNu64 " %" SCNu64, &anchor.position, &anchor.iteration, &anchor.iterations) != 3)
		return -EINVAL;
	track->anchors[track->count++] = anchor;
	return 0;
}

static int set(struct place_file *file, const char *key, const char *values)
{
	static const struct {
		const char *key;
		int (*add)(struct place_file *file, const char *values);
	} keys[] = {{"slot", add_slot}, {"anchor", add_anchor}, {"track", add_track}, {"pattern", add_pattern}, {"group", add_group}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i].key) == 0)
			return keys[i].add(file, values);
	if (strcmp(key, "plan") == 0)
		return sscanf(values, "%64s", file->plan) == 1 ? 0 : -EINVAL;
	return strcmp(key, "version") == 0 && atoi(values) == VERSION ? 0 : -EINVAL;
}

int place_file_read(const char *path, struct place_file *file, uint32_t *line)
{
	char text[2 * CONFIG_TEXT];
	FILE *stream = fopen(path, "r");
	bool ended = false;
	int rc = 0;

	*file = (struct place_file){0};
	*line = 0;
	if (stream == NULL)
		return -errno;
	while (rc == 0 && !ended && fgets(text, sizeof(text), stream) != NULL) {
		char *values = strchr(text, ' ');

		++*line;
		text[strcspn(text, "\n")] = '\0';
		ended = strcmp(text, "end") == 0;
		if (ended)
			break;
		if (values == NULL) {
			rc = -EINVAL;
			break;
		}
		*values++ = '\0';
		rc = set(file, text, values);
	}
	if (rc == 0 && !ended)
		rc = ferror(stream) ? -EIO : -EINVAL;
	fclose(stream);
	return rc;
}

void place_file_free(struct place_file *file)
{
	for (uint32_t i = 0; i < file->pattern_count; i++)
		free(file->patterns[i].slots);
	for (uint32_t i = 0; i < file->track_count; i++)
		free(file->tracks[i].anchors);
	free(file->groups);
	free(file->patterns);
	free(file->tracks);
}
