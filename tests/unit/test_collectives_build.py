"""From job files to trees: NCCL's construction, stated trees, heads of NVLSTree, and every fault of the file."""

from itertools import pairwise
from typing import Any

import pytest

from flowcheck_net.ids import Channel, GroupName
from flowcheck_net.model.build import build_job
from flowcheck_net.model.expect import expect
from flowcheck_net.model.job import Job, Tree
from flowcheck_net.spec.check_job import check_job, check_job_places
from flowcheck_net.spec.check_topology import devices
from tests.doubles.jobs import a_job, one_leaf, pairs

TREE = {"algorithm": "tree"}
NVLS = {"algorithm": "nvlstree"}


def tree_of(job: Job, group: str = "dp0", channel: int = 0) -> Tree:
    (found,) = [t for t in job.trees if (t.group, t.channel) == (group, channel)]
    return found


class TestTrees:
    def test_the_double_tree_of_four_hosts(self) -> None:
        job = build_job(a_job(4, collective=TREE, nccl={"channels": 4}), one_leaf(4))
        assert job.rings == ()
        first, second = {(0, 2), (2, 1), (2, 3)}, {(3, 1), (1, 2), (1, 0)}
        assert [pairs(tree_of(job, "dp0", c).edges) for c in range(4)] == [first, first, second, second]

    def test_ranks_of_a_host_are_a_chain_below_the_one_that_leaves_it(self) -> None:
        job = build_job(a_job(6, 2, collective=TREE), one_leaf(2, 3))
        assert pairs(tree_of(job).edges) == {(0, 3), (0, 1), (1, 2), (3, 4), (4, 5)}
        assert (tree_of(job).members, tree_of(job).hosts) == (6, 2)

    def test_hops_inside_a_host_are_not_expected(self) -> None:
        job = build_job(a_job(6, 2, collective=TREE), one_leaf(2, 3))
        hops = expect(job, None).hops
        assert [(h.src_rank, h.dst_rank, {m.reduced for m in h.messages}) for h in hops] == [
            (0, 3, {True}),
            (3, 0, {False}),
        ]
        # host 1 has three ranks, so what goes up from it holds three gradients
        assert {m.contributions for m in hops[1].messages} == {3}
        assert {m.contributions for m in hops[0].messages} == {6}

    def test_stated_trees_with_queue_pairs_and_nics(self) -> None:
        tree = {
            "group": "dp0",
            "channel": 0,
            "edges": ((1, 0), (0, 2)),
            "down_qpns": ((17,), (18,)),
            "up_qpns": ((19,), (20,)),
            "nics": (("m1", "m0"), ()),
        }
        spec = a_job(3, collective=TREE, trees=(tree,))
        assert not list(check_job(spec))
        job = build_job(spec, one_leaf(3, 2))
        hops = {(int(h.src_rank), int(h.dst_rank)): h for h in expect(job, None).hops}
        qpns = {pair: h.qpns for pair, h in hops.items()}
        assert qpns == {(1, 0): (17,), (0, 1): (19,), (0, 2): (18,), (2, 0): (20,)}
        assert (hops[1, 0].source, hops[1, 0].destination) == ("10.1.1.1", "10.0.0.1")
        assert (hops[0, 1].source, hops[0, 1].destination) == ("10.0.0.1", "10.1.1.1")
        assert hops[0, 2].source == "10.0.0.1"

    def test_a_group_in_each_half_has_trees_of_its_own(self) -> None:
        job = build_job(a_job(8, groups=((0, 2, 4, 6), (1, 3, 5, 7)), collective=TREE), one_leaf(8))
        assert pairs(tree_of(job, "dp1").edges) == {(1, 5), (5, 3), (5, 7)}

    @pytest.mark.parametrize(
        ("edges", "words"),
        [
            (((0, 1), (0, 2)), "a tree has one root: ranks without a parent are 0, 3"),
            (((0, 1), (1, 0), (2, 3)), "the edges hold a loop: not every rank is below root 2"),
            (((0, 1), (0, 2), (1, 2), (2, 3)), "rank 2 has parent 0 already"),
            (((0, 1), (0, 2), (2, 9)), "rank 9 is not in dp0"),
        ],
    )
    def test_edges_that_are_no_tree(self, edges: Any, words: str) -> None:
        tree = {"group": "dp0", "channel": 0, "edges": edges}
        faults = [fault.message for fault in check_job(a_job(4, collective=TREE, trees=(tree,)))]
        assert any(words in message for message in faults), faults

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"collective": {"algorithm": "tree", "extra_step": True}}, "the extra step is one of the ring"),
            ({"broadcasts": ({"bytes": 100},)}, "broadcasts go over rings"),
            ({"rings": ({"group": "dp0", "channel": 0, "order": (0, 1, 2, 3)},)}, "belongs to algorithm ring"),
            ({"nvls_heads": ({"group": "dp0", "heads": ((0, 1, 2, 3),)},)}, "belongs to algorithm nvlstree"),
            ({"nccl": {"channels": 3}}, "it is not known which tree each one uses"),
            (
                {"trees": ({"group": "dp7", "channel": 0, "edges": ((0, 1),)},)},
                "there is no group 'dp7'",
            ),
            (
                {"trees": ({"group": "dp0", "channel": 1, "edges": ((0, 1), (0, 2), (0, 3))},)},
                "must be less than nccl.channels = 1",
            ),
            (
                {"trees": ({"group": "dp0", "channel": 0, "edges": ((0, 1), (0, 2), (0, 3)), "up_qpns": ((17,),)},)},
                "3 edges need 3 lists (found 1)",
            ),
            (
                {
                    "trees": (
                        {
                            "group": "dp0",
                            "channel": 0,
                            "edges": ((0, 1), (0, 2), (0, 3)),
                            "down_qpns": ((17, 18), (19,), ()),
                        },
                    )
                },
                "must hold qps_per_connection = 1 queue pairs (found 2)",
            ),
            (
                {
                    "trees": (
                        {"group": "dp0", "channel": 0, "edges": ((0, 1), (0, 2), (0, 3)), "nics": (("m0",), (), ())},
                    )
                },
                "must be a pair [parent's NIC, child's NIC], or []",
            ),
        ],
    )
    def test_faults_of_the_file(self, changes: dict[str, Any], words: str) -> None:
        faults = [fault.message for fault in check_job(a_job(4, **{"collective": TREE, **changes}))]
        assert any(words in message for message in faults), faults

    def test_one_fault_a_tree_twice(self) -> None:
        tree = {"group": "dp0", "channel": 0, "edges": ((0, 1), (0, 2), (0, 3))}
        faults = [fault.message for fault in check_job(a_job(4, collective=TREE, trees=(tree, tree)))]
        assert faults == ["the tree of dp0 on channel 0 is in trees.0 already"]

    def test_trees_in_a_ring_job(self) -> None:
        tree = {"group": "dp0", "channel": 0, "edges": ((0, 1), (0, 2), (0, 3))}
        faults = [fault.message for fault in check_job(a_job(4, trees=(tree,)))]
        assert faults == ["belongs to algorithm tree (found ring)"]

    def test_an_unknown_nic(self) -> None:
        tree = {"group": "dp0", "channel": 0, "edges": ((0, 1),), "nics": (("m0", "m9"),)}
        spec = a_job(2, collective=TREE, trees=(tree,))
        (fault,) = check_job_places(spec, devices(one_leaf(2)))
        assert fault.path == ("trees", 0, "nics", 0, 1)
        assert "host h1 of rank 1 has no NIC 'm9'" in fault.message


