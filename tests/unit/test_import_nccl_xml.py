"""NCCL's XML files: nearest NICs and the ends of channels; anything that is not such a file is refused."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.cli.import_nccl import nccl_xml
from flowcheck_net.errors import SpecError
from flowcheck_net.importers.nccl_graph_xml import graphs
from flowcheck_net.importers.nccl_topology_xml import affinities, bus_key
from flowcheck_net.importers.nccl_xml import parse_xml, read_xml

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "nccl"
samples = pytest.mark.skipif(not SAMPLES.exists(), reason="the real NCCL files are in /work/shared/samples only")


def nearest(text: str) -> dict[str, tuple[list[str], str | None]]:
    found = affinities(parse_xml(text.encode(), "x.xml"), "x.xml")
    return {one.gpu.label: ([nic.label for nic in one.nics], one.path.name if one.path else None) for one in found}


def of_file(name: str) -> dict[str, tuple[list[str], str | None]]:
    return nearest((SAMPLES / name).read_text())


@samples
def test_p4d_has_two_gpus_and_a_nic_on_each_switch():
    """By eye: under switch N there are `N0:1c`, `N0:1d` (GPUs) and `N0:1b` (the NIC)."""
    wanted = {
        f"0000:{bus}:{gpu}.0": ([f"0000:{bus}:1b.0"], "PIX") for bus in ("10", "20", "90", "a0") for gpu in ("1c", "1d")
    }
    assert of_file("p4d-24xl-topo.xml") == wanted


@samples
def test_ndv4_has_two_gpus_and_two_nics_on_each_switch():
    """By eye: the switches hold GPUs 3, 4 with NICs 103, 104; then 1, 2; then d, e with 107, 108; then b, c."""
    pairs = [
        ("0003", "0004", "0103", "0104"),
        ("0001", "0002", "0101", "0102"),
        ("000d", "000e", "0107", "0108"),
        ("000b", "000c", "0105", "0106"),
    ]
    assert of_file("ndv4-topo.xml") == {
        f"{gpu}:00:00.0": ([f"{a}:00:00.0", f"{b}:00:00.0"], "PIX")
        for first, second, a, b in pairs
        for gpu in (first, second)
    }


@samples
def test_ncv4_has_one_nic_on_the_first_cpu():
    found = of_file("ncv4-topo.xml")
    assert [(nics, path) for nics, path in found.values()] == [(["eth0"], "PHB")] + [(["eth0"], "SYS")] * 3
    gpus = [one.gpu for one in affinities(read_xml(SAMPLES / "ncv4-topo.xml"), "")]
    assert [(gpu.number, gpu.rank) for gpu in gpus] == [(n, n) for n in range(4)]


@samples
def test_ncv4_graph():
    """One host's graph: no channel leaves it. Counted by `grep -c '<channel>'`: 10."""
    found = graphs(read_xml(SAMPLES / "ncv4-graph.xml"), "x")
    assert [(graph.name, len(graph.channels)) for graph in found] == [("ring", 2), ("tree", 4), ("collnet chain", 4)]
    assert sum(len(graph.channels) for graph in found) == (SAMPLES / "ncv4-graph.xml").read_text().count("<channel>")
    assert [channel.gpus for channel in found[0].channels] == [(0, 1, 2, 3), (0, 3, 2, 1)]
    assert {(c.receive_nic, c.send_nic) for graph in found for c in graph.channels} == {(None, None)}


GPU = '<pci busid="{0}" class="0x030200"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>'
NIC = '<pci busid="{0}" class="0x020000"><nic><net name="{1}" dev="0"/></nic></pci>'


def bridge(bus: str, *inside: str) -> str:
    return f'<pci busid="{bus}" class="0x060400">{"".join(inside)}</pci>'


def system(*cpus: str) -> str:
    body = "".join(f'<cpu numaid="{n}">{cpu}</cpu>' for n, cpu in enumerate(cpus))
    return f'<system version="1">{body}</system>'


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (system(bridge("s", GPU.format("g"), NIC.format("n", "a"))), "PIX"),
        (system(bridge("s", bridge("t", GPU.format("g")), NIC.format("n", "a"))), "PXB"),
        (system(bridge("s", bridge("t", GPU.format("g")), bridge("u", NIC.format("n", "a")))), "PXB"),
        (system(bridge("s", GPU.format("g")) + bridge("t", NIC.format("n", "a"))), "PHB"),
        (system(GPU.format("g") + NIC.format("n", "a")), "PHB"),
        (system(GPU.format("g"), NIC.format("n", "a")), "SYS"),
    ],
)
def test_path_types(text, path):
    assert nearest(text) == {"g": (["a"], path)}


def test_the_nearest_of_several_is_chosen_and_equals_are_kept():
    near = bridge("s", GPU.format("g"), NIC.format("n1", "a"), NIC.format("n2", "b"))
    assert nearest(system(near + NIC.format("n3", "c"), NIC.format("n4", "d"))) == {"g": (["a", "b"], "PIX")}


