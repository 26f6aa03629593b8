"""Comware, VRP, Cumulus and OS10 when their command lines misbehave."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.errors import Rejected
from flowcheck_net.intent import SwitchState
from tests.conformance.bench import create, session
from tests.conformance.bench_numbered import NUMBERED
from tests.conformance.bench_ssh import SshBench
from tests.doubles.ssh_box import Fault, Planned

IN_THE_MIDDLE = {
    "comware": r"^mirroring-group 2 mirroring-port",
    "vrp": r"^port-mirroring observe-port",
    "cumulus": r"span destination",
    "dell-os10": r"^destination interface",
}


@pytest.fixture(params=sorted(NUMBERED))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SshBench]:
    with NUMBERED[request.param](tmp_path) as made:
        yield made


def test_a_line_rejected_in_the_middle_is_named_and_nothing_is_left(bench: SshBench):
    theirs = bench.foreign_bytes()
    ports = repr(getattr(bench.box.platform, "ports", ""))
    bench.box.faults.append(Planned(Fault.REJECT, IN_THE_MIDDLE[bench.PLATFORM]))
    with bench.open() as driver:
        with pytest.raises(Rejected, match=IN_THE_MIDDLE[bench.PLATFORM].lstrip("^").split(" ")[0]):
            driver.write(create(session(bench, 0, "0:rx", "0:tx")))
        assert driver.read() == SwitchState((), bench.foreign)
    assert bench.foreign_bytes() == theirs
    assert repr(getattr(bench.box.platform, "ports", "")) == ports


@pytest.mark.parametrize("kind", [Fault.PAGER, Fault.CUT_PROMPT, Fault.LOG_BEFORE_PROMPT])
def test_a_pager_a_cut_prompt_and_a_log_line_change_nothing_that_is_read(bench: SshBench, kind: Fault):
    pattern = r"^(display current|nv config show|show running)"
    bench.box.faults.append(Planned(kind, pattern))
    with bench.open() as driver:
        assert driver.read() == SwitchState((), bench.foreign)
    assert bench.box.faults[0].struck
