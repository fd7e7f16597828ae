"""The words and tables of a run's report, section by section."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from training.markup import Html, element, folded, joined, table, terms
from training.run_record import Line, RunRecord, number

NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "exact": "exact, %",
    "seconds": "time, s",
}  # others are what they are called
DIGITS = {"loss": 3, "seconds": 1, "gradient_norm": 3}  # of others two
UNITS = "BLEU, chrF: 0 to 100; loss: nats a target token"
NO_SCORES = ("kind", "step", "samples")
SHOWN_CHANGES = 12  # of one translation, from the first evaluation to the last
SHOWN_SKIPPED = 50
ATTENTION = "How much each word of the translation attends to each source word, head by head."


def heading(run: RunRecord) -> Html:
    """The run's name, how far it is, and its best."""
    return joined(
        [
            element("h1", run.name),
            element("p", f"{how_far(run)}{_as_of(run.written)}", class_="quiet"),
            _progress_bar(run),
            terms(dict(_key_figures(run)), class_="tiles"),
        ]
    )


def how_far(run: RunRecord) -> str:
    """Say it in a line: step 500 of 2,000, 10 min of training, about 30 min left."""
    step, steps = run.last_step, run.recipe.optimization.max_steps
    told = [f"step {step:,} of {steps:,}"]
    seconds = [one for one in run.curve("train", "seconds")[1] if math.isfinite(one)]
    if seconds:
        told.append(f"{_duration(seconds[-1])} of training")
    if run.is_finished:
        told.append("finished")
    elif seconds and step:
        told.append(f"about {_duration(seconds[-1] / step * (steps - step))} left")
    return ", ".join(told)


def results(run: RunRecord) -> Html:
    """The scores of what the run made."""
    result = run.result
    if result is None:
        return Html()
    steps = ", ".join(f"{step:,}" for step in result["averaged"])
    caption = f"Average of the checkpoints of steps {steps} ({UNITS})"
    if len(result["averaged"]) < 2:
        caption = f"Checkpoint of step {steps or format(result['step'], ',')} ({UNITS})"
    scores = result["scores"]
    columns = _score_names(scores.values())
    rows = [[name, *_row(one, columns)] for name, one in scores.items()]
    return joined(
        [
            element("h2", "Results"),
            table(caption, ["test set", *map(_name, columns)], rows, "numbers"),
            _signatures(scores.values()),
        ]
    )


def samples(run: RunRecord, maps: Mapping[str, str]) -> Html:
    """What the model wrote last, what it looked at, and how it came to write so."""
    shown = [line for line in run.evaluations if line.get("samples")]
    if not shown:
        return Html()
    last = shown[-1]
    pieces = [element("h2", f"Translations at step {last['step']:,}")]
    for sample in last["samples"]:
        pieces.append(terms(_sides(run, sample), class_="sample"))
        if source := maps.get(sample["source"]):
            picture = element("img", src=source, alt=ATTENTION, class_="map")
            pieces.append(folded("What it looks at", picture))
    changes = list(_thinned(_changes(shown, last["samples"][0]["source"])))
    if len(changes) > 1:
        rows = [(f"{step:,}", _in(run.recipe.corpus.target, text)) for step, text in changes]
        caption = "How the first of them came about"
        pieces.append(table(caption, ["step", "translation"], rows, "words"))
    return joined(pieces)


def evaluations(run: RunRecord) -> Html:
    """Every evaluation, in numbers."""
    if not run.evaluations:
        return element("p", "No evaluation yet.", class_="quiet")
    columns = _score_names(run.evaluations)
    rows = [
        [f"{one['step']:,}{' (best)' * (one is run.best_evaluation)}", *_row(one, columns)]
        for one in run.evaluations
    ]
    head = ["step", *map(_name, columns)]
    caption = f"Scores on validation ({UNITS}), best by {_name(run.recipe.evaluation.best_by)}"
    return folded(
        f"Evaluations: {len(rows):,}",
        table(caption, head, rows, "numbers"),
        _signatures(run.evaluations),
    )


def circumstances(run: RunRecord) -> Html:
    """What the run ran on, what went wrong, and all it takes to run it again."""
    corpus = run.corpus or "Not checked yet."
    return joined(
        [
            element("h2", "The run"),
            table("Where and how it ran", [], _facts(run), "words"),
            _skipped_steps(run),
            folded("The corpus", element("pre", corpus)),
            folded("The recipe", element("pre", run.recipe.to_yaml())),
        ]
    )


