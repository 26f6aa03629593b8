// SPDX-License-Identifier: Apache-2.0
//
// The boards: files in memory that outlive the receiver, and the log of what was closed in them.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "place.h"
#include "poll.h"
#include "readers.h"
#include "say.h"

#define HUGETLBFS 0x958458f6

static const char *const events[FCK_BOARD_EVENTS] = {
	[FCK_BOARD_CLOSED_COMPLETE] = "complete",
	[FCK_BOARD_CLOSED_GAPS] = "gaps",
	[FCK_BOARD_REOPENED] = "reopened",
	[FCK_BOARD_BROKEN] = "broken",
};

// As much as is wanted, in whole pages of the file system. Reserved, so that no worker dies of a full memory.
static int size_file(int file, uint64_t *bytes)
{
	struct statfs system;
	struct stat status;
	uint64_t page;

	if (fstatfs(file, &system) != 0 || fstat(file, &status) != 0)
		return -errno;
	page = (uint32_t)system.f_type == HUGETLBFS ? (uint64_t)system.f_bsize : FCK_BOARD_PAGE;
	*bytes = (*bytes + page - 1) / page * page;
	if ((uint64_t)status.st_size == *bytes)
		return 0;
	if (status.st_size != 0)
		return -EEXIST;
	return -posix_fallocate(file, 0, (off_t)*bytes);
}

static int map(struct place_board *made, const char *path, uint64_t bytes)
{
	void *memory;
	int rc;

	made->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (made->file < 0)
		return -errno;
	if (flock(made->file, LOCK_EX | LOCK_NB) != 0)
		return -EBUSY;
	rc = size_file(made->file, &bytes);
	if (rc != 0)
		return rc;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, made->file, 0);
	if (memory == MAP_FAILED)
		return -errno;
	made->board = memory;
	made->bytes = bytes;
	return 0;
}

static bool open_board(struct placement *placement, uint32_t number)
{
	const struct place_group *group = &placement->file.groups[number];
	struct place_board *made = &placement->boards[number];
	struct fck_board_shape shape = group->shape;
	char path[2 * CONFIG_TEXT];
	int rc;

	shape.slots = placement->config->place_slots;
	snprintf(path, sizeof(path), "%s/%s.board", placement->config->place_memory, group->name);
	rc = fck_board_bytes(&shape) == 0 ? -EINVAL : map(made, path, fck_board_bytes(&shape));
	if (rc == 0 && fck_board_begin(made->board, made->bytes, &shape, group->name, placement->file.plan, poll_now()) != 0)
		rc = -EEXIST;
	if (rc == -EEXIST)
		say_error("board-other", path, "%s is the gradient memory of another plan, or has another size", path);
	else if (rc == -EBUSY)
		say_error("board-busy", path, "another receiver places into %s", path);
	else if (rc != 0)
		say_error(
			"board", path, "%s cannot hold %" PRIu64 " KiB of gradients: %s", path, fck_board_bytes(&shape) / 1024,
			strerror(-rc)
		);
	return rc == 0;
}

bool placement_open(struct placement *placement, const struct config *config)
{
	char path[2 * CONFIG_TEXT];
	uint32_t line;
	int rc;

	*placement = (struct placement){.config = config, .log = -1};
	if (config->place[0] == '\0' || access(config->place, F_OK) != 0)
		return true;
	rc = place_file_read(config->place, &placement->file, &line);
	if (rc != 0) {
		say_error("place", config->place, "%s, line %u: %s", config->place, line, strerror(-rc));
		return false;
	}
	snprintf(path, sizeof(path), "%s.iterations", config->spool);
	placement->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	placement->boards = calloc(placement->file.group_count + 1, sizeof(*placement->boards));
	if (placement->log < 0 || placement->boards == NULL) {
		say_error("spool", path, "%s cannot be written: %s", path, strerror(errno));
		return false;
	}
	for (uint32_t i = 0; i < placement->file.group_count; i++)
		placement->boards[i].file = -1;
	for (uint32_t i = 0; i < placement->file.group_count; i++) {
		if (!open_board(placement, i))
			return false;
		placement->boards[i].told = placement->boards[i].board->journal_next;
		placement->boards[i].gone = readers_gone(placement->boards[i].board, placement->boards[i].file);
	}
	return true;
}

