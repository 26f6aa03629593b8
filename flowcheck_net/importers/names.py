"""Names of ports and devices: which spellings mean the same thing, and which words are names at all.

Sources: vendors' interface naming as their own command references print it. Only spellings that are certain are
joined; any other text is equal to itself only.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

MAX_NAME = 63
"""Longest name of a device or port in our files."""

_SPELLINGS = {
    "Ethernet": "ethernet eth et",
    "FE": "fastethernet fa fe",
    "1GE": "gigabitethernet gigabite gig gi ge gige 1ge",
    "10GE": "tengigabitethernet ten-gigabitethernet xgigabitethernet tengige tengig te ten xge 10ge",
    "25GE": "twentyfivegige twentyfivegigabitethernet twenty-fivegige twe wge 25ge",
    "40GE": "fortygige fortygigabitethernet fo fge 40ge",
    "50GE": "fiftygige fiftygigabitethernet 50ge",
    "100GE": "hundredgige hundredgigabitethernet hu hge 100ge",
    "200GE": "twohundredgige twohundredgigabitethernet 200ge",
    "400GE": "fourhundredgige fourhundredgigabitethernet 400ge",
}
"""Word for a family of ports -> its spellings in lower case (EOS, NX-OS, IOS, IOS-XR, Comware, VRP)."""
_FAMILY = {spelling: family for family, spellings in _SPELLINGS.items() for spelling in spellings.split()}

_LINUX = re.compile(r"eth[0-9]+(?:\.[0-9]+)?")
"""A Linux kernel name. SONiC has ``eth0`` (management) and ``Ethernet0`` (front panel): never the same port."""
_SRL = re.compile(r"(?:e|ethernet-)([0-9]+)[-/]([0-9]+)(?:[-/]([0-9]+))?")
"""Nokia SR Linux ``ethernet-1/1``, in containerlab ``e1-1``."""
_JUNOS = re.compile(r"((?:fe|ge|xe|et|mge)-[0-9]+/[0-9]+/[0-9]+(?::[0-9]+)?)(?:\.[0-9]+)?", re.IGNORECASE)
_NUMBERED = re.compile(r"((?:[0-9.]+)?[A-Za-z]+(?:-[A-Za-z]+)?) ?([0-9]+(?:[/:.][0-9]+)*)")
_PORT = re.compile(r"(?:[A-Za-z][A-Za-z0-9._/:-]*[0-9]|[0-9]+[A-Za-z][A-Za-z0-9._/:-]*[0-9]|[0-9]+(?:[/:][0-9]+)+)")
_SPACED = re.compile(r"[A-Za-z-]+ [0-9]+(?:[/:.][0-9]+)*")
_LONE_WORD = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_MACS = (
    re.compile(r"(?:[0-9A-Fa-f]{1,2}[:-]){5}[0-9A-Fa-f]{1,2}"),
    re.compile(r"(?:[0-9A-Fa-f]{4}[.-]){2}[0-9A-Fa-f]{4}"),
    re.compile(r"[0-9A-Fa-f]{12}"),
)
_MANAGEMENT = re.compile(
    r"(?:management|mgmt|meth|me|vme|fxp|em|m-gigabitethernet|ma)-?[0-9][0-9/.]*|mgmteth[0-9].*", re.IGNORECASE
)


@lru_cache(maxsize=1 << 16)
def port_key(name: str) -> str:
    """The one word by which two spellings of a port are compared; the key of a key is itself.

    ``Eth1/1`` and ``Ethernet1/1`` have one key, ``XGE1/0/1`` and ``Ten-GigabitEthernet1/0/1`` too; ``eth1`` (Linux) and
    ``Ethernet1`` do not.
    """
    text = name.strip()
    srl = _SRL.fullmatch(text)
    if srl is not None:
        return "ethernet-" + "/".join(part for part in srl.groups() if part)
    junos = _JUNOS.fullmatch(text)
    if junos is not None:
        return junos[1].lower()
    if _LINUX.fullmatch(text):
        return text
    numbered = _NUMBERED.fullmatch(text)
    family = _FAMILY.get(numbered[1].lower()) if numbered is not None else None
    return f"{family}{numbered[2]}" if numbered is not None and family is not None else text


@lru_cache(maxsize=1 << 16)
def is_mac(text: str) -> bool:
    """True for the usual spellings of a MAC address."""
    return any(form.fullmatch(text.strip()) for form in _MACS)


def is_port_name(text: str) -> bool:
    """True where a text can be the name of an interface: one word that ends in a number, and no MAC address."""
    word = text.strip()
    return not is_mac(word) and (_PORT.fullmatch(word) or _SPACED.fullmatch(word)) is not None


def is_management_port(name: str) -> bool:
    """True for names that vendors give to out-of-band management ports only (``eth0`` is not one of them)."""
    return _MANAGEMENT.fullmatch(name.strip()) is not None


def is_host_word(text: str) -> bool:
    """True where a text can be a device name."""
    return _LONE_WORD.fullmatch(text) is not None


def spec_name(text: str, *, port: bool = False) -> str:
    """The text as a name of our files: what they cannot hold becomes a dash."""
    kept = re.sub(r"[^A-Za-z0-9._/:-]+" if port else r"[^A-Za-z0-9._-]+", "-", text.strip())
    return re.sub(r"^[^A-Za-z0-9]+", "", kept)[:MAX_NAME] or "unnamed"


@lru_cache(maxsize=1 << 16)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which ``leaf2`` comes before ``leaf10``."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in parts)


def longest_spelling(spellings: Iterable[str]) -> str:
    """The fullest spelling of one port, the same for any order of the sources."""
    return max((spelling.strip() for spelling in spellings), key=lambda word: (len(word), word))
