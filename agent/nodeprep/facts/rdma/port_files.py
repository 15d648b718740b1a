"""What the kernel writes into the files of RDMA ports; anything else is damage, and said to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files

# enum ib_port_state and the words of drivers/infiniband/core/sysfs.c: a known number beside another word is damage.
STATES = {"0": "NOP", "1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE", "5": "ACTIVE_DEFER"}
PHYSICAL = {
    "0": "<unknown>",
    "1": "Sleep",
    "2": "Polling",
    "3": "Disabled",
    "4": "PortConfigurationTraining",
    "5": "LinkUp",
    "6": "LinkErrorRecovery",
    "7": "Phy Test",
}
LAYERS = ("InfiniBand", "Ethernet", "Unknown")
RATE = Pattern(r"([1-9]\d{0,4}(?:\.5)?) Gb/sec \(([1-9]\d?)X(?: ([A-Z]{3}\d{0,2}))?\)")
# Gb/s of one lane (sysfs.c rate_show); FDR10 is 10 there.
LANE = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
GUID = Pattern(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}")
LID = Pattern(r"0x[0-9a-f]{1,8}")


def word(files: Files, path: str, words: dict[str, str]) -> str | Unreadable:
    """Text such as "4: ACTIVE"; a number that is new to us passes, a known one with another word does not."""
    text = files.need(path)
    if isinstance(text, Unreadable):
        return text
    number, colon, word = text.partition(": ")
    if colon and number.isdecimal() and len(number) < 4 and words.get(number, word) == word and word.isprintable():
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not what the kernel writes")


def rate(files: Files, path: str) -> float | Unreadable:
    """Gb/s; the three parts of "400 Gb/sec (4X NDR)" must agree, else something got lost on the way.

    A word that is new to us passes with a speed that is new to us; old kernels leave SDR out.
    """
    text = files.need(path)
    if isinstance(text, Unreadable):
        return text
    match = RATE.fullmatch(text)
    lane = float(match[1]) / int(match[2]) if match else 0.0
    if match and (LANE.get(match[3] or "SDR") == lane or (match[3] not in LANE and lane not in LANE.values())):
        return float(match[1])
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not what the kernel writes")


def layer(files: Files, path: str) -> str | Unreadable:
    text = files.need(path)
    if isinstance(text, Unreadable) or text in LAYERS:
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not one of {', '.join(LAYERS)}")


def lid(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or LID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no LID")


def guid(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or GUID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no GUID")
