"""Encryption at rest: AES-256-GCM in chunks, each file with a key of its own derived from the store's.

A sealed file is ``FCSEAL1`` and a zero byte, 8 bytes of the key's digest, a salt of 16 bytes, the chunk size
(little-endian u32), then the chunks, each with its tag of 16 bytes. The nonce is the chunk's number and whether it is
the last; the head and the file's name are authenticated with each chunk. So chunks and files can be neither changed,
swapped, dropped nor cut off.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from flowcheck_net.errors import OutputError, RecordsCorrupt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"FCSEAL1\0"
_HEAD = struct.Struct("<8s8s16sI")
_NONCE = struct.Struct("<QI")
_TAG = 16
_CHUNK = 1 << 20
_LARGEST = 1 << 26


@dataclass(frozen=True, slots=True)
class Key:
    """Of a store."""

    secret: bytes

    @property
    def name(self) -> str:
        """Tells keys apart and says nothing of the secret."""
        return hashlib.sha256(b"flowcheck-net key name" + self.secret).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Key({self.name})"


def read_key(path: Path) -> Key:
    """A key file: 32 bytes, or 64 hexadecimal digits, that its owner alone may read. Raises OutputError."""
    try:
        mode, data = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OutputError(f"{path} may be read by others than its owner", hint=f"chmod 600 {path}")
    if len(data) != 32:
        try:
            data = bytes.fromhex(data.decode("ascii").strip())
        except ValueError:
            data = b""
    if len(data) != 32:
        hint = f"head -c 32 /dev/urandom > {path} makes one; keep a copy elsewhere"
        raise OutputError(f"{path} holds no key of 32 bytes", hint=hint)
    return Key(data)


def seal(source: Path, target: Path, name: str, key: Key) -> None:
    """Write ``source`` encrypted to ``target``; ``name`` is what it is called in the checkpoint."""
    salt = os.urandom(16)
    head = _HEAD.pack(_MAGIC, bytes.fromhex(key.name), salt, _CHUNK)
    cipher = _cipher(key, salt)
    with source.open("rb") as plain, target.open("xb") as out:
        out.write(head)
        for number, (chunk, last) in enumerate(_pieces(plain, _CHUNK)):
            out.write(cipher.encrypt(_NONCE.pack(number, last), chunk, head + name.encode()))


def unseal(source: Path, target: Path, name: str, key: Key) -> None:
    """The reverse of ``seal``. Raises RecordsCorrupt where the key is another or a bit is wrong."""
    from cryptography.exceptions import InvalidTag

    with source.open("rb") as sealed, target.open("xb") as out:
        head = sealed.read(_HEAD.size)
        if len(head) != _HEAD.size:
            raise RecordsCorrupt(f"{source} is cut off")
        magic, of, salt, size = _HEAD.unpack(head)
        if magic != _MAGIC or not 0 < size <= _LARGEST:
            raise RecordsCorrupt(f"{source} is no sealed file")
        if of != bytes.fromhex(key.name):
            hint = f"the file is sealed with key {of.hex()}"
            raise RecordsCorrupt(f"{source}: this is not its key, but {key.name}", hint=hint)
        cipher = _cipher(key, salt)
        try:
            for number, (chunk, last) in enumerate(_pieces(sealed, size + _TAG)):
                out.write(cipher.decrypt(_NONCE.pack(number, last), chunk, head + name.encode()))
        except (InvalidTag, ValueError) as error:
            raise RecordsCorrupt(f"{source} was changed or cut off") from error


def _cipher(key: Key, salt: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(SHA256(), 32, salt, b"flowcheck-net file").derive(key.secret))


def _pieces(file: IO[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Chunks, and whether each is the last; an empty file has one that is empty."""
    piece = file.read(size)
    while True:
        following = file.read(size)
        yield piece, not following
        if not following:
            return
        piece = following
