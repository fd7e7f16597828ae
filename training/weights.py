"""Where the trained numbers lie: in float32, and beside it a 16-bit copy where that is faster.

bfloat16 has 8 bits of precision: small steps would vanish in it. So the optimizer changes float32
weights, a copy of them in bfloat16 computes, and its gradients are gathered in float32.

Here every process has all weights; `sharded_weights` and `deepspeed_weights` keep a part in each.
What they collect is the same, whole tensors by name: a run may go on in another of these ways.
"""

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from training.processes import add_up
from training.recipe import OptimizationSection

Named = dict[str, Tensor]
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam remembers of each weight


@dataclass
class Collected:
    """All that training has made, by the names of the weights; empty but on the main process."""

    weights: Named
    moments: dict[str, Named]
    steps: int  # that the optimizer took


class ExactWeights:
    """A model that computes with the very weights that are trained, in each process."""

    def __init__(self, model: Any, section: OptimizationSection, accelerator: Accelerator) -> None:
        self.section, self.accelerator = section, accelerator
        self.model = model  # computes
        self.dtype: torch.dtype = model.dtype  # in which it does
        self.ordinary = model  # in float32: what is saved is one like it
        self.names = [name for name, one in model.named_parameters() if one.requires_grad]
        self.exact = self._trained_here()
        self.optimizer = make_optimizer(self.exact, section)
        for one in self.exact:  # there is something to save before the first step
            self.optimizer.state[one] = no_moments(one)

    def backward(self, objective: Tensor, *, is_last: bool) -> None:
        """Add the gradients of an objective to those of the exact weights.

        It is the last one before a step, or not.
        """
        objective.backward()

    def step(self, rate: float, totals: list[Tensor]) -> Tensor:
        """Add up some numbers, and the gradients, over all processes; returns the latter's norm.

        A step is taken if all of these are finite.
        """
        norm = self._agree(totals)
        if bool(torch.stack([*totals, norm]).isfinite().all()):
            self._update(rate, norm)
        self._forget_gradients()
        return norm

    def _agree(self, totals: list[Tensor]) -> Tensor:
        gradients = [one.grad for one in self.exact if one.grad is not None]
        add_up(self.accelerator, [*totals, *gradients])
        return torch.nn.utils.get_total_norm(gradients)

    def _update(self, rate: float, norm: Tensor) -> None:
        if most := self.section.max_gradient_norm:
            torch.nn.utils.clip_grads_with_norm_(self.exact, most, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.spread()

    def _forget_gradients(self) -> None:
        for one in self.exact:
            one.grad = None

    def spread(self) -> None:
        """After the exact weights changed: the model computes with what they are now."""

    @contextmanager
    def whole_model(self) -> Iterator[Any]:
        """A model with all the weights as they are now, for each process to look at alone."""
        self.spread()  # somebody may have put others in their place
        yield self.model

    def collect(self) -> Collected:
        """Bring it all to the main process, to be saved."""
        state = [self.optimizer.state[one] for one in self.exact]
        moments = {key: self.whole([one[key] for one in state]) for key in MOMENTS}
        return Collected(self.whole(self.exact), moments, int(state[0]["step"]))

    def restore(self, saved: Collected) -> None:
        """Go on with what was collected; here every process has all of it."""
        self.put(saved.weights, self.exact)
        for key in MOMENTS:
            self.put(saved.moments[key], [self.optimizer.state[one][key] for one in self.exact])
        for one in self.exact:
            self.optimizer.state[one]["step"].fill_(saved.steps)
        self.spread()

    @contextmanager
    def filled(self, whole: Iterable[tuple[str, Tensor]]) -> Iterator[Any]:
        """The ordinary model for a while with these weights, where and as the others compute."""
        self.ordinary.to(self.accelerator.device, self.dtype)
        weights = dict(self.ordinary.named_parameters())
        for name, one in whole:
            weights[name].data.copy_(one)
        yield self.ordinary
        self.ordinary.to("cpu", torch.float32)

    def whole(self, parts: list[Tensor]) -> Named:
        """Tensors that lie like the exact weights, whole and by name."""
        return dict(zip(self.names, (one.detach() for one in parts), strict=True))

    @torch.no_grad()
    def put(self, whole: Named, parts: list[Tensor]) -> None:
        """Fill tensors that lie like the exact weights."""
        for name, one in zip(self.names, parts, strict=True):
            one.copy_(whole[name])

    def _trained_here(self) -> list[Tensor]:
        """What the optimizer of this process changes, in the order of the names."""
        return [one for one in self.ordinary.parameters() if one.requires_grad]


class WorkingCopy(ExactWeights):
    """A model in 16 bits whose weights are made from float32 ones after every step."""

    def __init__(self, model: Any, section: OptimizationSection, accelerator: Accelerator) -> None:
        super().__init__(model, section, accelerator)
        self.dtype = torch.bfloat16
        self.model = copy.deepcopy(model).to(self.dtype)
        self.working = [one for one in self.model.parameters() if one.requires_grad]

    def backward(self, objective: Tensor, *, is_last: bool) -> None:
        objective.backward()
        self._gather()

    @torch.no_grad()
    def _gather(self) -> None:
        for working, exact in zip(self.working, self.exact, strict=True):
            if working.grad is None:
                continue
            if exact.grad is None:
                exact.grad = working.grad.to(exact.dtype)
            else:
                exact.grad.add_(working.grad)
            working.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        torch._foreach_copy_(self.working, self.exact)


def make_optimizer(weights: list[Tensor], section: OptimizationSection) -> torch.optim.AdamW:
    """Adam as the recipe wants it; its rate comes with every step."""
    return torch.optim.AdamW(
        weights,
        lr=0.0,
        betas=(section.beta1, section.beta2),
        eps=section.epsilon,
        weight_decay=section.weight_decay,
        fused=True,
    )


def no_moments(weight: Tensor) -> Named:
    """What Adam remembers before its first step."""
    moments = {key: torch.zeros_like(weight) for key in MOMENTS}
    return {"step": torch.zeros((), device=weight.device), **moments}
