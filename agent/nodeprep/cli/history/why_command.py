"""`nodeprep why`: the nodes on which a job's pods ran, and what their agents recorded around the end of each pod."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from nodeprep.cli import terminal
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.history import history_command, moment
from nodeprep.cli.history.history_reading import HistoryReading
from nodeprep.cli.nodes import agent_exec, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet, NodeSelection
from nodeprep.cli.nodes.kubeconfigs import FleetOptions
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.doors.kube.reader import NAMESPACE, NODE_NAME, Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.history import coincidence, job_pods, timeline
from nodeprep.history.coincidence import BEFORE_SECONDS, Coincidence
from nodeprep.history.job_pods import PodEnd
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Unreadable
from nodeprep.values import Value, asdict, field, replace

JOB = "job/"
PODS_SHOWN = 3  # pods whose end is told, and coincidences of each
DISCLAIMER = "this is what coincides; a kubelet gives whole seconds, and the clocks of two nodes may differ"


class WhyOptions(Value):
    """The options of `why`, as they were typed."""

    what: str
    namespace: str = "default"
    cluster: FleetOptions = field(default_factory=FleetOptions)
    agents: str = NAMESPACE
    output: ListFormat = ListFormat.TABLE

    @property
    def job(self) -> str:
        """The job's name; "" for a single pod."""
        return self.what.removeprefix(JOB) if self.what.startswith(JOB) else ""


class WhyAnswer(Value):
    """The pods, what coincides with their ends, and the nodes of which nothing is known, each with why."""

    pods: tuple[PodEnd, ...]
    found: tuple[Coincidence, ...] = ()
    quiet: tuple[str, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)


def run(asked: WhyOptions) -> int:
    """Print the answer; the exit code is 3 if the history of a node, or the end of a pod, is not known.

    Raises UsageError.
    """
    name = asked.job or asked.what
    for option, value in (("POD|job/NAME", name), ("--namespace", asked.namespace)):
        if not NODE_NAME.fullmatch(value):
            raise UsageError(f"{option}: found {value!r}, wanted a name of Kubernetes, such as worker-3 or job/train")
    fleet = FleetScope((), None, asked.cluster, asked.agents).fleet()
    return scope.exit_code(lambda: _answered(asked, fleet))


def _answered(asked: WhyOptions, fleet: Fleet) -> int:
    pods = _pods(asked, fleet)
    if not pods:
        what = f"job {asked.job}" if asked.job else f"pod {asked.what}"
        raise CannotSee(
            f"{what} in namespace {asked.namespace}: no pod and no Event of one; a server keeps Events for an hour, "
            "and nobody else knows where it ran"
        )
    answer = _asked(fleet, pods)
    if asked.output is ListFormat.JSON:
        terminal.put(json.dumps(document(asked, answer), indent=2))
    else:
        terminal.put("\n".join(lines(answer)))
    return 3 if answer.silent or not any(one.ended for one in pods) else 0


def _pods(asked: WhyOptions, fleet: Fleet) -> tuple[PodEnd, ...]:
    """The pods that are meant, also such as are gone. Raises CannotSee."""
    path = f"/api/v1/namespaces/{quote(asked.namespace, safe='')}"
    with ApiLists(fleet.access) as api:
        there = api.listed(f"{path}/pods", "pods", partial(_meant, asked), may=f"list pods -n {asked.namespace}")
        if isinstance(there, Unreadable):
            raise CannotSee(f"cannot tell where the pods ran: {there}", there)
        events = api.listed(
            f"{path}/events",
            "events",
            lambda one: one,
            may=f"list events -n {asked.namespace}",
            fieldSelector="involvedObject.kind=Pod",
        )
    known = {one.name: one for one in there.items}
    if isinstance(events, Unreadable):
        if not known:
            raise CannotSee(f"no pod is there, and its Events cannot be read: {events}", events)
        return tuple(known.values())
    gone = job_pods.of_events(events.items, (one.uid for one in known.values()))
    return (*known.values(), *(one for one in gone.values() if _is_meant(asked, one.name)))


def _meant(asked: WhyOptions, pod: Object) -> PodEnd | None:
    found = job_pods.of_pod(pod)
    is_meant = job_pods.is_of_job(pod, asked.job) if asked.job else found.name == asked.what
    return found if is_meant else None


def _is_meant(asked: WhyOptions, name: str) -> bool:
    """Whether a pod that is gone is meant: of a job, by the names that operators give its pods."""
    return name.startswith(f"{asked.job}-") if asked.job else name == asked.what


