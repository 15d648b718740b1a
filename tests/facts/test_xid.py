"""What NVIDIA's drivers say: published lines, the whole table, and lines that are damaged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.events import kernel_events
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.facts.machine import kernel_log, xid
from nodeprep.facts.machine.kernel_log import KernelLogLine
from nodeprep.facts.machine.xid import GpuEvent, XidClass
from tests.rigs import xid_table

APPLICATION, NOTHING, SUPPORT, LINK, RESET, REBOOT, SERVICE, RECOVERY, FABRIC, HOT, START, PEER, GARBAGE = XidClass
AT = "0000:3b:00"


def line(text: str, number: int = 0) -> KernelLogLine:
    return KernelLogLine(number, float(number), 3, True, text)


def say(text: str) -> GpuEvent | None:
    return xid.event(line(text))


THREE = (
    "NVRM: The NVIDIA GPU 0000:3b:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
# Lines as NVIDIA's documents, bug reports and other monitors quote them: what it is, where, code, whether it is fatal.
PUBLISHED: list[tuple[str, XidClass, str, int | None, bool | None]] = [
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.", REBOOT, AT, 79, None),
    ("NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", REBOOT,
     "0000:05:00", 79, None),
    ("NVRM: Xid (PCI:0000:3B:00): 79, GPU has fallen off the bus.", REBOOT, AT, 79, None),
    ("NVRM: Xid (PCI:0001:3b:00): 79, GPU has fallen off the bus.", REBOOT, "0001:3b:00", 79, None),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", NOTHING, "0000:03:00", 14, None),
    ("NVRM: Xid (PCI:0000:c8:00): 13, pid=2471, name=a, Graphics SM Warp", APPLICATION, "0000:c8:00", 13, None),
    ("NVRM: Xid (PCI:0000:3b:00): 31, pid=8, name=a, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
     APPLICATION, AT, 31, None),
    ("NVRM: Xid (PCI:0000:3b:00): 43, pid=8, name=a, Ch 00000008", APPLICATION, AT, 43, None),
    ("NVRM: Xid (PCI:0000:3b:00): 45, pid=8, name=a, Ch 00000008", APPLICATION, AT, 45, None),
    ("NVRM: Xid (PCI:0000:3b:00): 48, pid=8, An uncorrectable double bit error (DBE)", RESET,
     AT, 48, None),
    ("NVRM: Xid (PCI:0000:3b:00): 63, Row remapping event on GPU 00000000:3b:00.0", NOTHING, AT, 63, None),
    ("NVRM: Xid (PCI:0000:0f:00): 64, pid=57530, Row Remapper Error", RESET, "0000:0f:00", 64, None),
    ("NVRM: Xid (PCI:0000:3b:00): 74, pid=0, NVLink: fatal error detected on link 6(0x10000, 0x0)", LINK, AT, 74, None),
    ("NVRM: Xid (PCI:0000:3b:00): 94, pid=8, name=a, Contained: SM (0x1).", APPLICATION, AT, 94, None),
    ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 95, pid=8, name=a, Uncontained: SM", RESET, AT, 95, None),
    ("NVRM: Xid (PCI:0000:3b:00): 119, pid=8, name=a, Timeout after 6s of waiting for RPC response",
     RESET, AT, 119, None),
    ("NVRM: Xid (PCI:0000:3b:00): 54, Aux power is not connected", SERVICE, AT, 54, None),
    ("NVRM: Xid (PCI:0000:3b:00): 144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000001 0x00000000 0x00000000)",
     LINK, AT, 144, False),
    ("NVRM: Xid (PCI:0000:3b:00): 145, pid=8, name=a, RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000040 0x0 0x0)",
     LINK, AT, 145, True),
    ("NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT/NETIR_LINK_DOWN Fatal XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0)",
     LINK, AT, 149, True),
    ("NVRM: Xid (PCI:0000:3b:00): 150, MSE_WATCHDOG", LINK, AT, 150, None),
    ("NVRM: Xid (PCI:0000:3b:00): 999, something new", SUPPORT, AT, 999, None),
    ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", REBOOT, AT, None, None),
    ("\\x0a".join(THREE), REBOOT, AT, None, None),
    ("\n".join(THREE), REBOOT, AT, None, None),
    ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2192)", START, AT, None, None),
    ("NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0", START, AT, None, None),
    ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)", SUPPORT,
     "0000:05:00.0", 28006, False),
    ("nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up", RESET, "0000:c2:00.0", 20034,
     True),
    ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 11021, Non-fatal, Link 32 ingress remap ECC", NOTHING, "0000:05:00.0",
     11021, False),
    ("nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 22013, Non-fatal, Link 11 minion link DLREQ interrupt", NOTHING,
     "0000:86:00.0", 22013, False),
    ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 24007, Fatal, Link 44 sourcetrack timeout error (First)", RESET,
     "0000:a9:00.0", 24007, True),
    ("nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 23001, Fatal, Link 12 ingress buffer overflow", FABRIC,
     "0000:c4:00.0", 23001, True),
    ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing", PEER,
     "", None, None),
    ("NVRM: Xid : 32, pid=2280636", GARBAGE, "", None, None),
    ("NVRM: Xid (PCI:0000:66:00): abc, pid=2280636", GARBAGE, "", None, None),
    ("NVRM: Xid (PCI:zzzz:66:00): 79, x", GARBAGE, "", None, None),
    ("NVRM: Xid (PCI:0000:3b:00): 154, garbled", GARBAGE, "", None, None),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal", GARBAGE, "", None, None),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, garbled", RESET, "0000:c1:00.0", 20034, None),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 10004, NVSWITCH Temperature 97C | TSENSE WARN Threshold 95C", HOT,
     "0000:c1:00.0", 10004, None),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 99999, unheard of", SUPPORT, "0000:c1:00.0", 99999, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "place", "code", "fatal"), PUBLISHED, ids=lambda one: str(one)[:60])
def test_published_lines(text: str, kind: XidClass, place: str, code: int | None, fatal: bool | None) -> None:
    found = say(text)
    assert found is not None
    assert (found.kind, found.place, found.code, found.fatal) == (kind, place, code, fatal)


def test_a_program_called_nonfatal_makes_no_link_error_harmless() -> None:
    found = say(
        "NVRM: Xid (PCI:0000:3b:00): 145, pid=8, name=Nonfatal XC0 i0, RLW_REMAP Fatal XC0 i0 Link 00 (0x4 0x40)"
    )
    assert found is not None
    assert found.fatal is True


QUOTED = "traps: a[1] trap invalid opcode ip:1 sp:2 error:0 in "


@pytest.mark.parametrize("text", [text for text, *_ in PUBLISHED])
@pytest.mark.parametrize("before", [QUOTED, " in ", "x", " ", 'overlayfs: unrecognized mount option "'])
def test_a_format_that_does_not_begin_its_line_is_none(before: str, text: str) -> None:
    assert list(xid.events([line(before + text)])) == []


@pytest.mark.parametrize(
    "client", ["0000:3b:00.0 fallen off the bus", "\nNVRM: GPU 0000:3b:00.0: has fallen off the bus"]
)
def test_what_a_client_of_the_driver_says_of_itself_is_no_fallen_gpu(client: str) -> None:
    said = f"NVRM: API mismatch: the client 'a' (pid 7) has the version {client}, but"
    assert list(xid.events([line(said)])) == []


ACTIONS = [
    ("from 0x0 (None) to 0x1 (GPU Reset Required)", "GPU Reset Required"),
    ("from 0x0 (None) to 0x2 (Node Reboot Required)", "Node Reboot Required"),
    ("from 0x0 (None) to 0x2 (OS Reboot)", "OS Reboot"),
    ("from 0x0 (None) to 0x3 (Drain P2P)", "Drain P2P"),
    ("from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)", "Drain and Reset"),
    ("from 0x1 (GPU Reset Required) to 0x0 (None)", ""),
]


@pytest.mark.parametrize(("change", "action"), ACTIONS)
def test_what_xid_154_asks_for(change: str, action: str) -> None:
    text = f"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed {change}"
    found = say(text)
    assert found is not None
    assert (found.kind, found.action) == (RECOVERY, action)
    assert xid.frees(line(text), "0000:3b:00.0") is (not action)
    assert not xid.frees(line(text), "0000:3c:00.0")


OTHERS = [
    "NVRM: GPU at PCI:0000:3b:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    "NVRM: GPU Board Serial Number: 1650522003820",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023",
    "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, Severity 5 Engine instance 00 Sub-engine instance 00",
    "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, Data {0x00000000, 0x00000000}",
    "nvidia-nvswitch0: open (major=510)",
    "nvme nvme0: I/O 384 QID 4 timeout, aborting",
    "NVRM: API mismatch: the client has the version 535.129.03, but",
    "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)",
]


@pytest.mark.parametrize("text", OTHERS)
def test_lines_that_say_nothing_against_a_gpu(text: str) -> None:
    assert list(xid.events([line(text)])) == []


TWO = (THREE[0], "NVRM: (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to")


@pytest.mark.parametrize("texts", [THREE, TWO])
def test_a_message_of_several_records(texts: tuple[str, ...]) -> None:
    (found,) = xid.events([line(text, number) for number, text in enumerate(texts)])
    assert (found.kind, found.place, found.line.text) == (REBOOT, AT, texts[-1])


def test_the_end_of_a_message_whose_begin_is_far_is_no_ones() -> None:
    texts = (THREE[0], *["usb 1-1: new device"] * 5, THREE[2])
    assert list(xid.events([line(text, number) for number, text in enumerate(texts)])) == []


def test_a_load_of_the_driver_frees_all_of_its_devices() -> None:
    text = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
    assert xid.frees(line(text), "0000:3b:00.0")
    assert xid.frees(line(text), "0000:07:00.0")


def test_the_module_is_that_of_the_table() -> None:
    assert xid_table.SHIPPED.read_text() == xid_table.shipped()


@pytest.mark.parametrize("row", list(xid_table.rows()), ids=lambda row: f"{row.kind} {row.codes}")
def test_every_code_of_the_table_has_its_class(row: xid_table.Row) -> None:
    for code in range(row.first, row.last + 1):
        text = (
            f"NVRM: Xid (PCI:{AT}): {code}, pid=8, name=a, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)"
        )
        if row.kind == "SXid":
            text = f"nvidia-nvswitch0: SXid (PCI:{AT}.0): {code}, Fatal, Link 28 something"
        found = say(text)
        assert found is not None
        assert (found.kind, found.code) == (XidClass(row.name), code)
        assert (found.meaning == row.meaning) is (row.kind == "Xid")


# The classes of NVIDIA's catalog, as leptonai/gpud has them
CATALOG = {
    APPLICATION: (8, 11, 13, 25, 31, 32, 39, 40, 41, 68, 69, 80, 94),
    NOTHING: (37, 38, 44, 63, 66, 67, 92, 106, 107, 121, 137, 141, 157, 160, 161),
    RESET: (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    REBOOT: (79,),
    LINK: (74, *range(144, 151)),
    SERVICE: (54,),
    SUPPORT: (78,),
    RECOVERY: (154,),
}


@pytest.mark.parametrize(("kind", "codes"), CATALOG.items())
def test_classes_are_those_of_nvidias_catalog(kind: XidClass, codes: tuple[int, ...]) -> None:
    assert {xid.classes("Xid")[code] for code in codes} == {kind}


@given(st.text(max_size=120))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    for words in (
        text,
        f"NVRM: Xid (PCI:{text}",
        f"NVRM: Xid (PCI:0000:3b:00): {text}",
        f"nvidia-nvswitch0: SXid ({text}",
    ):
        xid.event(line(words))
        xid.frees(line(words), "0000:3b:00.0")


@pytest.mark.parametrize("code", ["1", "15", "154"])
def test_a_code_that_may_be_cut_is_no_code(code: str) -> None:
    """The driver writes a comma after it. Of 154, which needs its text, 1 and 15 would be other codes."""
    found = say(f"NVRM: Xid (PCI:0000:3b:00): {code}")
    assert found is not None
    assert (found.place, found.kind) == ("", XidClass.GARBAGE)


@given(st.sampled_from([text for text, *_ in PUBLISHED]), st.data())
def test_a_line_that_is_cut_accuses_no_other_device(text: str, data: st.DataObject) -> None:
    cut = text[: data.draw(st.integers(0, len(text)))]
    whole, found = say(text), say(cut)
    assert whole is not None
    assert found is None or found.place in (whole.place, "")


RECORDS = [
    *(text for text, *_ in PUBLISHED),
    *OTHERS,
    "a",
    "pci 0000:3b:00.0: x",
    "xNVRM: a",
    "NVRM",
    "nvidia: loading",
]


@pytest.mark.parametrize("text", RECORDS)
@pytest.mark.parametrize("level", range(8))
def test_the_event_source_rings_for_what_the_fact_keeps(text: str, level: int) -> None:
    """The rule stands in two places, because a door may not import a fact."""
    record = KmsgRecord(1, 1.0, level, 0, text)
    assert kernel_events.may_speak(record) is kernel_log.speaks(record)
    if re.match("NVRM: |nvidia-nvswitch|nvidia-peermem", text):
        assert kernel_log.speaks(record), "no level hides what NVIDIA's drivers say"
