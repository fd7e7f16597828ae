"""The paper's search (6.1): the best translations that beams find, as one loop over words.

The rules are those of the library's `_beam_search`, so that both find the same: a sentence keeps
`num_beams` open beams and its best `num_beams` finished ones, and stops when no open beam can win.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .repetition import repeating_words
from .target_decoder import TargetDecoder

NEVER = -1e9  # the score of what does not exist
ROWS_AT_ONCE = 16  # of logits: what fits a cache is not written to memory
CHUNK = 128  # words, among which only the best can be among the best of all


class StandardPenalty(float):
    """The library's length penalty: scores are divided by length ** alpha."""

    def of(self, length: Any) -> Any:
        """What the score of a target of this length is divided by."""
        return length ** float(self)


class GnmtPenalty(StandardPenalty):
    """The paper's length penalty, ((5 + length) / 6) ** alpha (6.1; Wu et al., 2016)."""

    def of(self, length: Any) -> Any:
        return ((5 + length) / 6) ** float(self)

    def __rpow__(self, length: Any) -> Any:  # type: ignore[override]
        return self.of(length)  # the library's loops compute `length ** length_penalty`


@dataclass(frozen=True)
class SearchOptions:
    """What a call to `generate` asks of the search."""

    num_beams: int
    num_returned: int
    ends: Tensor  # words that end a target
    filler: int  # stands behind the end
    penalty: StandardPenalty
    early_stopping: bool | str  # as the library's
    ngram_size: int  # no n-gram of so many words stands in a target twice; 0: any may
    process: Callable[[Tensor, Tensor], Tensor] | None  # the call's other logits processors


