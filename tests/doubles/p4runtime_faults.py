"""What goes wrong at which batch of updates: for the test server, and for the relay before a real one."""

from dataclasses import dataclass, field

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

_KINDS = {"fc.sessions": "description", "fc.ingress_acl": "rule", "fc.egress_acl": "rule"}


@dataclass(slots=True)
class Fault:
    """What goes wrong at the ``number``-th batch (from 0) that has an update of that kind, once."""

    kind: str
    """``refuse`` (that update), ``lost before`` and ``lost after`` the batch, ``take over`` before it, ``stall``."""
    on: str
    """``description``, ``clone``, ``rule``, ``counter``."""
    number: int = 0


@dataclass(slots=True)
class Script:
    """The fault to come."""

    fault: Fault | None = None
    names: dict[int, str] = field(default_factory=dict)
    """Table id -> name."""

    def know(self, info: p4info_pb2.P4Info) -> None:
        """The tables of the pipeline that runs."""
        self.names = {t.preamble.id: t.preamble.name for t in info.tables}

    def strike(self, request: p4runtime_pb2.WriteRequest) -> tuple[str, int]:
        """What this batch brings about, which is over then, and which update it is about; empty: nothing."""
        fault = self.fault
        if fault is None:
            return "", -1
        place = next((i for i, update in enumerate(request.updates) if self._kind(update) == fault.on), -1)
        if place < 0:
            return "", -1
        if fault.number:
            fault.number -= 1
            return "", -1
        self.fault = None
        return fault.kind, place

    def _kind(self, update: p4runtime_pb2.Update) -> str:
        entity = update.entity
        if entity.HasField("table_entry"):
            name = self.names.get(entity.table_entry.table_id, "")
            return _KINDS.get(name, name)
        return "counter" if entity.HasField("counter_entry") else "clone"
