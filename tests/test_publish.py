"""The command `publish`: what it makes needs nobody, arrives whole, and takes nothing private."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from copy import deepcopy
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from scripts.fresh_process import SCRIPTS, run_fresh
from toy_models import TEXTS, texts_of
from transformers import pipeline
from typer.testing import CliRunner

from vanilla_transformer import folder_verification
from vanilla_transformer.cli import app
from vanilla_transformer.folder_verification import verify_folder
from vanilla_transformer.publishable_folder import make_folder

NAME = "alice/toy"
FACTS = """\
title: A toy
license: mit
examples: [source1 source2]
failures: [{source: source5, comment: it says nothing}]
"""
# What a reader of the uploaded folder does where the package does not exist.
READER = """
import json, sys
import without_package  # hides the package from every finder
from transformers import pipeline
translate = pipeline("translation", model=sys.argv[1], trust_remote_code=True)
assert type(translate.model).__module__.startswith("transformers_modules.")
print(json.dumps([one["translation_text"] for one in translate(json.loads(sys.argv[2]))]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("publish")


@pytest.fixture(scope="module")
def source(root, toy_models, toy_tokenizer):
    """A model folder as people have them, with things beside that need not go."""
    folder = root / "toy"
    deepcopy(toy_models["ours"]).to(torch.bfloat16).save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    (folder / "LICENSE").write_text("Do what you like.")
    (folder / ".hidden").write_text("mine")
    (folder / "old_module.py").write_text("raise SystemExit('it ran')")
    (folder / "checkpoint-5").mkdir()
    (folder / "checkpoint-5" / "optimizer.pt").write_bytes(b"\x80\x02")
    return folder


@pytest.fixture
def copy(source, tmp_path):
    return shutil.copytree(source, tmp_path / "copy")


@pytest.fixture
def unverified(monkeypatch):
    """Without the process that verifies, which takes seconds and has its own tests."""
    monkeypatch.setattr("vanilla_transformer.publish.verify_folder", lambda *seen: None)


def publish(*arguments):
    return CliRunner().invoke(app, ["publish", *map(str, arguments)])


def digests_of(folder):
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_what_is_published_arrives_whole_and_translates_alike_without_the_package(
    source, root, at_hub, tmp_path
):
    (tmp_path / "facts.yaml").write_text(FACTS)
    before = digests_of(source)
    with at_hub() as hub:
        result = publish(
            source, "--to", "toy", "--private", "--message", "First", "--folder",
            tmp_path / "kept", "--card", tmp_path / "facts.yaml", "--exclude", "LICENSE",
        )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    repository = hub.repositories[NAME]
    assert result.stdout == f"{hub.url}/{NAME}/commit/{repository.head}\n"
    assert [message for message, _ in repository.commits[1:]] == ["First"]
    assert repository.private
    arrived = repository.save(tmp_path / "arrived")
    (arrived / ".gitattributes").unlink()
    assert digests_of(arrived) == digests_of(tmp_path / "kept")
    assert digests_of(source) == before
    assert not {"LICENSE", ".hidden", "old_module.py", "checkpoint-5"} & set(repository.files)
    assert NAME in (arrived / "README.md").read_text()

    written = run_fresh(
        "-c", READER, arrived, json.dumps(TEXTS), folder=root, PYTHONPATH=str(SCRIPTS)
    )
    local = pipeline("translation", model=str(source), dtype="auto")
    assert json.loads(written.splitlines()[-1]) == texts_of(local(TEXTS))
    assert {t.dtype for t in load_file(arrived / "model.safetensors").values()} == {torch.bfloat16}


def test_a_dry_run_leaves_the_folder_and_names_every_file(source, at_hub, tmp_path, unverified):
    with at_hub(token=None) as hub:
        result = publish(
            source, "--to", NAME, "--private", "--dry-run", "--folder", tmp_path / "dry"
        )

    assert result.exit_code == 0, result.stderr
    assert hub.requests == []
    lines = [line.split() for line in result.stdout.splitlines()]
    listed = {line[1]: int(line[0].replace(",", "")) for line in lines if line[0][0].isdigit()}
    total = listed.pop("in")
    assert listed == {file.name: file.stat().st_size for file in (tmp_path / "dry").iterdir()}
    assert total == sum(listed.values())
    assert lines[0] == ["repository", f"{NAME},", "private"]
    assert ["left", "out", "checkpoint-5/"] in lines
    assert {"LICENSE", "README.md", "modeling_vanilla_transformer.py"} <= listed.keys()


def test_what_is_not_made_anew_is_said_to_be_left_out(copy, tmp_path, unverified):
    weights = load_file(copy / "model.safetensors")
    keys = sorted(weights)
    parts = {f"model-0000{n}-of-00002.safetensors": keys[n - 1 :: 2] for n in (1, 2)}
    for name, part in parts.items():
        save_file({key: weights[key] for key in part}, copy / name, metadata={"format": "pt"})
    index = {key: name for name, part in parts.items() for key in part}
    (copy / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )
    (copy / "model.safetensors").rename(copy / "ema.safetensors")
    (copy / "handler.py").write_text("")
    (copy / "attention_scores.py").write_text("")  # which is made anew
    result = publish(copy, "--dry-run", "--folder", tmp_path / "dry", "--exclude", "LICENSE")

    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[2] for line in lines if line[:2] == ["left", "out"]] == [
        *(".hidden", "LICENSE", "checkpoint-5/", "ema.safetensors", "handler.py", "old_module.py")
    ]
    assert "model.safetensors" in {line[1] for line in lines}


def test_a_folder_that_was_asked_for_stays_when_the_upload_fails(
    source, at_hub, tmp_path, unverified, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with at_hub() as hub:
        hub.fail("/commit/", code=402, times=99)
        asked = publish(source, "--to", NAME, "--folder", tmp_path / "asked")
        publish(source, "--to", NAME)

    assert asked.exit_code == 1
    assert "billing" in asked.stderr
    assert (tmp_path / "asked" / "model.safetensors").is_file()
    assert not [*tmp_path.glob("vanilla-transformer-*")]


def test_weights_that_are_wider_in_memory_than_stored_keep_their_size(
    source, copy, tmp_path, unverified
):
    config = json.loads((copy / "config.json").read_text())  # as `make embed` writes it
    (copy / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    result = publish(copy, "--dry-run", "--folder", tmp_path / "dry")

    assert result.exit_code == 0, result.stderr
    made, stored = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "dry", source)
    )
    assert made.keys() == stored.keys()
    assert all(made[name].dtype == stored[name].dtype == torch.bfloat16 for name in stored)
    assert all(torch.equal(made[name], stored[name]) for name in stored)
    assert json.loads((tmp_path / "dry" / "config.json").read_text())["dtype"] == "float32"


def test_a_dry_run_finds_itself_a_folder(source, unverified, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = publish(source, "--dry-run")

    folder = Path(result.stdout.splitlines()[1].split()[-1])
    assert folder.parent == tmp_path
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert "--to user/name" in result.stdout


def test_a_folder_that_cannot_be_read_alone_is_not_published(source, at_hub, monkeypatch):
    def spoil(source, folder, **options):
        publication = make_folder(source, folder, **options)
        (folder / "attention_scores.py").write_text("import vanilla_transformer")
        return publication

    monkeypatch.setattr("vanilla_transformer.publish.make_folder", spoil)
    with at_hub() as hub:
        result = publish(source, "--to", NAME)

    assert result.exit_code == 1
    assert "No module named 'vanilla_transformer'" in result.stderr
    assert hub.repositories == {}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda logits, texts: (logits, texts), None),
        (lambda logits, texts: (logits + 0.01 * logits.abs().max(), texts), "differ by"),
        (lambda logits, texts: (logits * float("nan"), texts), "differ by"),
        (lambda logits, texts: (logits[..., :-1], texts), "logits of"),
        (lambda logits, texts: (logits, [texts[0], "else"]), "translate as the model does"),
    ],
    ids=["same", "other logits", "nan", "other words", "other translation"],
)
def test_what_another_process_reads_must_be_what_the_model_computes(
    change, complaint, toy_models, toy_tokenizer, monkeypatch
):
    model = toy_models["ours"]
    batch = toy_tokenizer(folder_verification.TEXTS, return_tensors="pt", padding=True)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    logits = model(**inputs, decoder_input_ids=inputs["input_ids"]).logits.detach()
    translate = pipeline("translation", model=model, tokenizer=toy_tokenizer)
    seen = change(logits, texts_of(translate(folder_verification.TEXTS)))
    monkeypatch.setattr(folder_verification, "_read_alone", lambda folder, decoding: seen)

    if complaint is None:
        verify_folder(None, model, toy_tokenizer)
    else:
        with pytest.raises(ValueError, match=complaint):
            verify_folder(None, model, toy_tokenizer)


