"""A job as values: its roles with their pods, its gang, and what about the manifest deserves a word."""

from __future__ import annotations

from nodeprep.jobs.pod_template import PodTemplate, Unclaimed
from nodeprep.typed_yaml import Keys
from nodeprep.values import Value


class JobLint(Value):
    """A remark about a manifest: a CamelCase word, the place in the file, and what to do."""

    word: str
    keys: Keys
    text: str


class JobGang(Value):
    """Pods that start together or not at all. `by` says who sees to it, `queue` is Volcano's, "" for none."""

    minimum: int
    by: str
    queue: str = ""
    group: str = ""


class JobRole(Value):
    """Pods of a job that are alike. `minimum` is how many of them the gang wants at least, None if it does not say.

    `adds` is what the manifest does not say because an operator adds it, for people.
    """

    name: str
    replicas: int
    pod: PodTemplate
    minimum: int | None = None
    adds: tuple[str, ...] = ()


class Job(Value):
    """What one document of a manifest asks for. `document` is its place in the stream, from 0.

    `api` is its group and version. `unclaimed` is what of the whole job preflight does not claim to judge.
    """

    document: int
    api: str
    kind: str
    namespace: str
    name: str
    roles: tuple[JobRole, ...] = ()
    gang: JobGang | None = None
    lints: tuple[JobLint, ...] = ()
    unclaimed: tuple[Unclaimed, ...] = ()

    @property
    def pods(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def minimum(self) -> int:
        """How many pods have to start together for the job to start: all of them without a gang, and one at least."""
        if not self.roles:
            return 0
        return self.pods if self.gang is None else max(self.gang.minimum, min(1, self.pods))

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
