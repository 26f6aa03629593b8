"""Switches with a command line, over SSH: one driver for all of them, with a dialect for each. See docs/drivers/ssh.md.

``management: ssh:HOST`` or ``ssh:HOST:PORT?login=env:SITE&jump=bastion``. The dialect is that of the switch's platform.
"""

from pathlib import Path

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_connect import Wire, connect
from flowcheck_net.drivers.ssh_shell import Shell
from flowcheck_net.intent import Capabilities, SwitchAddress


def open_ssh(address: SwitchAddress, job: str, state_dir: Path) -> "SshDriver":
    """The driver of one switch, not connected yet."""
    del state_dir
    return SshDriver(address, job, limits_of(address))


class SshDriver(CliDriver):
    """One switch over one SSH connection."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        super().__init__(address, job, limits)
        self._wire: Wire | None = None

    def _dial(self, jump: Login) -> Shell:
        self._wire = connect(self._where, self._login, jump, self._dialect.words.device_type)
        return Shell(self._wire, self._dialect.words, patience=self._where.timeout)

    def _close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
