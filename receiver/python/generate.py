"""Writes the C source of flowcheck_net._native: the declarations of our own headers, bound by cffi.

Called by Meson: ``generate.py OUTPUT HEADER...``. Each header marks its plain declarations with two "cffi" lines.
"""

import re
import sys
from pathlib import Path

import cffi

_DECLARATIONS = re.compile(r"^// cffi: begin$(.*?)^// cffi: end$", re.DOTALL | re.MULTILINE)


def declarations(header: Path) -> str:
    """What stands between the marks of a header. ValueError where they are missing."""
    found = _DECLARATIONS.search(header.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{header}: no '// cffi: begin' and '// cffi: end' lines")
    return found[1]


def main(output: str, *headers: str) -> None:
    """Write ``output``."""
    ffi = cffi.FFI()
    paths = [Path(header) for header in headers]
    for path in paths:
        ffi.cdef(declarations(path))
    ffi.set_source("flowcheck_net._native", "".join(f'#include "{path.name}"\n' for path in paths))
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
