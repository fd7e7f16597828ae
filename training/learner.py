"""One step of training: a batch in, better weights out, or a reason why they stayed as they were."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training.objective import Batch, loss_of
from training.recipe import OptimizationSection
from training.schedule import Schedule
from training.weights import choose_weights

FIRST_SEED_OF_STEPS = 1_000_003  # steps of a run draw from seeds that no other purpose uses


@dataclass(frozen=True)
class Outcome:
    """What a step did."""

    loss: float  # cross-entropy of a target token, smoothed
    gradient_norm: float
    learning_rate: float
    is_finite: bool  # else the weights stayed as they were


class Learner:
    """A model, its optimizer and schedule, on one of several processes."""

    def __init__(
        self, model: Any, section: OptimizationSection, seed: int, accelerator: Any
    ) -> None:
        self.section, self.seed, self.accelerator = section, seed, accelerator
        self.weights = choose_weights(
            model.to(accelerator.device).train(), section.precision, accelerator.device
        )
        self.schedule = Schedule.of(section, model.config.d_model)
        self.optimizer = torch.optim.AdamW(
            self.weights.exact,
            lr=0.0,
            betas=(section.beta1, section.beta2),
            eps=section.epsilon,
            weight_decay=section.weight_decay,
            fused=True,
        )

    @property
    def model(self) -> Any:
        return self.weights.model

    def step(self, number: int, pieces: list[Batch], target_tokens: int) -> Outcome:
        """Learn from this process's pieces of a batch with so many target tokens in all."""
        loss = torch.zeros((), device=self.accelerator.device)
        for index, piece in enumerate(pieces):
            self._draw_from(number, index)
            objective, cross_entropy = loss_of(
                self.model, piece, target_tokens, self.section.r_drop
            )
            objective.backward()
            self.weights.gather()
            loss += cross_entropy
        return self._update(number, loss)

    def _update(self, number: int, loss: Tensor) -> Outcome:
        """Let all processes agree on gradients and loss, then take the step if both are finite."""
        gradients = self.weights.gradients()
        self._add_up([loss, *gradients])
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        rate = self.schedule.rate(number)
        is_finite = math.isfinite(float(loss)) and math.isfinite(float(norm))
        if is_finite and gradients:
            if self.section.max_gradient_norm:
                torch.nn.utils.clip_grads_with_norm_(
                    self.weights.exact, self.section.max_gradient_norm, norm
                )
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.weights.spread()
        self.weights.forget_gradients()
        return Outcome(float(loss), float(norm), rate, is_finite)

    def _draw_from(self, number: int, piece: int) -> None:
        """Dropout is a function of seed, step, process and piece: nothing to save, or to restore."""
        place = (self.accelerator.process_index << 10) + piece
        torch.manual_seed(hash((FIRST_SEED_OF_STEPS, self.seed, number, place)) & (2**63 - 1))

    def _add_up(self, tensors: list[Tensor]) -> None:
        """Sum over all processes, in as few messages as there are kinds of numbers."""
        if self.accelerator.num_processes == 1:
            return
        flat = torch.cat([one.flatten().float() for one in tensors])
        torch.distributed.all_reduce(flat)
        for one, total in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
            one.copy_(total.view_as(one))
