"""Run a function in several gloo processes at once, as the tensor-parallel mixin asks."""

import os
import socket
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _run_rank(rank: int, world_size: int, port: int, function: Callable, arguments: tuple) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    try:
        function(rank, *arguments)
    finally:
        dist.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _spawn(function: Callable, world_size: int, *arguments: object) -> None:
    mp.spawn(_run_rank, args=(world_size, _free_port(), function, arguments), nprocs=world_size)


def run_distributed(world_size: int) -> Callable[[Callable], Callable]:
    """A rank that fails fails the caller: `run_distributed(world_size=2)(function)(*arguments)`."""
    return lambda function: partial(_spawn, function, world_size)
