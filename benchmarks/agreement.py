"""Before anything is timed: our loss and gradients are those of the padded reference."""

from typing import Any

import torch
from torch.nn import functional

from benchmarks.batches import Pair, collate, make_sentences
from benchmarks.contestants import LABEL_SMOOTHING, Size, build_ours
from benchmarks.marian_twin import marian_twin, to_marian_order

TOLERANCE = 1e-5
SENTENCES = 8


def largest_difference(size: Size, pairs: list[Pair], **changes: Any) -> tuple[float, float]:
    """Return how far our loss, and any of our gradients, is from MarianMT's in fp32.

    Our model is in training mode without dropout, so that it takes the path that is timed.
    """
    torch.manual_seed(0)
    ours = build_ours(size, dropout=0.0, **changes).train()
    twin = marian_twin(ours)
    batch = collate(make_sentences(pairs[:SENTENCES], size.vocab_size))

    loss = ours(**batch).loss
    reference = functional.cross_entropy(
        twin(**batch).logits.flatten(0, 1),
        batch["labels"].flatten(),
        label_smoothing=ours.config.label_smoothing,
    )
    loss.backward()
    reference.backward()

    named = {name: weight.grad for name, weight in ours.named_parameters()}
    gradients = to_marian_order({name: grad for name, grad in named.items() if grad is not None})
    differences = [
        (gradients[name] - weight.grad).abs().max().item()
        for name, weight in twin.named_parameters()
        if weight.grad is not None
    ]
    return (loss - reference).abs().item(), max(differences)


def check_agreement(size: Size, pairs: list[Pair]) -> float:
    """Return the largest difference, with label smoothing and without, or refuse to go on.

    Gradients are compared with GELU in the place of ReLU: an input within rounding of zero flips
    the gradient of ReLU, which at base happens in every batch, to whomever one compares.
    """
    found = []
    for label_smoothing in (0.0, LABEL_SMOOTHING):
        loss, _ = largest_difference(size, pairs, label_smoothing=label_smoothing)
        found += [loss]
        found += largest_difference(
            size, pairs, label_smoothing=label_smoothing, activation_function="gelu"
        )
    difference = torch.tensor(found).max().item()  # unlike max(), never overlooks a NaN
    if not difference <= TOLERANCE:
        raise ValueError(
            f"our loss or gradients must equal the padded reference within {TOLERANCE}, "
            f"got a difference of {difference:.1e}: speeds would compare different models."
        )
    return difference
