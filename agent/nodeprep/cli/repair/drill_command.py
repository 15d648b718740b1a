"""`nodeprep drill NAME TARGET`: makes one fault of this host, watches until nodeprep sees it, and has it undone."""

from __future__ import annotations

import signal
from collections.abc import Collection
from uuid import uuid4

from nodeprep.cli import duration, place, terminal, usage
from nodeprep.cli.check import check_command
from nodeprep.cli.check.check_command import CheckOptions
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.cli.daemon import directories, drill_told
from nodeprep.cli.repair import drill_names, drill_page, repair_command
from nodeprep.cli.repair.drill_session import DrillSession
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.cli.usage import UsageError
from nodeprep.decide import drill_ground, drill_notice, drill_plan
from nodeprep.decide.drill_kinds import FORMS, DrillForm, DrillKind
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.drill_plan import DrillOrder, DrillPlan, DrillRefused
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.decide.idleness import Idleness
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Report
from nodeprep.repair import drill_files, drill_look, drill_start, host_tools, idle_proof
from nodeprep.repair.drill_files import NotADrill
from nodeprep.repair.drill_look import GroundUnseen
from nodeprep.repair.drill_start import RunningDrill, WatcherGone
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay
from nodeprep.values import Value, replace

LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0  # of a deadline: an hour without a device is no drill
MARGIN_SECONDS = 1.0  # before the fault: what opens a case from then on is the drill's
NEEDS_USERSPACE = "klog.nic"


class DrillOptions(Value):
    """The options of `drill`, as they were typed."""

    order: DrillOrder
    check: CheckOptions
    deadline: str
    hold: bool = False
    yes: bool = False


