"""The driver protocol: all that the rest of the program may ask of a switch."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self, runtime_checkable

from flowcheck_net.intent import Capabilities, Counters, Step, Surroundings, SwitchState


@runtime_checkable
class Surveyor(Protocol):
    """What a driver may do beside: tell what its device is cabled to."""

    def surroundings(self) -> Surroundings:
        """Neighbours and speeds as of now; raises ConnectError."""
        ...


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
        """Every mirror session of the switch as it is now, ours and foreign ones, with what the driver remarks."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """The switch's own lock against other writers, held inside the block; a null context where it has none.

        It does not wait: entering raises ``Rejected``, which names the holder where the switch tells, while another one
        has it. Leaving never raises. The lock is gone when the block or the connection ends, however that comes about.
        Not reentrant.
        """
        ...

    def write(self, steps: Sequence[Step]) -> None:
        """Make all steps effective, in order.

        Without a step: see to it that what was written before is in effect, where the switch needs a hand for that: the
        writer of before may have been cut off between the configuration and the hand.

        Raises:
            Rejected: nothing was changed. Also for a step on a session that is not ours, before anything is sent, and
                while another one holds the switch.
            PartialWrite: exactly the first ``done`` steps are in effect.
            StateUnknown: any part of the steps may be in effect, one of them perhaps by half.
        """
        ...

    def counters(self) -> Counters:
        """What each of our sessions mirrored, and what passed the ports that they watch."""
        ...
