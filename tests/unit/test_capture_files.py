"""Capture files in all their forms: what the reader makes of each, checked against bytes laid out by hand."""

import gzip
import os
import struct
import threading
from pathlib import Path

import pytest

from flowcheck_net.errors import CaptureError
from flowcheck_net.receive.capture_file import stem
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import CaptureIncomplete, replay
from tests.doubles import capture_images as images

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
START = 1_700_000_000 * 10**9
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")


def read(tmp_path: Path, data: bytes, name: str = "port.pcap") -> Records:
    path = tmp_path / name
    path.write_bytes(data)
    return replay([path])


def names(records: Records) -> list[str]:
    return [capture.name for capture in records.captures]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("magic", "unit"), [(images.MICROSECONDS, 1000), (images.NANOSECONDS, 1), (images.MODIFIED, 1000)]
)
def test_pcap_in_every_byte_order_and_resolution(tmp_path: Path, order: str, magic: int, unit: int) -> None:
    records = read(tmp_path, images.pcap([images.ARP, images.write_only(5)], order=order, magic=magic))
    (capture,) = records.captures
    assert (capture.name, capture.packets) == ("port", 2)
    assert capture.frames["arp"] == 1
    assert capture.frames["rocev2"] == 1
    assert (capture.first_time, capture.last_time) == (START + 123 * unit, START + 10**9 + 123 * unit)
    assert capture.dropped is None  # pcap cannot say
    (flow,) = records.flows
    assert (flow.source, flow.destination, flow.dest_qp) == ("10.0.0.1", "10.0.0.2", 0x11)
    assert flow.seen == ((5, 5),)
    assert flow.messages[0].bytes == 8


def test_the_flags_above_the_link_type_are_not_part_of_it(tmp_path: Path) -> None:
    with_fcs = images.pcap([images.ARP + b"FCS!"], link=images.ETHERNET | 0x2400_0000)
    assert read(tmp_path, with_fcs).captures[0].frames["arp"] == 1


def test_another_link_type_is_counted_by_name_and_not_parsed(tmp_path: Path) -> None:
    records = read(tmp_path, images.pcap([images.ARP, images.ARP], link=113))
    assert records.captures[0].frames["link_type_unsupported"] == 2
    assert records.captures[0].packets == 2
    assert any("LINUX_SLL (113)" in warning for warning in records.warnings)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_with_every_kind_of_packet_block(tmp_path: Path, order: str) -> None:
    data = (
        images.section(order)
        + images.interface([(2, b"ckpt1:cap0")], order=order, snaplen=40)
        + images.enhanced(images.ARP, 1_000_000, order=order)
        + images.block(0x0BAD, b"????", order)
        + images.obsolete(images.ARP, 3_000_000, 0xFFFF, order)
        + images.simple(images.ARP[:40], 60, order)
        + images.statistics([(4, 100), (5, 7), (7, 2)], order=order)
    )
    (capture,) = read(tmp_path, data, "a.pcapng").captures
    assert (capture.name, capture.packets, capture.frames["arp"]) == ("ckpt1:cap0", 3, 3)
    assert (capture.first_time, capture.last_time) == (1_000_000_000, 3_000_000_000)
    assert capture.dropped == 9  # ifdrop 7 + osdrop 2


@pytest.mark.parametrize(
    ("resolution", "offset", "ticks", "nanoseconds"),
    [
        (6, 0, 1_234_567, 1_234_567_000),
        (9, 0, 1_234_567, 1_234_567),
        (3, 0, 5, 5_000_000),
        (0, 0, 5, 5_000_000_000),
        (12, 0, 1_999_999, 1_999),
        (0x80 | 10, 0, 1536, 1_500_000_000),  # 1536 / 1024 s
        (0x80 | 32, 0, 3 << 31, 1_500_000_000),
        (6, 100, 1, 100_000_001_000),
        (6, -1, 3_000_000, 2_000_000_000),
    ],
)
def test_time_resolution_and_offset(tmp_path: Path, resolution: int, offset: int, ticks: int, nanoseconds: int) -> None:
    pairs = [(9, bytes([resolution])), (14, struct.pack("<q", offset))]
    data = images.section() + images.interface(pairs) + images.enhanced(images.ARP, ticks)
    assert read(tmp_path, data).captures[0].first_time == nanoseconds


def test_each_section_has_its_own_interfaces_and_byte_order(tmp_path: Path) -> None:
    data = b""
    for order, first in (("<", b"east"), (">", b"west")):
        data += images.section(order) + images.interface([(2, first)], order=order)
        data += images.interface([(2, b"both")], order=order)
        data += images.enhanced(images.ARP, 1, order=order) + images.enhanced(images.ARP, 2, number=1, order=order)
    records = read(tmp_path, data)
    assert {capture.name: capture.packets for capture in records.captures} == {"both": 2, "east": 1, "west": 1}


