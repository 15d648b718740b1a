"""`nodeprep config`: validates, shows and starts configuration files, and prints their admission policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodeprep.cli import terminal, usage
from nodeprep.cli.files import output_file
from nodeprep.cli.usage import UsageError
from nodeprep.config import configuration, starter, written, yaml_document
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import DEFAULT_FILE, Settings
from nodeprep.decide import repair_gate
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.remediator_limits import RemediatorLimits
from nodeprep.decide.repair_policy import SHIPPED_WAITS
from nodeprep.decide.repair_validation import LOOK_PERIOD_SECONDS
from nodeprep.doors import clock
from nodeprep.doors.node_host import METADATA

ENDS_SOON_DAYS = 14  # days before the end of a waiver in which `config validate` tells it
ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - named to be warned of


def validate(file: str) -> int:
    """Say that a file is valid, and print notes on it. Raises UsageError if it is not."""
    today = clock.today()
    with usage.usage():
        settings = configuration.load_settings(file, today)
    waivers, checks = _number(len(settings.waivers), "waiver"), _number(len(settings.want), "check")
    terminal.put(f"{file}: default profile {settings.default}, numbers of {checks}, {waivers}")
    if settings.agent_part is not None:
        rules = _number(len(settings.agent.assign), "rule")
        terminal.put(f"{file}: agent in mode {settings.agent.mode}, {rules} to assign profiles")
    for note in _notes(settings, today):
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


def init(output: str | None, *, force: bool = False) -> int:
    """Write a file with every key at its default, or print it. `force` replaces a file. Raises UsageError."""
    output_file.write(starter.starter(), output, force=force)
    if output is not None:
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
    """The values in force as in a file, without empty ones, and with the days that each waiver has left."""
    said = written.written(settings)
    for told, waiver in zip(said["waivers"], settings.waivers, strict=True):
        told["days-left"] = max(0, waiver.days_left(today)) if waiver.days_left(today) >= 0 else "expired"
    if settings.metadata_url == METADATA:
        del said["metadata-url"]
    return {key: value for key, value in said.items() if value not in ({}, [])}


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _notes(settings: Settings, today: str) -> tuple[str, ...]:
    """What is valid and may still be a mistake, one line each."""
    agent = settings.agent
    return (
        *_waivers(settings, today),
        *_sooner(agent),
        *_modes(agent),
        *_repairs(agent),
        *_rules(agent),
        *_pages(agent),
    )


def _waivers(settings: Settings, today: str) -> Iterator[str]:
    for index, waiver in enumerate(settings.waivers):
        left, key = waiver.days_left(today), f"waivers[{index}].until"
        if left < 0:
            yield f"{key}: {waiver.until} has passed, so the waiver of {waiver.check} excuses nothing"
        elif left <= ENDS_SOON_DAYS:
            yield f"{key}: the waiver of {waiver.check} ends on {waiver.until}, {_days(left)}"


def _days(left: int) -> str:
    return f"in {_number(left, 'day')}" if left else "which is today"


def _sooner(agent: AgentSettings) -> Iterator[str]:
    default = ConfirmationPolicy()
    if agent.confirmation.passes < default.passes:
        yield _opens("confirmation.passes", agent.confirmation.passes, default.passes)
    if agent.confirmation.pass_span < default.pass_span:
        yield _opens("confirmation.pass-span", agent.confirmation.pass_span, default.pass_span)


def _opens(key: str, found: float, default: float) -> str:
    return f"{key}: {found:g} opens sooner than nodeprep's default, {default:g}"


def _modes(agent: AgentSettings) -> Iterator[str]:
    if agent.mode is not Mode.OBSERVE and not agent.gate.profiles:
        yield f"gate.profiles: empty, so mode {agent.mode} never sets a taint"
    if agent.gate.allow_auto:
        yield "gate.allow-auto: what the hardware alone chose may open a gate, whatever the node had before"


def _repairs(agent: AgentSettings) -> Iterator[str]:
    """What keeps mode repair from mending anything."""
    if agent.mode is not Mode.REPAIR:
        return
    if agent.gate.effect != repair_gate.EFFECT:
        yield f"gate.effect: {agent.gate.effect} lets jobs land here, so mode repair runs no remedy"
    confirmation, limit = agent.confirmation, agent.readiness.validation_limit
    looks = (confirmation.passes - 1) * LOOK_PERIOD_SECONDS
    least = max(confirmation.pass_span, SHIPPED_WAITS.passes, looks) + LOOK_PERIOD_SECONDS
    if limit < least:
        yield f"readiness.validation-limit: {limit:g} is too short for {confirmation.passes} passes, wanted {least:g}"
    shipped = RemediatorLimits().runs_each
    if agent.repair.tries > shipped:
        yield f"repair.tries: {agent.repair.tries}, and the remediator is shipped with --runs-a-day-each={shipped}"


def _rules(agent: AgentSettings) -> Iterator[str]:
    for index, rule in enumerate(agent.assign[:-1]):
        if not rule.match:
            yield f"assign[{index + 1}]: never reached, for assign[{index}] has no match and so matches every node"
            return


def _pages(agent: AgentSettings) -> Iterator[str]:
    if agent.metrics.port == 0:
        yield "metrics.port: 0 serves no metrics and no /healthz"
    elif agent.metrics.bind in ALL_ADDRESSES:
        yield f"metrics.bind: {agent.metrics.bind} serves the metrics on every address of the node, public ones too"
