"""Runs inside the agent's container, as whoever took it over, and asks the remediator for what it must not do.

    python3 -I -c "$(cat hostile.py)" SOCKET VERSION    sends all of them
    python3 -I -c "$(cat hostile.py)" SOCKET            tries to take the socket's place, and sends nothing

It imports nothing of ours: it runs with the container's own Python. It prints one JSON object:

    answers    [what was sent, the answer] for each line; the answer to a line without one is what the socket did
    slowest    seconds of the slowest answer
    squatted   what could be done in the directory of the socket, which must be nothing
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

ID = "5ca1ab1e" * 4
LINE = 64 << 10
ARGUMENTS = ("../../x", "{{ lookup('pipe', 'id') }}", "eth0;id", "$(id)", "a" * 16, "-x", "..", "eth0\u202e", "", 7)
RUN = {"attempt": ID, "remedy": "link_up", "args": {"interface": "eth0"}, "check": False, "deadline": 10}


def run(**changed: object) -> bytes:
    return json.dumps({"run": {**RUN, **changed}}).encode()


def messages() -> Iterator[tuple[str, bytes]]:
    yield "an unknown remedy", run(remedy="format_disk")
    yield "a path for a remedy", run(remedy="../../bin/sh")
    yield "a remedy in Jinja", run(remedy="{{ lookup('pipe', 'id') }}")
    yield "a remedy of class S3", run(remedy="erdma_install", args={})
    yield "a deadline above the limit", run(deadline=601)
    yield "a deadline without end", run().replace(b'"deadline": 10', b'"deadline": 1e999')
    yield "no deadline", run(deadline=0)
    for value in ARGUMENTS:
        yield f"the argument {value!r}", run(args={"interface": value})
    for name in ("on_host", "host_root", "ansible_connection", "become", "__class__"):
        yield f"the argument {name}", run(args={"interface": "eth0", name: "sh"})
        yield f"the key {name}", run(**{name: "sh"})
    yield "an approval", run(approved=True)
    yield "a key twice", run().replace(b'"check": false', b'"check": true, "check": false')
    yield "another verb", json.dumps({"exec": RUN}).encode()
    yield "two verbs", json.dumps({"run": RUN, "cancel": {"attempt": ID}}).encode()
    yield "nested without end", b'{"run":' + b"[" * 60_000
    yield "half a line", run()[:30]
    yield "a number of 60,000 digits", b'{"run": ' + b"1" * 60_000 + b"}"
    yield "no text", b"\xff\xfe\x00"
    yield "an id that is none", run(attempt="../history")
    yield "forwarding off", run(remedy="sysctl_terway", args={"key": "net.ipv4.ip_forward", "value": "00"})
    yield "a key of the kernel", run(remedy="sysctl_terway", args={"key": "kernel.core_pattern", "value": "0"})
    yield "a pod by a path", run(remedy="plugin_restart", args={"pod": "default/../x"})


def answers(path: str, version: str) -> Iterator[tuple[str, object, float]]:
    with connected(path) as peer, peer.makefile("rwb") as lines:
        hello = json.dumps({"hello": {"version": version}}).encode()
        for what, line in (("hello", hello), *messages()):
            began = time.monotonic()
            lines.write(line + b"\n")
            lines.flush()
            yield what, json.loads(lines.readline()), time.monotonic() - began
    with connected(path) as peer:
        sent, part = 0, b"x" * (1 << 20)
        with suppress(OSError):
            while sent < 1 << 30:
                sent += peer.send(part)
        yield "a line of 1 GiB", f"it hung up before {1 << 24} bytes" if sent < 1 << 24 else f"it took {sent}", 0.0
    with connected(path) as peer, peer.makefile("rwb") as lines:
        lines.write(json.dumps({"hello": {"version": "9.9"}}).encode() + b"\n" + run() + b"\n")
        lines.flush()
        lines.readline()
        yield "another version", json.loads(lines.readline()), 0.0


def connected(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(600)
    made.connect(path)
    return made


def squatted(path: str) -> Iterator[str]:
    """What of the directory and the socket can be changed or taken."""
    directory = os.path.dirname(path)

    def bind(at: str) -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(at)

    acts: dict[str, Callable[[], object]] = {
        "bind the name that it binds first": lambda: bind(f"{path}.new"),
        "bind another name": lambda: bind(f"{directory}/other.sock"),
        "take the socket away": lambda: os.unlink(path),
        "move the socket": lambda: os.rename(path, f"{path}.old"),
        "link to it": lambda: os.symlink("/etc/shadow", f"{directory}/link"),
        "open it to all": lambda: os.chmod(path, 0o777),
        "open its directory": lambda: os.chmod(directory, 0o777),
    }
    for what, act in acts.items():
        try:
            act()
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EPERM):
                continue
        yield what


def main(path: str, version: str = "") -> None:
    told = list(answers(path, version)) if version else []
    report = {
        "answers": [[what, answer] for what, answer, _ in told],
        "slowest": max((seconds for _, _, seconds in told), default=0.0),
        "squatted": list(squatted(path)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
