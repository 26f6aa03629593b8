"""Sums without laying out messages against the sums of the messages themselves."""

import pytest

from flowcheck_net.ids import Channel, GroupName, Rank
from flowcheck_net.model.job import Bucket, BucketKind, Dtype, Nccl, Protocol, Ring, Wire
from flowcheck_net.model.wire import hop_messages, hop_totals
from flowcheck_net.model.wire_totals import ring_totals

_BUCKETS = (
    Bucket("b0", 5000, Dtype.FP32),
    Bucket("b1", 150_001, Dtype.BF16),
    Bucket("b2", 77_777, Dtype.FP32, BucketKind.EXPERT),
)


def _wire(version: tuple[int, int, int], protocol: Protocol, *, extra: bool, qps: int, split: bool) -> Wire:
    nccl = Nccl(
        version=version,
        protocol=protocol,
        channels=2,
        threads=512,
        qps_per_connection=qps,
        split_data_on_qps=split,
        adaptive_routing=split,
        adaptive_routing_threshold=8192,
        extra_step=extra,
    )
    return Wire(nccl=nccl, mtu=1024, buckets=_BUCKETS, broadcasts=())


@pytest.mark.parametrize("version", [(2, 19, 3), (2, 21, 5), (2, 26, 2)])
@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize(("qps", "split"), [(1, False), (3, False), (4, True)])
def test_sums_are_those_of_the_messages(
    version: tuple[int, int, int], protocol: Protocol, extra: bool, qps: int, split: bool
) -> None:
    wire = _wire(version, protocol, extra=extra, qps=qps, split=split)
    for size in (2, 5):
        for channel in (0, 1):
            for carries in ((BucketKind.DENSE,), (BucketKind.DENSE, BucketKind.EXPERT), ()):
                ring = Ring(GroupName("g"), Channel(channel), tuple(Rank(n) for n in range(size)), carries=carries)
                for hop in range(size):
                    true = hop_totals(hop_messages(wire, size, channel, hop, carries))
                    found = ring_totals(wire, ring, hop)
                    assert (found.reduced, found.total) == (true.reduced, true.total)