def test_a_host_without_nics_has_no_nearest():
    assert nearest(system(GPU.format("g"))) == {"g": ([], None)}


def test_nics_of_another_host_are_not_near():
    here, there = GPU.format("g"), NIC.format("n", "a")
    text = f'<system><cpu host_hash="0x1">{here}</cpu><cpu host_hash="0x2">{there}</cpu></system>'
    assert nearest(text) == {"g": ([], None)}


def test_a_channel_enters_by_its_first_nic_and_leaves_by_its_last():
    channel = '<channel><net dev="3"/><gpu dev="0"/><gpu dev="2"/><gpu dev="1"/><net dev="0x5"/></channel>'
    text = f'<graphs version="1"><graph id="0" pattern="4" crossnic="1" nchannels="1">{channel}</graph></graphs>'
    (graph,) = graphs(parse_xml(text.encode(), "x"), "x")
    assert (graph.name, graph.pattern, graph.cross_nic) == ("ring", "ring", True)
    (found,) = graph.channels
    assert (found.receive_nic, found.gpus, found.send_nic) == (3, (0, 2, 1), 5)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ('<channel><gpu dev="0"/><net dev="1"/><gpu dev="1"/></channel>', "a channel is GPUs with a number"),
        ('<channel><gpu dev="0"/><gpu dev="0"/></channel>', "a GPU stands twice"),
        ("<channel/>", "a channel is GPUs with a number"),
        ('<channel><net dev="1"/></channel>', "a channel is GPUs with a number"),
        ('<channel><gpu dev="x"/></channel>', "a channel is GPUs with a number"),
        ("", "has 0 channels, but says 1"),
    ],
)
def test_broken_channels_are_refused(channel, words):
    text = f'<graphs>\n<graph id="0" pattern="4" nchannels="1">{channel}</graph></graphs>'
    with pytest.raises(SpecError, match=words) as error:
        graphs(parse_xml(text.encode(), "x.xml"), "x.xml")
    assert error.value.problems[0].line == 2


LAUGHS = (
    '<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">]>'
    "<system>&lol2;</system>"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "a document type is refused"),
        ('<!DOCTYPE system SYSTEM "http://127.0.0.1/x.dtd"><system/>', "a document type is refused"),
        ('<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>', "a document type is refused"),
        ("<a>" * 100 + "</a>" * 100, "more than 64 elements deep"),
        ("<system>", "not XML"),
        ("", "not XML"),
        ("hello", "not XML"),
        ("<system>&undefined;</system>", "not XML"),
    ],
)
def test_traps_and_rubbish_are_refused(text, words):
    with pytest.raises(SpecError, match=words):
        parse_xml(text.encode(), "x.xml")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    try:
        root = parse_xml(data, "x")
    except SpecError:
        return
    for reader in (affinities, graphs):
        with pytest.raises(SpecError):
            reader(root, "x")


def test_large_files_and_missing_ones_are_refused(tmp_path):
    large = tmp_path / "large.xml"
    large.write_bytes(b"<system>" + b" " * (16 * 1024 * 1024))
    for path in (large, tmp_path / "none.xml"):
        with pytest.raises(SpecError):
            read_xml(path)


def test_bus_ids_are_compared_as_the_log_writes_them():
    assert bus_key("0000:10:1c.0") == bus_key("101c0") == 0x101C0
    assert bus_key("") == bus_key("net") == -1


def test_the_command(tmp_path):
    (tmp_path / "t.xml").write_text(system(bridge("s", GPU.format("g"), NIC.format("n", "mlx5_0"))))
    (tmp_path / "g.xml").write_text(
        '<graphs><graph id="0" pattern="4"><channel><net dev="1"/><gpu dev="0"/><net dev="2"/></channel></graph>'
        "</graphs>"
    )
    files = [str(tmp_path / "t.xml"), str(tmp_path / "g.xml")]
    shown = CliRunner().invoke(nccl_xml, files)
    assert shown.exit_code == 0
    assert "mlx5_0" in shown.stdout
    said = json.loads(CliRunner().invoke(nccl_xml, [*files, "--json"]).stdout)["files"]
    assert said[0]["gpus"][0] == {
        "bus_id": "g", "dev": 0, "rank": 0, "host_hash": None, "path": "PIX",
        "nics": [{"name": "mlx5_0", "bus_id": "n", "dev": 0}],
    }  # fmt: skip
    assert said[1]["graphs"][0]["channels"] == [{"gpus": [0], "receive_nic": 1, "send_nic": 2}]
    wrong = tmp_path / "w.xml"
    wrong.write_text("<other/>")
    assert isinstance(CliRunner().invoke(nccl_xml, [str(wrong)]).exception, SpecError)
