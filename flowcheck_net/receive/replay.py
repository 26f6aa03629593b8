"""Capture files to records: every packet counted, every fault of a file named with its place."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from flowcheck_net.errors import CaptureError
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.capture_file import legible
from flowcheck_net.receive.kept_file import KeptFile
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.records import Capture, Flow, Message, Records
from flowcheck_net.receive.records_place import records_place
from flowcheck_net.receive.records_rows import MessageRows
from flowcheck_net.receive.records_write import FlowId, RecordsWriter
from flowcheck_net.receive.replay_chain import Chain, FileFindings, Job, Keeper, chains_of, read_chain


class CaptureIncomplete(CaptureError):
    """A file is cut off or damaged. What was read before that point is in ``records``."""

    def __init__(self, message: str, records: Records, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.records = records


class _Store(Protocol):
    """Where the messages of all chains go."""

    def keeper(self) -> Keeper:
        """For the next chain."""

    def restart(self) -> None:
        """Forget all chains."""


class _Rows:
    """Messages of one chain in memory."""

    def __init__(self) -> None:
        self.rows: dict[int, list[bytes]] = defaultdict(list)

    def add(self, flow: int, rows: bytes) -> None:
        """More of them."""
        self.rows[flow].append(rows)


class _Memory:
    """Messages of all chains in memory."""

    def __init__(self) -> None:
        self.chains: list[_Rows] = []

    def keeper(self) -> Keeper:
        """For the next chain."""
        made = _Rows()
        self.chains.append(made)
        return made

    def restart(self) -> None:
        """Forget all chains."""
        self.chains.clear()

    def messages(self, key: FlowId) -> Sequence[Message]:
        """Of one flow."""
        rows = b"".join(self.chains[key[0]].rows[key[1]])
        return MessageRows.of(rows) if rows else ()


def replay(
    paths: Sequence[Path],
    *,
    captures: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    jobs: int | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> Records:
    """Count the packets of capture files as a receiver would have.

    A capture port is called as the file calls its interface (pcapng), else as the file without its suffixes. Files that
    share no capture port are read at the same time, those of one port one after another.

    Args:
        paths: pcap or pcapng files in order of time, plain, gzip or zstd; ``-`` is standard input.
        captures: capture ports by file (as in ``paths``) or interface name, to be used instead.
        settings: how to read packets; None: as usual.
        jobs: how many threads may read; None: one for each core. The result does not depend on it.
        watch: called now and then, from any thread, with the bytes of capture files read since the last call.

    Raises:
        CaptureIncomplete: a file is cut off or damaged; the records of all that is whole are in the error.
        CaptureError: a file is missing, empty or no capture file, or no file holds a packet. Names every such file.
    """
    store = _Memory()
    counted = _Counted(paths, Job(captures or {}, settings, watch), store, jobs)
    records, _ = counted.records(store.messages)
    counted.complain(records)
    return records


def replay_to_file(
    paths: Sequence[Path],
    output: Path,
    *,
    captures: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    jobs: int | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> Records:
    """Like ``replay``, but write a records file while reading, so that memory does not grow with the messages.

    ``output`` must be a regular file or a new one; it is there when this returns or raises CaptureIncomplete, else
    untouched. The messages of the records stay in it, and are read when looked at.

    Raises:
        OutputError: ``output`` cannot be written. Else as ``replay``.
    """
    with records_place(output) as place, RecordsWriter(place.file, place.folder) as writer:
        counted = _Counted(paths, Job(captures or {}, settings, watch), writer, jobs)
        extents = writer.messages()
        kept = KeptFile.of(place.file, str(output))
        records, keys = counted.records(lambda key: kept.rows(extents[key]) if key in extents else ())
        writer.close(records, keys)
    counted.complain(records)
    return records


class _Counted:
    """All files counted; raises CaptureError where a file is of no use."""

    def __init__(self, paths: Sequence[Path], job: Job, store: _Store, jobs: int | None) -> None:
        self._paths = paths
        groups = chains_of(paths, job)
        self._chains = _run(paths, groups, job, store, jobs)
        if len(self._chains) > 1 and _share_a_port(self._chains):  # an interface that a file names late
            store.restart()
            groups = [list(range(len(paths)))]
            self._chains = _run(paths, groups, job, store, jobs)
        pairs = zip(groups, self._chains, strict=True)
        found = dict(pair for group, chain in pairs for pair in zip(group, chain.files, strict=True))
        self._files: list[FileFindings] = [found[number] for number in range(len(paths))]
        self._refuse()

    def _refuse(self) -> None:
        fatal = [file.fatal for file in self._files if file.fatal]
        if fatal:
            raise CaptureError(_lines(fatal), hint=next((file.hint for file in self._files if file.hint), ""))
        if not any(capture.packets for chain in self._chains for capture in chain.captures):
            raise CaptureError(
                _lines(self._warnings()) or "no capture file given",
                hint="was the mirror session up, and was the capture running on the right interface?",
            )

    def records(self, messages: Callable[[FlowId], Sequence[Message]]) -> tuple[Records, list[FlowId]]:
        """The records, and the keys of their flows in the store."""
        keyed = [
            (replace(flow, messages=messages((chain_number, flow_number))), (chain_number, flow_number))
            for chain_number, chain in enumerate(self._chains)
            for flow_number, flow in enumerate(chain.flows)
        ]
        keyed.sort(key=lambda each: _place(each[0]))
        drops = self._drops()
        records = Records(
            sources=tuple(legible(str(path)) for path in self._paths),
            warnings=tuple(map(legible, (*self._incomplete(), *self._warnings(), *self._merged_ports()))),
            captures=tuple(replace(port, dropped=drops.get(port.name)) for port in self._captures()),
            flows=tuple(flow for flow, _ in keyed),
        )
        return records, [key for _, key in keyed]

    def complain(self, records: Records) -> None:
        """Raise CaptureIncomplete where a file was used in part."""
        if self._incomplete():
            raise CaptureIncomplete(
                _lines(self._incomplete()),
                records,
                hint="the records hold what is whole; copy the file again",
            )

    def _captures(self) -> list[Capture]:
        return sorted((port for chain in self._chains for port in chain.captures), key=lambda port: port.name)

    def _incomplete(self) -> list[str]:
        return [file.incomplete for file in self._files if file.incomplete]

    def _warnings(self) -> list[str]:
        return [warning for file in self._files for warning in file.warnings]

    def _drops(self) -> dict[CapturePort, int | None]:
        """By port; None where any file of it does not say."""
        drops: dict[CapturePort, int | None] = {}
        for file in self._files:
            for interface in file.interfaces:
                before = drops.get(interface.capture, 0)
                unknown = before is None or interface.drops is None
                drops[interface.capture] = None if unknown else (before or 0) + (interface.drops or 0)
        return drops

    def _merged_ports(self) -> Iterator[str]:
        origins: dict[CapturePort, dict[str, None]] = {}
        for file in self._files:
            for interface in file.interfaces:
                origins.setdefault(interface.capture, {})[str(file.path)] = None
        for name, files in origins.items():
            if len(files) > 1:
                yield (
                    f"capture port {name} comes from {len(files)} files ({', '.join(files)}) and is counted as one: "
                    "if they were taken at different places, name them with --capture NAME=FILE"
                )


def _place(flow: Flow) -> tuple[str, str, str, int]:
    return flow.capture, flow.source, flow.destination, flow.dest_qp


def _share_a_port(chains: Iterable[Chain]) -> bool:
    names = [capture.name for chain in chains for capture in chain.captures]
    return len(names) != len(set(names))


def _run(
    paths: Sequence[Path], groups: Sequence[Sequence[int]], job: Job, store: _Store, jobs: int | None
) -> list[Chain]:
    """Read the chains, several at a time; in their order, whichever is ready first."""
    work = [([paths[number] for number in group], job, store.keeper()) for group in groups]
    threads = min(jobs or len(os.sched_getaffinity(0)), len(groups))
    if threads < 2:
        return [read_chain(*each) for each in work]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(read_chain, *each) for each in work]
        try:
            return [future.result() for future in futures]
        except BaseException:
            job.stop.set()
            for future in futures:
                future.cancel()
            raise


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(map(legible, texts))
