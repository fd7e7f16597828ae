"""`vanilla-transformer evaluate`, from a saved model to a table, and every refusal."""

import json
import sys

import pytest
import sacrebleu
from scripts.toy_translation import make_model, make_pairs
from toy_models import texts_of
from transformers import pipeline
from typer.testing import CliRunner

from vanilla_transformer.cli import app

PAIRS = make_pairs(30)
SOURCES, REFERENCES = (list(side) for side in zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def models(toy_models, toy_tokenizer, tmp_path_factory):
    folders = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    other = make_model(seed=1, max_position_embeddings=64).eval()
    for folder, model in zip(folders, (toy_models["ours"], other), strict=True):
        model.save_pretrained(folder)
        toy_tokenizer.save_pretrained(folder)
    return folders


@pytest.fixture(scope="module")
def translations(models):
    return [texts_of(pipeline("translation", model=str(model))(SOURCES)) for model in models]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, lines in (("source", SOURCES), ("reference", REFERENCES), ("short", SOURCES[:7])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "empty").write_text("")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_the_report_holds_sacrebleu_s_scores_of_the_pipeline_s_text(models, translations, folder):
    first, second = models
    result = run(
        "source", "reference", "--model", first, "--model", second, "--hypotheses", "reference",
        "--format", "json", "--resamples", 50, "--tokenize", "none",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    systems = report["systems"]
    assert [system["system"] for system in systems] == [str(first), str(second), "reference"]
    assert [system["scores"]["BLEU"]["score"] for system in systems] == [
        sacrebleu.corpus_bleu(texts, [REFERENCES], tokenize="none").score
        for texts in (*translations, REFERENCES)
    ]
    assert [system["scores"]["chrF2"]["score"] for system in systems] == [
        sacrebleu.corpus_chrf(texts, [REFERENCES]).score for texts in (*translations, REFERENCES)
    ]
    assert systems[0]["scores"]["BLEU"]["p_value"] is None
    assert systems[2]["scores"]["BLEU"]["p_value"] < 0.05
    assert (report["num_sentences"], report["resamples"]) == (len(PAIRS), 50)
    assert "tok:none" in report["signatures"]["BLEU"]
    assert report["versions"]["sacrebleu"] == sacrebleu.__version__
    assert "tokens/s" in result.stderr


def test_the_table_has_a_row_for_each_system_and_marks_what_is_significant(models, folder):
    model = models[0]
    result = run(
        "source", "reference", "--model", model, "--model", model, "--hypotheses", "reference"
    )

    assert result.exit_code == 0, result.stderr
    head, baseline, same, perfect, *_, bleu, chrf = result.stdout.splitlines()
    assert head.split() == ["system", "BLEU", "chrF2"]
    assert baseline.startswith(str(model))
    assert "(p" not in baseline
    assert same.count("(p = 1.0000)") == 2
    assert "*" not in same
    assert "100.00 ± 0.00 (p = 0.0010)*" in perfect
    assert bleu.startswith("BLEU: nrefs:1|bs:1000|seed:12345|")
    assert chrf.startswith("chrF2: nrefs:1|bs:1000|seed:12345|")


def test_options_reach_the_translation_and_what_is_saved_scores_the_same(models, folder):
    options = "--beam", 2, "--dtype", "bfloat16", "--batch-tokens", 50, "--lowercase"
    made = run(
        "source", "reference", "--model", models[0], *options, "--format", "json",
        "--save-translations", "out/new",
    )  # fmt: skip
    [saved] = (folder / "out" / "new").iterdir()
    read = run("source", "reference", "--hypotheses", saved, "--lowercase", "--format", "json")

    assert made.exit_code == read.exit_code == 0, made.stderr + read.stderr
    made, read = json.loads(made.stdout), json.loads(read.stdout)
    assert made["systems"][0]["scores"] == read["systems"][0]["scores"]
    assert (made["beam"], made["dtype"], made["batch_tokens"]) == (2, "bfloat16", 50)
    assert "case:lc" in made["signatures"]["BLEU"]


REFUSED = {
    "no such source": ("missing", "reference"),
    "no such reference": ("source", "missing"),
    "other lengths": ("source", "short"),
    "an empty set": ("empty", "empty"),
    "no reference": ("source",),
    "no such model": ("source", "reference", "--model", "no/such/folder"),
    "no such hypotheses": ("source", "reference", "--hypotheses", "missing"),
    "too few hypotheses": ("source", "reference", "--hypotheses", "short"),
    "an unknown tokenize": ("source", "reference", "--tokenize", "words"),
    "a folder with files": ("source", "reference", "--save-translations", "taken"),
    "too many resamples": ("source", "reference", "--resamples", "9000000"),
}
MISUSED = {
    "no source": (),
    "no system": ("source", "reference"),
    "a beam of 0": ("source", "reference", "--model", "m", "--beam", "0"),
    "no resamples": ("source", "reference", "--model", "m", "--resamples", "0"),
    "an unknown format": ("source", "reference", "--model", "m", "--format", "xml"),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line_and_exit_code_1(arguments, models, folder):
    given = {"--model", "--hypotheses"} & {*arguments}
    result = run(*arguments, *(() if given else ("--model", models[0])))

    assert result.exit_code == 1, result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert result.stdout == ""
    assert (folder / "taken" / "mine").read_text() == "mine"


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_a_misuse_has_exit_code_2(arguments, folder):
    assert run(*arguments).exit_code == 2


def test_without_sacrebleu_the_extra_is_named(models, folder, monkeypatch):
    for module in ("significance", "model_comparison", "score_report"):
        monkeypatch.delitem(sys.modules, f"vanilla_transformer.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    result = run("source", "reference", "--model", models[0])

    assert result.exit_code == 1
    assert "pip install 'vanilla-transformer[train]'" in result.stderr.splitlines()[-1]
