"""The whole step of `transformers.Trainer`: loader, autocast, clipping, optimizer, callbacks."""

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from benchmarks.batches import Pair, Sentences, collate, make_sentences
from benchmarks.comparison import LEARNING_RATE, Round, check_precision
from benchmarks.contestants import CONTESTANTS, Size

TURNS = 3


class StepClock(TrainerCallback):
    """Notes the time at the end of every step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.times.append(self.clock())


def collate_batch(batches: list[Sentences]) -> dict[str, Tensor]:
    """Pad the one batch that the loader hands over."""
    return collate(batches[0])


def step_seconds(
    name: str, size: Size, batches: list[Sentences], is_bf16: bool, clock: Callable[[], float]
) -> float:
    """Train a fresh contestant on two batches and time the step on the second."""
    step_clock = StepClock(clock)
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=len(batches),
            per_device_train_batch_size=1,  # the data set is one of ready batches
            train_sampling_strategy="sequential",
            learning_rate=LEARNING_RATE,
            optim="adamw_torch_fused",
            bf16=is_bf16,
            use_cpu=True,
            dataloader_pin_memory=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=CONTESTANTS[name](size),
            args=arguments,
            train_dataset=batches,
            data_collator=collate_batch,
            callbacks=[step_clock],
        )
        trainer.remove_callback(PrinterCallback)  # stdout is for the tables
        trainer.train()
    start, end = step_clock.times
    return end - start


def time_trainer_rounds(
    names: list[str],
    size: Size,
    batches: list[list[Pair]],
    is_bf16: bool,
    clock: Callable[[], float],
) -> list[Round]:
    """Let all train in turns on the first batch, to warm up, and then on one that is timed."""
    warm_up, *timed = batches
    rounds = []
    for pairs in timed[:TURNS]:
        ready = [make_sentences(some, size.vocab_size) for some in (warm_up, pairs)]
        seconds = {}
        for name in names:
            check_precision()
            seconds[name] = step_seconds(name, size, ready, is_bf16, clock)
        rounds.append(Round(pairs, seconds))
    return rounds
