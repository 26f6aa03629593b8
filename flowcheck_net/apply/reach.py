"""How the engine reaches switches: connect, try again, several at once."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from flowcheck_net.drivers.base import Driver
from flowcheck_net.errors import DriverError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Capabilities, SwitchAddress, SwitchState

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell the user while the work goes on."""

    switch: SwitchName | None
    """None: about the whole change."""
    result: str
    """One word or two, such as ``written``."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A switch as it was read."""

    address: SwitchAddress
    state: SwitchState
    limits: Capabilities


@dataclass(frozen=True, slots=True)
class Reach:
    """The way to the switches."""

    connect: Callable[[SwitchAddress], Driver]
    workers: int = 8
    """Switches worked on at once."""
    attempts: int = 3
    """Connections tried where a switch must be read or restored after a failure."""
    pause: float = 0.5
    """Seconds between them."""
    tell: Callable[[Event], None] = lambda _: None
    stage: Callable[[SwitchName, str], None] = lambda _, __: None
    """Told what a switch is busy with, from the thread that does it; for progress only."""

    def read(self, address: SwitchAddress, stage: str = "reading") -> Reading:
        """Read a switch over one connection; raises DriverError."""
        self.stage(address.name, stage)
        with self.connect(address) as driver:
            found = Reading(address, driver.read(), driver.capabilities())
        self.stage(address.name, "read")
        return found

    def insist(self, work: Callable[[], Result]) -> Result:
        """Do ``work``, again on a new connection where the switch fails; raises the last DriverError."""
        for left in reversed(range(self.attempts)):
            try:
                return work()
            except DriverError:
                if not left:
                    raise
                time.sleep(self.pause)
        raise ValueError("attempts is 1 or more")

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result | DriverError]:
        """Do ``work`` on every item, a bounded number at once; results and failures in the order of ``items``."""

        def attempt(item: Item) -> Result | DriverError:
            try:
                return work(item)
            except DriverError as error:
                return error

        if len(items) < 2:
            return [attempt(item) for item in items]
        with ThreadPoolExecutor(max_workers=min(self.workers, len(items))) as pool:
            return list(pool.map(attempt, items))


def counted(number: int, one: str, many: str) -> str:
    """``1 switch``, ``2 switches``."""
    return f"{number} {one if number == 1 else many}"


def joined(errors: Iterable[DriverError]) -> str:
    """All failures as one line."""
    return "; ".join(e.message for e in errors)
