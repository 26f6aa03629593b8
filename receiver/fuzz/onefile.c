// SPDX-License-Identifier: Apache-2.0
//
// Runs the fuzz target on the files named, without a fuzzer: for the committed corpus, and to look at a finding.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGEST (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	uint8_t *data = malloc(LARGEST);

	if (data == NULL || argc < 2)
		return EXIT_FAILURE;
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;

		if (file == NULL) {
			perror(argv[i]);
			free(data);
			return EXIT_FAILURE;
		}
		size = fread(data, 1, LARGEST, file);
		fclose(file);
		LLVMFuzzerTestOneInput(data, size);
	}
	free(data);
	return EXIT_SUCCESS;
}
