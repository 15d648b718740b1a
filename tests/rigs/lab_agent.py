"""The lab guest's side of the channel: runs commands from a virtio-serial port, and sends back their output.

It runs inside the guest with the standard library alone. The host imports the frames from here. It runs `nodeprep` in a
fork of itself. It starts each other program as usual, and so does a shell.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import site
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NoReturn

PORT_NAME = "lab"
CHUNK = 1 << 16

# Frames: kind, the command's number, size of the payload, payload. Upper case goes to the guest, lower case comes back.
HEADER = struct.Struct(">cII")
START, INPUT, END_OF_INPUT, KILL = b"S", b"I", b"E", b"K"
READY, STDOUT, STDERR, EXIT = b"r", b"o", b"e", b"x"
STATUS = struct.Struct(">i")

# The imports of `nodeprep check`, except those that it makes for a request. It imports the rest itself.
IMPORTED = (
    "nodeprep.cli.app",
    "nodeprep.cli.check.check_commands",
    "nodeprep.cli.check.check_command",
    "nodeprep.doors.netlink.interfaces",
    "nodeprep.doors.netlink.nldev",
    "nodeprep.doors.files.kmsg",
)

# The exit codes of a shell for a command that it cannot run, or cannot find (POSIX 2.8.2).
CANNOT_RUN, NOT_FOUND = 126, 127


@dataclass(frozen=True, slots=True)
class Frame:
    kind: bytes
    command: int
    payload: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(self.kind, self.command, len(self.payload)) + self.payload


class FrameReader:
    """Turns a stream of bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._pending += data
        while len(self._pending) >= HEADER.size:
            kind, command, size = HEADER.unpack_from(self._pending)
            end = HEADER.size + size
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[HEADER.size : end])
            del self._pending[:end]
            yield Frame(kind, command, payload)


class Nodeprep:
    """`nodeprep` in a fork of this process, which has imported most of it: an import takes seconds in emulation.

    As `subprocess.Popen` has it. The interpreter ends as it does at the end of a program.
    """

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        site.main()  # this process was started without `site`
        for module in IMPORTED:
            importlib.import_module(module)
        pipes = os.pipe(), os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            become(argv, cwd, env, (pipes[0][0], pipes[1][1], pipes[2][1]))
        (theirs, stdin), (stdout, their_out), (stderr, their_err) = pipes
        for descriptor in (theirs, their_out, their_err):
            os.close(descriptor)
        os.setpgid(self.pid, self.pid)  # the child does this too, but we may have to kill it before
        self.stdin, self.stdout, self.stderr = FileIO(stdin, "wb"), FileIO(stdout), FileIO(stderr)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def become(argv: Sequence[str], cwd: str, env: Mapping[str, str], streams: Sequence[int]) -> NoReturn:
    """Becomes the program, in a process group of its own, and ends with it."""
    os.setpgid(0, 0)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = list(argv)
    from nodeprep import __main__

    sys.exit(__main__.main())


class Child:
    """One running command: its pipes and the input that it has not read yet."""

    def __init__(self, number: int, process: subprocess.Popen[bytes] | Nodeprep) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.number = number
        self.process = process
        self.exited = os.pidfd_open(process.pid)
        self.stdin = process.stdin.fileno()
        self.outputs = {process.stdout.fileno(): STDOUT, process.stderr.fileno(): STDERR}
        self.pending = bytearray()
        self.input_ended = False
        for descriptor in (self.stdin, *self.outputs):
            os.set_blocking(descriptor, False)

    def close(self) -> None:
        os.close(self.exited)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


class Agent:
    """Serves one host until it hangs up."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.children: dict[int, Child] = {}

    def serve(self) -> None:
        frames = FrameReader()
        self.selector.register(self.port, selectors.EVENT_READ)
        self.send(READY, 0)
        while True:
            for key, _ in self.selector.select():
                if key.fd != self.port:
                    self.on_child(key)
                    continue
                data = os.read(self.port, CHUNK)
                if not data:
                    return
                for frame in frames.feed(data):
                    self.on_frame(frame)

    def send(self, kind: bytes, command: int, payload: bytes = b"") -> None:
        rest = memoryview(Frame(kind, command, payload).encode())
        while rest:
            rest = rest[os.write(self.port, rest) :]

    def on_frame(self, frame: Frame) -> None:
        if frame.kind == START:
            self.start(frame)
            return
        child = self.children.get(frame.command)
        if child is None:
            return  # it ended while the frame was on its way
        if frame.kind == KILL:
            os.killpg(child.process.pid, signal.SIGKILL)
            return
        child.pending += frame.payload
        child.input_ended |= frame.kind == END_OF_INPUT
        self.feed(child)

    def start(self, frame: Frame) -> None:
        request = json.loads(frame.payload)
        try:
            process = started(request["argv"], request["cwd"], request["env"])
        except OSError as error:
            self.send(STDERR, frame.command, f"lab: {error.filename}: {error.strerror}\n".encode(errors="replace"))
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
            self.send(EXIT, frame.command, STATUS.pack(status))
            return
        child = self.children[frame.command] = Child(frame.command, process)
        for descriptor in (child.exited, *child.outputs):
            self.selector.register(descriptor, selectors.EVENT_READ, child)

    def on_child(self, key: selectors.SelectorKey) -> None:
        child: Child = key.data
        if child.number not in self.children:
            return  # it ended earlier in the same batch of events
        if key.fd == child.stdin:
            self.feed(child)
        elif key.fd == child.exited:
            self.finish(child)
        else:
            self.relay(child, key.fd)

    def feed(self, child: Child) -> None:
        """Gives the child as much of its input as it takes now. The rest waits until it reads."""
        try:
            while child.pending:
                del child.pending[: os.write(child.stdin, child.pending[:CHUNK])]
        except BlockingIOError:
            if child.stdin not in self.selector.get_map():
                self.selector.register(child.stdin, selectors.EVENT_WRITE, child)
            return
        except BrokenPipeError:
            child.pending.clear()
        if child.stdin in self.selector.get_map():
            self.selector.unregister(child.stdin)
        if child.input_ended and child.process.stdin and not child.process.stdin.closed:
            child.process.stdin.close()

    def relay(self, child: Child, descriptor: int) -> bool:
        """Forwards the output of the child. False if there is nothing more for now."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.send(child.outputs[descriptor], child.number, data)
            return True
        self.selector.unregister(descriptor)
        del child.outputs[descriptor]
        return False

    def finish(self, child: Child) -> None:
        """The command ended. Its background processes keep the pipes open, so this empties them and does not wait."""
        for descriptor in tuple(child.outputs):
            while self.relay(child, descriptor):
                pass
        for descriptor in (child.exited, child.stdin, *child.outputs):
            if descriptor in self.selector.get_map():
                self.selector.unregister(descriptor)
        status = child.process.wait()
        child.close()
        del self.children[child.number]
        self.send(EXIT, child.number, STATUS.pack(status))


def started(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes] | Nodeprep:
    """The command as a process that leads a session. Raises OSError."""
    if argv[0] == "nodeprep":
        return Nodeprep(argv, cwd, env)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
    )


def port_path() -> Path:
    """The device node of our port. There is no udev here that would link it by name."""
    for port in Path("/sys/class/virtio-ports").iterdir():
        if (port / "name").read_text().strip() == PORT_NAME:
            return Path("/dev", port.name)
    sys.exit(f"lab agent: no virtio port is named {PORT_NAME!r}")


def main() -> None:
    Agent(os.open(port_path(), os.O_RDWR | os.O_CLOEXEC)).serve()


if __name__ == "__main__":
    main()
