"""Is every plugin that pods' network needs there, as a program that runs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import terway as terway_facts
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.cni import Binary, Cni
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Subject, Verdict

TERWAYS = ("terway", "cilium-cni")  # its init container copies both at each start (terway hack/init.sh)


def judge(seen: Seen) -> Iterator[Verdict]:
    cni = seen[Cni]
    terway = seen.get(Terway)
    if cni.first is None or not terway_facts.is_of_kubernetes(cni, terway):
        return
    types = cni.chain(cni.first)
    found = [binary for binary in cni.binaries if binary.type in types]
    for binary in found:
        restart = binary.type in TERWAYS and terway is not None and terway.present
        yield verdict(cni, binary, cni.first.name[:60], Remedy("terway_restart", {}) if restart else None)


def verdict(cni: Cni, binary: Binary, file: str, remedy: Remedy | None) -> Verdict:
    subject = Subject(binary.type, None, binary.type)
    file_, about = f"{cni.directory}/{file}", {"file": f"{cni.paths[0]}/{binary.type}"}
    tail = f"wanted by {file_}; " + (
        "Terway copies it when its pod starts" if remedy else "the pod or package of the network plugin installs it"
    )
    if not binary.present:
        message = f"{binary.type} is in none of {', '.join(cni.paths)}; {tail}"
        return Verdict(subject, Status.FAIL, "Missing", message, remedy, "no file", "a program")
    if not binary.size:
        message = f"{binary.type} is an empty file; {tail}; see df of {cni.paths[0]}"
        return Verdict(subject, Status.FAIL, "Empty", message, remedy, "0 bytes", "a program", args=about)
    if not binary.executable:
        message = f"{binary.type} has no execute permission; {tail}; try: chmod 755 {about['file']}"
        return Verdict(
            subject, Status.FAIL, "NotExecutable", message, remedy, "not executable", "a program", args=about
        )
    return Verdict(subject, Status.OK, "Present", f"{binary.type} is there, {binary.size} bytes")


CHECK = Check(
    id="cni.binaries",
    question="Is every plugin that pods' network needs there, as a program that runs?",
    why='The runtime runs each plugin of the chain for each pod: "failed to find plugin" keeps pods from starting.',
    fix="Restart the network plugin's pod, which copies its own; install containernetworking-plugins for the others.",
    reasons=(
        Reason("Missing", Status.FAIL),
        Reason(
            "Empty",
            Status.FAIL,
            "df {file}; make room, then restart the network plugin's pod, which copies its own; install "
            "containernetworking-plugins for the others.",
        ),
        Reason("NotExecutable", Status.FAIL, "chmod 755 {file}; then see what installed it so."),
        Reason("Present", Status.OK),
    ),
    source="containernetworking/cni pkg/invoke/find.go, FindInPath; flannel-io/cni-plugin README (its delegate)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Cni,),
    uses=(Terway,),
    after=("cni.first", "cni.parse"),
    remedies=("terway_restart",),
    judge=judge,
)
