"""Juniper Junos over NETCONF, by ncclient. See docs/drivers/junos.md.

``management: netconf:HOST`` or ``netconf:HOST:PORT?login=env:SITE&jump=bastion``; host keys are checked as
those of ``ssh:``.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.netconf_session import NetconfSession
from flowcheck_net.drivers.netconf_shell import NetconfShell
from flowcheck_net.drivers.ssh_connect import Lost, Unreachable, connect_plain
from flowcheck_net.drivers.ssh_shell import LineRejected
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.intent import Capabilities, Step, SwitchAddress


def open_netconf(address: SwitchAddress, job: str, state_dir: Path) -> "NetconfDriver":
    """The driver of one switch, not connected yet."""
    del state_dir
    return NetconfDriver(address, job, limits_of(address))


class NetconfDriver(CliDriver):
    """One switch over one NETCONF session; reads, writes and confirms under one lock."""

    PORT: ClassVar[int] = 830

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        super().__init__(address, job, limits)
        self._session: NetconfSession | None = None
        self._requests: NetconfShell | None = None

    def hold(self) -> AbstractContextManager[None]:
        """The lock of the candidate."""
        self._live()
        return self._locked()

    def write(self, steps: Sequence[Step]) -> None:
        """See ``CliDriver.write``; nobody else can change the configuration between our reading and our commit."""
        refuse_foreign(self._switch, steps, self._job)
        self._live()
        held = self._requests is not None and self._requests.held
        with nullcontext() if held else self._locked():
            super().write(steps)

    def _dial(self, jump: Login) -> NetconfShell:
        if self._dialect.name != "junos":
            raise Unreachable(f"NETCONF is spoken with Junos only, and the platform's dialect is {self._dialect.name}")
        where = self._where
        client, through = connect_plain(where, self._login, jump)
        try:
            self._session = NetconfSession(client, through, where.host, where.timeout)
        except Exception as error:
            text = self._login.without_secrets(str(error) or repr(error))
            hint = "is `set system services netconf ssh` there?"
            raise Unreachable(f"{where}: no NETCONF session: {text}", hint) from error
        self._requests = NetconfShell(self._session.call, self._dialect.words, where.host)
        return self._requests

    def _getters(self) -> Any | None:  # noqa: ANN401 -- napalm is not typed
        return self._session.getters() if self._session is not None else None

    def _close(self) -> None:
        session, self._session, self._requests = self._session, None, None
        if session is not None:
            session.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        shell = self._requests
        if shell is None:
            raise ConnectError(self._switch, "not connected")
        try:
            shell.take()
        except LineRejected as error:
            text = self._login.without_secrets(error.answer)
            raise Rejected(self._switch, f"another one holds its configuration: {text}") from error
        except Lost as error:
            self._hang_up()
            raise ConnectError(self._switch, str(error)) from error
        try:
            yield
        finally:
            # Where the connection is gone, so is the lock.
            if self._requests is shell:
                with suppress(Lost, LineRejected):
                    shell.release()
