"""Writes docs/repair-reasons.md: why a remedy that is due does not run. `make docs`; tests/test_repair_reasons.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from docs import runbooks
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.values import Value

TARGET = Path(__file__).with_name("repair-reasons.md")
INTRODUCTION = """\
# Why a remedy does not run

Written by `make docs` from docs/repair_reasons.py. Do not edit.

In mode `repair` a remedy is due when the fault that it mends has closed a gate. If it does not run, one word says why.
The words are a closed set. The line that belongs to the word names the device, the pod or the node: it is
`repair-suppressed` in the agent's log and RepairSuppressed among the Events of the Node.
`nodeprep_repair_suppressed_now` has the words of now, and the board Repairs shows them for the fleet. Of several
hindrances the first in this order is told.

A fault that is latched, that passed in its last look or that nobody can look at asks for no remedy, and has no word.
`nodeprep check` says which it is.

NODE, POD, REMEDY and CHECK stand for yours.
"""


class SuppressionEnd(StrEnum):
    """Who ends a hindrance. Only what nobody wants and nobody ends gets an alert."""

    ITSELF = "it ends by itself"
    WILL = "somebody wants it so, and ends it"
    HUMAN = "only a human ends it"
    REPAIR = "something is broken, and is to be mended"


class SuppressionAdvice(Value):
    """What a reason means, who ends it, what to run (commands, each with what it is for), and which alert tells of it.

    `alert` is "" for none.
    """

    meaning: str
    end: SuppressionEnd
    how: str
    commands: Mapping[str, str]
    alert: str = ""


CANNOT_RUN = "NodeprepRepairCannotRun"
ITSELF, WILL, HUMAN, REPAIR = SuppressionEnd
REASONS: Mapping[SuppressionReason, SuppressionAdvice] = {
    SuppressionReason.MODE: SuppressionAdvice(
        "The agent's mode is observe or gate. It says what it would run, and runs nothing.",
        WILL,
        "Whoever owns the configuration sets `mode: repair` ([configuration.md](configuration.md)).",
        {"nodeprep config show": "on the node: the mode that is in force", "nodeprep repair CHECK": "mend it by hand"},
    ),
    SuppressionReason.NOT_BUILT: SuppressionAdvice(
        "The check names a remedy that this installation does not have: it is planned, or of a newer version.",
        HUMAN,
        "Mend it by hand. The agent waits for passes and opens the gate.",
        {"nodeprep explain CHECK": "what to do by hand"},
    ),
    SuppressionReason.DISPUTED: SuppressionAdvice(
        "Only this version of nodeprep sees the fault, and the former one passed the same value. Or the fault came"
        " within ten minutes after another version, on a node that was open. A wrong check must not repair a thousand"
        " nodes, one after the other.",
        HUMAN,
        "Look who is right ([upgrade.md](upgrade.md)): mend the node, say that the fault is the node's, or take the new"
        " version back.",
        {
            "nodeprep check --only CHECK": "on the node: what the new version sees",
            "nodeprep nodes reset NODE": "the node is at fault: judge it anew, and mend it",
            "kubectl -n nodeprep rollout undo daemonset/nodeprep": "take the agent's version back",
            "kubectl -n nodeprep rollout undo daemonset nodeprep-remediator": "and the remediator's",
        },
        "NodeprepRepairCannotRun",
    ),
    SuppressionReason.DRILL: SuppressionAdvice(
        "A drill made this fault and undoes it ([drills.md](drills.md)).",
        ITSELF,
        "It ends with the drill, within an hour at most.",
        {"nodeprep drill list": "which one, and until when", "nodeprep drill stop": "end it now"},
        "NodeprepDrillRuns",
    ),
    SuppressionReason.CLASS: SuppressionAdvice(
        "The remedy is of a higher class than may run here: `repair.max-class` on a node that serves,"
        " `repair.bootstrap-max-class` on a new one, or the limit of the remediator's manifest. S4 never runs.",
        WILL,
        "Whoever owns the configuration raises the class, or a human runs the remedy by hand.",
        {"nodeprep repair CHECK --dry-run": "on the host: what it would change"},
    ),
    SuppressionReason.OPERATOR_OWNED: SuppressionAdvice(
        "A container of another operator, such as NVIDIA's network or GPU operator, owns the driver. It would undo what"
        " we load.",
        HUMAN,
        "The owners of that operator mend its driver container.",
        {"kubectl get pods -A -o wide --field-selector spec.nodeName=NODE": "its driver pods on this node"},
    ),
    SuppressionReason.PAUSED: SuppressionAdvice(
        "A human paused this node, or the fleet. A pause without a time, or with one that cannot be read, holds.",
        WILL,
        "Whoever paused it takes the pause back, or its time comes.",
        {
            "nodeprep repair history --fleet": "who paused what, and why",
            "nodeprep repair resume NODE": "go on with this node",
            "nodeprep repair resume --all": "go on with the fleet",
        },
    ),
    SuppressionReason.FOREIGN_MAINTENANCE: SuppressionAdvice(
        "Somebody else works on the node: it is cordoned, drained, taken away by an autoscaler, or in the hands of"
        " another remediator.",
        WILL,
        "Whoever works there ends it. nodeprep never cordons and never drains.",
        {"kubectl describe node NODE": "its taints, labels, conditions and annotations", "kubectl uncordon NODE": ""},
    ),
    SuppressionReason.MEMORY: SuppressionAdvice(
        "What is done could not be remembered, or what was done is not known. A remedy might run twice.",
        REPAIR,
        "Give the agent its directory back: a disk that takes writes.",
        {"findmnt -T /var/lib/nodeprep": "on the node: where it lies", "df /var/lib/nodeprep": "whether it is full"},
        CANNOT_RUN,
    ),
    SuppressionReason.TAINT: SuppressionAdvice(
        "No gate is confirmed: our taint was not read back from the API server. A job could land on the node while it"
        " is mended.",
        REPAIR,
        "The line names what is in the way: a plugin that does not tolerate the taint, the effect PreferNoSchedule, a"
        " Node that was released, or an API server that does not answer.",
        {
            "kubectl get node NODE -o jsonpath={.spec.taints}": "whether it is there",
            "nodeprep nodes lint": "pods that do not tolerate it",
            "kubectl annotate node NODE nodeprep.io/released-": "take a release back",
        },
        CANNOT_RUN,
    ),
    SuppressionReason.BUDGET: SuppressionAdvice(
        "No try is left: three in 24 hours or in a row for one fault, 24 a day on one node, or as many as the"
        " remediator's manifest allows.",
        HUMAN,
        "Find out why it does not help, mend the cause, and reset the node.",
        {
            "nodeprep repair CHECK --dry-run": "on the host: what it would change",
            "nodeprep nodes reset NODE": "forget faults and tries",
        },
        "NodeprepRepairBudgetSpent",
    ),
    SuppressionReason.BACK_OFF: SuppressionAdvice(
        "The last try did not help. The next one comes a minute after the first, and five after the second.",
        ITSELF,
        "Wait. After the third try it is `budget`.",
        {"nodeprep check": "on the node: what still fails"},
    ),
    SuppressionReason.APPROVAL: SuppressionAdvice(
        "The remedy is of class S3, and nobody approved it on this node. An approval counts once, and for seven days at"
        " most. It must end later than the last one that was used on this node.",
        WILL,
        "A human approves it, or mends the node by hand.",
        {"nodeprep repair approve REMEDY NODE": "approve one run"},
        "NodeprepRepairUnapproved",
    ),
    SuppressionReason.REMEDIATOR: SuppressionAdvice(
        "Nobody runs remedies on this node, or the remediator refused: another version, a limit of its manifest, a tool"
        " that the host lacks, no right to enter the host, its ledger or its lock.",
        REPAIR,
        "Get its pod running, of the agent's version. Its log has the refusal.",
        {
            "kubectl -n nodeprep get pods -l app.kubernetes.io/component=repair -o wide": "whether it runs here",
            "kubectl -n nodeprep logs POD": "each attempt and refusal",
        },
        CANNOT_RUN,
    ),
    SuppressionReason.BUSY: SuppressionAdvice(
        "Another remedy runs on this node or is being judged, or somebody repairs it by hand. One at a time.",
        ITSELF,
        "Wait until that one was judged.",
        {"nodeprep repair history": "on the host: what runs by hand"},
    ),
    SuppressionReason.UNSEEN: SuppressionAdvice(
        "A fault is looked at once more before anything acts, and not all that its check needs could be had: a metadata"
        " server or the kubelet does not answer.",
        ITSELF,
        "The agent tries again. If it cannot look for longer, the check says so.",
        {"nodeprep check": "on the node: what cannot be looked at, and why"},
    ),
    SuppressionReason.IDLE: SuppressionAdvice(
        "Somebody uses what the remedy disturbs, or nobody can tell whether somebody does. No pod is ended"
        " for a repair.",
        ITSELF,
        "It runs when that pod ends. A doubt is named with its source, and ends with that.",
        {
            "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE": "who is there",
            "nodeprep check --only plugin.in-use -o wide": "on the node: who holds devices",
        },
    ),
    SuppressionReason.SLOT: SuppressionAdvice(
        "As many nodes as may are in repair (`repair.slots`, and `repair.bootstrap-slots` for new nodes), the Leases"
        " cannot be read or written, the remedy is being tried out on other nodes first, or the node's clock differs"
        " from the API server's by more than a minute.",
        ITSELF,
        "It runs when a slot is free. A slot whose holder is gone is free after its time. A Lease that is not there is"
        " made by `daemonset/components/repair`. A clock is to be set.",
        {
            "nodeprep repair history --fleet": "who holds which slot, and since when",
            "chronyc tracking": "on the node: by how much its clock is wrong",
        },
        CANNOT_RUN,
    ),
    SuppressionReason.CORRELATED: SuppressionAdvice(
        "Three serving nodes have the same fault within ten minutes. The cause is elsewhere: a switch, a release, a"
        " configuration.",
        ITSELF,
        "Half an hour after the last of them repairs go on. Look for what they share before.",
        {"nodeprep nodes": "which nodes, by reason and since when"},
    ),
    SuppressionReason.HELD: SuppressionAdvice(
        "The remedy ended on three nodes within a day without mending them, so no node runs it any more.",
        HUMAN,
        "Find out why it does not help. Then resume it for the fleet.",
        {
            "nodeprep repair history --fleet": "on which nodes it failed",
            "nodeprep repair resume --remedy REMEDY": "let nodes try it again",
        },
        "NodeprepRepairHeld",
    ),
}


def page() -> str:
    """The whole of docs/repair-reasons.md."""
    return "\n".join([INTRODUCTION, *_index(), "", *(line for reason in REASONS for line in _section(reason))])


def _index() -> Iterator[str]:
    yield "| reason | who ends it | alert |"
    yield "|---|---|---|"
    for reason, advice in REASONS.items():
        yield f"| [{reason}](#{reason}) | {advice.end} | {_alert(advice)} |"


def _alert(advice: SuppressionAdvice) -> str:
    return f"[{advice.alert}](runbooks/alerts/{advice.alert}.md)" if advice.alert else ""


def _section(reason: SuppressionReason) -> Iterator[str]:
    advice = REASONS[reason]
    yield from (f"## {reason}", "", runbooks.flowed(advice.meaning), "")
    end = f"{advice.end[0].upper()}{advice.end[1:]}"
    yield from (runbooks.flowed(f"*{end}.* {advice.how}"), "")
    yield from (f"- `{command}`{f': {what}' if what else ''}" for command, what in advice.commands.items())
    yield ""


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
