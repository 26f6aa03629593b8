// SPDX-License-Identifier: Apache-2.0
//
// Prints what the parser makes of every packet of a capture file, one line each: for the tests that compare it with another
// dissector, and to look at a finding. Fields, separated by tabs, "-" where there is none:
//   number  kind  attributes  source  destination  protocol  ip_length  outers
//   class  opcode  dest_qp  psn  length  reth_length  immediate  icrc
// Addresses, protocol and length (IPv4: total, IPv6: payload) are those of the innermost IP header that was opened, numbers are
// decimal; the ICRC is hexadecimal in the order of the wire. An outer is kind/source/session/sequence, the outermost first.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capfile.h"
#include "packet.h"

#define PACKETS_A_CALL (1u << 20)

struct inspection {
	struct fck_config config;
	uint64_t number;
};

static void print_number(bool there, int64_t value)
{
	if (there)
		printf("\t%lld", (long long)value);
	else
		printf("\t-");
}

static void print_attributes(uint32_t attributes)
{
	char before = '\t';

	if (attributes == 0)
		printf("\t-");
	for (; attributes != 0; attributes &= attributes - 1) {
		printf("%c%s", before, fck_attribute_name((uint32_t)__builtin_ctz(attributes)));
		before = ',';
	}
}

static void print_address(char before, uint32_t family, const uint8_t *address)
{
	char text[INET6_ADDRSTRLEN];

	printf("%c%s", before, inet_ntop(family == 4 ? AF_INET : AF_INET6, address, text, sizeof(text)));
}

static void print_ip(const struct fck_packet *packet)
{
	uint32_t family = packet->key.family;

	if (family == 0) { // of a frame inside a tunnel that is not IP, the parser still knows the IP header outside
		printf("\t-\t-\t-\t-");
		return;
	}
	print_address('\t', family, packet->key.source);
	print_address('\t', family, packet->key.destination);
	print_number(true, family == 4 ? packet->ip[9] : packet->ip[6]);
	print_number(true, fck_be16(packet->ip + (family == 4 ? 2 : 4)));
}

static void print_outers(const struct fck_packet *packet)
{
	if (packet->outer_count == 0)
		printf("\t-");
	for (uint32_t i = 0; i < packet->outer_count; i++) {
		const struct fck_outer *outer = &packet->outers[i];

		printf("%c%s", i == 0 ? '\t' : ',', fck_tunnel_name(outer->kind));
		print_address('/', outer->family, outer->source);
		printf("/%lld/%lld", (long long)outer->session, (long long)outer->sequence);
	}
}

static void print_roce(const struct fck_packet *packet)
{
	printf("\t%s", fck_class_name(packet->info.packet_class));
	print_number(true, packet->opcode);
	print_number(true, packet->key.dest_qp);
	print_number(true, packet->psn);
	print_number(true, packet->length);
	print_number(packet->has_reth, packet->reth_length);
	print_number(packet->immediate >= 0, packet->immediate);
	if (packet->has_icrc)
		printf("\t%08x", packet->icrc);
	else
		printf("\t-");
}

static int print_packet(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct inspection *inspection = context;
	struct fck_packet packet;
	enum fck_frame_kind kind = fck_parse(&inspection->config, data, captured, original, &packet);

	(void)capture;
	(void)time_ns;
	printf("%llu\t%s", (unsigned long long)++inspection->number, fck_frame_name(kind));
	print_attributes(packet.attributes);
	print_ip(&packet);
	print_outers(&packet);
	if (kind == FCK_FRAME_ROCEV2)
		print_roce(&packet);
	else
		printf("\t-\t-\t-\t-\t-\t-\t-\t-");
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	struct inspection inspection = {0};
	struct fck_capfile *file;
	int result;

	if (argc != 2 || fck_capfile_open(&file, argv[1]) < 0) {
		fprintf(stderr, "usage: fck_inspect FILE (pcap or pcapng, not compressed)\n");
		return EXIT_FAILURE;
	}
	while ((result = fck_capfile_run_to(file, print_packet, &inspection, PACKETS_A_CALL)) != FCK_RUN_END && result >= 0)
		if (result == FCK_RUN_INTERFACE)
			fck_capfile_bind(file, 0);
	result = fck_capfile_report(file).state == FCK_FILE_WHOLE ? result : -1;
	fck_capfile_close(file);
	return result == FCK_RUN_END ? EXIT_SUCCESS : EXIT_FAILURE;
}
