"""Arista EOS over eAPI (HTTPS), by napalm's connection and our own configuration session. See docs/drivers/eos.md.

``management: eapi:HOST`` or ``eapi:HOST:PORT?login=env:SITE&ca=FILE``.
"""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from flowcheck_net.drivers.api_shell import ApiShell, doubt_of
from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_connect import Lost, Unreachable, knock, try_connecting
from flowcheck_net.drivers.ssh_shell import LineRejected
from flowcheck_net.intent import Capabilities, SwitchAddress


def open_eapi(address: SwitchAddress, job: str, state_dir: Path) -> "EapiDriver":
    """The driver of one switch, not connected yet."""
    del state_dir
    return EapiDriver(address, job, limits_of(address))


class EapiDriver(CliDriver):
    """One switch; a request each time."""

    PORT: ClassVar[int] = 443

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        super().__init__(address, job, limits)
        self._device: Any = None

    def _dial(self, jump: Login) -> ApiShell:
        del jump
        if self._dialect.name != "eos":
            raise Unreachable(f"eAPI is Arista's, and the platform's dialect is {self._dialect.name}")
        where = self._where
        try:
            context = ssl.create_default_context(cafile=str(where.ca) if where.ca else None)
        except OSError as error:
            raise Unreachable(f"{where.ca}: {error.strerror or error}") from error
        self._device = try_connecting(where, lambda: self._login_to(context))
        return ApiShell(self._call, self._dialect.words, where.host)

    def _login_to(self, context: ssl.SSLContext) -> object:
        from napalm.eos import EOSDriver

        where, login = self._where, self._login
        knock(where)
        options = {"transport": "https", "port": where.port, "context": context, "enable_password": login.enable}
        device = EOSDriver(where.host, login.user, login.password, timeout=where.timeout, optional_args=options)
        try:
            device.open()
        except Exception as error:
            text = login.without_secrets(str(error) or repr(error))
            raise Unreachable(f"{where}: {text}", doubt_of(text, where.login)) from error
        return device

    def _call(self, commands: Sequence[str]) -> list[str]:
        from pyeapi.eapilib import CommandError

        if self._device is None:
            raise Lost("not connected")
        try:
            # pyeapi's run_commands puts `enable` before them, and takes its answer away again.
            answers = self._device.device.run_commands(list(commands), encoding="text")
        except CommandError as error:
            raise LineRejected(commands[-1], " ".join(str(error).split())) from error
        except Exception as error:
            raise Lost(str(error) or repr(error)) from error
        return [str(answer["output"]).rstrip("\n") for answer in answers]

    def _getters(self) -> Any | None:  # noqa: ANN401 -- napalm is not typed
        return self._device

    def _close(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            with suppress(Exception):
                device.close()
