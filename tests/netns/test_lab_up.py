"""A lab comes and goes: nothing of it is left, whatever ended it, and nobody else's processes are touched."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.cli.main import cli
from flowcheck_net.errors import LabError
from flowcheck_net.lab.build import FILTERS, Lab, down, lab_of, missing, standing, statuses, up
from flowcheck_net.lab.place import Place, read_processes, wait_until
from flowcheck_net.lab.processes import Process, process_of
from flowcheck_net.lab.run import run
from flowcheck_net.lab.switch import Switch
from flowcheck_net.spec.load import Specs, load_specs, spec_paths
from tests.netns.lab_running import needs_nft

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "lab-leaf-spine"

needs_lab = pytest.mark.skipif(bool(missing()), reason=missing() or "not skipped")


@pytest.fixture
def specs() -> Specs:
    return load_specs(*spec_paths(EXAMPLE))


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, because the path of a socket has 107 characters at the most."""
    with tempfile.TemporaryDirectory(prefix="fcn-lab-", dir="/tmp") as folder:
        yield Path(folder) / "labs" / "lab"
        down(Path(folder) / "labs" / "lab")


def of_lab(directory: Path) -> list[int]:
    """Processes that were started for a lab, found by their environment and not by what the lab wrote down."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            running = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if f"={directory}".encode() in environment and running:
            found.append(int(entry.name))
    return found


def wait_for_none(directory: Path) -> None:
    deadline = time.monotonic() + 20
    while left := of_lab(directory):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


@needs_lab
def test_it_is_made_as_drawn_and_gone_without_a_trace(specs: Specs, directory: Path):
    up(specs, directory)
    assert len(of_lab(directory)) == 11 + 3 * 2  # nodes; ovsdb-server and ovs-vswitchd of each switch
    with standing(directory) as lab:
        assert forwards(lab, "leaf1") == {"host1": 2, "host2": 2, "other1": 2, "up1": 6}
        assert forwards(lab, "spine1") == {"down1": 6, "down2": 6}
        sockets = lab.place.run("ss", "-0", "-m", inside="leaf1")
        sizes = [int(size) for size in re.findall(r"\brb(\d+)", sockets)]
        assert len(sizes) >= 6
        assert min(sizes) >= 64 << 20  # the kernel doubles what is asked for
    assert down(directory) == 17
    wait_for_none(directory)
    assert not directory.exists()
    assert down(directory) == 0


def forwards(lab: Lab, switch: str) -> dict[str, int]:
    """Addresses by the port that they leave through. A host has its own one and another tenant's."""
    made = lab.switches[switch]
    assert isinstance(made, Switch)
    names = dict(re.findall(r" (\d+)\((\w+)\)", made.ofctl("show")))
    ways = [names[number] for number in re.findall(r"output:(\d+)", made.ofctl("dump-flows"))]
    return {name: ways.count(name) for name in ways}


@needs_lab
def test_a_lab_that_is_up_is_not_made_again_and_not_taken_away(specs: Specs, directory: Path):
    up(specs, directory)
    before = of_lab(directory)
    with pytest.raises(LabError, match="up already"):
        up(specs, directory)
    with pytest.raises(LabError, match="up already"), lab_of(specs, directory):
        pass
    with standing(directory), pytest.raises(LabError, match="another flowcheck-net works"):
        down(directory)
    assert of_lab(directory) == before


@needs_lab
def test_a_dead_switch_is_named_before_a_run(specs: Specs, directory: Path):
    up(specs, directory)
    read_processes(directory)["leaf2/vswitchd"].tell(signal.SIGKILL)
    read_processes(directory)["leaf2/vswitchd"].wait(5)
    with pytest.raises(LabError, match="leaf2/vswitchd ended"), standing(directory):
        pass
    (status,) = statuses(directory.parent)
    assert status.dead == ("leaf2/vswitchd",)


