// SPDX-License-Identifier: Apache-2.0
// The mirror block in a small forwarding program, for BMv2 simple_switch.
//
// To use the block in a program of your own: parse with FcParser (or fill fc_facts_t yourself), call FcSerial, FcFollow and
// FcIngressMirror once in the ingress, FcEgressMirror for packets and FcCopy for copies in the egress, and emit
// hdr.outer and hdr.mirror first.
#include <core.p4>
#include <v1model.p4>

#include "../common/sizes.p4"
#include "../common/ids.p4"
#include "../common/types.p4"
#include "../common/headers.p4"
#include "../common/parser.p4"
#include "../controls/serial.p4"
#include "../controls/opcode.p4"
#include "../controls/place.p4"
#include "../controls/judge.p4"
#include "../controls/decide.p4"
#include "meta.p4"
#include "follow.p4"
#include "ingress_mirror.p4"
#include "egress_mirror.p4"
#include "copy.p4"
#include "loss.p4"

// simple_switch: what standard_metadata.instance_type says of a packet in the egress
const bit<32> INGRESS_CLONE = 1;
const bit<32> EGRESS_CLONE = 2;

parser Parse(packet_in packet, out fc_headers_t hdr, inout fc_meta_t meta, inout standard_metadata_t standard) {
    FcParser() parse;

    state start {
        parse.apply(packet, hdr, meta.facts);
        transition accept;
    }
}

control Verify(inout fc_headers_t hdr, inout fc_meta_t meta) {
    apply {}
}

control FcIngress(inout fc_headers_t hdr, inout fc_meta_t meta, inout standard_metadata_t standard) {
    FcSerial() serial;
    FcLoss() loss;
    FcFollow() follow;
    FcIngressMirror() mirror;
    bit<1> lost_before;
    bit<1> lost_after;

    @name(".fc.to_port")
    action to_port(fc_port_t port) {
        standard.egress_spec = port;
    }

    @name(".fc.to_group")
    action to_group(bit<16> group) {
        standard.mcast_grp = group;
    }

    @name(".fc.drop")
    action drop() {
        mark_to_drop(standard);
    }

    @name(".fc.forward")
    table forward {
        key = {
            standard.ingress_port: ternary @name("port");
            hdr.ethernet.dst: ternary @name("ether_dst");
        }
        actions = {
            to_port;
            to_group;
            drop;
        }
        default_action = drop();
        size = FC_STATIONS;
    }

    apply {
        serial.apply(meta.facts);
        loss.apply(standard.ingress_port, meta.facts, lost_before, lost_after, meta.copy.lost);
        if (lost_before == 1) {
            mark_to_drop(standard);
            exit;
        }
        follow.apply(meta.facts, standard.ingress_global_timestamp, meta.view);
        mirror.apply(standard.ingress_port, standard.ingress_global_timestamp, meta.facts, meta.view, meta.copy);
        forward.apply();
        if (lost_after == 1) {
            mark_to_drop(standard);
        }
    }
}

control FcEgress(inout fc_headers_t hdr, inout fc_meta_t meta, inout standard_metadata_t standard) {
    FcEgressMirror() mirror;
    FcCopy() copy;

    apply {
        if (standard.instance_type == INGRESS_CLONE || standard.instance_type == EGRESS_CLONE) {
            copy.apply(hdr, standard.egress_port, meta.copy);
            if (meta.copy.lost == 1) {
                mark_to_drop(standard);
            }
        } else {
            mirror.apply(standard.egress_port, meta.facts, meta.view, meta.copy);
        }
    }
}

control Compute(inout fc_headers_t hdr, inout fc_meta_t meta) {
    apply {}
}

V1Switch(Parse(), Verify(), FcIngress(), FcEgress(), Compute(), FcDeparser()) main;
