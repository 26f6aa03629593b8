"""Files of many ports at once, and files that come in pieces: the same records as one plain file after another."""

import gzip
import io
import itertools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import CaptureError
from flowcheck_net.receive import capture_file, replay_chain
from flowcheck_net.receive.capture_file import Stream, open_content
from flowcheck_net.receive.native import Core, FileReport
from flowcheck_net.receive.records_read import read_records
from flowcheck_net.receive.records_rows import ROW
from flowcheck_net.receive.replay import CaptureIncomplete, replay, replay_to_file
from flowcheck_net.receive.replay_chain import Job, chains_of
from tests.doubles import capture_images as images

CAPTURE = images.pcap([images.write_only(psn) for psn in range(50)])
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor().compress,
}


def pcapng(names: list[str], packets: list[tuple[int, int]]) -> bytes:
    """Interfaces, then a packet of this PSN for each (interface, PSN)."""
    image = images.section() + b"".join(images.interface([(2, name.encode())]) for name in names)
    return image + b"".join(
        images.enhanced(images.write_only(psn), 1000 + at, number=number) for at, (number, psn) in enumerate(packets)
    )


def files_of_a_run(folder: Path) -> list[Path]:
    """Two files of port a, two of b, one with a interface of both; c apart."""
    contents = {
        "1.pcapng": pcapng(["a"], [(0, 1), (0, 2)]),
        "2.pcapng": pcapng(["b"], [(0, 7)]),
        "3.pcapng": pcapng(["c"], [(0, 3), (0, 5)]),
        "4.pcapng": pcapng(["a", "d"], [(0, 3), (1, 4), (0, 5)]),
        "5.pcapng": pcapng(["b"], [(0, 9)]),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in contents]


def test_files_that_share_a_port_are_one_chain(tmp_path: Path) -> None:
    files = files_of_a_run(tmp_path)
    job = Job({}, None, lambda _: None)
    assert chains_of(files, job) == [[0, 3], [1, 4], [2]]
    assert chains_of([*files, tmp_path / "missing"], job) == [[0, 1, 2, 3, 4, 5]]
    assert chains_of(files, Job({"d": "b"}, None, lambda _: None)) == [[0, 1, 3, 4], [2]]


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_the_number_of_threads_changes_nothing(tmp_path: Path, jobs: int) -> None:
    files = files_of_a_run(tmp_path)
    records = replay(files, jobs=jobs)
    assert [(capture.name, capture.packets) for capture in records.captures] == [("a", 4), ("b", 2), ("c", 2), ("d", 1)]
    by_port = {str(flow.capture): flow for flow in records.flows}
    assert by_port["a"].seen == ((1, 3), (5, 5))
    assert [each.position for each in by_port["a"].messages] == [1, 2, 3, 5]
    assert [warning.split()[2] for warning in records.warnings] == ["a", "b"]
    output = tmp_path / f"{jobs}.fcr"
    assert replay_to_file(files, output, jobs=jobs) == records
    assert read_records(output) == records
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".fcr", *[".pcapng"] * 5]
    replay_to_file(files, tmp_path / "again.fcr", jobs=3)
    assert output.read_bytes() == (tmp_path / "again.fcr").read_bytes()


def test_messages_outlive_the_name_of_their_file(tmp_path: Path) -> None:
    capture, output = tmp_path / "x.pcap", tmp_path / "x.fcr"
    capture.write_bytes(CAPTURE)
    records = replay_to_file([capture], output)
    output.unlink()
    assert records == replay([capture])
    assert sum(len(list(flow.messages)) for flow in records.flows) == 50


def test_a_port_that_turns_up_late_is_still_one(tmp_path: Path) -> None:
    """The second file names port a only behind its first packet: nobody can know that before it is read."""
    one, two = tmp_path / "1.pcapng", tmp_path / "2.pcapng"
    one.write_bytes(pcapng(["a"], [(0, 1), (0, 2)]))
    late = images.interface([(2, b"a")]) + images.enhanced(images.write_only(4), 2000, number=1)
    two.write_bytes(pcapng(["b"], [(0, 9)]) + late)
    for records in (replay([one, two]), replay_to_file([one, two], tmp_path / "x.fcr")):
        assert [(flow.capture, flow.seen) for flow in records.flows] == [("a", ((1, 2), (4, 4))), ("b", ((9, 9),))]
    assert read_records(tmp_path / "x.fcr") == records


