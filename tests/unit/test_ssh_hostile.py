"""Words that want to be more than words: in names of ports, in references, in secrets, in what a switch says."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from flowcheck_net.drivers.checks_sessions import refuse_impossible
from flowcheck_net.drivers.dialects.base import Line
from flowcheck_net.drivers.dialects.eos import EOS
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_connect import Lost
from flowcheck_net.drivers.ssh_reference import parse_reference
from flowcheck_net.drivers.ssh_shell import Confused, Shell
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Step, StepKind
from tests.conformance.bench_ssh import EosBench, boxed
from tests.doubles import ssh_box
from tests.doubles.eos_box import EosBox
from tests.doubles.ssh_box import SshBox
from tests.doubles.switches import LIMITS, session
from tests.unit.test_ssh_shell import with_words

PORTS = [
    *("Ethernet1; reload", "Ethernet1\nreload", "Ethernet1 | tee /etc/passwd", 'Ethernet1"', "Ethernet1'", "$(reboot)"),
    *("`reboot`", "-rf", "", "Ethernet1\r", "Ethernet1 tx", "Ethernet1?", "Ethernet1,Ethernet2", "Ethernet\u00a01"),
]


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("place", ["source", "destination", "erspan"])
def test_a_name_that_is_more_than_one_word_never_reaches_a_line(port: str, place: str):
    made = session("fcn-gpt-0", f"{port if place == 'source' else 'Ethernet1'}:rx", to="Ethernet31")
    if place != "source":
        made = dataclasses.replace(made, destination=PortName(port if place == "destination" else f"erspan:{port}"))
    with pytest.raises(Rejected, match="is no name of a port, or no address"):
        refuse_impossible(SwitchName("leaf1"), [Step(StepKind.CREATE, made)], (), LIMITS)


@pytest.mark.parametrize("address", ["10.0.0.1 any", "any", "10.0.0.0/8", "10.0.0.1\nexit", "fe80::1%;reload", ""])
def test_an_address_that_is_none_never_reaches_a_line(address: str):
    made = session("fcn-gpt-0", "Ethernet1:rx", filters=[(address, "10.0.0.2")])
    with pytest.raises(Rejected, match="no address"):
        refuse_impossible(SwitchName("leaf1"), [Step(StepKind.CREATE, made)], (), LIMITS)


@pytest.mark.parametrize("word", ["vrf=a;b", "via=a|b", "vrf=a b", "via=$x", "vrf=a'"])
def test_words_of_a_reference_are_single_words(word: str):
    with pytest.raises(ValueError, match="one name is needed"):
        parse_reference(f"ssh:leaf1?{word}")


class Switch:
    """Says what it is told to, in these pieces."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)
        self.written = ""

    def read(self) -> str:
        return self.pieces.pop(0) if self.pieces else ""

    def write(self, text: str) -> None:
        self.written += text


def shell(switch: Switch) -> Shell:
    return Shell(switch, EOS.words, patience=0.2, nudge=0.05)


@pytest.mark.parametrize("text", ["a\nreload now", "a\rb", "a\x03", "a\x1a"])
def test_a_line_is_one_line(text: str):
    switch = Switch()
    with pytest.raises(Confused, match="more than one line"):
        shell(switch).send(Line(text))
    assert switch.written == ""


@pytest.mark.parametrize(
    "question", ["Proceed with reload? [yes]: ", "Overwrite [y]", "Delete file [confirm]", "Sure? "]
)
def test_an_unknown_question_is_not_answered_by_an_empty_line(question: str):
    switch = Switch("monitor x\r\n" + question)
    with pytest.raises(Confused, match="asks something that is not expected"):
        shell(switch).send(Line("monitor x"))
    assert switch.written == "monitor x\n"


SECRETS: Sequence[str] = ("pa'ss\"w", "back\\slash", "two  blanks", "t\tab", "ümlaut", "plain")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_blotted_out_however_it_is_shown(secret: str):
    login = Login("fcn", secret)
    shown = [secret, repr(secret), repr(f'it\'s "{secret}"'), json.dumps(secret), " ".join(f"x {secret} y".split())]
    for text in (*shown, ascii(secret)):
        cleaned = login.without_secrets(text)
        assert "********" in cleaned
        assert not any(part in cleaned for part in secret.replace("'", " ").replace('"', " ").split() if len(part) > 2)


def test_the_end_of_a_secret_is_not_shown_where_a_message_is_cut():
    secret = "0123456789" * 20
    switch = Switch("leaf1>! x\r\nleaf1>", f"enable\r\nPassword: {secret}")
    made = shell(switch)
    made._secret = secret
    with pytest.raises(Lost) as caught:
        made.send(Line("enable"))
    assert "0123456789" not in str(caught.value)


def test_a_window_title_is_no_part_of_a_prompt():
    switch = Switch("show x\r\n\x1b]0;fcn@leaf1: ~\x07leaf1#")
    made = shell(switch)
    made._mode = "exec"
    assert made.send(Line("show x")) == ""


def test_a_password_that_a_jump_host_refuses_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with boxed(EosBench, tmp_path) as bench, SshBox(EosBox("bastion"), tmp_path) as bastion:
        both = tmp_path / "both"
        both.write_text(bench.box.known_hosts.read_text() + bastion.known_hosts.read_text())
        tries: list[str] = []

        def refuse(self: object, username: str, password: str) -> bool:
            tries.append(username)
            return False

        monkeypatch.setattr(ssh_box._Server, "validate_password", refuse)
        words = f"known_hosts={both}&jump=127.0.0.1:{bastion.port}"
        driver = with_words(bench, words)
        driver._where = dataclasses.replace(driver._where, retries=2)
        with pytest.raises(ConnectError, match="jump host"), driver:
            pass
        assert len(tries) == 1
