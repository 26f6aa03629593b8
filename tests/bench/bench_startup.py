"""Start-up of the command line: the budget of DESIGN section 9."""

import sys
from pathlib import Path

from tests.bench.measure import Result, best_seconds


def bench() -> list[Result]:
    """``flowcheck-net --help``, the whole process."""
    program = Path(sys.executable).with_name("flowcheck-net")
    return [Result("help_seconds", best_seconds([str(program), "--help"], runs=5), "s", 0.3, higher_is_better=False)]
