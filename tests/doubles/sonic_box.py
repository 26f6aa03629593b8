"""A SONiC switch behind a real SSH server: single commands, and a terminal that nobody types at."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from tests.doubles.sonic_switch import Answer, SonicSwitch
from tests.doubles.ssh_box import Platform, Session, SshBox

if TYPE_CHECKING:
    Process = asyncssh.SSHServerProcess[str]


class _Bash(Session):
    paging = False

    def prompt(self) -> str:
        return "admin@sonic:~$ "

    def do(self, line: str) -> str:
        return f"bash: {line}: command not found"


class _Linux(Platform):
    def login(self) -> Session:
        return _Bash()


class SonicBox(SshBox):
    """The server; ``before`` and ``after`` see every command and may say that the connection dies."""

    def __init__(self, switch: SonicSwitch, directory: Path) -> None:
        super().__init__(_Linux(), directory)
        self.switch = switch
        self.before: Callable[[str], bool] = lambda _: False
        self.after: Callable[[str], bool] = lambda _: False

    async def _serve(self, process: "Process") -> None:
        if process.command is None:
            await super()._serve(process)
            return
        try:
            stdin = await process.stdin.read()
            if self.before(process.command):
                process.channel.get_connection().abort()
                return
            code, output, complaint = await asyncio.to_thread(self._run, process.command, stdin)
            if self.after(process.command):
                process.channel.get_connection().abort()
                return
            process.stdout.write(output)
            process.stderr.write(complaint)
            process.exit(code)
        except (asyncssh.Error, OSError, EOFError):  # the other end is gone
            pass
        except Exception as error:  # noqa: BLE001 -- a fault of the double, not of the driver
            self.broken = error
            process.exit(70)

    def _run(self, command: str, stdin: str) -> Answer:
        with self.lock:
            return self.switch.command(command, stdin)
