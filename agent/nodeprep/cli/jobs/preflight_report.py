"""The answer of preflight as a value: of each job whether it can start, and of each Node what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.cli.jobs.cluster_look import ClusterLook, VolcanoState
from nodeprep.cli.jobs.manifest_file import ManifestFile
from nodeprep.cli.nodes import fleet_table
from nodeprep.config import profile_files
from nodeprep.jobs import job_lints, placement
from nodeprep.jobs.job_lints import GateNames
from nodeprep.jobs.job_model import Job, JobLint
from nodeprep.jobs.obstacles import Obstacle, ObstacleKind
from nodeprep.jobs.placement import JobAnswer
from nodeprep.newer_python import StrEnum
from nodeprep.publish.fleet_rows import NO_AGENT, RELEASED_STATE, SILENT, FleetRow, Readiness
from nodeprep.publish.node_object import PROFILE, STATE
from nodeprep.values import Value

NOT_THERE = (NO_AGENT, SILENT, RELEASED_STATE)  # states of Nodes on which nobody sets or withholds a label


class StartWord(StrEnum):
    """Whether a job can start."""

    CAN = "can-start"
    CANNOT = "cannot-start"
    UNKNOWN = "not-known"


READY = "Ready"  # the reason of TrainingReady that is True
EXIT_CODES = {StartWord.CAN: 0, StartWord.CANNOT: 1, StartWord.UNKNOWN: 3}


class LintShown(Value):
    """A remark with its place in the file."""

    lint: JobLint
    place: str


class JobReport(Value):
    """A job's answer. `hindrances` keep the whole job back; `unknown` is what the answer does not rest on."""

    answer: JobAnswer
    word: StartWord
    hindrances: tuple[str, ...]
    unknown: tuple[str, ...]
    lints: tuple[LintShown, ...]
    group: str = ""

    @property
    def job(self) -> Job:
        return self.answer.job

    @property
    def waits(self) -> bool:
        """Whether it cannot start as far as we know, which time may change."""
        gang = self.job.gang
        never = gang is not None and bool(self.job.roles) and gang.minimum > self.job.pods
        return self.word is StartWord.CANNOT and not never


class PreflightReport(Value):
    """All answers of a look."""

    jobs: tuple[JobReport, ...]
    look: ClusterLook
    passed_over: tuple[str, ...]

    @property
    def word(self) -> StartWord:
        words = {one.word for one in self.jobs}
        return next((one for one in (StartWord.CANNOT, StartWord.UNKNOWN) if one in words), StartWord.CAN)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.word]

    def behind(self, node: str, obstacle: Obstacle) -> str:
        """What nodeprep knows behind an obstacle that its own taint or label makes; "" for any other."""
        row = self.look.rows.get(node)
        return "" if row is None or not self._is_ours(obstacle) else _behind(row, obstacle, self.look.now)

    def doubts(self, one: JobReport) -> Iterator[tuple[str, str]]:
        """The Nodes that the scheduler would use and of which nodeprep does not say Ready, each with why.

        Nodes without any sign of an agent are in no doubt: nobody asked nodeprep to judge them. Where Leases may not be
        read, a note says that of all.
        """
        for name in sorted({name for answer in one.answer.roles for name in answer.able}):
            row = self.look.rows.get(name)
            if row is None or row.readiness is Readiness.READY or (row.state == NO_AGENT and not row.reason):
                continue
            if row.leases_known or row.reason != READY:
                yield name, _said(row, self.look.now)

    def _is_ours(self, obstacle: Obstacle) -> bool:
        policy = self.look.policy
        if obstacle.kind is ObstacleKind.TAINT:
            return obstacle.about in (policy.unhealthy_taint, policy.bootstrap_taint)
        return obstacle.about in (policy.rdma_label, STATE) or obstacle.about.startswith(PROFILE)


