"""A receiver that never says that it receives is ended, as one that died."""

from pathlib import Path

import pytest

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive import receiver
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver_config import Plan
from flowcheck_net.receive.receiver_run import Run


def test_a_receiver_that_hangs_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("FLOWCHECK_RECEIVER", str(program))
    monkeypatch.setattr(receiver, "_START_S", 0.1)
    run = Run(Plan((), Settings(), 50, hugepages=False), tmp_path)
    with pytest.raises(ReceiveError, match="died before it had started: signal 9"):
        list(run.statuses())
