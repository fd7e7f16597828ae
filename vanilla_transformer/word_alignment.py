"""Which source word each word of a translation was read off, as the decoder's attention tells."""

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from .token_words import word_spans

Span = tuple[int, int, int, int]  # source start, source end, target start, target end
Tokens = tuple[list[int | None], str]  # each token's word, and the text


def cross_attention(model: Any, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """Attention `[batch, target_len - 1, source_len]` from each written token to the source.

    It is the mean over the heads of the layer that aligns best.
    """
    attentions = watched_twin(model)(
        **inputs, decoder_input_ids=targets[:, :-1], output_attentions=True, use_cache=False
    ).cross_attentions
    if not attentions or attentions[0] is None:
        raise ValueError(
            f"return_alignment needs a model that gives its attentions, got {type(model).__name__}."
        )
    return attentions[best_aligning(len(attentions))].float().mean(dim=1)


def best_aligning(num_layers: int) -> int:
    """The decoder layer, counted from 0, whose cross-attention aligns best.

    It is the last but one; of two the last, as the first does not know yet what it will write.
    """
    return num_layers - 2 if num_layers > 2 else num_layers - 1


def watched_twin(model: Any) -> Any:
    """The same model with the same weights, which can be watched.

    The library's hooks, once they are in a model, stay there, and slow down all it does; fused
    attention has no weights to show; and other threads may be using the model.
    """
    weights = chain(model.parameters(), model.buffers())
    twin = copy.deepcopy(model, {id(weight): weight for weight in weights})
    for part in twin.modules():
        if isinstance(part, PreTrainedModel):  # some have a configuration of their own
            part.set_attn_implementation("eager")
    return twin


def align(attention: Tensor, source: Tokens, target: Tokens, prefix: str = "") -> list[Span]:
    """For each word of the target, where it and its source word stand; words lie between blanks.

    A prefix that tells the model its task is part of the source, but no target word's source.
    """
    rows, columns = _membership(*target), _membership(*source)
    attention = attention[: rows.shape[1], : columns.shape[1]]
    before = num_prefix_words(prefix, source[1])
    weights = (rows @ attention @ columns.T)[:, before:]  # [target, source words]
    if not weights.numel():
        return []
    sources = [
        (max(start - len(prefix), 0), end - len(prefix))
        for start, end in word_spans(source[1])[before:]
    ]
    best = weights.argmax(dim=1).tolist()
    return [
        (*sources[index], *span) for index, span in zip(best, word_spans(target[1]), strict=True)
    ]


def num_prefix_words(prefix: str, text: str) -> int:
    """How many words of a text that begins with a prefix are no words of what stands behind it."""
    return sum(end <= len(prefix) for _, end in word_spans(text))


def _membership(words: list[int | None], text: str) -> Tensor:
    """A matrix `[words, tokens]` of ones where a token belongs to a word."""
    membership = torch.zeros(len(text.split()), len(words))
    for token, word in enumerate(words):
        if word is not None:
            membership[word, token] = 1
    return membership
