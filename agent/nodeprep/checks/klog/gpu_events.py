"""The GPUs and NVSwitches of a node, and what the kernel log still holds against each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine import xid
from nodeprep.facts.machine.kernel_log import KernelLogLine
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.xid import GpuEvent, XidClass
from nodeprep.model import Seen, Subject
from nodeprep.values import Value

HARMLESS = (XidClass.APPLICATION, XidClass.NOTHING)


class Heard(Value):
    """Events by device, oldest first: those since it was set up. `others` name no device that is here or was.

    What fell off the bus and is not listed any more was here in this boot: its driver had it.
    """

    by_device: tuple[tuple[Subject, tuple[GpuEvent, ...]], ...]
    others: tuple[GpuEvent, ...]


def devices(seen: Seen) -> list[Subject]:
    """GPUs, those that left the bus included, and NVSwitches."""
    pci = seen[Pci]
    missing = [gpu.subject for gpu in seen[Expected].missing_gpus]
    return [*(gpu.subject for gpu in pci.gpus), *missing, *(switch.subject for switch in pci.nvswitches)]


def heard(found: Iterable[Subject], lines: tuple[KernelLogLine, ...], pci: Pci) -> Heard:
    """What the lines say about the devices. What was said before a device was set up again is past."""
    events = {id(one.line): one for one in xid.events(lines)}
    here = tuple(found)
    subjects = (*here, *gone(here, events.values(), pci))
    standing: dict[str, list[GpuEvent]] = {one.place: [] for one in subjects}
    others: list[GpuEvent] = []
    for line in lines:
        for place in _set_up(line, standing):
            standing[place].clear()
        one = events.get(id(line))
        if one is None or is_good_news(one):
            continue
        places = [place for place in standing if one.place and one.is_about(place)]
        for place in places:
            standing[place].append(one)
        others += () if places else (one,)
    told = ((one, tuple(standing[one.place])) for one in subjects)
    return Heard(tuple((one, said) for one, said in told if said or one in here), tuple(others))


def gone(here: Iterable[Subject], events: Iterable[GpuEvent], pci: Pci) -> tuple[Subject, ...]:
    """The GPUs that fell off the bus and that it does not list any more, by address."""
    places = [*(one.place for one in here), *(one.address for one in pci.devices), *pci.hidden]
    fallen = [one for one in events if one.kind is XidClass.REBOOT and one.place]
    lost = {one.place for one in fallen if not any(map(one.is_about, places))}
    # A line may name the slot only, and a GPU is its function 0.
    addresses = sorted({one if "." in one else f"{one}.0" for one in lost})
    return tuple(Subject(one, None, f"{one} (gone from the bus)") for one in addresses)


def _set_up(line: KernelLogLine, places: Iterable[str]) -> Iterator[str]:
    return (place for place in places if (line.sets_up and line.bdf == place) or xid.frees(line, place))


def is_good_news(one: GpuEvent) -> bool:
    """Whether it says that no recovery is needed any more."""
    return one.kind is XidClass.RECOVERY and not one.action


def is_mild(one: GpuEvent) -> bool:
    """Whether its own words say that it is not fatal; an error of NVLink 5 must say that it is."""
    return one.fatal is False or (one.code in xid.NVLINK_5 and one.fatal is None)


def code(one: GpuEvent) -> str:
    kind = "SXid" if one.of_switch else "Xid"
    return one.line.text if one.code is None else f"{kind} {one.code}"


def told(name: str, events: Iterable[GpuEvent], one: GpuEvent) -> str:
    """One event in words, and how many there are of its like."""
    alike = sum((other.kind, other.code) == (one.kind, one.code) for other in events)
    more = f" ({alike} such lines)" if alike > 1 else ""
    meaning = f"{one.action} is asked for" if one.action else one.meaning
    why = f" ({meaning})" if meaning else ""
    return f"{name}: {one.line.at:.0f} s after boot the kernel said: {one.line.text}{why}{more}"
