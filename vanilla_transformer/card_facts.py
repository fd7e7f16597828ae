"""What the maker of a model says about it: a YAML or JSON file of facts for the card.

Everything may be missing: a card has no section about what nobody said. Texts of several sentences
(summary, how_to_use, intended_use, limits, reproduce, citation) are Markdown without HTML, all
others plain.
"""

import math
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from .configuration_rules import refuse

TEXT, NUMBER = "a text", "a finite number"
ANY_NAME = "*"
RESULT = {
    **dict.fromkeys(("bleu", "chrf", "loss", "exact"), NUMBER),
    **dict.fromkeys(("bleu_signature", "chrf_signature"), TEXT),
}
FACTS: dict[str, Any] = {
    **dict.fromkeys(("title", "summary", "how_to_use", "intended_use", "limits"), TEXT),
    **dict.fromkeys(("reproduce", "citation"), TEXT),
    "languages": [TEXT],  # codes of source and target, as in ISO 639
    **dict.fromkeys(("license", "license_name", "license_link", "base_model"), TEXT),
    "tags": [TEXT],
    "datasets": [TEXT],  # names on the Hub
    "examples": [TEXT],  # sources; publishing translates them
    "failures": [{"source": TEXT, "expected": TEXT, "comment": TEXT}],  # translated likewise
    "training_data": [
        {"name": TEXT, "pairs": NUMBER, "license": TEXT, "url": TEXT, "attribution": TEXT}
    ],
    "test_sets": {
        ANY_NAME: dict.fromkeys(("title", "dataset", "config", "split", "url", "license"), TEXT)
    },
    "results": {ANY_NAME: RESULT},  # beside those of the run
    "carbon": {
        **dict.fromkeys(("kwh", "co2_kg", "hours"), NUMBER),
        **dict.fromkeys(("hardware", "region", "cost", "source"), TEXT),
    },
}
KINDS: dict[Any, str] = {list: "a list", dict: "names with values"}
IS_KIND: dict[str, Callable[[Any], bool]] = {
    TEXT: lambda value: isinstance(value, str) and bool(value.strip()),
    NUMBER: lambda value: type(value) in (int, float) and math.isfinite(value),
    KINDS[list]: lambda value: isinstance(value, list),
    KINDS[dict]: lambda value: isinstance(value, dict),
}
NEEDED = {"failures": "source", "training_data": "name"}


def read_facts(file: Path) -> dict[str, Any]:
    """Read and check a file of facts; JSON is YAML."""
    try:
        facts = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} must be YAML or JSON in UTF-8, got: {error}.") from error
    facts = {} if facts is None else facts
    refuse(f"{file}: {complaint}" for complaint in complaints_about(facts))
    return dict(facts)


def complaints_about(facts: Any) -> Iterator[str]:
    """All that is wrong with facts, by what they are and by what they need."""
    misshaped = [*_shape_complaints(facts, FACTS, "the facts")]
    yield from misshaped or _complaints_about_content(facts)


def _complaints_about_content(facts: dict[str, Any]) -> Iterator[str]:
    if len(facts.get("languages", "to")) != 2:
        yield f"languages must be source and target, got {facts['languages']}."
    if facts.get("license") == "other" and not {"license_name", "license_link"} <= facts.keys():
        yield "license 'other' needs a license_name and a license_link."
    for section, needed in NEEDED.items():
        for entry in facts.get(section, []):
            yield from () if needed in entry else [f"{section} needs a {needed}, got {entry}."]
    for name, result in facts.get("results", {}).items():
        for metric in {"bleu", "chrf"} & result.keys():
            if f"{metric}_signature" not in result:
                yield f"results.{name}.{metric} needs a {metric}_signature, as sacrebleu gives it."


def _shape_complaints(value: Any, shape: Any, where: str) -> Iterator[str]:
    """Say where a value is not what it should be, level by level."""
    kind = shape if isinstance(shape, str) else KINDS[type(shape)]
    if not IS_KIND[kind](value):
        yield f"{where} must be {kind}, got {value!r}."
    elif isinstance(shape, list):
        for number, one in enumerate(value, start=1):
            yield from _shape_complaints(one, shape[0], f"{where}, entry {number}")
    elif isinstance(shape, dict):
        yield from _complaints_about_names(value, shape, where)


def _complaints_about_names(
    value: dict[Any, Any], shape: dict[str, Any], where: str
) -> Iterator[str]:
    for name, one in value.items():
        inner = shape.get(ANY_NAME) or shape.get(name)
        place = str(name) if where == "the facts" else f"{where}.{name}"
        if inner is None:
            near = get_close_matches(str(name), shape, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(shape)}."
            yield f"{place} is no fact of a card: {hint}"
        else:
            yield from _shape_complaints(one, inner, place)
