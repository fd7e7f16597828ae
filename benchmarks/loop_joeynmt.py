"""JoeyNMT's own training: in its own environment, and in float32, the one precision it has on CPUs.

It draws sentences at random, without regard to their lengths.
"""

import logging
import math
from pathlib import Path
from typing import Any

import torch
from joeynmt.config import parse_global_args
from joeynmt.prediction import prepare
from joeynmt.training import TrainManager

from benchmarks.end_to_end_task import Task, read_request
from benchmarks.turns import Step, Turns

NEVER = 1_000_000  # steps


def stack(task: Task) -> dict[str, Any]:
    """Describe encoder or decoder; its dropout is that of attention and feed-forward too."""
    return {
        "type": "transformer",
        "num_layers": task.layers,
        "num_heads": task.heads,
        "embeddings": {"embedding_dim": task.d_model, "scale": True, "dropout": task.dropout},
        "hidden_size": task.d_model,
        "ff_size": task.ffn_dim,
        "dropout": task.dropout,
        "layer_norm": "post",
    }


def side(name: str, folder: Path) -> dict[str, Any]:
    """Describe a language, whose words come ready."""
    return {
        "lang": name,
        "level": "word",
        "voc_file": str(folder / "words.vocabulary"),
        "max_length": 1000,
    }


def configuration(folder: Path, task: Task) -> dict[str, Any]:
    """Write the task in the words of JoeyNMT."""
    return {
        "name": "benchmark",
        "model_dir": str(folder),
        "use_cuda": False,
        "random_seed": task.seed,
        "data": {
            "train": str(folder / "words"),
            "dev": str(folder / "words"),
            "dataset_type": "plain",
            "src": side("source", folder),
            "trg": side("target", folder),
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack(task),
            "decoder": stack(task),
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [task.beta1, task.beta2],
            "normalization": "tokens",
            "label_smoothing": task.label_smoothing,
            "scheduling": "warmupinversesquareroot",
            "learning_rate": task.peak_learning_rate,
            "learning_rate_warmup": task.warmup_steps,
            "learning_rate_min": 0.0,
            "batch_size": task.sentences_per_batch,
            "batch_type": "sentence",
            "epochs": NEVER,
            "logging_freq": NEVER,
            "validation_freq": NEVER,
        },
        "testing": {},
    }


def entropy(task: Task) -> float:
    """Say by how much a cross-entropy with smoothed labels is larger than their divergence."""
    smoothing = task.label_smoothing
    each = smoothing / (task.vocab_size - 2)
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(each)


class ToldManager(TrainManager):
    """Tells of every step when the next one begins, for its loop has no other place."""

    turns: Turns
    entropy: float  # of the smoothed labels, which its Kullback-Leibler divergence leaves out
    latest: Step | None = None

    def _train_step(self, batch: Any) -> tuple[float, int]:
        if self.latest:
            self.turns.done(self.latest)
        loss, correct = super()._train_step(batch)
        self.latest = Step(int(batch.ntokens), loss + self.entropy)
        return loss, correct


def main() -> None:
    """Train for ever."""
    folder, task, _ = read_request()
    torch.set_num_threads(1)
    logging.disable()
    args = parse_global_args(configuration(folder, task), mode="train")
    model, train, dev, _ = prepare(args, rank=0, mode="train")
    manager = ToldManager(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=args.test,
    )
    manager.entropy = entropy(task)
    manager.turns = Turns()
    manager.train_and_validate(train_data=train, valid_data=dev)


if __name__ == "__main__":
    main()
