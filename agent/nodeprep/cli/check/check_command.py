"""`nodeprep check`: looks, judges, prints what it found, and exits with the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nodeprep import check_round
from nodeprep.assessment import Assessment
from nodeprep.checks import IDS
from nodeprep.cli import duration, place, terminal
from nodeprep.cli.check import agent_knowledge, assessments, check_selection, headline, look_pair, outcome, table
from nodeprep.cli.check.choices import CheckFormat, FailOn
from nodeprep.cli.check.look_pair import LookPair
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.cli.check.outcome import CheckOutcome
from nodeprep.cli.check.table import Style
from nodeprep.cli.daemon import agent_socket, drill_told
from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.model import Report
from nodeprep.observer import Observer
from nodeprep.values import Value, replace

STDIN = "-"  # in place of a file
HOME_AND_CLEAR = "\x1b[H\x1b[J"
WAIT_PERIOD_SECONDS = 1.0  # seconds between two looks of --wait
INTERRUPTED = 130  # 128 + SIGINT, before the first report


class CheckOptions(Value):
    """The options of `check`, as they were typed."""

    profile: str | None = None
    root: str | None = None
    host_root: str | None = None
    cluster: ClusterOptions = NO_CLUSTER
    snapshot: str | None = None
    more: tuple[str, ...] = ()
    config: str | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fail_on: FailOn = FailOn.FAIL
    strict: bool = False
    settle: str = "1"
    output: CheckFormat = CheckFormat.TABLE
    failing: bool = False
    quiet: bool = False
    no_color: bool = False
    watch: str | None = None
    wait: str | None = None

    @property
    def requested(self) -> tuple[str, ...]:
        """The words of --only. Some of them are ids of checks."""
        return tuple(word.strip() for one in self.only for word in one.split(","))

    @property
    def names_elsewhere(self) -> bool:
        """Whether checks of another platform are named: to programs yes, to people no."""
        return self.output.is_for_programs

    def as_asked(self, assessment: Assessment) -> Assessment:
        return replace(assessment, requested=self.requested, names_elsewhere=self.names_elsewhere)


def run(asked: CheckOptions) -> int:
    """Judge and print; returns the exit code. Raises UsageError."""
    if asked.config == STDIN:
        from nodeprep.cli.check import stdin_config

        asked = replace(asked, config=stdin_config.read())
    settle = duration.seconds("--settle", asked.settle)
    every = None if asked.watch is None else duration.seconds("--watch", asked.watch)
    if every == 0:
        raise UsageError("--watch: found '0', wanted more than 0 seconds between two looks")
    longest = None if asked.wait is None else duration.seconds("--wait", asked.wait)
    if every is not None and longest is not None:
        raise UsageError("--watch looks until Ctrl-C and --wait until it is ready: give one of them")
    if asked.quiet and every is not None:
        raise UsageError("--watch prints each look, and --quiet nothing: give one of them")
    if asked.failing and asked.output is CheckFormat.JUNIT:
        raise UsageError("-o junit has a case for each check: it cannot be combined with --failing")
    if asked.snapshot is not None:
        return _recorded(asked, asked.snapshot)
    if asked.more:
        raise UsageError(f"check: found {asked.more[0]!r}, wanted no file without --snapshot")
    watch, say = watched(asked, settle)
    if every is not None:
        return _forever(watch, say, every)
    if longest is not None:
        return _until_ready(watch, say, longest)
    return say(watch.report())


def watched(asked: CheckOptions, settle: float) -> tuple[NodeWatch, ReportWriter]:
    """What looks at the node that the options name and judges it, and what prints that. Raises UsageError.

    `settle` is the time between the two looks for rates, in seconds.
    """
    checks, deselected = check_selection.select(IDS, asked.only, asked.skip)
    at = place.place(asked.root, asked.host_root, asked.cluster)
    found = agent_knowledge.agent_knowledge(at)
    own = assessments.of_node(asked.profile, asked.config, clock.today(), checks, deselected)
    agreed = assessments.with_agent(own, found.agent_state, asked.profile, asked.config)
    rates = check_round.comparing(checks)
    asks = asked.config is None and asked.profile is None and found.agent_state is not None and bool(rates)
    agent_findings = partial(agent_socket.findings, found.socket, rates) if asks else tuple
    settle = 0.0 if asks and agent_findings() else settle
    assessment = replace(
        agreed, requested=asked.requested, agent_findings=agent_findings, names_elsewhere=asked.names_elsewhere
    )
    watch = NodeWatch(assessment, lambda excluded: _looks(at, assessment, settle, excluded))
    watch.drill = partial(drill_told.drill_now, at)
    watch.notes = partial(agent_knowledge.repeats, at, own.settings.repeat_policy)
    return watch, ReportWriter(asked, at.where, found.words, host=at.host)


def _recorded(asked: CheckOptions, file: str) -> int:
    """Judge a recording by its own profile and waivers, unless the operator gives others."""
    for option, value in (
        ("--root", asked.root),
        ("--host-root", asked.host_root),
        (asked.cluster.given(), asked.cluster.given()),
        ("--watch", asked.watch),
        ("--wait", asked.wait),
    ):
        if value is not None:
            raise UsageError(f"--snapshot is one node at one time: it cannot be combined with {option}")
    if asked.more:
        from nodeprep.cli.check import many_command

        return many_command.check(asked, (file, *asked.more))
    from nodeprep.cli.files import snapshot_command

    checks, deselected = check_selection.select(IDS, asked.only, asked.skip)
    recording = snapshot_command.read(file)
    own = assessments.of_recording(recording, asked.profile, asked.config, checks, deselected)
    say = ReportWriter(asked, f"{file} (snapshot of {recording.root}, {recording.when})", when=recording.when)
    return say(assessments.judged(recording, asked.as_asked(own))[1])


class ReportWriter(Value):
    """Prints a report in the requested format. `when` is the time of the look, UTC (RFC 3339); "" means now."""

    asked: CheckOptions
    where: str
    agent: str = ""
    when: str = ""
    host: Callable[[], Host] | None = None

    def text(self, report: Report) -> str:
        asked = self.asked
        match asked.output:
            case CheckFormat.JSON:
                from nodeprep.cli.check import json_report

                document = json_report.document(
                    report, asked.fail_on, strict=asked.strict, time=self.when or clock.utc(), failing=asked.failing
                )
                return json_report.text(document)
            case CheckFormat.JUNIT:
                from nodeprep.cli.check import junit_report

                return junit_report.text(report, asked.fail_on, strict=asked.strict, time=self.when or clock.utc())
            case CheckFormat.LINE:
                from nodeprep.cli.check import line_report

                return line_report.line(report, asked.fail_on, strict=asked.strict)
        style = Style(
            self.where,
            self.asked.fail_on,
            terminal.width(),
            terminal.colourful(self.asked.no_color),
            self.agent,
            self.asked.strict,
            terminal.whole_width(),
            failing=asked.failing,
        )
        if asked.output is not CheckFormat.WIDE:
            return "\n".join(table.table(report, style))
        return "\n".join([*table.wide(report, style), *self.usage(style)])

    def usage(self, style: Style) -> list[str]:
        """Who uses the node's devices now; nothing of a recording, and nothing beside what fails alone."""
        if self.host is None or self.asked.failing:
            return []
        from nodeprep.cli.check import usage_table

        return usage_table.lines(self.host(), style.whole_width)

    def code(self, report: Report) -> int:
        return self.outcome(report).exit_code

    def outcome(self, report: Report) -> CheckOutcome:
        return outcome.outcome(report, self.asked.fail_on, strict=self.asked.strict)

    def __call__(self, report: Report) -> int:
        code = self.code(report)
        nothing_fails = self.asked.failing and self.asked.output is CheckFormat.LINE and code == 0
        if not self.asked.quiet and not nothing_fails:
            terminal.put(self.text(report))
        return code


