"""Writes the table of docs/repair.md: where each remedy was proved, and why not. `make docs`; tests/test_docs.py.

What held in the guest is in proofs/repair.tsv, which `make prove-repair` writes: remedy, check and reason between tabs
(tests/provision/test_remedies.py). The words of its faults are in tests/provision/remedy_cases.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nodeprep.config import remedy_files
from nodeprep.decide.remedy_header import RemedyHeader
from tests.provision.remedy_cases import CASES

TARGET = Path(__file__).with_name("repair.md")
RESULTS = Path(__file__).resolve().parent.parent / "proofs" / "repair.tsv"
MARK = "Do not edit below. -->\n"  # the end of the line that says who writes what follows
RUNTIME = "on a real kubelet and containerd (tests/kubernetes/test_container_restart.py)"
STAND_INS = "with programs that stand in for the kernel (tests/playbooks)"
NO_ERI = "QEMU has no Elastic RDMA interface, and Debian no driver of it"
# Where those are proved that no guest can need, and why.
ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "plugin_restart": (RUNTIME, "an act of the container runtime; the guest has no kubelet"),
    "terway_restart": (RUNTIME, "an act of the container runtime; the guest has no kubelet"),
    "peermem_load": (STAND_INS, "the guest has no GPU, and Debian's kernel no nvidia_peermem"),
    "erdma_load": (STAND_INS, NO_ERI),
    "eri_mtu": ("on a veth pair (tests/playbooks)", f"{NO_ERI}; its tasks are those of `mtu`"),
    "eri_netdev_up": ("on a veth pair (tests/playbooks)", f"{NO_ERI}; its command is that of `link_up`"),
}
FAILED = ("**not proved**", "proofs/repair.txt says what the last run found")


def proved() -> frozenset[tuple[str, ...]]:
    """Remedy, check and reason of each fault that held in the guest in all that is asked of it."""
    return frozenset(tuple(line.split("\t")) for line in RESULTS.read_text(encoding="utf-8").splitlines())


def page() -> str:
    """The whole of docs/repair.md: what people wrote, and the table."""
    written, mark, _ = TARGET.read_text(encoding="utf-8").partition(MARK)
    return written + mark + "\n" + "\n".join(table(remedy_files.headers())) + "\n"


def table(headers: Mapping[str, RemedyHeader]) -> Iterator[str]:
    held = {case.remedy: case for case in CASES if (case.remedy, case.check, case.reason) in proved()}
    yield "| remedy | class | proved | fault and check, or why not in the guest | not shown there |"
    yield "|---|---|---|---|---|"
    for name, header in headers.items():
        case = held.get(name)
        where, why = ELSEWHERE.get(name, FAILED)
        cells = ("in the guest", f"{case.story}: `{case.check}`", case.not_shown) if case else (where, why, "")
        yield f"| [{name}](runbooks/remedies.md#{name}) | {header.safety} | {' | '.join(cells)} |"


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")
