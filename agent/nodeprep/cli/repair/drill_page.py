"""What a drill prints: what it will do, who uses the device, what was seen, and how it was undone."""

from __future__ import annotations

from nodeprep.cli.page_layout import Paint
from nodeprep.cli.repair import repair_page
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.decide.drill_kinds import DrillForm
from nodeprep.decide.drill_plan import DrillPlan
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.decide.idleness import Idleness
from nodeprep.model import Finding
from nodeprep.repair.drill_undo import DrillUndo


def plan(found: DrillPlan, form: DrillForm, seconds: float, style: PageStyle) -> list[str]:
    """The fault, its commands and its undo."""
    page = style.page()
    page.item("drill", f"{found.kind} of {found.device}", paint=Paint.STRONG)
    page.item("", form.makes)
    for one in found.make:
        page.item("make", one.words)
    for one in found.undo:
        page.item("undo", one.words)
    page.item("ends", f"when it is seen, at Ctrl-C, or after {seconds:g} s; also if this command is killed")
    for note in found.notes:
        page.item("note", note, paint=Paint.DOUBT)
    return page.lines


def held(idleness: Idleness, style: PageStyle) -> list[str]:
    """Who uses the device."""
    return repair_page.held(idleness, style)


def made(record: DrillRecord, style: PageStyle) -> list[str]:
    page = style.page()
    page.item("made", record.words, paint=Paint.STRONG)
    return page.lines


def seen(finding: Finding, seconds: float, style: PageStyle) -> list[str]:
    page = style.page()
    words = f"{finding.status.upper()} {finding.check}: {finding.verdict.reason}: {finding.verdict.message}"
    page.item("seen", f"after {seconds:.1f} s: {words}", paint=Paint.GOOD)
    return page.lines


def agent(words: str, style: PageStyle) -> list[str]:
    page = style.page()
    page.item("agent", words)
    return page.lines


def undone(record: DrillRecord, end: DrillUndo, why: str, style: PageStyle) -> list[str]:
    """Whether the state is back; if not, exactly what to run."""
    page = style.page()
    if not record.undo:
        page.item("ended", f"{why}; the line stays in the kernel log", paint=Paint.DOUBT)
        page.item("run", "nodeprep reset")
        page.item("", "dmesg --clear")
    elif end.is_back:
        page.item("undone", f"{why}; the state is as before", paint=Paint.GOOD)
    else:
        page.item("NOT UNDONE", f"{why}; {end.words}", paint=Paint.BAD)
        for words in record.by_hand:
            page.item("run", words)
        page.item("", "or, to try again: nodeprep drill stop")
    return page.lines


def unseen(record: DrillRecord, style: PageStyle) -> list[str]:
    page = style.page()
    words = f"no check found {record.words}: does the profile in force want it? See nodeprep check -o wide"
    page.item("NOT SEEN", words, paint=Paint.BAD)
    return page.lines


def passing(words: str, style: PageStyle) -> list[str]:
    page = style.page()
    page.item("check", words)
    return page.lines
