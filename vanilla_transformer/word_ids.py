"""Word ids on their way into the model: checked, and shifted into what a decoder reads."""

from torch import Tensor

from .fast_linear import is_eager_on_cpu

IGNORED = -100  # the label that says: no loss here


def shift_right(labels: Tensor, pad_token_id: int, decoder_start_token_id: int) -> Tensor:
    """What the decoder reads while it learns to write `labels`: start, then all but the last."""
    shifted = labels.roll(1, dims=-1)
    shifted[..., 0] = decoder_start_token_id
    return shifted.masked_fill(shifted == IGNORED, pad_token_id)


def up_to_last_label(labels: Tensor) -> Tensor:
    """True up to the last labelled word of each target: no loss looks at what comes after it."""
    return (labels != IGNORED).flip(-1).cumsum(-1).flip(-1) > 0


def refuse_other_lengths(labels: Tensor, *decoder_inputs: Tensor | None) -> None:
    """A clear error for decoder inputs that are not as many words as the labels."""
    for words in decoder_inputs:
        if words is not None and words.shape[:2] != labels.shape:
            raise ValueError(
                f"labels and decoder inputs must be the same words, shifted by one, got shapes "
                f"{[*labels.shape]} and {[*words.shape[:2]]}: leave the decoder inputs out, and "
                "they are made from the labels."
            )


def refuse_unknown_ids(ids: Tensor, vocab_size: int, name: str) -> None:
    """A clear error for ids outside the vocabulary, where looking at them costs no waiting."""
    if not is_eager_on_cpu(ids) or ids.numel() == 0:
        return
    if ids.dim() != 2 or ids.is_floating_point():
        raise ValueError(
            f"{name} must be whole numbers [batch, length], got {ids.dtype} {[*ids.shape]}: "
            "make them a batch, even of one sentence."
        )
    if name == "labels":
        ids = ids.masked_fill(ids == IGNORED, 0)
    lowest, highest = (int(bound) for bound in ids.aminmax())
    if lowest < 0 or highest >= vocab_size:
        raise ValueError(
            f"{name} must be at least 0 and below the vocabulary size {vocab_size}, got "
            f"{lowest if lowest < 0 else highest}: use the tokenizer this model was made with, "
            "or resize the embeddings."
        )
