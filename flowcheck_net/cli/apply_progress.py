"""What the switches are busy with, at the foot of a terminal; in a file or pipe nothing of it is shown."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flowcheck_net.ids import SwitchName

MOST_NAMED = 6
"""Switches named on the line; the others are counted."""

Stage = Callable[[SwitchName, str], None]


@contextmanager
def shown_stages(*, quiet: bool) -> Iterator[Stage]:
    """A function to tell stages to; the line is gone when the block ends."""
    from flowcheck_net.cli.output import console

    screen = console()
    if quiet or not screen.is_terminal:
        yield lambda _, __: None
        return
    lock, stages = threading.Lock(), dict[SwitchName, str]()
    with screen.status("connecting") as status:

        def tell(switch: SwitchName, stage: str) -> None:
            with lock:
                stages[switch] = stage
                status.update(line(stages))

        yield tell


def line(stages: dict[SwitchName, str]) -> str:
    """``writing leaf2 leaf3; reading back leaf1; 200 switches reached``: the rarest stage first."""
    counts = Counter(stages.values())
    parts = []
    for stage, count in sorted(counts.items(), key=lambda each: (each[1], each[0])):
        names = [name for name, at in stages.items() if at == stage]
        parts.append(f"{stage} {' '.join(names)}" if count <= MOST_NAMED else f"{stage} {count} switches")
    return "; ".join(parts)
