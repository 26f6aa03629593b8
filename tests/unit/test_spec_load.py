"""The three files together: forms, cross checks, places and fingerprints."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.spec.load import Specs, fingerprint, load_specs, spec_paths

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"
TWO = EXAMPLES / "two-host"


class Case:
    """A copy of an example with edits; ``lines`` are its problems without the directory."""

    def __init__(self, folder: Path, example: str = "two-host") -> None:
        self.folder = folder
        for path in spec_paths(EXAMPLES / example):
            (folder / path.name).write_text(path.read_text())

    def edit(self, kind: str, old: str, new: str) -> "Case":
        path = self.folder / f"{kind}.yaml"
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {kind}.yaml"
        path.write_text(text.replace(old, new))
        return self

    def load(self) -> Specs:
        return load_specs(*spec_paths(self.folder))

    def lines(self) -> list[str]:
        with pytest.raises(SpecError) as caught:
            self.load()
        return [str(problem).removeprefix(f"{self.folder}/") for problem in caught.value.problems]


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


@pytest.fixture
def four(tmp_path):
    return Case(tmp_path, "four-host")


@pytest.mark.parametrize("name", ["two-host", "four-host", "eight-host", "infeasible"])
def test_examples_load(name):
    specs = load_specs(*spec_paths(EXAMPLES / name))
    assert specs.topology.name == name


def test_values_of_the_smallest_example():
    specs = load_specs(*spec_paths(TWO))
    assert specs.job.nccl.version_tuple == (2, 19, 3)
    assert specs.job.nccl.split_data_on_qps is None
    assert specs.job.nccl.adaptive_routing_threshold == 8192
    assert specs.job.layout is not None
    assert specs.job.layout.order == "tp-cp-ep-dp-pp"
    assert specs.topology.switches[0].ports[0].gbps == 400
    assert specs.topology.hosts[0].nics[0].addresses == ("10.0.0.1",)
    assert specs.topology.links[0] == ("host1:mlx5_0", "leaf1:Ethernet1")
    assert specs.policy.copies == 1


def test_policy_may_be_a_version_alone(case):
    (case.folder / "policy.yaml").write_text("version: 1\n")
    policy = case.load().policy
    assert (policy.copies, policy.monitor.rate_model, policy.allowed_ports) == (2, "line_rate", ("*:*",))
    assert policy.failure_domains.checkpoint_apart


def test_measured_rates_in_gbit(case):
    measured = '{rate_model: measured, measured: {"leaf1:Ethernet1:rx": 120.5G, "leaf1:Ethernet2:tx": 800M}}'
    case.edit("policy", "{rate_model: line_rate, headroom: 0.0}", measured)
    assert case.load().policy.monitor.measured_gbps == {"leaf1:Ethernet1:rx": 120.5, "leaf1:Ethernet2:tx": 0.8}


def test_port_names_with_colons_and_slashes(case):
    case.edit("topology", "{name: Ethernet1,", "{name: 'et-0/0/1:0',")
    case.edit("topology", "leaf1:Ethernet1]", "'leaf1:et-0/0/1:0']")
    case.edit(
        "policy",
        "{rate_model: line_rate, headroom: 0.0}",
        '{rate_model: measured, measured: {"leaf1:et-0/0/1:0:rx": 1G}}',
    )
    assert case.load().topology.links[0] == ("host1:mlx5_0", "leaf1:et-0/0/1:0")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('"FD00:0:0:0:0:0:0:1"', "fd00::1"),
        ('"::ffff:10.0.0.9"', "10.0.0.9"),
        ('"0000:0000:0000:0000:0000:ffff:0a00:0009"', "10.0.0.9"),
        ("192.168.1.1", "192.168.1.1"),
    ],
)
def test_addresses_have_one_form(case, written, kept):
    case.edit("topology", "[10.0.0.2]", f"[{written}]")
    assert case.load().topology.hosts[1].nics[0].addresses == (kept,)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("10.0.0.300", "must be an IPv4 or IPv6 address (found '10.0.0.300')"),
        ("fe80::1%eth0", "must be an address without a zone"),
        ("224.0.0.1", "must be the address of one NIC"),
        ('"::"', "must be the address of one NIC"),
        ("010.0.0.1", "must be an IPv4 or IPv6 address"),
    ],
)
def test_what_is_no_address(case, written, words):
    (line,) = case.edit("topology", "[10.0.0.2]", f"[{written}]").lines()
    assert line.startswith("topology.yaml:22:49: hosts.1.nics.0.addresses.0: ")
    assert words in line


# kind, old text, new text, the whole line that must come of it; lines and columns were counted in the example files
ONE_FAULT = [
    (
        "topology",
        "  - [ckpt1:cap1, leaf1:Ethernet32]",
        "  - [ckpt1:cap1, leaf1:Ethernet32]\n  - [leaf1:Ethernet9, leaf9:e1]",
        [
            "topology.yaml:34:6: links.4.0: leaf1 has no port 'Ethernet9' (did you mean 'Ethernet1'?)",
            "topology.yaml:34:23: links.4.1: there is no device 'leaf9' (did you mean 'leaf1'?)",
        ],
    ),
    (
        "topology",
        "{name: Ethernet32, speed: 400G}",
        "{name: Ethernet32, speed: 400G}\n      - {name: Ethernet32, speed: 400G}",
        ["topology.yaml:14:16: switches.0.ports.4.name: leaf1 has a port 'Ethernet32' already"],
    ),
    (
        "topology",
        "{name: cap1, speed: 400G}",
        "{name: cap1, speed: 400G}\n      - {name: cap1, speed: 400G}",
        ["topology.yaml:29:16: checkpoint_nodes.0.nics.2.name: ckpt1 has a NIC 'cap1' already"],
    ),
    (
        "topology",
        "[ckpt1:cap1, leaf1:Ethernet32]",
        "[ckpt1:cap1]",
        [
            "topology.yaml:33:5: links.3: must be a pair (found a list of 1) (such as [host1:mlx5_0, leaf1:Ethernet1])",
        ],
    ),
    (
        "topology",
        "[ckpt1:cap1, leaf1:Ethernet32]",
        "[]",
        [
            "topology.yaml:33:5: links.3: must be a pair (found a list of 0) (such as [host1:mlx5_0, leaf1:Ethernet1])",
        ],
    ),
    (
        "topology",
        "[ckpt1:cap1, leaf1:Ethernet32]",
        "[ckpt1, leaf1:Ethernet32]",
        ["topology.yaml:33:6: links.3.0: must be device:port (found 'ckpt1') (such as leaf1:Ethernet1)"],
    ),
    (
        "job",
        "  - {rank: 1, host: host2, nic: mlx5_0}",
        "  - {rank: 0, host: host2, nic: mlx5_0}",
        ["job.yaml:10:12: ranks.1.rank: rank 0 is in ranks.0 already"],
    ),
    (
        "job",
        "host: host2",
        "host: leaf1",
        ["job.yaml:10:21: ranks.1.host: 'leaf1' is no host: it is in switches"],
    ),
    (
        "job",
        "order: tp-cp-ep-dp-pp",
        "order: tp-cp-dp-pp",
        [
            "job.yaml:7:17: layout.order: must name each of tp, cp, ep, dp, pp once, joined by dashes "
            "(found 'tp-cp-dp-pp') (Megatron's default is tp-cp-ep-dp-pp)"
        ],
    ),
    (
        "job",
        "ep: 1",
        "ep: 2",
        [
            "job.yaml:12:3: buckets: no bucket holds expert gradients, but the job has expert groups "
            "(groups: expert marks them)"
        ],
    ),
    (
        "job",
        "tp: 1",
        "tp: 2",
        ["job.yaml:7:1: layout: one data-parallel rank is left: no gradient crosses the network"],
    ),
    (
        "job",
        "buckets:\n",
        "groups: [[0, 1]]\nbuckets:\n",
        ["job.yaml:11:1: groups: layout and groups are both here (keep one of them)"],
    ),
    (
        "job",
        "  - {name: bucket0, elements: 5000, dtype: fp32}",
        "  - {name: bucket0, elements: 5000, dtype: fp32}\n  - {name: bucket0, elements: 1, dtype: fp32}",
        ["job.yaml:13:12: buckets.1.name: the name 'bucket0' is taken by buckets.0"],
    ),
    (
        "job",
        "elements: 5000",
        "elements: 0",
        ["job.yaml:12:31: buckets.0.elements: must be 1 or more (found 0)"],
    ),
    (
        "job",
        "iteration_time: 0.5 ",
        "iteration_time: .inf ",
        ["job.yaml:13:17: iteration_time: must be a finite number (found inf)"],
    ),
    (
        "job",
        "threads: 512",
        "threads: 100",
        ["job.yaml:5:61: nccl.threads: LL threads must be a multiple of 32 from 64 to 512 (found 100)"],
    ),
    (
        "job",
        "version: 2.19.3",
        "version: 2.7.8",
        ["job.yaml:5:17: nccl.version: NCCL 2.7.8 is not known (supported: 2.8 to 2.30)"],
    ),
    (
        "job",
        "version: 2.19.3",
        "version: 2.19.3-1",
        ["job.yaml:5:17: nccl.version: must be three numbers, such as 2.19.3 (found '2.19.3-1')"],
    ),
    (
        "policy",
        "copies_apart: []",
        'copies_apart: ["rak-*"]',
        [
            "policy.yaml:5:34: failure_domains.copies_apart.0: 'rak-*' matches no failure domain of a switch "
            "(did you mean 'rack-1'?)"
        ],
    ),
    (
        "policy",
        "rate_model: line_rate,",
        "rate_model: measured,",
        ["policy.yaml:4:23: monitor.rate_model: measured needs rates (add measured: {'leaf1:Ethernet1:rx': 120G})"],
    ),
    (
        "policy",
        "headroom: 0.0",
        'measured: {"leaf1:Ethernet1:rx": 1G}',
        [
            "policy.yaml:4:34: monitor.measured: has no effect with rate_model line_rate "
            "(say rate_model: measured, or remove it)"
        ],
    ),
    (
        "policy",
        "{rate_model: line_rate, headroom: 0.0}",
        '{rate_model: measured, measured: {"leaf1:Ethernet1:rx": 401G}}',
        ["policy.yaml:4:66: monitor.measured.leaf1:Ethernet1:rx: 401G is more than the port's 400G"],
    ),
]


@pytest.mark.parametrize(("kind", "old", "new", "lines"), ONE_FAULT)
def test_one_fault(case, kind, old, new, lines):
    assert case.edit(kind, old, new).lines() == lines


def test_a_link_between_end_devices(case):
    case.edit("topology", "[ckpt1:cap0, leaf1:Ethernet31]", "[ckpt1:cap0, ckpt1:cap1]")
    case.edit("topology", "  - [ckpt1:cap1, leaf1:Ethernet32]\n", "")
    assert case.lines() == [
        "topology.yaml:32:5: links.2: ckpt1:cap0 and ckpt1:cap1 are both end devices "
        "(link each of them to a switch port)"
    ]


def test_explicit_groups_must_part_the_ranks(four):
    four.edit("job", "layout: {order: tp-cp-ep-dp-pp, tp: 1, cp: 1, ep: 1, pp: 1}", "groups: [[0, 1], [1, 7], [2]]")
    assert four.lines() == [
        "job.yaml:7:9: groups: in no group: ranks 3 (a rank outside every group would not be observed)",
        "job.yaml:7:19: groups.1.0: rank 1 is in group dp0 already",
        "job.yaml:7:22: groups.1.1: rank 7 is not in ranks",
        "job.yaml:7:26: groups.2: group dp2 has 1 ranks (a group has two or more)",
    ]


def test_neither_layout_nor_groups(four):
    four.edit("job", "layout: {order: tp-cp-ep-dp-pp, tp: 1, cp: 1, ep: 1, pp: 1}\n", "")
    assert four.lines() == ["job.yaml:2:1: neither layout nor groups is here (say which ranks reduce together)"]


def test_rings_of_a_layout_are_checked_against_its_groups(four):
    # tp 2, dp 2: the groups are {0, 2} and {1, 3}
    four.edit("job", "tp: 1,", "tp: 2,")
    rings = """\
