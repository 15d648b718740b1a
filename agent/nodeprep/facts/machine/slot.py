"""Where a device sits on the PCI bus, as it says itself: all that a copy without links keeps of that."""

from __future__ import annotations

from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.model import Unreadable


def slot_in(uevent: str | None | Unreadable) -> str:
    """The PCI address that the text of a device's uevent file names, "" if none."""
    lines = uevent.splitlines() if isinstance(uevent, str) else []
    said = next((line.removeprefix("PCI_SLOT_NAME=") for line in lines if line.startswith("PCI_SLOT_NAME=")), "")
    return said if ADDRESS.fullmatch(said) else ""
