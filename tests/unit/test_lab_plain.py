"""What of a lab needs no root: the drawing, the faults' forms, the capture of what hosts send."""

import os
import threading
import time
from ipaddress import ip_address, ip_interface
from pathlib import Path

import pytest

from flowcheck_net.errors import LabError, SpecError
from flowcheck_net.ids import Address
from flowcheck_net.lab.blueprint import End, blueprint
from flowcheck_net.lab.bmv2 import port_numbers
from flowcheck_net.lab.faults import FaultKind, parse_faults
from flowcheck_net.lab.processes import Process, process_of
from flowcheck_net.lab.starvation import Starvation
from flowcheck_net.lab.switch import tunnel_sources
from flowcheck_net.plan.make import make_plan
from flowcheck_net.receive.synth import EPOCH, synthesize
from flowcheck_net.spec.load import Specs, load_specs, spec_paths
from tests.doubles.synth_reading import read, written

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"


@pytest.fixture
def specs() -> Specs:
    return load_specs(*spec_paths(TOPOLOGIES / "lab-leaf-spine"))


def test_frames_to_every_address_find_their_host(specs: Specs):
    """Walked cable by cable from every switch: no loops, no dead ends."""
    drawn = blueprint(specs.topology)
    homes = {address: end for end, addresses in drawn.cards.items() for address in addresses}
    homes |= {guest.address: guest.at for guest in drawn.guests}
    assert len(homes) == 6 + 6
    for address, home in homes.items():
        for switch in drawn.switches:
            at, steps = switch, 0
            while at in drawn.switches:
                at, steps = drawn.far(End(at, drawn.ways[at][address])).node, steps + 1
            assert (at, steps <= 3) == (home.node, True)


def test_the_ways_of_the_example(specs: Specs):
    ways = blueprint(specs.topology).ways
    assert ways["leaf1"][Address("10.77.1.2")] == "host2"
    assert ways["leaf1"][Address("10.77.2.4")] == "up1"
    assert ways["spine1"][Address("10.77.2.4")] == "down2"
    assert ways["leaf2"][Address("198.51.100.4")] == "host4"  # the fourth host's other tenant


def test_another_platform_is_refused_with_the_way_out():
    other = load_specs(*spec_paths(TOPOLOGIES / "four-host"))
    with pytest.raises(LabError, match="leaf1 is of platform 'fake'") as caught:
        blueprint(other.topology)
    assert "platform: ovs" in caught.value.hint


def test_a_name_that_is_no_interface_is_refused(specs: Specs):
    switch = specs.topology.switches[0].model_copy(update={"name": "a-name-of-16-chars"})
    with pytest.raises(LabError, match="cannot be the name of a Linux interface"):
        blueprint(specs.topology.model_copy(update={"switches": (switch, *specs.topology.switches[1:])}))


@pytest.mark.parametrize(
    "collectors",
    [
        ("10.99.0.1",),
        ("10.99.0.1", "10.99.0.2", "10.99.0.3"),
        ("10.99.0.255", "10.99.1.0"),
        ("fd77::1", "10.99.0.1", "fd77::2"),
        tuple(f"10.0.0.{n}" for n in range(1, 255)),
    ],
)
def test_tunnels_come_from_the_network_of_their_ends(collectors: tuple[str, ...]):
    found = [ip_interface(text) for text in tunnel_sources([Address(one) for one in collectors])]
    assert len({one.version for one in found}) == len(found)
    for far in map(ip_address, collectors):
        (near,) = (one for one in found if one.version == far.version)
        assert far in near.network
        assert near.ip in near.network
        assert near.ip != far
        if near.version == 4:
            assert near.ip not in (near.network.network_address, near.network.broadcast_address)


@pytest.mark.parametrize(
    ("ports", "word", "numbers"),
    [(("p1", "p31"), "p", [1, 31]), (("7", "12"), "", [7, 12]), (("Ethernet1", "Ethernet9"), "Ethernet", [1, 9])],
)
def test_ports_of_a_bmv2_are_numbers(ports: tuple[str, ...], word: str, numbers: list[int]):
    found = port_numbers("leaf1", ports)
    assert (found[0], sorted(found[1].values())) == (word, numbers)


