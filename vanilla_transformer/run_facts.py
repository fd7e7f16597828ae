"""What the folder of a training run tells about the model in it: recipe, scores, curve, machine.

RUN/model is the model; beside it lie recipe.yaml, log.jsonl, results.json, corpus.txt, report.png.
A model that was carried off has at most its recipe. Nothing here needs the code that trains.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import yaml

from .stored_weights import digest_of_weights

MODEL, RECIPE, LOG, RESULTS = "model", "recipe.yaml", "log.jsonl", "results.json"
CORPUS, CURVES = "corpus.txt", "report.png"
SECTIONS = ("corpus", "batching", "optimization", "checkpoints")  # of which a card tells values
PAIRS = re.compile(r"^([\d,]+) training pairs, ([\d,]+) source and ([\d,]+) target tokens", re.M)
Facts = dict[str, Any]


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run; empty where nothing is."""

    recipe: Facts = field(default_factory=dict)
    results: dict[str, Facts] = field(default_factory=dict)  # by test set
    evaluations: list[Facts] = field(default_factory=list)  # on validation, by rising steps
    start: Facts = field(default_factory=dict)  # machine, processes, versions, precision
    averaged: list[int] = field(default_factory=list)  # steps of the checkpoints
    steps: int | None = None
    seconds: float | None = None  # of training alone
    pairs: tuple[str, ...] = ()  # training pairs, source tokens, target tokens
    curves: Path | None = None

    def get(self, *names: str) -> Any:
        """Look up a value of the recipe, level by level; None if it does not say."""
        value: Any = self.recipe
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def read_run_of(model: Path) -> RunFacts:
    """What the run behind a model folder tells: all if the folder lies in a finished run."""
    run, files = model.resolve().parent, (model / RECIPE, model.resolve().parent / RESULTS)
    if model.resolve().name != MODEL or not all(file.is_file() for file in files):
        return RunFacts(recipe=read_recipe(model / RECIPE))
    lines = read_log(run / LOG)
    result = next((line for line in reversed(lines) if line["kind"] == "result"), {})
    if result.get("weights") not in (None, digest_of_weights(model)):  # replaced since then
        return RunFacts(recipe=read_recipe(model / RECIPE))
    end = result.get("step", math.inf)
    of_this_model = [line for line in lines if line["step"] <= end]
    trained = [line for line in of_this_model if line["kind"] == "train"]
    corpus = run / CORPUS
    text = corpus.read_text(encoding="utf-8", errors="replace") if corpus.is_file() else ""
    pairs = PAIRS.search(text)
    return RunFacts(
        recipe=read_recipe(model / RECIPE),
        results=read_results(run / RESULTS),
        evaluations=[line for line in of_this_model if line["kind"] == "evaluation"],
        start=next((line for line in reversed(of_this_model) if line["kind"] == "start"), {}),
        averaged=result.get("averaged", []),
        steps=result.get("step"),
        seconds=trained[-1].get("seconds") if trained else None,
        pairs=pairs.groups() if pairs else (),
        curves=run / CURVES if (run / CURVES).is_file() else None,
    )


def read_log(file: Path) -> list[Facts]:
    """The lines of a log by rising steps; of one kind and step the last, for it was done again."""
    lines: dict[tuple[str, int], Facts] = {}
    for _, line in whole_lines(file) if file.is_file() else ():
        lines.pop((line["kind"], line["step"]), None)
        lines[line["kind"], line["step"]] = line
    return sorted(lines.values(), key=lambda line: line["step"])


def whole_lines(log: Path) -> Iterator[tuple[bytes, Facts]]:
    """Every line that is whole, as it stands in the file and as what it says.

    The last one is not where a run is just writing it, or was killed while it did.
    """
    for raw in log.read_bytes().split(b"\n")[:-1]:
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int) and "kind" in line:
            yield raw, line


def read_results(file: Path) -> dict[str, Facts]:
    """The scores by test set."""
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{file} must be JSON in UTF-8, got: {error}: restore it, or take it away."
        ) from error
    if not isinstance(results, dict) or not all(map(_are_scores, results.values())):
        raise ValueError(
            f"{file} must hold scores by test set, got {results!r}: restore it, or take it away."
        )
    return results


def _are_scores(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return not any(isinstance(one, dict | list) for one in value.values())


def read_recipe(file: Path) -> Facts:
    """A recipe that names files without the folders they lie in, which are nobody's business."""
    if not file.is_file():
        return {}
    try:
        recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} must be YAML in UTF-8, got: {error}.") from error
    misshaped = _misshaped(recipe) if isinstance(recipe, dict) else recipe
    if misshaped != {}:
        raise ValueError(
            f"{file} must hold the sections of a recipe, got {misshaped!r}: restore it, or take it "
            "away."
        )
    if isinstance(recipe.get("corpus"), dict):
        recipe["corpus"] = _without_folders(recipe["corpus"])
    return recipe


def _misshaped(recipe: Facts) -> Facts:
    """Sections that are none, and languages that are no text."""
    sections = {name: recipe[name] for name in SECTIONS if recipe.get(name) is not None}
    odd = {name: value for name, value in sections.items() if not isinstance(value, dict)}
    if "corpus" in sections and "corpus" not in odd:
        told = {f"corpus.{side}": sections["corpus"].get(side) for side in ("source", "target")}
        odd |= {name: value for name, value in told.items() if not isinstance(value, str | None)}
    return odd


def _without_folders(corpus: Facts) -> Facts:
    """The same with short names of places, as long as is needed to tell them apart."""
    places = {place for place in _texts_in(corpus) if is_local(place)}
    depths = range(1, 1 + max((len(parts_of(place)) for place in places), default=1))
    names = [{place: "/".join(parts_of(place)[-depth:]) for place in places} for depth in depths]
    telling = next((one for one in names if len({*one.values()}) == len(places)), names[0])
    return _renamed(corpus, telling)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(one)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def is_local(place: str) -> bool:
    """Whether a place means something on one machine only, as ../data/a.tsv does."""
    is_absolute = PurePosixPath(place).is_absolute() or PureWindowsPath(place).is_absolute()
    return is_absolute or place.startswith((".", "~"))


def parts_of(place: str) -> tuple[str, ...]:
    """Folders and file of a place, but none that only leads elsewhere: ../a/b.tsv -> a, b.tsv."""
    path = PureWindowsPath(place)  # which knows both kinds of slashes
    return tuple(part for part in path.parts if part not in (path.anchor, "..", "~"))
