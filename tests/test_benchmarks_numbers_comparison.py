"""What learns with the Transformers must learn from the same, and be told in the same table."""

import json

import pytest
import torch
from small_training import train
from torch.testing import assert_close

from benchmarks.numbers_comparison import (
    NAMES,
    RECORDS,
    keep,
    main,
    parse_options,
    record_of,
    settings_of,
)
from benchmarks.numbers_report import LSTM, TRANSFORMERS, ComparedRun, write_report
from benchmarks.records import read_records
from benchmarks.recurrent_translator import RecurrentConfig, RecurrentTranslator, width_for
from training.model import configure
from training.recipe import load_recipe
from training.run_record import read_run
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.position_encodings import POSITION_ENCODINGS

WORDS = 30
CONFIG = RecurrentConfig(
    vocab_size=WORDS,
    d_model=8,
    width=12,
    pad_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=1,
    dropout=0.0,
    label_smoothing=0.1,
)


@pytest.fixture
def translator():
    return RecurrentTranslator(CONFIG).eval()


def reading_inputs(pairs):
    return pairs["input_ids"], pairs["attention_mask"]


def test_the_decoder_reads_a_target_step_by_step(translator, sentence_pairs):
    """The loss is that of steps taken by hand, each from the state that the one before left."""
    labels = sentence_pairs["labels"]
    targets = labels.clamp(min=0)
    inputs = torch.cat([torch.ones_like(targets[:, :1]), targets[:, :-1]], dim=1)
    source = {name: sentence_pairs[name] for name in ("input_ids", "attention_mask")}

    loss = translator(**source, decoder_input_ids=inputs, labels=labels).loss

    reading = translator.read(*reading_inputs(sentence_pairs))
    logits = [translator.step(reading, inputs[:, place]) for place in range(inputs.shape[1])]
    chances = torch.stack(logits, dim=1).log_softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2)
    assert_close(loss, -chances[labels >= 0].mean())


def test_greedy_translations_are_the_most_probable_words(translator, sentence_pairs):
    written = translator.generate(*reading_inputs(sentence_pairs))
    reading = translator.read(*reading_inputs(sentence_pairs))

    ended = torch.zeros(len(written), dtype=torch.bool)
    for place in range(written.shape[1] - 1):
        best = translator.step(reading, written[:, place]).argmax(1)
        assert torch.equal(written[~ended, place + 1], best[~ended])
        ended |= written[:, place + 1] == CONFIG.eos_token_id


def test_a_padded_source_is_read_as_it_is_alone(translator, sentence_pairs):
    together = translator.generate(*reading_inputs(sentence_pairs))
    for row, (ids, mask) in enumerate(zip(*reading_inputs(sentence_pairs), strict=True)):
        own = ids[mask.bool()].unsqueeze(0)
        reading = translator.read(own, torch.ones_like(own))
        batch = translator.read(*reading_inputs(sentence_pairs))

        assert_close(batch.state[0][row], reading.state[0][0])
        first = torch.full((1,), CONFIG.decoder_start_token_id)
        assert translator.step(reading, first).argmax(1) == together[row, 1]


def test_the_lstm_learns_a_batch_by_heart(sentence_pairs):
    translator = RecurrentTranslator(CONFIG).train()
    inputs = {name: sentence_pairs[name] for name in ("input_ids", "attention_mask", "labels")}
    inputs["decoder_input_ids"] = inputs["labels"].roll(1, dims=1).clamp(min=1)
    optimizer = torch.optim.Adam(translator.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        losses.append(translator(**inputs).loss)
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()

    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("parameters", [20_000, 100_000])
def test_the_width_brings_as_many_parameters_as_wanted(parameters):
    width = width_for(parameters, vocab_size=400, d_model=32)
    own = RecurrentConfig(400, 32, width, 0, 2, 1, 0.0, 0.0)

    assert RecurrentTranslator(own).num_parameters() == pytest.approx(parameters, rel=0.02)


def test_every_score_and_position_scheme_takes_part():
    pairs = {(score, positions) for score in SCORES for positions in POSITION_ENCODINGS}
    assert set(TRANSFORMERS.values()) == pairs

    for name, (score, positions) in TRANSFORMERS.items():
        changes = settings_of(name)
        recipe = load_recipe_of_numbers(changes)
        config = configure(recipe.model)
        assert (config.attention_score, config.position_encoding) == (score, positions)


def load_recipe_of_numbers(changes):
    return load_recipe(parse_options([]).recipe, tuple(changes))


def compared(name, exact=96.0, **changes):
    scores = {"numbers": {"exact": exact, "loss": 0.1}}
    run = {"name": name, "parameters": 7, "steps": 9, "seconds": 60.0, "time": 0.0}
    run |= {"machine": "here", "versions": {"torch": "2"}, "losses": [(1, 2.0), (2, 1.0)]}
    return ComparedRun(**run | {"exact": [(1, 1.0), (2, exact)], "scores": scores} | changes)


def test_a_score_is_held_against_the_bar_and_the_lstm_is_not():
    first, second, *_ = TRANSFORMERS
    rows = write_report([compared(first), compared(second, 94.9), compared(LSTM, 1.0)], "")

    verdicts = [line.split("|")[3].strip() for line in rows.splitlines() if "96.00%" in line]
    assert verdicts == ["met"]
    assert rows.count("missed") == 1


def test_runs_are_recorded_one_by_one_and_all_means_the_rest(tmp_path):
    records = tmp_path / RECORDS
    for name in (LSTM, NAMES[0], NAMES[0]):
        keep(records, compared(name))

    assert [one.name for one in read_records(records, ComparedRun)] == [NAMES[0], LSTM]
    rest = parse_options(["--train", "all", "--output", str(tmp_path)]).train
    assert rest == NAMES[1:-1]


@pytest.mark.parametrize(
    "trial", [["--set", "optimization.max_steps=4"], ["--recipe", "other.yaml"]]
)
def test_a_trial_is_not_recorded_among_the_results(trial, capsys):
    with pytest.raises(SystemExit):
        parse_options(["--train", LSTM, *trial])
    assert "another --output" in capsys.readouterr().err


def test_the_lstm_trains_on_a_recipe_and_is_put_beside_a_transformer(small_training, tmp_path):
    changes = ["optimization.max_steps=4", "evaluation.every_steps=2", "log.every_steps=1"]
    changes += ["corpus.tests={numbers: [" + str(small_training / "test.tsv") + "]}"]
    assert train(small_training, tmp_path / "ours", *changes) == 0
    keep(tmp_path / RECORDS, record_of(NAMES[0], read_run(tmp_path / "ours")))

    recipe = ["--recipe", str(small_training / "recipe.yaml"), "--set", *changes]
    main(["--train", LSTM, *recipe, "--runs", str(tmp_path), "--output", str(tmp_path)])

    ours, lstm = (json.loads(line) for line in (tmp_path / RECORDS).read_text().splitlines())
    assert lstm["parameters"] == pytest.approx(ours["parameters"], rel=0.05)
    assert [step for step, _ in lstm["losses"]] == [step for step, _ in ours["losses"]]
    assert [step for step, _ in lstm["exact"]] == [step for step, _ in ours["exact"]]
    assert (tmp_path / "numbers_comparison.png").stat().st_size > 10_000
