"""The child that asks NVML: it prints one JSON object. It runs by itself (`python -I -S`), and imports nothing of ours.

NVML is a C library. It can hang in the kernel where a GPU is sick, and it can crash: in a child neither is ours. Names
and numbers are those of nvml.h. A function that this library lacks, or that the GPU does not support, tells nothing.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import CDLL, Structure, byref, c_char, c_int, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import Any

# In the order of the search. The second is where the GPU operator's driver container has it.
LIBRARIES = (
    "libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
)
SUCCESS, NOT_SUPPORTED, LIBRARY_NOT_FOUND, NOT_FOUND = 0, 3, 12, 6  # nvmlReturn_t
TEXT_BYTES = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE; others are shorter
UNCORRECTED, VOLATILE = 1, 0  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
MOST_GPUS = 64


class PciInfo(Structure):
    """nvmlPciInfo_t: `bus_id` is the address in the driver's words, with eight digits of the domain."""

    _fields_ = (
        ("legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    )


class FabricInfo(Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = (("cluster", c_ubyte * 16), ("status", c_int), ("clique", c_uint), ("state", c_ubyte))


class Library:
    """NVML. `call` gives the code of a function; 3 (not supported) for one that this library does not have."""

    def __init__(self, library: CDLL) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._library, name, None)
        return NOT_SUPPORTED if function is None else int(function(*arguments))

    def text(self, name: str, *before: Any) -> tuple[int, str | None]:
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        code = self.call(name, *before, buffer, c_uint(TEXT_BYTES))
        return code, buffer.value.decode(errors="replace") if code == SUCCESS else None

    def error(self, code: int) -> str:
        function = getattr(self._library, "nvmlErrorString", None)
        if function is None:
            return ""
        function.restype = ctypes.c_char_p
        said = function(code)
        return said.decode(errors="replace") if isinstance(said, bytes) else ""


def loaded() -> CDLL | str:
    """The library, or the loader's words about the first that it looked for: not there, or broken."""
    words = []
    for name in LIBRARIES:
        try:
            return CDLL(name)
        except OSError as error:
            words.append(str(error))
    return words[0]


def report() -> dict[str, Any]:
    """What NVML tells: `code` and `error` of its start, the driver's version, and each GPU."""
    library = loaded()
    if isinstance(library, str):
        return {"code": LIBRARY_NOT_FOUND, "error": library, "driver": None, "gpus": []}
    nvml = Library(library)
    code = nvml.call("nvmlInit_v2")
    if code != SUCCESS:
        return {"code": code, "error": nvml.error(code), "driver": None, "gpus": []}
    try:
        count = c_uint()
        code = nvml.call("nvmlDeviceGetCount_v2", byref(count))
        found = [gpu(nvml, index) for index in range(min(count.value, MOST_GPUS))] if code == SUCCESS else []
        driver = nvml.text("nvmlSystemGetDriverVersion")[1]
        return {"code": code, "error": nvml.error(code) if code else "", "driver": driver, "gpus": found}
    finally:
        nvml.call("nvmlShutdown")


def gpu(nvml: Library, index: int) -> dict[str, Any]:
    """One GPU; `code` is the first error that it gave, other than that it does not support something."""
    handle = c_void_p()
    code = nvml.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
    told: dict[str, Any] = {"index": index, "code": code, "error": nvml.error(code) if code else ""}
    if code != SUCCESS:
        return told
    codes = told["codes"] = []

    def number(kind: Any, name: str, *before: Any) -> int | None:
        value = kind()
        return value.value if noted(nvml.call(name, handle, *before, byref(value))) else None

    def noted(code: int) -> bool:
        if code not in (SUCCESS, NOT_SUPPORTED):
            codes.append(code)
        return code == SUCCESS

    place = PciInfo()
    if noted(nvml.call("nvmlDeviceGetPciInfo_v3", handle, byref(place))):
        told["address"] = place.bus_id.decode(errors="replace")
    told["uuid"] = nvml.text("nvmlDeviceGetUUID", handle)[1]
    rows = [c_uint() for _ in range(4)]  # corrected, uncorrected, is pending, a remapping failed
    if noted(nvml.call("nvmlDeviceGetRemappedRows", handle, *map(byref, rows))):
        told["remap_pending"], told["remap_failed"] = bool(rows[2].value), bool(rows[3].value)
    told["retired_pending"] = number(c_int, "nvmlDeviceGetRetiredPagesPendingStatus")
    ecc = (c_int(UNCORRECTED), c_int(VOLATILE))
    told["uncorrected"] = number(c_ulonglong, "nvmlDeviceGetTotalEccErrors", *ecc)
    told["slowed"] = number(c_ulonglong, "nvmlDeviceGetCurrentClocksThrottleReasons")
    told["persistence"] = number(c_int, "nvmlDeviceGetPersistenceMode")
    told |= mig(nvml, handle)
    fabric = FabricInfo()
    if noted(nvml.call("nvmlDeviceGetGpuFabricInfo", handle, byref(fabric))):
        told["fabric_state"], told["fabric_status"] = fabric.state, fabric.status
    if codes:
        told["code"], told["error"] = codes[0], nvml.error(codes[0])
    return told


def mig(nvml: Library, handle: c_void_p) -> dict[str, Any]:
    """Whether the GPU is split (MIG), and into how many devices."""
    current, pending, most = c_uint(), c_uint(), c_uint()
    if nvml.call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending)) != SUCCESS:
        return {}
    devices = 0
    if current.value and nvml.call("nvmlDeviceGetMaxMigDeviceCount", handle, byref(most)) == SUCCESS:
        one = c_void_p()
        codes = (
            nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index), byref(one))
            for index in range(min(most.value, MOST_GPUS))
        )
        devices = sum(code == SUCCESS for code in codes)
    return {"mig": bool(current.value), "mig_pending": bool(pending.value), "mig_devices": devices}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(report()))
