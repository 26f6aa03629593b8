// SPDX-License-Identifier: Apache-2.0
// Is it an RDMA write or send of a reliable or unreliable connection, and does it end a message that NCCL counts?
#ifndef FC_OPCODE_P4
#define FC_OPCODE_P4

control FcOpcode(in fc_facts_t facts, out bit<1> request, out bit<1> end) {
    @hidden
    action other() {
        request = 0;
        end = 0;
    }

    @hidden
    action part() {
        request = 1;
        end = 0;
    }

    @hidden
    action message_end() {
        request = 1;
        end = 1;
    }

    @hidden
    table opcodes {
        key = {
            facts.roce: exact;
            facts.opcode: ternary;
        }
        actions = {
            other;
            part;
            message_end;
        }
        const default_action = other();
        const entries = {
            // transport 000 reliable, 001 unreliable connection; 9 and 11: write last and write only with immediate
            (1, 8w0b00001001 &&& 8w0b11011101): message_end();
            (1, 8w0b00000000 &&& 8w0b11011000): part();
            (1, 8w0b00001000 &&& 8w0b11011100): part();
        }
    }

    apply {
        opcodes.apply();
    }
}

#endif
