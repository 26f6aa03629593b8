"""NCCL's graph XML (``NCCL_GRAPH_DUMP_FILE``): the order of one host's GPUs on each channel, and the NICs at its ends.

The file is one host's: where a ring goes from there only the ``Ring`` lines of the logs say.
"""

from dataclasses import dataclass

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_xml import Element

_GRAPHS = {0: "ring", 1: "tree", 2: "collnet chain", 3: "nvls", 4: "collnet direct"}
"""Graph ids (``src/graph/search.cc``, ``src/init.cc``)."""
_PATTERNS = {1: "balanced tree", 2: "split tree", 3: "tree", 4: "ring", 5: "nvls", 6: "collnet direct"}


@dataclass(frozen=True, slots=True)
class GraphChannel:
    """One channel of one graph."""

    gpus: tuple[int, ...]
    """``dev`` of the GPUs in order."""
    receive_nic: int | None
    """``dev`` of the NIC through which the channel enters the host; None where it stays inside."""
    send_nic: int | None


@dataclass(frozen=True, slots=True)
class Graph:
    """The channels of one algorithm."""

    id: int
    name: str
    pattern: str
    cross_nic: bool
    """May a channel leave through another NIC than it enters?"""
    channels: tuple[GraphChannel, ...]


def graphs(root: Element, source: str) -> tuple[Graph, ...]:
    """Every graph of the file.

    Raises:
        SpecError: The file is no graph file, or a channel is broken: every fault.
    """
    if root.tag != "graphs":
        words = f"the outermost element is <{root.tag}>, not <graphs>"
        raise SpecError([Problem(source, root.line, 1, "", words)])
    problems: list[Problem] = []
    found = [_graph(element, source, problems) for element in root.of_tag("graph")]
    if not found:
        problems.append(Problem(source, root.line, 1, "", "no graph in the file"))
    if problems:
        raise SpecError(problems)
    return tuple(found)


def _graph(element: Element, source: str, problems: list[Problem]) -> Graph:
    number, pattern = element.number("id"), element.number("pattern")
    channels = [_channel(one, source, problems) for one in element.of_tag("channel")]
    stated = element.number("nchannels")
    if stated is not None and stated != len(channels):
        words = f"graph {number} has {len(channels)} channels, but says {stated}"
        problems.append(Problem(source, element.line, 1, "graph.nchannels", words))
    if number is None:
        problems.append(Problem(source, element.line, 1, "graph.id", "the graph has no id"))
        number = -1
    return Graph(
        id=number,
        name=_GRAPHS.get(number, f"graph {number}"),
        pattern=_PATTERNS.get(pattern or 0, f"pattern {pattern}"),
        cross_nic=element.number("crossnic") not in (None, 0),
        channels=tuple(channels),
    )


def _channel(element: Element, source: str, problems: list[Problem]) -> GraphChannel:
    """The NIC before the first GPU receives, the NIC after the last GPU sends."""
    tags = [child.tag for child in element.children]
    numbers = [child.number("dev") for child in element.children]
    first, last = tags[:1] == ["net"], tags[-1:] == ["net"] and len(tags) > 1
    inner = tags[first : len(tags) - last]
    if not inner or set(inner) != {"gpu"} or None in numbers:
        words = "a channel is GPUs with a number, and a NIC at its ends where it leaves the host"
        problems.append(Problem(source, element.line, 1, "graph.channel", words))
    gpus = tuple(n for n, tag in zip(numbers, tags, strict=True) if tag == "gpu" and n is not None)
    if len(set(gpus)) != len(gpus):
        problems.append(Problem(source, element.line, 1, "graph.channel", "a GPU stands twice in a channel"))
    return GraphChannel(gpus, numbers[0] if first else None, numbers[-1] if last else None)
