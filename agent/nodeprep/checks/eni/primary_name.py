"""Is the primary ENI called eth0, as Terway takes for granted?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.links import Links
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

NAME = "eth0"  # terway hack/init.sh: sysctl -w net.ipv4.conf.eth0.rp_filter=0, under set -o errexit


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None or not books.has_terway:
        return
    # A primary ENI without a link is eni.missing-link's.
    yield from seen.each([row for row in books.attached if row.is_primary], verdict)


def verdict(row: EniRow) -> Verdict | None:
    name = row.link.name if row.link else ""
    shows = f"the primary {row.where}"
    if name == NAME:
        return Verdict(row.subject, Status.OK, "Eth0", shows, observed=name, expected=NAME)
    message = f"{shows} is not called {NAME}: Terway's init container ends at its sysctl; see dmesg | grep renamed"
    return Verdict(row.subject, Status.FAIL, "OtherName", message, observed=name, expected=NAME)


CHECK = Check(
    id="eni.primary-name",
    question="Is the primary ENI called eth0, as Terway takes for granted?",
    why="Terway's init container sets sysctls of eth0 by name and takes MTU and node address from it: without one it "
    "never starts, and with another ENI under that name pods leave by the wrong one.",
    fix="Pin the name by MAC address in /etc/systemd/network/10-eth0.link ([Match] PermanentMACAddress={place}, "
    "[Link] Name=eth0), take away whatever else renames interfaces, and reboot the drained node.",
    reasons=(
        Reason("Eth0", Status.OK),
        Reason("OtherName", Status.FAIL),
    ),
    source="AliyunContainerService/terway hack/init.sh; terway issue 141 (primary NIC eth2 after a reboot)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Imds, Links, Terway),
    judge=judge,
)
