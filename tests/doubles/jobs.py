"""Small jobs and fabrics as plain dicts, for tests of groups and collectives."""

from collections.abc import Mapping, Sequence
from typing import Any

from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology


def job_fields(ranks: int, hosts: int | None = None, **changes: Any) -> dict[str, Any]:
    """A job of ``ranks`` ranks, spread evenly in order over ``hosts`` hosts (default: one each); ring, Simple."""
    per_host = ranks // (hosts or ranks)
    fields: dict[str, Any] = {
        "version": 1,
        "name": "test",
        "collective": {"algorithm": "ring"},
        "nccl": {"version": "2.22.3", "protocol": "Simple", "channels": 1, "threads": 512},
        "mtu": 4096,
        "layout": {},
        "ranks": tuple({"rank": r, "host": f"h{r // per_host}", "nic": f"m{r % per_host}"} for r in range(ranks)),
        "buckets": ({"name": "b", "elements": 4096, "dtype": "fp32"},),
        "iteration_time": 0.5,
    }
    nccl = fields["nccl"] | changes.pop("nccl", {})
    if "groups" in changes:
        del fields["layout"]
    return fields | changes | {"nccl": nccl}


def a_job(ranks: int, hosts: int | None = None, **changes: Any) -> JobSpec:
    """The same as a spec."""
    return JobSpec.model_validate(job_fields(ranks, hosts, **changes))


def one_leaf(hosts: int, nics: int = 1, captures: int = 4) -> Topology:
    """Hosts ``h0``, ``h1``, ... with NICs ``m0``, ... on one leaf, and a checkpoint node with capture NICs there."""
    names = [(f"h{h}", f"m{n}") for h in range(hosts) for n in range(nics)]
    caps = [("ckpt", f"cap{n}") for n in range(captures)]
    return Topology.model_validate(
        {
            "version": 1,
            "name": "test",
            "switches": (
                {
                    "name": "leaf1",
                    "platform": "fake",
                    "management": "fake:leaf1",
                    "ports": tuple({"name": f"{d}-{n}", "speed": "400G"} for d, n in [*names, *caps]),
                },
            ),
            "hosts": tuple(
                {
                    "name": f"h{h}",
                    "nics": tuple(
                        {"name": f"m{n}", "speed": "400G", "addresses": (f"10.{h}.{n}.1",)} for n in range(nics)
                    ),
                }
                for h in range(hosts)
            ),
            "checkpoint_nodes": ({"name": "ckpt", "nics": tuple({"name": n, "speed": "400G"} for _, n in caps)},),
            "links": tuple((f"{d}:{n}", f"leaf1:{d}-{n}") for d, n in [*names, *caps]),
        }
    )


def a_policy(copies: int = 2, **changes: Any) -> Policy:
    """Nothing but the number of copies, unless asked for; rates are averages, so that capture ports never fill up."""
    fields: Mapping[str, Any] = {"version": 1, "copies": copies, "monitor": {"rate_model": "average", "headroom": 0.0}}
    return Policy.model_validate({**fields, **changes})


def pairs(edges: Sequence[Any]) -> set[tuple[int, int]]:
    """(parent, child) of tree edges."""
    return {(edge.parent, edge.child) for edge in edges}
