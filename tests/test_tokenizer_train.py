"""From a corpus to a bundle: the same bytes every time, and never half a bundle."""

import json
from pathlib import Path

import pytest
from conftest import SENTENCES
from scripts.fresh_process import REPOSITORY, run_fresh
from transformers import AutoTokenizer
from typer import Typer
from typer.testing import CliRunner

from tokenizer import bundle as bundle_module
from tokenizer.byte_pairs import learn_tokenizer
from tokenizer.measures import measure
from tokenizer.train import Options, keep_probabilities, main, make_bundle
from tokenizer.word_counts import WordCounts

APP = Typer()
APP.command()(main)
PAIRS = [tuple(line.split("\t")) for line in SENTENCES.splitlines()]
SMALL = Options(vocabulary_size=280)


def run(*arguments):
    return CliRunner().invoke(APP, [*map(str, arguments)])


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "pairs.tsv").write_text(SENTENCES, encoding="utf-8")
    return tmp_path / "pairs.tsv"


def test_the_command_writes_a_tokenizer_that_auto_tokenizer_loads(corpus, tmp_path):
    result = run(corpus, "--output", tmp_path / "made", "--vocabulary-size", 280)

    assert result.exit_code == 0, result.output
    assert set(content(tmp_path / "made")) == set(bundle_module.BUNDLE_FILES)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "made")) == 280


@pytest.mark.parametrize("command", [("-m", "tokenizer.train"), ("tokenizer/train.py",)])
def test_it_runs_as_a_module_and_as_a_script(command, corpus, tmp_path):
    *option, name = command
    program = REPOSITORY / name if name.endswith(".py") else name

    run_fresh(
        *option, program, corpus, "--output", tmp_path / "made", "--vocabulary-size", 280,
        folder=tmp_path, PYTHONPATH=str(REPOSITORY),
    )  # fmt: skip

    assert content(tmp_path / "made") == content(made_here(corpus, tmp_path / "again" / "made"))


def made_here(corpus, folder):
    make_bundle([str(corpus)], folder, SMALL)
    return folder


def test_two_trainings_give_the_same_bytes(corpus, tmp_path):
    first, second = (made_here(corpus, tmp_path / name / "made") for name in "ab")

    assert content(first) == content(second)


def test_the_bundle_names_no_folder_of_the_machine(corpus, tmp_path):
    folder = made_here(corpus, tmp_path / "made")

    assert str(tmp_path).encode() not in b"".join(content(folder).values())


def test_the_readme_tells_corpus_licence_sizes_and_compression(corpus, tmp_path):
    corpus.write_text(SENTENCES + "no tab\n", encoding="utf-8")
    result = run(corpus, "--output", tmp_path / "made", "--licence", "CC0")
    readme = (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "made")

    assert "left out 1 with no tab between two sentences (row 6)" in result.output
    for told in (
        f"{len(loaded):,} entries",
        f"{corpus.parent.name}/pairs.tsv | 5 | 1 with no tab between two sentences (row 6) |",
        "Licence: CC0",
    ):
        assert told in readme
    for side, language in enumerate(("en", "de")):
        texts = [pair[side] for pair in PAIRS]
        tokens = sum(len(ids) - 1 for ids in loaded(texts).input_ids)
        words = sum(len(text.split()) for text in texts)
        assert f"| {language} | {words} | {tokens} | {tokens / words:.3f} |" in readme


def test_measures_are_those_of_a_plain_count():
    texts = ["Two  dogs play.", "x\n\u00fc ", "1 2"]
    counts = WordCounts()
    counts.add(texts)
    learned = learn_tokenizer(counts, 264)
    tokens = [token for text in texts for token in learned.tokenize(text)]

    found = measure(learned, counts)

    assert found.bytes == sum(len(text.encode()) for text in texts)
    assert found.words == sum(len(text.split()) for text in texts)
    assert found.tokens == len(tokens)
    assert found.single_byte_tokens == sum(len(token) == 1 for token in tokens)


@pytest.mark.parametrize(
    "options",
    [{"truncation": True, "max_length": 2}, {"padding": "max_length", "max_length": 50}],
    ids=["truncation", "padding"],
)
def test_measures_forget_the_settings_of_an_earlier_call(options, tiny_tokenizer):
    counts = WordCounts()
    counts.add(["unbelievablylongword"])
    before = measure(tiny_tokenizer, counts)

    tiny_tokenizer(["a b c"], **options)

    assert measure(tiny_tokenizer, counts) == before


