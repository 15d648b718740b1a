"""Lingjun nodes (EFLO): the virtual functions that HDENI hands to pods, by the topology files on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import ADDRESS, DEVICES
from nodeprep.model import Fact, Shown, Subject, Unreadable, Why, guarded, shown, stands_for_all

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

LIST = "/var/rdma/eni_topo"  # Terway plugin/driver/vf/vf.go: a list of functions
TABLE = "/var/run/hc-eni-host/vf-topo-vpc"  # the same list below the key eniVFs
KEY = "eniVFs"


@shown
class VirtualFunction(Shown):
    """A virtual function that a topology file lists, and the driver that it is bound to, None for none.

    `autoprobed` is whether its physical function lets drivers take new ones (sriov_drivers_autoprobe), None where that
    is not shown; where it does not, Terway binds a function when a pod takes it.
    """

    bdf: str
    present: bool
    driver: str | None
    autoprobed: bool | None

    @property
    def subject(self) -> Subject:
        return Subject(self.bdf, None, self.bdf)


@shown
class VfTopology(Shown):
    """A topology file; its `functions` are Unreadable(malformed) where it does not hold a topology."""

    file: str
    functions: tuple[VirtualFunction, ...]


@shown
class Lingjun(Shown):
    """`topologies` is empty where the node has no such file."""

    at: float
    topologies: tuple[VfTopology, ...]

    possible = stands_for_all(topologies=((),))


def observe(host: Host) -> Lingjun:
    found = ((path, _listed(host.files, path)) for path in (LIST, TABLE))
    return Lingjun(host.now(), tuple(VfTopology(path, guarded(listed)) for path, listed in found if listed is not None))


def _listed(files: Files, path: str) -> tuple[VirtualFunction, ...] | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str):
        return text
    import json  # noqa: PLC0415 - no other node has such a file, and `check` starts without it

    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}, column {error.colno}: " if isinstance(error, json.JSONDecodeError) else ""
        return Unreadable(Why.MALFORMED, path, detail=f"{where}no JSON")
    entries = given if path == LIST else given.get(KEY) if isinstance(given, dict) else None
    if not isinstance(entries, list):
        return Unreadable(Why.MALFORMED, path, detail="no list of functions")
    addresses = [entry.get("bdf") if isinstance(entry, dict) else None for entry in entries]
    for number, address in enumerate(addresses, start=1):
        if not (isinstance(address, str) and ADDRESS.fullmatch(address)):
            return Unreadable(Why.MALFORMED, path, detail=f"bdf of entry {number} is {str(address)[:40]!r}")
    return tuple(_function(files, str(address)) for address in addresses)


def _function(files: Files, bdf: str) -> VirtualFunction:
    here = f"{DEVICES}/{bdf}"
    probed = files.number(f"{here}/physfn/sriov_drivers_autoprobe")
    return VirtualFunction(
        bdf=bdf,
        present=files.exists(here),
        driver=pci.driver_of(files, here),
        autoprobed=bool(probed) if isinstance(probed, int) else None,
    )


FACT = Fact(Lingjun, observe, every=60.0)
