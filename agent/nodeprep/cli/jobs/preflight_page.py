"""The answer of preflight for people: a headline for each job, its roles, and the nodes that cannot take its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from nodeprep.cli import page_layout
from nodeprep.cli.jobs import preflight_report
from nodeprep.cli.jobs.preflight_report import JobReport, PreflightReport, StartWord
from nodeprep.cli.page_layout import GAP, Page, Paint
from nodeprep.decide import kubernetes_text
from nodeprep.jobs import quantities
from nodeprep.jobs.obstacles import Obstacle
from nodeprep.jobs.placement import RoleAnswer
from nodeprep.newer_python import UTC
from nodeprep.values import Value

WORDS = {StartWord.CAN: "CAN START", StartWord.CANNOT: "CANNOT", StartWord.UNKNOWN: "NOT KNOWN"}
PAINTS = {StartWord.CAN: Paint.GOOD, StartWord.CANNOT: Paint.BAD, StartWord.UNKNOWN: Paint.DOUBT}
NODES_SHOWN = 20  # nodes of a job in a table that is not wide
UNKNOWN = "?"
ROLE_COLUMNS = ("ROLE", "PODS", "FIT", "NODES", "EACH WANTS")


class RefusedNode(Value):
    """A Node, the roles that it refuses for the same reasons, and these."""

    node: str
    roles: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]


def lines(report: PreflightReport, *, wide: bool, width: int, colour: bool) -> list[str]:
    """The whole page."""
    page = Page(width, colour)
    for one in report.jobs:
        page.gap()
        _job(page, report, one, wide=wide)
    page.gap()
    if report.look.own:
        page.item("own pod", f"{report.look.own} is not counted: it is the one that asks")
    if report.passed_over:
        page.item("passed", f"{kubernetes_text.few(report.passed_over)}: no pods of a job")
    page.item("read", _read(report))
    return page.lines


def _read(report: PreflightReport) -> str:
    """What the answer rests on, and of when it is."""
    nodes, pods = report.look.versions
    at = datetime.fromtimestamp(report.look.now, UTC).strftime("%H:%M:%SZ")
    return f"nodes at version {nodes}, " + ("" if pods is None else f"pods at version {pods}, ") + f"at {at}"


def _job(page: Page, report: PreflightReport, one: JobReport, *, wide: bool) -> None:
    page.item(WORDS[one.word], preflight_report.headline(one), paint=PAINTS[one.word])
    for words in one.hindrances[1:]:
        page.item("", words)
    if one.answer.roles:
        page.gap()
        page.lines += page_layout.columns([ROLE_COLUMNS, *map(_role, one.answer.roles)])
    refused = list(refusals(one))
    if refused:
        page.gap()
        page.lines += _table(report, refused if wide else refused[:NODES_SHOWN])
        if not wide and len(refused) > NODES_SHOWN:
            page.lines += _rest(refused[NODES_SHOWN:])
    doubts = list(report.doubts(one))
    if doubts:
        page.gap()
    for node, why in doubts if wide else doubts[:NODES_SHOWN]:
        page.item("doubt", f"{node} would be used: {why}", paint=Paint.DOUBT)
    if not wide and len(doubts) > NODES_SHOWN:
        page.item("doubt", f"and {len(doubts) - NODES_SHOWN} more nodes; -o wide lists them", paint=Paint.DOUBT)
    _remarks(page, one)


def _remarks(page: Page, one: JobReport) -> None:
    """What else is to be said of a job."""
    if one.group or one.unknown or one.lints or any(role.role.adds for role in one.answer.roles):
        page.gap()
    if one.group:
        page.item("volcano", one.group)
    for role in one.answer.roles:
        for words in role.role.adds:
            page.item("added", f"{role.role.name}: {words}, by its operator")
    for words in one.unknown:
        page.item("unjudged", words, paint=Paint.DOUBT)
    for shown in one.lints:
        page.item("lint", f"{shown.lint.word} at {shown.place}: {shown.lint.text}", paint=Paint.DOUBT)


def _role(one: RoleAnswer) -> tuple[str, ...]:
    requests = one.role.pod.demand.requests
    wants = ", ".join(f"{name} {quantities.shown(name, count)}" for name, count in requests.items())
    able, nodes = len(one.able), len(one.able) + len(one.refused)
    fit = UNKNOWN if one.fit is None else str(one.fit)
    return one.role.name, str(one.role.replicas), fit, f"{able}/{nodes}", wants or "nothing"


def refusals(one: JobReport) -> Iterator[RefusedNode]:
    """The Nodes that cannot take pods, those with the fewest obstacles first; roles with the same ones as one.

    The rows of a Node follow each other.
    """
    found: dict[str, dict[tuple[Obstacle, ...], list[str]]] = {}
    for answer in one.answer.roles:
        for node, why in answer.refused.items():
            if answer.role.replicas:
                found.setdefault(node, {}).setdefault(why, []).append(answer.role.name)
    rows = [RefusedNode(node, tuple(roles), why) for node, each in found.items() for why, roles in each.items()]
    least = {node: min(map(len, each)) for node, each in found.items()}
    yield from sorted(rows, key=lambda row: (least[row.node], row.node, len(row.obstacles), row.roles))


def _table(report: PreflightReport, rows: list[RefusedNode]) -> list[str]:
    """A line for each obstacle. They are not cut: a reason that is cut is none. A Node's is said once."""
    cells: list[tuple[str, ...]] = [("NODE", "ROLES", "OBSTACLE")]
    last = ("", "")
    for row in rows:
        for index, obstacle in enumerate(row.obstacles):
            behind = report.behind(row.node, obstacle)
            words = "the same" if (row.node, behind) == last else behind
            last = (row.node, behind) if behind else last
            text = f"{obstacle}{f' ({words})' if behind else ''}"
            first = (row.node, ",".join(row.roles)) if index == 0 else ("", "")
            cells.append((*first, text))
    return page_layout.columns(cells)


def _rest(rows: list[RefusedNode]) -> list[str]:
    """How many more Nodes there are, and what stands in the way of how many of them."""
    counts = Counter(_short(obstacle) for row in rows for obstacle in row.obstacles)
    words = ", ".join(f"{count} by {what}" for what, count in counts.most_common(4))
    return [f"and {len(rows)} more{GAP}{words}; -o wide lists them"]


def _short(obstacle: Obstacle) -> str:
    return f"{obstacle.kind} {obstacle.about}" if obstacle.about else str(obstacle.kind)
