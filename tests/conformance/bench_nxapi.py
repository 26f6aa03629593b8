"""Cisco NX-OS over NX-API for the conformance suite: the same box as over SSH, behind an HTTPS server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from flowcheck_net.drivers.nxapi import NxapiDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import Environment, NxosBench
from tests.doubles.nxapi_server import NxapiServer


class NxapiBench(NxosBench):
    """Cisco NX-OS, by requests; the commands of one line come one by one."""

    FIRST_LINE = r"^description|^shut$"
    driver_class: type = NxapiDriver

    def open(self, job: str = JOB) -> Any:
        """See ``Bench.open``."""
        return open_driver(self.address(), job, Path("/nonexistent"))

    def address(self) -> SwitchAddress:
        """Where the server is."""
        server = cast(NxapiServer, self.box)
        reference = f"nxapi:127.0.0.1:{server.port}?ca={server.ca}&retries=0&timeout=20"
        return SwitchAddress(SwitchName("leaf1"), self.PLATFORM, reference)


@contextmanager
def real_client(directory: Path) -> Iterator[NxapiBench]:
    """napalm's client as it is, against the server."""
    environment = Environment()
    with NxapiServer(NxapiBench.platform(), directory) as server:
        try:
            yield NxapiBench(cast(Any, server), environment)
        finally:
            environment.restore()
