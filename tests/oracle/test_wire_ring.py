"""The messages of a hop against GPUs that really run the ring.

Every rank and channel is a coroutine that executes the ring kernel: it sends, receives and adds elements of a buffer
in which each element is a bit mask of the ranks whose gradient is in it. Queues between them log what crossed each hop.
The placement of chunks is written as dealing and walking, not as the product's formulas; wire bytes and packets are
counted out line by line. The log must equal ``hop_messages``, and the buffers must end as a complete all-reduce.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.model.job import Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import WireMessage, hop_messages, hop_totals

VERSIONS = [
    (2, 8, 4),
    (2, 19, 3),
    (2, 20, 5),
    (2, 21, 5),
    (2, 22, 3),
    (2, 23, 4),
    (2, 25, 1),
    (2, 26, 2),
    (2, 28, 9),
    (2, 29, 2),
    (2, 30, 7),
]
CHUNK_BYTES = {"LL": 32768, "LL128": 576000, "Simple": 2097152}
GRAIN_BYTES = {"LL": 16, "LL128": 1920, "Simple": 512}

Places = dict[int, list[tuple[int, int]]]
"""Channel -> (first element, elements) of each ring chunk."""


@dataclass(frozen=True)
class Run:
    version: tuple[int, int, int]
    protocol: str
    channels: int
    threads: int
    dtype: str
    elements: int
    ranks: int
    extra_step: bool
    mtu: int = 1024

    @property
    def size(self) -> int:
        return {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}[self.dtype]


@dataclass
class Sent:
    start: int
    count: int
    contributions: int


# --- where chunks lie ------------------------------------------------------------------------------------------------


def least_multiple(unit: int, at_least: int) -> int:
    number = at_least + (-at_least) % unit
    assert number % unit == 0
    return number


def passes(run: Run) -> Iterator[Places]:
    """Loop after loop, where the chunks of each channel lie. Channels without work are absent."""
    if run.version < (2, 20, 0):
        yield from interleaved_passes(run)
        return
    dealt = shares_2_20(run) if run.version < (2, 22, 0) else shares_2_22(run)
    assert sum(dealt) == run.elements
    queues = {}
    begin = 0
    for channel, share in enumerate(dealt):
        queues[channel] = list(contiguous_passes(run, begin, share))
        begin += share
    for number in range(max(len(q) for q in queues.values())):
        yield {c: q[number] for c, q in queues.items() if number < len(q)}


def interleaved_passes(run: Run) -> Iterator[Places]:
    """Up to 2.19: walk over the buffer and hand out one block after the other."""
    full = CHUNK_BYTES[run.protocol] // run.size
    cursor = 0
    while cursor < run.elements:
        begin = cursor
        left = run.elements - cursor
        block = full
        unit = {
            "LL": run.threads * 8 // run.size,
            "LL128": run.threads * (60 // run.size) // 2,
            "Simple": run.threads * 8 // run.size,
        }[run.protocol]
        if run.protocol == "Simple":
            smallest = -(-left // (run.channels * run.ranks))
            block = least_multiple(unit, min(full, smallest))
        else:
            units = 0
            while units * unit * run.channels * run.ranks < left and units * unit < full:
                units += 1
            block = min(full, units * unit)
        owners = [(c, k) for k in range(run.ranks) for c in range(run.channels)]
        if run.protocol == "Simple":
            owners.sort()
        places: Places = {c: [(0, 0)] * run.ranks for c in range(run.channels)}
        for channel, chunk in owners:
            take = max(0, min(block, run.elements - cursor))
            places[channel][chunk] = (cursor, take)
            cursor += take
        yield places
        cursor = max(cursor, min(run.elements, begin + full * run.channels * run.ranks))


def shares_2_20(run: Run) -> list[int]:
    unit_bytes = {"Simple": 4096, "LL": 8 * run.threads, "LL128": 480 * (run.threads // 32)}[run.protocol]
    budget = least_multiple(16, -(-run.elements * run.size // run.channels))
    result, left = [], run.elements
    for _ in range(run.channels):
        take = min(left, least_multiple(unit_bytes // run.size, -(-budget // run.size)))
        if take:
            result.append(take)
        left -= take
    return result


def shares_2_22(run: Run) -> list[int]:
    """Cells are dealt to channel 0 up to its budget, then to the next, as NCCL's scheduler does."""
    weight = 8 if run.protocol == "LL" and run.version >= (2, 26, 0) else 2
    floor = 32768 if run.version >= (2, 29, 0) else 16384
    if run.version < (2, 23, 0):
        floor, cell = 512, 16
    else:
        cell = least_multiple(16, -(-floor // weight))
    traffic = run.elements * run.size * weight
    if run.version >= (2, 29, 0):
        budget = least_multiple(16, max(floor, traffic) // run.channels)
    else:
        budget = max(floor, traffic // run.channels)
    cells = len(range(0, run.elements * run.size, cell))
    counts = give_cells(cells, budget, cell * weight, run.channels, floor_first=run.version < (2, 23, 0))
    result, left = [], run.elements
    for count in counts:
        result.append(min(left, count * (cell // run.size)))
        left -= result[-1]
    return [share for share in result if share]


def give_cells(cells: int, budget: int, per_cell: int, channels: int, *, floor_first: bool) -> list[int]:
    if channels == 1:
        return [cells]
    share = len(range(0, budget, per_cell))
    first = min(cells, budget // per_cell if floor_first else share)
    counts, left = [first], cells - first
    while left:
        counts.append(min(share, left))
        left -= counts[-1]
    if len(counts) > channels:  # the first keeps its cells; the rest share evenly, the last takes what is over
        left = cells - first
        even = left // (channels - 1)
        counts = [first] + [even] * (channels - 1)
        counts[-1] += left - even * (channels - 1)
    return counts


def contiguous_passes(run: Run, begin: int, share: int) -> Iterator[list[tuple[int, int]]]:
    chunk = CHUNK_BYTES[run.protocol] // run.size
    if run.version >= (2, 22, 0):
        chunk -= chunk % (GRAIN_BYTES[run.protocol] // run.size)
        unit = 16 // run.size
    else:
        unit = {
            "Simple": 4096 // run.size,
            "LL": 8 // run.size * run.threads,
            "LL128": 480 // run.size * (run.threads // 32),
        }[run.protocol]
    end = begin + share
    while begin < end:
        if end - begin < chunk * run.ranks:
            chunk = least_multiple(unit, -(-(end - begin) // run.ranks))
        places = []
        for _ in range(run.ranks):
            take = min(chunk, end - begin)
            places.append((begin, take))
            begin += take
        yield places


# --- the kernel ------------------------------------------------------------------------------------------------------


def add(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "little") | int.from_bytes(right, "little")).to_bytes(len(left), "little")


def message_sizes(run: Run, count: int) -> list[int]:
    """Elements of each message of a chunk."""
    if run.protocol != "Simple":
        return [count]
    size = max(16 * len(range(0, count, 32)), 2**20 // run.size // 32)
    result = []
    for _ in range(2):
        result.append(min(size, count))
        count -= result[-1]
    assert count == 0
    return result


@dataclass
class Gpu:
    """One rank on one channel."""

    run: Run
    rank: int
    buffer: bytearray
    inbox: deque[bytes]
    outbox: deque[bytes]
    log: list[Sent]

    def send(self, place: tuple[int, int]) -> None:
        start, count = place
        for part in message_sizes(self.run, count):
            data = bytes(self.buffer[start : start + part])
            masks = set(data)
            assert len(masks) <= 1, "a message mixes sums of different ranks"
            self.log.append(Sent(start, part, next(iter(masks)).bit_count() if masks else 0))
            self.outbox.append(data)
            start += part

    def receive(self, place: tuple[int, int], *, reduce: bool) -> Iterator[None]:
        start, count = place
        for part in message_sizes(self.run, count):
            while not self.inbox:
                yield
            data = self.inbox.popleft()
            assert len(data) == part
            mine = bytes(self.buffer[start : start + part])
            self.buffer[start : start + part] = add(mine, data) if reduce else data
            start += part

    def kernel(self, loops: list[list[tuple[int, int]]]) -> Iterator[None]:
        n, me = self.run.ranks, self.rank
        for places in loops:
            self.send(places[(me - 1) % n])
            for j in range(2, n + 1):
                yield from self.receive(places[(me - j) % n], reduce=True)
                self.send(places[(me - j) % n])
            for j in range(1, n):
                yield from self.receive(places[(me - j) % n], reduce=False)
                if j < n - 1 or self.run.extra_step:
                    self.send(places[(me - j) % n])
            if self.run.extra_step:
                yield from self.receive(places[me], reduce=False)


def execute(run: Run) -> dict[tuple[int, int], list[Sent]]:
    """Run all ranks and channels to the end. (channel, hop) -> what was sent, in order."""
    buffers = [bytearray([1 << rank]) * run.elements for rank in range(run.ranks)]
    work: dict[int, list[list[tuple[int, int]]]] = {}
    for places in passes(run):
        for channel, chunks in places.items():
            work.setdefault(channel, []).append(chunks)
    logs: dict[tuple[int, int], list[Sent]] = {}
    running: list[Iterator[None]] = []
    for channel, loops in work.items():
        wires: list[deque[bytes]] = [deque() for _ in range(run.ranks)]
        for rank in range(run.ranks):
            log = logs[channel, rank] = []
            gpu = Gpu(run, rank, buffers[rank], wires[(rank - 1) % run.ranks], wires[rank], log)
            running.append(gpu.kernel(loops))
    done = object()
    while running:
        running = [gpu for gpu in running if next(gpu, done) is not done]
    everyone = bytes([2**run.ranks - 1]) * run.elements
    assert all(buffer == everyone for buffer in buffers), "not an all-reduce"
    return logs


# --- the comparison --------------------------------------------------------------------------------------------------


def wire_bytes(protocol: str, data: int) -> int:
    if protocol == "LL":
        return sum(16 for _ in range(0, data, 8))
    if protocol == "LL128":
        return sum(2048 for _ in range(0, data, 1920))
    return data


def packet_count(length: int, mtu: int) -> int:
    return len(range(0, length, mtu)) or 1


def model_wire(run: Run) -> Wire:
    nccl = Nccl(
        version=run.version,
        protocol=Protocol(run.protocol),
        channels=run.channels,
        threads=run.threads,
        extra_step=run.extra_step,
        qps_per_connection=1,
        split_data_on_qps=False,
        adaptive_routing=False,
        adaptive_routing_threshold=8192,
    )
    return Wire(nccl, run.mtu, (Bucket("b", run.elements, Dtype(run.dtype)),), ())


def compare(run: Run) -> None:
    logs = execute(run)
    wire = model_wire(run)
    for channel in range(run.channels):
        for hop in range(run.ranks):
            expected = logs.get((channel, hop), [])
            messages = hop_messages(wire, run.ranks, channel, hop)
            assert [m.data_bytes for m in messages] == [s.count * run.size for s in expected]
            for message, sent in zip(messages, expected, strict=True):
                compare_message(run, message, sent)
            compare_totals(run, messages, expected)
    for hop in range(run.ranks):
        check_coverage(run, wire, hop)


def compare_message(run: Run, message: WireMessage, sent: Sent) -> None:
    length = wire_bytes(run.protocol, sent.count * run.size)
    assert message.wire_bytes == length
    assert message.packets == packet_count(length, run.mtu)
    assert (message.qp, message.closes, message.bucket) == (0, False, 0)
    if sent.count:
        assert message.data_offset == sent.start * run.size
        assert message.contributions == sent.contributions
        assert message.reduced == (sent.contributions == run.ranks)


def compare_totals(run: Run, messages: tuple[WireMessage, ...], expected: list[Sent]) -> None:
    totals = hop_totals(messages)
    packets = [packet_count(wire_bytes(run.protocol, s.count * run.size), run.mtu) for s in expected]
    assert totals.total.packets == sum(packets)
    assert totals.psn_span == ((sum(packets),) if packets else ())
    assert totals.partial.packets + totals.reduced.packets == totals.total.packets
    reduced = [s for s in expected if s.contributions == run.ranks]
    assert totals.reduced.data_bytes == sum(s.count for s in reduced) * run.size


def check_coverage(run: Run, wire: Wire, hop: int) -> None:
    """All channels: every byte fully reduced exactly once, but for chunk hop + 1 unless the extra step sends it."""
    seen = bytearray(run.elements)
    lacking = bytearray(run.elements)
    own = (hop + 1) % run.ranks
    for channel in range(run.channels):
        for m in hop_messages(wire, run.ranks, channel, hop):
            first, count = m.data_offset // run.size, m.data_bytes // run.size
            if m.reduced:
                assert not any(seen[first : first + count]), "a byte is sent twice"
                seen[first : first + count] = b"\1" * count
            if m.chunk == own and not m.reduced:
                assert m.contributions == run.ranks - 1, "only the receiver's own gradient is missing"
                lacking[first : first + count] = b"\1" * count
    if run.extra_step:
        assert all(seen)
    else:
        assert all(s != k for s, k in zip(seen, lacking, strict=True))


def threads_of(protocol: str) -> st.SearchStrategy[int]:
    choices = {"LL": [64, 96, 128, 256, 512], "LL128": [64, 160, 320, 512, 640], "Simple": [64, 128, 256, 512]}
    return st.sampled_from(choices[protocol])


@st.composite
def runs(draw: st.DrawFn) -> Run:
    protocol = draw(st.sampled_from(["LL", "LL128", "Simple"]))
    return Run(
        version=draw(st.sampled_from(VERSIONS)),
        protocol=protocol,
        channels=draw(st.integers(1, 5)),
        threads=draw(threads_of(protocol)),
        dtype=draw(st.sampled_from(["fp32", "bf16", "fp64"])),
        elements=draw(st.one_of(st.integers(1, 3000), st.integers(1, 60_000))),
        ranks=draw(st.integers(2, 6)),
        extra_step=draw(st.booleans()),
        mtu=draw(st.sampled_from([256, 1024, 4096])),
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs())
def test_messages_are_those_of_gpus_that_run_the_ring(run: Run) -> None:
    compare(run)


@pytest.mark.parametrize("version", [(2, 19, 3), (2, 21, 5), (2, 22, 3), (2, 28, 9), (2, 30, 7)], ids=str)
@pytest.mark.parametrize(
    ("protocol", "dtype", "channels", "ranks", "elements"),
    [
        ("LL", "fp32", 2, 3, 3 * 2 * 8192 * 2 + 777),  # two full loops and a rest
        ("LL", "fp64", 1, 2, 2 * 4096),  # one full loop and nothing more
        ("LL128", "bf16", 1, 2, 288_000 * 2 + 5000),
        ("LL128", "fp32", 2, 2, 144_000 * 4 + 1),
        ("Simple", "bf16", 1, 2, 2 * 1_048_576 + 100_001),
        ("Simple", "fp64", 2, 3, 6 * 262_144 + 31),
    ],
)
def test_large_buckets_take_several_loops(
    version: tuple[int, int, int], protocol: str, dtype: str, channels: int, ranks: int, elements: int
) -> None:
    threads = 640 if protocol == "LL128" else 512
    compare(Run(version, protocol, channels, threads, dtype, elements, ranks, extra_step=False, mtu=4096))


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_shares_of_nccl_2_22_are_right_where_cells_do_not_divide_evenly(channels: int) -> None:
    for elements in range(1, 4000, 61):
        compare(Run((2, 22, 3), "Simple", channels, 512, "fp32", elements, 2, extra_step=False))
