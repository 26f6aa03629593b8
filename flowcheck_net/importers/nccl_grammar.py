"""The grammar of NCCL's log lines, by version.

The log format is undocumented and changes from version to version (a maintainer's word, NVIDIA/nccl #1644), so each
form is read only in the versions that write it. Facts: the format strings of NCCL v2.4.8 to v2.30.7 (``src/init.cc``,
``src/graph/rings.cc``, ``src/graph/connect.cc``, ``src/transport/net.cc``, ``p2p.cc``, ``shm.cc``, ``net_ib*``,
``src/enqueue.cc``); the ones that differ are named where they are used.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address

from flowcheck_net.importers.nccl_lines import Version
from flowcheck_net.importers.nccl_records import (
    Channels,
    CommInit,
    Connection,
    NetDevices,
    Network,
    QueuePair,
    Record,
    RingLink,
    RingList,
    Setting,
    TreeLink,
    TreeLinks,
    Tuning,
    Unread,
    VirtualDevice,
)
from flowcheck_net.spec.ranges import canonical_address

OLDEST_JOB: tuple[int, int] = (2, 8)
OLDEST: tuple[int, int] = (2, 4)
NEWEST: tuple[int, int] = (2, 30)

_N = r"([0-9]{1,9})"
_S = r"(-?[0-9]{1,9})"
_POINTER = r"0x[0-9a-f]{1,16}"
_ARROW = " -> "
_TREES_BUFFER = 1000
"""``Trees`` is written into 1024 bytes: what is nearly as long was cut."""
_MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""``enum ibv_mtu``."""
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PROTOCOLS = ("LL", "LL128", "Simple")

