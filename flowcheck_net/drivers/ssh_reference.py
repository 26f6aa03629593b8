"""Where a switch is and how it is spoken to over SSH: ``ssh:HOST[:PORT]``, with words after ``?`` and ``&``."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.drivers.login import DEFAULT, FORMS, known_form

FORM = "ssh:HOST or ssh:HOST:PORT?login=env:NAME"
_FORM = re.compile(
    r"(?P<kind>[a-z]+):(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:?]+)(?::(?P<port>[0-9]{1,5}))?(?:\?(?P<words>.+))?"
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*")
_HOSTKEY = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_NUMBERS = {"timeout": (1, 600), "connect": (1, 300), "retries": (0, 10), "confirm": (1, 59)}
_TEXTS = ("login", "jump", "jump_login", "hostkey", "known_hosts", "dialect", "ids", "vrf", "origin", "via", "ca")
_CHOICES = {"save": ("yes",)}


@dataclass(frozen=True, slots=True)
class Reference:
    """What ``management`` says."""

    host: str
    port: int = 22
    login: str = DEFAULT
    jump: tuple[str, int] | None = None
    """Host and port to go through."""
    jump_login: str = ""
    """Empty: as on the switch."""
    hostkey: str = ""
    """``SHA256:...`` of the one key that the switch may have; empty: as known_hosts says."""
    known_hosts: Path | None = None
    """None: ~/.ssh/known_hosts."""
    dialect: str = ""
    """Empty: that of the platform."""
    ids: tuple[int, int] | None = None
    """First and last number of the sessions that are ours, where the platform has numbers for names."""
    connect: int = 15
    """Seconds that a connection may take."""
    retries: int = 2
    """Further tries of connecting, and of nothing else."""
    timeout: int = 60
    """Seconds without a word of the switch after which the connection is given up."""
    confirm: int = 2
    """Minutes after which the switch goes back by itself, where it has a timed commit."""
    save: bool = False
    """Keep what was written over a restart of the switch, with all else that runs on it."""
    vrf: str = ""
    """VRF in which encapsulated copies are routed; empty: the default one."""
    origin: str = ""
    """Address of the switch that encapsulated copies come from; empty: one that the switch has for it."""
    via: str = ""
    """Port that encapsulated copies leave by, where the platform wants to be told."""

    ca: Path | None = None
    """Certificates that an HTTPS server's is checked with; None: those of this machine."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_reference(management: str, port: int = 22) -> Reference:
    """What the text says; raises ValueError with the word that is wrong and what to write.

    Args:
        management: ``KIND:HOST...``; the kind is not looked at.
        port: where none is said.
    """
    match = _FORM.fullmatch(management)
    if match is None or (match["port"] and not 0 < int(match["port"]) < 65536):
        raise ValueError(f"{management!r} does not name a switch, such as {FORM}")
    words = _words(match["words"] or "")
    for key in ("login", "jump_login"):
        if key in words and not known_form(words[key]):
            raise ValueError(f"{key} is not understood: write {key}={FORMS}; a password is never written here")
    for key in ("vrf", "via"):
        if key in words and not _WORD.fullmatch(words[key]):
            raise ValueError(f"{key}={words[key]}: one name is needed, of letters, digits, and ._/:- between them")
    if "hostkey" in words and not _HOSTKEY.fullmatch(words["hostkey"]):
        raise ValueError("hostkey is not understood: write hostkey=SHA256:..., as `ssh-keygen -lf` shows it")
    numbers = {key: _number(key, words[key]) for key in _NUMBERS if key in words}
    return Reference(
        host=match["host"].strip("[]"),
        port=int(match["port"] or port),
        login=words.get("login", DEFAULT),
        jump=_jump(words["jump"]) if "jump" in words else None,
        jump_login=words.get("jump_login", ""),
        hostkey=words.get("hostkey", ""),
        known_hosts=Path(words["known_hosts"]) if "known_hosts" in words else None,
        dialect=words.get("dialect", ""),
        ids=_range(words["ids"]) if "ids" in words else None,
        save="save" in words,
        vrf=words.get("vrf", ""),
        ca=Path(words["ca"]) if "ca" in words else None,
        origin=_address(words["origin"]) if "origin" in words else "",
        via=words.get("via", ""),
        **numbers,
    )


def _words(text: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for part in text.split("&") if text else ():
        key, equals, value = part.partition("=")
        known = (*_NUMBERS, *_TEXTS, *_CHOICES)
        if key not in known or not equals or not value or key in words:
            # The value is not shown: it may be a secret that does not belong here.
            raise ValueError(f"{key!r} is not understood: write key=value once each, of {', '.join(known)}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ValueError(f"{part!r} is not understood: write {key}={' or '.join(_CHOICES[key])}, or leave it out")
        words[key] = value
    return words


def _number(key: str, text: str) -> int:
    low, high = _NUMBERS[key]
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ValueError(f"{key}={text}: a whole number from {low} to {high} is needed")
    return int(text)


def _jump(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?", text)
    if match is None:
        raise ValueError(f"jump={text}: write jump=HOST or jump=HOST:PORT")
    return match[1].strip("[]"), int(match[2] or 22)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise ValueError(f"origin={text}: an IP address of the switch is needed") from error


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text)
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise ValueError(f"ids={text}: write the first and the last number that is ours, such as ids=10-14")
    return int(match[1]), int(match[2])
