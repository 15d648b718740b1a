"""klog.nic by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.klog.nic import CHECK, Want
from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.job_profile import DeviceWant
from nodeprep.model import NODE, CannotLook, Seen, Status, Subject, Unreadable, Why
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
REGISTER = AT + "mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)"
LOADED = AT + "firmware version: 28.41.1000"
ENABLED = AT + "enabling device (0000 -> 0002)"
FOUND = f"pci {BDF}: [15b3:1021] type 00 class 0x020000 PCIe Endpoint"
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
    assert say(CHECK, pci(nic()), rdma(up), wanted(up, "7 of 8 alike"), log(*texts)) == says


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


def test_message_gives_the_newest_line_and_how_many() -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(MISS, SYNDROME))
    assert verdict.message == (
        f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 101 s after boot: {SYNDROME} (2 such lines)"
    )
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(MISS))
    assert verdict.message == f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 100 s after boot: {MISS}"
