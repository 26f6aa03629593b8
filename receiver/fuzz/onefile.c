// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target on the files and folders named, without a fuzzer: for the committed corpora, and to look at a finding.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (1 << 20)
#define LONGEST_PATH 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fail(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return -1;
}

static int run_file(const char *path, uint8_t *data)
{
	FILE *file = fopen(path, "rb");
	size_t size;

	if (file == NULL)
		return fail(path);
	size = fread(data, 1, LARGEST, file);
	fclose(file);
	// Of exactly its size, so that the address sanitizer sees any read beyond it.
	uint8_t *exact = malloc(size > 0 ? size : 1);
	if (exact == NULL)
		return fail(path);
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 1;
}

// The number of inputs run, or -1. An empty folder is 0.
static int run(const char *path, uint8_t *data)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int inputs = 0;

	if (folder == NULL)
		return errno == ENOTDIR ? run_file(path, data) : fail(path);
	while (inputs >= 0 && (entry = readdir(folder)) != NULL) {
		char inside[LONGEST_PATH];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
		inputs = run_file(inside, data) < 0 ? -1 : inputs + 1;
	}
	closedir(folder);
	return inputs;
}

int main(int argc, char **argv)
{
	uint8_t *data = malloc(LARGEST);
	int inputs = 0;

	if (data == NULL)
		return EXIT_FAILURE;
	for (int i = 1; i < argc && inputs >= 0; i++) {
		int more = run(argv[i], data);

		inputs = more < 0 ? -1 : inputs + more;
	}
	free(data);
	printf("%d inputs\n", inputs);
	return inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE; // a corpus that has vanished is no success
}
