"""Open vSwitch for the tests of this folder: one lab a process, its bridges as new for each test."""

from collections.abc import Iterator

import pytest

from flowcheck_net.lab.build import missing
from tests.doubles import ovs_lab
from tests.netns.ovs_two_leaf import TwoLeaves


@pytest.fixture(scope="session")
def ovs_built() -> Iterator[TwoLeaves]:
    """Skips, with the reason, where there can be no lab."""
    if why := missing():
        pytest.skip(why)
    with ovs_lab.OvsLab() as lab:
        yield TwoLeaves.build(lab)


@pytest.fixture
def leaves(ovs_built: TwoLeaves) -> TwoLeaves:
    """Two leaves without mirrors."""
    ovs_built.reset()
    return ovs_built
