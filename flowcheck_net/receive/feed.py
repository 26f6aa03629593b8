"""Capture files handed to a core once more, for what a second pass needs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flowcheck_net.errors import CaptureError
from flowcheck_net.receive.capture_file import STDIN
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.replay_chain import Job, read_into


class _Nobody:
    """Messages were kept in the first pass."""

    def add(self, flow: int, rows: bytes) -> None:
        """Nothing is kept."""


def feeder(
    paths: Sequence[Path], captures: Mapping[str, str], watch: Callable[[int], None] = lambda _: None
) -> Callable[[Core], None]:
    """A function that hands all frames of capture files to a core, one file after another.

    Args:
        paths: As in the first pass.
        captures: Capture ports by file or interface name, as in the first pass.
        watch: Called now and then with the bytes read since the last call.

    Raises:
        CaptureError: A file is standard input, which cannot be read twice; by the function: a file cannot be read any
            more. What is only cut off is used as far as it is whole, as in the first pass.
    """
    if STDIN in paths:
        raise CaptureError("standard input cannot be read twice", hint="write the capture to a file first")
    job = Job(captures, None, watch)

    def feed(core: Core) -> None:
        for path in paths:
            found = read_into(core, path, job, _Nobody())
            if found.fatal:
                raise CaptureError(found.fatal, hint=found.hint)

    return feed
