"""How good a model is: the loss of held-out pairs, and BLEU and chrF of their translations."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object

from training.objective import collate
from training.recipe import EvaluationSection
from vanilla_transformer.parallel_text import Pair


@dataclass(frozen=True)
class Score:
    """What an evaluation found."""

    loss: float  # cross-entropy of a target token, not smoothed
    bleu: float
    chrf: float
    translations: list[str]

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    def quality(self, best_by: str) -> float:
        """The higher the better."""
        return -self.loss if best_by == "loss" else float(getattr(self, best_by))


class Evaluation:
    """Held-out pairs, shared among processes."""

    def __init__(
        self, pairs: list[Pair], tokenizer: Any, section: EvaluationSection, accelerator: Any
    ) -> None:
        self.pairs, self.tokenizer, self.section = pairs, tokenizer, section
        self.accelerator = accelerator

    def of(self, model: Any) -> Score:
        """Look at a model; the same for every process."""
        was_training = model.training
        model.eval()
        with torch.no_grad():
            mine = self._shares()
            losses = [self._loss(model, batch) for batch in mine]
            texts = [one for batch in mine for one in self._translate(model, batch)]
        model.train(was_training)
        total, tokens = map(sum, zip(*gather_object(losses), strict=True))
        written = dict(gather_object(texts))
        translations = [written[number] for number in range(len(self.pairs))]
        bleu, chrf = self._scores(translations)
        return Score(total / tokens, bleu, chrf, translations)

    def _shares(self) -> list[list[int]]:
        """This process's pairs in batches of similar lengths."""
        encoded = self.tokenizer([source for source, _ in self.pairs], verbose=False)["input_ids"]
        order = sorted(range(len(self.pairs)), key=lambda number: len(encoded[number]))
        mine = order[self.accelerator.process_index :: self.accelerator.num_processes]
        batches: list[list[int]] = [[]]
        for number in mine:
            if (len(batches[-1]) + 1) * len(encoded[number]) > self.section.batch_tokens:
                batches.append([])
            batches[-1].append(number)
        return [batch for batch in batches if batch]

    def _loss(self, model: Any, batch: list[int]) -> tuple[float, int]:
        sources, targets = zip(*(self.pairs[number] for number in batch), strict=True)
        ids = (
            self.tokenizer(list(side), verbose=False)["input_ids"] for side in (sources, targets)
        )
        inputs = collate(
            list(zip(*ids, strict=True)),
            model.config.pad_token_id,
            model.config.decoder_start_token_id,
        )
        inputs = {name: one.to(model.device) for name, one in inputs.items()}
        tokens = int((inputs["labels"] != -100).sum())
        return float(model(**inputs, num_items_in_batch=1).loss), tokens

    def _translate(self, model: Any, batch: list[int]) -> list[tuple[int, str]]:
        sources = [self.pairs[number][0] for number in batch]
        inputs = self.tokenizer(sources, return_tensors="pt", padding=True).to(model.device)
        written = model.generate(
            **inputs,
            num_beams=self.section.num_beams,
            length_penalty=self.section.length_penalty,
        )
        texts = self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return list(zip(batch, texts, strict=True))

    def _scores(self, translations: list[str]) -> tuple[float, float]:
        from sacrebleu import BLEU, CHRF

        references = [[target for _, target in self.pairs]]
        bleu = BLEU(tokenize=self.section.tokenize).corpus_score(translations, references)
        return bleu.score, CHRF().corpus_score(translations, references).score
