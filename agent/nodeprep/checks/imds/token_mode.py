"""Does the instance metadata service answer without a token?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.imds import Imds
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    found = seen[Imds].instance
    if found is None:
        return
    if found.token_required:
        message = "the instance metadata is told with a token only (HttpTokens=required)"
        yield Verdict(NODE, Status.OK, "TokensRequired", message, None, "required")
        return
    message = (
        "the instance metadata is told without a token too (HttpTokens=optional): what can make a pod send a request "
        "can read the RAM role's credentials"
    )
    yield Verdict(NODE, Status.OK, "TokensOptional", message, None, "optional")


CHECK = Check(
    id="imds.token-mode",
    question="Does the instance metadata service answer without a token?",
    why="Where it does, a request forged through any service on the node reads the credentials of its RAM role; where "
    "it does not, old software that knows no tokens gets nothing.",
    fix="When all that asks knows tokens: HttpTokens=required (ModifyInstanceMetadataOptions).",
    reasons=(
        Reason("TokensRequired", Status.OK),
        Reason("TokensOptional", Status.OK),
    ),
    source="ECS ModifyInstanceMetadataOptions; Terway pkg/aliyun/metadata/metadata.go (always with a token)",
    severity=Severity.INFO,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Imds,),
    judge=judge,
)
