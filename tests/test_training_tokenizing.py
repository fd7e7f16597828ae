"""However many processes tokenize, the same is kept; none of them outlives the one it helps."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import wait

import pytest
from scripts.fresh_process import REPOSITORY

from training import corpus as corpus_module
from training import tokenizing as tokenizing_module
from training.corpus import prepare_training
from training.recipe import CorpusSection, TrainingCorpus
from training.tokenizing import Tokenizing
from vanilla_transformer.parallel_text import Row

ROWS = [
    *(f"The dog number {n % 70}.\tDer Hund Nummer {n % 80}.\n" for n in range(300)),
    "no tab\n",
    " \tan empty side\n",
    "the same\tthe same\n",
    f"too\t{'long ' * 99}\n",
    *(f"A cat, {n}.\tEine Katze, {n}.\n" for n in range(100)),
]


@pytest.fixture
def eager(monkeypatch):
    """Helpers from the first row on, which are waited for; counts the chunks that they take."""
    monkeypatch.setattr(tokenizing_module, "ROWS_ALONE", 0)
    monkeypatch.setattr(corpus_module, "PAIRS_AT_ONCE", 20)
    taken = []

    def are_ready(self):
        wait(self._started)
        taken.append(os.getpid())
        return True

    monkeypatch.setattr(Tokenizing, "_are_ready", are_ready)
    return taken


@pytest.fixture
def keep(tiny_tokenizer, tmp_path, monkeypatch):
    (tmp_path / "train.tsv").write_text("".join(ROWS))
    (tmp_path / "validation.tsv").write_text("The dog number 3.\tUnd nun?\n")
    places = [(str(tmp_path / name),) for name in ("train.tsv", "validation.tsv")]
    section = CorpusSection(train=(TrainingCorpus(places[0]),), validation=places[1])

    def run(helpers, **options):
        with monkeypatch.context() as patch:
            patch.setattr(
                corpus_module,
                "Tokenizing",
                lambda *args, **kwargs: Tokenizing(*args, **kwargs, helpers=helpers),
            )
            prepare_training(section, tiny_tokenizer, tmp_path / str(helpers), **options)
        (folder,) = (one for one in (tmp_path / str(helpers)).iterdir() if one.is_dir())
        return {one.name: one.read_bytes() for one in folder.iterdir()}

    return run


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.1])
def test_what_several_processes_keep_is_that_of_one_to_the_byte(bpe_dropout, keep, eager):
    alone = keep(0, bpe_dropout=bpe_dropout)
    assert not eager

    assert keep(2, bpe_dropout=bpe_dropout) == alone
    assert len(eager) > 9
    assert not multiprocessing.active_children()


def test_helpers_that_are_killed_are_done_without(keep, eager, monkeypatch):
    alone = keep(0)
    take_back = Tokenizing._take_back

    def kill(self, *chunk):
        for helper in multiprocessing.active_children():
            helper.terminate()
        return take_back(self, *chunk)

    monkeypatch.setattr(Tokenizing, "_take_back", kill)

    assert keep(2) == alone
    assert not multiprocessing.active_children()


def test_few_rows_start_no_process(tiny_tokenizer):
    chunks = [[Row(1, ("a", "b"))], [Row(2, None, "broken")]]

    with Tokenizing(tiny_tokenizer, with_words=False, helpers=2) as tokenizing:
        found = list(tokenizing.of(chunks))
        assert not multiprocessing.active_children()

    assert [rows for rows, _ in found] == chunks
    assert [len(columns) for _, columns in found] == [2, 0]


def test_an_error_while_others_help_ends_them(tiny_tokenizer, eager):
    def chunks():
        for number in range(30):
            yield [Row(number + 1, ("a", "b"))]
        raise ValueError("a broken file")

    tokenizing = Tokenizing(tiny_tokenizer, with_words=False, helpers=2)
    with pytest.raises(ValueError, match="a broken file"), tokenizing:
        list(tokenizing.of(chunks()))

    assert not multiprocessing.active_children()


LETTERS = """
def count_letters(texts, verbose):
    return {"input_ids": [[len(text)] for text in texts]}
"""
ENDLESS = """
import itertools, multiprocessing, signal, time
from letters import count_letters
from training import tokenizing
from vanilla_transformer.parallel_text import Row

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever nohup made of it
tokenizing.ROWS_ALONE = 0
chunks = ([Row(1, ("a", "b"))] for _ in itertools.count())
with tokenizing.Tokenizing(count_letters, with_words=False, helpers=2) as helped:
    for _ in helped.of(chunks):
        if helped._are_ready():
            print(*(one.pid for one in multiprocessing.active_children()), flush=True)
            time.sleep(60)
"""


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_helpers_end_with_the_process_that_they_help(number, tmp_path):
    (tmp_path / "letters.py").write_text(LETTERS)
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{tmp_path}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    helpers = [int(one) for one in process.stdout.readline().split()]
    assert len(helpers) == 2

    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    process.communicate(timeout=60)

    until = time.monotonic() + 30
    while any(map(is_alive, helpers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, helpers))
