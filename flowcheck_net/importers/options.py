"""What the user may decide where a source says nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from flowcheck_net.importers.cables import PortRef, Role

CHECKPOINT_GLOBS = ("ckpt*", "checkpoint*")
"""Names that say by themselves what a device is."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value for every name that fits a glob."""

    glob: str
    value: str


@dataclass(frozen=True, slots=True)
class Options:
    """Answers that the source cannot give."""

    checkpoint: tuple[str, ...] = ()
    """Globs of device names; they win over ``host``, and those over ``switch``: ``--switch '*'`` takes the rest."""
    host: tuple[str, ...] = ()
    switch: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Globs of ``device`` or ``device:port``; cables that end there are left out."""
    speed: tuple[Choice, ...] = ()
    """By ``device:port``, the first that fits either end; used where the source tells no speed."""
    platform: tuple[Choice, ...] = ()
    """By switch name."""
    management: tuple[Choice, ...] = ()
    """By switch name; ``{switch}`` in the value is replaced by the name."""
    addresses: tuple[tuple[PortRef, tuple[str, ...]], ...] = ()
    """IP addresses of host NICs."""
    accept_one_sided: bool = False
    name: str = ""
    """Name of the topology; empty: from the source."""

    def role(self, device: str) -> Role | None:
        """The role that the user gave to a device."""
        for role, globs in ((Role.CHECKPOINT, self.checkpoint), (Role.HOST, self.host), (Role.SWITCH, self.switch)):
            if fits(device, globs):
                return role
        return None


def fits(name: str, globs: Sequence[str]) -> bool:
    """True where any glob fits the whole name."""
    return any(fnmatchcase(name, glob) for glob in globs)


def chosen(names: Sequence[str], choices: Sequence[Choice]) -> str | None:
    """The value of the first choice that fits any of the names."""
    return next((choice.value for choice in choices if any(fnmatchcase(name, choice.glob) for name in names)), None)
