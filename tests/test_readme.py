"""Runs the README's Python blocks, tokenizer commands and evaluations, as a reader would."""

import re
import shlex
import tempfile
from pathlib import Path

import pytest
import yaml
from conftest import SENTENCES
from scripts.fresh_process import run_fresh
from transformers import AutoTokenizer
from typer import Typer
from typer.testing import CliRunner

from training import finetune
from training.model import build_model
from training.recipe import load_recipe
from vanilla_transformer.cli import app
from vanilla_transformer.translators import load_translator

README = Path(__file__).parents[1] / "README.md"
REPOSITORY = README.parent
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_blocks_of_the_readme_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenizer").symlink_to(REPOSITORY / "tokenizer")
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)
        promised = "".join(line[2:] + "\n" for line in block.splitlines() if _is_output(line))
        assert promised in capsys.readouterr().out

    translator = load_translator("my-model")  # as `vanilla-transformer translate` does next
    assert isinstance(translator("Hello", max_new_tokens=2)[0]["translation_text"], str)


def _is_output(line: str) -> bool:
    return line.startswith(("# tensor", "# 2", "# 4", "# ["))


def test_the_tokenizer_commands_of_the_readme_run(tmp_path):
    commands = re.findall(
        r"^python -m (tokenizer\.\w+ .*)$", README.read_text("utf-8"), re.MULTILINE
    )
    for side, language in enumerate(("en", "de")):
        lines = [line.split("\t")[side] for line in SENTENCES.splitlines()]
        (tmp_path / f"train.{language}").write_text("\n".join(lines), encoding="utf-8")

    for command in commands:
        run_fresh("-m", *shlex.split(command), folder=tmp_path, PYTHONPATH=str(REPOSITORY))

    assert {command.split()[0] for command in commands} == {"tokenizer.train", "tokenizer.show"}


def test_the_evaluations_of_the_readme_run(translate, tmp_path, monkeypatch):
    commands = re.findall(r"^vanilla-transformer (evaluate .*)$", README.read_text("utf-8"), re.M)
    monkeypatch.chdir(tmp_path)
    for name in ("my-model", "other-model"):
        translate.save_pretrained(name)
    Path("test.tsv").write_text(SENTENCES, encoding="utf-8")
    for side, language in enumerate(("en", "de")):
        lines = [line.split("\t")[side] for line in SENTENCES.splitlines()]
        Path(f"test.{language}").write_text("\n".join(lines), encoding="utf-8")

    results = [CliRunner().invoke(app, shlex.split(command)) for command in commands]

    assert [result.exit_code for result in results] == [0, 0, 0], results[-1].stderr


def test_the_attention_commands_of_the_readme_run(translate, tmp_path, monkeypatch):
    commands = re.findall(r"^vanilla-transformer (attention .*)$", README.read_text("utf-8"), re.M)
    monkeypatch.chdir(tmp_path)
    translate.save_pretrained("my-model")

    results = [CliRunner().invoke(app, shlex.split(command)) for command in commands]

    assert [result.exit_code for result in results] == [0, 0], results[-1].stderr
    assert Path("attention.html").exists()
    assert Path("links.png").exists()


def test_the_publications_of_the_readme_run(translate, at_hub, tmp_path, monkeypatch):
    text = README.read_text("utf-8")
    commands = re.findall(r"^vanilla-transformer (publish .*?)(?: +#.*)?$", text, re.M)
    (facts,) = re.findall(r"```yaml\n# facts.yaml\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vanilla_transformer.publish.verify_folder", lambda *seen: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    translate.save_pretrained("my-model")
    Path("facts.yaml").write_text(facts, encoding="utf-8")

    with at_hub() as hub:  # where "you" are alice
        results = [
            CliRunner().invoke(app, shlex.split(command.replace("you/", "alice/")))
            for command in commands
        ]

    assert [result.exit_code for result in results] == [0, 0], results[-1].stderr
    card = hub.repositories["alice/my-model"].files["README.md"].decode()
    told = yaml.safe_load(facts)
    assert all(told[name] in card for name in ("summary", "license", "intended_use", "limits"))


@pytest.mark.parametrize("target", re.findall(r"`(tests/\w+\.py)`", README.read_text("utf-8")))
def test_every_test_file_the_readme_names_exists(target):
    assert (README.parent / target).exists()


def test_the_fine_tunings_of_the_readme_run(translate, tmp_path, monkeypatch):
    commands = re.findall(r"^python training/finetune.py (.*)$", README.read_text("utf-8"), re.M)
    monkeypatch.chdir(tmp_path)
    translate.save_pretrained("my-model")
    for name in ("train.tsv", "val.tsv"):
        Path(name).write_text(SENTENCES, encoding="utf-8")
    fine_tune = Typer()
    fine_tune.command()(finetune.main)

    results = [
        CliRunner().invoke(fine_tune, [*shlex.split(c), "--max-steps", "2"]) for c in commands
    ]

    assert [result.exit_code for result in results] == [0, 0, 0], results[-1].stderr


def test_the_recipe_of_the_readme_describes_a_training(tmp_path):
    (block,) = re.findall(r"```yaml\n(corpus:.*?)```", README.read_text("utf-8"), re.DOTALL)
    (tmp_path / "my-recipe.yaml").write_text(block, encoding="utf-8")

    recipe = load_recipe(tmp_path / "my-recipe.yaml", ("optimization.peak_learning_rate=2e-3",))

    assert [len(corpus.places) for corpus in recipe.corpus.train] == [2, 1]
    assert (
        build_model(
            recipe, AutoTokenizer.from_pretrained(REPOSITORY / "tokenizer/en-de")
        ).num_parameters()
        > 1e6
    )


def test_the_training_commands_of_the_readme_name_files_that_there_are():
    commands = re.findall(r"training/[\w/-]+\.(?:py|yaml)", README.read_text("utf-8"))

    assert len(commands) > 5
    assert all((REPOSITORY / name).exists() for name in commands)
