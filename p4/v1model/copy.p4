// SPDX-License-Identifier: Apache-2.0
// What happens to a copy on its way out: it is counted, and gets the mirror header where the plan says so.
#ifndef FC_V1_COPY_P4
#define FC_V1_COPY_P4

control FcCopy(inout fc_headers_t hdr, in fc_port_t egress_port, in fc_copy_t copy) {
    @name(".fc.sequence") register<bit<32>>(FC_PORTS) sequences;
    @name(".fc.sent_copies") counter(FC_SESSIONS, CounterType.packets_and_bytes) sent;

    bit<32> job;
    bit<16> number;

    @name(".fc.describe")
    action describe(bit<32> job_tag, bit<16> session_number) {
        job = job_tag;
        number = session_number;
    }

    @name(".fc.sessions")
    table sessions {
        key = {
            copy.session: exact @name("session");
        }
        actions = {
            describe;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = FC_SESSIONS;
    }

    @name(".fc.with_header")
    action with_header(bit<48> dst_mac, bit<48> src_mac, bit<16> switch_id) {
        bit<32> sequence;
        sequences.read(sequence, (bit<32>)egress_port);
        sequence = sequence + 1;
        sequences.write((bit<32>)egress_port, sequence);
        hdr.outer.setValid();
        hdr.outer = {dst_mac, src_mac, ETHERTYPE_FC};
        hdr.mirror.setValid();
        hdr.mirror = {FC_HEADER_VERSION, copy.verdict, switch_id, number, copy.point, job, sequence, copy.message,
                      copy.timestamp};
    }

    @name(".fc.monitor_ports")
    table monitor_ports {
        key = {
            egress_port: exact @name("port");
        }
        actions = {
            with_header;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = FC_MONITOR_PORTS;
    }

    apply {
        job = 0;
        number = 0;
        sessions.apply();
        sent.count((bit<32>)copy.session);
        monitor_ports.apply();
    }
}

#endif
