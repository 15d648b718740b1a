"""What is allowed in a configuration and worth a second thought: told by `nodeprep config validate`."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import Settings
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import Mode

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - named to be warned of


def notes(settings: Settings) -> tuple[str, ...]:
    """One line each."""
    agent = settings.agent
    return (*_sooner(agent), *_modes(agent), *_rules(agent), *_pages(agent))


def _sooner(agent: AgentSettings) -> Iterator[str]:
    default = ConfirmationPolicy()
    if agent.confirmation.passes < default.passes:
        yield _opens("confirmation.passes", agent.confirmation.passes, default.passes)
    if agent.confirmation.pass_span < default.pass_span:
        yield _opens("confirmation.pass-span", agent.confirmation.pass_span, default.pass_span)


def _opens(key: str, found: float, default: float) -> str:
    return f"{key}: {found:g} opens sooner than nodeprep's default, {default:g}"


def _modes(agent: AgentSettings) -> Iterator[str]:
    if agent.mode is Mode.REPAIR:
        yield "mode: repair acts as gate, for what is to run remedies is not built yet"
    if agent.mode is not Mode.OBSERVE and not agent.gate.profiles:
        yield f"gate.profiles: empty, so mode {agent.mode} never sets a taint"
    if agent.gate.allow_auto:
        yield "gate.allow-auto: what the hardware alone chose may open a gate, whatever the node had before"


def _rules(agent: AgentSettings) -> Iterator[str]:
    for index, rule in enumerate(agent.assign[:-1]):
        if not rule.match:
            yield f"assign[{index + 1}]: never reached, for assign[{index}] has no match and so matches every node"
            return


def _pages(agent: AgentSettings) -> Iterator[str]:
    if agent.metrics.port == 0:
        yield "metrics.port: 0 serves no metrics and no /healthz"
    elif agent.metrics.bind in EVERYWHERE:
        yield f"metrics.bind: {agent.metrics.bind} serves the metrics on every address of the node, public ones too"
