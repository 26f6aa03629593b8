"""NCCL logs of made-up jobs: what comes out is what the log's writer was given, in any order of lines."""

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.cli.import_nccl import nccl
from flowcheck_net.errors import FlowcheckError, SpecError
from tests.doubles.nccl_reading import HOSTS, document, job, log_of

STATED = ("--bucket", "1000000:fp32", "--iteration-time", "0.5", "--algorithm", "ring", "--protocol", "LL")


def run(tmp_path: Path, text: str, *options: str) -> Result:
    path = tmp_path / "nccl.log"
    path.write_text(text)
    return CliRunner().invoke(nccl, [str(path), *options])


VERSIONS = [(2, 10, 3), (2, 12, 12), (2, 18, 3), (2, 19, 3), (2, 21, 5), (2, 23, 4), (2, 24, 3), (2, 28, 3), (2, 30, 7)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_writer_was_given_comes_out(version):
    made = job(version=version, comm_id="0xabc" if version >= (2, 16, 0) else "")
    tree = document(log_of(made.text())).tree
    assert tree["nccl"] == {
        "version": ".".join(map(str, version)),
        "protocol": "LL",
        "channels": 2,
        "threads": 512,
        "qps_per_connection": 1,
    }
    assert tree["mtu"] == 1024  # the writer's enum 3
    assert tree["groups"] == [[0, 1, 2, 3, 4, 5]]
    assert tree["ranks"] == [{"rank": r, "host": HOSTS[r // 2], "nic": f"mlx5_{r % 2}"} for r in range(6)]
    # Every rank sends and receives with its own NIC, so that no ring needs `nics`; hop 1 -> 2 is cross-rail.
    assert tree["rings"] == [
        {"group": "dp0", "channel": 0, "order": [0, 1, 2, 3, 4, 5]},
        {"group": "dp0", "channel": 1, "order": [0, 3, 2, 5, 4, 1]},
    ]


def test_the_two_ends_of_a_hop_are_read_from_the_two_logs():
    def nic(local, channel, way):
        return 1 - local if way == "receive" and channel == 1 else local

    tree = document(log_of(job(nic=nic).text())).tree
    assert "nics" not in tree["rings"][0]
    # channel 1 is 0 3 2 5 4 1: senders 0, 2, 4 use NIC 0, receivers 3, 5, 1 (each GPU 1) use NIC 1 - 1 = 0
    assert tree["rings"][1]["nics"] == [["mlx5_0", "mlx5_0"], [], ["mlx5_0", "mlx5_0"], [], ["mlx5_0", "mlx5_0"], []]


def test_connections_may_be_made_after_the_start():
    world = job(version=(2, 24, 3), lazy=True)
    assert document(log_of(world.text())) == document(log_of(job(version=(2, 24, 3)).text()))
    # Rank 0 of both communicators is one process: its loose lines are told apart by channel and ranks.
    dense = job(version=(2, 24, 3), lazy=True, comm_id="0xbb", ranks=[1, 3, 5], tid=2, rings=[[0, 2, 1]])
    assert [ring["order"] for ring in document(log_of(world.text(), dense.text()), size=3).tree["rings"]] == [[0, 2, 1]]


@settings(max_examples=40)
@given(data=st.data())
def test_the_order_of_lines_does_not_matter(data):
    made = job(nic=lambda local, channel, way: (local + channel) % 2)
    lines = made.text().splitlines()
    shuffled = data.draw(st.permutations(lines))
    assert document(log_of("\n".join(shuffled))) == document(log_of("\n".join(lines)))


@settings(max_examples=30)
@given(data=st.data())
def test_lines_of_many_ranks_and_communicators_interleave(data):
    """Two communicators in one process: each rank's own lines keep their order, as one process writes them."""
    world = job(comm_id="0xaa")
    dense = job(comm_id="0xbb", ranks=[0, 2, 4], tid=2, rings=[[0, 2, 1], [0, 1, 2]])
    streams = [world.lines(r) for r in range(6)]
    for k, r in enumerate((0, 2, 4)):
        streams[r] = streams[r] + dense.lines(k)
    mixed = []
    order = data.draw(st.permutations([i for i, lines in enumerate(streams) for _ in lines]))
    left = [iter(lines) for lines in streams]
    mixed = [next(left[i]) for i in order]
    tree = document(log_of("\n".join(mixed)), ids=("0xbb",)).tree
    assert [r["order"] for r in tree["rings"]] == [[0, 2, 1], [0, 1, 2]]
    assert [r["host"] for r in tree["ranks"]] == list(HOSTS)


def test_several_files_are_one_log(tmp_path):
    made = job()
    paths = []
    for rank in range(made.size):
        paths.append(tmp_path / f"nccl.{rank}.log")
        paths[-1].write_text("\n".join(made.lines(rank)) + "\n")
    out = tmp_path / "job.yaml"
    result = CliRunner().invoke(nccl, [*map(str, paths), *STATED, "-o", str(out)])
    assert result.exit_code == 0, result.output
    whole = tmp_path / "whole.log"
    whole.write_text(made.text())
    other = CliRunner().invoke(nccl, [str(whole), *STATED])
    body = [line for line in out.read_text().splitlines() if not line.startswith("#")]
    assert body == [line for line in other.stdout.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    "prefix", ["[1,0]<stdout>:", "3: ", "[2026-01-02 03:04:05] ", "2026-01-02T03:04:05.123 ", "[rank3]: "]
)
def test_what_launchers_write_before_a_line_is_passed_over(prefix):
    plain = document(log_of(job().text()))
    assert document(log_of(job(prefix=prefix).text())) == plain


def test_the_command_writes_and_never_overwrites(tmp_path):
    out = tmp_path / "job.yaml"
    result = run(tmp_path, job().text(), *STATED, "-o", str(out), "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["job"]["groups"] == [[0, 1, 2, 3, 4, 5]]
    assert said["facts"]["groups"][0]["trees"][0]["parents"] == [-1, 0, 1, 2, 3, 4]
    again = run(tmp_path, job().text(), *STATED, "-o", str(out))
    assert isinstance(again.exception, FlowcheckError)
    assert run(tmp_path, job().text(), *STATED, "-o", str(out), "--force").exit_code == 0


def test_facts_need_no_options(tmp_path):
    result = run(tmp_path, job().text(), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["job"] is None


@pytest.mark.parametrize(
    "options",
    [
        ["--bucket", "5"],
        ["--bucket", "0:fp32"],
        ["--bucket", "5:int8"],
        ["--nic", "x=y"],
        ["--nic", "1"],
        ["--nccl-version", "2.1"],
        ["--mtu", "1500"],
        ["--host", "=x"],
    ],
)
def test_options_that_cannot_be(tmp_path, options):
    assert run(tmp_path, job().text(), *STATED, *options).exit_code == 2


def test_files_that_are_no_logs(tmp_path):
    for text in ("", "hello\n", "\x00\xff\n" * 100):
        result = run(tmp_path, text)
        assert isinstance(result.exception, SpecError), text
    missing = CliRunner().invoke(nccl, [str(tmp_path / "none.log")])
    assert isinstance(missing.exception, SpecError)


@settings(max_examples=80)
@given(data=st.data())
def test_damaged_logs_are_read_or_refused(data):
    """Lines dropped, cut, joined and with other numbers in them: the same job or a refusal, never another ring."""
    lines = TEXT.splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "cut", "join", "number", "byte"]))
        line = lines[at]
        if kind == "drop":
            lines[at] = ""
        elif kind == "cut":
            lines[at] = line[: data.draw(st.integers(0, len(line)))]
        elif kind == "join":
            lines[at] = line + lines[(at + 1) % len(lines)]
        elif kind == "number":
            digits = [i for i, char in enumerate(line) if char.isdigit()]
            if digits:
                i = data.draw(st.sampled_from(digits))
                lines[at] = line[:i] + data.draw(st.sampled_from("0123456789")) + line[i + 1 :]
        else:
            i = data.draw(st.integers(0, len(line)))
            lines[at] = line[:i] + data.draw(st.characters()) + line[i:]
    try:
        tree = document(log_of(*lines)).tree
    except SpecError:
        return
    for ring, order in zip(tree["rings"], ([0, 1, 2, 3, 4, 5], [0, 3, 2, 5, 4, 1]), strict=False):
        assert sorted(ring["order"]) == sorted(order)
        if len(tree["ranks"]) == 6 and [r["host"] for r in tree["ranks"]] == [HOSTS[r // 2] for r in range(6)]:
            assert ring["order"] == order


TEXT = job().text()


@settings(max_examples=100)
@given(st.text(max_size=300), st.sampled_from(["h:1:2 [0] NCCL INFO ", "", "NCCL INFO "]))
def test_any_text_is_read_or_refused(text, head):
    with contextlib.suppress(SpecError):
        document(log_of("NCCL version 2.19.3+cuda12.0", *(head + line for line in text.splitlines())))


def test_what_no_job_file_may_hold_is_never_written(tmp_path):
    out = tmp_path / "job.yaml"
    for wrong in (["--name", "Not A Name"], ["--threads", "100"], ["--threads", "640"]):
        result = run(tmp_path, job().text(), *STATED, *wrong, "-o", str(out))
        assert isinstance(result.exception, SpecError), wrong
    assert not out.exists()
