"""The decoding benchmark: the same weights and words for everybody, honest arithmetic."""

import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import decoding, machine
from benchmarks.batches import EOS, PAD, Pair
from benchmarks.comparison import Round
from benchmarks.contestants import Size, build_ours
from benchmarks.decoding_bars import BARS, FLOAT32, INT8, judge, verdict
from benchmarks.decoding_comparison import (
    CTRANSLATE2,
    SLOW,
    Cell,
    Contest,
    DecodingComparison,
    settings_to_try,
)
from benchmarks.decoding_folder import save_word_tokenizer
from benchmarks.decoding_tasks import (
    TASKS,
    cut_at_end,
    load_source_lengths,
    make_task,
    right_lengths,
)
from benchmarks.decoding_weights import build_decoding_model
from benchmarks.engine_pipeline import OurPipeline
from benchmarks.engine_process import EngineProcess
from benchmarks.engine_torch import LOADERS, Generator
from benchmarks.marian_twin import marian_twin
from benchmarks.numbered_words import read_words, vocabulary, write_words

MINIATURE = Size(d_model=128, ffn_dim=32, layers=2, heads=4, vocab_size=500)
LENGTHS = [4, 7, 9, 12, 20, 33]
NAMES = list(LOADERS)


class MadeUpEngine:
    """An engine that copies, takes its time and may get lengths or words wrong."""

    script = "made_up.py"

    def __init__(self, seconds, change=lambda sentence: sentence):
        self.contestants = list(seconds)
        self.seconds, self.change, self.turns = seconds, change, []

    def translate(self, contestant, batches, beams, limit, settings):
        self.turns.append(contestant)
        outputs = [[self.change(one)[:limit] for one in batch] for batch in batches]
        return self.seconds[contestant], outputs


@pytest.fixture(scope="module")
def model():
    return build_decoding_model(MINIATURE)


def made_up_comparison() -> DecodingComparison:
    seconds = [(1.0, 1.2, 0.5), (1.0, 1.0, 0.5), (2.0, 2.2, 0.5)]
    names = ["ours fp32", FLOAT32, INT8]
    rounds = [Round([Pair(24, 25)] * 4, dict(zip(names, each, strict=True))) for each in seconds]
    choice = {"inter_threads": 1, "intra_threads": 1, "max_batch_size": 0}
    cell = Cell("base", "fixed", 32, 4, 1)
    return DecodingComparison(cell, rounds, dict.fromkeys(names, 1.0), {FLOAT32: choice})


def test_words_and_numbers_are_the_same_in_both_directions():
    words = vocabulary(6)
    assert words == ["<pad>", "<s>", "</s>", "w3", "w4", "w5"]
    assert write_words(read_words(words)) == words


@pytest.mark.parametrize("kind", TASKS)
def test_only_varied_sources_have_an_end(kind):
    for batch in make_task(kind, LENGTHS, 4, 500, seed=0).batches:
        assert all((one[-1] == EOS) == (kind == "varied") for one in batch)
        assert all(EOS not in one[:-1] for one in batch)


@pytest.mark.parametrize("kind", TASKS)
def test_each_round_has_sentences_of_its_own(kind):
    first, second = (make_task(kind, LENGTHS, 4, 500, seed) for seed in (0, 1))
    assert first.batches != second.batches
    assert first == make_task(kind, LENGTHS, 4, 500, 0)


def test_lengths_are_found_without_the_data(tmp_path):
    lengths, origin = load_source_lengths(tmp_path)
    assert len(lengths) > 1000
    assert "gamma" in origin


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("kind", TASKS)
def test_everybody_writes_the_same_targets_of_the_lengths_asked_for(model, kind, beams):
    task = make_task(kind, LENGTHS, 6, MINIATURE.vocab_size, seed=0)
    found = []
    for one in (model, marian_twin(model)):
        generator = Generator(one)
        outputs = [
            generator.read(generator.translate(generator.prepare(batch), beams, task.limit))
            for batch in task.batches
        ]
        assert right_lengths(task, outputs) == 1.0
        found.append([cut_at_end(sentence) for batch in outputs for sentence in batch])
    assert found[0] == found[1]
    assert len({word for sentence in found[0] for word in sentence}) > 20


def test_ctranslate2_writes_the_same_targets(model, tmp_path):
    pytest.importorskip("ctranslate2")
    from benchmarks.ctranslate2_twin import save_ctranslate2_twin

    save_ctranslate2_twin(model, tmp_path / "ctranslate2")
    task = make_task("varied", LENGTHS, 6, MINIATURE.vocab_size, seed=0)
    generator = Generator(model)
    outputs = generator.translate(generator.prepare(task.batches[0]), 4, task.limit)
    with EngineProcess(sys.executable, CTRANSLATE2, tmp_path, 1) as engine:
        settings = settings_to_try(CTRANSLATE2, Cell("tiny", "varied", 6, 4, 1))[0]
        assert engine.contestants == [FLOAT32, INT8]
        seconds, (theirs,) = engine.translate(FLOAT32, task.batches, 4, task.limit, settings)
    assert theirs == [cut_at_end(one) for one in generator.read(outputs)]
    assert seconds > 0


