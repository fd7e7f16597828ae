"""A run's tokenizer is one that exists, or learned once from its corpus, always to the byte."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training import corpus_tokenizer
from training.corpus import prepare_training
from training.corpus_tokenizer import (
    check_tokenizer,
    prepare_tokenizer,
    refuse_other_vocabulary,
)
from training.recipe import CorpusSection, TrainingCorpus


@pytest.fixture
def section(tmp_path):
    def make(**options):
        (tmp_path / "train.tsv").write_text("Two Dogs play\tZwei Hunde spielen\n" * 3_000)
        train = (TrainingCorpus((str(tmp_path / "train.tsv"),)), TrainingCorpus(("numbers:test",)))
        options = {"vocabulary_size": 400, "validation": ("numbers:validation",)} | options
        return CorpusSection(train=train, **options)

    return make


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_learned_tokenizer_is_the_same_to_the_byte(section, tmp_path):
    for name in ("one", "two"):
        tokenizer = prepare_tokenizer(section(), tmp_path / name)

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert len(tokenizer) == 400
    assert tokenizer.decode(tokenizer("Hund é")["input_ids"], skip_special_tokens=True) == "Hund é"


def test_a_tokenizer_is_learned_once(section, tmp_path, monkeypatch):
    first = prepare_tokenizer(section(), tmp_path / "tokenizer")
    monkeypatch.setattr(corpus_tokenizer, "learn_tokenizer", pytest.fail)

    second = prepare_tokenizer(section(), tmp_path / "tokenizer")

    assert second.get_vocab() == first.get_vocab()


def test_lowered_text_teaches_no_capitals(section, tmp_path):
    tokenizer = prepare_tokenizer(section(lowercase=True), tmp_path / "tokenizer")

    assert "ĠDogs" not in tokenizer.get_vocab()
    assert "Ġdogs" in tokenizer.get_vocab()


def test_the_tokenizer_of_another_recipe_is_refused(section, tmp_path):
    prepare_tokenizer(section(), tmp_path / "tokenizer")

    with pytest.raises(ValueError, match=r"got one of corpus\.lowercase False: choose another"):
        prepare_tokenizer(section(lowercase=True), tmp_path / "tokenizer")


def test_a_named_tokenizer_is_taken_as_it_is(section, bundle, tmp_path):
    tokenizer = prepare_tokenizer(section(tokenizer=str(bundle)), tmp_path / "tokenizer")

    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(bundle).get_vocab()
    assert not (tmp_path / "tokenizer").exists()


DAMAGES = {
    "nothing there": lambda folder: None,
    "an empty folder": lambda folder: folder.mkdir(),
    "half a file": lambda folder: (
        folder.mkdir(),
        (folder / "tokenizer.json").write_text('{"version": "1.0", '),
    ),
    "another file": lambda folder: (folder.mkdir(), (folder / "tokenizer.json").write_text("{}")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_tokenizer_is_one_clear_error(damage, section, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    DAMAGES[damage](tmp_path / "mine")

    with pytest.raises(ValueError, match=r"must be the folder of a whole tokenizer.*mine") as error:
        prepare_tokenizer(section(tokenizer=str(tmp_path / "mine")), tmp_path / "tokenizer")

    assert str(error.value).endswith("Leave it out to have one learned from the corpus.")


def words(*known, ends=True, **special):
    tokens = ["<pad>", "</s>", "<unk>", *known]
    backend = Tokenizer(
        models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        backend.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", 1)]
        )
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"} | special
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (words("a", "b", pad_token=None), "without pad_token: set"),
        (words("a", "b", pad_token=None, eos_token=None), "without pad_token and eos_token"),
        (words("a", "b", ends=False), r"must end each sentence .* got \['a', 'b'\]"),
        (words(), r"must know letters, got \['<unk>', '<unk>', '</s>'\]"),
    ],
)
def test_what_no_model_can_be_trained_with_is_refused(tokenizer, message):
    with pytest.raises(ValueError, match=message):
        check_tokenizer(tokenizer)


def test_a_tokenizer_of_other_languages_is_refused(section, tmp_path):
    with pytest.raises(ValueError, match=r"must know the corpus, got .* unknown tokens of"):
        prepare_training(section(), words("a", "b"), tmp_path)


def test_unknown_tokens_are_reported(section, tmp_path):
    known = ["Two", "Dogs", "play", "Zwei", "Hunde"]
    made = section()
    only_text = CorpusSection(train=made.train[:1], validation=made.validation)

    report = prepare_training(only_text, words(*known), tmp_path).report

    assert report.unknown_tokens == 3_000
    assert report.summary()[-1].endswith(", 3,000 of them unknown")


def test_a_model_has_a_row_for_every_token(tiny_tokenizer):
    refuse_other_vocabulary(tiny_tokenizer, len(tiny_tokenizer))
    refuse_other_vocabulary(tiny_tokenizer, len(tiny_tokenizer) + 8)
    with pytest.raises(ValueError, match=r"a row for every token, got vocab_size=\d+ for the"):
        refuse_other_vocabulary(tiny_tokenizer, len(tiny_tokenizer) - 1)


def test_what_a_tokenizer_was_learned_from_lies_beside_it(section, tmp_path):
    prepare_tokenizer(section(), tmp_path / "tokenizer")

    origin = json.loads((tmp_path / "tokenizer" / "learned_from.json").read_text())

    assert origin["vocabulary_size"] == 400
