"""What the packets carry: gradient bytes that depend on nothing but seed and place, in NCCL's wire forms."""

import random
import sys
import zlib
from array import array
from functools import cache

from flowcheck_net.model.job import Protocol

BLOCK = 1 << 14
"""Bytes that lie together in the pool."""
_POOL = 1 << 22
"""Random bytes drawn once; every block is a piece of them."""
WIRE_PIECE = 1 << 16
"""A wire range may be cut at multiples of this in every protocol (a multiple of 2048 and of every MTU)."""

_SMALL = bytes((0x3B, 0x3C, 0xBB, 0xBC)[value & 3] for value in range(256))
"""Top byte of an element -> one that makes it finite and of size about 0.01 to 1 in fp16, bf16, fp32 and fp64."""


class Gradients:
    """A source of gradient bytes: the same ``(seed, key, offset)`` always gives the same bytes.

    Elements of ``element`` bytes are finite numbers (no NaN, no infinity) in every floating-point format.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._pool = cache(self._draw)

    def _draw(self, element: int) -> bytes:
        pool = bytearray(random.Random(self.seed).randbytes(_POOL))  # noqa: S311 - test data
        pool[element - 1 :: element] = pool[element - 1 :: element].translate(_SMALL)
        return bytes(pool)

    def _block(self, key: str, number: int, element: int) -> bytes:
        start = zlib.crc32(f"{key}/{number}".encode()) % (_POOL - BLOCK) & ~7
        return self._pool(element)[start : start + BLOCK]

    def read(self, key: str, element: int, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop`` (without) of the endless stream ``key``."""
        first, last = start // BLOCK, (stop - 1) // BLOCK
        whole = b"".join(self._block(key, number, element) for number in range(first, last + 1))
        return whole[start - first * BLOCK : stop - first * BLOCK]


def _little(value: int, size: int) -> int:
    """The native number whose bytes in memory are ``value`` in little-endian order."""
    return int.from_bytes(value.to_bytes(size, "little"), sys.byteorder)


def ll_lines(data: bytes, flag: int) -> bytes:
    """LL: lines of 16 bytes: 4 data, flag, 4 data, flag. Data are padded with zeros to whole lines."""
    words = array("I", data + bytes(-len(data) % 8))
    lines = array("I", [_little(flag, 4)]) * (2 * len(words))
    lines[0::2] = words
    return lines.tobytes()


def _warp_words() -> tuple[int | None, ...]:
    """For each of the 256 words of 8 bytes that a warp stores: which of its 240 words of data it is; None: the flag.

    Thread t stores 16 bytes in each of four rounds. Every eighth thread's second word is the flag, so it loads in even
    rounds only and stores its second word in the odd round that follows. Source: NCCL ``prims_ll128.h``
    (``loadRegsBegin``, ``loadRegsFinish``).
    """
    words: list[int | None] = [None] * 256
    for step in range(4):
        for thread in range(32):
            at = 2 * (32 * step + thread)
            load = 32 * step - 4 * (step // 2) + thread - step % 2 * (thread // 8)
            if thread % 8 != 7:
                words[at : at + 2] = [2 * load, 2 * load + 1]
            elif step % 2 == 0:
                words[at] = 2 * load
                words[at + 64] = 2 * load + 1
    return tuple(words)


_WARP_WORDS = _warp_words()


def ll128_lines(data: bytes, flag: int) -> bytes:
    """LL128: lines of 128 bytes, the last word of each the flag, the data as a warp stores them. Whole 2048 bytes."""
    words = array("Q", data + bytes(-len(data) % 1920))
    lines = array("Q", [_little(flag, 8)]) * (len(words) // 240 * 256)
    for place, word in enumerate(_WARP_WORDS):
        if word is not None:
            lines[place::256] = words[word::240]
    return lines.tobytes()


def data_range(protocol: Protocol, data_bytes: int, start: int, stop: int) -> tuple[int, int]:
    """The data bytes of a send that stand in its wire bytes ``start`` to ``stop``; ``start`` at a line group."""
    if protocol is Protocol.LL:
        start, stop = start // 2, -(-stop // 16) * 8
    elif protocol is Protocol.LL128:
        start, stop = start // 2048 * 1920, -(-stop // 2048) * 1920
    return min(start, data_bytes), min(stop, data_bytes)


def wire_form(protocol: Protocol, data: bytes, flag: int, size: int) -> bytes:
    """``data`` as it goes over the wire, cut or padded with zeros to ``size`` bytes."""
    if protocol is Protocol.LL:
        data = ll_lines(data, flag)
    elif protocol is Protocol.LL128:
        data = ll128_lines(data, flag)
    return data[:size] if len(data) >= size else data + bytes(size - len(data))


def data_size(protocol: Protocol, wire_bytes: int) -> int:
    """The most data bytes that ``wire_bytes`` can hold."""
    return {Protocol.LL: wire_bytes // 2, Protocol.LL128: wire_bytes // 16 * 15}.get(protocol, wire_bytes)
