"""What all loops train: a folder with the same sentence pairs, for each in the form that it reads.

`task.json` says how; this file's upper half needs nothing but Python itself, so that a toolkit's
own environment can read it.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MULTI30K = "multi30k/tok/{part}.lc.norm.tok.{language}.gz"
LANGUAGES = ("en", "de")
VOCABULARY = 10_000
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Task:
    """The model and how it is trained."""

    vocab_size: int
    d_model: int
    ffn_dim: int
    layers: int
    heads: int
    sentences_per_batch: int  # on average; for loops that count sentences
    batch_tokens: int = BATCH_TOKENS
    dropout: float = 0.3
    label_smoothing: float = 0.1
    peak_learning_rate: float = 2e-3
    warmup_steps: int = 100
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    seed: int = 1


def read_request() -> tuple[Path, Task, dict[str, Any]]:
    """Read a loop's command line: the folder, the task, the settings."""
    folder, task, settings = sys.argv[1:]
    return Path(folder), Task(**json.loads(task)), json.loads(settings)


def request(folder: Path, task: Task, settings: dict[str, Any]) -> list[str]:
    """Write a loop's command line."""
    return [str(folder), json.dumps(asdict(task)), json.dumps(settings)]


def read_pairs(folder: Path) -> tuple[list[list[int]], list[list[int]]]:
    """Read the token ids of sources and targets, the end of each sentence included."""
    sides = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
    return sides["source"], sides["target"]
