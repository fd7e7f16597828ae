"""The models that come with the package: found by name, loaded without asking, and good enough.

What is asked of any embedded model is asked of a stand-in that has learned nothing. The second half
asks the one that ships.
"""

import re
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from conftest import SENTENCES
from safetensors.torch import load_file
from scripts.fresh_process import REPOSITORY, run_fresh
from test_training_embed import FACTS, FILES
from toy_models import text_of, texts_of
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from typer.testing import CliRunner

import vanilla_transformer
from training.embed import MOST_BYTES, describe
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.card_facts import read_facts
from vanilla_transformer.cli import app
from vanilla_transformer.embedded_models import DEFAULT_MODEL, EMBEDDED, find_model

QUESTION = "Where is the train station?"
# What a user does with an installed package, all of it in one process.
PROGRAM = f"""
import vanilla_transformer
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
folder = vanilla_transformer.embedded()
print(folder)
print(pipeline("translation", model=folder)("{QUESTION}")[0]["translation_text"])
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
[words] = model.generate(**tokenizer("{QUESTION}", return_tensors="pt"))
print(tokenizer.decode(words, skip_special_tokens=True))
"""


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


# What follows is about the model that ships.

GOOD = {
    QUESTION: {"Wo ist der Bahnhof?"},
    "I am hungry.": {"Ich habe Hunger.", "Ich bin hungrig."},
    "Tom is reading a book.": {"Tom liest ein Buch.", "Tom liest gerade ein Buch."},
}
LONG = [
    "The old house at the end of the street had been empty for so many years that nobody in the "
    "village could remember who had lived there, why they had left, or whether they would ever "
    "come back to open the shutters, sweep the floors and light a fire in the large kitchen again.",
    "Researchers at the institute reported on Tuesday that the enzyme, which breaks down polymers "
    "at room temperature, was obtained from bacteria in a landfill near the coast and remained "
    "stable for eleven weeks in a solution of sodium chloride and dissolved copper sulphate.",
    "Bread, butter, cheese, apples, pears, plums, cherries, flour, sugar, salt, pepper, eggs, tea, "
    "coffee, rice, beans, onions, garlic, tomatoes, potatoes, carrots and a bottle of vinegar",
    "NullPointerException: cannot invoke toString() because value is null (Main.java:42), trying "
    "again in 30 s, 60 s, 120 s; see https://example.org/errors?id=1234567890 and ~/logs/2026.txt",
    "No, no, I said no, and when I say no I mean no, whatever they say, whoever says so.",
]
LOOP = re.compile(r"(.{4,80}?)\1{3,}")  # the same thing four times in a row
SECONDS = 0.3  # of a processor, for a sentence; the goal is a fifth of it


@pytest.fixture(scope="module")
def shipped():
    return pipeline("translation", model=vanilla_transformer.embedded())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What users install: a source distribution and a wheel."""
    folder = tmp_path_factory.mktemp("built")
    command = sys.executable, "-m", "hatchling", "build", "--directory", str(folder)
    subprocess.run([*command, "-t", "sdist", "-t", "wheel"], cwd=REPOSITORY, check=True)
    return folder


@pytest.mark.parametrize("source", GOOD)
def test_simple_sentences_become_good_german(source, shipped):
    assert text_of(shipped(source)) in GOOD[source]


def test_a_sentence_takes_no_time_to_speak_of(shipped):
    seconds = []
    for source, _ in zip([*GOOD] * 4, range(10), strict=False):
        started = time.process_time()
        shipped(source)
        seconds.append(time.process_time() - started)

    assert statistics.median(seconds) < SECONDS


def test_long_and_foreign_text_does_not_become_a_loop(shipped):
    assert LOOP.search("Ich weiß, wo er " + "wo er " * 4)
    assert not LOOP.search("Nein, nein, nein, sagte ich; 1.000.000 Mal ... nein!!!!!!")
    for source, written in zip(LONG, texts_of(shipped(LONG)), strict=True):
        assert not LOOP.search(written), written
        assert len(source) / 2 < len(written) < 2 * len(source), written


def test_it_is_as_small_as_promised_and_says_whose_text_it_learned_from(shipped):
    folder = EMBEDDED / DEFAULT_MODEL
    weights = load_file(folder / "model.safetensors")

    assert {file.name for file in folder.iterdir()} == FILES
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    assert shipped.model.num_parameters() <= 12_000_000
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert (folder / "README.md").read_text("utf-8") == describe(DEFAULT_MODEL, read_facts(FACTS))


def test_it_reads_by_the_tokenizer_of_the_repository(shipped, en_de):
    assert shipped.tokenizer.backend_tokenizer.to_str() == en_de.backend_tokenizer.to_str()


def test_the_source_distribution_holds_it(built):
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {Path(*Path(name).parts[1:]) for name in files.getnames()}

    assert {Path("vanilla_transformer/embedded", DEFAULT_MODEL, name) for name in FILES} <= names


def test_the_wheel_translates_where_there_is_no_repository(built, tmp_path):
    [wheel] = built.glob("*.whl")
    ZipFile(wheel).extractall(tmp_path / "installed")
    (tmp_path / "in").write_text(f"{QUESTION}\n")
    place = {"folder": tmp_path, "PYTHONPATH": str(tmp_path / "installed")}

    folder, *translations = run_fresh("-c", PROGRAM, **place).splitlines()
    translations += run_fresh("-m", "vanilla_transformer", "translate", "in", **place).splitlines()

    assert Path(folder).is_relative_to(tmp_path / "installed")
    assert len(translations) == 3
    assert {*translations} <= GOOD[QUESTION]
