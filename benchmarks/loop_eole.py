"""eole's own training, in its own environment: batches of tokens, sentences of like length."""

import logging
from pathlib import Path
from typing import Any

import torch
from eole import train_single
from eole.config.run import TrainConfig
from eole.trainer import Trainer

from benchmarks.end_to_end_task import Task, read_request
from benchmarks.turns import Step, Turns

NEVER = 1_000_000  # steps


def configuration(folder: Path, task: Task, precision: str) -> dict[str, Any]:
    """Write the task in the words of eole."""
    vocabulary = str(folder / "words.vocabulary")
    return {
        "data": {
            "corpus": {
                "path_src": str(folder / "words.source"),
                "path_tgt": str(folder / "words.target"),
            }
        },
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "share_vocab": True,
        "src_vocab_size": task.vocab_size,
        "tgt_vocab_size": task.vocab_size,
        "vocab_size_multiple": 1,
        "seed": task.seed,
        "report_every": NEVER,
        "model": {
            "architecture": "transformer",
            "layers": task.layers,
            "heads": task.heads,
            "hidden_size": task.d_model,
            "transformer_ff": task.ffn_dim,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {
                "word_vec_size": task.d_model,
                "position_encoding_type": "SinusoidalInterleaved",
            },
        },
        "training": {
            "world_size": 0,
            "gpu_ranks": [],
            "model_path": str(folder / "eole"),
            "compute_dtype": precision,
            "batch_type": "tokens",
            "batch_size": task.batch_tokens,
            "batch_size_multiple": 1,
            "normalization": "tokens",
            "num_workers": 0,
            "optim": "adamw",
            "adam_beta1": task.beta1,
            "adam_beta2": task.beta2,
            "adam_eps": task.epsilon,
            "learning_rate": task.peak_learning_rate * (task.d_model * task.warmup_steps) ** 0.5,
            "decay_method": "noam",
            "warmup_steps": task.warmup_steps,
            "max_grad_norm": 0,
            "dropout": [task.dropout],
            "attention_dropout": [0.0],
            "label_smoothing": task.label_smoothing,
            "train_steps": NEVER,
            "valid_steps": NEVER,
            "save_checkpoint_steps": NEVER,
            "log_attention_entropy": False,
        },
    }


def tell(turns: Turns) -> None:
    """Let eole's trainer tell of every step."""
    step_of = Trainer._train_step

    def told_step(
        self: Any, batches: Any, normalization: Any, total: Any, report: Any, **kwargs: Any
    ) -> None:
        tokens, loss = total.n_tokens, total.loss
        step_of(self, batches, normalization, total, report, **kwargs)
        count = int(total.n_tokens - tokens)
        turns.done(Step(count, (total.loss - loss) / count))

    Trainer._train_step = told_step


def main() -> None:
    """Train for ever."""
    folder, task, settings = read_request()
    torch.set_num_threads(1)
    logging.disable()
    tell(Turns())
    train_single.main(TrainConfig(**configuration(folder, task, settings["precision"])), -1)


if __name__ == "__main__":
    main()
