"""Table 1 measured: the fits, the counts, and that what is counted is what is measured."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from benchmarks import layer_kinds
from benchmarks.layer_growth import crossing, exponent, over_line
from benchmarks.layer_kinds import EAGER, GRU, KINDS, LSTM, RESTRICTED, SELF_ATTENTION
from benchmarks.layer_paths import (
    CELLS,
    DILATED,
    OneStep,
    StepByStep,
    path_length,
    sequential_operations,
)
from benchmarks.layers import main, parse_options
from vanilla_transformer import attention_plan

LENGTHS = [16, 32, 64]
RECURRENT = [LSTM, GRU]
PARALLEL = [kind for kind in KINDS if kind not in RECURRENT]


@pytest.mark.parametrize("power", [0, 1, 1.5, 2])
def test_the_exponent_of_a_power_is_found(power):
    assert exponent([(n, 3 * n**power) for n in LENGTHS]) == pytest.approx(power, abs=1e-9)


def test_a_measure_is_held_against_the_line_of_those_before():
    assert over_line([(n, 5 + 2 * n) for n in (1, 2, 4, 8)]) == pytest.approx(1)
    assert over_line([(n, n**2) for n in (1, 2, 4)]) == pytest.approx(16 / 10)


def test_powers_cross_where_they_are_equal():
    lengths = [4, 16, 64, 256]
    square, line = (
        [(n, factor * n**power) for n in lengths] for factor, power in [(1, 2), (40, 1)]
    )

    assert crossing(square, line) == pytest.approx(40)
    assert crossing(line, square) is None
    assert crossing([(n, 99 * value) for n, value in square], line) == pytest.approx(4)


@pytest.mark.parametrize("kind", PARALLEL)
def test_parallel_layers_are_as_deep_for_any_length(kind):
    assert len({sequential_operations(kind, n) for n in LENGTHS}) == 1


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrences_take_a_step_for_each_word(kind):
    chains = [sequential_operations(kind, n) for n in LENGTHS]

    assert chains[2] - chains[1] == 2 * (chains[1] - chains[0])


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        (SELF_ATTENTION, [1, 1, 1]),
        (EAGER, [1, 1, 1]),
        (RESTRICTED, [4, 8, 16]),  # with a window of 4, from word 15 over 11, 7 and 3 to 0
        (LSTM, [15, 31, 63]),
        (DILATED, [3, 4, 4]),  # the logarithm to base 3, rounded up
    ],
)
def test_a_path_is_as_long_as_the_paper_says(kind, layers):
    assert [path_length(kind, n, window=4) for n in LENGTHS] == layers


@pytest.mark.parametrize("kind", RECURRENT)
def test_single_steps_give_what_the_whole_layer_gives(kind):
    layer = CELLS[kind][0](8, 8, batch_first=True)
    sentence = torch.randn(1, 9, 8)

    assert_close(StepByStep(layer)(sentence), layer(sentence)[0])


def test_steps_of_all_words_at_once_end_in_the_recurrence():
    step = OneStep(GRU, 8)
    layer = nn.GRU(8, 8, batch_first=True)
    layer.load_state_dict({f"{name}_l0": one for name, one in step.cell.state_dict().items()})
    states = torch.zeros(1, 9, 8)
    for _ in range(9):
        states = step(states)

    assert_close(states, layer(torch.zeros(1, 9, 8))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_keeps_the_shape(kind):
    sentence = torch.randn(1, 20, 16)

    assert layer_kinds.build(kind, 16)(sentence).shape == sentence.shape


def test_the_restricted_layer_never_makes_all_pairs(monkeypatch):
    monkeypatch.setattr(attention_plan, "encoder_mask", None)  # the mask over all pairs
    layer, length = layer_kinds.build(RESTRICTED, 16), 2048
    layer(torch.randn(1, length, 16))

    assert layer.plans[length].mask.numel() < length**2 / 8


def test_a_quick_run_writes_nothing():
    assert parse_options(["--quick"]).output is None


def test_a_run_tells_of_every_layer_and_draws_them(capsys, tmp_path):
    main(["--quick", "--output", str(tmp_path)])

    told = capsys.readouterr().out
    assert all(f"| {kind} |" in told for kind in (*KINDS, DILATED))
    assert "![Table 1, measured](layers.png)" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "layers.png").stat().st_size > 10_000


@pytest.mark.parametrize("lengths", [["16", "32"], ["16", "16", "32"], ["32", "16", "64"]])
def test_too_few_lengths_are_refused(lengths, capsys):
    with pytest.raises(SystemExit):
        main(["--lengths", *lengths])
    assert "--lengths must be at least 3, in rising order" in capsys.readouterr().err


@pytest.mark.parametrize("lengths", [["16", "32", "64"], ["256", "512", "1024"]])
def test_lengths_too_short_for_memory_are_refused_before_anything_is_measured(lengths, capsys):
    with pytest.raises(SystemExit):
        main(["--lengths", *lengths])
    assert "at least 3 --lengths from 512 on" in capsys.readouterr().err
    assert parse_options(["--lengths", *lengths, "--memory-widths"]).memory_widths == []
