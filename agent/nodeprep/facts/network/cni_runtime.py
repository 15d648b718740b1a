"""Where the container runtime looks for network configurations and plugins, as its own configuration says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files

DIRECTORY = "/etc/cni/net.d"
BINARIES = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")  # containerd's default, then those of distributions
CONTAINERDS = ("/etc/containerd/config.toml", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
CRIO, CRIO_DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*"
CONFIGURED = ("conf_dir", "network_dir")  # containerd's word, CRI-O's word
PLUGINS = ("bin_dir", "bin_dirs", "plugin_dirs")
IMPORTS, TOML = "imports", ".toml"
KEY = Pattern(r"^[ \t]*+(conf_dir|network_dir|bin_dirs?|plugin_dirs|imports)[ \t]*+=[ \t]*+", re.MULTILINE)
TOKEN = Pattern(r"\"([^\"\n]*+)\"|'([^'\n]*+)'|(#)|(\])")  # two kinds of texts, a comment, a list's end
LINE_LIMIT_CHARACTERS = 4096  # characters of a line; a path has no more (PATH_MAX)
LIST_LIMIT = 64  # texts of a list, and lines that it goes over
FILES, SIZE = 64, 2 << 20  # files of one runtime, and characters of all of them; a whole one has some kilobytes

Said = Mapping[str, tuple[str, ...]]


def places(files: Files) -> tuple[str, tuple[str, ...]] | Unreadable:
    """The directory of configurations and those of plugins, in the order of the runtime.

    The first runtime whose configuration names a directory of configurations is the one that runs pods: one that only
    Docker uses does not name any. Where no runtime does, the first directories of plugins hold.
    """
    plugins: tuple[str, ...] = ()
    for runtime in ((CONTAINERDS[0],), (CRIO, CRIO_DROP_INS), (CONTAINERDS[1],)):
        said = _runtime(files, runtime)
        if isinstance(said, Unreadable):
            return said
        directories, found = _paths(said, CONFIGURED), _paths(said, PLUGINS)
        if directories:
            return directories[0], found or BINARIES
        plugins = plugins or found
    return DIRECTORY, plugins or BINARIES


def _paths(said: Said, keys: tuple[str, ...]) -> tuple[str, ...]:
    values = (path.rstrip("/") for key in keys for path in said.get(key, ()) if path.startswith("/"))
    return tuple(dict.fromkeys(path for path in values if path))[:LIST_LIMIT]


def _runtime(files: Files, paths: tuple[str, ...]) -> Said | Unreadable:
    """What a runtime's files say together; the last value of a key wins.

    containerd cmd/containerd/server/config, LoadConfig: imports are read after the file that names them. CRI-O
    crio.conf.d(5): drop-ins are read in the order of their names.
    """
    said: dict[str, tuple[str, ...]] = {}
    pending, read, size = list(paths), set[str](), 0
    while pending:
        path = pending.pop(0)
        if path in read:
            continue
        read.add(path)
        if len(read) > FILES:
            return Unreadable(Why.MALFORMED, path, detail=f"more than {FILES} files are imported")
        text = _matching(files, path) if "*" in path else files.text(path)
        if isinstance(text, Unreadable):
            return text
        if isinstance(text, tuple):
            pending[:0] = text
            continue
        size += len(text or "")
        if size > SIZE:
            return Unreadable(Why.MALFORMED, path, detail=f"with the files before it longer than {SIZE} characters")
        words = _words(text or "")
        pending += [one for name in words.pop(IMPORTS, ()) if (one := _imported(name, path)).endswith(TOML)]
        said |= words
    return said


def _matching(files: Files, pattern: str) -> tuple[str, ...] | Unreadable:
    """The files of a directory that a pattern with one star in its last part matches."""
    directory, _, name = pattern.rpartition("/")
    head, _, tail = name.partition("*")
    if "*" in directory + tail:
        return ()
    names = files.names(directory)
    if isinstance(names, Unreadable):
        return names
    matching = [one for one in names or () if one.startswith(head) and one.endswith(tail)]
    found = [f"{directory}/{one}" for one in matching if len(one) >= len(head) + len(tail)]
    kinds = {path: files.entry(path) for path in found[: FILES + 1]}
    return tuple(path for path, kind in kinds.items() if isinstance(kind, Unreadable) or (kind and kind.is_file))


def _imported(name: str, path: str) -> str:
    return name if name.startswith("/") else f"{path.rpartition('/')[0]}/{name}"


def _words(text: str) -> dict[str, tuple[str, ...]]:
    """Each key that is asked for, with its text, or with those of its list. No character is read often."""
    found, match = dict[str, tuple[str, ...]](), KEY.search(text)
    while match:
        values, at = _list(text, match.end()) if text.startswith("[", match.end()) else _line(text, match.end())
        found[match[1]] = tuple(value for value in values if value)[:LIST_LIMIT]
        match = KEY.search(text, at)
    return found


def _line(text: str, at: int) -> tuple[list[str], int]:
    """The text behind a key, and where what was read ends."""
    value = TOKEN.match(text, at, at + LINE_LIMIT_CHARACTERS)
    return [value[1] or value[2] or ""] if value else [], at


def _list(text: str, at: int) -> tuple[list[str], int]:
    values: list[str] = []
    for _ in range(LIST_LIMIT):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        for token in TOKEN.finditer(text, at, min(end, at + LINE_LIMIT_CHARACTERS)):
            if token[4]:
                return values, token.end()
            if token[3]:
                break  # a comment
            values.append(token[1] or token[2] or "")
        at = end + 1
    return values, at