def _asked(fleet: Fleet, pods: tuple[PodEnd, ...]) -> WhyAnswer:
    """Ask the agents of all their nodes. Raises CannotSee."""
    nodes = tuple(sorted({one.node for one in pods if one.node}))
    silent = {one.name: "nobody knows on which node it ran" for one in pods if not one.node and not one.runs}
    if not nodes:
        return WhyAnswer(pods, silent=silent)
    meant = replace(fleet, selection=NodeSelection(nodes, None, may_be_deleted=True))
    targets = agent_exec.targets(meant)
    told = agent_exec.each(
        {node: targets.get(node) for node in nodes}, lambda target: history_command.remote(fleet, "", target)
    )
    known: dict[str, HistoryReading] = {}
    for node, found in told.items():
        if isinstance(found, HistoryReading):
            known[node] = found
        elif found is None and node not in targets:
            silent[node] = "the Node is gone, and its history with it"
        else:
            silent[node] = found or "no agent runs there now"
    found_on = [one for pod in pods if pod.node in known for one in _found(known[pod.node], pod)]
    silent |= {node: reason for node, one in known.items() if (reason := _unwatched(one, node, pods))}
    quiet = tuple(node for node in known if node not in silent and node not in {one.node for one in found_on})
    return WhyAnswer(pods, tuple(sorted(found_on, key=_rank)), quiet, silent)


def _found(reading: HistoryReading, pod: PodEnd) -> list[Coincidence]:
    return coincidence.coincidences(reading.single, pod)[:PODS_SHOWN]


def _rank(one: Coincidence) -> tuple[bool, float]:
    """The nearest comes first; what stood for long comes last. A conviction follows a fault by a second."""
    return one.is_open, abs(one.seconds or 0.0)


def _unwatched(reading: HistoryReading, node: str, pods: Iterable[PodEnd]) -> str:
    """Why the history of a node says nothing of an end there; "" if its agent watched them all."""
    for one in pods:
        if one.node == node and one.ended is not None:
            unknown = timeline.past(reading.records, one.ended, reading.now).unknown
            if unknown:
                return f"when {one.name} ended, {unknown}"
    return ""


def lines(answer: WhyAnswer) -> list[str]:
    """The answer as a person reads it: what coincides, then the nodes that show nothing, then what is not known."""
    said = [f"{one.node}: {one.words} {_when(one)}" for one in answer.found]
    if answer.quiet:
        other = "other " if answer.found else ""
        show = "node shows" if len(answer.quiet) == 1 else "nodes show"
        said.append(f"{len(answer.quiet)} {other}{show} nothing ({kubernetes_text.few(answer.quiet)})")
    said += [f"{name}: nobody knows: {reason}" for name, reason in answer.silent.items()]
    ended = sorted((one for one in answer.pods if one.ended is not None), key=lambda one: one.ended or 0.0)
    said += ["", *(f"{one.name} on {one.node or 'no node'}: {_end(one)}" for one in ended[:PODS_SHOWN])]
    more = len(ended) - PODS_SHOWN
    said += [f"{more} more pods ended after that"] if more > 0 else []
    if any(one.is_gone for one in answer.pods) and any(not one.is_gone for one in answer.pods):
        said.append("pods that are gone are counted by their names: one of another job may be among them")
    for words, names in (
        ("not ended", [one.name for one in answer.pods if one.ended is None and one.runs]),
        ("without a known end", [one.name for one in answer.pods if one.ended is None and not one.runs]),
    ):
        said += [f"{words}: {kubernetes_text.few(names)}"] if names else []
    return [*said, DISCLAIMER] if answer.found else said


def _when(one: Coincidence) -> str:
    if one.seconds is None:
        return f"at {moment.stamp(one.time)} UTC, while {one.pod} ran or after it"
    if one.is_open:
        return f"stood since {moment.span(one.seconds)} before {one.pod} ended"
    if abs(one.seconds) < 1:
        return f"within a second of the end of {one.pod}"
    length = f"{abs(one.seconds):.1f} s" if abs(one.seconds) < 60 else moment.span(abs(one.seconds))
    return f"{length} {'before' if one.seconds > 0 else 'after'} {one.pod} ended"


def _end(one: PodEnd) -> str:
    gone = ", and its object is gone" if one.is_gone else ""
    return f"ended {moment.stamp(one.ended or 0.0)} UTC ({one.how}){gone}"


def document(asked: WhyOptions, answer: WhyAnswer) -> dict[str, Any]:
    """As docs/why.schema.json says."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Coincidences",
        "of": asked.what,
        "namespace": asked.namespace,
        "windowSeconds": BEFORE_SECONDS,
        "pods": [asdict(one) | {"ended": _time(one.ended), "began": _time(one.began)} for one in answer.pods],
        "found": [_found_document(one) for one in answer.found],
        "quiet": list(answer.quiet),
        "unknown": dict(answer.silent),
    }


def _found_document(one: Coincidence) -> dict[str, Any]:
    seconds = None if one.seconds is None else round(one.seconds, 2)
    return asdict(one) | {"time": _time(one.time), "seconds": seconds}


def _time(wall: float | None) -> str | None:
    return None if wall is None else moment.exact(wall)
