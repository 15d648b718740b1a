"""`nodeprep config`: validates, shows and starts configuration files, and prints their admission policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeprep.cli import terminal, usage
from nodeprep.cli.files import profile_command
from nodeprep.cli.usage import UsageError
from nodeprep.config import configuration, notes, starter, written, yaml_document
from nodeprep.config.configuration import DEFAULT_FILE, Settings
from nodeprep.doors import clock
from nodeprep.doors.node_host import METADATA


def validate(file: str) -> int:
    """Say that a file is valid, and print notes on it. Raises UsageError if it is not."""
    with usage.usage():
        settings = configuration.load_settings(file, clock.today())
    waivers = _number(len(settings.waivers), "waiver")
    terminal.put(f"{file}: default profile {settings.default}, numbers of {len(settings.want)} checks, {waivers}")
    if settings.agent_part is not None:
        rules = _number(len(settings.agent.assign), "rule")
        terminal.put(f"{file}: agent in mode {settings.agent.mode}, {rules} to assign profiles")
    for note in notes.notes(settings):
        terminal.put(f"{file}: note: {note}")
    return 0


def show(file: str | None) -> int:
    """Print the configuration that `check` and the agent would use. Raises UsageError."""
    today = clock.today()
    with usage.usage():
        settings = configuration.load_settings(file, today)
    terminal.put(f"# {settings.file or f'no {DEFAULT_FILE}: the defaults'}")
    terminal.put(yaml_document.dump(_effective(settings, today)).rstrip("\n"))
    return 0


def init(output: str | None) -> int:
    """Write a file with every key at its default, or print it. Raises UsageError; no file is ever overwritten."""
    if output is None:
        profile_command.write(starter.starter(), None)
        return 0
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(starter.starter())
    except FileExistsError:
        raise UsageError(f"{output}: found a file there already, wanted a new one: nothing is overwritten") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {output!r}: {getattr(error, 'strerror', error)}") from error
    terminal.complain(f"wrote {output}; nodeprep config validate {output} checks it after each edit")
    return 0


def admission_policy(file: str | None, account: str | None) -> int:
    """Print the policies that keep the agent to what is its own, for the names of the configuration. Raises UsageError.

    `account` is "NAMESPACE:NAME" of the agent's service account; None is that of the manifests.
    """
    from nodeprep.publish import admission_policy
    from nodeprep.publish.admission_policy import AGENT_ACCOUNT, ServiceAccount

    bound = AGENT_ACCOUNT if account is None else ServiceAccount.of(account)
    if bound is None:
        raise UsageError(f"--service-account {account!r}: wanted NAMESPACE:NAME, such as nodeprep:nodeprep-agent")
    with usage.usage():
        settings = configuration.load_settings(file, clock.today())
    for policy in admission_policy.admission_policies(settings.agent.gate, bound):
        terminal.put("---")
        terminal.put(yaml_document.dump(policy).rstrip("\n"))
    return 0


def _effective(settings: Settings, today: str) -> dict[str, Any]:
    """As in a file, without empty values, and with the days that each waiver has left."""
    said = written.written(settings)
    for told, waiver in zip(said["waivers"], settings.waivers, strict=True):
        told["days-left"] = max(0, waiver.days_left(today)) if waiver.days_left(today) >= 0 else "expired"
    if settings.metadata_url == METADATA:
        del said["metadata-url"]
    return {key: value for key, value in said.items() if value not in ({}, [])}


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
