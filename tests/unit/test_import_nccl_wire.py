"""What NCCL logs say of the wire: TUNING lines, settings, MTU and queue pairs; the rest is asked for."""

import pytest

from flowcheck_net.importers.nccl_groups import choose, group_facts
from flowcheck_net.importers.nccl_json import facts_json
from flowcheck_net.importers.nccl_wire import BucketChoice, WireChoice
from tests.doubles.nccl_log import FakeJob
from tests.doubles.nccl_reading import HOSTS, document, job, log_of, refusal

OPEN = WireChoice(buckets=(BucketChoice(262144, "fp32"),), iteration_time=0.5)  # 1 MiB
TUNING = [
    ((2, 20, 5), "1048576 Bytes -> Algo 1 proto 2 time 123.456001", "Simple", 2),
    ((2, 22, 3), "1048576 Bytes -> Algo 1 proto 0 time 1.5", "LL", 2),
    ((2, 23, 4), "AllReduce: 1048576 Bytes -> Algo 1 proto 1 time 1.5", "LL128", 2),
    ((2, 24, 3), "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}", "Simple", 1),
    (
        (2, 27, 3),
        "AllReduce: 1048576 Bytes -> Algo Ring proto Simple channel{Lo..Hi}={0..1} comm 0x7f000000001",
        "Simple",
        2,
    ),
]


@pytest.mark.parametrize(("version", "line", "protocol", "channels"), TUNING)
def test_tuning_lines_say_algorithm_protocol_and_channels(version, line, protocol, channels):
    other = (
        "AllReduce: 64 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}"
        if version >= (2, 24, 0)
        else "64 Bytes -> Algo 0 proto 0 time 1.0"
    )
    if version[:2] == (2, 23):
        other = "AllReduce: 64 " + other.partition("64 ")[2]
    tree = document(log_of(job(version=version, tuning=[other, line]).text()), choice=OPEN).tree
    assert (tree["nccl"]["protocol"], tree["nccl"]["channels"], len(tree["rings"])) == (protocol, channels, channels)


TREE = "AllReduce: 1048576 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}"


def test_a_tree_becomes_edges_with_their_nics():
    """The writer's trees are chains 0 - 1 - ... - 5; GPU 1 of each host talks to GPU 0 of the next."""
    made = job(version=(2, 24, 3), tuning=[TREE], tree_lines=True)
    tree = document(log_of(made.text()), choice=OPEN).tree
    edges = [[rank, rank + 1] for rank in range(5)]
    assert tree["collective"] == {"algorithm": "tree"}
    assert tree["trees"] == [{"group": "dp0", "channel": channel, "edges": edges} for channel in (0, 1)]
    assert "rings" not in tree
    # A job that uses trees only never connects its rings (from 2.22 on).
    lazy = job(version=(2, 24, 3), tuning=[TREE], tree_lines=True, ring_connections=False)
    assert document(log_of(lazy.text()), choice=OPEN).tree == tree
    assert "nic-not-logged" in refusal(log_of(lazy.text()))


def test_a_tree_whose_edges_use_other_nics_each_way_is_refused():
    def nic(local, channel, way):
        return 1 - local if way == "send" else local

    made = job(version=(2, 24, 3), tuning=[TREE], tree_lines=True, ring_connections=False, nic=nic)
    assert "tree-nics-differ: tree edges that go up through other NICs than down: channel 00 edge 1 - 2" in refusal(
        log_of(made.text()), choice=OPEN
    )


def test_a_tree_that_is_cut_or_contradictory_is_refused():
    text = job(version=(2, 24, 3), tuning=[TREE], tree_lines=True).text()
    two_roots = text.replace("[1] 3/-1/-1->2->1", "[1] -1/-1/-1->2->1").replace(
        "[1] 4/-1/-1->3->2", "[1] 4/-1/-1->3->-1"
    )
    lost = text.replace("[1] 3/-1/-1->2->1", "")
    other = text.replace("[1] 3/-1/-1->2->1", "[1] 3/-1/-1->2->0")
    for broken in (lost, other, two_roots):
        words = refusal(log_of(broken), choice=OPEN)
        assert "tree-incomplete: communicator 0x1234abcd: the trees of channels 1 are cut" in words


