"""``flowcheck-net records`` and what replay and audit do with records files, as a user types it."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.cli.records import command as records_command
from flowcheck_net.cli.replay import command as replay_command
from flowcheck_net.errors import CoverageGap, FlowcheckError, OutputError, ReceiveError, RecordsCorrupt
from flowcheck_net.receive.records_json import records_from_json
from flowcheck_net.receive.records_read import read_records
from flowcheck_net.receive.replay import replay
from tests.doubles import capture_images as images


def run(*arguments: object) -> Result:
    return CliRunner().invoke(records_command, [str(argument) for argument in arguments])


def run_replay(*arguments: object) -> Result:
    return CliRunner().invoke(replay_command, [str(argument) for argument in arguments])


def capture(folder: Path, name: str, psns: Sequence[int], start: int = 1_700_000_000) -> Path:
    path = folder / f"{name}.pcap"
    path.write_bytes(images.pcap([images.write_only(psn) for psn in psns], start=start))
    return path


def recorded(folder: Path, name: str, psns: Sequence[int], start: int = 1_700_000_000, port: str = "cap0") -> Path:
    path = capture(folder, name, psns, start)
    output = folder / f"{name}.fcr"
    assert run_replay(path, "--capture", f"{port}={path}", "-o", output).exit_code == 0
    return output


def error_of(result: Result) -> FlowcheckError:
    assert isinstance(result.exception, FlowcheckError), result.output
    return result.exception


def test_replay_writes_the_form_that_the_name_asks_for(tmp_path: Path) -> None:
    path = capture(tmp_path, "a", [1, 2, 4])
    result = run_replay(path, "-o", tmp_path / "x.fcr")
    assert "3 packets at 1 capture port: 1 flow, 3 messages, 1 packet missing" in result.stdout
    assert "records show" in result.stdout
    run_replay(path, "-o", tmp_path / "x.json")
    assert (tmp_path / "x.fcr").read_bytes()[:4] == b"\x89FCR"
    whole = replay([path])
    assert read_records(tmp_path / "x.fcr") == whole
    assert records_from_json((tmp_path / "x.json").read_text(), "x") == whole
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pcap", "x.fcr", "x.json"]


def test_replay_prints_the_document_of_what_it_left_in_the_file(tmp_path: Path) -> None:
    path = capture(tmp_path, "a", [1, 2, 4])
    result = run_replay(path, "-o", tmp_path / "x.fcr", "--json")
    assert records_from_json(result.stdout, "stdout") == replay([path])


def test_a_cut_capture_leaves_its_records_and_a_useless_one_does_not_touch_the_file(tmp_path: Path) -> None:
    path = capture(tmp_path, "a", [1, 2, 4])
    path.write_bytes(path.read_bytes()[:-10])
    output = tmp_path / "x.fcr"
    assert error_of(run_replay(path, "-o", output)).exit_code == 9
    assert read_records(output).captures[0].packets == 2
    path.write_bytes(b"nonsense")
    assert "not a capture file" in error_of(run_replay(path, "-o", output)).message
    assert read_records(output).captures[0].packets == 2
    assert isinstance(error_of(run_replay(capture(tmp_path, "b", [1]), "-o", tmp_path / "no" / "x")), OutputError)


def test_a_device_can_take_the_records(tmp_path: Path) -> None:
    result = run_replay(capture(tmp_path, "a", [1]), "-o", os.devnull)
    assert result.exit_code == 0
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("suffix", [".fcr", ".json"])
def test_records_stand_for_the_capture_before(tmp_path: Path, suffix: str) -> None:
    before = tmp_path / f"before{suffix}"
    run_replay(capture(tmp_path, "a", [1, 2, 3, 4]), "-o", before)
    after = capture(tmp_path, "b", [1, 4])
    shown = json.loads(run_replay(after, "--before", before, "--json").stdout)
    assert (shown["lost"], shown["flows"][0]["lost_ranges"][0]["first_psn"]) == (2, 2)
    mixed = json.loads(run_replay(after, "--before", before, "--before", after, "--json").stdout)
    assert mixed["lost"] == 4


def test_show_counts_raw_unique_repeated_and_missing(tmp_path: Path) -> None:
    result = run("show", recorded(tmp_path, "a", [1, 2, 2, 5]))
    assert result.exit_code == 0
    row = next(line.split() for line in result.stdout.splitlines() if "10.0.0.1" in line)
    assert row == ["1", "cap0", "10.0.0.1", "10.0.0.2", "0x11", "4", "3", "1", "1", "2", "3"]
    assert "2023-11-14 22:13:20.000123" in result.stdout
    assert "unknown" in result.stdout  # what the capture dropped


def test_show_as_json_and_one_flow(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a", [1, 2, 5])
    assert records_from_json(run("show", path, "--json").stdout, "x") == read_records(path)
    lines = run("show", path, "--messages", 1).stdout.splitlines()
    assert lines[0] == "cap0: 10.0.0.1 -> 10.0.0.2, QP 0x11"
    assert [line.split()[:5] for line in lines[2:]] == [[psn, psn, "8", "1", "1"] for psn in ("1", "2", "5")]
    assert "there are 1 flows" in run("show", path, "--messages", 2).output
    assert run("show", path, "--messages", 1, "--json").exit_code == 2


def test_show_of_what_is_no_records_file(tmp_path: Path) -> None:
    assert isinstance(error_of(run("show", capture(tmp_path, "a", [1]))), RecordsCorrupt)
    assert "cannot be read" in error_of(run("show", tmp_path / "none.fcr")).message


def test_merge_of_consecutive_files_in_any_order(tmp_path: Path) -> None:
    one = recorded(tmp_path, "one", [1, 2, 3])
    two = recorded(tmp_path, "two", [4, 6], start=1_700_000_100)
    output = tmp_path / "all.fcr"
    result = run("merge", two, one, "-o", output)
    assert "5 packets at 1 capture port" in result.stdout
    (flow,) = read_records(output).flows
    assert flow.seen == ((1, 4), (6, 6))
    run("merge", two, one, "-o", tmp_path / "all.json")
    assert read_records(tmp_path / "all.json") == read_records(output)
    message = error_of(run("merge", one, one, "-o", tmp_path / "x.fcr")).message
    assert "overlap" in message
    assert "2023-11-14 22:13:20.000123000 UTC" in message
    assert isinstance(error_of(run("merge", one, one, "-o", tmp_path / "x.fcr")), ReceiveError)
    assert not (tmp_path / "x.fcr").exists()
    assert run("merge", one, two, "-o", one).exit_code == 2


def test_no_difference(tmp_path: Path) -> None:
    one, again = recorded(tmp_path, "one", [1, 2, 3]), recorded(tmp_path, "again", [1, 2, 3], start=1_800_000_000)
    result = run("diff", one, again)
    assert (result.exit_code, result.stdout) == (0, "no difference\n")
    assert json.loads(run("diff", one, again, "--json").stdout) == {"captures": [], "flows": [], "missed": 0}


def test_what_the_second_misses_is_a_gap(tmp_path: Path) -> None:
    one, two = recorded(tmp_path, "one", [1, 2, 3, 4]), recorded(tmp_path, "two", [1, 4])
    result = run("diff", one, two)
    error = error_of(result)
    assert isinstance(error, CoverageGap)
    assert "misses 2 packets" in error.message
    for text in ("request packets", "of them not in the other", "messages not in the other"):
        assert text in result.stdout
    found = json.loads(run("diff", one, two, "--json").stdout)
    assert found["flows"][0]["loss"]["lost_ranges"] == [
        {"copies": 1, "first_psn": 2, "last_psn": 3, "packets": 2, "position": 2}
    ]
    assert found["flows"][0]["messages"] == [2, 0]
    back = run("diff", two, one)  # the first misses packets of the second: a difference, no gap
    assert (back.exit_code, "4" in back.stdout) == (0, True)


def test_ports_and_flows_of_one_side(tmp_path: Path) -> None:
    one, two = recorded(tmp_path, "one", [1, 2]), recorded(tmp_path, "two", [1, 2], port="cap1")
    result = run("diff", one, two)
    assert "only in the first" in result.stdout
    assert "only in the second" in result.stdout
    assert "misses 2 packets" in error_of(result).message


def test_other_content_is_a_difference_without_a_gap(tmp_path: Path) -> None:
    """Same packets by number, other bytes: the ICRC sums tell."""
    path = recorded(tmp_path, "one", [1, 2])
    records = read_records(path)
    (flow,) = records.flows
    changed = tuple(replace(each, icrc_sum=(each.icrc_sum or 0) + 1) for each in flow.messages)
    from flowcheck_net.receive.records_write import write_records

    write_records(tmp_path / "two.fcr", replace(records, flows=(replace(flow, messages=changed),)))
    result = run("diff", path, tmp_path / "two.fcr", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["flows"][0]["messages"] == [2, 2]


def test_replay_and_show_write_large_counts_alike(tmp_path: Path) -> None:
    """Between PSN 1 and PSN 1,234,569 lie 1,234,567 others."""
    path = capture(tmp_path, "a", [1, 1_234_569])
    output = tmp_path / "x.fcr"
    counted = run_replay(path).stdout
    run_replay(path, "-o", output)
    assert "1,234,567: 2-1234568 lost" in counted
    assert "1 (1,234,567 PSNs)" in counted
    assert "1,234,567" in run("show", output).stdout
