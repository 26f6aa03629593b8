"""The whole error tree, with exit codes and cures.

::

    FlowcheckError (1)
    ├── SpecError (2)             every problem found, each with file:line:column
    ├── OutputError (2)           a place that the user named cannot be written
    ├── JournalError (2)          the record of past applies is damaged, foreign, or held by another run
    ├── PlanError (3)
    │   ├── Infeasible (3)        names the ring and the limit that forbids it
    │   └── StalePlan (3)         the plan no longer fits its inputs, or the file was altered
    ├── CoverageGap (4)           audit: at least one update is incomplete; verify: copies are missing or too many
    ├── DriverError (5)           a switch refused, failed or could not be reached
    │   ├── ConnectError, Rejected, PartialWrite, StateUnknown
    ├── LabError (5)              the lab could not be made, or something of it died
    ├── Drift (6)                 verify found a difference
    ├── RolledBack (7)            apply failed, the former state was restored
    ├── NotRolledBack (8)         apply failed, and the former state was not restored
    ├── ReceiveError (9)
    │   ├── CaptureError          a capture file that is not, or not wholly, readable
    │   ├── SendError             frames cannot be sent: interface, rights, or a place where they must not go
    │   ├── RecordsCorrupt        a records file, or a gradient, with a wrong digest, version or form
    │   └── Unobserved            bytes of a gradient that no packet showed
    └── CoverageUnknown (10)      nothing incomplete, but something could not be proven

Only ``cli/main.py`` catches these. A ``KeyError`` that reaches the user is a bug and shows a traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class FlowcheckError(Exception):
    """The root: a message for a person, an exit code, and what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the facts (``message``) and the cure (``hint``) apart, so that both can be shown and tested."""
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault of an input file."""

    file: str
    line: int
    """1-based; 0 where the whole file is meant."""
    column: int
    """1-based; 0 where the whole file is meant."""
    path: str
    """Where in the document, such as ``switches.0.ports.3.speed``."""
    message: str
    """What is wrong and what was found."""
    cure: str = ""
    """What to write instead, such as ``did you mean 'platform'?``."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f" {self.path}:" if self.path else ""
        cure = f" ({self.cure})" if self.cure else ""
        return f"{place}:{where} {self.message}{cure}"


class SpecError(FlowcheckError):
    """Every problem of the input files, in file and line order."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        self.problems = tuple(sorted(problems))
        count = len(self.problems)
        heading = "1 problem in the input" if count == 1 else f"{count} problems in the input"
        super().__init__("\n".join([heading, *(str(p) for p in self.problems)]), hint=hint)


class JournalError(FlowcheckError):
    """The record of past applies is damaged, foreign, or held by another run; nothing was changed by this one."""

    exit_code = 2


class OutputError(FlowcheckError):
    """A file or stream that the user asked for cannot be written, or must not be replaced."""

    exit_code = 2


class PlanError(FlowcheckError):
    """No valid plan."""

    exit_code = 3


class Infeasible(PlanError):
    """No choice of observation points meets the coverage rule within the limits."""


class StalePlan(PlanError):
    """The plan does not belong to these inputs, or its file was changed by hand."""


class CoverageGap(FlowcheckError):
    """At least one update is incomplete; the report names the bytes."""

    exit_code = 4


class DriverError(FlowcheckError):
    """A switch refused, failed, or could not be reached."""

    exit_code = 5

    def __init__(self, switch: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{switch}: {message}", hint=hint)
        self.switch = switch


class ConnectError(DriverError):
    """The switch could not be reached; nothing was sent."""


class Rejected(DriverError):
    """The switch refused a step and changed nothing of it."""


class PartialWrite(DriverError):
    """The first ``done`` steps took effect, the following one did not."""

    def __init__(self, switch: str, message: str, *, done: int, hint: str = "") -> None:
        super().__init__(switch, message, hint=hint)
        self.done = done


class StateUnknown(DriverError):
    """The driver cannot say which steps took effect; read back before anything else."""


class LabError(FlowcheckError):
    """A lab of namespaces and switches on this machine could not be made, or does not work."""

    exit_code = 5


class Drift(FlowcheckError):
    """A switch is not in the planned state."""

    exit_code = 6


class RolledBack(FlowcheckError):
    """The change failed and every switch is in its former state again."""

    exit_code = 7


class NotRolledBack(FlowcheckError):
    """The change failed and at least one switch is not in its former state."""

    exit_code = 8


class ReceiveError(FlowcheckError):
    """Packets could not be received or read."""

    exit_code = 9


class CaptureError(ReceiveError):
    """A capture file is missing, empty, foreign or cut off."""


class SendError(ReceiveError):
    """Frames could not be sent: the interface, the rights for it, or a safety rule forbids it."""


class RecordsCorrupt(ReceiveError):
    """A records file has a wrong digest, version or form."""


class Unobserved(ReceiveError):
    """Bytes of a gradient that were never seen on any hop."""


class CoverageUnknown(FlowcheckError):
    """Nothing is known to be incomplete, but something could not be proven."""

    exit_code = 10
