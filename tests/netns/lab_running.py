"""Labs of the tests, and runs in them whose pace is that of this machine."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.lab.build import Lab, lab_of
from flowcheck_net.lab.faults import parse_faults
from flowcheck_net.lab.run import LabReport, run
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.netns.lab_oracle import Ears, listening

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"
_SLOWER = (1, 3, 9)

needs_nft = pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed: apt-get install nftables")


@contextmanager
def made(example: str) -> Iterator[Lab]:
    """The lab of an example, for as long as the block lasts."""
    specs = load_specs(*spec_paths(TOPOLOGIES / example))
    # Short, because the path of a socket has 107 characters at the most.
    short = tempfile.TemporaryDirectory(prefix="fcn-lab-", dir="/tmp")
    with short as folder, lab_of(specs, Path(folder) / "labs" / "lab") as lab:
        yield lab


def heard(lab: Lab, output: Path, iterations: int, *faults: str, live: bool = False) -> tuple[LabReport, Ears]:
    """A run and what was on the cables; again and slower where packets were late or a switch was too slow.

    Verdicts are not looked at, so that no wrong one is tried away. Skips on a machine where nothing is in time.
    """
    for slower in _SLOWER:
        with listening(lab) as ears:
            report = run(lab, output, iterations, parse_faults(faults, lab.drawn), live=live, slower=slower)
            ears.collect()
        if not report.busy:
            return report, ears
    pytest.skip(f"this machine is too busy: {report.late:.2f} s late, dropped {report.switch_drops}")
