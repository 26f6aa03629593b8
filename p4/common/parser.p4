// SPDX-License-Identifier: Apache-2.0
// One frame, to the BTH. IPv4 with options, IPv6 with extension headers, later fragments and a third VLAN tag end the
// parse early: such a packet has addresses at most, and is no RoCE packet to us.
#ifndef FC_PARSER_P4
#define FC_PARSER_P4

parser FcParser(packet_in packet, out fc_headers_t hdr, out fc_facts_t facts) {
    state start {
        facts = {0, 0, 0, 0, 0, 0, 0};
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_VLAN: parse_vlan0;
            ETHERTYPE_QINQ: parse_vlan0;
            default: accept;
        }
    }

    state parse_vlan0 {
        packet.extract(hdr.vlan0);
        transition select(hdr.vlan0.kind) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_VLAN: parse_vlan1;
            default: accept;
        }
    }

    state parse_vlan1 {
        packet.extract(hdr.vlan1);
        transition select(hdr.vlan1.kind) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        facts.src = 96w0xffff ++ hdr.ipv4.src;
        facts.dst = 96w0xffff ++ hdr.ipv4.dst;
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        facts.src = hdr.ipv6.src;
        facts.dst = hdr.ipv6.dst;
        transition select(hdr.ipv6.next) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        facts.udp_dst = hdr.udp.dst;
        transition select(hdr.udp.dst) {
            UDP_ROCE: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        facts.roce = 1;
        facts.qp = hdr.bth.qp;
        facts.opcode = hdr.bth.opcode;
        facts.psn8 = hdr.bth.ack_psn;
        transition accept;
    }
}

control FcDeparser(packet_out packet, in fc_headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

#endif
