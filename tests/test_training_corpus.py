"""What is trained on is what the files hold, tokenized once; files that changed are read anew."""

import gzip
import json
import os
import pickle
import signal

import datasets
import numpy as np
import pytest

from training import corpus as corpus_module
from training import corpus_store
from training.corpus import PAIRS_AT_ONCE, prepare_training, read_held_out
from training.corpus_report import CorpusReport
from training.recipe import CorpusChecks, CorpusSection, TrainingCorpus
from vanilla_transformer import parallel_text

PAIRS = [(f"The dog number {n}.", f"Der Hund Nummer {n}.") for n in range(60)]
HELD_OUT = [("A red hat.", "Ein roter Hut."), ("Snow.", "Schnee.")]


def write_tsv(path, pairs):
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    return (str(path),)


@pytest.fixture
def section(tmp_path):
    """Makes the section of a recipe: some training corpora, one small validation set."""
    validation = write_tsv(tmp_path / "validation.tsv", HELD_OUT)
    default = write_tsv(tmp_path / "train.tsv", PAIRS)

    def make(*places, weights=None, **options):
        train = places or (default,)
        weights = weights or [1.0] * len(train)
        entries = tuple(TrainingCorpus(*entry) for entry in zip(train, weights, strict=True))
        return CorpusSection(train=entries, validation=validation, **options)

    return make


@pytest.fixture
def prepare(section, tiny_tokenizer, tmp_path):
    def prepare(*places, bpe_dropout=0.0, **options):
        made = section(*places, **options)
        cache = tmp_path / "run" / "corpus"
        return prepare_training(made, tiny_tokenizer, cache, bpe_dropout=bpe_dropout, seed=1)

    return prepare


@pytest.fixture
def no_reading(monkeypatch):
    def forbid():
        monkeypatch.setattr(parallel_text.Corpus, "rows", lambda _: pytest.fail("read a text"))

    return forbid


def texts_of(found, tokenizer, epoch=0):
    pairs = found.pairs(np.arange(len(found)), epoch)
    return [tuple(tokenizer.batch_decode(pair, skip_special_tokens=True)) for pair in pairs]


def test_pairs_are_those_of_the_files_as_the_tokenizer_writes_them(prepare, tiny_tokenizer):
    found = prepare()

    pairs = found.pairs(np.array([3, 0, 59]), epoch=0)

    assert pairs == [tuple(tiny_tokenizer(list(PAIRS[index]))["input_ids"]) for index in (3, 0, 59)]
    assert found.source_lengths[[3, 0]].tolist() == [len(pair[0]) for pair in pairs[:2]]
    assert found.target_lengths[[3, 0]].tolist() == [len(pair[1]) for pair in pairs[:2]]
    assert found.source_lengths.dtype == np.int32


@pytest.mark.parametrize("size", [PAIRS_AT_ONCE, PAIRS_AT_ONCE + 1, 3 * PAIRS_AT_ONCE])
def test_no_pair_is_lost_between_pieces(size, prepare, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_store, "PAIRS_A_PIECE", 64)
    pairs = [(f"a {n}", f"b {n}") for n in range(size)]

    found = prepare(write_tsv(tmp_path / "train.tsv", pairs))

    assert texts_of(found, tiny_tokenizer) == pairs


def test_gzip_line_ends_and_marks_make_no_difference(prepare, tiny_tokenizer, tmp_path):
    sources, targets = zip(*PAIRS[:3], strict=True)
    source, target = tmp_path / "train.en.gz", tmp_path / "train.de"
    source.write_bytes(gzip.compress(("\ufeff" + "\r\n".join(sources)).encode()))
    target.write_bytes("".join(text + "\u2028!\n" for text in targets).encode())

    found = prepare((str(source), str(target)))

    assert texts_of(found, tiny_tokenizer) == [
        (source, target + "\u2028!") for source, target in PAIRS[:3]
    ]


def test_built_in_places_and_datasets_are_corpora(prepare, tiny_tokenizer, tmp_path):
    rows = datasets.Dataset.from_list([{"en": "One", "de": "Eins"}])
    rows.save_to_disk(tmp_path / "saved")

    found = prepare((str(tmp_path / "saved"),), ("numbers:test",))

    assert [corpus.pairs for corpus in found.report.corpora] == [1, 2_000]
    assert texts_of(found, tiny_tokenizer)[0] == ("One", "Eins")


