"""A Slurm cluster of one node, this machine: Debian's munged, slurmctld and slurmd in namespaces of their own.

Real here: the daemons, scontrol and srun. The node's name is that of the UTS namespace, and the ports are those of its
network namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.rigs.ending import ending
from tests.rigs.waiting import until

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
NAME = "gpu-17"
ADDRESS = "198.51.100.17"  # with none but the loopback's, getaddrinfo of slurmctld finds no family (AI_ADDRCONFIG)
NETWORK = f"""
hostname {NAME} && ip link set lo up && ip link add s0 type veth peer name s1 && ip address add {ADDRESS}/24 dev s0 &&
ip link set s0 up && ip link set s1 up && exec sleep infinity
"""
SCRIPTS = Path(__file__).resolve().parents[2] / "agent/host/slurm"
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={name}({address})
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=0
SelectType=select/linear
HealthCheckProgram={home}/bin/nodeprep-healthcheck
HealthCheckInterval={interval}
HealthCheckNodeState=ANY
Prolog={home}/bin/nodeprep-prolog
Epilog={home}/bin/nodeprep-epilog
PrologFlags=Alloc
NodeName={name} NodeAddr={address} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class CannotStart(Exception):
    """Slurm is not installed here, or this is not root."""


class Slurm:
    """The cluster. `interval` are the seconds between two health checks, 0 for none."""

    def __init__(self, home: Path, interval: int = 0) -> None:
        self.home, self.interval = home, interval
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pid = 0

    def __enter__(self) -> Self:
        try:
            self._boot()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _boot(self) -> None:
        missing = [one for one in ("munged", "slurmctld", "slurmd", "scontrol") if _program(one) is None]
        if missing or os.geteuid() != 0:
            raise CannotStart(f"root and {', '.join(PACKAGES)} are needed; missing: {', '.join(missing) or 'root'}")
        for name in ("munge", "state", "spool", "bin"):
            (self.home / name).mkdir()
        (self.home / "munge").chmod(0o755)
        for one in SCRIPTS.iterdir():
            shutil.copy(one, self.home / "bin")
        self.answers("echo 'here READY'; exit 0")
        conf = CONFIGURATION.format(name=NAME, home=self.home, interval=self.interval, address=ADDRESS)
        (self.home / "slurm.conf").write_text(conf)
        key = self.home / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        first = self._start("unshare", "--net", "--uts", "sh", "-c", NETWORK)
        self._pid = first.pid
        until(lambda: self.run("hostname").strip() == NAME, "the namespaces")
        files = {name: self.home / "munge" / name for name in ("socket", "pid", "log", "seed")}
        options = [f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in files.items()]
        self._inside("munged", "--foreground", "--force", f"--key-file={key}", *options)
        until(files["socket"].exists, "munge's socket")
        self._inside("slurmctld", "-D", "-f", str(self.home / "slurm.conf"))
        self._inside("slurmd", "-D", "-f", str(self.home / "slurm.conf"), "-N", NAME)
        until(lambda: self.state() == "IDLE", "an idle node")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            for name in ("slurmctld.log", "slurmd.log"):
                file = self.home / name
                print(f"{name}:\n{file.read_text()[-3000:] if file.exists() else 'none'}")
        for process in reversed(self._processes):
            process.terminate()
        self._stack.close()

    def answers(self, script: str, deadline: int = 100) -> None:
        """From now on `nodeprep` is this on the node. It has so many seconds, more than a busy machine takes."""
        program = self.home / "nodeprep"
        new = self.home / "nodeprep.new"
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(0o755)
        new.replace(program)
        where = self.home / "slurm.conf"  # slurmd tells it to prolog and epilog, and not to the health check
        settings = f"NODEPREP={program}\nNODEPREP_DEADLINE={deadline}\nexport SLURM_CONF={where}\n"
        (self.home / "bin/nodeprep-slurm.conf").write_text(settings)

    def judges(self, root: Path) -> None:
        """From now on `nodeprep` judges that tree."""
        own = Path(sys.executable).with_name("nodeprep")
        self.answers(f'exec {own} "$@" --root {root}')

    def run(self, *words: str, check: bool = True) -> str:
        """What a command on the node says."""
        environment = {**os.environ, "SLURM_CONF": str(self.home / "slurm.conf")}
        argv = ("nsenter", "-t", str(self._pid), "-n", "-u", *words)
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False, timeout=120)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def shown(self, key: str) -> str:
        """A value of `scontrol show node`, "" without one. slurmctld is asked until it answers: it is late at times."""
        text = until(self._node, "an answer of slurmctld")
        line = next((one for one in text.splitlines() if one.strip().startswith(f"{key}=")), "")
        value = line.strip().removeprefix(f"{key}=")
        return value.rpartition(" [")[0] if key == "Reason" else value.split(" ")[0]

    def _node(self) -> str:
        """What slurmctld says of the node, "" if it says nothing of it."""
        text = self.run("scontrol", "show", "node", NAME, check=False)
        return text if "State=" in text else ""

    def state(self) -> str:
        return self.shown("State")

    def _inside(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        program = _program(name)
        assert program is not None
        return self._start("nsenter", "-t", str(self._pid), "-n", "-u", program, *words)

    def _start(self, *argv: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self.home / "console.log").open("ab"))
        process = self._stack.enter_context(ending(subprocess.Popen(argv, stdout=log, stderr=log)))
        self._processes.append(process)
        return process


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


if __name__ == "__main__":
    if sys.argv[1:] != ["packages"]:
        sys.exit("usage: slurm.py packages")
    print(*PACKAGES)
