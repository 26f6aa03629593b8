"""Juniper Junos over NETCONF for the conformance suite: the same box as over the command line, behind a subsystem."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck_net.drivers.netconf import NetconfDriver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from flowcheck_net.model.platforms import capabilities
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import Environment, JunosBench
from tests.doubles.netconf_box import NetconfBox


class NetconfBench(JunosBench):
    """Juniper Junos, by requests."""

    driver_class: type = NetconfDriver
    lock = True

    def open(self, job: str = JOB) -> Any:
        """See ``JunosBench.open``."""
        return NetconfDriver(self.address(), job, replace(capabilities(self.PLATFORM), session_limits=()))

    def address(self) -> SwitchAddress:
        """Where the box is."""
        reference = f"netconf:127.0.0.1:{self.box.port}?known_hosts={self.box.known_hosts}&retries=0&timeout=20"
        return SwitchAddress(SwitchName("leaf1"), self.PLATFORM, reference)


@contextmanager
def real_client(directory: Path) -> Iterator[NetconfBench]:
    """ncclient as it is, but for the time that its thread sleeps between two looks (0.1 s a request)."""
    from ncclient.transport import session

    environment, tick = Environment(), session.TICK
    session.TICK = 0.002
    with NetconfBox(NetconfBench.platform(), directory) as box:
        try:
            yield NetconfBench(box, environment)
        finally:
            session.TICK = tick
            environment.restore()
