"""A recipe is all that makes a training run what it is: a YAML file, frozen dataclasses in Python.

Defaults live here and nowhere else, and values are checked before anything else starts.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml

from training.recipe_reading import (
    apply_change,
    at_least,
    read_as,
    read_yaml,
    refuse,
    share_below_one,
)

LONGEST = 2**16 - 1  # tokens of a sentence
LARGEST_WEIGHT = 1_000.0


Removal = Literal["drop", "refuse"]
Policy = Literal["keep", "drop", "refuse"]
Decision = Literal["keep", "refuse"]  # about a whole corpus


@dataclass(frozen=True)
class TrainingCorpus:
    """One corpus: a file, two aligned text files, a dataset, or `numbers:train`."""

    has_short_form: ClassVar[bool] = True  # the places alone

    places: tuple[str, ...]
    weight: float = 1.0  # 2: an epoch reads it twice; 0.5: every other pair, by chance

    def __post_init__(self) -> None:
        if not self.places:
            refuse("corpus.train.places must name a file or a dataset", self.places)
        if not 0 < self.weight <= LARGEST_WEIGHT:
            refuse(
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
    misaligned: Decision = "refuse"  # the lengths of a corpus' first pairs do not go together
    swapped: Decision = "refuse"  # their words are those of the other side of held-out pairs


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
            refuse("corpus.train must name at least one corpus", self.train)
        if self.source == self.target or not (self.source and self.target):
            refuse("corpus.source and target must be two languages", (self.source, self.target))
        if not 2 <= self.max_length <= LONGEST:
            refuse(f"corpus.max_length must be from 2 to {LONGEST:,}", self.max_length)
        if not self.max_length_ratio >= 1:
            refuse("corpus.max_length_ratio must be at least 1", self.max_length_ratio)

    @property
    def held_out(self) -> list[tuple[str, ...]]:
        """The places of the validation set, and of every test set."""
        return [self.validation, *self.tests.values()]


@dataclass(frozen=True)
class BatchingSection:
    """How many tokens a step learns from, on all processes together."""

    source_tokens: int = 4096
    target_tokens: int = 4096
    accumulation: int = 1  # pieces that each process makes of its part
    workers: int = 0  # processes that make batches ready

    def __post_init__(self) -> None:
        at_least(1, "batching", self, "source_tokens", "target_tokens", "accumulation")
        at_least(0, "batching", self, "workers")


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
        at_least(1, "optimization", self, "max_steps", "warmup_steps")
        at_least(0, "optimization", self, "cooldown_steps", "weight_decay")
        at_least(0, "optimization", self, "max_gradient_norm", "r_drop")
        share_below_one("optimization", self, "beta1", "beta2", "bpe_dropout", "ema_decay")
        if self.peak_learning_rate is not None and not self.peak_learning_rate > 0:
            refuse("optimization.peak_learning_rate must be positive", self.peak_learning_rate)


@dataclass(frozen=True)
class EvaluationSection:
    """How often the model is looked at, how it translates, and what counts as better."""

    every_steps: int = 1_000
    num_beams: int = 4
    length_penalty: float = 0.6
    no_repeat_ngram_size: int = 0  # tokens; no n-gram of so many twice in a translation; 0: any
    tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"
    best_by: Literal["loss", "bleu", "chrf", "exact"] = "loss"
    patience: int = 0  # evaluations without anything better after which to stop; 0: never
    batch_tokens: int = 4096
    samples: int = 5  # translations shown in the report

    def __post_init__(self) -> None:
        at_least(1, "evaluation", self, "every_steps", "num_beams", "batch_tokens")
        at_least(0, "evaluation", self, "no_repeat_ngram_size", "patience", "samples")


@dataclass(frozen=True)
class CheckpointsSection:
    """What is kept, and what of it is averaged at the end (6.1)."""

    every_steps: int = 1_000
    keep_last: int = 5
    keep_best: int = 1
    average_last: int = 5  # 1: the last one is the result

    def __post_init__(self) -> None:
        at_least(1, "checkpoints", self, "every_steps", "keep_last", "keep_best", "average_last")
        if self.average_last > self.keep_last:
            refuse(
                f"checkpoints.average_last must be at most keep_last ({self.keep_last})",
                self.average_last,
            )


@dataclass(frozen=True)
class LogSection:
    """What a run tells while it goes on."""

    every_steps: int = 50
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()

    def __post_init__(self) -> None:
        at_least(1, "log", self, "every_steps")


@dataclass(frozen=True)
class Recipe:
    """A training run."""

    corpus: CorpusSection
    model: dict[str, Any] = field(default_factory=dict)  # a row of Table 3, and other fields
    batching: BatchingSection = BatchingSection()
    optimization: OptimizationSection = OptimizationSection()
    evaluation: EvaluationSection = EvaluationSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    log: LogSection = LogSection()
    seed: int = 1

    def to_yaml(self) -> str:
        """Every value, defaults too: a resolved recipe needs no default of a later version."""
        return yaml.safe_dump(_plain(asdict(self)), sort_keys=False, allow_unicode=True)


def load_recipe(path: Path, changes: tuple[str, ...] = ()) -> Recipe:
    """Read a recipe and apply changes such as `optimization.max_steps=120`."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be YAML in UTF-8, got: {error}.") from error
    if not isinstance(values, dict):
        refuse(f"{path} must hold sections such as `corpus:`", values)
    for change in changes:
        apply_change(change, values)
    recipe: Recipe = read_as(Recipe, values)
    return recipe


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by one name each: {"seed": 1, "log": {"every_steps": 50}} -> "log.every_steps": 50."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        is_section = isinstance(value, dict)
        found |= flat(value, f"{prefix}{name}.") if is_section else {f"{prefix}{name}": value}
    return found


def _plain(value: Any) -> Any:
    """Tuples as lists: what YAML can say."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value
