"""The records file: exact round trip, and nothing but a clear error for anything else."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.records import Capture, Cause, Flow, Gap, Message, Missing, Records, Tunnel, TunnelKind
from flowcheck_net.receive.records_json import records_from_json, records_to_json

counts = st.integers(0, 2**64 - 1)
positions = st.integers(-(2**40), 2**40)
psns = st.integers(0, 2**24 - 1)
names = st.text(max_size=12)
by_name = st.dictionaries(st.sampled_from(["write", "ack", "nak", "setup"]), counts)
optional = st.none() | counts


@st.composite
def ranges(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """Sorted, disjoint, not touching."""
    found, edge = [], draw(positions)
    for gap, length in draw(st.lists(st.tuples(st.integers(2, 99), st.integers(0, 99)), max_size=4)):
        found.append((edge + gap, edge + gap + length))
        edge += gap + length
    return tuple(found)


tunnels = st.builds(
    Tunnel,
    outer_source=names.map(Address),
    kind=st.sampled_from(TunnelKind),
    session=optional,
    packets=counts,
    sequence_gaps=optional,
)


def captures() -> st.SearchStrategy[Capture]:
    return st.builds(
        lambda frames, **rest: Capture(packets=sum(frames.values()), frames=frames, **rest),
        frames=by_name,
        name=names.map(CapturePort),
        bytes=counts,
        first_time=counts,
        last_time=counts,
        dropped=optional,
        attributes=by_name,
        tunnels=st.lists(tunnels, max_size=2).map(tuple),
        loss=st.dictionaries(names, optional, max_size=3),
    )


missing = st.builds(
    Missing, position=positions, first_psn=psns, last_psn=psns, packets=counts, cause=st.sampled_from(Cause)
)
gaps = st.builds(Gap, position=positions, first_psn=psns, last_psn=psns, packets=counts, filled=counts)
messages = st.builds(
    Message,
    position=positions,
    first_psn=psns,
    bytes=optional,
    packets=counts,
    expected_packets=optional,
    immediate=optional,
    opcode=st.integers(0, 255),
    first_time=counts,
    last_time=counts,
    ll_flag=optional,
    icrc_sum=optional,
)
flows = st.builds(
    Flow,
    capture=names.map(CapturePort),
    source=names.map(Address),
    destination=names.map(Address),
    dest_qp=psns.map(Qpn),
    packets=by_name,
    bytes=counts,
    mtu=st.sampled_from([None, 1024, 4096]),
    seen=ranges(),
    repeats=st.dictionaries(positions, st.integers(1, 9), max_size=3).map(lambda found: tuple(sorted(found.items()))),
    retransmitted=counts,
    duplicated=counts,
    reordered=counts,
    missing=st.lists(missing, max_size=2).map(tuple),
    gaps=st.lists(gaps, max_size=2).map(tuple),
    messages=st.lists(messages, max_size=2).map(tuple),
    truncated=counts,
)
all_records = st.builds(
    Records,
    sources=st.lists(names, max_size=2).map(tuple),
    warnings=st.lists(names, max_size=2).map(tuple),
    captures=st.lists(captures(), max_size=2).map(tuple),
    flows=st.lists(flows, max_size=2).map(tuple),
)


def example() -> dict[str, Any]:
    """A small document, as JSON."""
    flow = Flow(
        capture=CapturePort("cap0"),
        source=Address("10.0.0.1"),
        destination=Address("10.0.0.2"),
        dest_qp=Qpn(5),
        packets={"write": 3},
        bytes=24,
        mtu=1024,
        seen=((1, 2), (4, 4)),
        repeats=(),
        retransmitted=0,
        duplicated=0,
        reordered=0,
        missing=(Missing(3, 3, 3, 1, Cause.LOST),),
        gaps=(),
        messages=(),
    )
    capture = Capture(CapturePort("cap0"), 3, 300, {"rocev2": 3}, 1, 2, None)
    document: dict[str, Any] = json.loads(records_to_json(Records(("a.pcap",), (), (capture,), (flow,))))
    return document


def sealed(document: dict[str, Any]) -> str:
    """The document with a digest that fits, reckoned here from the description in docs/records-format.md."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return json.dumps({**rest, "digest": hashlib.sha256(canonical.encode()).hexdigest()}, indent=1)


