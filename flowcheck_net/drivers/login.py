"""Who we are on a switch: user, password and key, named by reference and never written anywhere.

``login=env:SITE`` reads SITE_USER, SITE_PASSWORD, SITE_ENABLE and SITE_KEY from the environment (without ``login``:
FLOWCHECK_SWITCH_USER and so on). ``login=file:/etc/flowcheck-net/login`` reads a file that only its owner can read,
with lines ``user=...``, ``password=...``, ``enable=...``, ``key=FILE``. ``login=keyring:SERVICE`` asks the keyring of
the operating system. ``key`` is a file with a private SSH key. Without password and key the SSH agent and ~/.ssh are
tried.
"""

import getpass
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT = "env:FLOWCHECK_SWITCH"
FORMS = "env:NAME, file:/PATH or keyring:SERVICE"
_KEYS = ("user", "password", "enable", "key")


class NoLogin(Exception):
    """The reference leads to nothing usable; the text says why and never a secret."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a switch asks of us; secrets do not show in its ``repr``."""

    user: str
    password: str = field(default="", repr=False)
    enable: str = field(default="", repr=False)
    """The password for the privileged mode, where it is another one."""
    key: Path | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What may never be shown."""
        return tuple(s for s in (self.password, self.enable) if s)

    def without_secrets(self, text: str) -> str:
        """``text`` with every secret in it blotted out, also as it looks quoted or with its white space squeezed."""
        for shape in sorted({s for secret in self.secrets for s in _shapes(secret)}, key=len, reverse=True):
            text = text.replace(shape, "********")
        return text


def _shapes(secret: str) -> set[str]:
    escaped = secret.encode("unicode_escape").decode()
    quoted = (repr(secret)[1:-1], json.dumps(secret)[1:-1], escaped, escaped.replace("'", "\\'"))
    return {shape for shape in (secret, " ".join(secret.split()), *quoted) if shape}


def known_form(reference: str) -> bool:
    """Can this be a reference at all? Nothing is read."""
    kind, colon, rest = reference.partition(":")
    return bool(colon and rest) and kind in ("env", "file", "keyring")


def find_login(reference: str) -> Login:
    """The login that ``reference`` names; raises NoLogin."""
    kind, _, rest = reference.partition(":")
    values = {"env": _from_environment, "file": _from_file, "keyring": _from_keyring}[kind](rest)
    key = Path(values["key"]).expanduser() if values.get("key") else None
    if key is not None and not key.is_file():
        raise NoLogin(f"the key file {key} is not there")
    user = values.get("user") or getpass.getuser()
    return Login(user, values.get("password", ""), values.get("enable", ""), key)


def _from_environment(name: str) -> Mapping[str, str]:
    return {key: os.environ.get(f"{name}_{key.upper()}", "") for key in _KEYS}


def _from_file(name: str) -> Mapping[str, str]:
    path = Path(name)
    try:
        with path.open(encoding="utf-8") as file:
            # Asked of the open file: a name may lead to another one in the next moment.
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise NoLogin(f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
            lines = file.read().splitlines()
    except OSError as error:
        raise NoLogin(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NoLogin(f"{path} is not text") from error
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if key.strip() not in _KEYS or not equals or key.strip() in values:
            # The line is not shown: it may be a password alone.
            raise NoLogin(f"{path}:{number}: write key=value, once each, of {', '.join(_KEYS)}")
        values[key.strip()] = value.strip()
    return values


def _from_keyring(service: str) -> Mapping[str, str]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise NoLogin("the keyring package is not installed: pip install 'flowcheck-net[vendor]'") from error
    try:
        found = keyring.get_credential(service, None)
        enable = keyring.get_password(service, "enable") if found else None
    except KeyringError as error:
        raise NoLogin(f"the keyring cannot be read: {error}") from error
    if found is None:
        raise NoLogin(f"the keyring has no entry for {service}: keyring set {service} USER")
    return {"user": found.username, "password": found.password, "enable": enable or ""}
