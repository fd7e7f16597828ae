"""A recipe is all that makes a training run what it is: one YAML file, read into frozen dataclasses.

Defaults live here and nowhere else. Unknown keys are refused with the nearest known one, values are
checked before anything else starts, and `--set section.key=value` changes one value of a file.
"""

import difflib
import types
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

LONGEST = 2**16 - 1  # tokens of a sentence
LARGEST_WEIGHT = 1_000.0


def _refuse(rule: str, value: object) -> None:
    raise ValueError(f"{rule}, got {value!r}.")


Removal = Literal["drop", "refuse"]
Policy = Literal["keep", "drop", "refuse"]


@dataclass(frozen=True)
class TrainingCorpus:
    """One corpus: a file, two aligned text files, a dataset, or `numbers:train`."""

    places: tuple[str, ...]
    weight: float = 1.0  # 2: an epoch reads it twice; 0.5: every other pair, by chance

    def __post_init__(self) -> None:
        if not self.places:
            _refuse("corpus.train.places must name a file or a dataset", self.places)
        if not 0 < self.weight <= LARGEST_WEIGHT:
            _refuse(
                f"corpus.train.weight must be above 0 and at most {LARGEST_WEIGHT:g}", self.weight
            )


@dataclass(frozen=True)
class CorpusChecks:
    """What happens to training rows that look wrong; all are counted, whatever happens to them."""

    invalid_utf8: Removal = "refuse"  # most often the whole file is in another encoding
    unreadable: Removal = "drop"  # broken JSON, no tab, no text in one of the languages
    empty: Removal = "drop"  # one side or both
    untranslated: Policy = "keep"  # both sides are the same text
    overlap: Policy = "drop"  # a side is that of a validation or test pair
    duplicates: Policy = "keep"  # both sides are those of an earlier pair
    over_long: Removal = "drop"  # a side has more than corpus.max_length tokens
    length_ratio: Policy = "drop"  # one side has corpus.max_length_ratio times the other's tokens


@dataclass(frozen=True)
class CorpusSection:
    """What is read, in which languages, and what happens to pairs that look wrong."""

    train: tuple[TrainingCorpus, ...]
    validation: tuple[str, ...]
    tests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = "en"
    target: str = "de"
    lowercase: bool = False
    tokenizer: str | None = None  # a folder or a name on the Hub; None: one is learned from `train`
    vocabulary_size: int = 10_000  # of a learned tokenizer, source and target together
    max_length: int = 256  # tokens of a side, the end included
    max_length_ratio: float = 9.0
    checks: CorpusChecks = CorpusChecks()

    def __post_init__(self) -> None:
        if not self.train:
            _refuse("corpus.train must name at least one corpus", self.train)
        if self.source == self.target or not (self.source and self.target):
            _refuse("corpus.source and target must be two languages", (self.source, self.target))
        if not 2 <= self.max_length <= LONGEST:
            _refuse(f"corpus.max_length must be from 2 to {LONGEST:,}", self.max_length)
        if not self.max_length_ratio >= 1:
            _refuse("corpus.max_length_ratio must be at least 1", self.max_length_ratio)


@dataclass(frozen=True)
class BatchingSection:
    """How many tokens a step learns from, on all processes together."""

    source_tokens: int = 4096
    target_tokens: int = 4096
    accumulation: int = 1  # parts that a step is made of
    bucket_width: int = 0  # tokens by which lengths in a batch may differ; 0: one sorted order
    workers: int = 0

    def __post_init__(self) -> None:
        for name in ("source_tokens", "target_tokens", "accumulation"):
            if getattr(self, name) < 1:
                _refuse(f"batching.{name} must be at least 1", getattr(self, name))


