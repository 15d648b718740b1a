"""The chaos on an agent, its environment and its files, besides the faults of its node."""

from __future__ import annotations

import signal
import uuid
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.chaos_agent import Process, Tell, now, pause
from tests.chaos_faults import Faults
from tests.chaos_rules import PLANTED_PART
from tests.rigs.netns import Node

PROFILE = "chaos"
CONFIG = """apiVersion: nodeprep.io/v1
kind: Config
mode: MODE
default: profile.yaml
gate: {profiles: ["*"]}
every: {sysctls: SYSCTLS, routes: 2, links: 2, imds: 15}
confirmation: {pass-span: SPAN, pass-every: STEP, records: {fails: 2, of: 2, apart: 1}}
"""
PROFILE_FILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: chaos
gates: [eni.up, cni.directory, cni.parse, cni.first, route.default, route.tables, route.out]
"""
BAD = ("{", "mode: gate\n", f"{CONFIG}typo: 1\n", "", "\x00\xff", "apiVersion: nodeprep.io/v2\nkind: Config\n")


class Deeds(Faults):
    """All deeds. `copies` are earlier state files."""

    def __init__(self, node: Node, agent: Process, rng: Random, tell: Tell, span: float) -> None:
        super().__init__(node, rng, tell)
        self.agent = agent
        self.span = span
        self.copies: list[bytes] = []
        self.boot_id = ""

    # Faults of the agent's environment.

    def full_disk(self) -> None:
        self.count("full disk")
        full = self.agent.memory / "filling"
        try:
            with full.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError:
            self.node_breaks_and_mends()
        finally:
            full.unlink(missing_ok=True)

    def read_only(self) -> None:
        self.count("read-only disk")
        state = f"{self.agent.place}/state"
        self.node.run("mount", "--bind", state, state)
        self.node.run("mount", "-o", "remount,bind,ro", state)
        try:
            self.node_breaks_and_mends()
        finally:
            self.node.run("umount", "-l", state)  # an agent that was started meanwhile has its lock there

    def node_breaks_and_mends(self) -> None:
        """A fault that must be remembered, and perhaps a death with it."""
        self.make()
        pause(self.rng.uniform(0, 4))
        if self.rng.random() < 0.5:
            self.mend()
        if self.rng.random() < 0.4:
            self.die()
        pause(self.rng.uniform(0, 2))

    def configuration(self) -> None:
        """An invalid configuration, then a valid one."""
        self.count("configuration")
        file = self.agent.place / "etc/config.yaml"
        for _ in range(self.rng.randint(0, 2)):
            bad = self.rng.choice(BAD)
            file.write_bytes(bad.encode("latin-1"))
            self.node_hears()
        if self.rng.random() < 0.2:
            file.unlink()
            self.node_hears()
        self.configure(file)
        self.node_hears()

    def configure(self, file: Path, mode: str = "") -> None:
        text = CONFIG.replace("MODE", mode or self.rng.choice(("gate", "observe", "repair")))
        text = text.replace("SYSCTLS", str(self.rng.randint(1, 5)))
        fresh = file.with_name("fresh")
        fresh.write_text(text.replace("SPAN", f"{self.span:g}").replace("STEP", f"{self.span / 3:g}"))
        fresh.rename(file)

    def node_hears(self) -> None:
        if self.rng.random() < 0.3:
            self.agent.send(signal.SIGHUP)
        pause(self.rng.uniform(0, 1))

    # Faults of the agent itself.

    def sleep(self) -> None:
        self.count("SIGSTOP")
        self.tell("stopping")
        self.agent.send(signal.SIGSTOP)
        for _ in range(self.rng.randint(0, 2)):
            (self.make if self.rng.random() < 0.5 else self.mend)()
        pause(self.rng.uniform(0, 6))
        self.agent.send(signal.SIGCONT)
        self.tell("continued")

    def die(self) -> None:
        """The agent is killed or stopped, something happens, and it is started again."""
        number = self.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        self.count(number.name)
        self.agent.end(number)
        if self.rng.random() < 0.7:
            gate = (self.no_gate,) if self._gate().exists() else (self.plant,)
            self.rng.choice((self.forget, self.older, self.rot, self.shift, self.boot, self.boot, *2 * gate))()
        for _ in range(self.rng.randint(0, 1)):
            (self.make if self.rng.random() < 0.5 else self.mend)()
        pause(self.rng.choice((0.0, 0.0, self.rng.uniform(0, 5))))
        if self.rng.random() < 0.05:
            self.bad_start()
        self._copy()
        self.agent.start()

    def bad_start(self) -> None:
        self.count("start with a bad configuration")
        file = self.agent.place / "etc/config.yaml"
        file.write_text(BAD[0])
        self.agent.refuses()
        self.configure(file)

    def die_proving(self) -> None:
        """Everything is mended, and the agent dies during its passes."""
        self.make()
        pause(self.rng.uniform(1, 3))
        self.mend_all()
        pause(self.rng.uniform(0, 4))
        self.die()

    def die_ready(self) -> None:
        """It dies while the gate is open."""
        self.mend_all()
        until = now() + self.span + 9.0
        while not self._gate().exists() and now() < until:
            pause(0.2)
        self.die()

    def die_deciding(self) -> None:
        """It is killed about when it convicts a fault and saves it."""
        self.make()
        pause(self.rng.uniform(0.3, 1.0))
        self.die()

    def _copy(self) -> None:
        file = self.agent.memory / "memory.json"
        if file.is_file() and not self.agent.tampered:
            self.copies = [*self.copies[-3:], file.read_bytes()]

    def _writable(self) -> bool:
        """Whether chaos can write to the disk. It may have filled the disk itself."""
        probe = self.agent.memory / "probe"
        with suppress(OSError):
            probe.write_bytes(bytes(1 << 16))
            probe.unlink()
            return True
        with suppress(OSError):
            probe.unlink(missing_ok=True)
        return False

    def _anew(self) -> None:
        """After this deed nothing proves the node any more."""
        self.agent.anew = True
        self.tell("proof-wanted")

    def forget(self) -> None:
        if self._writable():
            self.count("memory deleted")
            for directory in (self.agent.memory, self.agent.socket_directory):
                (directory / "memory.json").unlink(missing_ok=True)
            self.agent.tampered = False  # the damaged content is gone
            self._anew()

    def older(self) -> None:
        """An older copy of the state file. The gate file, if there is one, belongs to the newer."""
        if self.copies and self._writable():
            self.count("memory of before")
            (self.agent.socket_directory / "memory.json").unlink(missing_ok=True)
            (self.agent.memory / "memory.json").write_bytes(self.rng.choice(self.copies))
            self.agent.tampered = bool(self.agent.damage())  # this may have replaced a damaged one

    def rot(self) -> None:
        """Bytes flip."""
        files = [one / "memory.json" for one in (self.agent.memory, self.agent.socket_directory)]
        for file in filter(Path.is_file, files if self._writable() else ()):
            self.count("memory rotten")
            content = bytearray(file.read_bytes())
            for _ in range(self.rng.randint(1, 5)):
                content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
            file.write_bytes(content)
        if self.agent.damage():
            self.agent.tampered = True
            self._anew()

    def no_gate(self) -> None:
        gate = self._gate()
        if gate.exists() and not self.agent.believes_closed():
            self.count("gate file removed")
            gate.unlink()
            self._anew()

    def plant(self) -> None:
        """A forged gate file, of this boot or another."""
        gate = self._gate()
        if gate.exists() or not self.agent.believes_closed():
            return
        self.count("gate file planted")
        boot = self.rng.choice((self.boot_id, str(uuid.UUID(int=self.rng.getrandbits(128)))))
        rest = '"node_uid": "", "version": "0.1.0"'
        whole = gate.with_suffix(".planted")
        whole.write_text(f'{{"profile": "{PROFILE}", "stage": "ready", "boot_id": "{boot}", {rest}, {PLANTED_PART}}}\n')
        whole.rename(gate)  # who watches never sees half of it

    def shift(self) -> None:
        """The clock of the next start is another."""
        self.count("clock shifted")
        self.agent.offset = self.rng.choice((0, 5, 3600, 86400 * 400))

    def boot(self) -> None:
        """The node is booted: the directories in /run are empty, unless they are on a disk."""
        self.count("boot")
        self.set_boot()
        if self.rng.random() < 0.7:
            for directory in (self.agent.run_directory, self.agent.socket_directory):
                for one in directory.iterdir():
                    one.unlink()
        self.agent.offset = self.rng.choice((self.agent.offset, 0, 100, 3600))

    def set_boot(self) -> None:
        self.boot_id = str(uuid.UUID(int=self.rng.getrandbits(128)))
        (self.agent.place / "boot_id").write_text(f"{self.boot_id}\n")
        self.tell("boot", id=self.boot_id)
        self._anew()

    def _gate(self) -> Path:
        return self.agent.run_directory / f"{PROFILE}.ready"