@pytest.mark.parametrize("ports", [("p1", "q2"), ("p1", "up"), ("p0",), ("p511",), ("p01",), ("p1", "2"), ("1p",)])
def test_ports_that_are_none_of_a_bmv2(ports: tuple[str, ...]):
    with pytest.raises(LabError, match="ports of a BMv2 are numbers") as caught:
        port_numbers("leaf1", ports)
    assert "p1, p2" in caught.value.hint


def test_senders_that_take_their_time(specs: Specs, tmp_path: Path):
    """Half an iteration of 0.15 s for the sends of a hop: six of 33 packets, one after another."""
    synthesize(make_plan(specs), tmp_path / "sent.pcapng", iterations=2, senders=True, fill=0.5)
    times = [p.time - EPOCH for p in read(tmp_path / "sent.pcapng")[0] if p.interface == "host1:nic0"]
    first = [time for time in times if time < 150_000_000]
    assert len(times) == 2 * len(first)
    assert 0.48 < (max(first) - min(first)) / 150_000_000 < 0.51


def test_faults_as_they_are_written(specs: Specs):
    drawn = blueprint(specs.topology)
    loss, flap, kill, tenant = parse_faults(
        ["loss:capture=ckpt2:cap1,rate=0.5", "flap:for=2,at=0", "kill:node=ckpt1", "tenant"], drawn
    )
    assert (loss.kind, loss.capture, loss.rate) == (FaultKind.LOSS, End("ckpt2", "cap1"), 0.5)
    assert (flap.capture, flap.at, flap.lasting) == (None, 0.0, 2.0)
    assert (kill.node, kill.at, tenant.kind) == ("ckpt1", 0.4, FaultKind.TENANT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("los", "did you mean 'loss'"),
        ("loss:rate=2", "'2' is no number that fits"),
        ("loss:rate=nan", "no number"),
        ("loss:pps=3", "it takes capture, rate"),
        ("cut:capture=ckpt9:cap0", "one of ckpt1:cap0, ckpt1:cap1, ckpt2:cap0, ckpt2:cap1"),
        ("restart", "restart:switch=NAME"),
        ("kill:node=leaf1", "one of ckpt1, ckpt2"),
        ("tenant:x=1", "it takes nothing"),
        ("flap:at=1", "'1' is no number that fits"),
    ],
)
def test_faults_that_cannot_be(specs: Specs, text: str, words: str):
    with pytest.raises(SpecError) as caught:
        parse_faults(["tenant", text, "nonsense"], blueprint(specs.topology))
    assert words in caught.value.message
    assert len(caught.value.problems) == 2  # all at once


def test_what_senders_send_is_what_their_ports_mirror(specs: Specs, tmp_path: Path):
    """The plan mirrors host1 rx to ckpt1:cap0, so its copies are, byte for byte, what host1's card sends."""
    plan = make_plan(specs)
    copies, _ = written(plan, tmp_path)
    sent, report = written(plan, tmp_path, senders=True)
    assert [capture.name for capture in report.captures] == [f"host{n}:nic0" for n in (1, 2, 3, 4)]
    for capture, card in (("ckpt1:cap0", "host1:nic0"), ("ckpt2:cap0", "host3:nic0")):
        mirrored = [(packet.time, packet.frame) for packet in copies if packet.interface == capture]
        assert mirrored == [(packet.time, packet.frame) for packet in sent if packet.interface == card]
        assert len(mirrored) == 2 * (198 + 36)  # data; 6 clear-to-send, 6 and 6 acknowledgements


@pytest.mark.parametrize(("share", "starved"), [(1.0, True), (0.9, True), (0.5, False), (0.0, False)])
def test_a_program_that_always_waits_is_starved(share: float, starved: bool, monkeypatch: pytest.MonkeyPatch):
    """A thread whose waiting time grows with the clock, or with half of it: only the first gets nothing done."""
    begun, looks = time.monotonic(), threading.Semaphore(0)

    def waited(_: Starvation) -> dict[Path, float]:
        looks.release()
        return {Path("task"): share * (time.monotonic() - begun)}

    monkeypatch.setattr(Starvation, "_waited", waited)
    with Starvation([]) as starvation:
        for _ in range(4):
            looks.acquire()
    assert (starvation.worst > 0) == starved


def test_what_the_kernel_tells_of_waiting():
    starvation = Starvation([process_of(os.getpid())])
    before = starvation._waited()
    assert Path(f"/proc/{os.getpid()}/task/{os.getpid()}/schedstat") in before
    assert all(value >= 0 for value in before.values())
    assert Starvation([Process(1 << 30, 0)])._waited() == {}
