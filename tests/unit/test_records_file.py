"""The records container: a file written by hand, the exact round trip, and every kind of damage by its name."""

import json
import struct
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.errors import OutputError, ReceiveError, RecordsCorrupt
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.records import Capture, Cause, Flow, Gap, Message, Missing, Records
from flowcheck_net.receive.records_place import records_place
from flowcheck_net.receive.records_read import holds_records, read_records, records_from_bytes
from flowcheck_net.receive.records_rows import ROW, MessageRows, rows_of
from flowcheck_net.receive.records_write import MessageSpool, RecordsWriter, write_records
from tests.unit.test_records_json import all_records, captures, flows, messages

WORDS = st.integers(0, 2**63 - 1)


def block(kind: int, content: bytes, chain: int = 0, flow: int = 0) -> bytes:
    """As docs/records-format.md says."""
    first, last = struct.pack("<III", kind, chain, flow), struct.pack("<Q", len(content))
    return first + struct.pack("<I", zlib.crc32(first + last + content)) + last + content


def image(*blocks: bytes, size: int | None = None, version: int = 2) -> bytes:
    body = b"".join(blocks)
    first = b"\x89FCR\r\n\x1a\n" + struct.pack("<I", version)
    last = struct.pack("<Q", 24 + len(body) if size is None else size)
    return first + struct.pack("<I", zlib.crc32(first + last)) + last + body


FLOW = {
    "capture": "cap0",
    "source": "10.0.0.1",
    "destination": "10.0.0.2",
    "dest_qp": 17,
    "packets": {"write": 4},
    "bytes": 3000,
    "mtu": 1024,
    "retransmitted": 1,
    "duplicated": 0,
    "reordered": 0,
    "truncated": 0,
}
COUNTS = {"chain": 0, "flow": 7, "messages": 1, "seen": 2, "repeats": 1, "missing": 1, "gaps": 1}
CAPTURE = {
    "name": "cap0",
    "packets": 4,
    "bytes": 4400,
    "frames": {"rocev2": 4},
    "first_time": 10,
    "last_time": 20,
    "dropped": None,
    "loss": {},
    "attributes": {},
    "tunnels": [],
}
INDEX = {"sources": ["a.pcap"], "warnings": [], "captures": [CAPTURE], "flows": [{**FLOW, **COUNTS}]}
# position 2: 3 000 bytes in 3 packets, of which position 3 is missing; no immediate, no LL flag, ICRC sum unknown
MESSAGE = struct.pack("<qqQqqqqQQII", 2, 3000, 2, 3, -1, -1, -1, 10, 20, 2, 6)
BLOCKS = [
    block(1, MESSAGE, 0, 7),
    block(2, struct.pack("<4q", 2, 2, 4, 4), 0, 7),
    block(3, struct.pack("<qQ", 4, 1), 0, 7),
    block(4, struct.pack("<qQIIII", 3, 1, 3, 3, 0, 0), 0, 7),
    block(5, struct.pack("<qQQII", 3, 1, 0, 3, 3), 0, 7),
]


def indexed(document: Any) -> bytes:
    return block(6, json.dumps(document).encode())


def golden() -> bytes:
    return image(*BLOCKS, indexed(INDEX))


def golden_records() -> Records:
    flow = Flow(
        capture=CapturePort("cap0"),
        source=Address("10.0.0.1"),
        destination=Address("10.0.0.2"),
        dest_qp=Qpn(17),
        packets={"write": 4},
        bytes=3000,
        mtu=1024,
        seen=((2, 2), (4, 4)),
        repeats=((4, 1),),
        retransmitted=1,
        duplicated=0,
        reordered=0,
        missing=(Missing(3, 3, 3, 1, Cause.LOST),),
        gaps=(Gap(3, 3, 3, 1, 0),),
        messages=(Message(2, 2, 3000, 2, 3, None, 6, 10, 20, None, None),),
    )
    return Records(("a.pcap",), (), (Capture(CapturePort("cap0"), 4, 4400, {"rocev2": 4}, 10, 20, None),), (flow,))


def test_a_file_written_by_hand_is_read() -> None:
    assert records_from_bytes(golden(), "x") == golden_records()


def test_a_file_is_written_as_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "x.fcr"
    write_records(path, golden_records())
    written = path.read_bytes()
    blocks = [each.replace(struct.pack("<II", 0, 7), struct.pack("<II", 0, 0)) for each in BLOCKS]
    whole = [block(int(each[0]), each[24:]) for each in blocks]  # this writer numbers flows from 0
    index = {**INDEX, "flows": [{**FLOW, **COUNTS, "flow": 0}]}
    text = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    assert written == image(*whole, block(6, text))


