"""Slurm's host lists and groups beside a topology."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.slurm import expand_hostlist, read_slurm
from flowcheck_net.importers.slurm_compare import compare
from flowcheck_net.spec.load import load_topology

TOPOLOGY = """\
version: 1
name: t
switches:
  - {name: leaf1, platform: fake, management: "fake:leaf1", ports: [{name: e1, speed: 100G}, {name: e2, speed: 100G}]}
  - {name: leaf2, platform: fake, management: "fake:leaf2", ports: [{name: e1, speed: 100G}, {name: e9, speed: 100G}]}
hosts:
  - {name: n1, nics: [{name: m0, speed: 100G, addresses: [10.0.0.1]}]}
  - {name: n2, nics: [{name: m0, speed: 100G, addresses: [10.0.0.2]}]}
  - {name: n3, nics: [{name: m0, speed: 100G, addresses: [10.0.0.3]}]}
checkpoint_nodes:
  - {name: c1, nics: [{name: cap0, speed: 100G}]}
links:
  - [n1:m0, leaf1:e1]
  - [n2:m0, leaf1:e2]
  - [n3:m0, leaf2:e1]
  - [c1:cap0, leaf2:e9]
"""


@pytest.fixture
def hints(tmp_path):
    """The hints of a topology.conf beside the topology above."""
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)

    def run(conf):
        (tmp_path / "topology.conf").write_text(conf)
        switches = read_slurm((tmp_path / "topology.conf",))
        return [hint.message for hint in compare(switches, load_topology(tmp_path / "topology.yaml"))]

    return run


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,7]", ["n08", "n09", "n10", "n11", "n7"]),
        ("a,b[1,3]x,c", ["a", "b1x", "b3x", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_host_lists(text, names):
    assert list(expand_hostlist(text)) == names


@given(st.integers(0, 200), st.integers(0, 60), st.integers(1, 5))
def test_a_range_is_every_number_of_it(low, more, width):
    expected = [f"n{str(n).zfill(width)}" for n in range(low, low + more + 1)]
    assert list(expand_hostlist(f"n[{str(low).zfill(width)}-{low + more}]")) == expected


@pytest.mark.parametrize(
    "text", ["n[1", "n1]", "n[3-1]", "n[a-b]", "n[]", "a,,b", "n[1-99999999]", "n[1-[2]]", "n[1-1000][1-1001]"]
)
def test_bad_host_lists(text):
    with pytest.raises(ValueError, match=r"host list|range"):
        expand_hostlist(text)


def test_no_difference(hints):
    assert hints("SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n3\nSwitchName=s3 Switches=s[1-2]\n") == []


def test_a_group_that_shares_no_switch(hints):
    (message,) = hints("SwitchName=s1 Nodes=n[1-3]\n")
    assert message == "the nodes of s1 share no switch in the topology (n1: leaf1; n2: leaf1; n3: leaf2)"


def test_a_group_of_two_that_shares_no_switch(hints):
    assert hints("SwitchName=s1 Nodes=n[2-3]\nSwitchName=s2 Nodes=n1\n") == [
        "the nodes of s1 share no switch in the topology (n2: leaf1; n3: leaf2)"
    ]


def test_two_groups_on_one_switch(hints):
    (message,) = hints("SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\nSwitchName=s3 Nodes=n3\n")
    assert message == "the nodes of s1 and of s2 hang on the same switches (leaf1)"


def test_nodes_that_only_one_of_them_has(hints):
    found = hints("SwitchName=s1 Nodes=n[1-2],n9\n")
    assert found == [
        "1 hosts of the topology are on no Slurm switch: n3",
        "1 nodes of s1 are no hosts of the topology: n9",
    ]


def test_comments_and_continued_lines(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text("# a comment\nSwitchName=s1 \\\n  Nodes=n1 # more\n\nswitchname=s2 nodes=n2 LinkSpeed=9\n")
    assert [(s.name, s.nodes, s.source.line) for s in read_slurm((path,))] == [("s1", ("n1",), 2), ("s2", ("n2",), 5)]


def test_every_problem_of_a_file(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=s1 Nodes=n1\nBlockName=b1 Nodes=n1\nSwitchName=s1 Nodes=n2\nSwitchName=s2 Nodes=n[\n")
    with pytest.raises(SpecError) as caught:
        read_slurm((path,))
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]


def test_a_file_without_switches(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text("# nothing\n")
    with pytest.raises(SpecError, match="no SwitchName line"):
        read_slurm((path,))
