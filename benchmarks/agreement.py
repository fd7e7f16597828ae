"""Before anything is timed: our loss and gradients are those of the padded reference."""

import torch
from torch.nn import functional

from benchmarks.batches import Pair, collate, make_sentences
from benchmarks.contestants import LABEL_SMOOTHING, Size, build_ours
from benchmarks.marian_twin import marian_twin, to_marian_order

TOLERANCE = 1e-5
SENTENCES = 8


def largest_difference(size: Size, pairs: list[Pair], label_smoothing: float) -> float:
    """Return the largest difference in fp32 between our loss or gradients and MarianMT's.

    Our model is in training mode without dropout, so that it takes the path that is timed.
    """
    torch.manual_seed(0)
    ours = build_ours(size, dropout=0.0, label_smoothing=label_smoothing).train()
    twin = marian_twin(ours)
    batch = collate(make_sentences(pairs[:SENTENCES], size.vocab_size, seed=0))

    loss = ours(**batch).loss
    logits = twin(**batch).logits
    reference = functional.cross_entropy(
        logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=label_smoothing
    )
    loss.backward()
    reference.backward()

    gradients = to_marian_order(
        {name: weight.grad for name, weight in ours.named_parameters() if weight.grad is not None}
    )
    differences = [(loss - reference).abs()]
    for name, weight in twin.named_parameters():
        if weight.grad is not None:
            differences.append((gradients[name] - weight.grad).abs().max())
    return max(difference.item() for difference in differences)


def check_agreement(size: Size, pairs: list[Pair]) -> float:
    """Return the largest difference, with label smoothing and without, or refuse to go on."""
    difference = max(
        largest_difference(size, pairs, label_smoothing)
        for label_smoothing in (0.0, LABEL_SMOOTHING)
    )
    if not difference <= TOLERANCE:
        raise ValueError(
            f"our loss or gradients must equal the padded reference within {TOLERANCE}, "
            f"got a difference of {difference:.1e}: speeds would compare different models."
        )
    return difference
