"""Writes a model's card: metadata for the Hub, and a text filled from what is known, no more.

The text is the template `model_card.md.jinja` beside this file. What is known is what the model
folder holds, its training run (`run_facts.py`) and what its maker says (`card_facts.py`).
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import is_jinja_available, validate_repo_id

from . import card_markup
from .card_tables import describe_run, tables_of
from .configuration_rules import refuse
from .run_facts import RunFacts, read_run_of
from .stored_weights import stored_tensors

TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
TAGS = ["translation", "vanilla-transformer", "attention-is-all-you-need"]
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,8})*")
LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
GRAMS_A_KILOGRAM = 1_000
DEFAULT_EXAMPLE = {"en": "Where is the train station?"}
HEAD = re.compile(r"\A\s*---\r?\n(.*?)\r?\n---\s*?(\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class CardSubject:
    """The model that a card is about."""

    model: Any
    name: str  # what it is loaded by: a repository
    facts: dict[str, Any]
    run: RunFacts
    translate: Callable[[str], str]

    @property
    def languages(self) -> list[str]:
        """Source and target, if anybody says."""
        told = [self.run.get("corpus", "source"), self.run.get("corpus", "target")]
        return self.facts.get("languages") or (told if all(told) else [])

    @property
    def title(self) -> str:
        title: str = self.facts.get("title") or self.name.rpartition("/")[2]
        return title

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Scores by test set; what the maker says adds to what the run found."""
        found, told = self.run.results, self.facts.get("results", {})
        return {name: {**found.get(name, {}), **told.get(name, {})} for name in {**found, **told}}

    @property
    def example(self) -> str | None:
        """A sentence to try."""
        source = (self.languages or [""])[0]
        examples: list[str | None] = self.facts.get("examples") or [DEFAULT_EXAMPLE.get(source)]
        return examples[0]


def make_card(subject: CardSubject) -> str:
    """The card as text; metadata that the Hub would not take are refused."""
    if not is_jinja_available():
        raise ImportError("A card needs Jinja2: pip install 'vanilla-transformer[hub]'.")
    card = ModelCard.from_template(
        metadata_of(subject),
        template_path=str(TEMPLATE),
        subject=subject,
        facts=subject.facts,
        run=subject.run,
        run_lines=list(describe_run(subject)),
        tables=tables_of(subject),
        silent_about=", ".join(silent_about(subject)),
        **{name: getattr(card_markup, name) for name in ("plain", "prose", "code", "literal")},
    )
    text = re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n"
    refuse(complaints_about_card(text))
    return text


def write_card_of(model: Any, repository: str, *, is_as_loaded: bool = True) -> str:
    """The card of a model in memory; of a run only if its weights are still that run's result."""
    folder = Path(model.name_or_path or ".")
    is_result = is_as_loaded and holds_weights_of(folder, model)
    run = read_run_of(folder) if is_result else RunFacts()
    return make_card(CardSubject(model, name=repository, facts={}, run=run, translate=str))


def holds_weights_of(folder: Path, model: Any) -> bool:
    """Whether a folder's weights are all of the model's: not once it is trained further."""
    state, seen = model.state_dict(), set()
    for name, then in stored_tensors(folder):
        now = state.get(name)
        if now is None or not torch.equal(now.cpu(), then.to(now.dtype)):
            return False
        seen.add(name)
    return bool(seen) and state.keys() - seen <= {*model.all_tied_weights_keys}


def metadata_of(subject: CardSubject) -> ModelCardData:
    """What the Hub searches by and shows beside the card."""
    facts, scores = subject.facts, [*evaluations_of(subject)]
    more: dict[str, Any] = {"co2_eq_emissions": emissions_of(subject)}
    if facts.get("examples"):
        more["widget"] = [{"text": example} for example in facts["examples"]]
    return ModelCardData(
        language=subject.languages or None,
        license=facts.get("license"),
        license_name=facts.get("license_name"),
        license_link=facts.get("license_link"),
        base_model=facts.get("base_model"),
        library_name="transformers",
        pipeline_tag="translation",
        tags=[*TAGS, *facts.get("tags", [])],
        datasets=facts.get("datasets"),
        metrics=[metric for metric in METRICS if any(one.metric_type == metric for one in scores)]
        or None,
        model_name=subject.title if scores else None,
        eval_results=scores or None,
        **{name: value for name, value in more.items() if value},
    )


