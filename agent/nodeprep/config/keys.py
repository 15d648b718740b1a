"""Every key of a configuration file: what may stand there, what it means, and what reading the file again does.

Files are read by this table, and docs/configuration.md and `nodeprep config init` are written from it. The defaults are
those of `Settings`, `AgentSettings` and their fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nodeprep import typed_yaml
from nodeprep.doors.node_host import METADATA
from nodeprep.job_profile import API_VERSION, NUMBERS, TEXTS
from nodeprep.pattern import Pattern
from nodeprep.typed_yaml import ANYTHING, MAPPING, TEXT, TRUTH, Keys, ValueKind
from nodeprep.values import Value

NEXT_ROUND = "holds from the next round on"
NEXT_LOOK = "counts from the next look on; what is proven, convicted or latched stays so"
PROFILES = "profiles are read again; the gates of one that is new to the node have to pass anew"
RELABEL = (
    "run nodeprep nodes release --all before, and apply the admission policy of the new names: else the old one stays"
)
NEXT_REMEDY = "holds from the next round on; a remedy that runs ends as it began"
RESTART = "needs a restart of the agent; until then the old one holds"

# Kubernetes' qualified name (apimachinery, util/validation): a name of 63 characters, and before it a DNS subdomain.
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_LIMIT = 253  # characters
# An address, not a name: nodeprep cannot limit how long a name server takes.
METADATA_ADDRESS = Pattern(r"http://(?:([0-9]{1,3}(?:\.[0-9]{1,3}){3})|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?")


def _is_qualified(value: object) -> bool:
    if not isinstance(value, str):
        return False
    prefix, slash, name = value.rpartition("/")
    sound = not slash or (len(prefix) <= SUBDOMAIN_LIMIT and re.fullmatch(SUBDOMAIN, prefix) is not None)
    return sound and re.fullmatch(NAME, name) is not None


def _is_address(value: object) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - 2 ms, and only a file with such a key needs it

    try:
        return isinstance(value, str) and bool(ip_address(value))
    except ValueError:
        return False


def _is_metadata_url(value: object) -> bool:
    match = METADATA_ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    return max(int(octet) for octet in (match[1] or "0").split(".")) <= 255 and 0 < int(match[2] or 80) < 1 << 16


ADDRESS = typed_yaml.fitting("an IP address of this node, such as 127.0.0.1", _is_address)
QUALIFIED = typed_yaml.fitting("a name as Kubernetes takes it, such as nodeprep.io/unhealthy", _is_qualified)
METADATA_URL = typed_yaml.fitting(
    f"http:// and an IPv4 address, with a port or without, such as {METADATA}", _is_metadata_url
)

# Three plain characters first: a glob such as "*" would excuse every job, and then a repair would end it.
PROCESS_GLOB = Pattern(r"[-A-Za-z0-9_.:+@]+|[-A-Za-z0-9_.:+@]{3}[-A-Za-z0-9_.:+@*?\[\]!]*")
PROCESS = typed_yaml.fitting(
    "the name of a process, or a glob that begins with three plain characters, such as dcgm*",
    lambda value: isinstance(value, str) and PROCESS_GLOB.fullmatch(value) is not None,
)

MODE = typed_yaml.one_of("observe", "gate", "repair")
# An empty match would match all nodes, but its author meant only some.
LABEL_GLOBS = typed_yaml.not_empty(
    typed_yaml.mapping_of(TEXT, key=QUALIFIED),
    "a label with a glob, or no match at all for every node",
    required=False,
)
HOUR, DAY = 3600.0, 86400.0  # seconds
TRIES_LIMIT, SLOTS_LIMIT, BOOTSTRAP_SLOTS_LIMIT = 10, 16, 64
BACK_OFF_LEAST_SECONDS, BACK_OFFS_LIMIT = 60.0, 5
# The second is the deadline that the remediator's manifest allows (--max-deadline): it refuses a longer one.
PLAY_LEAST_SECONDS, PLAY_LIMIT_SECONDS = 30.0, 600.0
REMEMBERED = 5  # looks at one subject that the agent state has (agent_state.Case)
# Of class S3 each needs an approval, and S4 is for a human: no limit lets either run by itself.
UNATTENDED_CLASS = typed_yaml.one_of("S1", "S2")
BACK_OFF = typed_yaml.list_of(typed_yaml.seconds(BACK_OFF_LEAST_SECONDS, DAY), "seconds").described(
    f"a list of 1 to {BACK_OFFS_LIMIT} numbers of seconds, {BACK_OFF_LEAST_SECONDS:g} to {DAY:g}, "
    "none less than the one before",
    "seconds",
)
PLAY = typed_yaml.seconds(PLAY_LEAST_SECONDS, PLAY_LIMIT_SECONDS)


class ConfigKey(Value):
    """One key by its path; `[]` stands for each item of a list. `kind` is what may stand there."""

    path: str
    kind: ValueKind[Any]
    meaning: str
    reload: str


def _rule(name: str, whom: str) -> tuple[ConfigKey, ...]:
    """The numbers of one class of checks."""
    path = f"confirmation.{name}"
    return (
        ConfigKey(
            f"{path}.fails",
            typed_yaml.whole_number(1, REMEMBERED, "looks"),
            f"Fresh looks that must fail before {whom} is believed.",
            NEXT_LOOK,
        ),
        ConfigKey(
            f"{path}.of",
            typed_yaml.whole_number(1, REMEMBERED, "looks"),
            "Among so many of the last fresh looks; memory holds 5.",
            NEXT_LOOK,
        ),
        ConfigKey(
            f"{path}.apart", typed_yaml.seconds(0, HOUR), "Least time from one failing look to the next.", NEXT_LOOK
        ),
        ConfigKey(
            f"{path}.span",
            typed_yaml.seconds(0, HOUR),
            "Least time from the first failing look to the last.",
            NEXT_LOOK,
        ),
    )


KEYS = (
    ConfigKey("apiVersion", typed_yaml.only(API_VERSION), "Of this format.", NEXT_ROUND),
    ConfigKey("kind", typed_yaml.only("Config"), "Tells the file from a profile.", NEXT_ROUND),
    ConfigKey(
        "default",
        TEXT.described("auto or a profile"),
        "The profile where nothing else names one: a built-in one, a file beside this one, or auto: by hardware.",
        PROFILES,
    ),
    ConfigKey(
        "want",
        NUMBERS.described("numbers by check and key"),
        "Numbers of single checks, which win over those of profiles; `nodeprep explain ID` prints them.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "waivers",
        typed_yaml.list_of(ANYTHING, "waivers"),
        "Findings that are shown and do not count, up to a date.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "waivers[].check",
        typed_yaml.not_empty(TEXT, "a check's id").described("an id or a glob"),
        "Which checks: an id or a glob.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "waivers[].device",
        TEXT.described("a glob"),
        "Which devices: a glob of PCI addresses, `address/port` or device names.",
        NEXT_ROUND,
    ),
    ConfigKey("waivers[].nodes", TEXTS, "Which nodes: globs of names.", NEXT_ROUND),
    ConfigKey(
        "waivers[].until",
        typed_yaml.not_empty(TEXT, "a date").described("a date, at most 90 days from now"),
        "The last day on which it holds (UTC).",
        NEXT_ROUND,
    ),
    ConfigKey(
        "waivers[].reason",
        typed_yaml.not_empty(TEXT, "why, for whoever meets it").described("a line of text"),
        "Why, for whoever meets it.",
        NEXT_ROUND,
    ),
    ConfigKey("exclude", TEXTS, "Globs of paths that are never read. A note names devices that they hide.", NEXT_ROUND),
    ConfigKey(
        "metadata-url",
        METADATA_URL.described("http:// and an IPv4 address"),
        "Where an ECS instance asks for its metadata.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "idle.ignore",
        typed_yaml.list_of(PROCESS, "names of processes").described("a list of names of processes, or globs of them"),
        "Daemons that may have device nodes and RDMA contexts open while a repair wants the device unused. A list in"
        " the file takes the place of the default. The kernel keeps 15 characters of a name (/proc/PID/comm).",
        "counts from the next `nodeprep repair`, `provision` or `drill` on",
    ),
    ConfigKey(
        "mode",
        MODE,
        "How far the agent may go. observe: conditions, labels, gate files and metrics, never a taint. gate: the taint"
        " too. repair: closes the gate first, and then has the remediator (components/repair) mend the fault.",
        "holds from the next round on; observe removes our taint; a remedy that runs ends and is judged",
    ),
    ConfigKey(
        "assign",
        typed_yaml.list_of(ANYTHING, "rules"),
        "Which profiles a node has, by its labels; the first rule that matches holds, and after the list `default`."
        " Where labels cannot be had, what it last said holds; without such a memory nothing opens.",
        PROFILES,
    ),
    ConfigKey(
        "assign[].match",
        LABEL_GLOBS.described("globs by node label"),
        "Labels that the node must all have, with values that match. Without it the rule matches every node.",
        PROFILES,
    ),
    ConfigKey(
        "assign[].use",
        typed_yaml.not_empty(TEXTS, "one profile or more").described("a list of profiles"),
        "Built-in profiles, or files beside this one.",
        PROFILES,
    ),
    ConfigKey(
        "assign[].expect",
        TEXT.described("a profile's file"),
        "A captured profile: the devices and ports that it states are expected by each profile of `use`.",
        PROFILES,
    ),
    ConfigKey(
        "gate.profiles",
        TEXTS,
        "Globs of profiles whose gate sets the taint; a profile also goes by the names of those it extends.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "gate.allow-auto",
        TRUTH,
        "Whether a profile for RDMA that only the hardware chose may open its gate without a baseline. Its gates have"
        " to pass anew all the same, as those of any profile that is new to the node.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "gate.effect",
        typed_yaml.one_of("NoSchedule", "PreferNoSchedule"),
        "What the taint does; PreferNoSchedule is the step to try first.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "gate.unhealthy-taint",
        QUALIFIED,
        "The taint of a node whose gate is closed. The ValidatingAdmissionPolicy must allow the same name.",
        RELABEL,
    ),
    ConfigKey(
        "gate.bootstrap-taint",
        QUALIFIED,
        "The taint that kubelet, node pool or autoscaler set when a node registers; the agent only ever removes it.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "gate.rdma-label", QUALIFIED, "The label that is there, as true, while a profile for RDMA is ready.", RELABEL
    ),
    *_rule("fast", "a missing device, driver, module or link"),
    *_rule("records", "a record of cloud or Kubernetes that differs from the kernel's"),
    *_rule("slow", "a bad rate, counter or daemon"),
    ConfigKey(
        "confirmation.passes",
        typed_yaml.whole_number(1, 100, "looks"),
        "Fresh looks in a row without a fault before a gate opens.",
        NEXT_LOOK,
    ),
    ConfigKey(
        "confirmation.pass-span",
        typed_yaml.seconds(0, HOUR),
        "Least time from the first of these looks to the last. On a node on which a remedy ran, it is 30 s at least.",
        NEXT_LOOK,
    ),
    ConfigKey("confirmation.pass-every", typed_yaml.seconds(0.5, 600), "How often such a look is taken.", NEXT_LOOK),
    ConfigKey(
        "confirmation.flap-count",
        typed_yaml.whole_number(1, 100, "releases"),
        "A fault that would be released so often within flap-window is latched: looks alone do not free it.",
        NEXT_LOOK,
    ),
    ConfigKey(
        "confirmation.flap-window", typed_yaml.seconds(1, DAY), "The time within which releases count.", NEXT_LOOK
    ),
    ConfigKey(
        "confirmation.blind-after",
        typed_yaml.seconds(1, DAY),
        "How long a gate check may be unable to look before the node's conditions say Unknown.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "readiness.bootstrap-limit",
        typed_yaml.seconds(60, DAY),
        "How long a node may take from its start to readiness before a human is called.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "readiness.human-passes",
        typed_yaml.seconds(30, DAY),
        "How long all gate checks must pass before a node that waits for a human is ready without one.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "readiness.validation-limit",
        typed_yaml.seconds(30, DAY),
        "How long the checks may take to pass after a remedy, before it counts as one that did not help. Passes take"
        " 30 s at least after it.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "readiness.remedy-after",
        typed_yaml.seconds(0, DAY),
        "How long a conviction stands before a remedy counts as due. In mode repair none runs before 30 s.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "readiness.grace",
        typed_yaml.seconds(0, HOUR),
        "How long a conviction stands after a boot before a human is called: links train for up to a minute.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "repair.max-class",
        UNATTENDED_CLASS,
        "The highest safety class of a remedy that runs on a node that was Ready in this boot. S1 is safe while jobs"
        " run. S2 runs only while nobody uses the device. Each of S3 needs an approval, and S4 never runs.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.bootstrap-max-class",
        UNATTENDED_CLASS,
        "The same for a node that was not Ready yet in this boot.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.tries",
        typed_yaml.whole_number(1, TRIES_LIMIT, "tries"),
        "How often a remedy may run for one fault in 24 hours. When so many did not help, a human is called. The"
        " remediator's manifest has limits of its own (--runs-a-day-each).",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.back-off",
        BACK_OFF,
        "Least time from a try that did not help to the next: after the first, after the second, and so on. The last"
        " one holds for all further tries.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.slots",
        typed_yaml.whole_number(1, SLOTS_LIMIT, "nodes"),
        "How many nodes that were Ready in their boot may be in repair at the same time in the whole cluster. Each"
        " needs a Lease (nodeprep-slot-N, in components/repair): more slots than Leases do nothing.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.bootstrap-slots",
        typed_yaml.whole_number(1, BOOTSTRAP_SLOTS_LIMIT, "nodes"),
        "The same for nodes that were not Ready yet in their boot. Their Leases are nodeprep-slot-bootstrap-N.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.deadline.safe",
        PLAY,
        "How long a remedy of class S1 may run before it is ended, by hand too.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "repair.deadline.idle",
        PLAY,
        "The same for S2 and S3. The remediator refuses a deadline above its own --max-deadline.",
        NEXT_REMEDY,
    ),
    ConfigKey(
        "every",
        MAPPING.described("seconds by fact", "seconds"),
        "How often a fact is looked at where no event announces a change, in seconds from 0.5 to 3600.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "metrics.bind",
        ADDRESS,
        "The address on which /metrics, /healthz and /readyz are served. A pod with hostNetwork gives the node's.",
        RESTART,
    ),
    ConfigKey("metrics.port", typed_yaml.whole_number(0, 65535), "The TCP port for them; 0 serves nothing.", RESTART),
    ConfigKey(
        "history.repeat-hours",
        typed_yaml.whole_number(2, 336, "hours"),
        "In how many different hours a device must be convicted, within history.repeat-days, to be told as one that"
        " fails again and again.",
        NEXT_ROUND,
    ),
    ConfigKey(
        "history.repeat-days",
        typed_yaml.whole_number(1, 30, "days"),
        "Over how many days such hours are counted. A node keeps 30 days at least.",
        NEXT_ROUND,
    ),
)


def children(under: str = "") -> Mapping[str, ConfigKey | None]:
    """The keys of the mapping at the path `under`, "" for the whole file. A key that has keys itself maps to None."""
    found: dict[str, ConfigKey | None] = {}
    for key in KEYS:
        if under and not key.path.startswith(f"{under}."):
            continue
        name, dot, _ = key.path.removeprefix(f"{under}." if under else "").partition(".")
        if not name.endswith("[]"):
            found.setdefault(name, None if dot else key)
    return found


def section(value: object, here: Keys, under: str = "") -> dict[str, Any]:
    """The values of a mapping by field name; the value of a key that has keys is not read. Raises InvalidValueError."""
    table = {name: (name.replace("-", "_"), key.kind if key else ANYTHING) for name, key in children(under).items()}
    return typed_yaml.fields_of(table).read(value, here)