rings:
  - {group: dp0, channel: 0, order: [2, 0]}
  - {group: dp1, channel: 0, order: [0, 1]}
  - {group: dp2, channel: 0, order: [0, 1]}
  - {group: dp0, channel: 0, order: [0, 2]}
buckets:"""
    four.edit("job", "buckets:", rings)
    assert four.lines() == [
        "job.yaml:15:37: rings.1.order: must hold each rank of dp1 once: 1, 3 (found 0, 1)",
        "job.yaml:16:13: rings.2.group: there is no group 'dp2' (did you mean 'dp0'?)",
        "job.yaml:17:5: rings.3: the ring of dp0 on channel 0 is in rings.0 already",
    ]


def test_queue_pairs_belong_to_one_hop(four):
    rings = """\
rings:
  - {group: dp0, channel: 0, order: [0, 1, 2, 3], qpns: [[0x10], [0x11, 0x12], [0x10], [0x10]]}
  - {group: dp0, channel: 1, order: [0, 1, 2, 3], qpns: [[0x10], [0x12], [0x11], [0x11]]}
buckets:"""
    four.edit("job", "buckets:", rings).edit("job", "channels: 1", "channels: 2")
    assert four.lines() == [
        "job.yaml:14:66: rings.0.qpns.1: must hold qps_per_connection = 1 queue pairs (found 2)",
        "job.yaml:15:59: rings.1.qpns.0.0: queue pair 0x10 of host2:mlx5_0 belongs to rings.0.qpns.0 already",
        "job.yaml:15:67: rings.1.qpns.1.0: queue pair 0x12 of host3:mlx5_0 belongs to rings.0.qpns.1 already",
    ]


def test_faults_of_all_files_come_together_in_order(case):
    case.edit("topology", "name: two-host", "name: two host")
    case.edit("job", "mtu: 1024 ", "mtu: 9000 ")
    case.edit("policy", "copies: 1", "copy: 1")
    lines = case.lines()
    assert [line.split(":")[0] for line in lines] == ["job.yaml", "policy.yaml", "topology.yaml"]
    assert lines[1] == "policy.yaml:3:1: copy: unknown key (did you mean 'copies'?)"


def test_a_job_of_another_fabric_is_told_in_reasonable_time(case):
    ranks = "".join(f"  - {{rank: {r}, host: node{r:05}, nic: mlx5_0}}\n" for r in range(2, 2002))
    case.edit("job", "  - {rank: 1, host: host2, nic: mlx5_0}\n", "  - {rank: 1, host: host2, nic: mlx5_0}\n" + ranks)
    assert len(case.lines()) == 2000


class TestFingerprint:
    def test_comments_and_layout_do_not_count(self, case):
        before = fingerprint(load_specs(*spec_paths(TWO)))
        case.edit("job", "mtu: 1024                 # bytes, the RoCE path MTU", "mtu: 0x400")
        assert fingerprint(case.load()) == before

    def test_each_file_has_its_own(self, case):
        before = fingerprint(case.load())
        after = fingerprint(case.edit("job", "elements: 5000", "elements: 5001").load())
        assert [b == a for b, a in zip(before, after, strict=True)] == [True, False, True]
        assert all(len(digest) == 64 for digest in after)


def fragments() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["", "-1", "x", "[]", "{}", "null", "[[]]", "1e99", "'", "\t", ": ", "&a", "*a", "- ", "#", "\x00"]
    )


@settings(max_examples=150)
@given(kind=st.sampled_from(["topology", "job", "policy"]), data=st.data())
def test_any_damage_is_a_spec_error_or_harmless(kind, data, tmp_path_factory):
    """Cut a piece out of an example and put something else in: never anything but a SpecError."""
    damaged = Case(tmp_path_factory.mktemp("damage"), data.draw(st.sampled_from(["two-host", "eight-host"])))
    path = damaged.folder / f"{kind}.yaml"
    text = path.read_text()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    path.write_text(text[:start] + data.draw(fragments()) + text[start + length :])
    problems: tuple[Problem, ...] = ()
    try:
        damaged.load()
    except SpecError as error:
        problems = error.problems or (Problem("", 0, 0, "", ""),)
    assert all(problem.message for problem in problems)
