"""What ``flowcheck-net lab demo`` runs: one fault after another in labs of real switches, and what must come of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A run."""

    example: str
    """Folder below ``topologies/``."""
    title: str
    faults: tuple[str, ...]
    """As ``flowcheck-net lab run --fault`` takes them."""
    allowed: frozenset[str]
    """Verdicts of the whole run that are right. Where chance or timing decides there are several."""


CASES = (
    Case("lab-leaf-spine", "clean", (), frozenset({"COVERED"})),
    Case("lab-leaf-spine", "1 % of all copies lost", ("loss:rate=0.01",), frozenset({"RECOVERED", "GAP"})),
    Case("lab-leaf-spine", "a monitor port is congested", ("congestion:capture=ckpt2:cap0,pps=1000",),
         frozenset({"RECOVERED", "GAP"})),
    Case("lab-leaf-spine", "a mirror link flaps", ("flap:capture=ckpt2:cap0",),
         frozenset({"RECOVERED", "GAP", "UNKNOWN"})),
    Case("lab-leaf-spine", "all mirror links of a node are cut",
         ("cut:capture=ckpt1:cap0", "cut:capture=ckpt1:cap1"), frozenset({"GAP", "UNKNOWN"})),
    Case("lab-leaf-spine", "a switch restarts", ("restart:switch=leaf1",), frozenset({"GAP", "UNKNOWN"})),
    Case("lab-leaf-spine", "a receiver is killed", ("kill:node=ckpt1",), frozenset({"GAP", "UNKNOWN"})),
    Case("lab-leaf-spine", "ranks change places", ("order",), frozenset({"GAP", "UNKNOWN", "STALE"})),
    Case("lab-leaf-spine", "another tenant, no filter", ("tenant",), frozenset({"UNPLANNED"})),
    Case("lab-shared", "another tenant, filtered", ("tenant",), frozenset({"COVERED"})),
    Case("lab-tree", "two groups on trees, IPv6, filters", ("tenant",), frozenset({"COVERED"})),
    Case("lab-remote", "two groups on rings, ERSPAN", (), frozenset({"COVERED"})),
    Case("lab-p4-window", "only reduced chunks mirrored", (), frozenset({"COVERED"})),
)  # fmt: skip