def _forever(watch: NodeWatch, say: ReportWriter, every: float) -> int:
    """Until Ctrl-C, or until stdout is closed; exits with the result of the last look."""
    code = INTERRUPTED
    redraw = terminal.is_terminal() and not say.asked.output.is_for_programs
    try:
        while True:
            report = watch.report()
            code = say.code(report)
            if not terminal.put((HOME_AND_CLEAR if redraw else "") + say.text(report) + ("" if redraw else "\n")):
                return code
            clock.sleep(every)
    except KeyboardInterrupt:
        return code


def _until_ready(watch: NodeWatch, say: ReportWriter, longest: float) -> int:
    """Prints on stderr what it waits for, each line once, and prints the report at the end."""
    end = clock.now() + longest
    told = ""
    while True:
        report = watch.report()
        left = end - clock.now()
        if say.code(report) == 0 or left <= 0:
            return say(report)
        words = headline.headline(report, say.outcome(report))
        if words != told:
            terminal.complain(f"waiting: {words}")
            told = words
        clock.sleep(min(WAIT_PERIOD_SECONDS, left))


def _looks(at: NodePlace, assessment: Assessment, settle: float, excluded: tuple[str, ...]) -> LookPair:
    facts = look_pair.facts_for(assessment.checks, to_select=assessment.selection is None)
    compares = at.live and bool(check_round.comparing(assessment.checks))
    observer = Observer(at.host(excluded, assessment.settings.metadata_url))
    return LookPair(observer, facts, settle if compares else 0.0)
