"""The drivers under test. A driver joins by a line in ``BENCHES``; see ``bench.py``."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.conformance import (
    bed_ovs,
    bed_ssh,
    bench_eapi,
    bench_fake,
    bench_netconf,
    bench_numbered,
    bench_nxapi,
    bench_ovs,
    bench_p4runtime,
    bench_sonic,
    bench_ssh,
    bench_tc,
)
from tests.conformance.bench import Bench, Cannot
from tests.conformance.crash import Bed

Made = TypeVar("Made")

BENCHES: dict[str, Callable[[Path], AbstractContextManager[Bench]]] = {
    "fake-memory": bench_fake.in_memory,
    "fake-file": bench_fake.in_file,
    "ovs": bench_ovs.real,
    "p4runtime-bmv2": bench_p4runtime.as_bmv2,
    "p4runtime-stratum": bench_p4runtime.as_stratum,
    **bench_numbered.NUMBERED,
    "eos-ssh": bench_ssh.eos,
    "eos-eapi": bench_eapi.real_client,
    "junos-netconf": bench_netconf.real_client,
    "junos-ssh": bench_ssh.junos,
    "nxos-nxapi": bench_nxapi.real_client,
    "nxos-ssh": bench_ssh.nxos,
    "real-bmv2": bench_p4runtime.real,
    "sonic": bench_sonic.double,
    "tc": bench_tc.real,
}

BEDS: dict[str, Callable[[Path], AbstractContextManager[Bed]]] = {
    "fake-file": bench_fake.bed_in_files,
    "ovs": bed_ovs.real,
    "eos-ssh": bed_ssh.eos,
    "nxos-ssh": bed_ssh.nxos,
}
"""For the crash test, see ``crash.py``."""


@pytest.fixture(params=sorted(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A fresh switch of each kind; a kind that cannot be set up here raises Cannot, and its tests are skipped."""
    with _ready(BENCHES[request.param](tmp_path)) as made:
        yield made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where that can be had: a killed process loses nothing there, and syncing hundreds of files is free."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(params=sorted(BEDS))
def bed(request: pytest.FixtureRequest, scratch: Path) -> Iterator[Bed]:
    """Four fresh switches of each kind that can outlive a killed process."""
    with _ready(BEDS[request.param](scratch / "bed")) as made:
        yield made


@contextmanager
def _ready(setting_up: AbstractContextManager[Made]) -> Iterator[Made]:
    try:
        made = setting_up.__enter__()
    except Cannot as why:
        pytest.skip(str(why))
    try:
        yield made
    finally:
        setting_up.__exit__(None, None, None)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A case that the bench cannot play is skipped with the bench's reason."""
    del pyfuncitem
    try:
        return (yield)
    except Cannot as why:
        pytest.skip(str(why))


def pytest_sessionfinish() -> None:
    """Switches that are set up once for all tests end here."""
    bench_ovs.close()
    bench_p4runtime.close()
    bench_sonic.close()
    bench_tc.close()
    bed_ovs.close()
