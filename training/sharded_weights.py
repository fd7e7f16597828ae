"""Weights, gradients and moments cut into shards, one in each process (FSDP2).

A layer is put together while it computes and forgotten after it: larger models fit, and processes
talk more. The settings are those of `accelerate launch`, from training/launch/fsdp2.yaml.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from training.processes import add_up
from training.recipe import OptimizationSection
from training.weights import ExactWeights, Named


class ShardedWeights(ExactWeights):
    """A model whose processes each train their shard of every weight, in float32."""

    computes_in = torch.float32

    def __init__(self, model: Any, section: OptimizationSection, accelerator: Accelerator) -> None:
        plugin = FullyShardedDataParallelPlugin()  # as accelerate launch describes it
        refuse_other_settings(plugin)
        ordinary = copy.deepcopy(model).to("cpu")
        shard(model, self.computes_in, accelerator, plugin.reshard_after_forward)
        super().__init__(model, section, accelerator)
        self.ordinary, self.dtype = ordinary, self.computes_in

    def backward(self, objective: Tensor, *, is_last: bool) -> None:
        (objective * self.accelerator.num_processes).backward()  # FSDP averages gradients

    def _agree(self, totals: list[Tensor]) -> Tensor:
        for sharded, exact in zip(self._sharded(), self.exact, strict=True):
            gradient: Any = sharded.grad
            exact.grad = None if gradient is None else gradient.to_local()
        gradients = [one.grad for one in self.exact if one.grad is not None]
        squared = torch.nn.utils.get_total_norm(gradients).to(totals[0].device) ** 2
        add_up(self.accelerator, [*totals, squared])
        return squared.sqrt()

    def _forget_gradients(self) -> None:
        super()._forget_gradients()
        self.model.zero_grad()

    @contextmanager
    def whole_model(self) -> Iterator[Any]:
        with self.filled(self._each_whole(self.exact)) as model:
            yield model

    def whole(self, parts: list[Tensor]) -> Named:
        # All of them put every tensor together, and one keeps it.
        is_main = self.accelerator.is_main_process
        return {name: one.cpu() for name, one in self._each_whole(parts) if is_main}

    @torch.no_grad()
    def put(self, whole: Named, parts: list[Tensor]) -> None:
        for name, sharded, one in zip(self.names, self._sharded(), parts, strict=True):
            whole_one = whole[name].to(self.accelerator.device)
            cut = distribute_tensor(whole_one, sharded.device_mesh, sharded.placements)
            one.copy_(cut.to_local())

    def _trained_here(self) -> list[Tensor]:
        return [one.to_local().detach() for one in self._sharded()]

    def _sharded(self) -> list[DTensor]:
        return [one for one in self.model.parameters() if isinstance(one, DTensor)]

    def _each_whole(self, parts: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
        for name, sharded, part in zip(self.names, self._sharded(), parts, strict=True):
            yield name, _like(sharded, part.detach()).full_tensor()


class ShardedWorkingCopy(ShardedWeights):
    """The same, put together in 16 bits; gradients are added up in float32."""

    computes_in = torch.bfloat16


def shard(model: Any, dtype: torch.dtype, accelerator: Accelerator, reshards: bool) -> None:
    """Cut each layer that the model wants to stay together, and then what is left."""
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    # It warns of in-place operations on what a model returns; there are none.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    cut = partial(fully_shard, mesh=mesh, mp_policy=policy)
    for module in model.modules():
        if type(module).__name__ in model._no_split_modules:
            cut(module, reshard_after_forward=reshards)
    cut(model)


def refuse_other_settings(plugin: FullyShardedDataParallelPlugin) -> None:
    """Take only what is done here, rather than pass over the rest in silence."""
    offloads = isinstance(plugin.cpu_offload, CPUOffloadPolicy)
    wanted_and_got = {
        "fsdp_version": (2, plugin.fsdp_version),
        "fsdp_offload_params": (False, offloads),
        "fsdp_activation_checkpointing": (False, bool(plugin.activation_checkpointing)),
        # or `from_pretrained` leaves all processes but one without weights
        "fsdp_cpu_ram_efficient_loading": (False, bool(plugin.cpu_ram_efficient_loading)),
    }
    if others := [
        f"{name}={wanted}, got {got}"
        for name, (wanted, got) in wanted_and_got.items()
        if got != wanted
    ]:
        raise ValueError(
            f"Training with FSDP needs {'; '.join(others)}: begin with training/launch/fsdp2.yaml."
        )


def _like(sharded: DTensor, part: Tensor) -> DTensor:
    """This process's part of a tensor that is cut like another."""
    return DTensor.from_local(
        part,
        sharded.device_mesh,
        sharded.placements,
        run_check=False,
        shape=sharded.shape,
        stride=sharded.stride(),
    )
