// SPDX-License-Identifier: Apache-2.0
// The least that any reader of a capture must do: walk the blocks of a mapped little-endian pcapng file, look at the
// headers of each frame as far as the BTH, and count. The measure for `replay`.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	ENHANCED_PACKET = 6,
	PACKET_DATA = 28, // bytes of the block before the frame
	IPV4_UDP = 14 + 20,
	IPV6_UDP = 14 + 40,
	BTH = 8, // behind the start of the UDP header
	BTH_END = IPV4_UDP + BTH + 12,
};

static uint32_t load32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int file = open(argv[1], O_RDONLY);
	struct stat status;
	if (file < 0 || fstat(file, &status) < 0 || status.st_size == 0)
		return 1;
	size_t size = (size_t)status.st_size;
	const uint8_t *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
	if (data == MAP_FAILED)
		return 1;
	madvise((void *)data, size, MADV_SEQUENTIAL);
	uint64_t packets = 0, rocev2 = 0, numbers = 0;
	for (size_t at = 0; at + 12 <= size;) {
		uint32_t length = load32(data + at + 4);
		if (length < 12 || length > size - at)
			return 1;
		if (load32(data + at) == ENHANCED_PACKET && length > PACKET_DATA + BTH_END) {
			const uint8_t *frame = data + at + PACKET_DATA;
			packets++;
			const uint8_t *udp = NULL;
			if (frame[12] == 0x08 && frame[13] == 0x00 && frame[23] == 17)
				udp = frame + IPV4_UDP;
			else if (frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == 17)
				udp = frame + IPV6_UDP;
			if (udp != NULL && udp[2] == 0x12 && udp[3] == 0xb7) {
				rocev2++;
				numbers += udp[BTH] + load32(udp + BTH + 4) + load32(udp + BTH + 8);
			}
		}
		at += length;
	}
	printf("%llu %llu %llu\n", (unsigned long long)packets, (unsigned long long)rocev2, (unsigned long long)numbers);
	return 0;
}
