"""`nodeprep snapshot`: looks as `check` does, reads all facts, and writes them to a file."""

from __future__ import annotations

from nodeprep import facts, snapshot
from nodeprep.assessment import Assessment
from nodeprep.checks.klog import nic as klog_nic
from nodeprep.cli import duration, place, terminal
from nodeprep.cli.check import assessments
from nodeprep.cli.check.look_pair import LookPair
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.cli.files import output_file
from nodeprep.cli.history import history_reading
from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.codec import CodecError, NotJsonError
from nodeprep.config import wants
from nodeprep.doors import clock
from nodeprep.doors.files.reader import Files
from nodeprep.facts.machine.system import System
from nodeprep.look import Look
from nodeprep.model import Unreadable, raw
from nodeprep.observer import Observer
from nodeprep.profile_selection import ProfileSelection
from nodeprep.snapshot import Snapshot

HISTORY_RECORDS = 50  # of the node's history that a snapshot takes with it
SNAPSHOT_LIMIT_BYTES = 256 << 20  # bytes; 5,000 lines of kernel log and 600 netdevs make 2 MiB


def run(
    output: str | None,
    *,
    root: str | None = None,
    host_root: str | None = None,
    cluster: ClusterOptions = NO_CLUSTER,
    settle: str = "1",
    profile: str | None = None,
    config: str | None = None,
    force: bool = False,
) -> int:
    """Record a node in a file, or on stdout. `force` replaces a file that is there. Raises UsageError."""
    output_file.refuse_existing(output, force=force)
    assessment = assessments.of_node(profile, config, clock.today())
    at = place.place(root, host_root, cluster)
    taken = take(assessment, at, duration.seconds("--settle", settle))
    output_file.write(snapshot.dumps(taken), output, force=force, private=True)
    looks = "1 look" if len(taken.looks) == 1 else f"{len(taken.looks)} looks"
    terminal.complain(f"recorded {looks} at {at.where}, profile {taken.profile['name']} ({taken.chosen_by})")
    return 0


def take(assessment: Assessment, at: NodePlace, settle: float) -> Snapshot:
    """Read all facts, twice if rates can be measured, with the profile that `check` would use."""
    look, before, selection = NodeWatch(assessment, lambda excluded: _looks(assessment, at, settle, excluded)).observe()
    return _snapshot(
        assessment, at, settle if before else 0.0, selection, (look,) if before is None else (before, look)
    )


def read(file: str) -> Snapshot:
    """The snapshot in a file. Raises UsageError naming file and place, or the version that reads it."""
    data = Files().data(file if file.startswith("/") else f"./{file}", SNAPSHOT_LIMIT_BYTES)
    if data is None:
        raise UsageError(f"{file}: no such file")
    if isinstance(data, Unreadable):
        raise UsageError(f"{file}: {data.detail}")
    try:
        return snapshot.loads(data.decode())
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: byte {error.start} is not UTF-8; wanted a file that nodeprep snapshot wrote"
        ) from error
    except NotJsonError as error:
        raise UsageError(f"{file}:{error.line}: {error}" if error.line else f"{file}: {error}") from error
    except CodecError as error:
        raise UsageError(f"{file}: {error}") from error


def _looks(assessment: Assessment, at: NodePlace, settle: float, excluded: tuple[str, ...]) -> LookPair:
    host = at.host(excluded, assessment.settings.metadata_url)
    return LookPair(Observer(host), facts.ALL, settle if at.live else 0.0)


def _snapshot(
    assessment: Assessment, at: NodePlace, settle: float, selection: ProfileSelection, looks: tuple[Look, ...]
) -> Snapshot:
    node = looks[-1].get(System)
    name = raw(node)["name"] if node else ""
    numbers = wants.wants(selection.profile).values()
    userspace = any(isinstance(one, klog_nic.Want) and one.accept_userspace for one in numbers)
    return Snapshot(
        node=name if isinstance(name, str) else "",
        when=clock.utc(),
        live=at.live,
        root=at.root,
        profile=snapshot.recorded(selection.profile),
        chosen_by=selection.chosen_by,
        settle=settle,
        looks=tuple(snapshot.observed(look, userspace=userspace) for look in looks),
        waivers=assessment.settings.waivers,
        missing_hardware=selection.missing_hardware,
        by_hardware=selection.by_hardware,
        want_by=selection.profile.want_by,
        expect_by=selection.profile.expect_by,
        history=history_reading.last_lines(at, HISTORY_RECORDS) if at.live else (),
    )