_INIT = re.compile(
    r"(?:\[Rank [0-9]{1,9}\] )?(?:[A-Za-z]\w{0,60} )?"
    rf"comm ({_POINTER}) rank {_N} nranks {_N} cudaDev {_N}(?: nvmlDev -?[0-9]{{1,9}})?(?: busId ([0-9a-f]{{1,16}}))?"
    rf"(?: parent ({_POINTER}))?((?: (?:splitCount|childCount) [0-9]{{1,9}})?(?: color -?[0-9]{{1,11}})?)"
    rf"(?: key -?[0-9]{{1,11}})?(?: commId ({_POINTER}))? ?- Init (COMPLETE|START)"
)
_RING_LINK = re.compile(rf"Ring {_N} : {_S} -> {_N} -> {_S}")
_RING_LIST = re.compile(rf"Channel {_N}/{_N} :((?: +[0-9]{{1,9}})+)( *)(\.\.\.)?")
_TREE_LINK = re.compile(rf"Tree {_N} : {_S} -> {_N} -> {_S}/{_S}/{_S}")
_TREE = re.compile(rf" \[{_N}\] {_S}/{_S}/{_S}->{_N}->{_S}(?= |$)")
_TREE_UP_FIRST = re.compile(rf" \[{_N}\] {_S}->{_N}->{_S}/{_S}/{_S}(?= |$)")
_TREE_DOUBLE = re.compile(rf" \[{_N}\] {_S}/{_S}/{_S}->{_N}->{_S}\|\S+(?= |$)")
_GPU = r"\[[0-9a-f]{1,16}\]"
_LOCAL = re.compile(rf"Channel {_N}(?:/{_N})? : {_N}{_GPU} -> {_N}{_GPU} via ((?:P2P|SHM)/.+|direct shared memory)")
_DEVICES = re.compile(r"NET/IB : Using(.*); OOB .*")
_DEVICE = re.compile(r" \[[0-9]{1,4}\](?:([A-Za-z0-9._-]{1,63}):[0-9:]{1,20}/(IB|RoCE)|=\{([^}]{1,500})\})")
_PART = re.compile(r"\[[0-9]{1,4}\] ?([A-Za-z0-9._-]{1,63}):[0-9:]{1,20}/(IB|RoCE)")
_VIRTUAL = re.compile(
    rf"NET/IB : Made virtual device \[{_N}\] name=([A-Za-z0-9._+-]{{1,255}}) speed=[0-9]+ ndevs={_N}.*"
)
_GID = r"(?:LID [0-9]{1,9}.*|GID -?[0-9]{1,9} \(([0-9A-F]{1,16})/([0-9A-F]{1,16})\).*)"
_RECEIVER_QP = re.compile(
    rf"NET/IB: ncclIb\w*Receiver\w*: QP created: port=[0-9]+ dev={_N} devName=([A-Za-z0-9._-]{{1,63}}) .*qp_num={_N}.*"
)
_SETTING = re.compile(r"(NCCL_[A-Z0-9_]{1,60}) set by environment to (.{1,1000}?)\.?")
_CHANNELS = re.compile(rf"{_N} coll channels, .*")
_NETWORK = re.compile(r"Using network (.{1,100})")
_TUNED = rf"(?: comm ({_POINTER})\b.*)?"
_HALF_READ = re.compile(
    r"Channel [0-9]+(?:/[0-9]+)? :|Ring [0-9]+ :|Trees? |.*\bInit (?:COMPLETE|START)|.* Bytes -> Algo "
    r"|NET/IB: .*qp(?:n|_num) [0-9]+ mtu"
)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The forms that one version writes."""

    version: Version
    connection: re.Pattern[str]
    tree: re.Pattern[str]
    queue_pair: re.Pattern[str]
    tuning: re.Pattern[str] | None
    ring_list_width: int | None
    """Ranks after which a ring list ends without a word; None: it says ``...``."""

    def parse(self, text: str) -> Record | None:
        """What the line says; None where it says nothing of ours."""
        reader = _READERS.get(text.split(" ", 1)[0])
        record = reader(self, text) if reader is not None else None
        if record is None and " - Init " in text:
            record = _init(text)
        if record is None and " Bytes -> Algo " in text:
            record = _tuning(self, text)
        if record is None:
            record = _plain(text)
        return Unread() if record is None and _HALF_READ.match(text) else record


def grammar_for(version: Version) -> Grammar | None:
    """The grammar of a version; None where the version is not known."""
    era = version[:2]
    if not OLDEST <= era <= NEWEST:
        return None
    # The connection index came with 2.12; in brackets stands the bus id up to 2.17, from 2.18 the NVML device.
    index = rf"/{_N}" if era >= (2, 12) else "()"
    gpu = "[0-9]{1,9}" if era >= (2, 18) else "[0-9a-f]{1,16}"
    word, ends = ("Channel", rf"{_N}\[{gpu}\]") if era >= (2, 8) else ("Ring", rf"{_N}(?:\[{gpu}\])?")
    connection = (
        rf"{word} {_N}{index} : {ends} -> {ends} \[(send|receive)\] via NET/(.{{1,60}}?)/{_N}(?:\({_N}\))?"
        r"(/GDRDMA(?:\(PCI\))?)?(/Shared)?"
    )
    ports = rf"Dev {_N}" if era < (2, 20) else rf"(?:\w{{1,60}}: )?NCCL (?:Merged)?Dev {_N} IbDev [0-9]{{1,4}}"
    ece = r"(?:query_ece=\{[^}]{0,200}\} )?"
    return Grammar(
        version=version,
        connection=re.compile(connection),
        tree=_TREE if era >= (2, 8) else _TREE_DOUBLE if era >= (2, 5) else _TREE_UP_FIRST,
        queue_pair=re.compile(rf"NET/IB: {ports} Port [0-9]{{1,4}} (?:qpn|qp_num) {_N} mtu {_N} {ece}{_GID}"),
        tuning=_tuning_form(era),
        ring_list_width=20 if era < (2, 23) else None,
    )


def _tuning_form(era: tuple[int, int]) -> re.Pattern[str] | None:
    """2.20 to 2.22 write numbers, 2.23 the function before them, 2.24 on names; before 2.20 there is nothing."""
    if era < (2, 20):
        return None
    if era < (2, 24):
        function = r"([A-Za-z]{1,30}): " if era >= (2, 23) else "()"
        return re.compile(
            rf"{function}([0-9]{{1,18}}) Bytes -> Algo ([0-9]{{1,2}}) proto ([0-9]{{1,2}}) time [0-9.]+()(){_TUNED}"
        )
    return re.compile(
        r"([A-Za-z]{1,30}): ([0-9]{1,18}) Bytes -> Algo (\w{1,30}) proto (\w{1,30}) "
        rf"channel\{{Lo\.\.Hi\}}=\{{{_N}\.\.{_N}\}}{_TUNED}"
    )


def _init(text: str) -> CommInit | None:
    match = _INIT.fullmatch(text)
    if match is None:
        return None
    pointer, rank, size, device, bus, parent, split, comm_id, state = match.groups()
    return CommInit(
        pointer=pointer,
        rank=int(rank),
        size=int(size),
        cuda_device=int(device),
        bus_id=bus or "",
        comm_id=comm_id or "",
        parent=parent or "",
        split=(split or "").strip(),
        complete=state == "COMPLETE",
    )


def _channel(grammar: Grammar, text: str) -> Record | None:
    if _ARROW in text:
        return _connection(grammar, text)
    match = _RING_LIST.fullmatch(text)
    if match is None:
        return None
    ranks = tuple(int(word) for word in match[3].split())
    cut = match[5] is not None
    half = cut and not match[4]  # "... 12..." may be the beginning of 120
    return RingList(int(match[1]), int(match[2]), ranks[:-1] if half else ranks, cut)


def _connection(grammar: Grammar, text: str) -> Connection | None:
    match = grammar.connection.fullmatch(text)
    if match is not None:
        channel, index, source, target, direction, network, device, proxy, gdr, shared = match.groups()
        return Connection(
            channel=int(channel),
            index=int(index or 0),
            source=int(source),
            target=int(target),
            direction=direction,
            network=network,
            device=int(device),
            proxy=-1 if proxy is None else int(proxy),
            gpu_direct=gdr is not None,
            shared=shared is not None,
            local="",
        )
    match = _LOCAL.fullmatch(text)
    if match is None:
        return None
    channel, index, source, target, local = match.groups()
    return Connection(int(channel), int(index or 0), int(source), int(target), "", "", -1, -1, False, False, local)


def _ring(grammar: Grammar, text: str) -> Record | None:
    match = _RING_LINK.fullmatch(text)
    if match is not None:
        channel, previous, rank, following = (int(word) for word in match.groups())
        return RingLink(channel, previous, rank, following)
    return _connection(grammar, text) if grammar.version < (2, 8, 0) else None


def _tree(grammar: Grammar, text: str) -> TreeLink | None:
    del grammar
    match = _TREE_LINK.fullmatch(text)
    if match is None:
        return None
    channel, up, rank, *down = (int(word) for word in match.groups())
    return _tree_link(channel, rank, up, down)


def _trees(grammar: Grammar, text: str) -> TreeLinks | None:
    links = []
    at = len("Trees")
    while (match := grammar.tree.match(text, at)) is not None:
        numbers = [int(word) for word in match.groups()]
        if grammar.tree is _TREE_UP_FIRST:
            channel, up, rank, *down = numbers
        else:
            channel, *down, rank, up = numbers
        links.append(_tree_link(channel, rank, up, down))
        at = match.end()
    if not links:
        return None
    cut = len(text) >= _TREES_BUFFER
    return TreeLinks(tuple(links[:-1] if cut and at == len(text) else links), cut) if cut or at == len(text) else None


def _tree_link(channel: int, rank: int, up: int, down: list[int]) -> TreeLink:
    return TreeLink(channel, rank, up, tuple(child for child in down if child >= 0))


def _net_ib(grammar: Grammar, text: str) -> Record | None:
    match = grammar.queue_pair.fullmatch(text)
    if match is not None:
        device, number, mtu, prefix, interface = match.groups()
        address = "" if prefix is None else _address(prefix, interface)
        return QueuePair(False, int(device), "", int(number), _MTU.get(int(mtu), 0), address, prefix is None)
    match = _RECEIVER_QP.fullmatch(text)
    if match is not None:
        return QueuePair(True, int(match[1]), match[2], int(match[3]), 0, "", False)
    match = _VIRTUAL.fullmatch(text)
    if match is not None:
        return VirtualDevice(int(match[1]), match[2], int(match[3]))
    match = _DEVICES.fullmatch(text)
    return None if match is None else _devices(match[1])


def _address(prefix: str, interface: str) -> str:
    """The two halves of a GID, each printed as a little-endian number; empty where it is no address of a NIC."""
    raw = int(prefix, 16).to_bytes(8, "little") + int(interface, 16).to_bytes(8, "little")
    try:
        return canonical_address(str(IPv6Address(raw)))
    except ValueError:
        return ""


def _devices(listed: str) -> NetDevices | None:
    """The number in brackets is that of the RDMA device; NCCL's own number is the place in the list."""
    names: list[str] = []
    links: set[str] = set()
    for match in _DEVICE.finditer(listed):
        name, link, merged = match.groups()
        parts = [(name, link)] if merged is None else _PART.findall(merged)
        names.append("+".join(part for part, _ in parts))
        links.update(link for _, link in parts)
    return NetDevices(tuple(names), frozenset(links)) if names else None