@pytest.mark.parametrize(
    ("blocks", "dropped"),
    [
        ([], None),
        ([images.statistics([(4, 10)])], None),  # received, but no word of drops
        ([images.statistics([(5, 3)]), images.statistics([(5, 8)])], 8),  # running totals
        ([images.enhanced(images.ARP, 2, pairs=[(4, struct.pack("<Q", 5))])], 5),
        ([images.obsolete(images.ARP, 2, 4), images.obsolete(images.ARP, 2, 2)], 6),
        ([images.obsolete(images.ARP, 2, 4), images.statistics([(5, 9)])], 9),
        ([images.obsolete(images.ARP, 2, 0xFFFF)], None),
        ([images.statistics([(5, 0)])], 0),
    ],
)
def test_drops_are_a_number_only_where_the_file_gives_one(
    tmp_path: Path, blocks: list[bytes], dropped: int | None
) -> None:
    data = images.section() + images.interface() + images.enhanced(images.ARP, 1) + b"".join(blocks)
    assert read(tmp_path, data).captures[0].dropped == dropped


@pytest.mark.parametrize(("order", "dropped"), [("ab", None), ("ba", None), ("aa", 6), ("a", 3)])
def test_drops_of_a_port_are_added_up_and_unknown_when_one_of_its_files_does_not_say(
    tmp_path: Path, order: str, dropped: int | None
) -> None:
    said = images.section() + images.interface([(2, b"cap0")]) + images.enhanced(images.ARP, 1)
    paths = [tmp_path / f"{number}.pcapng" for number in range(len(order))]
    for path, letter in zip(paths, order, strict=True):
        path.write_bytes(said + (images.statistics([(5, 3)]) if letter == "a" else b""))
    records = replay(paths)
    assert (records.captures[0].packets, records.captures[0].dropped) == (len(order), dropped)
    assert any("comes from 2 files" in warning for warning in records.warnings) == (len(order) == 2)


def test_names_of_ports(tmp_path: Path) -> None:
    nameless = images.section() + images.interface() + images.enhanced(images.ARP, 1)
    piped = images.section() + images.interface([(2, b"-")]) + images.enhanced(images.ARP, 1)
    assert names(read(tmp_path, nameless, "left.pcapng")) == ["left"]
    assert names(read(tmp_path, piped, "right.pcapng")) == ["right"]  # "-" is what a capture through a pipe is called
    path = tmp_path / "left.pcapng"
    assert names(replay([path], captures={str(path): "ckpt1:cap0"})) == ["ckpt1:cap0"]
    assert names(replay([path], captures={"left": "ckpt1:cap0"})) == ["ckpt1:cap0"]
    assert names(replay([path], captures={"other": "ckpt1:cap0"})) == ["left"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.pcap", "b"),
        ("b.pcap.gz", "b"),
        ("b.PCAPNG", "b"),
        ("rack.1.pcap", "rack.1"),
        ("plain", "plain"),
        ("-", "stdin"),
    ],
)
def test_stem(name: str, expected: str) -> None:
    assert stem(Path(name)) == expected


def test_gzip_of_one_and_of_two_members(tmp_path: Path) -> None:
    data = images.pcap([images.ARP] * 3)
    assert read(tmp_path, gzip.compress(data), "x.pcap.gz").captures[0].packets == 3
    assert read(tmp_path, gzip.compress(data[:50]) + gzip.compress(data[50:])).captures[0].packets == 3


def test_a_cut_gzip_stream_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap.gz"
    frames = [images.write_only(psn, payload=os.urandom(512)) for psn in range(400)]
    path.write_bytes(gzip.compress(images.pcap(frames))[:100_000])
    with pytest.raises(
        CaptureIncomplete, match=r"truncated at byte [\d,]+ of [\d,]+ \(offset in the uncompressed data\)"
    ) as error:
        replay([path])
    assert 100 < error.value.records.captures[0].packets < 400


