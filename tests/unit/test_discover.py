"""``flowcheck-net discover`` over SSH, with the LLDP answer of the samples: what is proven is written, no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.main import cli
from flowcheck_net.drivers.lldpd import neighbors_from, speed_from
from flowcheck_net.spec.load import load_yaml
from tests.conformance.bench_ssh import Environment
from tests.doubles.eos_box import EosBox, EosSession
from tests.doubles.ssh_box import ENABLE, PASSWORD, USER, Session, SshBox

SAMPLE = Path(__file__).resolve().parents[3] / "shared/samples/lldp/arista_eos_show_lldp_neighbors_detail.raw"
pytestmark = pytest.mark.skipif(not SAMPLE.is_file(), reason="../shared/samples/lldp is not here")


class Hearing(EosBox):
    """An EOS switch that hears its neighbours."""

    def __init__(self, name: str, answer: str) -> None:
        super().__init__()
        self.name = name
        self.answer = answer

    def login(self) -> Session:
        return HearingSession(self, self.answer)


class HearingSession(EosSession):
    def __init__(self, box: EosBox, answer: str) -> None:
        super().__init__(box)
        self.answer = answer

    def do(self, line: str) -> str:
        return self.answer if line == "show lldp neighbors detail" else super().do(line)


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[dict[str, SshBox]]:
    """leaf1 and spine2 with two cables between them; a mirror session of somebody is on leaf1."""
    first = "".join(_blocks()[:2])
    assert '"spine2.company.com"' in first
    environment = Environment()
    environment.set(USER=USER, PASSWORD=PASSWORD, ENABLE=ENABLE)
    other = first.replace("spine2.company.com", "leaf1").replace("2cc2.6081", "2cc2.6082")
    leaf, spine = Hearing("leaf1", first), Hearing("spine2", other)
    leaf.monitor("monitor session netops source Ethernet7 rx", "monitor session netops destination Ethernet9")
    try:
        with SshBox(leaf, tmp_path) as one, SshBox(spine, tmp_path) as two:
            yield {"leaf1": one, "spine2": two}
    finally:
        environment.restore()


def _blocks() -> list[str]:
    """One text an interface."""
    parts = SAMPLE.read_text().split("Interface Ethernet")
    return [f"Interface Ethernet{part}" for part in parts[1:]]


def inventory(folder: Path, boxes: dict[str, SshBox], *more: str) -> Path:
    lines = ["version: 1", "devices:"]
    for name, box in boxes.items():
        words = f"known_hosts={box.known_hosts}&retries=0"
        lines.append(f'  - {{name: {name}, platform: eos, management: "ssh:127.0.0.1:{box.port}?{words}"}}')
    path = folder / "inventory.yaml"
    path.write_text("\n".join([*lines, *more]) + "\n")
    return path


def test_cables_that_both_ends_tell_are_written_with_the_sessions_of_others(fabric, tmp_path: Path):
    path, output = inventory(tmp_path, fabric), tmp_path / "topology.yaml"
    words = ["discover", str(path), "--to", str(output), "--speed", "400G", "--keep", str(tmp_path / "answers")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    links = {frozenset(link) for link in load_yaml(output)["links"]}
    assert links == {frozenset({f"leaf1:Ethernet{n}", f"spine2:Ethernet{n}"}) for n in (1, 2)}
    switches = {s["name"]: s for s in load_yaml(output)["switches"]}
    assert switches["leaf1"]["platform"] == "eos"
    assert switches["leaf1"]["management"].startswith("ssh:127.0.0.1:")
    (session,) = switches["leaf1"]["foreign_sessions"]
    assert session == {"name": "netops", "sources": ("Ethernet7:rx",), "destination": "Ethernet9"}
    assert "foreign_sessions" not in switches["spine2"]
    assert sorted(p.name for p in (tmp_path / "answers").iterdir()) == ["leaf1.txt", "spine2.txt"]


def test_what_is_not_proven_is_listed_and_keeps_the_file_from_being_written(fabric, tmp_path: Path):
    """spine2 does not answer, so its cables are told by one end only."""
    fabric["spine2"].refuse_connections = 99
    path, output = inventory(tmp_path, fabric), tmp_path / "topology.yaml"
    done = CliRunner().invoke(cli, ["discover", str(path), "--to", str(output)])
    assert done.exit_code != 0
    assert not output.exists()
    text = done.output + str(done.exception)
    assert "spine2 did not answer" in text
    assert "one-sided" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version: 1\ndevices: []\n", "devices"),
        ("version: 1\ndevices:\n- {name: a, platform: eos}\n", "management"),
        ("version: 1\ndevices:\n" + "- {name: a, platform: eos, management: 'ssh:a'}\n" * 2, "a is there twice"),
    ],
)
def test_an_inventory_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str, why: str):
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    done = CliRunner().invoke(cli, ["discover", str(path)])
    assert done.exit_code != 0
    assert why in str(done.exception)
    assert "inventory.yaml:" in str(done.exception)


def test_a_machine_that_hears_nothing_and_a_port_without_speed():
    assert neighbors_from('{"lldp":[{}]}') == "{}"
    assert speed_from("Settings for eth0:\n\tSpeed: 400000Mb/s\n\tDuplex: Full\n") == 400000
    assert speed_from("Settings for eth0:\n\tSpeed: Unknown!\n") is None
