"""BLEU and chrF as a metric of `evaluate`: it downloads nothing, and processes share its work."""

from collections.abc import Sequence
from typing import Any

try:
    import evaluate
    from datasets import Features, Value
except ImportError as error:
    raise ImportError(
        "TranslationMetric needs evaluate: pip install 'vanilla-transformer[train]'."
    ) from error

from .significance import build_metrics

DESCRIPTION = "Corpus BLEU and chrF of detokenised translations, by sacrebleu."
CITATION = "Matt Post, 2018: A Call for Clarity in Reporting BLEU Scores. WMT 2018, 186-191."
INPUTS = """
Args:
    predictions: Translations, detokenised.
    references: What they should be: one text for each.

Returns: "bleu" and "chrf" from 0 to 100; "bleu_signature" and "chrf_signature" say how they were
    computed.
"""


class TranslationMetric(evaluate.Metric):
    """Scores translations; with several processes, those of all of them.

    Each process passes its own `process_id`, and the same `num_process`, `experiment_id` and
    `cache_dir`, a folder that all can see. Only process 0 is told the scores, the others None.
    """

    def __init__(self, tokenize: str = "13a", *, lowercase: bool = False, **kwargs: Any) -> None:
        self.metrics = build_metrics(tokenize, lowercase=lowercase)
        super().__init__(**kwargs)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=Features({"predictions": Value("string"), "references": Value("string")}),
        )

    def _compute(
        self, predictions: Sequence[str], references: Sequence[str]
    ) -> dict[str, float | str]:
        if not len(predictions):
            raise ValueError("A score needs translations, got none.")
        found: dict[str, float | str] = {}
        for name, metric in self.metrics.items():
            found[name] = metric.corpus_score(list(predictions), [list(references)]).score
            found[f"{name}_signature"] = str(metric.get_signature())
        return found