def test_a_temperature_thins_out_the_larger_language(corpus, tmp_path):
    assert keep_probabilities((800, 100), 1.0) == (1.0, 1.0)
    assert keep_probabilities((800, 100), 3.0) == (pytest.approx(1 / 4), 1.0)

    corpus.write_text("short\t" + "a much longer side " * 9 + "\n" * 1)
    corpus.write_text(corpus.read_text() * 400)
    made = [
        make_bundle(
            [str(corpus)],
            tmp_path / f"made {number}",
            Options(vocabulary_size=300, temperature=temperature, seed=seed),
        )
        and (tmp_path / f"made {number}" / "README.md").read_text().partition("| en |")[2]
        for number, (temperature, seed) in enumerate([(1.0, 0), (2.0, 0), (2.0, 0), (2.0, 1)])
    ]

    def words(readme):
        english, german = readme.partition("| de |")[::2]
        return [int(side.split("|")[0].replace(",", "")) for side in (english, german)]

    full, thinned, again, otherwise = map(words, made)
    assert thinned == again != otherwise
    assert thinned[0] == full[0]
    assert thinned[1] < full[1] / 3


@pytest.mark.parametrize("existing", bundle_module.BUNDLE_FILES)
def test_nothing_is_overwritten_without_force(existing, corpus, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / existing).write_text("mine")

    refused = run(corpus, "--output", folder, "--vocabulary-size", 280)

    assert refused.exit_code == 1
    assert f"already holds {existing}" in refused.output
    assert "--force" in refused.output
    assert content(folder) == {existing: b"mine"}
    assert run(corpus, "--output", folder, "--force", "--vocabulary-size", 280).exit_code == 0


def test_files_of_another_tokenizer_are_never_mixed_in(corpus, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "added_tokens.json").write_text('{"[PAD]": 265}')

    refused = run(corpus, "--output", folder, "--vocabulary-size", 280)

    assert "already holds added_tokens.json" in refused.output
    make_bundle([str(corpus)], folder, SMALL, force=True)
    assert content(folder) == content(made_here(corpus, tmp_path / "alone" / "made"))


def test_a_refused_run_makes_no_folder(tmp_path):
    refused = run(tmp_path / "missing.tsv", "--output", tmp_path / "made")

    assert "There is no file" in refused.output
    assert not (tmp_path / "made").exists()


def test_a_tokenizer_just_made_still_travels_with_its_code(corpus, tmp_path):
    make_bundle([str(corpus)], tmp_path / "made", SMALL).save_pretrained(tmp_path / "hub")

    assert (tmp_path / "hub" / "tokenization_vanilla_transformer.py").exists()


def test_force_touches_no_other_file(corpus, tmp_path):
    folder = made_here(corpus, tmp_path / "made")
    (folder / "model.safetensors").write_text("weights")

    make_bundle([str(corpus)], folder, Options(vocabulary_size=264), force=True)

    assert (folder / "model.safetensors").read_text() == "weights"
    assert len(AutoTokenizer.from_pretrained(folder)) == 264


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tokenizer.train.count_words", pytest.fail)
    (tmp_path / "file").touch()

    refused = run(corpus, "--output", tmp_path / "file" / "folder")

    assert refused.exit_code == 1
    assert "must be a folder we may write to" in refused.output


KILLED_IN_MID_WRITE = """
import os, signal, sys
from pathlib import Path
from tokenizer.train import Options, make_bundle
moves, move = int(sys.argv[3]), Path.replace
def stop_at_last(path, target):
    global moves
    moves -= 1
    return move(path, target) if moves >= 0 else os.kill(os.getpid(), signal.SIGKILL)
Path.replace = stop_at_last
make_bundle([sys.argv[1]], Path(sys.argv[2]), Options(vocabulary_size=264), force=True)
"""


