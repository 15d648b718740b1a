"""Is no strict reverse-path filter on, now or after the next boot, where Terway routes by rules?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.sysctls import Persisted, Sysctls
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

OFF, STRICT = "0", 1  # Documentation/networking/ip-sysctl.rst; 2 is loose, which allows policy routes
INTERFACES_IN_MESSAGE = 3  # interfaces in one message


def judge(seen: Seen) -> Iterator[Verdict]:
    # Other CNIs set it themselves, and some want it strict (Calico): for those, route.reverse-path asks the kernel.
    if seen[Terway].present:
        yield verdict(seen[Sysctls])


def verdict(sysctls: Sysctls) -> Verdict:
    strict = [link for link in ("default", *sysctls.links()) if sysctls.filters(link) == STRICT]
    if strict:
        source = "all" if sysctls.on("all", "rp_filter") == STRICT else strict[0]
        key = f"net.ipv4.conf.{source}.rp_filter"
        more = f" and {len(strict) - INTERFACES_IN_MESSAGE} more" if len(strict) > INTERFACES_IN_MESSAGE else ""
        message = (
            f"{key} is 1, so the filter is strict on {', '.join(strict[:INTERFACES_IN_MESSAGE])}{more}; "
            "Terway sets 0 when a pod "
            f"starts, somebody else set it since: sysctl -w {key}=0"
        )
        return Verdict(NODE, Status.WARN, "StrictFilter", message, remedy(key), "1", "0 or 2")
    line = boots_strict(sysctls)
    if line is not None:
        message = (
            f"{line.where} sets {line.key} = 1 at the next boot; now no interface filters strictly, as Terway needs"
        )
        return Verdict(NODE, Status.WARN, "StrictFilterAtBoot", message, remedy(line.key), "1", "0 or 2")
    return Verdict(NODE, Status.OK, "NoStrictFilter", "no interface has a strict reverse-path filter")


def boots_strict(sysctls: Sysctls) -> Persisted | None:
    """The line by which some interface boots with a strict filter; a loose one for "all" outweighs its own."""
    found = (sysctls.at_boot(f"net.ipv4.conf.{link}.rp_filter") for link in ("all", "default", *sysctls.links()))
    lines = [line for line in found if line is not None]
    every = sysctls.at_boot("net.ipv4.conf.all.rp_filter")
    if every is not None and every.value == "2":
        return None
    return next((line for line in lines if line.value == "1"), None)


def remedy(key: str) -> Remedy:
    return Remedy("sysctl_terway", {"key": key, "value": OFF})


CHECK = Check(
    id="sysctl.rp-filter",
    question="Is no strict reverse-path filter on, now or after the next boot, where Terway routes by rules?",
    why="Terway's rules make answers of pods leave by their ENI: a strict filter takes what came by eth0 for forged.",
    fix="sysctl -w {key}=0 and the interface's own, and the same in /etc/sysctl.d.",
    reasons=(
        Reason("StrictFilter", Status.WARN),
        Reason(
            "StrictFilterAtBoot",
            Status.WARN,
            "Set {key} = 0 in a file of /etc/sysctl.d that sorts after the one that sets it now.",
        ),
        Reason("NoStrictFilter", Status.OK),
    ),
    source="Terway plugin/driver/utils EnsureNetConf (rp_filter=0); Linux Documentation/networking/ip-sysctl.rst",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Sysctls, Terway),
    remedies=("sysctl_terway",),
    judge=judge,
)
