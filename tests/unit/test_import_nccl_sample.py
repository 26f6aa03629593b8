"""The 16-rank log of two p4d hosts: values counted in the file by other means than the importer's.

The file has no ``Ring`` lines (NCCL 2.9.9 writes none) and no NET/IB lines (AWS Libfabric): rings come from rank 0's
whole lists and must agree with every rank's connection lines.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.import_nccl import nccl
from flowcheck_net.errors import SpecError
from flowcheck_net.importers.nccl_communicators import Log, gather
from flowcheck_net.importers.nccl_groups import choose, group_facts
from flowcheck_net.importers.nccl_lines import parse_lines, read_logs
from flowcheck_net.importers.nccl_topology_xml import affinities, bus_key
from flowcheck_net.importers.nccl_xml import read_xml
from flowcheck_net.plan.make import make_plan
from flowcheck_net.spec.load import load_specs

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "nccl"
LOG = SAMPLES / "log_aws_efa_p4d_16ranks.txt"
pytestmark = pytest.mark.skipif(not LOG.exists(), reason="the real NCCL logs are in /work/shared/samples only")

WORKERS = ("nccl-tests-efa-16-worker-0", "nccl-tests-efa-16-worker-1")
STATED = [
    "--bucket",
    "1000000:bf16",
    "--iteration-time",
    "0.5",
    "--algorithm",
    "ring",
    "--protocol",
    "Simple",
    "--mtu",
    "4096",
]
# `grep 'Channel 0./08' LOG`, copied by eye; channels 4 to 7 repeat 0 to 3.
RINGS = [
    [0, 7, 6, 5, 4, 3, 2, 1, 8, 15, 14, 13, 12, 11, 10, 9],
    [0, 3, 10, 15, 14, 13, 12, 9, 8, 11, 2, 7, 6, 5, 4, 1],
    [0, 7, 6, 5, 12, 11, 10, 9, 8, 15, 14, 13, 4, 3, 2, 1],
    [0, 5, 4, 7, 14, 11, 10, 9, 8, 13, 12, 15, 6, 3, 2, 1],
] * 2


def read(text: str | None = None) -> Log:
    found = read_logs([LOG]) if text is None else parse_lines(text.splitlines(), "log")
    return gather(found, ["log"])


def facts(log: Log):
    return group_facts(log, choose(log, (), None))[0]


def test_eight_complete_rings():
    group = facts(read())
    assert [list(ring.ring.order) for ring in group.rings] == RINGS
    assert [member.process.host for member in group.communicator.members] == [WORKERS[r // 8] for r in range(16)]


def test_hops_and_nics_agree_with_a_naive_grep():
    """Every `via NET` line that is an edge of a ring, by a search that knows nothing of communicators."""
    text = LOG.read_text()
    seen: dict[tuple[int, int, int], set[tuple[str, int]]] = {}
    pattern = r"Channel (\d+) : (\d+)\[\w+\] -> (\d+)\[\w+\] \[(send|receive)\] via NET/AWS Libfabric/(\d)/GDRDMA"
    for channel, a, b, way, nic in re.findall(pattern, text):
        seen.setdefault((int(channel), int(a), int(b)), set()).add((way, int(nic)))
    edges = {(c, ring[i - 1], ring[i]) for c, ring in enumerate(RINGS) for i in range(16)}
    wanted = {edge: ends for edge, ends in seen.items() if edge in edges}
    found = {
        (ring.ring.channel, hop.source, hop.target): {("send", hop.send.device), ("receive", hop.receive.device)}
        for ring in facts(read()).rings
        for hop in ring.hops
        if hop.send is not None
    }
    assert found == wanted
    assert len(found) == 16  # two hops between the hosts on each of eight channels
    # Pitfall P38: other GPUs at the two ends (1 -> 8, 3 -> 10, ...), one NIC index, for two GPUs share a NIC.
    assert {(a % 8, b % 8) for _, a, b in found} == {(1, 0), (3, 2), (5, 4), (7, 6)}
    assert all(len({nic for _, nic in ends}) == 1 for ends in found.values())


def test_connections_within_a_host_agree_with_the_rings():
    """Every other edge of a ring has a P2P line: the lists are not just well formed, they are what was connected."""
    local = {
        (int(c), int(a), int(b))
        for c, a, b in re.findall(r"Channel (\d+) : (\d+)\[\w+\] -> (\d+)\[\w+\] via P2P", LOG.read_text())
    }
    hops = [(ring.ring.channel, hop) for ring in facts(read()).rings for hop in ring.hops if hop.send is None]
    assert len(hops) == 8 * 16 - 16
    assert all((channel, hop.source, hop.target) in local for channel, hop in hops)


def test_trees_agree_with_rank_zero_by_eye():
    """Rank 0 says `[0] 1/8/-1->0->-1 [1] 1/-1/-1->0->7 ... [4] 1/-1/-1->0->8 ...`."""
    trees = facts(read()).trees
    assert [tree.parents[0] for tree in trees] == [-1, 7, 7, 7, 8, 7, 7, 7]
    assert trees[0].parents[8] == 0


def test_gpus_that_share_a_nic_in_the_log_share_one_in_the_topology_file():
    """Two files of two projects: the log (bus ids, NIC numbers) and the p4d topology XML."""
    group = facts(read())
    used = {}
    for hop in (hop for ring in group.rings for hop in ring.hops if hop.send is not None):
        used[hop.source], used[hop.target] = hop.send.device, hop.receive.device
    path = SAMPLES / "p4d-24xl-topo.xml"
    nic_of = {bus_key(one.gpu.bus_id): one.nics[0].bus_id for one in affinities(read_xml(path), str(path))}
    pairs = {(used[m.rank], nic_of[bus_key(m.bus_id)]) for m in group.communicator.members}
    assert len(pairs) == 4
    assert len({nic for nic, _ in pairs}) == len({bus for _, bus in pairs}) == 4


def two_p4d(rails: int = 4) -> str:
    """Two hosts with four NICs each, a leaf for each rail, two capture NICs a leaf."""
    switches = "".join(
        f"  - {{name: rail{r}, platform: fake, management: 'fake:rail{r}', ports: ["
        + ", ".join(f"{{name: Ethernet{p}, speed: 100G}}" for p in (1, 2, 31, 32))
        + "]}\n"
        for r in range(rails)
    )
    hosts = "".join(
        f"  - {{name: {host}, nics: ["
        + ", ".join(f"{{name: efa{n}, speed: 100G, addresses: [10.{h}.{n}.1]}}" for n in range(4))
        + "]}\n"
        for h, host in enumerate(WORKERS)
    )
    captures = ", ".join(f"{{name: cap{n}, speed: 100G}}" for n in range(8))
    links = "".join(
        f"  - ['{host}:efa{r}', 'rail{r}:Ethernet{h + 1}']\n" for r in range(4) for h, host in enumerate(WORKERS)
    )
    links += "".join(f"  - ['ckpt1:cap{2 * r + n}', 'rail{r}:Ethernet{31 + n}']\n" for r in range(4) for n in (0, 1))
    nodes = f"checkpoint_nodes:\n  - {{name: ckpt1, nics: [{captures}]}}\n"
    return f"version: 1\nname: two-p4d\nswitches:\n{switches}hosts:\n{hosts}{nodes}links:\n{links}"


def test_the_log_imports_without_hand_edits_and_plans(tmp_path):
    (tmp_path / "topology.yaml").write_text(two_p4d())
    (tmp_path / "policy.yaml").write_text("version: 1\ncopies: 2\nmonitor: {rate_model: line_rate, headroom: 0.0}\n")
    job = tmp_path / "job.yaml"
    options = [*STATED, "--topology", str(tmp_path / "topology.yaml"), "-o", str(job), "--json"]
    result = CliRunner().invoke(nccl, [str(LOG), *options])
    assert result.exit_code == 0, result.output
    findings = {one["name"]: one["words"] for one in json.loads(result.stdout)["findings"]}
    assert "SRD" in findings["not-rocev2"]
    specs = load_specs(tmp_path / "topology.yaml", job, tmp_path / "policy.yaml")
    assert Counter(place.nic for place in specs.job.ranks) == {"efa0": 4, "efa1": 4, "efa2": 4, "efa3": 4}
    plan = make_plan(specs)
    # Two hops between hosts a ring: one copy each, and the plan says that more was wanted.
    assert [(ring.channel, ring.copies, ring.wanted) for ring in plan.coverage] == [(c, 1, 2) for c in range(8)]
    # Channel 0 and 4 use NIC 1 at both ends, 1 and 5 NIC 3, 2 and 6 NIC 0, 3 and 7 NIC 2 (see the log).
    rails = {(hop.channel, hop.point.split(":")[0]) for hop in plan.hops}
    assert rails == {(c, f"rail{(1, 3, 0, 2)[c % 4]}") for c in range(8)}


@pytest.mark.parametrize("rank", range(16))
def test_a_rank_without_its_log_is_named(rank):
    lines = [line for line in LOG.read_text().splitlines() if not line.startswith(f"[1,{rank}]") or "version" in line]
    with pytest.raises(SpecError, match=f"rank-logs-missing: .*: the logs of ranks {rank} are missing"):
        facts(read("\n".join(lines)))


def test_a_cut_list_is_refused_with_its_length():
    text = LOG.read_text().replace("13   4   3   2   1", "", 1)  # channel 2, once
    with pytest.raises(SpecError, match=r"ring-cut: channel 02: rank 0's list is cut at 11 of 16 ranks"):
        facts(read(text))


def test_a_list_with_two_ranks_exchanged_is_refused():
    """It is a closed ring over all ranks, but not the one that was connected."""
    text = LOG.read_text().replace("1   8  15  14  13  12  11  10   9", "8   1  15  14  13  12  11  10   9", 1)
    names = {(problem.path, problem.message[:44]) for problem in facts(read(text)).problems}
    assert ("nic-not-logged", "no '[send] via NET' line of hops in the log ") in names


def test_the_log_imports_as_a_job_of_trees(tmp_path):
    """By eye: between the hosts channel 0 has only 0 over 8, channel 4 only 8 over 0, both through NIC 1."""
    out = tmp_path / "job.yaml"
    options = [word if word != "ring" else "tree" for word in STATED]
    result = CliRunner().invoke(nccl, [str(LOG), *options, "-o", str(out), "--json"])
    assert result.exit_code == 0, result.output
    trees = json.loads(result.stdout)["job"]["trees"]
    between = [[edge for edge in tree["edges"] if edge[0] // 8 != edge[1] // 8] for tree in trees]
    assert between[0] == [[0, 8]]
    assert between[4] == [[8, 0]]
    assert [len(edges) for edges in between] == [1] * 8
    assert all(len(tree["edges"]) == 15 for tree in trees)
    (tmp_path / "topology.yaml").write_text(two_p4d())
    (tmp_path / "policy.yaml").write_text("version: 1\ncopies: 1\n")
    options = [*options, "--topology", str(tmp_path / "topology.yaml"), "-o", str(out), "--force"]
    assert CliRunner().invoke(nccl, [str(LOG), *options]).exit_code == 0
    plan = make_plan(load_specs(tmp_path / "topology.yaml", out, tmp_path / "policy.yaml"))
    assert [cover.copies for cover in plan.coverage] == [1] * 8
