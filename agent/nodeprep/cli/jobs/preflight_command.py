"""`nodeprep preflight`: reads a manifest, looks at the cluster, and answers once or until the job can start."""

from __future__ import annotations

from nodeprep.cli import duration, terminal
from nodeprep.cli.check import json_report
from nodeprep.cli.check.choices import Format
from nodeprep.cli.jobs import cluster_look, manifest_file, preflight_json, preflight_page, preflight_report
from nodeprep.cli.jobs.manifest_file import ManifestFile
from nodeprep.cli.jobs.preflight_report import PreflightReport
from nodeprep.cli.nodes import fleet_reader, scope
from nodeprep.cli.nodes.fleet_reader import Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.doors import clock
from nodeprep.values import Value

WAIT_PERIOD_SECONDS = 10.0  # seconds between two looks of --wait


class PreflightOptions(Value):
    """The options of `preflight`, as they were typed."""

    file: str
    where: FleetScope
    output: Format = Format.TABLE
    wait: str | None = None
    namespace: str = manifest_file.DEFAULT_NAMESPACE


def run(asked: PreflightOptions) -> int:
    """Answer; returns the exit code. Raises UsageError."""
    seconds = None if asked.wait is None else duration.seconds("--wait", asked.wait)
    file = manifest_file.read(asked.file, asked.namespace)
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: _answer(fleet, file, asked, seconds))


def _answer(fleet: Fleet, file: ManifestFile, asked: PreflightOptions, seconds: float | None) -> int:
    report = _look(fleet, file) if seconds is None else _wait(fleet, file, seconds)
    scope.print_notes(report.look.notes)
    if asked.output is Format.JSON:
        terminal.put(json_report.text(preflight_json.document(report)))
        return report.exit_code
    wide = asked.output is Format.WIDE
    page = preflight_page.lines(report, wide=wide, width=terminal.width(), colour=terminal.colourful(refused=False))
    terminal.put("\n".join(page))
    return report.exit_code


def _look(fleet: Fleet, file: ManifestFile) -> PreflightReport:
    """Raises CannotSee."""
    return preflight_report.report(file, cluster_look.look(fleet, file.manifest.jobs))


def _wait(fleet: Fleet, file: ManifestFile, seconds: float) -> PreflightReport:
    """The first report in which no job waits, or the last one. Says on stderr what it waits for, each line once.

    Raises CannotSee if the server does not answer to the end.
    """
    end = clock.now() + seconds
    said = ""
    while True:
        report = fleet_reader.with_retries(lambda: _look(fleet, file), end)
        waiting = [preflight_report.headline(one) for one in report.jobs if one.waits]
        if not waiting or clock.now() >= end:
            return report
        words = waiting[0]
        if words != said:
            terminal.complain(f"waiting: {words}")
            said = words
        clock.sleep(min(WAIT_PERIOD_SECONDS, max(0.0, end - clock.now())))
