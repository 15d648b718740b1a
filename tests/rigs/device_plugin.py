"""A device plugin on a real node, whose devices do what a test says: the program of tests/rigs/controlplane."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Self

from tests.rigs.cluster_node import Node

SECRET = "hunter2-of-the-rig"  # what its Allocate tells each container, and no snapshot may keep


class DevicePlugin:
    """Serves one resource with the devices GPU-0 to GPU-N. Use it as a context manager: it has registered then.

    `flags` are more of the program's own (plugin.go).

    Raises:
        RuntimeError: it did not register, or does not understand a line; with its words.
    """

    def __init__(self, node: Node, resource: str, devices: int, *flags: str) -> None:
        words = ("--resource", resource, "--devices", str(devices), *flags)
        command = (*node.entering(), str(node.cluster.program), "device-plugin", *words)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Self:
        self._expect("registered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def say(self, line: str) -> None:
        """Returns when the plugin did it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._expect("done")

    def kill(self) -> None:
        """As kill -9 on it: its socket stays behind."""
        with self._process:
            self._process.kill()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != word:
            raise RuntimeError(f"the device plugin said {said!r}, not {word!r}")
