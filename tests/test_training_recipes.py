"""The shipped recipes: they load, and the paper's are the paper's to the digit."""

import re
from pathlib import Path

import pytest

from training.model import build_model, configure, resolve
from training.recipe import load_recipe
from training.schedule import Schedule

RECIPE_FILES = (Path(__file__).parents[1] / "training" / "recipes").glob("*.yaml")
RECIPES = sorted(file for file in RECIPE_FILES if not file.name.endswith(".facts.yaml"))
PAPER = [path for path in RECIPES if path.name.startswith("wmt14")]


class Words:
    """As much of a tokenizer as a model wants to know."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def model_of(recipe):
    return build_model(recipe, Words(recipe.corpus.vocabulary_size))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_begins_with_its_command_and_what_to_expect(path):
    head = re.match(r"(# .*\n)+", path.read_text(encoding="utf-8"))[0].replace("\\\n#", "")
    command, expectation = head.strip().splitlines()

    assert f"--config training/recipes/{path.name} --output runs/{path.stem}" in re.sub(
        " +", " ", command
    )
    assert expectation.startswith("# expect")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_describes_a_model_that_learns_from_a_batch(path):
    recipe = load_recipe(path)

    assert recipe.batching.target_tokens >= recipe.corpus.max_length
    if not path.stem.endswith("-big"):  # 200 million parameters are slow to draw
        assert model_of(recipe).num_parameters() > 0


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_resolved_recipe_needs_no_default_of_the_model(path):
    recipe = load_recipe(path)
    resolved = resolve(recipe)

    assert configure(resolved.model) == configure(recipe.model)
    assert {"d_model", "dropout", "label_smoothing"} < resolved.model.keys()
    assert "from_paper" not in resolved.model
    assert resolve(resolved) == resolved


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_shortened_for_a_try(path):
    recipe = load_recipe(path, ("optimization.max_steps=120", "checkpoints.every_steps=15"))
    schedule = Schedule.of(recipe.optimization, d_model=64)

    assert all(0 < schedule.rate(step) <= schedule.peak for step in range(1, 121))


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_paper_is_followed_to_the_digit(path):
    recipe = load_recipe(path)
    optimization, is_big = recipe.optimization, "big" in path.stem
    d_model = 1024 if is_big else 512

    assert recipe.batching.source_tokens == recipe.batching.target_tokens == 25_000
    assert (optimization.beta1, optimization.beta2, optimization.epsilon) == (0.9, 0.98, 1e-9)
    assert optimization.max_steps == (300_000 if is_big else 100_000)
    assert recipe.checkpoints.average_last == (20 if is_big else 5)
    seconds_a_step = 1.0 if is_big else 12 * 3_600 / 100_000  # 5.2
    assert recipe.checkpoints.every_steps == round(600 / seconds_a_step)  # 6.1: 10 minutes
    assert (recipe.evaluation.num_beams, recipe.evaluation.length_penalty) == (4, 0.6)
    assert recipe.corpus.vocabulary_size == (32_000 if "en-fr" in path.stem else 37_000)
    rate = Schedule.of(optimization, d_model).rate
    for step in (1, 3_999, 4_000, 4_001, optimization.max_steps):
        assert rate(step) == pytest.approx(d_model**-0.5 * min(step**-0.5, step * 4_000**-1.5))
    assert configure(recipe.model).dropout == (0.3 if path.stem == "wmt14-en-de-big" else 0.1)


def test_the_tiny_model_is_that_of_the_published_table():
    recipe = load_recipe(RECIPES[0].with_name("multi30k-tiny.yaml"))

    assert model_of(recipe).num_parameters() == pytest.approx(2.6e6, rel=0.02)
