"""The moving average against its formula, number by number."""

import torch

from training.moving_average import MovingAverage


def test_the_average_is_what_the_formula_says():
    weights = [torch.randn(3), torch.randn(2, 2)]
    average = MovingAverage(weights, 0.9)
    expected = [one.clone() for one in weights]

    for step in range(1, 200):
        for one in weights:
            one.add_(torch.randn_like(one))
        average.follow(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = [
            decay * mean + (1 - decay) * one for mean, one in zip(expected, weights, strict=True)
        ]
        torch.testing.assert_close(average.averages, expected)


def test_weights_are_their_averages_for_a_while():
    weights = [torch.zeros(2)]
    average = MovingAverage(weights, 0.9)
    weights[0].fill_(1.0)

    with average.in_place():
        assert weights[0].tolist() == [0, 0]
    assert weights[0].tolist() == [1, 1]