class BeamSearch:
    """The open beams of a batch and its best finished ones, from the start to the last end."""

    def __init__(
        self, decoder: TargetDecoder, start: Tensor, limits: Tensor, options: SearchOptions
    ) -> None:
        """Targets begin with `start` `[sentences]` and have at most `limits` words with it."""
        self.decoder, self.limits, self.options = decoder, limits, options
        self.length, self.first_limit = 1, int(limits.min())
        self.any_finished = False
        shape = (len(start), options.num_beams, int(limits.max()))
        self.finished = start.new_full(shape, options.filler)
        self.finished[:, :, 0] = start.unsqueeze(1)
        self.finished_scores = torch.full(shape[:2], NEVER, device=start.device)
        self.beams = self.finished[:, :1].clone()  # all beams begin alike: one is enough
        self.scores = torch.zeros(shape[0], 1, device=start.device)
        self.is_open = torch.ones(len(start), dtype=torch.bool, device=start.device)
        self.sentences = torch.arange(len(start), device=start.device)
        self.best = self.finished[:, : options.num_returned].clone()
        self.best_scores = self.finished_scores[:, : options.num_returned].clone()

    def run(self) -> tuple[Tensor, Tensor]:
        """The best targets of each sentence `[sentences, returned, length]` and their scores."""
        while len(self.sentences):
            ends = self._advance()
            self._close(ends)
        return self.best, self.best_scores

    def _advance(self) -> Tensor:
        """One word more for every beam; returns which sentences have no beam left to go on."""
        options, width = self.options, self.options.num_beams
        scores, words, parents = self._continuations(max(2, 1 + len(options.ends)) * width)
        is_end = torch.isin(words, options.ends)
        if self.length + 1 >= self.first_limit:
            is_end |= (self.length + 1 >= self.limits).unsqueeze(1)
        if is_end.any():
            self._finish(scores[:, :width], words[:, :width], parents[:, :width], is_end[:, :width])
            scores, chosen = (scores + is_end * NEVER).topk(width, dim=1)
            words, parents = words.gather(1, chosen), parents.gather(1, chosen)
        self.scores, parents = scores[:, :width], parents[:, :width]
        self.beams = self._continue(parents, words[:, :width])
        self.decoder.follow(parents)
        self.length += 1
        return is_end.all(dim=1)

    def _continue(self, parents: Tensor, words: Tensor) -> Tensor:
        """The beams `parents`, each with a word more."""
        beams = self.beams.gather(1, _along(parents, self.beams))
        beams[:, :, self.length] = words
        return beams

    def _continuations(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The best next words of all beams together: their scores, the words, and the beams."""
        per_beam = min(count, self.decoder.packed.vocab_size)
        values, words = self._next_words(per_beam)
        sentences, beams = self.scores.shape
        values = values.view(sentences, beams, per_beam) + self.scores.unsqueeze(2)
        values, words = values.flatten(1), words.view(sentences, -1)
        if missing := max(0, count - beams * per_beam):
            # A small vocabulary may offer fewer words than the search wants.
            values = functional.pad(values, (0, missing), value=NEVER)
            words = functional.pad(words, (0, missing))
        scores, places = values.topk(count, dim=1)
        return scores, words.gather(1, places), (places // per_beam).clamp_(max=beams - 1)

    def _next_words(self, count: int) -> tuple[Tensor, Tensor]:
        """The `count` best words after each beam: their log-probabilities before them."""
        packed, written = self.decoder.packed, self.beams[:, :, : self.length]
        states = self.decoder.step(written[:, :, -1])
        if self.options.process is not None:
            return self._processed(log_probs_of(packed, states)).topk(count, dim=1)
        found = [
            best_words(rows, count)
            for logits in packed.head.in_parts(states)
            for rows in logits.split(ROWS_AT_ONCE)
        ]
        values, words = (torch.cat(parts) for parts in zip(*found, strict=True))
        rows, banned = repeating_words(written, self.options.ngram_size)
        if len(rows):
            again, places = rows.unique(return_inverse=True)
            log_probs = log_probs_of(packed, states[again])
            log_probs[places, banned] = -torch.inf
            values[again], words[again] = log_probs.topk(count, dim=1)
        return values, words

    def _processed(self, log_probs: Tensor) -> Tensor:
        """Log-probabilities of all words, as the call's processors change them."""
        assert self.options.process is not None
        written = self.beams[:, :, : self.length]
        lacking = self.options.num_beams - written.shape[1]
        known = log_probs
        if lacking:  # processors expect a row for each beam, from the first word on
            written = written.expand(-1, 1 + lacking, -1)
            known = known.repeat_interleave(1 + lacking, dim=0)
        processed = self.options.process(written.flatten(0, 1), known)
        return processed[:: 1 + lacking]

    def _finish(self, scores: Tensor, words: Tensor, parents: Tensor, is_end: Tensor) -> None:
        """Take beams that end with these words among the best finished ones."""
        is_end = is_end & self.is_open.unsqueeze(1)
        if not is_end.any():
            return
        self.any_finished = True
        scores = scores / self.options.penalty.of(self.length)
        scores = scores.masked_fill(~is_end, -torch.inf)
        merged = torch.cat([self.finished_scores, scores], dim=1)
        targets = torch.cat([self.finished, self._continue(parents, words)], dim=1)
        self.finished_scores, chosen = merged.topk(self.options.num_beams, dim=1)
        self.finished = targets.gather(1, _along(chosen, targets))

    def _close(self, has_ended: Tensor) -> None:
        """Keep the result of sentences whose open beams cannot win any more, and drop them."""
        if not self.any_finished:
            return
        closing = self.is_open & (has_ended | ~self._can_improve())
        if not closing.any():
            return
        places = self.sentences[closing]
        self.best[places] = self.finished[closing, : self.options.num_returned]
        self.best_scores[places] = self.finished_scores[closing, : self.options.num_returned]
        self.is_open &= ~closing
        if not self.is_open.any() or self.options.process is None:
            self._keep(self.is_open.nonzero().squeeze(1))

    def _can_improve(self) -> Tensor:
        """Whether the best open beam may still beat a finished one."""
        options, length = self.options, self.length - 1
        rival = self.finished_scores[:, -1]
        if options.early_stopping is True:
            return rival <= NEVER
        reach: int | Tensor = length
        if options.early_stopping == "never":
            # Only the best are returned: what cannot beat the last of them cannot win.
            rival = self.finished_scores[:, options.num_returned - 1]
            if options.penalty > 0:
                reach = self.limits - 1
        return self.scores[:, 0] / options.penalty.of(reach) > rival

    def _keep(self, rows: Tensor) -> None:
        self.decoder.keep(rows)
        self.limits, self.sentences = self.limits[rows], self.sentences[rows]
        self.beams, self.scores = self.beams[rows], self.scores[rows]
        self.finished, self.finished_scores = self.finished[rows], self.finished_scores[rows]
        self.is_open = self.is_open[rows]


def greedy_search(
    decoder: TargetDecoder, start: Tensor, limits: Tensor, options: SearchOptions
) -> Tensor:
    """The most probable word again and again: targets `[sentences, length]`."""
    targets = start.new_full((len(start), int(limits.max())), options.filler)
    targets[:, 0] = start
    sentences = torch.arange(len(start), device=start.device)
    is_open = torch.ones_like(sentences, dtype=torch.bool)
    for length in range(1, targets.shape[1]):
        written = targets[sentences, :length]
        states = decoder.step(written[:, -1:])
        parts = decoder.packed.head.in_parts(states)
        if options.process is not None:
            logits = torch.cat(list(parts))[:, : decoder.packed.vocab_size].float()
            parts = iter([options.process(written, logits)])
        words = torch.cat([best_of_rows(logits.float(), 1)[1] for logits in parts]).squeeze(1)
        rows, banned = repeating_words(written, options.ngram_size)
        if len(rows):
            again, places = rows.unique(return_inverse=True)
            logits = decoder.packed.head(states[again])[:, : decoder.packed.vocab_size].float()
            logits[places, banned] = -torch.inf
            words[again] = logits.argmax(dim=1)
        targets[sentences, length] = words.where(is_open, options.filler)
        is_open = is_open & ~torch.isin(words, options.ends) & (length + 1 < limits[sentences])
        if not is_open.any():
            break
        if options.process is None and not is_open.all():
            decoder.keep(is_open.nonzero().squeeze(1))
            sentences, is_open = sentences[is_open], is_open[is_open]
    return targets


def log_probs_of(packed: Any, states: Tensor) -> Tensor:
    """Log-probabilities of all words `[rows, vocab]`."""
    logits = packed.head(states)[:, : packed.vocab_size]
    return logits.log_softmax(dim=1, dtype=torch.float32)


def best_words(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable words of each row, and their log-probabilities before them."""
    return best_of_rows(logits.log_softmax(dim=1, dtype=torch.float32), count)


def best_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of each row and their places, without sorting a whole vocabulary.

    They lie in the `count` chunks whose maxima are largest: two small searches for a big one.
    """
    rows, columns = scores.shape
    chunks = columns // CHUNK
    if columns % CHUNK or chunks <= 2 * count:
        return scores.topk(min(count, columns), dim=1)
    chunked = scores.view(rows, chunks, CHUNK)
    _, best_chunks = chunked.amax(dim=2).topk(count, dim=1)
    candidates = chunked.gather(1, best_chunks.unsqueeze(2).expand(-1, -1, CHUNK)).flatten(1)
    values, places = candidates.topk(count, dim=1)
    return values, best_chunks.gather(1, places // CHUNK) * CHUNK + places % CHUNK


def _along(places: Tensor, beams: Tensor) -> Tensor:
    """Places `[sentences, beams]` as an index of beams `[sentences, beams, length]`."""
    return places.unsqueeze(2).expand(-1, -1, beams.shape[2])
