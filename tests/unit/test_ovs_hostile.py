"""A database server that answers nonsense, and a process that dies while it hands rules over: no switch is needed."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.drivers.ovs_flows import FlowTable
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, DriverError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress

SCHEMA: dict[str, object] = {"tables": {"Mirror": {"columns": {"name": {}}}}}
DEEP = "[" * 100_000 + "]" * 100_000
ANSWERS = {
    "nothing": "null",
    "a number": "5",
    "no rows": "[{},{},{},{},{}]",
    "fewer": "[]",
    "numbers": "[1,2,3,4,5]",
    "rows that are none": '[{"rows":5},{"rows":[5]},{"rows":[]},{"rows":[]},{"rows":[]}]',
    "rows without columns": '[{"rows":[{}]},{"rows":[{}]},{"rows":[{}]},{"rows":[{}]},{"rows":[{}]}]',
    "odd atoms": '[{"rows":[{"_uuid":["uuid"]}]},{"rows":[{"ports":["set"]}]},{"rows":[]},{"rows":[]},{"rows":[]}]',
    "deep": DEEP,
    "an error": '[{"error":"x"},{"error":"x"},{"error":"x"},{"error":"x"},{"error":"x"}]',
}


@contextmanager
def server(path: Path, schema: str, answer: str) -> Iterator[SwitchAddress]:
    """Answers ``get_schema`` with the one and everything else with the other; one connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                while piece := client.recv(1 << 16):
                    call = json.loads(piece)
                    result = schema if call["method"] == "get_schema" else answer
                    client.sendall(f'{{"id":{call["id"]},"error":null,"result":{result}}}'.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:unix:{path}#leaf1")
        thread.join(5)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_server_that_answers_nonsense_is_an_error_of_the_switch(tmp_path: Path, answer: str):
    with (
        server(tmp_path / "s", json.dumps(SCHEMA), answer) as address,
        open_driver(address, "gpt", tmp_path) as driver,
        pytest.raises(DriverError),
    ):
        driver.read()


@pytest.mark.parametrize("schema", ["null", "[]", '{"tables":[]}', '{"tables":{"Mirror":{"columns":5}}}', DEEP])
def test_a_schema_that_is_none_is_an_error_of_the_switch(tmp_path: Path, schema: str):
    with server(tmp_path / "s", schema, "[]") as address, pytest.raises(ConnectError):
        open_driver(address, "gpt", tmp_path).__enter__()


def test_a_process_that_is_killed_hands_over_all_rules_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of half a line ``ovs-ofctl`` could make a rule that copies and no longer forwards."""
    got, done = tmp_path / "got", tmp_path / "done"
    program = tmp_path / "ovs-ofctl"
    program.write_text(f"#!/bin/sh\ncat > {got}\nmv {got} {done}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lines = [f"add table=0,priority=65000,in_port={n},actions=output:{n},resubmit(,1)" for n in range(5000)]
    child = os.fork()
    if not child:
        try:
            write, left = os.write, [3]

            def dying_write(descriptor: int, data: bytes) -> int:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return write(descriptor, data)

            os.write = dying_write  # type: ignore[assignment]
            FlowTable(tmp_path / "socket").change(lines)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    for _ in range(500):
        if done.exists():
            break
        threading.Event().wait(0.01)
    assert not done.exists() or done.read_text().splitlines() == lines
