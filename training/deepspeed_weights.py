"""Weights kept by DeepSpeed: it cuts moments (ZeRO-1), gradients (2) or all (3) over processes.

The stage comes from `accelerate launch` (training/launch/deepspeed-zero2.yaml), all else from the
recipe. DeepSpeed is a package of its own: `pip install deepspeed`.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator, DeepSpeedPlugin
from torch import Tensor
from torch.nn import functional

from training.processes import add_up
from training.recipe import OptimizationSection
from training.weights import (
    MOMENTS,
    Collected,
    ExactWeights,
    Named,
    make_optimizer,
    no_moments,
)

NEVER = 10**9
# Where an engine keeps this process's float32 weights, by the stage of ZeRO.
PARTITIONS = dict.fromkeys((1, 2), "single_partition_of_fp32_groups")
PARTITIONS[3] = "fp32_partitioned_groups_flat"


class PartitionedWeights(ExactWeights):
    """A model in DeepSpeed's engine, which adds up gradients and takes the steps."""

    computes_in = torch.float32

    def __init__(self, model: Any, section: OptimizationSection, accelerator: Accelerator) -> None:
        if section.ema_decay:
            raise ValueError(
                "DeepSpeed keeps no moving average of the weights, got optimization.ema_decay="
                f"{section.ema_decay}: set it to 0, or launch with another configuration."
            )
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        self.section, self.accelerator, self.dtype = section, accelerator, self.computes_in
        self.ordinary = model.to("cpu")
        self._build()

    def backward(self, objective: Tensor, *, is_last: bool) -> None:
        # It averages gradients, and skips steps by them: what is not finite must be seen in them.
        factor = self.accelerator.num_processes if bool(objective.isfinite()) else torch.nan
        self.model.set_gradient_accumulation_boundary(is_last)
        self.model.backward(objective * factor)

    def step(self, rate: float, totals: list[Tensor]) -> Tensor:
        add_up(self.accelerator, totals)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.step()
        is_taken = self.model.was_step_applied()
        return torch.as_tensor(self.model.get_global_grad_norm() if is_taken else torch.inf)

    @contextmanager
    def whole_model(self) -> Iterator[Any]:
        from deepspeed.utils import safe_get_full_fp32_param as find

        with self.filled((name, find(one)) for name, one in self._named()) as model:
            yield model

    def collect(self) -> Collected:
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        moments = {
            key: self._kept(partial(safe_get_full_optimizer_state, optim_state_key=key))
            for key in MOMENTS
        }
        states = iter(self.optimizer.state.values())
        return Collected(self._kept(safe_get_full_fp32_param), moments, int(next(states)["step"]))

    def restore(self, saved: Collected) -> None:
        self.ordinary.load_state_dict(saved.weights, strict=False)  # tied ones are there once
        self.model.destroy()
        self._build(saved.steps)
        for name, one in self._named():
            self._set(one, saved.weights[name])
            for key in MOMENTS:
                self._set(one, saved.moments[key][name], key)

    def _build(self, steps: int = 0) -> None:
        """Make an engine from the ordinary model, whose optimizer has taken so many steps."""
        import deepspeed

        model = copy.deepcopy(self.ordinary).to(self.accelerator.device)
        self.optimizer = make_optimizer(list(model.parameters()), self.section)
        self.model, wrapper, _, _ = deepspeed.initialize(
            model=model,
            optimizer=self.optimizer,
            config=settings(self.section, self.dtype),
            dist_init_required=False,
        )
        for one in getattr(wrapper, PARTITIONS[self.model.zero_optimization_stage()]):
            self.optimizer.state[one] = no_moments(one)
            self.optimizer.state[one]["step"].fill_(steps)
        if hasattr(wrapper, "_lazy_init_hp_params_optimizer_state"):
            wrapper._lazy_init_hp_params_optimizer_state()  # or moments have no names until a step

    def _set(self, weight: Any, value: Tensor, *moment: str) -> None:
        """Change the float32 numbers of a weight, or a moment of it."""
        from deepspeed import utils

        value = value.flatten().to(self.accelerator.device)
        kind = "optimizer_state" if moment else "fp32_param"
        if not hasattr(weight, "ds_tensor"):
            getattr(utils, f"safe_set_full_{kind}")(weight, value, *moment)
            return
        # ZeRO-3 cuts each weight into equal parts, and would cut only what needs no filling up.
        length, processes = weight.ds_tensor.numel(), self.accelerator.num_processes
        parts = functional.pad(value, (0, length * processes - len(value))).split(length)
        part = parts[self.accelerator.process_index]
        getattr(utils, f"safe_set_local_{kind}")(weight, part, *moment)

    def _named(self) -> Iterator[tuple[str, Any]]:
        return iter(self.model.module.named_parameters())

    def _kept(self, find: Callable[[Any], Tensor]) -> Named:
        """Let all processes put every tensor together, and the main one keep it."""
        found = ((name, find(one)) for name, one in self._named())
        return {name: one.cpu() for name, one in found if self.accelerator.is_main_process}


class PartitionedWorkingCopy(PartitionedWeights):
    """The same in 16 bits; what is trained is float32."""

    computes_in = torch.bfloat16


def settings(section: OptimizationSection, dtype: torch.dtype) -> dict[str, Any]:
    """What DeepSpeed is told."""
    plugin = DeepSpeedPlugin()  # as accelerate launch describes it
    return {
        "zero_optimization": plugin.deepspeed_config["zero_optimization"],
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": section.max_gradient_norm,
        "bf16": {"enabled": dtype is torch.bfloat16},
        "communication_data_type": "fp32",
        # We divide losses ourselves, and say which piece is the last.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "steps_per_print": NEVER,
    }
