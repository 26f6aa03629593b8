"""Mirrored frames in tunnels: the real samples against tshark, and RoCE inside every form of outer header.

tshark is the independent reader: what it calls the innermost protocol, and where it says the inner frame begins.
"""

import json
import shutil
import struct
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.cli.replay import command
from flowcheck_net.errors import ReceiveError
from flowcheck_net.ids import Address
from flowcheck_net.receive.native import Core, Settings
from flowcheck_net.receive.records import Capture, Flow, Tunnel, TunnelKind
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth_frames import WRITE_ONLY, Endpoints, FrameMaker, reth
from tests.doubles import capture_images as images

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on this machine")

ERSPAN_FILES = (
    "tcpdump_erspan-type-i-1",
    "tcpdump_erspan-type-ii-1",
    "tcpdump_erspan-type-iii-ft-0",
    "zeek_erspan",
    "zeek_erspanI",
    "zeek_erspanII",
    "zeek_gre-erspan3-dot1q",
)
SENDER = bytes([192, 0, 2, 1])


def count(frames: list[bytes], wanted: Settings | None = None) -> tuple[Capture, tuple[Flow, ...]]:
    """What the core makes of frames."""
    with Core(wanted) as core:
        core.read(images.pcap(frames), lambda _: "port")
        return core.captures()[0], core.flows(lambda _flow, _rows: None)


def kind_of(frame: bytes) -> str:
    """The one name that a frame is counted under."""
    (kind,) = [name for name, number in count([frame])[0].frames.items() if number]
    return kind


def attributes_of(capture: Capture) -> dict[str, int]:
    return {name: number for name, number in capture.attributes.items() if number}


def frames_of(path: Path) -> list[bytes]:
    """Frames of a classic little-endian pcap file."""
    data, frames, at = path.read_bytes(), [], 24
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return frames


