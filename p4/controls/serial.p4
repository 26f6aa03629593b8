// SPDX-License-Identifier: Apache-2.0
// First of all in the ingress: the PSN moves to the top of its 32 bits, so that it can be compared as a serial number.
// Tofino's parser cannot shift.
#ifndef FC_SERIAL_P4
#define FC_SERIAL_P4

control FcSerial(inout fc_facts_t facts) {
    apply {
        facts.psn8 = facts.psn8 << 8;
    }
}

#endif
