"""Packet by packet, our parser against tshark: every sample capture, whole and cut, and every form of outer header.

What tshark does otherwise is listed in QUIRKS with the reason; each entry must be met in the samples, so that none
outlives its reason.
"""

import gzip
import importlib
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.doubles import capture_images as images
from tests.doubles.tunnel_frames import FORMS

importlib.import_module("flowcheck_net")  # an editable install first builds what has changed, fck_inspect too
ROOT = Path(__file__).resolve().parents[2]
INSPECT = ROOT / "build" / f"cp{sys.version_info.major}{sys.version_info.minor}" / "receiver/inspect/fck_inspect"
SAMPLES = ROOT.parent / "shared" / "samples"
FILES = sorted([*SAMPLES.glob("captures/*.pcapng"), *SAMPLES.glob("rxe/*.pcap.gz"), *SAMPLES.glob("erspan/*.pcap*")])
SNAPS = (48, 60, 70, 80, 100)
"""Cut inside: the BTH over IPv4, the UDP header over IPv6, the BTH over IPv6, the RETH over IPv6, the payload."""
pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
needs_samples = pytest.mark.skipif(not FILES, reason="no shared/samples beside the project")

QUIRKS = {
    "payload taken for a protocol": (
        "behind the BTH tshark looks for something like an ethertype and goes on into what are tensor bytes: IP "
        "headers behind `infiniband` are none, and `malformed` there says nothing of RoCE"
    ),
    "first fragment opened": "tshark reads the transport header of a first fragment; we count fragments and open none",
    "no ICRC of datagrams": "tshark ends behind the DETH of a datagram: the ICRC is read from the UDP payload",
    "no ICRC of a vendor": "opcode 0xaa, header version 10: tshark shows all that follows as the vendor's bytes",
}
met: Counter[str] = Counter()

FIELDS = (
    *("frame.protocols", "ip.src", "ip.dst", "ip.proto", "ip.len", "ip.flags.mf", "ip.frag_offset"),
    *("ipv6.src", "ipv6.dst", "ipv6.nxt", "ipv6.plen", "udp.length", "udp.checksum", "vlan.id"),
    *("gre.proto", "gre.key", "gre.sequence_number", "erspan.spanid", "vxlan.vni"),
    *("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.padcnt"),
    *("infiniband.reth.dmalen", "infiniband.immdt", "infiniband.invariant.crc", "infiniband.aeth.syndrome"),
    *("udp.payload", "_ws.short"),
)
# IBTA volume 1, table 38 and the extension headers that it names: bytes behind the BTH by opcode (RC and UC alike).
_RDMA = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20}
_DATAGRAMS = {0x64: 8, 0x65: 12}
_REST = {12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 22: 4, 23: 4, 0x81: 16}
EXTENSIONS = {**_RDMA, **{0x20 + opcode: size for opcode, size in _RDMA.items()}, **_REST, **_DATAGRAMS}
VENDOR = 0xAA
NAMES = {"arp": "arp", "lldp": "lldp", "ptp": "ptp", "llc": "llc", "icmp": "icmp", "icmpv6": "icmpv6", "tcp": "tcp"}


@dataclass(frozen=True, slots=True)
class Roce:
    opcode: int
    dest_qp: int
    psn: int
    length: int
    reth_length: int | None
    immediate: int | None
    icrc: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """One packet. ``ip``: source, destination, protocol, length of the innermost header; ``outers``: of each tunnel."""

    kind: str
    ip: tuple[str, str, int, int] | None
    outers: tuple[tuple[str, str, int | None, int | None], ...]
    roce: Roce | None


def known(text: str) -> int | None:
    return None if text in ("", "-", "-1") else int(text, 0)


def ours(path: Path) -> list[Seen]:
    if not INSPECT.exists():
        pytest.fail(f"{INSPECT} is not built: make native")
    out = subprocess.run([INSPECT, path], capture_output=True, text=True, check=True).stdout
    return [our_packet(line.split("\t")[1:]) for line in out.splitlines()]


