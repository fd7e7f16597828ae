"""The recipe without files learns to write numbers in German, from text to translation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_training import train

from training.number_words import number_corpus
from vanilla_transformer.translators import load_translator

REPOSITORY = Path(__file__).parents[1]
RECIPES = REPOSITORY / "training" / "recipes"
SHORTENED = (
    "optimization.max_steps=200",
    "optimization.warmup_steps=60",
    "optimization.cooldown_steps=100",
    "batching.source_tokens=1500",
    "batching.target_tokens=1500",
    "evaluation.every_steps=200",
    "checkpoints.every_steps=200",
)


def scores_in(output):
    return json.loads((output / "results.json").read_text(encoding="utf-8"))


def test_a_short_training_has_learned_most_of_how_numbers_are_written(tmp_path):
    assert train(RECIPES / "numbers.yaml", tmp_path, *SHORTENED) == 0

    scores = scores_in(tmp_path)

    assert scores["numbers"]["chrf"] > 50  # of a model that says one number always: 20
    assert scores["numbers"]["chrf"] == pytest.approx(scores["validation"]["chrf"], abs=5)
    assert scores["validation"]["loss"] < 3


@pytest.mark.slow
def test_the_recipe_gets_999_of_1000_unseen_numbers_right(tmp_path):
    command = [sys.executable, "training/train.py", "--config", RECIPES / "numbers.yaml"]
    subprocess.run([*command, "--output", tmp_path], cwd=REPOSITORY, check=True)

    assert scores_in(tmp_path)["numbers"]["exact"] >= 99.9

    translate = load_translator(str(tmp_path / "model"))
    pairs = list(number_corpus("numbers:test", ("en", "de")))[:200]
    written = [one["translation_text"] for one in translate([source for source, _ in pairs])]
    assert sum(map(str.__eq__, written, (target for _, target in pairs))) >= 199
