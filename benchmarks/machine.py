"""What this machine is and can do: its description, its clocks, its memory, its GEMM peak."""

import multiprocessing
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
import transformers
from torch import Tensor

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# [rows, inputs, outputs]: a square one, and a feed-forward layer of the base model.
PEAK_SHAPES = [(2048, 2048, 2048), (2048, 512, 2048)]
PEAK_ROUNDS = 6
TOLD_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")


def cores() -> int:
    """Count the cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def clock_for(threads: int) -> Callable[[], float]:
    """Time one thread by CPU time, which a loaded machine hardly disturbs, more by wall time."""
    return time.process_time if threads == 1 else time.perf_counter


def high_water_mark() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # unlike ru_maxrss, this mark does not begin at that of the parent process
        return 1024 * int(re.findall(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _onednn_matmul(left: Tensor, right: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")


def _default_matmul(left: Tensor, right: Tensor) -> Tensor:
    return left @ right.T


def _ways_to_multiply(dtype: torch.dtype) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"torch": _default_matmul}
    if dtype is torch.float32 and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        ways["oneDNN"] = _onednn_matmul
    return ways


def measure_gemm_peaks(dtype: torch.dtype, clock: Callable[[], float]) -> dict[str, float]:
    """Return the best FLOP/s of each way to multiply large matrices of this precision."""
    peaks: dict[str, float] = {}
    for rows, inputs, outputs in PEAK_SHAPES:
        left = torch.randn(rows, inputs, dtype=dtype)
        right = torch.randn(outputs, inputs, dtype=dtype)
        for name, multiply in _ways_to_multiply(dtype).items():
            multiply(left, right)
            for _ in range(PEAK_ROUNDS):
                start = clock()
                multiply(left, right)
                speed = 2 * rows * inputs * outputs / (clock() - start)
                peaks[name] = max(peaks.get(name, 0.0), speed)
    return peaks


def run_alone(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a function in a fresh process: its threads, memory and settings are nobody else's."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as process:
        return process.submit(function, *args, **kwargs).result()


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if not information.is_file():
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", information.read_text(), re.MULTILINE))
    flags = set(fields.get("flags", "").split())
    told = [flag for flag in TOLD_FLAGS if flag in flags]
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.machine())} ({family}; {', '.join(told)})"


def describe_machine() -> str:
    """Say date, processor, cores and versions in one line."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return (
        f"{date.today().isoformat()}, {_processor()}, cores: {cores()}, {platform.system()}, "
        f"{versions}, transformers {transformers.__version__}"
    )
