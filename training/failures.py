"""Failures in one line: what happened, and the way out."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory", "bad_alloc")
OF_A_WORKER = "DataLoader "  # how the library's complaints about them begin
OF_A_PEER = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "tcpstore")


def explain(error: Exception) -> str | None:
    """What to tell of an error that ends a run; None of one that only a programmer can mend."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{text}: free some; checkpoints are whole, so --resume goes on from the last one."
    if isinstance(error, ValueError | OSError | ImportError):
        return text
    if text.startswith(OF_A_WORKER):
        return (
            f"A process that makes batches ready must live as long as the run, got: {text} It may "
            "have run out of memory: go on with --resume, and --set batching.workers=0 if it "
            "happens again."
        )
    if any(sign in text.lower() for sign in OF_A_PEER):
        return (
            f"All processes of a run must live as long as it, got: {text}. Another one says why it "
            "ended, unless it was killed: go on with --resume."
        )
    return None


@contextmanager
def naming_the_shape(sources: Tensor, targets: Tensor, way_out: str) -> Iterator[None]:
    """Say how large a batch was that did not fit into memory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        lacks_memory = any(sign in str(error).lower() for sign in OUT_OF_MEMORY)
        if not lacks_memory and not isinstance(error, MemoryError):
            raise
        pairs, source_len = sources.shape
        raise ValueError(
            f"A batch must fit into memory, got {pairs} pairs of up to {source_len} source and "
            f"{targets.shape[1]} target tokens, for which there was not enough: {way_out}."
        ) from error
