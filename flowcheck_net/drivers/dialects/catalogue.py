"""Which dialect a platform has: a fixed map, loaded only when asked for."""

import importlib
from typing import Any, cast

from flowcheck_net.drivers.dialects.base import Dialect

DIALECTS = {
    "comware": "flowcheck_net.drivers.dialects.comware:COMWARE",
    "cumulus": "flowcheck_net.drivers.dialects.cumulus:CUMULUS",
    "dell-os10": "flowcheck_net.drivers.dialects.os10:OS10",
    "eos": "flowcheck_net.drivers.dialects.eos:EOS",
    "junos": "flowcheck_net.drivers.dialects.junos:JUNOS",
    "nxos": "flowcheck_net.drivers.dialects.nxos:NXOS",
    "vrp": "flowcheck_net.drivers.dialects.vrp:VRP",
}
"""Name -> ``module:object``. A platform has the dialect of its own name, or the first that its name begins with."""


def dialect_of(platform: str) -> Dialect[Any]:
    """The dialect for a platform such as ``eos`` or ``eos-7060``; raises KeyError with the names there are.

    The chip that may stand behind it (``eos+broadcom-tomahawk4``) does not matter.
    """
    platform = platform.partition("+")[0]
    fitting = [name for name in DIALECTS if platform == name or platform.startswith(f"{name}-")]
    name = max(fitting, key=len, default="")
    if not name:
        raise KeyError(f"no command-line dialect for {platform!r}; there are {', '.join(sorted(DIALECTS))}")
    module, _, attribute = DIALECTS[name].partition(":")
    return cast("Dialect[Any]", getattr(importlib.import_module(module), attribute))