def our_packet(columns: list[str]) -> Seen:
    kind, _, source, destination, protocol, length, outers, _, *roce = columns
    found = tuple(outer.split("/") for outer in outers.split(",")) if outers != "-" else ()
    return Seen(
        kind=kind,
        ip=None if source == "-" else (source, destination, int(protocol), int(length)),
        outers=tuple((name, place, known(session), known(sequence)) for name, place, session, sequence in found),
        roce=None if roce[0] == "-" else our_roce(roce),
    )


def our_roce(columns: list[str]) -> Roce:
    opcode, dest_qp, psn, length, reth_length, immediate, icrc = columns
    return Roce(
        *(int(opcode), int(dest_qp), int(psn), int(length)),
        *(known(reth_length), known(immediate), None if icrc == "-" else icrc),
    )


def theirs(path: Path) -> list[Seen]:
    select = [part for name in FIELDS for part in ("-e", name)]
    command = [
        "tshark",
        "-n",
        "-r",
        str(path),
        "--disable-protocol",
        "tftp",
        "-o",
        "ip.defragment:FALSE",
        "-T",
        "fields",
    ]
    out = subprocess.run([*command, *select], capture_output=True, text=True, check=True).stdout
    return [Tshark(dict(zip(FIELDS, line.split("\t"), strict=True))).seen() for line in out.splitlines()]


class Tshark:
    """One packet as tshark tells it: a walk over its layers, from outside to inside."""

    def __init__(self, fields: dict[str, str]) -> None:
        self._fields = fields
        self._taken: Counter[str] = Counter()
        layers = fields["frame.protocols"].split(":")
        if "infiniband" in layers:
            behind = layers[layers.index("infiniband") + 1 :]
            met["payload taken for a protocol"] += "ethertype" in behind
            layers = layers[: layers.index("infiniband") + 1]
        self._layers = [layer for layer in layers if layer not in ("ethertype", "vlan", "ieee8021ad")]
        self._short = bool(fields["_ws.short"])
        self._ip: tuple[str, str, int, int] | None = None
        self._outers: list[tuple[str, str, int | None, int | None]] = []

    def _next(self, name: str) -> str:
        """The value of the next layer that has this field; "" when it was not captured."""
        values = self._fields[name].split(",")
        at = self._taken[name]
        self._taken[name] += 1
        return values[at] if at < len(values) else ""

    def seen(self) -> Seen:
        kind = self._kind()
        if kind.endswith(("_fragment", "_ethernet", "_ip")) or kind in ("arp", "lldp", "llc"):
            self._ip = None  # of the frame inside there is none, or none that was opened
        roce = self._roce() if kind == "rocev2" else None
        return Seen(kind, self._ip, tuple(self._outers), roce)

    def _kind(self) -> str:
        """Our name for the innermost thing."""
        for number, layer in enumerate(self._layers):
            last = number == len(self._layers) - 1
            if layer == "eth" and last:
                return "truncated_ethernet"
            if layer in ("ip", "ipv6") and (stop := self._open_ip(layer, last=last)):
                return stop
            if layer in ("gre", "erspan", "vxlan") and last and self._short:
                self._outers = self._outers[:-1] if layer == "erspan" else self._outers
                return "truncated_tunnel"
            if layer == "gre":
                self._open_gre()
            if layer == "vxlan":
                self._open_vxlan()
            if layer == "udp" and (stop := self._udp(self._layers[number + 1 :])):
                return stop
            if layer in NAMES:
                return NAMES[layer]
        return "ip_other"

    def _open_ip(self, layer: str, *, last: bool) -> str:
        if layer == "ip":
            names = ("ip.src", "ip.dst", "ip.proto", "ip.len")
        else:
            names = ("ipv6.src", "ipv6.dst", "ipv6.nxt", "ipv6.plen")
        source, destination, protocol, length = (self._next(name) for name in names)
        if last and self._short:
            return "truncated_ip"
        self._ip = (source, destination, int(protocol), int(length))
        more = self._next("ip.flags.mf") if layer == "ip" else ""
        offset = self._next("ip.frag_offset") if layer == "ip" else ""
        if more in ("1", "True") or offset not in ("", "0"):
            met["first fragment opened"] += offset == "0" and not last
            return "ipv4_fragment"
        return ""

    def _open_gre(self) -> None:
        assert self._ip is not None
        sequence, spanned = known(self._fields["gre.sequence_number"]), known(self._fields["erspan.spanid"])
        kind = {"0x6558": "gre", "0x88be": "erspan1" if sequence is None else "erspan2", "0x22eb": "erspan3"}
        session = known(self._fields["gre.key"]) if spanned is None else spanned
        self._outers.append((kind[self._fields["gre.proto"]], self._ip[0], session, sequence))

    def _open_vxlan(self) -> None:
        assert self._ip is not None
        self._outers.append(("vxlan", self._ip[0], known(self._fields["vxlan.vni"]), None))

    def _udp(self, inside: list[str]) -> str:
        """The kind, unless a tunnel follows."""
        self._udp_length = self._next("udp.length")
        if not self._next("udp.checksum"):
            return "truncated_udp"
        if inside[:1] == ["vxlan"]:
            return ""
        if inside[:1] == ["infiniband"]:
            return "rocev2" if self._fields["infiniband.bth.psn"] else "truncated_bth"
        return "ptp" if inside[:1] == ["ptp"] else "udp_other"

    def _roce(self) -> Roce:
        get = {name.split(".")[-1]: self._fields[name] for name in FIELDS if name.startswith("infiniband.")}
        opcode = int(get["opcode"])
        length = int(self._udp_length) - 8 - 12 - EXTENSIONS.get(opcode, 0) - int(get["padcnt"]) - 4
        immediate = get["immdt"].split(",")[0].replace(":", "").removeprefix("0x")
        return Roce(
            *(opcode, int(get["destqp"], 0), int(get["psn"]), length),
            reth_length=known(get["dmalen"]),
            immediate=int.from_bytes(bytes.fromhex(immediate), "little") if immediate else None,
            icrc=get["crc"].removeprefix("0x") or self._icrc_in_payload(opcode),
        )

    def _icrc_in_payload(self, opcode: int) -> str | None:
        """Where tshark shows none although the packet is whole."""
        payload = self._fields["udp.payload"].split(",")[-1].replace(":", "")
        if opcode not in (*_DATAGRAMS, VENDOR) or len(payload) != 2 * (int(self._udp_length) - 8):
            return None
        met["no ICRC of a vendor" if opcode == VENDOR else "no ICRC of datagrams"] += 1
        return payload[-8:]


