"""The HTML report and the command: self-contained, escaped, and the exit codes of the verdicts."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.layout import lay_out
from flowcheck_net.audit.report import render_html
from flowcheck_net.audit.result import AuditReport, report_to_dict
from flowcheck_net.audit.scene import Scene, State, arrows, point_states
from flowcheck_net.audit.svg import draw
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.cli.audit import command
from flowcheck_net.errors import CoverageGap, CoverageUnknown, Drift, FlowcheckError
from flowcheck_net.ids import Address, CapturePort, GroupName, HostName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Direction
from flowcheck_net.model.expect import Expectation, expect
from flowcheck_net.model.job import Job
from flowcheck_net.plan.plan import Picture, Point
from flowcheck_net.receive.records_json import records_to_json
from tests.doubles import audit_world as world

ROOT = Path(__file__).resolve().parents[2]


def scene(ranks: int = 2) -> tuple[Job, Scene]:
    """One leaf a 16 hosts, one checkpoint node, hop 0 watched where host1 sends."""
    job = world.job(ranks, [10_000])
    hosts = tuple(HostName(f"host{r + 1}") for r in range(ranks))
    leaf = [f"leaf{r // 16 + 1}" for r in range(ranks)]
    links = [(str(host), "mlx5_0", leaf[r], f"Ethernet{r}") for r, host in enumerate(hosts)]
    links += [("ckpt1", "cap0", "leaf1", "Ethernet99"), *((name, "Up", "spine1", name) for name in sorted(set(leaf)))]
    switches = tuple(SwitchName(name) for name in sorted({*leaf, "spine1"}))
    picture = Picture(switches, hosts, (NodeName("ckpt1"),), tuple(sorted(links)))
    point = Point(SwitchName("leaf1"), PortName("Ethernet0"), Direction.RX, CapturePort("ckpt1:cap0"))
    return job, Scene(picture, job.places, (point,), tuple((r.group, r.channel, 0, point.id) for r in job.rings))


def one_hop(job: Job, lost: frozenset[int] = frozenset()) -> AuditReport:
    expectation = world.planned(job, [0])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    wires[0, 0].lost = set(lost)
    return audit(expectation, world.records([wires[0, 0]]))


class Links(HTMLParser):
    """Collects everything that a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "img", "iframe", "object"):
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name in ("src", "href", "srcset") or name.startswith("on")]


def test_the_report_fetches_nothing_and_says_everything() -> None:
    job, drawn = scene()
    report = one_hop(job)
    text = render_html(report, drawn)
    links = Links()
    links.feed(text)
    assert links.found == []
    assert "@import" not in text
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    assert '<div class="word">GAP</div>' in text
    assert "is carried fully reduced only by hop dp0/0/1 (1-&gt;0), not observed" in text
    assert "leaf1:Ethernet0:rx" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_names_are_escaped() -> None:
    job, drawn = scene()
    evil = '<script>alert(1)</script>&"'
    report = replace(one_hop(job), job=evil, warnings=(evil,), sources=(evil,))
    hosts = (HostName(evil), HostName("host2"))
    links = tuple((evil if a == "host1" else a, b, c, d) for a, b, c, d in drawn.picture.links)
    places = tuple(replace(p, host=HostName(evil)) if p.rank == 0 else p for p in drawn.places)
    text = render_html(report, replace(drawn, picture=replace(drawn.picture, hosts=hosts, links=links), places=places))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 4


def test_the_drawing_is_well_formed_and_shows_covered_missing_and_unwatched() -> None:
    job, drawn = scene(3)
    report = one_hop(job)
    root = ElementTree.fromstring(draw(report, drawn))
    kinds = [e.get("class", "") for e in root.iter("path") if "hop" in e.get("class", "")]
    assert sorted(kinds) == ["hop off", "hop off", "hop ok"]
    words = [e.text for e in root.iter("text")]
    assert {"host1", "host2", "host3", "leaf1", "ckpt1", "cap0", "Ethernet0", "rx to cap0", "0→1"} <= set(words)
    broken = one_hop(job, frozenset({3, 4}))
    total = sum(m.packets for m in world.planned(job, [0]).hops[0].messages)
    home = {str(host): str(host) for host in drawn.picture.hosts}
    assert [(a.label, a.state, a.detail) for a in arrows(broken, drawn.places, home)] == [
        ("0→1", State.MISSING, f"2 of {total} missing"),
        ("1→2", State.UNOBSERVED, "not watched"),
        ("2→0", State.UNOBSERVED, "not watched"),
    ]
    assert point_states(broken, drawn) == {"leaf1:Ethernet0:rx": (State.MISSING, ("dp0/0/0 (0->1)",))}
    assert 'class="hop bad"' in draw(broken, drawn)


