"""Every format gives the same pairs; damaged files are refused with the place of the damage."""

import gzip
import json

import datasets
import pytest

from vanilla_transformer.parallel_text import find_corpora

LANGUAGES = ("en", "de")
PAIRS = [("A dog.", "Ein Hund."), ("Two\u2028cats\x85\x0b\r!", "Zwei Katzen \ufeff"), ("\x00", "n")]
ROWS = [dict(zip(LANGUAGES, pair, strict=True)) for pair in PAIRS]


def write(path, text, encoding="utf-8"):
    content = text if isinstance(text, bytes) else text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def read(*places):
    return [pair for corpus in find_corpora([*map(str, places)], LANGUAGES) for pair in corpus]


def aligned(folder, suffix, end="\n"):
    return [
        write(folder / f"train.{language}{suffix}", "".join(pair[side] + end for pair in PAIRS))
        for side, language in enumerate(LANGUAGES)
    ]


def as_json(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def make_tsv(folder):
    return [write(folder / "train.tsv", "".join("\t".join(pair) + "\n" for pair in PAIRS))]


def make_dataset(folder):
    datasets.Dataset.from_list(ROWS).save_to_disk(folder / "saved")
    return [folder / "saved"]


def make_dataset_with_splits(folder):
    rows = datasets.Dataset.from_list([{"translation": row} for row in ROWS])
    datasets.DatasetDict({"train": rows, "test": rows.select([0])}).save_to_disk(folder / "saved")
    return [folder / "saved"]


def make_folder_of_files(folder):
    (folder / "files").mkdir()
    write(folder / "files" / "train.jsonl", as_json(ROWS))
    return [folder / "files"]


FORMATS = {
    "aligned": lambda folder: aligned(folder, ""),
    "aligned, gz": lambda folder: aligned(folder, ".gz"),
    "aligned, CRLF": lambda folder: aligned(folder, "", end="\r\n"),
    "TSV": make_tsv,
    "JSON": lambda folder: [write(folder / "train.jsonl", as_json(ROWS))],
    "JSON, gz": lambda folder: [write(folder / "train.jsonl.gz", as_json(ROWS))],
    "translations": lambda folder: [
        write(folder / "train.jsonl", as_json([{"translation": row} for row in ROWS]))
    ],
    "dataset": make_dataset,
    "dataset with splits": make_dataset_with_splits,
    "folder of files": make_folder_of_files,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_pairs(name, tmp_path):
    assert read(*FORMATS[name](tmp_path)) == PAIRS


def test_several_corpora_follow_one_another(tmp_path):
    places = [*make_tsv(tmp_path), *aligned(tmp_path, "")]

    assert read(*places) == PAIRS + PAIRS


def test_a_byte_order_mark_is_no_text(tmp_path):
    source = write(tmp_path / "a.en", "\ufeffOne\nTwo\n")
    target = write(tmp_path / "a.de", "Eins\n\ufeffZwei\n")

    assert read(source, target) == [("One", "Eins"), ("Two", "\ufeffZwei")]


def test_a_last_line_needs_no_line_end(tmp_path):
    assert read(write(tmp_path / "a.en", "One"), write(tmp_path / "a.de", "Eins\n")) == [
        ("One", "Eins")
    ]


def test_rows_without_two_sentences_are_left_out_and_told(tmp_path):
    lines = [
        '{"en": "One", "de": "Eins"}',
        '{"en": "Two"}',
        "no JSON",
        '["three"]',
        '{"en": "Four", "de": " "}',
        '{"en": "Five \\ud83d", "de": "F\\u00fcnf"}',
        '{"en": "Six", "de": 6}',
        '{"translation": null}',
        "",
        "[" * 200_000,
    ]
    (corpus,) = find_corpora([write(tmp_path / "a.jsonl", "\n".join(lines) + "\n")], LANGUAGES)

    assert list(corpus) == [("One", "Eins")]
    assert sorted(corpus.skipped.describe()) == [
        "1 with an empty side (row 5)",
        "1 with half a surrogate pair in field 'en' (row 6)",
        "2 with no object of the languages' texts (rows 4, 8)",
        "2 with no text in field 'de' (rows 2, 7)",
        "3 with broken JSON (rows 3, 9, 10)",
    ]
    assert corpus.num_pairs + corpus.skipped.counts.total() == len(lines)


def test_only_the_first_places_are_told_and_all_are_counted(tmp_path):
    (corpus,) = find_corpora([write(tmp_path / "a.tsv", "no tab\n" * 2000)], LANGUAGES)

    assert list(corpus) == []
    assert corpus.skipped.describe() == [
        "2,000 with no tab between two sentences (rows 1, 2, 3, 4, 5, ...)"
    ]


def test_reading_again_counts_anew(tmp_path):
    (corpus,) = find_corpora([write(tmp_path / "a.tsv", "a\tb\nc\n")], LANGUAGES)

    assert list(corpus) == list(corpus)
    assert (corpus.num_pairs, corpus.skipped.counts.total()) == (1, 1)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("longer", "shorter"), [("en", "de"), ("de", "en")])
def test_unequal_line_counts_are_refused_with_both_and_the_first_surplus(
    longer, shorter, suffix, tmp_path
):
    texts = {longer: "1\n2\n3\nfour\n5\n", shorter: "1\n2\n3\n"}
    places = [write(tmp_path / f"a.{name}{suffix}", texts[name]) for name in LANGUAGES]

    with pytest.raises(ValueError, match="equally many lines") as refusal:
        read(*places)

    message = str(refusal.value)
    assert f"5 in {tmp_path / f'a.{longer}{suffix}'}" in message
    assert f"3 in {tmp_path / f'a.{shorter}{suffix}'}" in message
    assert f"Line 4 of a.{longer}{suffix} is the first without a partner: 'four'" in message


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"gut\n\xfcber\n", "b'\\xfc' at byte 4"),
        ("gut\nja\n".encode("utf-16"), "b'\\xff' at byte 0"),
        (b"\xef\xbb\xbfgut\nab\xed\xa0\x80\n", "b'\\xed' at byte 9"),
        (b"abgebrochen \xe2\x82", "b'\\xe2\\x82' at byte 12"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_is_no_utf8_is_refused_with_file_and_byte_offset(content, place, suffix, tmp_path):
    damaged = write(tmp_path / f"a.de{suffix}", content)

    with pytest.raises(ValueError, match="must be UTF-8") as refusal:
        read(write(tmp_path / "a.en", "good\nyes\n"), damaged)

    assert damaged in str(refusal.value)
    assert place in str(refusal.value)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "lines",
    [
        {"a.en": b"one\ntwo\nthree\n", "a.de": b"eins\nzw\xf6lf\ndrei\n"},
        {"a.tsv": b"one\teins\ntwo\tzw\xf6lf\nthree\tdrei\n"},
        {
            "a.jsonl": b'{"en": "one", "de": "eins"}\n{"en": "two", "de": "zw\xf6lf"}\n'
            b'{"en": "three", "de": "drei"}\n'
        },
    ],
    ids=lambda lines: next(iter(lines)),
)
def test_lines_that_are_no_utf8_are_left_out_if_asked(lines, suffix, tmp_path):
    places = [write(tmp_path / f"{name}{suffix}", content) for name, content in lines.items()]
    (corpus,) = find_corpora(places, LANGUAGES, skips_undecodable=True)

    assert list(corpus) == [("one", "eins"), ("three", "drei")]
    assert corpus.skipped.describe() == ["1 with invalid UTF-8 (row 2)"]


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.jsonl.gz"])
def test_an_empty_file_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        read(write(tmp_path / name, ""))