def test_every_pair_has_the_weight_of_its_corpus(prepare, tmp_path):
    first = write_tsv(tmp_path / "first.tsv", PAIRS[:2])
    second = write_tsv(tmp_path / "second.tsv", PAIRS[2:5])

    assert prepare(first, second, weights=[2.0, 0.5]).weights.tolist() == [2, 2, 0.5, 0.5, 0.5]
    assert prepare(first, second).weights is None


def test_text_is_lowered_if_the_recipe_says_so(prepare, section, tiny_tokenizer):
    found = prepare(lowercase=True)

    assert texts_of(found, tiny_tokenizer)[0] == ("the dog number 0.", "der hund nummer 0.")
    lowered = section(lowercase=True)
    assert read_held_out(lowered, lowered.validation)[0] == ("a red hat.", "ein roter hut.")


def test_a_second_opening_reads_no_text(prepare, tiny_tokenizer, no_reading):
    first = prepare()
    no_reading()

    second = prepare(weights=[3.0])

    assert texts_of(second, tiny_tokenizer) == texts_of(first, tiny_tokenizer)
    assert second.report == first.report


def test_what_calls_leave_in_a_tokenizer_changes_no_name(prepare, tiny_tokenizer, no_reading):
    prepare()
    tiny_tokenizer(["a", "b c"], padding=True, truncation=True, max_length=9)
    no_reading()

    prepare()


def test_the_digest_is_of_every_token_and_of_nothing_else(prepare, tmp_path):
    digest = prepare().report.digest
    swapped = [(PAIRS[1][0], PAIRS[0][1]), (PAIRS[0][0], PAIRS[1][1]), *PAIRS[2:]]

    copied = prepare(write_tsv(tmp_path / "copy.tsv", PAIRS), max_length=99, bpe_dropout=0.1)
    assert copied.report.digest == digest
    assert prepare(write_tsv(tmp_path / "swapped.tsv", swapped)).report.digest != digest


CHANGES = {
    "file": lambda folder: write_tsv(folder / "train.tsv", PAIRS[1:]),
    "time": lambda folder: os.utime(folder / "train.tsv", (1, 1)),
    "validation": lambda folder: write_tsv(folder / "validation.tsv", HELD_OUT[1:]),
}
OPTIONS = [
    {"lowercase": True},
    {"max_length": 99},
    {"bpe_dropout": 0.1},
    {"checks": CorpusChecks(duplicates="drop")},
    {"tests": {"numbers": ("numbers:test",)}},
]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_files_are_read_anew(change, prepare, section, tmp_path):
    train = write_tsv(tmp_path / "train.tsv", PAIRS)
    prepare(train)
    CHANGES[change](tmp_path)
    prepare(train)

    assert sum(path.is_dir() for path in (tmp_path / "run" / "corpus").iterdir()) == 2


def save_with_splits(pairs, folder):
    rows = datasets.Dataset.from_list([{"en": one, "de": other} for one, other in pairs])
    datasets.DatasetDict({"train": rows, "more": rows}).save_to_disk(folder)


def write_folder_of_files(pairs, folder):
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"en": one, "de": other}) + "\n" for one, other in pairs]
    (folder / "train.jsonl").write_text("".join(rows))


@pytest.mark.parametrize(
    ("write", "split"),
    [(save_with_splits, "::more"), (write_folder_of_files, ":default:train")],
)
def test_a_dataset_that_grew_is_read_anew_whatever_follows_its_name(
    write, split, prepare, tmp_path
):
    found = []
    for size in (20, 30):
        write(PAIRS[:size], tmp_path / "data")
        found.append(len(prepare((f"{tmp_path / 'data'}{split}",))))

    assert found == [20, 30]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_other_options_make_another_cache(options, prepare, tmp_path):
    train = write_tsv(tmp_path / "train.tsv", PAIRS)
    prepare(train)
    prepare(train, **options)

    assert sum(path.is_dir() for path in (tmp_path / "run" / "corpus").iterdir()) == 2


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.5])
def test_another_process_finds_the_same_pairs(bpe_dropout, prepare):
    found = prepare(bpe_dropout=bpe_dropout)
    indices = np.array([5, 17, 5, 40])

    assert pickle.loads(pickle.dumps(found)).pairs(indices, 7) == found.pairs(indices, 7)


