"""`nodeprep nodes reset`: a human has agents forget what they hold against their Nodes, and waits until they did."""

from __future__ import annotations

from collections.abc import Collection

from nodeprep.cli import output
from nodeprep.cli.duration import seconds
from nodeprep.cli.nodes_reading import Fleet
from nodeprep.cli.nodes_table import age
from nodeprep.cli.nodes_where import Where, say_few, seen
from nodeprep.cli.nodes_writing import annotate, for_each
from nodeprep.cli.usage import UsageError
from nodeprep.decide.desired import RESET_DONE
from nodeprep.doors import clock
from nodeprep.doors.kube_watch import Lists
from nodeprep.publish.fleet import SILENT_AFTER, part
from nodeprep.publish.node import RESET

PAUSE = 1.0  # seconds between two looks; an agent reads its Node once a minute


def run(where: Where, *, inventory: bool, timeout: str | None) -> int:
    """Ask the agents of these Nodes, and wait for them unless `timeout` is None. Raises UsageError."""
    patience = None if timeout is None else seconds("--timeout", timeout)
    if not where.names and where.selector is None:
        raise UsageError("nodes reset: found no Node, wanted some by name or --selector")
    fleet = where.fleet()
    return seen(lambda: _reset(fleet, patience, f"{clock.utc()}{' inventory' if inventory else ''}", where.nobody))


def _reset(fleet: Fleet, patience: float | None, value: str, nobody: str) -> int:
    asked = sorted(_answers(fleet))
    if not asked:
        output.complain(nobody)
        return 1
    if say_few(for_each(asked, lambda name: annotate(fleet.access, name, RESET, value))):
        return 1
    if patience is None:
        output.put(f"asked the agents of {len(asked)} Nodes: {RESET}={value}")
        return 0
    end = clock.now() + patience
    late = set(asked)
    while late:
        late -= (done := {name for name, answer in _answers(fleet).items() if answer == value and name in late})
        for name in sorted(done):
            output.put(f"{name}: reset")
        if clock.now() >= end:
            break
        clock.sleep(PAUSE if late else 0.0)
    return _told(fleet, late, patience) if late else 0


def _answers(fleet: Fleet) -> dict[str, str]:
    """What each agent acted on last, by Node."""
    with Lists(fleet.access) as api:
        return dict(fleet.objects(api, lambda told: (_name(told), _answer(told))))


def _told(fleet: Fleet, late: Collection[str], patience: float) -> int:
    """Why an agent may not have done it: what to look at."""
    look = fleet.look()
    for name in sorted(late):
        renewed = (look.others.renewed or {}).get(name)
        pods = f"kubectl -n {fleet.namespace} get pods -o wide --field-selector spec.nodeName={name}"
        if look.others.renewed is None:
            why = f"whether its agent lives is not known; see {pods}"
        elif renewed is None:
            why = f"there is no Lease of an agent; see {pods}"
        elif look.now - renewed > SILENT_AFTER:
            why = f"its agent is silent for {age(look.now - renewed)}; see {pods}"
        else:
            why = (
                f"its agent lives (Lease {age(look.now - renewed)} old); see its log, and nodeprep nodes {name} -o wide"
            )
        output.complain(f"{name}: not reset in {patience:g} s: {why}")
    return 1


def _name(told: object) -> str:
    return str(part(told, "metadata").get("name", ""))


def _answer(told: object) -> str:
    return str(part(told, "metadata", "annotations").get(RESET_DONE, ""))