def test_other_algorithms_are_refused_by_name():
    for name in ("NVLS", "NVLS_TREE", "COLLNET_DIRECT", "PAT"):
        text = job(version=(2, 24, 3), tuning=[TREE.replace("TREE", name)]).text()
        words = refusal(log_of(text), choice=OPEN)
        assert f"algorithm: the all-reduce uses {name.lower().replace('_', '')}" in words


def test_buckets_with_two_protocols_are_refused():
    lines = [
        f"AllReduce: {size} Bytes -> Algo RING proto {proto} channel{{Lo..Hi}}={{0..{high}}}"
        for size, proto, high in ((1048576, "SIMPLE", 1), (4096, "LL", 0))
    ]
    choice = WireChoice(buckets=(BucketChoice(262144, "fp32"), BucketChoice(1024, "fp32")), iteration_time=0.5)
    words = refusal(log_of(job(version=(2, 24, 3), tuning=lines).text()), choice=choice)
    assert "protocol: the TUNING lines name several: LL, Simple" in words
    assert "channels: the TUNING lines name several ranges of channels: 0 to 0, 0 to 1" in words


def test_settings_say_what_nothing_else_does():
    made = job(
        settings={
            "NCCL_ALGO": "allreduce:ring;broadcast:tree",
            "NCCL_PROTO": "LL128",
            "NCCL_IB_QPS_PER_CONNECTION": "4.",
            "NCCL_IB_SPLIT_DATA_ON_QPS": "0.",
            "NCCL_IB_ADAPTIVE_ROUTING": "1.",
            "NCCL_IB_AR_THRESHOLD": "4096.",
            "NCCL_LL128_NTHREADS": "320.",
        }
    )
    nccl_part = document(log_of(made.text()), choice=OPEN).tree["nccl"]
    assert nccl_part == {
        "version": "2.19.3",
        "protocol": "LL128",
        "channels": 2,
        "threads": 320,
        "qps_per_connection": 4,
        "split_data_on_qps": False,
        "adaptive_routing": True,
        "adaptive_routing_threshold": 4096,
    }


def test_everything_that_is_not_said_is_asked_for_at_once():
    made = job(network="Socket")
    words = refusal(log_of(made.text()), choice=WireChoice())
    for name in ("algorithm", "protocol", "mtu", "buckets", "iteration_time"):
        assert f" {name}: " in words
    assert "--bucket ELEMENTS:DTYPE" in words


def test_mtus_that_differ_are_refused():
    a, b = job(), job(mtu=5)
    text = "\n".join(line for r in range(6) for line in (b if r > 3 else a).lines(r))
    assert "mtu: path MTUs differ: 1024 on node-a, node-b; 4096 on node-c" in refusal(log_of(text))


def test_sender_queue_pairs_are_facts_and_no_destinations():
    """One GPU a host and one channel: one connection a NIC, so its number is certain, but it is the sender's own."""
    made = FakeJob(hosts=HOSTS, gpus=1, rings=[[0, 1, 2]])
    log = log_of(made.text())
    groups = group_facts(log, choose(log, (), None))
    hop = facts_json(log, groups)["groups"][0]["rings"][0]["network_hops"][1]
    assert (hop["source"], hop["send"]["qpns"], hop["receive"]["qpns"]) == (1, [0x400], [])
    assert "qpns" not in document(log).tree["rings"][0]
    assert facts_json(log, groups)["queue_pairs"][0]["address"] == "10.0.0.1"


def test_receiver_queue_pairs_become_destinations():
    made = FakeJob(hosts=HOSTS, gpus=1, rings=[[0, 1, 2]], version=(2, 30, 7))
    text = made.text()
    for rank in range(3):
        text += (
            made.head(rank, 9)
            + "NET/IB: ncclIbReceiverQpsCreateToRts: QP created: port=1 dev=0 devName=mlx5_0 ndevs=1 "
        )
        text += f"nmdevs=1 qp_num={0x510 + rank} pkey=0 pd=0x5 oooRq=0\n"
    assert document(log_of(text)).tree["rings"][0]["qpns"] == [[0x511], [0x512], [0x510]]
    two = text + made.head(0, 9) + "Channel 00/1 : 2[0] -> 0[0] [receive] via NET/IB/0/Shared\n"
    assert "qpns" not in document(log_of(two)).tree["rings"][0]
