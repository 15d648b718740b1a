"""Records what today's version keeps of built nodes, for later versions to read: tests/snapshots.

    python tests/rigs/snapshots.py record     # after a release: the files of its version; older ones stay as they are

A snapshot of a live node has facts that no tree has. So one file holds each class of every fact, made from its types.
"""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeprep import __version__, facts, snapshot
from nodeprep.cli.files import snapshot_command
from nodeprep.config import profile_files
from nodeprep.config.waiver_rules import Waiver
from nodeprep.model import Shown
from nodeprep.snapshot import RecordedLook, Snapshot
from tests.rigs import trees

FILES = Path(__file__).resolve().parents[1] / "snapshots"
NODES = ("h100-roce", "terway-shared", "efa")
SCALARS: Mapping[Any, Any] = {str: "x", int: 1, float: 1.5, bool: True, types.NoneType: None, Any: "x"}


def example(annotation: Any) -> Any:
    """A value of this type, with one thing in each list and each field filled."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in SCALARS:
        return SCALARS[annotation]
    if origin in (Union, types.UnionType):
        return example(next(one for one in args if one is not types.NoneType))
    if origin is tuple:
        return tuple(example(one) for one in args if one is not Ellipsis)
    if origin is Mapping:
        return {"key": example(args[1])}
    if issubclass(annotation, StrEnum):
        return next(iter(annotation))
    hints = get_type_hints(annotation)
    names = annotation.__slots__ if issubclass(annotation, Shown) else annotation.__struct_fields__
    return annotation(**{name: example(hints[name]) for name in names})


def whole() -> Snapshot:
    """A snapshot with every class that a fact may hold."""
    kept = {fact.kind.__name__: example(fact.kind) for fact in facts.ALL}
    profile = snapshot.recorded(profile_files.effective("rdma-roce"))
    waiver = Waiver("port.state", "2026-02-01", "cable on order")
    looks = (RecordedLook(1.0, kept), RecordedLook(2.0, kept))
    return Snapshot("node", "2026-01-10T12:00:00Z", True, "/", profile, "chosen", 1.0, looks, (waiver,), "nothing")


def record() -> None:
    FILES.mkdir(exist_ok=True)
    (FILES / f"{__version__}-every-class.json").write_text(snapshot.dumps(whole()))
    with tempfile.TemporaryDirectory(prefix="nodeprep-snapshots-") as scratch:
        for name in NODES:
            root = trees.build(name, Path(scratch) / name)
            snapshot_command.run(str(FILES / f"{__version__}-{name}.json"), root=str(root), force=True)
    for file in FILES.glob(f"{__version__}-*.json"):
        file.chmod(0o644)


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit(__doc__)
    record()
