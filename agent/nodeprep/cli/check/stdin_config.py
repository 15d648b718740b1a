"""`check --config -`: a configuration on stdin, alone or as the ConfigMap that has it and the files that it names."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from nodeprep.cli import usage
from nodeprep.config import config_file, yaml_document
from nodeprep.config.config_file import FILE_LIMIT_BYTES
from nodeprep.config.document import ConfigError

PLACE, CONFIG = "stdin", "config.yaml"


def read() -> str:
    """The file that `--config -` means: what comes on stdin is held as one. Raises UsageError."""
    data = sys.stdin.buffer.read(FILE_LIMIT_BYTES + 1)
    with usage.usage():
        if len(data) > FILE_LIMIT_BYTES:
            raise ConfigError.at(PLACE, None, "--config -", f"more than {FILE_LIMIT_BYTES} bytes", "fewer")
        for name, content in _files(data).items():
            config_file.hold(f"{PLACE}/{name}", content)
    return f"{PLACE}/{CONFIG}"


def _files(data: bytes) -> Mapping[str, bytes]:
    """The files by name. Raises ConfigError."""
    document = yaml_document.read(data, PLACE)
    top = document.value if isinstance(document.value, Mapping) else {}
    if top.get("kind") != "ConfigMap":
        return {CONFIG: data}
    files = top.get("data")
    if not isinstance(files, Mapping) or not isinstance(files.get(CONFIG), str):
        raise document.error(("data",), sorted(files) if isinstance(files, Mapping) else files, f"the file {CONFIG}")
    for name, text in files.items():
        if not isinstance(text, str):
            raise document.error(("data", name), text, "the text of a file")
    return {name: text.encode() for name, text in files.items()}
