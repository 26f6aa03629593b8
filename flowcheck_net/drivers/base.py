"""The driver protocol: all that the rest of the program may ask of a switch."""

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from flowcheck_net.ids import SessionName
from flowcheck_net.intent import Capabilities, Step, SwitchState


class Driver(Protocol):
    """One switch over one management connection, used from one thread at a time.

    After a lost connection the driver is dead; the caller opens a new one. Every method may raise ``ConnectError``,
    which promises that nothing was sent.
    """

    def __enter__(self) -> Self:
        """Connect."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Disconnect; never raises."""
        ...

    def capabilities(self) -> Capabilities:
        """What this switch can mirror."""
        ...

    def read(self) -> SwitchState:
        """Every mirror session of the switch as it is now, ours and foreign ones."""
        ...

    def write(self, steps: Sequence[Step]) -> None:
        """Make all steps effective, in order.

        Raises:
            Rejected: nothing was changed. Also for a step on a session that is not ours, before anything is sent.
            PartialWrite: exactly the first ``done`` steps are in effect.
            StateUnknown: any part of the steps may be in effect, one of them perhaps by half.
        """
        ...

    def counters(self) -> Mapping[SessionName, int]:
        """Packets mirrored by each of our sessions; a session whose count the switch cannot give is left out."""
        ...
