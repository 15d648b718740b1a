"""Do the node's label, Terway on the node and Terway's record of it agree on exclusive or shared ENIs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from nodeprep.facts.alibaba import terway
from nodeprep.facts.alibaba.terway import CAPABILITY, ENI_ONLY, Terway
from nodeprep.facts.kubernetes.cluster import EXCLUSIVE, Cluster, TerwayNode
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)
from nodeprep.values import Value

SHARED = "default"
WORDS = {"exclusive": ENI_ONLY, "shared": SHARED}


class Want(Value):
    """How pods must get their ENIs."""

    mode: Annotated[
        Literal["shared", "exclusive"] | None,
        '"exclusive" (a pod takes a whole ENI) or "shared" (pods share addresses of ENIs). Unset takes either.',
    ] = None


def judge(seen: Seen) -> Iterator[Verdict]:
    wanted = seen[Want].mode
    if not seen[Terway].present or seen[Cluster].node.ignored_by_terway:
        if wanted is not None:
            message = (
                f"Terway is not this node's CNI, and {wanted} ENIs of it are wanted {seen.wanted_by('mode')}: take a "
                "node of a pool that runs Terway"
            )
            yield Verdict(NODE, Status.FAIL, "NoTerway", message, None, "no Terway", f"{wanted} ENIs")
        return
    node, capabilities, record = seen[Cluster].node, seen[Terway].capabilities, raw(seen[Cluster])["terway"]
    books = {f"the label of Node {node.name}": mode(node.labels, EXCLUSIVE)}
    if capabilities is not None:  # none after a reboot, until terway-init has run: then terway.pod tells why
        books["/var/run/eni/node_capabilities"] = mode(capabilities, CAPABILITY)
    if isinstance(record, TerwayNode) and record.labels:  # Terway copies the Node's labels when it makes the record
        books["Terway's record of it"] = mode(record.labels, EXCLUSIVE)
    said = ", ".join(f"{book} says {word}" for book, word in books.items())
    label = mode(node.labels, EXCLUSIVE)
    if set(books.values()) == {label}:
        verdict = agreed(label, said, wanted, seen.wanted_by("mode"))
        if isinstance(record, Unreadable) and verdict.status is Status.OK:
            raise CannotLook(record)
        yield verdict
        return
    others = next(word for word in books.values() if word != label)
    message = (
        f"{said}: the mode is fixed when a node is made, and terway-init refuses another. Put the label back "
        f"(kubectl label node {node.name} --overwrite {EXCLUSIVE}=...) or make the node anew"
    )
    yield Verdict(NODE, Status.FAIL, "ModeMismatch", message, observed=label, expected=others)


def agreed(label: str, said: str, wanted: Literal["shared", "exclusive"] | None, by: str) -> Verdict:
    if wanted is None or WORDS[wanted] == label:
        return Verdict(NODE, Status.OK, "Mode", said, None, label, wanted or "")
    message = (
        f"{said}; {wanted} ENIs are wanted {by}: the mode is fixed when a node is made, take a node of a pool with "
        f"{EXCLUSIVE}={WORDS[wanted]}"
    )
    return Verdict(NODE, Status.FAIL, "OtherMode", message, None, label, WORDS[wanted])


def mode(words: Mapping[str, str], key: str) -> str:
    """How Terway reads these words."""
    return ENI_ONLY if terway.is_eni_only(words.get(key, "")) else SHARED


CHECK = Check(
    id="terway.mode",
    question="Do the node's label, Terway on the node and Terway's record of it agree on exclusive or shared ENIs?",
    why="Where they differ terway-init ends with `exclusive eni mode changed`, and no pod of this node gets a network.",
    fix="Run the job on a node pool of that mode.",
    reasons=(
        Reason("NoTerway", Status.FAIL),
        Reason(
            "ModeMismatch",
            Status.FAIL,
            "Put the label back as the node was made, or recreate the node; nothing may change it on a running node.",
        ),
        Reason("Mode", Status.OK),
        Reason("OtherMode", Status.FAIL),
    ),
    source="Terway types/k8s.go (NodeExclusiveENIMode), pkg/utils/nodecap, docs/exclusive-eni-node-pool.md",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster),
    after=("imds.identity",),
    judge=judge,
    want=Want,
)