rows = st.lists(
    st.builds(
        Message,
        position=st.integers(-(2**40), 2**40),
        first_psn=st.integers(0, 2**24 - 1),
        bytes=st.none() | WORDS,
        packets=WORDS,
        expected_packets=st.none() | WORDS,
        immediate=st.none() | st.integers(0, 2**32 - 1),
        opcode=st.integers(0, 255),
        first_time=st.integers(0, 2**64 - 1),
        last_time=st.integers(0, 2**64 - 1),
        ll_flag=st.none() | st.integers(0, 2**32 - 1),
        icrc_sum=st.none() | WORDS,
    ),
    max_size=3,
    unique_by=lambda message: message.position,
).map(lambda found: tuple(sorted(found)))
file_flows = st.builds(lambda flow, messages: replace(flow, messages=messages), flows, rows)
file_records = st.builds(
    Records,
    sources=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    warnings=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    captures=st.lists(captures(), max_size=2).map(tuple),
    flows=st.lists(file_flows, max_size=3).map(tuple),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def written(folder: Path, records: Records) -> bytes:
    write_records(folder / "x.fcr", records)
    return (folder / "x.fcr").read_bytes()


@given(records=file_records)
def test_round_trip_is_exact(folder: Path, records: Records) -> None:
    data = written(folder, records)
    again = records_from_bytes(data, "x")
    assert again == records
    assert written(folder, again) == data


@given(records=all_records)
def test_numbers_that_only_json_can_hold_are_refused_and_nothing_else(folder: Path, records: Records) -> None:
    with suppress(ReceiveError):
        assert records_from_bytes(written(folder, records), "x").captures == records.captures


@given(st.lists(messages, max_size=4))
def test_rows_behave_like_the_tuple_of_messages(found: list[Message]) -> None:
    fitting = [replace(each, bytes=None, expected_packets=5, immediate=None, icrc_sum=None) for each in found]
    fitting = [replace(each, ll_flag=None, packets=1, first_time=3, last_time=4) for each in fitting]
    fitting.sort(key=lambda each: each.position)
    lazy = MessageRows.of(rows_of(fitting))
    assert len(lazy) == len(fitting)
    assert list(lazy) == fitting
    assert [lazy[number] for number in range(len(lazy))] == fitting
    assert lazy[1:] == tuple(fitting[1:])
    assert lazy == tuple(fitting)
    assert lazy == MessageRows.of(rows_of(lazy))
    assert (lazy == "messages") is False
    with pytest.raises(IndexError):
        lazy[len(fitting)]


def test_rows_come_out_by_position_in_whatever_order_they_were_spooled() -> None:
    one, two, three = (replace(golden_records().flows[0].messages[0], position=number) for number in (1, 2, 3))
    assert tuple(MessageRows.of(rows_of([three, one, two]))) == (one, two, three)


def test_every_bit_of_a_small_file_matters() -> None:
    data = golden()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordsCorrupt) as error:
            records_from_bytes(bytes(changed), "x.fcr")
        assert error.value.message.startswith("x.fcr: ")


def test_every_cut_of_a_small_file_is_told() -> None:
    data = golden()
    for size in range(24, len(data)):
        with pytest.raises(RecordsCorrupt, match=f"the file ends early, after {size:,} of {len(data):,} bytes"):
            records_from_bytes(data[:size], "x")
    for size in range(24):
        with pytest.raises(RecordsCorrupt):
            records_from_bytes(data[:size], "x")


def with_index(**changes: object) -> bytes:
    return image(*BLOCKS, indexed({**INDEX, **changes}))