@dataclass(frozen=True)
class OptimizationSection:
    """Adam and the schedule of 5.3, and what is added for small corpora."""

    max_steps: int = 100_000
    warmup_steps: int = 4_000
    peak_learning_rate: float | None = None  # None: the paper's, d_model ** -0.5 * warmup ** -0.5
    cooldown_steps: int = 0  # at the end, linearly to zero
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    max_gradient_norm: float = 0.0  # 0: gradients are not clipped
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    bpe_dropout: float = 0.0
    r_drop: float = 0.0  # weight of the term that draws two passes together (Liang et al., 2021)
    ema_decay: float = 0.0  # 0: no moving average of the weights

    def __post_init__(self) -> None:
        if self.warmup_steps < 1 or self.max_steps < 1:
            _refuse("optimization.max_steps and warmup_steps must be at least 1", self)
        if not 0 <= self.cooldown_steps <= self.max_steps:
            _refuse("optimization.cooldown_steps must be from 0 to max_steps", self.cooldown_steps)
        for name in ("bpe_dropout", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                _refuse(f"optimization.{name} must be from 0 to below 1", getattr(self, name))


@dataclass(frozen=True)
class EvaluationSection:
    """How often the model is looked at, and what counts as better."""

    every_steps: int = 1_000
    num_beams: int = 4
    length_penalty: float = 0.6
    tokenize: str = "13a"  # sacrebleu's; "none" for text that is tokenized already
    best_by: Literal["loss", "bleu", "chrf"] = "loss"
    patience: int = 0  # evaluations without anything better after which to stop; 0: never
    batch_tokens: int = 4096
    samples: int = 5  # translations shown in the report


@dataclass(frozen=True)
class CheckpointsSection:
    """What is kept, and what of it is averaged at the end."""

    every_steps: int = 1_000
    keep_last: int = 5
    keep_best: int = 1
    average_last: int = 5  # 1: the last one is the result


@dataclass(frozen=True)
class Recipe:
    """A training run."""

    corpus: CorpusSection
    model: dict[str, Any] = field(default_factory=dict)  # fields of VanillaTransformerConfig
    batching: BatchingSection = BatchingSection()
    optimization: OptimizationSection = OptimizationSection()
    evaluation: EvaluationSection = EvaluationSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    seed: int = 1

    def to_yaml(self) -> str:
        """Every value, defaults too: a resolved recipe needs no default of a later version."""
        return yaml.safe_dump(_plain(asdict(self)), sort_keys=False, allow_unicode=True)


def load_recipe(path: Path, changes: tuple[str, ...] = ()) -> Recipe:
    """Read a recipe and apply changes such as `optimization.max_steps=120`."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict):
        _refuse(f"{path} must hold sections such as `corpus:`", values)
    for change in changes:
        _apply(change, values)
    return _read(Recipe, values, "")


def _apply(change: str, values: dict[str, Any]) -> None:
    """Put `section.key=value`, the value in YAML, into the values of a file."""
    name, sign, text = change.partition("=")
    if not sign or not name:
        _refuse("A change is written section.key=value", change)
    *sections, key = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            _refuse(f"{section} holds no keys that {name} could be one of", values)
    values[key] = yaml.safe_load(text)


def _read(wanted: Any, value: Any, place: str) -> Any:
    """The value as the type it is declared with; `place` is its name in errors."""
    if is_dataclass(wanted):
        return _read_section(wanted, value, place)
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (types.UnionType,):
        rest = [one for one in inner if one is not type(None)]
        return None if value is None else _read(rest[0], value, place)
    if origin is Literal:
        return _one_of(inner, value, place)
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_read(inner[0], item, f"{place}[{index}]") for index, item in enumerate(items))
    if origin is dict:
        if not isinstance(value, dict):
            _refuse(f"{place} must hold keys and values", value)
        return {str(key): _read(inner[1], one, f"{place}.{key}") for key, one in value.items()}
    return _scalar(wanted, value, place)


def _read_section(section: Any, value: Any, place: str) -> Any:
    names = [one.name for one in fields(section)]
    if section is TrainingCorpus and not isinstance(value, dict):
        value = {"places": value}
    if not isinstance(value, dict):
        _refuse(f"{place or 'A recipe'} must hold some of {', '.join(names)}", value)
    for key in value:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}."
            raise ValueError(f"There is no {key!r} in {place or 'a recipe'}: {hint}")
    types_of = get_type_hints(section)
    missing = [
        one.name
        for one in fields(section)
        if one.name not in value and one.default is one.default_factory  # both: MISSING
    ]
    if missing:
        raise ValueError(f"{place or 'A recipe'} needs {', '.join(missing)}.")
    prefix = f"{place}." if place else ""
    return section(
        **{key: _read(types_of[key], one, f"{prefix}{key}") for key, one in value.items()}
    )


def _one_of(choices: tuple[Any, ...], value: Any, place: str) -> Any:
    if value not in choices:
        _refuse(f"{place} must be one of {', '.join(map(str, choices))}", value)
    return value


def _scalar(wanted: Any, value: Any, place: str) -> Any:
    """YAML reads 5e-4 as text and 3 as a whole number: both are numbers where one is wanted."""
    if wanted is Any:
        return value
    if wanted is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            _refuse(f"{place} must be a number", value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        _refuse(f"{place} must be {wanted.__name__}", value)
    return value


def _plain(value: Any) -> Any:
    """Tuples as lists: what YAML can say."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def with_model(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with other fields of the model."""
    return replace(recipe, model=recipe.model | changes)
