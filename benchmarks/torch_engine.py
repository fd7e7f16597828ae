"""What the engines in torch share: loaders that only need a folder, and a quiet service."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from transformers.utils import logging

from benchmarks.engine_process import Loader, Translator, serve

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def loader_of(make: Callable[[Path], Translator]) -> Loader:
    """Load by `make`: threads are set for the whole process, and settings there are none."""

    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return make(folder)

    return load


def serve_with_torch(loaders: Mapping[str, Loader]) -> None:
    """Serve all contestants of an engine, with as many threads as the command line says."""
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(loaders)
