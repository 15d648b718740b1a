"""klog.xid by its rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import check_round
from nodeprep.agent_state import Case
from nodeprep.checks.klog.nic import Want
from nodeprep.checks.klog.xid import CHECK
from nodeprep.decide import fault_confirmation
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.xid_codes import XIDS
from nodeprep.model import NODE, Seen, Subject, Unreadable, WantedBy, Why
from tests.agent_state_values import agent_state
from tests.gpu_values import gpu, nvswitch
from tests.values import expected, nic, pci, say, verdicts

ONE, TWO, SWITCH, GONE = "0000:1b:00.0", "0000:3b:00.0", "0000:07:00.0", "0000:99:00.0"
BUS = pci(nic(), gpu(address=ONE), gpu(address=TWO), nvswitch(SWITCH))
X = "NVRM: Xid (PCI:0000:3b:00): "
OFF = f"{X}79, pid=1234, name=python, GPU has fallen off the bus."
ECC, CONTAINED, APP, FAULT = f"{X}48, DBE", f"{X}94, Contained", f"{X}13, Graphics SM", f"{X}31, Ch 00000008"
NVLINK, GSP, NEW = f"{X}74, NVLink: fatal error", f"{X}119, Timeout of GSP", f"{X}999, unheard of"
FATAL5, MILD5, SILENT5 = f"{X}145, RLW_REMAP Fatal XC0", f"{X}145, RLW_REMAP Nonfatal XC0", f"{X}145, RLW_REMAP"
ACTION = "154, GPU recovery action changed from"
RESET_ME, FINE = (
    f"{X}{ACTION} 0x0 (None) to 0x1 (GPU Reset Required)",
    f"{X}{ACTION} 0x1 (GPU Reset Required) to 0x0 (None)",
)
POWER = f"{X}54, Aux power"
ELSEWHERE, ELSEWHERE_APP = OFF.replace(":3b:", ":99:"), APP.replace(":3b:", ":99:")
S = f"nvidia-nvswitch0: SXid (PCI:{SWITCH}): "
S_FATAL, S_WARN, S_FINE = (
    f"{S}20034, Fatal, Link 28 LTSSM",
    f"{S}20009, Non-fatal, Link 28",
    f"{S}11021, Non-fatal, Link 32",
)
S_DETAIL = f"{S}20034, Severity 5 Engine instance 28"
GARBAGE = "NVRM: Xid (PCI:zzzz): what"
PEER = "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"
START = f"NVRM: GPU {TWO}: RmInitAdapter failed! (0x62:0x40:2192)"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
ENABLED = f"nvidia {TWO}: enabling device (0140 -> 0142)"
THREE = (f"NVRM: The NVIDIA GPU {TWO}", "NVRM: (PCI ID: 10de:2330) installed in this system has",
         "NVRM: fallen off the bus and is not responding to commands.")  # fmt: skip


def log(*texts: str, from_kernel: bool = True, level: int = 3) -> KernelLog:
    lines = (KernelLogLine(index, 100.0 + index, level, from_kernel, text) for index, text in enumerate(texts))
    return KernelLog(0.0, tuple(lines))


def told(heard: KernelLog, bus: Pci = BUS, wants: Expected | None = None) -> dict[str, str]:
    """Status and reason by place of what is not quiet; the node's is ""."""
    found = verdicts(CHECK, bus, wants or expected(), heard)
    return {one.subject.place: f"{one.status} {one.reason}" for one in found if one.reason != "Quiet"}


GPU_ROWS = [
    # lines                  what is said of the GPU
    ((), None),
    ((OFF,), "fail FellOffBus"),
    ((f"NVRM: GPU {TWO}: GPU has fallen off the bus.",), "fail FellOffBus"),
    (THREE, "fail FellOffBus"),
    ((ECC,), "fail ResetNeeded"),
    ((GSP,), "fail ResetNeeded"),
    ((NVLINK,), "fail LinkFailed"),
    ((FATAL5,), "fail LinkFailed"),
    ((MILD5,), "warn Warned"),
    ((SILENT5,), "warn Warned"),
    ((RESET_ME,), "fail RecoveryNeeded"),
    ((POWER,), "fail ServiceNeeded"),
    ((NEW,), "warn Warned"),
    ((START,), "warn Warned"),
    ((APP,), None),
    ((FAULT, f"{X}43, Ch 00000008", f"{X}45, Ch 00000008", CONTAINED), None),
    ((f"{X}63, Row remapping event",), None),
    ((APP, OFF, APP), "fail FellOffBus"),
    ((ECC, RESET_ME, OFF), "fail FellOffBus"),
    ((ECC, RESET_ME), "fail RecoveryNeeded"),
    ((NVLINK, ECC), "fail ResetNeeded"),
    ((NEW, ECC), "fail ResetNeeded"),
    # what ends it
    ((OFF, LOADED), None),
    ((OFF, ENABLED), None),
    ((ECC, RESET_ME, FINE), None),
    ((LOADED, OFF), "fail FellOffBus"),
    ((ECC, FINE, ECC), "fail ResetNeeded"),
    ((OFF, FINE.replace(":3b:", ":1b:")), "fail FellOffBus"),
    ((OFF, ENABLED.replace(TWO, ONE)), "fail FellOffBus"),
    ((FINE,), None),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "says"), GPU_ROWS)
