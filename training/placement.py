"""Which way of keeping weights a run takes: a table of launcher and precision."""

import os
import platform
from typing import Any

import torch
from accelerate import Accelerator

from training.deepspeed_weights import PartitionedWeights, PartitionedWorkingCopy
from training.recipe import OptimizationSection
from training.sharded_weights import ShardedWeights, ShardedWorkingCopy
from training.weights import ExactWeights, WorkingCopy

# What `accelerate launch` says. It says so on processors too, where its own state passes it over.
LAUNCHED = {"fsdp": "ACCELERATE_USE_FSDP", "deepspeed": "ACCELERATE_USE_DEEPSPEED"}
X86 = ("x86_64", "AMD64")
WAYS: dict[tuple[str, str], type[ExactWeights]] = {
    ("replicated", "float32"): ExactWeights,
    ("replicated", "bfloat16"): WorkingCopy,
    ("fsdp", "float32"): ShardedWeights,
    ("fsdp", "bfloat16"): ShardedWorkingCopy,
    ("deepspeed", "float32"): PartitionedWeights,
    ("deepspeed", "bfloat16"): PartitionedWorkingCopy,
}


def place_weights(
    model: Any, section: OptimizationSection, accelerator: Accelerator
) -> ExactWeights:
    """The weights as launcher and recipe want them; `auto` is bfloat16 where hardware has it."""
    precision = section.precision
    if precision == "auto":
        precision = "bfloat16" if has_bfloat16(accelerator.device) else "float32"
    model = model.to(accelerator.device).train()
    return WAYS[way_of_sharing(), precision](model, section, accelerator)


def way_of_sharing() -> str:
    """How `accelerate launch` wants the weights to be shared."""
    said = [way for way, name in LAUNCHED.items() if os.environ.get(name, "").lower() == "true"]
    return said[0] if said else "replicated"


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 in hardware."""
    if device.type == "cpu" and platform.machine() in X86:
        # oneDNN takes bfloat16 wherever there is AVX-512, and is slow where it must imitate it.
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
