"""What a command-line platform is to the drivers that speak to it: frozen words, and pure functions on text.

A driver asks the commands that ``ask`` names until there are no more, gives all answers to ``parse``, and gives what
came of them to ``render`` with the steps. A dialect never sees a connection, a clock or a secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from flowcheck_net.intent import Capabilities, Counters, MirrorSession, Remark, Step

Answers = Mapping[str, str]
"""Command -> what the switch answered: lines joined by newlines, without echo, prompt, pager and log lines."""


class ParseError(ValueError):
    """An answer is not understood: says which command, and the line. Never taken for an empty answer."""


class Unfit(ValueError):
    """The platform has no words for a step, or no room for it. Nothing was sent."""


class Purpose(StrEnum):
    """What the answers are for."""

    READ = "read"
    WRITE = "write"
    """Also all that ``render`` needs for the steps at hand, such as the former configuration of their destinations."""
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Site:
    """For whom a dialect works, and what the site says of the switch."""

    job: str
    """Whose sessions are ours."""
    limits: Capabilities
    """The platform's table."""
    ids: tuple[int, int] | None = None
    """First and last number of our sessions, where the platform has numbers for names; None: the dialect chooses."""
    vrf: str = ""
    """VRF in which encapsulated copies are routed; empty: the default one."""
    origin: str = ""
    """Address of the switch that encapsulated copies come from; empty: the dialect finds one, or says Unfit."""
    via: str = ""
    """Port that encapsulated copies leave by, where the platform wants to be told; empty: not said."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A state of the command line, told by its prompt."""

    name: str
    prompt: str
    """Regular expression of the whole prompt, without spaces at its end. ``{host}`` stands for the switch's own name,
    also cut short (long names are, in configuration modes)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line to send. A line that is rejected ends the change and is named to the user."""

    text: str
    then: str = ""
    """Name of the mode that must be there after it; empty: the mode that was there before."""
    may_fail: bool = False
    """Its rejection means that there was nothing to do (undoing what may not be there)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, of one step. They begin and end in ``Words.config_mode``."""

    step: int
    """Place of the step among all steps, from 0."""
    lines: tuple[Line, ...]
    undo: tuple[Line, ...] = ()
    """What restores the state before the block, however many of its lines were carried out, from the first on. Begins
    and ends in ``Words.config_mode`` too. Not used where the platform has a transaction."""
    name: str = ""
    """What the block is about, for messages: ``access list fcn-gpt-0``."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Words of a platform that takes changes into a candidate and puts them into effect at once.

    In every line ``{name}`` is the name of our candidate (``fcn-JOB-xxxxxxxx``) and ``{minutes}`` (``{mm}``
    with two digits) the time to confirm.
    All lines begin where the line before has ended: ``begin`` in ``Words.exec_mode``; ``begin`` must end in
    ``Words.config_mode``; ``commit``, ``abort`` and ``confirm`` must end in ``Words.exec_mode``.
    """

    begin: tuple[Line, ...]
    commit: tuple[Line, ...]
    abort: tuple[Line, ...]
    """Sent from the exec mode, after ``Words.leave``: leaving a submode is not enough on all platforms."""
    effective: int = -1
    """Place in ``commit`` of the line that puts the change into effect."""
    diff: str = ""
    """Asked in the candidate, for messages; empty: no such word."""
    timed: bool = False
    """True: ``commit`` says ``{minutes}``, and the switch goes back by itself unless ``confirm`` follows."""
    confirm: tuple[Line, ...] = ()
    """Sent from the exec mode."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Words of a platform that lets one operator alone configure."""

    take: tuple[Line, ...]
    """From ``Words.exec_mode`` to it."""
    release: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """What is fixed of a platform's command line."""

    device_type: str
    """netmiko's name of it."""
    modes: tuple[Mode, ...]
    exec_mode: str
    """Where shows are asked; a login that lands in another mode is brought here by ``rise``."""
    config_mode: str
    """Where blocks begin."""
    configure: tuple[Line, ...]
    """From the exec mode to the configuration mode, where there is no transaction."""
    leave: tuple[Line, ...]
    """From any configuration mode back to the exec mode."""
    rise: Mapping[str, str] = field(default_factory=dict)
    """Mode where a login may land -> the command that asks for the way up (``enable``); a password is sent when asked
    for."""
    paging_off: tuple[str, ...] = ()
    """Sent after login, in the exec mode."""
    paging_check: str = ""
    """A command whose answer shows that paging is off; empty: none, then a pager seen later is an error."""
    paging_is_off: str = ""
    """Regular expression that is found in the answer to it."""
    pager: str = r"--\s*[Mm]ore\s*--|---- More ----|---\(more.*\)---"
    """What a pager shows. Seen in an answer: the answer is wanted again, it is never taken as whole."""
    comment: str = "! {}"
    """A line that does nothing, with a word of ours: the end marker of a read."""
    errors: tuple[str, ...] = (r"^\s*%",)
    """Regular expressions of answers that say that a line was rejected."""
    refusals: tuple[str, ...] = ()
    """Like ``errors``, in answers to lines that change something only: a platform that says nothing when a line was
    carried out can take everything that is said (``\\S``) for a rejection, whatever its words are."""
    harmless: tuple[str, ...] = ()
    """Regular expressions of lines that look like errors and are none; noted in the log."""
    busy: tuple[str, ...] = ()
    """Of ``errors``, those which say that somebody else holds the configuration."""
    noise: tuple[str, ...] = ()
    """Regular expressions of log lines that the switch throws into any output."""
    questions: tuple[tuple[str, str], ...] = ()
    """Regular expression of a question at the end of the stream -> what is answered. Other questions are errors."""
    transaction: Transaction | None = None
    """None: each line is in effect at once."""
    lock: Lock | None = None
    save: tuple[Line, ...] = ()
    """From the exec mode: keep the running configuration over a restart. Sent only where the site asks for it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What the answers tell. A dialect adds what its ``render`` needs in a class derived from this."""

    sessions: tuple[MirrorSession, ...]
    """All of the switch; ours by their ``fcn-`` names, others by whatever names them for a reader."""
    remarks: tuple[Remark, ...] = ()
    restart_mark: str = ""
    counters: Counters = field(default_factory=Counters)
    """Filled after ``Purpose.COUNT`` only; of all sessions that bear our mark, the driver keeps its own job's."""
    stale: tuple[Line, ...] = ()
    """Lines that clear away what earlier writes of our own job left pending; from the exec mode to it."""
    unconfirmed: tuple[Line, ...] = ()
    """Lines that confirm a timed commit of our own job; from the exec mode to it."""


Seen = TypeVar("Seen", bound=Picture)


class Dialect(Protocol[Seen]):
    """One platform."""

    @property
    def name(self) -> str:
        """As in the catalogue: ``eos``."""
        ...

    @property
    def words(self) -> Words:
        """What is fixed."""
        ...

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """The commands that are still to be asked; empty: ``answers`` is all.

        Called first without answers, then again with those that came, since some depend on others.
        """
        ...

    def parse(self, answers: Answers, site: Site) -> Seen:
        """What the answers tell; raises ParseError where one of them is not understood."""
        ...

    def render(self, steps: Sequence[Step], seen: Seen, site: Site) -> Sequence[Block]:
        """The lines of all steps, in the order in which they are to be sent; raises Unfit before anything is sent.

        What is common to all platforms (the session is there already, limits of the table) is checked before.
        """
        ...
