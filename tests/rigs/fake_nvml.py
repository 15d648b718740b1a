"""A libnvidia-ml.so.1 of ours (fake_nvml.c) and a host that has two GPUs with NVIDIA's driver."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rigs.absent import cannot_start

SOURCE = Path(__file__).with_name("fake_nvml.c")
NAME = "libnvidia-ml.so.1"
GPUS = ("0000:1b:00.0", "0000:1c:00.0")
BOOT_ID = "proc/sys/kernel/random/boot_id"
UNKNOWN_UUID = "????????-????-????-????-????????????"
INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
GPU UUID: \t GPU-{uuid}
Device Minor: \t {minor}
GPU Excluded:\t No
"""


def library(directory: Path) -> Path:
    """Compile it; the directory for LD_LIBRARY_PATH."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        cannot_start("no C compiler for a fake libnvidia-ml.so.1")
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(compiler), "-shared", "-fPIC", "-o", str(directory / NAME), str(SOURCE)], check=True)
    return directory


def host(root: Path, *, persistence: bool = True) -> Path:
    """A live root: the driver, its two GPUs on the bus, and the persistence daemon's socket.

    Without persistence nobody has opened a GPU, so the driver does not know their UUIDs.
    """
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n",
        "sys/module/nvidia/version": "550.54.15\n",
        BOOT_ID: Path(f"/{BOOT_ID}").read_text(),
        "proc/1/stat": "1 (init) S 0 1 1 0 -1\n",
    }
    for number, address in enumerate(GPUS):
        here = f"sys/bus/pci/devices/{address}"
        files |= {f"{here}/vendor": "0x10de\n", f"{here}/device": "0x2330\n", f"{here}/class": "0x030200\n"}
        files[f"proc/driver/nvidia/gpus/{address}/information"] = INFORMATION.format(
            uuid=f"00000000-0000-0000-0000-{number:012d}" if persistence else UNKNOWN_UUID, minor=number
        )
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    driver = root / "sys/bus/pci/drivers/nvidia"
    driver.mkdir(parents=True)
    for address in GPUS:
        (root / f"sys/bus/pci/devices/{address}/driver").symlink_to("../../drivers/nvidia")
    if persistence:
        (root / "run/nvidia-persistenced").mkdir(parents=True)
        (root / "run/nvidia-persistenced/socket").touch()
    return root


def answer(child: Path) -> dict[str, Any]:
    """What the child says with the library that its environment names."""
    said = subprocess.run([sys.executable, "-I", "-S", str(child)], check=True, capture_output=True, timeout=30)
    found = json.loads(said.stdout)
    assert isinstance(found, dict)
    return found
