"""A small client of QEMU's machine protocol: one command at a time; events are kept until somebody waits for them."""

from __future__ import annotations

import json
import socket
import time


class QmpError(Exception):
    """QEMU refused a command, or did not answer in time."""


class Qmp:
    """A QMP session on a connected stream socket.

    Args:
        connection: the socket whose other end is QEMU's monitor; closed by `close`.
        timeout: seconds to wait for the greeting and for each answer.
    """

    def __init__(self, connection: socket.socket, timeout: float = 30) -> None:
        self._socket = connection
        self._timeout = timeout
        self._pending = b""
        self._events: list[dict[str, object]] = []

    def connect(self) -> None:
        """Reads the greeting and enters command mode.

        Raises:
            QmpError: no greeting came.
        """
        self._next(self._deadline(), "its greeting")
        self.command("qmp_capabilities")

    def command(self, name: str, /, **arguments: object) -> object:
        """QEMU's result of a command.

        Raises:
            QmpError: with QEMU's own description.
        """
        request = {"execute": name, "arguments": arguments}
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise QmpError(f"QEMU does not take {name}: {error}") from error
        deadline = self._deadline()
        while True:
            message = self._next(deadline, f"an answer to {name}")
            if "event" in message:
                self._events.append(message)
            elif "error" in message:
                raise QmpError(f"QEMU refused {name}({arguments}): {message['error']}")
            else:
                return message.get("return")

    def wait_event(self, name: str, timeout: float, **data: object) -> dict[str, object]:
        """Returns and drops the first event of that name whose data contain `data`; also an earlier one.

        Raises:
            QmpError: none came within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            for event in self._events:
                held = event.get("data")
                if event["event"] == name and isinstance(held, dict) and data.items() <= held.items():
                    self._events.remove(event)
                    return event
            message = self._next(deadline, f"the event {name} {data}")
            if "event" in message:
                self._events.append(message)

    def close(self) -> None:
        self._socket.close()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _next(self, deadline: float, pending_gates: str) -> dict[str, object]:
        while b"\n" not in self._pending:
            try:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._socket.recv(1 << 16)
            except OSError as error:
                raise QmpError(f"QEMU did not send {pending_gates}: {error}") from error
            if not data:
                raise QmpError(f"QEMU ended before it sent {pending_gates}")
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message
