"""The manifest of a job: a file or stdin, read as kubectl reads it; its errors name file, line and key."""

from __future__ import annotations

import sys
from pathlib import Path

from nodeprep.cli import usage
from nodeprep.cli.usage import UsageError
from nodeprep.config import yaml_document
from nodeprep.config.document import ConfigError, Document
from nodeprep.jobs import job_manifest
from nodeprep.jobs.job_manifest import DocumentError, JobManifest
from nodeprep.jobs.job_model import Job, JobLint
from nodeprep.values import Value

STDIN, STDIN_NAME = "-", "stdin"
FILE_LIMIT_BYTES = 4 << 20  # a chart's output; etcd takes objects of 1.5 MiB
DEFAULT_NAMESPACE = "default"


class ManifestFile(Value):
    """The jobs of a file, and its documents with their lines."""

    manifest: JobManifest
    documents: tuple[Document, ...]

    def place(self, job: Job, lint: JobLint) -> str:
        """`FILE:LINE` of a remark; the nearest line above where the field itself has none."""
        document = self.documents[job.document]
        near = next((lint.keys[:end] for end in range(len(lint.keys), -1, -1) if lint.keys[:end] in document.lines), ())
        return f"{document.source}:{document.lines.get(near, 1)}"


def read(file: str, namespace: str = DEFAULT_NAMESPACE) -> ManifestFile:
    """The jobs of a file, or of stdin for `-`. `namespace` is where an object names none. Raises UsageError."""
    source = STDIN_NAME if file == STDIN else file
    with usage.usage():
        documents = yaml_document.read_stream(_content(file, source), source)
        try:
            manifest = job_manifest.read((one.value for one in documents), namespace)
        except DocumentError as error:
            raise documents[error.document].located(error.error) from error
    if not manifest.jobs:
        known = ", ".join(dict.fromkeys(one.partition(" ")[0] for one in job_manifest.KNOWN))
        found = ", ".join(manifest.passed_over) or "nothing"
        raise UsageError(f"{source}: found {found}, wanted an object that makes pods: {known}")
    return ManifestFile(manifest, documents)


def _content(file: str, source: str) -> bytes:
    """Raises ConfigError, UsageError."""
    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(FILE_LIMIT_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"-f {file!r}: {error.strerror or error}") from error
    if len(data) > FILE_LIMIT_BYTES:
        raise ConfigError.at(source, None, "the file", f"more than {FILE_LIMIT_BYTES} bytes", "fewer")
    return data
