"""Writes a comparison for people, as a table, or for programs, as JSON."""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version

from . import __version__
from .model_comparison import Task
from .significance import Comparison, Score

SIGNIFICANT = 0.05
LIBRARIES = ("sacrebleu", "torch", "transformers")


def write_table(_: Task, comparison: Comparison) -> str:
    """A row for each system, then how the scores were computed."""
    rows = [["system", *comparison.scores]]
    for number, name in enumerate(comparison.systems):
        rows.append([name, *(_cell(scores[number]) for scores in comparison.scores.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.append("")
    if len(comparison.systems) > 1:
        lines.append(f"p: of the difference from {comparison.systems[0]}; *: below {SIGNIFICANT}")
    lines.append(f"±: 95 % confidence, {comparison.num_sentences:,} sentences")
    lines += [f"{name}: {signature}" for name, signature in comparison.signatures.items()]
    return "\n".join(lines)


def _cell(score: Score) -> str:
    cell = f"{score.score:.2f} ± {score.confidence:.2f}"
    if score.p_value is None:
        return cell
    return f"{cell} (p = {score.p_value:.4f}){'*' * (score.p_value < SIGNIFICANT)}"


def write_json(task: Task, comparison: Comparison) -> str:
    """All numbers unrounded, the first system's p-values null."""
    systems = [
        {
            "system": name,
            "scores": {
                metric: asdict(scores[number]) for metric, scores in comparison.scores.items()
            },
        }
        for number, name in enumerate(comparison.systems)
    ]
    versions = {"python": platform.python_version(), "vanilla-transformer": __version__}
    versions |= {library: version(library) for library in LIBRARIES}
    content = {
        **asdict(task),
        "num_sentences": comparison.num_sentences,
        "systems": systems,
        "signatures": comparison.signatures,
        "versions": versions,
    }
    return json.dumps(content, ensure_ascii=False, indent=2, default=str)


FORMATS: dict[str, Callable[[Task, Comparison], str]] = {
    "text": write_table,
    "json": write_json,
}
