"""The files shown in docs/spec-files.md load as they stand."""

from pathlib import Path

from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology
from flowcheck_net.spec.yamlpos import parse_document

DOC = Path(__file__).resolve().parents[2] / "docs" / "spec-files.md"


def shown(title: str) -> str:
    """The indented block under a heading."""
    section = DOC.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))


def test_topology():
    topology = Topology.model_validate(parse_document(shown("topology.yaml"), "doc").tree)
    assert [port.shared for port in topology.switches[0].ports] == [False, True, False]


def test_job():
    job = JobSpec.model_validate(parse_document(shown("job.yaml"), "doc").tree)
    assert job.rings[0].qpns == ((0x514,), (0xC99,))
    assert job.broadcasts[0].bytes == 20000


def test_policy():
    policy = Policy.model_validate(parse_document(shown("policy.yaml"), "doc").tree)
    assert policy.monitor.measured_gbps == {"leaf1:Ethernet1:rx": 120.0}
