"""The smoothed loss: one definition, a way round the logits, and outputs that make them late."""

import copy
import pickle
from contextlib import nullcontext

import pytest
import torch
from accelerate.utils import convert_to_fp32
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.modeling_outputs import Seq2SeqLMOutput

from vanilla_transformer import smoothed_loss
from vanilla_transformer.fast_linear import FastLinear
from vanilla_transformer.smoothed_loss import (
    LossWithLazyLogits,
    can_project,
    projected_loss,
    smoothed_cross_entropy,
)
from vanilla_transformer.word_ids import IGNORED

SMOOTHINGS = [0.0, 0.1, 0.6]
BLOCK_SIZES = ("BYTES_AT_ONCE", "ROWS_IN_CACHE", "WORDS_IN_CACHE")


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Rounds of 4 rows and a cache of 2 rows or 3 words, for a vocabulary of 10."""
    for name, size in zip(BLOCK_SIZES, (160, 2, 3), strict=True):
        monkeypatch.setattr(smoothed_loss, name, size)


def made_up(rows=9, vocab_size=10, width=6, *, dtype=torch.float32, ignored=(2, 5)):
    """Hidden states, the weight of a projection, and labels, some of which are ignored."""
    hidden = torch.randn(rows, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocab_size, width, dtype=dtype, requires_grad=True)
    labels = torch.randint(vocab_size, (rows,))
    labels[[row for row in ignored if row < rows]] = IGNORED
    return hidden, weight, labels


def with_gradients(loss, *leaves):
    """The loss and the gradients of the leaves, None for those that are frozen."""
    for leaf in leaves:
        leaf.grad = None
    loss.backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves)]


def projected(hidden, weight, labels, factor=1.0, **objective):
    loss = projected_loss(hidden, weight, labels, **{"smoothing": 0.1, **objective})
    return with_gradients(loss * factor, hidden, weight)


def defined(hidden, weight, labels, factor=1.0, **objective):
    """The same by the definition, in float64."""
    hidden, weight = (
        leaf.detach().double().requires_grad_(leaf.requires_grad) for leaf in (hidden, weight)
    )
    loss = exact_loss(hidden @ weight.t(), labels, **{"smoothing": 0.1, **objective})
    return with_gradients(loss * factor, hidden, weight)


def exact_loss(logits, labels, *, smoothing, num_items_in_batch=None):
    """Cross-entropy against (1 - smoothing) label + smoothing / V, word for word."""
    total = 0 * logits.sum()
    for row, label in zip(logits.flatten(0, -2), labels.flatten().tolist(), strict=True):
        if label != IGNORED:
            target = torch.full_like(row, smoothing / len(row))
            target[label] += 1 - smoothing
            total = total - (target * torch.log_softmax(row, dim=0)).sum()
    return total / (num_items_in_batch or max(1, int((labels != IGNORED).sum())))


def assert_close_to(results, exact, tolerance=1e-5):
    for ours, truth in zip(results, exact, strict=True):
        assert (ours is None) == (truth is None)
        if ours is not None:
            assert_close(ours.double(), truth, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_definition_is_cross_entropy_with_smoothed_labels(smoothing):
    hidden, weight, labels = made_up()
    logits = hidden @ weight.t()

    loss = smoothed_cross_entropy(logits, labels, smoothing=smoothing)

    assert_close(loss, nn.CrossEntropyLoss(label_smoothing=smoothing)(logits, labels))
    assert_close(loss.double(), exact_loss(logits.double(), labels, smoothing=smoothing))


def test_without_smoothing_the_loss_is_the_negative_log_likelihood():
    hidden, weight, labels = made_up(ignored=())
    probabilities = (hidden @ weight.t()).softmax(-1).gather(1, labels.unsqueeze(1))

    assert_close(smoothed_cross_entropy(hidden @ weight.t(), labels), -probabilities.log().mean())


def test_the_definition_takes_logits_of_half_precision_as_float32():
    hidden, weight, labels = made_up(dtype=torch.bfloat16)
    logits = hidden @ weight.t()

    loss = smoothed_cross_entropy(logits, labels, smoothing=0.1)

    assert torch.equal(loss, smoothed_cross_entropy(logits.float(), labels, smoothing=0.1))


@given(
    rows=st.integers(0, 12),
    vocab_size=st.integers(1, 14),
    smoothing=st.sampled_from(SMOOTHINGS),
    sizes=st.tuples(*(st.integers(1, most) for most in (600, 6, 6))),
    data=st.data(),
)
def test_the_way_round_the_logits_ends_at_the_definition(rows, vocab_size, smoothing, sizes, data):
    ignored = data.draw(st.sets(st.integers(0, max(0, rows - 1))))
    example = made_up(rows, vocab_size, ignored=ignored)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(BLOCK_SIZES, sizes, strict=True):
            patch.setattr(smoothed_loss, name, size)
        results = projected(*example, smoothing=smoothing)

    assert_close_to(results, defined(*example, smoothing=smoothing))


@pytest.mark.parametrize("vocab_size", [1023, 1024, 1025, 2500])
@pytest.mark.parametrize("rows", [63, 64, 65])
def test_real_block_sizes_end_at_the_definition_too(rows, vocab_size):
    hidden, weight, labels = made_up(rows, vocab_size)
    plain = smoothed_cross_entropy(hidden @ weight.t(), labels, smoothing=0.1)

    ours = projected(hidden, weight, labels)

    assert_close_to(ours, [part.double() for part in with_gradients(plain, hidden, weight)])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("as_number", [int, torch.tensor], ids=["int", "tensor"])
def test_a_given_number_of_items_divides_the_sum(as_number, smoothing, tiny_blocks):
    example, items = made_up(), as_number(50)
    results = projected(*example, smoothing=smoothing, num_items_in_batch=items)
    hidden, weight, labels = example
    plain = smoothed_cross_entropy(
        hidden @ weight.t(), labels, smoothing=smoothing, num_items_in_batch=items
    )

    assert_close_to(results, defined(*example, smoothing=smoothing, num_items_in_batch=50))
    assert_close(plain.detach(), results[0])


def test_two_half_batches_add_up_to_a_whole_one(tiny_blocks):
    hidden, weight, labels = made_up(rows=8, ignored=(1, 6, 7))
    whole = projected(hidden, weight, labels)
    halves = [
        projected(half.detach().requires_grad_(), weight, label, num_items_in_batch=5)
        for half, label in zip(hidden.split(4), labels.split(4), strict=True)
    ]

    assert_close(halves[0][0] + halves[1][0], whole[0])
    assert_close(torch.cat([half[1] for half in halves]), whole[1])
    assert_close(halves[0][2] + halves[1][2], whole[2])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("items", [None, 0, 7])
def test_a_batch_without_labels_costs_nothing(items, smoothing):
    hidden, weight, labels = made_up(rows=4, ignored=range(4))
    objective = {"smoothing": smoothing, "num_items_in_batch": items}
    plain = smoothed_cross_entropy(hidden @ weight.t(), labels, **objective)
    expected = [torch.zeros(()), torch.zeros_like(hidden), torch.zeros_like(weight)]

    assert_close_to(with_gradients(plain, hidden, weight), [e.double() for e in expected])
    assert_close_to(projected(hidden, weight, labels, **objective), [e.double() for e in expected])


def test_sentences_keep_their_shape_in_the_gradient(tiny_blocks):
    hidden, weight, labels = made_up(rows=12)
    batch = hidden.detach().view(3, 4, -1).requires_grad_()

    _, gradient, _ = projected(batch, weight, labels.view(3, 4))

    assert_close(gradient.view_as(hidden), projected(hidden, weight, labels)[1])


def test_a_word_without_a_label_gets_no_gradient(tiny_blocks):
    hidden, weight, labels = made_up(ignored=(2, 5))
    _, gradient, _ = projected(hidden, weight, labels)

    assert torch.equal(gradient.any(1), labels != IGNORED)


@pytest.mark.parametrize("frozen", [0, 1])
def test_what_is_frozen_gets_no_gradient(frozen, tiny_blocks):
    example = made_up()
    example[frozen].requires_grad_(False)

    assert_close_to(projected(*example), defined(*example))


@pytest.mark.parametrize("factor", [0.0, 1.0, 0.25, -3.0])
def test_a_factor_on_the_loss_scales_its_gradients(factor, tiny_blocks):
    example = made_up()

    assert_close_to(projected(*example, factor), defined(*example, factor))


def test_a_graph_that_is_kept_gives_the_same_gradients_again(tiny_blocks):
    hidden, weight, labels = made_up()
    loss = projected_loss(hidden, weight, labels, smoothing=0.1)
    first = torch.autograd.grad(loss, (hidden, weight), retain_graph=True)
    before = [gradient.clone() for gradient in first]
    loss.backward(retain_graph=True)
    loss.backward()

    assert all(map(torch.equal, first, before))
    assert_close([hidden.grad, weight.grad], [2 * gradient for gradient in before])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_logits_of_any_size_give_a_finite_loss(scale, smoothing, tiny_blocks):
    hidden, weight, labels = made_up()
    example = hidden.detach().mul(scale).requires_grad_(), weight, labels
    ours = projected(*example, smoothing=smoothing)
    truth = defined(*example, smoothing=smoothing)

    for part, exact in zip(ours, truth, strict=True):
        assert_close(part.double(), exact, rtol=1e-5, atol=1e-5 * exact.abs().max().item())


def test_a_common_shift_of_all_logits_costs_no_precision(tiny_blocks):
    hidden, weight, labels = made_up()
    shifted = torch.cat((hidden, torch.full((len(hidden), 1), 100.0)), 1).detach().requires_grad_()
    ones = torch.cat((weight, torch.ones(len(weight), 1)), 1).detach().requires_grad_()

    loss, *_ = projected(shifted, ones, labels)

    assert_close(loss, projected(hidden, weight, labels)[0], rtol=1e-4, atol=0)


def test_bfloat16_is_close_to_exact(tiny_blocks):
    example = made_up(dtype=torch.bfloat16)
    ours = projected(*example)

    assert [part.dtype for part in ours] == [torch.float32, torch.bfloat16, torch.bfloat16]
    assert_close_to(ours, defined(*example), tolerance=0.03)


def test_autocast_rounds_no_more_than_it_rounds_the_definition():
    hidden, weight, labels = made_up(rows=400, vocab_size=50, width=32)
    exact = defined(hidden, weight, labels)
    with torch.autocast("cpu", torch.bfloat16):
        ours = projected(hidden, weight, labels)
        logits = nn.functional.linear(hidden, weight)
        plain = smoothed_cross_entropy(logits, labels, smoothing=0.1)
    plain = with_gradients(plain, hidden, weight)

    assert [part.dtype for part in ours] == [part.dtype for part in plain]
    for part, usual, truth in zip(ours, plain, exact, strict=True):
        allowed = 2 * (usual - truth).norm() + 1e-5 * truth.norm()
        assert (part - truth).norm() <= allowed


def test_autocast_sums_the_loss_in_float32():
    hidden = torch.full((301, 1), 12.0, requires_grad=True)
    weight = torch.full((20, 1), 8.0, requires_grad=True)
    labels = torch.randint(20, (301,))
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_loss(hidden, weight, labels, smoothing=0.6)

    assert_close(loss, torch.tensor(20.0).log(), rtol=1e-4, atol=0)  # every word is as likely


class Results(TorchDispatchMode):
    """Keeps what every operator that torch runs was called, and the tensors it made."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        self.made += [(str(func), tensor) for tensor in tensors]
        return results


