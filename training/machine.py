"""What a run runs on, in a line for its log."""

import os
import platform
import re
import sys
from pathlib import Path

import torch


def describe_machine() -> str:
    """Name processor, cores, memory, accelerators and system of this machine."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    told = [_field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()]
    told.append(f"{cores} cores" if cores > 1 else "1 core")
    memory = _field("/proc/meminfo", "MemTotal")
    if memory:
        told.append(f"{int(memory.split()[0]) / 2**20:.1f} GiB memory")
    told += [f"{devices.count(name)} x {name}" for name in dict.fromkeys(devices)]
    return ", ".join([*told, f"{platform.system()} {platform.release()}"])


def _field(file: str, name: str) -> str:
    """The first value of this name in one of Linux's files of facts; empty elsewhere."""
    path = Path(file)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(rf"^{name}\s*: *(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