@cache
def tshark(name: str, *fields: str) -> list[list[str]]:
    """One list of fields a frame, every layer's value, without putting fragments together."""
    wanted = [part for field in fields for part in ("-e", field)]
    out = subprocess.run(
        ["tshark", "-r", SAMPLES / "erspan" / f"{name}.pcap", "-o", "ip.defragment:FALSE", "-T", "fields", *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("\t") for line in out.stdout.splitlines()]


def is_fragment(more: str, offset: str) -> bool:
    """Of the outermost IP header. tshark goes on into the first fragment, which this project does not."""
    return more.split(",")[0] in ("1", "True") or offset.split(",")[0] not in ("", "0")


def tshark_kind(protocols: str, more: str, offset: str) -> str:
    """Our name for what tshark saw innermost."""
    layers = protocols.split(":")
    if is_fragment(more, offset):
        return "ipv4_fragment"
    for name, ours in (("arp", "arp"), ("icmp", "icmp"), ("tcp", "tcp"), ("udp", "udp_other"), ("pim", "ip_other")):
        if name in layers:
            return ours
    return f"unexpected {protocols}"


@needs_samples
@needs_tshark
@pytest.mark.parametrize("name", ERSPAN_FILES)
def test_every_frame_is_what_tshark_sees_inside(name: str) -> None:
    frames = frames_of(SAMPLES / "erspan" / f"{name}.pcap")
    seen = [tshark_kind(*row) for row in tshark(name, "frame.protocols", "ip.flags.mf", "ip.frag_offset")]
    assert [kind_of(frame) for frame in frames] == seen


@needs_samples
@needs_tshark
@pytest.mark.parametrize("name", ERSPAN_FILES)
def test_outer_sources_and_sessions_are_those_of_tshark(name: str) -> None:
    kinds = {"0x6558": "gre", "0x88be": "erspan1", "0x22eb": "erspan3"}
    expected: Counter[tuple[str, str, int | None]] = Counter()
    fields = ("ip.src", "gre.proto", "gre.key", "erspan.spanid", "gre.flags.sequence_number")
    for sources, gre, key, span, sequence, *fragment in tshark(name, *fields, "ip.flags.mf", "ip.frag_offset"):
        if gre and not is_fragment(*fragment):
            kind = "erspan2" if gre == "0x88be" and sequence in ("1", "True") else kinds[gre]
            number = span or key
            expected[sources.split(",")[0], kind, int(number, 0) if number else None] += 1
    (capture,) = replay([SAMPLES / "erspan" / f"{name}.pcap"]).captures
    assert {(each.outer_source, each.kind, each.session): each.packets for each in capture.tunnels} == expected


@needs_samples
def test_sequence_numbers_of_a_real_session() -> None:
    """Four mirrored pings, numbered 1796 to 1799. Without the second one a copy is known to be lost."""
    path = SAMPLES / "erspan" / "zeek_erspanII.pcap"
    assert replay([path]).captures[0].tunnels == (Tunnel(Address("2.2.2.2"), TunnelKind.ERSPAN2, 100, 4, 0),)
    frames = frames_of(path)
    capture, _ = count([frames[0], *frames[2:]])
    assert capture.tunnels[0].sequence_gaps == 1
    assert capture.attributes["erspan_sequence_gaps"] == 1


@needs_samples
@pytest.mark.parametrize("name", ["tcpdump_erspan-type-iii-ft-0", "zeek_erspanI"])
def test_without_numbers_the_loss_of_copies_is_unknown(name: str) -> None:
    (capture,) = replay([SAMPLES / "erspan" / f"{name}.pcap"]).captures
    assert [each.sequence_gaps for each in capture.tunnels] == [None]


def roce(psn: int = 7, payload: bytes = b"p" * 64) -> bytes:
    """A RoCE packet from 10.0.0.1 to 10.0.0.2 with a right ICRC."""
    maker = FrameMaker(Endpoints(Address("10.0.0.1"), Address("10.0.0.2"), 50_000, 0x11))
    return maker.frame(WRITE_ONLY, psn, reth(0x1000, 1, len(payload)), payload, ack=True)


def in_ipv4(protocol: int, payload: bytes, tags: bytes = b"") -> bytes:
    """An outer frame from 192.0.2.1 with padding behind."""
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + SENDER + bytes([192, 0, 2, 99])
    return bytes(12) + tags + b"\x08\x00" + ip + payload + bytes(6)


def in_ipv6(protocol: int, payload: bytes) -> bytes:
    ip = struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + bytes(15) + b"\x01" + bytes(15) + b"\x02"
    return bytes(12) + b"\x86\xdd" + ip + payload


def in_vxlan(inner: bytes) -> bytes:
    payload = bytes([8, 0, 0, 0, 0, 0, 42, 0]) + inner
    return in_ipv4(17, struct.pack(">HHHH", 50_000, 4789, 8 + len(payload), 0) + payload)


def the_flow(flows: tuple[Flow, ...]) -> tuple[str, str, int, tuple[tuple[int, int], ...], int, int]:
    (flow,) = flows
    return flow.source, flow.destination, flow.dest_qp, flow.seen, flow.bytes, flow.truncated


@needs_samples
@needs_tshark
@pytest.mark.parametrize("name", ERSPAN_FILES)
def test_roce_behind_the_headers_of_real_switches(name: str) -> None:
    """Everything before the place where tshark says the inner frame begins stays; behind it comes a RoCE packet."""
    frame = frames_of(SAMPLES / "erspan" / f"{name}.pcap")[0]
    begin = inner_frame_at(name)
    inner = roce()
    outer = bytearray(frame[:begin])
    struct.pack_into(">H", outer, 16, begin - 14 + len(inner))
    capture, flows = count([bytes(outer) + inner], Settings(check_icrc=True))
    assert the_flow(flows) == ("10.0.0.1", "10.0.0.2", 0x11, ((7, 7),), 64, 0)
    assert capture.attributes["icrc_valid"] == 1
    assert kind_of(bytes(outer[:-1]) + inner + b"\0") != "rocev2"  # one byte beside it there is none


@cache
def inner_frame_at(name: str) -> int:
    """Offset of the second Ethernet header of the first frame, by tshark."""
    out = subprocess.run(
        ["tshark", "-r", SAMPLES / "erspan" / f"{name}.pcap", "-c", "1", "-T", "pdml"],
        capture_output=True,
        check=True,
    )
    layers = ElementTree.fromstring(out.stdout).iter("proto")
    _, inner = (int(layer.attrib["pos"]) for layer in layers if layer.attrib["name"] == "eth")
    return inner


ERSPAN2 = bytes([0x10, 0, 0x88, 0xBE, 0, 0, 0, 9, 0x10, 0, 0, 5, 0, 0, 0, 0])
GRE = bytes([0, 0, 0x65, 0x58])
FORMS = {
    "plain": lambda inner: inner,
    "erspan2": lambda inner: in_ipv4(47, ERSPAN2 + inner),
    "erspan2 over ipv6": lambda inner: in_ipv6(47, ERSPAN2 + inner),
    "erspan2 in a vlan": lambda inner: in_ipv4(47, ERSPAN2 + inner, tags=bytes([0x81, 0, 0, 9])),
    "erspan2 with an inner fcs": lambda inner: in_ipv4(47, ERSPAN2 + inner + b"FCS!"),
    "vxlan": in_vxlan,
    "vxlan in gre": lambda inner: in_ipv4(47, GRE + in_vxlan(inner)),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_flow_comes_out_of_every_form(form: str) -> None:
    frames = [FORMS[form](roce(psn)) for psn in (7, 8, 10)]
    capture, flows = count(frames, Settings(check_icrc=True))
    assert the_flow(flows) == ("10.0.0.1", "10.0.0.2", 0x11, ((7, 8), (10, 10)), 192, 0)
    assert [(each.first_psn, each.packets) for each in flows[0].missing] == [(9, 1)]
    assert (capture.frames["rocev2"], capture.attributes["icrc_valid"]) == (3, 3)
    assert capture.attributes["vlan"] == 0  # of the frames inside


@given(form=st.sampled_from(sorted(FORMS)), data=st.data())
@settings(max_examples=300)
def test_a_frame_cut_anywhere_is_counted_once(form: str, data: st.DataObject) -> None:
    frame = FORMS[form](roce())
    end = data.draw(st.integers(1, len(frame)))
    capture, flows = count([frame[:end]], Settings(check_icrc=True))
    assert sum(capture.frames.values()) == 1
    whole = frame.index(roce()) + len(roce())
    assert sum(flow.truncated for flow in flows) == (capture.frames["rocev2"] and end < whole)


def test_nested_tunnels_are_both_named() -> None:
    capture, _ = count([FORMS["vxlan in gre"](roce())])
    assert capture.tunnels == (
        Tunnel(Address("192.0.2.1"), TunnelKind.GRE, None, 1, None),
        Tunnel(Address("192.0.2.1"), TunnelKind.VXLAN, 42, 1, None),
    )
    assert attributes_of(capture) == {"encapsulated_gre": 1, "encapsulated_vxlan": 1}


def test_tunnels_belong_to_their_capture(tmp_path: Path) -> None:
    for name, frame in (("a", FORMS["erspan2"](roce())), ("b", FORMS["vxlan"](roce())), ("c", roce())):
        (tmp_path / f"{name}.pcap").write_bytes(images.pcap([frame]))
    records = replay([tmp_path / f"{name}.pcap" for name in "abc"])
    kinds = {each.name: [tunnel.kind for tunnel in each.tunnels] for each in records.captures}
    assert kinds == {"a": [TunnelKind.ERSPAN2], "b": [TunnelKind.VXLAN], "c": []}


def test_the_command_takes_types_marks_and_the_check(tmp_path: Path) -> None:
    spoiled = bytearray(roce(8))
    spoiled[-1] ^= 1
    trimmed = bytearray(roce(9)[:80])
    trimmed[15] = 60 << 2
    private = in_ipv4(47, bytes([0, 0, 0x12, 0x34]) + roce(7))
    path = tmp_path / "port.pcap"
    path.write_bytes(images.pcap([private, bytes(spoiled), bytes(trimmed)]))
    options = ["--check-icrc", "--gre-type", "0x1234", "--trimmed-dscp", "60"]
    result = CliRunner().invoke(command, [str(path), *options])
    assert result.exit_code == 0
    for text in ("icrc_valid", "icrc_bad", "frame trimmed", "192.0.2.1"):
        assert text in result.stdout
    (flow,) = json.loads(CliRunner().invoke(command, [str(path), *options, "--json"]).stdout)["flows"]
    assert flow["seen"] == [[7, 7]]
    (capture,) = replay([path]).captures
    assert {name: number for name, number in capture.frames.items() if number} == {"gre_other": 1, "rocev2": 2}


@pytest.mark.parametrize("number", ["0", "0x10000", "-1", "erspan"])
def test_what_is_no_gre_type(number: str) -> None:
    result = CliRunner().invoke(command, ["x.pcap", "--gre-type", number])
    assert result.exit_code == 2
    assert "--gre-type" in result.stderr


@pytest.mark.parametrize("wrong", [{"gre_types": tuple(range(1, 10))}, {"gre_types": (0,)}, {"trimmed_dscp": 64}])
def test_settings_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ReceiveError):
        Settings(**wrong)  # type: ignore[arg-type]


@needs_samples
@pytest.mark.parametrize(
    ("name", "unchecked"),
    [
        ("captures/allreduce+p2p.pcapng", 0),
        ("captures/iter_80000.pcapng", 0),
        ("captures/rdma32.pcapng", 7),  # opcode 0xaa, of the vendor
        ("rxe/rxe-writebw-v4.pcap.gz", 0),
        ("rxe/rxe-ovs-mtu4096-ring-put-mirror.pcap.gz", 0),
    ],
)
def test_every_real_icrc_is_valid(name: str, unchecked: int) -> None:
    (capture,) = replay([SAMPLES / name], settings=Settings(check_icrc=True)).captures
    assert capture.attributes["icrc_bad"] == 0
    assert capture.attributes["icrc_unchecked"] == unchecked
    assert capture.attributes["icrc_valid"] == capture.frames["rocev2"] - unchecked
