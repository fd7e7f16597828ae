"""The tables of a model's card: scores, curve, shape, recipe, data, and what it gets wrong."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .card_markup import NOTHING, code, link, number, plain, table

if TYPE_CHECKING:
    from .model_card import CardSubject

SHAPE = (
    *("d_model", "d_k", "d_v", "encoder_layers", "decoder_layers"),
    *("encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("activation_function", "attention_score", "attention_window", "position_encoding"),
    *("share_encoder_decoder_embeddings", "tie_word_embeddings", "vocab_size"),
    *("dropout", "attention_dropout", "activation_dropout", "label_smoothing"),
)
DECODING = (
    *("num_beams", "length_penalty_type", "length_penalty", "no_repeat_ngram_size"),
    *("max_extra_tokens", "max_length"),
)
RECIPE_SECTIONS = ("batching", "optimization", "checkpoints")
OF_THE_CORPUS = ("lowercase", "vocabulary_size", "max_length", "max_length_ratio")
SCORE_TITLES = {"bleu": "BLEU", "chrf": "chrF", "exact": "exact, %", "loss": "loss"}
CURVE_ROWS = 12
SECONDS_A_MINUTE, MINUTES_AN_HOUR = 60, 60


def tables_of(subject: "CardSubject") -> dict[str, str]:
    """Every table there is something for; "" for the others."""
    return {
        "scores": scores_table(subject),
        "signatures": signatures(subject),
        "curve": curve_table(subject.run.evaluations),
        "shape": two_columns("", values_of(subject.model.config, SHAPE)),
        "decoding": ", ".join(
            f"{code(name)} {plain(value)}"
            for name, value in values_of(subject.model.generation_config, DECODING)
        ),
        "recipe": two_columns("", recipe_rows(subject.run)),
        "data": data_table(subject.facts.get("training_data", [])),
        "examples": examples_table(subject),
        "failures": failures_table(subject),
    }


def two_columns(head: str, rows: list[tuple[str, Any]]) -> str:
    """Names and values."""
    return table([head, ""], [[code(name), plain(value)] for name, value in rows]) if rows else ""


def values_of(config: Any, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """What a configuration says by these names, where it says anything."""
    found = [(name, getattr(config, name, None)) for name in names]
    return [(name, value) for name, value in found if value is not None]


def recipe_rows(run: Any) -> list[tuple[str, Any]]:
    """The training's own values, defaults too."""
    learns_words = not run.get("corpus", "tokenizer")
    names = [name for name in OF_THE_CORPUS if name != "vocabulary_size" or learns_words]
    rows = [(f"corpus.{name}", run.get("corpus", name)) for name in names]
    for section in RECIPE_SECTIONS:
        values = run.get(section)
        rows += [(f"{section}.{k}", v) for k, v in (values or {}).items()]
    rows.append(("seed", run.get("seed")))
    return [(name, value) for name, value in rows if value is not None]


def scores_table(subject: "CardSubject") -> str:
    """A row for each test set."""
    test_sets = subject.facts.get("test_sets", {})
    columns = [m for m in SCORE_TITLES if any(m in scores for scores in subject.results.values())]
    licences = ["licence"] if any("license" in told for told in test_sets.values()) else []
    rows = []
    for name, scores in subject.results.items():
        told = test_sets.get(name, {})
        digits = {"loss": 3}
        cells = [number(scores.get(metric), digits.get(metric, 2)) for metric in columns]
        licence = [plain(told.get("license", NOTHING)) for _ in licences]
        rows.append([link(told.get("title", name), told.get("url")), *cells, *licence])
    head = ["test set", *(SCORE_TITLES[metric] for metric in columns), *licences]
    return table(head, rows, numbers=True) if rows else ""


