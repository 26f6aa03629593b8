"""Made-up clusters: a fabric, a job that fits it, and a policy, as the plain documents of the three input files.

For trying things at any size: nothing here is read from a real network. Equal arguments give equal documents.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flowcheck_net.errors import PlanError
from flowcheck_net.importers.generate_fabric import (
    FabricBuilder,
    build_dragonfly,
    build_fat_tree,
    build_leaf_spine,
    build_rail,
)
from flowcheck_net.importers.generate_job import hosts_in_order, job_document, taps_by_switch
from flowcheck_net.importers.generate_shape import Shape, ShapeError
from flowcheck_net.model.platforms import capabilities

_BUILDERS: Mapping[str, Callable[[Shape], FabricBuilder]] = {
    "rail-optimised": build_rail,
    "leaf-spine": build_leaf_spine,
    "fat-tree": build_fat_tree,
    "dragonfly": build_dragonfly,
}
_POSITIVE = (
    *("hosts", "gpus_per_host", "tp", "pp", "channels", "copies", "hosts_per_leaf", "spines"),
    *("capture_ports", "elements"),
)
KINDS = tuple(_BUILDERS)
"""The fabrics that can be generated."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The three input files as mappings, tuples, text and numbers, ready for ``dump_yaml`` or validation."""

    topology: dict[str, Any]
    job: dict[str, Any]
    policy: dict[str, Any]


def generate(kind: str, shape: Shape) -> Documents:
    """A cluster of one kind.

    Capture NICs hang on the switches that hosts hang on: ``shape.capture_ports`` on each of them, by default as many as
    the busiest one needs when every ring is watched at ``copies + 1`` hops. Where that is more than the platform has
    mirror sessions, the policy reckons with average rates and not with line rates.

    Raises:
        ShapeError: the numbers do not go together.
    """
    if kind not in _BUILDERS:
        raise ShapeError(f"no fabric is called '{kind}'", hint=f"known: {', '.join(KINDS)}")
    _check(shape)
    fabric = _BUILDERS[kind](shape)
    order = hosts_in_order(shape)
    taps = max(taps_by_switch(shape, fabric, order).values())
    try:
        sessions = capabilities(shape.platform).max_sessions
    except PlanError as error:
        raise ShapeError(error.message, hint=error.hint) from None
    by_line_rate = -(-taps * shape.gbps // shape.capture_gbps)
    rate_model = shape.rate_model or ("line_rate" if by_line_rate <= sessions else "average")
    wanted = by_line_rate if rate_model == "line_rate" else min(by_line_rate, sessions)
    fabric.add_captures(wanted if shape.capture_ports is None else shape.capture_ports)
    name = f"{kind}-{shape.hosts}x{shape.gpus_per_host}"
    return Documents(
        topology=fabric.document(name),
        job=job_document(shape, order, f"{kind}-{shape.hosts * shape.gpus_per_host}"),
        policy=_policy(shape, rate_model),
    )


def _check(shape: Shape) -> None:
    for field in _POSITIVE:
        found = getattr(shape, field)
        if found is not None and found < 1:
            raise ShapeError(f"{field.replace('_', ' ')} must be 1 or more (found {found})")
    if not 0 < shape.iteration_time <= 1e9:
        raise ShapeError(f"the iteration time must be from 0 to 1e9 seconds (found {shape.iteration_time:g})")
    gpus = shape.hosts * shape.gpus_per_host
    others = shape.tp * shape.pp
    if gpus % others:
        raise ShapeError(f"tp x pp = {shape.tp} x {shape.pp} does not divide the {gpus} GPUs")
    if gpus == others:
        raise ShapeError(
            f"tp x pp = {shape.tp} x {shape.pp} takes all {gpus} GPUs: no data-parallel rank is left",
            hint="take more hosts, or a smaller --pp",
        )
    if gpus >= 2**24 - 1:
        raise ShapeError(f"{gpus} GPUs are more than 10.0.0.0/8 has addresses", hint="take fewer hosts")
    if shape.channels > 64:
        raise ShapeError(f"NCCL has 64 channels at most (found {shape.channels})")


def _policy(shape: Shape, rate_model: str) -> dict[str, Any]:
    return {
        "version": 1,
        "copies": shape.copies,
        "monitor": {"rate_model": rate_model, "headroom": 0.0},
        "failure_domains": {"copies_apart": (), "checkpoint_apart": True},
        "allowed_ports": ("*:*",),
    }