def test_a_gzip_file_that_is_cut_off_is_refused(tmp_path):
    whole = gzip.compress(("a\tb\n" * 10_000).encode())
    (tmp_path / "a.tsv.gz").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ValueError, match=r"a\.tsv\.gz must be a whole gzip file"):
        read(tmp_path / "a.tsv.gz")


def test_a_text_file_alone_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Text files come in pairs, first en, then de, got 1"):
        read(write(tmp_path / "a.en", "good\n"))


def test_a_text_file_alone_is_told_that_the_other_name_is_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"got 1: .*a\.en.* There is no file a\.ed in /"):
        read(write(tmp_path / "a.en", "good\n"), "a.ed")


def test_a_folder_may_be_named_like_a_file(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved.tsv")

    assert read(tmp_path / "saved.tsv") == PAIRS


def test_a_saved_dataset_without_a_train_split_is_refused(tmp_path):
    rows = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"validation": rows, "test": rows}).save_to_disk(tmp_path / "saved")

    with pytest.raises(ValueError, match="split named train, got validation, test"):
        read(tmp_path / "saved")


def test_another_split_is_named_last(tmp_path):
    rows = datasets.Dataset.from_list(ROWS)
    splits = datasets.DatasetDict({"train": rows, "validation": rows.select([1])})
    splits.save_to_disk(tmp_path / "saved")
    make_folder_of_files(tmp_path)

    assert read(f"{tmp_path / 'saved'}::validation") == PAIRS[1:2]
    assert read(f"{tmp_path / 'files'}::train") == PAIRS
    with pytest.raises(ValueError, match="split named test, got train, validation"):
        read(f"{tmp_path / 'saved'}::test")


def test_a_saved_dataset_has_no_configurations(tmp_path):
    rows = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"train": rows, "validation": rows}).save_to_disk(tmp_path / "saved")
    rows.save_to_disk(tmp_path / "one")

    for name in ("saved", "one"):
        place = tmp_path / name
        with pytest.raises(ValueError, match=f"for its split write {place}::validation"):
            read(f"{place}:validation")
        with pytest.raises(ValueError, match=f"for its split write {place}::validation"):
            read(f"{place}:x:validation")
    with pytest.raises(ValueError, match="leave ::validation out"):
        read(f"{tmp_path / 'one'}::validation")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no file ''"):
        read("")
    with pytest.raises(ValueError, match=r"There is no file .*train\.tsv\.gz"):
        read(tmp_path / "train.tsv.gz")


@pytest.mark.parametrize("name", ["train.en", "cnn_dailymail:3.0.0", "user/data"])
def test_what_is_neither_file_nor_dataset_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=f"no file {name}, and no dataset .* could be loaded"):
        read(name)


def test_a_dataset_may_lie_in_a_folder_with_a_colon(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "sav:ed")

    assert read(tmp_path / "sav:ed") == PAIRS


def test_suffixes_may_be_written_large(tmp_path):
    assert read(write(tmp_path / "A.TSV", "a\tb\n")) == [("a", "b")]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_tables_are_read_by_their_folder(suffix, tmp_path, monkeypatch):
    rows = {"en": ["A dog.", "Two cats."], "de": ["Ein Hund.", "Zwei Katzen."]}
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        table = datasets.Dataset.from_dict(rows)
        getattr(table, f"to_{suffix}")(tmp_path / "data" / f"{split}.{suffix}")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=r"by the folder .* name data, or data::test") as refusal:
        find_corpora([f"data/test.{suffix}"], ("en", "de"))

    assert "columns en and de" in str(refusal.value)
    for place in ("data", "data::test"):
        (corpus,) = find_corpora([place], ("en", "de"))
        assert list(corpus) == list(zip(rows["en"], rows["de"], strict=True))
