"""A recipe is read whole or refused with the way out; what it resolves to reads the same again."""

import pytest

from training.recipe import load_recipe

SMALLEST = """
corpus:
  train: [numbers:train]
  validation: [numbers:validation]
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_resolved_recipe_reads_as_itself(write):
    recipe = load_recipe(write(SMALLEST))

    assert load_recipe(write(recipe.to_yaml())) == recipe


def test_places_without_a_weight_count_once(write):
    (corpus,) = load_recipe(write(SMALLEST)).corpus.train

    assert corpus.places == ("numbers:train",)
    assert corpus.weight == 1.0


def test_changes_are_those_of_the_command_line(write):
    changes = ("optimization.max_steps=120", "optimization.peak_learning_rate=7e-4", "seed=3")

    recipe = load_recipe(write(SMALLEST), changes)

    assert recipe.optimization.max_steps == 120
    assert recipe.optimization.peak_learning_rate == 7e-4
    assert recipe.seed == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optimization.max_step=120", "no 'max_step' in optimization: did you mean 'max_steps'"),
        ("optimisation.max_steps=1", "no 'optimisation' in a recipe: did you mean 'optimization'"),
        ("max_steps=9", "no 'max_steps' in a recipe: did you mean 'optimization.max_steps'"),
        (
            "corpus.tests=a.tsv",
            "corpus.tests must hold keys and values, such as {name: value}, got",
        ),
        ("optimization.max_steps=many", "optimization.max_steps must be int, got 'many'"),
        ("optimization.max_steps=true", "optimization.max_steps must be int, got True"),
        ("optimization.max_steps=0", "must be at least 1"),
        ("optimization.ema_decay=1", "ema_decay must be from 0 to below 1, got 1.0"),
        ("optimization.cooldown_steps=-1", "cooldown_steps must be at least 0, got -1"),
        ("batching.accumulation=0", "accumulation must be at least 1, got 0"),
        (
            "corpus.checks.overlap=maybe",
            "corpus.checks.overlap must be one of keep, drop, refuse, got 'maybe'",
        ),
        ("corpus.checks.empty=keep", "corpus.checks.empty must be one of drop, refuse, got 'keep'"),
        ("corpus.max_length=1", "corpus.max_length must be from 2 to 65,535, got 1"),
        ("corpus.max_length_ratio=.nan", "max_length_ratio must be at least 1, got nan"),
        ("corpus.train=[]", "corpus.train must name at least one corpus"),
        ("corpus.train=[{places: a, weight: 0}]", "weight must be above 0 and at most 1000, got 0"),
        ("corpus.source=de", "source and target must be two languages, got .'de', 'de'."),
        ("evaluation=5", "evaluation must hold some of"),
        ("seed", "written section.key=value, got 'seed'"),
        ("seed=[", r"The value of seed must be YAML, got '\[': while parsing"),
        (
            "corpus.tests={a: b, a: c}",
            "The value of corpus.tests must be YAML, .*the key 'a' in line 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(change, message, write):
    with pytest.raises(ValueError, match=message):
        load_recipe(write(SMALLEST), (change,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpus: {train: [a]}", "corpus needs validation"),
        ("seed: 1", "A recipe needs corpus"),
        ("[1, 2]", "must hold sections"),
        ("a: [", "must be YAML"),
        (
            "seed: 1\nmodel: {d_model: 64}\ncorpus: {}\nmodel: {dropout: 0.3}\n",
            r"recipe.yaml must be YAML.*the key 'model' in line 4, though it stands in line 2",
        ),
        ("log:\n  every_steps: 1\n  every_steps: 2\n", "the key 'every_steps' in line 3"),
    ],
)
def test_a_broken_file_is_refused(text, message, write):
    with pytest.raises(ValueError, match=message):
        load_recipe(write(text))


def test_sections_may_share_values(write):
    text = SMALLEST + "log: &often {every_steps: 5}\n"

    recipe = load_recipe(write(text + "checkpoints: {<<: *often, every_steps: 7, keep_best: 2}\n"))

    assert (recipe.log.every_steps, recipe.checkpoints.every_steps) == (5, 7)
