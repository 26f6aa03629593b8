"""NIC and host names: from the log, from addresses, from the topology; what does not fit is refused."""

import pytest

from flowcheck_net.importers.nccl_nics import NameChoice
from flowcheck_net.importers.nccl_wire import BucketChoice, WireChoice
from flowcheck_net.spec.load import load_topology
from tests.doubles.nccl_reading import HOSTS, document, job, log_of, refusal

CHOICE_WITH_MTU = WireChoice("ring", "LL", mtu=1024, buckets=(BucketChoice(1000, "fp32"),), iteration_time=0.5)


def topology(tmp_path, hosts=HOSTS, nics=("mlx5_0", "mlx5_1"), address="10.{h}.{n}.1"):
    """One leaf, every NIC on it."""
    ends = [(host, nic, address.format(h=h, n=n)) for h, host in enumerate(hosts) for n, nic in enumerate(nics)]
    lines = ["version: 1", "name: t", "switches:", "  - name: leaf", "    platform: fake", "    management: fake:leaf"]
    lines += ["    ports:"] + [f"      - {{name: e{i}, speed: 100G}}" for i in range(len(ends) + 1)]
    lines += ["hosts:"]
    for host in hosts:
        lines += [f"  - name: {host}", "    nics:"]
        lines += [f"      - {{name: {nic}, speed: 100G, addresses: [{at}]}}" for name, nic, at in ends if name == host]
    lines += [
        "checkpoint_nodes:",
        "  - {name: c, nics: [{name: cap, speed: 100G}]}",
        "links:",
        "  - ['c:cap', 'leaf:e0']",
    ]
    lines += [f"  - ['{host}:{nic}', 'leaf:e{i}']" for i, (host, nic, _) in enumerate(ends, start=1)]
    (tmp_path / "topology.yaml").write_text("\n".join(lines) + "\n")
    return load_topology(tmp_path / "topology.yaml")


def nics(log, choice) -> list[str]:
    return [rank["nic"] for rank in document(log, names=choice).tree["ranks"]]


def test_names_of_the_log_are_names_of_the_topology(tmp_path):
    assert nics(log_of(job().text()), NameChoice(topology(tmp_path))) == ["mlx5_0", "mlx5_1"] * 3


def test_a_nic_is_found_by_its_address_where_its_name_is_another(tmp_path):
    """The writer's GIDs are 10.HOST.NIC.1; the topology calls these NICs otherwise and in the other order."""
    fabric = topology(tmp_path, nics=("rail1", "rail0"), address="10.{h}.{n}.1")
    assert nics(log_of(job().text()), NameChoice(fabric)) == ["rail1", "rail0"] * 3


def test_a_name_and_an_address_that_differ_are_refused(tmp_path):
    fabric = topology(tmp_path, nics=("mlx5_1", "mlx5_0"))
    words = refusal(log_of(job().text()), names=NameChoice(fabric))
    assert "nic-contradicts: NIC 0 of node-a is mlx5_0, but its address is that of mlx5_1" in words


def test_a_nic_that_the_topology_lacks_is_refused(tmp_path):
    fabric = topology(tmp_path, nics=("eth0", "eth1"), address="10.99.{h}.{n}")
    words = refusal(log_of(job().text()), names=NameChoice(fabric))
    assert "nic-unknown: host node-a has no NIC 'mlx5_0' in the topology (NIC 0 of the log)" in words
    assert nics(log_of(job().text()), NameChoice(fabric, nics={0: "eth0", 1: "eth1"})) == ["eth0", "eth1"] * 3


def test_numbers_without_names_count_the_topology(tmp_path):
    log = log_of(job(network="AWS Libfabric").text())
    made = document(log, names=NameChoice(topology(tmp_path, nics=("a", "b"))), choice=CHOICE_WITH_MTU)
    assert [rank["nic"] for rank in made.tree["ranks"]] == ["a", "b"] * 3
    assert any("in the order of the topology" in finding.words for finding in made.findings)
    words = refusal(log, names=NameChoice(topology(tmp_path, nics=("a",))), choice=CHOICE_WITH_MTU)
    assert "nic-unknown: host node-a has 1 NICs in the topology, but the log uses NIC 1" in words


def test_hosts_are_found_by_their_first_label_or_by_name(tmp_path):
    fabric = topology(tmp_path, hosts=[f"{host}.example.net" for host in HOSTS])
    tree = document(log_of(job().text()), names=NameChoice(fabric)).tree
    assert [rank["host"] for rank in tree["ranks"][::2]] == [f"{host}.example.net" for host in HOSTS]
    other = topology(tmp_path, hosts=("x", "y", "z"))
    assert "host-unknown: there is no host 'node-a' in the topology" in refusal(
        log_of(job().text()), names=NameChoice(other)
    )
    tree = document(log_of(job().text()), names=NameChoice(other, dict(zip(HOSTS, "xyz", strict=True)))).tree
    assert [rank["host"] for rank in tree["ranks"][::2]] == ["x", "y", "z"]


def test_a_merged_nic_is_refused():
    text = job(version=(2, 21, 5)).text()
    text = text.replace(
        "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE", "[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE"
    )
    words = refusal(log_of(text))
    assert "nic-merged: NIC 0 of node-a is mlx5_0+mlx5_1, merged by NCCL" in words


@pytest.mark.parametrize(
    ("network", "links", "words"),
    [
        ("IB", "RoCE", ""),
        ("IB", "IB", "the NICs are InfiniBand"),
        ("Socket", "", "the network is Socket (TCP)"),
        ("AWS Libfabric", "", "AWS Libfabric (EFA sends SRD packets)"),
        ("IBext_v8", "", "IBext_v8 (a plug-in whose packets are not known)"),
    ],
)
def test_what_is_not_rocev2_is_said(network, links, words):
    text = job(network=network).text().replace("/RoCE", f"/{links}")
    found = {one.name: one.words for one in document(log_of(text), choice=CHOICE_WITH_MTU).findings}
    assert words in found.get("not-rocev2", "")
    assert ("not-rocev2" in found) is bool(words)


def test_a_rank_without_network_hops_gets_a_nic_of_its_host():
    """Three GPUs a host in a row: the middle one only talks to its neighbours."""
    made = document(log_of(job(gpus=3, rings=[list(range(9))]).text()))
    assert [rank["nic"] for rank in made.tree["ranks"]][:3] == ["mlx5_0", "mlx5_2", "mlx5_2"]
    assert [f.words for f in made.findings if f.name == "nic-placeholder"] == [
        f"rank {rank} on {host} has no network hop: its nic is another rank's of that host"
        for rank, host in zip((1, 4, 7), HOSTS, strict=True)
    ]


def test_the_nic_of_a_rank_is_the_one_it_sends_with_most():
    """Channel 0 goes through NIC 0, channels 1 and 2 through NIC 1: the first ring has to name its NICs."""
    made = job(rings=[list(range(6))] * 3, nic=lambda local, channel, way: min(channel, 1))
    tree = document(log_of(made.text())).tree
    assert {rank["nic"] for rank in tree["ranks"]} == {"mlx5_1"}
    assert tree["rings"][0]["nics"] == [[], ["mlx5_0", "mlx5_0"]] * 3
    assert "nics" not in tree["rings"][1]