@pytest.mark.parametrize("level", [2, 3, 6])
def test_of_a_gpu(texts: tuple[str, ...], says: str | None, level: int) -> None:
    assert told(log(*texts, level=level)) == ({TWO: says} if says else {})


NODE_ROWS = [
    ((S_FATAL,), {SWITCH: "fail SwitchFailed"}),
    ((S_WARN,), {SWITCH: "warn SwitchWarned"}),
    ((S_WARN, S_FATAL, S_DETAIL, S_FINE), {SWITCH: "fail SwitchFailed"}),
    ((S_FINE, S_DETAIL), {}),
    ((S_FATAL, LOADED), {}),
    ((f"{S}10004, NVSWITCH Temperature 97C | TSENSE WARN Threshold 95C",), {SWITCH: "warn SwitchWarned"}),
    ((f"{S}99999, unheard of",), {SWITCH: "warn SwitchWarned"}),
    ((ELSEWHERE,), {GONE: "fail FellOffBus"}),  # nothing but its driver saw it
    ((ELSEWHERE_APP, ELSEWHERE), {GONE: "fail FellOffBus"}),
    ((ELSEWHERE, LOADED), {}),
    ((ELSEWHERE, ENABLED.replace(TWO, GONE)), {}),
    ((ECC.replace(":3b:", ":99:"),), {"": "warn NotListed"}),
    ((ELSEWHERE_APP,), {"": "ok Unmatched"}),
    ((GARBAGE,), {"": "ok Unmatched"}),
    ((S_FATAL.replace(":07:", ":99:"),), {"": "warn NotListed"}),
    ((S_FINE.replace(":07:", ":99:"),), {"": "ok Unmatched"}),
    ((PEER,), {"": "warn PeerMemoryFailed"}),
    ((GARBAGE, PEER, ELSEWHERE), {GONE: "fail FellOffBus", "": "warn PeerMemoryFailed"}),
    ((OFF, GARBAGE, S_FATAL), {TWO: "fail FellOffBus", SWITCH: "fail SwitchFailed", "": "ok Unmatched"}),
]


@pytest.mark.parametrize(("texts", "says"), NODE_ROWS)
def test_of_switches_and_of_the_node(texts: tuple[str, ...], says: dict[str, str]) -> None:
    assert told(log(*texts)) == says


def test_garbage_is_counted_and_accuses_nobody() -> None:
    (one,) = (one for one in verdicts(CHECK, BUS, expected(), log(GARBAGE, ELSEWHERE_APP)) if one.subject == NODE)
    assert one.observed == "2"
    assert one.message.startswith("2 lines of NVIDIA's drivers name no GPU or NVSwitch of this node")


def test_what_programs_did_is_counted() -> None:
    found = verdicts(CHECK, BUS, expected(), log(APP, APP, FAULT))
    assert [one.message for one in found][1] == (
        f"{TWO} (10de:2330): the kernel log holds only what programs did or what it survived: 2 of Xid 13, 1 of Xid 31"
    )


def test_the_message_has_the_line_what_it_means_and_what_ends_it() -> None:
    (one,) = (one for one in verdicts(CHECK, BUS, expected(), log(OFF, OFF)) if one.status == "fail")
    assert one.message == (
        f"{TWO} (10de:2330): 101 s after boot the kernel said: {OFF} (the GPU has fallen off the bus) (2 such lines); "
        "held until the node boots, its driver is loaded again, or Xid 154 says that no recovery is needed; after a "
        "reset of the GPU: dmesg --clear, then nodeprep reset"
    )
    assert one.observed == "Xid 79"