@needs_lab
def test_a_full_disk_is_told_and_nothing_is_left(specs: Specs, directory: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(LabError, match="No space left on device"), lab_of(specs, directory):
        pass
    assert not directory.exists()


@needs_lab
def test_nothing_is_left_where_the_making_fails(specs: Specs, directory: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(self: object) -> None:
        raise LabError("no power")

    monkeypatch.setattr(Switch, "boot", broken)
    with pytest.raises(LabError, match="no power"):
        up(specs, directory)
    wait_for_none(directory)
    assert not directory.exists()


UP = (
    "import sys; from pathlib import Path; from flowcheck_net.lab.build import *; from flowcheck_net.spec.load import *"
)
MAKE = {
    "up": f"{UP}; up(load_specs(*spec_paths(Path(sys.argv[1]))), Path(sys.argv[2]))",
    "run": f"""{UP}
with lab_of(load_specs(*spec_paths(Path(sys.argv[1]))), Path(sys.argv[2])):
    import time; time.sleep(60)""",
}


@needs_lab
@pytest.mark.parametrize("how", ["up", "run"])
@pytest.mark.parametrize("after", [0.7])
def test_sigkill_in_the_making(directory: Path, how: str, after: float):
    """A lab of a run dies with it, files and all. What `up` has made is written down, and `down` ends it."""
    with subprocess.Popen([sys.executable, "-c", MAKE[how], EXAMPLE, directory]) as maker:
        time.sleep(after)
        maker.kill()
    if how == "run":
        wait_for_none(directory)
        wait_until(lambda: not directory.exists(), "tidying up")
    down(directory)
    wait_for_none(directory)
    assert not directory.exists()


@needs_lab
def test_ctrl_c_takes_everything_away(directory: Path):
    with subprocess.Popen([sys.executable, "-c", MAKE["run"], EXAMPLE, directory], stderr=subprocess.PIPE) as maker:
        deadline = time.monotonic() + 20
        while "spine1/vswitchd" not in read_processes(directory):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        maker.send_signal(signal.SIGINT)
        time.sleep(0.05)
        maker.send_signal(signal.SIGINT)  # an impatient user
        maker.communicate(timeout=20)
    wait_for_none(directory)
    assert not directory.exists()


KILLED = """
import sys
from pathlib import Path
from flowcheck_net.lab.build import standing
from flowcheck_net.lab.faults import parse_faults
from flowcheck_net.lab.misfortune import Misfortune
from flowcheck_net.lab.run import run
change = Misfortune._change
def told(self, *words, **more):
    change(self, *words, **more)
    print("link is down", flush=True)
Misfortune._change = told
with standing(Path(sys.argv[1])) as lab:
    run(lab, Path(sys.argv[2]), 20, parse_faults(["loss", "cut:capture=ckpt1:cap0,at=0.05"], lab.drawn), live=False)
"""


@needs_lab
@needs_nft
def test_a_run_that_was_killed_does_not_spoil_the_next_one(specs: Specs, directory: Path, tmp_path: Path):
    """SIGKILL while receivers run, copies are lost and a mirror link is down: all of it is still there afterwards."""
    up(specs, directory)
    whole = of_lab(directory)
    words = [sys.executable, "-c", KILLED, str(directory), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert any("link is down" in line for line in runner.stdout)
        runner.kill()
    assert len(of_lab(directory)) > len(whole)
    with standing(directory) as lab:
        wait_until(lambda: of_lab(directory) == whole, "end of receivers")
        assert FILTERS not in lab.place.run("nft", "list", "tables", inside="leaf1")
        assert "state DOWN" not in lab.place.run("ip", "link", "show", "cap0", inside="ckpt1")
        report = run(lab, tmp_path, 3, live=False)
    assert report.busy or report.verdict.value == "COVERED"


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path):
    """The state file names a process that ended; its number belongs to somebody else now. That one must live."""
    with subprocess.Popen(["sleep", "60"]) as other:
        real = process_of(other.pid)
        stale = Process(real.pid, real.started - 100)
        assert real.alive
        assert not stale.alive
        folder = tmp_path / "lab"
        folder.mkdir()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state = {"version": 1, "boot": boot, "processes": {"leaf1/vswitchd": [stale.pid, stale.started]}}
        (folder / "state.json").write_text(json.dumps(state))
        assert down(folder) == 0
        assert other.poll() is None
        other.kill()
    assert not folder.exists()


def test_processes_of_an_earlier_boot_are_nobodys(tmp_path: Path):
    real = process_of(os.getpid())
    state = {"version": 1, "boot": "another", "processes": {"leaf1": [real.pid, real.started]}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert read_processes(tmp_path) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "processes": {}}'])
def test_a_damaged_state_ends_nothing_and_says_so(tmp_path: Path, text: str):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match="damaged"):
        read_processes(tmp_path)


def test_a_process_that_was_not_written_down_never_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """We die between the fork and the state file: the shell in front reads the end of its input and goes."""
    mark = tmp_path / "ran"

    def dying(self: Place) -> None:
        raise KeyboardInterrupt

    with Place(tmp_path / "lab", tied=False) as place:
        place.make()
        monkeypatch.setattr(Place, "_save", dying)
        with pytest.raises(KeyboardInterrupt):
            place.spawn("x", ["touch", str(mark)])
        child = place._children[0]
        assert child.stdin is not None
        child.stdin.close()  # as the kernel does for a dead parent
        assert child.wait(10) != 0
        monkeypatch.undo()
        place.clear()
    assert not mark.exists()


def test_names_that_do_not_fit_into_a_path_are_refused():
    from click.testing import CliRunner

    result = CliRunner().invoke(cli, ["lab", "up", "--name", "../../etc"])
    assert result.exit_code == 2
    assert "1 to 32 letters" in result.output
