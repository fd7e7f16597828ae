"""What all loops train: a folder with the same sentence pairs, for each in the form that it reads.

`task.json` says how; this file's upper half needs nothing but Python itself, so that a toolkit's
own environment can read it.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
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


@dataclass(frozen=True)
class Prepared:
    """What is known of a folder that was prepared."""

    vocab_size: int
    sentences_per_batch: int  # this and the rest: of our batches
    target_tokens_per_batch: float
    padding: float


def task_for(prepared: Prepared, size: Any) -> Task:
    """Name the model of a size, with the vocabulary that there is."""
    return Task(
        vocab_size=prepared.vocab_size,
        d_model=size.d_model,
        ffn_dim=size.ffn_dim,
        layers=size.layers,
        heads=size.heads,
        sentences_per_batch=prepared.sentences_per_batch,
    )


def packed_texts() -> Iterator[tuple[str, str]]:
    """Name each text of the folder, and the packed file of the data that it comes from."""
    for part, language in product(("train", "val"), LANGUAGES):
        yield f"{part}.{language}", MULTI30K.format(part=part, language=language)


def missing_files(data: Path) -> list[str]:
    """Name the files that should be there and are not."""
    return [packed for _, packed in packed_texts() if not (data / packed).is_file()]


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
