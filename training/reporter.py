"""Tells how a run goes: a bar on the screen, lines in RUN/log.jsonl, figures for trackers."""

import logging
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from tqdm.auto import tqdm

from training.evaluation import Score
from training.learner import Outcome
from training.machine import describe_machine
from training.progress import Progress
from training.recipe import Recipe, flat
from training.run_log import RunLog
from vanilla_transformer.run_facts import LOG

logger = logging.getLogger(__name__)

PROJECT = "vanilla-transformer"
LIBRARIES = ("torch", "transformers", "accelerate", "tokenizers", "sacrebleu")


class Reporter:
    """Only the main process tells; the others keep silent."""

    def __init__(self, folder: Path, recipe: Recipe, accelerator: Accelerator) -> None:
        self.log, self.recipe, self.accelerator = RunLog(folder / LOG), recipe, accelerator
        self.is_main = accelerator.is_main_process
        self.losses: list[float] = []
        self.tokens, self.seconds = 0, 0.0
        self.bleu: float | None = None
        self.bar: Any = None
        if recipe.log.trackers:
            accelerator.init_trackers(PROJECT, config=settings_of(recipe))

    def start(self, progress: Progress, **facts: Any) -> None:
        """The run begins, or goes on after a step."""
        if not self.is_main:
            return
        self.log.forget_after(progress.step)
        self.log.append(
            "start",
            progress.step,
            time=time.time(),
            command=" ".join(sys.argv),
            versions={name: version(name) for name in LIBRARIES},
            processes=self.accelerator.num_processes,
            machine=describe_machine(),
            **facts,
        )
        section = self.recipe.optimization
        if section.warmup_steps >= section.max_steps:
            logger.warning(
                "optimization.warmup_steps (%s) should be below max_steps (%s): the learning rate "
                "never reaches its peak",
                *(f"{section.warmup_steps:,}", f"{section.max_steps:,}"),
            )
        self.bar = tqdm(
            total=self.recipe.optimization.max_steps,
            initial=progress.step,
            desc="training",
            unit=" steps",
            mininterval=1 if sys.stderr.isatty() else 30,
            dynamic_ncols=True,
        )

    def step(self, progress: Progress, outcome: Outcome, tokens: int, seconds: float) -> None:
        """One more step is done."""
        if not self.is_main:
            return
        if outcome.is_finite:
            self.losses.append(outcome.loss)
        self.tokens, self.seconds = self.tokens + tokens, self.seconds + seconds
        self.bar.update()
        if progress.step % self.recipe.log.every_steps == 0 and self.losses:
            self._tell_steps(progress, outcome)

    def _tell_steps(self, progress: Progress, outcome: Outcome) -> None:
        figures = {
            "loss": sum(self.losses) / len(self.losses),
            "learning_rate": outcome.learning_rate,
            "gradient_norm": outcome.gradient_norm,
            "tokens_per_second": self.tokens / self.seconds,
            "seconds": progress.seconds,
        }
        bleu = {} if self.bleu is None else {"BLEU": f"{self.bleu:.1f}"}
        speed = f"{figures['tokens_per_second']:,.0f}"
        told = {"loss": f"{figures['loss']:.3f}", **bleu, "tokens/s": speed}
        self.bar.set_postfix(told, refresh=False)
        self._tell("train", progress.step, figures, epoch=progress.place.epoch)
        self.losses, self.tokens, self.seconds = [], 0, 0.0

    def evaluation(self, progress: Progress, score: Score, **more: Any) -> None:
        """The model was looked at."""
        if not self.is_main:
            return
        self.bleu = score.bleu
        logger.info(
            "step %s, validation: loss %.3f, perplexity %.2f, BLEU %.2f, chrF %.2f, %.1f %% exact",
            f"{progress.step:,}",
            *(score.loss, score.perplexity, score.bleu, score.chrf, score.exact),
        )
        self._tell("evaluation", progress.step, score.figures(), **more)

    def skipped(self, progress: Progress, outcome: Outcome, pairs: list[int]) -> None:
        """A step was not taken: neither its loss nor its gradients may be infinite or no number."""
        if not self.is_main:
            return
        logger.warning(
            "step %d was skipped: its loss was %s and its gradient norm %s; its batch is in %s",
            *(progress.step, outcome.loss, outcome.gradient_norm, self.log.path),
        )
        figures = {"loss": outcome.loss, "gradient_norm": outcome.gradient_norm}
        self.log.append("skipped", progress.step, pairs=pairs, **figures)

    def result(self, progress: Progress, **told: Any) -> None:
        """The run is at its end: what its model is made of, and its scores."""
        if self.is_main:
            self.log.append("result", progress.step, **told)

    def close(self) -> None:
        """No more will be told."""
        if self.bar is not None:
            self.bar.close()
        if self.recipe.log.trackers:
            self.accelerator.end_training()

    def _tell(self, kind: str, step: int, figures: dict[str, Any], **more: Any) -> None:
        self.log.append(kind, step, **figures, **more)
        if self.recipe.log.trackers:
            numbers = {k: v for k, v in figures.items() if not isinstance(v, str)}
            self.accelerator.log({f"{kind}/{k}": v for k, v in numbers.items()}, step=step)


def settings_of(recipe: Recipe) -> dict[str, str | int | float]:
    """What a tracker takes: numbers, and all else as text."""
    values = flat(asdict(recipe)).items()
    return {name: one if isinstance(one, int | float) else str(one) for name, one in values}


def refuse_missing(trackers: tuple[str, ...]) -> None:
    """Name the trackers that are not installed."""
    if missing := [name for name in trackers if find_spec(name) is None]:
        names = " ".join(missing)
        raise ValueError(
            f"log.trackers must be installed, got {names} that are not: pip install {names}, or "
            "leave them out; RUN/log.jsonl and the report tell the same."
        )
