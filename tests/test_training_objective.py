"""The objective against torch's own losses, on the plain model."""

import pytest
import torch
from conftest import FIRST_WORD, LENGTHS, WORDS
from torch import nn

from training.objective import IGNORED, Objective, collate, silenced
from training.r_drop import ROWS_IN_CACHE, agreeing_loss

START, END, PADDING = 1, 2, 0


@pytest.fixture
def pairs():
    def sentence(length):
        return [*torch.randint(FIRST_WORD, WORDS, (length - 1,)).tolist(), END]

    return [(sentence(source), sentence(target)) for source, target in LENGTHS]


@pytest.fixture
def batch(pairs):
    return collate(pairs, PADDING, START)


def words_in(batch):
    return int((batch["labels"] != IGNORED).sum())


def test_the_decoder_reads_each_word_before_it_is_asked_for_the_next(pairs, batch):
    for row, (source, target) in enumerate(pairs):
        assert batch["input_ids"][row, : len(source)].tolist() == source
        assert batch["attention_mask"][row].sum() == len(source)
        assert batch["labels"][row, : len(target)].tolist() == target
        assert (batch["labels"][row, len(target) :] == IGNORED).all()
        read = batch["decoder_input_ids"][row]
        assert read[: len(target)].tolist() == [START, *target[:-1]]
        assert (read[len(target) + 1 :] == PADDING).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_torch(smoothing, build_tiny, batch):
    model = build_tiny(dropout=0.0, label_smoothing=smoothing).train()

    loss, told = Objective(smoothing, r_drop=0)(model, batch, words_in(batch))

    inputs = {name: one for name, one in batch.items() if name != "labels"}
    expected = nn.CrossEntropyLoss(label_smoothing=smoothing)(
        model(**inputs).logits.flatten(0, 1), batch["labels"].flatten()
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(told, expected)


def test_losses_of_pieces_add_up_to_that_of_the_batch(build_tiny, pairs, batch):
    model, words = build_tiny(dropout=0.0).train(), words_in(batch)
    objective = Objective(smoothing=0.1, r_drop=0)

    parts = [collate(pairs[part::3], PADDING, START) for part in range(3)]
    added = sum(objective(model, part, words)[0] for part in parts)

    torch.testing.assert_close(added, objective(model, batch, words)[0])


@pytest.mark.parametrize("r_drop", [0, 5.0])
def test_from_a_silenced_batch_nothing_is_learned(r_drop, build_tiny, batch):
    model = build_tiny(dropout=0.1).train()

    loss, _ = Objective(0.1, r_drop)(model, silenced(batch), 10)
    loss.backward()

    assert loss == 0
    gradients = [one.grad for one in model.parameters()]
    assert all(one is None or not one.any() for one in gradients)


def test_r_drop_is_what_its_paper_writes(build_tiny, batch):
    """Liang et al., 2021: both cross-entropies, and the divergences both ways, each by half."""
    model, words = build_tiny(dropout=0.3, label_smoothing=0.1).train(), words_in(batch)
    torch.manual_seed(5)
    loss, _ = Objective(smoothing=0.1, r_drop=2.0)(model, batch, words)

    torch.manual_seed(5)
    is_word = batch["labels"] != IGNORED
    first, second = (
        model(**batch, num_items_in_batch=words).logits[is_word].log_softmax(-1) for _ in range(2)
    )
    kl, labels = nn.KLDivLoss(reduction="sum", log_target=True), batch["labels"][is_word]
    entropy = nn.NLLLoss()
    smoothed = [0.9 * entropy(one, labels) - 0.1 * one.mean() for one in (first, second)]
    expected = sum(smoothed) / 2 + 2.0 * (kl(first, second) + kl(second, first)) / 2 / words
    torch.testing.assert_close(loss, expected)


def test_without_dropout_two_passes_are_one(build_tiny, batch):
    model, words = build_tiny(dropout=0.0).train(), words_in(batch)

    loss, entropy = Objective(smoothing=0.1, r_drop=3.0)(model, batch, words)

    plain, _ = Objective(smoothing=0.1, r_drop=0)(model, batch, words)
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(entropy, plain)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_gradients_of_r_drop_are_those_of_autograd(dtype):
    rows, classes, smoothing, weight = 2 * ROWS_IN_CACHE + 5, 50, 0.2, 3.0
    first, second = torch.randn(2, rows, classes, dtype=dtype).requires_grad_()
    labels = torch.randint(classes, (rows,)).masked_fill_(torch.rand(rows) < 0.3, IGNORED)

    loss, _ = agreeing_loss(first, second, labels, smoothing=smoothing, weight=weight, items=1)

    kept = labels != IGNORED
    p, q = first[kept].double(), second[kept].double()
    entropy = nn.CrossEntropyLoss(label_smoothing=smoothing, reduction="sum")
    kl = nn.KLDivLoss(reduction="sum", log_target=True)
    log_p, log_q = p.log_softmax(1), q.log_softmax(1)
    expected = (entropy(p, labels[kept]) + entropy(q, labels[kept])) / 2
    expected = expected + weight * (kl(log_p, log_q) + kl(log_q, log_p)) / 2
    ours = torch.autograd.grad(loss, (first, second))
    autograd = torch.autograd.grad(expected, (first, second))
    tolerance = {} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}  # float32 inside
    torch.testing.assert_close(loss, expected.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours, autograd, **tolerance)
