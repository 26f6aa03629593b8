"""The cffi module over receiver/core/fck.h and receiver/sources/capfile.h, built by Meson."""

from typing import Any

# C structs have no Python types: receive/native.py is the one place that touches them, and checks their layout.
ffi: Any
lib: Any