@pytest.mark.parametrize("kind", TASKS)
def test_our_pipeline_writes_the_words_of_our_model(model, kind, tmp_path):
    model.save_pretrained(tmp_path / "ours")
    save_word_tokenizer(MINIATURE.vocab_size, tmp_path / "marian")
    task = make_task(kind, LENGTHS, 6, MINIATURE.vocab_size, seed=0)
    found = []
    for one in (Generator(model), OurPipeline(tmp_path, torch.float32)):
        outputs = one.translate(one.prepare(task.batches[0]), 4, task.limit)
        found.append([cut_at_end(sentence) for sentence in one.read(outputs)])
    assert found[0] == found[1]


def test_an_engine_that_dies_is_named(tmp_path):
    with pytest.raises(RuntimeError, match=r"nowhere\.py"):
        EngineProcess(sys.executable, "nowhere.py", tmp_path, 1)


def test_the_arithmetic_is_what_the_model_computes():
    model = marian_twin(build_ours(MINIATURE).eval(), "eager")
    size, source, target = MINIATURE, 9, 7
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(
            input_ids=torch.full((1, source), 5),
            decoder_input_ids=torch.full((1, target), 5),
            attention_mask=torch.ones(1, source, dtype=torch.long),
        )
    hidden = target * target - target * (target + 1) // 2  # the mask's half, which is computed too
    hidden *= 4 * size.d_model * size.layers
    counted = size.decoding_flops([Pair(source, target)], beams=1)
    assert counted == pytest.approx(counter.get_total_flops(), abs=hidden)


def test_only_ctranslate2_has_settings_and_one_sentence_needs_one_worker():
    cell = Cell("tiny", "fixed", 128, 4, 2)
    assert settings_to_try("engine_torch.py", cell) == [{}]
    tried = settings_to_try(CTRANSLATE2, cell)
    assert {(one["inter_threads"], one["intra_threads"]) for one in tried} == {(1, 2), (2, 1)}
    assert all(one["max_batch_size"] for one in tried if one["inter_threads"] == 2)
    assert len(settings_to_try(CTRANSLATE2, Cell("tiny", "fixed", 1, 4, 2))) == 1


def test_slow_contestants_compete_once():
    engine = MadeUpEngine({"ours fp32": 1.0, "snail": SLOW + 1})
    found = Contest([engine], Cell("tiny", "varied", 4, 1, 1), LENGTHS).run(lambda d: len(d) == 3)
    assert [list(one.seconds) for one in found.rounds] == [
        ["ours fp32", "snail"],
        ["ours fp32"],
        ["ours fp32"],
    ]
    assert found.ratio("ours fp32", "snail") == SLOW + 1


def test_wrong_lengths_and_wrong_words_are_refused():
    cell = Cell("tiny", "varied", 4, 1, 1)
    short = MadeUpEngine({"ours fp32": 1.0}, lambda sentence: sentence[1:])
    with pytest.raises(ValueError, match="lengths"):
        Contest([short], cell, LENGTHS).warm_up()
    ours = MadeUpEngine({"ours fp32": 1.0})
    other = MadeUpEngine({FLOAT32: 1.0}, lambda sentence: [PAD, *sentence[1:]])
    with pytest.raises(ValueError, match="words of ours"):
        Contest([ours, other], cell, LENGTHS).warm_up()
    int8 = MadeUpEngine({INT8: 1.0}, lambda sentence: [PAD, *sentence[1:]])
    assert Contest([ours, int8], cell, LENGTHS).warm_up()[INT8] == 0.0


def test_speeds_and_ratios_are_medians_of_rounds():
    one = made_up_comparison()
    assert one.tokens_per_second("ours fp32") == 100
    assert one.ratio("ours fp32", FLOAT32) == pytest.approx(1.1)


def test_bars_are_judged_where_they_apply():
    ((_, bar, ratio),) = judge([made_up_comparison()])
    assert (bar.times, ratio) == (1.1, pytest.approx(1.1))
    assert verdict(1.2, 1.1) == "met"
    assert verdict(0.99, 1.1) == "missed by 10.0%"
    assert {bar.ours for bar in BARS} >= set(NAMES[:2])


def test_the_report_and_the_chart_show_everybody(tmp_path, monkeypatch):
    comparisons = [made_up_comparison()]
    monkeypatch.setattr(decoding, "measure", lambda plan: comparisons)
    monkeypatch.setattr(decoding, "run_alone", lambda function, *args: function(*args))
    monkeypatch.setattr(machine, "PEAK_SHAPES", [(64, 64, 64)])
    threads = torch.get_num_threads()
    decoding.main(["--threads", "1", "--output", str(tmp_path), "--data", str(tmp_path)])
    torch.set_num_threads(threads)
    text = (tmp_path / "RESULTS.md").read_text()
    assert all(name in text for name in ("ours fp32", FLOAT32, INT8, "met"))
    assert (tmp_path / "decoding.png").stat().st_size > 10_000


def test_options_refuse_what_cannot_be(capsys):
    for wrong in (["--threads", "0"], ["--rounds", "0"], ["--sizes", "huge"]):
        with pytest.raises(SystemExit):
            decoding.parse_options(wrong)
    assert decoding.parse_options(["--quick"]).output is None
