"""What happens when somebody stops a run: it saves a checkpoint first, if it is given the time.

    with Interruption() as interruption:
        for batch in batches:
            ...
            if interruption.requested:
                checkpoints.save(...)
                sys.exit(INTERRUPTED)

The first SIGTERM (a scheduler) or SIGINT (Ctrl-C) is a request. The second ends the process at
once, as the same signal would have done without us: nothing is saved, nothing is damaged.
"""

import os
import signal
from types import FrameType
from typing import Self

INTERRUPTED = 75  # EX_TEMPFAIL of sysexits.h: stopped on request and saved; --resume continues
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """Knows whether this process was asked to stop; several processes must agree on it."""

    def __init__(self) -> None:
        self.requested = False
        self._process = os.getpid()

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return self._on_signal_to_worker(number)
        self.requested = True
        for each in SIGNALS:  # to the system's own, which act even where Python hangs
            signal.signal(each, signal.SIG_DFL)
        name = signal.Signals(number).name
        # Neither print nor logging: the signal may have come in the middle of either.
        told = f"\n{name}: the next checkpoint is the last; once more ends the run at once.\n"
        os.write(2, told.encode())
        return None

    def _on_signal_to_worker(self, number: int) -> None:
        """A forked data worker: Ctrl-C, which the whole group hears, leaves it to its parent."""
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def leave_stopping_to_parent(worker: int) -> None:
    """In a process that makes batches ready: whoever asks the whole run to stop does not mean it.

    Else the run could not save, having lost its workers. The same signal once more ends them.
    """
    for number in SIGNALS:
        signal.signal(number, _hear_once)


def _hear_once(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
