"""What switches of the doubles say of their cables and of themselves: over SSH as text, over APIs in their code.

Layouts as the vendors print them (ntc-templates' recorded outputs, napalm's mocked data); the content is ours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.doubles.eapi_server import EapiServer
from tests.doubles.eos_box import EosBox, EosSession
from tests.doubles.junos_box import JunosSession
from tests.doubles.netconf_box import NetconfBox
from tests.doubles.nxapi_server import NxapiServer
from tests.doubles.nxos_box import NxosBox
from tests.doubles.ssh_box import Planned, Platform, Session


def hearing(platform: Platform, answers: Mapping[str, str]) -> None:
    """Let every login of the box answer these commands so."""
    born = platform.login

    def login() -> Session:
        session = born()
        do = session.do
        session.do = lambda line: answers[line] if line in answers else do(line)  # type: ignore[method-assign]
        return session

    platform.login = login  # type: ignore[method-assign]


def eos_neighbor(port: str, far: str, far_port: str, chassis: str) -> str:
    """One block of ``show lldp neighbors detail`` of EOS."""
    return (
        f"Interface {port} detected 1 LLDP neighbors:\n\n"
        f'  Neighbor {chassis}/"{far_port}", age 5 seconds\n  Discovered 0:01:11 ago; Last changed 0:01:11 ago\n'
        f"  - Chassis ID type: MAC address (4)\n    Chassis ID     : {chassis}\n"
        f'  - Port ID type: Interface name (5)\n    Port ID     : "{far_port}"\n  - Time To Live: 120 seconds\n'
        f'  - System Name: "{far}"\n  - System Description: "a switch"\n  - System Capabilities : Bridge, Router\n'
        "    Enabled Capabilities: Bridge, Router\n"
    )


def nxos_neighbor(port: str, far: str, far_port: str, chassis: str) -> str:
    """One block of ``show lldp neighbors detail`` of NX-OS."""
    return (
        f"Chassis id: {chassis}\nPort id: {far_port}\nLocal Port id: {port}\nPort Description: {far_port}\n"
        f"System Name: {far}\nSystem Description: a switch\nTime remaining: 91 seconds\nSystem Capabilities: B, R\n"
        "Enabled Capabilities: B, R\nManagement Address: 192.0.2.1\nVlan ID: 1\n"
    )


JUNOS_HEAD = "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n"


def junos_neighbor(port: str, far: str, far_port: str, chassis: str) -> str:
    """One row of ``show lldp neighbors`` of Junos."""
    return f"{port:<19}{'-':<20}{chassis:<20}{far_port:<19}{far}\n"


class SpeakingEapi(EapiServer):
    """An Arista switch whose shows have their JSON form too."""

    def __init__(self, platform: EosBox, directory: Path, shown: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        super().__init__(platform, directory)
        self.shown, self.texts = shown, texts

    def run(self, commands: list[Any], form: str) -> dict[str, Any]:
        """See ``EapiServer``."""
        done = super().run(commands, form)
        names = [c["cmd"] if isinstance(c, dict) else str(c) for c in commands]
        for place, name in enumerate(" ".join(name.split()) for name in names):
            if form == "json" and name in self.shown:
                done["result"][place] = self.shown[name]
            elif form == "text" and name in self.texts:
                done["result"][place] = {"output": self.texts[name]}
        return done

    def _one(self, session: EosSession, command: object, name: str) -> str:
        name = " ".join(name.split())
        if name in self.texts or name in self.shown:
            return self.texts.get(name, "")
        return super()._one(session, command, name)


class SpeakingNxapi(NxapiServer):
    """A Nexus switch whose shows have their JSON form (method ``cli``) and their text (``cli_ascii``)."""

    def __init__(self, platform: NxosBox, directory: Path, shown: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        super().__init__(platform, directory)
        self.shown, self.texts = shown, texts

    def _one(self, command: str, method: str, fault: Planned | None) -> dict[str, Any]:
        if method == "cli" and command in self.shown:
            return {"result": {"body": self.shown[command]}}
        if command in self.texts:
            return {"result": {"msg": self.texts[command]}}
        return super()._one(command, method, fault)


class SpeakingNetconf(NetconfBox):
    """A Junos switch that answers the requests of PyEZ's tables."""

    replies: Mapping[str, str] = {}
    """Tag of the request, for one port ``TAG PORT`` -> content of the reply."""
    texts: Mapping[str, str] = {}

    def _one(self, session: JunosSession, line: str, request: ElementTree.Element, process: object) -> str:
        tag = request.tag.rpartition("}")[2]
        port = next((part.text or "" for part in request if "interface-" in part.tag), "")
        key = f"{tag} {port}".strip()
        return self.replies[key] if key in self.replies else super()._one(session, line, request, process)

    def _do(self, session: JunosSession, line: str, fault: Planned | None) -> str:
        return self.texts[line] if line in self.texts else super()._do(session, line, fault)