def test_who_draws_words_and_knows_fewer_of_them_as_targets_is_verified_too(
    build_tiny, toy_tokenizer, tmp_path
):
    model = build_tiny(
        vocab_size=len(toy_tokenizer),
        decoder_vocab_size=8,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    ).eval()
    model.generation_config.do_sample = True
    for part in (model, toy_tokenizer):
        part.save_pretrained(tmp_path)

    verify_folder(tmp_path, model, toy_tokenizer)


def test_a_model_that_cannot_take_the_texts_says_why_before_a_process_starts(
    build_tiny, toy_tokenizer, monkeypatch
):
    model = build_tiny(
        vocab_size=len(toy_tokenizer), position_encoding="learned", max_position_embeddings=2
    )
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: pytest.fail("started"))

    with pytest.raises(ValueError, match="knows 2 positions"):
        verify_folder(Path("folder"), model, toy_tokenizer)


# What takes the place of the other process, and what is said of its end.
ENDS = {
    "killed": ("import os; os.kill(os.getpid(), 9)", r"signal 9 \(Killed\): it wants.* memory"),
    "late": ("import time; time.sleep(60)", r"must end within 0.2 seconds"),
    "refused": ("raise SystemExit('no room')", r"installed, got: no room\.$"),
}


@pytest.mark.parametrize(("program", "complaint"), ENDS.values(), ids=ENDS)
def test_how_the_other_process_ended_is_told(
    program, complaint, toy_models, toy_tokenizer, tmp_path, monkeypatch
):
    (tmp_path / "reader.py").write_text(program)
    monkeypatch.setattr(folder_verification, "READER", tmp_path / "reader.py")
    if "sleep" in program:
        monkeypatch.setattr(folder_verification, "SECONDS", 0.2)

    with pytest.raises(ValueError, match=complaint):
        verify_folder(tmp_path, toy_models["ours"], toy_tokenizer)


