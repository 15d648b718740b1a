"""The host's side of a lab guest's two streams: the commands that run inside, and the console."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import lab_agent
from tests.rigs.lab_agent import EXIT, STDERR, STDOUT, Frame, FrameReader

CONSOLE_READS = 2048  # of at most 64 bytes: the end of the console, for error reports
SAID_LINES = 40

# Called in the channel's thread with STDOUT or STDERR and the output.
OnOutput = Callable[[bytes, bytes], None]


class GuestError(Exception):
    """The guest did not do a request. The text ends with the last lines of its console."""


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command in the guest ended; a negative return code is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output, decoded, without the last newline."""
        return self.stdout.decode(errors="replace").removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Request:
    """A command for the guest: the arguments of subprocess.Popen, and all of its standard input."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    input: bytes = b""

    def frames(self, number: int) -> tuple[Frame, ...]:
        start = {"argv": tuple(self.argv), "cwd": str(self.cwd), "env": dict(self.env)}
        chunks = (self.input[begin : begin + lab_agent.CHUNK] for begin in range(0, len(self.input), lab_agent.CHUNK))
        return (
            Frame(lab_agent.START, number, json.dumps(start).encode()),
            *(Frame(lab_agent.INPUT, number, chunk) for chunk in chunks),
            Frame(lab_agent.END_OF_INPUT, number),
        )


class Console:
    """Keeps the last output of the guest's kernel, its init and our agent on the serial port."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reads: deque[bytes] = deque(maxlen=CONSOLE_READS)
        self._reader = threading.Thread(target=self._read, daemon=True, name="lab-console")
        self._reader.start()

    @property
    def text(self) -> str:
        return b"".join(tuple(self._reads)).decode(errors="replace").replace("\r", "")

    def error(self, what: str) -> GuestError:
        """An error with the text `what`, and then the console's last lines."""
        lines = self.text.splitlines()[-SAID_LINES:]
        return GuestError("\n".join((f"lab: {what}", "the guest's console ends with:", *(lines or ("(nothing)",)))))

    def close(self) -> None:
        """Reads the rest of the console after the guest's end."""
        self._reader.join(5)
        self._socket.close()

    def _read(self) -> None:
        with suppress(OSError):
            while data := self._socket.recv(64):
                self._reads.append(data)


class Running:
    """A command that was started in the guest."""

    def __init__(self, channel: Channel, number: int, argv: Sequence[str], on_output: OnOutput | None) -> None:
        self._channel = channel
        self._number = number
        self._name = " ".join(argv)
        self._on_output = on_output
        self._said: dict[bytes, list[bytes]] = {STDOUT: [], STDERR: []}
        self._status: int | None = None
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether nothing is left to wait for."""
        return self._ended.is_set()

    def wait(self, timeout: float) -> Completed:
        """Waits for the end of the command.

        Raises:
            GuestError: it did not end within `timeout` seconds, and was killed; or the guest ended.
        """
        if not self._ended.wait(timeout):
            self.kill()
            self._ended.wait(5)
            said = b"".join(self._said[STDOUT] + self._said[STDERR]).decode(errors="replace")
            tail = "\n".join(said.splitlines()[-SAID_LINES:])
            raise self._channel.console.error(f"{self._name} did not end within {timeout:g} s; it said:\n{tail}")
        if self._status is None:
            raise self._channel.console.error(f"the guest ended while {self._name} ran")
        return Completed(self._status, b"".join(self._said[STDOUT]), b"".join(self._said[STDERR]))

    def kill(self) -> None:
        """Kills the command and its process group; nothing happens if it has ended."""
        with suppress(GuestError):
            self._channel.send(Frame(lab_agent.KILL, self._number))

    def on_frame(self, frame: Frame) -> None:
        if frame.kind == EXIT:
            (self._status,) = lab_agent.STATUS.unpack(frame.payload)
            self._ended.set()
            return
        self._said[frame.kind].append(frame.payload)
        if self._on_output:
            self._on_output(frame.kind, frame.payload)

    def lose(self) -> None:
        self._ended.set()


class Channel:
    """Talks to the agent in the guest. Commands may be started from any thread."""

    def __init__(self, connection: socket.socket, console: Console) -> None:
        self.console = console
        self._socket = connection
        self._sending = threading.Lock()
        self._ready = threading.Event()
        self._lost = threading.Event()
        self._commands = 0
        self._running: dict[int, Running] = {}
        self._reader = threading.Thread(target=self._read, daemon=True, name="lab-agent")
        self._reader.start()

    def wait_ready(self, timeout: float) -> None:
        """Waits until the agent answers.

        Raises:
            GuestError: it did not within `timeout` seconds, or the guest ended.
        """
        deadline = time.monotonic() + timeout
        while not self._ready.wait(0.05):
            if self._lost.is_set():
                raise self.console.error("the guest ended while it booted")
            if time.monotonic() > deadline:
                raise self.console.error(f"the guest did not come up within {timeout:g} s")

    def expect_restart(self) -> None:
        """The agent will begin anew, because the guest boots: `wait_ready` waits for it. Commands end there, lost."""
        self._ready.clear()

    def lose_commands(self) -> None:
        """Nothing more will be heard of the commands that run: who waits for one gets an error."""
        for number in tuple(self._running):
            self._running.pop(number).lose()

    def launch(self, request: Request, on_output: OnOutput | None) -> Running:
        with self._sending:
            self._commands += 1
            number = self._commands
        running = self._running[number] = Running(self, number, request.argv, on_output)
        for frame in request.frames(number):
            self.send(frame)
        return running

    def send(self, frame: Frame) -> None:
        try:
            with self._sending:
                self._socket.sendall(frame.encode())
        except OSError as error:
            raise self.console.error(f"the guest is gone: {error}") from error

    def close(self) -> None:
        self._reader.join(5)
        self._socket.close()

    def _read(self) -> None:
        frames = FrameReader()
        try:
            while data := self._socket.recv(1 << 20):
                for frame in frames.feed(data):
                    self._on_frame(frame)
        except OSError:
            pass  # QEMU ended with data under way, or our own standard output, to which `run` relays, was closed
        finally:
            self._lost.set()
            self.lose_commands()

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind == lab_agent.READY:
            self.lose_commands()  # those of the boot before
            self._ready.set()
        elif running := self._running.get(frame.command):
            if frame.kind == EXIT:
                del self._running[frame.command]
            running.on_frame(frame)
