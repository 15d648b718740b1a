"""`nodeprep config try`: which nodes would change their verdict under a configuration. It changes nothing."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from nodeprep.cli import terminal, usage
from nodeprep.cli.check import stdin_config
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.nodes import agent_exec, scope, verdict_changes
from nodeprep.cli.nodes.fleet_reader import Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.nodes.verdict_changes import NodeTrial
from nodeprep.cli.usage import UsageError
from nodeprep.config import config_file, configuration
from nodeprep.doors import clock
from nodeprep.doors.kube.pod_exec import ExecTarget
from nodeprep.model import Unreadable
from nodeprep.values import Value, field

CHECK = ("check", "-o", "json")
WITH_REPORT = (0, 1, 3)  # exit codes of a check that judged
WORDS = 300  # characters of what a command complained about


class TryOptions(Value):
    """The options of `config try`, as they were typed."""

    file: str
    where: FleetScope = field(default_factory=FleetScope)
    output: ListFormat = ListFormat.TABLE


def run(asked: TryOptions) -> int:
    """Print which nodes would change; the exit code is 1 if one would close, 3 if one did not answer.

    Raises UsageError.
    """
    sent = config_map(asked.file)
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: _try(fleet, asked, sent))


def config_map(file: str) -> bytes:
    """The configuration with all files that it names, as the ConfigMap that would hold them.

    Raises UsageError if it is not sound, or names a file that no ConfigMap beside it can hold.
    """
    own = os.path.relpath(file)  # so that only a name that is absolute in a file is absolute here
    with usage.usage(), config_file.recorded() as read:
        configuration.load_settings(own, clock.today())
    directory, files = Path(own).parent, {}
    for path, data in read.items():
        name = os.path.relpath(path, directory)
        if Path(path).is_absolute() or os.sep in name or (name == stdin_config.CONFIG and path != own):
            raise UsageError(f"{file}: names {path}, wanted the name of a file beside it, as a ConfigMap has them")
        files[stdin_config.CONFIG if path == own else name] = data.decode()
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": files}).encode()


def _try(fleet: Fleet, asked: TryOptions, sent: bytes) -> int:
    known = agent_exec.targets(fleet)
    if not known:
        chosen = asked.where.names or asked.where.selector
        nobody = f"no agent runs in namespace {fleet.namespace}; see nodeprep nodes"
        terminal.complain(asked.where.no_node_message if chosen else nobody)
        return 3
    found = agent_exec.each(known, partial(_judged, fleet, sent))
    trials = [
        NodeTrial(node, silent="no agent runs there")
        if told is None
        else NodeTrial(node, silent=told)
        if isinstance(told, str)
        else verdict_changes.trial(node, *told)
        for node, told in found.items()
    ]
    if asked.output is ListFormat.JSON:
        terminal.put(json.dumps(verdict_changes.document(trials), indent=2))
    else:
        terminal.put("\n".join(verdict_changes.lines(trials, terminal.whole_width())))
    if scope.print_troubles(f"{one.node}: {one.silent}" if one.silent else "" for one in trials):
        return 3
    return 1 if any(one.closes for one in trials) else 0


def _judged(fleet: Fleet, sent: bytes, target: ExecTarget) -> tuple[Any, Any] | str:
    """The reports of a node under its configuration and under ours, or why there are none."""
    reports = []
    for command, stdin in ((CHECK, b""), ((*CHECK, "--config", "-"), sent)):
        answer = agent_exec.run(fleet, target, command, stdin)
        if isinstance(answer, Unreadable):
            return str(answer)
        try:
            report = json.loads(answer.stdout) if answer.code in WITH_REPORT else None
        except ValueError:
            report = None
        if not isinstance(report, dict):
            said = answer.stderr.decode(errors="replace").strip().splitlines()
            return f"its check ended with {answer.code}: {said[-1][:WORDS] if said else 'it said nothing'}"
        reports.append(report)
    return reports[0], reports[1]