def test_a_gzip_stream_that_lacks_only_its_checksum_is_not_taken_for_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(gzip.compress(images.pcap([images.ARP] * 3))[:-4])
    with pytest.raises(CaptureIncomplete, match="gzip stream ends early") as error:
        replay([path])
    assert error.value.records.captures[0].packets == 3


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "live"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(images.pcap([images.ARP] * 2),))
    writer.start()
    records = replay([pipe])
    writer.join()
    assert (names(records), records.captures[0].packets) == (["live"], 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"the file is empty \(0 bytes\)"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "not a capture file"),
        (b"#!/bin/sh\necho hello\n", "not a capture file"),
        (b"\x7fELF" + bytes(64), "not a capture file"),
        (b"\n", "not a capture file"),
        (b"\x0a\x0d\x0d\x0a" + bytes(64), "not a capture file"),
        (gzip.compress(b"some text", mtime=0), "not a capture file"),
        (gzip.compress(b"", mtime=0), r"the file is empty \(0 bytes\)"),
        (b"\x1f\x8b", "gzip stream ends early"),
        (images.pcap([]), "a capture file without any packet"),
        (images.section() + images.interface(), "a capture file without any packet"),
        (images.pcap([images.ARP])[:20], "truncated at byte 0 of 20: the file header is cut; no whole packet"),
        (images.pcap([images.ARP])[:50], "truncated at byte 24 of 50: the data of a packet record are cut"),
        (
            images.section() + images.enhanced(images.ARP, 1),
            "corrupt at byte 28 of 120: a packet block names an interface that was not described",
        ),
    ],
)
def test_files_of_which_nothing_can_be_used(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=message) as error:
        replay([path])
    assert not isinstance(error.value, CaptureIncomplete)
    assert error.value.exit_code == 9
    assert str(path) in error.value.message


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap: No such file or directory"):
        replay([tmp_path / "missing.pcap"])
    with pytest.raises(CaptureError, match="Is a directory"):
        replay([tmp_path])


def test_every_bad_file_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(CaptureError) as error:
        replay([tmp_path / "none", tmp_path / "empty"])
    assert [line.rpartition("/")[2][:5] for line in error.value.message.splitlines()] == ["none:", "empty"]


def test_one_silent_port_among_several_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "silent.pcap").write_bytes(images.pcap([]))
    (tmp_path / "busy.pcap").write_bytes(images.pcap([images.ARP]))
    records = replay([tmp_path / "silent.pcap", tmp_path / "busy.pcap"])
    assert [(capture.name, capture.packets) for capture in records.captures] == [("busy", 1), ("silent", 0)]
    assert any("silent.pcap: a capture file without any packet" in warning for warning in records.warnings)


def test_a_length_that_no_packet_can_have_is_corruption_not_truncation(tmp_path: Path) -> None:
    data = bytearray(images.pcap([images.ARP] * 2))
    second = 24 + 16 + len(images.ARP)
    data[second + 8 : second + 12] = struct.pack("<I", 0xFFFF_FFFF)
    with pytest.raises(CaptureIncomplete, match=f"corrupt at byte {second} of") as error:
        read(tmp_path, bytes(data))
    assert error.value.records.captures[0].packets == 1
    assert any("corrupt at byte" in warning for warning in error.value.records.warnings)


def test_two_lengths_of_a_block_that_differ_are_corruption(tmp_path: Path) -> None:
    data = bytearray(images.section() + images.interface() + images.enhanced(images.ARP, 1) * 2)
    data[-1] ^= 1
    with pytest.raises(CaptureIncomplete, match="the two lengths of a block differ"):
        read(tmp_path, bytes(data))


def ends_of_records(data: bytes) -> list[int]:
    """Byte offsets at which a little-endian pcapng file may be cut without loss: the ends of its blocks."""
    ends, position = [], 0
    while position < len(data):
        position += struct.unpack_from("<I", data, position + 4)[0]
        ends.append(position)
    return ends


def outcome(path: Path) -> tuple[int, str]:
    """Packets used, and the message of the error if there is one."""
    try:
        return replay([path]).captures[0].packets, ""
    except CaptureIncomplete as error:
        return error.records.captures[0].packets, error.message
    except CaptureError as error:
        return 0, error.message


@needs_samples
def test_a_real_file_cut_anywhere_is_a_clear_error_or_whole(tmp_path: Path) -> None:
    data = (SAMPLES / "captures" / "iter_40000_p2p.pcapng").read_bytes()
    ends = ends_of_records(data)
    path = tmp_path / "cut.pcapng"
    seen = 0
    for size in sorted({*range(1, 700), *range(700, len(data), 397), *ends[::9]}):
        path.write_bytes(data[:size])
        whole = max((end for end in ends if end <= size), default=0)
        packets, message = outcome(path)
        if size < 4:
            assert "not a capture" in message
        elif size != whole:
            assert f"truncated at byte {whole:,} of {size:,}" in message
        else:
            assert message == "" or (packets == 0 and "without any packet" in message)
        assert packets >= seen  # more bytes never give fewer packets
        seen = packets
    assert seen > 90
