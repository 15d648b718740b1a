"""Is Terway's record of every ENI settled, and is there a record of every ENI?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow, Ledger
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, EniRecord, TerwayNode
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.values import Value

IN_USE = "InUse"  # what terway-cli's migrate check asks of every ENI
VALID = "Valid"  # and of every address
WORDS_IN_MESSAGE = 4  # words in a message


class Want(Value):
    """How old Terway's last sync with the cloud may be."""

    synced_within: Annotated[
        int,
        "hours. Terway syncs every 12 h, put off by up to as long again at random (multiIPNodeSyncPeriod, "
        "wait.Jitter(period, 1)); twice that.",
    ] = 48


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None or books.terway is None:
        return
    yield from stale(books.terway, seen[Want], seen.wanted_by("synced-within"))
    yield from seen.each(books.terway.enis, lambda record: verdict(record, books), subject_of)
    yield from seen.each([row for row in books.attached if not row.is_primary], unrecorded)


def stale(terway: TerwayNode, want: Want, by: str) -> Iterator[Verdict]:
    """A record that was never synced belongs to a node that had no pod yet."""
    hours = (terway.synced or 0.0) / 3600
    if hours > want.synced_within:
        limit = f"{want.synced_within} h"
        message = (
            f"Terway held its record of this node against the cloud {hours:.0f} h ago; at most {limit} are wanted "
            f"{by}: see terway-controlplane's log"
        )
        yield Verdict(NODE, Status.WARN, "NotSynced", message, None, f"{hours:.0f} h", limit)


def verdict(record: EniRecord, books: Ledger) -> Verdict:
    about, mac = subject_of(record), record.mac.lower()
    shows = f"Terway's record of {record.id} ({mac})"
    row = next((row for row in books.rows if row.mac == mac), None)
    invalid = [f"{one.address} {one.status}" for one in record.addresses if one.status != VALID]
    if record.status != IN_USE:
        message = f"{shows} is {record.status[:40]!r}: the cloud has not finished; see kubectl describe of the record"
        return Verdict(about, Status.WARN, "NotInUse", message, None, record.status[:40], IN_USE)
    if row is None and books.holder(mac) is None:
        message = f"{shows} is {IN_USE}, and neither the metadata nor the kernel has it: the record is stale"
        return Verdict(about, Status.WARN, "StaleRecord", message, None, "record only", "metadata and link")
    if record.troubles:
        troubles = "; ".join(one[:120] for one in record.troubles[:WORDS_IN_MESSAGE])
        return Verdict(about, Status.WARN, "Troubled", f"{shows} has trouble: {troubles}", None, troubles[:120], "none")
    if invalid:
        message = f"{shows} holds addresses that are not {VALID}: {', '.join(invalid[:WORDS_IN_MESSAGE])}"
        return Verdict(
            about, Status.WARN, "AddressNotValid", message, None, ", ".join(invalid[:WORDS_IN_MESSAGE]), VALID
        )
    return Verdict(about, Status.OK, "Settled", f"{shows} is {IN_USE}", observed=record.status)


def unrecorded(row: EniRow) -> Verdict | None:
    if row.record is not None or row.holder is not None or row.is_returned or row.is_eri:
        return None
    message = (
        f"{row.where} is attached and is in no record of Terway's, no pod holds it, and it is no ERI: "
        "pods get none of its addresses; somebody attached it by hand, or a tag filter leaves it out"
    )
    return Verdict(row.subject, Status.WARN, "NoRecord", message, None, "metadata and link", "a record too")


def subject_of(record: EniRecord) -> Subject:
    return Subject(record.mac.lower(), None, record.id)


CHECK = Check(
    id="eni.record",
    question="Is Terway's record of every ENI settled, and is there a record of every ENI?",
    why="Terway gives pods addresses by its record: an ENI that hangs in Attaching, or an address that is not Valid, "
    "is capacity that the scheduler believes in and no pod gets.",
    fix="kubectl get nodes.network.alibabacloud.com NODE -o yaml; its conditions name the cloud's error (quota, "
    "vSwitch out of addresses).",
    reasons=(
        Reason("NotSynced", Status.WARN, "See terway-controlplane's log, then restart it."),
        Reason("NotInUse", Status.WARN),
        Reason(
            "StaleRecord",
            Status.WARN,
            "Restart terway-controlplane, so that it holds its record of {name} against the cloud.",
        ),
        Reason("Troubled", Status.WARN),
        Reason("AddressNotValid", Status.WARN),
        Reason("Settled", Status.OK),
        Reason(
            "NoRecord",
            Status.WARN,
            "Detach {name} in the cloud, or tag it as not Terway's if it is meant for something else.",
        ),
    ),
    source="terway cmd/terway-cli/migrate_check.go (InUse, Valid); types/controlplane (multiIPNodeSyncPeriod=12h)",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links, Cluster, Terway),
    uses=(Rdma,),
    after=("imds.identity",),
    want=Want,
    judge=judge,
)
