"""The configuration file of `check` and the agent; docs/configuration.md has every key.

apiVersion: nodeprep.io/v1
kind: Config
default: rdma-roce          # a built-in profile, a file beside this one, or auto: by hardware
want: {port.mtu: {at-least: 9000}}
waivers:
  - {check: pci.link, device: "0000:5c:00.0", nodes: ["gpu-1*"], until: YYYY-MM-DD, reason: riser on order, T-4711}
exclude: ["/sys/class/infiniband/*/hw_counters/*"]
metadata-url: http://100.100.100.200    # where ECS instances ask for their metadata; this is the default
idle: {ignore: [opensm, "dcgm*"]}       # daemons that may hold a device which a repair wants unused
mode: observe               # this and more is the agent's: agent_settings.py
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeprep import job_profile
from nodeprep.checks import CHECKS
from nodeprep.config import config_file, profile_files, wants
from nodeprep.config.document import Document
from nodeprep.config.idle_policy import IdlePolicy
from nodeprep.config.profile_files import NamedProfile, NoSuchProfileError
from nodeprep.config.waiver_rules import WAIVER_LIMIT_DAYS, Waiver
from nodeprep.doors.node_host import METADATA
from nodeprep.history.repeat_offenders import SHIPPED_POLICY, RepeatPolicy
from nodeprep.job_profile import Profile
from nodeprep.model import Check
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field, replace

if TYPE_CHECKING:
    from nodeprep.config.agent_settings import AgentSettings

DEFAULT_FILE = "/etc/nodeprep/config.yaml"
AUTO = "auto"
TOLERATES_GATE = "plugin.tolerates-gate"  # `gate` states its numbers
AGENT = (
    "mode",
    "assign",
    "gate",
    "confirmation",
    "readiness",
    "repair",
    "every",
    "metrics",
    "history",
)  # the keys that only the agent reads


class Settings(Value):
    """The values of a configuration file. If there is no file, `file` is None and all values are defaults.

    `agent_part` is None if the file has none of the agent's keys. `default_profile` is the profile of `default`, as it
    was when the file was read. `want` also has the taints that `gate` names, for the check that asks who tolerates
    them.
    """

    file: str | None = None
    default: str = AUTO
    want: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    exclude: tuple[str, ...] = ()
    metadata_url: str = METADATA
    idle: IdlePolicy = field(default_factory=IdlePolicy)
    agent_part: AgentSettings | None = None
    default_profile: NamedProfile | None = None

    @property
    def agent(self) -> AgentSettings:
        """The agent's part, or its defaults."""
        from nodeprep.config.agent_settings import AgentSettings  # noqa: PLC0415 - 30 ms that `check` can do without

        return self.agent_part or AgentSettings()

    @property
    def repeat_policy(self) -> RepeatPolicy:
        """Who is a repeat offender, without what loads the agent's keys where there are none."""
        return self.agent_part.history if self.agent_part else SHIPPED_POLICY

    def over(self, profile: Profile) -> Profile:
        """The profile with the numbers and exclusions of this configuration, which win over its own."""
        ours = self.file or "the configuration"
        by = {check: dict.fromkeys(numbers, ours) for check, numbers in self.want.items()}
        own = Profile(profile.name, want=self.want, exclude=self.exclude, want_by=by)
        return (
            replace(job_profile.extend(own, profile), extends=profile.extends) if self.want or self.exclude else profile
        )

    def without_profiles(self) -> Settings:
        """The same settings, but the hardware chooses the profile: `default` and `assign` name none."""
        own = replace(self.agent_part, assign=()) if self.agent_part else None
        return replace(self, default=AUTO, default_profile=None, agent_part=own)

    def named(self) -> NamedProfile | None:
        """The default profile as its file has it, None for auto. Raises ConfigError."""
        if self.default == AUTO:
            return None
        return self.default_profile or profile_files.named(self.default, self.beside)

    @property
    def beside(self) -> str:
        """The directory from which the file names others."""
        return str(Path(self.file or ".").parent)


def load_settings(file: str | None, today: str | None, checks: Mapping[str, Check] = CHECKS) -> Settings:
    """Read the file, or DEFAULT_FILE if there is one. Raises ConfigError.

    `today` is the UTC date, by which the end of waivers is limited; None if the clock may be wrong, as after a boot.
    """
    if file is None and not config_file.is_there(DEFAULT_FILE):
        return Settings()
    return parse_settings(config_file.load(file or DEFAULT_FILE), today, checks)


def parse_settings(document: Document, today: str | None, checks: Mapping[str, Check]) -> Settings:
    """Read the settings of a document, and its default profile. Raises ConfigError."""
    document.require_kind("Config")
    try:
        settings = _settings(document, today, checks)
    except InvalidValueError as error:
        raise document.located(error) from error
    try:
        return replace(settings, default_profile=settings.named())
    except NoSuchProfileError as error:
        raise document.error(("default",), settings.default, f"{AUTO}, {error.wanted}") from error


def _settings(document: Document, today: str | None, checks: Mapping[str, Check]) -> Settings:
    top = _section(document.value, ())
    stated = top.pop("want", {})
    for check, values in stated.items():
        if check == TOLERATES_GATE:
            raise InvalidValueError(("want", check), dict(values), "nothing here: `gate` names the taints")
        wants.want(checks, check, values, ("want", check))
    agent = _agent(top, str(Path(document.source).parent), checks)
    waivers = [_waiver(one, ("waivers", index), today, checks) for index, one in enumerate(top.pop("waivers", ()))]
    return Settings(
        file=document.source,
        want={**stated, **(agent.wanted_of_plugins if agent else {})},
        waivers=tuple(waivers),
        idle=_idle(top.get("idle")),
        agent_part=agent,
        **{key: value for key, value in top.items() if key in ("default", "exclude", "metadata_url")},
    )


def _section(value: object, here: Keys, under: str = "") -> dict[str, Any]:
    from nodeprep.config import keys  # noqa: PLC0415 - 3 ms that `check` without a file can do without

    return keys.section(value, here, under)


def _idle(value: object) -> IdlePolicy:
    return IdlePolicy(**_section({} if value is None else value, ("idle",), "idle"))


def _agent(top: Mapping[str, Any], beside: str, checks: Mapping[str, Check]) -> AgentSettings | None:
    if not any(key in top for key in AGENT):
        return None
    from nodeprep.config import agent_settings  # noqa: PLC0415 - 30 ms that `check` can do without

    return agent_settings.read_agent(top, beside, checks)


def _waiver(value: object, here: Keys, today: str | None, checks: Mapping[str, Check]) -> Waiver:
    waiver = Waiver(**_section(value, here, "waivers[]"))
    if not any(fnmatchcase(check, waiver.check) for check in checks):
        wanted = wants.a_check(waiver.check, checks)
        raise InvalidValueError((*here, "check"), waiver.check, wanted)
    until = _date(waiver.until, (*here, "until"), date.fromisoformat(today) if today else None)
    return replace(waiver, until=until)


def _date(value: str, here: Keys, today: date | None) -> str:
    last = None if today is None else today + timedelta(days=WAIVER_LIMIT_DAYS)
    try:
        until = date.fromisoformat(value)
    except ValueError:
        raise InvalidValueError(here, value, f"a date such as {last or '2030-01-31'}") from None
    if last is not None and until > last:
        raise InvalidValueError(here, value, f"a date no later than {last}, {WAIVER_LIMIT_DAYS} days from today")
    return until.isoformat()
