"""What the commands of ``flowcheck-net lab`` have in common."""

import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUTPUT = click.option(
    "-o",
    "--output",
    default=Path("build/lab"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for plan, captures and records; files of an earlier run are overwritten.",
)
RECEIVER = click.option(
    "--receiver",
    type=click.Choice(["dpdk", "capture"]),
    help="How copies are received: `flowcheck-net receive`, or captures, replayed.  [default: dpdk where built]",
)


def is_live(receiver: str | None, tell: "Callable[[str], None]") -> bool:
    """Is the DPDK receiver to be used? So it is where this build has one."""
    from flowcheck_net.errors import ReceiveError
    from flowcheck_net.receive.receiver import program

    if receiver is not None:
        return receiver == "dpdk"
    try:
        program()
    except ReceiveError as lack:
        tell(f"captures are taken and replayed: {lack.message}")
        return False
    return True


@contextmanager
def interruptible() -> "Iterator[None]":
    """SIGTERM and SIGHUP take everything away, as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def make_folder(output: Path) -> None:
    """The folder for results; raises OutputError."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise OutputError(
            f"{output} cannot be written: {fault.strerror}", hint="choose another place with -o"
        ) from fault


@contextmanager
def alone_in(output: Path) -> "Iterator[None]":
    """Nobody else works in this folder; raises OutputError where somebody does."""
    import fcntl

    make_folder(output)
    with (output / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel lets go of it whenever this process ends
        except BlockingIOError as held:
            raise OutputError(
                f"another run works in {output}", hint="wait until it has ended, or choose another place with -o"
            ) from held
        yield
