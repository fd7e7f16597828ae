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
from training.objective import Batch, loss_of
from training.recipe import OptimizationSection
from training.saved_state import load_state, save_state
from training.schedule import Schedule
from training.weights import place_weights

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
    """A model, its optimizer and schedule; every process has one, and all weights in it."""

    def __init__(
        self, model: Any, section: OptimizationSection, seed: int, accelerator: Accelerator
    ) -> None:
        self.section, self.seed, self.accelerator = section, seed, accelerator
        self.weights = place_weights(model, section.precision, accelerator.device)
        self.schedule = Schedule.of(section, model.config.d_model)
        self.average = (
            MovingAverage(self.weights.exact, section.ema_decay) if section.ema_decay else None
        )
        self.options: dict[str, Any] = {
            "betas": (section.beta1, section.beta2),
            "eps": section.epsilon,
            "weight_decay": section.weight_decay,
        }
        self.optimizer = torch.optim.AdamW(self.weights.exact, lr=0.0, fused=True, **self.options)

    @property
    def model(self) -> Any:
        return self.weights.model

    def step(
        self, number: int, pieces: list[Batch], target_tokens: int, must_stop: bool = False
    ) -> Outcome:
        """Learn from this process's pieces of a batch with so many target tokens in all."""
        loss = torch.zeros((), device=self.accelerator.device)
        for index, piece in enumerate(pieces):
            self._draw_from(number, self.accelerator.process_index * len(pieces) + index)
            with naming_the_shape(piece["input_ids"], piece["labels"], SMALLER):
                objective, cross_entropy = loss_of(
                    self.model, piece, target_tokens, self.section.r_drop
                )
                objective.backward()
            self.weights.gather()
            loss += cross_entropy
        return self._update(number, loss, must_stop)

    def _update(self, number: int, loss: Tensor, must_stop: bool) -> Outcome:
        """Let all processes agree on gradients and loss, then take the step if both are finite."""
        gradients = self.weights.gradients()
        stops = torch.tensor(float(must_stop), device=loss.device)
        self._add_up([loss, stops, *gradients])
        norm = torch.nn.utils.get_total_norm(gradients)
        rate = self.schedule.rate(number)
        outcome = Outcome(
            loss=float(loss),
            gradient_norm=float(norm),
            learning_rate=rate,
            is_finite=math.isfinite(float(loss)) and math.isfinite(float(norm)),
            must_stop=bool(stops > 0),
        )
        if outcome.is_finite:
            self._take_step(number, rate, norm)
        self.weights.forget_gradients()
        return outcome

    def _take_step(self, number: int, rate: float, norm: Tensor) -> None:
        if most := self.section.max_gradient_norm:
            torch.nn.utils.clip_grads_with_norm_(self.weights.exact, most, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.average:
            self.average.follow(number)
        self.weights.spread()

    def _draw_from(self, number: int, piece: int) -> None:
        """Dropout is a function of seed, step and piece: there is no generator to save."""
        drawn = np.random.SeedSequence([self.seed, number, piece]).generate_state(1, np.uint64)
        torch.manual_seed(int(drawn[0]))

    def _add_up(self, tensors: list[Tensor]) -> None:
        """Sum over all processes, in one message."""
        if self.accelerator.num_processes == 1:
            return
        flat = torch.cat([one.flatten().float() for one in tensors])
        torch.distributed.all_reduce(flat)
        for one, total in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
            one.copy_(total.view_as(one))

    @contextmanager
    def best_weights(self) -> Iterator[Any]:
        """The model with the weights to be judged and used: their moving average, if there is one.

        It gives the model that computes.
        """
        with self.average.in_place() if self.average else nullcontext():
            self.weights.spread()
            yield self.weights.model
        self.weights.spread()

    def save(self, folder: Path) -> None:
        """Write a folder that `from_pretrained` loads, and beside it what a resumed run needs."""
        if not all(bool(one.isfinite().all()) for one in self.weights.exact):
            raise ValueError(
                "Weights must be finite to be saved, got some that are not: lower "
                "optimization.peak_learning_rate or raise warmup_steps; earlier checkpoints are "
                "finite and whole."
            )
        with self.average.in_place() if self.average else nullcontext():
            self.weights.trained.save_pretrained(folder)
        if self.average:
            save_file(self._named(), folder / "training" / "weights.safetensors")
        save_state(self.optimizer.state_dict(), folder / "training" / "optimizer")

    def load(self, folder: Path) -> None:
        """Go on from such a folder."""
        saved = load_file(folder / "model.safetensors")
        if self.average:
            self._copy(saved, self.average.averages)
            saved = load_file(folder / "training" / "weights.safetensors")
        self._copy(saved, self.weights.exact)
        self.weights.spread()
        self.optimizer.load_state_dict(load_state(folder / "training" / "optimizer"))
        for group in self.optimizer.param_groups:
            group.update(self.options)  # the recipe's, which may have changed

    def _named(self) -> dict[str, Tensor]:
        named = self.weights.trained.named_parameters()
        return {name: one.detach() for name, one in named if one.requires_grad}

    @torch.no_grad()
    def _copy(self, saved: dict[str, Tensor], weights: list[Tensor]) -> None:
        for name, one in zip(self._named(), weights, strict=True):
            one.copy_(saved[name])
