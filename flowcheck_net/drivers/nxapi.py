"""Cisco NX-OS over NX-API (HTTPS), by napalm's connection and our own lines. See docs/drivers/nxos.md.

``management: nxapi:HOST`` or ``nxapi:HOST:PORT?login=env:SITE&ca=FILE``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from flowcheck_net.drivers.api_shell import ApiShell, doubt_of
from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_connect import Lost, Unreachable, knock, try_connecting
from flowcheck_net.drivers.ssh_shell import LineRejected
from flowcheck_net.intent import Capabilities, SwitchAddress

_SEPARATOR = " ; "
"""Between commands that stand on one line."""


def open_nxapi(address: SwitchAddress, job: str, state_dir: Path) -> "NxapiDriver":
    """The driver of one switch, not connected yet."""
    del state_dir
    return NxapiDriver(address, job, limits_of(address))


class NxapiDriver(CliDriver):
    """One switch; a request each time, which begins with ``configure terminal`` where it changes something."""

    PORT: ClassVar[int] = 443

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        super().__init__(address, job, limits)
        self._device: Any = None
        self._napalm: Any = None

    def _dial(self, jump: Login) -> ApiShell:
        del jump
        if self._dialect.name != "nxos":
            raise Unreachable(f"NX-API is Cisco's, and the platform's dialect is {self._dialect.name}")
        where = self._where
        if where.ca is not None and not where.ca.is_file():
            raise Unreachable(f"{where.ca}: No such file or directory")
        self._napalm = try_connecting(where, self._login_to)
        self._device = self._napalm.device
        return ApiShell(self._call, self._dialect.words, where.host)

    def _login_to(self) -> Any:  # noqa: ANN401 -- napalm is not typed
        from napalm.nxos import NXOSDriver

        where, login = self._where, self._login
        knock(where)
        # napalm does not check certificates unless it is told to.
        verify = str(where.ca) if where.ca else True
        options = {"transport": "https", "port": where.port, "ssl_verify": verify}
        host = f"[{where.host}]" if ":" in where.host else where.host
        driver = NXOSDriver(host, login.user, login.password, timeout=where.timeout, optional_args=options)
        try:
            driver.open()
        except Exception as error:
            # napalm's own words name the host alone; why it is so stands behind them.
            text = login.without_secrets(str(error.__context__ or error) or repr(error))
            raise Unreachable(f"{where}: {text}", doubt_of(text, where.login)) from error
        return driver

    def _getters(self) -> Any | None:  # noqa: ANN401 -- napalm is not typed
        return self._napalm

    def _close(self) -> None:
        self._device = self._napalm = None

    def _call(self, commands: Sequence[str]) -> list[str]:
        from napalm.nxapi_plumbing.errors import NXAPICommandError

        if self._device is None:
            raise Lost("not connected")
        # A request is carried out wholly once it is there: what stood on one line is not parted by this.
        single = [part for command in commands for part in command.split(_SEPARATOR)]
        try:
            answers = self._device.show_list(single, raw_text=True)
        except NXAPICommandError as error:
            raise LineRejected(error.command, " ".join(str(error.message).split())) from error
        except Exception as error:
            raise Lost(str(error) or repr(error)) from error
        if len(answers) != len(single):
            raise Lost(f"{len(answers)} answers to {len(single)} commands")
        return [str(answer["result"] or "").strip("\n") for answer in answers]