def test_words_split_differently_in_every_epoch_and_alike_in_every_reading(prepare, tiny_tokenizer):
    plain, found = prepare(), prepare(bpe_dropout=0.5)
    indices = np.arange(len(found))

    assert found.pairs(indices, 0) != found.pairs(indices, 1) != plain.pairs(indices, 1)
    assert found.pairs(indices[::-1], 1)[::-1] == found.pairs(indices, 1)
    assert texts_of(found, tiny_tokenizer, 3) == texts_of(plain, tiny_tokenizer)


def test_what_a_killed_run_wrote_is_never_trusted(prepare, tmp_path, monkeypatch):
    child = os.fork()
    if not child:
        monkeypatch.setattr(CorpusReport, "save", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        prepare()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    (left,) = (path for path in (tmp_path / "run" / "corpus").iterdir() if path.is_dir())

    found = prepare()

    assert os.WTERMSIG(status) == signal.SIGKILL
    (whole,) = (path for path in (tmp_path / "run" / "corpus").iterdir() if path.is_dir())
    assert left.name == f".{whole.name}.unfinished"
    assert len(found) == len(PAIRS)


def test_a_cache_that_was_cut_off_is_refused_by_name(prepare, tmp_path):
    prepare()
    (tokens,) = (tmp_path / "run" / "corpus").glob("*/pairs.arrow")
    os.truncate(tokens, tokens.stat().st_size // 2)

    with pytest.raises(ValueError, match=r"pairs\.arrow must be a whole Arrow file"):
        prepare()


def test_an_entry_is_one_corpus(prepare, tmp_path):
    first, second = write_tsv(tmp_path / "a.tsv", PAIRS), write_tsv(tmp_path / "b.tsv", PAIRS)

    with pytest.raises(ValueError, match=r"must be one corpus, got .*a\.tsv and .*b\.tsv"):
        prepare((*first, *second))


def test_files_that_are_not_there_are_named(prepare):
    with pytest.raises(
        ValueError, match=r"There is no file a\.en and no a\.de in /.*: taken for a"
    ):
        prepare(("a.en", "a.de"))


def test_two_files_as_two_entries_are_told_how_to_be_one(prepare, tmp_path):
    (tmp_path / "a.en").write_text("1\n")

    with pytest.raises(ValueError, match=r"are one entry: \{places: \[train\.en, train\.de\]\}"):
        prepare((str(tmp_path / "a.en"),))


def test_mismatched_files_are_refused_with_both_counts(prepare, tmp_path):
    (tmp_path / "a.en").write_text("1\n2\n3\n")
    (tmp_path / "a.de").write_text("1\n2\n")

    with pytest.raises(ValueError, match=r"got 3 in .*a\.en and 2 in .*a\.de"):
        prepare((str(tmp_path / "a.en"), str(tmp_path / "a.de")))
    assert not any(path.is_dir() for path in (tmp_path / "run" / "corpus").iterdir())


def test_empty_files_are_refused(prepare, section, tmp_path):
    empty = tmp_path / "empty.tsv"
    empty.touch()

    with pytest.raises(ValueError, match=r"empty\.tsv is empty"):
        prepare((str(empty),))
    with pytest.raises(ValueError, match=r"empty\.tsv is empty"):
        read_held_out(section(), (str(empty),))


def test_a_held_out_set_without_a_pair_is_refused(section, tmp_path):
    places = write_tsv(tmp_path / "blank.tsv", [(" ", "x")])

    with pytest.raises(ValueError, match=r"must hold a pair, got none in .*1 with an empty side"):
        read_held_out(section(), places)
    with pytest.raises(ValueError, match="must hold a pair, got none in no file"):
        read_held_out(section(), ())


def test_only_a_few_rows_are_in_memory_at_a_time(prepare, monkeypatch):
    alive = most = 0

    class Counted(str):
        def __init__(self, _):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    def rows(part, _):
        for number in range(6_000):
            pair = (Counted(f"a {number % 99}"), Counted(f"b {number % 99}"))
            yield parallel_text.Row(number + 1, pair)

    monkeypatch.setattr(
        corpus_module,
        "number_corpus",
        lambda place, _: parallel_text.Corpus((place,), lambda: rows(place, _)),
    )

    assert len(prepare(("numbers:train",))) == 6_000
    assert most <= 2 * 2 * PAIRS_AT_ONCE + 20