def evaluations_of(subject: CardSubject) -> Iterator[EvalResult]:
    """Every score that is a number, with the test set and the signature that make it one."""
    task = "Translation " + "-".join(subject.languages) if subject.languages else "Translation"
    for name, scores in subject.results.items():
        test_set = subject.facts.get("test_sets", {}).get(name, {})
        split = "validation" if name == "validation" else "test"
        for metric, metric_name in METRICS.items():
            score, signature = scores.get(metric), scores.get(f"{metric}_signature")
            if isinstance(score, int | float) and math.isfinite(score):
                yield EvalResult(
                    task_type="translation",
                    task_name=task,
                    dataset_type=test_set.get("dataset", slug(name)),
                    dataset_name=test_set.get("title", name),
                    dataset_config=test_set.get("config"),
                    dataset_split=test_set.get("split", split),
                    metric_type=metric,
                    metric_name=metric_name,
                    metric_value=round(score, 2),
                    metric_args={"signature": signature} if signature else None,
                )


def emissions_of(subject: CardSubject) -> dict[str, Any]:
    """The Hub's own form for carbon, if the maker knows how much it was."""
    carbon = subject.facts.get("carbon", {})
    if "co2_kg" not in carbon:
        return {}
    told = {
        "emissions": carbon["co2_kg"] * GRAMS_A_KILOGRAM,
        "source": carbon.get("source"),
        "training_type": "fine-tuning" if subject.facts.get("base_model") else "pre-training",
        "geographical_location": carbon.get("region"),
        "hardware_used": carbon.get("hardware") or subject.run.start.get("machine"),
    }
    return {name: value for name, value in told.items() if value is not None}


def silent_about(subject: CardSubject) -> Iterator[str]:
    """What a reader would want to know and nobody has said."""
    for section, name in (
        ("license", "licence"),
        ("intended_use", "intended use"),
        ("limits", "limits"),
        ("failures", "failures"),
        ("training_data", "training data"),
        ("carbon", "carbon"),
    ):
        if not subject.facts.get(section):
            yield name
    if not subject.results:
        yield "quality"


def complaints_about_card(text: str) -> Iterator[str]:
    """What the Hub would not take of a card's metadata, found without asking it."""
    head = HEAD.match(text)
    if head is None:
        yield "A card must begin with metadata between two lines of ---, got none."
        return
    try:
        data = ModelCardData(**(yaml.safe_load(head[1]) or {}))
        kept: Any = yaml.safe_load(data.to_yaml())
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
        yield f"A card's metadata must be readable, got: {' '.join(str(error).split())}."
        return
    yield from _complaints_about_names(kept)
    for result in data.eval_results or []:
        if not isinstance(result.metric_value, int | float | str):
            yield f"A score must be a number, got {result.metric_value!r} for {result.metric_type}."


def _complaints_about_names(data: dict[str, Any]) -> Iterator[str]:
    languages, licenses = (listed(data.get(name)) for name in ("language", "license"))
    for language in languages:
        if not (isinstance(language, str) and LANGUAGE.fullmatch(language)):
            yield f"A card's language must be a code such as de, got {language!r}."
    for name in licenses:
        if not (isinstance(name, str) and LICENSE.fullmatch(name)):
            yield f"A card's license must be a name such as apache-2.0, got {name!r}."
    for section in ("datasets", "base_model"):
        for name in listed(data.get(section)):
            try:
                validate_repo_id(name)
            except HFValidationError:
                yield f"A card's {section} must be names on the Hub, got {name!r}."


def listed(value: Any) -> list[Any]:
    """What may be one or several, as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def slug(name: str) -> str:
    """A name as an identifier: Tatoeba (test) -> tatoeba-test."""
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._") or "unnamed"
