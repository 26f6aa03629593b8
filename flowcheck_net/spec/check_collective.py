"""What the algorithm asks of the rest of the job file."""

from collections.abc import Iterator

from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.yamlpos import Fault

TREES = ("tree", "nvlstree")
_FIRST_NVLSTREE = (2, 18, 0)


def check_collective(job: JobSpec) -> Iterator[Fault]:
    """The parts of a job file that belong to one algorithm only."""
    algorithm = job.collective.algorithm
    if job.collective.extra_step and algorithm != "ring":
        yield Fault(("collective", "extra_step"), f"the extra step is one of the ring, not of {algorithm}")
    if algorithm == "nvlstree":
        yield from _nvlstree(job)
    if algorithm in TREES and job.broadcasts:
        words = f"broadcasts go over rings, which share no connection with {algorithm}"
        yield Fault(("broadcasts",), words, "leave them out", at_key=True)
    for key, given, wanted in (
        ("rings", job.rings, "ring"),
        ("trees", job.trees, "tree"),
        ("nvls_heads", job.nvls_heads, "nvlstree"),
    ):
        if given and algorithm != wanted:
            words = f"belongs to algorithm {wanted} (found {algorithm})"
            yield Fault((key,), words, "leave it out, or correct the algorithm", at_key=True)


def _nvlstree(job: JobSpec) -> Iterator[Fault]:
    if job.nccl.protocol != "Simple":
        yield Fault(("nccl", "protocol"), f"NVLSTree knows Simple only (found {job.nccl.protocol})")
    if job.nccl.version_tuple < _FIRST_NVLSTREE:
        yield Fault(("nccl", "version"), f"NCCL {job.nccl.version} has no NVLSTree", "it came with 2.18")