def run(asked: DrillOptions) -> int:
    """Make it, watch, undo, print; returns the exit code. Raises UsageError."""
    seconds = _deadline(asked)
    repair_command.require_host("drill", asks=not asked.yes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # undone and told, as for Ctrl-C
    style = PageStyle(terminal.width(), terminal.colourful(asked.check.no_color))
    directory = repair_command.directory()
    try:
        with RepairLock(directory, "nodeprep drill") as lock, usage.usage():
            refuse_left_behind(directory)
            return _drilled(asked, seconds, lock, style)
    except KeyboardInterrupt:
        terminal.complain("nodeprep drill: interrupted; nothing was changed")
        return repair_command.INTERRUPTED
    except (RepairUnderWay, GroundUnseen, WatcherGone, NotADrill) as error:
        terminal.complain(f"nodeprep drill: {error}")
        return repair_command.FAILED
    except DrillRefused as refused:
        if refused.is_use:
            raise UsageError(f"nodeprep drill {refused}") from refused
        terminal.complain(f"nodeprep drill {refused}")
        return repair_command.FAILED
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; wanted a place for what undoes the drill") from error


def _deadline(asked: DrillOptions) -> float:
    seconds = duration.seconds("--deadline", asked.deadline)
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise UsageError(f"--deadline: found {asked.deadline!r}, wanted 1s to 1h")
    return seconds


def refuse_left_behind(directory: str) -> None:
    """Raise DrillRefused where a drill was not undone. A reboot undid what it was; its file goes. Needs the lock."""
    record = drill_files.kept(directory)
    if record is None:
        return
    if record.boot_id != place.place(None, None).host().boot_id():
        drill_files.remove(directory)
        return
    raise DrillRefused(f"{record.name}: {record.words} was left behind by a watcher that is gone: nodeprep drill stop")


def _drilled(asked: DrillOptions, seconds: float, lock: RepairLock, style: PageStyle) -> int:
    order, form = asked.order, FORMS[asked.order.kind]
    _require_tools(order, form)
    watch, _ = check_command.watched(asked.check, 1.0)
    at = place.place(None, None, asked.check.cluster)
    host = at.host()
    ground = drill_look.observe(form.parts)
    plan = drill_plan.plan(order, ground, _functions(host, order))
    report = watch.report()
    _require_userspace(order, watch)
    for line in drill_page.plan(plan, form, seconds, style):
        terminal.put(line)
    idle = _idleness(host, plan, form, watch.assessment.settings.idle.ignore)
    if not idle.is_idle:
        for line in drill_page.held(idle, style):
            terminal.put(line)
        return repair_command.FAILED if idle.holders else repair_command.IN_DOUBT
    if not (asked.yes or repair_command.says_yes("Make this fault?")):
        terminal.put("nothing was done: you did not agree")
        return repair_command.FAILED
    told = directories.directories(at.root)
    notice = _notice(plan, report, host, seconds)
    before = drill_ground.state(ground, plan.watched)
    record = replace(_record(plan, notice, seconds, told.socket), parts=form.parts, before=before)
    drill_files.tell(told.socket, notice)
    try:
        with RunningDrill(repair_command.directory(), record, lock.descriptor) as running:
            has_agent = drill_told.tell_agent(told.address, notice)
            return DrillSession(watch, running, record, told.address if has_agent else "", style).run(hold=asked.hold)
    except BaseException:
        if drill_files.kept(repair_command.directory()) is None:
            drill_files.remove(told.socket)
        raise


def _require_tools(order: DrillOrder, form: DrillForm) -> None:
    missing = [tool for tool in form.header.tools if not host_tools.found([tool])]
    if missing:
        raise DrillRefused(f"{order.kind}: this host has no {', '.join(missing)}: wanted in /usr/sbin or its like")


def _functions(host: Host, order: DrillOrder) -> tuple[str, ...]:
    """PCI addresses of RDMA NICs, for a line of the kernel log."""
    found = rdma.observe(host) if order.kind is DrillKind.KERNEL_LOG_LINE else None
    return tuple(dict.fromkeys(one.bdf for one in found.devices if one.bdf)) if isinstance(found, Rdma) else ()


def _require_userspace(order: DrillOrder, watch: NodeWatch) -> None:
    """Raise DrillRefused where the profile in force believes no line that a process wrote: nobody would see it."""
    want = watch.selection.profile.want.get(NEEDS_USERSPACE, {}) if watch.selection else {}
    if order.kind is DrillKind.KERNEL_LOG_LINE and want.get("accept-userspace") is not True:
        raise DrillRefused(
            f"{order.kind}: {NEEDS_USERSPACE} does not believe lines that a process wrote; wanted "
            f"want: {{{NEEDS_USERSPACE}: {{accept-userspace: true}}}} in the profile"
        )


def _idleness(host: Host, plan: DrillPlan, form: DrillForm, ignored: Collection[str]) -> Idleness:
    """Who uses the device at this moment: the proof of a remedy of class S2, in full."""
    target = plan.idle if plan.idle is not None else idle_proof.target_of(host, form.header, plan.args)
    return drill_names.proved(host, target, form, ignored)


def _notice(plan: DrillPlan, report: Report, host: Host, seconds: float) -> DrillNotice:
    now = clock.now()
    return DrillNotice(
        name=plan.kind,
        device=plan.device,
        names=drill_names.names(host, plan.names)[: drill_notice.NAMES_LIMIT],
        boot_id=host.boot_id(),
        began=now - MARGIN_SECONDS,
        until=now + seconds + drill_start.UNDO_SECONDS,
        before=drill_notice.failing(report.findings)[: drill_notice.NAMES_LIMIT],
    )


def _record(plan: DrillPlan, notice: DrillNotice, seconds: float, told: str) -> DrillRecord:
    now = clock.now()
    return DrillRecord(
        id=uuid4().hex,
        name=plan.kind,
        target=plan.target,
        device=plan.device,
        boot_id=notice.boot_id,
        began=now,
        until=now + seconds,
        make=plan.make,
        undo=plan.undo,
        watched=plan.watched,
        told=told,
    )