def differences(path: Path) -> list[tuple[int, Seen, Seen]]:
    mine, other = ours(path), theirs(path)
    assert len(mine) == len(other)
    return [(number, one, two) for number, (one, two) in enumerate(zip(mine, other, strict=True), 1) if one != two]


@cache
def plain(path: Path, folder: Path) -> Path:
    """The file, unpacked where it is packed."""
    if path.suffix != ".gz":
        return path
    out = folder / path.stem
    out.write_bytes(gzip.decompress(path.read_bytes()))
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tshark")


@needs_samples
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_packet_of_the_samples(path: Path, folder: Path) -> None:
    assert differences(plain(path, folder)) == []


@needs_samples
@pytest.mark.parametrize("snap", SNAPS)
def test_every_packet_of_the_samples_cut(snap: int, folder: Path) -> None:
    """A mirror session or capture that keeps the first bytes only."""
    small = [plain(path, folder) for path in FILES if not path.name.startswith(("rxe-ring-put", "tcpdump_empty"))]
    every, cut = folder / f"every{snap}.pcapng", folder / f"cut{snap}.pcapng"
    subprocess.run(["mergecap", "-a", "-w", every, *small], check=True, capture_output=True)
    subprocess.run(["editcap", "-s", str(snap), every, cut], check=True, capture_output=True)
    assert differences(cut) == []


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_outer_header(form: str, folder: Path) -> None:
    path = folder / f"{form.replace(' ', '-')}.pcap"
    path.write_bytes(images.pcap([FORMS[form]]))
    (mine,) = ours(path)
    assert mine.roce is not None
    assert (mine.roce.psn, mine.roce.dest_qp) == (0x123456, 0x7FF)
    assert differences(path) == []


@needs_samples
def test_every_quirk_is_still_met(folder: Path) -> None:
    met.clear()
    for name in ("captures/rdma32.pcapng", "captures/allreduce+p2p.pcapng", "erspan/zeek_erspan.pcap"):
        theirs(SAMPLES / name)
    assert {name for name in QUIRKS if met[name]} == set(QUIRKS)
