"""Discovery on real lldpd: a leaf and a host in two namespaces, asked by the tc driver."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.tc import TcDriver
from flowcheck_net.drivers.tc_shell import LocalShell
from flowcheck_net.importers.discover import JOB, answers_of, ask_all, survey_of, with_answers
from flowcheck_net.importers.options import Options
from flowcheck_net.importers.run import import_topology
from flowcheck_net.intent import SwitchAddress
from flowcheck_net.spec.inventory import Inventory
from tests.doubles.tc_lab import TcLab, missing


class OwnSocket(LocalShell):
    """Two lldpd of one machine have two sockets."""

    def __init__(self, namespace: Path, path: Path) -> None:
        super().__init__(namespace)
        self._path = path

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        more = ["-u", str(self._path)] if words[0] == "lldpcli" else []
        return super().run([words[0], *more, *words[1:]], stdin)


@pytest.fixture
def sockets() -> Iterator[dict[str, tuple[Path, Path]]]:
    """Device -> its namespace and the socket of its lldpd."""
    if why := missing() or ("" if shutil.which("lldpd") else "lldpd is not installed (Debian package lldpd)"):
        pytest.skip(why)
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="fcn-lldp-", dir="/tmp")))
        folder.chmod(0o755)
        made = {name: ending.enter_context(TcLab()) for name in ("leaf1", "host1")}
        pid = made["host1"].namespace.split("/")[2]
        words = ("link", "add", "swp1", "mtu", "9000", "type", "veth", "peer", "name", "eth1", "netns", pid)
        made["leaf1"].run("ip", *words)
        for name, port in (("leaf1", "swp1"), ("host1", "eth1")):
            made[name].run("ip", "link", "set", port, "up")
        for name, lab in made.items():
            start_lldpd(lab, name, folder / f"{name}.sock", ending)
        yield {name: (Path(lab.namespace), folder / f"{name}.sock") for name, lab in made.items()}


def start_lldpd(lab: TcLab, name: str, path: Path, ending: ExitStack) -> None:
    # A user name that the package made, and a folder below /run that its init script makes.
    Path("/run/lldpd").mkdir(exist_ok=True)
    words = ["lldpd", "-d", "-I", "swp*,eth*", "-u", str(path), "-L", "/bin/true"]
    command = ["nsenter", f"--net={lab.namespace}", "--", *words]
    process = subprocess.Popen(command, stdin=-3, stdout=-3, stderr=-3)
    ending.callback(process.wait)
    ending.callback(process.terminate)
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for line in (f"configure system hostname {name}", "configure lldp tx-interval 1", "resume"):
        lab.run("lldpcli", "-u", str(path), *line.split())


def test_two_machines_that_hear_one_another_become_a_topology(sockets: dict[str, tuple[Path, Path]], tmp_path: Path):
    def opened(address: SwitchAddress) -> TcDriver:
        return TcDriver(address, JOB, limits_of(address), OwnSocket(*sockets[address.name]))

    inventory = Inventory.model_validate(
        {
            "version": 1,
            "devices": (
                {"name": "leaf1", "platform": "linux", "management": "tc:local"},
                {"name": "host1", "platform": "linux", "management": "tc:local", "role": "host"},
            ),
        }
    )
    deadline = time.monotonic() + 15
    while True:
        answers = ask_all(inventory, opened)
        if all(a.surroundings and "remote_port" in a.surroundings.neighbors for a in answers):
            break
        assert time.monotonic() < deadline, answers
        time.sleep(0.3)
    survey = survey_of(answers, tmp_path, Path("inventory.yaml"))
    graph = with_answers(import_topology(survey, answers_of(inventory, Options())), answers)
    assert not graph.problems
    document = graph.imported.document
    assert document["links"] == [["leaf1:swp1", "host1:eth1"]] or [set(link) for link in document["links"]] == [
        {"leaf1:swp1", "host1:eth1"}
    ]
    (switch,) = document["switches"]
    assert (switch["name"], switch["platform"], switch["management"]) == ("leaf1", "linux", "tc:local")
    assert switch["ports"] == [{"name": "swp1", "speed": "10G"}]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["host1.json", "leaf1.json"]