def test_the_only_gpu_that_fell_off_the_bus_is_accused() -> None:
    """The bus lists no GPU any more, so nothing but the log knows of one."""
    bare = pci(nic())
    (one,) = verdicts(CHECK, bare, expected(), log(APP, OFF))
    assert (one.subject.place, one.reason) == (TWO, "FellOffBus")
    assert one.message.startswith(f"{TWO} (gone from the bus): 101 s after boot the kernel said: {OFF}")
    assert told(log(APP, GARBAGE, PEER), bus=bare) == told(log(), bus=bare) == {"": "absent Nothing"}


def test_on_a_node_without_gpus_a_refused_log_is_irrelevant() -> None:
    refused = Unreadable(Why.DENIED, "/dev/kmsg")
    seen = Seen({Pci: pci(nic()), Expected: expected(), KernelLog: refused, Want: Want(), WantedBy: WantedBy()})
    assert [one.reason for one in check_round.run_check(CHECK, seen)] == ["Nothing"]


def test_a_gpu_that_left_the_bus_is_accused_where_a_profile_names_it() -> None:
    gone = MissingDevice(Subject("0000:99:00.0"), "10de:2330", "profile site")
    assert told(log(ELSEWHERE), wants=expected(missing_gpus=(gone,))) == {"0000:99:00.0": "fail FellOffBus"}


def test_lines_that_a_process_wrote_count_on_demand_only() -> None:
    heard = log(OFF, from_kernel=False)
    assert told(heard) == {}
    assert say(CHECK, BUS, expected(), heard, want=Want(accept_userspace=True)) == "ok Quiet; fail FellOffBus; ok Quiet"


def test_without_gpus_the_log_is_not_read() -> None:
    assert say(CHECK, pci(nic()), expected()) == "absent Nothing"


def test_an_amd_gpu_has_no_xids() -> None:
    amd = pci(gpu(address=ONE, id="1002:74a1", pci_class="120000"))
    assert told(log(ECC), bus=amd) == {"": "warn NotListed"}


HARMLESS = [code for name in ("APPLICATION", "NOTHING") for part in XIDS[name].split()
            for code in range(int(part.partition("-")[0]), int(part.rpartition("-")[2]) + 1)]  # fmt: skip


@given(st.lists(st.sampled_from(HARMLESS), max_size=20))
def test_no_number_of_a_programs_xids_convicts(codes: list[int]) -> None:
    assert told(log(*(f"{X}{code}, pid=1, name=a" for code in codes))) == {}


RANK = {None: 0, "warn Warned": 1}
LINES = [OFF, ECC, APP, NVLINK, MILD5, FATAL5, RESET_ME, NEW, POWER, S_FATAL, GARBAGE, ELSEWHERE]


@given(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(LINES))
def test_a_line_more_never_makes_it_better(texts: list[str], more: str) -> None:
    before, after = told(log(*texts)).get(TWO), told(log(*texts, more)).get(TWO)
    assert RANK.get(after, 2) >= RANK.get(before, 2)


def latched(check: str = CHECK.id) -> Case:
    return Case(check, TWO, None, TWO, "ResetNeeded", "x", convicted_at=50.0, latched="held", latched_at=50.0)


FREEING = [
    (LOADED, True),
    (ENABLED, True),
    (FINE, True),
    (FINE.replace(":3b:", ":1b:"), False),
    (RESET_ME, False),
    (ECC, False),
    ("NVRM: GPU at PCI:0000:3b:00: GPU-b850f46d", False),
]


@pytest.mark.parametrize(("text", "freed"), FREEING)
@pytest.mark.parametrize("from_kernel", [True, False])
def test_what_frees_its_latch(text: str, freed: bool, from_kernel: bool) -> None:
    before = agent_state(cases=(latched(),))
    after = fault_confirmation.confirm(
        before,
        (),
        dict[str, CheckObservation](),
        {CHECK.id: CHECK},
        ConfirmationPolicy(),
        200.0,
        log(text, from_kernel=from_kernel),
    )
    assert bool(after.cases[0].latched) is not (freed and from_kernel)


def test_a_load_of_the_driver_before_the_fault_frees_nothing() -> None:
    early = KernelLog(0.0, (KernelLogLine(1, 40.0, 6, True, LOADED),))
    before = agent_state(cases=(latched(),))
    after = fault_confirmation.confirm(before, (), {}, {CHECK.id: CHECK}, ConfirmationPolicy(), 200.0, early)
    assert after.cases[0].latched


def test_a_load_of_the_driver_frees_no_latch_of_another_check() -> None:
    before = agent_state(cases=(latched("klog.nic"),))
    after = fault_confirmation.confirm(before, (), {}, {CHECK.id: CHECK}, ConfirmationPolicy(), 200.0, log(LOADED))
    assert after.cases[0].latched
