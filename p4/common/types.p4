// SPDX-License-Identifier: Apache-2.0
// What the controls tell one another.
#ifndef FC_TYPES_P4
#define FC_TYPES_P4

typedef bit<9> fc_port_t;
typedef bit<10> fc_session_t;

// What the parser found. All zero where a header is absent.
struct fc_facts_t {
    bit<128> src;      // IPv4 as ::ffff:a.b.c.d
    bit<128> dst;
    bit<16> udp_dst;
    bit<24> qp;        // destination queue pair of a RoCEv2 packet
    bit<8> opcode;
    bit<32> psn8;      // PSN * 256, after FcSerial
    bit<1> roce;
}

// The flow entry of a packet.
struct fc_flow_t {
    bit<16> index;     // registers of this queue pair
    bit<32> epoch;
    bit<1> anchored;
    bit<32> anchor;    // PSN * 256
    bit<16> period;
    bit<16> low;
    bit<16> high;
}

// What following a packet's queue pair says of it.
struct fc_view_t {
    bit<8> verdict;
    bit<16> message;   // message ends counted before this packet, modulo the period
}

// What goes with a copy, from where it is asked for to where it is sent.
struct fc_copy_t {
    bit<1> wanted;
    bit<1> lost;       // a test rule loses it
    fc_session_t session;
    bit<16> point;
    bit<8> verdict;
    bit<16> message;
    bit<48> timestamp; // when the original entered the switch
}

#endif
