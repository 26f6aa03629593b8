"""The forms of containerlab, NetQ and ibnetdiscover that the sample files do not have."""

import json

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.cables import FindingKind, Role
from flowcheck_net.importers.containerlab import read_containerlab
from flowcheck_net.importers.ibnetdiscover import read_ibnetdiscover
from flowcheck_net.importers.merge import merge
from flowcheck_net.importers.netq import read_netq
from flowcheck_net.importers.options import Choice, Options
from flowcheck_net.importers.run import import_topology

IB = """\
vendid=0x2c9
switchguid=0x1(1)
Switch\t65 "S-1"\t\t# "leaf one" enhanced port 0 lid 1 lmc 0
[1]\t"H-a"[1](a) \t\t# "host1 mlx5_0" lid 2 4xHDR
[2]\t"H-b"[2](b) \t\t# "host1 mlx5_1" lid 3 4xEDR

caguid=0xa
Ca\t1 "H-a"\t\t# "host1 mlx5_0"
[1](a) \t"S-1"[1]\t\t# lid 2 lmc 0 "leaf one" lid 1 4xHDR
Ca\t2 "H-b"\t\t# "host1 mlx5_1"
[2](b) \t"S-1"[2]\t\t# lid 3 lmc 0 "leaf one" lid 1 4xEDR
"""


@pytest.fixture
def write(tmp_path):
    def run(text, name="input"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return run


def _links(merged):
    return [(str(link.a), str(link.b), link.speed) for link in merged.links]


def _kinds(findings):
    return {finding.kind for finding in findings}


def test_ibnetdiscover_needs_both_sections(write):
    merged = merge(read_ibnetdiscover((write(IB),)))
    assert _links(merged) == [("host1:mlx5_0", "leaf one:1", "200G"), ("host1:mlx5_1-2", "leaf one:2", "100G")]
    merged = merge(read_ibnetdiscover((write(IB.replace('[1](a) \t"S-1"[1]', '[1](a) \t"S-1"[3]')),)))
    assert _links(merged) == [("host1:mlx5_1-2", "leaf one:2", "100G")]
    assert FindingKind.CONFLICT in _kinds(merged.findings)
    gone = "".join(line for line in IB.splitlines(keepends=True) if not line.startswith("[1](a)"))
    merged = merge(read_ibnetdiscover((write(gone),)), accept_one_sided=True)
    assert FindingKind.ONE_SIDED in _kinds(merged.findings)


def test_ibnetdiscover_speeds_of_both_sections_must_agree(write):
    text = IB.replace('"leaf one" lid 1 4xHDR', '"leaf one" lid 1 2xHDR')
    merged = merge(read_ibnetdiscover((write(text),)))
    assert FindingKind.CONFLICT in _kinds(merged.findings)
    assert [speed for *_, speed in _links(merged)] == [None, "100G"]


def test_two_hosts_of_one_name_are_told_apart_by_their_guids(write):
    text = IB.replace("host1 mlx5_1", "host1 mlx5_0")
    merged = merge(read_ibnetdiscover((write(text),)))
    assert [a for a, *_ in _links(merged)] == ["ca-a:hca", "ca-b:hca-2"]


def test_infiniband_stays_infiniband(write):
    """A user cannot answer that away: the platform has no capability table, and plan refuses it."""
    graph = import_topology(read_ibnetdiscover((write(IB),)), Options(platform=(Choice("*", "fake"),)))
    assert [switch["platform"] for switch in graph.imported.document["switches"]] == ["infiniband"]
    assert _kinds(graph.problems) == {FindingKind.INFINIBAND}


def test_a_strange_line_in_a_fabric(write):
    path = write(IB + "ibwarn: [1234] mad_rpc: timeout\n")
    strange = [f for f in read_ibnetdiscover((path,)).findings if f.kind is FindingKind.UNREADABLE]
    assert [finding.source.line for finding in strange] == [12]


LAB = """\
name: x
topology:
  nodes:
    a: {kind: nokia_srlinux}
    b: {kind: sonic-vs}
    c:
  links:
"""


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("- 7", "must be a mapping"),
        ("- {endpoints: [a:e1-1]}", "two endpoints"),
        ("- {endpoints: [a:e1-1, b:eth1, c:eth1]}", "two endpoints"),
        ("- {endpoints: [a, b:eth1]}", "node:interface"),
        ("- {endpoints: [{node: a}, b:eth1]}", "node:interface"),
        ("- {}", "two endpoints"),
    ],
)
def test_a_bad_link_has_its_line(write, link, message):
    with pytest.raises(SpecError, match=message) as caught:
        read_containerlab((write(f"{LAB}    {link}\n"),))
    assert [problem.line for problem in caught.value.problems] == [8]


def test_kinds_of_nodes_and_their_ports(write):
    survey = read_containerlab(
        (write(LAB + "    - endpoints: [a:e1-49, b:eth1]\n    - endpoints: [c:eth1, b:eth2]\n"),)
    )
    roles = {device.name: device.role for device in survey.devices}
    assert roles == {"a": Role.SWITCH, "b": Role.SWITCH, "c": None}
    assert [(str(cable.a), str(cable.b)) for cable in survey.cables] == [
        ("a:ethernet-1/49", "b:eth1"),
        ("c:eth1", "b:eth2"),
    ]


def test_labs_that_are_parts_of_one_fabric(write):
    one = write(LAB + "    - endpoints: [a:e1-1, b:eth1]\n", "one.clab.yml")
    two = write(
        "topology: {nodes: {d: {kind: linux}, a: {kind: srl}}, links: [{endpoints: [d:eth1, a:e1-2]}]}\n",
        "two.clab.yml",
    )
    survey = read_containerlab((one, two))
    assert survey.name == "x-two"
    assert [link[:2] for link in _links(merge(survey))] == [("a:ethernet-1/1", "b:eth1"), ("a:ethernet-1/2", "d:eth1")]


def _netq(device_type, size=1):
    nodes = [
        {"compounded_nodes": [{"id": f"node{n}", "name": name, "device_type": kind}]}
        for n, (name, kind) in enumerate([("leaf1", "switch"), ("x", device_type)])
    ]
    interfaces = [{"node": "node0", "interface": "swp1"}, {"node": "node1", "interface": "eth0"}]
    return json.dumps({"nodes": nodes, "links": [{"size": size, "compounded_links": [{"interfaces": interfaces}]}]})


@pytest.mark.parametrize(("kind", "role"), [("host", Role.HOST), ("switch", Role.SWITCH), ("chassis", None)])
def test_netq_roles(write, kind, role):
    survey = read_netq((write(_netq(kind)),))
    assert {device.name: device.role for device in survey.devices}["x"] is role
    assert _links(merge(survey)) == [("leaf1:swp1", "x:eth0", None)]


def test_netq_link_that_lists_fewer_cables_than_it_says(write):
    survey = read_netq((write(_netq("host", size=4)),))
    assert [finding.message for finding in survey.findings] == ["link None says size 4 and lists 1 cables"]


def test_one_file_of_two_that_gives_nothing(write):
    empty = write('{"nodes": [], "links": []}', "empty.json")
    with pytest.raises(SpecError, match=r"empty.json: no cable was found in what should be netq data"):
        import_topology(read_netq((write(_netq("host")), empty)), Options())
