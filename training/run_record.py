"""All that a run's folder tells about the run, finished or not."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from training.recipe import Recipe, load_recipe
from vanilla_transformer.run_facts import CORPUS, LOG, RECIPE, read_log

Line = dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run as its files have it at one moment."""

    name: str
    recipe: Recipe
    corpus: str | None  # what the checks of the corpus found, once they are done
    lines: list[Line]
    written: float | None  # when the log got its last line, in seconds since 1970

    @cached_property
    def last_step(self) -> int:
        return max((line["step"] for line in self.lines), default=0)

    @cached_property
    def evaluations(self) -> list[Line]:
        return self.of("evaluation")

    @cached_property
    def best_evaluation(self) -> Line | None:
        """The evaluation that is best by what the recipe goes by; the first of equals."""
        by = self.recipe.evaluation.best_by
        sign = -1 if by == "loss" else 1
        scored = [one for one in self.evaluations if math.isfinite(number(one, by))]
        return max(scored, key=lambda one: sign * number(one, by), default=None)

    @property
    def samples(self) -> list[dict[str, str]]:
        """Sentences, and how the last evaluation that shows some translated them."""
        shown = [line for line in self.evaluations if line.get("samples")]
        return shown[-1]["samples"] if shown else []

    @property
    def result(self) -> Line | None:
        """The scores of what the run made, once it has come to its end."""
        results = self.of("result")
        return results[-1] if results else None

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end, and has not been sent further since."""
        return self.result is not None and self.result["step"] >= self.last_step

    def of(self, kind: str) -> list[Line]:
        """The lines of a kind, by rising steps."""
        return [line for line in self.lines if line["kind"] == kind]

    def curve(self, kind: str, name: str) -> tuple[list[int], list[float]]:
        """Steps, and what was logged there by this name; nan where it was not."""
        lines = self.of(kind)
        return [line["step"] for line in lines], [number(line, name) for line in lines]


def number(line: Line, name: str) -> float:
    """A number of a line; the log writes those that are not finite as text."""
    value = line.get(name)
    return math.nan if value is None else float(value)


def read_run(folder: Path) -> RunRecord:
    """Read a run's folder, also while the run is writing there."""
    if not (folder / RECIPE).is_file():
        raise ValueError(f"RUN must be a run's folder, which holds a {RECIPE}, got {folder}.")
    corpus, log = folder / CORPUS, folder / LOG
    return RunRecord(
        name=folder.resolve().name,
        recipe=load_recipe(folder / RECIPE),
        corpus=corpus.read_text(encoding="utf-8", errors="replace") if corpus.is_file() else None,
        lines=read_log(log),
        written=log.stat().st_mtime if log.is_file() else None,
    )
