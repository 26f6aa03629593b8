"""What every hop of a job carries, ring or tree: one door for the planner, the synthesiser and the audit."""

from functools import lru_cache

from flowcheck_net.model.collectives.tree import subtree_sizes
from flowcheck_net.model.job import Lane, Ring, Tree, Wire
from flowcheck_net.model.wire import WireMessage, hop_messages
from flowcheck_net.model.wire_tree import TreeShape, edge_messages


def lane_messages(wire: Wire, lane: Lane, index: int) -> tuple[WireMessage, ...]:
    """The messages of one iteration on hop ``index`` of a lane, in the order of sending."""
    if isinstance(lane, Ring):
        return hop_messages(wire, lane.size, lane.channel, index, lane.carries)
    shape = TreeShape(lane.members, lane.hosts, lane.head, lane.heads)
    contributions = lane.size if lane.is_down(index) else _below(lane)[lane.edges[index // 2].child]
    return edge_messages(wire, shape, lane.channel, contributions, lane.carries)


def gives_copy(lane: Lane, index: int) -> bool:
    """Does hop ``index`` help to see fully reduced data? Every hop of a ring does, of a tree those that lead down."""
    return isinstance(lane, Ring) or lane.is_down(index)


@lru_cache(maxsize=1024)
def _below(tree: Tree) -> dict[int, int]:
    return dict(subtree_sizes([(edge.parent, edge.child) for edge in tree.edges]))
