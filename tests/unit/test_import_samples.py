"""Every importer on real files of public projects, against counts by hand and readers of a few lines."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.batfish import read_batfish
from flowcheck_net.importers.cables import FindingKind, Role
from flowcheck_net.importers.containerlab import read_containerlab
from flowcheck_net.importers.ibnetdiscover import read_ibnetdiscover
from flowcheck_net.importers.lldp import Report
from flowcheck_net.importers.lldp_read import read_lldp
from flowcheck_net.importers.merge import merge
from flowcheck_net.importers.netbox import read_netbox
from flowcheck_net.importers.netq import read_netq
from flowcheck_net.importers.options import Options
from flowcheck_net.importers.run import import_topology
from flowcheck_net.importers.slurm import expand_hostlist, read_slurm

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
TOPOLOGY, LLDP = SAMPLES / "topology", SAMPLES / "lldp"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared sample files are not here")


def _kinds(findings) -> set[FindingKind]:
    return {finding.kind for finding in findings}


def _pairs(links) -> set[frozenset[str]]:
    return {frozenset(str(end) for end in link.ends) for link in links}


def test_containerlab_clos02():
    """10 switches, 4 clients; 8 leaf-spine, 4 spine-superspine and 4 client links."""
    path = TOPOLOGY / "clos02.clab.yml"
    graph = import_topology(read_containerlab((path,)), Options())
    assert not graph.problems
    assert sorted(graph.roles.values()) == [Role.HOST] * 4 + [Role.SWITCH] * 10
    plain = YAML(typ="safe").load(path.read_text())["topology"]["links"]
    srl = {frozenset(re.sub(r":e(\d)-", r":ethernet-\1/", end) for end in link["endpoints"]) for link in plain}
    assert _pairs(graph.links) == srl
    assert len(srl) == 16
    lines = path.read_text().splitlines()
    assert all(link.a.device in lines[link.source.line - 1] for link in graph.links)


def test_containerlab_cvx02():
    graph = import_topology(read_containerlab((TOPOLOGY / "cvx02.clab.yml",)), Options())
    assert _pairs(graph.links) == {frozenset({"sw1:swp12", "h1:eth1"})}
    assert graph.roles == {"sw1": Role.SWITCH, "h1": Role.HOST}


def test_batfish_example():
    """40 edges, each cable in both directions: 20 cables, one of which leads from as3core1 to itself."""
    path = TOPOLOGY / "batfish_example_layer1_topology.json"
    edges = json.loads(path.read_text())["edges"]
    expected = {frozenset(f"{e[n]['hostname']}:{e[n]['interfaceName']}" for n in ("node1", "node2")) for e in edges}
    loops = {pair for pair in expected if len({end.partition(":")[0] for end in pair}) == 1}
    graph = import_topology(read_batfish((path,)), Options(host=("host*",), switch=("*",)))
    assert (len(edges), len(expected), len(loops)) == (40, 20, 1)
    assert _pairs(graph.links) == expected - loops
    assert [(problem.kind, problem.source.line) for problem in graph.problems] == [(FindingKind.CONFLICT, 363)]
    assert "as3core1" in path.read_text().splitlines()[364]  # {, "node1": {, "hostname": ... from line 363 on


def test_batfish_tells_no_roles():
    graph = import_topology(read_batfish((TOPOLOGY / "batfish_example_layer1_topology.json",)), Options())
    unknown = [f.message for f in graph.problems if f.kind is FindingKind.UNKNOWN_ROLE]
    assert len(unknown) == 15  # 13 routers and 2 hosts


def test_netq_graph():
    """3 switches and 8 hosts; the ids of the single cables name both ends, and 79 of them are there."""
    path = TOPOLOGY / "topologyGraph.json"
    text = path.read_text()
    names = dict(re.findall(r'"id": "(node\d+)",.*?"name": "([\w-]+)",\s+"node_type": "device"', text, re.DOTALL))
    ids = re.findall(r'"id": "(node\d+):(\S+)-\*-(node\d+):(\S+)"', text)
    expected = {frozenset({f"{names[a]}:{p}", f"{names[b]}:{q}"}) for a, p, b, q in ids}
    graph = import_topology(read_netq((path,)), Options())
    assert not graph.problems
    assert len(ids) == len(expected) == 79
    assert _pairs(graph.links) == expected
    assert sorted(graph.roles.values()) == [Role.HOST] * 8 + [Role.SWITCH] * 3


def test_ibnetdiscover_fabric():
    """40 switches; 542 adapters beside the 40 aggregation nodes; every cable is in two sections."""
    path = TOPOLOGY / "topograph_ibnetdiscover_example.out"
    text = path.read_text()
    sides = set()
    guid = ""
    for line in text.splitlines():
        if line.startswith(("Switch", "Ca")):
            guid = line.split('"')[1]
        elif line.startswith("["):
            sides.add((f"{guid}[{line[1:].split(']')[0]}]", re.search(r'"([^"]+)"\[(\d+)\]', line)))
    pairs = {frozenset({near, f"{far[1]}[{far[2]}]"}) for near, far in sides if far}
    aggregation = re.findall(r'^Ca\s+\d+\s+"(\S+)"\s+# "Mellanox Technologies Aggregation Node"', text, re.MULTILINE)
    expected = {pair for pair in pairs if not any(end.startswith(f"{a}[") for a in aggregation for end in pair)}
    graph = import_topology(read_ibnetdiscover((path,)), Options())
    assert len(aggregation) == 40
    assert len(sides) == 2228 == 2 * len(pairs)
    assert len(graph.links) == len(expected) == len(pairs) - 40
    assert {link.speed for link in graph.links} == {"400G"}  # 4xNDR
    assert sum(role is Role.SWITCH for role in graph.roles.values()) == 40
    assert _kinds(graph.problems) == {FindingKind.INFINIBAND}
    assert {switch["platform"] for switch in graph.imported.document["switches"]} == {"infiniband"}


def test_ibnetdiscover_names_hosts_and_nics():
    graph = import_topology(read_ibnetdiscover((TOPOLOGY / "topograph_ibnetdiscover_example.out",)), Options())
    leaf = "MF0;A09-P1-IBLEAF-04-04:MQM9701/U1"
    ends = {str(link.ends[0]) for link in graph.links if link.ends[1].device == leaf} | {
        str(link.ends[1]) for link in graph.links if link.ends[0].device == leaf
    }
    assert "a08-p1-dgx-04-c01:mlx5_5" in ends
    assert "MF0;A10-P1-IBSPINE-02:MQM9701/U1:31" in ends
    assert len(ends) == 17 + 16  # hosts on ports 1 to 17, spines on 35 to 50; port 65 is the aggregation node


def test_netbox_demo():
    """26 router-switch cables at 1G, 26 power cables; 26 circuits and 24 panel ports that lead out of the dump."""
    path = TOPOLOGY / "netbox-demo-v3.6-cables-subset.json"
    survey = read_netbox((path,))
    merged = merge(survey)
    assert len(merged.links) == 26
    assert {link.speed for link in merged.links} == {"1G"}
    unknown = [finding for finding in merged.findings if finding.kind is FindingKind.UNKNOWN_END]
    assert len(unknown) == 26 + 24
    lines = path.read_text().splitlines()
    assert all(lines[finding.source.line].strip() == '"model": "dcim.cable",' for finding in unknown)
    assert "26 power and console cables" in {finding.message for finding in merged.findings}


def test_netbox_demo_through_patch_panels(tmp_path):
    """The dump's three trunks run over circuits that it does not hold; with them, 12 cables join 24 switch ports."""
    path = TOPOLOGY / "netbox-demo-v3.6-cables-subset.json"
    circuits = [
        {"model": "circuits.circuittermination", "pk": pk, "fields": {"circuit": pk // 2, "term_side": "AZ"[pk % 2]}}
        for pk in range(36, 42)
    ]
    extra = tmp_path / "circuits.json"
    extra.write_text(json.dumps(circuits))
    merged = merge(read_netbox((path, extra)))
    joined = [link for link in merged.links if link.speed == "10G"]
    assert len(joined) == 12
    assert all("coreswitch" in link.a.device and "distswitch" in link.b.device for link in joined)
    # by hand, cable by cable: coreswitch1's interface 1022 - cable 112 - front 1249 (position 1 of rear 1249)
    # - cable 87 - circuit 18 - cable 88 - rear 1252, position 1: front 1393 - cable 124 - interface 863
    objects = {(o["model"], o["pk"]): o["fields"] for o in json.loads(path.read_text())}
    ends = []
    for key in (1022, 863):
        interface = objects["dcim.interface", key]
        ends.append(f"{objects['dcim.device', interface['device']]['name']}:{interface['name']}")
    assert frozenset(ends) in _pairs(joined)


def _lldp(file: str, **options):
    survey = read_lldp([Report(LLDP / file, "me")])
    return survey, merge(survey, **options)


def test_napalm_eos():
    """40 neighbours: 39 servers that send MAC addresses as ports, and a Junos switch that sends an ifIndex."""
    text = json.loads((LLDP / "eos_normal.expected.json").read_text())
    _, merged = _lldp("eos_normal.expected.json", accept_one_sided=True)
    expected = {
        frozenset({f"me:{port}", f"{n['remote_system_name']}:{n['remote_port_description']}"})
        for port, heard in text.items()
        for n in heard
        if n["remote_port_description"].startswith("eth")
    }
    assert _pairs(merged.links) == expected
    assert len(expected) == 40
    problems = [finding for finding in merged.findings if finding.is_problem]
    assert [finding.message for finding in problems] == [
        "me:Ethernet47 hears ms01.bru01, port 597: which port is that?"
    ]
    roles = {device.name: device.role for device in merged.devices}
    assert roles["78m1"] is Role.HOST
    assert roles["ms01.bru01"] is Role.SWITCH


def test_napalm_eos_is_one_sided_by_default():
    _, merged = _lldp("eos_normal.expected.json")
    assert merged.links == ()
    assert sum(finding.kind is FindingKind.ONE_SIDED for finding in merged.findings) == 40


def test_napalm_nxos():
    survey, merged = _lldp("nxos.expected.json", accept_one_sided=True)
    assert _pairs(merged.links) == {frozenset({f"me:Ethernet1/{n}", f"n9k2.ntc.com:Ethernet1/{n}"}) for n in (1, 2)}
    assert [f.message for f in survey.findings] == ["me:Management0 -- PERIMETER.cisco.com: a management port"]


def test_napalm_junos():
    """The port is the ifIndex 549; only its description is a name."""
    _, merged = _lldp("junos_qfx5110.expected_result.json", accept_one_sided=True)
    assert _pairs(merged.links) == {frozenset({"me:ge-2/0/0", "EX9208:ge-3/3/1"})}


# Sample -> neighbours by hand, and of those the ones on management ports.
RAW = {
    "arista_eos_show_lldp_neighbors_detail": (20, 3),
    "cisco_nxos_show_lldp_neighbors_detail": (4, 1),
    "hp_comware_display_lldp_neighbor-information_list": (4, 0),
    "huawei_vrp_display_lldp_neighbor1": (1, 0),
    "juniper_junos_show_lldp_neighbors": (2, 0),
}


@pytest.mark.parametrize("name", RAW)
def test_cli_text_against_the_rows_of_the_templates_own_tests(name):
    """The .yml beside each .raw is what ntc-templates' own test suite expects of the whole text."""
    rows = YAML(typ="safe").load((LLDP / f"{name}.yml").read_text())["parsed_sample"]
    survey = read_lldp([Report(LLDP / f"{name}.raw", "me")])
    ignored = [f for f in survey.findings if f.kind is FindingKind.IGNORED]
    said = {(c.a.port, c.b.device, c.b.port) for c in survey.cables if c.b.device}
    nameless = [c for c in survey.cables if not c.b.device]
    unreadable = [f for f in survey.findings if f.kind is FindingKind.UNREADABLE]
    management = re.compile(r"(mgmt|Management)\d")
    wanted = {
        (row["local_interface"], row["neighbor_name"], row["neighbor_interface"])
        for row in rows
        if not management.match(row["local_interface"])
    }
    assert said == wanted
    assert (len(said) + len(nameless) + len(unreadable) + len(ignored), len(ignored)) == RAW[name]


def test_cli_text_points_at_the_line_of_each_neighbour():
    path = LLDP / "arista_eos_show_lldp_neighbors_detail.raw"
    lines = path.read_text().splitlines()
    survey = read_lldp([Report(path, "me")])
    for cable in survey.cables:
        assert cable.b.port in lines[cable.source.line - 1]


def test_arista_text_with_several_neighbours_on_a_port_is_a_conflict():
    """Ethernet8 hears 3 neighbours and Ethernet33 hears 4: a hub, or virtual machines; never a cable."""
    _, merged = _lldp("arista_eos_show_lldp_neighbors_detail.raw", accept_one_sided=True)
    conflicts = [f.message.partition(":  ")[0] for f in merged.findings if f.kind is FindingKind.CONFLICT]
    assert sum("port me:Ethernet8 has 3 cables" in message for message in conflicts) == 1
    assert sum("port me:Ethernet33 has 4 cables" in message for message in conflicts) == 1
    assert not {"me:Ethernet8", "me:Ethernet33"} & {str(end) for link in merged.links for end in link.ends}


def test_napalm_answer_and_the_text_that_it_was_read_from_agree():
    """The file is named .json and holds the CLI answer of the NX-OS device; NAPALM's parser is the oracle."""
    _, text = _lldp("nxos.show_lldp_neighbors_detail.json", accept_one_sided=True)
    _, answer = _lldp("nxos.expected.json", accept_one_sided=True)
    spelled = {frozenset(end.replace(":Eth1", ":Ethernet1") for end in pair) for pair in _pairs(text.links)}
    assert spelled == _pairs(answer.links)


def test_the_device_s_own_json_is_refused():
    with pytest.raises(SpecError, match="json:2:1: port Ethernet8: a list of neighbours must be here"):
        read_lldp([Report(LLDP / "eos_normal.show_lldp_neighbors_detail.json", "me")])


def test_slurm_tree():
    """12 leaf switches of 8 nodes, 6 spines of 2 leaves, 1 core of 6 spines."""
    switches = read_slurm((TOPOLOGY / "topograph_tree.conf",))
    assert [len(s.nodes) for s in switches if s.nodes] == [8] * 12
    assert sorted(len(s.switches) for s in switches if s.switches) == [2] * 6 + [6]
    by_name = {s.name: s for s in switches}
    assert by_name["switch.2.1"].switches == ("switch.1.1", "switch.1.2")
    assert by_name["switch.1.1"].nodes == tuple(f"srv{n}" for n in range(1101, 1109))
    assert expand_hostlist("srv[1101-1102]") == ("srv1101", "srv1102")
