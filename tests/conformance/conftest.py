"""The drivers under test. A driver joins by a line in ``BENCHES``; see ``bench.py``."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conformance import bench_fake, bench_ovs
from tests.conformance.bench import Bench, Cannot

BENCHES: dict[str, Callable[[Path], AbstractContextManager[Bench]]] = {
    "fake-memory": bench_fake.in_memory,
    "fake-file": bench_fake.in_file,
    "ovs": bench_ovs.real,
}


@pytest.fixture(params=sorted(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A fresh switch of each kind; a kind that cannot be set up here raises Cannot, and its tests are skipped."""
    try:
        ready = BENCHES[request.param](tmp_path)
        made = ready.__enter__()
    except Cannot as why:
        pytest.skip(str(why))
    try:
        yield made
    finally:
        ready.__exit__(None, None, None)


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
