"""Nobody finds half of a file, or of a folder."""

import multiprocessing
import os
import time

import pytest

from training.whole_files import make_once
from vanilla_transformer.file_replacement import replace_file


def test_the_new_file_takes_the_place_of_the_old(tmp_path):
    for content in (b"old", b"new\n\0"):
        replace_file(tmp_path / "file", content)
        assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [
            ("file", content)
        ]


def test_what_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    replace_file(tmp_path / "file", b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vanilla_transformer.file_replacement.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "file", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def write(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("whole")


def test_a_folder_is_made_once(tmp_path):
    make_once(tmp_path / "runs" / "made", write)
    make_once(tmp_path / "runs" / "made", pytest.fail)

    assert (tmp_path / "runs" / "made" / "sub" / "file").read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_a_failed_writer_leaves_nothing(error, tmp_path):
    def fail(folder):
        write(folder)
        raise error

    with pytest.raises(type(error)):
        make_once(tmp_path / "made", fail)

    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_what_killed_writers_left_is_taken_away(tmp_path):
    for name in ("made", "other"):
        write_half = tmp_path / f".{name}.unfinished"
        write_half.mkdir()
        (write_half / "half").touch()

    make_once(tmp_path / "made", write)

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["made"]
    assert not (tmp_path / "made" / "half").exists()


def test_of_processes_that_come_at_once_one_writes(tmp_path):
    def write_slowly(folder):
        (folder / str(os.getpid())).touch()
        time.sleep(0.2)

    fork = multiprocessing.get_context("fork")
    children = [
        fork.Process(target=make_once, args=(tmp_path / "made", write_slowly)) for _ in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert [child.exitcode for child in children] == [0, 0]
    assert len(list((tmp_path / "made").iterdir())) == 1
