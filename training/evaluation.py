"""How good a model is: the loss of held-out pairs, and BLEU and chrF of their translations."""

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tqdm.auto import tqdm

from training.failures import naming_the_shape
from training.objective import collate
from training.recipe import EvaluationSection
from vanilla_transformer.parallel_text import Pair
from vanilla_transformer.scoring import TranslationMetric

SMALLER = "lower evaluation.batch_tokens or num_beams"
HIGHEST_EXPONENT = 700.0  # e to a little more is no float


@dataclass(frozen=True)
class Score:
    """What an evaluation found."""

    loss: float  # cross-entropy of a target token, not smoothed
    bleu: float
    chrf: float
    exact: float  # percent of translations that are their references
    bleu_signature: str
    chrf_signature: str
    translations: list[str]

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, HIGHEST_EXPONENT))

    def quality(self, best_by: str) -> float:
        """The higher the better."""
        return -self.loss if best_by == "loss" else float(getattr(self, best_by))

    def figures(self) -> dict[str, float | str]:
        """All but the translations."""
        return {
            "loss": self.loss,
            "perplexity": self.perplexity,
            **{name: getattr(self, name) for name in ("bleu", "chrf", "exact")},
            **{name: getattr(self, name) for name in ("bleu_signature", "chrf_signature")},
        }


def decoding(section: EvaluationSection) -> dict[str, Any]:
    """How a recipe translates; one beam has nothing to weigh against another."""
    told: dict[str, Any] = {"no_repeat_ngram_size": section.no_repeat_ngram_size or None}
    if section.num_beams == 1:
        return {"num_beams": 1, "length_penalty": None, "early_stopping": None, **told}
    return {"num_beams": section.num_beams, "length_penalty": section.length_penalty, **told}


class Evaluation:
    """Held-out pairs, translated by all processes together."""

    def __init__(
        self,
        pairs: list[Pair],
        tokenizer: Any,
        section: EvaluationSection,
        accelerator: Accelerator,
    ) -> None:
        self.pairs, self.tokenizer, self.section = pairs, tokenizer, section
        self.accelerator = accelerator
        self.metric = TranslationMetric(section.tokenize, keep_in_memory=True)
        self.tokens = list(
            zip(*(self._encode(side) for side in zip(*pairs, strict=True)), strict=True)
        )

    def of(self, model: Any) -> Score:
        """Look at a model; the same for every process."""
        was_training = model.training
        model.eval()
        with torch.no_grad():
            found = [self._look(model, batch) for batch in self._announced(self._batches())]
        model.train(was_training)
        losses, texts = zip(*gather_object(found), strict=True)
        written = dict(pair for some in texts for pair in some)
        translations = [written[number] for number in range(len(self.pairs))]
        tokens = sum(len(target) for _, target in self.tokens)
        return self._score(sum(losses) / tokens, translations)

    def samples(self, score: Score) -> list[dict[str, str]]:
        """The first pairs, and what the model made of them."""
        shown = zip(self.pairs, score.translations, strict=True)
        return [
            {"source": source, "reference": reference, "translation": translation}
            for (source, reference), translation in islice(shown, self.section.samples)
        ]

    def _encode(self, texts: tuple[str, ...]) -> list[list[int]]:
        ids: list[list[int]] = self.tokenizer(list(texts), verbose=False)["input_ids"]
        return ids

    def _batches(self) -> list[list[int]]:
        """This process's pairs by number, similar lengths together; every process has a batch."""
        order = sorted(range(len(self.pairs)), key=lambda number: -len(self.tokens[number][0]))
        batches: list[list[int]] = [[]]
        for number in order[self.accelerator.process_index :: self.accelerator.num_processes]:
            longest = len(self.tokens[batches[-1][0]][0]) if batches[-1] else 0
            if (len(batches[-1]) + 1) * longest > self.section.batch_tokens:
                batches.append([])
            batches[-1].append(number)
        return batches

    def _announced(self, batches: list[list[int]]) -> Any:
        is_main = self.accelerator.is_main_process
        return tqdm(batches, desc="evaluating", delay=2, leave=False, disable=not is_main)

    def _look(self, model: Any, batch: list[int]) -> tuple[float, list[tuple[int, str]]]:
        """The loss of some pairs, summed over target tokens, and their translations by number."""
        if not batch:
            return 0.0, []
        config = model.config
        pairs = [self.tokens[number] for number in batch]
        inputs = collate(pairs, config.pad_token_id, config.decoder_start_token_id)
        inputs = {name: one.to(model.device) for name, one in inputs.items()}
        sources = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        with naming_the_shape(inputs["input_ids"], inputs["labels"], SMALLER):
            loss = float(model(**inputs, num_items_in_batch=1).loss)
            written = model.generate(**sources, **decoding(self.section))
        texts = self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return loss, list(zip(batch, texts, strict=True))

    def _score(self, loss: float, translations: list[str]) -> Score:
        references = [target for _, target in self.pairs]
        figures = self.metric.compute(predictions=translations, references=references)
        equal = sum(map(str.__eq__, translations, references))
        exact = 100 * equal / len(references)
        return Score(loss=loss, exact=exact, translations=translations, **figures)
