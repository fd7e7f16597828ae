"""Prepares what all loops train on: text, a tokenizer of our own making, token ids, words.

Ours reads text and tokenizer, Trainer reads the ids of the same pairs, and toolkits read them as
words `w17`, which their own vocabularies number again.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from benchmarks.contestants import Size
from benchmarks.end_to_end_task import LANGUAGES, MULTI30K, Task
from tokenizer.train import Options, make_bundle
from training.batching import Batches
from training.corpus import Tokenized, prepare_training
from training.recipe import (
    BatchingSection,
    CorpusSection,
    OptimizationSection,
    Recipe,
    TrainingCorpus,
)

PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Prepared:
    """What is known of the folder."""

    vocab_size: int
    sentences_per_batch: int
    target_tokens_per_batch: float
    padding: float  # in our batches


def prepare(data: Path, folder: Path, vocabulary_size: int) -> Prepared:
    """Write everything into a new folder."""
    for part in ("train", "val"):
        for language in LANGUAGES:
            _unpack(data / MULTI30K.format(part=part, language=language), folder, part, language)
    text = [str(folder / f"train.{language}") for language in LANGUAGES]
    make_bundle(text, folder / "tokenizer", Options(vocabulary_size=vocabulary_size))
    task = Task(vocabulary_size, 0, 0, 0, 0, 0)
    corpus = read_corpus(folder, recipe_for(folder, task, "fp32"))
    _write_pairs(corpus, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    batches = batches_of(corpus, recipe_for(folder, task, "fp32"))
    count = len(batches.epoch(1))
    return Prepared(
        len(tokenizer),
        round(len(corpus) / count),
        corpus.target_lengths.sum() / count,
        batches.padding(1),
    )


def task_for(prepared: Prepared, size: Size) -> Task:
    """Name the model of a size, with the vocabulary that there is."""
    return Task(
        vocab_size=prepared.vocab_size,
        d_model=size.d_model,
        ffn_dim=size.ffn_dim,
        layers=size.layers,
        heads=size.heads,
        sentences_per_batch=prepared.sentences_per_batch,
    )


def recipe_for(folder: Path, task: Task, precision: str) -> Recipe:
    """Write the task as a recipe of ours."""
    train, validation = (
        tuple(str(folder / f"{part}.{language}") for language in LANGUAGES)
        for part in ("train", "val")
    )
    return Recipe(
        corpus=CorpusSection(
            train=(TrainingCorpus(train),),
            validation=validation,
            source=LANGUAGES[0],
            target=LANGUAGES[1],
            tokenizer=str(folder / "tokenizer"),
        ),
        model=_model_fields(task),
        batching=BatchingSection(
            source_tokens=task.batch_tokens, target_tokens=task.batch_tokens
        ),
        optimization=OptimizationSection(
            peak_learning_rate=task.peak_learning_rate,
            warmup_steps=task.warmup_steps,
            beta1=task.beta1,
            beta2=task.beta2,
            epsilon=task.epsilon,
            precision=PRECISIONS[precision],  # type: ignore[arg-type]  # a table of its choices
        ),
        seed=task.seed,
    )


def read_corpus(folder: Path, recipe: Recipe) -> Tokenized:
    """Read the training pairs, tokenized once."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.corpus.tokenizer)
    return prepare_training(recipe.corpus, tokenizer, folder / "corpus")[0]


def batches_of(corpus: Tokenized, recipe: Recipe) -> Batches:
    """Cut the pairs into batches, as the recipe says."""
    return Batches(
        corpus.source_lengths,
        corpus.target_lengths,
        corpus.weights,
        source_tokens=recipe.batching.source_tokens,
        target_tokens=recipe.batching.target_tokens,
        seed=recipe.seed,
    )


def _model_fields(task: Task) -> dict[str, Any]:
    return {
        "d_model": task.d_model,
        "encoder_layers": task.layers,
        "decoder_layers": task.layers,
        "encoder_attention_heads": task.heads,
        "decoder_attention_heads": task.heads,
        "encoder_ffn_dim": task.ffn_dim,
        "decoder_ffn_dim": task.ffn_dim,
        "dropout": task.dropout,
        "label_smoothing": task.label_smoothing,
    }


def _unpack(packed: Path, folder: Path, part: str, language: str) -> None:
    if not packed.is_file():
        raise ValueError(f"--data must hold {packed.name} in multi30k/tok, got no file {packed}.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}.{language}").write_bytes(gzip.decompress(packed.read_bytes()))


def _write_pairs(corpus: Tokenized, folder: Path) -> None:
    """Write ids with, and words without, the end of each sentence."""
    sides = {side: list(corpus.rows[side]) for side in ("source", "target")}
    (folder / "pairs.json").write_text(json.dumps(sides), encoding="utf-8")
    for side, sentences in sides.items():
        lines = [" ".join(f"w{word}" for word in sentence[:-1]) for sentence in sentences]
        (folder / f"words.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
