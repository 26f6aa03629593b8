"""GPUs that really run the ring: every rank and channel is a coroutine that executes the kernel.

It sends, receives and adds elements of a buffer in which each element is a bit mask of the ranks whose gradient is in
it. Queues between them log what crossed each hop, and the buffers must end as a complete all-reduce. The placement of
chunks is written as dealing and walking, not as the product's formulas.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

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
