"""Trains the recurrent translator by a recipe: with ours, the same data, batches, optimizer, rates.

Only the loop is its own, and its precision, float32: torch's LSTM is no faster in 16 bits.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import set_seed
from tqdm import tqdm

from benchmarks.recurrent_translator import RecurrentConfig, RecurrentTranslator, width_for
from training.batching import Place
from training.corpus import batches_of, prepare_training, read_held_out
from training.corpus_tokenizer import prepare_tokenizer
from training.evaluation import Evaluation
from training.learner import Learner
from training.loader import Loader, Work
from training.model import build_model, special_ids
from training.recipe import Recipe

Curve = list[tuple[int, float]]  # steps, and what was found there


def build_recurrent(recipe: Recipe, tokenizer: Any) -> RecurrentTranslator:
    """A recurrent model with as many parameters as the recipe's Transformer."""
    ours = build_model(recipe, tokenizer)
    ids = special_ids(tokenizer)
    config = RecurrentConfig(
        vocab_size=len(tokenizer),
        d_model=ours.config.d_model,
        width=width_for(ours.num_parameters(), len(tokenizer), ours.config.d_model),
        pad_token_id=ids["pad_token_id"] or 0,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=ids["decoder_start_token_id"] or 0,
        dropout=ours.config.dropout,
        label_smoothing=ours.config.label_smoothing,
    )
    set_seed(recipe.seed)
    return RecurrentTranslator(config)


class RecurrentRun:
    """A recipe at work on the recurrent model."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.accelerator = recipe, Accelerator(cpu=True)
        self.tokenizer = prepare_tokenizer(recipe.corpus, folder / "tokenizer")
        corpus = prepare_training(recipe.corpus, self.tokenizer, folder / "corpus")
        batches = batches_of(corpus, recipe)
        model = build_recurrent(recipe, self.tokenizer)
        optimization = replace(recipe.optimization, precision="float32")
        self.learner = Learner(model, optimization, recipe.seed, self.accelerator)
        self.loader = Loader(corpus, batches, recipe.batching, model.config, self.accelerator)
        self.losses: Curve = []
        self.exact: Curve = []
        self.seconds = 0.0

    def train(self) -> dict[str, dict[str, float | str]]:
        """Train to the end; returns the scores of the validation and test sets."""
        recipe = self.recipe
        validation = self._evaluation_on(recipe.corpus.validation)
        for step, work in self._announced():
            began = time.perf_counter()
            outcome = self.learner.step(step, work.pieces, work.target_tokens)
            self.seconds += time.perf_counter() - began
            if step % recipe.log.every_steps == 0:
                self.losses.append((step, outcome.loss))
            if step % recipe.evaluation.every_steps == 0:
                self.exact.append((step, validation.of(self.learner.weights.model).exact))
        places = {"validation": recipe.corpus.validation, **recipe.corpus.tests}
        model = self.learner.weights.model
        return {name: self._evaluation_on(one).of(model).figures() for name, one in places.items()}

    def _announced(self) -> Iterator[tuple[int, Work]]:
        steps = range(1, self.recipe.optimization.max_steps + 1)
        works = self.loader.after(Place())
        return iter(tqdm(zip(steps, works, strict=False), "training", len(steps)))

    def _evaluation_on(self, places: tuple[str, ...]) -> Evaluation:
        pairs = read_held_out(self.recipe.corpus, places)
        return Evaluation(pairs, self.tokenizer, self.recipe.evaluation, self.accelerator)
