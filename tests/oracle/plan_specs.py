"""Raw specs (plain dicts, as the YAML files hold them) for planner tests, and their way into the program."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import Specs
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology

Raw = dict[str, Any]


def to_specs(topology: Raw, job: Raw, policy: Raw) -> Specs:
    """What ``load_specs`` gives for files with this content."""
    return Specs(
        Topology.model_validate_json(json.dumps(topology)),
        JobSpec.model_validate_json(json.dumps(job)),
        Policy.model_validate_json(json.dumps(policy)),
    )


def leaf_fabric(
    hosts: Mapping[str, str],
    captures: Sequence[tuple[str, str, str]],
    *,
    spines: int = 0,
    speed: str = "400G",
    shared: Sequence[str] = (),
    domains: Mapping[str, Sequence[str]] | None = None,
    platform: str = "fake",
) -> Raw:
    """A fabric of leaves, each linked once to every spine.

    Args:
        hosts: Host -> its leaf. Each has one NIC ``nic0`` on leaf port ``P<number>``, numbered from 1 in this order.
        captures: (node, leaf or spine, speed) of each capture NIC, named ``cap<number>`` from 0 on the node.
        spines: How many, named ``spine1`` ...
        speed: Of every other port.
        shared: ``switch:port`` that foreign traffic crosses.
        domains: Device -> its failure domains.
        platform: Of every switch.
    """
    leaves = sorted({*hosts.values(), *(s for _, s, _ in captures if not s.startswith("spine"))})
    ports: dict[str, list[Raw]] = {name: [] for name in (*leaves, *(f"spine{n}" for n in range(1, spines + 1)))}
    links: list[list[str]] = []
    nodes: dict[str, list[Raw]] = {}

    def port(switch: str, name: str, gbps: str) -> str:
        ports[switch].append({"name": name, "speed": gbps, "shared": f"{switch}:{name}" in shared})
        return f"{switch}:{name}"

    for number, (host, leaf) in enumerate(hosts.items(), start=1):
        links.append([f"{host}:nic0", port(leaf, f"P{number}", speed)])
    for node, switch, gbps in captures:
        nics = nodes.setdefault(node, [])
        nics.append({"name": f"cap{len(nics)}", "speed": gbps})
        links.append([f"{node}:{nics[-1]['name']}", port(switch, f"M{node}{len(nics)}", gbps)])
    for spine in (name for name in ports if name.startswith("spine")):
        links.extend([port(leaf, f"up-{spine}", speed), port(spine, f"down-{leaf}", speed)] for leaf in leaves)
    domain = domains or {}
    return {
        "version": 1,
        "name": "test",
        "switches": [
            {
                "name": name,
                "platform": platform,
                "management": f"fake:{name}",
                "failure_domains": list(domain.get(name, ())),
                "ports": listed,
            }
            for name, listed in ports.items()
        ],
        "hosts": [
            {
                "name": host,
                "failure_domains": list(domain.get(host, ())),
                "nics": [{"name": "nic0", "speed": speed, "addresses": [f"10.0.0.{number}"]}],
            }
            for number, host in enumerate(hosts, start=1)
        ],
        "checkpoint_nodes": [
            {"name": node, "failure_domains": list(domain.get(node, ())), "nics": nics} for node, nics in nodes.items()
        ],
        "links": links,
    }


def ring_job(
    groups: Sequence[Sequence[str]],
    *,
    channels: int = 1,
    extra_step: bool = False,
    rings: Sequence[Raw] = (),
    elements: int = 2 * 12 * 4096,
    iteration_time: float = 0.5,
) -> Raw:
    """A job whose groups are lists of host names; ranks are numbered in the order in which they appear.

    With NCCL 2.22, Simple and a multiple of 2 * 12 * 4096 fp32 elements every ring of 2, 3, 4 ranks on 1 or 2 channels
    is cut into equal chunks: then every hop carries 2 (N-1) messages of (bytes / channels / N).
    """
    ranks: list[Raw] = []
    numbered: list[list[int]] = []
    for group in groups:
        numbered.append([])
        for host in group:
            numbered[-1].append(len(ranks))
            ranks.append({"rank": len(ranks), "host": host, "nic": "nic0"})
    return {
        "version": 1,
        "name": "job",
        "collective": {"algorithm": "ring", "extra_step": extra_step},
        "nccl": {"version": "2.22.3", "protocol": "Simple", "channels": channels, "threads": 512},
        "mtu": 4096,
        "groups": numbered,
        "ranks": ranks,
        "rings": list(rings),
        "buckets": [{"name": "all", "elements": elements, "dtype": "fp32"}],
        "iteration_time": iteration_time,
    }


def policy(*, copies: int = 2, allowed: Sequence[str] = ("*:*",), **monitor: Any) -> Raw:
    """A policy without failure-domain rules; keywords go under ``monitor``."""
    return {
        "version": 1,
        "copies": copies,
        "monitor": monitor,
        "failure_domains": {"copies_apart": [], "checkpoint_apart": False},
        "allowed_ports": list(allowed),
    }
