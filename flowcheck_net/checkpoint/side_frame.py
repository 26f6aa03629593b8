"""Frames of the side channel: where a message begins and ends, and who signed it. Bytes only."""

import hmac
import zlib

from flowcheck_net.checkpoint.side_client import HEAD, LARGEST, MAGIC, SIGNED, job_key, signature


def unframe(data: bytes, at: int) -> tuple[bytes | None, int] | int:
    """The message that begins at ``at``.

    Returns:
        Its JSON (None: damaged) and where the next may begin; or the number of bytes of a message that is not whole.
    """
    head = data[at : at + HEAD.size]
    if len(head) == HEAD.size and head[:4] == MAGIC:
        _, length, checksum = HEAD.unpack(head)
        end = at + HEAD.size + length
        if length <= LARGEST:
            body = data[at + HEAD.size : end]
            if len(body) == length and zlib.crc32(body) == checksum:
                return body, end
            if len(body) < length and data.find(MAGIC, at + 1) < 0:
                return len(data) - at
    elif MAGIC.startswith(head[:4]) and len(head) < HEAD.size:
        return len(data) - at
    following = data.find(MAGIC, at + 1)
    if following < 0:  # the end may be the beginning of the next
        following = len(data) - next((n for n in (3, 2, 1) if n < len(data) - at and data.endswith(MAGIC[:n])), 0)
    return None, following


def signed_parts(body: bytes) -> tuple[bytes, bytes]:
    """Signature (empty: none) and JSON of a message."""
    return (b"", body) if body[:1] == b"{" else (body[:SIGNED], body[SIGNED:])


def is_signed(body: bytes, job: str, shared: bytes) -> bool:
    """Did someone who has the key sign it for this job?"""
    signed, text = signed_parts(body)
    return hmac.compare_digest(signed, signature(job_key(shared, job), text))
