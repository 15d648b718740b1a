"""What NVIDIA's drivers say in the kernel log: Xids of GPUs, SXids of NVSwitches, GPUs that fell off the bus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from nodeprep.facts.machine.kernel_log import KernelLogLine
from nodeprep.newer_python import StrEnum
from nodeprep.pattern import Pattern
from nodeprep.values import Value

SLOT = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"
# Each format begins its line. Behind other words it is none: a process can choose a file's name, and crash.
# "NVRM: Xid (PCI:0000:3b:00): 79, pid=..."; a MIG instance stands behind the address, drivers before 361 print no PCI:.
XID_LINE = Pattern(rf"\ANVRM: Xid \((?:PCI:)?({SLOT})(?:\.[0-7])?(?: [^)]*)?\): (\d{{1,4}}),(.*)", re.DOTALL)
SXID_LINE = Pattern(rf"\Anvidia-nvswitch\d+: SXid \((?:PCI:)?({SLOT}\.[0-7])\): (\d{{5}}), (.*)", re.DOTALL)
# arch/nvalloc/unix/src/osapi.c, osinit.c. Other lines of NVRM hold what a client of the driver says of itself.
FALLEN_LINE = Pattern(
    rf"\ANVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?({SLOT})(?:\.[0-7])?\b.*\bfallen off the bus", re.DOTALL
)
# One message of three lines. Kernels before 5.10 log each of them alone.
GPU_LINE = Pattern(rf"\ANVRM: The NVIDIA GPU ({SLOT})(?:\.[0-7])?\b")
FALLEN_TAIL_LINE = Pattern(
    r"\ANVRM: (?:(?:\(PCI ID: [0-9a-fA-F:]+\) )?installed in this system has )?fallen off the bus and is not responding"
)
START_LINE = Pattern(rf"\ANVRM: GPU ({SLOT})(?:\.[0-7])?: (?:RmInitAdapter|rm_init_adapter) failed")
# kernel-open/nvidia-peermem/nvidia-peermem.c, peer_err: function and line, then the message.
PEER_MEMORY_LINE = Pattern(r"\A(?:nvidia[-_]peermem|nv_peer_mem) \w+:\d+ .*\bERROR\b")
LIKE_ONE = Pattern(r"\ANVRM: Xid\b|\Anvidia-nvswitch\d+: SXid \(")
# kernel-open/nvidia/nv.c, at each load of the module: what was said of its GPUs and NVSwitches before is past.
LOAD_LINE = Pattern(r"\ANVRM: loading NVIDIA UNIX\b")
ACTION = Pattern(r"recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x([0-9a-fA-F]+) \(([^)]*)\)")
NVLINK_5 = range(144, 151)  # Xids whose line says whether they are fatal
FATAL, NONFATAL = Pattern(r"\bFatal\b"), Pattern(r"\bNon-?[Ff]atal\b")
SEVERITY = Pattern(r"\b(?:Fatal|Non-?[Ff]atal)\b")
TAIL_LINES = 3  # lines after the one that names the GPU in which the rest of the message may stand


class XidClass(StrEnum):
    """What a line means for the node (docs/kernel_log/xids.tsv)."""

    APPLICATION = "APPLICATION"
    NOTHING = "NOTHING"
    SUPPORT = "SUPPORT"
    LINK = "LINK"
    RESET = "RESET"
    REBOOT = "REBOOT"
    SERVICE = "SERVICE"
    RECOVERY = "RECOVERY"
    FABRIC = "FABRIC"
    HOT = "HOT"
    START = "START"
    PEER_MEMORY = "PEER_MEMORY"
    GARBAGE = "GARBAGE"


class GpuEvent(Value):
    """One line of NVIDIA's drivers.

    `place` is the PCI function, or only its slot where the line has no function, "" where it names no device. `code` is
    the Xid or SXid, None of a line that has none. `fatal` is what the line itself says, None where it says nothing.
    `action` is what Xid 154 asks for, "" for nothing.
    """

    line: KernelLogLine
    place: str
    kind: XidClass
    code: int | None = None
    fatal: bool | None = None
    action: str = ""

    @property
    def of_switch(self) -> bool:
        """Whether an NVSwitch says it."""
        return "SXid" in self.line.text

    @property
    def meaning(self) -> str:
        """What the code means in our words, "" where there is none."""
        return meanings().get(self.code or 0, "") if not self.of_switch else ""

    def is_about(self, address: str) -> bool:
        return address == self.place or address.rpartition(".")[0] == self.place


def events(lines: Iterable[KernelLogLine]) -> Iterator[GpuEvent]:
    """What the lines say, oldest first. A line that says nothing of a GPU is left out."""
    named, left = "", 0
    for line in lines:
        text = line.text
        left = max(0, left - 1)
        if "NVRM" not in text and "nv" not in text:
            continue
        found = event(line)
        if found is None and left and FALLEN_TAIL_LINE.search(text):
            found = GpuEvent(line, named, XidClass.REBOOT)
        if match := GPU_LINE.search(text):
            named, left = _slot(match[1]), TAIL_LINES
        if found is not None:
            yield found


def event(line: KernelLogLine) -> GpuEvent | None:
    """What one line says by itself."""
    text = line.text
    if match := XID_LINE.search(text):
        return _xid(line, _slot(match[1]), int(match[2]), match[3])
    if match := SXID_LINE.search(text):
        return _sxid(line, _slot(match[1]), int(match[2]), match[3])
    if LIKE_ONE.search(text):
        return GpuEvent(line, "", XidClass.GARBAGE)
    if match := FALLEN_LINE.search(text):
        return GpuEvent(line, _slot(match[1]), XidClass.REBOOT)
    if match := START_LINE.search(text):
        return GpuEvent(line, _slot(match[1]), XidClass.START)
    return GpuEvent(line, "", XidClass.PEER_MEMORY) if PEER_MEMORY_LINE.search(text) else None


def frees(line: KernelLogLine, place: str) -> bool:
    """Whether the line says that the GPU or NVSwitch at this PCI address works anew.

    Its driver was loaded again, or no recovery is needed any more (Xid 154). A reset of a GPU itself says nothing.
    """
    if "NVRM" not in line.text:
        return False
    if LOAD_LINE.search(line.text):
        return True
    found = event(line)
    return found is not None and found.kind is XidClass.RECOVERY and not found.action and found.is_about(place)


def failed_starts(lines: Iterable[KernelLogLine]) -> tuple[GpuEvent, ...]:
    """The GPUs that the driver could not start since it was loaded, oldest first."""
    found: list[GpuEvent] = []
    for line in lines:
        if "NVRM" in line.text and LOAD_LINE.search(line.text):
            found.clear()
        one = event(line) if "NVRM" in line.text else None
        found += () if one is None or one.kind is not XidClass.START else (one,)
    return tuple(found)


def _xid(line: KernelLogLine, place: str, code: int, rest: str) -> GpuEvent:
    kind = classes("Xid").get(code, XidClass.SUPPORT)
    fatal: bool | None = None
    if code in NVLINK_5:
        # The last word counts: before it stands the name of a process, which may be "Nonfatal".
        severities = SEVERITY.findall(rest)
        fatal = severities[-1] == "Fatal" if severities else None
    action = ACTION.search(rest) if kind is XidClass.RECOVERY else None
    if kind is XidClass.RECOVERY and action is None:
        return GpuEvent(line, "", XidClass.GARBAGE)
    return GpuEvent(line, place, kind, code, fatal, action[2] if action and int(action[1], 16) else "")


def _sxid(line: KernelLogLine, place: str, code: int, rest: str) -> GpuEvent | None:
    if rest.startswith(("Severity ", "Data ")):
        return None  # details of the line before
    fatal = False if NONFATAL.match(rest) else True if FATAL.match(rest) else None
    # Thermal events are printed without a severity (nvswitch, NVSWITCH_PRINT_SXID): no word calls them harmless.
    unknown = XidClass.SUPPORT if fatal is None else XidClass.NOTHING
    return GpuEvent(line, place, classes("SXid").get(code, unknown), code, fatal)


def _slot(address: str) -> str:
    """An address as the kernel writes it; a domain of eight digits is a short one with zeros before it."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


@cache
def classes(kind: str) -> dict[int, XidClass]:
    """The classes by code. The table is imported only where NVIDIA's drivers said something."""
    from nodeprep.facts.machine.xid_codes import SXIDS, XIDS  # noqa: PLC0415 - what a start can do without

    table = XIDS if kind == "Xid" else SXIDS
    return {code: XidClass(name) for name, codes in table.items() for one in codes.split() for code in _range(one)}


@cache
def meanings() -> dict[int, str]:
    """What each Xid means, in our words."""
    from nodeprep.facts.machine.xid_codes import MEANINGS  # noqa: PLC0415 - see `classes`

    return {code: text for codes, text in MEANINGS.items() for code in _range(codes)}


def _range(codes: str) -> range:
    first, _, last = codes.partition("-")
    return range(int(first), int(last or first) + 1)