class TestNvlsTree:
    def test_every_head_has_its_own_trees_and_its_part_of_the_data(self) -> None:
        spec = a_job(
            8,
            4,
            collective=NVLS,
            nccl={"version": "2.24.3", "channels": 2},
            buckets=({"name": "b", "elements": 500_000, "dtype": "fp32"},),
        )
        assert not list(check_job(spec))
        job = build_job(spec, one_leaf(4, 2))
        assert [(t.group, t.channel) for t in job.trees] == [
            ("dp0.head0", 0),
            ("dp0.head0", 1),
            ("dp0.head1", 0),
            ("dp0.head1", 1),
        ]
        # head h of host n is rank 2 n + h; even channels use the first tree, odd ones the second
        assert pairs(tree_of(job, "dp0.head1", 0).edges) == {(1, 5), (5, 3), (5, 7)}
        assert pairs(tree_of(job, "dp0.head1", 1).edges) == {(7, 3), (3, 5), (3, 1)}
        carried: dict[tuple[int, int], int] = {}
        for hop in expect(job, None).hops:
            for message in hop.messages:
                if message.reduced and hop.index == 0:
                    carried[message.data_offset, message.data_bytes] = 1
        ranges = sorted(carried)
        assert sum(size for _, size in ranges) == 2_000_000, "the heads of all channels together carry every byte"
        assert all(one[0] + one[1] == two[0] for one, two in pairwise(ranges))

    def test_a_single_head_keeps_the_name_of_the_group(self) -> None:
        heads = ({"group": "dp0", "heads": ((1, 3),)},)
        spec = a_job(4, 2, collective=NVLS, nvls_heads=heads)
        job = build_job(spec, one_leaf(2, 2))
        assert [(t.group, pairs(t.edges)) for t in job.trees] == [("dp0", {(1, 3)})]

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"nccl": {"protocol": "LL"}}, "NVLSTree knows Simple only"),
            ({"nccl": {"version": "2.17.1"}}, "NCCL 2.17.1 has no NVLSTree"),
            ({"nvls_heads": ({"group": "dp0", "heads": ((0, 1),)},)}, "must hold one rank on each of the 2 hosts"),
            ({"nvls_heads": ({"group": "dp0", "heads": ((0, 2), (0, 3))},)}, "rank 0 is a head twice"),
            ({"nvls_heads": ({"group": "dp0", "heads": ((0, 2), (3, 1))},)}, "not in the order of the first head's"),
            ({"nvls_heads": ({"group": "dp0", "heads": ((0, 9),)},)}, "rank 9 is not in dp0"),
            ({"nvls_heads": ({"group": "dp3", "heads": ((0, 2),)},)}, "there is no group 'dp3'"),
            ({"trees": ({"group": "dp0", "channel": 0, "edges": ((0, 1),)},)}, "belongs to algorithm tree"),
        ],
    )
    def test_faults(self, changes: dict[str, Any], words: str) -> None:
        faults = [fault.message for fault in check_job(a_job(4, 2, **{"collective": NVLS, **changes}))]
        assert any(words in message for message in faults), faults


class TestRingsThroughHosts:
    def test_only_hops_between_hosts_are_visible(self) -> None:
        job = build_job(a_job(6, 2), one_leaf(2, 3))
        hops = expect(job, {(GroupName("dp0"), Channel(0), 2): ((), 1)}).hops
        assert [(h.index, h.src_rank, h.dst_rank) for h in hops] == [(2, 2, 3), (5, 5, 0)]
