"""Two runs never share a folder, and no dead run keeps one."""

import errno
import os
import subprocess
import sys

import pytest
from scripts.fresh_process import REPOSITORY

from training import run_lock
from training.run_lock import RunLock

HOLD = """
import os, sys, time
from pathlib import Path
from training.run_lock import RunLock
with RunLock(Path(sys.argv[1])):
    is_worker = sys.argv[2:] and not os.fork()  # a data worker, which outlives its parent
    if is_worker or not sys.argv[2:]:  # a worker that writes has let go of the lock
        os.write(1, b"held")
    if is_worker:
        os.close(1)
    time.sleep(600)
"""


@pytest.fixture
def hold():
    """Start another process that holds a folder."""
    started = []

    def start(folder, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, folder, *arguments],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.read(4) == b"held"
        return process

    yield start
    for process in started:
        os.killpg(process.pid, 9)
        process.wait()


def test_a_second_run_is_refused_and_told_who_holds_the_folder(hold, tmp_path):
    holder = hold(tmp_path / "run")

    with pytest.raises(ValueError, match=f"while process {holder.pid} on .* is at work"):
        RunLock(tmp_path / "run").__enter__()


def test_a_killed_run_holds_nothing_even_if_its_worker_lives_on(hold, tmp_path):
    holder = hold(tmp_path, "with a worker")
    holder.kill()
    holder.wait()

    with RunLock(tmp_path):
        os.killpg(holder.pid, 0)  # the worker is still there


def test_a_folder_is_free_again_after_its_run(tmp_path):
    for _ in range(2):
        with RunLock(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} "):
            RunLock(tmp_path).__enter__()


@pytest.fixture(params=["Windows", "a disk without locks"])
def no_locks(request, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "Windows":
        monkeypatch.setattr(run_lock, "HAS_SYSTEM_LOCKS", False)
    else:
        monkeypatch.setattr(run_lock.fcntl, "flock", refuse)


def test_where_the_system_has_no_locks_a_file_is_one(no_locks, tmp_path):
    for _ in range(2):
        with RunLock(tmp_path), pytest.raises(ValueError, match=r"running: delete .*lock\.held"):
            RunLock(tmp_path).__enter__()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ValueError, match="must be a folder we may write to"):
        RunLock(tmp_path / "file").__enter__()
