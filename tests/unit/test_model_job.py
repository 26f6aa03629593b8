"""From specs to groups, rings and expectations; the platform tables."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.errors import Infeasible, PlanError, StalePlan
from flowcheck_net.ids import CapturePort, Channel, GroupName
from flowcheck_net.intent import Direction
from flowcheck_net.model.build import build_job
from flowcheck_net.model.expect import expect
from flowcheck_net.model.groups import data_parallel_groups
from flowcheck_net.model.job import Protocol
from flowcheck_net.model.platforms import capabilities, known_platforms
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import load_specs, load_yaml, spec_paths
from flowcheck_net.spec.topology import Topology

ROOT = Path(__file__).resolve().parents[2]


def a_topology(hosts: int, nics: int = 1) -> Topology:
    """``h0``, ``h1``, ... with NICs ``m0``, ``m1``, ... on one leaf; addresses 10.<host>.<nic>.1."""
    names = [(f"h{h}", f"m{n}") for h in range(hosts) for n in range(nics)]
    return Topology.model_validate(
        {
            "version": 1,
            "name": "test",
            "switches": (
                {
                    "name": "leaf1",
                    "platform": "fake",
                    "management": "fake:leaf1",
                    "ports": tuple({"name": f"{h}-{n}", "speed": "400G"} for h, n in [*names, ("ckpt", "cap0")]),
                },
            ),
            "hosts": tuple(
                {
                    "name": f"h{h}",
                    "nics": tuple(
                        {"name": f"m{n}", "speed": "400G", "addresses": (f"10.{h}.{n}.1", f"10.{h}.{n}.2")}
                        for n in range(nics)
                    ),
                }
                for h in range(hosts)
            ),
            "checkpoint_nodes": ({"name": "ckpt", "nics": ({"name": "cap0", "speed": "400G"},)},),
            "links": tuple((f"{h}:{n}", f"leaf1:{h}-{n}") for h, n in [*names, ("ckpt", "cap0")]),
        }
    )


def a_job(places: list[str], **changes: Any) -> JobSpec:
    """Ranks 0, 1, ... at ``host:nic`` places."""
    nccl = {"version": "2.19.3", "protocol": "LL", "channels": 1, "threads": 512} | changes.pop("nccl", {})
    fields = {
        "version": 1,
        "name": "test",
        "collective": {"algorithm": "ring"},
        "nccl": nccl,
        "mtu": 1024,
        "layout": {},
        "ranks": tuple(
            dict(zip(("rank", "host", "nic"), (i, *p.split(":")), strict=True)) for i, p in enumerate(places)
        ),
        "buckets": ({"name": "b", "elements": 5000, "dtype": "fp32"},),
        "iteration_time": 0.5,
    }
    if "groups" in changes:
        del fields["layout"]
    return JobSpec.model_validate(fields | changes)


def groups_of(ranks: int, **layout: Any) -> list[tuple[int, ...]]:
    return list(data_parallel_groups(a_job(["h0:m0"] * ranks, layout=layout)).values())


class TestGroups:
    def test_megatron_example_of_64_ranks(self) -> None:
        # domain/training-state.md: tp 8, dp 4, pp 2 -> {t + 8d + 32p | d = 0..3}
        groups = groups_of(64, tp=8, pp=2)
        assert len(groups) == 16
        assert groups[0] == (0, 8, 16, 24)
        assert groups[7] == (7, 15, 23, 31)
        assert groups[8] == (32, 40, 48, 56)

    def test_context_parallel_ranks_are_part_of_the_gradient_group(self) -> None:
        assert groups_of(8, tp=2, cp=2) == [(0, 2, 4, 6), (1, 3, 5, 7)]

    def test_the_order_decides(self) -> None:
        # tp fastest, then pp, then dp: rank = t + 2p + 4d
        assert groups_of(8, order="tp-cp-ep-pp-dp", tp=2, pp=2) == [(0, 4), (1, 5), (2, 6), (3, 7)]
        assert groups_of(8, tp=2, pp=2) == [(0, 2), (1, 3), (4, 6), (5, 7)]

    def test_members_follow_the_order_of_the_axes_and_not_their_rank(self) -> None:
        # dp fastest, then tp, then cp: rank = d + 2t + 4c; the group lists dp first, then cp
        assert groups_of(8, order="dp-tp-cp-ep-pp", tp=2, cp=2) == [(0, 1, 4, 5), (2, 3, 6, 7)]

    def test_names_are_in_index_order(self) -> None:
        groups = data_parallel_groups(a_job(["h0:m0"] * 24, layout={"tp": 12}))
        assert list(groups)[:3] == ["dp0", "dp1", "dp2"]
        assert groups[GroupName("dp11")] == (11, 23)

    def test_explicit_groups_are_taken_as_they_stand(self) -> None:
        assert data_parallel_groups(a_job(["h0:m0"] * 4, groups=((3, 1), (2, 0)))) == {"dp0": (3, 1), "dp1": (2, 0)}

    @pytest.mark.parametrize("layout", [{"tp": 4}, {"order": "tp-cp-ep-dp"}])
    def test_a_layout_without_groups_is_refused(self, layout: dict[str, Any]) -> None:
        with pytest.raises(PlanError, match="no data-parallel groups follow from the layout and 6 ranks"):
            groups_of(6, **layout)

    @given(
        st.permutations(["tp", "cp", "ep", "dp", "pp"]),
        st.integers(1, 4),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 4),
    )
    def test_ranks_of_a_group_differ_in_dp_and_cp_only(
        self, order: list[str], tp: int, cp: int, pp: int, dp: int
    ) -> None:
        sizes = {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}
        world = tp * cp * pp * dp

        def coordinates(rank: int) -> dict[str, int]:
            found = {}
            for axis in order:
                rank, found[axis] = divmod(rank, sizes[axis])
            return found

        groups = groups_of(world, order="-".join(order), tp=tp, cp=cp, pp=pp)
        assert sorted(r for g in groups for r in g) == list(range(world))
        assert len(groups) == tp * pp
        for group in groups:
            assert len({(coordinates(r)["tp"], coordinates(r)["pp"]) for r in group}) == 1
        firsts = [group[0] for group in groups]
        assert firsts == sorted(firsts)


class TestBuild:
    def test_the_shipped_example(self) -> None:
        specs = load_specs(*spec_paths(ROOT / "topologies" / "two-host"))
        job = build_job(specs.job, specs.topology)
        assert [(r.group, r.channel, r.ranks) for r in job.rings] == [("dp0", 0, (0, 1))]
        assert [p.address for p in job.places] == ["10.0.0.1", "10.0.0.2"]
        assert (job.name, job.iteration_time, job.wire.mtu) == ("gpt-dp2", 0.5, 1024)
        assert job.wire.nccl.version == (2, 19, 3)
        assert job.wire.nccl.protocol is Protocol.LL

    def test_every_group_has_a_ring_on_every_channel_in_group_order(self) -> None:
        spec = a_job(["h0:m0", "h0:m1", "h1:m0", "h1:m1"], layout={"tp": 2}, nccl={"channels": 2})
        job = build_job(spec, a_topology(2, 2))
        assert [(r.group, r.channel, r.ranks) for r in job.rings] == [
            ("dp0", 0, (0, 2)),
            ("dp0", 1, (0, 2)),
            ("dp1", 0, (1, 3)),
            ("dp1", 1, (1, 3)),
        ]
        assert job.places[3].address == "10.1.1.1"

    def test_a_stated_ring_replaces_that_channel_only(self) -> None:
        ring = {"group": "dp0", "channel": 1, "order": (0, 2, 1), "qpns": ((17,), (18,), (19,))}
        job = build_job(a_job(["h0:m0", "h1:m0", "h2:m0"], rings=(ring,), nccl={"channels": 2}), a_topology(3))
        assert [(r.ranks, r.qpns) for r in job.rings] == [((0, 1, 2), ()), ((0, 2, 1), ((17,), (18,), (19,)))]

    def test_ranks_may_be_listed_in_any_order(self) -> None:
        spec = a_job(["h0:m0", "h1:m0"])
        turned = spec.model_copy(update={"ranks": spec.ranks[::-1]})
        assert build_job(turned, a_topology(2)) == build_job(spec, a_topology(2))

    def test_groups_inside_one_host_are_all_named(self) -> None:
        spec = a_job(["h0:m0", "h0:m1", "h1:m0", "h1:m1"], groups=((0, 1), (2, 3)))
        with pytest.raises(Infeasible) as caught:
            build_job(spec, a_topology(2, 2))
        assert "dp0 lies wholly in host h0" in caught.value.message
        assert "dp1 lies wholly in host h1" in caught.value.message
        assert caught.value.exit_code == 3

    def test_a_group_of_one_rank_has_no_all_reduce(self) -> None:
        with pytest.raises(Infeasible, match="dp1 is rank 2 alone"):
            build_job(a_job(["h0:m0", "h1:m0", "h2:m0"], groups=((0, 1), (2,))), a_topology(3))

    @pytest.mark.parametrize(
        ("version", "split", "adaptive"),
        [
            ("2.10.3", True, True),
            ("2.15.5", True, True),
            ("2.16.2", True, False),
            ("2.19.4", True, False),
            ("2.20.3", False, False),
            ("2.30.7", False, False),
        ],
    )
    def test_defaults_follow_the_version(self, version: str, split: bool, adaptive: bool) -> None:
        nccl = build_job(a_job(["h0:m0", "h1:m0"], nccl={"version": version}), a_topology(2)).wire.nccl
        assert (nccl.split_data_on_qps, nccl.adaptive_routing) == (split, adaptive)

    def test_what_is_stated_wins(self) -> None:
        stated = {"version": "2.20.5", "split_data_on_qps": True, "adaptive_routing": True, "qps_per_connection": 2}
        nccl = build_job(a_job(["h0:m0", "h1:m0"], nccl=stated), a_topology(2)).wire.nccl
        assert (nccl.split_data_on_qps, nccl.adaptive_routing, nccl.qps_per_connection) == (True, True, 2)

    def test_nccl_2_17_cannot_keep_a_message_on_one_of_several_queue_pairs(self) -> None:
        stated = {"version": "2.17.1", "split_data_on_qps": False, "qps_per_connection": 2}
        with pytest.raises(PlanError, match=r"NCCL 2\.17\.1 always cuts"):
            build_job(a_job(["h0:m0", "h1:m0"], nccl=stated), a_topology(2))

    def test_threads_with_which_chunks_would_overlap_are_refused(self) -> None:
        stated = {"protocol": "Simple", "threads": 544}
        with pytest.raises(PlanError, match=r"nccl\.threads 544"):
            build_job(a_job(["h0:m0", "h1:m0"], nccl=stated), a_topology(2))


class TestExpect:
    def job_of(self, *places: str, **changes: Any) -> Any:
        return build_job(a_job(list(places), **changes), a_topology(4, 2))

    def test_without_a_plan_every_hop_may_be_there(self) -> None:
        expectation = expect(self.job_of("h0:m0", "h1:m0"), None)
        assert not expectation.planned
        assert [(h.index, h.source, h.destination) for h in expectation.hops] == [
            (0, "10.0.0.1", "10.1.0.1"),
            (1, "10.1.0.1", "10.0.0.1"),
        ]
        assert [h.captures for h in expectation.hops] == [(), ()]
        assert [m.wire_bytes for m in expectation.hops[0].messages] == [15_424, 24_576]
        assert expectation.addresses == {"10.0.0.1", "10.1.0.1"}

    def test_planned_hops_carry_their_captures_and_copies(self) -> None:
        where = ((CapturePort("ckpt:cap0"),), 2)
        expectation = expect(self.job_of("h0:m0", "h1:m0"), {(GroupName("dp0"), Channel(0), 1): where})
        assert expectation.planned
        assert [(h.captures, h.copies) for h in expectation.hops] == [((), 0), (("ckpt:cap0",), 2)]

    def test_hops_inside_a_host_are_left_out(self) -> None:
        expectation = expect(self.job_of("h0:m0", "h0:m1", "h1:m0", "h1:m1"), None)
        assert [(h.index, h.src_rank, h.dst_rank) for h in expectation.hops] == [(1, 1, 2), (3, 3, 0)]
        assert {h.ring_size for h in expectation.hops} == {4}

    def test_queue_pairs_come_from_the_ring(self) -> None:
        ring = {"group": "dp0", "channel": 0, "order": (1, 0), "qpns": ((0x514,), (0xC99, 0xC9A))}
        expectation = expect(self.job_of("h0:m0", "h1:m0", rings=(ring,)), None)
        assert [(h.src_rank, h.qpns) for h in expectation.hops] == [(1, (0x514,)), (0, (0xC99, 0xC9A))]

    def test_a_hop_that_the_job_has_not_is_a_stale_plan(self) -> None:
        job = self.job_of("h0:m0", "h0:m1", "h1:m0")
        with pytest.raises(StalePlan, match="hop 0 of dp0 on channel 0"):
            expect(job, {(GroupName("dp0"), Channel(0), 0): ((), 1)})

    def test_equal_groups_share_their_messages(self) -> None:
        expectation = expect(self.job_of("h0:m0", "h0:m1", "h1:m0", "h1:m1", layout={"tp": 2}), None)
        first, _, third, _ = expectation.hops
        assert (first.group, third.group) == ("dp0", "dp1")
        assert first.messages is third.messages


class TestPlatforms:
    def test_fake(self) -> None:
        table = capabilities("fake")
        assert (table.max_sessions, table.max_sources_per_session, table.filters) == (4, 8, True)
        assert table.directions == {Direction.RX, Direction.TX}

    def test_ovs_filters_what_arrives_and_shares_sources(self) -> None:
        table = capabilities("ovs")
        assert (table.max_sessions, table.filters, table.source_in_many_sessions) == (32, True, True)
        assert table.filter_directions == {Direction.RX}
        assert table.directions == {Direction.RX, Direction.TX}

    @pytest.mark.parametrize("name", ["tofino9", "../fake", ""])
    def test_an_unknown_platform_lists_the_known_ones(self, name: str) -> None:
        with pytest.raises(PlanError, match="is not known") as caught:
            capabilities(name)
        assert "fake, junos-qfx, linux, nxos, ovs" in caught.value.hint

    @pytest.mark.parametrize("name", known_platforms())
    def test_every_number_has_a_source(self, name: str) -> None:
        table = load_yaml(ROOT / "flowcheck_net" / "model" / "platforms" / f"{name}.yaml")
        assert table["platform"] == name
        assert all(entry["source"].strip() for entry in table["capabilities"].values())
        assert capabilities(name).platform == name
