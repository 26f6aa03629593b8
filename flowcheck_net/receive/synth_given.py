"""Synthesized captures that carry the gradients of a real trainer: reduced bytes from files, all else made up."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from flowcheck_net.errors import OutputError
from flowcheck_net.model.job import Job
from flowcheck_net.receive.gradient import iteration_directory
from flowcheck_net.receive.synth_payload import Gradients


class GivenGradients(Gradients):
    """Reduced bytes of ``DIR/iteration-000012/GROUP.gradient``: a group's buckets one behind another.

    Partial sums, which no checkpoint uses, follow from the seed.
    """

    def __init__(self, seed: int, directory: Path, job: Job) -> None:
        super().__init__(seed)
        self._directory = directory
        self._places = _places(job)
        self._file = lru_cache(maxsize=2 * max(1, len(self._places)))(self._read_file)

    def require(self, iterations: int) -> None:
        """Raises OutputError unless the files of all iterations are there and have the size of the job's buckets."""
        for iteration in range(iterations):
            for group, places in self._places.items():
                path = self._path(iteration, group)
                size = max(stop for _, stop in places.values())
                if not path.is_file() or path.stat().st_size != size:
                    hint = "write each group's buckets one behind another, in the order of job.yaml"
                    raise OutputError(f"{path} is not a file of {size:,} bytes", hint=hint)

    def read(self, key: str, element: int, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop`` (without) of ``iteration/group/bucketN/state``."""
        iteration, lane, bucket, state = key.split("/")
        if state != "sum":
            return super().read(key, element, start, stop)
        group = lane.partition(".head")[0]
        begin, end = self._places[group][bucket]
        data = self._file(int(iteration), group)
        return data[begin + start : min(begin + stop, end)] + bytes(max(0, begin + stop - end))

    def _read_file(self, iteration: int, group: str) -> bytes:
        return self._path(iteration, group).read_bytes()

    def _path(self, iteration: int, group: str) -> Path:
        return iteration_directory(self._directory, iteration, complete=True) / f"{group}.gradient"


def _places(job: Job) -> dict[str, Mapping[str, tuple[int, int]]]:
    """Group -> ``bucketN`` -> first byte and end in the group's file."""
    kinds: dict[str, set[str]] = {}
    for lane in job.lanes:
        kinds.setdefault(lane.group.partition(".head")[0], set()).update(lane.carries)
    found: dict[str, Mapping[str, tuple[int, int]]] = {}
    for group, carried in kinds.items():
        offset = 0
        places = {}
        for number, bucket in enumerate(job.wire.buckets):
            if bucket.kind in carried:
                places[f"bucket{number}"] = (offset, offset + bucket.size)
                offset += bucket.size
        found[group] = places
    return found
