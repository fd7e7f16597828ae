"""No n-gram twice in a target: the words that would end one it already has.

A search that wants this pays next to nothing for it: hardly any word ever stands at such an end.
"""

from torch import Tensor


def repeating_words(targets: Tensor, ngram_size: int) -> tuple[Tensor, Tensor]:
    """Rows of `targets` `[..., length]`, and words that would there repeat an n-gram."""
    length = targets.shape[-1]
    if not 0 < ngram_size <= length:
        return targets.new_empty(0), targets.new_empty(0)
    targets = targets.reshape(-1, length)
    ngrams = targets.unfold(1, ngram_size, 1)
    begun = targets[:, length + 1 - ngram_size :]  # an n-gram but for its last word
    rows, places = (ngrams[:, :, :-1] == begun.unsqueeze(1)).all(dim=2).nonzero(as_tuple=True)
    return rows, ngrams[rows, places, -1]
