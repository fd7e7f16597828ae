"""Our training loop: training/train.py itself, with progress bar and log, without evaluations."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from accelerate import Accelerator

from benchmarks.end_to_end_folder import recipe_for
from benchmarks.end_to_end_task import read_request
from benchmarks.turns import Step, Turns
from training.interruption import Interruption
from training.learner import Outcome
from training.loader import Work
from training.train import Run
from vanilla_transformer.steady_memory import keep_few_products, keep_freed_memory


class LearningTime:
    """A learner's step that notes its seconds: the rest of a run's is loading and logging."""

    def __init__(self, step: Callable[..., Outcome]) -> None:
        self.step, self.seconds = step, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Outcome:
        start = time.process_time()
        self.outcome = self.step(*args, **kwargs)
        self.seconds += time.process_time() - start
        return self.outcome


class ToldRun(Run):
    """A run that tells of every step, where it would see whether to evaluate or to save."""

    def listen(self, turns: Turns) -> None:
        self.turns, self.learning = turns, LearningTime(self.learner.step)
        self.learner.step = self.learning  # type: ignore[method-assign]  # called like the method
        self.before = time.process_time()

    def _step(self, work: Work, wants_to_stop: bool, began: float) -> bool:
        self.work = work
        return super()._step(work, wants_to_stop, began)

    def _look_and_save(self, stops: bool) -> None:
        others = time.process_time() - self.before - self.learning.seconds
        self.turns.done(Step(self.work.target_tokens, self.learning.outcome.loss, others))
        self.before, self.learning.seconds = time.process_time(), 0.0


def main() -> None:
    """Train for ever."""
    folder, task, settings = read_request()
    torch.set_num_threads(1)
    logging.disable()
    keep_few_products()
    keep_freed_memory()
    recipe = recipe_for(folder, task, settings["precision"])
    run = ToldRun(recipe, Path(mkdtemp(dir=folder)), Accelerator(cpu=True))
    run.listen(Turns())
    run.train(Interruption())


if __name__ == "__main__":
    main()
