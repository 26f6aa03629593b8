"""``flowcheck-net import``: from a file to a topology that loads, exit codes, and files that are nothing."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.cli.import_slurm import command as slurm
from flowcheck_net.cli.import_topology import batfish, containerlab, ibnetdiscover, lldp, netbox, netq
from flowcheck_net.errors import FlowcheckError, OutputError, SpecError
from flowcheck_net.spec.load import load_topology

COMMANDS = {
    "batfish": batfish,
    "containerlab": containerlab,
    "ibnetdiscover": ibnetdiscover,
    "lldp": lldp,
    "netbox": netbox,
    "netq": netq,
    "slurm": slurm,
}
LAB = """\
name: lab
topology:
  defaults: {kind: linux}
  groups: {fabric: {kind: arista_ceos}}
  nodes:
    leaf1: {group: fabric}
    h1:
    h2: {kind: linux}
    ckpt1:
  links:
    - endpoints: ["h1:eth1", "leaf1:eth1"]
    - endpoints: ["h2:eth1", "leaf1:eth2_1"]
    - type: veth
      endpoints: [{node: ckpt1, interface: cap0}, {node: leaf1, interface: eth31}]
    - {type: mgmt-net, endpoint: {node: h1, interface: eth9}}
"""
ANSWERS = ("--speed", "100G", "--platform", "fake", "--management", "fake:{switch}")


@pytest.fixture
def lab(tmp_path):
    path = tmp_path / "lab.clab.yml"
    path.write_text(LAB)
    return path


def _run(command, *args, stop=True):
    """Run a command; errors come out as they are."""
    result = CliRunner().invoke(command, [str(arg) for arg in args], catch_exceptions=False, standalone_mode=stop)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_a_lab_with_all_answers_loads(lab, tmp_path):
    addresses = tmp_path / "addresses"
    addresses.write_text("# host nic address\nh1 eth1 10.0.0.1\nh2 eth1 ::ffff:10.0.0.2\n")
    out = tmp_path / "topology.yaml"
    result = _run(containerlab, lab, *ANSWERS, "--addresses", addresses, "-o", out)
    assert result.exit_code == 0
    topology = load_topology(out)
    assert topology.links == (
        ("ckpt1:cap0", "leaf1:Ethernet31"),
        ("h1:eth1", "leaf1:Ethernet1"),
        ("h2:eth1", "leaf1:Ethernet2/1"),
    )
    assert [node.name for node in topology.checkpoint_nodes] == ["ckpt1"]
    assert topology.hosts[1].nics[0].addresses == ("10.0.0.2",)
    assert (topology.switches[0].platform, topology.switches[0].management) == ("fake", "fake:leaf1")
    assert "h1:eth9: not a cable between nodes" in result.stderr


def test_without_answers_the_loader_names_each_blank(lab, tmp_path):
    """12 of them: platform, management, 3 ports, 2 NICs with speed and address, 1 capture NIC."""
    out = tmp_path / "topology.yaml"
    _run(containerlab, lab, "-o", out)
    with pytest.raises(SpecError) as caught:
        load_topology(out)
    assert len(caught.value.problems) == 2 + 3 + 2 * 2 + 1
    assert {problem.path.split(".")[-1] for problem in caught.value.problems} == {
        "platform",
        "management",
        "speed",
        "0",
    }


def test_without_an_output_file_the_topology_is_printed(lab):
    result = _run(containerlab, lab, *ANSWERS)
    assert result.stdout.startswith("# Written by flowcheck-net import.")
    assert "- [h1:eth1, leaf1:Ethernet1]" in result.stdout


def test_an_existing_file_is_kept(lab, tmp_path):
    out = tmp_path / "topology.yaml"
    out.write_text("mine")
    with pytest.raises(FlowcheckError, match="is there already"):
        _run(containerlab, lab, "-o", out)
    assert out.read_text() == "mine"
    _run(containerlab, lab, "-o", out, "--force")
    assert out.read_text() != "mine"


def test_a_place_that_cannot_be_written_is_named(lab, tmp_path):
    with pytest.raises(OutputError, match=r"no/topology\.yaml cannot be written: No such file or directory"):
        _run(containerlab, lab, *ANSWERS, "-o", tmp_path / "no" / "topology.yaml")


def test_problems_write_nothing_unless_partial(lab, tmp_path):
    lab.write_text(LAB + '    - endpoints: ["h2:eth2", "leaf1:eth1"]\n    - endpoints: ["nobody:eth1", "leaf1:eth3"]\n')
    out = tmp_path / "topology.yaml"
    with pytest.raises(SpecError) as caught:
        _run(containerlab, lab, *ANSWERS, "-o", out)
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("conflict", 11),
        ("unknown-end", 17),
    ]
    assert not out.exists()
    result = _run(containerlab, lab, *ANSWERS, "-o", out, "--partial")
    assert result.exit_code == 0
    assert "PARTIAL: 2 problems" in out.read_text()
    assert "leaf1:Ethernet1]" not in out.read_text()  # neither of the two cables of that port
    assert "leaf1:Ethernet2/1]" in out.read_text()


def test_partial_writes_no_empty_topology(lab, tmp_path):
    out = tmp_path / "topology.yaml"
    with pytest.raises(SpecError, match="none is left to write"):
        _run(containerlab, lab, "-o", out, "--partial", "--exclude", "*")
    assert not out.exists()


def test_json_has_everything(lab):
    lab.write_text(LAB + '    - endpoints: ["nobody:eth1", "leaf1:eth3"]\n')
    result = CliRunner().invoke(containerlab, [str(lab), *ANSWERS, "--json"])
    answer = json.loads(result.stdout)
    assert isinstance(result.exception, SpecError)
    assert result.exception.exit_code == 2
    assert (answer["ok"], answer["written"]) == (False, False)
    assert {"a": "h1:eth1", "b": "leaf1:Ethernet1", "speed": None} in answer["links"]
    assert {"name": "ckpt1", "platform": "linux", "role": "checkpoint"} in answer["devices"]
    assert [finding["line"] for finding in answer["findings"] if finding["problem"]] == [16]
    assert answer["topology"]["name"] == "lab"


def test_globs_decide_roles_before_the_source(lab):
    args = ("--json", "--switch", "*", "--host", "h*", "--checkpoint", "h2")
    roles = {device["name"]: device["role"] for device in json.loads(_run(containerlab, lab, *args).stdout)["devices"]}
    assert roles == {"leaf1": "switch", "ckpt1": "switch", "h1": "host", "h2": "checkpoint"}


def test_values_by_glob_before_values_for_all(lab):
    args = ("--json", "--speed", "400G", "--speed", "h2:*=100G", "--platform", "leaf*=a=b", "--platform", "fake")
    topology = json.loads(_run(containerlab, lab, *args).stdout)["topology"]
    assert {port["name"]: port["speed"] for port in topology["switches"][0]["ports"]} == {
        "Ethernet1": "400G",
        "Ethernet2/1": "100G",
        "Ethernet31": "400G",
    }


def test_a_speed_that_no_topology_can_hold(lab):
    result = _run(containerlab, lab, "--speed", "leaf1:*=1G")
    assert result.exit_code == 2
    assert "'1G' is none of 10G, 25G, 40G, 50G, 100G, 200G, 400G, 800G" in result.stderr


def test_a_link_between_two_hosts(lab):
    lab.write_text(LAB + '    - endpoints: ["h1:eth2", "h2:eth2"]\n')
    with pytest.raises(SpecError, match="no switch at either end"):
        _run(containerlab, lab)


@pytest.mark.parametrize("glob", ["leaf1", "leaf1:Ethernet*", "*:*"])
def test_exclude_by_device_and_by_port(lab, glob):
    with pytest.raises(SpecError, match="none is left to write"):
        _run(containerlab, lab, "--exclude", glob)


def test_names_that_become_one_are_a_conflict(tmp_path):
    path = tmp_path / "layer1.json"
    edges = [("h;1", "s"), ("h:1", "s")]
    path.write_text(
        json.dumps(
            {
                "edges": [
                    {
                        "node1": {"hostname": h, "interfaceName": "e1"},
                        "node2": {"hostname": s, "interfaceName": f"e{i}"},
                    }
                    for i, (h, s) in enumerate(edges)
                ]
            }
        )
    )
    with pytest.raises(SpecError, match="h:1 and h;1 would both be written h-1"):
        _run(batfish, path, "--host", "h*", "--switch", "s")


def test_a_bad_list_of_addresses(lab, tmp_path):
    addresses = tmp_path / "addresses"
    addresses.write_text("h1 eth1\nh1 eth1 10.0.0.1/24\nh1 eth1 10.0.0.1 10.0.0.2\n")
    with pytest.raises(SpecError) as caught:
        _run(containerlab, lab, "--addresses", addresses)
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3]


def test_slurm_writes_nothing_and_says_hints(tmp_path, lab):
    conf, topology = tmp_path / "topology.conf", tmp_path / "topology.yaml"
    conf.write_text("SwitchName=s1 Nodes=h[1-3]\n")
    addresses = tmp_path / "addresses"
    addresses.write_text("h1 eth1 10.0.0.1\nh2 eth1 10.0.0.2\n")
    _run(containerlab, lab, *ANSWERS, "--addresses", addresses, "-o", topology)
    result = _run(slurm, conf, "--topology", topology)
    assert (result.exit_code, result.stdout) == (0, "s1: 3 nodes\n")
    assert "1 nodes of s1 are no hosts of the topology: h3" in result.stderr
    answer = json.loads(_run(slurm, conf, "--topology", topology, "--json").stdout)
    assert [hint["line"] for hint in answer["hints"]] == [1]


# --- input that is nothing ------------------------------------------------------------------------------------------

NOTHING = {
    "empty": "",
    "blank": "\n \n",
    "prose": "The quick brown fox\n",
    "empty object": "{}",
    "empty list": "[]",
    "number": "7",
    "null": "null",
    "cut": '{"edges": [',
    "edges": '{"edges": []}',
    "lab": "name: x\ntopology: {nodes: {}, links: []}\n",
    "graph": '[{"nodes": [], "links": []}]',
    "repeated": '{"a": 1, "a": 2}',
    "deep": "[" * 5_000,
    "heading": "Interface Ethernet1 detected 0 LLDP neighbors:\n",
    "junos": "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n",
}


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("name", NOTHING)
def test_input_without_any_cable_is_an_error(kind, name, tmp_path):
    path = tmp_path / "input"
    path.write_text(NOTHING[name])
    with pytest.raises(SpecError) as caught:
        _run(COMMANDS[kind], path)
    assert all(problem.file == str(path) for problem in caught.value.problems)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_file_that_is_not_there(kind, tmp_path):
    with pytest.raises(SpecError, match="no such file"):
        _run(COMMANDS[kind], tmp_path / "absent")


@pytest.mark.parametrize("kind", COMMANDS)
def test_bytes_that_are_no_text(kind, tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"\xff\xfe\x00nodes")
    with pytest.raises(SpecError, match="not UTF-8"):
        _run(COMMANDS[kind], path)


SEEDS = [
    LAB,
    '{"edges": [{"node1": {"hostname": "a", "interfaceName": "e"}, "node2": {"hostname": "b", "interfaceName": "f"}}]}',
    '[{"links": [{"size": 1, "compounded_links": [{"interfaces": [{"node": "n", "interface": "e"}]}]}], "nodes": []}]',
    'Switch 65 "S-1" # "s" enhanced\n[1] "H-2"[1](e) # "h mlx5_0" lid 1 4xNDR\n',
    '[{"model": "dcim.cabletermination", "pk": 1, "fields": {"cable": 1, "cable_end": "A", "termination_id": 1}}]',
    '{"e1": [{"remote_port": "e2", "remote_system_name": "b"}]}',
    "SwitchName=s Nodes=n[1-2]\n",
]


@st.composite
def _damaged(draw):
    """A seed with a few places cut out, doubled or overwritten."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        put = draw(st.one_of(st.just(""), st.just(text[begin:end] * 2), st.text('{}[]":,0123 abne-\n', max_size=5)))
        text = text[:begin] + put + text[end:]
    return text


