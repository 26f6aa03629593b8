"""NX-API of a Nexus switch: JSON-RPC over HTTPS in front of an NX-OS box, for napalm's client as it is.

As Cisco's programmability guide tells: a request is a list of calls, which ends at the first that fails, with status
500 then; sessions are kept between requests, so that one may begin in the mode where the last one ended.
"""

from pathlib import Path
from typing import Any

from tests.doubles.https_server import HttpsServer
from tests.doubles.nxos_box import NxosBox, NxosSession
from tests.doubles.ssh_box import Fault, Planned


class NxapiServer(HttpsServer):
    """The server of one box."""

    def __init__(self, platform: NxosBox, directory: Path) -> None:
        super().__init__(directory)
        self.platform = platform
        self._session = NxosSession(platform)

    def respond(self, body: Any) -> tuple[int, Any]:
        """See ``HttpsServer``."""
        calls = body if isinstance(body, list) else [body]
        self.requests.append([call["params"]["cmd"] for call in calls])
        struck = {c: f for c in self.requests[-1] if (f := next((f for f in self.faults if f.strikes(c)), None))}
        if any(fault.kind is Fault.DIE_BEFORE for fault in struck.values()):
            # The request never comes, or not wholly: none of its commands is carried out.
            raise ConnectionAbortedError
        answers: list[dict[str, Any]] = []
        for call in calls:
            command = call["params"]["cmd"]
            answer = self._one(command, call["method"], struck.get(command))
            answers.append({"jsonrpc": "2.0", **answer, "id": call["id"]})
            if "error" in answer:
                break
        if any(fault.kind is Fault.DIE_AFTER for fault in struck.values()):
            raise ConnectionAbortedError
        return 500 if "error" in answers[-1] else 200, answers if answers[1:] else answers[0]

    def _one(self, command: str, method: str, fault: Planned | None) -> dict[str, Any]:
        if command == "show hostname":
            return {"result": {"body": {"hostname": self.platform.name}} if method == "cli" else {"msg": "leaf1\n"}}
        if fault and fault.kind is Fault.REJECT:
            return _said(fault.text or self.platform.rejection)
        session = self._session
        if command == "configure terminal":
            session.mode = "config"
            return {"result": None}
        mode = session.mode
        if command.startswith("show "):
            # NX-OS shows from any mode.
            session.mode = ""
        output = session.do(command)
        if command.startswith("show "):
            session.mode = mode
        return _said(output)


def _said(text: str) -> dict[str, Any]:
    """What a command says of its own accord, an error too, is no failure of the call; a bad command is one."""
    if text.lstrip().startswith(("%", "^")):
        return {"error": {"code": -32602, "message": "Invalid params", "data": {"msg": f"{text}\n"}}}
    return {"result": {"msg": f"{text}\n"} if text else None}
