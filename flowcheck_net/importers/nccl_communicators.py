"""Lines -> communicators: which ranks there are, where they run, and which lines are whose.

A line names its process and thread but not its communicator. What a thread writes before ``Init COMPLETE`` belongs to
the communicator that this line names. What is left (NCCL 2.22 on connects when a communicator is first used, on any
thread) stays with the process and is matched later by channel and ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_grammar import NEWEST, OLDEST, Grammar, grammar_for
from flowcheck_net.importers.nccl_lines import Line, LogText, Process, Version
from flowcheck_net.importers.nccl_records import CommInit, Record, Unread

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Said:
    """A line and what it says."""

    line: Line
    record: Record


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a communicator."""

    rank: int
    process: Process
    cuda_device: int
    bus_id: str
    """As in the log; empty where it does not say."""
    pointer: str
    line: Line
    """Its ``Init COMPLETE``."""
    said: tuple[Said, ...]
    """What its thread wrote before."""


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator as far as the logs show it."""

    id: str
    """``commId``; where the version writes none: ``nranks-16``, or the parent's with the split's colour."""
    size: int
    members: tuple[Member, ...]
    """Sorted by rank; ranks may be missing, and where communicators cannot be told apart, be there twice."""
    begun: tuple[int, ...]
    """Ranks that wrote ``Init START`` and never ``Init COMPLETE``."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks without ``Init COMPLETE``."""
        return tuple(sorted(set(range(self.size)) - {member.rank for member in self.members}))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Its hosts, in order of their lowest rank."""
        return tuple(dict.fromkeys(member.process.host for member in self.members))


@dataclass(frozen=True, slots=True)
class Log:
    """All that the logs say, before anything is chosen or judged."""

    name: str
    """The files, for messages."""
    version: Version
    grammar: Grammar
    communicators: tuple[Communicator, ...]
    """In order of size, largest first, then of id."""
    loose: Mapping[Process, tuple[Said, ...]]
    """What belongs to a process and to no one communicator."""
    namesakes: Mapping[tuple[Process, int], int]
    """In how many communicators a process has a rank number."""
    everything: tuple[Said, ...]
    unread: tuple[Line, ...]
    """Lines that begin like ours and are none in this version's grammar."""


def gather(text: LogText, names: Sequence[str], version: Version | None = None) -> Log:
    """Sort the lines.

    Args:
        text: All lines.
        names: The files, for messages.
        version: NCCL's version, for logs that do not say it.

    Raises:
        SpecError: The version is missing, contradictory or not known, or no communicator is in the log.
    """
    name = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    grammar = _grammar(text, name, version)
    said = [Said(line, record) for line in text.lines if (record := grammar.parse(line.text)) is not None]
    unread = tuple(one.line for one in said if isinstance(one.record, Unread))
    members, loose = _members(one for one in said if not isinstance(one.record, Unread))
    communicators = _communicators(members, said)
    if not communicators:
        words = "no communicator: there is no line 'comm ... Init COMPLETE'"
        cure = "log with NCCL_DEBUG=INFO and INIT in NCCL_DEBUG_SUBSYS"
        raise SpecError([Problem(name, 0, 0, "communicator-missing", words, cure)])
    namesakes = Counter((member.process, member.rank) for one in communicators for member in one.members)
    return Log(name, grammar.version, grammar, communicators, loose, namesakes, tuple(said), unread)


def listed(numbers: Iterable[int | str]) -> str:
    """``3, 7, 9``, cut after eight."""
    words = [str(number) for number in numbers]
    rest = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _grammar(text: LogText, name: str, stated: Version | None) -> Grammar:
    for line in text.versions:
        if line.library != "NCCL":
            words = f"{line.library} {_dotted(line.version)}: its wire format is not NCCL's"
            raise SpecError([Problem(line.source, line.number, 1, "not-nccl", words, "only NVIDIA's NCCL is known")])
    found = sorted({line.version for line in text.versions})
    if stated is not None:
        found = [stated]
    if len(found) != 1:
        if found:
            words = f"versions {listed(_dotted(version) for version in found)} in one job"
            cure = "give the logs of one run only"
            raise SpecError([Problem(name, 0, 0, "version-differs", words, cure)])
        words = "no line 'NCCL version ...': the lines cannot be read without it"
        cure = "add the log of rank 0, or give --nccl-version"
        raise SpecError([Problem(name, 0, 0, "version-missing", words, cure)])
    grammar = grammar_for(found[0])
    if grammar is None:
        words = f"NCCL {_dotted(found[0])} is not known: the form of its lines may differ"
        cure = f"known: {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}; --nccl-version reads it as another version"
        raise SpecError([Problem(name, 0, 0, "version-unknown", words, cure)])
    return grammar


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)


def _members(said: Iterable[Said]) -> tuple[list[tuple[CommInit, Member]], dict[Process, tuple[Said, ...]]]:
    """Cut what each thread wrote at its ``Init COMPLETE`` lines; the rest is the process's."""
    open_lines: defaultdict[tuple[Process, int], list[Said]] = defaultdict(list)
    loose: defaultdict[Process, list[Said]] = defaultdict(list)
    members: list[tuple[CommInit, Member]] = []
    for one in said:
        process, record = one.line.process, one.record
        thread = (process, one.line.tid)
        if not isinstance(record, CommInit):
            open_lines[thread].append(one)
            continue
        before = tuple(open_lines.pop(thread, ()))
        if record.complete:
            place = Member(record.rank, process, record.cuda_device, record.bus_id, record.pointer, one.line, before)
            members.append((record, place))
        else:
            loose[process] += before
    for (process, _), rest in open_lines.items():
        loose[process] += rest
    return members, {process: tuple(rest) for process, rest in loose.items()}


def _communicators(members: Sequence[tuple[CommInit, Member]], said: Sequence[Said]) -> tuple[Communicator, ...]:
    ids = _Ids(members)
    found: defaultdict[tuple[str, int], dict[tuple[int, Process, str], Member]] = defaultdict(dict)
    for record, member in members:
        # A log that is given twice says the same twice.
        key = (member.rank, member.process, member.pointer)
        known = found[ids.of(record, member.process), record.size]
        if key not in known or len(known[key].said) < len(member.said):
            known[key] = member
    begun = _begun(said)
    return tuple(
        Communicator(
            name,
            size,
            tuple(sorted(known.values(), key=lambda m: (m.rank, m.process, m.pointer))),
            tuple(sorted(begun.get(name, set()) - {member.rank for member in known.values()})),
        )
        for (name, size), known in sorted(found.items(), key=lambda item: (-item[0][1], item[0][0]))
    )


def _begun(said: Sequence[Said]) -> dict[str, set[int]]:
    begun: defaultdict[str, set[int]] = defaultdict(set)
    for one in said:
        if isinstance(one.record, CommInit) and not one.record.complete and one.record.comm_id:
            begun[one.record.comm_id].add(one.record.rank)
    return begun


class _Ids:
    """Names communicators so that all ranks of one have the same name."""

    def __init__(self, members: Sequence[tuple[CommInit, Member]]) -> None:
        self._own = {(member.process, record.pointer): record for record, member in members}

    def of(self, record: CommInit, process: Process, depth: int = 8) -> str:
        """``commId``, or what stands for it."""
        if record.comm_id:
            return record.comm_id
        parent = self._own.get((process, record.parent)) if record.parent else None
        if parent is not None and depth:
            return f"{self.of(parent, process, depth - 1)}/{record.split.replace(' ', '-')}"
        return f"nranks-{record.size}"