def spoil_weights(folder, value):
    weights = load_file(folder / "model.safetensors")
    weights["model.encoder.layers.0.fc1.bias"][3] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def add_metadata(folder):
    weights = load_file(folder / "model.safetensors")
    metadata = {"format": "pt", "from": "/root/me/run"}
    save_file(weights, folder / "model.safetensors", metadata=metadata)


def add_to_configuration(folder):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "cache": "C:\\Users\\me\\x"}))


def add_archive(folder):
    with ZipFile(folder / "words.zip", "w") as archive:
        archive.writestr("words.PKL.gz", b"x")


def writing(name, text):
    """Spoil a folder by what stands in one of its files."""
    return lambda folder: (folder / name).write_text(text)


TOKEN = "hf_" + "aB3" * 11
# How a folder is spoilt, and what is said of it.
SPOILT = {
    "nan": (lambda f: spoil_weights(f, float("nan")), "nan or infinity in model.encoder.layers.0"),
    "infinity": (lambda f: spoil_weights(f, float("inf")), "nan or infinity"),
    "arguments": (
        lambda f: torch.save({}, f / "training_args.bin"),
        "training_args.bin must be no",
    ),
    "pickle": (lambda f: (f / "vocabulary.pkl").write_bytes(b"x"), "vocabulary.pkl must be no"),
    "packed pickle": (lambda f: (f / "words.PKL.gz").write_bytes(b"x"), "words.PKL.gz must be no"),
    "pickle in an archive": (add_archive, "words.zip must be no pickle"),
    "hidden pickle": (lambda f: torch.save({}, f / "words.txt"), "words.txt must be no pickle"),
    "old pickle": (lambda f: (f / "words.dat").write_bytes(b"\x80\x04."), "words.dat must be no"),
    "token": (
        writing("notes.txt", f"a {TOKEN} b"),
        "notes.txt must hold nothing",
    ),
    "home": (writing("notes.md", "in /home/me/x"), "/home/me"),
    "configuration": (add_to_configuration, "config.json must hold nothing private"),
    "metadata": (add_metadata, "The metadata of model.safetensors"),
    "card": (writing("README.md", "---\nlicense: mit\n---\n/tmp/x"), "README.md"),
    "bad card": (writing("README.md", "# No metadata"), "README.md: A card must"),
    "damaged settings": (
        writing("generation_config.json", '{"num_beams": 4,'),
        "generation_config.json must be JSON in UTF-8, got",
    ),
    "other settings": (
        writing("generation_config.json", "[]"),
        "generation_config.json must hold names with values, got []",
    ),
    "damaged words": (lambda f: (f / "words.json").write_bytes(b"\xff"), "words.json must be JSON"),
    "no configuration": (writing("config.json", "[]"), "Error: config.json must"),
    "empty tokenizer": (
        writing("tokenizer.json", "{}"),
        "must hold a tokenizer (save one there with tokenizer.save_pretrained), got: KeyError",
    ),
    "odd configuration": (
        writing("config.json", '{"model_type": ["x"]}'),
        "got: TypeError",
    ),
    "no sections": (
        writing("recipe.yaml", "batching: [3]\nseed: 1"),
        "recipe.yaml must hold the sections of a recipe, got {'batching': [3]}",
    ),
    "no languages": (
        writing("recipe.yaml", "corpus: {source: 3, target: de}"),
        "recipe.yaml must hold the sections of a recipe, got {'corpus.source': 3}",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors"),
    "cut weights": (lambda f: (f / "model.safetensors").write_bytes(b"1234"), "safetensors"),
    "no tokenizer": (lambda f: [one.unlink() for one in f.glob("tok*")], "must hold a tokenizer"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_each_thing_that_must_not_be_published_is_refused(name, copy, at_hub, unverified):
    spoil, complaint = SPOILT[name]
    spoil(copy)
    with at_hub() as hub:
        result = publish(copy, "--to", NAME)

    assert result.exit_code == 1
    assert complaint in result.stderr.splitlines()[-1]
    assert TOKEN not in result.stderr
    assert hub.repositories == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "results.json must be JSON in UTF-8, got"),
        ("[]", "results.json must hold scores by test set, got []"),
        ('{"test": 3}', "results.json must hold scores by test set, got {'test': 3}"),
        ('{"test": {"bleu_signature": [3]}}', "results.json must hold scores by test set"),
    ],
)
def test_results_of_a_run_that_are_none_are_refused_by_name(
    text, complaint, copy, tmp_path, unverified
):
    run = tmp_path / "run"
    shutil.copytree(copy, run / "model")
    (run / "model" / "recipe.yaml").write_text("seed: 1")
    (run / "results.json").write_text(text)
    result = publish(run / "model", "--dry-run", "--folder", tmp_path / "dry")

    assert result.exit_code == 1
    assert complaint in result.stderr.splitlines()[-1]
    assert not (tmp_path / "dry").exists()


