"""The follower on real go-back-N: soft-RoCE with 1 % loss, captured before and after it (domain/parts.md, section 5).

UCX sends no immediates, so a write's last packet (opcode 8) is taken for one with immediate (9).
"""

import gzip
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.p4_twin_follow import COPIED, UNKNOWN_MESSAGE, Follower, Following, Verdict
from tests.doubles.p4_twin_frame import Facts, read_frame

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "rxe"
BEFORE_LOSS, AFTER_LOSS = "rxe-ring-put-loss1.pcap.gz", "rxe-ring-put-loss1-at-vm2.pcap.gz"
QP, HOST = 0x15, 2
PERIOD, LOW, HIGH = 6, 3, 6

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")


def requests(name: str) -> Iterator[Facts]:
    """The writes and sends to fd09::2, QP 0x15."""
    data = gzip.decompress((SAMPLES / name).read_bytes())
    place = 24
    while place + 16 <= len(data):
        size = struct.unpack_from("<I", data, place + 8)[0]
        facts = read_frame(data[place + 16 : place + 16 + size])
        place += 16 + size
        if facts and facts.request and facts.qp == QP and facts.destination & 0xFFFF == HOST:
            yield replace(facts, opcode=9) if facts.opcode == 8 else facts


@pytest.fixture(scope="module")
def messages() -> dict[int, int]:
    """PSN -> message, from what the sender sent before anything was lost: each PSN where it is sent first."""
    found: dict[int, int] = {}
    message = 0
    for facts in requests(BEFORE_LOSS):
        if facts.psn not in found:
            assert facts.psn == len(found)
            found[facts.psn] = message
            message += facts.opcode == 9
    return found


@pytest.mark.parametrize("name", [BEFORE_LOSS, AFTER_LOSS])
def test_every_message_is_known_and_none_of_the_window_withheld(name: str, messages: dict[int, int]) -> None:
    follower, entry = Follower(), Following(0, 1, 1, 0, PERIOD, LOW, HIGH)
    copied = set()
    for facts in requests(name):
        inside = LOW <= messages[facts.psn] % PERIOD < HIGH
        verdict, message = follower.judge(facts, entry)
        assert message in (UNKNOWN_MESSAGE, messages[facts.psn] % PERIOD)
        assert verdict in COPIED or not inside
        assert verdict not in (Verdict.LOST, Verdict.UNFOLLOWED)
        if verdict in COPIED:
            copied.add(facts.psn)
    assert {psn for psn, message in messages.items() if LOW <= message % PERIOD < HIGH} <= copied
    counted = {Verdict(slot): n for slot, n in follower.verdicts.items()}
    assert counted[Verdict.INSIDE] + counted[Verdict.OUTSIDE] == len(messages)
    assert (Verdict.AHEAD in counted) == (name == AFTER_LOSS)
    assert (Verdict.REPEAT in counted) == (name == BEFORE_LOSS)
