"""A call reads its texts in batches, names the bad ones, and disturbs no other call."""

import pickle
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.utils.data import Dataset
from toy_models import DOCUMENT, LINE, OTHER, TEXTS, each_family, texts_of
from transformers.pipelines.pt_utils import KeyDataset

from vanilla_transformer import translation_call


def test_a_generator_is_read_no_faster_than_its_results(translate):
    read = []

    def texts():
        for text in TEXTS:
            read.append(text)
            yield text

    results = translate(texts())

    assert read == []
    assert next(results) == translate(TEXTS[0])
    assert read == TEXTS[:1]
    assert list(results) == [translate(text) for text in TEXTS[1:]]
    assert list(translate(iter(TEXTS), batch_size=3)) == [translate(text) for text in TEXTS]


class Rows(Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, index):
        return {"text": TEXTS[index]}


def test_datasets_and_columns_are_translated(translate):
    datasets = pytest.importorskip("datasets")
    expected = translate(TEXTS)
    lazy = translate(KeyDataset(Rows(), "text"))

    assert len(lazy) == len(TEXTS)
    assert [record for [record] in lazy] == expected
    assert translate(datasets.Dataset.from_dict({"text": TEXTS})["text"]) == expected
    assert translate(tuple(TEXTS)) == expected


BAD = {"None": None, "a number": 5, "bytes": b"source1", "a lone surrogate": "source1 \ud800"}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_element_is_named_or_recorded(bad, translate):
    texts = [LINE, OTHER, bad, "source4"]
    with pytest.raises(ValueError, match=r"inputs\[2\]"):
        translate(texts)
    with pytest.raises(ValueError, match=r"inputs\[2\]"):
        list(translate(iter(texts)))
    results = translate(texts, on_error="record", batch_size=2)

    complaint = results[2].pop("error")
    assert "inputs[2]" in complaint
    assert "on_error" not in complaint
    assert results[2] == {}
    assert results[:2] + results[3:] == translate([LINE, OTHER, "source4"])
    with pytest.raises(ValueError, match=r"inputs\[0\] .* Or pass on_error='record'"):
        translate(bad)


@pytest.mark.parametrize("wrong", [{"on_long_input": "cut"}, {"on_error": "ignore"}])
def test_an_unknown_choice_is_refused(wrong, translate):
    with pytest.raises(ValueError, match="must be one of"):
        translate(LINE, **wrong)


@pytest.mark.parametrize("name", ["batch_size", "batch_tokens"])
@pytest.mark.parametrize("wrong", [0, -1, 2.5, "4"])
def test_a_batch_of_nothing_is_refused(wrong, name, translate):
    with pytest.raises(
        ValueError, match=f"{name} must be a whole number of at least 1, got {wrong!r}"
    ):
        translate(TEXTS, **{name: wrong})


def test_the_score_of_an_empty_text_is_a_float(translate):
    assert isinstance(translate("", return_scores=True)[0]["score"], float)


def hammer(translate, calls):
    """Many threads with one pipeline, each with its own wishes; the wrong results."""
    words = random.Random(0)
    texts = [
        " ".join(words.choices([f"source{i}" for i in range(24)], k=words.randint(1, 9)))
        for _ in range(24)
    ]
    wishes = [
        {},
        {"max_new_tokens": 4},
        {"on_long_input": "truncate"},
        {"return_scores": True},
        {"return_alignment": True},
        {"num_beams": 1},
    ]
    jobs = [
        ([words.choice(texts), f"{words.choice(texts)}\n{words.choice(texts)}"], wish)
        for wish in wishes
        for _ in range(4)
    ]
    expected = [translate(texts, **wish) for texts, wish in jobs]
    order = [words.randrange(len(jobs)) for _ in range(calls)]
    start = threading.Barrier(16)

    def work(thread):
        start.wait()
        return [
            index
            for index in order[thread::16]
            if without_scores(translate(jobs[index][0], **jobs[index][1]))
            != without_scores(expected[index])
        ]

    with ThreadPoolExecutor(16) as threads:
        return [index for wrong in threads.map(work, range(16)) for index in wrong]


def without_scores(results):
    return [{key: record[key] for key in record.keys() - {"score"}} for record in results]


@pytest.mark.parametrize("family", ["ours", "marian"])
def test_threads_do_not_disturb_each_other(family, translators):
    assert hammer(translators[family], 200) == []


@pytest.mark.slow
@each_family
def test_many_threads_do_not_disturb_each_other(family, translators):
    assert hammer(translators[family], 2_000) == []


def test_it_can_be_pickled(translate):
    again = pickle.loads(pickle.dumps(translate))

    assert again(TEXTS) == translate(TEXTS)


def test_datasets_map_it_in_two_processes(translate):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": TEXTS})

    mapped = rows.map(
        lambda batch: {"translated": texts_of(translate(batch["text"]))},
        batched=True,
        num_proc=2,
        new_fingerprint="translated",
    )

    assert mapped["translated"][:] == texts_of(translate(TEXTS))


def test_a_long_list_has_a_progress_bar_on_stderr(translate, monkeypatch, capsys):
    assert translate(["source1"] * 40)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(translation_call, "BAR_AFTER_SECONDS", 0)
    translate(["source1"] * 40, batch_size=4)
    seen = capsys.readouterr()

    assert "40/40" in seen.err
    assert seen.out == ""


def test_no_call_warns(translate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translate([LINE, DOCUMENT], max_length=20, return_scores=True)
