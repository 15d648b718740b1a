"""Starts QEMU for guests: the machine's parts, and a process that ends with ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import lab_agent, lab_emulator, lab_setup
from tests.rigs.lab_image import Image
from tests.rigs.lab_setup import Nic

MODEL = "Nehalem,+aes,+pclmulqdq,+rdrand"  # programs use AVX if it is there, and its emulation costs a tenth more
PRIORITY, LAST = -8, 19  # nice values: six times the usual share, and a sixty-eighth of it
# no_timer_check: without it, an emulated timer that is late at boot, on a busy machine, is a panic. Hardening and hang
# detection of a kernel are emulated too. With them a restore of the lab took half as long again.
KERNEL_WORDS = (
    *("console=ttyS0", "quiet", "no_timer_check", "net.ifnames=0", "printk.devkmsg=on", "mitigations=off"),
    *("init_on_alloc=0", "hardened_usercopy=off", "transparent_hugepage=never", "nowatchdog"),
)
# PR_SET_PDEATHSIG follows the thread that forked, not the process. So one thread, which lives as long as the process,
# starts every guest.
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab-launcher")


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts that differ between guests.

    Attributes:
        memory: MiB.
        disk: a raw image, /dev/vda in the guest. Its content outlives the guest. Without it there is no /dev/vda.
        enter: the words before QEMU's that enter a network namespace. The front end then reaches the servers there.
            Without them it reaches nothing.
        forwards: "address:port-address:port" pairs, of that namespace and of the front end, for incoming TCP.
        processors: emulated ones, see `board`.
    """

    memory: int = 2048
    disk: Path | None = None
    enter: tuple[str, ...] = ()
    forwards: tuple[str, ...] = ()
    processors: int = 1


def start(image: Image, machine: Machine, sockets: Mapping[str, int]) -> subprocess.Popen[bytes]:
    """Starts a machine whose `console`, `agent` and `qmp` are the given connected sockets; none of it is in a file."""
    return launch(command(image, machine, sockets), sockets)


def launch(words: Sequence[str], sockets: Mapping[str, int]) -> subprocess.Popen[bytes]:
    """Starts QEMU with a machine made of the parts below."""
    return _launcher.submit(spawn, words, tuple(sockets.values())).result()


def spawn(command: Sequence[str], descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Starts a session of its own. As root it gets priority: if an emulated machine waits, everything in it is late.

    Linux divides the processor between sessions, and by priority within each (sched(7), autogroup). Whoever runs us
    with SCHED_IDLE (`chrt --idle 0`) wants that nothing waits for us: then a guest gets no priority.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=descriptors, start_new_session=True)
    with suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_IDLE:
            Path(f"/proc/{process.pid}/autogroup").write_text(str(LAST))
            return process
        os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
        Path(f"/proc/{process.pid}/autogroup").write_text(str(PRIORITY))
    return process


def device(nic: str, mac: str) -> dict[str, object]:
    return {
        "driver": "virtio-net-pci",
        "id": nic,
        "netdev": f"net-{nic}",
        "mac": mac,
        "host_mtu": lab_setup.MTU,
        "speed": lab_setup.SPEED,
        "duplex": "full",
    }


def command(image: Image, machine: Machine, sockets: Mapping[str, int]) -> tuple[str, ...]:
    """The lab's machine: this machine's root and the kernel's modules over 9p. A reboot is its end."""
    told = {"LAB_IMAGE": image.directory, "LAB_PYTHON": sys.executable, "LAB_AGENT": lab_agent.__file__}
    for_init = ("panic=-1", *(f'"{name}={value}"' for name, value in told.items()))
    words = [*board(machine), "-no-reboot", *kernel(image.kernel, image.initramfs, for_init)]
    words += streams(sockets)
    for tag, path in (("root", Path("/")), ("modules", image.modules)):
        words += share(tag, path)
    words += slots(lab_setup.NICS, machine)
    if machine.disk:  # its content is thrown away with the test, so no write needs a flush
        words += drive(machine.disk)
    return tuple(words)


def board(machine: Machine) -> list[str]:
    """A q35 machine in software emulation: KVM in a virtual machine hangs before or during the guest's boot.

    It has one CPU, because two wait for each other if the host's cores are busy. Boot, one Python and ten programs took
    14 s of CPU with one and 27 to 40 s with two, on two shared cores. A node that is alone on this machine has two: the
    play of `link_up` took 47 s instead of 58.
    """
    words = ["setpriv", "--pdeathsig", "KILL", *machine.enter, *lab_emulator.words(), "-nodefaults", "-no-user-config"]
    words += ["-display", "none", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", MODEL]
    return [*words, "-smp", str(machine.processors), "-m", str(machine.memory)]


def kernel(image: Path, initramfs: Path, words: Sequence[str] = ()) -> list[str]:
    """What it boots, with more words for the kernel and for init."""
    return ["-kernel", str(image), "-initrd", str(initramfs), "-append", " ".join((*KERNEL_WORDS, *words))]


def streams(sockets: Mapping[str, int]) -> list[str]:
    """Its console, its channel for commands and QEMU's own monitor, on connected sockets."""
    words = []
    for name, descriptor in sockets.items():
        words += ["-chardev", f"socket,id={name},fd={descriptor}"]
    words += ["-serial", "chardev:console", "-mon", "chardev=qmp,mode=control"]
    return [
        *words,
        "-device",
        "virtio-serial-pci",
        "-device",
        f"virtserialport,chardev=agent,name={lab_agent.PORT_NAME}",
    ]


def share(tag: str, path: Path) -> list[str]:
    """A directory of this machine that the guest can mount over 9p and read."""
    shared = f"local,id={tag},path={escaped(path)},security_model=none,readonly=on,multidevs=remap"
    return ["-fsdev", shared, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def drive(image: Path, *, layered: bool = False) -> list[str]:
    """A virtio disk that never flushes. With `layered` the image stays as it is, and the writes end with QEMU."""
    fresh = ",snapshot=on" if layered else ""
    return ["-drive", f"file={escaped(image)},format=raw,if=virtio,cache=unsafe{fresh}"]


def slots(nics: Sequence[Nic], machine: Machine) -> list[str]:
    """The root ports, with these NICs behind theirs."""
    words = []
    for port in lab_setup.PORTS:
        address = f"addr=0x10.{port - 1},multifunction=on"
        words += ["-device", f"pcie-root-port,id=port{port},chassis={port},bus=pcie.0,{address}"]
    for nic in nics:
        words += nic_arguments(nic, machine)
    return words


def nic_arguments(nic: Nic, machine: Machine) -> list[str]:
    options = ",".join(f"{key}={value}" for key, value in device(nic.id, nic.mac).items())
    opened = nic is lab_setup.FRONT_END and bool(machine.enter)
    network = f"user,id=net-{nic.id},restrict={'off' if opened else 'on'},ipv6=off,net={nic.network}"
    network += "".join(f",hostfwd=tcp:{pair}" for pair in machine.forwards if opened)
    return ["-netdev", network, "-device", f"{options.removeprefix('driver=')},bus=port{nic.port}"]


def escaped(path: Path) -> str:
    """QEMU's options are separated by commas; one in a value is doubled."""
    return str(path).replace(",", ",,")
