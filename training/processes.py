"""What one of several processes does for all, and what all do together."""

from collections.abc import Callable
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor

Result = TypeVar("Result")


class MainProcessError(ValueError):
    """The main process failed, and says so itself."""


def on_main(accelerator: Accelerator, work: Callable[[], Result]) -> Result:
    """What `work` returns in the main process, for all; what it raises there, all raise."""
    error: Exception | None = None
    told: list[object] = [None, None]
    if accelerator.is_main_process:
        try:
            told[0] = work()
        except Exception as raised:
            error, told[1] = raised, str(raised)
    if accelerator.num_processes > 1:
        broadcast_object_list(told)
    if error:
        raise error
    if told[1] is not None:
        raise MainProcessError(told[1])
    return told[0]  # type: ignore[return-value]  # what the main process returned


def add_up(accelerator: Accelerator, tensors: list[Tensor]) -> None:
    """Let each be its sum over all processes, in one message."""
    if accelerator.num_processes == 1:
        return
    flat = torch.cat([one.flatten().float() for one in tensors])
    torch.distributed.all_reduce(flat)
    for one, total in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
        one.copy_(total.view_as(one))
