"""``rings[].nics``: a hop that names its NICs is watched, expected and sent there, and nowhere else."""

from pathlib import Path

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.ids import Address
from flowcheck_net.model.build import build_job
from flowcheck_net.model.expect import expect
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import plan_from_json, plan_to_json
from flowcheck_net.receive.synth_setup import connections_of
from flowcheck_net.spec.load import Specs, load_specs

TOPOLOGY = """\
version: 1
name: two-rails
switches:
  - name: rail0
    platform: fake
    management: fake:rail0
    ports: [{name: e1, speed: 100G}, {name: e2, speed: 100G}, {name: e3, speed: 100G}, {name: e4, speed: 100G}]
  - name: rail1
    platform: fake
    management: fake:rail1
    ports: [{name: e1, speed: 100G}, {name: e2, speed: 100G}, {name: e3, speed: 100G}, {name: e4, speed: 100G}]
hosts:
  - {name: h0, nics: [{name: a, speed: 100G, addresses: [10.0.0.1]}, {name: b, speed: 100G, addresses: [10.0.1.1]}]}
  - {name: h1, nics: [{name: a, speed: 100G, addresses: [10.1.0.1]}, {name: b, speed: 100G, addresses: [10.1.1.1]}]}
checkpoint_nodes:
  - name: c
    nics: [{name: c0, speed: 100G}, {name: c1, speed: 100G}]
links:
  - [h0:a, rail0:e1]
  - [h1:a, rail0:e2]
  - [c:c0, rail0:e3]
  - [h0:b, rail1:e1]
  - [h1:b, rail1:e2]
  - [c:c1, rail1:e3]
  - [rail0:e4, rail1:e4]
"""
POLICY = "version: 1\ncopies: 1\nmonitor: {rate_model: average}\n"
JOB = """\
version: 1
name: rails
collective: {{algorithm: ring}}
nccl: {{version: 2.19.3, protocol: LL, channels: 2, threads: 512}}
mtu: 1024
groups: [[0, 1]]
ranks:
  - {{rank: 0, host: h0, nic: a}}
  - {{rank: 1, host: h1, nic: a}}
rings:
  - {{group: dp0, channel: 0, order: [0, 1]}}
  - {{group: dp0, channel: 1, order: [1, 0], nics: {nics}}}
buckets: [{{name: b, elements: 5000, dtype: fp32}}]
iteration_time: 1
"""
# Channel 1: rank 1 sends with b and rank 0 receives with b; rank 0 sends with b, rank 1 receives with a.
NICS = "[[b, b], [b, a]]"


def specs(tmp_path: Path, nics: str = NICS) -> Specs:
    for name, text in (("topology", TOPOLOGY), ("policy", POLICY), ("job", JOB.format(nics=nics))):
        (tmp_path / f"{name}.yaml").write_text(text)
    return load_specs(tmp_path / "topology.yaml", tmp_path / "job.yaml", tmp_path / "policy.yaml")


def test_the_ends_of_each_hop(tmp_path):
    found = specs(tmp_path)
    job = build_job(found.job, found.topology)
    hops = {(hop.channel, hop.src_rank): (hop.source, hop.destination) for hop in expect(job, None).hops}
    assert hops == {
        (0, 0): ("10.0.0.1", "10.1.0.1"),
        (0, 1): ("10.1.0.1", "10.0.0.1"),
        (1, 1): ("10.1.1.1", "10.0.1.1"),
        (1, 0): ("10.0.1.1", "10.1.0.1"),
    }
    assert expect(job, None).addresses == {"10.0.0.1", "10.1.0.1", "10.1.1.1", "10.0.1.1"}
    sent = {(c.lane.channel, c.source.rank): (c.source.address, c.destination.address) for c in connections_of(job, 0)}
    assert sent == hops


def test_the_plan_watches_where_the_hop_goes(tmp_path):
    """Hop 1 -> 0 of channel 1 enters rail1 from h1's NIC b; hop 0 -> 1 crosses from rail1 to rail0."""
    plan = make_plan(specs(tmp_path))
    points = {(int(hop.channel), hop.index): hop.point for hop in plan.hops}
    assert points[1, 0] in ("rail1:e2:rx", "rail1:e1:tx")
    assert points[1, 1] in ("rail1:e1:rx", "rail1:e4:tx", "rail0:e4:rx", "rail0:e2:tx")
    assert points[0, 0] in ("rail0:e1:rx", "rail0:e2:tx")
    assert plan_from_json(plan_to_json(plan), "x") == plan


def test_an_empty_pair_means_the_ranks_own(tmp_path):
    found = specs(tmp_path, "[[], [b, a]]")
    job = build_job(found.job, found.topology)
    assert [end.address for end in job.ends(job.rings[1], 0)] == [Address("10.1.0.1"), Address("10.0.0.1")]


@pytest.mark.parametrize(
    ("nics", "words"),
    [
        ("[[b, b]]", "rings.1.nics: a ring of 2 hops needs 2 pairs (found 1)"),
        ("[[b], []]", "rings.1.nics.0: must be a pair [sender's NIC, receiver's NIC], or [] (found a list of 1)"),
        ("[[b, x], []]", "rings.1.nics.0.1: host h0 of rank 0 has no NIC 'x' in the topology"),
        ("[['b:1', b], []]", "rings.1.nics.0"),
    ],
)
def test_pairs_that_do_not_fit(tmp_path, nics, words):
    with pytest.raises(SpecError) as error:
        specs(tmp_path, nics)
    assert words in error.value.message


def test_a_queue_pair_belongs_to_the_nic_that_receives(tmp_path):
    """Two hops into rank 0 with one number: at two NICs they are two queue pairs, at one they are not."""
    text = JOB.format(nics=NICS).replace("order: [0, 1]}", "order: [0, 1], qpns: [[7], [9]]}")
    for nics, clash in (("nics: [[b, b], [b, a]]", False), ("nics: [[b, a], [b, a]]", True)):
        job = text.replace("nics: [[b, b], [b, a]]}", f"{nics}, qpns: [[9], [8]]}}")
        specs(tmp_path)
        (tmp_path / "job.yaml").write_text(job)
        files = tmp_path / "topology.yaml", tmp_path / "job.yaml", tmp_path / "policy.yaml"
        if clash:
            with pytest.raises(SpecError, match=r"queue pair 0x9 of h0:a belongs to rings.0.qpns.1 already"):
                load_specs(*files)
        else:
            load_specs(*files)
