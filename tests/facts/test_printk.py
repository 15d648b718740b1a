"""What lines mean: published lines, every format of the table, and formats with any arguments."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.facts.machine import printk
from nodeprep.facts.machine.printk import CONVERSION, LineClass
from tests.rigs import printk_table

GONE, RECOVERS, STALLED, HOT, POWER, NOTHING = LineClass
M5 = "mlx5_core 0000:5c:00.0: "
PORT = "pcieport 0000:5b:01.0: "
BNXT = "bnxt_en 0000:3b:00.0 eth0: "
RE = "bnxt_en 0000:12:00.0: QPLIB: "
# Lines as bug reports, patches and mailing lists quote them, or as these drivers print them.
PUBLISHED = [
    (M5 + "poll_health:801:(pid 0): device's health compromised - reached miss count", GONE),
    (M5 + "poll_health:825: device's health compromised - reached miss count", GONE),
    (M5 + "print_health_info:431:(pid 0): Health issue observed, FFSER error, severity(3) ERROR:", RECOVERS),
    (M5 + "print_health_info:431:(pid 0): Health issue observed, irisc not responding, severity(2) CRITICAL:", GONE),
    (M5 + "print_health_info:435:(pid 0): assert_var[0] 0x0521945b", NOTHING),
    (M5 + "print_health_info:438:(pid 0): assert_exit_ptr 0x21492f38", NOTHING),
    (M5 + "print_health_info:439:(pid 0): assert_callra 0x2102d5f0", NOTHING),
    (M5 + "print_health_info:437:(pid 0): synd 0x8: unrecoverable hardware error", GONE),
    (M5 + "print_health_info:437:(pid 0): synd 0x1: firmware internal error", RECOVERS),
    (M5 + "print_health_info:437:(pid 0): synd 0x10: High temperature", HOT),
    (M5 + "print_health_info:419:(pid 0): PCI slot is unavailable", GONE),
    (M5 + "poll_health:785:(pid 0): Fatal error 1 detected", GONE),
    (M5 + "mlx5_health_try_recover:335:(pid 9): handling bad device here", RECOVERS),
    (M5 + "mlx5_health_try_recover:338:(pid 9): health recovery flow aborted, PCI reads still not working", GONE),
    (M5 + "mlx5_fw_fatal_reporter_err_work:641:(pid 9): health recovery failed", GONE),
    (M5 + "health recovery succeeded", RECOVERS),
    (M5 + "mlx5_function_enable:1120:(pid 9): Firmware over 120000 MS in pre-initializing state, aborting", GONE),
    (M5 + "wait_fw_init:199:(pid 1): Waiting for FW initialization, timeout abort in 100s (0xffffffff)", NOTHING),
    (M5 + "probe_one:1778:(pid 1): mlx5_init_one failed with error code -16", GONE),
    (M5 + "wait_func:1195:(pid 1967079): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource", GONE),
    (M5 + "cb_timeout_handler:880:(pid 1): cmd[3]: ACCESS_REG(0x805) Async, timeout. Will cause a leak of a command "
     "resource", GONE),
    (M5 + "mlx5_cmd_eq_recover:247:(pid 3122): Recovered 1 EQEs on cmd_eq", RECOVERS),
    (M5 + "wait_func_handle_exec_timeout:1113:(pid 3): cmd[0]: CREATE_CQ(0x400) recovered after timeout", RECOVERS),
    (M5 + "wait_func_handle_exec_timeout:1128:(pid 1): cmd[-22]: CREATE_UCTX(0xa04) No done completion", NOTHING),
    (M5 + "mlx5_cmd_out_err:782:(pid 8): CREATE_GENERAL_OBJECT(0xa00) op_mod(0xd) failed, status bad parameter(0x3), "
     "syndrome (0x5fa1c), err(-22)", NOTHING),
    (M5 + "mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).", NOTHING),
    (M5 + "mlx5_pcie_event:297:(pid 11): PCIe slot power capability was not advertised.", None),
    (M5 + "Port module event[error]: module 0, Cable error, High Temperature", HOT),
    (M5 + "port_module:255:(pid 0): Port module event[error]: module 1, Cable error, Power budget exceeded", POWER),
    (M5 + "temp_warn:150:(pid 0): High temperature on sensors with bit set 0 1", HOT),
    (M5 + "Port module event: module 0, Cable unplugged", None),
    (M5 + "eth2: TX timeout detected", STALLED),
    (M5 + "mlx5_pci_err_detected Device state = 1 health sensors: 1 pci_status: 1. Enter, pci channel state = 2",
     RECOVERS),
    (M5 + "mlx5_pci_resume Device state = 2 health sensors: 1 pci_status: 1. Done, err = -5, device Failed", GONE),
    (M5 + "cq_err_event_notifier:529:(pid 9422): CQ error on CQN 0x406, syndrome 0x1", None),
    ("infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe", NOTHING),
    ("infiniband mlx5_0: mlx5_handle_error_cqe:330:(pid 0): WC error: 12, Message: transport retry counter exceeded",
     NOTHING),
    ("mlx4_core 0000:03:00.0: Internal error detected:", GONE),
    ("mlx4_core 0000:03:00.0:   buf[00]: 00328f4e", None),
    ("mlx4_core 0000:03:00.0: device is going to be reset", RECOVERS),
    ("mlx4_core 0000:03:00.0: device was reset successfully", RECOVERS),
    ("mlx4_core 0000:03:00.0: command 0x23 timed out (go bit not cleared)", GONE),
    ("mlx4_core 0000:03:00.0: Fail to reset HCA", GONE),
    ("mlx4_en 0000:03:00.0: Internal error detected, restarting device", RECOVERS),
    ("mlx4_en: eth2: Tx timeout called on port:1", STALLED),
    ("<mlx4_ib> mlx4_ib_handle_catas_error: mlx4_ib_handle_catas_error was started", RECOVERS),
    (BNXT + "Error (timeout: 500015) msg {0x41 0x2a} len:0", GONE),
    (BNXT + "Resp cmpl intr err msg: 0x51", GONE),
    (BNXT + "Fatal firmware reset event, data1: 0x3, data2: 0x0, min wait 200 ms, max wait 6000 ms", RECOVERS),
    (BNXT + "Detected firmware fatal condition, initiating reset", RECOVERS),
    (BNXT + "Firmware reset aborted, rc = -19", GONE),
    (BNXT + "Firmware not responding, status: 0x0", GONE),
    (BNXT + "TX timeout detected, starting reset task!", STALLED),
    (BNXT + "Chip temperature has gone above the critical thermal threshold!", HOT),
    (BNXT + "Chip temperature has gone below the critical thermal threshold!", NOTHING),
    (BNXT + "hwrm req_type 0x17 seq id 0x42 error 0x4", NOTHING),
    (RE + "bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3 waited (103641 > 100000) msec active 1 ", GONE),
    (RE + "cmdq[0x1a]=0x5 timedout (10000)msec", GONE),
    ("ice 0000:98:00.0: ice_pci_err_resume failed, device is unrecoverable", GONE),
    ("ice 0000:98:00.0: Rebuild failed, unload and reload driver", GONE),
    ("ice 0000:98:00.0: Reset during resume failed.", GONE),
    ("ice 0000:98:00.0 ens1: tx_timeout recovery unsuccessful, device is in unrecoverable state.", GONE),
    ("ice 0000:98:00.0 ens1: tx_timeout recovery level 1, txqueue 5", RECOVERS),
    ("ice 0000:98:00.0 rocep152s0: critical PE Error, GLPE_CRITERR=0x0001021a", RECOVERS),
    ("ice 0000:98:00.0 rocep152s0: Requesting a reset", RECOVERS),
    ("ice 0000:98:00.0 rocep152s0: IRDMA hardware initialization FAILED init_state=4 status=-110", GONE),
    ("efa 0000:00:1d.0: Reset indication didn't turn on", GONE),
    ("efa 0000:00:1d.0 rdmap0s29: Admin queue is closed", GONE),
    ("efa 0000:00:1d.0 rdmap0s29: Failed to process command CREATE_AH (opcode 3) comp_status 5 err -22", NOTHING),
    ("erdma 0000:00:07.0: wait init done failed.", GONE),
    ("hns3 0000:7d:00.0: Reset fail!", GONE),
    ("hns3 0000:7d:00.0: HNS Non-Fatal RAS error(status=0x4) identified", RECOVERS),
    ("hns3 0000:7d:00.0: IGU_INT_STS igu_rx_buf0_ecc_mbit_err found [error status=0x1]", RECOVERS),
    ("hns3 0000:7d:00.0: Reset done, hclge driver initialization finished.", RECOVERS),
    ("hns3 0000:7d:00.0 hns_0: [cmd] token 0x3 mailbox 0x7d timeout.", GONE),
    (M5 + "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)", GONE),
    (M5 + "AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)", GONE),
    (M5 + "PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)", NOTHING),
    (M5 + "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", NOTHING),
    (PORT + "AER: Multiple Uncorrected (Fatal) error received: 0000:5c:00.0", GONE),
    (PORT + "AER: Uncorrectable (Fatal) error message received from 0000:5c:00.0", GONE),
    (PORT + "AER: Corrected error received: 0000:5c:00.0", None),
    (M5 + "AER: can't recover (no error_detected callback)", GONE),
    (PORT + "AER: device recovery failed", GONE),
    (PORT + "AER: device recovery successful", RECOVERS),
    (PORT + "AER: Root Port link has been reset (0)", RECOVERS),
    (PORT + "DPC: containment event, status:0x1f01 source:0x0000", GONE),
    (PORT + "DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:5c:00.0", GONE),
    (PORT + "DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 4, "
     "DL_ActiveErr+", None),
    (PORT + "DPC: unmasked uncorrectable error detected", NOTHING),
    (PORT + "pciehp: Slot(5): Link Down", GONE),
    (PORT + "pciehp: Slot(5-1): Card not present", GONE),
    (PORT + "pciehp: Slot(5): Link Down/Up ignored (recovered by DPC)", RECOVERS),
    (PORT + "pciehp: Slot(5): Link Up", None),
    (PORT + "pciehp: Slot(5): Power fault", POWER),
    (M5 + "not ready 65535ms after FLR; giving up", GONE),
    (M5 + "not ready 1023ms after bus reset; waiting", RECOVERS),
    (M5 + "Unable to change power state from D3cold to D0, device inaccessible", GONE),
    (M5 + "can't change power state from D3cold to D0 (config space inaccessible)", GONE),
    (PORT + "retraining failed", GONE),
    ("mlx5_core: probe of 0000:5c:00.0 failed with error -16", GONE),
    (M5 + "probe with driver mlx5_core failed with error -110", GONE),
    ("mlx5_vdpa.vnet mlx5_core.vnet.0: probe with driver mlx5_vdpa.vnet failed with error -95", None),
    ("mlx4_core 0000:03:00.0: QUERY_HCA command failed, aborting", GONE),
    ("hns3 0000:7d:00.0: RoCE Engine init failed!", GONE),
    ("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out", STALLED),
    (M5[:-2] + " eth2: NETDEV WATCHDOG: CPU: 3: transmit queue 1 timed out 5000 ms", STALLED),
    ("mlx5_core: INFO: synd 0x8: unrecoverable hardware error.", GONE),
    ("usb 1-1: device descriptor read/64, error -71", None),
    ("", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), PUBLISHED)
def test_what_a_published_line_means(text: str, meaning: LineClass | None) -> None:
    assert printk.class_of(text) is meaning


NUMBER = st.integers(0, 2**31 - 1)
WORDS = st.text("abcdefghijklmnopqrstuvwxyzXYZ_0123456789", min_size=1, max_size=12)
ARGUMENTS = {
    **dict.fromkeys("di", st.integers(-(2**31), 2**31 - 1).map(str)),
    **dict.fromkeys("uo", NUMBER.map(str)),
    "x": NUMBER.map("{:x}".format),
    "X": NUMBER.map("{:X}".format),
    "c": st.sampled_from("+-"),
    "s": st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    "%": st.just("%"),
}
ROWS = printk_table.rows_written()
DECIDED = [row for row in ROWS if row.kind in set(LineClass) and row.level not in printk_table.INFORMATION]


def filled(form: str, draw: st.DataObject) -> str:
    return CONVERSION.sub(lambda found: draw.draw(ARGUMENTS.get(found[1] or "%", WORDS)), form)


@given(st.sampled_from(DECIDED), st.sampled_from(["", M5, PORT, BNXT, M5 + "wait_func:1195:(pid 7): "]), st.data())
def test_any_arguments_leave_a_line_in_its_class(row: printk_table.Row, prefix: str, data: st.DataObject) -> None:
    assert printk.class_of(prefix + filled(row.format, data)) == row.kind


def test_every_format_of_the_table_is_of_its_class() -> None:
    assert {row.kind for row in ROWS} == {"-", *LineClass}
    arguments = {**dict.fromkeys("diuoxX", "7"), "c": "+", "s": "word", "%": "%"}
    for row in ROWS:
        line = M5 + CONVERSION.sub(lambda found: arguments.get(found[1] or "%", "word"), row.format)
        meanings: set[str | None] = {None} if row.kind == "-" else {row.kind}
        meanings |= {None} if row.kind == NOTHING else set()
        assert printk.class_of(line) in meanings, row


CONVERSION_ROWS = [
    ("firmware %d of %u.", "firmware -1 of 3.", True),
    ("firmware %d of %u.", "firmware x of 3.", False),
    ("command 0x%x failed", "command 0x1F failed", True),
    ("command %#x failed", "command 0x1f failed", True),
    ("command %#010x failed", "command 0x0000001f failed", True),
    ("command 0x%x failed", "command 0xno failed", False),
    ("the slot %4d is full", "the slot    7 is full", True),
    ("ends in %llu", "ends in 123", True),
    ("hot by 5%% at least", "hot by 5% at least", True),
    ("for %pI6 [%d] here", "for fe80::1 [2] here", True),
    ("window %pR is off", "window [mem 0x1-0x2 64bit] is off", True),
    ("%s is at the begin", "anything is at the begin", True),
    ("at the end is %s", "at the end is anything", True),
    ("Slot is Link Down", "Slot is Link Downed", False),
    ("Slot is Link Down", "Slot is Link Down/Up", False),
    ("Slot is Link Down", "Slot is Link Down.", True),
]


@pytest.mark.parametrize(("form", "text", "matches"), CONVERSION_ROWS)
def test_conversions(form: str, text: str, matches: bool) -> None:
    assert (re.search(printk.pattern_of(form), text) is not None) is matches


@pytest.mark.parametrize("form", ["%s: %s", "end", "rfr %d", "%s"])
def test_a_format_with_nothing_of_its_own_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match="of its own"):
        printk.pattern_of(form)
    with pytest.raises(ValueError, match="no word of its own"):
        printk.own_words("0x%x %d: %s")


@pytest.mark.parametrize("text", ["foo device recovery failed", "not in device recovery failed"])
def test_a_message_begins_the_line_or_follows_a_prefix(text: str) -> None:
    assert printk.class_of(text) is None


OWN_WORDS = sorted({word for row in DECIDED for word in row.format.split()})  # drawn text alone would have none


@given(st.lists(st.one_of(st.sampled_from(OWN_WORDS), st.text(max_size=9)), max_size=20).map(" ".join))
def test_no_text_breaks_it(text: str) -> None:
    found = printk.class_of(text)
    assert found is None or found in LineClass


def test_help_does_not_import_the_formats() -> None:
    program = "import sys, nodeprep.checks; print('nodeprep.facts.machine.printk_formats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
