// SPDX-License-Identifier: Apache-2.0
// Test only: loses chosen packets. Of the packets that match a rule, those numbered `first` to `first + number` (without;
// counted from 0) are lost at the place named by `at`.
#ifndef FC_V1_LOSS_P4
#define FC_V1_LOSS_P4

control FcLoss(in fc_port_t ingress_port, in fc_facts_t facts, out bit<1> before, out bit<1> after, out bit<1> of_copy) {
    @name(".fc.loss_seen") register<bit<32>>(FC_LOSSES) seen;
    @name(".fc.lost") counter(FC_LOSSES, CounterType.packets) lost;

    @name(".fc.lose")
    action lose(bit<8> index, bit<2> at, bit<32> first, bit<32> number) {
        bit<32> mine;
        seen.read(mine, (bit<32>)index);
        seen.write((bit<32>)index, mine + 1);
        if (mine - first < number) {
            before = at == FC_LOSE_BEFORE ? 1w1 : 1w0;
            after = at == FC_LOSE_AFTER ? 1w1 : 1w0;
            of_copy = at == FC_LOSE_COPY ? 1w1 : 1w0;
            lost.count((bit<32>)index);
        }
    }

    @name(".fc.loss")
    table losses {
        key = {
            ingress_port: ternary @name("port");
            facts.dst: ternary @name("dst");
            facts.qp: ternary @name("qp");
            facts.opcode: ternary @name("opcode");
            facts.psn8: ternary @name("psn8");
        }
        actions = {
            lose;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = FC_LOSSES;
    }

    apply {
        before = 0;
        after = 0;
        of_copy = 0;
        losses.apply();
    }
}

#endif