def with_flow(**changes: object) -> bytes:
    return with_index(flows=[{**FLOW, **COUNTS, **changes}])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (image(*BLOCKS, indexed(INDEX), version=3), "version 3, this program reads version 2"),
        (image(*BLOCKS, indexed(INDEX), size=0), "never finished"),
        (golden() + b"\0", "something follows behind the end"),
        (b"\x89FCR\n\x1a\n" + golden()[8:], "it does not begin like a records file"),
        (image(*BLOCKS), "the index is not the last block"),
        (image(indexed(INDEX), *BLOCKS), "the index is not the last block"),
        (image(), "the head of a block is cut"),
        (image(block(9, b""), indexed(INDEX)), "a block is of no known kind"),
        (image(block(1, MESSAGE[:-1], 0, 7), indexed(INDEX)), "no whole number of rows"),
        (image(block(1, MESSAGE.replace(b"\x06\0\0\0", b"\6\1\0\0")), indexed(INDEX)), "opcode that cannot be"),
        (image(*BLOCKS[1:], indexed(INDEX)), r"flow (0, 7) has 0 rows of messages, its index says 1"),
        (image(*BLOCKS, BLOCKS[1], indexed(INDEX)), r"flow (0, 7) has 4 rows of seen, its index says 2"),
        (image(*BLOCKS, block(1, MESSAGE, 1, 1), indexed(INDEX)), r"the index does not know flow (1, 1)"),
        (with_flow(seen="2"), "the number of a flow or of its rows, found '2'"),
        (with_flow(chain=None), "the number of a flow or of its rows, found None"),
        (with_flow(bytes="2"), "flows.0.bytes: expected int, found '2'"),
        (with_flow(extra=1), "flows.0: expected the keys"),
        (with_index(flows=[1]), "expected a flow, found 1"),
        (with_index(flows={}), "the index has no list of flows"),
        (with_index(captures=[{**CAPTURE, "packets": 5}]), "cap0: the frames do not add up"),
        (image(block(6, b"[]")), "the index has no list of flows"),
        (image(block(6, b"{")), "the index is not readable JSON"),
        (image(block(6, b"\xff")), "the index is not readable JSON"),
        (image(block(6, b"[" * 100_000)), "the index is not readable JSON"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    with pytest.raises(RecordsCorrupt) as error:
        records_from_bytes(data, "r.fcr")
    assert error.value.message.startswith("r.fcr: ")
    assert message in error.value.message
    assert error.value.exit_code == 9


@given(st.binary(max_size=200), st.integers(0, 400))
def test_garbage_is_corrupt(garbage: bytes, at: int) -> None:
    data = golden()
    changed = data[:at] + garbage + data[at + len(garbage) :]
    if changed == data:
        return
    with pytest.raises(RecordsCorrupt):
        records_from_bytes(changed, "x")


def test_the_form_is_told_by_the_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_bytes(golden())
    assert holds_records(path)
    assert read_records(path) == golden_records()
    path.write_text(" {}")
    assert holds_records(path)
    for text in (" {}", '{"version": 1, "digest": "", "job": {}}'):  # the second begins like a plan
        path.write_text(text)
        with pytest.raises(RecordsCorrupt, match="not a records file"):
            read_records(path)
    for other in (b"\xff\xfe", b"", b"\x0a\x0d\x0d\x0a"):
        path.write_bytes(other)
        assert not holds_records(path)
        with pytest.raises(RecordsCorrupt):
            read_records(path)
    with pytest.raises(RecordsCorrupt, match="cannot be read"):
        read_records(tmp_path / "none")


def test_two_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Process numbers come again: in another container, or after a run that was killed and left its part."""
    path = tmp_path / "x.fcr"
    with records_place(path) as one, records_place(path) as two:
        one.file.write(b"1")
        two.file.write(b"22")
    assert path.read_bytes() == b"1"
    assert [each.name for each in tmp_path.iterdir()] == ["x.fcr"]


def test_nothing_takes_the_name_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.fcr"
    path.write_text("mine")
    with pytest.raises(ZeroDivisionError), records_place(path) as place:
        place.file.write(b"%d" % (1 // 0))
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot be written"):
        write_records(tmp_path / "none" / "x.fcr", golden_records())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.fcr"
    link.symlink_to(tmp_path / "there.fcr")
    write_records(link, golden_records())
    assert link.is_symlink()
    assert read_records(tmp_path / "there.fcr") == golden_records()
    write_records(Path("/dev/null"), golden_records())
    assert not Path("/dev/null").is_file()


def test_spools_of_several_chains_are_gathered(tmp_path: Path) -> None:
    """Blocks of 64 KiB: rows are held back until then, and found again wherever they lie."""
    flow = golden_records().flows[0]
    many = [replace(flow.messages[0], position=number) for number in range(2000)]
    with records_place(tmp_path / "x.fcr") as place, RecordsWriter(place.file, place.folder) as writer:
        spools: list[MessageSpool] = [writer.keeper(), writer.keeper()]
        for number in range(0, 2000, 100):
            for spool in spools:
                spool.add(3, rows_of(many[number : number + 100]))
        extents = writer.messages()
        assert {key: sum(length for _, length in found) for key, found in extents.items()} == {
            (0, 3): 2000 * ROW.size,
            (1, 3): 2000 * ROW.size,
        }
        assert all(len(found) == 3 for found in extents.values())
        both = Records((), (), (), (replace(flow, messages=tuple(many)), replace(flow, messages=tuple(many))))
        writer.close(both, [(0, 3), (1, 3)])
    assert read_records(tmp_path / "x.fcr") == both
