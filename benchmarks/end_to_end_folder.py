"""Prepares what all loops train on: text, a tokenizer of our own making, token ids, words.

Ours reads text and tokenizer, Trainer reads the ids of the same pairs, and toolkits read them as
words `w17`, which their own vocabularies number again.
"""

import gzip
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from benchmarks.end_to_end_task import LANGUAGES, Prepared, Task, packed_texts
from benchmarks.script_process import answering
from tokenizer.train import Options, make_bundle
from training.corpus import Tokenized, batches_of, prepare_training
from training.recipe import (
    BatchingSection,
    CorpusSection,
    OptimizationSection,
    Recipe,
    TrainingCorpus,
)

PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def prepare(data: Path, folder: Path, vocabulary_size: int) -> Prepared:
    """Write everything into a new folder."""
    for name, packed in packed_texts():
        (folder / name).write_bytes(gzip.decompress((data / packed).read_bytes()))
    text = [str(folder / f"train.{language}") for language in LANGUAGES]
    make_bundle(text, folder / "tokenizer", Options(vocabulary_size=vocabulary_size))
    recipe = recipe_for(folder, Task(vocabulary_size, 0, 0, 0, 0, 0), "fp32")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    corpus = prepare_training(recipe.corpus, tokenizer, folder / "corpus")
    _write_pairs(corpus, len(tokenizer), folder)
    batches = batches_of(corpus, recipe)
    count = len(batches.epoch(1))
    return Prepared(
        len(tokenizer),
        round(len(corpus) / count),
        float(corpus.target_lengths.sum() / count),
        float(batches.padding(1)),
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
        batching=BatchingSection(source_tokens=task.batch_tokens, target_tokens=task.batch_tokens),
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


def _write_pairs(corpus: Tokenized, vocabulary_size: int, folder: Path) -> None:
    """Write ids with, and words without, the end of each sentence."""
    pairs = corpus.pairs(np.arange(len(corpus)), epoch=0)
    sides = dict(zip(("source", "target"), map(list, zip(*pairs, strict=True)), strict=True))
    (folder / "pairs.json").write_text(json.dumps(sides), encoding="utf-8")
    for side, sentences in sides.items():
        lines = [" ".join(f"w{word}" for word in sentence[:-1]) for sentence in sentences]
        (folder / f"words.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = "".join(f"w{word}\n" for word in range(vocabulary_size))
    (folder / "words.vocabulary").write_text(words, encoding="utf-8")


if __name__ == "__main__":
    answers = answering()
    data, folder, vocabulary = sys.argv[1:]
    prepared = prepare(Path(data), Path(folder), int(vocabulary))
    print(json.dumps(asdict(prepared)), file=answers, flush=True)
