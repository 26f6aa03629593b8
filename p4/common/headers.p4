// SPDX-License-Identifier: Apache-2.0
// Ethernet to BTH, and the mirror header.
#ifndef FC_HEADERS_P4
#define FC_HEADERS_P4

header fc_ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header fc_vlan_t {
    bit<16> tag;
    bit<16> kind;
}

header fc_ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> dscp_ecn;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header fc_ipv6_t {
    bit<32> version_class_label;
    bit<16> length;
    bit<8> next;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header fc_udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

// Base transport header of RoCEv2. Acknowledge bit, reserved bits and PSN stay one field of 32 bits: shifted left by 8
// it is the PSN times 256, and the order of PSNs becomes the order of signed 32-bit numbers, wrap included.
header fc_bth_t {
    bit<8> opcode;
    bit<8> flags;
    bit<16> pkey;
    bit<8> congestion;
    bit<24> qp;
    bit<32> ack_psn;
}


// Before a copy, behind an Ethernet header of its own of type ETHERTYPE_FC. 24 bytes; format in p4/README.md.
header fc_mirror_t {
    bit<8> version;
    bit<8> verdict;
    bit<16> switch_id;
    bit<16> session;
    bit<16> point;
    bit<32> job;
    bit<32> sequence;
    bit<16> message;
    bit<48> timestamp;
}

struct fc_headers_t {
    fc_ethernet_t outer;
    fc_mirror_t mirror;
    fc_ethernet_t ethernet;
    fc_vlan_t vlan0;
    fc_vlan_t vlan1;
    fc_ipv4_t ipv4;
    fc_ipv6_t ipv6;
    fc_udp_t udp;
    fc_bth_t bth;
}

#endif
