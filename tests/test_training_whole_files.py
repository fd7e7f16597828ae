"""Nobody finds half of a file."""

import pytest

from training.whole_files import replace_file


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

    monkeypatch.setattr("training.whole_files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "file", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]
