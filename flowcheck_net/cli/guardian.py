"""The process that undoes an unconfirmed change: ``python -m flowcheck_net.cli.guardian STATE_DIR RUN``.

It is started by ``apply --confirm-within`` in a session of its own, so that it outlives the terminal and the apply.
What it does is written to ``STATE_DIR/guardian.log``. Its command line holds no secret: a directory and a number.
"""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from flowcheck_net.errors import FlowcheckError, JournalError

if TYPE_CHECKING:
    from flowcheck_net.apply.reach import Event

READY = b"ready\n"
LOG = "guardian.log"


def start_guardian(state_dir: Path, run_id: int) -> None:
    """Start the process and wait until it watches; raises JournalError where it does not come up."""
    # -P: else Python would look for its modules in the directory where the user happens to be.
    command = [sys.executable, "-P", "-m", "flowcheck_net.cli.guardian", str(state_dir.absolute()), str(run_id)]
    try:
        with (state_dir / LOG).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
    except OSError as error:
        raise JournalError(
            f"the guardian that would undo an unconfirmed change cannot be started: {error}; nothing was written",
            hint=f"{state_dir / LOG} must be a file that can be written",
        ) from error
    # Not the first line only: what Python itself prints at its start is not ours to rule.
    if process.stdout is None or READY not in process.stdout:
        raise JournalError(
            "the guardian that would undo an unconfirmed change cannot be started; nothing was written",
            hint=f"{state_dir / LOG} says why",
        )
    process.stdout.close()
    # It is to outlive us: nobody waits for it.
    process.returncode = 0


def main(arguments: list[str]) -> int:
    """Watch the run; 0 when it is confirmed or undone, else 1."""
    from flowcheck_net.apply.guardian import guard
    from flowcheck_net.apply.journal import Journal
    from flowcheck_net.cli.switches import reach_for

    state_dir, run_id = Path(arguments[0]), int(arguments[1])

    def tell(event: "Event") -> None:
        _log(sys.stderr, f"{event.switch or f'run {run_id}'}: {event.result}: {event.detail}")

    try:
        with Journal(state_dir / "journal.sqlite") as journal:
            _log(sys.stderr, f"run {run_id}: watched")
            sys.stdout.buffer.write(READY)
            sys.stdout.close()
            settled = guard(journal, run_id, lambda job: reach_for(job, state_dir, tell), tell)
            _log(sys.stderr, f"run {run_id}: {'settled' if settled else 'given up, neither confirmed nor undone'}")
    except FlowcheckError as error:
        _log(sys.stderr, error.message)
        return 1
    return 0 if settled else 1


def _log(stream: IO[str], line: str) -> None:
    stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