def signatures(subject: "CardSubject") -> str:
    """How the scores were computed; test sets that agree share a line."""
    told: dict[tuple[str, str], list[str]] = {}
    for name, scores in subject.results.items():
        for metric in ("bleu", "chrf"):
            if signature := scores.get(f"{metric}_signature"):
                told.setdefault((SCORE_TITLES[metric], signature), []).append(name)
    lines = []
    for (metric, signature), names in told.items():
        where = "" if len(names) == len(subject.results) else f" ({plain(', '.join(names))})"
        lines.append(f"- {metric}{where}: {code(signature)}")
    return "\n".join(lines)


def curve_table(evaluations: list[dict[str, Any]]) -> str:
    """Some evaluations from the first to the last, evenly."""
    if not evaluations:
        return ""
    stride = max(1, math.ceil(len(evaluations) / CURVE_ROWS))
    shown = evaluations[::-stride][::-1]
    columns = [name for name in ("loss", "bleu", "chrf") if any(name in one for one in shown)]
    rows = [
        [number(one["step"]), *(number(one.get(m), 3 if m == "loss" else 2) for m in columns)]
        for one in shown
    ]
    return table(["step", *(SCORE_TITLES[name] for name in columns)], rows, numbers=True)


def data_table(data: list[dict[str, Any]]) -> str:
    """Corpora with their licences."""
    rows = [
        [
            link(one["name"], one.get("url")),
            number(one.get("pairs")),
            *(plain(one.get(name, NOTHING)) for name in ("license", "attribution")),
        ]
        for one in data
    ]
    return table(["corpus", "pairs", "licence", "attribution"], rows) if rows else ""


def examples_table(subject: "CardSubject") -> str:
    """Sentences, and what the model makes of them."""
    examples = subject.facts.get("examples", [])
    rows = [[plain(source), plain(subject.translate(source))] for source in examples]
    return table(["source", "translation"], rows) if rows else ""


def failures_table(subject: "CardSubject") -> str:
    """Sentences that it gets wrong, translated by the model itself."""
    failures = subject.facts.get("failures", [])
    columns = [name for name in ("expected", "comment") if any(name in one for one in failures)]
    rows = [
        [
            *(plain(one["source"]), plain(subject.translate(one["source"]))),
            *(plain(one.get(name, NOTHING)) for name in columns),
        ]
        for one in failures
    ]
    return table(["source", "translation", *columns], rows) if rows else ""


def describe_run(subject: "CardSubject") -> Iterator[str]:
    """A line for everything that is known of the training's course."""
    run, start, carbon = subject.run, subject.run.start, subject.facts.get("carbon", {})
    if run.pairs:
        yield "Learned from {} training pairs ({} source and {} target tokens).".format(*run.pairs)
    if run.steps is not None:
        yield f"{run.steps:,} steps{_duration(run.seconds)}{_where(start)}."
    if len(run.averaged) > 1:
        steps = ", ".join(f"{step:,}" for step in run.averaged)
        yield f"The weights are the average of the checkpoints of steps {steps}."
    if versions := start.get("versions"):
        told = ", ".join(f"{plain(name)} {plain(value)}" for name, value in versions.items())
        yield f"Versions: {told}."
    amounts = {
        "hours": "{} hours",
        "kwh": "{} kWh",
        "co2_kg": "{} kg of CO2",
        **dict.fromkeys(("hardware", "region", "cost", "source"), "{}"),
    }
    spent = [form.format(plain(carbon[name])) for name, form in amounts.items() if name in carbon]
    if spent:
        yield f"Carbon and cost, as its maker says: {', '.join(spent)}."


def _duration(seconds: Any) -> str:
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return ""
    minutes = round(seconds / SECONDS_A_MINUTE)
    hours, minutes = divmod(minutes, MINUTES_AN_HOUR)
    return f" in {hours} h {minutes} min" if hours else f" in {minutes} min"


def _where(start: dict[str, Any]) -> str:
    machine = f" on {plain(start['machine'])}" if start.get("machine") else ""
    precision = f", in {plain(start['precision'])}" if start.get("precision") else ""
    processes = start.get("processes", 1)
    return f"{machine}{f', {processes} processes' if processes != 1 else ''}{precision}"
