// SPDX-License-Identifier: Apache-2.0
// What travels between the pipes of Tofino: before each packet from ingress to egress, and before each copy.
#ifndef FC_TNA_META_P4
#define FC_TNA_META_P4

const bit<8> FC_KIND_PACKET = 1;
const bit<8> FC_KIND_COPY = 2;

const bit<3> FC_MIRROR_INGRESS = 1;  // mirror types
const bit<3> FC_MIRROR_EGRESS = 2;

header fc_bridge_t {
    bit<8> kind;
    bit<8> verdict;
    bit<16> message;
    bit<48> timestamp;
}

header fc_travel_t {
    bit<8> kind;
    bit<8> verdict;
    bit<16> session;
    bit<16> point;
    bit<16> message;
    bit<48> timestamp;
}

struct fc_ingress_headers_t {
    fc_bridge_t bridge;
    fc_headers_t packet;
}

struct fc_ingress_meta_t {
    fc_facts_t facts;
    fc_view_t view;
    fc_copy_t copy;
    bit<8> kind;               // goes before a copy
    bit<16> travel_session;    // copy.session in the width that travels
}

struct fc_egress_meta_t {
    fc_bridge_t bridge;
    fc_facts_t facts;
    fc_view_t view;
    fc_copy_t copy;
    fc_travel_t travel;
    bit<8> kind;
    bit<16> travel_session;
    bit<1> is_copy;
}

#endif
