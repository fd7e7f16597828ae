"""Which source word each word of a translation was read off, as the decoder's attention tells."""

import copy
import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

Span = tuple[int, int, int, int]  # source start, source end, target start, target end
Decode = Callable[[list[int]], str]


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


def align(
    attention: Tensor,
    source: tuple[list[int], str],
    target: tuple[list[int], str],
    decode: Decode,
    special: set[int],
    prefix: str = "",
) -> list[Span]:
    """For each word of the target, where it and its source word stand; words lie between blanks.

    A prefix that tells the model its task is part of the source, but no target word's source.
    """
    rows = _words_of_tokens(*target, decode, special)
    columns = _words_of_tokens(*source, decode, special)
    attention = attention[: rows.shape[1], : columns.shape[1]]
    weights = (rows @ attention @ columns.T)[:, len(prefix.split()) :]  # [target, source words]
    if not weights.numel():
        return []
    source_spans, target_spans = _word_spans(source[1].removeprefix(prefix)), _word_spans(target[1])
    best = weights.argmax(dim=1).tolist()
    return [(*source_spans[index], *span) for index, span in zip(best, target_spans, strict=True)]


def _words_of_tokens(ids: list[int], text: str, decode: Decode, special: set[int]) -> Tensor:
    """A matrix `[words, tokens]` of ones where a token belongs to a word."""
    count = len(text.split())
    membership = torch.zeros(count, len(ids))
    for index, token in enumerate(ids):
        word = len(decode(ids[: index + 1]).split()) - 1
        if token not in special and 0 <= word < count:
            membership[word, index] = 1
    return membership


def _word_spans(text: str) -> list[tuple[int, int]]:
    return [word.span() for word in re.finditer(r"\S+", text)]
