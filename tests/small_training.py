"""Small training runs: numbers as words, width 16, 24 steps, a checkpoint at every third of them.

folder/     recipe.yaml, tokenizer/, train.tsv, validation.tsv, test.tsv
"""

import hashlib
import os
import random

import pytest
import yaml
from safetensors.torch import load_file

import training.train
from tokenizer.train import Options, make_bundle
from training.number_words import in_english, in_german
from training.train import main
from vanilla_transformer.run_facts import read_log

PAIRS = {"train": 250, "validation": 6, "test": 4}
RECIPE = {
    "model": {
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 64,
    },
    "batching": {"source_tokens": 300, "target_tokens": 300},
    "optimization": {
        "max_steps": 24,
        "warmup_steps": 10,
        "peak_learning_rate": 0.01,
        "precision": "float32",
    },
    "evaluation": {"every_steps": 8, "num_beams": 2},
    "checkpoints": {"every_steps": 3, "keep_last": 3, "average_last": 3},
    "log": {"every_steps": 2},
}


def prepare_training(folder):
    """Everything that a run reads."""
    drawn = random.Random(0)
    for name, count in PAIRS.items():
        numbers = [drawn.randrange(10 ** drawn.choice((2, 3, 4))) for _ in range(count)]
        lines = [f"{in_english(number)}\t{in_german(number)}\n" for number in numbers]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    tokenizer = folder / "tokenizer"
    make_bundle([str(folder / "train.tsv")], tokenizer, Options(vocabulary_size=400))
    corpus = {
        "train": [{"places": [str(folder / "train.tsv")]}],
        "validation": [str(folder / "validation.tsv")],
        "tests": {"test": [str(folder / "test.tsv")]},
        "checks": {"overlap": "keep"},
        "tokenizer": str(tokenizer),
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"corpus": corpus, **RECIPE}))


def train(recipe, output, *changes, resume=False):
    """Train in this process, neither waiting for a disk nor drawing charts; returns its code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(training.train, "write_final_report", lambda folder: None)
        with pytest.raises(SystemExit) as end:
            main(
                recipe / "recipe.yaml" if recipe.is_dir() else recipe,
                output,
                resume=resume,
                changes=list(changes),
            )
    return end.value.code


def weights_of(output):
    """What a run has learned, as bytes: the averaged model, and the last checkpoint with all."""
    last = max((output / "checkpoints").glob("step-*"))
    files = [output / "model" / "model.safetensors", last / "model.safetensors"]
    files += sorted((last / "training").glob("*.safetensors"))
    digests = {str(one.relative_to(output)): one.read_bytes() for one in files}
    return {name: hashlib.sha256(content).hexdigest() for name, content in digests.items()}


def weights_at(output, step):
    """The weights of a checkpoint."""
    return load_file(output / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def steps_in_log(output, kind):
    return [line["step"] for line in read_log(output / "log.jsonl") if line["kind"] == kind]


def lines_in_log(output, kind):
    return [line for line in read_log(output / "log.jsonl") if line["kind"] == kind]


def small_recipe(folder, changed, **corpus):
    """A copy of the recipe that reads other texts, beside what it reads."""
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    recipe["corpus"].update(corpus)
    changed.mkdir(exist_ok=True)
    (changed / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return changed
