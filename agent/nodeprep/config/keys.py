"""Every key of a configuration file: what may stand there, what it means, and what reading the file again does.

The files are read by this table, and docs/configuration.md and `nodeprep config init` are written from it. Defaults are
not here: they stand in the dataclasses beside the rules that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodeprep.config.kinds import ADDRESS, QUALIFIED, TEXTS, TRUTH, Kind, given, one_of, only, seconds, whole
from nodeprep.profile import API_VERSION, Keys, ProfileError, as_mapping

NEXT_ROUND = "holds from the next round on"
NEXT_LOOK = "counts from the next look on; what is proven, convicted or latched stays so"
PROFILES = "profiles are read again; the gates of one that is new to the node have to pass anew"
RELABEL = "run nodeprep nodes release --all before, and apply the fence of the new names: else the old one stays"
RESTART = "needs a restart of the agent; until then the old one holds"
MODE = one_of("observe", "gate", "repair")
HOUR, DAY = 3600.0, 86400.0  # seconds
REMEMBERED = 5  # looks that the memory holds of one subject (facts/past.Case)


@dataclass(frozen=True, slots=True)
class Key:
    """One key by its path; `[]` stands for each item of a list. `kind` is what may stand there."""

    path: str
    kind: Kind
    meaning: str
    reload: str


def _rule(name: str, whom: str) -> tuple[Key, ...]:
    """The numbers of one class of checks."""
    path = f"damping.{name}"
    return (
        Key(
            f"{path}.fails",
            whole(1, REMEMBERED, "looks"),
            f"Fresh looks that must fail before {whom} is believed.",
            NEXT_LOOK,
        ),
        Key(
            f"{path}.of",
            whole(1, REMEMBERED, "looks"),
            "Among so many of the last fresh looks; memory holds 5.",
            NEXT_LOOK,
        ),
        Key(f"{path}.apart", seconds(0, HOUR), "Least time from one failing look to the next.", NEXT_LOOK),
        Key(f"{path}.span", seconds(0, HOUR), "Least time from the first failing look to the last.", NEXT_LOOK),
    )


KEYS = (
    Key("apiVersion", only(API_VERSION), "Of this format.", NEXT_ROUND),
    Key("kind", only("Config"), "Tells the file from a profile.", NEXT_ROUND),
    Key(
        "default",
        given("auto or a profile"),
        "The profile where nothing else names one: a built-in one, a file beside this one, or auto: by hardware.",
        PROFILES,
    ),
    Key(
        "want",
        given("numbers by check and key"),
        "Numbers of single checks, which win over those of profiles; `nodeprep explain ID` prints them.",
        NEXT_ROUND,
    ),
    Key("waivers", given("a list of waivers"), "Findings that are shown and do not count, up to a date.", NEXT_ROUND),
    Key("waivers[].check", given("an id or a glob"), "Which checks: an id or a glob.", NEXT_ROUND),
    Key(
        "waivers[].device",
        given("a glob"),
        "Which devices: a glob of PCI addresses, `address/port` or device names.",
        NEXT_ROUND,
    ),
    Key("waivers[].nodes", TEXTS, "Which nodes: globs of names.", NEXT_ROUND),
    Key(
        "waivers[].until",
        given("a date, at most 90 days from now"),
        "The last day on which it holds (UTC).",
        NEXT_ROUND,
    ),
    Key("waivers[].reason", given("a line of text"), "Why, for whoever meets it.", NEXT_ROUND),
    Key("exclude", TEXTS, "Globs of paths that are never read.", NEXT_ROUND),
    Key(
        "metadata-url",
        given("http:// and an IPv4 address"),
        "Where an ECS instance asks for its metadata.",
        NEXT_ROUND,
    ),
    Key(
        "mode",
        MODE,
        "How far the agent may go. observe: conditions, labels, gate files and metrics, never a taint. gate: the taint"
        " too. repair: acts as gate; what is to run remedies is not built yet.",
        "holds from the next round on; leaving gate removes our taint",
    ),
    Key(
        "assign",
        given("a list of rules"),
        "Which profiles a node has, by its labels; the first rule that matches holds, and after the list `default`."
        " Where labels cannot be had, what it last said holds; without such a memory nothing opens.",
        PROFILES,
    ),
    Key(
        "assign[].match",
        given("globs by node label"),
        "Labels that the node must all have, with values that match. Without it the rule matches every node.",
        PROFILES,
    ),
    Key("assign[].use", given("a list of profiles"), "Built-in profiles, or files beside this one.", PROFILES),
    Key(
        "assign[].expect",
        given("a profile's file"),
        "A captured profile: the devices and ports that it states are expected by each profile of `use`.",
        PROFILES,
    ),
    Key(
        "gate.profiles",
        TEXTS,
        "Globs of profiles whose gate sets the taint; a profile also goes by the names of those it extends.",
        NEXT_ROUND,
    ),
    Key(
        "gate.allow-auto",
        TRUTH,
        "Whether a profile for RDMA that only the hardware chose may open its gate without a baseline. Its gates have"
        " to pass anew all the same, as those of any profile that is new to the node.",
        NEXT_ROUND,
    ),
    Key(
        "gate.effect",
        one_of("NoSchedule", "PreferNoSchedule"),
        "What the taint does; PreferNoSchedule is the step to try first.",
        NEXT_ROUND,
    ),
    Key(
        "gate.unhealthy-taint",
        QUALIFIED,
        "The taint of a node whose gate is closed. The fence (ValidatingAdmissionPolicy) must allow the same name.",
        RELABEL,
    ),
    Key(
        "gate.bootstrap-taint",
        QUALIFIED,
        "The taint that kubelet, node pool or autoscaler set when a node registers; the agent only ever removes it.",
        NEXT_ROUND,
    ),
    Key("gate.rdma-label", QUALIFIED, "The label that is there, as true, while a profile for RDMA is ready.", RELABEL),
    *_rule("hard", "a missing device, driver, module or link"),
    *_rule("books", "a record of cloud or Kubernetes that differs from the kernel's"),
    *_rule("soft", "a bad rate, counter or daemon"),
    Key(
        "damping.passes", whole(1, 100, "looks"), "Fresh looks in a row without a fault before a gate opens.", NEXT_LOOK
    ),
    Key("damping.pass-span", seconds(0, HOUR), "Least time from the first of these looks to the last.", NEXT_LOOK),
    Key("damping.pass-every", seconds(0.5, 600), "How often such a look is taken.", NEXT_LOOK),
    Key(
        "damping.turns",
        whole(1, 100, "releases"),
        "A fault that would be released so often within turn-window is latched: looks alone do not free it.",
        NEXT_LOOK,
    ),
    Key("damping.turn-window", seconds(1, DAY), "The time within which releases count.", NEXT_LOOK),
    Key(
        "damping.blind-after",
        seconds(1, DAY),
        "How long a gate check may be unable to look before the node's conditions say Unknown.",
        NEXT_ROUND,
    ),
    Key(
        "readiness.bootstrap-limit",
        seconds(60, DAY),
        "How long a node may take from its start to readiness before a human is called.",
        NEXT_ROUND,
    ),
    Key(
        "readiness.human-passes",
        seconds(30, DAY),
        "How long all gate checks must pass before a node that waits for a human is ready without one.",
        NEXT_ROUND,
    ),
    Key(
        "readiness.validation-limit",
        seconds(30, DAY),
        "Planned: how long the checks may take to pass after a remedy before it counts as failed.",
        NEXT_ROUND,
    ),
    Key(
        "readiness.remedy-after",
        seconds(0, DAY),
        "How long a conviction stands before a remedy counts as due.",
        NEXT_ROUND,
    ),
    Key(
        "readiness.grace",
        seconds(0, HOUR),
        "How long a conviction stands after a boot before a human is called: links train for up to a minute.",
        NEXT_ROUND,
    ),
    Key(
        "every",
        given("seconds by fact", "seconds"),
        "How often a fact is looked at where no event announces a change, in seconds from 0.5 to 3600.",
        NEXT_ROUND,
    ),
    Key(
        "metrics.bind",
        ADDRESS,
        "The address on which /metrics, /healthz and /readyz are served. A pod with hostNetwork gives the node's.",
        RESTART,
    ),
    Key("metrics.port", whole(0, 65535), "The TCP port for them; 0 serves nothing.", RESTART),
)


def children(under: str = "") -> Mapping[str, Key | None]:
    """The keys that may stand in a mapping, `""` being the whole file; None for one that holds keys in turn."""
    found: dict[str, Key | None] = {}
    for key in KEYS:
        if under and not key.path.startswith(f"{under}."):
            continue
        name, dot, _ = key.path.removeprefix(f"{under}." if under else "").partition(".")
        if not name.endswith("[]"):
            found.setdefault(name, None if dot else key)
    return found


def only_known(stated: Mapping[str, Any], here: Keys, under: str = "") -> None:
    """Raise ProfileError for a key that is not in the table."""
    allowed = children(under)
    for name in stated:
        if name not in allowed:
            raise ProfileError((*here, name), name, _meant(name, allowed))


def _meant(name: str, allowed: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - 6 ms that only an error costs

    near = get_close_matches(name, allowed, n=1)
    return repr(near[0]) if near else f"one of {', '.join(allowed)}"


def section(value: object, here: Keys, under: str) -> dict[str, Any]:
    """What a mapping states, by field name, with what holds keys in turn as it is. Raises ProfileError."""
    stated = as_mapping(value, here)
    only_known(stated, here, under)
    found: dict[str, Any] = {}
    for name, key in children(under).items():
        if stated.get(name) is not None:
            found[name.replace("-", "_")] = key.kind.read(stated[name], (*here, name)) if key else stated[name]
    return found
