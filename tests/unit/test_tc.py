"""tc without a kernel: references, filters of classifiers that the kernel of the tests may lack, cookies, restarts."""

import json
from collections.abc import Sequence

import pytest

from flowcheck_net.drivers.registry import known_drivers
from flowcheck_net.drivers.tc import TcDriver, open_tc
from flowcheck_net.drivers.tc_change import kinds_for, lines_to_add
from flowcheck_net.drivers.tc_filters import Machine, documents, filters_from, links_from
from flowcheck_net.drivers.tc_match import Instruction, Unknown, match_of, program, words_for
from flowcheck_net.drivers.tc_shell import LocalShell, SshShell, shell_of
from flowcheck_net.errors import DriverError
from flowcheck_net.ids import Address, PortName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, SwitchAddress
from flowcheck_net.model.platforms import capabilities
from tests.doubles.ovs_lab import frame
from tests.doubles.switches import session as named

FOUR = FlowFilter(Address("10.0.0.1"), Address("10.0.0.2"))
SIX = FlowFilter(Address("fd77::1"), Address("fd77::2"))


def test_the_driver_is_known():
    assert "tc" in known_drivers()


@pytest.mark.parametrize("text", ["tc:local", "tc:netns:leaf1", "tc:netns:/proc/1/ns/net"])
def test_references_to_this_machine(text: str):
    assert isinstance(shell_of(text), LocalShell)


@pytest.mark.parametrize(
    "text", ["tc:ssh:leaf1", "tc:ssh:leaf1.example.net:2222", "tc:ssh:[fd00::1]:22", "tc:ssh:192.0.2.1"]
)
def test_references_to_another_machine(text: str):
    assert isinstance(shell_of(text), SshShell)


@pytest.mark.parametrize(
    "text",
    [
        "tc:",
        "tc:leaf1",
        "tc:netns:",
        "tc:netns:a b",
        "tc:ssh:",
        "tc:ssh:leaf1?password=x",
        "tc:ssh:leaf1:0",
        "tc:ssh:a:99999",
    ],
)
def test_what_names_no_machine_is_refused(tmp_path, text: str):
    with pytest.raises(DriverError, match="tc:local, tc:netns:NAME or tc:ssh"):
        open_tc(SwitchAddress(SwitchName("leaf1"), "linux", text), "gpt", tmp_path)


def run_bpf(code: Sequence[Instruction], data: bytes) -> int:
    """Classic BPF, as the manual page bpf(4) has it: an interpreter of the tests' own."""
    accumulator = index = at = 0
    while True:
        op, yes, no, k = code[at]
        at += 1
        if op == 0x06:
            return k
        if op in (0x20, 0x28, 0x30, 0x48):
            size = {0x20: 4, 0x28: 2, 0x30: 1, 0x48: 2}[op]
            start = k + (index if op == 0x48 else 0)
            if start + size > len(data):
                return 0
            accumulator = int.from_bytes(data[start : start + size], "big")
        elif op == 0xB1:
            index = 4 * (data[k] & 15)
        elif op in (0x15, 0x45):
            at += yes if (accumulator == k if op == 0x15 else accumulator & k) else no
        else:
            raise AssertionError(hex(op))


@pytest.mark.parametrize(("mine", "other"), [(FOUR, SIX), (SIX, FOUR)])
def test_the_program_of_a_pair_chooses_it_and_no_other(mine: FlowFilter, other: FlowFilter):
    code = program(mine)
    back = FlowFilter(mine.destination, mine.source)
    assert [bool(run_bpf(code, frame(1, pair))) for pair in (mine, other, back, None)] == [True, False, False, False]
    assert not run_bpf(code, frame(1, mine)[:36])
    assert max(max(yes, no) for _, yes, no, _ in code) < 256


@pytest.mark.parametrize("pair", [FOUR, SIX])
def test_a_program_is_read_back_and_an_altered_one_is_not_ours(pair: FlowFilter):
    rows = [dict(zip(("code", "jt", "jf", "k"), i, strict=True)) for i in program(pair)]
    assert match_of("bpf", {"bytecode": {"insns": rows}}) == pair
    for place in range(len(rows)):
        altered = [dict(r, k=r["k"] ^ 1) if n == place else r for n, r in enumerate(rows)]
        assert isinstance(match_of("bpf", {"bytecode": {"insns": altered}}), Unknown), place


def test_flower_and_matchall_are_written_and_read_as_iproute2_does():
    """Layout: iproute2 tc/f_flower.c and tc/f_matchall.c; this kernel has neither."""
    words = ["handle", "1", "flower", "ip_proto", "udp", "src_ip", "fd77::1", "dst_ip", "fd77::2", "dst_port", "4791"]
    assert words_for("flower", SIX) == words
    keys = {"eth_type": "ipv6", "ip_proto": "udp", "dst_ip": "fd77::2", "src_ip": "fd77::1", "dst_port": 4791}
    assert match_of("flower", {"handle": 1, "keys": keys}) == SIX
    for more in ({"src_port": 5}, {"dst_port": 80}, {"src_ip": "fd77::/64"}, {"vlan_id": 7}):
        assert isinstance(match_of("flower", {"keys": keys | more}), Unknown)
    assert words_for("matchall", None) == ["handle", "1", "matchall"]
    assert match_of("matchall", {"handle": 1, "in_hw": True}) is None


def test_ports_of_a_switch_chip_take_filters_that_it_can_carry_out():
    rows = [{"ifname": n, "phys_switch_id": "248a07"} for n in ("swp1", "swp2")]
    machine = Machine(links_from(rows), {}, (), (), "")
    assert kinds_for(named("fcn-gpt-0", "swp1:rx", to="swp2"), machine) == ("matchall",)
    filtered = named("fcn-gpt-0", "swp1:rx", to="swp2", filters=[("10.0.0.1", "10.0.0.2")])
    assert kinds_for(filtered, machine) == ("flower",)
    assert lines_to_add(filtered, machine, "gpt", "flower")[1].startswith(
        "filter add dev swp1 ingress protocol ip pref 4096 handle 1 flower ip_proto udp src_ip 10.0.0.1"
    )


def test_a_filter_of_another_form_is_not_taken_for_a_plain_copy():
    """A cookie of ours on an action that redirects, or that ends the packet's way."""
    action = {"kind": "mirred", "mirred_action": "redirect", "direction": "egress", "to_dev": "mon1"}
    for changed in (action, action | {"mirred_action": "mirror"}):
        row = {"protocol": "all", "pref": 4096, "kind": "matchall", "options": {"handle": 1, "actions": [changed]}}
        (found,) = filters_from([row], PortName("eth1"), Direction.RX)
        assert not found.copies
        assert found.mirrors_to == "mon1"


def test_documents_keeps_every_key_of_u32():
    text = '[{"match":{"off":0},"match":{"off":4}}]\n[]\n'
    assert documents(text) == [[{"match": [{"off": 0}, {"off": 4}]}], []]
    with pytest.raises(ValueError, match="Expecting value"):
        documents("[] Error")


class Booted:
    """A machine without links."""

    def __init__(self, boot: str) -> None:
        self.boot = boot

    def open(self) -> None: ...

    def close(self) -> None: ...

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        del stdin
        return self.boot + "\n" if words[0] == "cat" else json.dumps([])


def test_a_restart_changes_the_mark():
    where = SwitchAddress(SwitchName("leaf1"), "linux", "tc:local")
    marks = []
    for boot in ("one", "one", "two"):
        with TcDriver(where, "gpt", capabilities("linux"), Booted(boot)) as driver:
            marks.append(driver.read().restart_mark)
    assert marks == ["one", "one", "two"]
