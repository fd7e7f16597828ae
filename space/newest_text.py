"""Work on a text ends, in the middle of a word search, as soon as its visitor has a newer one.

page.js numbers the changes of the text; the number of the newest comes beside the queue, and work
asks for it before every word that the model writes.
"""

from dataclasses import dataclass

from torch import Tensor
from transformers import LogitsProcessor


class OutdatedError(Exception):
    """There is a newer text: nobody waits for this work."""


@dataclass
class Newest:
    """The number of the newest text of a visitor."""

    number: int = 0

    def note(self, number: int) -> None:
        """Take a number, in whatever order they arrive."""
        self.number = max(self.number, number)


@dataclass
class Work(LogitsProcessor):
    """Work on the text with this number.

    A logits processor, as `generate` leaves its fast search for a stopping criterion, and would
    still hand over what it has so far.
    """

    number: int
    newest: Newest

    def check(self) -> None:
        """Stop, if it is for nothing."""
        if self.number < self.newest.number:
            raise OutdatedError

    def __call__(self, written: Tensor, scores: Tensor) -> Tensor:
        self.check()
        return scores