@pytest.mark.parametrize("moves", range(3))
def test_a_kill_in_mid_write_leaves_a_whole_bundle(moves, corpus, tmp_path):
    folder = made_here(corpus, tmp_path / "made")
    old = content(folder)

    with pytest.raises(AssertionError):  # what `run_fresh` says of a process that fails
        run_fresh(
            "-c", KILLED_IN_MID_WRITE, corpus, folder, moves,
            folder=tmp_path, PYTHONPATH=str(REPOSITORY),
        )  # fmt: skip

    left = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert left["tokenizer.json"] == old["tokenizer.json"]
    assert left["tokenizer_config.json"] == old["tokenizer_config.json"]
    make_bundle([str(corpus)], folder, SMALL, force=True)
    assert content(folder) == old  # and nothing else lies about


@pytest.mark.parametrize("moved", range(3))
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError("No space left on device")])
def test_a_stop_in_mid_write_leaves_a_whole_bundle(moved, stop, corpus, tmp_path, monkeypatch):
    folder = made_here(corpus, tmp_path / "made")
    old = content(folder)
    moves = iter(range(3))
    replace = Path.replace

    def stop_at_last(path, target):
        if next(moves) == moved:
            raise stop
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stop_at_last)
    with pytest.raises((KeyboardInterrupt, OSError)):
        make_bundle([str(corpus)], folder, Options(vocabulary_size=264), force=True)

    assert content(folder)["tokenizer.json"] == old["tokenizer.json"]
    assert content(folder)["tokenizer_config.json"] == old["tokenizer_config.json"]
    assert set(content(folder)) == set(old)
    assert len(AutoTokenizer.from_pretrained(folder)) == 280


def test_a_stop_while_saving_leaves_the_old_bundle(corpus, tmp_path, monkeypatch):
    folder = made_here(corpus, tmp_path / "made")
    old = content(folder)

    def stop(tokenizer, place):
        (Path(place) / "tokenizer.json").write_text('{"half')
        raise KeyboardInterrupt

    monkeypatch.setattr("vanilla_transformer.VanillaTransformerTokenizer.save_pretrained", stop)
    with pytest.raises(KeyboardInterrupt):
        make_bundle([str(corpus)], folder, SMALL, force=True)

    assert content(folder) == old


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--vocabulary-size", 263), "vocabulary_size must be between 264 (256 bytes"),
        (("--vocabulary-size", 10**12), "and 16,777,216, got 1000000000000"),
        (("--languages", "en"), "languages must be two names like en,de"),
        (("--languages", "en,en"), "languages must be two names like en,de"),
        (("--languages", "en,de,fr"), "languages must be two names like en,de"),
        (("--temperature", 0.5), "temperature must be at least 1, got 0.5"),
        (("--temperature", "nan"), "temperature must be at least 1, got nan"),
        (("--min-frequency", 0), "min_frequency must be between 1 and 16,777,216, got 0"),
    ],
)
def test_options_out_of_range_are_refused_in_one_line(options, complaint, corpus, tmp_path):
    refused = run(corpus, "--output", tmp_path / "made", *options)

    assert refused.exit_code == 1
    assert complaint in refused.output
    assert len(refused.output.splitlines()) == 1


def test_a_corpus_too_small_for_its_vocabulary_is_told(corpus, tmp_path):
    result = run(corpus, "--output", tmp_path / "made", "--vocabulary-size", 16_000)
    size = len(AutoTokenizer.from_pretrained(tmp_path / "made"))

    assert size < 16_000
    assert size % 8 == 0
    assert f"{size:,} entries, fewer than 16,000: " in result.output


def test_a_corpus_without_a_pair_is_refused(corpus, tmp_path):
    corpus.write_text("only one column\n")

    refused = run(corpus, "--output", tmp_path / "made")

    assert refused.exit_code == 1
    assert "must hold a pair of sentences, got 1 with no tab" in refused.output


def test_a_temperature_that_leaves_nothing_is_refused(corpus, tmp_path):
    corpus.write_text("short\t" + "a much longer side " * 2000 + "\n")

    refused = run(corpus, "--output", tmp_path / "made", "--temperature", 9)

    assert refused.exit_code == 1
    assert "got none of de: the corpus is too small for temperature 9" in refused.output


def test_the_configuration_is_the_same_in_every_bundle(bundle, corpus, tmp_path):
    """So a stop between two files of a new bundle cannot leave a configuration that misfits."""
    folder = made_here(corpus, tmp_path / "made")
    saved = json.loads((folder / "tokenizer_config.json").read_text())

    assert saved == json.loads((bundle / "tokenizer_config.json").read_text())
    assert "auto_map" not in saved
