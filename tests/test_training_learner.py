"""A step of ours is one of torch's AdamW on the same loss; what is saved goes on the same."""

import copy
import math

import pytest
import torch
from accelerate import Accelerator
from conftest import FIRST_WORD, LENGTHS, WORDS

from training.learner import Learner
from training.objective import IGNORED, Objective, collate
from training.recipe import OptimizationSection

START, END, PADDING = 1, 2, 0
SECTION = {"precision": "float32", "warmup_steps": 5, "peak_learning_rate": 0.01}


@pytest.fixture
def pairs():
    def sentence(length):
        return [*torch.randint(FIRST_WORD, WORDS, (length - 1,)).tolist(), END]

    return [(sentence(source), sentence(target)) for source, target in LENGTHS * 2]


@pytest.fixture
def batch(pairs):
    return collate(pairs, PADDING, START)


@pytest.fixture
def learn(build_tiny, batch):
    """Start a learner on a copy of one model, and let it take some steps."""
    models = {}

    def start(steps=0, pieces=(), dropout=0.0, **section):
        if dropout not in models:
            models[dropout] = build_tiny(dropout=dropout)
        learner = Learner(
            copy.deepcopy(models[dropout]),
            OptimizationSection(**SECTION | section),
            1,
            Accelerator(cpu=True),
        )
        go_on(learner, range(1, steps + 1), pieces or [batch])
        return learner

    return start


def go_on(learner, steps, pieces):
    words = sum(int((piece["labels"] != IGNORED).sum()) for piece in pieces)
    return [learner.step(step, pieces, words) for step in steps]


def weights_of(learner):
    return [one.detach() for one in learner.weights.exact]


def meaningful(model):
    """A bias of keys changes no attention: its gradient is noise, which Adam makes large."""
    return {k: v.detach() for k, v in model.named_parameters() if not k.endswith("k_proj.bias")}


def assert_equal(one, other):
    torch.testing.assert_close(weights_of(one), weights_of(other), rtol=0, atol=0)


def test_pieces_are_learned_from_like_the_whole(learn, pairs):
    pieces = [collate(pairs[part::2], PADDING, START) for part in range(2)]

    whole, cut = (meaningful(learn(3, some).weights.model) for some in ((), pieces))
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("clipped", [0.0, 0.5])
def test_a_step_is_one_of_adamw(clipped, learn, batch):
    ours = learn(weight_decay=0.1, max_gradient_norm=clipped)
    plain = copy.deepcopy(ours.weights.model).train()
    optimizer = torch.optim.AdamW(plain.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1)

    for step in range(1, 8):
        (outcome,) = go_on(ours, [step], [batch])
        optimizer.param_groups[0]["lr"] = outcome.learning_rate
        loss = plain(**batch).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), clipped or math.inf)
        optimizer.step()
        optimizer.zero_grad()
        assert outcome.loss == pytest.approx(loss.item(), rel=1e-5)
        assert outcome.gradient_norm == pytest.approx(float(norm), rel=1e-4)

    torch.testing.assert_close(meaningful(ours.weights.model), meaningful(plain), rtol=0, atol=2e-5)


def test_small_steps_do_not_vanish_in_bfloat16(learn):
    """Each is far below the 1/256 that a weight in 16 bits can tell apart."""
    start, end = (learn(n, precision="bfloat16", peak_learning_rate=1e-6) for n in (0, 30))

    assert all(one.dtype == torch.float32 for one in weights_of(end))
    assert {one.dtype for one in end.weights.model.parameters()} == {torch.bfloat16}
    for before, after in zip(weights_of(start), weights_of(end), strict=True):
        assert not torch.equal(before, after)


def test_bfloat16_learns_what_float32_learns(learn, batch):
    first, second = learn(10, precision="bfloat16"), learn(10)

    losses = [go_on(one, [11], [batch])[0].loss for one in (first, second)]

    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_saved_and_loaded_a_learner_goes_on_the_same(precision, ema_decay, learn, batch, tmp_path):
    options = {"precision": precision, "ema_decay": ema_decay, "dropout": 0.2}
    whole, begun, resumed = learn(6, **options), learn(3, **options), learn(**options)
    (tmp_path / "training").mkdir()
    begun.save(tmp_path, begun.collect())
    torch.manual_seed(99)  # dropout asks no generator that outlives a step

    resumed.load(tmp_path)
    go_on(resumed, range(4, 7), [batch])

    assert_equal(resumed, whole)
    if ema_decay:
        torch.testing.assert_close(resumed.average.averages, whole.average.averages, rtol=0, atol=0)
    saved, expected = resumed.collect()[0], whole.collect()[0]
    torch.testing.assert_close(saved.moments, expected.moments, rtol=0, atol=0)
    assert saved.steps == expected.steps


def test_dropout_is_another_in_every_step_and_piece(learn, batch):
    learner = learn(dropout=0.5)
    drawn = []

    for step, piece in ((1, 0), (1, 1), (2, 0), (1, 0)):
        learner._draw_from(step, piece)
        drawn.append(float(learner.weights.model.train()(**batch).loss.detach()))

    assert len(set(drawn[:3])) == 3
    assert drawn[3] == drawn[0]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_that_is_not_finite_changes_nothing(precision, learn, batch, monkeypatch):
    options = {"precision": precision, "ema_decay": 0.9}
    plain, spoilt = learn(4, **options), learn(4, **options)
    measure = Objective.__call__
    monkeypatch.setattr(
        Objective, "__call__", lambda *given: [one * math.nan for one in measure(*given)]
    )

    (outcome,) = go_on(spoilt, [5], [batch])

    assert not outcome.is_finite
    assert_equal(spoilt, plain)
    monkeypatch.undo()
    for one in (spoilt, plain):
        go_on(one, [6], [batch])
    assert_equal(spoilt, plain)
    torch.testing.assert_close(spoilt.average.averages, plain.average.averages, rtol=0, atol=0)


def test_the_weights_to_be_judged_are_the_moving_average(learn, tmp_path):
    learner = learn(5, ema_decay=0.9)
    before = [one.clone() for one in weights_of(learner)]

    with learner.best_weights() as model:
        judged = [one.detach().clone() for one in model.parameters()]

    torch.testing.assert_close(judged, learner.average.averages, rtol=0, atol=0)
    torch.testing.assert_close(weights_of(learner), before, rtol=0, atol=0)
