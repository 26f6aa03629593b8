"""Publishing where the disk is full and where processes are killed."""

import io
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
pytest.importorskip("safetensors")

from flowcheck_net.checkpoint import access, publish, store  # noqa: E402
from flowcheck_net.checkpoint.publish import Policy  # noqa: E402
from flowcheck_net.checkpoint.sealing import Key  # noqa: E402
from flowcheck_net.errors import OutputError  # noqa: E402
from tests.doubles.publications import KEY, POLICY, candidate, in_memory, two_states  # noqa: E402

EVERY = "FLOWCHECK_CRASH" in os.environ


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as place:
        yield place


@pytest.fixture
def two() -> tuple[dict[str, Any], dict[str, Any]]:
    return two_states()


def test_a_full_disk_leaves_the_former_checkpoint(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    place = tmp_path / "store"
    publish.publish(place, candidate(tmp_path, anchor, now), POLICY)
    now["step"] = 6
    made = candidate(tmp_path, anchor, now)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 100, 2000, 6000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(OutputError, match="cannot be"):
                publish.publish(place, made, POLICY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        found = store.newest(place)
        assert found is not None
        assert found.step == 5
    assert publish.publish(place, made, POLICY).step == 6
    assert not list((place / "checkpoints").glob(".*"))


def moments(point: int) -> Iterator[Callable[[], None]]:
    left = point

    def tick() -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    while True:
        yield tick


def killed_at(point: int, action: Callable[[], object]) -> bool:
    """Run in a child that is killed around its point-th call that changes a disk; False: it ended before."""
    child = os.fork()
    if not child:
        code = 3
        try:
            tick = next(moments(point))
            for name in ("fsync", "rename", "unlink", "rmdir", "mkdir", "open", "urandom"):
                setattr(os, name, around(getattr(os, name), tick))
            io.open = around(io.open, tick)  # as pathlib and PyTorch's writer call it
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def around(call: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def ticking(*arguments: Any, **named: Any) -> Any:
        tick()
        found = call(*arguments, **named)
        tick()
        return found

    return ticking


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_killed_at_any_point_the_newest_whole_checkpoint_loads(tmp_path: Path, two: Any, key: Key | None) -> None:
    anchor, now = two
    place = tmp_path / "store"
    policy = Policy(key, keep_last=1)
    before = publish.publish(place, candidate(tmp_path, anchor, now), policy)
    now["step"] = 6
    made = candidate(tmp_path, anchor, now)
    torch.set_num_threads(1)
    found_steps = []
    point = 0

    def act() -> None:
        publish.publish(place, made, policy)

    while killed_at(point, act):
        found = store.newest(place)
        assert found is not None
        publish.verify(place, found, key)
        found_steps.append(found.step)
        access.read_access(place)
        if found.step == 6:  # published, and killed while the former one was erased: begin again
            for each in store.published(place)[0]:
                store.remove(place, each)
            store.sweep(place)
            publish.publish(place, candidate(tmp_path, anchor, dict(now, step=5)), policy)
        point += 1 if EVERY else 5
    sys.stdout.write(
        f"killed around {point // 2:,} calls: {len(found_steps):,} times, each time a whole one was the newest; "
        f"step 6 {found_steps.count(6):,} times\n"
    )
    assert set(found_steps) == {5, 6}
    assert point > 100
    final = store.newest(place)
    assert final is not None
    assert final.step == 6
    assert not list((place / "checkpoints").glob(".*"))
    assert before.step == 5


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_all_is_on_the_disk_before_the_name_counts_and_the_name_after(
    tmp_path: Path, two: Any, key: Key | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, rename = os.fsync, os.rename
    synced: set[int] = set()
    named: list[set[int]] = []

    def remembered(file: int) -> None:
        fsync(file)
        synced.add(os.fstat(file).st_ino)

    def renamed(source: Path, target: Path) -> None:
        if not source.name.startswith(store.MAKING):  # PyTorch's writer has a name of its own to change
            rename(source, target)
            return
        inside = {path.stat().st_ino for path in (source, *source.rglob("*"))}
        assert inside <= synced, [path for path in source.rglob("*") if path.stat().st_ino not in synced]
        rename(source, target)
        named.append(inside)
        synced.clear()

    monkeypatch.setattr(os, "fsync", remembered)
    monkeypatch.setattr(os, "rename", renamed)
    found = publish.publish(tmp_path / "store", candidate(tmp_path, *two), Policy(key))
    assert len(named) == 1
    assert {path.stat().st_ino for path in (found.path, *found.path.rglob("*"))} == named[0]
    assert {found.path.parent.stat().st_ino, (tmp_path / "store").stat().st_ino} <= synced