def test_files_of_a_port_against_the_order_of_time_are_told(tmp_path: Path) -> None:
    """As `ls` sorts those of `tcpdump -C`: x1, x10, x2."""
    paths = [tmp_path / name for name in ("x1.pcapng", "x10.pcapng", "x2.pcapng")]
    for path, time in zip(paths, (1000, 3000, 2000), strict=True):
        frame = images.enhanced(images.write_only(time // 1000), time)
        path.write_bytes(images.section() + images.interface([(2, b"a")]) + frame)
    told = [w for w in replay(paths).warnings if "begins before" in w]
    assert len(told) == 1
    assert told[0].startswith(f"{paths[2]} begins before {paths[1]}, which was given first: files of one port (a)")
    assert not [w for w in replay([paths[0], paths[2], paths[1]]).warnings if "begins before" in w]


def test_a_useless_file_is_named_whatever_the_others_do(tmp_path: Path) -> None:
    files = files_of_a_run(tmp_path)
    files[1].write_bytes(b"nonsense")
    files[2].write_bytes(b"")
    with pytest.raises(CaptureError):
        replay_to_file(files, tmp_path / "x.fcr", jobs=4)
    assert not (tmp_path / "x.fcr").exists()
    with pytest.raises(CaptureError) as error:
        replay(files, jobs=4)
    assert [line.split(": ")[1][:14] for line in error.value.message.splitlines()] == [
        "not a capture ",
        "the file is em",
    ]


def test_the_same_file_twice(tmp_path: Path) -> None:
    path = files_of_a_run(tmp_path)[0]
    assert replay([path, path]).captures[0].packets == 4


@pytest.mark.parametrize("kind", PACK)
def test_packed_in_one_and_in_several_members(tmp_path: Path, kind: str) -> None:
    pack, plain = PACK[kind], tmp_path / "port.pcap"
    plain.write_bytes(CAPTURE)
    wanted = replay([plain])
    forms = {
        "one": pack(CAPTURE),
        "many": b"".join(pack(CAPTURE[at : at + 99]) for at in range(0, len(CAPTURE), 99)),
        "padded": pack(CAPTURE) + bytes(20_000),
        "empty members": pack(b"") + pack(CAPTURE) + pack(b""),
    }
    for data in forms.values():
        path = tmp_path / "port.pcap.packed"
        path.write_bytes(data)
        found = replay([path], captures={str(path): "port"})
        assert (found.captures, found.flows, found.warnings) == (wanted.captures, wanted.flows, ())


def test_a_zstd_file_that_begins_with_a_frame_to_be_skipped(tmp_path: Path) -> None:
    """As ``pzstd`` writes it: before each frame a skippable one with its size (RFC 8878, 3.1.2)."""
    frames = [zstandard.ZstdCompressor().compress(part) for part in (CAPTURE[:1000], CAPTURE[1000:])]
    packed = b"".join(b"\x50\x2a\x4d\x18\x04\0\0\0" + len(f).to_bytes(4, "little") + f for f in frames)
    path = tmp_path / "x.pcap.zst"
    path.write_bytes(packed)
    (flow,) = replay([path]).flows
    assert flow.seen == ((0, 49),)
    path.write_bytes(packed[:12])
    with pytest.raises(CaptureError, match="empty"):
        replay([path])


@pytest.mark.parametrize("kind", PACK)
def test_every_cut_of_a_packed_file(tmp_path: Path, kind: str) -> None:
    data = PACK[kind](CAPTURE)
    path = tmp_path / "x.pcap.packed"
    for size in range(5, len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(CaptureError, match=r"truncated|not a capture file"):
            replay([path])


@pytest.mark.parametrize("kind", PACK)
def test_damage_inside_a_packed_file(tmp_path: Path, kind: str) -> None:
    """All before it is used; the stream's own words say what is wrong."""
    path = tmp_path / "x.pcap.packed"
    path.write_bytes(PACK[kind](CAPTURE) + b"rubbish")
    with pytest.raises(CaptureIncomplete, match=f"{kind} stream") as error:
        replay([path])
    assert error.value.records.captures[0].packets == 50


def test_a_zstd_file_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "x.pcap.zst"
    path.write_bytes(packer.compress(CAPTURE) + packer.flush())
    with pytest.raises(CaptureError, match="cannot be unpacked any further"):
        replay([path])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, len(CAPTURE) - 1), max_size=6), st.integers(0, len(CAPTURE)))
def test_a_stream_in_any_pieces_is_the_file(cuts: set[int], size: int) -> None:
    """Whole or cut: the same packets, and the same fault at the same byte."""
    data = CAPTURE[:size]
    edges = [0, *sorted(cut for cut in cuts if cut < size), size]
    if len(edges) > 2 and edges[1] < 4:
        return  # a first piece is never so short: only at its end is a file shorter than its magic number
    pieces = [data[first:last] for first, last in itertools.pairwise(edges)]

    def read(source: bytes | Stream) -> tuple[FileReport, object]:
        with Core() as core:
            report = core.read(source, lambda _: "port")
            return report, (core.captures(), core.flows(lambda _flow, _rows: None))

    assert read(Stream(iter(pieces))) == read(data)


def test_standard_input_and_pipes_are_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_file, "_PIECE", 100)
    pipe = tmp_path / "port.pcap"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(PACK["zstd"](CAPTURE)))
    writer.start()
    records = replay([pipe])
    writer.join()
    assert records.captures[0].packets == 50
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CAPTURE)))
    assert replay([Path("-")]).flows == tuple(
        flow.__class__(**{**{name: getattr(flow, name) for name in flow.__slots__}, "capture": "stdin"})
        for flow in records.flows
    )


@pytest.mark.parametrize("kind", PACK)
def test_pieces_are_bounded(tmp_path: Path, kind: str) -> None:
    """64 MB of zeros in a small file come in pieces; the file's own bytes are what progress is told in."""
    path = tmp_path / "x"
    path.write_bytes(PACK[kind](bytes(64 << 20)))
    with open_content(path) as content:
        assert isinstance(content, Stream)
        sizes = [len(piece) for piece in content.pieces]
        assert content.taken() == path.stat().st_size
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 16 << 20 if kind == "gzip" else len(sizes) >= 1


def test_messages_leave_the_core_while_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory must not grow with the capture: at every pause the messages that are whole go to the keeper."""
    taken: list[int] = []

    class Watching(Core):
        def __init__(self, *arguments: object) -> None:
            super().__init__(None, packets_a_call=10)

        def take(self, keep: Callable[[int, bytes], None]) -> None:
            def count(flow: int, rows: bytes) -> None:
                taken.append(len(rows) // ROW.size)
                keep(flow, rows)

            super().take(count)

    path = tmp_path / "x.pcap"
    path.write_bytes(CAPTURE)
    monkeypatch.setattr(replay_chain, "Core", Watching)
    told: list[int] = []
    records = replay([path], watch=told.append)
    assert taken == [10, 10, 10, 10, 10]
    assert [each.position for each in records.flows[0].messages] == list(range(50))
    assert sum(told) == len(CAPTURE)
    assert len(told) == 6
