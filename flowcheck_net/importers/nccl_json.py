"""The facts of NCCL logs as one JSON value."""

from collections.abc import Mapping, Sequence
from typing import Any

from flowcheck_net.importers.nccl_communicators import Communicator, Log, Member
from flowcheck_net.importers.nccl_groups import GroupFacts
from flowcheck_net.importers.nccl_hops import HopFact, NetworkEnd
from flowcheck_net.importers.nccl_nics import nic_tables
from flowcheck_net.importers.nccl_qps import PairTable
from flowcheck_net.importers.nccl_records import QueuePair, Tuning
from flowcheck_net.importers.nccl_wire import settings


def facts_json(log: Log, groups: Sequence[GroupFacts]) -> dict[str, Any]:
    """Everything that was read: all communicators in short, the chosen ones wholly."""
    chosen = [group.communicator for group in groups]
    pairs = PairTable(log)
    return {
        "nccl_version": ".".join(str(part) for part in log.version),
        "communicators": [_summary(one) for one in log.communicators],
        "groups": [_group(group, pairs) for group in groups],
        "nics": {
            host: [
                {
                    "number": number,
                    "names": sorted(table.names[number]),
                    "addresses": _addresses(table.addresses, number),
                }
                for number in sorted(table.names)
            ]
            for host, table in sorted(nic_tables(log).items())
        },
        "queue_pairs": [
            _pair(one.line.process.host, one.line.process.pid, one.record)
            for one in log.everything
            if isinstance(one.record, QueuePair)
        ],
        "tuning": [_tuning(one.record) for one in log.everything if isinstance(one.record, Tuning)],
        "settings": {name: sorted(values) for name, values in settings(log, chosen).items()},
        "unread_lines": [f"{line.source}:{line.number}" for line in log.unread],
    }


def _summary(one: Communicator) -> dict[str, Any]:
    return {"id": one.id, "ranks": one.size, "hosts": list(one.hosts), "missing_ranks": list(one.missing)}


def _group(group: GroupFacts, pairs: PairTable) -> dict[str, Any]:
    members = group.communicator.members
    return {
        "communicator": group.communicator.id,
        "ranks": [_member(member) for member in members],
        "rings": [
            {
                "channel": ring.ring.channel,
                "order": list(ring.ring.order),
                "source": ring.ring.source,
                "network_hops": [_hop(hop, members, pairs) for hop in ring.hops if hop.send is not None]
                if ring.hops
                else None,
            }
            for ring in group.rings
        ],
        "trees": [{"channel": tree.channel, "parents": list(tree.parents)} for tree in group.trees],
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "rank": member.rank,
        "host": member.process.host,
        "pid": member.process.pid,
        "cuda_device": member.cuda_device,
        "bus_id": member.bus_id,
    }


def _hop(hop: HopFact, members: Sequence[Member], pairs: PairTable) -> dict[str, Any]:
    return {
        "source": hop.source,
        "target": hop.target,
        "send": _end(hop.send, members[hop.source], "send", pairs),
        "receive": _end(hop.receive, members[hop.target], "receive", pairs),
    }


def _end(end: NetworkEnd | None, member: Member, direction: str, pairs: PairTable) -> dict[str, Any] | None:
    if end is None:
        return None
    return {
        "network": end.network,
        "nic": end.device,
        "proxy_rank": None if end.proxy < 0 else end.proxy,
        "gpu_direct": end.gpu_direct,
        "qpns": list(pairs.of_end(member.process, end, direction)),
    }


def _addresses(addresses: Mapping[int, frozenset[str]], number: int) -> list[str]:
    return sorted(addresses.get(number, ()))


def _pair(host: str, pid: int, pair: QueuePair) -> dict[str, Any]:
    return {
        "host": host,
        "pid": pid,
        "end": "receiver" if pair.receiver else "sender",
        "nic": pair.device,
        "qpn": pair.number,
        "mtu": pair.mtu or None,
        "address": pair.address or None,
    }


def _tuning(one: Tuning) -> dict[str, Any]:
    return {
        "function": one.function or None,
        "bytes": one.size,
        "algorithm": one.algorithm,
        "protocol": one.protocol,
        "channels": None if one.channels is None else list(one.channels),
    }
