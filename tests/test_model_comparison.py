"""A test set is read whole or refused, and a model's translations are those of the pipeline."""

import gzip
import json
from pathlib import Path

import datasets
import pytest
from test_translate import LINES
from toy_models import texts_of

from vanilla_transformer import line_chunks
from vanilla_transformer.model_comparison import (
    System,
    check_one_process,
    prepare_folder,
    read_hypotheses,
    read_test_set,
    save_translations,
    translate_with,
)
from vanilla_transformer.translate import Options

SOURCES = ["A dog.", "Two\u2028cats", ""]
REFERENCES = ["Ein Hund.", "Zwei Katzen", ""]
PAIRS = list(zip(SOURCES, REFERENCES, strict=True))
FILES = {
    "en": "".join(f"{line}\n" for line in SOURCES),
    "de": "".join(f"{line}\r\n" for line in REFERENCES),
    "set.tsv": "".join(f"{source}\t{target}\textra\n" for source, target in PAIRS),
    "set.jsonl": "".join(json.dumps({"en": en, "de": de}) + "\n" for en, de in PAIRS),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "short").write_text("one\ntwo\n")
    (tmp_path / "blank").write_text(" \n\n\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "broken.tsv").write_text("a\tb\nno tab\n")
    (tmp_path / "latin").write_bytes(b"\xe4\n\n\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "places", [("en", "de"), ("en.gz", "de"), ("set.tsv",), ("set.jsonl",), ("set.jsonl.gz",)]
)
def test_every_format_gives_the_same_test_set(places, folder):
    source, reference = (*(folder / place for place in places), None)[:2]

    assert read_test_set(source, reference, "en, de") == (SOURCES, REFERENCES)


@pytest.mark.parametrize("place", ["saved::test", "tables::test"])
def test_a_dataset_is_a_test_set_like_in_recipes(place, folder):
    rows = datasets.Dataset.from_dict({"en": SOURCES, "de": REFERENCES})
    datasets.DatasetDict(train=rows.select([0]), test=rows).save_to_disk(folder / "saved")
    (folder / "tables").mkdir()
    rows.to_parquet(folder / "tables" / "test.parquet")

    assert read_test_set(Path(place), None, "en,de") == (SOURCES, REFERENCES)


def test_languages_say_which_is_the_source(folder):
    assert read_test_set(folder / "set.jsonl", None, "de,en") == (REFERENCES, SOURCES)


@pytest.mark.parametrize(
    ("source", "reference", "languages", "reason"),
    [
        ("en", "short", "en,de", "got 3 in .*en and 2 in .*short"),
        ("en", None, "en,de", "needs a REFERENCE"),
        ("no-such.tsv", None, "en,de", "There is no file .*no-such.tsv"),
        ("empty", "empty", "en,de", "is empty"),
        ("en", "blank", "en,de", "must have text"),
        ("broken.tsv", None, "en,de", "no tab between two sentences in row 2"),
        ("set.jsonl", None, "en,fr", "no text in field 'fr' in row 1"),
        ("set.jsonl", None, "en", "two names"),
        ("set.jsonl", "de", "en,de", "holds its references, got .*set.jsonl and .*de: leave"),
        ("en", "latin", "en,de", "must be UTF-8"),
    ],
)
def test_a_bad_test_set_is_refused(source, reference, languages, reason, folder):
    with pytest.raises(ValueError, match=reason):
        read_test_set(folder / source, reference and folder / reference, languages)


@pytest.mark.parametrize("name", ["de", "de.gz"])
def test_hypotheses_are_lines(name, folder):
    assert read_hypotheses(folder / name, REFERENCES).translations == REFERENCES


def test_hypotheses_must_be_as_many_as_references(folder):
    with pytest.raises(ValueError, match=r"short must have .* got 2 and 3"):
        read_hypotheses(folder / "short", REFERENCES)


def test_translations_are_those_of_the_pipeline(translate, tmp_path, monkeypatch):
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 4)
    translate.save_pretrained(tmp_path / "model")
    system = System(str(tmp_path / "model"), [])

    steps = list(translate_with(system, LINES, Options(), "float32"))

    assert system.translations == texts_of(translate(LINES, max_new_tokens=None))
    assert sum(step.lines for step in steps) == len(LINES)
    assert len(steps) == -(-len(LINES) // 4)


def test_saved_translations_can_be_passed_as_hypotheses(tmp_path):
    prepare_folder(tmp_path / "new" / "folder")
    system = System("some/model", SOURCES)

    save_translations(tmp_path / "new" / "folder", 2, system)

    file = tmp_path / "new" / "folder" / "2-model.txt"
    assert read_hypotheses(file, REFERENCES).translations == SOURCES


def test_a_folder_with_files_is_left_alone(folder):
    with pytest.raises(ValueError, match="new folder"):
        prepare_folder(folder)


def test_several_processes_are_refused(monkeypatch):
    check_one_process()
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(ValueError, match="one process, got 2"):
        check_one_process()
