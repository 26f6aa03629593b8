// SPDX-License-Identifier: Apache-2.0
#include "steer.h"

#include <errno.h>
#include <rte_flow.h>
#include <rte_version.h>

const char *steer_name(enum config_spread spread)
{
	static const char *const names[] = {"one", "rules", "rss", "software"};

	return names[spread];
}

void steer_configure(enum config_spread spread, struct rte_eth_conf *conf)
{
	if (spread != SPREAD_RSS)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP;
}

// DPDK knows the header of RoCEv2 in rules since 23.07. No device here can be asked: this was compiled against 24.11 only.
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)

#define ROCEV2_PORT 4791
#define GROUP 1 // mlx5 does not look at this header in the first group
#define SHARES 4 // values for each queue at least, so that queues get nearly the same whatever their number

typedef int rule_fn(
	uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item *items, const struct rte_flow_action *actions
);

static int make_rule(
	uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item *items, const struct rte_flow_action *actions
)
{
	struct rte_flow_error error;

	return rte_flow_create(port, attr, items, actions, &error) == NULL ? -rte_errno : 0;
}

static int try_rule(
	uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item *items, const struct rte_flow_action *actions
)
{
	struct rte_flow_error error;

	return rte_flow_validate(port, attr, items, actions, &error);
}

// Queue pairs whose lowest bits have this value, over one family of IP, to a queue.
static int pairs_to_queue(rule_fn *act, uint16_t port, enum rte_flow_item_type ip, uint32_t value, uint32_t mask, uint16_t queue)
{
	const struct rte_flow_attr attr = {.group = GROUP, .ingress = 1};
	const struct rte_flow_item_udp udp = {.hdr.dst_port = RTE_BE16(ROCEV2_PORT)}, udp_mask = {.hdr.dst_port = RTE_BE16(0xffff)};
	const struct rte_flow_item_ib_bth bth = {.hdr.dst_qp = {0, (uint8_t)(value >> 8), (uint8_t)value}};
	const struct rte_flow_item_ib_bth bth_mask = {.hdr.dst_qp = {0, (uint8_t)(mask >> 8), (uint8_t)mask}};
	const struct rte_flow_action_queue to = {.index = queue};
	const struct rte_flow_item items[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = ip},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask},
		{.type = RTE_FLOW_ITEM_TYPE_IB_BTH, .spec = &bth, .mask = &bth_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};

	return act(port, &attr, items, actions);
}

// Everything of a group: on to the next one, or, where no rule fits, to the first queue.
static int everything(rule_fn *act, uint16_t port, uint32_t group)
{
	const struct rte_flow_attr attr = {.group = group, .priority = group, .ingress = 1};
	const struct rte_flow_action_jump jump = {.group = GROUP};
	const struct rte_flow_action_queue to = {.index = 0};
	const struct rte_flow_item items[] = {{.type = RTE_FLOW_ITEM_TYPE_ETH}, {.type = RTE_FLOW_ITEM_TYPE_END}};
	const struct rte_flow_action actions[] = {
		group == 0 ? (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_JUMP, .conf = &jump}
			   : (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};

	return act(port, &attr, items, actions);
}

static int all_rules(rule_fn *act, uint16_t port, uint16_t queues)
{
	uint32_t values = rte_align32pow2((uint32_t)SHARES * queues);
	int rc = everything(act, port, GROUP);

	for (uint32_t value = 0; rc == 0 && value < values; value++) {
		uint16_t queue = (uint16_t)(value % queues);

		rc = pairs_to_queue(act, port, RTE_FLOW_ITEM_TYPE_IPV4, value, values - 1, queue);
		if (rc == 0)
			rc = pairs_to_queue(act, port, RTE_FLOW_ITEM_TYPE_IPV6, value, values - 1, queue);
	}
	return rc == 0 ? everything(act, port, 0) : rc;
}

static int try_rules(uint16_t port, uint16_t queues)
{
	return pairs_to_queue(try_rule, port, RTE_FLOW_ITEM_TYPE_IPV4, 0, 1, (uint16_t)(queues - 1));
}

static int begin_rules(uint16_t port, uint16_t queues)
{
	return all_rules(make_rule, port, queues);
}

#else

static int try_rules(uint16_t port __rte_unused, uint16_t queues __rte_unused)
{
	return -ENOTSUP;
}

static int begin_rules(uint16_t port __rte_unused, uint16_t queues __rte_unused)
{
	return -ENOTSUP;
}

#endif

// RSS by addresses alone: a flow must not come to two workers, and the UDP source port of a queue pair may change.
int steer_try(enum config_spread spread, uint16_t port, uint16_t queues, const struct rte_eth_dev_info *info)
{
	if (spread == SPREAD_RULES)
		return try_rules(port, queues);
	if (spread == SPREAD_RSS && (info->flow_type_rss_offloads & RTE_ETH_RSS_IP) != RTE_ETH_RSS_IP)
		return -ENOTSUP;
	return 0;
}

int steer_begin(enum config_spread spread, uint16_t port, uint16_t queues)
{
	return spread == SPREAD_RULES ? begin_rules(port, queues) : 0;
}
