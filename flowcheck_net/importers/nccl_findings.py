"""What must be said with an imported job: what it rests on, and what it does not say."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.importers.nccl_communicators import Log, listed
from flowcheck_net.importers.nccl_groups import GroupFacts
from flowcheck_net.importers.nccl_records import NetDevices, QueuePair


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the job file rests on, or that it does not say."""

    name: str
    words: str


def log_findings(log: Log, groups: Sequence[GroupFacts]) -> tuple[Finding, ...]:
    """What the log itself gives cause to say."""
    found = [Finding(problem.path, problem.message) for group in groups for problem in group.problems]
    networks = sorted(
        {
            end.network
            for group in groups
            for ring in group.rings
            for hop in ring.hops
            for end in (hop.send, hop.receive)
            if end is not None
        }
    )
    foreign = [network for network in networks if network != "IB"]
    if foreign:
        named = listed(f"{network} ({_packets(network)})" for network in foreign)
        words = f"the network is {named}, not RoCEv2 RC: the plan's places hold, its packet counts and the audit do not"
        found.append(Finding("not-rocev2", words))
    elif _has_infiniband(log, groups):
        words = (
            "the NICs are InfiniBand, not RoCEv2: the plan's places hold for its switches only if they mirror RoCEv2"
        )
        found.append(Finding("not-rocev2", words))
    if log.unread:
        first = log.unread[0]
        words = f"{len(log.unread)} lines are none that NCCL {'.'.join(map(str, log.version))} writes: "
        words += f"the first is {first.source}:{first.number}"
        found.append(Finding("lines-unread", words))
    return tuple(found)


def _packets(network: str) -> str:
    """What is known of the packets of a network that is not NCCL's own IB transport."""
    if "libfabric" in network.lower():
        return "EFA sends SRD packets"
    return "TCP" if network == "Socket" else "a plug-in whose packets are not known"


def _has_infiniband(log: Log, groups: Sequence[GroupFacts]) -> bool:
    hosts = {host for group in groups for host in group.communicator.hosts}
    return any(
        one.line.process.host in hosts
        and (
            (isinstance(one.record, NetDevices) and "IB" in one.record.links)
            or (isinstance(one.record, QueuePair) and one.record.infiniband)
        )
        for one in log.everything
    )