static int tell(const struct placement *placement, const struct fck_board *board, const struct fck_board_closing *closing)
{
	char text[512];
	int length = snprintf(
		text, sizeof(text),
		"{\"group\":\"%s\",\"iteration\":%" PRIu64 ",\"iterations\":%u,\"life\":%" PRIu64 ",\"event\":\"%s\",\"units\":%" PRIu64
		",\"of\":%" PRIu64 ",\"time\":%" PRIu64 "}\n",
		board->name, closing->iteration * board->cycle, board->cycle, closing->life,
		closing->event < FCK_BOARD_EVENTS ? events[closing->event] : "unknown", closing->laid, board->carrying,
		closing->time_ns
	);

	return write(placement->log, text, (size_t)length) == length ? 0 : errno != 0 ? -errno : -EIO;
}

int placement_tell(struct placement *placement)
{
	bool wrote = false;

	for (uint32_t i = 0; i < placement->file.group_count; i++) {
		struct place_board *each = &placement->boards[i];
		struct fck_board_closing closing;
		int rc;

		each->gone += readers_gone(each->board, each->file);
		while ((rc = fck_board_closing_get(each->board, each->told, &closing)) != -ENOENT) {
			each->told++;
			if (rc == -ENODATA) {
				placement->forgotten++;
				continue;
			}
			rc = tell(placement, each->board, &closing);
			if (rc != 0)
				return rc;
			wrote = true;
		}
	}
	if (wrote && fdatasync(placement->log) != 0)
		return -errno;
	return 0;
}

struct placement_progress placement_progress(const struct placement *placement, uint32_t group)
{
	const struct fck_board *board = placement->boards[group].board;
	uint64_t newest = board->newest, complete = board->complete;
	struct placement_progress found = {
		.newest = newest == 0 ? -1 : (int64_t)(newest * board->cycle - 1),
		.complete = complete == 0 ? -1 : (int64_t)(complete * board->cycle - 1),
	};

	for (uint32_t slot = 0; slot < board->slots; slot++)
		if (board->slot[slot].iteration + 1 == complete && board->slot[slot].life == board->life)
			found.complete_ns = board->slot[slot].closed_ns;
	return found;
}

void placement_print(const struct placement *placement)
{
	printf(",\"groups\":[");
	for (uint32_t i = 0; i < placement->file.group_count; i++) {
		const struct fck_board *board = placement->boards[i].board;
		struct placement_progress found = placement_progress(placement, i);

		printf("%s{\"name\":\"%s\",\"iterations\":%u,", i > 0 ? "," : "", board->name, board->cycle);
		printf("\"newest\":%" PRId64 ",\"complete\":%" PRId64 ",", found.newest, found.complete);
		printf("\"complete_time\":%" PRIu64 ",\"no_room\":%" PRIu64, found.complete_ns, board->no_room);
		printf(",\"overwritten\":%" PRIu64 ",\"readers_gone\":%" PRIu64 "}", board->overwritten, placement->boards[i].gone);
	}
	printf("]");
	if (placement->forgotten > 0)
		printf(",\"closings_forgotten\":%" PRIu64, placement->forgotten);
}

void placement_close(struct placement *placement)
{
	for (uint32_t i = 0; placement->boards != NULL && i < placement->file.group_count; i++) {
		if (placement->boards[i].board != NULL)
			munmap(placement->boards[i].board, placement->boards[i].bytes);
		if (placement->boards[i].file >= 0)
			close(placement->boards[i].file);
	}
	free(placement->boards);
	if (placement->log >= 0)
		close(placement->log);
	place_file_free(&placement->file);
}