def _tuning(grammar: Grammar, text: str) -> Tuning | None:
    match = grammar.tuning.fullmatch(text) if grammar.tuning is not None else None
    if match is None:
        return None
    function, size, algorithm, protocol, low, high, pointer = match.groups()
    how, wire = algorithm_name(algorithm), protocol_name(protocol)
    if how is None or wire is None:
        return None
    return Tuning(function, int(size), how, wire, (int(low), int(high)) if low else None, pointer or "")


def algorithm_name(word: str) -> str | None:
    """NCCL's number or name of an algorithm, in any case and with or without underscores; None: unknown."""
    if word.isdigit():
        return _ALGORITHMS[int(word)] if int(word) < len(_ALGORITHMS) else None
    plain = word.lower().replace("_", "")
    return plain if plain in _ALGORITHMS else None


def protocol_name(word: str) -> str | None:
    """NCCL's number or name of a protocol, in any case; None: unknown."""
    if word.isdigit():
        return _PROTOCOLS[int(word)] if int(word) < len(_PROTOCOLS) else None
    return {name.lower(): name for name in _PROTOCOLS}.get(word.lower())


def _plain(text: str) -> Record | None:
    match = _SETTING.fullmatch(text)
    if match is not None:
        return Setting(match[1], match[2])
    match = _CHANNELS.fullmatch(text)
    if match is not None:
        return Channels(int(match[1]))
    match = _NETWORK.fullmatch(text)
    return None if match is None else Network(match[1])


_READERS: dict[str, Callable[[Grammar, str], Record | None]] = {
    "Channel": _channel,
    "Ring": _ring,
    "Tree": _tree,
    "Trees": _trees,
    "NET/IB:": _net_ib,
    "NET/IB": _net_ib,
}
