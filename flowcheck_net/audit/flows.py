"""What each flow of the records is, so that no packet goes without a name."""

from flowcheck_net.audit.place import Placement
from flowcheck_net.audit.ranges import size
from flowcheck_net.audit.result import FlowResult, hop_label
from flowcheck_net.audit.survey import Survey, broadcast_sizes
from flowcheck_net.model.expect import Expectation
from flowcheck_net.receive.records import Records


def flow_results(records: Records, sighted: Survey, expectation: Expectation) -> tuple[FlowResult, ...]:
    """One result a flow, in the order of the records."""
    declared = broadcast_sizes(expectation)
    homes: dict[int, tuple[str, Placement]] = {}
    for assigned in sighted.assigned:
        name = hop_label(assigned.slot.hop)
        homes.update({id(track.flow): (name, placement) for track, placement in assigned.flows})
    results = []
    for flow, use in zip(records.flows, sighted.uses, strict=True):
        name, placement = homes.get(id(flow), ("", None))
        others = placement.others if placement else ()
        repeated = sum(extra for _, extra in flow.repeats)
        broadcasts = sum(m.bytes in declared for m in others)
        results.append(
            FlowResult(
                capture=flow.capture,
                source=flow.source,
                destination=flow.destination,
                dest_qp=flow.dest_qp,
                use=use,
                hop=name,
                packets=sum(flow.packets.values()),
                raw=size(flow.seen) + repeated,
                unique=size(flow.seen),
                repeated=repeated,
                retransmitted=flow.retransmitted,
                broadcasts=broadcasts,
                unrecognised=len(others) - broadcasts,
            )
        )
    return tuple(results)
