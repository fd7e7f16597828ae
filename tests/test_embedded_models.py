"""The models that come with the package: found by name, and loaded without asking for trust.

This is asked of a stand-in that has learned nothing; test_shipped_model.py asks the one that ships.
"""

import re

import pytest
import torch
from conftest import SENTENCES
from safetensors.torch import load_file
from scripts.fresh_process import REPOSITORY, run_fresh
from toy_models import text_of
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from typer import Typer
from typer.testing import CliRunner

import vanilla_transformer
from training import finetune
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.cli import app
from vanilla_transformer.embedded_models import DEFAULT_MODEL, find_model

QUESTION = "Where is the train station?"


def run(*arguments, **options):
    return CliRunner().invoke(app, [*map(str, arguments)], **options)


def test_whatever_loads_folders_takes_it_without_asking_for_trust(with_stand_in):
    folder = vanilla_transformer.embedded("en-de-small")
    auto = AutoModelForSeq2SeqLM.from_pretrained(folder)
    translate = pipeline("translation", model=folder)

    assert folder == vanilla_transformer.embedded() == with_stand_in
    for model in (auto, translate.model):
        assert type(model) is VanillaTransformerForConditionalGeneration
        assert model.dtype == torch.float32
    ours = VanillaTransformerForConditionalGeneration.from_pretrained(folder)
    batch = AutoTokenizer.from_pretrained(folder)([QUESTION], return_tensors="pt")
    written = translate.tokenizer.batch_decode(ours.generate(**batch), skip_special_tokens=True)
    assert written == [text_of(translate(QUESTION))]


def test_trusting_it_all_the_same_does_no_harm(with_stand_in):
    model = AutoModelForSeq2SeqLM.from_pretrained(with_stand_in, trust_remote_code=True)

    assert type(model) is VanillaTransformerForConditionalGeneration


def test_what_is_saved_from_it_carries_the_code_again(with_stand_in, tmp_path):
    model = VanillaTransformerForConditionalGeneration.from_pretrained(with_stand_in)
    model.save_pretrained(tmp_path)

    assert (tmp_path / "modeling_vanilla_transformer.py").exists()
    assert '"auto_map"' in (tmp_path / "config.json").read_text()


def test_what_ought_to_be_there_is_not_looked_for_on_the_hub(with_stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("vanilla_transformer.embedded_models.EMBEDDED", tmp_path)

    result = run("translate", input="Hello")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: The name of an embedded model must be one of")


def test_it_is_published_and_fine_tuned_by_its_name(with_stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("vanilla_transformer.publish.verify_folder", lambda *seen: None)
    (tmp_path / "pairs.tsv").write_text(SENTENCES, encoding="utf-8")
    fine_tune = Typer()
    fine_tune.command()(finetune.main)
    options = [f"--{name}={tmp_path / 'pairs.tsv'}" for name in ("train", "validation")]
    options += ["--max-steps", "1", "--output", str(tmp_path / "tuned")]

    published = run("publish", "en-de-small", "--dry-run", "--folder", tmp_path / "published")
    tuned = CliRunner().invoke(fine_tune, ["en-de-small", *options])

    assert published.exit_code == tuned.exit_code == 0, published.output + tuned.output
    for name in ("published", "tuned"):
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / name)
        assert (
            len(tokenizer)
            == load_file(tmp_path / name / "model.safetensors")["model.shared.weight"].shape[0]
        )


@pytest.mark.parametrize("name", ["en-de-huge", "", ".", "../embedded/en-de-small", None])
def test_an_unknown_name_is_refused_with_those_there_are(name, with_stand_in):
    with pytest.raises(ValueError, match=rf"\(en-de-small\), got {re.escape(repr(name))}"):
        vanilla_transformer.embedded(name)


def test_naming_a_folder_imports_no_library(tmp_path):
    program = (
        "import sys; from vanilla_transformer import embedded; assert callable(embedded); "
        "assert not {'torch', 'transformers', 'numpy', 'typer'} & sys.modules.keys()"
    )

    run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY))


def test_a_name_is_the_embedded_model_s_unless_a_folder_of_yours_has_it(
    with_stand_in, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = find_model(DEFAULT_MODEL)
    (tmp_path / DEFAULT_MODEL).mkdir()

    assert before == with_stand_in
    assert find_model(DEFAULT_MODEL) == DEFAULT_MODEL
    assert find_model("alice/toy") == "alice/toy"


def test_the_command_line_translates_by_name_and_by_default(with_stand_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text(f"{QUESTION}\n\nI am hungry.\n")
    models = (), ("--model", DEFAULT_MODEL), ("--model", with_stand_in)

    results = [run("translate", "in", *model) for model in models]

    assert [result.exit_code for result in results] == [0] * 3, results[0].stderr
    assert len({result.stdout_bytes for result in results}) == 1
    assert f"[default: {DEFAULT_MODEL}]" in run("translate", "--help").stdout


def test_the_command_line_evaluates_and_looks_by_name(with_stand_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.tsv").write_text(SENTENCES)

    scored = run("evaluate", "test.tsv", "--model", DEFAULT_MODEL, "--resamples", 10)
    looked = run("attention", QUESTION)

    assert scored.stdout.splitlines()[1].startswith(DEFAULT_MODEL), scored.stderr
    assert looked.exit_code == 0, looked.stderr
    assert QUESTION.split()[0] in (tmp_path / "attention.html").read_text("utf-8")
