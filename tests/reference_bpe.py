"""Byte-pair encoding as the paper tells it (Sennrich et al., 2016), without any shortcut."""

from collections import Counter
from itertools import pairwise

FIRST_ID = 3  # after the special tokens


def learn_merges(pieces, alphabet, vocabulary_size, min_frequency):
    """Merge the most frequent pair again and again; among equals the one with the lowest ids."""
    ids = {letter: index for index, letter in enumerate(alphabet, start=FIRST_ID)}
    words = {tuple(piece): count for piece, count in pieces.items()}
    merges = []
    while FIRST_ID + len(ids) < vocabulary_size:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        if pairs[best] < min_frequency:
            break
        merges.append(best)
        ids.setdefault("".join(best), FIRST_ID + len(ids))
        words = {merge(word, best): count for word, count in words.items()}
    return merges


def merge(word, pair):
    """Replace each adjacent `pair`: merge(("l", "o", "w"), ("l", "o")) -> ("lo", "w")."""
    merged, position = [], 0
    while position < len(word):
        if word[position : position + 2] == pair:
            merged.append("".join(pair))
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return tuple(merged)
