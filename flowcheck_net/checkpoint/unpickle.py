"""Pickles read for their form only: nothing that they name is imported, called or built.

Every class or function that a pickle names becomes an inert stand-in that remembers what it was given. So a hostile
file can at worst describe nonsense; and a checkpoint of any framework can be listed where that framework is missing.
PyTorch itself is not needed. ``pickle._Unpickler`` is the standard library's reader in Python: the one in C would let
a file ask for a memo of any size.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flowcheck_net.errors import RecordsCorrupt

_FAULTS = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    ImportError,
)
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
"""PyTorch's typed storages, by class name -> element type."""


class Inert:
    """What stands for an object of a class that was named and not imported."""

    of = ""
    """Module and name."""

    def __init__(self, *arguments: object, **named: object) -> None:
        """Keep the arguments; call nothing."""
        self.arguments = (*arguments, *named.values())
        self.state: Any = None
        self.items: list[tuple[Any, Any]] = []

    def __new__(cls, *arguments: object, **named: object) -> "Inert":
        """Also pickles that never call ``__init__`` get whole stand-ins."""
        self = object.__new__(cls)
        Inert.__init__(self, *arguments, **named)
        return self

    def __call__(self, *arguments: object) -> "Inert":
        """What a pickle calls may be the result of another call, such as ``getattr``."""
        return Inert(self, *arguments)

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        self.items.append((key, value))

    def append(self, value: object) -> None:
        """As of a list."""
        self.items.append((len(self.items), value))

    def extend(self, values: Iterable[object]) -> None:
        """As of a list."""
        for value in values:
            self.append(value)

    def add(self, value: object) -> None:
        """As of a set."""
        self.append(value)


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of a ``torch.save`` file that tensors share."""

    key: str
    dtype: str
    elements: int


@dataclass(frozen=True, slots=True)
class TensorForm:
    """A tensor without its data."""

    dtype: str
    shape: tuple[int, ...]
    storage: Storage | None = None
    offset: int = 0
    """Elements, in the storage."""


def _tensor(storage: object, offset: object = 0, size: object = (), *_: object) -> TensorForm:
    if not isinstance(storage, Storage) or not isinstance(offset, int) or not isinstance(size, tuple):
        raise pickle.UnpicklingError("a tensor without a storage")
    if not all(isinstance(n, int) and n >= 0 for n in size) or offset < 0:
        raise pickle.UnpicklingError("a tensor of a negative size")
    return TensorForm(storage.dtype, size, storage, offset)


def _typed_tensor(storage: object, offset: object, size: object, *rest: object) -> TensorForm:
    found = _tensor(storage, offset, size)
    kinds = [of.removeprefix("torch.") for each in rest if (of := getattr(each, "of", "")).startswith("torch.")]
    return TensorForm(kinds[-1] if kinds else found.dtype, found.shape, found.storage, found.offset)


def _inner(value: object, *_: object) -> object:
    return value


def _size(values: Iterable[int] = ()) -> tuple[int, ...]:
    return tuple(values)


_KNOWN: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): _size,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _typed_tensor,
    ("torch._utils", "_rebuild_parameter"): _inner,
    ("torch._utils", "_rebuild_parameter_with_state"): _inner,
    ("torch._tensor", "_rebuild_from_type_v2"): lambda _, __, arguments, ___: _tensor(*arguments),
}
"""The few names whose meaning is needed, each by a function of ours."""


class _Reader(pickle._Unpickler):
    """Gives stand-ins for all names."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="utf-8", errors="replace")
        self._made: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str) -> object:
        known = _KNOWN.get((module, name))
        if known is not None:
            return known
        if (module, name) not in self._made:
            self._made[module, name] = type("Inert", (Inert,), {"of": f"{module}.{name}"})
        return self._made[module, name]

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError("a registered extension")

    def persistent_load(self, pid: object) -> object:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError("an unknown persistent object")
        _, kind, key, _, elements = pid[:5]
        name = getattr(kind, "of", "").rpartition(".")[2]
        if name not in STORAGES or not isinstance(elements, int):
            raise pickle.UnpicklingError(f"an unknown kind of storage: {name or kind!r}")
        return Storage(str(key), STORAGES[name], elements)


def read_form(data: bytes, what: str) -> object:
    """The object that a pickle describes, with ``Inert`` and ``TensorForm`` in place of what would be built.

    Raises:
        RecordsCorrupt: Not a whole pickle.
    """
    return read_forms(data, what, 1)[0]


def read_forms(data: bytes, what: str, count: int) -> list[object]:
    """The first ``count`` pickles of several, one behind another. Raises RecordsCorrupt."""
    file = io.BytesIO(data)
    try:
        return [_Reader(file).load() for _ in range(count)]
    except _FAULTS as error:
        raise RecordsCorrupt(f"{what} is no readable pickle: {error}", hint="it was not executed") from error