@pytest.mark.parametrize("kind", COMMANDS)
@given(text=st.one_of(_damaged(), st.text(max_size=60)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_is_refused_or_read_and_never_a_crash(kind, tmp_path, text):
    path = tmp_path / "input"
    path.write_text(text, encoding="utf-8")
    try:
        result = _run(COMMANDS[kind], path, "--json")
    except FlowcheckError:
        return
    assert result.exit_code in (0, 2)
    json.loads(result.stdout)


def test_no_heavy_import_before_a_command_runs():
    import subprocess

    code = (
        "import sys; from click.testing import CliRunner; from flowcheck_net.cli.main import cli;"
        "assert CliRunner().invoke(cli, ['import', '--help']).exit_code == 0;"
        "print([m for m in ('pydantic', 'ruamel', 'textfsm', 'networkx') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert said.stdout.strip() == "[]"


def test_an_imported_fabric_plans(lab, tmp_path):
    """From a lab file to a plan without a hand edit of the topology."""
    from flowcheck_net.plan.make import make_plan
    from flowcheck_net.spec.load import load_specs

    example = Path(__file__).resolve().parents[2] / "topologies" / "two-host"
    addresses = tmp_path / "addresses"
    addresses.write_text("h1 eth1 10.0.0.1\nh2 eth1 10.0.0.2\n")
    lab.write_text(LAB + '    - endpoints: ["ckpt1:cap1", "leaf1:eth32"]\n')
    _run(containerlab, lab, *ANSWERS, "--addresses", addresses, "-o", tmp_path / "topology.yaml")
    job = (example / "job.yaml").read_text()
    for n in (1, 2):
        job = job.replace(f"host: host{n}, nic: mlx5_0", f"host: h{n}, nic: eth1")
    (tmp_path / "job.yaml").write_text(job)
    (tmp_path / "policy.yaml").write_text("version: 1\ncopies: 1\n")
    plan = make_plan(load_specs(tmp_path / "topology.yaml", tmp_path / "job.yaml", tmp_path / "policy.yaml"))
    assert plan.sessions
