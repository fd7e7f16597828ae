"""Compares translations of one test set by sacrebleu: scores, confidence, and what is chance.

The test set is resampled with replacement, the same sentences for all systems. The spread of a
score over the resamples is its confidence; how often the difference between two systems strays
from its mean by more than itself is the p-value (Koehn 2004, as sacrebleu and Moses compute it).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

try:
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest
except ImportError as error:
    raise ImportError("Scores need sacrebleu: pip install 'vanilla-transformer[train]'.") from error

LARGEST_RESAMPLING = 10**8  # sentences times resamples; sacrebleu takes 80 bytes for each


@dataclass(frozen=True)
class Score:
    """What one metric says of one system."""

    score: float
    mean: float  # over the resamples
    confidence: float  # half the width of the interval that 95 % of the resamples are in
    p_value: float | None  # of the difference from the first system, which has none


@dataclass(frozen=True)
class Comparison:
    """What all metrics say of all systems; by the metrics' names."""

    systems: list[str]
    num_sentences: int
    scores: dict[str, list[Score]]
    signatures: dict[str, str]


def build_metrics(tokenize: str = "13a", *, lowercase: bool = False) -> dict[str, Any]:
    """BLEU and chrF of detokenised text, which BLEU splits into words by itself."""
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize must be one of {', '.join(BLEU.TOKENIZERS)}, got {tokenize!r}.")
    try:
        return {"bleu": BLEU(lowercase, tokenize=tokenize), "chrf": CHRF(lowercase=lowercase)}
    except RuntimeError as error:  # Japanese and Korean need packages of their own
        raise ValueError(f"tokenize={tokenize!r} cannot be used here: {error}") from error


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    metrics: Mapping[str, Any],
    num_resamples: int,
) -> Comparison:
    """The scores of named systems' translations, each compared with the first one's."""
    check_sizes([len(lines) for _, lines in systems], len(references), num_resamples)
    test = PairedTest(list(systems), metrics, [references], test_type="bs", n_samples=num_resamples)
    signatures, results = test()
    scores = {
        name: [describe(result, results[name][0]) for result in results[name]]
        for name in signatures
    }
    names = [name for name, _ in systems]
    written = {name: str(signature) for name, signature in signatures.items()}
    return Comparison(names, len(references), scores, written)


def check_sizes(num_translations: Sequence[int], num_references: int, num_resamples: int) -> None:
    """Refuse what cannot be compared."""
    if not num_references or not num_translations:
        raise ValueError(
            "A comparison needs systems and references, got "
            f"{len(num_translations)} and {num_references}."
        )
    for number in num_translations:
        if number != num_references:
            raise ValueError(
                "Every reference must have one translation, got "
                f"{number:,} translations and {num_references:,} references."
            )
    if num_resamples < 1 or num_references * num_resamples > LARGEST_RESAMPLING:
        raise ValueError(
            f"{num_references:,} sentences need 1 to {LARGEST_RESAMPLING // num_references:,} "
            f"resamples, got {num_resamples:,}."
        )


def describe(result: Any, baseline: Any) -> Score:
    """Sacrebleu's result as ours."""
    p_value = None if result is baseline else result.p_value
    if p_value is not None and result.score == baseline.score:
        p_value = 1.0  # equal systems differ in no resample, which sacrebleu takes for certainty
    return Score(float(result.score), float(result.mean), float(result.ci), p_value)
