"""Single lines in the forms of each version, and the names that the document promises."""

import re
from pathlib import Path

import pytest

from flowcheck_net.importers.nccl_grammar import grammar_for
from flowcheck_net.importers.nccl_records import (
    Connection,
    QueuePair,
    TreeLink,
    TreeLinks,
    Unread,
    VirtualDevice,
)

ROOT = Path(__file__).resolve().parents[2]


def parse(version: tuple[int, int, int], text: str):
    grammar = grammar_for(version)
    assert grammar is not None
    return grammar.parse(text)


TREE = TreeLinks((TreeLink(0, 5, 4, (6, 13)), TreeLink(1, 5, -1, ())), cut=False)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((2, 4, 8), "Trees [0] 4->5->6/13/-1 [1] -1->5->-1/-1/-1"),
        ((2, 7, 8), "Trees [0] 6/13/-1->5->4|4->5->6/13/-1 [1] -1/-1/-1->5->-1|-1->5->-1/-1/-1"),
        ((2, 8, 4), "Trees [0] 6/13/-1->5->4 [1] -1/-1/-1->5->-1"),
        ((2, 30, 7), "Trees [0] 6/13/-1->5->4 [1] -1/-1/-1->5->-1"),
    ],
)
def test_trees(version, text):
    assert parse(version, text) == TREE


def test_tree_lines_name_the_parent_first():
    assert parse((2, 19, 3), "Tree 3 : 4 -> 5 -> 6/13/-1") == TreeLink(3, 5, 4, (6, 13))


def test_a_trees_line_that_filled_its_buffer_was_cut():
    text = "Trees" + "".join(f" [{c}] 6/13/-1->5->4" for c in range(60))[:1018]
    found = parse((2, 19, 3), text)
    assert isinstance(found, TreeLinks)
    assert found.cut
    assert len(found.links) < 60


@pytest.mark.parametrize(
    ("version", "text", "read"),
    [
        ((2, 9, 9), "Channel 00 : 0[101c0] -> 8[101c0] [send] via NET/IB/1/GDRDMA", True),
        ((2, 12, 7), "Channel 00/0 : 0[101c0] -> 8[101c0] [send] via NET/IB/1(3)/GDRDMA/Shared", True),
        ((2, 12, 7), "Channel 00 : 0[101c0] -> 8[101c0] [send] via NET/IB/1/GDRDMA", False),
        ((2, 18, 3), "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA", True),
        ((2, 18, 3), "Channel 00/0 : 0[101c0] -> 8[101c0] [send] via NET/IB/1/GDRDMA", False),
        ((2, 26, 2), "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA(PCI)/Shared", True),
        ((2, 26, 2), "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA/Later", False),
        ((2, 7, 8), "Ring 00 : 0[101c0] -> 8[101c0] [send] via NET/IB/1/GDRDMA", True),
        ((2, 19, 3), "Ring 00 : 0[101c0] -> 8[101c0] [send] via NET/IB/1/GDRDMA", False),
    ],
)
def test_connections_are_read_in_their_version_only(version, text, read):
    found = parse(version, text)
    assert isinstance(found, Connection if read else Unread)
    if isinstance(found, Connection):
        assert (found.channel, found.source, found.target, found.direction, found.device) == (0, 0, 8, "send", 1)
        assert found.shared is text.endswith("Shared")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((2, 9, 9), "NET/IB: Dev 2 Port 1 qpn 1200 mtu 5 GID 3 (0/100000AFFFF0000)"),
        ((2, 28, 3), "NET/IB: NCCL MergedDev 2 IbDev 4 Port 1 qpn 1200 mtu 5 GID 3 (0/100000AFFFF0000) fifoRkey=0x1"),
        ((2, 30, 7), "NET/IB: f: NCCL Dev 2 IbDev 4 Port 1 qp_num 1200 mtu 5 GID 3 (0/100000AFFFF0000) ctsFifo"),
    ],
)
def test_queue_pairs(version, text):
    """::ffff:10.0.0.1 ends in 00 00 ff ff 0a 00 00 01; a little-endian host prints that as 0x0100000affff0000."""
    assert parse(version, text) == QueuePair(False, 2, "", 1200, 4096, "10.0.0.1", infiniband=False)


def test_queue_pairs_of_infiniband_have_no_address():
    found = parse((2, 19, 3), "NET/IB: Dev 0 Port 1 qpn 7 mtu 5 LID 12")
    assert found == QueuePair(False, 0, "", 7, 4096, "", infiniband=True)


def test_virtual_devices():
    text = "NET/IB : Made virtual device [8] name=mlx5_0+mlx5_1 speed=800000 ndevs=2 rail=0 plane=0"
    assert parse((2, 30, 7), text) == VirtualDevice(8, "mlx5_0+mlx5_1", 2)


def test_other_lines_say_nothing():
    for text in (
        "Connected all rings",
        "Channel",
        "Ring",
        "Trees",
        "",
        "P2P Chunksize set to 131072",
        "NET/IB : No device found.",
    ):
        assert not isinstance(parse((2, 19, 3), text), Connection | TreeLinks)


def test_every_name_is_in_the_document():
    """Refusals and findings have names; the document lists them all, and none that does not exist."""
    sources = "".join(path.read_text() for path in (ROOT / "flowcheck_net" / "importers").glob("nccl_*.py"))
    makers = (
        r"(?:_Fault\(|_refuse\(|_faults\[|_ask\(|Finding\(|\bname, 0, 0, |line\.source, line\.number, 1, )"
        r'\s*"([a-z]+(?:-[a-z0-9]+)+)"'
    )
    used = set(re.findall(makers, sources))
    assert len(used) > 25
    document = (ROOT / "docs" / "import-nccl.md").read_text()
    listed = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", document)) - {"import-nccl"}
    assert used == listed
