// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fck_board.h"

static int set_text(char *target, const char *value)
{
	if (strlen(value) >= CONFIG_TEXT || value[0] == '\0')
		return -EINVAL;
	strcpy(target, value);
	return 0;
}

static int set_number(uint32_t *target, const char *value, uint32_t most)
{
	char *end;
	unsigned long number = strtoul(value, &end, 10);

	if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > most)
		return -EINVAL;
	*target = (uint32_t)number;
	return 0;
}

static int add_eal(struct config *config, const char *value)
{
	if (config->eal_count + 1 >= CONFIG_EAL) // the last stays NULL
		return -EINVAL;
	config->eal[config->eal_count] = strdup(value);
	if (config->eal[config->eal_count] == NULL)
		return -ENOMEM;
	config->eal_count++;
	return 0;
}

static int add_copy(struct config *config, const char *value)
{
	if (config->copy_count == CONFIG_COPIES)
		return -EINVAL;
	config->copies[config->copy_count] = strdup(value);
	if (config->copies[config->copy_count] == NULL)
		return -ENOMEM;
	config->copy_count++;
	return 0;
}

static int set_place(struct config *config, const char *key, const char *value)
{
	if (strcmp(key, "place") == 0)
		return set_text(config->place, value);
	if (strcmp(key, "place_memory") == 0)
		return set_text(config->place_memory, value);
	if (strcmp(key, "place_slots") == 0)
		return set_number(&config->place_slots, value, FCK_BOARD_SLOTS);
	if (strcmp(key, "place_close_ms") == 0)
		return set_number(&config->place_close_ms, value, 3600000);
	return -EINVAL;
}

static int add_gre_type(struct config *config, const char *value)
{
	uint32_t number;

	if (set_number(&number, value, UINT16_MAX) != 0)
		return -EINVAL;
	for (uint32_t i = 0; i < FCK_GRE_TYPES; i++)
		if (config->core.gre_types[i] == 0) {
			config->core.gre_types[i] = (uint16_t)number;
			return 0;
		}
	return -EINVAL;
}

static int add_port(struct config *config, const char *value)
{
	struct config_port *port = &config->ports[config->port_count];

	if (config->port_count == CONFIG_PORTS)
		return -EINVAL;
	config->port_count++;
	*port = (struct config_port){.workers = 1, .tunnelled = 1, .mtu = 1500, .descriptors = 1024, .sleep_us = CONFIG_SLEEP_AUTO};
	return set_text(port->name, value);
}

// Keys of the port that was named last.
static int set_port(struct config *config, const char *key, const char *value)
{
	struct config_port *port;

	if (config->port_count == 0)
		return -EINVAL;
	port = &config->ports[config->port_count - 1];
	if (strcmp(key, "device") == 0)
		return set_text(port->device, value);
	if (strcmp(key, "interface") == 0)
		return set_text(port->interface, value);
	if (strcmp(key, "workers") == 0)
		return value[0] == '0' ? -EINVAL : set_number(&port->workers, value, CONFIG_WORKERS);
	if (strcmp(key, "spread") == 0)
		return set_number(&port->spread, value, SPREAD_SOFTWARE);
	if (strcmp(key, "tunnelled") == 0)
		return set_number(&port->tunnelled, value, 1);
	if (strcmp(key, "mtu") == 0)
		return set_number(&port->mtu, value, UINT16_MAX);
	if (strcmp(key, "descriptors") == 0)
		return set_number(&port->descriptors, value, UINT16_MAX);
	if (strcmp(key, "copiers") == 0)
		return set_number(&port->copiers, value, CONFIG_WORKERS);
	if (strcmp(key, "mbufs") == 0)
		return set_number(&port->mbufs, value, 1u << 24);
	if (strcmp(key, "ring") == 0)
		return set_number(&port->ring, value, UINT32_MAX);
	if (strcmp(key, "mbps") == 0)
		return set_number(&port->mbps, value, UINT32_MAX);
	if (strcmp(key, "sleep_us") == 0)
		return set_number(&port->sleep_us, value, 1000000);
	if (strcmp(key, "loss") == 0)
		return set_number(&port->loss, value, LOSS_PACKET);
	return -EINVAL;
}

static int set_pcapng(struct config *config, const char *key, const char *value)
{
	if (key[0] == '\0')
		return set_text(config->pcapng, value);
	if (strcmp(key, "_first") == 0)
		return set_number(&config->pcapng_first, value, UINT32_MAX);
	if (strcmp(key, "_mb") == 0)
		return set_number(&config->pcapng_mb, value, UINT32_MAX);
	if (strcmp(key, "_files") == 0)
		return set_number(&config->pcapng_files, value, UINT32_MAX);
	return -EINVAL;
}

static int set(struct config *config, const char *key, const char *value)
{
	uint32_t number = 0;
	int rc;

	if (strcmp(key, "spool") == 0)
		return set_text(config->spool, value);
	if (strncmp(key, "pcapng", 6) == 0)
		return set_pcapng(config, key + 6, value);
	if (strcmp(key, "eal") == 0)
		return add_eal(config, value);
	if (strcmp(key, "copy") == 0)
		return add_copy(config, value);
	if (strncmp(key, "place", 5) == 0)
		return set_place(config, key, value);
	if (strcmp(key, "port") == 0)
		return add_port(config, value);
	if (strcmp(key, "interval_ms") == 0)
		return set_number(&config->interval_ms, value, 3600000);
	if (strcmp(key, "max_flows") == 0)
		return set_number(&config->core.max_flows, value, UINT32_MAX);
	if (strcmp(key, "gre_type") == 0)
		return add_gre_type(config, value);
	if (strcmp(key, "check_icrc") == 0 || strcmp(key, "trimmed_dscp") == 0) {
		bool dscp = key[0] == 't';

		rc = set_number(&number, value, dscp ? 63 : 1);
		*(dscp ? &config->core.trimmed_dscp : &config->core.check_icrc) = (uint8_t)number;
		return rc;
	}
	return set_port(config, key, value);
}

static int set_line(struct config *config, char *text)
{
	char *value = strchr(text, ' ');

	text[strcspn(text, "\n")] = '\0';
	if (value == NULL)
		return -EINVAL;
	*value++ = '\0';
	return set(config, text, value);
}

int config_read(const char *path, struct config *config, uint32_t *line)
{
	char text[2 * CONFIG_TEXT];
	FILE *file = fopen(path, "r");
	int rc;

	*config = (struct config){.interval_ms = 1000, .pcapng_first = 1, .place_slots = 3, .place_close_ms = 10000};
	*line = 0;
	if (file == NULL)
		return -errno;
	rc = add_eal(config, "flowcheck-receiver");
	while (rc == 0 && fgets(text, sizeof(text), file) != NULL) {
		++*line;
		rc = set_line(config, text);
	}
	if (rc == 0 && ferror(file))
		rc = -EIO;
	fclose(file);
	for (uint32_t i = 0; config->pcapng[0] != '\0' && i < config->port_count; i++)
		config->ports[i].held = CONFIG_HELD;
	if (rc == 0 && (config->port_count == 0 || config->spool[0] == '\0'))
		rc = -EINVAL;
	return rc;
}

void config_free(struct config *config)
{
	for (uint32_t i = 0; i < config->eal_count; i++)
		free(config->eal[i]);
	for (uint32_t i = 0; i < config->copy_count; i++)
		free(config->copies[i]);
}
