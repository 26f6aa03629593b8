"""The gradient of a real all-reduce (two ranks, fp32, LL, two channels), against tshark's bytes of its packets.

5 000 floats on two channels of 512 threads: chunks of 2 048 floats. Channel 0 carries floats 0-2 047 and 4 096-4 999,
channel 1 floats 2 048-4 095 and an empty chunk. Hop 0->1 sends chunk 1 as a partial sum, then chunk 0 fully reduced;
hop 1->0 the other way round.
"""

import shutil
import struct
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.checkpoint.payload import PayloadReport, Wanted, write_gradients
from flowcheck_net.ids import Address
from flowcheck_net.model.expect import expect
from flowcheck_net.receive.feed import feeder
from flowcheck_net.receive.gradient import Gradient
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.replay import replay
from tests.doubles import audit_world as world

CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "captures"
pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"the sample captures are not at {CAPTURES}")
HOST1 = Address("fe80::e42:a1ff:fe9f:58f8")
HOST2_PORT1 = Address("fe80::ac0:ebff:fe8c:282c")
HOST2_PORT2 = Address("fe80::ac0:ebff:fe8c:282d")


def laid(file: str, other: Address, elements: int, channels: int, out: Path) -> PayloadReport:
    job = world.job(2, [elements], channels)
    places = tuple(replace(p, address=a) for p, a in zip(job.places, (HOST1, other), strict=True))
    path = CAPTURES / file
    expected = expect(replace(job, places=places), None)
    return write_gradients(expected, replay([path]), Wanted(out), feeder([path], {}), Core)


def wires(file: str) -> dict[tuple[str, int], list[bytes]]:
    """By source and destination queue pair: the data of each message, LL flags taken off."""
    if shutil.which("tshark") is None:
        pytest.skip("no tshark")
    fields = ["ipv6.src", "infiniband.bth.destqp", "infiniband.bth.opcode", "udp.payload"]
    command = ["tshark", "-r", str(CAPTURES / file), "-Y", "infiniband", "--disable-protocol", "tftp", "-T", "fields"]
    command += [part for field in fields for part in ("-e", field)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    for line in text.splitlines():
        source, queue_pair, code, payload = line.split("\t")
        opcode = int(code, 0)
        extension = {6: 16, 7: 0, 9: 4, 11: 20}.get(opcode)
        if extension is not None:
            body = bytes.fromhex(payload.replace(":", ""))[12 + extension : -4]
            if opcode in (6, 11):
                found[source, int(queue_pair, 0)].append(b"")
            found[source, int(queue_pair, 0)][-1] += body
    return {key: [strip(message) for message in messages] for key, messages in found.items()}


def strip(message: bytes) -> bytes:
    return b"".join(message[at : at + 4] for at in range(0, len(message), 8))


def test_the_whole_gradient_of_a_real_all_reduce(tmp_path: Path) -> None:
    report = laid("allreduce+p2p.pcapng", HOST2_PORT1, 5000, 2, tmp_path / "out")
    (written,) = report.written
    assert written.complete, written.why
    data = Gradient.open(written.directory, "dp0").read(0, 20_000)
    sent = wires("allreduce+p2p.pcapng")
    there = sorted(
        (len(messages[0]), messages[1])
        for (source, _), messages in sent.items()
        if source == HOST1 and [len(m) for m in messages] in ([3616, 8192], [0, 8192])
    )
    (back,) = (
        messages[1]
        for (source, _), messages in sent.items()
        if source == HOST2_PORT1 and [len(m) for m in messages] == [8192, 3616]
    )
    assert [first for first, _ in there] == [0, 3616]
    assert data == there[1][1] + there[0][1] + back
    assert all(abs(value) < 1e6 for value in struct.unpack("<5000f", data))


def test_a_torn_capture_gives_what_it_shows_and_nothing_else(tmp_path: Path) -> None:
    """iter_80000: 10 000 floats on one channel, both hops cut in their second message, which is the reduced one."""
    report = laid("iter_80000.pcapng", HOST2_PORT2, 10_000, 1, tmp_path / "out")
    (written,) = report.written
    assert not written.complete
    gradient = Gradient.open(written.directory, "dp0")
    file = gradient.path.read_bytes()
    sent = wires("iter_80000.pcapng")
    (there,) = (m[-1] for (source, qp), m in sent.items() if (source, qp) == (HOST1, 0x514))
    # chunk 0 has 5 120 floats = 40 960 B on the wire in 40 packets of 512 data bytes; 28 of them are there
    assert file[: 28 * 512] == there[: 28 * 512]
    assert gradient.read(0, 28 * 512) == there[: 28 * 512]
    assert not any(file[28 * 512 : 20_480])
