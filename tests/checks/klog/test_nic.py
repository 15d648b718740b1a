"""klog.nic by its rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.klog.nic import CHECK, Want
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.machine.kernel_log import PROBE_LINE as SETS_UP
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine, speaks
from nodeprep.facts.machine.printk import CONVERSION
from nodeprep.job_profile import DeviceWant
from nodeprep.model import NODE, CannotLook, Seen, Status, Subject, Unreadable, Why
from tests.rigs import printk_table
from tests.values import BDF, NOTHING_EXPECTED, device, expected, nic, pci, port, rdma, say, verdicts, wanted

AT = f"mlx5_core {BDF}: "
LEAK = AT + "wait_func:1195:(pid 1967079): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource"
MISS = AT + "poll_health:825: device's health compromised - reached miss count"
FATAL = AT + "poll_health:801: Fatal error 1 detected"
SYNDROME = AT + "print_health_info:437: synd 0x8: unrecoverable hardware error"
AER = AT + "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)"
AER_OLD = AT + "AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)"
NONFATAL = AT + "AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)"
CORRECTED = AT + "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
WATCHDOG = "NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out"
WATCHDOG_NEW = AT[:-2] + " eth2: NETDEV WATCHDOG: CPU: 3: transmit queue 1 timed out 5000 ms"
STALLED = AT + "eth2: TX timeout detected"
UNPLUGGED = AT + "port_module:255:(pid 0): Port module event: module 0, Cable unplugged"
PLUGGED = AT + "Port module event: module 0, Cable plugged"
REGISTER = (
    AT + "mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x3)"
)
LOADED = AT + "firmware version: 28.41.1000"
ENABLED = AT + "enabling device (0000 -> 0002)"
FOUND = f"pci {BDF}: [15b3:1021] type 00 class 0x020000 PCIe Endpoint"
RECOVERED = AT + "health recovery succeeded"
BRIDGE = "0000:5b:01.0"
UNDER = f"pcieport {BRIDGE}: "
POWER = AT + "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link"


def log(*texts: str, from_kernel: bool = True) -> KernelLog:
    return KernelLog(
        0.0, tuple(KernelLogLine(number, 100.0 + number, 3, from_kernel, text) for number, text in enumerate(texts))
    )


ROWS = [
    ((LEAK,), "fail DeviceFailed"),
    ((MISS,), "fail DeviceFailed"),
    ((FATAL,), "fail DeviceFailed"),
    ((SYNDROME,), "fail DeviceFailed"),
    ((AER,), "fail DeviceFailed"),
    ((AER_OLD,), "fail DeviceFailed"),
    ((WATCHDOG,), "warn SendStalled"),
    ((WATCHDOG_NEW,), "warn SendStalled"),
    ((STALLED,), "warn SendStalled"),
    ((STALLED, MISS), "fail DeviceFailed"),
    ((RECOVERED,), "warn DeviceReset"),
    ((RECOVERED, STALLED), "warn SendStalled"),
    ((RECOVERED, MISS), "fail DeviceFailed"),
    ((MISS, LOADED, RECOVERED), "warn DeviceReset"),
    ((RECOVERED, UNPLUGGED), "warn DeviceReset"),
    ((UNDER + "AER: device recovery successful",), "warn DeviceReset"),
    ((UNDER + "AER: device recovery failed",), "fail DeviceFailed"),
    ((UNDER + "AER: device recovery failed", FOUND), "ok Quiet"),
    ((UNDER.replace("01.0", "02.0") + "AER: device recovery failed",), "ok Quiet"),
    ((UNDER + "AER: Uncorrected (Fatal) error received: 0000:5d:00.0",), "ok Quiet"),
    ((UNDER + "DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:5d:00.0",), "fail DeviceFailed"),
    ((UNDER + f"DPC: containment event, status:0x1f05, ERR_FATAL received from {BDF}",), "fail DeviceFailed"),
    ((UNDER + f"AER: Uncorrected (Fatal) error received: {BDF}",), "fail DeviceFailed"),
    ((UNDER + f"AER: Uncorrected (Fatal) error received: {BDF}", LOADED), "ok Quiet"),
    (("infiniband mlx5_3: mlx5r_umr_recover:150:(pid 3): couldn't recover UMR, err -5",), "fail DeviceFailed"),
    (("infiniband mlx5_30: mlx5r_umr_recover:150:(pid 3): couldn't recover UMR, err -5",), "ok Quiet"),
    ((UNPLUGGED,), "warn CableUnplugged"),
    ((UNPLUGGED, PLUGGED), "ok Quiet"),
    ((PLUGGED, UNPLUGGED), "warn CableUnplugged"),
    ((NONFATAL, CORRECTED, REGISTER, POWER), "ok Quiet"),
    ((), "ok Quiet"),
    ((MISS, LOADED), "ok Quiet"),
    ((MISS, ENABLED), "ok Quiet"),
    ((MISS, FOUND), "ok Quiet"),
    ((LOADED, MISS), "fail DeviceFailed"),
    ((MISS, LOADED.replace("5c", "5d")), "fail DeviceFailed"),
    ((MISS.replace("5c", "5d"),), "ok Quiet"),
    ((MISS.replace(BDF, "1" + BDF),), "ok Quiet"),
    ((WATCHDOG.replace("eth2", "eth20"),), "ok Quiet"),
    (("ata1.00: unrecoverable hardware error",), "ok Quiet"),
]


@pytest.mark.parametrize(("texts", "says"), ROWS)
def test_says(texts: tuple[str, ...], says: str) -> None:
    up = port()
    assert say(CHECK, pci(nic(bridges=(BRIDGE,))), rdma(up), wanted(up, "7 of 8 alike"), log(*texts)) == says


ARGUMENTS = {**dict.fromkeys("diuoxX", "7"), "c": "+", "s": "word", "%": "%"}
LINES = [
    (row, CONVERSION.sub(lambda found: ARGUMENTS.get(found[1] or "%", "word"), row.format))
    for row in printk_table.rows_written()
]
VERDICTS = {"GONE": "fail DeviceFailed", "RECOVERS": "warn DeviceReset", "STALLED": "warn SendStalled"}
PREFIXES = (AT, AT + "wait_func:1195:(pid 7): ", AT[:-2] + " eth2: ", f"mlx5_core {BDF} mlx5_3: ", UNDER, "mlx5_3: ")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_format_of_the_table_is_judged_by_its_class(prefix: str) -> None:
    assert {row.kind for row, _ in LINES} >= VERDICTS.keys()
    for row, text in LINES:
        level = int(row.level) if row.level.isdecimal() else 3
        heard = KernelLog(0.0, (KernelLogLine(1, 1.0, level, True, prefix + text),))
        says = VERDICTS.get(row.kind, "ok Quiet")
        assert say(CHECK, pci(nic(bridges=(BRIDGE,))), rdma(), expected(), heard) == says, row


QUOTING = (
    "traps: a[1] trap invalid opcode ip:1 sp:2 error:0 in ",
    " in ",
    "process 'a' launched '",
    "a b: ",
    "eth2[1]: x y: ",
)


@pytest.mark.parametrize("before", QUOTING)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_format_is_read_in_a_line_that_only_quotes_it(before: str, prefix: str) -> None:
    facts = (pci(nic(bridges=(BRIDGE,))), rdma(), expected())
    for row, text in LINES:
        assert say(CHECK, *facts, log(before + prefix + text)) == "ok Quiet", row
    up = port()
    assert say(CHECK, facts[0], rdma(up), wanted(up, "7 of 8 alike"), log(before + UNPLUGGED)) == "ok Quiet"
    assert say(CHECK, *facts, log(MISS, before + LOADED)) == "fail DeviceFailed"


@pytest.mark.parametrize("kind", ["GONE", "RECOVERS", "STALLED", "HOT", "POWER"])
def test_every_line_that_counts_is_kept_of_the_log(kind: str) -> None:
    rows = [(row, text) for row, text in LINES if row.kind == kind and row.level.isdecimal()]
    assert rows
    for row, text in rows:
        assert speaks(KmsgRecord(1, 1.0, int(row.level), 0, AT + text)), row


@pytest.mark.parametrize("text", [text for texts, _ in ROWS for text in texts])
def test_a_name_decides_nothing(text: str) -> None:
    before = say(CHECK, pci(nic(bridges=(BRIDGE,))), rdma(), expected(), log(text))
    other = text.replace("eth2", "if_x7").replace("mlx5_3", "rdma_x1")
    renamed = nic(bridges=(BRIDGE,), netdevs=("if_x7",), rdma=("rdma_x1",))
    assert say(CHECK, pci(renamed), rdma(), expected(), log(other)) == before


def test_a_bridge_speaks_of_each_nic_below() -> None:
    below, beside = nic(bridges=(BRIDGE,)), nic(address="0000:5d:00.0", bridges=("0000:5b:02.0",))
    other = nic(address="0000:5c:00.1", bridges=("0000:5a:00.0", BRIDGE))
    found = verdicts(CHECK, pci(below, beside, other), rdma(), expected(), log(UNDER + "pciehp: Slot(5): Link Down"))
    assert [(one.subject.place, one.status) for one in found] == [
        (BDF, Status.FAIL),
        ("0000:5c:00.1", Status.FAIL),
        ("0000:5d:00.0", Status.OK),
    ]


@given(st.lists(st.sampled_from([text for _, text in LINES]), max_size=6), st.sampled_from([text for _, text in LINES]))
def test_a_line_more_never_makes_it_better(texts: list[str], more: str) -> None:
    order = ("ok Quiet", "warn DeviceReset", "warn SendStalled", "fail DeviceFailed")
    kept = [AT + text for text in texts if not SETS_UP.search(AT + text)]
    facts = (pci(nic()), rdma(), expected())
    after = [*kept, AT + more]
    if not SETS_UP.search(AT + more):
        assert order.index(say(CHECK, *facts, log(*after))) >= order.index(say(CHECK, *facts, log(*kept)))


@pytest.mark.parametrize(
    ("texts", "counted"),
    [
        ((REGISTER, CORRECTED), ""),
        ((AT + "something that nobody knows",), "; warnings of no known class: 1"),
        ((AT + "something that nobody knows", AT + "CQ error on CQN 0x406, syndrome 0x1", REGISTER),
         "; warnings of no known class: 2"),
    ],
)  # fmt: skip
def test_lines_of_no_class_are_counted(texts: tuple[str, ...], counted: str) -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(*texts))
    assert verdict.message == f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel log holds nothing against it{counted}"


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ("mlx4_core", "mlx4_en: Internal error detected:"),
        ("mlx4_core", "<mlx4_ib> f: communication channel is offline"),
        ("bnxt_en", "bnxt_re: Failed to register with IB: 0xffffffed"),
        ("ice", "irdma: HW runtime init FAIL status = -5 last cmpl = 2"),
        ("mlx5_core", "mlx5_ib: couldn't recover UMR, err -5"),
    ],
)
def test_a_driver_on_top_speaks_of_the_node(driver: str, text: str) -> None:
    found = verdicts(CHECK, pci(nic(driver=driver)), rdma(), expected(), log(text))
    assert [(one.subject, one.status) for one in found] == [(Subject(BDF), Status.OK), (NODE, Status.FAIL)]
    assert say(CHECK, pci(nic(driver="efa")), rdma(), expected(), log(text)) == "ok Quiet"


def test_an_empty_cage_that_nobody_uses_is_fine() -> None:
    assert say(CHECK, pci(nic()), rdma(port()), expected(), log(UNPLUGGED)) == "ok Quiet"


def test_what_a_process_wrote_counts_only_on_demand() -> None:
    facts = (pci(nic()), rdma(), expected(), log(MISS, from_kernel=False))
    assert say(CHECK, *facts) == "ok Quiet"
    assert say(CHECK, *facts, want=Want(accept_userspace=True)) == "fail DeviceFailed"


def test_what_a_process_wrote_does_not_clear_what_the_kernel_said() -> None:
    lines = (KernelLogLine(1, 1.0, 3, True, MISS), KernelLogLine(2, 2.0, 3, False, LOADED))
    assert say(CHECK, pci(nic()), rdma(), expected(), KernelLog(0.0, lines)) == "fail DeviceFailed"


def test_a_line_that_names_only_the_driver_is_about_the_node() -> None:
    nameless = log("mlx5_core: INFO: synd 0x8: unrecoverable hardware error.")
    found = verdicts(CHECK, pci(nic()), rdma(), expected(), nameless)
    assert [(verdict.subject, verdict.status) for verdict in found] == [
        (Subject(BDF), Status.OK),
        (NODE, Status.FAIL),
    ]
    assert say(CHECK, pci(nic(driver="ice")), rdma(), expected(), nameless) == "ok Quiet"
    assert (
        say(CHECK, pci(nic()), rdma(), expected(), log("mlx5_core eth2: Fatal error 1 detected")) == "fail DeviceFailed"
    )


PLAIN = nic(rdma=(), driver="igb")
GONE = MissingDevice(Subject(BDF, None, BDF), None, "profile rails")
INTEREST_ROWS = [
    (pci(PLAIN), rdma(), expected(), "absent Nothing"),
    (pci(PLAIN), rdma(), expected(devices={BDF: DeviceWant()}), "fail DeviceFailed"),
    (pci(PLAIN), rdma(devices=(device(name="rxe0", parent="eth2"),)), expected(), "fail DeviceFailed"),
    (pci(), rdma(devices=(device(),)), expected(), "fail DeviceFailed"),
    (pci(), rdma(devices=(device(bdf=""),)), expected(), "absent Nothing"),
    (pci(), rdma(), expected(missing_devices=(GONE,)), "fail DeviceFailed"),
    (pci(nic(rdma=(), pci_class="020700")), rdma(), expected(), "fail DeviceFailed"),
]


@pytest.mark.parametrize(("bus", "devices", "wants", "says"), INTEREST_ROWS)
def test_whose_lines_count(bus: object, devices: object, wants: Expected, says: str) -> None:
    assert say(CHECK, bus, devices, wants, log(MISS)) == says


def test_a_log_that_is_refused_says_nothing_of_a_node_without_rdma() -> None:
    refused = Unreadable(Why.DENIED, "/dev/kmsg", 1)

    def look(one: object) -> list[object]:
        values: dict[type, object] = {
            type(pci()): one,
            type(rdma()): rdma(),
            Expected: NOTHING_EXPECTED,
            KernelLog: refused,
            Want: Want(),
        }
        return list(CHECK.judge(Seen(values)))

    assert look(pci(PLAIN)) == []
    with pytest.raises(CannotLook):
        look(pci(nic()))


@pytest.mark.parametrize(
    ("texts", "newest"),
    [
        ((MISS, SYNDROME, STALLED), SYNDROME),
        ((STALLED, WATCHDOG, PLUGGED), WATCHDOG),
        ((PLUGGED, UNPLUGGED, UNPLUGGED + " again"), UNPLUGGED + " again"),
        (
            ("mlx5_core: Fatal error 1 detected", "mlx5_core: Fatal error 2 detected"),
            "mlx5_core: Fatal error 2 detected",
        ),
    ],
)
def test_machines_read_the_newest_line(texts: tuple[str, ...], newest: str) -> None:
    up = port()
    *_, verdict = verdicts(CHECK, pci(nic()), rdma(up), wanted(up, "7 of 8 alike"), log(*texts))
    assert verdict.observed == newest


def test_a_line_that_names_a_nic_twice_is_one_line() -> None:
    twice = "infiniband mlx5_3: eth2: couldn't recover UMR, err -5"
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(twice))
    assert verdict.message == f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 100 s after boot: {twice}"


def test_message_gives_the_newest_line_and_how_many() -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(MISS, SYNDROME))
    assert verdict.message == (
        f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 101 s after boot: {SYNDROME} (2 such lines)"
    )
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(MISS))
    assert verdict.message == f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 100 s after boot: {MISS}"