def report(file: ManifestFile, look: ClusterLook) -> PreflightReport:
    """The answers to the jobs of a file."""
    gate = _gate_names(look)
    answers = placement.ask(file.manifest.jobs, look.cluster)
    made = []
    for answer, job, unserved, volcano in zip(answers, file.manifest.jobs, look.unserved, look.volcano, strict=True):
        lints = tuple(
            LintShown(one, file.place(job, one)) for one in job_lints.lints(job, look.cluster, gate, look.terway)
        )
        made.append(_job_report(answer, look, unserved, volcano, lints))
    return PreflightReport(tuple(made), look, file.manifest.passed_over)


def _gate_names(look: ClusterLook) -> GateNames:
    """The labels count where a living agent may withhold them. Of a user's own profile only a glob is known."""
    policy, rows = look.policy, look.rows.values()
    withholds = any(one.readiness is not Readiness.READY and one.state not in NOT_THERE for one in rows)
    profiles = dict.fromkeys((*profile_files.BUILT_IN, *policy.profiles))
    labels = (policy.rdma_label, *(PROFILE + name for name in profiles)) if withholds else ()
    return GateNames((policy.unhealthy_taint, policy.bootstrap_taint), labels)


def _job_report(
    answer: JobAnswer, look: ClusterLook, unserved: str, volcano: VolcanoState, lints: tuple[LintShown, ...]
) -> JobReport:
    hindrances = tuple(filter(None, (unserved, volcano.hindrance)))
    unknown = [one.words for one in answer.unclaimed]
    unknown += volcano.unknown
    if look.pods_trouble:
        unknown.append(f"what is free on the nodes: {look.pods_trouble}")
    may_allow = any(one.may_allow for one in answer.unclaimed)
    word = StartWord.CAN
    if hindrances or (answer.starts is False and not may_allow):
        word = StartWord.CANNOT
    elif unknown or answer.starts is not True:
        word = StartWord.UNKNOWN
    return JobReport(answer, word, hindrances, tuple(unknown), lints, volcano.group)


def _behind(row: FleetRow, obstacle: Obstacle, now: float) -> str:
    if obstacle.kind is not ObstacleKind.TAINT and row.readiness is Readiness.READY:
        return "its agent says Ready, and the label is not there: removed by hand, or its mode is observe"
    return _said(row, now)


def _said(row: FleetRow, now: float) -> str:
    """What is known of a Node, and since when; of a silent agent's, nothing."""
    if row.state == SILENT:
        return f"nobody knows: its agent is silent for {_age(row, now)}, {row.message}"
    if row.state == NO_AGENT:
        return "nobody knows: no agent runs there" + (f" ({row.message})" if row.message else "")
    if row.state == RELEASED_STATE:
        return "released: a human took the node from its agent"
    doubt = "" if row.leases_known else ", if its agent still lives"
    since = "" if row.since is None else f" for {_age(row, now)}"
    return f"{row.reason or row.state}{since}{doubt}: {row.message or 'no message'}"


def _age(row: FleetRow, now: float) -> str:
    return "some time" if row.since is None else fleet_table.age(now - row.since)


def headline(report: JobReport) -> str:
    """One line: whether it can start, and by how many pods."""
    answer, job = report.answer, report.job
    if report.hindrances:
        return f"{job.title}: {report.hindrances[0]}"
    if not job.roles:
        return f"{job.title}: no pods to judge"
    if answer.placed is None:
        lacking = next((one.role.name for one in answer.roles if not one.able and one.role.replicas), "")
        words = f"no node could take a pod of {lacking}" if lacking else "what is free on the nodes is not known"
        return f"{job.title}: {words}"
    plan = "" if answer.exact else " by first fit"
    short = "" if answer.exact or answer.placed >= job.pods else "; another placement may fit more"
    return f"{job.title}: {answer.placed} of {job.pods} pods fit now{plan}{short}{'; '.join(('', *_least(answer)))}"


def _least(answer: JobAnswer) -> Iterator[str]:
    """What has to start together."""
    job = answer.job
    if job.gang is not None:
        yield f"{job.minimum} must start together ({job.gang.by})"
    for one in answer.roles:
        if one.role.minimum is not None and one.role.minimum != one.role.replicas:
            yield f"{one.role.minimum} of {one.role.name}"
