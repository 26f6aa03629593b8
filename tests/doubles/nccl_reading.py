"""Short words for tests of the NCCL importers: a small job, its log, and what the importer makes of it."""

import dataclasses

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.nccl_communicators import Log, gather
from flowcheck_net.importers.nccl_groups import choose, group_facts
from flowcheck_net.importers.nccl_job import job_document
from flowcheck_net.importers.nccl_lines import parse_lines
from flowcheck_net.importers.nccl_nics import NameChoice
from flowcheck_net.importers.nccl_wire import BucketChoice, WireChoice
from tests.doubles.nccl_log import FakeJob, by_host

HOSTS = ("node-a", "node-b", "node-c")
CHOICE = WireChoice("ring", "LL", buckets=(BucketChoice(1000000, "fp32"),), iteration_time=0.5)


def job(**changes) -> FakeJob:
    made = FakeJob(hosts=HOSTS, gpus=2, rings=by_host(3, 2, 2), nic=lambda local, channel, way: local)
    return dataclasses.replace(made, **changes)


def log_of(*texts: str) -> Log:
    return gather(parse_lines("\n".join(texts).splitlines(), "nccl.log"), ["nccl.log"])


def document(log: Log, choice: WireChoice = CHOICE, names: NameChoice | None = None, ids=(), size=None):
    groups = group_facts(log, choose(log, ids, size))
    return job_document(log, groups, "job", names or NameChoice(), choice)


def refusal(log: Log, **more) -> str:
    with pytest.raises(SpecError) as error:
        document(log, **more)
    return error.value.message


def without(text: str, *needles: str) -> str:
    return "\n".join(line for line in text.splitlines() if not any(needle in line for needle in needles))
