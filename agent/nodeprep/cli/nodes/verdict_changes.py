"""What another configuration would change on each node: two reports of one node in, rows and plain values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.cli import page_layout
from nodeprep.job_profile import API_VERSION
from nodeprep.values import Value

COLUMNS = ("NODE", "NOW", "THEN", "WHY")
Document = Mapping[str, Any]  # a report as `check -o json` gives it


class NodeTrial(Value):
    """One node under the configuration in force and under the other: a verdict in a word, and what fails.

    `changes` are the findings that fail under one of them only, in words. `silent` says why nobody knows.
    """

    node: str
    now: str = ""
    then: str = ""
    changes: tuple[str, ...] = ()
    silent: str = ""

    @property
    def is_changed(self) -> bool:
        return self.now != self.then or bool(self.changes)

    @property
    def closes(self) -> bool:
        """Whether the node is ready, or has nothing that is judged, and would not stay so."""
        return self.now not in LOST and self.then in LOST


LOST = ("not-ready", "unknown")


def trial(node: str, now: Document, then: Document) -> NodeTrial:
    """The two reports held against each other."""
    before, after = _failing(now), _failing(then)
    new = [words for key, words in after.items() if key not in before]
    gone = [f"no more: {words}" for key, words in before.items() if key not in after]
    return NodeTrial(node, str(now.get("verdict")), str(then.get("verdict")), (*new, *gone))


def _failing(report: Document) -> dict[tuple[str, str, object, str], str]:
    """The failures that count, in words, by check, subject and reason."""
    found = {}
    for one in report.get("findings", ()):
        if one["status"] == "fail" and one["root"] is None and one["waived"] is None:
            subject = one["subject"]
            words = f"{one['check']} {one['reason']} {subject['name'] or subject['place']}: {one['message']}"
            found[one["check"], subject["place"], subject["port"], one["reason"]] = words
    return found


def lines(trials: list[NodeTrial], width: int | None) -> list[str]:
    """A table of the nodes that would change, and a line that counts all."""
    changed = [one for one in trials if one.is_changed and not one.silent]
    rows = [(one.node, one.now, one.then, _why(one)) for one in changed]
    silent, closing = sum(bool(one.silent) for one in trials), sum(one.closes for one in trials)
    told = f"{len(trials) - silent} of {len(trials)} nodes answered; {len(changed)} would change, {closing} would close"
    return [*(page_layout.columns([COLUMNS, *rows], width) if rows else ()), told]


def _why(one: NodeTrial) -> str:
    if not one.changes:
        return "the profile or what it rests on; see nodeprep check there"
    return one.changes[0] + (f" (and {len(one.changes) - 1} more)" if one.changes[1:] else "")


def document(trials: list[NodeTrial]) -> dict[str, Any]:
    """The same for programs."""
    nodes = [
        {"node": one.node, "now": one.now, "then": one.then, "changes": list(one.changes), "silent": one.silent}
        for one in trials
    ]
    return {"apiVersion": API_VERSION, "kind": "ConfigTrial", "nodes": nodes}
