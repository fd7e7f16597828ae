"""A finished run becomes the model that ships: half the bytes, no code, all attributions."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from typer import Typer
from typer.testing import CliRunner

from training import embed
from training.recipe import load_recipe
from vanilla_transformer import embedded_models
from vanilla_transformer.card_facts import read_facts
from vanilla_transformer.card_markup import plain
from vanilla_transformer.embedded_models import DEFAULT_MODEL
from vanilla_transformer.generation_vanilla_transformer import PAPER_DECODING
from vanilla_transformer.model_card import CardSubject, complaints_about_card, make_card
from vanilla_transformer.run_facts import RunFacts

FACTS = embed.RECIPES / f"{DEFAULT_MODEL}.facts.yaml"
FILES = {
    *("README.md", "config.json", "generation_config.json", "model.safetensors"),
    *("tokenizer.json", "tokenizer_config.json"),
}


@pytest.fixture(scope="module")
def model(build_tiny, en_de):
    """What the run has learned; it searches in its own way, and the paper's is what ships."""
    model = build_tiny(vocab_size=len(en_de))
    model.generation_config.update(num_beams=2, length_penalty=1.0, no_repeat_ngram_size=6)
    return model


@pytest.fixture
def run(model, en_de, tmp_path):
    """As much of a finished run as matters."""
    folder = tmp_path / "runs" / DEFAULT_MODEL
    model.save_pretrained(folder / "model")
    en_de.save_pretrained(folder / "model")
    (folder / "model" / "recipe.yaml").write_text("{}")
    (folder / "results.json").write_text("{}")
    (folder / "log.jsonl").write_text(json.dumps({"kind": "result", "step": 9}) + "\n")
    return folder


@pytest.fixture(autouse=True)
def empty_package(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded_models, "EMBEDDED", tmp_path / "embedded")


def test_the_folder_holds_what_is_needed_and_no_more(run, model):
    folder = embed.embed(run)

    assert embedded_models.embedded() == str(folder)
    assert {file.name for file in folder.iterdir()} == FILES
    for name in ("config.json", "tokenizer_config.json"):
        assert not {"auto_map", "custom_pipelines"} & json.loads((folder / name).read_text()).keys()
    assert [*folder.parent.iterdir()] == [folder]


def test_weights_are_stored_in_half_their_bytes_and_loaded_as_float32(run, model):
    folder = embed.embed(run)

    stored = load_file(folder / "model.safetensors")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert {weight.dtype for weight in stored.values()} == {torch.bfloat16}
    assert loaded.dtype == torch.float32
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight.bfloat16().float())


def test_the_decoding_is_the_paper_s_and_the_words_are_the_run_s(run, en_de):
    folder = embed.embed(run)

    decoding = json.loads((folder / "generation_config.json").read_text())
    assert decoding["no_repeat_ngram_size"] == 6
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert decoding | PAPER_DECODING == decoding
    assert tokenizer.backend_tokenizer.to_str() == en_de.backend_tokenizer.to_str()
    assert tokenizer("Where's it?")["input_ids"] == en_de("Where's it?")["input_ids"]


def test_the_readme_names_whose_text_it_is(run):
    readme = (embed.embed(run) / "README.md").read_text("utf-8")

    facts = read_facts(FACTS)
    for corpus in facts["training_data"]:
        assert plain(corpus["attribution"]) in readme
        assert plain(corpus["license"]) in readme
    assert ModelCard(readme).data.license == facts["license"]
    assert [*complaints_about_card(readme)] == []


def unfinish(run):
    (run / "log.jsonl").write_text("")


def spoil(run):
    weights = AutoModelForSeq2SeqLM.from_pretrained(run / "model")
    with torch.no_grad():
        weights.model.shared.weight[5, 5] = torch.nan
    weights.save_pretrained(run / "model")


def rename(run):
    run.rename(run.with_name("other"))


def take(run):
    (embedded_models.EMBEDDED / DEFAULT_MODEL).mkdir(parents=True)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (unfinish, "must be finished"),
        (spoil, "finite"),
        (rename, "must be a folder with a config.json"),
        (take, "--force"),
    ],
)
def test_what_must_not_ship_is_refused_and_leaves_nothing(change, complaint, run):
    change(run)
    command = Typer()
    command.command()(embed.main)

    result = CliRunner().invoke(command, [str(run)])

    assert result.exit_code == 1
    assert complaint in result.stderr
    assert [*embedded_models.EMBEDDED.glob("*/*")] == []


def test_a_folder_that_is_too_large_is_refused_and_the_old_one_stays(run, monkeypatch):
    folder = embed.embed(run)
    before = folder.stat()
    monkeypatch.setattr(embed, "MOST_BYTES", 1_000)

    with pytest.raises(ValueError, match=r"at most 1,000 bytes, got \d+,\d+"):
        embed.embed(run, force=True)

    assert folder.stat() == before


def test_force_replaces_a_model(run):
    (embed.embed(run) / "old.txt").write_text("old")

    assert {file.name for file in embed.embed(run, force=True).iterdir()} == FILES


def test_the_old_model_is_there_until_the_new_one_takes_its_place(run, monkeypatch):
    (embed.embed(run) / "old.txt").write_text("old")
    rename, seen = Path.rename, []

    def look_and_rename(path, target):
        seen.append([*embedded_models.EMBEDDED.rglob("old.txt")])
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", look_and_rename)
    embed.embed(run, force=True)

    assert seen
    assert all(seen)


def test_the_old_model_comes_back_if_the_new_one_cannot_take_its_place(run, monkeypatch):
    (embed.embed(run) / "old.txt").write_text("old")
    rename = Path.rename

    def rename_no_new_model(path, target):
        if target.name == run.name and not (path / "old.txt").exists():
            raise PermissionError("refused")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_no_new_model)
    with pytest.raises(PermissionError):
        embed.embed(run, force=True)

    assert [file.parent.name for file in embedded_models.EMBEDDED.rglob("old.txt")] == [run.name]


def test_the_facts_speak_of_every_text_of_the_recipe():
    facts = read_facts(FACTS)
    recipe = load_recipe(FACTS.with_name(f"{DEFAULT_MODEL}.yaml"))

    assert facts["test_sets"].keys() == {"validation", *recipe.corpus.tests}
    assert len(facts["training_data"]) == len(recipe.corpus.train)
    for corpus, source in zip(facts["training_data"], recipe.corpus.train, strict=True):
        [place] = source.places
        assert corpus["name"].split(",")[0].lower() in str(place)
        assert corpus.keys() == {"name", "pairs", "license", "url", "attribution"}


def test_a_card_can_be_made_of_the_facts(model):
    facts = yaml.safe_load(FACTS.read_text("utf-8"))
    card = make_card(CardSubject(model, "alice/toy", facts, RunFacts(), str.upper))

    assert card.count(facts["intended_use"]) == 1
    assert ModelCard(card).data.datasets == facts["datasets"]
