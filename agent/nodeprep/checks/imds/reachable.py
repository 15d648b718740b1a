"""Does the instance metadata service answer?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.door_values import Instance
from nodeprep.facts.alibaba.imds import PRODUCT, Imds
from nodeprep.facts.kubernetes.cluster import Cluster
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
    Why,
    raw,
)

REASONS = {Why.TIMEOUT: "NoAnswer", Why.DENIED: "Refused", Why.IO_ERROR: "Unreachable"}


def judge(seen: Seen) -> Iterator[Verdict]:
    found: Instance | None | Unreadable = raw(seen[Imds])["instance"]
    if found is None:
        return
    if isinstance(found, Unreadable):
        if found.path == PRODUCT:
            raise CannotLook(found)  # whether this is an ECS instance at all
        cluster = seen.get(Cluster)
        if cluster is None or not cluster.node.is_lingjun:  # Lingjun's nodes need not have the service
            yield silent(found)
        return
    took = f"{seen[Imds].milliseconds:.0f} ms"
    yield Verdict(NODE, Status.OK, "Answers", f"the instance metadata was told in {took}", None, took)


def silent(blind: Unreadable) -> Verdict:
    # A busy HTTP server gives no errno: it was reached, and says that it is busy.
    busy = blind.kind is Why.IO_ERROR and blind.errno is None
    reason = "Busy" if busy else REASONS.get(blind.kind, "StrangeAnswer")
    message = f"no instance metadata: {blind}; Terway and cloud-init take ENIs and addresses from it"
    return Verdict(NODE, Status.WARN, reason, message, None, f"{blind.kind}", "an answer")


CHECK = Check(
    id="imds.reachable",
    question="Does the instance metadata service answer?",
    why="Terway, cloud-init and the cloud's controllers take ENIs and addresses from it; without it no ENI can be held "
    "against what the cloud says.",
    fix="curl -v http://100.100.100.200/latest/meta-data/, or the address that the configuration says.",
    reasons=(
        Reason(
            "NoAnswer",
            Status.WARN,
            "ip route get 100.100.100.200 (unless the configuration says another address); remove what drops or "
            "reroutes it; in a pod without hostNetwork raise the token's hop limit.",
        ),
        Reason("Refused", Status.WARN, "Set HttpEndpoint=enabled (ModifyInstanceMetadataOptions)."),
        Reason(
            "Unreachable",
            Status.WARN,
            "ip route get 100.100.100.200 (unless the configuration says another address); remove what drops or "
            "reroutes it; in a pod without hostNetwork raise the token's hop limit.",
        ),
        Reason("Answers", Status.OK),
        Reason("Busy", Status.WARN, "Wait; of 429 see what asks so often, of 5xx ask the cloud."),
        Reason(
            "StrangeAnswer",
            Status.WARN,
            "See who answers at that address: curl -v, ip route get 100.100.100.200; a proxy must not.",
        ),
    ),
    source="Terway pkg/aliyun/metadata/metadata.go (token first, 4 retries of 429 and 5xx); ECS "
    "ModifyInstanceMetadataOptions",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Imds,),
    uses=(Cluster,),
    judge=judge,
)
