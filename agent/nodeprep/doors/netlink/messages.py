"""pyroute2's message classes without the rest of it (docs/adr/0008).

Its package imports everything that it can do, a database and an event loop among it: 180 ms and 20 MiB where the two
modules behind the message classes take 30 ms and 4 MiB.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def _netlink() -> Any:
    """pyroute2.netlink, imported while a package that was never run stands for pyroute2."""
    spec = importlib.util.find_spec("pyroute2")
    if "pyroute2" in sys.modules or spec is None:
        return importlib.import_module("pyroute2.netlink")
    sys.modules["pyroute2"] = importlib.util.module_from_spec(spec)
    try:
        return importlib.import_module("pyroute2.netlink")
    finally:
        del sys.modules["pyroute2"]  # whoever imports it hereafter gets all of it


_found = _netlink()
nla, nlmsg = _found.nla, _found.nlmsg