def test_the_logits_are_never_whole_in_memory(monkeypatch):
    monkeypatch.setattr(smoothed_loss, "BYTES_AT_ONCE", 4000)
    hidden, weight, labels = made_up(rows=200, vocab_size=100, width=2)
    with Results() as results:
        projected(hidden, weight, labels)

    assert max(tensor.numel() for _, tensor in results.made) <= 1000


def test_autocast_multiplies_in_half_precision():
    with torch.autocast("cpu", torch.bfloat16), Results() as results:
        projected(*made_up())

    products = [tensor for name, tensor in results.made if "mm" in name or "linear" in name]
    assert {product.dtype for product in products} == {torch.bfloat16}


def hooked(head):
    head.register_forward_hook(lambda *_: None)
    return head


def hooked_before(head):
    head.register_forward_pre_hook(lambda *_: None)
    return head


def with_another_forward(head):
    head.forward = head.forward  # as accelerate wraps modules
    return head


class Adapted(FastLinear):
    """As peft wraps modules."""


HEADS = {
    "plain": (True, lambda head: head),
    "bfloat16": (True, lambda head: head.bfloat16()),
    "resized": (True, lambda head: nn.Linear(4, 9, bias=False)),
    "frozen": (True, lambda head: head.requires_grad_(False)),
    "with a bias": (False, lambda head: FastLinear(4, 9)),
    "float16": (False, lambda head: head.half()),
    "float64": (False, lambda head: head.double()),
    "hooked": (False, hooked),
    "hooked before": (False, hooked_before),
    "with another forward": (False, with_another_forward),
    "adapted": (False, lambda head: Adapted(4, 9, bias=False)),
    "reparametrized": (False, nn.utils.parametrizations.weight_norm),
    "elsewhere": (False, lambda head: head.to("meta")),
}


