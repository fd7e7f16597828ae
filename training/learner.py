"""One step of training: a batch in, better weights out, or a reason why they stayed the same."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.failures import naming_the_shape
from training.moving_average import MovingAverage
from training.objective import Batch, Objective
from training.placement import place_weights
from training.recipe import OptimizationSection
from training.saved_state import load_state, save_state
from training.schedule import Schedule
from training.weights import Collected, Named

SMALLER = "lower batching.source_tokens and target_tokens, or raise batching.accumulation"


@dataclass(frozen=True)
class Outcome:
    """What a step did, the same on every process."""

    loss: float  # cross-entropy of a target token, smoothed
    gradient_norm: float
    learning_rate: float
    is_finite: bool  # else the weights stayed as they were
    must_stop: bool  # some process was asked to


class Learner:
    """A model, its optimizer and schedule."""

    def __init__(
        self, model: Any, section: OptimizationSection, seed: int, accelerator: Accelerator
    ) -> None:
        self.seed, self.accelerator = seed, accelerator
        self.objective = Objective(model.config.label_smoothing, section.r_drop)
        self.num_parameters: int = model.num_parameters()
        self.schedule = Schedule.of(section, model.config.d_model)
        self.weights = place_weights(model, section, accelerator)
        self.average = (
            MovingAverage(self.weights.exact, section.ema_decay) if section.ema_decay else None
        )

    @property
    def dtype(self) -> torch.dtype:
        """The precision that it computes in."""
        return self.weights.dtype

    def step(
        self, number: int, pieces: list[Batch], target_tokens: int, must_stop: bool = False
    ) -> Outcome:
        """Learn from this process's pieces of a batch with so many target tokens in all."""
        total = torch.zeros((), device=self.accelerator.device)
        for index, piece in enumerate(pieces):
            self._draw_from(number, self.accelerator.process_index * len(pieces) + index)
            with naming_the_shape(piece["input_ids"], piece["labels"], SMALLER):
                loss, cross_entropy = self.objective(self.weights.model, piece, target_tokens)
                self.weights.backward(loss, is_last=index + 1 == len(pieces))
            total += cross_entropy
        return self._update(number, total, must_stop)

    def _update(self, number: int, loss: Tensor, must_stop: bool) -> Outcome:
        """Take a step with the gradients of all processes; none, if they or the loss are wrong."""
        stops = torch.tensor(float(must_stop), device=loss.device)
        rate = self.schedule.rate(number)
        norm = float(self.weights.step(rate, [loss, stops]))
        outcome = Outcome(
            loss=float(loss),
            gradient_norm=norm,
            learning_rate=rate,
            is_finite=math.isfinite(float(loss)) and math.isfinite(norm),
            must_stop=bool(stops > 0),
        )
        if outcome.is_finite and self.average:
            self.average.follow(number)
        return outcome

    def _draw_from(self, number: int, piece: int) -> None:
        """Dropout is a function of seed, step and piece: there is no generator to save."""
        drawn = np.random.SeedSequence([self.seed, number, piece]).generate_state(1, np.uint64)
        torch.manual_seed(int(drawn[0]))

    @contextmanager
    def best_weights(self) -> Iterator[Any]:
        """The model with the weights to be judged and used: their moving average, if there is one.

        It is in the precision that computes.
        """
        placed = self.average.in_place() if self.average else nullcontext()
        with placed, self.weights.whole_model() as model:
            yield model
        self.weights.spread()

    def collect(self) -> tuple[Collected, Named]:
        """All there is to save, and the moving averages, on the main process; all call this."""
        averages = self.weights.whole(self.average.averages) if self.average else {}
        return self.weights.collect(), averages

    def save(self, folder: Path, collected: tuple[Collected, Named]) -> None:
        """Write a folder that `from_pretrained` loads, and beside it what a resumed run needs."""
        saved, averages = collected
        if not all(bool(one.isfinite().all()) for one in saved.weights.values()):
            raise ValueError(
                "Weights must be finite to be saved, got some that are not: lower "
                "optimization.peak_learning_rate or raise warmup_steps; earlier checkpoints are "
                "finite and whole."
            )
        published = dict(averages or saved.weights)  # a copy: save_pretrained empties it
        self.weights.ordinary.save_pretrained(folder, state_dict=published)
        if averages:
            save_file(saved.weights, folder / "training" / "weights.safetensors")
        save_state({"steps": saved.steps, **saved.moments}, folder / "training" / "optimizer")

    def load(self, folder: Path) -> None:
        """Go on from such a folder, however its run shared the weights."""
        weights = load_file(folder / "model.safetensors")
        if self.average:
            self.weights.put(weights, self.average.averages)
            weights = load_file(folder / "training" / "weights.safetensors")
        moments = load_state(folder / "training" / "optimizer")
        self.weights.restore(Collected(weights, steps=moments.pop("steps"), moments=moments))
