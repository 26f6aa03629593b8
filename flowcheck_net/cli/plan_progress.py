"""What planning is at, on the terminal: words, and a bar while the parts of the problem are solved."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PART = re.compile(r"solving part (\d+) of (\d+)")


@contextmanager
def planning(console: "Console") -> Iterator[Callable[[str], None] | None]:
    """A place for ``make_plan`` to tell its progress; ``None`` where nobody watches (no terminal)."""
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("planning", total=None)

        def tell(words: str) -> None:
            part = _PART.match(words)
            total, done = (int(part[2]), int(part[1]) - 1) if part else (None, 0)
            shown.update(task, description=words, total=total, completed=done)

        yield tell