def _as_of(moment: float | None) -> str:
    return "" if moment is None else f" ({_moment(moment)})"


def _progress_bar(run: RunRecord) -> Html:
    if run.is_finished:
        return Html()
    steps = run.recipe.optimization.max_steps
    return element("progress", value=str(run.last_step), max=str(steps), aria_label="progress")


def _key_figures(run: RunRecord) -> Iterator[tuple[str, str]]:
    best = run.best_evaluation
    if best:
        for name in ("bleu", "chrf", "loss"):
            label = f"validation {_name(name)}, step {best['step']:,}"
            yield label, _figure(best, name)
    speeds = [one for one in run.curve("train", "tokens_per_second")[1] if math.isfinite(one)]
    if speeds:
        yield "target tokens/s", f"{statistics.median(speeds):,.0f}"
    starts = run.of("start")
    if starts and "parameters" in starts[-1]:
        yield "parameters", f"{starts[-1]['parameters']:,}"


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    """All that the last start told, in the order it did."""
    starts = run.of("start")
    resumed = ", ".join(f"{line['step']:,}" for line in starts[1:])
    if resumed:
        yield "resumed after step", resumed
    for name, value in starts[-1].items() if starts else ():
        if name == "time":
            yield "started", _moment(starts[0]["time"])
        elif name == "versions":
            yield name, ", ".join(f"{library} {version}" for library, version in value.items())
        elif name == "padding":
            yield name, f"{value:.1%} of all places in batches"
        elif name not in ("kind", "step"):
            yield name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)


def _skipped_steps(run: RunRecord) -> Html:
    skipped = run.of("skipped")
    if not skipped:
        return element("p", "No step was skipped.", class_="quiet")
    columns = _score_names(skipped)
    rows = [[f"{line['step']:,}", *_row(line, columns)] for line in skipped[-SHOWN_SKIPPED:]]
    caption = "Their numbers were not finite, so they changed nothing"
    if len(skipped) > SHOWN_SKIPPED:
        caption += f"; the last {SHOWN_SKIPPED}"
    head = ["step", *map(_name, columns)]
    return folded(f"Skipped steps: {len(skipped):,}", table(caption, head, rows, "numbers"))


def _sides(run: RunRecord, sample: dict[str, str]) -> dict[str, Html]:
    source, target = run.recipe.corpus.source, run.recipe.corpus.target
    return {
        "source": _in(source, sample["source"]),
        "reference": _in(target, sample["reference"]),
        "translation": _in(target, sample["translation"]),
    }


def _in(language: str, text: str) -> Html:
    """Text that a browser sets, and a screen reader reads, as of its language."""
    return element("span", text, lang=language, dir="auto")


def _changes(lines: list[Line], source: str) -> Iterator[tuple[int, str]]:
    """The steps at which the translation of a sentence was another than before, and what it was."""
    before = None
    for line in lines:
        for sample in line["samples"]:
            if sample["source"] == source and sample["translation"] != before:
                before = sample["translation"]
                yield line["step"], before


def _thinned(changes: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """So many as are read with pleasure, evenly, the first and the last among them."""
    every = list(changes)
    if len(every) <= SHOWN_CHANGES:
        return every
    apart = (len(every) - 1) / (SHOWN_CHANGES - 1)
    return [every[round(index * apart)] for index in range(SHOWN_CHANGES)]


def _score_names(lines: Iterable[Line]) -> list[str]:
    """The names of all numbers in some lines, in the order of their coming."""
    names = dict.fromkeys(name for line in lines for name in line)
    return [name for name in names if name not in NO_SCORES and not name.endswith("_signature")]


def _signatures(lines: Iterable[Line]) -> Html:
    """Under which conditions sacrebleu scored, each said once."""
    told = dict.fromkeys(
        (_name(name.removesuffix("_signature")), str(value))
        for line in lines
        for name, value in line.items()
        if name.endswith("_signature")
    )
    return joined(
        element("p", f"{name}: ", element("code", value), class_="quiet") for name, value in told
    )


def _row(line: Line, columns: list[str]) -> list[str]:
    return [_figure(line, name) for name in columns]


def _figure(line: Line, name: str) -> str:
    """A number as it is shown; a dash for none."""
    value = number(line, name)
    return f"{value:,.{DIGITS.get(name, 2)}f}" if math.isfinite(value) else "-"


def _name(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _duration(seconds: float) -> str:
    """Two units are enough: 5400 -> 1 h 30 min."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
