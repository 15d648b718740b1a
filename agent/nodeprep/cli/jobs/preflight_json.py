"""The answer of preflight for programs: JSON by docs/preflight.schema.json."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from nodeprep import __version__, typed_yaml
from nodeprep.cli.jobs.preflight_report import JobReport, LintShown, PreflightReport
from nodeprep.job_profile import API_VERSION
from nodeprep.jobs.obstacles import Obstacle
from nodeprep.jobs.placement import RoleAnswer
from nodeprep.newer_python import UTC


def document(report: PreflightReport) -> dict[str, Any]:
    """The answer as plain values; null is what is not known."""
    nodes, pods = report.look.versions
    return {
        "apiVersion": API_VERSION,
        "kind": "Preflight",
        "version": __version__,
        "time": _stamp(report.look.now),
        "verdict": str(report.word),
        "exitCode": report.exit_code,
        "resourceVersions": {"nodes": nodes, "pods": pods},
        "ownPod": report.look.own or None,
        "passedOver": list(report.passed_over),
        "notes": list(report.look.notes),
        "jobs": [_job(report, one) for one in report.jobs],
    }


def _job(report: PreflightReport, one: JobReport) -> dict[str, Any]:
    job, answer = one.job, one.answer
    gang = None
    if job.gang is not None:
        queue, group = job.gang.queue or None, job.gang.group or None
        gang = {"minimum": job.gang.minimum, "by": job.gang.by, "queue": queue, "group": group}
    return {
        "apiVersion": job.api,
        "kind": job.kind,
        "namespace": job.namespace,
        "name": job.name,
        "verdict": str(one.word),
        "pods": {"total": job.pods, "needed": job.minimum, "fit": answer.placed},
        "placement": "exact" if answer.exact else "first-fit",
        "gang": gang,
        "podGroup": one.group or None,
        "hindrances": list(one.hindrances),
        "unjudged": list(one.unknown),
        "lints": [_lint(shown) for shown in one.lints],
        "doubts": [{"name": name, "text": text} for name, text in report.doubts(one)],
        "roles": [_role(report, role) for role in answer.roles],
    }


def _lint(shown: LintShown) -> dict[str, str]:
    key = typed_yaml.dotted(shown.lint.keys)
    return {"word": shown.lint.word, "place": shown.place, "key": key, "text": shown.lint.text}


def _role(report: PreflightReport, one: RoleAnswer) -> dict[str, Any]:
    known = report.look.cluster.used is not None
    return {
        "name": one.role.name,
        "pods": one.role.replicas,
        "fit": one.fit,
        "scheduler": one.role.pod.scheduler,
        "requests": dict(one.role.pod.demand.requests),
        "added": list(one.role.adds),
        "able": [{"name": name, "pods": count if known else None} for name, count in sorted(one.able.items())],
        "refused": [
            {"name": name, "obstacles": [_obstacle(report, name, each) for each in why]}
            for name, why in sorted(one.refused.items())
        ],
    }


def _obstacle(report: PreflightReport, node: str, one: Obstacle) -> dict[str, Any]:
    row = report.look.rows.get(node)
    behind = report.behind(node, one)
    finding = None
    if behind and row is not None:
        finding = {"state": row.state, "reason": row.reason, "message": row.message, "since": _stamp(row.since)}
    return {
        "kind": str(one.kind),
        "about": one.about,
        "seen": one.seen,
        "wanted": one.wanted,
        "text": str(one),
        "behind": behind or None,
        "finding": finding,
    }


def _stamp(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
