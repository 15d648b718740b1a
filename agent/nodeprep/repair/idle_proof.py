"""Proves that nobody uses what a remedy disturbs, at the moment of acting, by asking every source there is.

Each source is asked by itself, in a thread of its own and within a deadline. What fails, denies, hangs or breaks is a
doubt about that source, and a doubt counts as in use. A source that this host cannot have is absent by name: that is
proved by what the host shows, and never by an error.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from threading import Thread

from nodeprep import fault_boundary
from nodeprep.decide import idleness
from nodeprep.decide.idleness import Idleness, IdleSource, IdleTarget, SourceState
from nodeprep.decide.remedy_header import RemedyHeader, SafetyClass
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import pci
from nodeprep.facts.network import links
from nodeprep.facts.rdma import rdma
from nodeprep.model import CannotLook, Unreadable, Why, excluded
from nodeprep.repair import idle_sources
from nodeprep.repair.idle_sources import IdleQuestion, NotProved

SOURCE_SECONDS = 10.0  # for each source; all are asked at once
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"  # what the kubelet tells each pod (pkg/kubelet/envvars)
VIRTUAL_FUNCTION = "virtfn"  # the links of a function to its virtual ones (drivers/pci/iov.c)


def target_of(host: Host, header: RemedyHeader, args: Mapping[str, str]) -> IdleTarget | Unreadable:
    """What a remedy with these arguments disturbs on this host now. Unreadable if the host does not show it."""
    host.files.forget()
    try:
        return _target(host, header, args)
    except NotProved as unproved:
        return unproved.why
    except CannotLook as cannot:
        return cannot.blind


def _target(host: Host, header: RemedyHeader, args: Mapping[str, str]) -> IdleTarget:
    functions, devices, interfaces = (idle_sources.needed(one.observe(host)) for one in (pci, rdma, links))
    hidden = (*functions.hidden, *devices.hidden)
    if hidden:  # what it is on, nobody knows
        raise NotProved(excluded(hidden[0]))
    owned = {one.address: _virtual_functions(host, one.address) for one in functions.devices}
    return idleness.target(header, args, functions, devices, interfaces, virtual_functions=owned)


def _virtual_functions(host: Host, address: str) -> tuple[str, ...]:
    here = f"{pci.DEVICES}/{address}"
    names = idle_sources.needed(host.files.names(here)) or ()
    shown = (host.files.link(f"{here}/{name}") or "" for name in names if name.startswith(VIRTUAL_FUNCTION))
    return tuple(sorted(target.rpartition("/")[2] for target in shown))


def prove(
    host: Host,
    target: IdleTarget,
    safety: SafetyClass,
    ignored: Collection[str] = (),
    *,
    service_host: str | None = None,
    deadline: float = SOURCE_SECONDS,
) -> Idleness:
    """Whether the target is idle now, for a remedy of this class. Nothing that was read before counts.

    `ignored` are the daemons of `idle.ignore`, none by default. `service_host` is by default what the kubelet
    told our own pod. `deadline` is for each source, in seconds; all of them together take hardly longer. Raises
    nothing.
    """
    host.files.forget()
    told = os.environ.get(SERVICE_HOST, "") if service_host is None else service_host
    asked = idleness.sources(target, safety)
    return idleness.judge(target, gather(IdleQuestion(host, target, told), asked, deadline), safety, ignored)


def gather(
    question: IdleQuestion, asked: Collection[IdleSource], deadline: float = SOURCE_SECONDS
) -> Mapping[IdleSource, SourceState]:
    """What each of these sources says. One that has not answered within `deadline` seconds has failed."""
    hidden = _hidden(question.host)
    if hidden is not None:
        return {source: SourceState(failed=hidden) for source in asked}
    states: dict[IdleSource, SourceState] = {}

    def ask(source: IdleSource) -> None:
        states[source] = _state(source, question)

    threads = [Thread(target=ask, args=(source,), name=f"idle-{source}", daemon=True) for source in asked]
    until = clock.now() + deadline
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until - clock.now(), 0.0))
    late = SourceState(failed=Unreadable(Why.TIMEOUT, "idle proof", detail=f"no answer in {deadline:g} s"))
    return {source: states.get(source, late) for source in asked}


def _hidden(host: Host) -> Unreadable | None:
    """Why nothing of the live node is shown here; None if it is."""
    if not host.live:
        return Unreadable(Why.MISSING, host.root, detail="a copy of a node does not show who uses it")
    for path in idle_sources.PATHS:
        if host.files.is_excluded(path):  # else it would count as absent
            return excluded(path)
    unmounted, fault = fault_boundary.contained(host.unmounted)
    return _broken(fault) if fault is not None else unmounted


def _state(source: IdleSource, question: IdleQuestion) -> SourceState:
    state, fault = fault_boundary.contained(lambda: idle_sources.SOURCES[source](question))
    if isinstance(fault, NotProved):
        return SourceState(failed=fault.why)
    if isinstance(fault, CannotLook):
        return SourceState(failed=fault.blind)
    if fault is not None or state is None:
        return SourceState(failed=_broken(fault))
    return state


def _broken(fault: Exception | None) -> Unreadable:
    words = fault_boundary.words_of(fault) if fault is not None else "no answer"
    return Unreadable(Why.IO_ERROR, "idle proof", detail=f"our own code broke: {words}")
