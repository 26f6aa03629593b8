"""Where a bridge is: ``ovs:unix:PATH#BRIDGE``, ``ovs:tcp:HOST:PORT#BRIDGE`` or ``ovs:ssl:HOST:PORT#BRIDGE``."""

import re
from dataclasses import dataclass

_FORM = re.compile(
    r"ovs:(?:unix:(?P<path>/[^#]+)|(?P<kind>tcp|ssl):(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:#]+):(?P<port>[0-9]{1,5}))"
    r"#(?P<bridge>[A-Za-z0-9][A-Za-z0-9._-]*)"
)
FORMS = "ovs:unix:/run/openvswitch/db.sock#br0, ovs:tcp:HOST:6640#br0 or ovs:ssl:HOST:6640#br0"


@dataclass(frozen=True, slots=True)
class Remote:
    """A server, as Open vSwitch writes it."""

    kind: str
    """``unix``, ``tcp`` or ``ssl``."""
    host: str
    """A host, or the path of the socket."""
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix:{self.host}" if self.kind == "unix" else f"{self.kind}:{host}:{self.port}"


def parse_reference(management: str) -> tuple[Remote, str]:
    """The database server and the bridge that ``management`` names; raises ValueError with the forms that there are."""
    match = _FORM.fullmatch(management)
    if match is None or (match["port"] and not 0 < int(match["port"]) < 65536):
        raise ValueError(f"{management!r} does not name a bridge of an Open vSwitch, such as {FORMS}")
    if match["path"]:
        return Remote("unix", match["path"]), match["bridge"]
    return Remote(match["kind"], match["host"].strip("[]"), int(match["port"])), match["bridge"]
