"""`check --snapshot A B C` and `compare A B`: several recorded hosts in one table, and held against each other."""

from __future__ import annotations

import json
from typing import Any

from nodeprep.checks import IDS
from nodeprep.cli import page_layout, terminal
from nodeprep.cli.check import (
    assessments,
    check_selection,
    finding_groups,
    host_traits,
    json_report,
    line_report,
    outcome,
)
from nodeprep.cli.check.check_command import CheckOptions
from nodeprep.cli.check.choices import CheckFormat, FailOn, ListFormat
from nodeprep.cli.check.host_traits import Oddity, Traits
from nodeprep.cli.check.outcome import CheckOutcome
from nodeprep.cli.files import snapshot_command
from nodeprep.cli.usage import UsageError
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Report, Status
from nodeprep.values import Value, replace

COLUMNS = ("HOST", "VERDICT", "FAULTS", "WARNINGS", "FIRST OF THEM")
WORST_FIRST = (1, 3, 0)  # exit codes of all hosts together
NOT_JUDGED = 3  # exit code of a host of which no fault is seen, and a gate was not judged
UNLIKE = 1  # exit code of `compare` where hosts differ


class RecordedHost(Value):
    """One recording, judged. `name` is the node's, or the file's where it shows none; `when` it was taken."""

    name: str
    file: str
    when: str
    report: Report
    end: CheckOutcome
    traits: Traits

    @property
    def told(self) -> Report:
        """The report whose node nobody else has: by its file if the name of the host is empty or there twice."""
        return self.report if self.name == self.report.node else replace(self.report, node=self.file)


def check(asked: CheckOptions, files: tuple[str, ...]) -> int:
    """Judge the recordings, each by its own profile unless another one is named; returns the worst exit code.

    Raises UsageError.
    """
    if asked.output in (CheckFormat.JUNIT, CheckFormat.WIDE):
        raise UsageError(f"-o {asked.output} is of one host, found {len(files)} recordings")
    hosts = judged(asked, files)
    odd = host_traits.oddities({one.name: one.traits for one in hosts})
    if not asked.quiet:
        match asked.output:
            case CheckFormat.JSON:
                terminal.put(json_report.text(_document(asked, hosts, odd)))
            case CheckFormat.LINE:
                terminal.put("\n".join(_lines(asked, hosts)))
            case _:
                terminal.put("\n".join(_table(asked, hosts, odd)))
    codes = {one.end.exit_code for one in hosts}
    return next(code for code in WORST_FIRST if code in codes)


def compare(files: tuple[str, ...], output: ListFormat) -> int:
    """Print in what recordings differ; 0 if in nothing. Raises UsageError."""
    if len(files) < 2:
        raise UsageError(f"compare: found {len(files)} recording, wanted two or more (nodeprep snapshot)")
    read = [snapshot_command.read(file) for file in files]
    names = _unique([one.node for one in read], files)
    known = {name: host_traits.traits(one.look()[0]) for name, one in zip(names, read, strict=True)}
    odd = host_traits.oddities(known)
    every = dict.fromkeys(trait for one in known.values() for trait in one)
    rows = [(trait, *(known[name].get(trait, host_traits.NOTHING) for name in names)) for trait in every]
    rows = [row for row in rows if len(set(row[1:])) > 1]
    if output is ListFormat.JSON:
        found = [{"trait": row[0], "values": dict(zip(names, row[1:], strict=True))} for row in rows]
        document = {"apiVersion": API_VERSION, "kind": "Comparison", "hosts": list(names), "differences": found}
        terminal.put(json.dumps({**document, "unlike": _unlike(odd)}, indent=2))
    elif rows:
        table = page_layout.columns([("TRAIT", *names), *rows], terminal.whole_width())
        terminal.put("\n".join([*table, *_told_unlike(odd, len(names))]))
    else:
        terminal.put(f"{', '.join(names)}: alike in {len(every)} traits")
    return UNLIKE if rows else 0


def judged(asked: CheckOptions, files: tuple[str, ...]) -> list[RecordedHost]:
    """Raises UsageError for a file that is no recording."""
    checks, deselected = check_selection.select(IDS, asked.only, asked.skip)
    read = [(file, snapshot_command.read(file)) for file in files]
    found = []
    for file, recording in read:
        own = assessments.of_recording(recording, asked.profile, asked.config, checks, deselected)
        look, report = assessments.judged(recording, asked.as_asked(own))
        end = outcome.outcome(report, asked.fail_on, strict=asked.strict)
        found.append(RecordedHost(report.node, file, recording.when, report, end, host_traits.traits(look)))
    names = _unique([one.name for one in found], files)
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def _unique(names: list[str], files: tuple[str, ...]) -> list[str]:
    """The names of hosts; with the file where a name is empty or there twice: two recordings of one host."""
    return [
        name if name and names.count(name) == 1 else f"{name} ({file})".strip()
        for name, file in zip(names, files, strict=True)
    ]


def _lines(asked: CheckOptions, hosts: list[RecordedHost]) -> list[str]:
    return [
        line_report.line(one.told, asked.fail_on, strict=asked.strict) for one in hosts if _is_shown(asked, one.end)
    ]


def _is_shown(asked: CheckOptions, end: CheckOutcome) -> bool:
    return not asked.failing or end.exit_code != 0


def _table(asked: CheckOptions, hosts: list[RecordedHost], odd: list[Oddity]) -> list[str]:
    rows = [
        (
            one.name,
            one.end.word.replace("-", " ").upper(),
            str(_count(one, Status.FAIL)),
            str(_count(one, Status.WARN)),
            line_report.first_fault(one.report, FailOn.WARN),
        )
        for one in hosts
        if _is_shown(asked, one.end)
    ]
    lines = page_layout.columns([COLUMNS, *rows], terminal.whole_width()) if rows else []
    sound = [one for one in hosts if not _count(one, Status.FAIL)]
    partly = sum(one.end.exit_code == NOT_JUDGED for one in sound)
    doubt = f", {partly} of them not judged in full" if partly else ""
    lines += ["", f"{len(sound)} of {len(hosts)} without a fault{doubt}"]
    lines += _told_unlike(odd, len(hosts))
    known = {one.name: one.traits for one in hosts}
    lines += [f"no majority: {trait}: {values}" for trait, values in host_traits.split(known)]
    return lines


def _count(host: RecordedHost, status: Status) -> int:
    return sum(len(group.findings) for group in finding_groups.faults(host.report.findings, status))


def _told_unlike(odd: list[Oddity], hosts: int) -> list[str]:
    """Which of so many hosts differ from the majority, as lines below a table; none if no host does."""
    if not odd:
        return []
    words = [(one.host, one.trait, one.has, f"{one.others_have} ({one.others} of {hosts})") for one in odd]
    table = page_layout.columns([("HOST", "TRAIT", "HAS", "OTHERS HAVE"), *words], terminal.whole_width())
    return ["", "unlike the others:", *table]


def _document(asked: CheckOptions, hosts: list[RecordedHost], odd: list[Oddity]) -> dict[str, Any]:
    reports = [
        json_report.document(one.report, asked.fail_on, time=one.when, strict=asked.strict, failing=asked.failing)
        for one in hosts
    ]
    return {"apiVersion": API_VERSION, "kind": "ReportList", "items": reports, "unlike": _unlike(odd)}


def _unlike(odd: list[Oddity]) -> list[dict[str, Any]]:
    return [
        {"host": one.host, "trait": one.trait, "has": one.has, "othersHave": one.others_have, "others": one.others}
        for one in odd
    ]
