"""Queue pairs of ring hops, as far as the log says whose they are.

``NET/IB: ... qpn`` lines name the NIC and not the connection, and up to 2.29.2 only senders write them: a sender's own
number is the destination of acknowledgements, not of data. So a number is given to a hop only where its process has one
connection of that direction on that NIC.
"""

from collections import defaultdict
from collections.abc import Sequence

from flowcheck_net.importers.nccl_communicators import Log, Member
from flowcheck_net.importers.nccl_hops import NetworkEnd, RingHops
from flowcheck_net.importers.nccl_lines import Process
from flowcheck_net.importers.nccl_records import Connection, QueuePair

_Side = tuple[Process, int, str]
"""(process, NIC, direction)"""


class PairTable:
    """Queue pairs and connections by process, NIC and direction."""

    def __init__(self, log: Log) -> None:
        self._pairs: defaultdict[_Side, dict[int, None]] = defaultdict(dict)
        self._connections: defaultdict[_Side, set[Connection]] = defaultdict(set)
        self._by_proxy: set[str] = set()
        for one in log.everything:
            process, record = one.line.process, one.record
            if isinstance(record, QueuePair):
                self._pairs[process, record.device, "receive" if record.receiver else "send"][record.number] = None
            elif isinstance(record, Connection) and record.direction:
                self._connections[process, record.device, record.direction].add(record)
                if record.proxy >= 0:
                    self._by_proxy.add(process.host)

    def of_end(self, process: Process, end: NetworkEnd, direction: str) -> tuple[int, ...]:
        """The queue pairs of the one connection of this process, NIC and direction; empty where that is not certain."""
        side = (process, end.device, direction)
        if process.host in self._by_proxy or len(self._connections[side]) != 1:
            return ()
        return tuple(self._pairs[side])

    def of_ring(self, members: Sequence[Member], ring: RingHops, count: int) -> list[list[int]] | None:
        """The destination queue pairs of every hop; None where one is not certain."""
        found: list[list[int]] = []
        for hop in ring.hops:
            pairs = () if hop.receive is None else self.of_end(members[hop.target].process, hop.receive, "receive")
            if len(pairs) != count:
                return None
            found.append(list(pairs))
        return found
