"""The side channel: values belong to their step, and whatever is missing has its cause."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.checkpoint import side_client
from flowcheck_net.checkpoint.side import Cause, SideLog, SideTail, TensorValue, decode, read_side
from flowcheck_net.checkpoint.side_client import ACK, SideChannel, framed, plain, rng_states
from flowcheck_net.checkpoint.side_frame import unframe
from flowcheck_net.checkpoint.side_server import Guard, Listener, ListenReport
from flowcheck_net.errors import OutputError, RecordsCorrupt


def until(condition: Callable[[], bool]) -> None:
    for _ in range(4000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("it never came to pass")


def message(step: int, sequence: int, run: str = "a", rank: int = 0, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"v": 1, "run": run, "rank": rank, "seq": sequence, "step": step, "at": 0.0, "dropped": 0}
    return told | {"lost": [], "refused": [], "values": {}, "fields": {}} | more


def log(tmp_path: Path, *messages: dict[str, Any]) -> SideLog:
    (tmp_path / "log").write_bytes(b"".join(map(framed, messages)))
    return read_side(tmp_path / "log")


@contextmanager
def listening(address: str, path: Path) -> Iterator[tuple[Listener, ListenReport]]:
    ended = threading.Event()
    with Listener(address, path, Guard(plain_text=True)) as listener:
        thread = threading.Thread(target=listener.run, args=(ended.is_set, 0.01))
        thread.start()
        try:
            yield listener, listener.report
        finally:
            ended.set()
            thread.join()


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    random.seed(5)
    state = random.getstate()
    side = SideChannel(f"file:{tmp_path / 'log'}")
    held = {"position": 17, "seen": (1, 2.5, None), b"k": b"\x00\xff", "deep": [{"x": float("inf")}], 3: True}
    for step in (1, 2):
        fields = {"rng.python": state, "dataloader": held}
        assert side.step(step, learning_rates=[0.1 + 0.2, 1e-300], loss_scale=1024, skipped=False, fields=fields)
    assert side.close()
    found = read_side(tmp_path / "log")
    assert found.step == 2
    values = found.values()
    assert values[1].learning_rates == (0.1 + 0.2, 1e-300)
    assert (values[2].loss_scale, values[2].skipped, values[2].optimizer) == (1024.0, False, None)
    given, missing = found.fields(2, ["rng.python", "dataloader.position", "dataloader.seen"])
    assert not missing
    assert given == {"rng.python": state, "dataloader": held}
    random.setstate(given["rng.python"])
    first = random.random()
    random.seed(5)
    assert random.random() == first


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_many_ranks_send_to_one_log(tmp_path: Path, kind: str) -> None:
    address = f"unix:{tmp_path / 's'}" if kind == "unix" else "tcp:127.0.0.1:0"
    with listening(address, tmp_path / "log") as (listener, report):
        sides = [SideChannel(listener.address, rank=rank, run="r", plain_text=True) for rank in range(3)]
        for step in range(1, 21):
            for rank, side in enumerate(sides):
                assert side.step(step, fields={f"rng.rank{rank}": bytes([step, rank])})
        assert all(side.close(20) for side in sides)
        until(lambda: report.messages == 60)
    given, missing = read_side(tmp_path / "log").fields(13, [f"rng.rank{rank}" for rank in range(3)])
    assert not missing
    assert given == {f"rng.rank{rank}": bytes([13, rank]) for rank in range(3)}
    assert (report.damaged, report.cut, report.connections) == (0, 0, 3)
    if kind == "unix":
        assert (tmp_path / "s").stat().st_mode & 0o077 == 0
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0


def test_a_listener_that_comes_late_misses_nothing_that_had_room(tmp_path: Path) -> None:
    side = SideChannel(f"unix:{tmp_path / 's'}", room=4)
    side.step(1)
    until(lambda: side.failed > 0)  # the first message is in the hands of the sending thread
    kept = [step for step in range(2, 10) if side.step(step)]
    assert kept == [2, 3, 4, 5]
    assert side.dropped == 4
    with listening(f"unix:{tmp_path / 's'}", tmp_path / "log") as (_, report):
        until(lambda: report.messages == 5)
        assert side.step(10)
        until(lambda: report.messages == 6)
        assert side.close()
    found = read_side(tmp_path / "log")
    assert [m.step for m in found.messages] == [1, 2, 3, 4, 5, 10]
    assert found.dropped == 4
    (missing,) = found.of_step(7).values()
    assert missing.cause is Cause.DROPPED  # type: ignore[union-attr]


def test_training_is_never_harmed(tmp_path: Path) -> None:
    class Hostile:
        def tolist(self) -> object:
            raise RuntimeError("no")

    side = SideChannel(f"file:{tmp_path / 'nowhere' / 'log'}", room=2)
    for step in range(10):
        side.step(step, fields={"a": Hostile(), "b": object(), "c": 1})
    assert not side.close(0.5)
    assert side.dropped >= 7
    assert side.failed > 0
    with pytest.raises(ValueError, match="none of"):
        SideChannel("tcp:7788")


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    side = SideChannel(f"file:{tmp_path / 'log'}")
    side.step(1, fields={"odd": object(), "x": 1})
    side.close()
    found = read_side(tmp_path / "log")
    given, missing = found.fields(1, ["x", "odd.inner", "other"])
    assert given == {"x": 1}
    assert [(each.field, each.cause) for each in missing] == [("odd.inner", Cause.REFUSED), ("other", Cause.NEVER)]


def test_each_way_of_being_missing_has_a_name(tmp_path: Path) -> None:
    has: dict[str, Any] = {"fields": {"x": 1}}
    found = log(tmp_path, message(1, 0, **has), message(3, 2, **has), message(5, 3), message(6, 5, lost=[4], dropped=1))

    def cause(step: int) -> Cause | None:
        missing = found.fields(step, ["x"])[1]
        return missing[0].cause if missing else None

    assert {step: cause(step) for step in range(1, 8)} == {
        1: None,
        2: Cause.LOST,  # number 1 never came
        3: None,
        4: Cause.DROPPED,
        5: Cause.OMITTED,  # told, without x
        6: Cause.OMITTED,
        7: Cause.AWAITED,
    }
    assert log(tmp_path, message(1, 0, **has), message(9, 1)).fields(4, ["x"])[1][0].cause is Cause.OMITTED
    assert SideLog().fields(1, ["x"])[1][0].cause is Cause.NEVER
    assert SideLog().step is None


def test_after_a_restart_former_values_are_not_used(tmp_path: Path) -> None:
    first = [message(step, step, "a", fields={"x": step}) for step in range(1, 8)]
    again = [message(step, n, "b", fields={"x": 10 * step}) for n, step in enumerate((5, 6))]
    found = log(tmp_path, *first, *again)
    assert found.fields(4, ["x"])[0] == {"x": 4}
    assert found.fields(5, ["x"])[0] == {"x": 50}
    assert found.fields(7, ["x"])[1][0].cause is Cause.AWAITED  # 7 of run a is of another past
    assert found.step == 6


def test_a_rank_that_has_not_restarted_yet_is_awaited(tmp_path: Path) -> None:
    both = [message(step, step, "a", rank, fields={f"x{rank}": step}) for step in (1, 2, 3) for rank in (0, 1)]
    again = [message(2, 0, "b", 0, fields={"x0": 20}), message(3, 0, "b", 1, fields={"x1": 30})]
    found = log(tmp_path, *both, *again)
    given, missing = found.fields(2, ["x0", "x1"])
    assert given == {"x0": 20}
    assert [(each.field, each.cause) for each in missing] == [("x1", Cause.AWAITED)]


def test_ranks_that_contradict_one_another_are_told(tmp_path: Path) -> None:
    found = log(tmp_path, *(message(1, 0, "a", rank, fields={"x": rank}) for rank in (0, 1)))
    assert found.fields(1, ["x"])[1][0].cause is Cause.CONTRADICTED
    found = log(tmp_path, *(message(1, 0, "a", rank, values={"loss_scale": rank + 1.0}) for rank in (0, 1)))
    with pytest.raises(RecordsCorrupt, match="other values"):
        found.values()


WORDS = [message(step, step, fields={"x": {"$bytes": "//4A" * step}}) for step in range(1, 6)]
DATA = b"".join(map(framed, WORDS))


@given(st.data())
def test_damage_costs_messages_and_never_changes_one(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(DATA) - 1))
    harm = data.draw(st.sampled_from(["flip", "cut", "insert"]))
    bad = {
        "flip": DATA[:at] + bytes([DATA[at] ^ data.draw(st.integers(1, 255))]) + DATA[at + 1 :],
        "cut": DATA[:at],
        "insert": DATA[:at] + data.draw(st.binary(min_size=1, max_size=30)) + DATA[at:],
    }[harm]
    path = tmp_path_factory.getbasetemp() / f"damaged{os.getpid()}"
    path.write_bytes(bad)
    found = read_side(path)
    true = {told["step"]: decode(told["fields"]) for told in WORDS}
    assert all(decode(dict(each.fields)) == true[each.step] for each in found.messages)
    whole = len(found.messages)
    assert whole >= (4 if harm != "cut" else sum(len(b"".join(map(framed, WORDS[:n]))) <= at for n in range(1, 6)))
    if whole < 5 and bad and harm != "cut":
        assert found.damaged or found.torn


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_message_behind_noise_is_found_wherever_the_stream_is_cut(cut: int) -> None:
    data = b"noise" + framed(WORDS[0])
    at = 0
    while at < cut:
        found = unframe(data[:cut], at)
        if isinstance(found, int):
            break
        at = found[1]
    assert at <= cut
    assert at <= 5
    while at < 5:
        rest = unframe(data, at)
        assert not isinstance(rest, int)
        at = rest[1]
    whole = unframe(data, at)
    assert not isinstance(whole, int)
    assert whole[0] is not None


def test_a_listener_keeps_whole_messages_only(tmp_path: Path) -> None:
    import socket

    with listening(f"unix:{tmp_path / 's'}", tmp_path / "log") as (_, report):
        with socket.socket(socket.AF_UNIX) as out:
            out.connect(str(tmp_path / "s"))
            data = b"noise" + framed(WORDS[0]) + framed(WORDS[1])
            for at in range(0, len(data), 7):
                out.sendall(data[at : at + 7])
            out.sendall(framed(WORDS[2])[:-3])
            out.settimeout(60)
            back = b""
            while len(back) < 16:
                back += out.recv(16 - len(back))
            assert back == ACK.pack(1) + ACK.pack(2)  # each once it is on the disk
        until(lambda: report.cut == 1)
    assert report.messages == 2
    assert [m.step for m in read_side(tmp_path / "log").messages] == [1, 2]
    assert report.damaged >= 1
    assert (tmp_path / "log").read_bytes() == framed(WORDS[0]) + framed(WORDS[1])
    with pytest.raises(OutputError):
        Listener(f"unix:{tmp_path / 's' / 'x'}", tmp_path / "log")
    with pytest.raises(OutputError):
        Listener("udp:1", tmp_path / "log")


def test_the_client_is_light_and_stands_alone(tmp_path: Path) -> None:
    alone = tmp_path / "side_client.py"
    alone.write_bytes(Path(side_client.__file__).read_bytes())
    code = "import sys, side_client; print([m for m in sys.modules if m in ('torch', 'numpy', 'flowcheck_net', 'ssl')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tensors_are_sent_bit_by_bit() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
    for tensor in (torch.get_rng_state(), torch.randn(3, 4).bfloat16().t(), torch.tensor(7), torch.zeros(0, 3)):
        found = decode(json.loads(json.dumps(plain(tensor))))
        assert isinstance(found, TensorValue)
        kind = getattr(torch, found.dtype)
        back = torch.frombuffer(bytearray(found.data), dtype=kind) if found.data else torch.empty(0, dtype=kind)
        assert torch.equal(back.view(found.shape), tensor)
        assert kind == tensor.dtype
    told = decode(json.loads(json.dumps(plain(rng_states()))))
    assert told["torch"].data == torch.get_rng_state().numpy().tobytes()
    assert told["python"] == random.getstate()
    numpy: Any = pytest.importorskip("numpy")
    before = numpy.random.get_state()
    numpy.random.set_state(told["numpy"])
    assert numpy.random.get_state()[1].tolist() == before[1].tolist()


def test_the_command_listens_until_it_is_told_to_end(tmp_path: Path) -> None:
    code = "from flowcheck_net.cli.main import run; run()"
    arguments = ["checkpoint", "listen", f"unix:{tmp_path / 's'}", "-o", str(tmp_path / "log"), "--json"]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=-1, stderr=-1, text=True) as program:
        try:
            assert program.stderr is not None
            assert "listening at unix:" in program.stderr.readline()
            side = SideChannel(f"unix:{tmp_path / 's'}")
            side.step(1)
            assert side.close(20)
            until(lambda: (tmp_path / "log").stat().st_size > 0)
        finally:
            program.terminate()
        told = json.loads(program.communicate()[0])
    assert told == {"connections": 1, "cut": 0, "damaged": 0, "messages": 1, "refused": {}, "repeated": 0}


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_log_that_grows_gives_what_the_log_so_far_gives(tmp_path: Path, size: int) -> None:
    """Runs that put others out of force, two ranks, a damaged message, and messages cut anywhere."""
    rates = {"learning_rates": [0.5, 0.25]}
    told = [message(step, step - 1, values=rates, fields={"x": "y" * step}) for step in range(1, 6)]
    told += [message(step, step - 1, rank=1, values=rates if step != 3 else {}) for step in range(1, 4)]
    told += [message(4, 0, run="b", values={"learning_rates": [9.0, 9.0]}), message(6, 2, run="b", values=rates)]
    data = bytearray(b"".join(map(framed, told)))
    data[len(framed(told[0])) + 30] ^= 1
    whole, path = tmp_path / "whole", tmp_path / "log"
    tail = SideTail(path)
    assert tail.values() == {}  # it is not there yet
    for at in range(0, len(data), size):
        with path.open("ab") as file:
            file.write(data[at : at + size])
        if size > 1 or at % 50 == 0:
            whole.write_bytes(data[: at + size])
            assert tail.values() == read_side(whole).values()
    assert tail.values() == read_side(path).values()
    assert tail.values()[4].learning_rates == (9.0, 9.0)
    assert 5 not in tail.values()
