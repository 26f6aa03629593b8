// SPDX-License-Identifier: Apache-2.0
//
// The names of all counters, as they stand in the records.
#include <stddef.h>

#include "fck.h"

static const char *const frame_names[FCK_FRAME_KINDS] = {
	[FCK_FRAME_ROCEV2] = "rocev2",
	[FCK_FRAME_TRIMMED] = "trimmed",
	[FCK_FRAME_ROCEV1] = "rocev1",
	[FCK_FRAME_UET] = "uet",
	[FCK_FRAME_ARP] = "arp",
	[FCK_FRAME_PTP] = "ptp",
	[FCK_FRAME_LLDP] = "lldp",
	[FCK_FRAME_LLC] = "llc",
	[FCK_FRAME_IPV4_FRAGMENT] = "ipv4_fragment",
	[FCK_FRAME_IPV6_FRAGMENT] = "ipv6_fragment",
	[FCK_FRAME_ICMP] = "icmp",
	[FCK_FRAME_ICMPV6] = "icmpv6",
	[FCK_FRAME_TCP] = "tcp",
	[FCK_FRAME_UDP_OTHER] = "udp_other",
	[FCK_FRAME_GRE] = "gre_other",
	[FCK_FRAME_IP_OTHER] = "ip_other",
	[FCK_FRAME_ETHERTYPE_OTHER] = "other_ethertype",
	[FCK_FRAME_LINK_TYPE_UNSUPPORTED] = "link_type_unsupported",
	[FCK_FRAME_MALFORMED_ETHERNET] = "malformed_ethernet",
	[FCK_FRAME_MALFORMED_IP] = "malformed_ip",
	[FCK_FRAME_MALFORMED_UDP] = "malformed_udp",
	[FCK_FRAME_MALFORMED_TUNNEL] = "malformed_tunnel",
	[FCK_FRAME_MALFORMED_BTH] = "malformed_bth",
	[FCK_FRAME_TRUNCATED_ETHERNET] = "truncated_ethernet",
	[FCK_FRAME_TRUNCATED_IP] = "truncated_ip",
	[FCK_FRAME_TRUNCATED_UDP] = "truncated_udp",
	[FCK_FRAME_TRUNCATED_TUNNEL] = "truncated_tunnel",
	[FCK_FRAME_TRUNCATED_BTH] = "truncated_bth",
};

static const char *const attribute_names[FCK_ATTRIBUTES] = {
	[FCK_ATTRIBUTE_ETHERNET_BROADCAST] = "ethernet_broadcast",
	[FCK_ATTRIBUTE_ETHERNET_MULTICAST] = "ethernet_multicast",
	[FCK_ATTRIBUTE_VLAN] = "vlan",
	[FCK_ATTRIBUTE_VLAN_STACKED] = "vlan_stacked",
	[FCK_ATTRIBUTE_TRUNCATED] = "truncated",
	[FCK_ATTRIBUTE_ECN_CE] = "ecn_ce",
	[FCK_ATTRIBUTE_FLOW_REFUSED] = "flow_refused",
	[FCK_ATTRIBUTE_ENCAPSULATED_GRE] = "encapsulated_gre",
	[FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN1] = "encapsulated_erspan1",
	[FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN2] = "encapsulated_erspan2",
	[FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN3] = "encapsulated_erspan3",
	[FCK_ATTRIBUTE_ENCAPSULATED_VXLAN] = "encapsulated_vxlan",
	[FCK_ATTRIBUTE_ENCAPSULATED_TOO_DEEP] = "encapsulated_too_deep",
	[FCK_ATTRIBUTE_ERSPAN_TRUNCATED] = "erspan_truncated",
	[FCK_ATTRIBUTE_ERSPAN_BAD_FRAME] = "erspan_bad_frame",
	[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS] = "erspan_sequence_gaps",
	[FCK_ATTRIBUTE_TUNNEL_REFUSED] = "tunnel_refused",
	[FCK_ATTRIBUTE_ICRC_VALID] = "icrc_valid",
	[FCK_ATTRIBUTE_ICRC_BAD] = "icrc_bad",
	[FCK_ATTRIBUTE_ICRC_UNCHECKED] = "icrc_unchecked",
};

static const char *const class_names[FCK_CLASSES] = {
	[FCK_CLASS_WRITE] = "write",
	[FCK_CLASS_CLEAR_TO_SEND] = "clear_to_send",
	[FCK_CLASS_SEND] = "send",
	[FCK_CLASS_READ_REQUEST] = "read_request",
	[FCK_CLASS_READ_RESPONSE] = "read_response",
	[FCK_CLASS_ATOMIC] = "atomic",
	[FCK_CLASS_ATOMIC_ACK] = "atomic_ack",
	[FCK_CLASS_ACK] = "ack",
	[FCK_CLASS_NAK] = "nak",
	[FCK_CLASS_RNR_NAK] = "rnr_nak",
	[FCK_CLASS_CNP] = "cnp",
	[FCK_CLASS_SETUP] = "setup",
	[FCK_CLASS_DATAGRAM] = "datagram",
	[FCK_CLASS_UNSUPPORTED] = "unsupported",
};

static const char *const cause_names[] = {
	[FCK_CAUSE_LOST] = "lost",
	[FCK_CAUSE_CAPTURE_START] = "capture_start",
	[FCK_CAUSE_CAPTURE_END] = "capture_end",
};

static const char *const tunnel_names[FCK_TUNNEL_KINDS] = {
	[FCK_TUNNEL_GRE] = "gre",
	[FCK_TUNNEL_ERSPAN1] = "erspan1",
	[FCK_TUNNEL_ERSPAN2] = "erspan2",
	[FCK_TUNNEL_ERSPAN3] = "erspan3",
	[FCK_TUNNEL_VXLAN] = "vxlan",
};

const char *fck_frame_name(uint32_t kind)
{
	return kind < FCK_FRAME_KINDS ? frame_names[kind] : NULL;
}

const char *fck_attribute_name(uint32_t attribute)
{
	return attribute < FCK_ATTRIBUTES ? attribute_names[attribute] : NULL;
}

const char *fck_class_name(uint32_t packet_class)
{
	return packet_class < FCK_CLASSES ? class_names[packet_class] : NULL;
}

const char *fck_cause_name(uint32_t cause)
{
	return cause < sizeof(cause_names) / sizeof(cause_names[0]) ? cause_names[cause] : NULL;
}

const char *fck_tunnel_name(uint32_t kind)
{
	return kind < FCK_TUNNEL_KINDS ? tunnel_names[kind] : NULL;
}
