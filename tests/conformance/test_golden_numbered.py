"""What is sent to the switches with numbered sessions, word for word: ``tests/golden/PLATFORM/CASE.txt``.

``FLOWCHECK_UPDATE_GOLDEN=1`` writes the files anew; they are read by eye before they are committed.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.errors import Rejected
from flowcheck_net.ids import PortName
from flowcheck_net.intent import SwitchState
from tests.conformance.bench import create, delete, session
from tests.conformance.bench_numbered import NUMBERED
from tests.conformance.bench_ssh import SshBench

GOLDEN = Path(__file__).parent.parent / "golden"
UPDATE = bool(os.environ.get("FLOWCHECK_UPDATE_GOLDEN"))


@pytest.fixture(params=sorted(NUMBERED))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SshBench]:
    with NUMBERED[request.param](tmp_path) as made:
        yield made


def local(bench: SshBench) -> None:
    """One session, both directions."""
    write(bench, create(session(bench, 0, "0:rx", "0:tx")))


def two(bench: SshBench) -> None:
    """Two sources, two destinations."""
    write(bench, create(session(bench, 0, "0:rx", "1:tx"), session(bench, 1, "2:rx", "3:rx", to=1)))


def remote(bench: SshBench) -> None:
    """Encapsulated copies, or a refusal that says why."""
    write(bench, create(replace(session(bench, 0, "0:rx"), destination=PortName("erspan:10.9.0.9"))))


def filtered(bench: SshBench) -> None:
    """Address pairs of both IP versions."""
    pairs = [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")]
    write(bench, create(session(bench, 0, "0:rx", "1:rx", filters=pairs)))


def removal(bench: SshBench) -> None:
    """Whole ports and pairs made, then removed by another connection."""
    whole = session(bench, 0, "0:rx", "0:tx")
    pairs = session(bench, 1, "1:rx", to=1, filters=[("10.0.0.1", "10.0.0.2")])
    write(bench, create(whole, pairs))
    bench.box.typed.clear()
    write(bench, delete(whole, pairs))


def foreign(bench: SshBench) -> None:
    """A read beside foreign sessions, which stay what they are."""
    before = bench.foreign_bytes()
    with bench.open() as driver:
        assert driver.read() == SwitchState((), bench.foreign)
    assert bench.foreign_bytes() == before


CASES: dict[str, Callable[[SshBench], None]] = {
    case.__name__: case for case in (local, two, remote, filtered, removal, foreign)
}


def write(bench: SshBench, steps) -> None:
    with bench.open() as driver:
        driver.write(steps)


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_is_sent_is_what_was_read_by_eye(bench: SshBench, case: str):
    theirs = bench.foreign_bytes()
    try:
        CASES[case](bench)
        end = ""
    except Rejected as refused:
        end = f"\nrefused: {refused.message}"
    text = "\n".join(bench.box.lines()) + end + "\n"
    file = GOLDEN / bench.PLATFORM / f"{case}.txt"
    if UPDATE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
    assert bench.foreign_bytes() == theirs


@pytest.mark.parametrize("versions", [(4, 6), (6,)])
def test_pairs_of_ipv6_are_read_back_and_removed(bench: SshBench, versions: tuple[int, ...]):
    pairs = {4: ("10.0.0.1", "10.0.0.2"), 6: ("2001:db8::1", "2001:db8::2")}
    made = session(bench, 0, "0:rx", "1:rx", filters=[pairs[v] for v in versions])
    write(bench, create(made))
    with bench.open() as driver:
        found = driver.read()
        assert found.owned == (made,)
        assert [r for r in found.remarks if r.kind.incomplete] == []
        driver.write(delete(made))
        assert driver.read() == SwitchState((), bench.foreign)


def test_encapsulated_copies_are_read_back(bench: SshBench):
    made = replace(session(bench, 0, "0:rx"), destination=PortName("erspan:10.9.0.9"))
    if bench.PLATFORM == "vrp":
        pytest.skip("not known for this platform")
    write(bench, create(made))
    with bench.open() as driver:
        found = driver.read()
    assert found.owned == (made,)
    assert [r for r in found.remarks if r.kind.incomplete] == []
