"""Which way of keeping weights a run takes: a table of launcher and precision."""

import os
import platform
from typing import Any

import torch
from accelerate import Accelerator

from training.deepspeed_weights import PartitionedWeights, PartitionedWorkingCopy
from training.recipe import OptimizationSection, Recipe
from training.sharded_weights import ShardedWeights, ShardedWorkingCopy
from training.weights import ExactWeights, WorkingCopy

# What `accelerate launch` says. It says so on processors too, where its own state passes it over.
LAUNCHED = {"fsdp": "ACCELERATE_USE_FSDP", "deepspeed": "ACCELERATE_USE_DEEPSPEED"}
SHORT = {"float32": "no", "bfloat16": "bf16"}  # as Accelerate calls precisions
UNSAID = ("", "no", "1", "auto")
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
    precision = precision_on(accelerator.device, section)
    model = model.to(accelerator.device).train()
    return WAYS[way_of_sharing(), precision](model, section, accelerator)


def precision_on(device: torch.device, section: OptimizationSection) -> str:
    """What a recipe's precision is on a device."""
    best = "bfloat16" if has_bfloat16(device) else "float32"
    return best if section.precision == "auto" else section.precision


def refuse_other_settings(recipe: Recipe) -> None:
    """Refuse what `accelerate launch` wants otherwise: here the recipe says how is computed."""
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    used = {
        "mixed_precision": SHORT[precision_on(device, recipe.optimization)],
        "gradient_accumulation_steps": str(recipe.batching.accumulation),
    }
    got = {name: os.environ.get(f"ACCELERATE_{name.upper()}", "").lower() for name in used}
    if others := [
        f"{name}={one} where the recipe has {used[name]}"
        for name, one in got.items()
        if one not in (*UNSAID, used[name])
    ]:
        raise ValueError(
            "Precision and accumulation are the recipe's, got from Accelerate "
            f"{' and '.join(others)}: leave them out there (ACCELERATE_..., or the file of "
            "`accelerate launch`) and set optimization.precision and batching.accumulation."
        )


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