@pytest.mark.parametrize(("expected", "change"), HEADS.values(), ids=HEADS)
def test_only_a_plain_head_may_be_left_out(expected, change):
    head = change(FastLinear(4, 9, bias=False))

    assert can_project(torch.zeros(3, dtype=torch.long), head) == expected


def test_without_gradients_there_is_nothing_to_make_on_the_way():
    with torch.no_grad():
        assert not can_project(torch.zeros(3, dtype=torch.long), FastLinear(4, 9, bias=False))


class Recipe:
    """A way to make logits that counts how often it is followed."""

    def __init__(self, logits):
        self.logits, self.count = logits, 0

    def __call__(self):
        self.count += 1
        return self.logits


@pytest.fixture
def recipe():
    return Recipe(torch.randn(2, 3, 5))


@pytest.fixture
def lazy(recipe):
    outputs = Seq2SeqLMOutput(loss=torch.tensor(1.5), encoder_last_hidden_state=torch.ones(2, 4, 6))
    return LossWithLazyLogits(**{**outputs, "logits": lambda: recipe()})  # a closure


WITHOUT_LOGITS = {
    "loss": lambda outputs: outputs.loss,
    "['loss']": lambda outputs: outputs["loss"],
    "[0]": lambda outputs: outputs[0],
    "[2]": lambda outputs: outputs[2],
    "encoder": lambda outputs: outputs.encoder_last_hidden_state,
    "keys": lambda outputs: list(outputs),
    "in": lambda outputs: "logits" in outputs,
    "len": len,
    "to float32": convert_to_fp32,
    "tree": lambda outputs: pytree.tree_map(lambda leaf: leaf, outputs),
}

