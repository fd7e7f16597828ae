"""`Seq2SeqTrainer` and MarianMT with the settings that train them fastest on a CPU.

Sentences of like length are grouped by the longer side of a pair (by the source alone, as Trainer
does unless told, 39 % of target positions would be padding, so 12 %), gradients are not clipped,
nothing is logged, and the collator does less than the library's own.
"""

from collections import deque
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import (
    MarianConfig,
    MarianMTModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)
from transformers.utils import logging

from benchmarks.batches import collate
from benchmarks.end_to_end_task import Task, read_pairs, read_request
from benchmarks.turns import Step, Turns

START = 1  # in place of the first target word


def build_model(task: Task, settings: dict[str, Any]) -> MarianMTModel:
    """Build MarianMT in the precision that its weights are kept in."""
    config = MarianConfig(
        vocab_size=task.vocab_size,
        decoder_vocab_size=task.vocab_size,
        d_model=task.d_model,
        encoder_layers=task.layers,
        decoder_layers=task.layers,
        encoder_attention_heads=task.heads,
        decoder_attention_heads=task.heads,
        encoder_ffn_dim=task.ffn_dim,
        decoder_ffn_dim=task.ffn_dim,
        dropout=task.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=START,
        eos_token_id=2,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        attn_implementation=settings["attention"],
    )
    torch.manual_seed(task.seed)
    return MarianMTModel(config).to(getattr(torch, settings["weights"]))


class Collator:
    """Pads a batch, and remembers its target tokens: Trainer fetches one ahead."""

    def __init__(self) -> None:
        self.target_tokens: deque[int] = deque()

    def __call__(self, sentences: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        batch = collate(sentences)
        self.target_tokens.append(int((batch["labels"] > 0).sum()))
        start = torch.full_like(batch["labels"][:, :1], START)
        shifted = batch["labels"][:, :-1].clamp(min=0)
        return batch | {"decoder_input_ids": torch.cat([start, shifted], dim=1)}


class Announcer(TrainerCallback):
    """Tells of every step."""

    def __init__(self, turns: Turns, trainer: "ToldTrainer") -> None:
        self.turns, self.trainer = turns, trainer

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        count = self.trainer.data_collator.target_tokens.popleft()
        self.turns.done(Step(count, float(self.trainer.latest_loss)))


class ToldTrainer(Seq2SeqTrainer):
    """Keeps the loss of the latest step, which Trainer only adds up."""

    latest_loss: Tensor

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        self.latest_loss = super().training_step(*args, **kwargs)
        return self.latest_loss


def arguments_for(task: Task, settings: dict[str, Any], folder: Path) -> Seq2SeqTrainingArguments:
    """Choose what the task says, and what is fastest where it says nothing."""
    return Seq2SeqTrainingArguments(
        output_dir=str(folder / "trainer"),  # stays empty
        max_steps=1_000_000,
        per_device_train_batch_size=task.sentences_per_batch,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        learning_rate=task.peak_learning_rate,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=task.warmup_steps,
        adam_beta1=task.beta1,
        adam_beta2=task.beta2,
        adam_epsilon=task.epsilon,
        optim="adamw_torch_fused",
        max_grad_norm=0.0,
        label_smoothing_factor=task.label_smoothing if settings["smoothed"] else 0.0,
        bf16=settings["autocast"],
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=task.seed,
    )


def main() -> None:
    """Train for ever."""
    folder, task, settings = read_request()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    sources, targets = read_pairs(folder)
    lengths = [
        max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)
    ]
    pairs = {"input_ids": sources, "labels": targets, "length": lengths}
    trainer = ToldTrainer(
        model=build_model(task, settings),
        args=arguments_for(task, settings, folder),
        train_dataset=Dataset.from_dict(pairs),
        data_collator=Collator(),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Announcer(Turns(), trainer))
    trainer.train()


if __name__ == "__main__":
    main()
