"""eAPI of an Arista switch: JSON-RPC over HTTPS in front of an EOS box, for pyeapi as it is."""

from pathlib import Path
from typing import Any

from tests.doubles.eos_box import EosBox, EosSession
from tests.doubles.https_server import HttpsServer
from tests.doubles.ssh_box import ENABLE, Fault


class EapiServer(HttpsServer):
    """The server of one box."""

    def __init__(self, platform: EosBox, directory: Path) -> None:
        super().__init__(directory)
        self.platform = platform

    def respond(self, body: Any) -> tuple[int, Any]:
        """See ``HttpsServer``."""
        answer = self.run(body["params"]["cmds"], body["params"]["format"])
        return 200, {"jsonrpc": "2.0", "id": body["id"], **answer}

    def run(self, commands: list[Any], form: str) -> dict[str, Any]:
        """One request, to the first command that fails; raises ConnectionAbortedError to hang up."""
        session = EosSession(self.platform)
        results: list[dict[str, Any]] = []
        session.mode = "#"
        names = [c["cmd"] if isinstance(c, dict) else str(c) for c in commands]
        self.requests.append(names)
        for place, (command, name) in enumerate(zip(commands, names, strict=True), 1):
            output = self._one(session, command, name)
            if output.startswith("%"):
                text = f"CLI command {place} of {len(commands)} '{name}' failed: invalid command"
                data = [*results, {"errors": [output.removeprefix("% ")]}]
                return {"error": {"code": 1002, "message": text, "data": data}}
            shown = (
                {"version": "4.30.1F", "modelName": "DCS-7060"} if name == "show version" else {"output": f"{output}\n"}
            )
            results.append(shown if form == "text" or name == "show version" else {})
        return {"result": results}

    def _one(self, session: EosSession, command: object, name: str) -> str:
        if name == "enable":
            given = command.get("input", "") if isinstance(command, dict) else ""
            return "" if given in ("", ENABLE) else "% Bad secrets"
        if name == "show version":
            return ""
        fault = next((f for f in self.faults if f.strikes(name)), None)
        if fault and fault.kind is Fault.DIE_BEFORE:
            raise ConnectionAbortedError
        if fault and fault.kind is Fault.REJECT:
            return fault.text or "% Invalid input"
        output = session.do(name)
        if fault and fault.kind is Fault.DIE_AFTER:
            raise ConnectionAbortedError
        return output
