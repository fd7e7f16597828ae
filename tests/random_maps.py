"""Attention maps whose weights are by chance, without a model."""

import re

import torch

from vanilla_transformer.attention_labels import Side
from vanilla_transformer.attention_maps import AttentionMaps


def random_maps(source="The cat sees", target="Die Katze sieht", layers=2, heads=3):
    """Every word is aligned with the one at its place, as long as there is one."""
    source_words, target_words = source.split(), target.split()
    columns, rows = len(source_words) + 1, len(target_words) + 1
    torch.manual_seed(0)
    scores = {
        "encoder": torch.randn(layers, heads, columns, columns),
        "decoder": torch.randn(layers, heads, rows, rows) + torch.ones(rows, rows).tril().log(),
        "cross": 3 * torch.randn(layers, heads, rows, columns),
    }
    places = [[word.span() for word in re.finditer(r"\S+", text)] for text in (source, target)]
    return AttentionMaps(
        {kind: numbers.softmax(dim=-1) for kind, numbers in scores.items()},
        source=side(*source_words, None),
        read=side(None, *target_words),
        written=side(*target_words, None),
        source_text=source,
        target_text=target,
        spans=tuple((*one, *other) for one, other in zip(*places, strict=False)),
    )


def side(*words):
    numbers = iter(range(len(words)))
    return Side(
        tuple(word or "<special>" for word in words),
        tuple(None if word is None else next(numbers) for word in words),
        (1,) * len(words),
    )