@pytest.mark.parametrize("name", ["facts.yaml", "card.md"])
def test_what_a_given_card_says_is_looked_at_too(name, copy, unverified, tmp_path):
    text = {"facts.yaml": "limits: see /home/me/x", "card.md": "---\nlicense: mit\n---\n/home/me/x"}
    (tmp_path / name).write_text(text[name])
    (copy / "README.md").write_text(f"---\nlicense: mit\n---\n{TOKEN}")  # which does not go
    result = publish(copy, "--dry-run", "--folder", tmp_path / "dry", "--card", tmp_path / name)

    assert result.exit_code == 1
    assert "README.md must hold nothing private, got a path" in result.stderr
    assert "token" not in result.stderr.splitlines()[-1]


def test_all_reasons_are_told_at_once(copy, unverified, tmp_path):
    together = ("nan", "arguments", "hidden pickle", "token", "home", "configuration", "card")
    for name in together:
        SPOILT[name][0](copy)
    result = publish(copy, "--dry-run", "--folder", tmp_path / "dry")

    assert result.exit_code == 1
    complaint = result.stderr.splitlines()[-1]
    assert [name for name in together if SPOILT[name][1] not in complaint] == []
    assert not (tmp_path / "dry").exists()


def test_what_must_not_go_can_be_left_out(copy, unverified, tmp_path):
    SPOILT["arguments"][0](copy)
    SPOILT["token"][0](copy)
    result = publish(
        copy, "--dry-run", "--folder", tmp_path / "dry", "--exclude", "*.bin",
        "--exclude", "notes.txt",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    assert not {"training_args.bin", "notes.txt"} & {one.name for one in tmp_path.glob("dry/*")}


def test_a_card_that_somebody_wrote_stays_as_it_is(copy, unverified, tmp_path):
    card = "---\nlicense: mit\nlanguage: [en, de]\n---\n\n# Mine\r\n\n<b>all</b> of it"
    (copy / "README.md").write_bytes(card.encode())
    publish(copy, "--dry-run", "--folder", tmp_path / "kept")
    (tmp_path / "facts.yaml").write_text(FACTS)
    publish(copy, "--dry-run", "--folder", tmp_path / "made", "--card", tmp_path / "facts.yaml")
    (tmp_path / "other.md").write_text("---\nlicense: cc0-1.0\n---\n")
    publish(copy, "--dry-run", "--folder", tmp_path / "other", "--card", tmp_path / "other.md")

    assert (tmp_path / "kept" / "README.md").read_bytes() == card.encode()
    assert "# A toy" in ModelCard.load(tmp_path / "made" / "README.md").text
    assert ModelCard.load(tmp_path / "other" / "README.md").data.license == "cc0-1.0"


REFUSED = {
    "no place": ((), "--to user/name, or look at what would go with --dry-run"),
    "a bad name": (("--to", "a/b/c"), "--to must be"),
    "a used folder": (("--dry-run", "--folder", "used"), "--folder must be a new folder"),
    "a folder in the model": (("--dry-run", "--folder", "copy/inside"), "outside of MODEL"),
    "no card": (("--dry-run", "--card", "none.yaml"), "--card must be a file"),
    "a misspelt fact": (("--dry-run", "--card", "bad.yaml"), "did you mean license?"),
}


@pytest.mark.parametrize(("arguments", "complaint"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line_that_says_the_way_out(
    arguments, complaint, copy, tmp_path, monkeypatch, unverified
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_text("mine")
    (tmp_path / "bad.yaml").write_text("licence: mit")
    result = publish(copy, *arguments)

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert complaint in result.stderr.splitlines()[-1]
    assert (tmp_path / "used" / "mine").read_text() == "mine"
    assert not (copy / "inside").exists()


def test_other_models_and_folders_are_refused(copy, toy_models, tmp_path):
    toy_models["marian"].save_pretrained(copy)
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    places = (copy, tmp_path / "adapter", tmp_path, tmp_path / "run")
    results = [publish(place, "--dry-run") for place in places]

    complaints = [result.stderr.splitlines()[-1] for result in results]
    assert [result.exit_code for result in results] == [1, 1, 1, 1]
    assert "got MarianMTModel" in complaints[0]
    assert "merge_and_unload" in complaints[1]
    assert "save_pretrained" in complaints[2]
    assert f"did you mean '{tmp_path}/run/model'?" in complaints[3]
