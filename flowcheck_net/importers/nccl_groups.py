"""Which communicators are the data-parallel groups, and what the log says of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_communicators import Communicator, Log, listed
from flowcheck_net.importers.nccl_hops import RingHops, hop_facts
from flowcheck_net.importers.nccl_rings import TreeFact, ring_facts, tree_facts


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A chosen communicator: one data-parallel group."""

    communicator: Communicator
    rings: tuple[RingHops, ...]
    """Of every channel; without hops where the log lacks a NIC of one."""
    trees: tuple[TreeFact, ...]
    """Those that are complete."""
    problems: tuple[Problem, ...] = ()
    """Why the rings have no hops: a job of rings cannot be made, one of trees may."""


def choose(log: Log, ids: Sequence[str], size: int | None) -> tuple[Communicator, ...]:
    """The communicators that carry gradients: the named ones, those of a size, or the only one of several ranks.

    Raises:
        SpecError: None or several fit and none was named, or two of them share a process.
    """
    known = log.communicators
    able = [one for one in known if one.size > 1]
    chosen = [one for one in able if (not ids or one.id in ids) and size in (None, one.size)]
    unknown = [one for one in ids if one not in {communicator.id for communicator in known}]
    cure = "--comm ID (once for each data-parallel group) or --nranks N"
    table = "; ".join(f"{one.id} of {one.size} ranks on {len(one.hosts)} hosts" for one in known[:16])
    if unknown or not chosen:
        words = f"no communicator {listed(unknown)}" if unknown else "no communicator fits"
        raise SpecError([Problem(log.name, 0, 0, "communicator-unknown", f"{words}; the log has {table}", cure)])
    if len(chosen) > 1 and not ids and size is None:
        words = f"{len(known)} communicators: {table}"
        raise SpecError([Problem(log.name, 0, 0, "communicator-not-chosen", words, cure)])
    places = Counter((member.process, member.cuda_device) for one in chosen for member in one.members)
    shared = sum(count > 1 for count in places.values())
    if len(chosen) > 1 and shared:
        words = f"{shared} processes are in two of the chosen communicators; data-parallel groups share none"
        raise SpecError([Problem(log.name, 0, 0, "communicators-overlap", words, cure)])
    return tuple(chosen)


def group_facts(log: Log, chosen: Sequence[Communicator]) -> tuple[GroupFacts, ...]:
    """Rings, hops and trees of the chosen communicators.

    Raises:
        SpecError: Ranks are missing or a ring is not complete: every fault of every communicator.
    """
    problems: list[Problem] = []
    groups: list[GroupFacts] = []
    for one in chosen:
        try:
            groups.append(_facts(one, log))
        except SpecError as error:
            problems += error.problems
    if len({len(group.rings) for group in groups}) > 1:
        words = "; ".join(f"{group.communicator.id} has {len(group.rings)}" for group in groups)
        problems.append(Problem(log.name, 0, 0, "channels-differ", f"channels: {words}", "choose groups of one kind"))
    if problems:
        raise SpecError(problems)
    return tuple(groups)


def _facts(one: Communicator, log: Log) -> GroupFacts:
    rings = ring_facts(one, log)
    trees = tree_facts(one, log)
    try:
        return GroupFacts(one, hop_facts(one, log, rings), trees)
    except SpecError as error:
        return GroupFacts(one, tuple(RingHops(ring, ()) for ring in rings), trees, error.problems)


def global_ranks(log: Log, chosen: Sequence[Communicator]) -> dict[tuple[object, int, str], int]:
    """(process, GPU, communicator pointer) -> rank in the job.

    Ranks of the communicator that holds exactly the processes of the chosen ones; where there is none, the chosen ones'
    ranks, one communicator after the other.
    """
    places = [(member.process, member.cuda_device) for one in chosen for member in one.members]
    keys = [(member.process, member.cuda_device, member.pointer) for one in chosen for member in one.members]
    for one in log.communicators:
        world = {(member.process, member.cuda_device): member.rank for member in one.members}
        if one.size == len(places) == len(world) and not one.missing and world.keys() == set(places):
            return {key: world[place] for key, place in zip(keys, places, strict=True)}
    return {key: number for number, key in enumerate(keys)}