def test_boxes_never_overlap_and_stay_inside() -> None:
    for ranks in (2, 5, 40, 41, 200):
        _, drawn = scene(ranks)
        layout = lay_out(drawn.picture)
        rows: dict[float, list[float]] = {}
        for box in layout.boxes:
            rows.setdefault(box.y, []).append(box.x)
            assert 60 <= box.x <= layout.width - 60, box
        for xs in rows.values():
            xs.sort()
            assert all(b - a >= 132 for a, b in pairwise(xs))
        joined = [box.text for box in layout.boxes if box.kind == "hosts"]
        assert bool(joined) == (ranks > 40)
        assert sum(int(text.split()[0]) for text in joined) == (ranks if joined else 0)


def test_a_fabric_of_switches_only_and_a_report_of_nothing_can_be_drawn() -> None:
    job, drawn = scene()
    empty = audit(world.planned(job, [0]), world.records([]))
    bare = Scene(Picture((SwitchName("s1"),), (), (), ()), job.places)
    assert '<div class="word">UNKNOWN</div>' in render_html(empty, drawn)
    ElementTree.fromstring(draw(empty, bare))


def test_the_same_report_is_the_same_text() -> None:
    job, drawn = scene(5)
    assert render_html(one_hop(job), drawn) == render_html(one_hop(job), drawn)


def test_json_holds_the_whole_report() -> None:
    job, _ = scene()
    value = json.loads(json.dumps(report_to_dict(one_hop(job))))
    assert value["version"] == 1
    assert value["verdict"] == "GAP"
    hop = value["rings"][0]["hops"][0]
    assert (hop["label"], hop["complete"], hop["expected"]["packets"]) == (
        "dp0/0/0 (0->1)",
        True,
        hop["seen"]["packets"],
    )


# The command, on the shipped two-host example without a plan (its job: 2 ranks, LL, 1 channel).


@pytest.fixture
def example() -> tuple[Path, Expectation]:
    directory = ROOT / "topologies" / "two-host"
    from flowcheck_net.model.build import build_job
    from flowcheck_net.spec.load import load_specs, spec_paths

    specs = load_specs(*spec_paths(directory))
    return directory, expect(build_job(specs.job, specs.topology), None)


def audited(tmp_path: Path, found, *words: str):
    records = tmp_path / "records.json"
    records.write_text(records_to_json(found))
    return CliRunner().invoke(command, [str(records), *words])


def both_ways(expectation):
    wires = world.lines(expectation)
    for number in range(2):
        world.iterate(expectation, wires, number * world.SECOND)
    return wires


def test_exit_codes(tmp_path: Path, example) -> None:
    directory, expectation = example
    wires = both_ways(expectation)
    cases: list[tuple[object, type[FlowcheckError] | None]] = [
        (world.records(wires.values()), None),
        (world.records(list(wires.values())[:1]), CoverageGap),
        (world.records([*wires.values(), _foreign()]), Drift),
        (world.records([]), CoverageUnknown),
    ]
    for found, wanted in cases:
        result = audited(tmp_path, found, str(directory))
        assert (type(result.exception) if result.exception else None) is wanted, result.output
        sentence = "no iteration was found" if wanted is CoverageUnknown else "iterations are publishable"
        assert sentence in result.output


def _foreign() -> world.Line:
    line = world.Line(Address("192.0.2.1"), Address("192.0.2.2"), 9)
    line.send(4096, 0)
    return line


def test_json_and_html_come_before_the_error(tmp_path: Path, example) -> None:
    directory, expectation = example
    wires = both_ways(expectation)
    html = tmp_path / "report.html"
    found = world.records(list(wires.values())[:1])
    result = audited(tmp_path, found, str(directory), "--json", "--html", str(html))
    assert isinstance(result.exception, CoverageGap)
    assert json.loads(result.output)["verdict"] == "GAP"
    assert "host1" in html.read_text()


def test_usage(tmp_path: Path, example) -> None:
    directory, expectation = example
    found = world.records(both_ways(expectation).values())
    assert audited(tmp_path, found).exit_code == 2
    assert audited(tmp_path, found, str(directory), "--plan", str(directory / "job.yaml")).exit_code == 2
    apart = audited(
        tmp_path, found, "--topology", str(directory / "topology.yaml"), "--job", str(directory / "job.yaml")
    )
    assert apart.exception is None
    assert Verdict.COVERED.value in apart.output
    assert GroupName("dp0") in apart.output
