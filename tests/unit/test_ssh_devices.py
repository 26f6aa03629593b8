"""Devices that answer oddly, on all platforms: byte by byte, with the log between all lines, wrapped, in any script,
without an end, with a password that has expired, and with a line that the login may not send.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flowcheck_net.drivers import ssh_shell
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.intent import SwitchState
from tests.conformance.bench import create, session
from tests.conformance.bench_numbered import ComwareBench, CumulusBench, Os10Bench, VrpBench
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.doubles.ssh_box import PASSWORD, Fault, Planned, Session

BENCHES: dict[str, type[SshBench]] = {
    "comware": ComwareBench,
    "cumulus": CumulusBench,
    "dell-os10": Os10Bench,
    "eos": EosBench,
    "junos": JunosBench,
    "nxos": NxosBench,
    "vrp": VrpBench,
}
REFUSED = {
    "comware": (r"^mirroring-group 2 mirroring-port", "Permission denied."),
    "cumulus": ("span destination", "Error: You do not have permission to execute that command."),
    "dell-os10": ("^destination interface", "% Error: Permission denied."),
    "eos": ("destination Ethernet31", "% Authorization denied for command 'monitor session fcn-gpt-0'"),
    "junos": ("output interface", "error: permission denied"),
    "nxos": ("^destination interface", "% Permission denied for the role"),
    "vrp": (r"^port-mirroring observe-port", "Error: You do not have permission to run the command."),
}
"""A line in the middle, and how the platform says that the login may not send it."""


@pytest.fixture(params=sorted(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SshBench]:
    with boxed(BENCHES[request.param], tmp_path) as made:
        yield made


def logged_in_as(bench: SshBench, change: Callable[[Any], None]) -> None:
    """Each login from now on is changed so."""
    login = bench.box.platform.login

    def changed() -> Session:
        made = login()
        change(made)
        return made

    bench.box.platform.login = changed  # type: ignore[method-assign]


def test_an_answer_that_comes_byte_by_byte_is_the_same_answer(bench: SshBench, monkeypatch: pytest.MonkeyPatch):
    import paramiko

    bench.box.platform.banner = "Zutritt f\u00fcr Befugte \u2013 \u6f22\u5b57"
    whole = paramiko.Channel.recv
    monkeypatch.setattr(paramiko.Channel, "recv", lambda self, nbytes: whole(self, min(nbytes, 1)))
    made = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(made))
        assert driver.read() == SwitchState((made,), bench.foreign)


def test_the_log_between_all_lines_changes_nothing(bench: SshBench):
    if isinstance(bench, CumulusBench):
        pytest.skip("a Linux shell prints no log within the output of a program")
    bench.box.faults += [Planned(Fault.LOG_IN_OUTPUT, "") for _ in range(200)]
    made = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(made))
        assert driver.read() == SwitchState((made,), bench.foreign)
    assert sum(fault.struck for fault in bench.box.faults) > 10


def test_lines_that_are_wrapped_at_80_columns_are_read_right_or_are_an_error(bench: SshBench):
    width = 80
    made = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(made))

    def narrow(login: Any) -> None:
        do = login.do

        def wrapped(line: str) -> str:
            return "\n".join(
                text[at : at + width] for text in do(line).split("\n") for at in range(0, max(len(text), 1), width)
            )

        login.do = wrapped

    logged_in_as(bench, narrow)
    try:
        with bench.open() as driver:
            found = driver.read()
    except ConnectError:
        return
    assert (found.owned, found.foreign) == ((made,), bench.foreign)


def test_a_switch_that_never_ends_its_answer_leaves_the_state_unknown_and_is_read_back(
    bench: SshBench, monkeypatch: pytest.MonkeyPatch
):
    hang = Planned(Fault.SILENT, bench.COMMIT or bench.LAST_LINE)
    made = session(bench, 0, "0:rx")
    # Once the switch is silent, a hundred seconds pass between two looks at the clock: nobody waits for them here.
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 100 * (next(looks) if hang.struck else 0))
    with bench.open() as driver:
        bench.box.faults.append(hang)
        with monkeypatch.context() as patch:
            patch.setattr(ssh_shell, "time", clock)
            with pytest.raises(StateUnknown, match="no answer for 60 s"):
                driver.write(create(made))
        with pytest.raises(ConnectError):
            driver.read()
    assert hang.struck
    with bench.open() as later:
        assert later.read().owned == (made,)


def test_a_password_that_has_expired_is_told_and_nothing_is_typed(bench: SshBench):
    if isinstance(bench, VrpBench):
        pytest.skip("netmiko itself waits for VRP's own question here, and gives up")
    question = "Your password has expired.\r\nEnter new password: "
    logged_in_as(bench, lambda login: setattr(login, "prompt", lambda: question))
    with pytest.raises(ConnectError, match="asks something that is not expected: 'Enter new password:'") as caught:
        bench.open().__enter__()
    assert [line for _, line in bench.box.typed if line] == []
    assert PASSWORD not in caught.value.message


def test_a_line_that_the_login_may_not_send_is_named_and_nothing_is_left(bench: SshBench):
    line, answer = REFUSED[next(name for name, kind in BENCHES.items() if isinstance(bench, kind))]
    theirs = bench.foreign_bytes()
    bench.box.faults.append(Planned(Fault.REJECT, line, text=answer))
    with bench.open() as driver:
        with pytest.raises(Rejected) as caught:
            driver.write(create(session(bench, 0, "0:rx")))
        assert driver.read() == SwitchState((), bench.foreign)
    assert line.lstrip("^").split(" ")[0] in caught.value.message
    assert answer in caught.value.message
    assert bench.foreign_bytes() == theirs
