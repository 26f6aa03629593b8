// SPDX-License-Identifier: Apache-2.0
// The mirror block in a small forwarding program, for Tofino (TNA).
//
// A copy is made by the deparsers: of the packet as received (ingress), or as sent (egress). fc_bridge_t goes before every
// packet from ingress to egress, fc_travel_t before every copy; both are taken off there.
#include <core.p4>
#include <tna.p4>

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

parser IngressParse(packet_in packet, out fc_ingress_headers_t hdr, out fc_ingress_meta_t meta,
                    out ingress_intrinsic_metadata_t intrinsic) {
    FcParser() parse;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta.kind = FC_KIND_COPY;
        parse.apply(packet, hdr.packet, meta.facts);
        transition accept;
    }
}

control FcIngress(inout fc_ingress_headers_t hdr, inout fc_ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    FcSerial() serial;
    FcIngressMirror() mirror;

    @name(".fc.to_port")
    action to_port(fc_port_t port) {
        for_tm.ucast_egress_port = port;
    }

    @name(".fc.to_group")
    action to_group(bit<16> group) {
        for_tm.mcast_grp_a = group;
    }

    @name(".fc.drop")
    action drop() {
        for_deparser.drop_ctl = 1;
    }

    @name(".fc.forward")
    table forward {
        key = {
            intrinsic.ingress_port: ternary @name("port");
            hdr.packet.ethernet.dst: ternary @name("ether_dst");
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
        mirror.apply(intrinsic.ingress_port, intrinsic.ingress_mac_tstamp, meta.facts, meta.view, meta.copy,
                     meta.travel_session);
        if (meta.copy.wanted == 1) {
            for_deparser.mirror_type = FC_MIRROR_INGRESS;
        }
        hdr.bridge.setValid();
        hdr.bridge.kind = FC_KIND_PACKET;
        hdr.bridge.verdict = meta.view.verdict;
        hdr.bridge.message = meta.view.message;
        hdr.bridge.timestamp = intrinsic.ingress_mac_tstamp;
        forward.apply();
    }
}

control IngressDeparse(packet_out packet, inout fc_ingress_headers_t hdr, in fc_ingress_meta_t meta,
                       in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Mirror() mirror;

    apply {
        if (for_deparser.mirror_type == FC_MIRROR_INGRESS) {
            mirror.emit<fc_travel_t>(meta.copy.session, {meta.kind, meta.copy.verdict, meta.travel_session,
                                                         meta.copy.point, meta.copy.message, meta.copy.timestamp});
        }
        packet.emit(hdr.bridge);
        packet.emit(hdr.packet);
    }
}

parser EgressParse(packet_in packet, out fc_headers_t hdr, out fc_egress_meta_t meta,
                   out egress_intrinsic_metadata_t intrinsic) {
    FcParser() parse;

    state start {
        packet.extract(intrinsic);
        transition select(packet.lookahead<bit<8>>()) {
            FC_KIND_COPY: parse_copy;
            default: parse_packet;
        }
    }

    state parse_copy {
        packet.extract(meta.travel);
        meta.is_copy = 1;
        transition accept;
    }

    state parse_packet {
        packet.extract(meta.bridge);
        meta.is_copy = 0;
        meta.kind = FC_KIND_COPY;
        parse.apply(packet, hdr, meta.facts);
        transition accept;
    }
}

control FcEgress(inout fc_headers_t hdr, inout fc_egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    FcEgressMirror() mirror;
    FcCopy() copy;

    apply {
        if (meta.is_copy == 1) {
            copy.apply(hdr, intrinsic.egress_port, meta.travel);
        } else {
            meta.view.verdict = meta.bridge.verdict;
            meta.view.message = meta.bridge.message;
            mirror.apply(intrinsic.egress_port, meta.bridge.timestamp, meta.facts, meta.view, meta.copy,
                         meta.travel_session);
            if (meta.copy.wanted == 1) {
                for_deparser.mirror_type = FC_MIRROR_EGRESS;
            }
        }
    }
}

control EgressDeparse(packet_out packet, inout fc_headers_t hdr, in fc_egress_meta_t meta,
                      in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Mirror() mirror;

    apply {
        if (for_deparser.mirror_type == FC_MIRROR_EGRESS) {
            mirror.emit<fc_travel_t>(meta.copy.session, {meta.kind, meta.copy.verdict, meta.travel_session,
                                                         meta.copy.point, meta.copy.message, meta.copy.timestamp});
        }
        packet.emit(hdr);
    }
}

Pipeline(IngressParse(), FcIngress(), IngressDeparse(), EgressParse(), FcEgress(), EgressDeparse()) pipe;

Switch(pipe) main;
