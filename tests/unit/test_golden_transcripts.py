"""What is typed on a switch, line by line, for one case a platform: tests/golden/PLATFORM/CASE.txt.

``FLOWCHECK_GOLDEN=write pytest tests/unit/test_golden_transcripts.py`` writes them anew; then read the difference.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flowcheck_net.ids import PortName
from flowcheck_net.intent import MirrorSession
from tests.conformance.bench import create, delete, session
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.doubles.nxos_box import Monitor

GOLDEN = Path(__file__).parent.parent / "golden"
PLATFORMS: dict[str, type[SshBench]] = {"eos": EosBench, "junos": JunosBench, "nxos": NxosBench}


def local(bench: SshBench) -> MirrorSession:
    return session(bench, 0, "0:rx", "0:tx")


def remote(bench: SshBench) -> MirrorSession:
    made = session(bench, 0, "0:rx", "1:rx")
    return MirrorSession(made.name, made.sources, PortName("erspan:10.9.0.5"))


def filtered(bench: SshBench) -> MirrorSession:
    return session(bench, 0, "0:rx", filters=[("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")])


def two(bench: SshBench) -> list[MirrorSession]:
    return [session(bench, 0, "0:rx", "1:rx"), session(bench, 1, "2:rx", "2:tx", to=1)]


def write(bench: SshBench, *sessions: MirrorSession, undo: bool = False) -> None:
    with bench.open() as driver:
        driver.write(delete(*sessions) if undo else create(*sessions))


def remove(bench: SshBench) -> None:
    made = [local(bench)] if isinstance(bench, JunosBench) else [filtered(bench)]
    write(bench, *made)
    bench.box.typed.clear()
    write(bench, *made, undo=True)


def beside(bench: SshBench) -> None:
    """A third session that is not ours, where ours would have gone, or with a name that begins as ours do."""
    if isinstance(bench, NxosBench):
        bench.switch.ports["Ethernet1/33"].append("switchport monitor")
        bench.switch.monitors[1] = Monitor("local", "", {"Ethernet1/4": "rx"}, "Ethernet1/33", shut=False)
    elif isinstance(bench, EosBench):
        bench.switch.monitor("monitor session fcn-gpt source Ethernet4 rx")
        bench.switch.monitor("monitor session fcn-gpt destination Ethernet33")
    elif isinstance(bench, JunosBench):
        bench.switch.running["fcn-gpt"] = ["input ingress interface xe-0/0/4.0", "output interface xe-0/0/33.0"]
    made = local(bench)
    before = theirs(bench)
    write(bench, made)
    with bench.open() as driver:
        found = driver.read()
    assert found.owned == (made,)
    assert len(found.foreign) == 3
    write(bench, made, undo=True)
    assert theirs(bench) == before


def theirs(bench: SshBench) -> str:
    """The session of the stranger, as the switch keeps it."""
    if isinstance(bench, NxosBench):
        return repr((bench.switch.monitors[1], bench.switch.ports["Ethernet1/33"]))
    if isinstance(bench, EosBench):
        return repr(bench.switch.running.sessions["fcn-gpt"])
    assert isinstance(bench, JunosBench)
    return repr(bench.switch.running["fcn-gpt"])


CASES: dict[str, Callable[[SshBench], None]] = {
    "local-both": lambda bench: write(bench, local(bench)),
    "two-sources-two-destinations": lambda bench: write(bench, *two(bench)),
    "erspan": lambda bench: write(bench, remote(bench)),
    "filter": lambda bench: write(bench, filtered(bench)),
    "removal": remove,
    "foreign": beside,
}
NOT_THERE = {("junos", "filter"): "no filters on Junos: see docs/drivers/junos.md"}


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_what_is_typed(platform: str, case: str, tmp_path: Path):
    """A foreign session, and one of another job, stand beside ours in every case: no line names them."""
    if why := NOT_THERE.get((platform, case)):
        pytest.skip(why)
    with boxed(PLATFORMS[platform], tmp_path) as bench:
        if case == "erspan":
            bench.prepare_erspan()
        before = bench.foreign_bytes()
        CASES[case](bench)
        assert bench.foreign_bytes() == before
        typed = [re.sub(r"fcn-gpt-[0-9a-f]{8}\b", "fcn-gpt-xxxxxxxx", line) for line in bench.box.lines()]
        written = [
            line for line in typed if not line.split(bench.box.platform.name, 1)[-1].lstrip("#> ").startswith("show ")
        ]
        assert not [line for line in written if names_foreign(line, bench.foreign)]
    file = GOLDEN / platform / f"{case}.txt"
    if os.environ.get("FLOWCHECK_GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(typed) + "\n")
    assert typed == file.read_text().splitlines()


def names_foreign(line: str, foreign: Sequence[MirrorSession]) -> bool:
    """Is one of the foreign sessions, or a port of theirs, named?"""
    words = [w for s in foreign for w in (s.name, s.destination, *(x.port for x in s.sources))]
    words += [s.name.replace("session-", "monitor session ") for s in foreign]
    return any(re.search(rf"(?<![\w/-]){re.escape(word)}(?![\w/-])", line) for word in words)
