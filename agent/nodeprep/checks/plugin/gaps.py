"""What a gap comes to between the devices that are advertised and those that are there."""

from __future__ import annotations

from nodeprep.checks.plugin import advertised
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes import device_books, resource_slices
from nodeprep.facts.kubernetes.device_books import Book, SlicedGpus
from nodeprep.model import Remedy, Seen, Status, Verdict

DEVICES_LISTED = 4  # in a message


def fault(
    book: Book, seen: Seen, reason: str, message: str, *, remedy: Remedy | None = None, offered: int | None = None
) -> Verdict:
    """FAIL where fewer are offered than the profile wants, else WARN. `offered` is by another word than the book's."""
    wanted, by = seen[Expected].resources.get(book.resource, 0), seen[Expected].by
    offered = (book.offered or 0) if offered is None else offered
    about, expected = advertised.subject(book), str(wanted or book.total or book.hardware)
    status = Status.FAIL if offered < wanted else Status.WARN
    message = f"{message}; {by} wants {wanted}" if offered < wanted else message
    return Verdict(about, status, reason, message, remedy, str(offered), expected, follows=causes(book))


def advertised_but_dead(book: Book, dead: tuple[str, ...], observed: str) -> Verdict:
    """The scheduler believes in devices that are not there. A restart of the plugin may even hide it."""
    names = ", ".join(one if one.isprintable() else repr(one) for one in dead[:DEVICES_LISTED])
    which = f" ({names})" if names else ""
    message = f"{book.line}: it stands for devices that this node does not have{which}; jobs that get one die"
    about, hardware = advertised.subject(book), str(book.hardware)
    return Verdict(about, Status.FAIL, "AdvertisedButDead", message, None, observed, hardware, follows=causes(book))


def in_slices(book: Book, sliced: SlicedGpus, seen: Seen) -> Verdict:
    """No plugin offers these GPUs, but a driver of dynamic resource allocation does."""
    count, here = len(sliced.gpus), book.hardware
    if not sliced.whole or here is None:
        return Verdict(advertised.subject(book), Status.OK, "InResourceSlices", book.line, None, str(count))
    unknown = sliced.gpus - book.present if book.present is not None else ()
    dead = tuple(sorted(one for one in unknown if one.startswith(resource_slices.UUID)))
    if dead or count > here:
        return advertised_but_dead(book, dead, str(count))
    if count < here:
        absent = sorted(book.addresses.get(one, one) for one in (book.present or frozenset()) - sliced.gpus)
        which = f" ({', '.join(absent[:DEVICES_LISTED])})" if absent else ""
        message = f"{book.line}: {here - count} of the {here} GPUs of this node are not in them, or have a taint{which}"
        return fault(book, seen, "FewerInSlices", message, offered=count)
    return Verdict(advertised.subject(book), Status.OK, "InResourceSlices", book.line, None, str(count))


def causes(book: Book) -> tuple[str, ...]:
    """The checks whose faults may explain a gap of this resource: a port's fault takes no GPU away, nor the reverse."""
    return ("plugin.registered", "gpu.driver" if device_books.is_of_gpus(book.resource) else "port.present")