@given(all_records)
def test_round_trip_is_exact(records: Records) -> None:
    text = records_to_json(records)
    assert records_from_json(text, "x") == records
    assert records_to_json(records_from_json(text, "x")) == text


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_garbage_is_corrupt(text: str) -> None:
    with pytest.raises(RecordsCorrupt):
        records_from_json(text, "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(json_values)
def test_any_json_is_corrupt(value: object) -> None:
    with pytest.raises(RecordsCorrupt):
        records_from_json(json.dumps(value), "x")


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in places(value[key], (*path, key)))]


@given(st.data())
def test_a_field_of_another_type_is_corrupt_or_means_the_same(data: st.DataObject) -> None:
    """Whatever stands in a field, and though the digest fits: an error, or records that give the same document."""
    document = example()
    *parents, last = data.draw(st.sampled_from([place for place in places(document) if place and place != ("digest",)]))
    holder: Any = document
    for key in parents:
        holder = holder[key]
    holder[last] = data.draw(json_values)
    try:
        text = sealed(document)
        records = records_from_json(text, "x")
    except RecordsCorrupt:
        return
    assert json.loads(records_to_json(records)) == json.loads(text)


def test_the_digest_is_as_documented() -> None:
    assert records_from_json(sealed(example()), "x").flows[0].seen == ((1, 2), (4, 4))


def change(path: str, value: object) -> str:
    document = example()
    holder: Any = document
    *parents, last = path.split(".")
    for key in parents:
        holder = holder[int(key)] if key.isdigit() else holder[key]
    holder[last] = value
    return sealed(document)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 1, "version 1, this program reads version 2"),
        ("version", True, "version True"),
        ("flows.0.bytes", "24", "flows.0.bytes: expected int, found '24'"),
        ("flows.0.bytes", True, "flows.0.bytes: expected int, found True"),
        ("flows.0.bytes", 1.0, "flows.0.bytes: expected int, found 1.0"),
        ("flows.0.seen", [[1, 2, 3]], "flows.0.seen.0: expected a list of 2"),
        ("flows.0.seen", [[1, 2], [3, 3]], "seen: the ranges of seen packets are not in order at 3"),
        ("flows.0.seen", [[2, 1]], "seen: the ranges of seen packets are not in order at 2"),
        ("flows.0.repeats", [[2, 1], [1, 1]], "the repeats are not in order"),
        ("flows.0.repeats", [[2, 0]], "the repeats are not in order"),
        (
            "flows.0.missing.0.cause",
            "rain",
            "flows.0.missing.0.cause: expected one of lost, capture_start, capture_end",
        ),
        ("flows.0.packets", {"write": -1}, "flows.0.packets.write: expected a count, found -1"),
        ("flows.0.extra", 1, "flows.0: expected the keys"),
        ("captures.0.packets", 4, "cap0: the frames do not add up"),
        ("captures.0.dropped", "none", "captures.0.dropped: expected int"),
        ("captures.0.loss", {"missed": -1}, "captures.0.loss.missed: expected a count, found -1"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: object, message: str) -> None:
    with pytest.raises(RecordsCorrupt) as error:
        records_from_json(change(path, value), "r.json")
    assert error.value.message.startswith("r.json:")
    assert message in error.value.message
    assert error.value.exit_code == 9


def test_a_changed_document_does_not_fit_its_digest() -> None:
    document = example()
    document["flows"][0]["bytes"] += 1
    with pytest.raises(RecordsCorrupt, match="the digest does not fit"):
        records_from_json(json.dumps(document), "x")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "1" * 5_000, '{"version": 2, "digest": NaN}', '{"version":2,"digest":"", "a":NaN}']
)
def test_json_beyond_the_limits(text: str) -> None:
    with pytest.raises(RecordsCorrupt):
        records_from_json(text, "x")
