"""Is every network configuration well formed, and Terway's as Terway writes it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import terway
from nodeprep.facts.alibaba.terway import CONFLIST, OLD, TYPE, Terway
from nodeprep.facts.network.cni import Cni, CniFile, CniNetwork
from nodeprep.model import (
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Why,
    raw,
)

# containernetworking/cni pkg/version; a configuration that names none is read as 0.1.0.
VERSIONS = ("", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
NETWORK = "terway-chainer"  # terway cmd/terway-cli/cni.go, mergeConfigList
BROKEN = (Why.MALFORMED, Why.MISSING)  # a link to nothing is listed, and cannot be read by the runtime either


def judge(seen: Seen) -> Iterator[Verdict]:
    cni = seen[Cni]
    if not terway.is_of_kubernetes(cni, seen.get(Terway)):
        return
    yield from seen.each(cni.files or (), lambda file: verdict(cni, file), subject)


def subject(file: CniFile) -> Subject:
    return Subject(file.name, None, file.name[:60])


def verdict(cni: Cni, file: CniFile) -> Verdict:
    is_first = cni.first is not None and cni.first.name == file.name
    ours = file.name in (CONFLIST, OLD)
    remedy = Remedy("terway_restart", {}) if ours else None
    tail = "Terway writes it anew when it starts" if ours else "see the pod or the package that writes it"
    path = f"{cni.directory}/{file.name[:60]}"
    blind = raw(file)["network"]
    if isinstance(blind, Unreadable) and blind.kind in BROKEN:
        wrong = blind.detail or "a link to nothing"
        if is_first:
            message = f"{path}: {wrong}; it sorts first, so containerd loads no network at all; {tail}"
            return Verdict(subject(file), Status.FAIL, "Malformed", message, remedy, wrong, "a CNI configuration")
        message = f"{path}: {wrong}; it is not the first, so no pod uses it; {tail}"
        return Verdict(subject(file), Status.WARN, "MalformedUnused", message, remedy, wrong, "a CNI configuration")
    network = file.network
    types = [plugin.type for plugin in network.plugins]
    shows = f"{path}: {' + '.join(types[:5])}"
    wrong = misordered(network, types) if file.name == CONFLIST else ""
    if wrong:
        message = f"{shows}: {wrong}, which Terway does not write; {tail}"
        return Verdict(subject(file), Status.FAIL, "NotTerways", message, remedy, wrong, f"{NETWORK}: {TYPE} first")
    if network.version not in VERSIONS:
        message = f"{shows}: cniVersion {network.version[:40]!r} is none that is known; wanted: {VERSIONS[-1]} or older"
        about = {"directory": cni.directory}
        return Verdict(
            subject(file), Status.WARN, "UnknownVersion", message, None, network.version, VERSIONS[-1], args=about
        )
    return Verdict(subject(file), Status.OK, "WellFormed", shows, None, network.version)


def misordered(network: CniNetwork, types: list[str]) -> str:
    """What is wrong with Terway's own chain, "" if nothing is."""
    if network.name != NETWORK:
        return f"its name is {network.name[:60]!r}, not {NETWORK!r}"
    if types[0] != TYPE:
        behind = f": {TYPE} is behind {types[0]}" if TYPE in types else f" and {TYPE} is not in the chain"
        return f"its first plugin is {types[0]}, not {TYPE}{behind}"
    return ""


CHECK = Check(
    id="cni.parse",
    question="Is every network configuration well formed, and Terway's as Terway writes it?",
    why="containerd refuses to load any network where the first file does not parse, and the node is NotReady.",
    fix="Mend the file at the line and column that the message names; where a pod writes it, restart that pod.",
    reasons=(
        Reason("Malformed", Status.FAIL),
        Reason("MalformedUnused", Status.WARN),
        Reason(
            "NotTerways",
            Status.FAIL,
            "Restart this node's Terway pod, which writes the file again; take away what changed it.",
        ),
        Reason(
            "UnknownVersion",
            Status.WARN,
            "Write {expected} or older as cniVersion into {directory}/{name}; where a pod writes it, see its version.",
        ),
        Reason("WellFormed", Status.OK),
    ),
    source="RFC 8259; containernetworking/cni libcni/conf.go, SPEC.md; terway cmd/terway-cli/cni.go, mergeConfigList",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Cni,),
    uses=(Terway,),
    after=("cni.directory",),
    remedies=("terway_restart",),
    judge=judge,
)
