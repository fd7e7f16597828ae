"""Splits texts into tokens; other processes help once there are so many that it pays.

They are spawned, not forked: a fork of a process with threads (torch's, tokenizers') may hang. They
tokenize and nothing else, so that what is kept is the same to the byte however many they are.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import groupby
from threading import Thread
from typing import Any, Self

from vanilla_transformer.parallel_text import Row

ROWS_ALONE = 100_000  # tokenized in about the time that a helper takes to start
MOST_HELPERS = 8  # each takes memory, and what is left to this process takes time too
CHUNKS_AHEAD = 3  # for each helper

Texts = list[tuple[str, ...]]  # sources and targets
Columns = list[list[list[int]]]  # ids of sources and of targets, with words their sizes
Encode = Callable[[Texts], Columns]


class Tokenizing:
    """Token ids of chunks of rows, by this process, or by others while this one reads and writes.

    with Tokenizing(tokenizer, with_words=False) as tokenizing:
        for rows, columns in tokenizing.of(chunks): ...
    """

    def __init__(self, tokenizer: Any, *, with_words: bool, helpers: int | None = None) -> None:
        self.encode: Encode = partial(encode, tokenizer, with_words)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.helpers = min((cores or 1) - 1, MOST_HELPERS) if helpers is None else helpers
        self.rows = 0
        self._pool: ProcessPoolExecutor | None = None
        self._started: list[Future[None]] = []

    def of(self, chunks: Iterable[list[Row]]) -> Iterator[tuple[list[Row], Columns]]:
        """Each chunk with the columns of its rows that hold a pair, in the order of the chunks."""
        waiting: deque[tuple[list[Row], Future[Columns]]] = deque()
        for rows in chunks:
            self.rows += len(rows)
            future = self._give_away(rows)
            if future:
                waiting.append((rows, future))
            while waiting and (not future or len(waiting) > CHUNKS_AHEAD * self.helpers):
                yield self._take_back(*waiting.popleft())
            if not future:
                yield rows, self.encode(texts_of(rows))
        while waiting:
            yield self._take_back(*waiting.popleft())

    def _give_away(self, rows: list[Row]) -> Future[Columns] | None:
        """Let a helper tokenize, if there are any and they are ready."""
        if self._pool is None and self.helpers and self.rows > ROWS_ALONE:
            self._pool = ProcessPoolExecutor(
                self.helpers,
                multiprocessing.get_context("spawn"),
                initializer=begin_to_help,
                initargs=(self.encode,),
            )
            self._started = [self._pool.submit(do_nothing) for _ in range(self.helpers)]
        if self._pool is None or not self._are_ready():
            return None
        try:
            return self._pool.submit(help_encode, texts_of(rows))
        except BrokenProcessPool:
            return None

    def _are_ready(self) -> bool:
        return all(one.done() for one in self._started)

    def _take_back(self, rows: list[Row], future: Future[Columns]) -> tuple[list[Row], Columns]:
        try:
            return rows, future.result()
        except BrokenProcessPool:  # a helper was killed: no reason to fail
            return rows, self.encode(texts_of(rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)


def texts_of(rows: list[Row]) -> Texts:
    """The sources and the targets of the rows that hold a pair; nothing if there are none."""
    return list(zip(*(row.pair for row in rows if row.pair), strict=True))


def encode(tokenizer: Any, with_words: bool, texts: Texts) -> Columns:
    """The token ids of sources and targets, and if wanted the sizes of their words."""
    sides = [tokenizer(list(side), verbose=False) for side in texts]
    columns = [side["input_ids"] for side in sides]
    if with_words:
        columns += [
            [_word_sizes(side.word_ids(n)) for n in range(len(side["input_ids"]))] for side in sides
        ]
    return columns


def _word_sizes(word_ids: list[int | None]) -> list[int]:
    return [len(list(group)) for _, group in groupby(word_ids)]


helping: list[Encode] = []  # in a helper: what it does


def begin_to_help(encode: Encode) -> None:
    """In a helper: Ctrl-C is for its parent, whom it does not outlive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the cores are shared out already
    helping.append(encode)


def help_encode(texts: Texts) -> Columns:
    """In a helper."""
    return helping[0](texts)


def do_nothing() -> None:
    """Whoever does this in a helper has found it ready."""


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)
