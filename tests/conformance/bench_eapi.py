"""Arista EOS over eAPI for the conformance suite: the same box as over SSH, behind an HTTPS server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from flowcheck_net.drivers.eapi import EapiDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import Environment, EosBench
from tests.doubles.eapi_server import EapiServer


class EapiBench(EosBench):
    """Arista EOS, by requests."""

    driver_class: type = EapiDriver

    def open(self, job: str = JOB) -> Any:
        """See ``Bench.open``."""
        return open_driver(self.address(), job, Path("/nonexistent"))

    def address(self) -> SwitchAddress:
        """Where the server is."""
        server = cast(EapiServer, self.box)
        reference = f"eapi:127.0.0.1:{server.port}?ca={server.ca}&retries=0&timeout=20"
        return SwitchAddress(SwitchName("leaf1"), self.PLATFORM, reference)


@contextmanager
def real_client(directory: Path) -> Iterator[EapiBench]:
    """napalm and pyeapi as they are, against the server."""
    environment = Environment()
    with EapiServer(EapiBench.platform(), directory) as server:
        try:
            yield EapiBench(cast(Any, server), environment)
        finally:
            environment.restore()