LOGITS = {
    ".logits": lambda outputs: outputs.logits,
    "['logits']": lambda outputs: outputs["logits"],
    "get": lambda outputs: outputs.get("logits"),
    "[1]": lambda outputs: outputs[1],
    "[-2]": lambda outputs: outputs[-2],
    "[:2]": lambda outputs: outputs[:2][1],
    "to_tuple": lambda outputs: outputs.to_tuple()[1],
    "dict": lambda outputs: dict(outputs)["logits"],
    "**": lambda outputs: {**outputs}["logits"],
    "getattr": lambda outputs: getattr(outputs, "logits", None),
    "copy": lambda outputs: copy.copy(outputs).logits,
    "deepcopy": lambda outputs: copy.deepcopy(outputs)["logits"],
    "pickle": lambda outputs: pickle.loads(pickle.dumps(outputs))["logits"],
    "to float32": lambda outputs: convert_to_fp32(outputs).logits,
    "rebuilt": lambda outputs: type(outputs)(dict(outputs.items())).logits,
    "tree": lambda outputs: pytree.tree_map(lambda leaf: leaf, outputs)["logits"],
}


@pytest.mark.parametrize("read", WITHOUT_LOGITS.values(), ids=WITHOUT_LOGITS)
def test_who_reads_no_logits_does_not_pay_for_them(read, lazy, recipe):
    read(lazy)

    assert recipe.count == 0


@pytest.mark.parametrize("read", LOGITS.values(), ids=LOGITS)
def test_who_reads_logits_gets_them(read, lazy, recipe):
    assert torch.equal(read(lazy), recipe.logits)


def test_what_is_absent_is_the_default(lazy):
    assert lazy.get("past_key_values", "nothing") == "nothing"


def test_logits_are_made_once(lazy, recipe):
    for _ in range(3):
        lazy.logits, lazy["logits"], lazy[1], lazy.to_tuple()

    assert recipe.count == 1


def test_lazy_outputs_look_like_those_of_the_library(lazy, recipe):
    plain = Seq2SeqLMOutput(
        loss=lazy.loss,
        logits=recipe.logits,
        encoder_last_hidden_state=lazy.encoder_last_hidden_state,
    )

    assert isinstance(lazy, Seq2SeqLMOutput)
    assert list(lazy) == list(plain)
    assert all(map(torch.equal, lazy.to_tuple(), plain.to_tuple()))


def test_outputs_of_another_shape_keep_their_laziness(lazy, recipe):
    converted = convert_to_fp32(lazy)

    assert type(converted) is type(lazy)
    assert list(converted) == list(lazy)
    assert recipe.count == 0


def test_logits_can_be_replaced(lazy):
    other = torch.zeros(2, 3, 5)
    lazy.logits = other

    assert lazy["logits"] is other
    assert lazy[1] is other


@pytest.mark.parametrize("context", [nullcontext, torch.no_grad])
def test_the_model_makes_late_the_logits_it_would_make_at_once(context, tiny_model, sentence_pairs):
    tiny_model.train()
    for module in tiny_model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    lazy = tiny_model(**sentence_pairs)
    with context():
        logits = lazy.logits
    with torch.no_grad():  # without gradients, nothing is lazy
        plain = tiny_model(**sentence_pairs)

    real = sentence_pairs["labels"] != IGNORED
    assert type(plain) is Seq2SeqLMOutput
    assert_close(lazy.loss, plain.loss)
    assert_close(logits[real], plain.logits[real], rtol=1e-4, atol=1e-5)
