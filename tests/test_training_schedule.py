"""The paper's formula, and a line to zero at the end."""

import itertools

import pytest

from training.recipe import OptimizationSection
from training.schedule import Schedule


@pytest.mark.parametrize("step", [1, 10, 3_999, 4_000, 4_001, 100_000])
def test_the_rate_is_the_paper_s(step):
    schedule = Schedule.of(OptimizationSection(), d_model=512)

    paper = 512**-0.5 * min(step**-0.5, step * 4_000**-1.5)  # 5.3, equation 3

    assert schedule.rate(step) == pytest.approx(paper, rel=1e-12)


def test_the_peak_comes_after_the_warm_up():
    schedule = Schedule(peak=0.005, warmup_steps=20, max_steps=200)

    assert max(range(1, 201), key=schedule.rate) == 20
    assert schedule.rate(20) == 0.005


def test_the_cool_down_is_a_line_to_almost_nothing():
    schedule = Schedule(peak=1.0, warmup_steps=10, max_steps=100, cooldown_steps=40)
    rates = [schedule.rate(step) for step in range(60, 101)]
    steps = [before - after for before, after in itertools.pairwise(rates)]

    assert rates[0] == Schedule(1.0, 10, 100).rate(60)
    assert steps == pytest.approx([rates[0] / 41] * 40)
    assert 0 < rates[-1] == pytest.approx(rates[0] / 41)


def test_a_run_that_ends_while_it_warms_up_goes_up_and_down_in_lines():
    schedule = Schedule(peak=1.0, warmup_steps=100, max_steps=60, cooldown_steps=80)
    rates = [schedule.rate(step) for step in range(1, 61)]

    assert rates[:33] == pytest.approx([step / 100 for step in range(1, 34)])
    assert rates[33:] == pytest.approx([(61 - step) / 81 for step in range(34, 61)])
