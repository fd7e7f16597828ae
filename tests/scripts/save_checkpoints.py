"""Save one checkpoint after the other, until killed: `save_checkpoints.py FOLDER`.

Or die at every single operation on files in turn: `save_checkpoints.py FOLDER everywhere`.
What a checkpoint holds follows from its step, so anybody can tell whether it is whole.
"""

import itertools
import os
import random
import sys
from pathlib import Path

from training.checkpoint_files import find_damage
from training.checkpoints import Checkpoints

FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
DIED_EARLY, DIED_LATE = 9, 8  # before or after step 3 was saved for the first time


def content_of(step):
    drawn = random.Random(step)
    names = ("config.json", "model.safetensors", "training/optimizer.safetensors")
    return {name: drawn.randbytes(drawn.randrange(100_000)) for name in names}


def write_content(step):
    def write(folder):
        for name, content in content_of(step).items():
            (folder / name).write_bytes(content)

    return write


def is_as_written(checkpoint):
    return all(
        (checkpoint.folder / name).read_bytes() == content
        for name, content in content_of(checkpoint.step).items()
    )


def open_checkpoints(folder):
    return Checkpoints(Path(folder), keep_last=1, keep_best=1)


def save_for_ever(folder):
    checkpoints = open_checkpoints(folder)
    latest = checkpoints.latest()
    for step in itertools.count(latest.step + 1 if latest else 1):
        checkpoints.save(step, write_content(step), score=-abs(step % 7))
        os.write(1, f"{step}\n".encode())


def save_and_die(folder, operation):
    """Save step 3, which rotates step 2 away, then save it again; die at one operation of these."""
    checkpoints = open_checkpoints(folder)
    for step, score in ((1, 5.0), (2, None)):
        checkpoints.save(step, write_content(step), score)
    countdown = itertools.count(operation, -1)
    code = DIED_EARLY

    def die(event, arguments):
        if event in FILE_OPERATIONS and next(countdown) == 0:
            os._exit(code)

    sys.addaudithook(die)
    checkpoints.save(3, write_content(3), 1.0)
    code = DIED_LATE
    checkpoints.save(3, write_content(3), 2.0)
    os._exit(0)


def die_everywhere(folder):
    os.fsync = lambda descriptor: None  # a killed process loses nothing that the system has
    for operation in itertools.count():
        place = f"{folder}/{operation}"
        if not (child := os.fork()):
            save_and_die(place, operation)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        checkpoints = open_checkpoints(place)
        latest, best = checkpoints.latest(), checkpoints.best()
        assert latest.step == 3 or (latest.step == 2 and code == DIED_EARLY), operation
        assert best.step == 1, operation
        assert is_as_written(latest), operation
        assert is_as_written(best), operation
        damaged = [path.name for path in Path(place).glob("step-*") if find_damage(path)]
        assert not damaged, (operation, damaged)
        checkpoints.tidy(3)  # may be killed in turn
        assert checkpoints.latest() == latest, operation
        checkpoints.save(4, write_content(4))
        left = {path.name for path in Path(place).iterdir()}
        assert left == {"step-00000001", "step-00000004"}, (operation, left)
        if not code:
            os.write(1, f"{operation}\n".encode())
            break


if __name__ == "__main__":
    (die_everywhere if sys.argv[2:] else save_for_ever)(sys.argv[1])
