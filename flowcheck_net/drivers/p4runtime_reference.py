"""Where a switch is and how it is spoken to: ``p4rt:HOST:PORT?device=1``, with more words after ``&``.

On the switch itself, or beside one in software, ``p4rt:unix:/PATH?device=1``.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_FORM = re.compile(r"p4rt:(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:?]+):(?P<port>[0-9]{1,5})\?(?P<words>[^?]+)")
_LOCAL = re.compile(r"p4rt:unix:(?P<path>/[^?]+)\?(?P<words>[^?]+)")
_NUMBERS = {"device": 1 << 64, "election": 1 << 64}
_TEXTS = ("role", "name", "ports", "p4info", "program")
_CHOICES = {"tls": ("yes",), "push": ("empty", "replace")}
FORM = "p4rt:HOST:9559?device=1"


class Push(StrEnum):
    """When our pipeline may be loaded, which empties all tables of the switch."""

    NEVER = "never"
    EMPTY = "empty"
    """Only into a switch that has none."""
    REPLACE = "replace"
    """Also in place of another one."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What ``management`` says. Certificates and keys are named by the environment, never here."""

    host: str
    """With port 0 the path of a socket of this machine."""
    port: int
    device: int
    election: int = 1
    """The lowest: it takes the switch from nobody."""
    role: str = ""
    tls: bool = False
    name: str = ""
    """The name in the switch's certificate, where it is not the host."""
    ports: str = ""
    """What stands before the number in the names of ports: with ``Ethernet``, Ethernet12 is port 12."""
    p4info: Path | None = None
    program: Path | None = None
    push: Push = Push.NEVER

    @property
    def server(self) -> str:
        """As gRPC writes it."""
        if not self.port:
            return f"unix:{self.host}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_reference(management: str) -> Reference:
    """What the text says; raises ValueError with the word that is wrong and what to write."""
    host, port, said = _place(management)
    words = _words(said)
    if "device" not in words:
        raise ValueError(f"{management!r} does not say which device of the server: write {FORM}")
    numbers = {key: _number(key, words[key]) for key in _NUMBERS if key in words}
    if numbers.get("election", 1) == 0:
        raise ValueError("election=0 is no election id: use 1 or more")
    push = Push(words.get("push", "never"))
    files = {key: Path(words[key]) if key in words else None for key in ("p4info", "program")}
    if push is not Push.NEVER and not all(files.values()):
        raise ValueError(f"push={push} needs p4info=FILE and program=FILE, the compiled pipeline")
    return Reference(
        host,
        port,
        numbers["device"],
        numbers.get("election", 1),
        words.get("role", ""),
        "tls" in words,
        words.get("name", ""),
        words.get("ports", ""),
        files["p4info"],
        files["program"],
        push,
    )


def _place(management: str) -> tuple[str, int, str]:
    """Host, port and the words behind; the path of a socket and 0."""
    if local := _LOCAL.fullmatch(management):
        return local["path"], 0, local["words"]
    match = _FORM.fullmatch(management)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"{management!r} does not name a P4Runtime server, such as {FORM}")
    return match["host"].strip("[]"), int(match["port"]), match["words"]


def _words(text: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for part in text.split("&"):
        key, equals, value = part.partition("=")
        known = (*_NUMBERS, *_TEXTS, *_CHOICES)
        if key not in known or not equals or not value or key in words:
            raise ValueError(f"{part!r} is not understood: write key=value once each, of {', '.join(known)}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ValueError(f"{part!r} is not understood: write {key}={' or '.join(_CHOICES[key])}, or leave it out")
        words[key] = value
    return words


def _number(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= _NUMBERS[key]:
        raise ValueError(f"{key}={text}: a number below 2^64 is needed")
    return int(text)
