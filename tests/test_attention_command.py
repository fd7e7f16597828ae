"""`vanilla-transformer attention`: every format is written, whole, and never over another file."""

import pytest
from scripts.fresh_process import REPOSITORY
from toy_models import BARTLIKE, LINE, OTHER
from transformers import MBartConfig, MBartForConditionalGeneration
from typer.main import get_command
from typer.testing import CliRunner

from vanilla_transformer import attention_file
from vanilla_transformer.attention_maps import look_through
from vanilla_transformer.cli import app
from vanilla_transformer.translators import load_translator


@pytest.fixture(scope="module")
def model(toy_models, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    toy_models["ours"].save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "taken.html").write_text("mine")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["attention", *map(str, arguments)])


def test_a_page_is_what_the_library_composes(model, elsewhere):
    result = run(LINE, "--model", model, "--target", OTHER, "--kind", "encoder", "--pieces")

    assert result.exit_code == 0, result.stderr
    maps = look_through(load_translator(str(model)), LINE, OTHER, pieces=True)
    assert (elsewhere / "attention.html").read_text("utf-8") == maps.page(kind="encoder")
    assert result.stderr.endswith("Written: attention.html\n")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "name", "start"),
    [
        (("--output", "a.png", "--layer", 2), "a.png", b"\x89PNG"),
        (("--format", "svg", "--view", "alignment"), "attention.svg", b"<?xml"),
        (("--output", "taken.html", "--force"), "taken.html", b"<!DOCTYPE html>"),
    ],
)
def test_every_format_is_written(options, name, start, model, elsewhere):
    result = run(LINE, "--model", model, "--target", OTHER, *options)

    assert result.exit_code == 0, result.stderr
    assert (elsewhere / name).read_bytes().startswith(start)
    assert {file.name for file in elsewhere.iterdir()} == {name, "taken.html"}


def test_a_model_of_many_languages_is_told_them(tokenizers, elsewhere):
    folder, tokenizer = elsewhere / "many", tokenizers["mbart"]
    words = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    MBartForConditionalGeneration(MBartConfig(**{**BARTLIKE, **words})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    languages = {"src_lang": "en_XX", "tgt_lang": "de_DE"}
    options = ("--src-lang", "en_XX", "--tgt-lang", "de_DE")

    result = run("the cat", "--model", folder, "--target", "a dog", *options)

    assert result.exit_code == 0, result.stderr
    maps = look_through(load_translator(str(folder)), "the cat", "a dog", **languages)
    assert (elsewhere / "attention.html").read_text("utf-8") == maps.page()


def test_a_dash_is_stdout(model, elsewhere):
    result = run(LINE, "--model", model, "--target", OTHER, "--output", "-", "--format", "png")

    assert result.stdout_bytes.startswith(b"\x89PNG")
    assert not (elsewhere / "-").exists()


REFUSED = {
    "no words": ("", "one line with a word"),
    "no such layer": (LINE, "layer must be between", "--layer", 9),
    "existing output": (LINE, "--force", "--output", "taken.html"),
    "a folder": (LINE, "must be a file", "--output", "."),
    "no such folder": (LINE, "must be a file in a folder", "--output", "no/a.html"),
    "no such format": (LINE, "format must be one of", "--output", "a.pdf"),
    "a format and another ending": (LINE, "or another", "--format", "html", "--output", "a.PNG"),
    "languages of a model of one": (LINE, "src_lang must be left out", "--src-lang", "en"),
    "no such view of a page": (LINE, "or write a picture", "--view", "grid"),
    "a grid of a head": (LINE, "of one head", "--format", "png", "--view", "grid", "--head", 1),
    "no such model": (LINE, "--model", "--model", "no/such/folder"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line_and_writes_nothing(case, model, elsewhere):
    sentence, complaint, *options = case
    models = () if "--model" in options else ("--model", model)

    result = run(sentence, *models, "--target", OTHER, *options)

    assert result.exit_code == 1, result.stderr
    told = result.stderr.splitlines()[-1]
    assert told.startswith("Error: ")
    assert complaint.removeprefix("--") in told
    assert [file.name for file in elsewhere.iterdir()] == ["taken.html"]
    assert (elsewhere / "taken.html").read_text() == "mine"


@pytest.mark.parametrize("options", [("--layer", 0), ("--kind", "inner"), ("--format", "pdf")])
def test_a_misuse_has_exit_code_2(options, model):
    assert run(LINE, "--model", model, *options).exit_code == 2


def test_a_write_that_fails_leaves_nothing(elsewhere, monkeypatch):
    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr("vanilla_transformer.file_replacement.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        attention_file.write_output(elsewhere / "taken.html", b"new", force=True)

    assert [file.name for file in elsewhere.iterdir()] == ["taken.html"]
    assert (elsewhere / "taken.html").read_text() == "mine"


def test_a_file_that_came_meanwhile_is_kept(elsewhere):
    with pytest.raises(ValueError, match="must be a new file"):
        attention_file.write_output(elsewhere / "taken.html", b"new", force=False)

    assert (elsewhere / "taken.html").read_text() == "mine"


def test_the_docs_name_every_option():
    text = (REPOSITORY / "docs" / "attention.md").read_text("utf-8")
    parameters = get_command(app).commands["attention"].params

    options = [option for parameter in parameters for option in parameter.opts if "--" in option]
    assert len(options) > 10
    assert [
        option for option in options if f"`{option}" not in text and f" {option} " not in text
    ] == []
